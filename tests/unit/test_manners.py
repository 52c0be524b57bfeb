# SPDX-License-Identifier: GPL-2.0-or-later
"""What commands do on a terminal: width, characters, colours and the pager, each under a pseudo-terminal."""

import os
import pty
import shutil
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from fcntl import ioctl
from pathlib import Path

import pytest

from lockline.base.text import width
from terminals import read_terminal

TOP = Path(__file__).resolve().parents[2]
# What a user's settings would change.
SETTINGS = ("NO_COLOR", "COLUMNS", "LINES", "PAGER", "LOCKLINE_PAGER", "LESS", "LC_ALL", "LC_CTYPE", "LANG")
# A start and an answer, on a machine that does much else.
SECONDS = 60


def on_a_terminal(arguments: list[str], columns: int = 80, rows: int = 24, **environment: str) -> str:
    """What a command writes on a terminal of this size."""
    leader, follower = pty.openpty()
    ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    variables = {name: value for name, value in os.environ.items() if name not in SETTINGS}
    variables |= {"PYTHONPATH": str(TOP / "userspace"), "TERM": "xterm", "LC_ALL": "C.UTF-8", **environment}
    command = [sys.executable, "-m", "lockline", *arguments]
    # Not stderr: what takes long tells there how long it is at it.
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stdin=follower, stdout=follower, stderr=quiet, env=variables) as process:
        os.close(follower)
        written = read_terminal(leader)
    assert process.returncode == 0, written
    return written.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("columns", [60, 80, 132])
@pytest.mark.parametrize("section", ["--all", "--locks", "--findings"])
def test_sections_are_as_wide_as_the_terminal(section: str, columns: int, example: Path) -> None:
    text = on_a_terminal(["report", str(example), section], columns, 500)
    assert max(map(width, text.splitlines())) <= columns


def test_a_terminal_in_the_c_locale_gets_ascii(example: Path) -> None:
    for section in ("--all", "--cpus", "--time"):
        assert on_a_terminal(["report", str(example), section], 80, 500).isascii() == (section == "--time")
        assert on_a_terminal(["report", str(example), section], 80, 500, LC_ALL="C").isascii()
        assert on_a_terminal(["report", str(example), section], 80, 500, LC_ALL="", LANG="POSIX").isascii()


@pytest.mark.parametrize(
    ("options", "environment", "wanted"),
    [
        ([], {}, True),
        ([], {"NO_COLOR": "1"}, False),
        ([], {"NO_COLOR": ""}, True),
        ([], {"TERM": "dumb"}, False),
        (["--color=never"], {}, False),
        (["--color=always"], {"NO_COLOR": "1", "TERM": "dumb"}, True),
    ],
)
def test_colours(options: list[str], environment: dict[str, str], wanted: bool, example: Path) -> None:
    text = on_a_terminal(["report", str(example), *options], 80, 60, **environment)
    assert ("\x1b[1mANSWER\x1b[0m" in text) == wanted


@pytest.fixture
def pagers(tmp_path: Path) -> Path:
    """Programs that say who they are, and with which LESS."""
    for name in ("first", "second", "less"):
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\necho "{name} $LESS $1"\nwc -l\n')
        program.chmod(0o755)
    return tmp_path


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({}, "less FRX"),
        ({"LESS": "S"}, "less S"),
        ({"PAGER": "second -x"}, "second FRX -x"),
        ({"PAGER": "second", "LOCKLINE_PAGER": "first"}, "first FRX"),
        ({"PAGER": "cat"}, ""),
        ({"PAGER": ""}, ""),
        ({"PAGER": "no-such-pager"}, ""),
        ({"TERM": "dumb"}, ""),
    ],
)
def test_a_pager_as_gits(environment: dict[str, str], said: str, example: Path, pagers: Path) -> None:
    path = f"{pagers}:{os.environ['PATH']}"
    long = on_a_terminal(["report", str(example), "--all"], 80, 24, PATH=path, **environment)
    assert long.startswith(said or "lockline   report of")
    # What fits the terminal needs none.
    assert on_a_terminal(["report", str(example), "--all"], 80, 500, PATH=path, **environment).startswith("lockline ")


class Tmux:
    """lockline top in a window of a server of its own."""

    def __init__(self, directory: Path, arguments: list[str], columns: int, rows: int, **environment: str) -> None:
        self._socket = str(directory / "tmux")
        sets = [f"{name}={value}" for name, value in {"PYTHONPATH": str(TOP / "userspace"), **environment}.items()]
        program = ["env", *sets, sys.executable, "-m", "lockline", "top", *arguments]
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(rows), *program)

    def tmux(self, *arguments: str) -> str:
        variables = {name: value for name, value in os.environ.items() if name not in ("TMUX", *SETTINGS)}
        done = subprocess.run(
            ["tmux", "-S", self._socket, *arguments],
            capture_output=True,
            text=True,
            check=True,
            env=variables | {"LC_ALL": "C.UTF-8", "TERM": "xterm"},
        )
        return done.stdout

    def screen(self) -> list[str]:
        return self.tmux("capture-pane", "-p").split("\n")

    def until(self, *words: str) -> list[str]:
        """The screen that has these words."""
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            lines = self.screen()
            if all(word in "\n".join(lines) for word in words):
                return lines
            time.sleep(0.1)
        raise AssertionError((words, self.screen()))


@pytest.fixture
def windows(tmp_path: Path) -> Iterator[list[Tmux]]:
    """The windows that a test opens; each server is ended."""
    if not shutil.which("tmux"):
        pytest.skip("needs tmux")
    opened: list[Tmux] = []
    yield opened
    for one in opened:
        one.tmux("kill-server")


@pytest.mark.parametrize("term", ["screen", "xterm", "tmux-256color"])
def test_top_uses_the_terminal_and_follows_its_size(
    term: str, example: Path, tmp_path: Path, windows: list[Tmux]
) -> None:
    windows.append(Tmux(tmp_path, [str(example)], 200, 60, TERM=term, LC_ALL="C.UTF-8"))
    (window,) = windows
    wide = window.until("tasklist_lock", "help")
    assert max(map(width, wide)) > 100
    for columns, rows in ((80, 24), (50, 12), (160, 40)):
        window.tmux("resize-window", "-x", str(columns), "-y", str(rows))
        window.tmux("send-keys", "C-l")
        lines = window.until("lockline top", "tasklist_lock", "longest" if columns >= 80 else "LOCK")
        # tmux ends the text with a line end.
        assert len(lines) <= rows + 1
        assert max(map(width, lines)) <= columns
        assert sum("lockline top" in line for line in lines) == 1


def test_top_in_the_c_locale_is_ascii(example: Path, tmp_path: Path, windows: list[Tmux]) -> None:
    windows.append(Tmux(tmp_path, [str(example)], 100, 30, TERM="screen", LC_ALL="", LANG="C"))
    assert "\n".join(windows[0].until("tasklist_lock")).isascii()
