# SPDX-License-Identifier: GPL-2.0-or-later
"""The rows of what was seen live, named as in userspace/collector/recording/recording.sql.  Times in ns."""

from typing import NamedTuple


class MemoryThread(NamedTuple):
    """A thread that accesses memory."""

    id: int
    pid: int
    tid: int
    comm: str


class MemoryWait(NamedTuple):
    """Accesses to a line that were made while a lock was waited for; transfers: of these."""

    line: int
    lock: int
    kind: int
    records: int
    transfers: int


class MemoryInterrupts(NamedTuple):
    """Accesses of which it is known whether interrupts were off, and those with interrupts off."""

    line: int
    offset: int
    code: int
    thread: int
    records: int
    off: int


class Watch(NamedTuple):
    """A line under watchpoints; columns as in recording.sql."""

    line: int
    target: str
    lock: int
    lock_offset: int
    type: str
    type_offset: int
    type_from: str
    access_from: str
    budget: float
    begin_ns: int
    end_ns: int
    hit_ns: int
    ended: str


class WatchTold(NamedTuple):
    """How a line's accesses were told to read or write; columns as in recording.sql."""

    line: int
    instruction: int
    watchpoint: int
    remembered: int
    untold: int
    compared: int
    disagreed: int
    typed_windows: int
    typed_hits: int
    typed_hit_ns: int


class WatchComparison(NamedTuple):
    """An instruction, by the disassembler and by watchpoints; columns as in recording.sql."""

    line: int
    code: int
    decoded: int
    only_read: int
    wrote: int


class WatchWindow(NamedTuple):
    """One stretch of time with watchpoints set; columns as in recording.sql."""

    line: int
    begin_ns: int
    length_ns: int
    offsets: int
    hits: int
    lost: int
    transfers: int
    cut: int
    changed: int


class WatchTransfer(NamedTuple):
    """One CPU touched the watched bytes after another had written in them."""

    line: int
    from_cpu: int
    from_offset: int
    from_code: int
    cpu: int
    offset: int
    code: int
    write: int
    transfers: int


class CpuPair(NamedTuple):
    """How long a cache line takes between two CPUs, one way, and how far their counters are apart."""

    first: int
    second: int
    transfer_ns: float
    least_transfer_ns: float
    warp_ns: int
    rounds: int
