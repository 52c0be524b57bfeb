# SPDX-License-Identifier: GPL-2.0-or-later
"""Threads of Python and Java that waited all the time: for a thread's end, or for a lock."""

from dataclasses import replace

import pytest

from lockline.analysis.model import Figures
from lockline.analysis.user_space.futex_waits import CONDITION, FutexStack, FutexWaits
from lockline.analysis.user_space.still_waits import StillWait, still_waits
from lockline.investigation.hypotheses import hypotheses
from lockline.investigation.model import Investigation, Target
from lockline.investigation.stops import Standing
from lockline.recording.rows import Frame
from user_words import word
from why_cases import FUTEX_QUIET, NOBODY_SLEEPS, known_of, observation

C = ("__new_sem_wait_slow64", "PyThread_acquire_lock_timed", "lock_PyThread_acquire_lock", "_PyEval_EvalFrameDefault")
PARK = ("pthread_cond_wait", "Parker::park", "Unsafe_Park", "java.util.concurrent.locks.LockSupport.park")
NO_FIGURES = Figures(0, 0, 0, 0, ())
OF_LIBRARY = "/usr/lib/python3.11/threading.py"


def waits(address: int, *functions: str, slept: int = 0, threads: int = 1) -> FutexWaits:
    seen = word(2, address, slept=slept, open_waits=threads, wait_ns=0)
    frames = tuple(Frame(at, name, 0, "") for at, name in enumerate(functions, 1))
    stack = FutexStack("waiter", 1, 1, 1, frames)
    return FutexWaits(seen.futex, seen.total, CONDITION, "", NO_FIGURES, NO_FIGURES, stacks=(stack,))


@pytest.mark.parametrize(
    ("functions", "told"),
    [
        ((*C, f"py::Thread._wait_for_tstate_lock:{OF_LIBRARY}", f"py::Thread.join:{OF_LIBRARY}"), ("python", True, "")),
        ((*C, "py::both:/srv/dead.py", "py::run:/srv/dead.py"), ("python", False, "dead.py:both")),
        # An idle worker waits in Python's library.
        ((*C, f"py::Condition.wait:{OF_LIBRARY}", "py::serve:/srv/dead.py"), None),
        (("pthread_cond_wait", "take_gil", "py::both:/srv/dead.py"), None),
        ((*PARK, "java.util.concurrent.locks.ReentrantLock.lock", "Dead.both"), ("juc", False, "Dead.both")),
        ((*PARK, "java.util.concurrent.locks.AbstractQueuedSynchronizer$ConditionObject.await", "Dead.both"), None),
    ],
)
def test_what_threads_wait_for_all_the_time(functions: tuple[str, ...], told: tuple[str, bool, str] | None) -> None:
    found = still_waits([waits(4096, *functions), waits(8192, *functions, slept=1)])
    assert [(one.kind, one.joins, one.function) for one in found] == ([told] if told else [])


def known(*still: StillWait, standing: tuple[Standing, ...] = ()) -> Investigation:
    """Process 100, recorded and looked at."""
    recorded = replace(FUTEX_QUIET, still=still)
    looked = observation("sleeps", sleeps=replace(NOBODY_SLEEPS, standing=standing))
    return replace(
        known_of(observation("totals"), recorded, looked), target=Target(("-p", "100"), "process 100", (100,))
    )


def causes(of: Investigation) -> list[tuple[str, float]]:
    """What the answer says of threads that stand still at locks."""
    return [
        (str(dict(one.claim.values)["lock"]), one.waiters)
        for one in hypotheses(of)
        if one.claim is not None and one.claim.what == "why-stand-at-locks"
    ]


def still(kind: str, at: int, *, joins: bool = False, threads: int = 1) -> StillWait:
    return StillWait(kind, "app", 100, at, threads, joins, "" if joins else "both")  # type: ignore[arg-type]


def test_a_circle_of_two_that_wait_for_a_lock_each() -> None:
    """Two threads of Python with two Locks; two of Java with two ReentrantLocks.  One alone may wait for whatever."""
    assert [waiters for _, waiters in causes(known(still("python", 8), still("python", 16)))] == [2.0]
    assert [waiters for _, waiters in causes(known(still("juc", 8), still("juc", 16)))] == [2.0]
    assert causes(known(still("python", 8))) == []


def test_three_that_join_one_thread_wait_for_no_lock() -> None:
    """To the looks alone they wait for a lock of Python together."""
    stand = Standing("python", "app", 100, 8, 3, "")
    assert [waiters for _, waiters in causes(known(standing=(stand,)))] == [3.0]
    assert causes(known(still("python", 8, joins=True, threads=3), standing=(stand,))) == []
