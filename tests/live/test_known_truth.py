# SPDX-License-Identifier: GPL-2.0-or-later
"""Workloads that know what they waited for, and how long: the recording must say the same."""

from pathlib import Path
from typing import Any

import pytest

from support import Collector, Recording, Row, Workload, bucket

ROUNDS = 12
HOLD_US = 3000
ENOUGH_SPINNING = 100

Bounds = list[tuple[int, int]]


def assert_waits(row: Row, bounds: Bounds, met: bool = False) -> None:
    """Count exactly; sum, maximum and every bucket within what is possible.

    met: others take the lock too, each for less than half of what the workload does.
    """
    lower = sorted(low for low, _ in bounds)
    upper = sorted(high for _, high in bounds)
    buckets = [index for index, count in sorted(row.histogram.items()) for _ in range(count)]
    assert len(buckets) == row.waits
    short = [index for index in buckets if met and index < bucket(lower[0] // 2)]
    assert row.waits - len(short) == len(bounds)
    assert sum(lower) <= row.wait_ns <= sum(upper) + len(short) * lower[0] // 2
    assert lower[-1] <= row.max_ns <= upper[-1]
    assert row.failed == 0
    # The k-th shortest wait lies between the k-th lower and the k-th upper bound.
    buckets = buckets[len(short) :]
    for index, low, high in zip(buckets, lower, upper, strict=True):
        assert bucket(low) <= index <= bucket(high)


def record_waits(live: Path, recording: Path, workload: Workload, pid: int, kind: str, met: bool = False) -> Row:
    """Record ROUNDS waits of a workload; the one lock of that kind that it waited for so often."""
    with Collector(live, recording, "-p", str(pid), "--threshold", "1ms"):
        bounds: Bounds = [(low, high) for low, high in workload.do(f"go {ROUNDS} {HOLD_US}")["waits"]]
    with Recording(recording) as result:
        rows = result.locks(kind)
        assert rows, f"no wait of kind {kind}: {result.locks()}"
        assert_waits(rows[0], bounds, met)
        assert sum(row.waits >= ROUNDS for row in rows) == 1
        # All are over the threshold: each is kept, and can be held against its own bounds.
        outliers = result.rows(
            "SELECT outlier.wait_ns FROM outlier JOIN kind ON kind.id = outlier.kind"
            " WHERE kind.name = ? AND outlier.wait_ns >= ? ORDER BY begin_ns",
            kind,
            HOLD_US * 1000,
        )
        assert len(outliers) == ROUNDS
        for (wait_ns,), (low, high) in zip(outliers, bounds, strict=True):
            assert low <= wait_ns <= high
        assert result.begins() == result.begins_accounted()
        return rows[0]


def test_mutex(live: Path, recording: Path) -> None:
    with Workload(live, "uffd_mutex") as workload:
        row = record_waits(live, recording, workload, workload.pid, "mutex")
    # A pipe's object lies in a cache of mixed objects: the name is the member, or who waits.
    assert "pipe" in row.name, row


@pytest.mark.parametrize("directory", ["/dev/shm", "."])
def test_rwsem(live: Path, recording: Path, tmp_path: Path, directory: str) -> None:
    with Workload(live, "uffd_rwsem", tmp_path if directory == "." else directory) as workload:
        row = record_waits(live, recording, workload, workload.pid, "rwsem:W")
    assert "inode" in row.name or "write" in row.name, row


def test_mmap_lock(live: Path, recording: Path, two_cpus: None) -> None:
    with Workload(live, "mmap_lock") as workload:
        # Whoever reads its mappings meanwhile, as other recordings do, has the lock for a moment.
        row = record_waits(live, recording, workload, workload.ready["waiter"], "rwsem:W", met=True)
    assert row.name == "mm_struct.mmap_lock"


def record_spinlock(live: Path, recording: Path) -> tuple[Row | None, dict[str, Any]]:
    """Record one round of the spinlock workload; its lock, if it was contended enough, and the truth."""
    with Workload(live, "spinlock") as workload:
        threads = ",".join(str(thread) for thread in workload.ready["threads"])
        with Collector(live, recording, "-t", threads, "--kinds", "spinlock"):
            truth = workload.do("go 10000")
    with Recording(recording) as result:
        assert result.begins() == result.begins_accounted()
        rows = result.locks()
        recorded = result.waits() + sum(result.loss(name) for name in ("orphaned", "too_deep"))
        misses = result.misses("contention_begin")
    # All begins of the two threads were counted by another program too, which interrupts can keep out as well.
    assert truth["begins"] - misses <= recorded <= truth["begins"] + misses
    if truth["begins"] < ENOUGH_SPINNING:
        return None, truth
    assert {row.kind for row in rows} == {"spinlock"}
    assert rows[0].waits <= truth["met"]
    assert rows[0].wait_ns <= truth["upper_ns"]
    assert sum(rows[0].histogram.values()) == rows[0].waits
    assert bucket(rows[0].max_ns) == max(rows[0].histogram)
    return rows[0], truth


def test_spinlock(live: Path, tmp_path: Path, two_cpus: None) -> None:
    """Two CPUs that meet at one lock: count by another program, sum between bounds that no tracer made.

    The lower bound knows nothing of what a paravirtual unlock takes to kick the next waiter, nor of time that the
    host takes from a CPU that neither waits nor holds: three quarters must be reached, in one of a few rounds.
    """
    met = shown = 0
    for turn in range(10):
        lock, truth = record_spinlock(live, tmp_path / f"{turn}.lockline")
        met += truth["met"]
        shown += truth["begins"]
        if lock and lock.wait_ns >= 0.75 * truth["lower_ns"]:
            return
    if met >= ENOUGH_SPINNING and shown < met / 100:
        pytest.skip(f"native spinlocks: this kernel shows {shown} of {met} waits of two CPUs")
    pytest.fail(f"in no round enough contention, and enough of it recorded: {lock}; {truth}")


@pytest.mark.parametrize(("workload", "kind"), [("uffd_mutex", "mutex"), ("uffd_rwsem", "rwsem:W")])
def test_holder(live: Path, recording: Path, workload: str, kind: str) -> None:
    """The task that held the lock of known waits is the one that they are charged to."""
    arguments = ["/dev/shm"] if workload == "uffd_rwsem" else []
    with Workload(live, workload, *arguments) as running:
        with Collector(live, recording, "-p", str(running.pid), "--holders"):
            bounds = running.do(f"go {ROUNDS} {HOLD_US}")["waits"]
        holder = running.ready["holder"]
    with Recording(recording) as result:
        lock = result.locks(kind)[0]
        holders = result.rows(
            "SELECT tid, holder_total.waits, caused_ns FROM holder_total"
            " JOIN kind ON kind.id = kind JOIN waiter ON waiter.id = holder"
            " WHERE kind.name = ? ORDER BY caused_ns DESC",
            kind,
        )
        handed = result.number("SELECT sum(handoff_ns) FROM fairness JOIN kind ON kind.id = kind WHERE name = ?", kind)
    assert lock.waits == ROUNDS
    assert [(tid, waits) for tid, waits, _ in holders] == [(holder, ROUNDS)]
    assert holders[0][2] + handed == lock.wait_ns
    assert sum(low for low, _ in bounds) <= holders[0][2] + handed <= sum(high for _, high in bounds)


def test_killed_waiters(live: Path, recording: Path) -> None:
    """A wait that ends without the lock is a wait, and told apart."""
    with Workload(live, "killed_waiter") as workload, Collector(live, recording, "-p", str(workload.pid)):
        killed = workload.do(f"go {ROUNDS} {HOLD_US}")["waiters"]
    with Recording(recording) as result:
        failed = [row for row in result.locks("mutex") if row.failed]
        assert [(row.waits, row.failed) for row in failed] == [(ROUNDS, ROUNDS)]
        outliers = result.rows(
            "SELECT waiter.tid, outlier.wait_ns FROM outlier JOIN waiter ON waiter.id = outlier.waiter"
            " WHERE outlier.result = -4 ORDER BY begin_ns"
        )
        assert [tid for tid, _ in outliers] == [waiter["tid"] for waiter in killed]
        for (_, wait_ns), waiter in zip(outliers, killed, strict=True):
            assert wait_ns >= waiter["lower_ns"]
        assert result.begins() == result.begins_accounted()


def test_open_wait(live: Path, recording: Path) -> None:
    """A begin whose end has not come by the end of the recording is an open wait (listed from 1 ms on), and no wait."""
    with Workload(live, "killed_waiter") as workload:
        with Collector(live, recording, "-p", str(workload.pid)):
            left = workload.do("leave 1 5000")
        with Recording(recording) as result:
            waiting = result.rows(
                "SELECT open_wait.tid, kind.name FROM open_wait JOIN kind ON kind.id = open_wait.kind"
            )
            assert (left["waiter"], "mutex") in waiting
            assert not result.locks("mutex")
            assert result.begins() == result.begins_accounted()


def test_end_without_begin(live: Path, recording: Path) -> None:
    """A wait that began before the recording is counted as unmatched, never as a wait.

    (Of a mutex the recording may show the last part: a mutex begins anew when its waiter is woken.)
    The choice of kinds leaves out what else this thread may wait for once it runs: now and then, its run queue.
    It works where waits begin: a wait made of an end alone would still have a row.
    """
    with Workload(live, "uffd_rwsem", "/dev/shm") as workload:
        workload.do("leave")
        with Collector(live, recording, "-a", "--kinds", "rwsem"):
            # The next command serves the fault of the wait that was left.
            workload.do("go 0")
    with Recording(recording) as result:
        assert result.loss("unmatched") >= 1
        assert not result.rows("SELECT * FROM waiter WHERE tid = ?", workload.ready["waiter"])
        assert result.begins() == result.begins_accounted()


def test_user_stack(live: Path, recording: Path) -> None:
    with Workload(live, "uffd_mutex") as workload:
        with Collector(live, recording, "-p", str(workload.pid), "--user-stacks"):
            workload.do(f"go 4 {HOLD_US}")
        with Recording(recording) as result:
            symbols = {row[0] for row in result.rows("SELECT symbol FROM frame WHERE tgid = ?", workload.pid)}
            stacks = result.number(
                "SELECT count(*) FROM outlier JOIN kind ON kind.id = kind WHERE kind.name = 'mutex' AND user_stack > 0"
            )
    assert "lockline_known_caller" in symbols, symbols
    assert stacks == 4
