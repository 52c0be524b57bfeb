# SPDX-License-Identifier: GPL-2.0-or-later
"""`lockline fleet add`: a recording goes in whole, once, or not at all."""

import fcntl
import io
import json
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest

from fleet_generator import Truth, host_days, record
from lockline.analysis.selection import Selection
from lockline.base.errors import LocklineError
from lockline.cli.main import main
from lockline.fleet import add as adding
from lockline.fleet.add import Told, add
from lockline.fleet.store import ADDING, MARKER, places
from lockline.fleet.tables import TABLES
from lockline.recording.reader import open_recording
from lockline.rules.report import make_report
from programs import TOP
from recording_generator import RecordingBuilder

DEADLINE_S = 120
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(TOP / "userspace")}


@dataclass
class Done:
    """What a command printed, and how it ended."""

    stdout: str
    stderr: str
    returncode: int


def fleet(*arguments: object) -> Done:
    """`lockline fleet`, in this process."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(["fleet", *map(str, arguments)])
    return Done(out.getvalue(), err.getvalue(), code)


def rows(directory: Path, query: str) -> list[tuple[object, ...]]:
    """A query over the files; TABLE stands for those of a table."""
    for name in TABLES:
        query = query.replace(f"[{name}]", f"read_parquet('{directory}/*/*/*/{name}.parquet', hive_partitioning=false)")
    with duckdb.connect() as connection:
        return connection.execute(query).fetchall()


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Six recordings of three hosts."""
    directory = tmp_path_factory.mktemp("recordings")
    days = list(host_days(Truth(hosts=3, locks=3)))
    return [record(directory / f"{number}.data", day) for number, day in enumerate(days)]


def test_the_sums_are_those_of_the_reports(recordings: list[Path], tmp_path: Path) -> None:
    done = fleet("add", "--intervals", tmp_path / "fleet", *recordings)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("6 recordings added, 432 rows of waits")
    expected: dict[tuple[str, str], tuple[int, int]] = {}
    buckets: dict[tuple[str, str], int] = {}
    for path in recordings:
        with open_recording(path) as recording:
            for lock in make_report(recording, Selection(), 0).locks:
                waits, wait_ns = expected.get((lock.name, lock.kind), (0, 0))
                expected[lock.name, lock.kind] = waits + lock.figures.waits, wait_ns + lock.figures.wait_ns
                key = lock.name, lock.kind
                buckets[key] = buckets.get(key, 0) + sum(lock.figures.histogram)
    for table in ("waits", "lock_hours"):
        found = rows(tmp_path / "fleet", f"SELECT lock, kind, sum(waits), sum(wait_ns) FROM [{table}] GROUP BY 1, 2")
        assert {(lock, kind): sums for lock, kind, *sums in found} == {
            key: list(figures) for key, figures in expected.items()
        }
    found = rows(tmp_path / "fleet", "SELECT lock, kind, sum(waits) FROM [lengths] GROUP BY 1, 2")
    assert {(lock, kind): waits for lock, kind, waits in found} == buckets
    observed = rows(tmp_path / "fleet", "SELECT host, sum(observed_ns) FROM [hours] GROUP BY 1 ORDER BY 1")
    assert observed == [(f"web{host:04}", 48 * 3_600_000_000_000) for host in range(3)]
    assert rows(tmp_path / "fleet", "SELECT sum(waits) FROM [recordings]") == [
        (sum(waits for waits, _ in expected.values()),)
    ]


def test_columns_are_as_described(recordings: list[Path], tmp_path: Path) -> None:
    list(add(tmp_path / "fleet", [str(recordings[0])], Told(2.5, intervals=True), 1))
    [place] = places(tmp_path / "fleet")
    assert place.path.parent.name == "host=web0000"
    assert place.path.parent.parent.name == "date=2025-11-09"
    for file in place.path.iterdir():
        with duckdb.connect() as connection:
            relation = connection.read_parquet(str(file))
            described = list(zip(relation.columns, map(str, relation.types), strict=True))
            assert described == list(TABLES[file.stem]), file.stem
            assert {row[:3] for row in relation.fetchall()} == {(place.recording, "web0000", 2.5)}


def test_adding_again_changes_nothing(recordings: list[Path], tmp_path: Path) -> None:
    fleet("add", tmp_path / "fleet", *recordings[:4])
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "fleet").rglob("*.parquet")}
    done = fleet("add", tmp_path / "fleet", *recordings)
    assert done.returncode == 0
    assert done.stdout.startswith("2 recordings added")
    assert "4 were there already" in done.stdout
    after = {path: path.stat().st_mtime_ns for path in (tmp_path / "fleet").rglob("*.parquet")}
    assert before.items() <= after.items()
    assert len(list(places(tmp_path / "fleet"))) == 6


