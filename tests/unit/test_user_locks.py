# SPDX-License-Identifier: GPL-2.0-or-later
"""What kind of lock a program's futexes are: rows as the locks of each make leave them."""

from dataclasses import replace
from typing import Any

import pytest

from lockline.analysis.findings import Process, UserLock
from lockline.analysis.model import Figures
from lockline.analysis.user_space.futex_waits import LOCK, FutexWaits
from lockline.analysis.user_space.go_locks import unseen_goroutines
from lockline.analysis.user_space.run_times import switch_on, without_names
from lockline.analysis.user_space.user_evidence import (
    ANY_BARRIER,
    ATOMICS,
    BARRIER,
    BEHAVIOUR,
    CONDITION_VARIABLE,
    ERLANG_LOCK,
    GIL,
    GO_CHANNEL,
    GO_MUTEX,
    JAVA_LOCK,
    JAVA_QUEUE,
    MONITOR,
    NET_LOCK,
    NET_MONITOR,
    OPENMP_BARRIER,
    OPENMP_LOCK,
    PARKING_LOT,
    PY_LOCK,
    PY_MUTEX,
    PY_QUEUE,
    RUBY_GVL,
    RUST_CHANNEL,
    RUST_MUTEX,
    RUST_RWLOCK,
    RWLOCK,
    TBB_MUTEX,
    YIELD_OP,
    Calls,
    Goroutines,
    Recognised,
    Seen,
    Site,
)
from lockline.analysis.user_space.user_locks import recognise
from lockline.recording import rows
from lockline.render.findings import fact_words
from lockline.rules.user_lock import _claim
from user_words import LIBC, MS, WINDOW, parked, word

NO_FIGURES = Figures(0, 0, 0, 0, ())
PEERS = {"waiters": 4, "wakers": 4, "both": 4, "wakes": 900, "tasks_woken": 900}


def gil(name: str = "", comm: str = "python3", **figures: Any) -> list[Seen]:
    """The GIL's words: two of its condition variable, its mutex, one of the second condition variable."""
    timed = PEERS | {"timed": 1000, "timed_out": 700, "timed_out_ns": 3500 * MS, "wait_ns": 1400 * MS} | figures
    return [
        word(2, 4096, name, comm, **timed),
        word(3, 4100, name and f"{name}+4", comm, **timed),
        word(4, 4104, name and f"{name}+8", comm, value_2=1000, wait_ns=MS),
        word(5, 4096 + 88, name and f"{name}+88", comm, wait_ns=MS),
    ]


def one(found: tuple[Recognised, ...]) -> Recognised:
    assert len(found) == 1, found
    return found[0]


@pytest.mark.parametrize("timed_out", [700, 900])
def test_the_gil_is_a_lock_though_its_waits_time_out(timed_out: int) -> None:
    found = one(recognise(gil("_PyRuntime+0x1a0", timed_out=timed_out), (), WINDOW))
    assert (found.make, found.lock, found.sure) == (GIL, True, "high")
    assert found.words == (2, 3, 4, 5)
    assert "2.8 threads wait for it on average" in found.why


def test_the_gil_of_a_stripped_python_is_known_by_its_layout() -> None:
    found = one(recognise(gil(), (), WINDOW))
    assert (found.make, found.sure) == (GIL, "medium")


@pytest.mark.parametrize(
    "words",
    [
        # A timed condition variable with its mutex behind it, in a program of another kind.
        gil(comm="server"),
        # A queue in Python: its words lie otherwise.
        gil()[:2],
        # Workers that a dispatcher wakes, which does not wait there.
        gil(both=0),
    ],
    ids=["not python", "not its layout", "dispatcher"],
)
def test_what_only_looks_like_the_gil_is_a_condition_variable(words: list[Seen]) -> None:
    assert GIL not in {found.make for found in recognise(words, (), WINDOW)}


def test_a_word_that_is_only_woken_is_no_gil_of_its_own() -> None:
    """The mutex of the second condition variable: unlocked with a wake-up that found nobody."""
    woken = word(6, 4096 + 96, "_PyRuntime+0x200", "python3", calls=0, slept=0, wait_ns=0, wakes=1, wakes_empty=1)
    found = one(recognise([*gil("_PyRuntime+0x1a0"), woken], (), WINDOW))
    assert found.words == (2, 3, 4, 5, 6)


def test_take_gil_tells_the_gil_of_a_sub_interpreter() -> None:
    waits = (Calls(1, ("futex_abstimed_wait_cancelable", "take_gil", "PyEval_RestoreThread"), (), 10, 10),)
    found = one(recognise([word(2, 4096, comm="uwsgi", timed=1000, waits=waits)], (), WINDOW))
    assert (found.make, found.sure) == (GIL, "high")


