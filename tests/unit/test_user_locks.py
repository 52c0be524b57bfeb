# SPDX-License-Identifier: GPL-2.0-or-later
"""What kind of lock a program's futexes are: rows as the locks of each make leave them."""

from typing import Any

import pytest

from lockline.analysis.run_times import switch_on, without_names
from lockline.analysis.user_locks import (
    BEHAVIOUR,
    CONDITION_VARIABLE,
    GIL,
    GO_MUTEX,
    JAVA_LOCK,
    MONITOR,
    PY_MUTEX,
    Calls,
    Recognised,
    Seen,
    recognise,
)
from lockline.recording import rows

MS = 1_000_000
WINDOW = 1000 * MS
BITSET = 1 << 9


def word(futex: int, address: int, name: str = "", comm: str = "server", **figures: Any) -> Seen:
    """A word of process 7 that threads slept at for as long as the window, once each ms, but for what is named."""
    waits, wakes = figures.pop("waits", ()), figures.pop("wakers_of", ())
    values: dict[str, Any] = dict.fromkeys(rows.FutexTotal._fields, 0)
    values |= {"futex": futex, "ops": BITSET | 2, "histogram": b"", "latency_histogram": b""}
    values |= {"calls": 1000, "slept": 1000, "wait_ns": WINDOW} | figures
    total = rows.FutexTotal(**values)
    return Seen(rows.Futex(futex, 7, comm, address, 0, name, ""), total, waits, wakes)


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


def test_take_gil_tells_the_gil_of_a_sub_interpreter() -> None:
    waits = (Calls(1, ("futex_abstimed_wait_cancelable", "take_gil", "PyEval_RestoreThread"), (), 10, 10),)
    found = one(recognise([word(2, 4096, comm="uwsgi", timed=1000, waits=waits)], (), WINDOW))
    assert (found.make, found.sure) == (GIL, "high")


@pytest.mark.parametrize(
    ("changed", "contended"),
    [
        ({}, True),
        # Two threads that take turns.
        ({"wait_ns": WINDOW}, False),
        # A dispatcher, a barrier, a poll; so many threads that their hashes tell nothing.
        ({"wakers": 1, "both": 0}, False),
        ({"wakers": 5, "both": 3}, False),
        ({"tasks_woken": 2700}, False),
        ({"timed_out": 500}, False),
        ({"waiters": 120, "wakers": 120, "both": 120}, False),
    ],
)
def test_threads_that_wake_each_other_one_at_a_time_contend(changed: dict[str, int], contended: bool) -> None:
    found = recognise([word(2, 4096, **(PEERS | {"wait_ns": 3 * WINDOW} | changed))], (2,), WINDOW)
    assert [(one.make, one.lock, one.sure) for one in found] == ([(BEHAVIOUR, True, "medium")] if contended else [])


def test_a_word_whose_nature_is_clear_is_left_alone() -> None:
    assert recognise([word(2, 4096, **(PEERS | {"wait_ns": 3 * WINDOW}))], (), WINDOW) == ()


def test_the_words_of_a_condition_variable_are_one() -> None:
    found = one(recognise([word(2, 4096), word(3, 4100, wait_ns=2 * WINDOW)], (), WINDOW))
    assert (found.make, found.lock, found.words) == (CONDITION_VARIABLE, False, (3, 2))
    # Neither two that are eight bytes apart, nor a mutex beside a word.
    assert recognise([word(2, 4100), word(3, 4104)], (), WINDOW) == ()
    assert recognise([word(2, 4096), word(3, 4100, value_2=5)], (), WINDOW) == ()


def parked(functions: tuple[str, ...], wakers: tuple[int, ...], wait_ns: int = WINDOW) -> list[Seen]:
    """Three threads, each on a word of its own; wakers by task."""
    return [
        word(
            number,
            4096 * number,
            wait_ns=wait_ns,
            waits=(Calls(number, functions, (), 10, 10),),
            wakers_of=tuple(Calls(task, (), (), 5, 0) for task in wakers if task != number),
        )
        for number in (2, 3, 4)
    ]


ENTER = ("PlatformEvent::park", "ObjectMonitor::EnterI", "ObjectMonitor::enter", "Threads.underMonitor")
WAIT = ("PlatformEvent::park", "ObjectMonitor::wait", "JVM_MonitorWait")
PARK = ("Parker::park", "Unsafe_Park", "LockSupport.park", "ReentrantLock.lock")
TAKE = ("Parker::park", "Unsafe_Park", "LinkedBlockingQueue.take")
PY_LOCK = ("_PySemaphore_Wait", "_PyParkingLot_Park", "_PyMutex_LockTimed")


@pytest.mark.parametrize(
    ("words", "make"),
    [
        (parked(ENTER, (2, 3, 4)), MONITOR),
        (parked(("_ZN13ObjectMonitor6EnterIEP10JavaThread",), (2, 3, 4)), MONITOR),
        (parked(WAIT, (2, 3, 4)), None),
        (parked(PARK, (2, 3, 4)), JAVA_LOCK),
        # Workers without names that another thread wakes; the same by name; and a lock that is hardly waited for.
        (parked(PARK[:2], (9,)), None),
        (parked(TAKE, (2, 3, 4)), None),
        (parked(PARK, (2, 3, 4), WINDOW // 10), None),
        (parked(PY_LOCK, (2, 3, 4)), PY_MUTEX),
        (parked(PY_LOCK, (9,)), None),
    ],
)
def test_threads_that_park_on_words_of_their_own(words: list[Seen], make: str | None) -> None:
    found = recognise(words, (), WINDOW)
    assert [one.make for one in found] == ([make] if make else [])
    if make:
        assert found[0].words == (2, 3, 4)


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
    figures: dict[str, Any] = {"value_2": 60, "owners": 20, "wait_ns": WINDOW // 8} | changed
    found = recognise([word(2, 4096, waits=waits, **figures)], (), WINDOW)
    assert [(one.make, one.lock, bool(one.why)) for one in found] == (
        [(CONDITION_VARIABLE, False, True)] if idle else []
    )


def frame(symbol: str = "", module: str = "[anon]") -> rows.Frame:
    return rows.Frame(4096, symbol, 0, module)


JVM = frame("Unsafe_Park", "/usr/lib/jvm/java-17/lib/server/libjvm.so")
EVALUATES = "_PyEval_EvalFrameDefault"


@pytest.mark.parametrize(
    ("frames", "language"),
    [
        ((JVM, frame()), "Java"),
        ((JVM, frame("void Threads.work()", "/tmp/perf-7.map")), ""),
        ((frame("uv_run", "/usr/bin/node"), frame()), "Node"),
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
