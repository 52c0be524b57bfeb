# SPDX-License-Identifier: GPL-2.0-or-later
"""What a report says of a recording whose waits are known."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from example_recording import MS, MUTEX, RUNQUEUE_0, RUNQUEUE_1, SPINLOCK, TASKLIST, US
from lockline.analysis.model import Figures, LockWaits, Report
from lockline.analysis.selection import Selection, parse_cpus, parse_moment, parse_time, select_kinds
from lockline.analysis.waits import merged
from lockline.base.errors import LocklineError
from lockline.base.text import Style
from lockline.recording.reader import open_recording
from lockline.render import text as text_render
from lockline.rules.report import make_report
from recording_generator import BEGIN, KINDS, SECOND, RecordingBuilder, Shape, generate

EVERYTHING = Selection()


def report_of(path: Path, selection: Selection = EVERYTHING, outliers: int = -1) -> Report:
    with open_recording(path) as recording:
        return make_report(recording, selection, outliers)


def lock_of(report: Report, name: str, kind: str | None = None) -> LockWaits:
    (found,) = [lock for lock in report.locks if lock.name == name and kind in (None, lock.kind)]
    return found


def assert_conserved(report: Report) -> None:
    """Kinds, locks and CPUs each add up to the totals, histograms included."""
    for parts in (report.kinds, report.locks, report.cpus):
        assert merged([part.figures for part in parts]) == report.totals
    assert merged([kind.figures for cpu in report.cpus for kind in cpu.kinds]) == report.totals
    assert sum(report.totals.histogram) == report.totals.waits
    assert not any(loss.name.startswith("report: ") for loss in report.loss)


SELECTIONS = [
    EVERYTHING,
    Selection(by="instance"),
    Selection(kinds=("spinlock", "rwsem")),
    Selection(cpus=(0, 3)),
    Selection(lock="object_"),
    Selection(from_ns=2 * SECOND, to_ns=5 * SECOND),
    Selection(kinds=("mutex*",), cpus=(1,), lock="*_lock", from_ns=SECOND),
]


@pytest.mark.parametrize("selection", SELECTIONS, ids=str)
def test_every_selection_conserves_waits(generated: Path, selection: Selection) -> None:
    report = report_of(generated, selection)
    assert report.totals.waits > 0
    assert_conserved(report)


@settings(max_examples=10)
@given(shape=st.builds(Shape, *map(st.integers, (1, 1, 1, 1, 0), (6, 20, 4, 30, 99)), st.just(9), st.just(2)))
def test_any_recording_conserves_waits(tmp_path: Path, shape: Shape) -> None:
    path = tmp_path / "any.lockline"
    path.unlink(missing_ok=True)
    generate(path, shape)
    assert_conserved(report_of(path))


def test_cells_of_all_cpus_are_the_whole_run(generated: Path) -> None:
    by_totals = report_of(generated)
    by_cells = report_of(generated, Selection(cpus=tuple(range(8))))
    assert by_cells.totals == by_totals.totals
    assert [lock.figures for lock in by_cells.locks] == [lock.figures for lock in by_totals.locks]
    assert by_cells.cpus == by_totals.cpus


def test_parts_of_the_time_add_up(generated: Path) -> None:
    parts = [
        report_of(generated, Selection(from_ns=begin * SECOND, to_ns=(begin + 2) * SECOND)) for begin in range(0, 10, 2)
    ]
    whole = report_of(generated)
    assert merged([part.totals for part in parts]) == whole.totals
    for cpu in whole.cpus:
        assert merged([own.figures for part in parts for own in part.cpus if own.cpu == cpu.cpu]) == cpu.figures
    for lock in whole.locks:
        same = [own.figures for part in parts for own in part.locks if (own.name, own.kind) == (lock.name, lock.kind)]
        assert merged(same) == lock.figures
    assert sum(part.outlier_count for part in parts) == whole.outlier_count
    assert sum(part.sampled.wait_ns for part in parts) == whole.sampled.wait_ns


def test_cpus_split_the_whole(generated: Path) -> None:
    parts = [report_of(generated, Selection(cpus=(cpu,))).totals for cpu in range(8)]
    assert merged(parts) == report_of(generated).totals


def test_locks_of_one_name_are_one_entry(example: Path) -> None:
    lock = lock_of(report_of(example), "runqueues.__lock")
    assert lock.ids == (RUNQUEUE_0, RUNQUEUE_1)
    assert lock.instances == 2
    assert lock.worst_instance == "CPU 0"
    assert lock.worst_instance_ns == 16 * 3_300
    assert lock.address is None
    assert lock.figures.waits == 16 * 5
    assert lock.figures.wait_ns == 16 * (3_300 + 2_200)
    assert lock.figures.max_ns == 2_000


def test_by_instance_tells_them_apart(example: Path) -> None:
    report = report_of(example, Selection(by="instance"))
    instances = {lock.worst_instance: lock for lock in report.locks if lock.name == "runqueues.__lock"}
    assert set(instances) == {"CPU 0", "CPU 1"}
    assert instances["CPU 1"].figures.wait_ns == 16 * 2_200
    assert instances["CPU 1"].address is not None


def test_kinds_and_begins(example: Path) -> None:
    kinds = {kind.kind: kind for kind in report_of(example).kinds}
    assert kinds["rwlock:W"].figures.wait_ns == 4 * (20 * 3 + 8) * MS + 40 * MS
    assert kinds["rwlock:W"].begins == 85
    assert kinds["mutex"].figures.failed == 16


def test_the_worst_cpu(example: Path) -> None:
    report = report_of(example)
    tasklist = lock_of(report, "tasklist_lock")
    assert (tasklist.worst_cpu, tasklist.worst_cpu_ns) == (2, 312 * MS)
    assert max(report.cpus, key=lambda cpu: cpu.figures.wait_ns).cpu == 2


def test_time_takes_whole_intervals(example: Path) -> None:
    report = report_of(example, Selection(from_ns=2_200 * MS, to_ns=2_500 * MS))
    assert (report.window.begin_ns, report.window.end_ns) == (BEGIN + 2 * SECOND, BEGIN + 3 * SECOND)
    assert report.window.intervals == 1
    assert lock_of(report, "tasklist_lock").figures.waits == 22
    assert [outlier.wait_ns for outlier in report.outliers] == [40 * MS]
    assert report.sampled.wait_ns == 108 * MS


def test_time_without_intervals_is_refused(example: Path) -> None:
    with pytest.raises(LocklineError, match=r"4\.0 s long"):
        report_of(example, Selection(from_ns=100 * SECOND))


def test_unknown_names_are_refused(example: Path) -> None:
    with pytest.raises(LocklineError, match="no kind 'ticketlock'"):
        report_of(example, Selection(kinds=("ticketlock",)))
    with pytest.raises(LocklineError, match="no lock of the recording matches 'big_kernel_lock'"):
        report_of(example, Selection(lock="big_kernel_lock"))


def test_outliers(example: Path) -> None:
    report = report_of(example, outliers=2)
    assert report.outlier_count == 3
    first, second = report.outliers
    assert (first.wait_ns, first.offset_ns, first.lock, first.task.comm) == (
        40 * MS,
        2 * SECOND,
        "tasklist_lock",
        "strace",
    )
    assert [frame.symbol for frame in first.stack] == [
        "queued_write_lock_slowpath",
        "ptrace_attach",
        "__x64_sys_ptrace",
        "do_syscall_64",
    ]
    assert (second.begin_cpu, second.cpu) == (1, 2)
    assert report_of(example, Selection(cpus=(3,))).outliers == ()


def test_who_waits_is_weighted(example: Path) -> None:
    report = report_of(example)
    first = report.tasks[0]
    assert (first.comm, first.samples, first.waits, first.wait_ns) == ("strace", 6, 84, 320 * MS)
    assert (first.lock, first.kind, first.lock_ns) == ("tasklist_lock", "rwlock:W", 320 * MS)
    assert first.cgroup == "/system.slice/database.service"
    assert report.sampled.coverage == pytest.approx(report.sampled.wait_ns / report.totals.wait_ns)
    assert report_of(example, Selection(cpus=(2,))).sampled.coverage is None


def test_stacks_of_a_lock(example: Path) -> None:
    lock = lock_of(report_of(example), "tasklist_lock")
    assert lock.sampled_ns == 320 * MS
    assert [stack.wait_ns for stack in lock.stacks] == [260 * MS, 60 * MS]
    assert lock.stacks[0].frames[0].symbol == "queued_write_lock_slowpath"


def test_own_cost(example: Path) -> None:
    cost = report_of(example).cost
    begin, end = cost.programs
    assert begin.ns_per_run == 70
    assert begin.estimated_ns == cost.estimated_ns == 42 * MS
    assert (end.ns_per_run, end.estimated_ns) == (None, None)
    assert cost.cpu_share == pytest.approx(42 * MS / (4 * 4 * SECOND))


def test_own_cost_of_runs_that_nobody_counts(tmp_path: Path) -> None:
    """A probe at every system call costs more than those of the waits: what the windows tell is scaled."""
    builder = RecordingBuilder(tmp_path / "futex.lockline", seconds=10)
    builder.insert(
        "program",
        [
            ("contention_begin", "lock waits", 1_000, 100, 100 * US, 0),
            ("futex_enter", "futex waits", None, 50_000, 5 * MS, 0),
            ("wait_task", "futex waits", None, 0, 0, 0),
        ],
    )
    builder.insert("cost", [("measured_window_ns", 500 * MS, "ns")])
    path = builder.finish()
    cost = report_of(path).cost
    assert [program.estimated_ns for program in cost.programs] == [MS, 100 * MS, None]
    assert cost.estimated_ns == 101 * MS
    assert cost.cpu_share == pytest.approx(101 * MS / (10 * SECOND * 4))
    text = text_render.render(report_of(path), Style())
    assert "futex_enter: about 1.00M runs, 100 ns each" in text
    assert "wait_task: runs not known, no time measured" in text


@pytest.mark.parametrize("sort", ["total", "waits", "max", "avg", "p99"])
def test_sorts_are_descending(generated: Path, sort: str) -> None:
    def value(figures: Figures) -> int:
        return {
            "total": figures.wait_ns,
            "waits": figures.waits,
            "max": figures.max_ns,
            "avg": figures.average_ns,
            "p99": figures.percentile(0.99) or 0,
        }[sort]

    values = [value(lock.figures) for lock in report_of(generated, Selection(sort=sort)).locks]
    assert values == sorted(values, reverse=True)
    assert len(set(values)) > 1


def impossible_rows(path: Path, change: str) -> int:
    connection = sqlite3.connect(path)
    connection.execute(change)
    connection.commit()
    connection.close()
    report = report_of(path)
    return sum(loss.events for loss in report.loss if loss.name == "report: impossible figures")


@pytest.mark.parametrize(
    "change",
    [
        f"UPDATE lock_total SET wait_ns = -5 WHERE lock = {TASKLIST}",
        f"UPDATE lock_total SET waits = 0 WHERE lock = {TASKLIST}",
        f"UPDATE lock_total SET max_ns = {3600 * SECOND} WHERE lock = {TASKLIST}",
        f"UPDATE lock_total SET wait_ns = {3600 * SECOND} WHERE lock = {TASKLIST}",
        f"UPDATE cpu_total SET wait_ns = {3600 * SECOND} WHERE cpu = 2 AND kind = 2",
        f"UPDATE outlier SET wait_ns = {3600 * SECOND} WHERE id = 1",
        "UPDATE outlier SET wait_ns = -1 WHERE id = 1",
        "UPDATE sample_total SET wait_ns = -1 WHERE waiter = 2",
    ],
)
def test_impossible_figures_are_left_out_and_told(tmp_path: Path, example: Path, change: str) -> None:
    path = tmp_path / "impossible.lockline"
    path.write_bytes(example.read_bytes())
    assert impossible_rows(path, change) == 1
    report = report_of(path)
    assert all(lock.figures.max_ns < 10 * SECOND and lock.figures.wait_ns < 100 * SECOND for lock in report.locks)
    assert all(0 <= outlier.wait_ns < 10 * SECOND for outlier in report.outliers)


def test_sleepers_may_wait_longer_than_the_cpus_last(tmp_path: Path) -> None:
    builder = RecordingBuilder(tmp_path / "sleepers.lockline", seconds=1, cpus=1)
    builder.lock(1, "inode.i_rwsem")
    builder.waits(1, 0, 1, MUTEX, [SECOND] * 50)
    report = report_of(builder.finish())
    assert report.totals.wait_ns == 50 * SECOND
    assert_conserved(report)


def test_tables_that_disagree_are_told(tmp_path: Path, example: Path) -> None:
    path = tmp_path / "disagree.lockline"
    path.write_bytes(example.read_bytes())
    connection = sqlite3.connect(path)
    connection.execute("DELETE FROM cpu_total WHERE cpu = 1 AND kind = 6")
    connection.commit()
    connection.close()
    (loss,) = [loss for loss in report_of(path).loss if loss.name == "report: totals disagree"]
    assert loss.events == 4 * 12 * US


def test_a_recording_without_facts_or_waits(tmp_path: Path) -> None:
    path = tmp_path / "bare.lockline"
    builder = RecordingBuilder(path)
    builder.connection.execute("DELETE FROM meta")
    builder.connection.execute("DELETE FROM interval")
    builder.connection.execute("DELETE FROM kind")
    builder.finish()
    report = report_of(path)
    assert report.totals.waits == 0
    assert report.window.share(1) is None
    assert report.host.name is None


def test_a_recording_that_was_cut_off_ends_with_its_last_interval(tmp_path: Path) -> None:
    path = tmp_path / "cut.lockline"
    builder = RecordingBuilder(path, seconds=3, meta={"end_ns": None, "state": "recording"})
    builder.lock(1, "tasklist_lock")
    builder.waits(2, 0, 1, SPINLOCK, [5 * US])
    window = report_of(builder.finish()).window
    assert window.duration_ns == 3 * SECOND
    assert window.state == "recording"


@pytest.mark.parametrize(
    "text, ns",
    [
        ("0", 0),
        ("90", 90 * SECOND),
        ("1.5s", 1_500 * MS),
        ("300ms", 300 * MS),
        ("2m", 120 * SECOND),
        ("250us", 250 * US),
        ("3h", 10_800 * SECOND),
        ("1d", 86_400 * SECOND),
    ],
)
def test_times(text: str, ns: int) -> None:
    assert parse_time(text) == ns


@pytest.mark.parametrize("text", ["", "-1", "1w", "nan", "1e9", "ms", "1 2"])
def test_wrong_times(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time"):
        parse_time(text)


@pytest.mark.parametrize("text, ns", [("2m", 120 * SECOND), ("-10", -10 * SECOND), ("-10m", -600 * SECOND), ("-0", -1)])
def test_moments(text: str, ns: int) -> None:
    assert parse_moment(text) == ns


@given(st.integers(1, 20), st.integers(0, 19))
def test_times_before_the_end(generated: Path, last: int, end: int) -> None:
    """The recording has ten seconds."""
    if end >= min(10, last):
        with pytest.raises(LocklineError, match=r"lies before|no interval"):
            report_of(generated, Selection(from_ns=-last * SECOND, to_ns=-max(end, last) * SECOND))
        return
    found = report_of(generated, Selection(from_ns=-last * SECOND, to_ns=-end * SECOND if end else None))
    same = report_of(generated, Selection(from_ns=max(0, 10 - last) * SECOND, to_ns=(10 - end) * SECOND))
    assert found.totals == same.totals
    assert found.window.begin_ns == same.window.begin_ns


def test_the_whole_is_more_than_its_intervals_where_some_were_removed(tmp_path: Path) -> None:
    path = tmp_path / "kept.lockline"
    builder = RecordingBuilder(path, seconds=6)
    builder.lock(1, "tasklist_lock")
    for interval in range(1, 7):
        builder.waits(interval, 0, 1, SPINLOCK, [5 * US])
    builder.finish()
    with closing(sqlite3.connect(path)) as connection, connection:
        (gone,) = connection.execute("SELECT end_ns FROM interval ORDER BY id LIMIT 1 OFFSET 1").fetchone()
        connection.execute(
            "DELETE FROM wait_interval WHERE interval IN (SELECT id FROM interval WHERE end_ns <= ?)", [gone]
        )
        connection.execute("DELETE FROM interval WHERE end_ns <= ?", [gone])
        connection.execute("INSERT INTO meta VALUES ('removed_until_ns', ?)", [gone])
    whole, kept = report_of(path), report_of(path, Selection(from_ns=-3600 * SECOND))
    assert (whole.totals.waits, kept.totals.waits) == (6, 4)
    assert kept.window.duration_ns == 4 * SECOND
    assert whole.window.removed_until_ns == gone
    with pytest.raises(LocklineError, match=r"only totals of the time before 2\.0 s"):
        report_of(path, Selection(from_ns=0, to_ns=SECOND))


@given(st.sets(st.integers(0, 4095), min_size=1))
def test_cpu_lists(cpus: set[int]) -> None:
    assert parse_cpus(",".join(map(str, sorted(cpus, key=hash)))) == tuple(sorted(cpus))


def test_cpu_ranges() -> None:
    assert parse_cpus("0-3,7, 5-5") == (0, 1, 2, 3, 5, 7)


@pytest.mark.parametrize("text", ["", "a", "3-1", "0-", "1,,2", "0-99999999", "-1"])
def test_wrong_cpu_lists(text: str) -> None:
    with pytest.raises(ValueError, match="not a CPU or a range"):
        parse_cpus(text)


def test_kinds_by_name_family_and_pattern() -> None:
    names = dict(enumerate(KINDS))
    assert select_kinds(names, ["rwsem"]) == (5, 6)
    assert select_kinds(names, ["mutex"]) == (3, 4)
    assert select_kinds(names, ["*W", "mutex-spin"]) == (2, 4, 6, 9, 11)


def test_selection_is_a_value() -> None:
    assert replace(EVERYTHING, top=3) == Selection(top=3)
