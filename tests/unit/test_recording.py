# SPDX-License-Identifier: GPL-2.0-or-later
"""Files that are no recording, damaged ones, and ones that the collector left behind."""

import random
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from example_recording import make_example
from lockline.analysis.selection import Selection
from lockline.base.errors import RecordingError
from lockline.cli import main as cli
from lockline.recording.reader import open_recording
from lockline.recording.tables import TABLES
from lockline.rules.report import make_report
from recording_generator import SCHEMA, RecordingBuilder


def fault_of(path: Path) -> str:
    """The message of the error that a report of this file ends with."""
    with pytest.raises(RecordingError) as caught, open_recording(path) as opened:
        make_report(opened, Selection(), 5)
    return str(caught.value)


@contextmanager
def changed(source: Path, target: Path) -> Iterator[sqlite3.Connection]:
    """A connection to a copy of a recording, committed at the end."""
    target.write_bytes(source.read_bytes())
    connection = sqlite3.connect(target)
    yield connection
    connection.commit()
    connection.close()


def test_what_was_made_here_reads_the_same(example: Path) -> None:
    with open_recording(example) as opened, open_recording(example, made_here=True) as trusted:
        assert trusted.schema == opened.schema
        for described in TABLES.values():
            assert list(trusted.table(described.row)) == list(opened.table(described.row))
        assert trusted.has_locks() is opened.has_locks() is bool(opened.locks())


def test_no_file(tmp_path: Path) -> None:
    assert "no such file" in fault_of(tmp_path / "absent")


def test_a_directory(tmp_path: Path) -> None:
    assert "not a file" in fault_of(tmp_path)


def test_a_path_that_cannot_be() -> None:
    assert "cannot be read" in fault_of(Path("a\0b")) or "no such file" in fault_of(Path("a\0b"))


