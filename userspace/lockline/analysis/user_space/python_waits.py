# SPDX-License-Identifier: GPL-2.0-or-later
"""Threads of Python that wait in its threading and queue, by the functions that they are in.

Each wait is at a lock made for it (threading.Condition.wait).  Of few waits most may have no names: those that have
some tell of the others in their circle.
"""

from collections.abc import Iterable, Mapping, Sequence

from lockline.analysis.user_space.own_pools import borrowed_in
from lockline.analysis.user_space.own_words import barrier_of, pool_of, take_turns
from lockline.analysis.user_space.python_idle import works_each_time
from lockline.analysis.user_space.python_parked import waits_for_notice
from lockline.analysis.user_space.run_times import PYTHON_CODE
from lockline.analysis.user_space.user_evidence import (
    HALF,
    PY_BARRIER,
    PY_QUEUE,
    PY_SEMAPHORE,
    Calls,
    Processes,
    Recognised,
    Seen,
    by_waiting,
    circles,
    several_wait,
    share_from,
    waiting_still,
)

# Methods of Python's library: the name of its file follows.
_BARRIERS = ("py::Barrier._wait:", "py::Barrier.wait:")
_SEMAPHORES = ("py::Semaphore.acquire:",)
_TAKES = ("py::Queue.get:",)
# Where all of these wait.
_NOTICE = "py::Condition.wait:"
# multiprocessing's Lock and Semaphore, and what its queues are made of.
SEMLOCK_WAITS = ("_multiprocessing_SemLock_acquire", "semlock_acquire")


def tells(call: Calls) -> bool:
    """Whether a wait has a function that says what it is for: of some only the innermost one is known."""
    code = (function for function in call.functions if function.startswith(PYTHON_CODE))
    return any(not function.startswith(_NOTICE) for function in code)


def _are_in(circle: Sequence[Seen], names: Sequence[str]) -> bool:
    return share_from([call for entry in circle for call in entry.waits if tells(call)], names) >= HALF


def _semaphore(circle: Sequence[Seen], words: Mapping[int, Seen], window_ns: int) -> Iterable[Recognised]:
    threads = waiting_still(circle, window_ns)
    # Who releases it takes it again before those who were woken: these find it taken, and do nothing else.
    starve = several_wait(circle, window_ns) and not works_each_time(circle, words.values(), window_ns)
    if starve or take_turns(circle, window_ns):
        yield Recognised(
            tuple(one.futex.id for one in circle),
            PY_SEMAPHORE,
            lock=True,
            sure="high",
            why=f"threads wait in Semaphore.acquire(): {threads:.1f} on average"
            + ("; most are woken in vain, as others take it before" if starve else ""),
        )


def python_waits(processes: Processes, window_ns: int) -> Iterable[Recognised]:
    """Barriers and semaphores of Python, and its queues from which threads take what they put there."""
    for words in processes.values():
        for circle in map(by_waiting, circles([entry for entry in words.values() if waits_for_notice(entry)])):
            if _are_in(circle, _BARRIERS):
                yield barrier_of(circle, PY_BARRIER, window_ns)
            elif _are_in(circle, _SEMAPHORES):
                yield from _semaphore(circle, words, window_ns)
            elif several_wait(circle, window_ns) and borrowed_in(circle):
                # Who gives something back may take it again before the one that was woken: then it never waits.
                yield pool_of(circle, PY_QUEUE, window_ns)
            elif _are_in(circle, _TAKES) and take_turns(circle, window_ns):
                yield pool_of(circle, PY_QUEUE, window_ns)
