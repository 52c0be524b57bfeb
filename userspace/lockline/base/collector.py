# SPDX-License-Identifier: GPL-2.0-or-later
"""Finds and runs lockline-collect, the only part that talks to the kernel."""

import os
import sys

from lockline.base.errors import LocklineError

# Loading them takes as long as reading many samples: only who needs them does.  Without typing: see cli/c2c_start.py.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    import subprocess
    from collections.abc import Sequence
    from typing import IO, Any
else:
    # Numbers without names, as the kernel takes them.
    import _signal as signal

NAME = "lockline-collect"
# The sums of many lines take a hundred megabytes: page by page that is a seventh of an import's time.  For its C
# library, which looks at this before the program begins; others do not know it.
_HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}


def find_collector() -> str:
    """Path of lockline-collect: beside the launcher, where `make install` puts it, in the clone, or in PATH.

    Raises LocklineError if there is none.
    """
    # Without pathlib: it is asked for before anything else is loaded.
    launcher = os.path.dirname(os.path.realpath(sys.argv[0]))  # noqa: PTH120
    top = os.path.dirname(launcher)  # noqa: PTH120
    package = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))  # noqa: PTH120
    clone = os.path.dirname(os.path.dirname(package))  # noqa: PTH120
    for directory in (launcher, f"{top}/libexec/lockline", f"{top}/libexec", f"{clone}/build/bin"):
        candidate = f"{directory}/{NAME}"
        if os.path.isfile(candidate) and os.access(candidate, os.X_OK):  # noqa: PTH113
            return candidate
    import shutil

    found = shutil.which(NAME)
    if found is None:
        raise LocklineError(f"{NAME} not found beside lockline or in PATH; build it with `make`")
    return found


def exec_collector(arguments: "Sequence[str]") -> None:
    """Become lockline-collect, so that signals and the exit code are its own.  Raises LocklineError."""
    path = find_collector()
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execv(path, [NAME, *arguments])
    except (OSError, ValueError) as error:
        raise LocklineError(f"{path} cannot be run: {error}") from error


def read_collector(arguments: "Sequence[str]") -> str:
    """What lockline-collect prints on stdout; its stderr is passed on.

    Raises LocklineError if it fails, with nothing to add where it said why.
    """
    import subprocess

    path = find_collector()
    try:
        done = subprocess.run([path, *arguments], stdout=subprocess.PIPE, check=False)
    except OSError as error:
        raise LocklineError(f"{path} cannot be run: {error.strerror}") from error
    if done.returncode:
        how = f"exit code {done.returncode}" if done.returncode > 0 else f"signal {-done.returncode}"
        raise LocklineError(f"{NAME} {' '.join(arguments)} failed, {how}")
    return done.stdout.decode("utf-8", "replace")


def spawn(arguments: "Sequence[str]", **how: "Any") -> "subprocess.Popen[bytes]":
    """Runs lockline-collect; how: as Popen() takes it.  Raises LocklineError if it cannot be run."""
    import subprocess

    path = find_collector()
    try:
        return subprocess.Popen([path, *arguments], **how)
    except (OSError, ValueError) as error:
        raise LocklineError(f"{path} cannot be run: {getattr(error, 'strerror', None) or error}") from error