@pytest.mark.parametrize("content", [b"", b"S", b"hello\n" * 100, b"SQLite format 3\0", bytes(4096)])
def test_no_recording(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    assert any(words in fault_of(path) for words in ("empty", "not a lockline recording", "truncated"))


def test_some_other_database(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE meta (name, value)")
    connection.commit()
    connection.close()
    assert "some other SQLite file" in fault_of(path)


def test_a_newer_schema(tmp_path: Path, example: Path) -> None:
    path = tmp_path / "newer"
    with changed(example, path) as connection:
        connection.execute("PRAGMA user_version = 13")
    assert "schema 13 is newer than this lockline reads (12)" in fault_of(path)


@pytest.mark.parametrize(
    ("schema", "lacks"),
    [
        (1, "memory_source"),
        (1, "watch"),
        (2, "watch"),
        (2, "futex_owned_wait"),
        (3, "futex_owned_wait"),
        (3, "watch_told"),
        (4, "container"),
        (5, "investigation"),
        (6, "futex_holder"),
        (10, "java_monitor"),
    ],
)
def test_an_older_schema_reads_as_if_what_it_lacks_were_empty(
    tmp_path: Path, example: Path, schema: int, lacks: str
) -> None:
    path = tmp_path / "older"
    with changed(example, path) as connection:
        for table in (table for table in TABLES.values() if table.since > schema):
            connection.execute(f"DROP TABLE {table.name}")
        connection.execute(f"PRAGMA user_version = {schema}")
    with open_recording(path) as opened:
        assert list(opened.table(TABLES[lacks].row)) == []
        assert opened.kinds()


def test_schema_0(tmp_path: Path, example: Path) -> None:
    path = tmp_path / "older"
    with changed(example, path) as connection:
        connection.execute("PRAGMA user_version = 0")
    assert "schema 0 does not exist" in fault_of(path)


def test_truncated_anywhere(tmp_path: Path, example: Path) -> None:
    content = example.read_bytes()
    path = tmp_path / "short"
    for size in (1, 99, 100, 4096, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:size])
        assert "truncated" in fault_of(path)


@pytest.mark.parametrize("table", ["meta", "kind", "lock_total", "cell_total", "wait_interval", "outlier", "open_wait"])
def test_a_missing_table(tmp_path: Path, example: Path, table: str) -> None:
    path = tmp_path / "missing"
    with changed(example, path) as connection:
        connection.execute(f"DROP TABLE {table}")
    assert f"no table {table}" in fault_of(path)


def test_a_missing_column(tmp_path: Path, example: Path) -> None:
    path = tmp_path / "column"
    with changed(example, path) as connection:
        connection.execute("ALTER TABLE lock RENAME COLUMN instance TO other")
    assert "no column lock.instance" in fault_of(path)


def test_a_view_in_a_tables_place(tmp_path: Path, example: Path) -> None:
    """It could run for ever, so it is not run at all."""
    path = tmp_path / "view"
    with changed(example, path) as connection:
        connection.execute("DROP TABLE kind")
        endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS id, 'k' AS name FROM n"
        connection.execute(f"CREATE VIEW kind AS {endless}")
    assert "no table kind" in fault_of(path)


def test_a_computed_column(tmp_path: Path, example: Path) -> None:
    path = tmp_path / "computed"
    with changed(example, path) as connection:
        connection.execute("DROP TABLE kind")
        connection.execute("CREATE TABLE kind (id INTEGER PRIMARY KEY, name AS (hex(zeroblob(1000000))))")
    assert "no column kind.name" in fault_of(path)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE lock_total SET waits = 'many'",
        "UPDATE lock_total SET wait_ns = 1.5",
        "UPDATE lock_total SET histogram = 'text'",
        "UPDATE lock_total SET histogram = x'00'",
        "UPDATE cpu_total SET histogram = x'ffff01000000'",
        "UPDATE lock SET name = x'00ff'",
        "UPDATE lock SET address = 'here' WHERE id = 1",
        "UPDATE meta SET value = x'00' WHERE name = 'hostname'",
        "UPDATE stack SET frames = x'0102' WHERE id = 1",
        "UPDATE frame SET offset = 'x'",
        "UPDATE waiter SET tid = 'x' WHERE id = 1",
        "UPDATE outlier SET begin_ns = 'x'",
        "UPDATE interval SET end_ns = 'x'",
        "UPDATE sample_total SET wait_ns = 'x'",
        "UPDATE sample_total SET wait_ns = 9223372036854775807",
        "UPDATE program SET measured_ns = 'x'",
        "UPDATE loss SET count = 'x'",
        "UPDATE open_wait SET comm = x'00'",
        "UPDATE lock SET name = zeroblob(5000000)",
    ],
)
def test_wrong_values(tmp_path: Path, example: Path, change: str) -> None:
    path = tmp_path / "wrong"
    with changed(example, path) as connection:
        assert connection.execute(change).rowcount > 0
    assert "damaged" in fault_of(path)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE meta SET value = 'x' WHERE name IN ('begin_ns', 'cpus_online', 'threshold_ns', 'memory_total_bytes')",
        "UPDATE meta SET value = 1e300",
        "UPDATE meta SET value = -1",
        "UPDATE meta SET value = 9223372036854775807",
        "UPDATE meta SET value = ''",
        "DELETE FROM lock",
        "DELETE FROM kind",
        "DELETE FROM waiter",
        "DELETE FROM stack",
        "DELETE FROM frame",
        "DELETE FROM interval",
        "UPDATE lock SET name = CAST(x'ff41fe' AS TEXT)",
    ],
)
def test_facts_and_names_are_optional(
    tmp_path: Path, example: Path, change: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bare"
    with changed(example, path) as connection:
        connection.execute(change)
    for output in ("text", "json"):
        assert cli.main(["report", str(path), "--format", output]) == 0
        assert capsys.readouterr().err == ""


def quiet_outcome(path: Path, capsys: pytest.CaptureFixture[str], *options: str) -> int:
    """The exit code, after checking that stderr has one line or none."""
    code = cli.main(["report", str(path), *options])
    err = capsys.readouterr().err
    assert (code, err.count("\n")) in ((0, 0), (1, 1)), err
    assert err == "" or err.startswith("lockline: ")
    return code


def bytes_changed(examples: int) -> Callable[..., None]:
    """A test that changes any bytes, so many times."""

    @settings(max_examples=examples)
    @given(
        edits=st.lists(st.tuples(st.integers(0, 1 << 20), st.binary(min_size=1, max_size=8)), min_size=1, max_size=20),
        options=st.sampled_from(
            [(), ("--format", "json"), ("--from", "1"), ("--cpu", "0-2"), ("--lock", "a", "--by", "instance")]
        ),
    )
    def test(
        tmp_path: Path,
        example: Path,
        capsys: pytest.CaptureFixture[str],
        edits: list[tuple[int, bytes]],
        options: tuple[str, ...],
    ) -> None:
        content = bytearray(example.read_bytes())
        for position, replacement in edits:
            position %= len(content)
            content[position : position + len(replacement)] = replacement[: len(content) - position]
        path = tmp_path / "edited"
        path.write_bytes(content)
        quiet_outcome(path, capsys, *options)

    return test


test_any_bytes_changed = bytes_changed(100)
test_many_bytes_changed = pytest.mark.laboratory(bytes_changed(2000))


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.laboratory)])
def test_whole_pages_changed(every: int, tmp_path: Path, example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each page in one of three ways, in turn; in the laboratory in all three."""
    content = example.read_bytes()
    generator = random.Random(3)
    codes = set()
    for page in range(1, len(content) // 4096):
        other = generator.randrange(len(content) // 4096)
        ways = (bytes(4096), generator.randbytes(4096), content[other * 4096 : (other + 1) * 4096])
        for replacement in ways[page % every :: every]:
            path = tmp_path / "page"
            path.write_bytes(content[: page * 4096] + replacement + content[(page + 1) * 4096 :])
            codes.add(quiet_outcome(path, capsys))
    assert 1 in codes


WRITER = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA wal_autocheckpoint = 0")
connection.execute("PRAGMA journal_mode = WAL")
connection.executescript("BEGIN;" + open(sys.argv[2]).read() + "COMMIT;")
connection.execute("INSERT INTO meta VALUES ('hostname', 'from the log')")
os.kill(os.getpid(), 9)
"""


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """A recording whose writer was killed: everything is in its write-ahead log."""
    path = tmp_path / "killed" / "lockline.data"
    path.parent.mkdir()
    done = subprocess.run([sys.executable, "-c", WRITER, path, SCHEMA], check=False)
    assert done.returncode == -9
    assert path.with_name("lockline.data-wal").stat().st_size > 0
    return path


def hostname(path: Path) -> str | None:
    with open_recording(path) as opened:
        return make_report(opened, Selection(), 5).host.name


def test_a_killed_collector(killed: Path) -> None:
    assert hostname(killed) == "from the log"


def test_a_running_collector(tmp_path: Path) -> None:
    path = tmp_path / "running"
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.executescript("BEGIN;" + SCHEMA.read_text() + "COMMIT;")
    writer.execute("INSERT INTO meta VALUES ('hostname', 'first')")
    with open_recording(path) as opened:
        assert opened.meta()["hostname"] == "first"
        # The report stays one of one moment, and the writer is not held up.
        writer.execute("UPDATE meta SET value = 'second'")
        assert opened.meta()["hostname"] == "first"
    assert hostname(path) == "second"
    writer.close()


@pytest.mark.parametrize("fault", [sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY])
def test_a_log_in_a_directory_that_cannot_be_written(
    killed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: int
) -> None:
    """SQLite refuses to open it where it stands; a copy is read."""
    from lockline.recording import connection as module

    connect = module._connect

    def refuse(path: str, parameters: str) -> sqlite3.Connection:
        if path == str(killed):
            error = sqlite3.OperationalError("unable to open database file")
            error.sqlite_errorcode = fault
            raise error
        return connect(path, parameters)

    monkeypatch.setattr(module, "_connect", refuse)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert hostname(killed) == "from the log"
    assert not list(tmp_path.glob("lockline-*"))


def test_no_log_in_a_directory_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lockline.recording import connection as module

    path = make_example(tmp_path / "example")
    # A file that says it has a log, and has none: bytes 18 and 19 of the header.
    content = bytearray(path.read_bytes())
    content[18:20] = b"\2\2"
    path.write_bytes(content)
    connect = module._connect

    def refuse(path: str, parameters: str) -> sqlite3.Connection:
        if "immutable" not in parameters:
            error = sqlite3.OperationalError("unable to open database file")
            error.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN
            raise error
        return connect(path, parameters)

    monkeypatch.setattr(module, "_connect", refuse)
    assert hostname(path) == "lab1"


def test_reading_leaves_nothing_behind(tmp_path: Path) -> None:
    path = make_example(tmp_path / "example")
    content = path.read_bytes()
    assert hostname(path) == "lab1"
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == content


@pytest.mark.parametrize("name", ["with space", "a?mode=rwc", "a#b%41", "ünïcode", "-dash"])
def test_any_file_name(tmp_path: Path, name: str) -> None:
    builder = RecordingBuilder(tmp_path / "plain", meta={"hostname": name})
    builder.finish().rename(tmp_path / name)
    assert hostname(tmp_path / name) == name
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_frames_are_signed_in_the_file_and_looked_up_so(tmp_path: Path) -> None:
    builder = RecordingBuilder(tmp_path / "frames")
    builder.insert("stack", [(1, 0, struct.pack("<2Q", 0xFFFFFFFF81000010, 0x10))])
    builder.insert("frame", [(0, 0xFFFFFFFF81000010 - (1 << 64), "high", 1, ""), (0, 0x10, "low", 2, "")])
    with open_recording(builder.finish()) as recording:
        assert [frame.symbol for frame in recording.stacks([1, 99])[1]] == ["high", "low"]
