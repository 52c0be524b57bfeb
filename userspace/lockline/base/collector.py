# SPDX-License-Identifier: GPL-2.0-or-later
"""Finds and runs lockline-collect, the only part that talks to the kernel."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import IO, Any

from lockline.base.errors import LocklineError

NAME = "lockline-collect"


def find_collector() -> str:
    """Path of lockline-collect: beside the launcher, where `make install` puts it, in the clone, or in PATH.

    Raises LocklineError if there is none.
    """
    launcher = Path(sys.argv[0]).resolve().parent
    package = Path(__file__).resolve().parents[1]
    for directory in (
        launcher,
        launcher.parent / "libexec" / "lockline",
        launcher.parent / "libexec",
        package.parents[1] / "build" / "bin",
    ):
        candidate = directory / NAME
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return str(candidate)
    found = shutil.which(NAME)
    if found is None:
        raise LocklineError(f"{NAME} not found beside lockline or in PATH; build it with `make`")
    return found


def exec_collector(arguments: Sequence[str]) -> None:
    """Become lockline-collect, so that signals and the exit code are its own.  Raises LocklineError."""
    path = find_collector()
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execv(path, [NAME, *arguments])
    except (OSError, ValueError) as error:
        raise LocklineError(f"{path} cannot be run: {error}") from error


def read_collector(arguments: Sequence[str]) -> str:
    """What lockline-collect prints on stdout; its stderr is passed on.

    Raises LocklineError if it fails, with nothing to add where it said why.
    """
    path = find_collector()
    try:
        done = subprocess.run([path, *arguments], stdout=subprocess.PIPE, check=False)
    except OSError as error:
        raise LocklineError(f"{path} cannot be run: {error.strerror}") from error
    if done.returncode:
        how = f"exit code {done.returncode}" if done.returncode > 0 else f"signal {-done.returncode}"
        raise LocklineError(f"{NAME} {' '.join(arguments)} failed, {how}")
    return done.stdout.decode("utf-8", "replace")


def spawn(arguments: Sequence[str], **how: Any) -> "subprocess.Popen[bytes]":
    """Runs lockline-collect; how: as Popen() takes it.  Raises LocklineError if it cannot be run."""
    path = find_collector()
    try:
        return subprocess.Popen([path, *arguments], **how)
    except (OSError, ValueError) as error:
        raise LocklineError(f"{path} cannot be run: {getattr(error, 'strerror', None) or error}") from error


def ask_names(places: Sequence[tuple[int, int]]) -> list[tuple[str, str]]:
    """Function and file of each place, a process and an address; '' for what is not known.

    lockline-collect has a process without rights read the files.  Raises LocklineError if it cannot be run.
    """
    asked = "".join(f"{tgid} {address:x}\n" for tgid, address in places).encode("ascii")
    with spawn(["names"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        told = process.communicate(asked)[0].decode("utf-8", "replace").split("\n")
    found = [line.split("\t") for line in told[: len(places)]]
    # Versions of symbols, as of pthread_spin_lock@@GLIBC_2.34, say nothing here.
    names = [(line[2].partition("@")[0], line[1]) if len(line) == 3 else ("", "") for line in found]
    return names + [("", "")] * (len(places) - len(names))


class Started:
    """A lockline-collect at work; leaving its `with` before its finish() ends it."""

    def __init__(self, arguments: Sequence[str], source: IO[bytes] | None = None) -> None:
        self.command = arguments[0]
        self.process = spawn(arguments, stdin=source, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def __enter__(self) -> "Started":
        return self

    def __exit__(self, *_: object) -> None:
        """Who leaves early needs no answer."""
        if self.process.poll() is None:
            self.process.kill()
        with self.process:
            pass

    def finish(self) -> tuple[str, list[str]]:
        """What it prints on stdout, and its notes: the lines on stderr without "lockline: ".

        Raises LocklineError if it fails, in its own words: the last of these lines.
        """
        return self.finish_after([])

    def finish_after(self, said: Sequence[str]) -> tuple[str, list[str]]:
        """As finish(), where the caller has read these lines of stderr already."""
        out, err = self.process.communicate()
        lines = err.decode("utf-8", "replace").splitlines()
        notes = [line.removeprefix("lockline: ") for line in (*said, *lines) if line]
        code = self.process.returncode
        if code:
            how = f"exit code {code}" if code > 0 else f"signal {-code}"
            raise LocklineError(notes[-1] if notes else f"{NAME} {self.command} failed, {how}")
        return out.decode("utf-8", "replace"), notes


def start_collector(arguments: Sequence[str], source: IO[bytes] | None = None) -> Started:
    """Starts lockline-collect; source: its standard input.  Raises LocklineError if it cannot be run."""
    return Started(arguments, source)


def ask_collector(arguments: Sequence[str]) -> tuple[str, list[str]]:
    """What lockline-collect prints on stdout, and its notes.  Raises LocklineError; see Started.finish()."""
    with start_collector(arguments) as started:
        return started.finish()


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into an exit that passes the clean-up."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end_with_us() -> list[str]:
    """Options of a collector that ends when this process does: killed, it cannot end it."""
    return ["--end-with", str(os.getpid())]


def finish(process: "subprocess.Popen[bytes]") -> None:
    """Make sure that the collector is gone before its recording is removed."""
    if process.poll() is None:
        process.terminate()
        process.wait()
