# SPDX-License-Identifier: GPL-2.0-or-later
"""What threads of CPython without the GIL park for, as recorded with 3.13.5."""

from dataclasses import replace

import pytest

from lockline.analysis.findings import Process, UserLock
from lockline.analysis.model import Figures
from lockline.analysis.user_space.futex_waits import LOCK, FutexStack, FutexWaits
from lockline.analysis.user_space.python_objects import object_functions, stopped_to_collect
from lockline.analysis.user_space.python_parked import waits_for_notice
from lockline.analysis.user_space.user_evidence import PY_MUTEX, PY_OBJECT, PY_STOP, Calls, Seen
from lockline.analysis.user_space.user_locks import recognise
from lockline.recording.rows import Frame
from lockline.render.findings import fact_words
from lockline.rules.user_lock import _claim
from user_words import WINDOW, parked, word

PARK = ("__new_sem_wait_slow64", "_PySemaphore_Wait", "_PyParkingLot_Park")
LOOP = ("PyObject_Vectorcall", "_PyEval_EvalFrameDefault", "thread_run")
NO_FIGURES = Figures(0, 0, 0, 0, ())
MUTEX = (*PARK, "_PyMutex_LockTimed", "lock_PyThread_acquire_lock", *LOOP)
# A list's append(); going on with an object behind a wait.
OBJECT = (*PARK, "_PyMutex_LockTimed", "_PyCriticalSection_BeginSlow", "list_append", *LOOP)
RESUME = (*PARK, "_PyMutex_LockTimed", "_PyCriticalSection_Resume", "_PyThreadState_Attach", *LOOP)
STOPPED = (*PARK, "_PyThreadState_Attach", "_Py_HandlePending", *LOOP)
# Who had the lock, and may not run yet.
STOPPED_AT_LOCK = (*PARK, "_PyThreadState_Attach", "PyEval_AcquireThread", "_PyParkingLot_Park", *MUTEX[3:])
JOIN = (*PARK, "PyEvent_WaitTimed", "ThreadHandle_join", *LOOP)
IDLE = (*PARK, "_queue_SimpleQueue_get", *LOOP)
STRIPPED = ("_PySemaphore_Wait", "PyObject_Vectorcall")
# It was woken, and takes the GIL before it goes on (Debian's 3.13).
FOR_GIL = ("pthread_cond_timedwait", "PyEval_AcquireThread", "_PySemaphore_Wait", "_PyParkingLot_Park", *LOOP)
TURNS, BY_ONE = (2, 3, 4), (9,)


@pytest.mark.parametrize(
    ("functions", "wakers", "found"),
    [
        (MUTEX, TURNS, [PY_MUTEX]),
        (MUTEX, BY_ONE, []),
        (STRIPPED, TURNS, [PY_MUTEX]),
        (OBJECT, TURNS, [PY_OBJECT]),
        # One that hogs an object hardly waits for it.
        (OBJECT, BY_ONE, [PY_OBJECT]),
        (RESUME, TURNS, [PY_OBJECT]),
        (STOPPED, BY_ONE, [PY_STOP]),
        (STOPPED_AT_LOCK, BY_ONE, [PY_STOP]),
        (JOIN, TURNS, []),
        (IDLE, TURNS, []),
        (FOR_GIL, TURNS, []),
    ],
)
def test_the_function_next_to_the_parking_lot_tells(
    functions: tuple[str, ...], wakers: tuple[int, ...], found: list[str]
) -> None:
    known = recognise(parked(functions, wakers), (), WINDOW)
    assert [one.make for one in known if one.lock] == found
    assert all(set(one.words) == {2, 3, 4} for one in known if one.lock)


@pytest.mark.parametrize(
    ("functions", "notice"),
    [(MUTEX, True), (STRIPPED, True), (OBJECT, False), (STOPPED, False), (JOIN, False), (IDLE, False)],
)
def test_at_a_lock_of_its_own(functions: tuple[str, ...], notice: bool) -> None:
    (first, *_) = parked(functions, BY_ONE)
    assert waits_for_notice(replace(first, total=first.total._replace(waiters=1))) == notice


def test_a_thread_that_waits_for_others_to_end_is_none_of_the_lock() -> None:
    """It waits for as long as they live, and they wake it."""
    main = word(5, 0x7FFD0000, slept=6, waits=(Calls(1, JOIN, (), 6, 10),), wakers_of=(Calls(2, (), (), 6, 0),))
    (lock,) = (one for one in recognise([*parked(MUTEX, TURNS), main], (), WINDOW) if one.lock)
    assert set(lock.words) == {2, 3, 4}


def futex(make: str, *stacks: tuple[str, tuple[str, ...]]) -> FutexWaits:
    seen: Seen = word(1, 4096)
    found = tuple(
        FutexStack(role, 9, 9, 9, tuple(Frame(5, name, 0, "python3.13t") for name in names)) for role, names in stacks
    )
    return FutexWaits(seen.futex, seen.total, LOCK, "", NO_FIGURES, NO_FIGURES, make=make, stacks=found)


@pytest.mark.parametrize(
    ("wake", "collects"),
    [
        (("_PyParkingLot_UnparkAll", "start_the_world", "gc_collect_main", "gc_collect"), True),
        (("_PyParkingLot_UnparkAll", "start_the_world", "os_fork_impl"), False),
    ],
)
def test_what_all_threads_are_stopped_for(wake: tuple[str, ...], collects: bool) -> None:
    stopped = futex(PY_STOP, ("waiter", STOPPED), ("waker", wake))
    assert stopped_to_collect(stopped) == collects
    told = fact_words(_claim(stopped, Process("app", 7), UserLock("", ""), None, None, 2.0))
    assert ("to collect garbage" in told) == collects
    assert "stops all others" in told


def test_what_an_object_is_wanted_for() -> None:
    waits = futex(PY_OBJECT, ("waiter", OBJECT), ("waiter", (*OBJECT[:5], "PyDict_SetItem")), ("waker", OBJECT))
    assert object_functions(waits) == {"list_append": 9, "PyDict_SetItem": 9}