@pytest.mark.parametrize(
    ("changed", "contended"),
    [
        ({}, True),
        # Of a word that processes share; all are woken, and one gets it.
        ({"shared": 1}, True),
        ({"tasks_woken": 1800}, True),
        # Two threads that take turns; all four are asleep at times, so nobody has it; or on their way to a CPU.
        ({"wait_ns": WINDOW}, False),
        ({"wait_ns": 3 * WINDOW + WINDOW // 10}, False),
        ({"wait_ns": 3 * WINDOW + WINDOW // 10, "latency_ns": WINDOW // 10}, True),
        # A dispatcher, a barrier, a poll; so many threads that their hashes tell nothing.
        ({"wakers": 1, "both": 0}, False),
        ({"wakers": 5, "both": 3}, False),
        ({"timed_out": 500}, False),
        ({"waiters": 120, "wakers": 120, "both": 120}, False),
    ],
)
def test_threads_that_wake_each_other_one_at_a_time_contend(changed: dict[str, int], contended: bool) -> None:
    found = recognise([word(2, 4096, **(PEERS | {"wait_ns": 3 * WINDOW} | changed))], (2,), WINDOW)
    assert [(one.make, one.lock, one.sure) for one in found] == ([(BEHAVIOUR, True, "medium")] if contended else [])


@pytest.mark.parametrize(("over_ns", "contended"), [(20 * MS, True), (60 * MS, False)])
def test_waits_that_end_as_a_short_recording_ends(over_ns: int, contended: bool) -> None:
    """They count as a whole: of four threads more than three seem asleep."""
    window = WINDOW // 5
    found = recognise([word(2, 4096, **(PEERS | {"wait_ns": 3 * window + over_ns}))], (2,), window)
    assert [one.lock for one in found] == [True] * contended


@pytest.mark.parametrize(("outside", "make"), [(34, None), (10, BEHAVIOUR)])
def test_who_never_waits_and_wakes_often_has_jobs(outside: int, make: str | None) -> None:
    """The workers of a queue of Python pass jobs on; at a lock, whoever wakes has mostly waited before."""
    waits = tuple(Calls(task, (), (), 10, 10) for task in (1, 2, 3, 4))
    wakes = (*(Calls(task, (), (), (100 - outside) // 4, 0) for task in (1, 2, 3, 4)), Calls(5, (), (), outside, 0))
    queue = word(2, 4096, **PEERS | {"wakers": 5, "wait_ns": 2 * WINDOW}, waits=waits, wakers_of=wakes)
    assert [found.make for found in recognise([queue], (2,), WINDOW)] == ([make] if make else [])


def test_a_word_whose_nature_is_clear_is_left_alone() -> None:
    assert recognise([word(2, 4096, **(PEERS | {"wait_ns": 3 * WINDOW}))], (), WINDOW) == ()


def test_the_words_of_a_condition_variable_are_one() -> None:
    found = one(recognise([word(2, 4096), word(3, 4100, wait_ns=2 * WINDOW)], (), WINDOW))
    assert (found.make, found.lock, found.words) == (CONDITION_VARIABLE, False, (3, 2))
    # Also where they pass a 2, as since glibc 2.41; neither two that are eight bytes apart, nor a mutex beside a word.
    found = one(recognise([word(2, 4096, value_2=1), word(3, 4100)], (), WINDOW))
    assert (found.make, found.words) == (CONDITION_VARIABLE, (2, 3))
    assert recognise([word(2, 4100), word(3, 4104)], (), WINDOW) == ()
    assert recognise([word(2, 4096), word(3, 4100, value_2=1000)], (), WINDOW) == ()


TBB_LOCK = ("syscall", "tbb::detail::r1::wait_on_address", "tbb::detail::d1::mutex::lock", "serve")
ERLANG_WAIT = ("syscall", "ethr_event_swait", "", "ethr_rwmutex_rwlock", "", "ets_insert_2")
ERLANG_REST = ("syscall", "ethr_event_swait", "", "erts_schedule", "process_main")
NET_ENTER = ("__futex_wait", "CPalSynchronizationManager::BlockThread", "AwareLock::EnterEpilogHelper")
NET_WAIT = ("__futex_wait", "CPalSynchronizationManager::BlockThread", "SyncBlock::Wait")
NET_POOL = ("__futex_wait", "CPalSynchronizationManager::BlockThread", "CLRLifoSemaphore::Wait")
ENTER = ("PlatformEvent::park", "ObjectMonitor::EnterI", "ObjectMonitor::enter", "Threads.underMonitor")
WAIT = ("PlatformEvent::park", "ObjectMonitor::wait", "JVM_MonitorWait")
PARK = ("Parker::park", "Unsafe_Park", "LockSupport.park", "ReentrantLock.lock")
TAKE = ("Parker::park", "Unsafe_Park", "LinkedBlockingQueue.take")
ATOMICS_WAIT = ("v8::internal::FutexEmulation::WaitSync<int>", "v8::internal::Builtin_AtomicsWait")
PY_MUTEX_WAIT = ("_PySemaphore_Wait", "_PyParkingLot_Park", "_PyMutex_LockTimed")


@pytest.mark.parametrize(
    ("words", "make"),
    [
        (parked(ENTER, (2, 3, 4)), MONITOR),
        (parked(("_ZN13ObjectMonitor6EnterIEP10JavaThread",), (2, 3, 4)), MONITOR),
        (parked(WAIT, (2, 3, 4)), None),
        (parked(PARK, (2, 3, 4)), JAVA_LOCK),
        # Workers without names that another thread wakes; the same by name; and a lock that is hardly waited for.
        (parked(PARK[:2], (2, 3, 4)), JAVA_LOCK),
        (parked(PARK[:2], (9,)), None),
        (parked(TAKE, (2, 3, 4)), None),
        (parked(PARK, (2, 3, 4), WINDOW // 10), None),
        (parked(PY_MUTEX_WAIT, (2, 3, 4)), PY_MUTEX),
        (parked(PY_MUTEX_WAIT, (9,)), None),
        (parked(ATOMICS_WAIT, (2, 3, 4)), ATOMICS),
        # Workers that another thread has jobs for; all without one.
        (parked(ATOMICS_WAIT, (9,)), None),
        (parked(ATOMICS_WAIT, (2, 3, 4), WINDOW), None),
        # The workers of a pool that takes turns at waiting for the clock: all sleep, and nobody has a lock.
        (parked(PARK[:2], (2, 3, 4), WINDOW), None),
        (parked(("syscall", "parking_lot::raw_mutex::RawMutex::lock_slow"), (2, 3, 4)), PARKING_LOT),
        (parked(("syscall", "parking_lot::condvar::Condvar::wait_until_internal"), (2, 3, 4)), None),
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


@pytest.mark.parametrize(
    ("looks", "ran", "elsewhere", "unclear"),
    [
        (0, 0, {}, True),
        (20, 1, {}, True),
        # The holder was seen to run; so it was at three looks, which are few.
        (20, 19, {}, False),
        (3, 3, {}, True),
        # They give their CPUs away meanwhile: nobody sleeps.
        (0, 0, {"ops": YIELD_OP, "slept": 0}, False),
    ],
    ids=["no looks", "sleeps", "runs", "few looks", "yields"],
)
def test_a_mutex_whose_holder_seems_to_wait_elsewhere(
    looks: int, ran: int, elsewhere: dict[str, int], unclear: bool
) -> None:
    queue = tuple(Calls(task, ("pthread_mutex_lock", "work"), (LIBC,), 10, 10) for task in (2, 3, 4))
    mutex = replace(word(2, 4096, wait_ns=2 * WINDOW, waits=queue), looks=looks, ran=ran)
    other = word(9, 8192, wait_ns=WINDOW * 9 // 10, waits=queue, **elsewhere)
    found = recognise([mutex, other], (), WINDOW, {2})
    assert [one.unclear for one in found if one.words == (2,)] == ([True] if unclear else [])


def test_who_lets_a_mutex_of_go_go() -> None:
    unlock = ("runtime.futex", "runtime.ready", "internal/sync.(*Mutex).unlockSlow", "main.work")
    timer = ("runtime.futex", "runtime.wakep", "runtime.sysmon")
    found = one(
        recognise([word(2, 4096, wakers_of=(Calls(1, unlock, (), 9, 0), Calls(2, timer, (), 1, 0)))], (), WINDOW)
    )
    assert (found.make, found.sure) == (GO_MUTEX, "medium")
    assert (
        recognise([word(2, 4096, wakers_of=(Calls(1, unlock, (), 1, 0), Calls(2, timer, (), 9, 0)))], (), WINDOW) == ()
    )


def test_goroutines_that_were_followed_are_not_counted_by_their_threads_too() -> None:
    unlock = (Calls(1, ("runtime.futex", "internal/sync.(*Mutex).unlockSlow"), (), 9, 0),)
    followed = word(2, 8192, ops=1 << 24 | 1 << 25, wait_ns=2 * WINDOW)
    only_let_go = word(3, 8200, ops=1 << 25, slept=0, calls=0)
    found = one(recognise([followed, only_let_go, word(4, 4096, wakers_of=unlock)], (), WINDOW))
    assert (found.words, found.make, found.lock, found.sure) == ((2,), GO_MUTEX, True, "high")
    assert "2.0 wait for it on average" in found.why


@pytest.mark.parametrize(
    ("wait_ns", "lock", "unclear"),
    [
        (3 * WINDOW, True, False),
        # One sender: a slow receiver, or a source that nobody asks for more.  Receivers that are quick enough.
        (WINDOW, False, True),
        (WINDOW // 20, False, False),
    ],
)
def test_goroutines_that_wait_to_send(wait_ns: int, lock: bool, unclear: bool) -> None:
    found = one(recognise([word(2, 4096, ops=1 << 26, wait_ns=wait_ns)], (), WINDOW))
    assert (found.make, found.lock, found.unclear) == (GO_CHANNEL, lock, unclear)
    assert unseen_goroutines([word(2, 4096, ops=1 << 26)], WINDOW) == ()


@pytest.mark.parametrize(
    ("functions", "changed", "idle"),
    [
        (("__pthread_mutex_cond_lock", "pthread_cond_timedwait@@GLIBC_2.3.2", "CompileQueue::get"), {}, True),
        # Where the C library has no names of its own functions but those that it exports.
        (("pthread_cond_wait@@GLIBC_2.3.2", "next_job"), {}, True),
        # Threads that had something to do; so much waiting that it is none; a word that is no mutex.
        (("__pthread_mutex_lock", "next_job"), {}, False),
        (("pthread_cond_wait", "next_job"), {"wait_ns": WINDOW}, False),
        (("pthread_cond_wait", "next_job"), {"value_2": 0}, False),
    ],
)
def test_idle_threads_that_are_woken_with_the_mutex_held(
    functions: tuple[str, ...], changed: dict[str, int], idle: bool
) -> None:
    waits = (Calls(1, functions, (), 10, 10 * MS),)
    figures: dict[str, Any] = {"value_2": 1000, "owners": 20, "wait_ns": WINDOW // 8} | changed
    found = recognise([word(2, 4096, waits=waits, **figures)], (), WINDOW)
    assert [(one.make, one.lock, bool(one.why)) for one in found] == (
        [(CONDITION_VARIABLE, False, True)] if idle else []
    )


def frame(symbol: str = "", module: str = "[anon]") -> rows.Frame:
    return rows.Frame(4096, symbol, 0, module)


def java(folder: str) -> rows.Frame:
    return frame("Unsafe_Park", f"{folder}/libjvm.so")


JVM = java("/usr/lib/jvm/java-17/lib/server")
EVALUATES = "_PyEval_EvalFrameDefault"


@pytest.mark.parametrize(
    ("frames", "language"),
    [
        ((JVM, frame()), "Java with map"),
        ((java("/opt/jdk-21.0.2/lib/server"), frame()), "Java with map"),
        ((java("/usr/lib/jvm/java-11-openjdk-amd64/lib/server"), frame()), "Java without map"),
        ((java("/usr/lib/jvm/java-1.8.0-openjdk/jre/lib/amd64/server"), frame()), "Java without map"),
        # An image does not give its version.
        ((java("/opt/java/openjdk/lib/server"), frame()), "Java"),
        ((JVM, frame("void Threads.work()", "/tmp/perf-7.map")), ""),
        ((frame("uv_run", "/usr/bin/node"), frame()), "Node"),
        ((frame("Builtins_InterpreterEntryTrampoline", "/usr/bin/node"),), "Node"),
        ((frame("", "/usr/share/dotnet/libcoreclr.so"), frame("", "/memfd:doublemapper")), ".NET"),
        ((frame("work", "/usr/bin/server"), frame()), ""),
        ((frame(EVALUATES, "/usr/bin/python3.12"),), "Python"),
        ((frame(EVALUATES, "/usr/bin/python3.12"), frame("py::work:/srv/app.py", "/tmp/perf-7.map")), ""),
        ((frame(EVALUATES, "/usr/bin/python3.11"),), ""),
    ],
)
def test_how_code_gets_names(frames: tuple[rows.Frame, ...], language: str) -> None:
    found = without_names({7: frames})
    assert found == ({language: (7,)} if language else {})
    assert all(switch_on(name, (7,)) for name in found)


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


def from_functions(*functions: str, task: int = 1, wait_ns: int = 10) -> Calls:
    return Calls(task, functions, (), 10, wait_ns)


READ, WRITE = "pthread_rwlock_rdlock@@GLIBC_2.34", "pthread_rwlock_timedwrlock@GLIBC_2.2.5"


@pytest.mark.parametrize(
    ("address", "name", "whole"),
    [(4096 + 8, "table+0x8", "table"), (4096 + 12, "table+0x2c", "table+0x20"), (4096 + 12, "", ""), (4104, "x", "")],
)
def test_a_read_write_lock_is_one_by_its_functions(address: int, name: str, whole: str) -> None:
    words = [
        word(2, address, name, waits=(from_functions(READ, "get", wait_ns=30),)),
        word(3, address + (4 if address % 8 == 0 else -4), waits=(from_functions(WRITE, "put"),), wait_ns=MS),
    ]
    found = one(recognise(words, (), WINDOW))
    assert (found.make, found.lock, found.sure, found.name, found.words) == (RWLOCK, True, "high", whole, (2, 3))
    assert "25% of that to write and 75% to read" in found.why


def test_two_read_write_locks_side_by_side_are_two() -> None:
    words = [word(2, 4096 + 8, waits=(from_functions(READ),)), word(3, 4096 + 56 + 8, waits=(from_functions(WRITE),))]
    assert [one.words for one in recognise(words, (), WINDOW)] == [(2,), (3,)]


@pytest.mark.parametrize(
    ("offset", "function", "behind"),
    [
        # At the phase a writer waits for readers, and readers for a writer; at the last word writers for a writer.
        (8, WRITE, True),
        (8, READ, False),
        (12, WRITE, False),
    ],
)
def test_whether_writers_wait_for_readers(offset: int, function: str, behind: bool) -> None:
    """The wait of a writer that is never let in lasts to the end."""
    still = {"slept": 0, "calls": 0, "wait_ns": 0, "open_waits": 1, "open_ns": WINDOW, "oldest_ns": WINDOW}
    found = one(recognise([word(2, 4096 + offset, waits=(from_functions(function, "put"),), **still)], (), WINDOW))
    assert (found.make, found.lock, found.behind_readers) == (RWLOCK, True, behind)


def test_readers_that_let_writers_pass_wait_at_the_first_word() -> None:
    """PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP."""
    words = [
        word(2, 4096, waits=(from_functions(READ, "get"),)),
        word(3, 4096 + 8, waits=(from_functions(WRITE, "put"),)),
        word(4, 4096 + 12, waits=(from_functions(WRITE, "put"),)),
    ]
    found = one(recognise(words, (), WINDOW))
    assert (set(found.words), found.name, found.behind_readers) == ({2, 3, 4}, "", False)


LAST = tuple(from_functions("pthread_barrier_wait", "phase", "start_thread", task=task) for task in (4, 4, 4, 3))
AT_BARRIER = tuple(from_functions("pthread_barrier_wait", "phase", task=task) for task in (1, 2, 3))


def test_a_barrier_by_its_function_says_who_comes_last() -> None:
    found = one(recognise([word(2, 4100, "b+0x4", waits=AT_BARRIER, wakers_of=LAST)], (), WINDOW))
    assert (found.make, found.lock, found.sure, found.name) == (BARRIER, False, "high", "b")
    assert found.sites == (Site("phase", WINDOW, 40, 4, 0.75),)


@pytest.mark.parametrize(
    ("changed", "module", "make"),
    [
        ({}, "", ANY_BARRIER),
        ({}, "/usr/lib/libgomp.so.1.0.0", OPENMP_BARRIER),
        # Not all are woken; there may be nobody to wake: a lock that wakes all.
        ({"tasks_woken": 1800}, "", BEHAVIOUR),
        ({"wakes": 1200, "wakes_empty": 300}, "", BEHAVIOUR),
        # A dispatcher that wakes all its workers.
        ({"wakers": 1, "both": 0}, "", None),
    ],
)
def test_a_barrier_by_its_behaviour(changed: dict[str, int], module: str, make: str | None) -> None:
    waits = (Calls(1, ("work",), (module,), 10, 10),)
    figures: dict[str, Any] = PEERS | {"tasks_woken": 2700, "wait_ns": 2 * WINDOW, "waits": waits} | changed
    assert [one.make for one in recognise([word(2, 4096, **figures)], (2,), WINDOW)] == ([make] if make else [])


AT_STD_BARRIER = "std::__atomic_wait_address<std::__barrier_phase_t, std::__tree_barrier<std::__empty_completion>::wait"


@pytest.mark.parametrize("changed", [{"wakes": 1400, "wakes_empty": 500}, {"waiters": 3, "wakers": 1, "both": 0}])
def test_a_barrier_of_cxx_where_the_last_thread_hardly_waits(changed: dict[str, int]) -> None:
    """It may find nobody asleep yet, and be the only one that wakes."""
    waits = tuple(from_functions("syscall", AT_STD_BARRIER, "work", task=task) for task in (1, 2, 3))
    wakes = (from_functions("syscall", "std::barrier::arrive", "work", task=4),)
    figures: dict[str, Any] = PEERS | {"tasks_woken": 2700, "waits": waits, "wakers_of": wakes} | changed
    found = one(recognise([word(2, 4096, **figures)], (2,), WINDOW))
    assert (found.make, found.lock, found.sure) == (ANY_BARRIER, False, "high")
    assert [(site.function, site.last) for site in found.sites] == [("work", 4)]


@pytest.mark.parametrize(("still", "lock"), [(WINDOW * 5 // 10, True), (WINDOW * 9 // 10, False)])
def test_few_long_waits_for_a_lock_that_last_to_the_end(still: int, lock: bool) -> None:
    """A Semaphore that one thread takes again and again; or all threads sleep: a pool without work."""
    words = [
        replace(one, total=one.total._replace(open_waits=1, open_ns=still))
        for one in parked(PARK, (2, 3, 4), WINDOW // 10, slept=3)
    ]
    assert [found.lock for found in recognise(words, (), WINDOW)] == [True] * lock


def test_idle_threads_of_a_pool_of_python_pass_the_lock_of_its_queue_on() -> None:
    figures: dict[str, Any] = PEERS | {"wait_ns": 29 * WINDOW // 10}
    for function, make in (("_queue_SimpleQueue_get_impl", PY_QUEUE), ("lock_PyThread_acquire_lock", PY_LOCK)):
        calls = tuple(from_functions("sem_wait", "PyThread_acquire_lock_timed", function, task=t) for t in (1, 2, 3, 4))
        found = one(recognise([word(2, 4096, waits=calls, wakers_of=calls, **figures)], (2,), WINDOW))
        assert (found.make, found.lock, found.unclear) == (make, make == PY_LOCK, False)


def test_a_barrier_of_rust_and_its_mutex() -> None:
    """All that leave it at once queue for the mutex: that is no lock of the program's."""
    inside = ("<std::sync::barrier::Barrier>::wait", "part", "start_thread")
    mutex = tuple(
        from_functions("<std::sys::sync::mutex::futex::Mutex>::lock_contended", *inside, task=t) for t in (1, 2)
    )
    figures: dict[str, Any] = PEERS | {"wait_ns": 2 * WINDOW}
    words = [
        word(2, 4096, value_2=1000, waits=mutex, wakers_of=mutex, **figures),
        word(3, 4128, waits=(from_functions("syscall", *inside),), wakers_of=(from_functions("syscall", *inside),)),
    ]
    found = recognise(words, (), WINDOW, locks=(2,))
    assert [(one.make, one.lock, [site.function for site in one.sites]) for one in found] == [
        (ANY_BARRIER, False, []),
        (ANY_BARRIER, False, ["part"]),
    ]


LIBGOMP = "/usr/lib/x86_64-linux-gnu/libgomp.so.1.0.0"


def in_region(task: int, region: str = "main._omp_fn.0") -> Calls:
    """A call of stripped libgomp, by a thread of its team; '': by an idle one."""
    frames = [rows.Frame(1, "", 0, LIBGOMP)]
    frames += [rows.Frame(2, region, 0, "/srv/solve")] if region else []
    frames += [rows.Frame(3, "", 0, LIBGOMP), rows.Frame(4, "start_thread", 0, LIBC)]
    return Calls(task, tuple(frame.symbol for frame in frames if frame.symbol), (LIBGOMP,), 10, 10, tuple(frames))


@pytest.mark.parametrize(
    ("lies_in", "woken", "waits_in", "wakes_in", "make", "lock", "unclear"),
    [
        ("/srv/solve", 900, "main._omp_fn.0", "main._omp_fn.0", OPENMP_LOCK, True, False),
        ("[stack]", 900, "main._omp_fn.0", "main._omp_fn.0", OPENMP_LOCK, True, False),
        # A lock that one thread takes again and again, or tasks that it makes.
        ("[heap]", 900, "main._omp_fn.0", "main._omp_fn.0", OPENMP_LOCK, False, True),
        # One thread comes last each time.
        ("[heap]", 3 * 900, "main._omp_fn.0", "main._omp_fn.0", OPENMP_BARRIER, False, False),
        # Workers without a region; those of another one.
        ("[heap]", 3 * 900, "", "main", None, False, False),
        ("[heap]", 3 * 900, "main._omp_fn.0", "main._omp_fn.1", None, False, False),
    ],
)
def test_threads_of_openmp_of_which_one_never_waits(
    lies_in: str, woken: int, waits_in: str, wakes_in: str, make: str | None, lock: bool, unclear: bool
) -> None:
    waits = tuple(in_region(task, waits_in) for task in (1, 2, 3))
    figures: dict[str, Any] = {"waiters": 3, "wakers": 1, "wakes": 900, "tasks_woken": woken, "wait_ns": 3 * WINDOW}
    seen = word(2, 4096, waits=waits, wakers_of=(in_region(4, wakes_in),), **figures)
    seen = replace(seen, futex=seen.futex._replace(object=lies_in))
    found = recognise([seen], (), WINDOW)
    assert [(one.make, one.lock, one.unclear) for one in found] == ([(make, lock, unclear)] if make else [])
    if make == OPENMP_BARRIER:
        assert [(site.function, site.last, site.last_part) for site in found[0].sites] == [("main._omp_fn.0", 4, 1.0)]


@pytest.mark.parametrize(("name", "known"), [(".gomp_critical_user_totals", True), ("totals", False)])
def test_a_critical_section_that_its_function_jumps_out_of(name: str, known: bool) -> None:
    """tally() waits, and wakes as its caller's region: the lock's own name tells what it is."""
    waits = tuple(in_region(task, "tally") for task in (1, 2, 3))
    seen = word(2, 4096, name=name, waits=waits, wakers_of=(in_region(4),), waiters=3, wait_ns=3 * WINDOW)
    seen = replace(seen, futex=seen.futex._replace(object="/srv/solve"))
    assert [(one.make, one.sure) for one in recognise([seen], (), WINDOW)] == ([(OPENMP_LOCK, "high")] if known else [])


def test_one_word_of_a_condition_variable_is_known_by_its_function() -> None:
    waits = (from_functions("__futex_abstimed_wait_common", "pthread_cond_wait@@GLIBC_2.3.2", "serve"),)
    found = one(recognise([word(2, 4096, waits=waits)], (), WINDOW))
    assert (found.make, found.lock) == (CONDITION_VARIABLE, False)
    # A poll is called so.
    assert recognise([word(2, 4096, waits=waits, timed_out=900)], (), WINDOW) == ()


@pytest.mark.parametrize(
    ("queueing", "elsewhere", "unclear"),
    [
        # Whoever of the four has the lock waits for a job.
        (3 * WINDOW - WINDOW // 100, WINDOW - WINDOW // 100, True),
        # They work half of the time; two wait elsewhere at once; the holder works.
        (2 * WINDOW, WINDOW // 2, False),
        (2 * WINDOW, 2 * WINDOW, False),
        (3 * WINDOW - WINDOW // 100, WINDOW // 10, False),
    ],
)
def test_a_lock_whose_holder_waits_for_work(queueing: int, elsewhere: int, unclear: bool) -> None:
    at_lock = tuple(from_functions("lock_contended", "next_job", task=task) for task in (1, 2, 3, 4))
    jobs = [
        word(2 + task, 8192 * task, wait_ns=elsewhere // 2, waits=(from_functions("recv", task=task),))
        for task in (1, 2)
    ]
    lock = word(2, 4096, wait_ns=queueing, value_2=1000, waits=at_lock)
    found = recognise([lock, *jobs], (), WINDOW, locks=(2,))
    assert [(one.words, one.lock, one.unclear) for one in found] == ([((2,), False, True)] if unclear else [])


def test_a_rust_mutex_is_one_by_its_function() -> None:
    waits = tuple(
        from_functions("syscall", "<std::sys::sync::mutex::futex::Mutex>::lock_contended", task=task)
        for task in (1, 2, 3, 4)
    )
    figures: dict[str, Any] = PEERS | {"wait_ns": 2 * WINDOW, "waits": waits, "wakers_of": waits}
    found = one(recognise([word(2, 4096, **figures)], (), WINDOW, locks=(2,)))
    assert (found.make, found.lock, found.sure) == (RUST_MUTEX, True, "high")


def test_goroutines_that_nobody_followed_are_spoken_of() -> None:
    unlock = ("runtime.futex", "runtime.ready", "internal/sync.(*Mutex).unlockSlow", "main.work")
    timer = ("runtime.futex", "runtime.wakep", "runtime.sysmon")

    def process(unlocks: int, **figures: Any) -> list[Seen]:
        return [
            word(
                2, 4096, comm="api", wakers_of=(Calls(1, unlock, (), unlocks, 0), Calls(2, timer, (), 90, 0)), **figures
            )
        ]

    assert unseen_goroutines(process(30), WINDOW) == (Goroutines("api", 7, 30),)
    # It was followed, and none waited for a mutex.
    assert unseen_goroutines(process(30), WINDOW, followed=1) == ()
    # Of a busy program nobody knows; an idle one has none that wait.
    per_second = WINDOW // 1_000_000_000
    assert unseen_goroutines(process(3, slept=20 * per_second), WINDOW) == (Goroutines("api", 7, 0),)
    assert unseen_goroutines(process(3, slept=20 * per_second - 1), WINDOW) == ()
    assert unseen_goroutines(process(30, ops=1 << 24), WINDOW) == ()


def test_other_run_times_have_no_goroutines() -> None:
    waits = (Calls(1, ("futex_wait", "pthread_cond_wait", "main.work"), (), 900, 0),)
    assert unseen_goroutines([word(2, 4096, slept=10_000, waits=waits)], WINDOW) == ()


SEND = ("syscall", "std::thread::park", "std::sync::mpmc::array::Channel<T>::send", "load::publish")


@pytest.mark.parametrize(("wait_ns", "lock"), [(WINDOW * 9 // 10, True), (WINDOW // 4, False)])
def test_threads_that_send_to_a_full_channel(wait_ns: int, lock: bool) -> None:
    """The receiver wakes them, and waits elsewhere; few that wait may have nobody who wants more."""
    (known,) = recognise(parked(SEND, (9,), wait_ns), set(), WINDOW)
    assert (known.make, known.lock, known.unclear) == (RUST_CHANNEL, lock, not lock)


PACKAGE = "java.util.concurrent"
PUT = ("Parker::park", "Unsafe_Park", "LockSupport.park", "ConditionObject.await", f"{PACKAGE}.ArrayBlockingQueue.put")
PUT_LOCK = (
    "Parker::park",
    "Unsafe_Park",
    "LockSupport.park",
    "ReentrantLock.lockInterruptibly",
    f"{PACKAGE}.ArrayBlockingQueue.put",
)
PUT_OWN = (*PUT[:-1], "com.example.RetryBlockingQueue.put")
ADD = ("Parker::park", "Unsafe_Park", "LockSupport.park", "ReentrantLock.lock", f"{PACKAGE}.PriorityBlockingQueue.put")


@pytest.mark.parametrize(
    ("functions", "wait_ns", "make", "lock"),
    [
        (PUT, WINDOW * 9 // 10, JAVA_QUEUE, True),
        (PUT, WINDOW // 4, JAVA_QUEUE, False),
        (PUT_LOCK, WINDOW * 9 // 10, None, None),
        (ADD, WINDOW * 9 // 10, None, None),
        (PUT_OWN, WINDOW * 9 // 10, None, None),
    ],
)
def test_threads_that_put_into_a_full_queue(
    functions: tuple[str, ...], wait_ns: int, make: str | None, lock: bool | None
) -> None:
    """Who takes wakes them.  A queue's own lock is another matter, and one without bounds is never full."""
    found = [known for known in recognise(parked(functions, (9,), wait_ns), set(), WINDOW) if known.make == JAVA_QUEUE]
    assert [(known.make, known.lock, known.unclear) for known in found] == ([(make, lock, not lock)] if make else [])


def test_both_words_of_a_rwlock_of_rust() -> None:
    """Readers wait at one, writers at the next."""
    waits = ("syscall", "<std::sys::sync::rwlock::futex::RwLock>::read_contended")
    readers, writers, third = parked(waits, (2, 3, 4))
    near = writers.futex._replace(address=readers.futex.address + 4)
    words = [replace(readers, waits=readers.waits + third.waits), replace(writers, futex=near)]
    (known,) = recognise(words, set(), WINDOW)
    assert (known.make, known.lock, len(known.words)) == (RUST_RWLOCK, True, 2)


@pytest.mark.parametrize(
    ("make", "waiting", "claim"),
    [
        (GIL, 0.27, "gil-at-times"),
        (GIL, 2.0, "gil-bound"),
        (RUBY_GVL, 0.2, "gvl-at-times"),
        (RUBY_GVL, 0.5, "gvl-bound"),
    ],
)
def test_a_program_that_hardly_waits_is_not_bound(make: str, waiting: float, claim: str) -> None:
    """That threads wait for the lock is as sure; that it holds the program back is not said."""
    seen = word(1, 4096)
    futex = FutexWaits(seen.futex, seen.total, LOCK, "", NO_FIGURES, NO_FIGURES, make=make)
    told = _claim(futex, Process("app", 7), UserLock("gil", ""), None, None, waiting)
    assert told.what == claim
    assert "bound" in fact_words(told) if claim.endswith("bound") else "at times" in fact_words(told)
