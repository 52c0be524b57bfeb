# SPDX-License-Identifier: GPL-2.0-or-later
"""Threads of Python and Java that waited all the time for locks that name no owner, by the functions that they are in.

Until 3.12 whoever joins a thread of Python waits for a lock which that thread has: to the C library both are one.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Literal

from lockline.analysis.user_space.futex_waits import FutexStack, FutexWaits
from lockline.analysis.user_space.program_functions import own_name
from lockline.analysis.user_space.run_times import PYTHON_CODE
from lockline.base.values import dataclass
from lockline.recording.rows import Frame

_PY_JOINS = ("py::Thread._wait_for_tstate_lock:", "py::Thread.join:")
_PY_LOCKS = ("lock_PyThread_acquire_lock", "rlock_acquire")
_JAVA_LOCKS = tuple(
    f"java.util.concurrent.locks.{name}"
    for name in (
        *("ReentrantLock.lock", "ReentrantReadWriteLock$ReadLock.lock", "ReentrantReadWriteLock$WriteLock.lock"),
        *("StampedLock.readLock", "StampedLock.writeLock"),
    )
)


@dataclass(frozen=True, slots=True)
class StillWait:
    """Threads that wait at one word, and were not woken.

    joins: for a thread to end, and for no lock.  function: of the program, which asks for the lock.
    """

    kind: Literal["python", "juc"]
    comm: str
    tgid: int
    word: int
    threads: int
    joins: bool
    function: str


def _own(frames: Iterable[Frame]) -> str:
    return next(filter(None, map(own_name, frames)), "")


def _told_by(stack: FutexStack) -> tuple[Literal["python", "juc"], bool, str] | None:
    """The kind of lock that a stack says, whether it joins, and the function; who waits for a notice says none."""
    symbols = [frame.symbol for frame in stack.frames]
    if any(symbol.startswith(_JAVA_LOCKS) for symbol in symbols):
        return "juc", False, _own(stack.frames)
    inner = next((frame for frame in stack.frames if frame.symbol.startswith(PYTHON_CODE)), None)
    if inner is None or not any(name in symbol for symbol in symbols for name in _PY_LOCKS):
        return None
    joins, function = inner.symbol.startswith(_PY_JOINS), own_name(inner)
    return ("python", joins, function) if joins or function else None


def still_waits(futexes: Iterable[FutexWaits]) -> tuple[StillWait, ...]:
    """Those of a recording."""
    found = []
    for one in futexes:
        told = Counter(_told_by(stack) for stack in one.stacks if stack.role == "waiter")
        ((usual, _),) = told.most_common(1) or (((None, 0)),)
        if one.total.open_waits and not one.total.slept and usual is not None:
            kind, joins, function = usual
            futex = one.futex
            found.append(StillWait(kind, futex.comm, futex.tgid, futex.address, one.total.open_waits, joins, function))
    return tuple(found)
