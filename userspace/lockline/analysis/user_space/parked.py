# SPDX-License-Identifier: GPL-2.0-or-later
"""Locks whose waiters each sleep on a semaphore of their own: seen in many words together, and in none alone."""

from collections import Counter
from collections.abc import Mapping

from lockline.base.values import dataclass

# A group of fewer may be anything; of one waker alone, a task that gives work to others.
_FEWEST_WORDS = 3
_FEWEST_WAKERS = 2
# Wakes by tasks that wait themselves, of all that were sampled; waiters that wait nowhere else.
_MOST = 0.8


@dataclass(frozen=True, slots=True)
class Word:
    """A semaphore by its samples: group (words of one program's), the tasks that wait there, wakes by task."""

    group: str
    waiters: frozenset[int]
    wakes: Mapping[int, int]


def parked(words: Mapping[int, Word]) -> frozenset[int]:
    """The words, by id, that tasks wait on one each and wake each other at.

    A word stays as long as at least two tasks wake others there, four of five wakes are by tasks that wait on other
    words of the group, and four of five of its waiters (there are several where one process took the place of
    another) wait nowhere else; of a group at least three words.  PostgreSQL's lightweight locks are so; workers of a
    pool are woken by who gives them work, and stages of a pipeline by the one before.
    """
    left = {name: word for name, word in words.items() if word.waiters and len(word.wakes) >= _FEWEST_WAKERS}
    while True:
        sizes = Counter(word.group for word in left.values())
        places = Counter((word.group, waiter) for word in left.values() for waiter in word.waiters)
        kept = {
            name: word
            for name, word in left.items()
            if sizes[word.group] >= _FEWEST_WORDS and _of_their_own(word, places) and _by_others(word, places)
        }
        if len(kept) == len(left):
            return frozenset(kept)
        left = kept


def _of_their_own(word: Word, places: Mapping[tuple[str, int], int]) -> bool:
    alone = sum(places[word.group, waiter] == 1 for waiter in word.waiters)
    return alone >= _MOST * len(word.waiters)


def _by_others(word: Word, places: Mapping[tuple[str, int], int]) -> bool:
    inside = sum(
        wakes for task, wakes in word.wakes.items() if task not in word.waiters and (word.group, task) in places
    )
    return inside >= _MOST * sum(word.wakes.values()) > 0