def test_a_damaged_recording_is_named_and_left_out(recordings: list[Path], tmp_path: Path) -> None:
    broken = tmp_path / "broken.data"
    content = recordings[0].read_bytes()
    broken.write_bytes(content[: len(content) // 2])
    text = tmp_path / "text.data"
    text.write_text("no recording")
    done = fleet("add", tmp_path / "fleet", broken, recordings[1], text, tmp_path / "none.data")
    assert done.returncode == 1
    assert "1 recordings added" in done.stdout
    assert "3 left out" in done.stdout
    told = done.stderr.splitlines()
    assert len(told) == 3
    assert all(f"{path}: " in line for path, line in zip((broken, text, tmp_path / "none.data"), told, strict=True))
    assert len(list(places(tmp_path / "fleet"))) == 1


@pytest.mark.parametrize("blob", [b"\x04\x00\x01", b"\xff\x00\x01\x00\x00\x00", b"\x04\x01\x01\x00\x00\x00"])
def test_a_broken_histogram_is_damage(blob: bytes, tmp_path: Path) -> None:
    builder = RecordingBuilder(tmp_path / "a.data", seconds=1)
    builder.lock(1, "a_lock")
    builder.waits(1, 0, 1, 0, [100, 2000])
    builder.write_intervals()
    builder.connection.execute("UPDATE wait_interval SET histogram = ?", (blob,))
    builder.finish()
    [one] = add(tmp_path / "fleet", [str(tmp_path / "a.data")], Told(), 1)
    assert one.outcome == "failed"
    assert "damaged" in one.why
    assert "histograms" in one.why
    assert list(places(tmp_path / "fleet")) == []


def test_values_of_other_types_are_damage(tmp_path: Path) -> None:
    builder = RecordingBuilder(tmp_path / "a.data", seconds=1)
    builder.lock(1, "a_lock")
    builder.waits(1, 0, 1, 0, [100])
    builder.write_intervals()
    builder.connection.execute("UPDATE wait_interval SET waits = '7,8,9' || char(10) || '1,1,1,1,1,1,1,1,'")
    builder.finish()
    [one] = add(tmp_path / "fleet", [str(tmp_path / "a.data")], Told(), 1)
    assert one.outcome == "failed"
    assert "damaged" in one.why


def test_hosts_and_locks_with_hostile_names(tmp_path: Path) -> None:
    host, lock = "../../etc'; DROP TABLE x --\x1b[31m", "lock\"',\n\x00ffff888000000040"
    builder = RecordingBuilder(tmp_path / "a.data", seconds=1, meta={"hostname": host})
    builder.lock(1, lock)
    builder.waits(1, 0, 1, 0, [100])
    builder.finish()
    directory = tmp_path / "fleet"
    [one] = add(directory, [str(tmp_path / "a.data")], Told(intervals=True), 1)
    assert one.outcome == "added", one.why
    [place] = places(directory)
    assert place.path.resolve().is_relative_to(directory.resolve())
    [(shown_host, shown_lock)] = rows(directory, "SELECT host, lock FROM [waits]")
    assert isinstance(shown_host, str)
    assert isinstance(shown_lock, str)
    assert shown_host.startswith("../../etc'; DROP TABLE")
    assert "\x1b" not in shown_host
    assert "[address]" in shown_lock
    assert "\n" not in shown_lock
    assert fleet("report", directory).returncode == 0


def test_a_directory_of_something_else_is_refused(recordings: list[Path], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    done = fleet("add", tmp_path, recordings[0])
    assert done.returncode == 1
    assert "holds other files" in done.stderr
    assert fleet("report", tmp_path).returncode == 1
    assert fleet("add", tmp_path / "a[b", recordings[0]).returncode == 1


def test_a_newer_schema_is_refused(recordings: list[Path], tmp_path: Path) -> None:
    (tmp_path / MARKER).write_text(json.dumps({"lockline-fleet": 99}))
    done = fleet("add", tmp_path, recordings[0])
    assert done.returncode == 1
    assert "schema 99 is newer" in done.stderr


def test_one_line_where_duckdb_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(LocklineError, match=r"pip install 'lockline\[fleet\]'"):
        list(add(tmp_path / "fleet", [], Told(), 1))
    assert not (tmp_path / "fleet").exists()


def test_two_writers_at_once(recordings: list[Path], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "lockline", "fleet", "add", str(tmp_path / "fleet"), *map(str, recordings[:3])]
    writers = [subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    told = [writer.communicate()[0] for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0]
    assert sum(int(text.split()[0]) for text in told) == 3
    assert len(list(places(tmp_path / "fleet"))) == 3
    assert list((tmp_path / "fleet" / ADDING).iterdir()) == []


# Stops for ever at a call of a function of lockline.fleet.add, and says so by a file.
STOPPED = """
import sys, time
from pathlib import Path
from lockline.fleet import add

name, calls, flag, directory, recording = sys.argv[1:]
real, left = getattr(add, name), int(calls)

def stops(*arguments):
    global left
    left -= 1
    if left < 0:
        Path(flag).touch()
        time.sleep(1e6)
    return real(*arguments)

setattr(add, name, stops)
list(add.add(Path(directory), [recording], add.Told(), 1))
"""


@pytest.mark.parametrize(("function", "calls"), [("write_rows", 2), ("publish", 0)])
def test_a_killed_writer_leaves_nothing_half_added(
    function: str, calls: int, recordings: list[Path], tmp_path: Path
) -> None:
    directory, flag = tmp_path / "fleet", tmp_path / "flag"
    command = [sys.executable, "-c", STOPPED, function, str(calls), str(flag), str(directory), str(recordings[0])]
    writer = subprocess.Popen(command, env=ENVIRONMENT)
    deadline = time.monotonic() + DEADLINE_S
    while not flag.exists():
        assert writer.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert list(directory.glob(f"{ADDING}/*/made/*.parquet"))
    # Who adds meanwhile leaves it alone, and does not see it.
    fleet("add", directory, recordings[1])
    assert list(directory.glob(f"{ADDING}/*/made/*.parquet"))
    assert len(list(places(directory))) == 1
    writer.kill()
    writer.wait()
    assert len(list(places(directory))) == 1
    assert fleet("add", directory, *recordings[:2]).returncode == 0
    assert len(list(places(directory))) == 2
    assert list((directory / ADDING).iterdir()) == []


def test_what_another_writer_is_at_is_left_alone(recordings: list[Path], tmp_path: Path) -> None:
    directory = tmp_path / "fleet"
    list(add(directory, [str(recordings[0])], Told(), 1))
    other = directory / ADDING / "other"
    other.mkdir()
    with (other / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        list(add(directory, [str(recordings[1])], Told(), 1))
        assert other.exists()
    list(add(directory, [str(recordings[2])], Told(), 1))
    assert not other.exists()


def test_a_full_disk(recordings: list[Path], tmp_path: Path) -> None:
    """Files may not grow beyond a limit, as on a disk that is full; without it all goes in."""
    directory = tmp_path / "fleet"
    command = [sys.executable, "-m", "lockline", "fleet", "add", str(directory), *map(str, recordings[:2])]

    def limited() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

    done = subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT, preexec_fn=limited)
    assert done.returncode == 1
    assert "2 left out" in done.stdout
    assert len(done.stderr.splitlines()) == 2
    assert list(places(directory)) == []
    assert fleet("add", directory, *recordings[:2]).returncode == 0
    assert len(list(places(directory))) == 2


def test_a_recording_that_grew_counts_once(tmp_path: Path) -> None:
    [day, *_] = host_days(Truth(hosts=1, locks=2))
    whole = record(tmp_path / "whole.data", day)
    begun = tmp_path / "begun.data"
    begun.write_bytes(whole.read_bytes())
    connection = sqlite3.connect(begun)
    with connection:
        connection.execute("DELETE FROM wait_interval WHERE interval > 12")
        connection.execute("DELETE FROM interval WHERE id > 12")
        connection.execute("UPDATE meta SET value = value - 43200000000000 WHERE name = 'end_ns'")
        connection.execute("UPDATE meta SET value = 'recording' WHERE name = 'state'")
    connection.close()
    done = fleet("add", tmp_path / "fleet", begun, whole)
    assert done.returncode == 0, done.stderr
    assert " 1 recording, " in fleet("report", tmp_path / "fleet").stdout
    assert "24 host-hours" in fleet("report", tmp_path / "fleet").stdout


def test_the_hash_is_of_the_log_too(recordings: list[Path], tmp_path: Path) -> None:
    path = tmp_path / "a.data"
    path.write_bytes(recordings[0].read_bytes())
    alone = adding.content_hash(path)
    (tmp_path / "a.data-wal").write_bytes(b"x")
    assert adding.content_hash(path) != alone == adding.content_hash(recordings[0])
