# SPDX-License-Identifier: GPL-2.0-or-later
"""lockline top on this machine: it names what a load waits for, keeps its recording on request, and leaves nothing."""

import os
import pty
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from lockline.base.text import width
from lockline.cli import demo
from lockline.cli import main as cli
from support import DEADLINE_S, wait_for
from terminals import Tmux, tmux_windows

TOP = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.usefixtures("bpf_machine", "build")


def test_a_live_view_names_the_lock_and_keeps_the_recording(tmp_path: Path) -> None:
    kept, scratch = tmp_path / "kept.data", tmp_path / "scratch"
    scratch.mkdir()
    with demo.contended_load(tmp_path):
        command = [sys.executable, "-m", "lockline", "top", "--batch", "-n", "2", "-o", str(kept)]
        environment = {**os.environ, "TMPDIR": str(scratch)}
        done = subprocess.run(
            command, cwd=TOP / "userspace", env=environment, capture_output=True, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (0, f"lockline: kept as {kept}\n")
    frames = done.stdout.split("lockline top")[1:]
    assert len(frames) == 2
    # Of the first interval it would be the cost of the start.
    assert ["own cost" in one for one in frames] == [False, True]
    assert demo.LOCK in done.stdout
    assert kept.stat().st_mode & 0o777 == 0o600
    assert cli.main(["report", str(kept)]) == 0
    assert list(scratch.iterdir()) == []


def first_line_has(window: Tmux, columns: int) -> bool:
    """Whether the screen's first line, which ends with lockline's own cost, has so many columns."""
    return width(window.screen()[0]) == columns


def test_it_follows_its_terminal_while_it_records(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with demo.contended_load(tmp_path), tmux_windows() as windows:
        windows.append(Tmux(tmp_path, [], 80, 24, TERM="screen", LC_ALL="C.UTF-8", TMPDIR=str(scratch)))
        (window,) = windows
        assert max(map(width, window.until("own cost", demo.LOCK[:8]))) <= 80
        for columns, rows in ((200, 60), (60, 14)):
            window.tmux("resize-window", "-x", str(columns), "-y", str(rows))
            wait_for(partial(first_line_has, window, columns), "first line as wide as the window")
            assert len([line for line in window.screen() if "q quit" in line]) == 1
        window.tmux("send-keys", "q")
        window.until_it_ends(0)
    assert list(scratch.iterdir()) == []


@pytest.mark.alone  # it takes debug registers, which the tests of watch need
@pytest.mark.usefixtures("debug_registers")
def test_w_watches_the_line_of_the_lock(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with demo.contended_load(tmp_path), tmux_windows() as windows:
        windows.append(Tmux(tmp_path, [], 120, 40, TERM="screen", LC_ALL="C.UTF-8", TMPDIR=str(scratch)))
        (window,) = windows
        window.until(demo.LOCK)
        window.tmux("send-keys", "/", "m", "m", "a", "p", "_", "l", "Enter", "w")
        window.until(f"watching the cache line of {demo.LOCK}")
        window.until("ANSWER", f"lock:{demo.LOCK}")
        window.tmux("send-keys", "q")
        window.until_it_ends(0)
    assert list(scratch.iterdir()) == []


def test_it_ends_with_its_terminal(tmp_path: Path) -> None:
    """Where no signal tells of it too: nothing runs on that nobody sees."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TMPDIR": str(scratch), "TERM": "xterm"}
    command = [sys.executable, "-m", "lockline", "top"]
    with subprocess.Popen(
        command, cwd=TOP / "userspace", env=environment, stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        seen = b""
        while b"own cost" not in seen:
            seen += os.read(ours, 4096)
        assert list(scratch.iterdir())
        os.close(ours)
        process.wait(DEADLINE_S)
    assert list(scratch.iterdir()) == []


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "none", scratch], check=True)
    try:
        # All but little, or it would not pass for a place: the recording takes that, and what says so needs none.
        (scratch / "all").write_bytes(bytes(290 << 10))
        done = subprocess.run(
            [sys.executable, "-m", "lockline", "top", "--once"],
            cwd=TOP / "userspace",
            env={**os.environ, "TMPDIR": str(scratch)},
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.count("\n") == 1
        assert "no space left" in done.stderr.lower()
        assert [path.name for path in scratch.iterdir()] == ["all"]
    finally:
        subprocess.run(["umount", scratch], check=True)
