# SPDX-License-Identifier: GPL-2.0-or-later
"""Threads that wait until one of them has made what is made once: call_once(), a static of C++, a class of Java.

The first thread that comes makes it, and all others wait for that one meanwhile.  What is made may wait for other
things: only the function right behind the wait tells those who wait for it.
"""

from collections.abc import Iterable

from lockline.analysis.user_space.user_evidence import (
    JAVA_CLASS,
    MOST,
    ONCE,
    Calls,
    Processes,
    Recognised,
    Seen,
    by_waiting,
    share_of,
    waiting_still,
)
from lockline.base.c_library import FUTEX_CALLERS
from lockline.base.values import dataclass


@dataclass(frozen=True, slots=True)
class _Once:
    """How something is made once: in these functions the others wait for it.

    way: how functions begin that lie between them and the wait.  words: each thread waits at words of its own, whatever
    it waits for.
    """

    waits: tuple[str, ...]
    called: str
    way: tuple[str, ...] = ()
    words: bool = False
    make: str = ONCE


_ONCE = (
    # glibc's and musl's; std::call_once of libstdc++ calls it.
    _Once(("pthread_once",), "pthread_once()"),
    # Of libc++, with a condition variable.
    _Once(("std::__call_once", "std::__1::__call_once"), "std::call_once()"),
    # Variables that are static in a function.
    _Once(("__cxa_guard_acquire",), "__cxa_guard_acquire()", ("__cxxabiv1::",)),
    # Once, OnceLock and LazyLock.
    _Once(("sync::once::futex::Once", "sync::once::queue::"), "Once::call()", ("std::thread::park", "std::sys::")),
    # JDK 17 and before: ObjectMonitor; later ones: Monitor.
    _Once(
        ("InstanceKlass::initialize_impl",),
        "InstanceKlass::initialize_impl()",
        ("os::Platform", "PlatformMonitor::", "ObjectMonitor::", "ObjectLocker::", "ObjectSynchronizer::", "Monitor"),
        words=True,
        make=JAVA_CLASS,
    ),
)


def _waits_for(once: _Once, call: Calls) -> bool:
    """Whether the first function behind the wait is one of those."""
    for function in call.functions:
        if any(name in function for name in once.waits):
            return True
        if not function.startswith((*FUTEX_CALLERS, *once.way)):
            return False
    return False


def _known(words: list[Seen], once: _Once, window_ns: int) -> Recognised:
    return Recognised(
        tuple(entry.futex.id for entry in by_waiting(words)),
        once.make,
        lock=True,
        sure="high",
        why=f"threads wait in {once.called} for one that makes it: {waiting_still(words, window_ns):.1f} on average",
    )


def _waits_there(once: _Once, entry: Seen) -> bool:
    return share_of(entry.waits, lambda call: _waits_for(once, call)) >= MOST


def made_once(processes: Processes, window_ns: int) -> Iterable[Recognised]:
    """Words at which threads wait for what is made once."""
    for words in processes.values():
        for once in _ONCE:
            found = [entry for entry in words.values() if _waits_there(once, entry)]
            if found and once.words:
                yield _known(found, once, window_ns)
            else:
                yield from (_known([entry], once, window_ns) for entry in found)
