# SPDX-License-Identifier: GPL-2.0-or-later
"""Threads that each wait at a word of their own: words with few samples or none, and threads that wait for notice."""

from dataclasses import replace
from typing import Any

import pytest

from lockline.analysis.user_space.futex import of_all_waits
from lockline.analysis.user_space.user_evidence import JAVA_LOCK, MONITOR, PY_CONDITION, Calls, Seen
from lockline.analysis.user_space.user_locks import recognise
from lockline.recording import user_rows
from user_words import MS, WINDOW, parked, word

ENTER = ("PlatformEvent::park", "ObjectMonitor::EnterI", "ObjectMonitor::enter")
PARK = ("Parker::park", "Unsafe_Park", "LockSupport.park", "ReentrantLock.lock")
PYTHON = ("sem_wait", "PyThread_acquire_lock_timed", "lock_PyThread_acquire_lock")
PYTHON_3_14 = ("sem_wait", "_PySemaphore_Wait", "_PyParkingLot_Park", "_PyMutex_LockTimed", "PyMutex_LockTimed")


def test_the_other_word_of_a_condition_variable_needs_no_sample() -> None:
    """A thread of Java waits at either of two words, in turns."""
    words = parked(ENTER, (2, 3, 4))
    others = [
        replace(one, futex=one.futex._replace(id=10 + one.futex.id, address=one.futex.address + 4), waits=(), wakes=())
        for one in words
    ]
    others = [replace(one, total=one.total._replace(futex=one.futex.id)) for one in others]
    apart = word(20, 4096 * 9, waits=(), wait_ns=WINDOW)
    (found,) = (one for one in recognise([*words, *others, apart], (), WINDOW) if one.make == MONITOR)
    assert set(found.words) == {2, 3, 4, 12, 13, 14}


def test_a_mutex_of_the_run_time_joins_no_locks() -> None:
    """JFR writes its event of a parked thread under a mutex that all threads take: two locks stay two."""
    one_lock = parked(PARK, (2, 3, 4))
    other = [
        word(
            number,
            4096 * number,
            wait_ns=WINDOW * 6 // 10,
            waits=(Calls(number, PARK, (), 10, 10),),
            wakers_of=tuple(Calls(task, (), (), 5, 0) for task in (5, 6, 7) if task != number),
        )
        for number in (5, 6, 7)
    ]
    inside = ("__lll_lock_wait", "JfrStackTraceRepository::add_trace", "post_thread_park_event", "Unsafe_Park")
    calls = tuple(Calls(task, inside, (), 1, 1) for task in range(2, 8))
    mutex = word(8, 4096 * 8, wait_ns=MS, value_2=1000, waiters=6, wakers=6, both=6, waits=calls, wakers_of=calls)
    found = recognise([*one_lock, *other, mutex], (), WINDOW, locks=(8,))
    assert sorted(sorted(one.words) for one in found if one.make == JAVA_LOCK) == [[2, 3, 4], [5, 6, 7]]


def sample(role: str, waits: int, wait_ns: int) -> user_rows.FutexSample:
    return user_rows.FutexSample(2, role, 1, 1, 1, waits, wait_ns)


@pytest.mark.parametrize(
    ("sampled", "wait_ns", "stand_for"),
    [
        # The last waits are in no sample; a sample that stands for more than has been yet.
        (((30, 300), (10, 100)), 800, ((60, 600), (20, 200))),
        (((30, 300), (10, 900)), 600, ((60, 150), (20, 450))),
        # A wait that has not ended is sampled, and nothing else is known.
        (((1, 500),), 0, ((1, 500),)),
        ((), 800, ()),
    ],
)
def test_samples_stand_for_all_waits(
    sampled: tuple[tuple[int, int], ...], wait_ns: int, stand_for: tuple[tuple[int, int], ...]
) -> None:
    total = word(2, 4096, slept=80, wait_ns=wait_ns).total
    wakes = [sample("waker", 7, 0), sample("owner", 3, 30)]
    found = of_all_waits(total, [*(sample("waiter", *figures) for figures in sampled), *wakes])
    assert found == [*(sample("waiter", *figures) for figures in stand_for), *wakes]


# A wait, and nine, of a thread that makes 25 sampled wakes.
STARTED = Calls(20, PYTHON, (), 1, MS)
AT_TIMES = Calls(20, PYTHON, (), 9, MS)


def notified(
    wakers: tuple[int, ...],
    slept: int = 100,
    asleep: float = 0.95,
    waiters: int = 1,
    functions: tuple[str, ...] = PYTHON,
    **figures: Any,
) -> list[Seen]:
    """Five threads that each wait at a lock of Python for this part of the window; who wakes them, by task."""
    return [
        word(
            number,
            4096 * number,
            comm="python3",
            wait_ns=round(asleep * WINDOW),
            slept=slept,
            waiters=waiters,
            wakers=len(wakers),
            **{"tasks_woken": slept, "wakes": slept} | figures,
            waits=(Calls(number, functions, (), 10, 10),),
            wakers_of=tuple(Calls(task, (), (), 5, 0) for task in wakers if task != number),
        )
        for number in range(2, 7)
    ]


