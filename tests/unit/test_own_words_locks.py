# SPDX-License-Identifier: GPL-2.0-or-later
"""Run times whose threads each wait at a word of their own."""

from dataclasses import replace

import pytest

from lockline.analysis.model import Figures
from lockline.analysis.user_space.futex import _as_one
from lockline.analysis.user_space.futex_waits import UNCLEAR, FutexWaits
from lockline.analysis.user_space.user_evidence import (
    ATOMICS,
    ERLANG_LOCK,
    JAVA_LOCK,
    MONITOR,
    NET_LOCK,
    NET_MONITOR,
    PARKING_LOT,
    PARKING_LOT_CONDITION,
    PY_MUTEX,
    TBB_MUTEX,
    Calls,
    Recognised,
    Seen,
)
from lockline.analysis.user_space.user_locks import recognise
from lockline.base import histogram
from lockline.recording import rows
from user_words import MS, PARK, WINDOW, one, parked, word

TBB_LOCK = ("syscall", "tbb::detail::r1::wait_on_address", "tbb::detail::d1::mutex::lock", "serve")


ERLANG_WAIT = ("syscall", "ethr_event_swait", "", "ethr_rwmutex_rwlock", "", "ets_insert_2")


ERLANG_REST = ("syscall", "ethr_event_swait", "", "erts_schedule", "process_main")


NET_ENTER = ("__futex_wait", "CPalSynchronizationManager::BlockThread", "AwareLock::EnterEpilogHelper")


NET_WAIT = ("__futex_wait", "CPalSynchronizationManager::BlockThread", "SyncBlock::Wait")


NET_POOL = ("__futex_wait", "CPalSynchronizationManager::BlockThread", "CLRLifoSemaphore::Wait")


ENTER = ("PlatformEvent::park", "ObjectMonitor::EnterI", "ObjectMonitor::enter", "Threads.underMonitor")


WAIT = ("PlatformEvent::park", "ObjectMonitor::wait", "JVM_MonitorWait")


TAKE = ("Parker::park", "Unsafe_Park", "LinkedBlockingQueue.take")


ATOMICS_WAIT = ("v8::internal::FutexEmulation::WaitSync<int>", "v8::internal::Builtin_AtomicsWait")


PY_MUTEX_WAIT = ("_PySemaphore_Wait", "_PyParkingLot_Park", "_PyMutex_LockTimed")


