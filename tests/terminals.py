# SPDX-License-Identifier: GPL-2.0-or-later
"""Pseudo-terminals, for tests of what a person sees."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from programs import TOP

# What a user's settings would change.
SETTINGS = ("NO_COLOR", "COLUMNS", "LINES", "PAGER", "LOCKLINE_PAGER", "LESS", "LC_ALL", "LC_CTYPE", "LANG")
# A start and an answer, on a machine that does much else.
SECONDS = 60


def read_terminal(leader: int) -> bytes:
    """All that is written on the other side, until nobody has it any more; closes this one."""
    written = b""
    while True:
        try:
            part = os.read(leader, 65536)
        except OSError:  # EIO: nobody has the other side any more
            break
        if not part:
            break
        written += part
    os.close(leader)
    return written


class Tmux:
    """lockline top, or another command of lockline, in a window of a server of its own."""

    def __init__(
        self,
        directory: Path,
        arguments: list[str],
        columns: int,
        rows: int,
        command: str = "top",
        **environment: str,
    ) -> None:
        self._socket = str(directory / "tmux")
        sets = [f"{name}={value}" for name, value in {"PYTHONPATH": str(TOP / "userspace"), **environment}.items()]
        # tmux does not always know the exit status of what has ended: the shell writes it down.
        self._status = directory / "status"
        told = ["sh", "-c", '"$@"; echo $? >"$0"', str(self._status)]
        program = [*told, "env", *sets, sys.executable, "-m", "lockline", command, *arguments]
        size = ("-x", str(columns), "-y", str(rows))
        stay = (";", "set-option", "-g", "remain-on-exit", "on")
        self.tmux("-f", "/dev/null", "new-session", "-d", *size, *program, *stay)

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
        """The screen that has these words, or what has left it: tmux scrolls it by a line when the program ends."""
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            lines = self.tmux("capture-pane", "-p", "-S", "-").split("\n")
            if all(word in "\n".join(lines) for word in words):
                return lines
            time.sleep(0.1)
        raise AssertionError((words, self.screen()))

    def until_it_is(self, expected: Sequence[str]) -> None:
        """Waits for a screen of just these lines; those below them are empty."""
        deadline = time.monotonic() + SECONDS
        found: list[str] = []
        while time.monotonic() < deadline:
            found = [line.rstrip() for line in self.screen()]
            if found[: len(expected)] == list(expected) and not any(found[len(expected) :]):
                return
            time.sleep(0.1)
        assert found[: len(expected)] == list(expected)

    def until_it_begins(self, expected: Sequence[str]) -> None:
        """Waits for a screen that begins with these lines."""
        deadline = time.monotonic() + SECONDS
        while (found := [line.rstrip() for line in self.screen()][: len(expected)]) != list(expected):
            assert time.monotonic() < deadline, found
            time.sleep(0.1)

    def until_it_ends(self, status: int) -> None:
        """Waits for the program's end; its exit status."""
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            code = self._status.read_text() if self._status.exists() else ""
            if code.endswith("\n"):
                assert int(code) == status, self.screen()
                return
            time.sleep(0.1)
        raise AssertionError(self.screen())


@contextmanager
def tmux_windows() -> Iterator[list[Tmux]]:
    """A list for the windows that are opened; each server is ended."""
    if not shutil.which("tmux"):
        pytest.skip("needs tmux")
    opened: list[Tmux] = []
    yield opened
    for one in opened:
        one.tmux("kill-server")
