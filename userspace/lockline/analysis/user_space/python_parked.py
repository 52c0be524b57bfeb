# SPDX-License-Identifier: GPL-2.0-or-later
"""What threads of CPython park for: the functions between the program's and the parking lot tell.

The interpreter has one place where threads sleep (Python/parking_lot.c): at a semaphore that each of them has for this
wait.  Its locks are there, those of objects among them, and all that waits for something else.
"""

from collections.abc import Iterable, Sequence

from lockline.analysis.user_space.user_evidence import (
    HALF,
    PY_STOP,
    Calls,
    Processes,
    Recognised,
    Seen,
    at_pypy_lock,
    by_waiting,
    has,
    share_of,
    waiting_still,
)

# Where a thread parks, whatever for: stripped interpreters keep the name of this one alone.
_PARKED = ("_PySemaphore_Wait",)
_MUTEX = ("PyMutex_Lock",)  # PyMutex_Lock(), _PyMutex_LockTimed(), PyMutex_LockFlags()
# To begin to use a list, dict or other object, or to go on with it, in a build without the GIL.
OBJECT_LOCKS = ("_PyCriticalSection",)
# Who was woken takes the GIL there before it goes on: at a condition variable, and the parking lot has none.
_TAKES_GIL = ("take_gil", "pthread_cond_")
# Before it runs code of Python again; and in the midst of that, when it is asked to stop.
_STOPPED = ("_PyThreadState_Attach", "_PyThreadState_Suspend", "tstate_wait_attach")
# A thread to end, a job, what another thread makes once.
_NO_LOCK = ("PyEvent_Wait", "_queue_SimpleQueue_get", "_PyRWMutex", "_PyOnceFlag")

# Where threading.Lock sleeps.  A thread that waits for a Condition, Semaphore, Event or Queue does so at a lock that it
# made for this wait, and has; whoever notifies it releases that lock, once.
_PYTHON_LOCKS = ("PyThread_acquire_lock",)
# Of a pool's threads, which wait for work alone.
_PYTHON_IDLE = ("SimpleQueue",)


def _parked_for(call: Calls) -> Sequence[str]:
    """Which of these a thread is parked for, by the function next to the parking lot; _PARKED: no function tells.

    (): it is not parked.
    """
    kinds = (_MUTEX, _STOPPED, _NO_LOCK)
    if has(call.functions, _TAKES_GIL):
        return ()
    if not has(call.functions, tuple(name for kind in kinds for name in kind)):
        return _PARKED if has(call.functions, _PARKED) else ()
    return next(kind for function in call.functions for kind in kinds if has((function,), kind))


def at_py_mutex(call: Calls) -> bool:
    """Whether a thread waits for a PyMutex that is no object's; or it is parked, and nobody knows what for."""
    return _parked_for(call) in (_MUTEX, _PARKED) and not has(call.functions, OBJECT_LOCKS)


def at_object_lock(call: Calls) -> bool:
    """Whether a thread waits for the lock of an object."""
    return _parked_for(call) == _MUTEX and has(call.functions, OBJECT_LOCKS)


def _is_stopped(call: Calls) -> bool:
    return _parked_for(call) == _STOPPED and has(call.functions, _PARKED)


def _at_python_lock(call: Calls) -> bool:
    return has(call.functions, _PYTHON_LOCKS) or at_py_mutex(call)


def waits_for_notice(entry: Seen) -> bool:
    """Whether one thread of Python waits here as for a Condition: at a lock of its own, not for a while only."""
    return (
        entry.total.waiters == 1
        and entry.total.timed_out < HALF * entry.total.slept
        and (share_of(entry.waits, _at_python_lock) >= HALF or at_pypy_lock((entry,)))
        and not any(has(call.functions, _PYTHON_IDLE) for call in entry.waits)
    )


def stops(processes: Processes, window_ns: int) -> Iterable[Recognised]:
    """Threads that one of them has stopped all at once, as the garbage collector of a build without the GIL does."""
    for words in processes.values():
        found = by_waiting(entry for entry in words.values() if share_of(entry.waits, _is_stopped) >= HALF)
        if not found:
            continue
        threads = waiting_still(found, window_ns)
        why = f"threads may not run until one that stopped them all lets them go on: {threads:.1f} on average"
        yield Recognised(tuple(one.futex.id for one in found), PY_STOP, lock=True, sure="high", why=why)
