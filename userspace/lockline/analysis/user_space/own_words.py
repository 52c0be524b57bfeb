# SPDX-License-Identifier: GPL-2.0-or-later
"""Threads that each wait at a word of their own, and for no lock: at a barrier, or for what a pool has too few of."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from lockline.analysis.user_space.behaviour import (
    mostly_brought,
    nobody_holds,
    wait_again,
    wake_each_other,
)
from lockline.analysis.user_space.own_pools import borrowed_in
from lockline.analysis.user_space.program_functions import innermost_own
from lockline.analysis.user_space.user_evidence import (
    HALF,
    OWN_POOL,
    PARKING_LOT_CONDITION,
    Calls,
    Processes,
    Recognised,
    Seen,
    Site,
    by_waiting,
    circles,
    expects_2,
    open_ns,
    several_wait,
    share_from,
    share_of,
    waiting,
)
from lockline.base.c_library import FUTEX_CALLERS

_PARKING_LOT = ("parking_lot", "<parking_lot", "lock_api", "<lock_api")
# Of threads; two that wait for each other tell little.
_FEW = 3


def _waiting_in(words: Iterable[Seen], names: Sequence[str], unless: Sequence[str]) -> list[Seen]:
    return [one for one in words if not expects_2(one.total) and share_from(one.waits, names, unless) >= HALF]


def _comes_last(words: Sequence[Seen]) -> tuple[int, int, float]:
    """How often all met, who came last most often, and in what part; 0 where that cannot be told.

    Who comes last does not wait: of N threads each round has N - 1 waits.  Who wakes does not tell, as those who wake
    up at a CyclicBarrier pass its lock on.
    """
    waits: Counter[int] = Counter()
    for entry in words:
        sampled = sum(call.waits for call in entry.waits)
        for call in entry.waits:
            waits[call.task] += round(entry.total.slept * call.waits / sampled)
        waits.update({call.task: 0 for call in entry.wakes})
    if len(waits) < _FEW:
        return 0, 0, 0.0
    rounds = sum(waits.values()) / (len(waits) - 1)
    task = min(sorted(waits), key=lambda task: waits[task])
    return round(rounds), task, max(1 - waits[task] / rounds, 0.0) if rounds else 0.0


def _sites(words: Sequence[Seen]) -> tuple[Site, ...]:
    """Where threads wait, most waiting first.  Who comes last is known where they all wait in one function."""
    sampled: defaultdict[str, int] = defaultdict(int)
    for call in (call for entry in words for call in entry.waits):
        sampled[innermost_own(call.frames)] += call.wait_ns
    every = sum(sampled.values())
    wait_ns = sum(entry.total.wait_ns + open_ns(entry.total) for entry in words)
    found = []
    for function in sorted(sampled, key=lambda name: (-sampled[name], name)):
        most = bool(every) and sampled[function] >= HALF * every
        rounds, last, part = _comes_last(words) if most else (0, 0, 0.0)
        found.append(Site(function, wait_ns * sampled[function] // every if every else 0, rounds, last, part))
    return tuple(found)


def circles_in(words: Iterable[Seen], names: Sequence[str], unless: Sequence[str]) -> Iterable[list[Seen]]:
    """The words of threads that wait in such functions, those together that wake each other."""
    return map(by_waiting, circles(_waiting_in(words, names, unless)))


def barrier_of(circle: Sequence[Seen], make: str, window_ns: int) -> Recognised:
    """A barrier, with who comes last."""
    return Recognised(
        tuple(one.futex.id for one in circle),
        make,
        lock=False,
        sure="high",
        why=f"threads wait at a barrier until the last one comes: {waiting(circle, window_ns):.1f} on average",
        sites=_sites(circle),
    )


def take_turns(circle: Sequence[Seen], window_ns: int) -> bool:
    """Whether several threads wait, and are woken by threads that wait there too, one of which has what they want."""
    several = several_wait(circle, window_ns) and wake_each_other(circle)
    return several and not mostly_brought(circle) and not nobody_holds(circle, window_ns)


def _by_name(circle: Sequence[Seen], window_ns: int) -> Recognised | None:
    """A pool that is too small, if the program's functions say that it is one."""
    function = borrowed_in(circle)
    if not function:
        return None
    why = (
        f"threads wait in {function.removesuffix('()')}() until another one gives back what it took there:"
        f" {waiting(circle, window_ns):.1f} on average; by this name it is a pool"
    )
    return Recognised(tuple(one.futex.id for one in circle), OWN_POOL, lock=True, sure="medium", why=why)


def pool_of(circle: Sequence[Seen], make: str, window_ns: int) -> Recognised:
    """A queue from which threads take what they put there: names can tell a pool from workers that pass jobs on."""
    if (pool := _by_name(circle, window_ns)) is not None:
        return pool
    why = (
        "threads take from a queue what they themselves put there: a pool with too few objects (connections,"
        f" buffers), or workers that pass jobs to each other; {waiting(circle, window_ns):.1f} wait on average"
    )
    return Recognised(tuple(one.futex.id for one in circle), make, lock=False, sure="medium", why=why, unclear=True)


def notice_of(circle: Sequence[Seen], make: str, window_ns: int) -> Recognised:
    """A condition that threads wait for, of whom each notifies the others: names alone can tell what it stands for."""
    if (pool := _by_name(circle, window_ns)) is not None:
        return pool
    why = (
        "threads wait for a notice, and give it to each other: a pool with too few objects (connections, buffers), a"
        " lock that the program makes itself, or workers that pass jobs to each other;"
        f" {waiting(circle, window_ns):.1f} wait on average"
    )
    return Recognised(tuple(one.futex.id for one in circle), make, lock=False, sure="medium", why=why, unclear=True)


def notices(
    words: Iterable[Seen], make: str, names: Sequence[str], unless: Sequence[str], window_ns: int
) -> Iterable[Recognised]:
    """Conditions of threads that wait in such functions again and again, and give notice to each other."""
    for circle in circles_in(words, names, unless):
        if wait_again(circle) and take_turns(circle, window_ns):
            yield notice_of(circle, make, window_ns)


def _of_scheduler(call: Calls) -> bool:
    """Whether tokio itself waits there, which parks its workers so: by the function right behind parking_lot's."""
    behind = (name for name in call.functions if not name.startswith((*FUTEX_CALLERS, *_PARKING_LOT)))
    return next(behind, "").lstrip("<").startswith("tokio::")


def parking_lot_conditions(processes: Processes, window_ns: int) -> Iterable[Recognised]:
    """The same of parking_lot, where each thread waits at a word of its own."""
    for words in processes.values():
        found = [one for one in words.values() if share_of(one.waits, _of_scheduler) < HALF]
        yield from notices(found, PARKING_LOT_CONDITION, ("parking_lot::condvar::",), (), window_ns)
