# SPDX-License-Identifier: GPL-2.0-or-later
"""Who runs before a thread that wants a CPU."""

import pytest

from lockline.analysis.findings import Task
from lockline.investigation.counters import parse_scheduling
from lockline.investigation.priorities import Runner, comes_last, runs_before

OTHER, FIFO, BATCH, IDLE, DEADLINE = 0, 1, 3, 5, 6
# Of a second, at 100 ticks.
SECOND = 100.0


def test_fields_of_stat() -> None:
    """utime 700, stime 30, nice 5, CPU 3, FIFO: fields 14, 15, 19, 39 and 41 of proc(5)."""
    stat = "S 1 1 1 0 -1 0 0 0 0 0 700 30 0 0 -11 5 1 0 100 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 3 10 1 0 0 0"
    assert parse_scheduling(stat) == (730, 5, 3, FIFO)
    assert parse_scheduling("S 1 1") is None
    assert parse_scheduling(stat.replace(" 700 ", " x ")) is None


@pytest.mark.parametrize(
    ("policy", "nice", "last"),
    [(OTHER, 0, False), (OTHER, 19, True), (BATCH, 5, True), (IDLE, 0, True), (FIFO, 19, False), (DEADLINE, 0, False)],
)
def test_who_comes_last(policy: int, nice: int, last: bool) -> None:
    assert comes_last(policy, nice) == last


@pytest.mark.parametrize(
    ("policy", "cpu", "used", "found"),
    [
        (FIFO, 1, 90, True),
        (DEADLINE, 1, 60, True),
        # Others share with whoever wants the CPU.
        (OTHER, 1, 100, False),
        # It is on another CPU, or runs for moments.
        (FIFO, 0, 90, False),
        (FIFO, 1, 20, False),
    ],
)
def test_who_runs_before(policy: int, cpu: int, used: int, found: bool) -> None:
    first = {7: Runner("hog", 1000, cpu, policy), 8: Runner("idle", 5, 1, FIFO)}
    second = {7: Runner("hog", 1000 + used, cpu, policy), 8: Runner("idle", 5, 1, FIFO), 9: Runner("new", 99, 1, FIFO)}
    assert runs_before(first, second, 1, SECOND) == (Task("hog", 7) if found else None)
