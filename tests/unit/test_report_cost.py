# SPDX-License-Identifier: GPL-2.0-or-later
"""What a report reads, and the memory it takes, on a recording of a large machine."""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

import recording_generator
from example_recording import make_example
from lockline.analysis.selection import Selection
from lockline.analysis.series import read_slices
from lockline.base import histogram
from lockline.base.text import Style
from lockline.recording import connection as module
from lockline.recording.reader import open_recording
from lockline.render import screen
from lockline.rules.report import make_report
from programs import kept
from recording_generator import SCHEMA, SECOND, RecordingBuilder, Shape, generate

TOP = Path(__file__).resolve().parents[2]

EVERY_REPORT = {
    "container",
    *("meta", "kind", "lock", "interval", "probe", "program", "cost", "loss", "begin_count"),
    *("open_wait", "waiter", "cgroup", "stack", "frame", "outlier"),
    *("futex", "futex_total", "clock_total", "inactive_wait", "ptrace_attach", "self_check"),
}


@pytest.fixture(scope="module")
def large() -> Path:
    """256 CPUs, 2,000 locks, 4,000 cells in each of 30 s: totals as large as after ten minutes, but for cell_total."""
    sources = [Path(source.__file__) for source in (recording_generator, histogram)]
    return kept("large.lockline", [*sources, SCHEMA], lambda path: generate(path, Shape(seconds=30)))


class Reads:
    """Notes the tables and the queries of every connection that a recording is opened with."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tables: set[str] = set()
        self.queries: list[str] = []
        connect = module._connect

        def watched(path: str, parameters: str) -> sqlite3.Connection:
            connection = connect(path, parameters)
            connection.set_authorizer(self._authorize)
            connection.set_trace_callback(self.queries.append)
            return connection

        monkeypatch.setattr(module, "_connect", watched)

    def _authorize(self, action: int, table: str | None, *_: str | None) -> int:
        if action == sqlite3.SQLITE_READ and table and not table.startswith("sqlite_"):
            self.tables.add(table)
        return sqlite3.SQLITE_OK


def tables_read(path: Path, selection: Selection, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    reads = Reads(monkeypatch)
    with open_recording(path) as recording:
        make_report(recording, selection, 100)
    return reads.tables


def test_a_whole_run_is_read_from_its_totals(generated: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    selection = Selection(kinds=("spinlock", "mutex"), sort="p99", from_ns=0, to_ns=3600 * SECOND)
    tables = tables_read(generated, selection, monkeypatch)
    holders = {"holder_total", "release_stack", "fairness"}
    assert tables == EVERY_REPORT | holders | {"lock_total", "cpu_total", "sample_total"}


def test_columns_are_asked_for_where_a_table_is_not_todays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recording of this version has its text for each table, which is compared in place of its columns."""
    path = make_example(tmp_path / "example")
    plain = sqlite3.connect(path)
    plain.execute("ALTER TABLE kind RENAME TO other")
    plain.execute("CREATE TABLE kind (id INTEGER PRIMARY KEY, name TEXT NOT NULL, more INTEGER)")
    plain.execute("INSERT INTO kind SELECT id, name, 0 FROM other")
    plain.commit()
    plain.close()
    reads = Reads(monkeypatch)
    with open_recording(path) as recording:
        assert recording.kinds()
    asked = [query for query in reads.queries if "table_xinfo" in query]
    assert asked == ["PRAGMA table_xinfo(kind)"]


