# SPDX-License-Identifier: GPL-2.0-or-later
"""Threads that wait by sched_yield(): what they wait for, where that can be told."""

from dataclasses import replace
from typing import Any

import pytest

from lockline.analysis.user_space.futex_waits import SPIN, nature
from lockline.analysis.user_space.hidden_waits import HiddenWaits, hidden_waits
from lockline.analysis.user_space.user_evidence import (
    ANY_BARRIER,
    BEHAVIOUR,
    OPENMP_BARRIER,
    OPENMP_LOCK,
    PARKING_LOT,
    RUST_CHANNEL,
    TBB_MUTEX,
    YIELD_OP,
    Calls,
    Seen,
)
from lockline.analysis.user_space.user_locks import recognise
from lockline.base.c_library import is_atomics_word
from lockline.recording import rows
from user_words import LIBC, MS, WINDOW, word

LIBOMP = "/usr/lib/llvm-14/lib/libomp.so.5"
PROGRAM = "/srv/solve"


def calls_from(*functions: str, module: str = PROGRAM, task: int = 1, leaf: str = "__sched_yield") -> Calls:
    """A call of one thread, by way of the C library."""
    frames = (rows.Frame(1, leaf, 0, LIBC), *(rows.Frame(2, name, 0, module) for name in functions))
    return Calls(task, (leaf, *functions), (LIBC, module), 10, 10 * MS, frames)


def by_four(*functions: str) -> list[Calls]:
    """The same of four threads."""
    return [calls_from(*functions, task=task) for task in (1, 2, 3, 4)]


def java_frames(*methods: str) -> tuple[rows.Frame, ...]:
    """Methods of java.util.concurrent."""
    return tuple(rows.Frame(2, f"java.util.concurrent.{name}", 0, "[java]") for name in methods)


def yields(*waits: Calls, **figures: Any) -> Seen:
    """The row of a process that yields."""
    return word(90, 1, **{"ops": YIELD_OP, "wait_ns": 3 * WINDOW, "waiters": 4, "waits": waits} | figures)


def lock_word(*functions: str, address: int = 4096, id_: int = 2, shared: int = 0, **changed: int) -> Seen:
    """A word that three threads sleep at and wake each other, hardly ever: they spin before."""
    waits = tuple(calls_from(*functions, task=task, leaf="syscall") for task in (1, 2, 3))
    wakes = tuple(Calls(task, (), (), 10, 0) for task in (1, 2, 3))
    peers = {"waiters": 3, "wakers": 3, "both": 3, "wakes": 900, "tasks_woken": 30, "wakes_empty": 870} | changed
    return word(id_, address, shared=shared, wait_ns=10 * MS, waits=waits, wakers_of=wakes, **peers)


def test_yields_alone_are_spinning_that_no_futex_explains() -> None:
    spun = yields(calls_from("take"))
    assert nature(spun.total)[0] == SPIN
    assert recognise([spun], (), WINDOW) == ()
    assert hidden_waits([spun], (), {}, WINDOW) == (HiddenWaits("spin", "server", 7, 3.0, "take"),)
    # A known lock keeps its own row; a thread that yields now and then is nothing.
    assert hidden_waits([spun], {90}, {}, WINDOW) == ()
    assert hidden_waits([yields(calls_from("take"), wait_ns=MS)], (), {}, WINDOW) == ()
    # Each returns at once, as nobody else wants the CPU: no time, and threads spin all the same.
    busy = yields(calls_from("take"), wait_ns=MS, calls=1_000_000)
    assert [one.kind for one in hidden_waits([busy], (), {}, WINDOW)] == ["spin"]


def test_threads_spin_in_the_programs_own_function() -> None:
    """A run time yields for it; where all is the run time's, its function is told."""
    frames = (rows.Frame(1, "JVM_Yield", 0, "/usr/lib/jvm/lib/server/libjvm.so"), *java_frames("Exchanger.exchange"))
    leaf = rows.Frame(1, "__sched_yield", 0, LIBC)
    spun = replace(calls_from(), frames=(leaf, *frames, rows.Frame(2, "App.swap", 0, "[java]")))
    assert [one.function for one in hidden_waits([yields(spun)], (), {}, WINDOW)] == ["App.swap"]
    spun = replace(spun, frames=(leaf, *frames))
    assert [one.function for one in hidden_waits([yields(spun)], (), {}, WINDOW)] == ["JVM_Yield"]


