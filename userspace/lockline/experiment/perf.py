# SPDX-License-Identifier: GPL-2.0-or-later
"""Counts hits of tracepoints and uprobes by perf_event_open(2): no program is loaded, and nothing is written."""

import ctypes
import os
import platform
import struct
from contextlib import suppress
from pathlib import Path

from lockline.analysis.selection import parse_cpus
from lockline.base.errors import LocklineError
from lockline.experiment.processes import threads_of

_PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}
_TRACEPOINT = 2
_INHERIT = 1 << 1
_CLOSE_ON_EXEC = 8
# type, size, config, sample_period, sample_type, read_format, flags, wakeup, breakpoint, config1, config2, rest.
_ATTRIBUTES = struct.Struct("=IIQQQQQIIQQ40x")
# The same numbers on every architecture.
_FSOPEN, _FSCONFIG, _FSMOUNT = 430, 431, 432
_CREATE = 6
_TRACEFS = (Path("/sys/kernel/tracing"), Path("/sys/kernel/debug/tracing"))
_UPROBE = Path("/sys/bus/event_source/devices/uprobe/type")

_libc = ctypes.CDLL(None, use_errno=True)


def _call(number: int, *arguments: object) -> int:
    """A system call.  Raises OSError."""
    words = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    done = int(_libc.syscall(ctypes.c_long(number), *words))
    if done < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return done


def _own_tracefs() -> int:
    """A tracefs that is mounted nowhere, as a directory's descriptor.  Raises OSError."""
    context = _call(_FSOPEN, ctypes.c_char_p(b"tracefs"), 1)
    try:
        _call(_FSCONFIG, context, _CREATE, None, None, 0)
        return _call(_FSMOUNT, context, 1, 0)
    finally:
        os.close(context)


def tracepoint_id(subsystem: str, name: str) -> int:
    """The number of a tracepoint.  Raises LocklineError if the kernel has none of that name."""
    path = f"events/{subsystem}/{name}/id"
    for top in _TRACEFS:
        with suppress(OSError, ValueError):
            return int((top / path).read_text())
    try:
        directory = _own_tracefs()
        try:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory)
            try:
                return int(os.read(file, 32))
            finally:
                os.close(file)
        finally:
            os.close(directory)
    except FileNotFoundError:
        raise LocklineError(f"this kernel has no tracepoint {subsystem}:{name}") from None
    except (OSError, ValueError) as error:
        raise LocklineError(f"tracepoint {subsystem}:{name}: tracefs cannot be read: {error}") from error


class Hits:
    """Counters of one event: on all CPUs, or of a process and what it forks from now on.  Raises LocklineError."""

    def __init__(self, kind: int, config: int, path: str = "", offset: int = 0, pid: int | None = None) -> None:
        number = _PERF_EVENT_OPEN.get(platform.machine())
        if number is None:
            raise LocklineError(f"tracepoints and uprobes cannot be counted on {platform.machine()}")
        # The kernel reads the path from our memory.
        name = ctypes.create_string_buffer(os.fsencode(path))
        place = ctypes.addressof(name) if path else 0
        attributes = _ATTRIBUTES.pack(
            kind, _ATTRIBUTES.size, config, 0, 0, 0, _INHERIT if pid else 0, 0, 0, place, offset
        )
        whom = [(tid, -1) for tid in threads_of(pid)] if pid else [(-1, cpu) for cpu in _online()]
        self._files: list[int] = []
        try:
            for tid, cpu in whom:
                with suppress(ProcessLookupError):
                    file = _call(number, ctypes.c_char_p(attributes), tid, cpu, -1, _CLOSE_ON_EXEC)
                    self._files.append(file)
        except OSError as error:
            self.close()
            raise LocklineError(f"the kernel refuses to count that: {error.strerror}") from error
        if not self._files:
            raise LocklineError(f"process {pid} does not exist")

    def read(self) -> int:
        """Hits so far."""
        return sum(struct.unpack("=Q", os.read(file, 8))[0] for file in self._files)

    def close(self) -> None:
        """Count no more."""
        while self._files:
            os.close(self._files.pop())


def _online() -> tuple[int, ...]:
    return parse_cpus(Path("/sys/devices/system/cpu/online").read_text().strip())


def tracepoint_hits(subsystem: str, name: str, pid: int | None) -> Hits:
    """Counts a tracepoint.  Raises LocklineError."""
    return Hits(_TRACEPOINT, tracepoint_id(subsystem, name), pid=pid)


def uprobe_hits(path: str, offset: int, pid: int | None) -> Hits:
    """Counts passes through an instruction of a file.  Raises LocklineError."""
    try:
        kind = int(_UPROBE.read_text())
    except (OSError, ValueError):
        raise LocklineError("this kernel counts no uprobes (CONFIG_UPROBE_EVENTS)") from None
    return Hits(kind, 0, path, offset, pid)
