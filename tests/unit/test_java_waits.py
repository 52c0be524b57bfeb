# SPDX-License-Identifier: GPL-2.0-or-later
"""Threads of Java that wait for each other: at barriers, and for what a pool has too few of."""

import pytest

from lockline.analysis.user_space.user_evidence import (
    JAVA_BARRIER,
    JAVA_CONDITION,
    JAVA_QUEUE,
    JAVA_WAIT,
    Calls,
    Recognised,
    Seen,
)
from lockline.analysis.user_space.user_locks import recognise
from lockline.recording.rows import Frame
from user_words import WINDOW, parked, word

PACKAGE = "java.util.concurrent."
PARKED = ("Parker::park", "Unsafe_Park", f"{PACKAGE}locks.LockSupport.park")
PHASER = (*PARKED, f"{PACKAGE}Phaser.internalAwaitAdvance", f"{PACKAGE}Phaser.arriveAndAwaitAdvance", "App.step")
CYCLIC = (*PARKED, f"{PACKAGE}CyclicBarrier.dowait", f"{PACKAGE}CyclicBarrier.await", "App.step")
TAKE = (*PARKED, f"{PACKAGE}ArrayBlockingQueue.take", "App.borrow")
TAKES_ITS_LOCK = (*PARKED, f"{PACKAGE}locks.ReentrantLock.lock", f"{PACKAGE}ArrayBlockingQueue.take", "App.borrow")
WORKER = (*PARKED, f"{PACKAGE}LinkedBlockingQueue.take", f"{PACKAGE}ThreadPoolExecutor.getTask")


