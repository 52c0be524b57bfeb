# SPDX-License-Identifier: GPL-2.0-or-later
"""Goroutines that wait, and programs in Go whose goroutines nobody followed."""

from typing import Any

import pytest

from lockline.analysis.user_space.go_locks import unseen_goroutines
from lockline.analysis.user_space.user_evidence import (
    GO_CHANNEL,
    GO_COND,
    GO_DATABASE,
    GO_FLIGHT,
    GO_GROUP,
    GO_MUTEX,
    GO_POOL,
    GO_SEMAPHORE,
    GO_WEIGHTED,
    Calls,
    Goroutines,
    Seen,
)
from lockline.analysis.user_space.user_locks import recognise
from lockline.recording.rows import Frame
from user_words import WINDOW, one, word


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
    ("signals", "both", "wait_ns", "lock"),
    [((1, 2, 3), 8, 5 * WINDOW, True), ((9,), 0, 5 * WINDOW, False), ((1, 2, 3), 8, WINDOW // 2, False)],
)
def test_goroutines_that_signal_each_other(signals: tuple[int, ...], both: int, wait_ns: int, lock: bool) -> None:
    """A pool of two by a sync.Cond: 23.9 s of eight goroutines, 24.0 by its own clock.  Three threads run them."""
    waits = tuple(Calls(task, ("sync.(*Cond).Wait", "main.take"), (), 10, 10) for task in (1, 2, 3))
    wakes = tuple(Calls(task, ("sync.(*Cond).Signal", "main.take"), (), 10, 0) for task in signals)
    figures: dict[str, Any] = {"waiters": 8, "wakers": 8, "both": both}
    seen = word(
        2, 4096, ops=1 << 29, wait_ns=wait_ns, wakes=1000, tasks_woken=1000, waits=waits, wakers_of=wakes, **figures
    )
    found = one(recognise([seen], (), WINDOW))
    assert (found.make, found.lock) == (GO_COND, lock)
    assert ("goroutines wait on average" in found.why) == lock


@pytest.mark.parametrize(
    ("sends", "both", "wait_ns", "lock"),
    [
        # A pool of two: 15.0 s of eight goroutines in 3 s, 5.73 ms each, 5.74 by its own clock.
        ((1, 2, 3), 8, 5 * WINDOW, True),
        # One brings jobs to workers.
        ((9,), 0, 7 * WINDOW, False),
        # Workers that pass jobs on, at rest: all wait at once.
        ((1, 2, 3), 8, 8 * WINDOW, False),
    ],
)
def test_goroutines_that_receive_what_they_send(sends: tuple[int, ...], both: int, wait_ns: int, lock: bool) -> None:
    waits = tuple(Calls(task, ("runtime.chanrecv1", "main.take"), (), 10, 10) for task in (1, 2, 3))
    wakes = tuple(Calls(task, ("runtime.send", "runtime.chansend1"), (), 10, 0) for task in sends)
    figures: dict[str, Any] = {"waiters": 8, "wakers": 8, "both": both}
    seen = word(
        2, 4096, ops=1 << 30, wait_ns=wait_ns, wakes=1000, tasks_woken=1000, waits=waits, wakers_of=wakes, **figures
    )
    found = one(recognise([seen], (), WINDOW))
    assert (found.make, found.lock, found.unclear) == (GO_POOL if lock else GO_CHANNEL, lock, False)
    assert unseen_goroutines([seen], WINDOW) == ()


@pytest.mark.parametrize(
    ("function", "make", "unclear"),
    [
        ("main.(*crawler).worker", GO_CHANNEL, True),
        ("main.runJobs", GO_CHANNEL, True),
        ("main.(*buffers).get", GO_POOL, False),
    ],
)
def test_workers_that_pass_jobs_on_by_a_channel(function: str, make: str, unclear: bool) -> None:
    """Eight that fetch three pages in turns: 4.9 wait, as for a pool of three."""
    frames = (Frame(1, "runtime.chanrecv1", 0, "/srv/crawl"), Frame(2, function, 0, "/srv/crawl"))
    waits = tuple(Calls(task, ("runtime.chanrecv1", function), (), 10, 10, frames) for task in (1, 2, 3))
    wakes = tuple(Calls(task, ("runtime.send", function), (), 10, 0) for task in (1, 2, 3))
    figures: dict[str, Any] = {"waiters": 8, "wakers": 8, "both": 8, "wakes": 1000, "tasks_woken": 1000}
    seen = word(2, 4096, ops=1 << 30, wait_ns=5 * WINDOW, waits=waits, wakers_of=wakes, **figures)
    found = one(recognise([seen], (), WINDOW))
    assert (found.make, found.lock, found.unclear) == (make, not unclear, unclear)


@pytest.mark.parametrize("how", [1 << 26, 1 << 27], ids=["send", "select"])
@pytest.mark.parametrize(
    ("receives", "both", "wait_ns", "make"),
    [
        # A semaphore of two: 18.0 s of eight goroutines in 3 s, 18.0 by its own clock.
        ((1, 2, 3), 8, 6 * WINDOW, GO_SEMAPHORE),
        # Receivers that are too slow, and others that send.
        ((9,), 0, 8 * WINDOW, GO_CHANNEL),
        # One at a time has it, and hardly anybody else wants it.
        ((1, 2, 3), 8, WINDOW // 2, GO_CHANNEL),
    ],
)
def test_goroutines_that_send_what_they_receive(
    how: int, receives: tuple[int, ...], both: int, wait_ns: int, make: str
) -> None:
    waits = tuple(Calls(task, ("runtime.chansend1", "main.acquire"), (), 10, 10) for task in (1, 2, 3))
    wakes = tuple(Calls(task, ("runtime.recv", "runtime.chanrecv1"), (), 10, 0) for task in receives)
    figures: dict[str, Any] = {"waiters": 8, "wakers": 8, "both": both}
    seen = word(
        2, 4096, ops=how, wait_ns=wait_ns, wakes=1000, tasks_woken=1000, waits=waits, wakers_of=wakes, **figures
    )
    found = one(recognise([seen], (), WINDOW))
    assert (found.make, found.lock) == (make, wait_ns > WINDOW)
    assert ("goroutines wait on average, and those that wait wake each other" in found.why) == (make == GO_SEMAPHORE)


@pytest.mark.parametrize(
    ("op", "functions", "make"),
    [
        (23, ("database/sql.(*DB).conn", "database/sql.(*DB).ExecContext"), GO_DATABASE),
        (23, ("golang.org/x/sync/semaphore.(*Weighted).Acquire",), GO_WEIGHTED),
        (28, ("sync.(*WaitGroup).Wait", "golang.org/x/sync/singleflight.(*Group).Do"), GO_FLIGHT),
        (28, ("sync.(*WaitGroup).Wait", "main.all"), GO_GROUP),
    ],
)
def test_goroutines_that_wait_in_a_library(op: int, functions: tuple[str, ...], make: str) -> None:
    """Recorded of eight: 18.1 s for two connections, by the program's clock 18.1; 16.9 s for one call, 17.0."""
    waits = (Calls(1, (*functions, "main.serve"), (), 10, 10),)
    found = one(recognise([word(2, 4096, ops=1 << op, wait_ns=WINDOW // 2, waits=waits)], (), WINDOW))
    assert (found.make, found.lock, found.sure) == (make, make != GO_GROUP, "high")


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
