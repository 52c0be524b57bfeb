# SPDX-License-Identifier: GPL-2.0-or-later
"""Pseudo-terminals, for tests of what a person sees."""

import os
import pty
import shutil
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fcntl import ioctl
from pathlib import Path
from typing import NoReturn

import pytest

from lockline.cli.main import main
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


def _answer(arguments: list[str], variables: Mapping[str, str], terminal: int) -> NoReturn:
    """The rest of a process that was forked: a command of lockline on a terminal, as if it had just been started."""
    status = 70
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        for number, descriptor in enumerate((terminal, terminal, null)):
            os.dup2(descriptor, number)
        os.environ.clear()
        os.environ.update(variables)
        # What is left of pytest's own is not written.
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w", encoding="utf-8"), open(2, "w")  # noqa: SIM115
        sys.__stdout__ = sys.stdout  # type: ignore[misc]
        status = main(arguments)
        sys.stdout.flush()
    finally:
        os._exit(status)


def on_a_terminal(
    arguments: list[str], columns: int = 80, rows: int = 24, start: bool = False, /, **environment: str
) -> str:
    """What a command writes on a terminal of this size.

    start: by a process that is started as users do it.  Else it is a fork of this one, which has loaded everything.
    """
    leader, follower = pty.openpty()
    ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    variables = {name: value for name, value in os.environ.items() if name not in SETTINGS}
    variables |= {"PYTHONPATH": str(TOP / "userspace"), "TERM": "xterm", "LC_ALL": "C.UTF-8", **environment}
    if start:
        command = [sys.executable, "-m", "lockline", *arguments]
        # Not stderr: what takes long tells there how long it is at it.
        null = (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)
        files = [*((os.POSIX_SPAWN_DUP2, follower, number) for number in (0, 1)), null]
        child = os.posix_spawn(sys.executable, command, variables, file_actions=files)
    else:
        child = os.fork()
        if not child:
            _answer(arguments, variables, follower)
    os.close(follower)
    written = read_terminal(leader)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) in (0, 2), written
    return written.decode().replace("\r\n", "\n")


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
