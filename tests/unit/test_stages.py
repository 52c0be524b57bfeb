# SPDX-License-Identifier: GPL-2.0-or-later
"""Stages of a pipeline, each with a queue that is full."""

from dataclasses import replace

import pytest

from lockline.analysis.model import Report
from lockline.analysis.user_space.futex import with_blame
from lockline.analysis.user_space.futex_waits import LOCK, Futexes, FutexStack, FutexTask, FutexWaits
from lockline.analysis.user_space.user_evidence import GO_CHANNEL, OWN_QUEUE
from lockline.recording.rows import Frame
from lockline.rules import find_all
from test_user_rules import MS, of_program, told

SECOND = 1000 * MS


def stack(role: str, *functions: str) -> FutexStack:
    frames = tuple(Frame(16, name, 16, "/srv/app") for name in functions)
    return FutexStack(role, 9, 9, 9, frames)


def channel(number: int, puts: tuple[str, ...], takes: tuple[str, ...], wait_ns: int = 4 * SECOND) -> FutexWaits:
    """Four goroutines put into it."""
    stacks = (stack("waiter", *puts), stack("waker", *takes))
    return of_program(number, LOCK, wait_ns, name="", make=GO_CHANNEL, stacks=stacks, total={"waiters": 4})


def of_threads(number: int, puts: tuple[int, ...], takes: tuple[int, ...]) -> FutexWaits:
    tasks = [FutexTask("waiter", tid, 7, "app", 9, 9, 9) for tid in puts]
    tasks += [FutexTask("waker", tid, 7, "app", 9, 9, 0) for tid in takes]
    return of_program(number, LOCK, len(puts) * SECOND, name="", make=OWN_QUEUE, tasks=tuple(tasks))


@pytest.mark.parametrize(
    ("last", "is_next"),
    [
        (channel(3, ("main.send", "main.parse"), ("main.store",)), True),
        # Each that parses waits for a quarter of the time alone; other goroutines put there.
        (channel(3, ("main.send", "main.parse"), ("main.store",), SECOND), False),
        (channel(3, ("main.send", "main.count"), ("main.store",)), False),
    ],
)
def test_the_slow_stage_of_goroutines_leads(quiet: Report, last: FutexWaits, is_next: bool) -> None:
    """Four that parse wait for one that stores, all the time: that they take too slowly is its doing."""
    first = channel(2, ("main.send", "main.feed"), ("main.parse",))
    blamed = {one.futex.id: one.to_blame_ns for one in with_blame((first, last), SECOND)}
    assert blamed[3] - last.waited_ns == (first.waited_ns if is_next else 0)
    assert sum(blamed.values()) == first.waited_ns + last.waited_ns


def test_the_slow_stage_of_threads(quiet: Report) -> None:
    first, last = of_threads(2, (1, 2, 3), (4, 5, 6)), of_threads(3, (4, 5, 6), (7,))
    assert [one.to_blame_ns for one in with_blame((first, last), SECOND)] == [0, 6 * SECOND]
    other = of_threads(3, (8, 9, 10), (7,))
    assert [one.to_blame_ns for one in with_blame((first, other), SECOND)] == [3 * SECOND, 3 * SECOND]


def test_what_is_said_of_stages(quiet: Report) -> None:
    first = channel(2, ("main.send", "main.feed"), ("main.parse",))
    last = channel(3, ("main.send", "main.parse"), ("main.store",))
    report = replace(quiet, futexes=Futexes(with_blame((first, last), SECOND), ()))
    led, pointed = (told(found) for found in find_all(report))
    assert "queue to send to a channel in main.send()" in led.title
    assert any("more wait for those who wait here" in line for line in led.evidence)
    assert "who takes from it, main.parse(), waits for room in the next one: look there first" in pointed.title
    assert pointed.next == ("make the next stage faster first: this queue is full because that one is",)
