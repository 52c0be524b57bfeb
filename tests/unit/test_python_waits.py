# SPDX-License-Identifier: GPL-2.0-or-later
"""Threads of Python that wait in threading and queue, by the functions that they are in."""

from dataclasses import replace

import pytest

from lockline.analysis.user_space.user_evidence import GIL, PY_BARRIER, PY_QUEUE, PY_SEMAPHORE, Calls, Seen
from lockline.analysis.user_space.user_locks import recognise
from lockline.recording.rows import Frame
from user_words import WINDOW, word
from user_words import parked as parked_words

LIBRARY = "/usr/lib/python3.11"
WAITS = ("PyThread_acquire_lock_timed", f"py::Condition.wait:{LIBRARY}/threading.py")
SEMAPHORE = (*WAITS, f"py::Semaphore.acquire:{LIBRARY}/threading.py", "py::borrow:/srv/app.py")
BARRIER = (*WAITS, f"py::Barrier._wait:{LIBRARY}/threading.py", "py::meet:/srv/app.py")
TAKE = (*WAITS, f"py::Queue.get:{LIBRARY}/queue.py", "py::borrow:/srv/app.py")
TAKES_GIL = ("take_gil", *SEMAPHORE[1:])


@pytest.mark.parametrize(
    ("functions", "wakers", "wait_ns", "found"),
    [
        (SEMAPHORE, (2, 3, 4), WINDOW * 6 // 10, [(PY_SEMAPHORE, True, False)]),
        # They are woken in vain; by another thread, and do something each time; hardly ever.
        (SEMAPHORE, (9,), WINDOW, [(PY_SEMAPHORE, True, False)]),
        (SEMAPHORE, (9,), WINDOW * 6 // 10, []),
        (SEMAPHORE, (2, 3, 4), WINDOW // 10, []),
        (TAKE, (2, 3, 4), WINDOW * 6 // 10, [(PY_QUEUE, False, True)]),
        (TAKE, (9,), WINDOW * 6 // 10, []),
    ],
    ids=["turns", "in vain", "signal", "seldom", "pool", "jobs"],
)
def test_semaphores_and_queues(
    functions: tuple[str, ...], wakers: tuple[int, ...], wait_ns: int, found: list[tuple[str, bool, bool]]
) -> None:
    known = recognise(parked(functions, wakers, wait_ns), (), WINDOW)
    told = (PY_SEMAPHORE, PY_QUEUE)
    assert [(one.make, one.lock, one.unclear) for one in known if one.make in told] == found


def parked(functions: tuple[str, ...], wakers: tuple[int, ...], wait_ns: int = WINDOW * 6 // 10) -> list[Seen]:
    """Three threads, each at a lock of its own."""
    return [replace(one, total=one.total._replace(waiters=1)) for one in parked_words(functions, wakers, wait_ns)]


@pytest.mark.parametrize("waits", [0, 1, 20])
def test_one_thread_that_has_a_semaphore_nearly_all_the_time(waits: int) -> None:
    """It waits at times, and another one never: those who starve do so all the same."""
    starving = parked(SEMAPHORE, (1, 9), WINDOW)
    having = word(
        1, 4096, slept=waits, wait_ns=waits * 1000, waiters=1, waits=(Calls(1, SEMAPHORE, (), waits, waits * 1000),)
    )
    (found,) = recognise([*starving, having] if waits else starving, (), WINDOW)
    assert (found.make, found.lock, {2, 3, 4} <= set(found.words)) == (PY_SEMAPHORE, True, True)


def test_a_wait_at_the_gil_on_the_way_hides_no_semaphore() -> None:
    """One sample of a thread that goes to wait is at the interpreter's lock: that word is the GIL's alone."""
    waits = (Calls(2, SEMAPHORE, (), 1, 1000),)
    gil = word(20, 1 << 20, "_PyRuntime", calls=1, slept=1, timed=1, wait_ns=1000, waiters=1, waits=waits)
    found = {one.make: one.words for one in recognise([*parked(SEMAPHORE, (9,), WINDOW), gil], (), WINDOW)}
    assert (found[GIL], set(found[PY_SEMAPHORE])) == ((20,), {2, 3, 4})


def test_a_wait_that_goes_on_is_no_work() -> None:
    """Who had the Semaphore stopped, or ended, before the recording did: the last notice never came."""
    half = WINDOW // 2
    starving = [
        replace(one, total=one.total._replace(open_waits=1, open_ns=half, oldest_ns=half))
        for one in parked(SEMAPHORE, (9,), half)
    ]
    (found,) = recognise(starving, (), WINDOW)
    assert (found.make, found.lock) == (PY_SEMAPHORE, True)


@pytest.mark.parametrize("functions", [WAITS[:1], WAITS], ids=["no function", "the innermost one"])
def test_few_waits_of_which_one_has_names(functions: tuple[str, ...]) -> None:
    """It tells of the others in its circle."""
    named, *others = parked(SEMAPHORE, (2, 3, 4))
    unnamed = [replace(one, waits=tuple(replace(call, functions=functions) for call in one.waits)) for one in others]
    (found,) = (one for one in recognise([named, *unnamed], (), WINDOW) if one.make == PY_SEMAPHORE)
    assert set(found.words) == {2, 3, 4}


def waits_at_barrier(task: int, slept: int) -> Seen:
    frames = tuple(Frame(1, name, 0, "[python]") for name in BARRIER)
    waits = (Calls(task, BARRIER, (), slept // 10, slept * 10_000, frames),)
    return word(task, 4096 * task, slept=slept, waiters=1, waits=waits, wakers_of=(Calls(task % 4 + 1, (), (), 5, 0),))


def test_who_comes_last_at_a_barrier() -> None:
    words = [waits_at_barrier(task, slept) for task, slept in enumerate((100, 1000, 900, 1000), 1)]
    (found,) = recognise(words, (), WINDOW)
    assert found.make == PY_BARRIER
    (site,) = found.sites
    assert (site.function, site.rounds, site.last) == ("app.py:meet", 1000, 1)
    assert site.last_part == pytest.approx(0.9)


def test_a_thread_that_wants_the_gil_after_a_wait_waits_for_that() -> None:
    assert PY_SEMAPHORE not in {one.make for one in recognise(parked(TAKES_GIL, (2, 3, 4)), (), WINDOW)}


def joined(join_ns: int, wakers: tuple[int, ...] = (9,)) -> list[Seen]:
    """As recorded from a program's begin: its threads lived for 0.6 of it, and main waited for them to end."""
    main = word(
        8,
        1 << 20,
        slept=1,
        wait_ns=join_ns,
        waiters=1,
        waits=(Calls(1, ("_PySemaphore_Wait", "PyEvent_WaitTimed"), (), 1, 1),),
    )
    return [*parked(SEMAPHORE, wakers, WINDOW * 6 // 10), main]


@pytest.mark.parametrize(
    ("join_ns", "makes"),
    [
        (WINDOW * 61 // 100, [PY_SEMAPHORE]),
        (WINDOW, []),
        # Nothing tells that they were not there all the time.
        (WINDOW * 3 // 10, []),
    ],
)
def test_threads_that_start_late_in_a_recording_starve_all_the_same(join_ns: int, makes: list[str]) -> None:
    assert [one.make for one in recognise(joined(join_ns), (), WINDOW) if one.make == PY_SEMAPHORE] == makes


def test_who_starts_workers_and_gives_them_jobs_takes_none_itself() -> None:
    """It waits for each thread's start, as all of Python do, and that makes no pool of the queue."""
    main = word(1, 4096, slept=6, waiters=1, waits=(Calls(1, WAITS, (), 6, 60),), wakers_of=(Calls(2, (), (), 6, 0),))
    jobs = [replace(one, wakes=(Calls(1, (), (), 60, 0),)) for one in parked(TAKE, (9,))]
    assert PY_QUEUE not in {one.make for one in recognise([main, *jobs], (), WINDOW)}


def test_threads_that_wait_once_each_are_behind_no_lock() -> None:
    """At an Event, which the main thread sets: it waited for each of them to start."""
    parks = ("_PySemaphore_Wait",)
    events = [
        replace(one, total=one.total._replace(slept=2, waiters=1), wakes=(Calls(1, (), (), 2, 0),))
        for one in parked_words(parks, (9,), WINDOW * 8 // 10)
    ]
    main = word(1, 4096, slept=9, waiters=1, wait_ns=1000, waits=(Calls(1, parks, (), 9, 9),))
    assert not any(one.lock for one in recognise([main, *events], (), WINDOW))


def test_waits_that_reach_out_of_a_recording_hide_no_work() -> None:
    """As recorded with -p: 30 jobs for each idle worker, whose first wait had begun before, and whose last went on."""
    reaches = [
        replace(one, total=one.total._replace(open_waits=1, open_ns=WINDOW // 40, oldest_ns=WINDOW // 40))
        for one in parked(SEMAPHORE, (9,), WINDOW * 101 // 100)
    ]
    idle = [replace(one, total=one.total._replace(slept=30)) for one in reaches]
    assert PY_SEMAPHORE not in {one.make for one in recognise(idle, (), WINDOW)}
    assert PY_SEMAPHORE in {one.make for one in recognise(reaches, (), WINDOW)}