def ask_names(places: "Sequence[tuple[int, int]]") -> list[tuple[str, str]]:
    """Function and file of each place, a process and an address; '' for what is not known.

    lockline-collect has a process without rights read the files.  Raises LocklineError if it cannot be run.
    """
    import subprocess

    asked = "".join(f"{tgid} {address:x}\n" for tgid, address in places).encode("ascii")
    with spawn(["names"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        told = process.communicate(asked)[0].decode("utf-8", "replace").split("\n")
    found = [line.split("\t") for line in told[: len(places)]]
    # Versions of symbols, as of pthread_spin_lock@@GLIBC_2.34, say nothing here.
    names = [(line[2].partition("@")[0], line[1]) if len(line) == 3 else ("", "") for line in found]
    return names + [("", "")] * (len(places) - len(names))


def ask_group(cgroup: str, container: str, pod: str) -> str:
    """The directory of the control group that -G, --container and --pod name; '' for what is not named.

    Raises LocklineError, in the collector's words, if there is none, or several.
    """
    import subprocess

    with spawn(["group", cgroup, container, pod], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        told, err = process.communicate()
    _notes("group", process.returncode, (), err)
    return os.fsdecode(told.rstrip(b"\n"))


def _notes(command: str, code: int, said: "Sequence[str]", err: bytes) -> list[str]:
    """What a collector said: the lines on its stderr without "lockline: "; LocklineError if it failed."""
    lines = err.decode("utf-8", "replace").splitlines()
    notes = [line.removeprefix("lockline: ") for line in (*said, *lines) if line]
    if code:
        how = f"exit code {code}" if code > 0 else f"signal {-code}"
        raise LocklineError(notes[-1] if notes else f"{NAME} {command} failed, {how}")
    return notes


class Importing:
    """A lockline-collect that makes a recording, started without what subprocess loads; output: the recording.

    Leaving its `with` before its finish() ends it.
    """

    def __init__(self, arguments: "Sequence[str]", output: str, source: "IO[bytes] | None" = None) -> None:
        path = find_collector()
        self.output = output
        self._command = arguments[0]
        # Not a pipe: nobody reads while it works.
        self._said = os.memfd_create("stderr", os.MFD_CLOEXEC)
        actions = [(os.POSIX_SPAWN_DUP2, self._said, 2), (os.POSIX_SPAWN_DUP2, self._said, 1)]
        if source is not None:
            actions.append((os.POSIX_SPAWN_DUP2, source.fileno(), 0))
        # Python ignores these.
        default = (signal.SIGPIPE, signal.SIGXFSZ)
        self._pid = 0
        try:
            self._pid = os.posix_spawn(
                path, [path, *arguments], {**_HUGE_PAGES, **os.environ}, file_actions=actions, setsigdef=default
            )
        except (OSError, ValueError) as error:
            os.close(self._said)
            raise LocklineError(f"{path} cannot be run: {getattr(error, 'strerror', None) or error}") from error

    def __enter__(self) -> "Importing":
        return self

    def __exit__(self, *_: object) -> None:
        """Who leaves early needs no recording."""
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self._pid = 0
        os.close(self._said)

    def finish(self) -> list[str]:
        """Its notes, once, when the recording is there.  Raises LocklineError if it failed, in its own words."""
        _, status = os.waitpid(self._pid, 0)
        self._pid = 0
        size = os.fstat(self._said).st_size
        return _notes(self._command, os.waitstatus_to_exitcode(status), (), os.pread(self._said, size, 0))


class Started:
    """A lockline-collect at work; leaving its `with` before its finish() ends it."""

    def __init__(self, arguments: "Sequence[str]", source: "IO[bytes] | None" = None) -> None:
        import subprocess

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

    def finish_after(self, said: "Sequence[str]") -> tuple[str, list[str]]:
        """As finish(), where the caller has read these lines of stderr already."""
        out, err = self.process.communicate()
        return out.decode("utf-8", "replace"), _notes(self.command, self.process.returncode, said, err)


def start_collector(arguments: "Sequence[str]", source: "IO[bytes] | None" = None) -> Started:
    """Starts lockline-collect; source: its standard input.  Raises LocklineError if it cannot be run."""
    return Started(arguments, source)


def ask_collector(arguments: "Sequence[str]") -> tuple[str, list[str]]:
    """What lockline-collect prints on stdout, and its notes.  Raises LocklineError; see Started.finish()."""
    with start_collector(arguments) as started:
        return started.finish()


def end_with_us() -> list[str]:
    """Options of a collector that ends when this process does: killed, it cannot end it."""
    return ["--end-with", str(os.getpid())]


def finish(process: "subprocess.Popen[bytes]") -> None:
    """Make sure that the collector is gone before its recording is removed."""
    if process.poll() is None:
        process.terminate()
        process.wait()