def test_a_selection_of_cpus_is_read_from_the_cells(generated: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = tables_read(generated, Selection(cpus=(1,), lock="object_"), monkeypatch)
    assert tables == EVERY_REPORT | {"cell_total", "sample_total"}


def test_a_selection_in_time_reads_its_intervals_alone(generated: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = Reads(monkeypatch)
    with open_recording(generated) as recording:
        make_report(recording, Selection(from_ns=3 * SECOND, to_ns=4 * SECOND), 100)
    assert reads.tables == EVERY_REPORT | {"wait_interval", "sample_interval"}
    plain = sqlite3.connect(generated)
    for table in ("wait_interval", "sample_interval"):
        queries = [query for query in reads.queries if f"FROM {table}" in query]
        assert queries
        for query in queries:
            plan = " ".join(row[3] for row in plain.execute(f"EXPLAIN QUERY PLAN {query}"))
            assert f"SEARCH {table} USING PRIMARY KEY (interval>? AND interval<?)" in plan
    plain.close()


STEPS_AT_ONCE = 10


def count_steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts, in the one item of the list, the steps of SQLite's machine on every connection opened from now on."""
    counted = [0]
    connect = module._connect

    def step() -> int:
        counted[0] += STEPS_AT_ONCE
        return 0

    def watched(path: str, parameters: str) -> sqlite3.Connection:
        connection = connect(path, parameters)
        connection.set_progress_handler(step, STEPS_AT_ONCE)
        return connection

    monkeypatch.setattr(module, "_connect", watched)
    return counted


def test_the_first_screen_of_a_longer_recording_takes_no_more_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = []
    for seconds in (40, 160):
        shape = Shape(cpus=16, locks=50, seconds=seconds, cells=100, tasks=20, outliers=0)
        path = generate(tmp_path / str(seconds), shape)
        counted = count_steps(monkeypatch)
        with open_recording(path) as recording:
            report = make_report(recording, Selection(), 5)
            counted[0] = 0
            slices = read_slices(recording, report, most_rows=2_000)
            assert 10 <= len(slices) <= 30
            steps.append(counted[0])
            whole = read_slices(recording, report)
            assert len(whole) == seconds
        monkeypatch.undo()
    assert steps[1] < 1.5 * steps[0], steps


def test_the_locks_of_tasks_are_found_without_sorting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = RecordingBuilder(tmp_path / "tasks.lockline")
    for lock in range(1, 41):
        builder.lock(lock, f"lock_{lock}")
    samples = []
    for waiter in range(1, 101):
        builder.waiter(waiter, "worker")
        # The worst lock of a task is so by the sum of its stacks alone; of two like ones it is the first.
        samples += [(waiter, lock, 3, stack, 0, 1, 2, 1_000 + lock) for lock in range(1, 39) for stack in (1, 2)]
        samples += [(waiter, lock, 3, stack, 0, 1, 2, 900) for lock in (39, 40) for stack in (1, 2, 3)]
    builder.insert("sample_total", samples)
    builder.finish()
    reads = Reads(monkeypatch)
    with open_recording(tmp_path / "tasks.lockline") as recording:
        weights = recording.task_weights()
        chosen = recording.task_weights(locks=(5, 7), kinds=(3,))
        other = recording.task_weights(kinds=(4,))
    assert [weight.waiter for weight in weights] == list(range(1, 101))
    sums = sum(2 * (1_000 + lock) for lock in range(1, 39)) + 6 * 900
    assert {weight[1:] for weight in weights} == {(82, 164, sums, 39, 3, 2_700)}
    assert {weight[1:] for weight in chosen} == {(4, 8, 2 * 1_005 + 2 * 1_007, 7, 3, 2_014)}
    assert other == []
    plain = sqlite3.connect(tmp_path / "tasks.lockline")
    queries = [query for query in reads.queries if "FROM sample_total" in query]
    assert len(queries) == 3
    for query in queries:
        plan = " ".join(row[3] for row in plain.execute(f"EXPLAIN QUERY PLAN {query}"))
        assert "SEARCH sample_total USING PRIMARY KEY (waiter=?" in plan
        assert "TEMP B-TREE" not in plan
    plain.close()


def _task_sums(samples: list[tuple[int, ...]]) -> dict[int, tuple[int, ...]]:
    """Of each task samples, waits and ns, and the lock and kind that it waited longest for: row by row."""
    tasks: dict[int, list[int]] = {}
    pairs: dict[int, dict[tuple[int, int], int]] = {}
    for waiter, lock, kind, _, _, *figures in samples:
        tasks[waiter] = [one + more for one, more in zip(tasks.get(waiter, [0, 0, 0]), figures, strict=True)]
        of_task = pairs.setdefault(waiter, {})
        of_task[lock, kind] = of_task.get((lock, kind), 0) + figures[2]
    worst = {waiter: max(of_task.items(), key=lambda item: item[1]) for waiter, of_task in pairs.items()}
    return {waiter: (*sums, *worst[waiter][0], worst[waiter][1]) for waiter, sums in tasks.items()}


def _stack_sums(samples: list[tuple[int, ...]], locks: set[int]) -> dict[tuple[int, ...], list[int]]:
    stacks: dict[tuple[int, ...], list[int]] = {}
    for _, lock, kind, stack, _, *figures in samples:
        if lock in locks:
            sums = stacks.setdefault((lock, kind, stack), [0, 0, 0])
            stacks[lock, kind, stack] = [one + more for one, more in zip(sums, figures, strict=True)]
    return stacks


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("wrong", [0, 3])
def test_sums_of_samples_are_those_of_their_rows(seed: int, wrong: int, tmp_path: Path) -> None:
    """Whatever the database makes of it: also where some rows are impossible, and where each lock has many stacks."""
    path = generate(tmp_path / "sums", Shape(cpus=4, locks=12, seconds=6, cells=40, tasks=9, outliers=5, seed=seed))
    with sqlite3.connect(path) as plain:
        plain.execute("UPDATE OR IGNORE sample_total SET stack = (stack * 7 + waiter) % 5 + 1")
        plain.execute(f"UPDATE sample_total SET wait_ns = -5 WHERE waiter IN (SELECT {seed} + 1 LIMIT {wrong})")
        every = plain.execute("SELECT * FROM sample_total").fetchall()
    plain.close()
    possible = [row for row in every if min(row[5:]) >= 0]
    assert (len(possible) < len(every)) == bool(wrong)
    locks = [2, 3, 7]
    with open_recording(path) as recording:
        bad = recording.impossible_samples()
        tasks = recording.task_weights(sound=not bad)
        stacks = recording.stack_weights(locks, sound=not bad)
    assert bad == len(every) - len(possible)
    assert {row.waiter: row[1:] for row in tasks} == _task_sums(possible)
    assert {row[:3]: list(row[3:]) for row in stacks} == _stack_sums(possible, set(locks))


@pytest.mark.parametrize("seed", range(3))
def test_the_first_screen_is_the_same_from_less(seed: int, tmp_path: Path) -> None:
    """Its bars are of slices that name no lock; here beside those that do."""
    path = generate(tmp_path / "less", Shape(cpus=8, locks=40, seconds=60, cells=500, tasks=9, seed=seed))
    with open_recording(path) as recording:
        report = make_report(recording, Selection(), 5)
        for selection in (Selection(), Selection(kinds=("spinlock",)), Selection(lock="object_*")):
            report = make_report(recording, selection, 5)
            screens = {
                screen.render(report, read_slices(recording, report, rows), Style(unicode=True), 80)
                for rows in (None, 1 << 40)
            }
            assert len(screens) == 1
            assert "TIME" in screens.pop()


@pytest.mark.parametrize("seed", range(3))
def test_outliers_are_counted_whole(seed: int, tmp_path: Path) -> None:
    path = generate(tmp_path / "outliers", Shape(cpus=4, locks=9, seconds=5, cells=30, tasks=9, seed=seed))
    longest = 3_000_000
    with sqlite3.connect(path) as plain:
        plain.execute("UPDATE outlier SET wait_ns = -7 WHERE id % 9 = 0")
        every = plain.execute("SELECT wait_ns, id FROM outlier").fetchall()
    plain.close()
    kept = sorted((-ns, number) for ns, number in every if 0 <= ns <= longest)
    with open_recording(path) as recording:
        shown, count, left_out = recording.outliers(10, longest)
    assert [(-row.wait_ns, row.id) for row in shown] == kept[:10]
    assert (count, left_out) == (len(kept), len(every) - len(kept))
    assert left_out


@pytest.mark.laboratory
@pytest.mark.parametrize("output", ["text", "json"])
def test_peak_memory_is_below_300_mb(large: Path, output: str) -> None:
    # A process begins with the peak of the one that it was forked from: a small one stands between.
    measured = (
        "import os, subprocess, sys; process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL);"
        " _, status, usage = os.wait4(process.pid, 0); print(status, usage.ru_maxrss)"
    )
    command = [sys.executable, "-m", "lockline", "report", str(large), "--format", output]
    done = subprocess.run(
        [sys.executable, "-c", measured, *command],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(TOP / "userspace")},
    )
    status, kilobytes = map(int, done.stdout.split())
    assert status == 0, done.stderr
    assert kilobytes < 300_000
