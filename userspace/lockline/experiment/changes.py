# SPDX-License-Identifier: GPL-2.0-or-later
"""What an experiment changes, and how it puts everything back.

undo() may be called at any time and again, also by the guard after lockline was killed: it knows from before the start
how everything was.
"""

import os
import re
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from lockline.base.errors import LocklineError
from lockline.experiment.processes import ancestors, is_gone, is_stopped, named, refuse, threads_of
from lockline.experiment.progress import COMMAND_SECONDS, run_shell

CGROUPS = Path("/sys/fs/cgroup")
SYSCTLS = Path("/proc/sys")
_SYSCTL = re.compile(r"\b(?:kernel|vm|net|fs|user)(?:\.[a-z0-9_]+)+")
_VALUE = re.compile(r"[A-Za-z0-9_ .,:\-]{1,200}")
# So long a change may stay beyond its slice before the guard puts it back.
_GRACE = 2.0


class Change(ABC):
    """One thing that is changed for the length of a slice.

    words: as in "With WORDS the load ...".  plan: what will be done.  grace_s: for how long it may stay beyond its
    slice.  pids: the processes that it is done to.
    """

    words: str
    plan: str
    kind: str
    grace_s = _GRACE
    pids: tuple[int, ...] = ()

    @abstractmethod
    def apply(self) -> None:
        """Begin a slice with the change.  Raises LocklineError."""

    @abstractmethod
    def undo(self) -> None:
        """Put everything back.  Raises LocklineError if that fails."""

    def holds(self) -> bool:
        """Whether the change is as it should be, at the end of its slice."""
        return True


class Stop(Change):
    """Processes stopped by SIGSTOP."""

    kind = "stop"

    def __init__(self, pids: Sequence[int]) -> None:
        self._files: list[tuple[int, int]] = []
        self.pids = tuple(pids)
        for pid in pids:
            refuse(pid, "stopped")
            if is_stopped(pid):
                raise LocklineError(f"{named(pid)} is stopped already")
            self._files.append((pid, os.pidfd_open(pid)))
        names = [named(pid) for pid in pids]
        self.words = f"{' and '.join(names)} stopped"
        self.plan = f"{' and '.join(names)} will be stopped (SIGSTOP) and let go on"

    def _send(self, number: int) -> list[int]:
        """The processes that are gone."""
        gone = []
        for pid, file in self._files:
            try:
                signal.pidfd_send_signal(file, number)
            except ProcessLookupError:
                gone.append(pid)
        return gone

    def apply(self) -> None:
        """Raises LocklineError if one has ended."""
        # One that has ended may still be there for its parent, and takes signals.
        if gone := [pid for pid in self.pids if is_gone(pid)] or self._send(signal.SIGSTOP):
            raise LocklineError(f"process {gone[0]}, which was to be stopped, has ended")

    def undo(self) -> None:
        """All go on; one that has ended needs nothing."""
        self._send(signal.SIGCONT)

    def holds(self) -> bool:
        """A process that sleeps in the kernel stops when it comes out."""
        return all(is_stopped(pid) or is_gone(pid) for pid in self.pids)


def _write(path: Path, text: str) -> None:
    try:
        file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(file, text.encode())
        finally:
            os.close(file)
    except OSError as error:
        raise LocklineError(f"{path}: cannot be written: {error.strerror}") from error


def _first_line(path: Path) -> str:
    try:
        return path.read_text().partition("\n")[0].strip()
    except (OSError, UnicodeDecodeError) as error:
        raise LocklineError(f"{path}: cannot be read: {getattr(error, 'strerror', error)}") from error


def _freezer_of(name: str, top: Path) -> tuple[Path, str, str]:
    """The file that freezes a control group, and what to write there for it and against it."""
    path = name.removeprefix(str(top)).strip("/")
    # A path may begin with its hierarchy: unified, freezer.
    for part in ("unified/", "freezer/"):
        path = path.removeprefix(part)
    if not path or any(part in (".", "..") for part in path.split("/")):
        raise LocklineError(f"'{name}' must be a control group below the root, as in system.slice/backup.service")
    for group in (top / path, top / "unified" / path):
        if (group / "cgroup.freeze").exists():
            return group / "cgroup.freeze", "1", "0"
    if (top / "freezer" / path / "freezer.state").exists():
        return top / "freezer" / path / "freezer.state", "FROZEN", "THAWED"
    raise LocklineError(f"{name} is not a control group that can be frozen")


def _members(group: Path) -> set[int]:
    """The processes of a control group and of those below it."""
    pids: set[int] = set()
    for directory, _, _ in os.walk(group):
        with suppress(OSError):
            pids |= {int(word) for word in (Path(directory) / "cgroup.procs").read_text().split()}
    return pids


class Freeze(Change):
    """A control group stopped by the freezer."""

    kind = "stop-cgroup"

    def __init__(self, name: str, top: Path = CGROUPS) -> None:
        self._file, self._on, self._off = _freezer_of(name, top)
        self._group = self._file.parent
        if _first_line(self._file) in ("1", "FROZEN", "FREEZING"):
            raise LocklineError(f"control group {name} is frozen already")
        own = set(ancestors())
        members = _members(self._group)
        if members & own or 1 in members:
            raise LocklineError(f"control group {name} has lockline in it, or what started it: it is never stopped")
        if not members:
            raise LocklineError(f"control group {name} has no processes")
        self.pids = tuple(members)
        self.words = f"control group {name} stopped"
        self.plan = f"control group {name} ({len(members)} processes) will be frozen and let go on"

    def apply(self) -> None:
        """Raises LocklineError if the group is gone."""
        _write(self._file, self._on)

    def undo(self) -> None:
        """A group that is gone needs nothing."""
        if self._file.exists():
            _write(self._file, self._off)

    def holds(self) -> bool:
        """Whether all of its tasks stand still."""
        if self._on == "FROZEN":
            return _first_line(self._file) == "FROZEN"
        with suppress(OSError):
            return "frozen 1" in (self._group / "cgroup.events").read_text()
        return False


