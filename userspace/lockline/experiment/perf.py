# SPDX-License-Identifier: GPL-2.0-or-later
"""Opens events by perf_event_open(2), and counts hits of tracepoints and uprobes: no program is loaded for that."""

import ctypes
import fcntl
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
# _IOW('$', 6, char *).
_SET_FILTER = 0x40082406
# struct perf_event_attr, version 5 (include/uapi/linux/perf_event.h): type, size, config, sample_period, sample_type,
# read_format, flags, wakeup, breakpoint, config1, config2, branches, registers, stack, clock; the rest is 0.
_ATTRIBUTES = struct.Struct("=IIQQQQQIIQQQQIi16x")
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


def attributes_of(
    kind: int,
    config: int,
    flags: int = 0,
    sampled: tuple[int, int] = (0, 0),
    place: tuple[int, int] = (0, 0),
    user: tuple[int, int] = (0, 0),
) -> bytes:
    """What the kernel gets to know about an event.

    sampled: each so many (period), with these parts of a sample.  place: config1 and config2.  user: registers of user
    space, by their bits, and bytes of its stack, that a sample has.
    """
    period, parts = sampled
    return _ATTRIBUTES.pack(kind, _ATTRIBUTES.size, config, period, parts, 0, flags, 0, 0, *place, 0, *user, 0)


def open_event(attributes: bytes, tid: int, cpu: int) -> int:
    """A descriptor of the event; tid or cpu -1: all.  Raises OSError, and LocklineError on an unknown machine."""
    number = _PERF_EVENT_OPEN.get(platform.machine())
    if number is None:
        raise LocklineError(f"events cannot be opened on {platform.machine()}: lockline does not know how")
    return _call(number, ctypes.c_char_p(attributes), tid, cpu, -1, _CLOSE_ON_EXEC)


def online_cpus() -> tuple[int, ...]:
    """The CPUs that run.  Raises OSError."""
    return parse_cpus(Path("/sys/devices/system/cpu/online").read_text().strip())


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


def _filter(event: int, only: str) -> None:
    """Count those hits alone.  Raises OSError."""
    fcntl.ioctl(event, _SET_FILTER, only.encode() + b"\0")


class Hits:
    """Counters of one event: on all CPUs, of a process and what it forks from now on, or of one thread.

    only: which hits count (a filter of the event's fields).  Raises LocklineError.
    """

    def __init__(
        self,
        kind: int,
        config: int,
        path: str = "",
        offset: int = 0,
        pid: int | None = None,
        tid: int | None = None,
        only: str = "",
    ) -> None:
        # The kernel reads the path from our memory.
        name = ctypes.create_string_buffer(os.fsencode(path))
        place = ctypes.addressof(name) if path else 0
        attributes = attributes_of(kind, config, _INHERIT if pid else 0, place=(place, offset))
        if tid:
            whom = [(tid, -1)]
        else:
            whom = [(one, -1) for one in threads_of(pid)] if pid else [(-1, cpu) for cpu in online_cpus()]
        self._files: list[int] = []
        try:
            for thread, cpu in whom:
                with suppress(ProcessLookupError):
                    self._files.append(open_event(attributes, thread, cpu))
                    if only:
                        _filter(self._files[-1], only)
        except OSError as error:
            self.close()
            raise LocklineError(f"the kernel refuses to count that: {error.strerror}") from error
        if not self._files:
            raise LocklineError(f"process {tid or pid} does not exist")

    def read(self) -> int:
        """Hits so far."""
        return sum(struct.unpack("=Q", os.read(file, 8))[0] for file in self._files)

    def close(self) -> None:
        """Count no more."""
        while self._files:
            os.close(self._files.pop())


def tracepoint_hits(subsystem: str, name: str, pid: int | None, tid: int | None = None, only: str = "") -> Hits:
    """Counts a tracepoint, of one thread or of a process; only: a filter of its fields.  Raises LocklineError."""
    return Hits(_TRACEPOINT, tracepoint_id(subsystem, name), pid=pid, tid=tid, only=only)


def uprobe_hits(path: str, offset: int, pid: int | None) -> Hits:
    """Counts passes through an instruction of a file.  Raises LocklineError."""
    try:
        kind = int(_UPROBE.read_text())
    except (OSError, ValueError):
        raise LocklineError("this kernel counts no uprobes (CONFIG_UPROBE_EVENTS)") from None
    return Hits(kind, 0, path, offset, pid)
