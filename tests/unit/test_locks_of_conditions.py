# SPDX-License-Identifier: GPL-2.0-or-later
"""Locks that a run time or a library makes of a condition variable: Mono's and Qt's, as recordings have them."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from lockline.analysis.user_space.user_evidence import (
    BEHAVIOUR,
    CONDITION_VARIABLE,
    MONO_LOCK,
    MONO_MONITOR,
    OCAML_LOCK,
    PERL_LOCK,
    QT_MUTEX,
    QT_RWLOCK,
    QT_SEMAPHORE,
    Calls,
    Seen,
)
from lockline.analysis.user_space.user_locks import recognise
from lockline.recording import rows
from user_words import LIBC, MS, PEERS, WINDOW, from_functions, one, word

MONO = "/usr/bin/mono-sgen"
ENTERS = "(wrapper managed-to-native) object:__icall_wrapper_mono_monitor_enter_v4_internal (object,intptr)"
WAITS = "(wrapper managed-to-native) System.Threading.Monitor:Monitor_wait (object,int)"
THREADS = range(1, 7)


def calls(tasks: Iterable[int], module: str, *functions: str, waits: int = 100) -> tuple[Calls, ...]:
    """Waits below pthread_cond_wait() in a file whose own functions have no names."""
    frames = (rows.Frame(1, "pthread_cond_wait", 0, LIBC), rows.Frame(2, "", 0, module))
    named = tuple(rows.Frame(3, name, 0, "/tmp/perf-7.map") for name in functions)
    return tuple(
        Calls(task, ("pthread_cond_wait", *functions), (LIBC, module), waits, waits * MS, (*frames, *named))
        for task in tasks
    )


def monitor(at: int, tasks: Iterable[int] = THREADS, module: str = MONO, *functions: str) -> list[Seen]:
    """Both words of a condition variable, at which 3 threads wait on average, and its mutex elsewhere, at which one."""
    there = calls(tasks, module, *functions)
    figures: dict[str, Any] = PEERS | {"waiters": 6, "wakers": 6, "both": 6, "waits": there, "wakers_of": there}
    mutex = figures | {"ops": 3, "value_2": 1000, "wait_ns": WINDOW}
    return [
        word(at, 4096 * at, wait_ns=2 * WINDOW, **figures),
        word(at + 1, 4096 * at + 4, wait_ns=WINDOW, **figures),
        word(at + 2, 4096 * at + 2048, **mutex),
    ]


@pytest.mark.parametrize(
    ("functions", "module", "make", "sure"),
    [
        ((), MONO, MONO_LOCK, "medium"),
        ((), "/usr/lib/libmonosgen-2.0.so.1.0.0", MONO_LOCK, "medium"),
        ((WAITS, "System_Threading_SemaphoreSlim_Wait"), MONO, MONO_LOCK, "medium"),
        ((ENTERS, "Shop:Book (object)"), MONO, MONO_MONITOR, "high"),
        ((), "/usr/bin/server", BEHAVIOUR, "medium"),
    ],
)
def test_a_lock_of_mono_has_a_condition_and_a_mutex(
    functions: tuple[str, ...], module: str, make: str, sure: str
) -> None:
    words = monitor(2, THREADS, module, *functions)
    first = recognise(words, (2, 3), WINDOW, locks=(4,))[0]
    assert (first.make, first.lock, first.sure) == (make, True, sure)
    assert len(first.words) == (2 if make == BEHAVIOUR else 3)


@pytest.mark.parametrize(("longest_ns", "lock"), [(WINDOW, False), (100 * MS, True)])
def test_threads_that_wait_once_till_the_end_are_idle(longest_ns: int, lock: bool) -> None:
    """Four of Mono in Monitor.Wait(): 12.1 s of 3 s, 13 waits in all, as they wake each other when the program ends."""
    words = [replace(one, total=one.total._replace(max_ns=longest_ns)) for one in monitor(2)]
    assert any(found.make == MONO_LOCK for found in recognise(words, (), WINDOW, locks=(4,))) == lock


def test_two_monitors_have_their_own_mutexes() -> None:
    words = [*monitor(2, range(1, 6)), *monitor(12, range(6, 11))]
    found = recognise(words, (), WINDOW, locks=(4, 14))
    assert sorted(sorted(one.words) for one in found) == [[2, 3, 4], [12, 13, 14]]


def handles(wakers: Iterable[Calls], waiters: int = 1) -> list[Seen]:
    """What threads of Mono make for each Monitor.Wait(), as addresses come again: one thread waits there at a time."""
    return [
        word(
            n,
            4096 * n,
            wait_ns=WINDOW * 6 // 10,
            waiters=waiters,
            waits=calls((n, n + 1) if waiters > 1 else (n,), MONO, WAITS),
            wakers_of=tuple(wakers),
        )
        for n in range(2, 7)
    ]


@pytest.mark.parametrize("waiters", [1, 2])
def test_threads_that_signal_each_other_wait_for_a_lock_of_mono(waiters: int) -> None:
    """A SemaphoreSlim: 15.8 s of six threads, by the program's own clock; its words have 15.2 s together."""
    wakes = calls(range(2, 7), MONO, waits=5)
    found = one(recognise(handles(wakes, waiters), (), WINDOW))
    assert (found.make, found.lock, len(found.words)) == (MONO_LOCK, True, 5)