def waits_of(task: int, slept: int, functions: tuple[str, ...], threads: int = 4) -> Seen:
    """A thread's word, where it waits a tenth of a millisecond each time, and the next thread wakes it."""
    frames = tuple(Frame(1, name, 0, "[java]") for name in functions)
    waits = (Calls(task, functions, (), slept // 10, slept * 10_000, frames),)
    return word(task, 4096 * task, slept=slept, waits=waits, wakers_of=(Calls(task % threads + 1, (), (), 5, 0),))


@pytest.mark.parametrize(
    ("functions", "slept", "last"),
    [
        # In a thousand rounds the first of four threads waits in a hundred; all come last as often.
        (PHASER, (100, 1000, 900, 1000), (1000, 1, 0.9)),
        (CYCLIC, (100, 1000, 900, 1000), (1000, 1, 0.9)),
        (CYCLIC, (750, 750, 750, 750), (1000, 1, 0.25)),
    ],
)
def test_who_comes_last_at_a_barrier(
    functions: tuple[str, ...], slept: tuple[int, ...], last: tuple[int, int, float]
) -> None:
    words = [waits_of(task, count, functions) for task, count in enumerate(slept, 1)]
    (found,) = recognise(words, (), WINDOW)
    assert (found.make, found.lock, found.sure) == (JAVA_BARRIER, False, "high")
    (site,) = found.sites
    assert (site.function, site.rounds, site.last) == ("App.step", *last[:2])
    assert site.last_part == pytest.approx(last[2])


def test_two_threads_do_not_tell_who_comes_last() -> None:
    first, second = (waits_of(task, 500, CYCLIC, threads=2) for task in (1, 2))
    (found,) = recognise([first, second], (), WINDOW)
    assert [site.last for site in found.sites] == [0]


def pool(functions: tuple[str, ...], wakers: tuple[int, ...] = (2, 3, 4), wait_ns: int = WINDOW * 6 // 10) -> object:
    found = [one for one in recognise(parked(functions, wakers, wait_ns), (), WINDOW) if one.make == JAVA_QUEUE]
    return [(one.lock, one.unclear, one.words) for one in found]


@pytest.mark.parametrize(
    ("functions", "wakers", "wait_ns", "told"),
    [
        (TAKE, (2, 3, 4), WINDOW * 6 // 10, True),
        # Another thread puts there; all wait, and nobody has what they wait for; hardly anybody waits.
        (TAKE, (9,), WINDOW * 6 // 10, False),
        (TAKE, (2, 3, 4), WINDOW, False),
        (TAKE, (2, 3, 4), WINDOW // 10, False),
        (WORKER, (2, 3, 4), WINDOW * 6 // 10, False),
        (TAKES_ITS_LOCK, (2, 3, 4), WINDOW * 6 // 10, False),
    ],
    ids=["pool", "producer", "nobody", "seldom", "workers", "its lock"],
)
def test_a_queue_from_which_threads_take_what_they_put_there(
    functions: tuple[str, ...], wakers: tuple[int, ...], wait_ns: int, told: bool
) -> None:
    """A pool, or workers that pass jobs on: nobody can tell which."""
    assert pool(functions, wakers, wait_ns) == ([(False, True, (2, 3, 4))] if told else [])


def test_what_threads_take_is_said() -> None:
    found: tuple[Recognised, ...] = recognise(parked(TAKE, (2, 3, 4)), (), WINDOW)
    assert "a pool with too few objects" in found[0].why
    assert "1.8 wait on average" in found[0].why


NOTICE = ("pthread_cond_wait", "os::PlatformEvent::park", "ObjectMonitor::wait", "java.lang.Object.wait")


@pytest.mark.parametrize(
    ("functions", "wakers", "slept", "told"),
    [
        (NOTICE, (2, 3, 4), 1000, True),
        # Another thread brings work; an idle program's threads end one after the other; threads of Java's library.
        (NOTICE, (9,), 1000, False),
        (NOTICE, (2, 3, 4), 1, False),
        ((*NOTICE, "java.lang.ref.ReferenceQueue.remove"), (2, 3, 4), 1000, False),
    ],
    ids=["pool", "work", "end", "library"],
)
def test_threads_that_notify_each_other(
    functions: tuple[str, ...], wakers: tuple[int, ...], slept: int, told: bool
) -> None:
    """A pool made of Object.wait(), or workers that pass jobs on: nobody can tell which."""
    words = parked((*functions, "Pool.take"), wakers, slept=slept)
    found = [(one.lock, one.unclear) for one in recognise(words, (), WINDOW) if one.make == JAVA_WAIT]
    assert found == ([(False, True)] if told else [])


AWAIT = (
    *PARKED,
    f"{PACKAGE}ForkJoinPool.managedBlock",
    f"{PACKAGE}locks.AbstractQueuedSynchronizer$ConditionObject.await",
)


@pytest.mark.parametrize(
    ("functions", "wakers", "wait_ns", "told"),
    [
        (("JobQueue.take",), (2, 3, 4), WINDOW * 6 // 10, True),
        # Another thread brings work; nobody has what they all wait for; the package's own class waits.
        (("JobQueue.take",), (9,), WINDOW * 6 // 10, False),
        (("JobQueue.take",), (2, 3, 4), WINDOW, False),
        ((f"{PACKAGE}ScheduledThreadPoolExecutor$DelayedWorkQueue.take",), (2, 3, 4), WINDOW * 6 // 10, False),
    ],
    ids=["pool", "work", "nobody", "library"],
)
def test_threads_that_signal_each_other(
    functions: tuple[str, ...], wakers: tuple[int, ...], wait_ns: int, told: bool
) -> None:
    """The same of a Condition."""
    found = recognise(parked((*AWAIT, *functions), wakers, wait_ns), (), WINDOW)
    assert [(one.lock, one.unclear) for one in found if one.make == JAVA_CONDITION] == ([(False, True)] if told else [])


def test_workers_that_wait_for_jobs_with_a_limit() -> None:
    """As Jetty's: some wake others with what they have for them, and each ends if it is idle for long."""
    limited = (*PARKED, f"{PACKAGE}locks.AbstractQueuedSynchronizer$ConditionObject.awaitNanos", "JobQueue.poll")
    assert not [one for one in recognise(parked(limited, (2, 3, 4)), (), WINDOW) if one.make == JAVA_CONDITION]
