# SPDX-License-Identifier: GPL-2.0-or-later
"""What an experiment asks of processes: who they are, and which must never be stopped."""

import os
from pathlib import Path

from lockline.base.errors import LocklineError

_KERNEL_THREAD = 0x00200000


def comm_of(pid: int) -> str:
    """What a process is called; "" if it is gone."""
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").rstrip("\n")
    except OSError:
        return ""


def named(pid: int) -> str:
    """A process in words for people.  Raises LocklineError if it does not exist."""
    comm = comm_of(pid)
    if not comm:
        raise LocklineError(f"process {pid} does not exist")
    return f"{comm} ({pid})"


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name: state, parent...; none if it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()


def is_stopped(pid: int) -> bool:
    """Whether a process stands still: stopped, or held by its tracer."""
    return _stat(pid)[:1] in (["T"], ["t"])


def is_gone(pid: int) -> bool:
    """Whether a process has ended."""
    return _stat(pid)[:1] in ([], ["Z"], ["X"])


def tracer_of(pid: int) -> int:
    """Who traces a process; 0: nobody, or it is gone."""
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith("TracerPid:")), 0)


def ancestors() -> tuple[int, ...]:
    """The numbers of lockline itself, of its parent, and so on."""
    found = [os.getpid()]
    while (fields := _stat(found[-1])) and int(fields[1]) > 0:
        found.append(int(fields[1]))
    return tuple(found)


def threads_of(pid: int) -> list[int]:
    """The threads of a process; none if it is gone."""
    try:
        return sorted(int(path.name) for path in Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return []


def refuse(pid: int, what: str) -> None:
    """Raises LocklineError if a process must be left alone; what: would be done to it, as in "stopped"."""
    if pid == 1:
        raise LocklineError(f"process 1 is the machine's init: it is never {what}")
    if pid == os.getpid():
        raise LocklineError(f"process {pid} is lockline itself: it is never {what}")
    if pid in ancestors():
        raise LocklineError(f"{named(pid)} started lockline: it is never {what}")
    fields = _stat(pid)
    if not fields or is_gone(pid):
        raise LocklineError(f"process {pid} does not exist")
    if int(fields[6]) & _KERNEL_THREAD:
        raise LocklineError(f"{named(pid)} is a thread of the kernel: it is never {what}")
    if not Path(f"/proc/{pid}/task/{pid}").exists() or _leader(pid) != pid:
        raise LocklineError(f"{pid} is a thread of process {_leader(pid)}: name the process")


def _leader(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return pid
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith("Tgid:")), pid)