@pytest.mark.parametrize(
    ("words", "idle"),
    [
        # One thread brings work; three do, and each wakes all; CPython 3.14 parks; where functions have names.
        (notified((20,)), True),
        (notified((20, 21, 22), asleep=0.5), True),
        (notified((20,), functions=PYTHON_3_14), True),
        (notified((20,), functions=(*PYTHON, "py::Condition.wait", "py::Queue.get")), True),
        # They pass a Semaphore on; they starve at one, and wait again at once; a full queue.
        (notified((2, 3, 4, 5, 6)), False),
        (notified((20, 21), slept=4000), False),
        (notified((20,), functions=(*PYTHON, "py::Condition.wait", "py::Queue.put")), False),
        # A lock that all of them fight for; locks of their own that others hold one of at a time.
        (notified((2, 3, 4, 5, 6), waiters=5), False),
        (notified((20,), waiters=5), False),
        (notified((20,), asleep=0.15), False),
        # Most waits end by their timeout; nobody was seen to wake them.
        (notified((20,), timed_out=90), False),
        (notified(()), False),
        (notified((20,), tasks_woken=20), False),
        # Who brings work has waited for each of them to start; so has one that waits at times.
        ([*notified((20,)), word(8, 4096 * 8, waiters=1, slept=1, wait_ns=MS, waits=(STARTED,), wakers_of=())], True),
        ([*notified((20,)), word(8, 4096 * 8, waiters=1, slept=9, wait_ns=MS, waits=(AT_TIMES,), wakers_of=())], False),
    ],
)
def test_threads_of_python_that_wait_for_work_are_idle(words: list[Seen], idle: bool) -> None:
    found = [one for one in recognise(words, (), WINDOW) if one.make == PY_CONDITION]
    assert [(set(one.words) - {8}, one.lock, one.unclear, one.sure) for one in found] == (
        [({2, 3, 4, 5, 6}, False, False, "medium")] if idle else []
    )


@pytest.mark.parametrize("takes", [True, False])
def test_a_lock_of_java_whose_holder_waits_for_an_answer(takes: bool) -> None:
    """Six threads of Java share a connection behind a ReentrantLock: 13.6 s in 4 s by their own clock.

    Each waits for the answer at its own word, too, and who answers never waits there.
    """
    park = ("Unsafe_Park", "java.util.concurrent.locks.LockSupport.park")
    lock = (*park, "java.util.concurrent.locks.ReentrantLock.lock", "Shop.query")
    answer = (*park, "java.util.concurrent.SynchronousQueue.take", "Shop.query")
    unlock = ("Unsafe_Unpark", "java.util.concurrent.locks.ReentrantLock.unlock", "Shop.query")
    threads = range(2, 8)
    words = [
        word(
            task,
            4096 * task,
            wait_ns=WINDOW * 6 // 10,
            slept=800,
            waits=(Calls(task, lock if takes else answer, (), 30, 85), Calls(task, answer, (), 17, 15)),
            wakers_of=(
                *(Calls(other, unlock, (), 6, 0) for other in threads if other != task),
                Calls(9, ("Unsafe_Unpark", "java.util.concurrent.SynchronousQueue.put", "Shop.answer"), (), 18, 0),
            ),
        )
        for task in threads
    ]
    found = [known for known in recognise(words, set(), WINDOW) if known.lock]
    assert [known.make for known in found] == ([JAVA_LOCK] if takes else [])


LOCKS = "java.util.concurrent.locks."


@pytest.mark.parametrize("lets_go", [True, False])
def test_a_writer_that_never_waits_holds_readers_up(lets_go: bool) -> None:
    """Three readers of Java: the writer lets one in, that one the next.  Without the lock's names it may bring work."""
    read = ("Unsafe_Park", f"{LOCKS}LockSupport.park", f"{LOCKS}ReentrantReadWriteLock$ReadLock.lock", "Prices.get")
    passes_on = ("Unsafe_Unpark", *read[2:]) if lets_go else ("Unsafe_Unpark", "Prices.get")
    unlock = f"{LOCKS}ReentrantReadWriteLock$WriteLock.unlock" if lets_go else f"{LOCKS}LockSupport.unpark"
    writer = ("Unsafe_Unpark", unlock, "Prices.reload")
    words = [
        word(
            task,
            4096 * task,
            wait_ns=WINDOW * 45 // 100,
            slept=200,
            waits=(Calls(task, read, (), 30, 85),),
            wakers_of=(Calls(9, writer, (), 10, 0), *(Calls(peer, passes_on, (), 5, 0) for peer in others)),
        )
        for task in (2, 3, 4)
        for others in ([peer for peer in (2, 3, 4) if peer != task],)
    ]
    found = [known for known in recognise(words, set(), WINDOW) if known.lock]
    assert [(known.make, known.sure) for known in found] == ([(JAVA_LOCK, "medium")] if lets_go else [])
    # A thread now and then is not enough.
    few = [replace(entry, total=entry.total._replace(wait_ns=WINDOW // 10)) for entry in words]
    assert not [known for known in recognise(few, set(), WINDOW) if known.lock]
