# SPDX-License-Identifier: GPL-2.0-or-later
"""Read-write locks, barriers and condition variables, by the functions that wait there."""

from dataclasses import replace
from typing import Any

import pytest

from lockline.analysis.user_space.user_evidence import (
    ANY_BARRIER,
    BARRIER,
    BEHAVIOUR,
    CONDITION_VARIABLE,
    OPENMP_BARRIER,
    RUST_RWLOCK,
    RWLOCK,
    Calls,
    Site,
)
from lockline.analysis.user_space.user_locks import recognise
from user_words import MS, PEERS, WINDOW, from_functions, one, parked, word

READ, WRITE = "pthread_rwlock_rdlock@@GLIBC_2.34", "pthread_rwlock_timedwrlock@GLIBC_2.2.5"


LAST = tuple(from_functions("pthread_barrier_wait", "phase", "start_thread", task=task) for task in (4, 4, 4, 3))


AT_BARRIER = tuple(from_functions("pthread_barrier_wait", "phase", task=task) for task in (1, 2, 3))


AT_STD_BARRIER = "std::__atomic_wait_address<std::__barrier_phase_t, std::__tree_barrier<std::__empty_completion>::wait"


def test_the_words_of_a_condition_variable_are_one() -> None:
    found = one(recognise([word(2, 4096), word(3, 4100, wait_ns=2 * WINDOW)], (), WINDOW))
    assert (found.make, found.lock, found.words) == (CONDITION_VARIABLE, False, (3, 2))
    # Also where they pass a 2, as since glibc 2.41; neither two that are eight bytes apart, nor a mutex beside a word.
    found = one(recognise([word(2, 4096, value_2=1), word(3, 4100)], (), WINDOW))
    assert (found.make, found.words) == (CONDITION_VARIABLE, (2, 3))
    assert recognise([word(2, 4100), word(3, 4104)], (), WINDOW) == ()
    assert recognise([word(2, 4096), word(3, 4100, value_2=1000)], (), WINDOW) == ()


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


@pytest.mark.parametrize(
    ("wait_ns", "wakers", "make"),
    [
        # As recorded of a semaphore of Perl: 18.4 s of six threads, 5 of which each wake-up wakes.
        (9 * WINDOW // 2, (1, 2, 3, 4, 5, 6), BEHAVIOUR),
        # They all work at once, at times; one of them comes last, and keeps all others waiting.
        (4 * WINDOW, (1, 2, 3, 4, 5, 6), ANY_BARRIER),
        (9 * WINDOW // 2, (1,), ANY_BARRIER),
    ],
)
def test_all_are_woken_and_one_goes_on_as_at_no_barrier(wait_ns: int, wakers: tuple[int, ...], make: str) -> None:
    """Each of them in turn wakes all others, while these are asleep nearly all the time: one works at a time."""
    six: dict[str, Any] = {"waiters": 6, "wakers": 6, "both": 6, "wakes": 900, "tasks_woken": 4500}
    waits = tuple(from_functions("pthread_cond_wait", task=task) for task in range(1, 7))
    wakes = tuple(from_functions("pthread_cond_broadcast", task=task) for task in wakers)
    words = [word(2 + at, 4096 + 4 * at, wait_ns=wait_ns // 2, waits=waits, wakers_of=wakes, **six) for at in range(2)]
    found = one(recognise(words, (2, 3), WINDOW))
    assert (found.make, found.lock, found.words) == (make, make == BEHAVIOUR, (2, 3))


@pytest.mark.parametrize(("brought", "asleep", "idle"), [(30, 0.99, True), (5, 0.99, False), (30, 0.7, False)])
def test_workers_that_pass_jobs_on_may_be_idle(brought: int, asleep: float, idle: bool) -> None:
    """Six at a queue of Perl: who takes a job wakes the next, and the thread that brings jobs never waits there.

    Six behind one that hogs a lock look the same.
    """
    waits = tuple(from_functions("syscall", "next_job", task=task) for task in range(1, 7))
    wakes = (Calls(9, (), (), brought, 0), *(Calls(task, (), (), 3, 0) for task in range(1, 7)))
    six: dict[str, Any] = {"waiters": 6, "wakers": 7, "both": 6, "wakes": 900, "tasks_woken": 900}
    words = [word(2, 4096, wait_ns=round(6 * asleep * WINDOW), waits=waits, wakers_of=wakes, **six)]
    found = recognise(words, (2,), WINDOW)
    assert [(one.lock, one.unclear, one.make) for one in found if one.why] == [(False, True, "")] * idle


@pytest.mark.parametrize("changed", [{"wakes": 1400, "wakes_empty": 500}, {"waiters": 3, "wakers": 1, "both": 0}])
def test_a_barrier_of_cxx_where_the_last_thread_hardly_waits(changed: dict[str, int]) -> None:
    """It may find nobody asleep yet, and be the only one that wakes."""
    waits = tuple(from_functions("syscall", AT_STD_BARRIER, "work", task=task) for task in (1, 2, 3))
    wakes = (from_functions("syscall", "std::barrier::arrive", "work", task=4),)
    figures: dict[str, Any] = PEERS | {"tasks_woken": 2700, "waits": waits, "wakers_of": wakes} | changed
    found = one(recognise([word(2, 4096, **figures)], (2,), WINDOW))
    assert (found.make, found.lock, found.sure) == (ANY_BARRIER, False, "high")
    assert [(site.function, site.last) for site in found.sites] == [("work", 4)]


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


def test_one_word_of_a_condition_variable_is_known_by_its_function() -> None:
    waits = (from_functions("__futex_abstimed_wait_common", "pthread_cond_wait@@GLIBC_2.3.2", "serve"),)
    found = one(recognise([word(2, 4096, waits=waits)], (), WINDOW))
    assert (found.make, found.lock) == (CONDITION_VARIABLE, False)
    # A poll is called so.
    assert recognise([word(2, 4096, waits=waits, timed_out=900)], (), WINDOW) == ()


def test_both_words_of_a_rwlock_of_rust() -> None:
    """Readers wait at one, writers at the next."""
    waits = ("syscall", "<std::sys::sync::rwlock::futex::RwLock>::read_contended")
    readers, writers, third = parked(waits, (2, 3, 4))
    near = writers.futex._replace(address=readers.futex.address + 4)
    words = [replace(readers, waits=readers.waits + third.waits), replace(writers, futex=near)]
    (known,) = recognise(words, set(), WINDOW)
    assert (known.make, known.lock, len(known.words)) == (RUST_RWLOCK, True, 2)


def test_a_rwlock_of_rust_whose_writer_never_waits() -> None:
    """It holds all readers up, and wakes them."""
    inside = ("syscall", "<std::sys::sync::rwlock::futex::RwLock>::read_contended", "find")
    waits = tuple(from_functions(*inside, task=task) for task in (1, 2, 3))
    wakes = (from_functions("syscall", "reload", task=4),)
    figures: dict[str, Any] = {"waiters": 3, "wakers": 1, "both": 0, "wakes": 300, "tasks_woken": 900}
    found = one(recognise([word(2, 4096, waits=waits, wakers_of=wakes, **figures)], (), WINDOW))
    assert (found.make, found.lock, found.sure) == (RUST_RWLOCK, True, "high")
