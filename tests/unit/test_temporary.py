# SPDX-License-Identifier: GPL-2.0-or-later
"""Directories for recordings that are not kept."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from lockline.cli.temporary import temporary
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
