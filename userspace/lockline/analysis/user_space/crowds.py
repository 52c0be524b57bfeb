# SPDX-License-Identifier: GPL-2.0-or-later
"""Words that very many threads use: whether those who wake are those who wait, by the threads of the samples.

A recording has the threads of each word as a hash of 128 bits.  Some 180 threads fill it, and so do fewer that live
for short: then it does not tell one thread from another.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from lockline.recording import user_rows

# Bits of 128 beyond which a set of threads says nothing any more.
_FULL = 96
# Wakes by threads that were sampled as waiters too, that are expected if both are the same threads: with fewer, none
# may be chance.
_ENOUGH = 25
_MOST = 0.8
_HALF = 0.5


def is_crowd(waiters: int, wakers: int) -> bool:
    """Whether these sets are full: of more threads than they can tell apart."""
    return max(waiters, wakers) > _FULL


def wakes_itself(total: user_rows.FutexTotal) -> bool:
    """Whether the threads that wait at a word also wake it, by its sets of threads; False: they may be too many."""
    return total.both >= _HALF * total.waiters > 0 and not is_crowd(total.waiters, total.wakers)


def coverage(waits: Mapping[int, int]) -> float:
    """The part of all waits that are of threads that were sampled, by samples of each.

    Good and Turing: what was seen once tells how much was not seen at all.
    """
    every = sum(waits.values())
    once = sum(count == 1 for count in waits.values())
    return 1 - once / every if every else 0.0


def same_threads(waits: Mapping[int, int], wakes: Mapping[int, int]) -> bool | None:
    """Whether the threads that wake are those that wait, by the samples of each; None: there are too few.

    Who was sampled while it woke others was then sampled while it waited as often as any.
    """
    expected = coverage(waits) * sum(wakes.values())
    if expected < _ENOUGH:
        return None
    found = sum(count for task, count in wakes.items() if task in waits)
    if found >= _MOST * expected - expected**0.5:
        return True
    return None if found > _HALF * expected else False


def same_by_samples(samples: Iterable[user_rows.FutexSample]) -> bool | None:
    """The same of a word's samples."""
    tasks: dict[str, Counter[int]] = {"waiter": Counter(), "waker": Counter()}
    for sample in samples:
        if sample.role in tasks:
            tasks[sample.role][sample.task] += sample.samples
    return same_threads(tasks["waiter"], tasks["waker"])
