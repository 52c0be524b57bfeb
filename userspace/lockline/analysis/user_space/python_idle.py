# SPDX-License-Identifier: GPL-2.0-or-later
"""Threads of Python that wait for work: at a queue, or at a threading.Condition."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from lockline.analysis.user_space.behaviour import (
    bring_work,
    sleeps_of,
    waiting_of,
)
from lockline.analysis.user_space.python_parked import waits_for_notice
from lockline.analysis.user_space.user_evidence import (
    HALF,
    MOST,
    PY_CONDITION,
    PY_QUEUE,
    Processes,
    Recognised,
    Seen,
    by_waiting,
    circles,
    share_from,
    total_of,
    waiting_still,
)

# It has no limit: whoever waits for one waits for work.
_PYTHON_QUEUE = ("_queue_SimpleQueue_get",)


def python_queues(processes: Processes) -> Iterable[Recognised]:
    """Queues of CPython's thread pools, whose idle threads pass the queue's lock on, as those of a lock do."""
    for words in processes.values():
        for entry in words.values():
            if share_from(entry.waits, _PYTHON_QUEUE) >= MOST:
                why = "threads wait in SimpleQueue.get() for work"
                yield Recognised((entry.futex.id,), PY_QUEUE, lock=False, sure="high", why=why)


# Producers that wait for room, where CPython names its program's functions.
_PYTHON_PUTS = ("py::Queue.put",)
# After each notice: a turn of the loop in which a thread of Python waits takes some 20 us.
_SOME_WORK_NS = 200_000
# Waits that have begun and ended with the threads are as long as what these waited for, but for their first moments.
_AS_LONG = 0.95


def _notified_by_others(words: Sequence[Seen], window_ns: int) -> bool:
    """Whether others notify these threads, each wait once, who have no lock that the threads could wait for.

    Who releases a lock has taken it before, and then waited for it at times as well; and a thread that keeps others
    waiting is no more than one at each lock.  Those who notify wait at none of these words, and more threads wait than
    notify, or several notify the same thread and never wait for each other.
    """
    wakes: Counter[int] = Counter()
    for call in (call for entry in words for call in entry.wakes):
        wakes[call.task] += call.waits
    others = bring_work(words)
    if not others or sum(wakes[task] for task in others) < MOST * sum(wakes.values()):
        return False
    if total_of(words, "tasks_woken") < MOST * total_of(words, "slept"):
        return False
    shared = [entry for entry in words if len({call.task for call in entry.wakes} & others) > 1]
    return waiting_still(words, window_ns) > len(others) or len(shared) >= HALF * len(words)


def _lived(found: Sequence[Seen], words: Collection[Seen], waited: Mapping[int, int], window_ns: int) -> int:
    """For how long the threads that wait there were there, ns: a program may start them late in a recording.

    One that waits elsewhere for as long as they do, as for them to end, tells.
    """
    ids = {entry.futex.id for entry in found}
    elsewhere = [entry for entry in words if entry.futex.id not in ids]
    beside = max(waiting_of({call.task for entry in elsewhere for call in entry.waits}, elsewhere).values(), default=0)
    most = max(waited.values(), default=0)
    return min(max(beside, most), window_ns) if beside >= _AS_LONG * most else window_ns


def works_each_time(found: Sequence[Seen], words: Collection[Seen], window_ns: int) -> bool:
    """Whether threads that were notified then do something, and do not wait again at once.

    Who starves at a Semaphore is notified, finds it taken, and waits again.  Of most notices it is asked whether the
    thread works after each of its own: one thread that has a Semaphore nearly all the time works for all of it.
    Waits at both ends of a recording count with what reaches out of it: as two whole ones.
    """
    tasks = {call.task for entry in found for call in entry.waits}
    waited, sleeps = waiting_of(tasks, words), sleeps_of(tasks, found)
    lived_ns = _lived(found, words, waited, window_ns)
    working = (
        many
        for task, many in sleeps.items()
        if many and lived_ns - waited.get(task, 0) * (many - 2) // many >= _SOME_WORK_NS * many
    )
    return sum(working) >= HALF * sum(sleeps.values())


def python_conditions(processes: Processes, window_ns: int) -> Iterable[Recognised]:
    """Threads of Python that wait for work: at a threading.Condition, as that of a queue.Queue is.

    Who shares a Semaphore notifies the others, and waits in its turn: that is left to what the report says of it.
    """
    for words in processes.values():
        for circle in circles([entry for entry in words.values() if waits_for_notice(entry)]):
            calls = [call for entry in circle for call in entry.waits]
            if not _notified_by_others(circle, window_ns) or share_from(calls, _PYTHON_PUTS) >= HALF:
                continue
            if not works_each_time(circle, words.values(), window_ns):
                continue
            circle = by_waiting(circle)
            yield Recognised(
                tuple(entry.futex.id for entry in circle),
                PY_CONDITION,
                lock=False,
                sure="medium",
                why="each thread waits at a lock of its own, which threads release that wait for none of these:"
                " they wait for work",
            )
