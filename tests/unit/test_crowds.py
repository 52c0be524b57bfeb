# SPDX-License-Identifier: GPL-2.0-or-later
"""Words of more threads than a recording's sets can tell apart: whether who wakes is one of those who wait."""

import random
from collections import Counter
from collections.abc import Sequence

import pytest

from lockline.analysis.user_space.behaviour import behaves_as_lock, nobody_holds
from lockline.analysis.user_space.crowds import coverage, same_threads
from lockline.analysis.user_space.futex_waits import LOCK, SEMAPHORE, UNCLEAR, nature
from lockline.analysis.user_space.user_evidence import PY_LOCK, Calls, Seen
from lockline.analysis.user_space.user_locks import recognise
from lockline.recording import rows
from user_words import LIBC, WINDOW, word

FULL = {"waiters": 128, "wakers": 128, "both": 128, "tasks_woken": 1000, "wakes": 1000}
ACQUIRE = rows.Frame(1, "PyThread_acquire_lock_timed", 0, "/usr/bin/python3.11")


def sampled(threads: Sequence[int], count: int, seed: int) -> Counter[int]:
    chance = random.Random(seed)
    return Counter(chance.choice(threads) for _ in range(count))


@pytest.mark.parametrize("seed", range(20))
def test_coverage_is_the_part_of_threads_that_were_met(seed: int) -> None:
    threads = range(2000)
    met = sampled(threads, 1000, seed)
    assert coverage(met) == pytest.approx(len(met) / len(threads), abs=0.06)
    assert coverage({}) == 0


@pytest.mark.parametrize("threads", [200, 2000])
@pytest.mark.parametrize("seed", range(20))
def test_who_wakes_is_who_waits(threads: int, seed: int) -> None:
    """Of 2,000 threads 600 samples meet a quarter: whoever wakes was seen to wait as seldom as any."""
    waits = sampled(range(threads), 600, seed)
    assert same_threads(waits, sampled(range(threads), 500, seed + 100)) is True
    # As many others wake them, or one.
    assert same_threads(waits, sampled(range(5000, 5000 + threads), 500, seed)) is False
    assert same_threads(waits, {5000: 250}) is False
    # Of few samples it cannot be told.
    assert same_threads(waits, sampled(range(threads), 20, seed)) is None
    # Half of each.
    both = sampled(range(threads), 250, seed + 200) + sampled(range(5000, 6000), 250, seed)
    assert same_threads(waits, both) is not True


def crowd(wakers: Sequence[int], count: int = 250) -> Seen:
    """A semaphore of Python that 2,000 threads wait at."""
    waits = sampled(range(2000), 300, 1)
    return word(
        2,
        4096,
        wait_ns=1900 * WINDOW,
        waits=tuple(
            Calls(task, (ACQUIRE.symbol,), (LIBC,), found, found, (ACQUIRE,), found) for task, found in waits.items()
        ),
        wakers_of=tuple(Calls(task, (), (), found, 0, (), found) for task, found in sampled(wakers, count, 2).items()),
        **FULL,
    )


def test_a_lock_of_two_thousand_threads() -> None:
    lock = crowd(range(2000))
    assert "behaves like a lock" in behaves_as_lock((lock,), WINDOW)
    assert not nobody_holds((lock,), WINDOW)
    (found,) = recognise((lock,), {2}, WINDOW)
    assert (found.make, found.lock) == (PY_LOCK, True)
    assert nature(lock.total, semaphore=True, same=True)[0] == UNCLEAR
    assert nature(lock.total._replace(value_2=600), same=True)[0] == LOCK


def test_idle_workers_are_woken_by_others() -> None:
    assert not behaves_as_lock((crowd(range(5000, 5300)),), WINDOW)
    assert nature(crowd(range(5000, 5300)).total, semaphore=True, same=False)[0] == SEMAPHORE


def test_of_few_samples_it_cannot_be_told() -> None:
    few = crowd(range(2000), 20)
    assert not behaves_as_lock((few,), WINDOW)
    kind, why = nature(few.total, semaphore=True, same=None)
    assert kind == UNCLEAR
    assert "record for longer" in why
    # Of one thread that wakes them it can.
    assert nature(few.total._replace(wakers=1, both=1), semaphore=True, same=None)[0] == SEMAPHORE
