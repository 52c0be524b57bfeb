# SPDX-License-Identifier: GPL-2.0-or-later
"""Locks whose holders wait for another lock meanwhile: the waiting for the first is the second one's doing.

By the looks at holders (record --futex): at each of them it is known which futex the holder itself waits for.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from lockline.base.values import dataclass

# Looks at a holder that a statement about what holders do needs.
ENOUGH_LOOKS = 20
# The part of the looks from which on the other lock is spoken of.
_WORTH_TELLING = 0.25


@dataclass(frozen=True, slots=True)
class Behind:
    """The lock that holders wait for most, and at which part of the looks at them."""

    other: int
    part: float


@dataclass(frozen=True, slots=True)
class Blame:
    """Waiting that a lock is to blame for: its own, what stands behind it, less what it waits for itself; ns.

    behind: None: its holders wait for no other lock.  before: locks whose holders wait for this one, and how much
    waiting that passes on to it.
    """

    ns: int
    behind: Behind | None
    before: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Place:
    """A futex, by the address that it has in one process.  shared: by processes, of which some are known."""

    id: int
    tgid: int
    address: int
    shared: bool
    processes: frozenset[int]


class Places:
    """Futexes by where they are."""

    def __init__(self, places: Iterable[Place]) -> None:
        self._own: dict[tuple[int, int], int] = {}
        self._shared: defaultdict[int, list[Place]] = defaultdict(list)
        for one in places:
            self._own[one.tgid, one.address] = one.id
            if one.shared:
                self._shared[one.address].append(one)

    def behind(self, lock: Place, address: int) -> int:
        """What a holder of that lock waits for at an address of its own process; 0 if that is not known.

        A lock that processes share stands under one of them.  What was forked has its memory at the same addresses; of
        several there is none that is sure.
        """
        own = self._own.get((lock.tgid, address), 0)
        if own or not lock.shared:
            return own
        others = [one.id for one in self._shared[address] if one.processes & lock.processes]
        return others[0] if len(others) == 1 else 0


def _leads_back(edges: Mapping[int, Behind], start: int) -> bool:
    """Whether who waits for whom comes back to the start: then none of them is behind the others."""
    at, passed = edges[start].other, {start}
    while at not in passed and at in edges:
        passed.add(at)
        at = edges[at].other
    return at == start


def behind_of(looks: Sequence[tuple[int, int]]) -> Behind | None:
    """From looks at a lock's holders: (the lock that the holder waits for, 0 for none; how many such looks)."""
    every = sum(number for _, number in looks)
    by_lock: defaultdict[int, int] = defaultdict(int)
    for other, number in looks:
        by_lock[other] += number
    by_lock.pop(0, None)
    if every < ENOUGH_LOOKS or not by_lock:
        return None
    other, most = max(by_lock.items(), key=lambda item: (item[1], -item[0]))
    return Behind(other, most / every) if most >= _WORTH_TELLING * every else None


def blame(waited_ns: Mapping[int, int], behind: Mapping[int, Behind]) -> dict[int, Blame]:
    """The blame of each lock, from the waiting for each and the lock that its holders wait for."""
    known = {lock: edge for lock, edge in behind.items() if edge.other in waited_ns and edge.other != lock}
    edges = {lock: edge for lock, edge in known.items() if not _leads_back(known, lock)}
    passed: dict[int, int] = {}

    def through(lock: int) -> int:
        """All waiting at a lock, its own and what stands behind it."""
        return waited_ns[lock] + sum(pass_on(other) for other, edge in edges.items() if edge.other == lock)

    def pass_on(lock: int) -> int:
        if lock not in passed:
            passed[lock] = round(edges[lock].part * through(lock))
        return passed[lock]

    found = {}
    for lock in waited_ns:
        before = tuple((other, pass_on(other)) for other, edge in edges.items() if edge.other == lock)
        on = pass_on(lock) if lock in edges else 0
        found[lock] = Blame(through(lock) - on, edges.get(lock), before)
    return found
