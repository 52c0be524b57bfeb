# SPDX-License-Identifier: GPL-2.0-or-later
"""Stages of a pipeline: queues that are full because those who take from them wait for room in the next one."""

from collections.abc import Sequence

from lockline.analysis.behind import Behind
from lockline.analysis.user_space.critical_sections import released_in, waits_with
from lockline.analysis.user_space.futex_waits import LOCK, FutexWaits
from lockline.analysis.user_space.user_evidence import FULL_QUEUES, GO_CHANNEL, HALF, MOST


def _threads(queue: FutexWaits, role: str) -> dict[int, int]:
    """Who waits for room in a queue, or takes from it, and how often by the samples."""
    return {task.tid: task.waits for task in queue.tasks if task.role == role}


def _same(takes_from: FutexWaits, puts_into: FutexWaits) -> bool:
    """Whether those who take from one queue are those who wait for room in the other.

    Goroutines have no threads of their own, but the function that takes has the function that puts below it.
    """
    if takes_from.make == GO_CHANNEL:
        taker = released_in(takes_from)
        return bool(taker) and waits_with(puts_into, taker) >= MOST
    takes, puts = _threads(takes_from, "waker"), _threads(puts_into, "waiter")
    return sum(count for tid, count in takes.items() if tid in puts) >= MOST * sum(takes.values()) > 0


def _part(queue: FutexWaits, window_ns: int) -> float:
    """The part of the time that each of those who put into a queue waits for room."""
    putters = queue.total.waiters if queue.make == GO_CHANNEL else len(_threads(queue, "waiter"))
    return min(queue.waited_ns / (putters * window_ns), 1.0) if putters and window_ns else 0.0


def next_stages(found: Sequence[FutexWaits], window_ns: int) -> dict[int, Behind]:
    """Of full queues, by id, the queue that keeps those who take from it waiting for half of the time or more."""
    queues = [entry for entry in found if entry.nature == LOCK and entry.make in FULL_QUEUES]
    edges = {}
    for entry in queues:
        others = [
            (part, -other.futex.id)
            for other in queues
            if other is not entry and other.futex.tgid == entry.futex.tgid and _same(entry, other)
            if (part := _part(other, window_ns)) >= HALF
        ]
        if others:
            part, other_id = max(others)
            edges[entry.futex.id] = Behind(-other_id, part)
    return edges