def test_cxx_yields_in_one_function_of_its_library_and_sleeps_in_another() -> None:
    """As std::atomic::wait() does (bits/atomic_wait.h)."""
    spun = yields(*by_four("std::__detail::__atomic_spin<>", "acquire", "run"))
    slept = lock_word("std::__detail::__platform_wait<int>", "acquire", "run")
    (known,) = recognise([spun, slept], (2,), WINDOW)
    assert (known.words, known.make, known.lock) == ((2, 90), BEHAVIOUR, True)


@pytest.mark.parametrize(
    ("others", "rows_"),
    [
        # libstdc++ calls the barrier's futex shared.
        ([], [(2, 90)]),
        # Which of two barriers they yield at, nobody knows.
        ([3], [(2,), (3,), (90,)]),
    ],
)
def test_threads_yield_at_a_barrier_before_they_sleep_there(others: list[int], rows_: list[tuple[int, ...]]) -> None:
    wait = "std::__tree_barrier<std::__empty_completion>::wait"
    slept = [lock_word(wait, "phase", address=4096 * id_, id_=id_, shared=1) for id_ in (2, *others)]
    found = recognise([yields(*by_four(wait, "phase")), *slept], (), WINDOW)
    assert sorted(one.words for one in found) == rows_
    assert {one.make for one in found} == {ANY_BARRIER}
    assert sum(site.wait_ns for one in found for site in one.sites) == 3 * WINDOW + 10 * MS * len(slept)


@pytest.mark.parametrize("shared", [0, 1])
def test_who_yields_and_sleeps_in_one_function_waits_for_one_lock(shared: int) -> None:
    """As for a semaphore of C++20, whose futex libstdc++ calls shared."""
    spun, slept = yields(*by_four("std::__wait", "run")), lock_word("std::__wait", "run", shared=shared)
    (known,) = recognise([spun, slept], (2,), WINDOW)
    assert (known.words, known.make, known.lock) == ((2, 90), BEHAVIOUR, True)


def test_where_threads_wait_for_two_words_in_one_function_no_one_has_the_yields() -> None:
    words = [yields(calls_from("wait")), lock_word("wait"), lock_word("wait", address=8192, id_=3)]
    assert recognise(words, (2, 3), WINDOW) == ()
    elsewhere = [yields(calls_from("other")), lock_word("wait")]
    assert recognise(elsewhere, (2,), WINDOW) == ()


@pytest.mark.parametrize(
    ("function", "make"),
    [
        ("parking_lot::raw_mutex::RawMutex::lock_slow", PARKING_LOT),
        ("crossbeam_channel::flavors::array::Channel<T>::send", RUST_CHANNEL),
    ],
)
def test_yields_of_makes_that_are_known_by_their_functions(function: str, make: str) -> None:
    (known,) = recognise([yields(*by_four(function)), lock_word(function)], (), WINDOW)
    assert (known.make, known.lock, set(known.words)) == (make, True, {2, 90})


@pytest.mark.parametrize(("spins", "joined"), [("take", True), ("run", False), ("", False)])
def test_what_a_header_puts_into_the_program_spins_and_calls_the_library_to_sleep(spins: str, joined: bool) -> None:
    """As a mutex of TBB: the yields are the lock's, where they come from the function that also sleeps."""
    names = (("syscall", LIBC), ("tbb::detail::r1::wait_on_address", "/usr/lib/libtbb.so.12"))
    frames = tuple(rows.Frame(1, name, 0, module) for name, module in (*names, ("take", PROGRAM), ("run", PROGRAM)))
    functions = tuple(frame.symbol for frame in frames)
    slept = [
        word(
            task,
            4096 * task,
            value_2=1000,
            waits=(Calls(task, functions, (), 10, 10 * MS, frames),),
            wakers_of=tuple(Calls(other, (), (), 5, 0) for other in (1, 2, 3) if other != task),
            wait_ns=WINDOW * 6 // 10,
        )
        for task in (1, 2, 3)
    ]
    spun = yields(*(calls_from(spins, "run", task=task) for task in (1, 2, 3)), wait_ns=100 * MS)
    (known,) = recognise([*slept, spun], (), WINDOW)
    assert (known.make, known.lock, set(known.words)) == (TBB_MUTEX, True, {1, 2, 3, *([90] if joined else [])})


