# SPDX-License-Identifier: GPL-2.0-or-later
"""Parts of recordings that are kept aside: their sums are those of the report of that time."""

import os
import sqlite3
import stat
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockline.analysis.model import Report
from lockline.analysis.selection import Selection
from lockline.cli import main as cli
from lockline.recording.reader import open_recording
from lockline.rules.report import make_report
from recording_generator import SECOND


def report_of(path: Path, selection: Selection | None = None) -> Report:
    with open_recording(path) as recording:
        return make_report(recording, selection or Selection(), 10)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 9), st.integers(1, 10))
def test_sums_are_those_of_the_time(
    generated: Path, tmp_path_factory: pytest.TempPathFactory, begin: int, length: int
) -> None:
    end = min(10, begin + length)
    part = tmp_path_factory.mktemp("part") / "part.data"
    assert cli.main(["save", str(generated), "--from", str(begin), "--to", str(end), "-o", str(part)]) == 0
    whole, saved = report_of(generated, Selection(from_ns=begin * SECOND, to_ns=end * SECOND)), report_of(part)
    assert saved.totals == whole.totals
    assert [(lock.name, lock.kind, lock.figures) for lock in saved.locks] == [
        (lock.name, lock.kind, lock.figures) for lock in whole.locks
    ]
    assert saved.cpus == whole.cpus
    assert [replace(one, offset_ns=0) for one in saved.outliers] == [
        replace(one, offset_ns=0) for one in whole.outliers
    ]
    assert [(task.comm, task.tid, task.lock, task.lock_ns) for task in saved.tasks] == [
        (task.comm, task.tid, task.lock, task.lock_ns) for task in whole.tasks
    ]
    assert saved.window.duration_ns == whole.window.duration_ns == (end - begin) * SECOND
    assert not [loss for loss in saved.loss if loss.name.startswith("report:")]


def test_what_it_is_a_part_of(example: Path, tmp_path: Path) -> None:
    """Its begin is that of the part, by both clocks; totals without a time are left out, and their signals say why."""
    part = tmp_path / "part.data"
    assert cli.main(["save", str(example), "-2s", "-o", str(part)]) == 0
    before, after = report_of(example), report_of(part)
    assert before.window.begin_unix_ns is not None
    moved = after.window.begin_ns - before.window.begin_ns
    assert moved > 0
    assert after.window.begin_unix_ns == before.window.begin_unix_ns + moved
    assert stat.S_IMODE(part.stat().st_mode) == 0o600
    assert any(lock.holders for lock in before.locks)
    assert not any(lock.holders for lock in after.locks)
    off = {probe.signal: probe.reason for probe in after.probes if probe.state == "off"}
    on = {probe.signal for probe in before.probes if probe.state == "on"}
    assert all("a part of one" in off[signal] for signal in on & set(off))
    with closing(sqlite3.connect(part)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("SELECT value FROM meta WHERE name = 'saved_from'").fetchone() == (example.name,)
        (strangers,) = connection.execute(
            "SELECT count(*) FROM sample_interval WHERE waiter NOT IN (SELECT id FROM waiter)"
        ).fetchone()
        assert strangers == 0


def test_a_part_of_a_part(generated: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first.data", tmp_path / "second.data"
    assert cli.main(["save", str(generated), "--from", "2", "--to", "8", "-o", str(first)]) == 0
    assert cli.main(["save", str(first), "--last", "3", "-o", str(second)]) == 0
    whole = report_of(generated, Selection(from_ns=5 * SECOND, to_ns=8 * SECOND))
    assert report_of(second).totals == whole.totals


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "save: which part? For example: lockline save -10m"),
        (["--from", "5", "--to", "3"], "--to: lies before --from"),
        (["--from", "1h"], "no interval of the recording lies there"),
        (["-2s", "-o", "SAME"], "it is the recording itself"),
        (["-2s", "-o", "/nonexistent/x"], "/nonexistent/x: cannot be written"),
        (["-2s", "-o", "OTHER"], "it exists and is not a recording"),
    ],
)
def test_failures_are_one_line(
    arguments: list[str], message: str, example: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    other.write_text("a text")
    words = [{"SAME": str(example), "OTHER": str(other)}.get(word, word) for word in arguments]
    assert cli.main(["save", str(example), *words]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert message in told.err
    assert told.err.count("\n") == 1
    assert other.read_text() == "a text"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a file away")
@pytest.mark.parametrize(
    ("user", "group", "owner"), [("1234", "1235", (1234, 1235)), ("0", "0", (0, 0)), ("x", "", None)]
)
def test_what_sudo_saves_is_the_users(
    example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: str, group: str, owner: tuple[int, int] | None
) -> None:
    monkeypatch.setenv("SUDO_UID", user)
    monkeypatch.setenv("SUDO_GID", group)
    part = tmp_path / "part.data"
    assert cli.main(["save", str(example), "-2s", "-o", str(part)]) == 0
    made = part.stat()
    assert (made.st_uid, made.st_gid) == (owner or (os.geteuid(), os.getegid()))
    assert stat.S_IMODE(made.st_mode) == 0o600
