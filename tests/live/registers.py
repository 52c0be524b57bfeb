# SPDX-License-Identifier: GPL-2.0-or-later
"""The machine's debug registers: one test has them at a time, and none begins while another program holds some."""

import ctypes
import errno
import fcntl
import os
import platform
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support import wait_for

REGISTERS = 4  # of each CPU of x86-64
SOURCE = Path("/sys/bus/event_source/devices/breakpoint")
# All tests of the machine, of whichever build, agree on it.
LOCK = Path(tempfile.gettempdir()) / "lockline-tests.registers"

_PERF_EVENT_OPEN = 298  # x86-64
_BREAKPOINT, _WRITES, _DISABLED, _BYTES, _CLOSE_ON_EXEC = 5, 2, 1, 8, 8
_WATCHED = ctypes.create_string_buffer(2 * _BYTES)


def _attributes() -> bytes:
    """Of perf_event_open(): an event that is off has its register all the same."""
    address = ctypes.addressof(_WATCHED) + _BYTES - 1 & -_BYTES
    head = struct.pack("=II5Q", _BREAKPOINT, 72, 0, 0, 0, 0, _DISABLED)
    return head + struct.pack("=IIQQ", 0, _WRITES, address, _BYTES)


def open_on(cpu: int) -> int:
    """Takes a register of that CPU: a descriptor, or -errno."""
    libc = ctypes.CDLL(None, use_errno=True)
    opened = libc.syscall(_PERF_EVENT_OPEN, _attributes(), -1, cpu, -1, ctypes.c_ulong(_CLOSE_ON_EXEC))
    return -ctypes.get_errno() if opened < 0 else int(opened)


def are_free() -> bool:
    """Whether all registers of all CPUs can be had now; True where that is not known."""
    if platform.machine() != "x86_64":
        return True
    opened: list[int] = []
    try:
        for cpu in os.sched_getaffinity(0):
            for _ in range(REGISTERS):
                opened.append(open_on(cpu))
                if opened[-1] == -errno.ENOSPC:
                    return False
        return True
    finally:
        for descriptor in opened:
            if descriptor >= 0:
                os.close(descriptor)


def is_locked(descriptor: int) -> bool:
    """Whether the lock of all tests is this one's now."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def held() -> Iterator[None]:
    """Waits until no other test and no other program has one."""
    descriptor = os.open(LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
    try:
        wait_for(lambda: is_locked(descriptor), "end of the tests that have the debug registers")
        wait_for(are_free, "moment at which no other program holds a debug register")
        yield
    finally:
        os.close(descriptor)
