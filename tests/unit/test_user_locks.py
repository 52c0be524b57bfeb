# SPDX-License-Identifier: GPL-2.0-or-later
"""What kind of lock a program's futexes are: rows as the locks of each make leave them."""

from dataclasses import replace
from typing import Any

import pytest

from lockline.analysis.user_space.user_evidence import (
    BEHAVIOUR,
    CONDITION_VARIABLE,
    PY_LOCK,
    PY_QUEUE,
    RUST_MUTEX,
    YIELD_OP,
    Calls,
    Seen,
)
from lockline.analysis.user_space.user_locks import recognise
from lockline.recording import rows
from user_words import LIBC, MS, PARK, PEERS, WINDOW, from_functions, one, parked, word


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


@pytest.mark.parametrize(
    ("functions", "changed", "idle"),
    [
        (("__pthread_mutex_cond_lock", "pthread_cond_timedwait@@GLIBC_2.3.2", "CompileQueue::get"), {}, True),
        # Where the C library has no names of its own functions but those that it exports.
        (("pthread_cond_wait@@GLIBC_2.3.2", "next_job"), {}, True),
        # A run time's own threads, and a thread that has work for them.
        (("__pthread_mutex_lock", "uv_mutex_lock", "node::(anonymous namespace)::PlatformWorkerThread"), {}, True),
        (("__pthread_mutex_lock", "uv_mutex_lock", "node::NodePlatform::CallOnWorkerThread"), {}, True),
        (("__pthread_mutex_lock", "uv_mutex_lock", "addon::post"), {}, False),
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


def _at(task: int, *functions: str) -> Calls:
    """A wait with the frames of its stack."""
    return Calls(task, functions, (), 10, 10, tuple(rows.Frame(n, name, 0, "") for n, name in enumerate(functions)))


@pytest.mark.parametrize(
    ("function", "elsewhere", "slept_on", "unclear"),
    [
        # A Mutex<Receiver> of Rust, eight workers: 3.3 waited for it, 0.98 in recv(), half of them worked.
        ("next_job", WINDOW - WINDOW // 50, 0, True),
        # In another function; seldom; two at once at times; until the time is up.
        ("ask", WINDOW - WINDOW // 50, 0, False),
        ("next_job", WINDOW // 2, 0, False),
        ("next_job", WINDOW + WINDOW // 10, 0, False),
        ("next_job", WINDOW - WINDOW // 50, 900, False),
    ],
)
def test_workers_in_line_behind_the_one_that_waits_for_work(
    function: str, elsewhere: int, slept_on: int, unclear: bool
) -> None:
    """Others work meanwhile.  Those who wait for a lock one after the other, in the function that takes it, have it."""
    threads = range(1, 9)
    lock = word(
        20, 4096, wait_ns=33 * WINDOW // 10, value_2=1000, waits=tuple(_at(t, "futex", "next_job") for t in threads)
    )
    jobs = [
        word(t, 8192 * t, wait_ns=elsewhere // 8, timed_out=slept_on, waits=(_at(t, "futex", "recv", function),))
        for t in threads
    ]
    found = recognise([lock, *jobs], (), WINDOW, locks=(20,))
    assert [one.words for one in found if one.unclear] == ([(20,)] if unclear else [])


RUST_THREAD = "std::sys::backtrace::__rust_begin_short_backtrace"


def test_workers_whose_function_is_part_of_the_one_that_runs_it() -> None:
    """As a closure of Rust is: 20.5 s of waits in 4 s for the Mutex of the Receiver, 3.4 in recv(), eight workers."""
    threads = range(1, 9)
    at_lock = tuple(_at(t, "futex", RUST_THREAD) for t in threads)
    lock = word(20, 4096, wait_ns=5 * WINDOW, value_2=1000, waits=at_lock)
    jobs = [word(t, 8192 * t, wait_ns=WINDOW * 9 // 80, waits=(_at(t, "futex", "recv", RUST_THREAD),)) for t in threads]
    found = recognise([lock, *jobs], (), WINDOW, locks=(20,))
    assert [one.words for one in found if one.unclear] == [(20,)]


@pytest.mark.parametrize(
    ("lock_stack", "ask_stack", "slept", "idle"),
    [
        # Six threads share a connection behind a mutex: 12.6 s of waits in 4 s, and who answers slept for 0.45 s.
        (("query", "work"), ("send", "query", "work"), 0.11, False),
        # Workers who give their results to who hands out jobs, once they have let go; where the stacks do not tell.
        (("next_job", "work"), ("send", "work"), 0.11, True),
        (("work",), ("send", "work"), 0.11, True),
        # Who hands out jobs waits for the results.
        (("query", "work"), ("send", "query", "work"), 0.7, True),
        # Nobody is asked.
        (("query", "work"), (), 0.11, True),
    ],
)
def test_a_lock_whose_holder_waits_for_an_answer(
    lock_stack: tuple[str, ...], ask_stack: tuple[str, ...], slept: float, idle: bool
) -> None:
    """The others queue for whoever answers: they are not idle."""
    threads = range(1, 7)
    lock = word(
        20, 4096, wait_ns=26 * WINDOW // 10, value_2=1000, waits=tuple(_at(t, "futex", *lock_stack) for t in threads)
    )
    answers = word(
        21,
        8192,
        wait_ns=WINDOW * 83 // 100,
        waits=tuple(_at(t, "futex", "receive", *lock_stack) for t in threads),
        wakers_of=(_at(9, "futex", "send", "answer"),),
    )
    asked = word(
        22,
        12288,
        wait_ns=int(slept * WINDOW),
        waits=(_at(9, "futex", "receive", "answer"),),
        wakers_of=tuple(_at(t, "futex", *ask_stack) for t in threads if ask_stack),
    )
    found = recognise([lock, answers, asked], (), WINDOW, locks=(20,))
    assert [one.words for one in found if one.unclear and not one.lock] == ([(20,)] if idle else [])


def test_a_lock_of_python_whose_holder_waits_for_work() -> None:
    """Held over Queue.get() by one of eight threads at a time: 6.97 waited for it, 1.0 for the queue, none worked."""
    threads = range(1, 9)
    figures: dict[str, Any] = {"waiters": 8, "wakers": 8, "both": 8, "wakes": 900, "tasks_woken": 900}
    at_lock = tuple(from_functions("sem_wait", "PyThread_acquire_lock_timed", task=task) for task in threads)
    lock = word(20, 4096, wait_ns=695 * WINDOW // 100, waits=at_lock, wakers_of=at_lock, **figures)

    def jobs(part: float) -> list[Seen]:
        return [
            word(t, 8192 * t, wait_ns=int(part * WINDOW / 8), waits=(from_functions("sem_wait", task=t),))
            for t in threads
        ]

    found = recognise([lock, *jobs(0.99)], (20,), WINDOW)
    assert [(known.make, known.lock, known.unclear) for known in found if 20 in known.words] == [(PY_LOCK, False, True)]
    found = recognise([lock, *jobs(0.1)], (20,), WINDOW)
    assert [(known.make, known.lock, known.unclear) for known in found if 20 in known.words] == [(PY_LOCK, True, False)]


def test_a_rust_mutex_is_one_by_its_function() -> None:
    waits = tuple(
        from_functions("syscall", "<std::sys::sync::mutex::futex::Mutex>::lock_contended", task=task)
        for task in (1, 2, 3, 4)
    )
    figures: dict[str, Any] = PEERS | {"wait_ns": 2 * WINDOW, "waits": waits, "wakers_of": waits}
    found = one(recognise([word(2, 4096, **figures)], (), WINDOW, locks=(2,)))
    assert (found.make, found.lock, found.sure) == (RUST_MUTEX, True, "high")
