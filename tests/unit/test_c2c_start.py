# SPDX-License-Identifier: GPL-2.0-or-later
"""The import that begins before options are read: of which command lines, and what is left of it."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lockline.base import scratch as scratch_module
from lockline.base.errors import LocklineError
from lockline.base.scratch import scratch
from lockline.cli import c2c_start
from programs import TOP

PERF_DATA = b"PERFILE2" + bytes(200)


@pytest.mark.parametrize(
    "arguments",
    [
        ["FILE"],
        ["FILE", "--format", "json", "--top", "3"],
        ["--format=json", "FILE", "--all"],
        ["-i", "FILE"],
        ["--input=FILE", "--recording", "waits", "--addresses"],
    ],
)
def test_a_command_line_without_doubt_is_taken(arguments: list[str]) -> None:
    assert c2c_start._file_of(["c2c", "report", *arguments]) == "FILE"


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["FILE", "OTHER"],
        ["FILE", "-i", "OTHER"],
        ["FILE", "--symfs", "/"],
        ["FILE", "--kallsyms=K"],
        ["FILE", "--form", "json"],
        ["--help"],
    ],
)
def test_any_other_waits_for_argparse(arguments: list[str]) -> None:
    assert c2c_start._file_of(["c2c", "report", *arguments]) is None
    assert c2c_start._file_of(["c2c", "import", "FILE"]) is None


def collector(directory: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A collector that runs this script."""
    path = directory / "collector"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o700)
    monkeypatch.setattr("lockline.base.collector.find_collector", lambda: str(path))


def test_the_import_is_taken_by_its_file_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collector(tmp_path, 'echo made > "$4"; echo "lockline: a note" >&2', monkeypatch)
    file = tmp_path / "perf.data"
    file.write_bytes(PERF_DATA)
    with c2c_start.started(["c2c", "report", str(file)]):
        assert c2c_start.take("another") is None
        importing = c2c_start.take(str(file))
        assert importing is not None
        assert importing.finish() == ["a note"]
        assert Path(importing.output).read_text() == "made\n"
        directory = Path(importing.output).parent
    assert not directory.exists()
    assert c2c_start.take(str(file)) is None


def test_an_import_that_nobody_takes_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collector(tmp_path, "exec sleep 1000", monkeypatch)
    file = tmp_path / "perf.data"
    file.write_bytes(PERF_DATA)
    with c2c_start.started(["c2c", "report", str(file)]):
        importing = c2c_start.take(str(file))
        assert importing is not None
        process = Path(f"/proc/{importing._pid}")
        assert process.exists()
    assert not process.exists()


def test_a_failed_import_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collector(tmp_path, 'echo "lockline: cannot read it" >&2; exit 1', monkeypatch)
    file = tmp_path / "perf.data"
    file.write_bytes(PERF_DATA)
    with c2c_start.started(["c2c", "report", str(file)]):
        importing = c2c_start.take(str(file))
        assert importing is not None
        with pytest.raises(LocklineError, match=r"^cannot read it$"):
            importing.finish()


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0", b"text"])
def test_other_files_are_not_imported(content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collector(tmp_path, f"touch {tmp_path}/ran", monkeypatch)
    file = tmp_path / "file"
    file.write_bytes(content)
    with c2c_start.started(["c2c", "report", str(file)]):
        assert c2c_start.take(str(file)) is None
    with c2c_start.started(["c2c", "report", str(tmp_path / "missing")]):
        assert c2c_start.take(str(tmp_path / "missing")) is None
    assert not (tmp_path / "ran").exists()


def test_a_scratch_directory_goes_with_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with scratch() as name:
        directory = Path(name)
        assert directory.parent == tmp_path
        assert directory.stat().st_mode & 0o777 == 0o700
        (directory / "file").write_text("x")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv("TMPDIR", str(tmp_path / "missing"))
    with scratch() as name:
        assert Path(name).is_dir()


def test_a_place_without_room_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk a directory can be made, and no file in it."""
    full, other = tmp_path / "full", tmp_path / "other"
    full.mkdir()
    other.mkdir()
    write = scratch_module._write_into

    def fails(path: str) -> None:
        if path.startswith(str(full)):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(path)

    monkeypatch.setattr(scratch_module, "_write_into", fails)
    monkeypatch.setenv("TMPDIR", str(full))
    monkeypatch.setenv("TEMP", str(other))
    with scratch() as name:
        assert Path(name).parent == other
        assert list(Path(name).iterdir()) == []
    assert list(full.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_no_directory(number: signal.Signals, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.mkdir()
    # Beside the launcher: it is the collector that is found first.
    (program / "lockline-collect").write_text(f"#!/bin/sh\necho >{tmp_path}/began; exec sleep 1000\n")
    (program / "lockline-collect").chmod(0o700)
    (program / "run").write_text("import sys\nfrom lockline.cli.main import main\nsys.exit(main())\n")
    file, scratches = tmp_path / "perf.data", tmp_path / "scratches"
    file.write_bytes(PERF_DATA)
    scratches.mkdir()
    process = subprocess.Popen(
        [sys.executable, program / "run", "c2c", "report", file],
        env={**os.environ, "PYTHONPATH": str(TOP / "userspace"), "TMPDIR": str(scratches)},
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "began").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert list(scratches.iterdir())
    process.send_signal(number)
    assert process.wait(60) == 128 + number
    assert list(scratches.iterdir()) == []


def test_a_signal_as_the_import_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes before the `with` is entered: nobody leaves that."""

    def interrupted(*_: object) -> None:
        assert list(scratches.iterdir())
        raise SystemExit(128 + signal.SIGHUP)

    file, scratches = tmp_path / "perf.data", tmp_path / "scratches"
    file.write_bytes(PERF_DATA)
    scratches.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratches))
    monkeypatch.setattr(c2c_start, "Importing", interrupted)
    with pytest.raises(SystemExit), c2c_start.started(("c2c", "report", str(file))):
        pass
    assert list(scratches.iterdir()) == []