@pytest.mark.parametrize("waiters", [1, 2])
def test_idle_workers_of_mono_are_brought_work(waiters: int) -> None:
    """By a thread that has waited once for each of them to start."""
    boss = calls((9,), MONO, waits=500)
    words = handles(boss, waiters)
    words.append(word(8, 4096 * 8, waiters=1, slept=6, wait_ns=MS, waits=calls((9,), MONO, waits=6)))
    assert [found for found in recognise(words, (), WINDOW) if found.lock] == []


def test_what_lies_in_monos_own_data_is_no_programs_lock() -> None:
    """Idle threads of its pool: 1,512 waits, of which each thread of the pool ends some."""
    there = calls(THREADS, MONO)
    pool = word(2, 4096, wait_ns=2 * WINDOW, **PEERS, waits=there, wakers_of=there)
    pool = replace(pool, futex=pool.futex._replace(object="mono-sgen"))
    found = one(recognise([pool], (2,), WINDOW))
    assert (found.make, found.lock, found.unclear) == (CONDITION_VARIABLE, False, False)


@pytest.mark.parametrize(
    ("function", "make", "sure"),
    [
        ("caml_thread_yield", OCAML_LOCK, "high"),
        ("caml_thread_leave_blocking_section", OCAML_LOCK, "high"),
        ("caml_condition_wait", BEHAVIOUR, "medium"),
        ("Perl_pp_lock", PERL_LOCK, "high"),
        ("Perl_pp_entersub", BEHAVIOUR, "medium"),
    ],
)
def test_locks_of_ocaml_and_perl(function: str, make: str, sure: str) -> None:
    """Recorded: 4.8 of six threads of OCaml 4.13 that compute; 19.9 s of six of Perl 5.36, by their own clock 19.95."""
    first = recognise(monitor(2, THREADS, "/usr/bin/server", function), (2, 3), WINDOW, locks=(4,))[0]
    assert (first.make, first.lock, first.sure) == (make, True, sure)


def qt(*functions: str, **figures: Any) -> dict[str, Any]:
    there = tuple(from_functions(*functions, task=task) for task in THREADS)
    return PEERS | {"waits": there, "wakers_of": there, "wait_ns": 3 * WINDOW} | figures


@pytest.mark.parametrize(
    ("functions", "make"),
    [
        (("syscall", "QBasicMutex::lockInternal", "book"), QT_MUTEX),
        (("syscall", "QBasicMutex::lockInternal", "QRecursiveMutex::tryLock", "book"), QT_MUTEX),
        (("syscall", "QSemaphore::acquire", "book"), QT_SEMAPHORE),
        (("pthread_cond_wait", "QWaitCondition::wait", "book"), BEHAVIOUR),
    ],
)
def test_locks_of_qt(functions: tuple[str, ...], make: str) -> None:
    assert one(recognise([word(2, 4096, **qt(*functions))], (2,), WINDOW)).make == make


def test_readers_and_writers_of_qt_wait_for_one_lock() -> None:
    """As recorded: writers 7.9 s, and three readers, whom they starved, 12 s in one wait each."""
    write, read = "QReadWriteLock::tryLockForWrite", "QReadWriteLock::tryLockForRead"
    readers = qt("pthread_cond_wait", read, wait_ns=2 * WINDOW, slept=3, calls=3, wakers=1, both=0)
    words = [
        word(2, 4096 + 0xC8, **qt("pthread_cond_wait", write, wait_ns=WINDOW)),
        word(3, 4096 + 0xCC, **qt("pthread_cond_wait", write, wait_ns=WINDOW)),
        word(4, 4096 + 0xF8, **readers),
        # Its neighbour in Qt's own list of them: nobody waits long.
        word(5, 4096 + 0x180, **qt("pthread_cond_wait", write, wait_ns=MS)),
    ]
    found = one(tuple(lock for lock in recognise(words, (2, 3), WINDOW) if lock.lock))
    assert (found.make, found.lock, found.sure, set(found.words)) == (QT_RWLOCK, True, "high", {2, 3, 4})
