# SPDX-License-Identifier: GPL-2.0-or-later
"""Directories for recordings that are not kept."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from example_recording import make_example
from lockline.cli.output import replace_whole
from lockline.cli.temporary import temporary
from lockline.export import waits
from lockline.recording import connection
from lockline.recording.reader import open_recording
from programs import TOP

HOLDS_ONE = """
import sys
from lockline.cli.temporary import temporary
with temporary("watch") as directory:
    (directory / "watch.lockline").write_text("")
    print(directory, flush=True)
    sys.stdin.read()
"""


def holder(place: Path) -> tuple["subprocess.Popen[str]", Path]:
    """A process that uses a directory there, which was made long ago."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS_ONE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(place), "PYTHONPATH": str(TOP / "userspace")},
    )
    assert process.stdout
    path = Path(process.stdout.readline().strip())
    assert path.parent == place
    os.utime(path, (0, 0))
    return process, path


def test_what_a_killed_process_left_goes_at_the_next_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    killed, left = holder(tmp_path)
    running, used = holder(tmp_path)
    killed.kill()
    killed.communicate()
    other = tmp_path / "lockline-why-x"
    other.mkdir()
    os.utime(other, (0, 0))
    link = tmp_path / "lockline-watch-link"
    link.symlink_to(other)
    young = tmp_path / "lockline-watch-young"
    young.mkdir()
    with temporary("watch") as directory:
        assert set(tmp_path.iterdir()) == {used, other, link, young, directory}
        assert directory.stat().st_mode & 0o777 == 0o700
        assert (used / "watch.lockline").exists()
    running.communicate("")
    assert set(tmp_path.iterdir()) == {other, link, young}
    assert not left.exists()


def terminated(*_: object) -> None:
    """In place of a step: SIGTERM comes there."""
    os.kill(os.getpid(), signal.SIGTERM)


def test_the_copy_of_a_recording_goes_when_a_signal_ends_us(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory that nobody can write to has no index of the journal, so that a copy is read."""
    scratch, path = tmp_path / "scratch", tmp_path / "x.lockline"
    scratch.mkdir()
    make_example(path)
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setattr(connection, "_connect_in_place", lambda _: connection._connect("/missing", "mode=ro"))
    monkeypatch.setattr(connection, "_has_wal", lambda _: True)
    monkeypatch.setattr(connection, "takes_changes", lambda *_: True)
    monkeypatch.setattr(shutil, "copyfile", terminated)
    with pytest.raises(SystemExit) as ended, open_recording(str(path)):
        pass
    assert ended.value.code == 128 + signal.SIGTERM
    assert list(scratch.iterdir()) == []


def test_a_table_for_parquet_goes_when_a_signal_ends_us(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(waits, "load_duckdb", lambda *_: waits)
    monkeypatch.setattr(waits, "connect", terminated, raising=False)
    with pytest.raises(SystemExit):
        waits.to_parquet(iter(()))
    assert list(tmp_path.iterdir()) == []


def test_half_a_file_goes_when_a_signal_ends_us(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fdopen = os.fdopen

    def opened(*arguments: object) -> object:
        terminated()
        return fdopen(*arguments)  # type: ignore[call-overload]

    monkeypatch.setattr(os, "fdopen", opened)
    with pytest.raises(SystemExit):
        replace_whole(tmp_path / "page.html", b"page", 0o644)
    assert list(tmp_path.iterdir()) == []