@pytest.mark.parametrize(
    ("function", "make", "lock"),
    [
        ("__kmpc_critical_with_hint", OPENMP_LOCK, True),
        ("__kmpc_set_lock", OPENMP_LOCK, True),
        ("__kmpc_barrier", OPENMP_BARRIER, False),
        # Workers between two regions.
        ("__kmp_fork_barrier", None, False),
    ],
)
def test_threads_of_llvms_openmp_yield(function: str, make: str | None, lock: bool) -> None:
    frames = (
        rows.Frame(1, "__sched_yield", 0, LIBC),
        rows.Frame(2, "__kmp_wait_4", 0, LIBOMP),
        rows.Frame(3, function, 0, LIBOMP),
        rows.Frame(4, ".omp_outlined.", 0, PROGRAM),
    )
    call = Calls(1, tuple(frame.symbol for frame in frames), (LIBC, LIBOMP, PROGRAM), 10, 10 * MS, frames)
    found = recognise([yields(call)], (), WINDOW)
    assert [(one.make, one.lock) for one in found] == ([(make, lock)] if make else [])
    if make == OPENMP_BARRIER:
        # They are woken by chains: nobody is said to come last.
        assert [(site.function, site.rounds) for site in found[0].sites] == [(".omp_outlined.", 0)]


def test_who_yields_before_it_sleeps_without_work_is_idle() -> None:
    """As at a semaphore of C++20, on a machine without a free CPU."""
    spun = yields(*by_four("std::__wait", "run"), wait_ns=2 * WINDOW)
    slept = lock_word("std::__wait", "run", both=0, wakers=1)
    (known,) = recognise([spun, slept], (), WINDOW)
    assert (known.words, known.lock, known.unclear) == ((2, 90), False, False)
    assert hidden_waits([spun, slept], known.words, {}, WINDOW) == ()
    # Each yield returns at once: threads burn CPUs, whatever they wait for.
    spun = yields(*by_four("std::__wait", "run"), calls=1_000_000)
    assert recognise([spun, slept], (), WINDOW) == ()


def test_all_who_sleep_are_woken_where_others_still_yield() -> None:
    """A barrier, or a lock that wakes all: one wakes three of three others."""
    spun = yields(*by_four("std::__wait", "run"))
    slept = lock_word("std::__wait", "run", waiters=4, wakers=4, both=4, tasks_woken=90, wakes_empty=870)
    (known,) = recognise([spun, slept], (2,), WINDOW)
    assert (known.words, known.lock, known.unclear) == ((2, 90), False, True)
    assert "a barrier, or a lock that wakes all" in known.why


THREAD = "std::thread::_State_impl<std::thread::_Invoker<std::tuple<main::{lambda()#4}> > >::_M_run"


def test_a_lambda_that_a_thread_runs_is_the_programs() -> None:
    """It has no frame of its own, and its file is not the library's."""
    (found,) = hidden_waits([yields(*by_four("std::__wait", THREAD))], (), {}, WINDOW)
    assert found.function == "main::{lambda()#4}"
    library = yields(calls_from("std::__wait", THREAD, module="/usr/lib/x86_64-linux-gnu/libstdc++.so.6"))
    assert [one.function for one in hidden_waits([library], (), {}, WINDOW)] == [""]


def test_words_of_the_cxx_library_at_which_threads_wait_for_atomics() -> None:
    assert is_atomics_word("std::__detail::__waiter_pool_base::_S_for(void const*)::__w+0x140")
    assert is_atomics_word("__libcpp_contention_table+0x80")
    assert not is_atomics_word("jobs+0x40")