def sysctls_in(texts: Iterable[str]) -> set[str]:
    """The sysctls that texts name, as vm.swappiness."""
    return {name for text in texts for name in _SYSCTL.findall(text)}


class Sysctl(Change):
    """A sysctl set to another value.  allowed: the names that may be changed."""

    kind = "set"

    def __init__(self, setting: str, allowed: Iterable[str], top: Path = SYSCTLS) -> None:
        name, equals, self._new = setting.partition("=")
        name = name.removeprefix(f"{top}/").removeprefix(f"{SYSCTLS}/").replace("/", ".")
        if not equals or not _VALUE.fullmatch(self._new) or not _SYSCTL.fullmatch(name):
            raise LocklineError(f"'{setting}' must be NAME=VALUE, as in vm.compaction_proactiveness=0")
        known = sorted(allowed)
        if name not in known:
            raise LocklineError(
                f"{name} is not a setting that lockline knows as a remedy: {', '.join(known)};"
                " --on and --off take any command"
            )
        self._path = top / name.replace(".", "/")
        self.old = _first_line(self._path)
        if " ".join(self.old.split()) == " ".join(self._new.split()):
            raise LocklineError(f"{name} is {self.old} already")
        self.words = f"{name}={self._new}"
        self.plan = f"{name} will be set to {self._new} and back to {self.old}"

    def apply(self) -> None:
        """Raises LocklineError if the kernel refuses the value."""
        _write(self._path, self._new)

    def undo(self) -> None:
        """Writes the old value."""
        _write(self._path, self.old)


class Commands(Change):
    """A switch of the user's own: one command to change something, one to put it back."""

    kind = "commands"
    grace_s = _GRACE + 2 * COMMAND_SECONDS

    def __init__(self, on: str, off: str) -> None:
        self._on, self._off = on, off
        self.words = f"`{on}`"
        self.plan = f"`{on}` and `{off}` will be run in turn"

    def apply(self) -> None:
        """Raises LocklineError if the command fails."""
        run_shell(self._on)

    def undo(self) -> None:
        """Raises LocklineError if the command fails."""
        run_shell(self._off)


class _Threads(Change):
    """A value that each thread of a process has."""

    def __init__(self, pid: int, what: str) -> None:
        refuse(pid, what)
        self.pids = (pid,)
        self._before = {tid: value for tid in self._tids() if (value := self._asked(tid)) is not None}
        if pid not in self._before:
            raise LocklineError(f"process {pid} does not exist")

    def _tids(self) -> list[int]:
        return threads_of(self.pids[0])

    def _asked(self, tid: int) -> object:
        with suppress(OSError):
            return self.get(tid)
        return None

    def _all(self, choose: Callable[[int], object]) -> None:
        for tid in self._tids():
            try:
                self.put(tid, choose(tid))
            except ProcessLookupError:
                continue
            except OSError as error:
                raise LocklineError(f"thread {tid}: {error.strerror}") from error

    def apply(self) -> None:
        """Raises LocklineError if the process has ended."""
        if not self._tids():
            raise LocklineError(f"process {self.pids[0]} has ended")
        for tid in self._tids():
            if tid not in self._before and (value := self._asked(tid)) is not None:
                self._before[tid] = value
        self._all(lambda _: self.wanted())

    def undo(self) -> None:
        """Threads that were made meanwhile get what the first thread has."""
        self._all(lambda tid: self._before.get(tid, self._before[self.pids[0]]))

    @abstractmethod
    def wanted(self) -> object:
        """The value during the change."""

    @abstractmethod
    def get(self, tid: int) -> object:
        """The value of a thread.  Raises OSError."""

    @abstractmethod
    def put(self, tid: int, value: object) -> None:
        """Sets it.  Raises OSError."""


class Nice(_Threads):
    """All threads of a process at another priority."""

    kind = "nice"

    def __init__(self, pid: int, nice: int) -> None:
        super().__init__(pid, "changed")
        self._nice = nice
        self.words = f"{named(pid)} at nice {nice}"
        self.plan = f"{named(pid)} will be set to nice {nice} and back"

    def wanted(self) -> object:
        """The priority."""
        return self._nice

    def get(self, tid: int) -> object:
        """Raises OSError."""
        return os.getpriority(os.PRIO_PROCESS, tid)

    def put(self, tid: int, value: object) -> None:
        """Raises OSError."""
        assert isinstance(value, int)
        os.setpriority(os.PRIO_PROCESS, tid, value)


class Cpus(_Threads):
    """All threads of a process on other CPUs."""

    kind = "cpus"

    def __init__(self, pid: int, cpus: Sequence[int], words: str) -> None:
        super().__init__(pid, "changed")
        self._cpus = frozenset(cpus)
        if not self._cpus & os.sched_getaffinity(1):
            raise LocklineError(f"CPUs {words}: this machine has none of them")
        self.words = f"{named(pid)} on CPUs {words}"
        self.plan = f"{named(pid)} will be put on CPUs {words} and back"

    def wanted(self) -> object:
        """The CPUs."""
        return self._cpus

    def get(self, tid: int) -> object:
        """Raises OSError."""
        return frozenset(os.sched_getaffinity(tid))

    def put(self, tid: int, value: object) -> None:
        """Raises OSError."""
        assert isinstance(value, frozenset)
        os.sched_setaffinity(tid, value)