@pytest.mark.parametrize(
    ("words", "make"),
    [
        (parked(ENTER, (2, 3, 4)), MONITOR),
        (parked(("_ZN13ObjectMonitor6EnterIEP10JavaThread",), (2, 3, 4)), MONITOR),
        # Workers in Object.wait() that another thread brings work.
        (parked(WAIT, (9,)), None),
        (parked(PARK, (2, 3, 4)), JAVA_LOCK),
        # Workers without names that another thread wakes; the same by name; and a lock that is hardly waited for.
        (parked(PARK[:2], (2, 3, 4)), JAVA_LOCK),
        (parked(PARK[:2], (9,)), None),
        (parked(TAKE, (2, 3, 4)), None),
        (parked(PARK, (2, 3, 4), WINDOW // 10), None),
        # One that is waited for in a part of the recording; what only may be one is not.
        (parked(PARK, (2, 3, 4), WINDOW * 3 // 10), JAVA_LOCK),
        (parked(PARK[:2], (2, 3, 4), WINDOW * 3 // 10), None),
        (parked(PY_MUTEX_WAIT, (2, 3, 4)), PY_MUTEX),
        (parked(PY_MUTEX_WAIT, (9,)), None),
        (parked(ATOMICS_WAIT, (2, 3, 4)), ATOMICS),
        # Workers that another thread has jobs for; all without one.
        (parked(ATOMICS_WAIT, (9,)), None),
        (parked(ATOMICS_WAIT, (2, 3, 4), WINDOW), None),
        # The workers of a pool that takes turns at waiting for the clock: all sleep, and nobody has a lock.
        (parked(PARK[:2], (2, 3, 4), WINDOW), None),
        (parked(("syscall", "parking_lot::raw_mutex::RawMutex::lock_slow"), (2, 3, 4)), PARKING_LOT),
        (parked(("syscall", "parking_lot::condvar::Condvar::wait_until_internal"), (9,)), None),
        (parked(TBB_LOCK, (2, 3, 4)), TBB_MUTEX),
        # Those of TBB that wait at a queue, or without work, and wake each other.
        (parked(("syscall", "tbb::detail::r1::wait_bounded_queue_monitor"), (2, 3, 4)), None),
        (parked(("syscall", "tbb::detail::r1::rml::private_worker::run"), (2, 3, 4)), None),
        (parked(TBB_LOCK, (9,)), None),
        (parked(ERLANG_WAIT, (2, 3, 4)), ERLANG_LOCK),
        (parked(ERLANG_REST, (2, 3, 4)), None),
        (parked(NET_ENTER, (2, 3, 4)), NET_MONITOR),
        (parked(NET_ENTER, (9,)), NET_MONITOR),
        # A semaphore that is used as a lock; one that others release; a run time without names, and its idle workers.
        (parked(NET_WAIT, (2, 3, 4), module="libcoreclr.so"), NET_LOCK),
        (parked(NET_WAIT, (9,), module="libcoreclr.so"), None),
        (parked(("__futex_wait", ""), (2, 3, 4), module="libcoreclr.so"), NET_LOCK),
        (parked(NET_POOL, (2, 3, 4), module="libcoreclr.so"), None),
        # Hardly any wait, as where an idle program ends.
        (parked(NET_WAIT, (2, 3, 4), module="libcoreclr.so", slept=2), None),
    ],
)
def test_threads_that_park_on_words_of_their_own(words: list[Seen], make: str | None) -> None:
    found = recognise(words, (), WINDOW)
    assert [one.make for one in found] == ([make] if make else [])
    if make:
        assert found[0].words == (2, 3, 4)


@pytest.mark.parametrize(("functions", "slept", "turns"), [(PARK[:2], 1, False), (PARK, 1, True), (PARK[:2], 9, True)])
def test_a_thread_of_the_run_time_that_waits_all_the_time(functions: tuple[str, ...], slept: int, turns: bool) -> None:
    """One of the threads that queue wakes it at the end, once: its wait is none for their lock, without names."""
    aside = word(
        9,
        4096 * 9,
        slept=slept,
        waits=(Calls(9, functions, (), slept, WINDOW),),
        wakers_of=(Calls(2, (), (), 1, 0),),
    )
    (found,) = recognise([*parked(PARK, (2, 3, 4)), aside], (), WINDOW)
    assert set(found.words) == ({2, 3, 4, 9} if turns else {2, 3, 4})


@pytest.mark.parametrize(("of_8", "unclear"), [(40, True), (3, False)])
def test_who_wakes_in_net_may_hog_the_lock(of_8: int, unclear: bool) -> None:
    """A thread that hardly waits there and makes most of the wakes brings work, or has the lock again and again."""
    words = parked(NET_WAIT, (2, 3, 4), module="libcoreclr.so")
    seldom = replace(words[0].waits[0], task=8, waits=2)
    words[0] = replace(words[0], waits=(*words[0].waits, seldom), wakes=(*words[0].wakes, Calls(8, (), (), of_8, 0)))
    (found,) = recognise(words, (), WINDOW)
    assert (found.make, found.lock, found.unclear) == (NET_LOCK, not unclear, unclear)


@pytest.mark.parametrize(
    ("functions", "from_9", "unclear"), [(PARK[:2], 1, True), (PARK[:2], 0, False), (PARK, 1, False)]
)
def test_workers_of_java_that_pass_jobs_on(functions: tuple[str, ...], from_9: int, unclear: bool) -> None:
    """Who brings the jobs never waits there; where Java's functions have names, these tell."""
    words = [
        replace(entry, wakes=(*entry.wakes, Calls(9, (), (), from_9, 0)) if from_9 else entry.wakes)
        for entry in parked(functions, (2, 3, 4))
    ]
    found = one(recognise(words, (), WINDOW))
    assert (found.make, found.lock, found.unclear) == (JAVA_LOCK, not unclear, unclear)
    assert ("could not read them" in found.why) == unclear


@pytest.mark.parametrize(("others", "unclear"), [(TAKE, True), (PARK, False)])
def test_waits_without_names_beside_some_with_names(others: tuple[str, ...], unclear: bool) -> None:
    """A map of compiled code names a part of it: what has no name is taken for the same."""
    named = [
        replace(entry, waits=tuple(replace(call, functions=(*others, "LockSupport.park")) for call in entry.waits))
        for entry in parked(others, (2, 3, 4), WINDOW // 10)
    ]
    named = [
        replace(entry, futex=entry.futex._replace(id=at + 20, address=at * 4096 + 99 * 4096), wakes=())
        for at, entry in enumerate(named)
    ]
    found = recognise([*parked(PARK[:2], (2, 3, 4), WINDOW * 45 // 100), *named], (), WINDOW)
    locks = [one.unclear for one in found if one.make == JAVA_LOCK and 2 in one.words]
    assert locks == [unclear]


def test_a_monitor_that_is_held_over_a_wait_by_threads_that_start_late() -> None:
    """For two thirds of the recording: one after the other waits for a queue, the others for the monitor."""
    life = WINDOW * 2 // 3
    queue = [
        word(number + 10, 4096 * (number + 10), wait_ns=life // 3, waits=(Calls(number, PARK[:2], (), 10, 10),))
        for number in (2, 3, 4)
    ]
    found = one(recognise([*parked(ENTER, (2, 3, 4), life * 2 // 3), *queue], (), WINDOW))
    assert (found.make, found.lock, found.sure) == (MONITOR, False, "medium")


@pytest.mark.parametrize(
    ("waits", "timed_out", "known"),
    [
        # Each has the monitor for a third of the time, and waits for a queue meanwhile; it sleeps; it hardly waits.
        (WINDOW // 3, 0, (False, "medium")),
        (WINDOW // 3, 900, (True, "high")),
        (WINDOW // 9, 0, (True, "high")),
    ],
    ids=["queue", "sleep", "works"],
)
def test_a_monitor_that_is_held_over_a_wait(waits: int, timed_out: int, known: tuple[bool, str]) -> None:
    elsewhere = [
        word(
            number + 10,
            4096 * (number + 10),
            wait_ns=waits,
            timed_out=timed_out,
            waits=(Calls(number, PARK[:2], (), 10, 10),),
        )
        for number in (2, 3, 4)
    ]
    found = one(recognise([*parked(ENTER, (2, 3, 4), WINDOW * 6 // 10), *elsewhere], (), WINDOW))
    assert (found.make, found.words) == (MONITOR, (2, 3, 4))
    assert (found.lock, found.sure) == known


def test_those_who_wake_each_other_are_one_lock() -> None:
    """A pool's idle workers beside a lock: the words of each circle are looked at alone."""
    lock = parked(PARK[:2], (2, 3, 4))
    pool = [
        word(
            number + 10,
            4096 * (number + 10),
            waits=(Calls(number + 10, PARK[:2], (), 10, 10),),
            wakers_of=tuple(Calls(task, (), (), 5, 0) for task in (12, 13, 14) if task != number + 10),
        )
        for number in (2, 3, 4)
    ]
    found = one(recognise([*lock, *pool], (), WINDOW))
    assert (found.make, found.words) == (JAVA_LOCK, (2, 3, 4))


def sleeper(task: int, slept: int, timed_out: int, wait_ns: int, timed_out_ns: int, wakes: int = 0) -> list[Seen]:
    """A thread of .NET at its own word: Thread.Sleep() sleeps there as well, until its timeout."""
    frames = (rows.Frame(1, "CorUnix::InternalSleepEx", 0, "libcoreclr.so"),)
    waits = (Calls(task, ("__futex_wait", "CorUnix::InternalSleepEx"), (), slept, wait_ns, frames),)
    figures = {"timed_out": timed_out, "timed_out_ns": timed_out_ns, "wait_ns": wait_ns, "slept": slept}
    found = [word(task, 4096 * task, waits=waits, wakers_of=(), **figures)]
    words = parked(NET_WAIT, (2, 3, 4), WINDOW * 6 // 10, "libcoreclr.so")
    wakers = (*words[0].wakes, *((Calls(task, (), (), wakes, 0),) if wakes else ()))
    return [*found, *(replace(one, wakes=wakers) for one in words)]


def test_a_thread_that_only_sleeps_waits_for_no_lock_of_net() -> None:
    """The main thread in Thread.Sleep(4000), at the end woken once by another one."""
    (found,) = (one for one in recognise(sleeper(9, 8, 1, WINDOW, WINDOW * 99 // 100), (), WINDOW) if one.lock)
    assert (found.make, set(found.words), found.sleeps) == (NET_LOCK, {2, 3, 4}, 0)


STRIPPED = ("pthread_cond_timedwait", "")
SLEEP = ("CPalSynchronizationManager::BlockThread", "SleepEx", "ThreadNative::Sleep")
TRY_ENTER = ("CPalSynchronizationManager::BlockThread", "AwareLock::EnterEpilogHelper", "AwareLock::TryEnter")


@pytest.mark.parametrize(
    ("waiting", "sleeping", "wait_ns", "make", "threads", "sleeps"),
    [
        # Half of the waits end by their timeout; where nothing has a name, these may be sleeps.
        (STRIPPED, STRIPPED, WINDOW, NET_LOCK, "2.0 on average", (1500, WINDOW)),
        # They are Thread.Sleep(), or Wait(5).
        (NET_WAIT, SLEEP, WINDOW, NET_LOCK, "1.5 on average", (1500, WINDOW * 3 // 2)),
        (NET_WAIT, NET_WAIT, WINDOW * 6 // 10, NET_LOCK, "1.8 on average", (0, 0)),
        (TRY_ENTER, SLEEP, WINDOW, NET_MONITOR, "1.5 on average", (1500, WINDOW * 3 // 2)),
        (ATOMICS_WAIT, ATOMICS_WAIT, WINDOW, ATOMICS, "2.0 on average", (1500, WINDOW)),
    ],
)
def test_a_thread_sleeps_where_it_waits(
    waiting: tuple[str, ...],
    sleeping: tuple[str, ...],
    wait_ns: int,
    make: str,
    threads: str,
    sleeps: tuple[int, int],
) -> None:
    """Those in Thread.Sleep() of .NET, or Atomics.wait() of JavaScript, may have the lock."""
    file = "node" if make == ATOMICS else "libcoreclr.so"
    figures = {"timed_out": 500, "timed_out_ns": WINDOW // 3, "wait_ns": wait_ns}
    words = [
        word(
            task,
            4096 * task,
            waits=tuple(
                Calls(task, functions, (), 5, 5, (rows.Frame(1, functions[-1], 0, file),))
                for functions in (waiting, sleeping)
            ),
            wakers_of=tuple(Calls(other, (), (), 5, 0) for other in (2, 3, 4) if other != task),
            **figures,
        )
        for task in (2, 3, 4)
    ]
    (found,) = recognise(words, (), WINDOW)
    assert (found.make, found.lock, threads in found.why) == (make, True, True)
    assert found.sleeps == sleeps[0]
    assert found.slept_ns == pytest.approx(sleeps[1], abs=3)


def test_a_thread_that_sleeps_between_jobs_brings_them() -> None:
    """Idle workers of .NET at Monitor.Wait(); who pulses them sleeps for 5 ms each time."""
    words = sleeper(9, 700, 700, WINDOW, WINDOW, wakes=200)
    assert [one for one in recognise(words, (), WINDOW) if one.lock] == []


@pytest.mark.parametrize(("sleeps", "left"), [(400, (600, 60 * MS)), (0, (1000, 160 * MS))])
def test_sleeps_are_in_no_row_of_a_lock_of_net(sleeps: int, left: tuple[int, int]) -> None:
    seen = word(2, 4096, wait_ns=160 * MS, timed_out=400, timed_out_ns=100 * MS)
    figures = Figures(1000, 160 * MS, MS, 0, tuple(histogram.empty()))
    row = FutexWaits(seen.futex, seen.total, UNCLEAR, "", figures, figures)
    known = Recognised((2,), NET_LOCK, lock=True, sure="medium", why="", sleeps=sleeps, slept_ns=sleeps * MS // 4)
    found = _as_one([row], known, {})
    assert (found.figures.waits, found.figures.wait_ns) == left
    assert (found.total.slept, found.total.wait_ns) == left


@pytest.mark.parametrize(
    ("function", "wakers", "wait_ns", "told"),
    [
        ("Pool::take", (2, 3, 4), WINDOW * 6 // 10, [(False, True)]),
        # Another thread brings work; all wait, and nobody has what they wait for; idle workers of a scheduler.
        ("Pool::take", (9,), WINDOW * 6 // 10, []),
        ("Pool::take", (2, 3, 4), WINDOW, []),
        ("tokio::runtime::scheduler::multi_thread::park::Parker::park", (2, 3, 4), WINDOW * 6 // 10, []),
    ],
)
def test_threads_that_notify_each_other_at_a_condvar_of_parking_lot(
    function: str, wakers: tuple[int, ...], wait_ns: int, told: list[tuple[bool, bool]]
) -> None:
    """A pool, or workers that pass jobs on: the waits do not show which."""
    # A task of the program lies on the scheduler's functions.
    below = (function, "tokio::runtime::scheduler::multi_thread::worker::run")
    words = parked(("syscall", "parking_lot::condvar::Condvar::wait_until_internal", *below), wakers, wait_ns)
    found = recognise(words, (), WINDOW)
    assert [(one.lock, one.unclear) for one in found if one.make == PARKING_LOT_CONDITION] == told
