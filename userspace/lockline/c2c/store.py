# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes memory accesses as a lockline recording: the memory_* tables of recording.sql.

The way into a recording for Python code; `lockline-collect` has its own for perf.data files.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockline import version
from lockline.recording import writer
from lockline.recording.memory_rows import MemoryAccess, MemoryCount, MemoryLine, MemorySource
from lockline.recording.memory_rows import MemoryCode as Code
from lockline.recording.memory_rows import MemoryProblem as Problem
from lockline.recording.memory_rows import MemoryThread as Thread

__all__ = ["SUMMED", "Access", "Code", "Memory", "Problem", "Thread", "cpu_bits", "merged", "signed", "write_recording"]


class Access:
    """A row of memory_access, to be filled; None: the source does not tell.  offset -1: somewhere in the line.

    It has the columns of that table.  cpus: ranges of CPUs, first and last.
    """

    __slots__ = MemoryAccess._fields

    line: int
    offset: int
    code: int
    thread: int
    cpus: tuple[tuple[int, int], ...] | None
    nodes: str

    if TYPE_CHECKING:
        # The other columns.
        def __getattr__(self, name: str) -> int | None: ...
        def __setattr__(self, name: str, value: Any) -> None: ...

    def __init__(self, line: int, offset: int, code: int, thread: int, **told: Any) -> None:
        values = dict.fromkeys(MemoryAccess._fields) | {"nodes": ""} | told
        for name, value in (values | {"line": line, "offset": offset, "code": code, "thread": thread}).items():
            setattr(self, name, value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Access) and self.values == other.values

    __hash__ = None  # type: ignore[assignment]  # it is filled

    @property
    def values(self) -> list[Any]:
        """Of all columns, in the table's order."""
        return [getattr(self, name) for name in MemoryAccess._fields]

    @property
    def key(self) -> tuple[int, int, int, int]:
        """The primary key."""
        return self.line, self.offset, self.code, self.thread


# What adds up when two rows have one key.
SUMMED = MemoryAccess._fields[4 : MemoryAccess._fields.index("cpus")]


@dataclass(frozen=True)
class Memory:
    """All memory tables of one recording."""

    sources: Sequence[MemorySource]
    counts: Sequence[MemoryCount] = ()
    lines: Sequence[MemoryLine] = ()
    threads: Sequence[Thread] = ()
    codes: Sequence[Code] = ()
    accesses: Sequence[Access] = ()
    problems: Sequence[Problem] = ()
    meta: Mapping[str, str | int] = field(default_factory=dict)


def signed(value: int) -> int:
    """A 64-bit address as SQLite holds it."""
    return value - (1 << 64) if value >> 63 else value


def cpu_bits(ranges: Iterable[tuple[int, int]]) -> bytes:
    """CPUs as a little-endian bit set without zero bytes at its end."""
    bits = 0
    for first, last in ranges:
        bits |= ((1 << (last - first + 1)) - 1) << first
    return bits.to_bytes((bits.bit_length() + 7) // 8, "little")


def merged(accesses: Iterable[Access]) -> list[Access]:
    """Rows with one key added up, in the order of their first; their CPUs united as far as they are listed."""
    rows: dict[tuple[int, int, int, int], Access] = {}
    for access in accesses:
        first = rows.setdefault(access.key, access)
        if first is not access:
            _add(first, access)
    return list(rows.values())


def _add(row: Access, more: Access) -> None:
    for name in SUMMED:
        values = [value for value in (getattr(row, name), getattr(more, name)) if value is not None]
        setattr(row, name, sum(values) if values else None)
    counts = [value for value in (row.cpu_count, more.cpu_count) if value is not None]
    if row.cpus is not None and more.cpus is not None:
        row.cpus += more.cpus
        row.cpu_count = sum(byte.bit_count() for byte in cpu_bits(row.cpus))
    else:
        row.cpus = None
        row.cpu_count = max(counts) if counts else None
    if more.nodes and more.nodes != row.nodes:
        row.nodes = " ".join(part for part in (row.nodes, more.nodes) if part)


def _access_values(access: Access) -> Sequence[Any]:
    values = access.values
    values[_CPUS] = None if access.cpus is None else cpu_bits(access.cpus)
    return values


_CPUS = MemoryAccess._fields.index("cpus")


def write_recording(path: Path, memory: Memory) -> None:
    """Writes a new recording, mode 0600, whole or not at all; a file that was there becomes FILE.old.

    Raises LocklineError if it cannot be written.
    """
    writer.write_recording(
        path,
        {
            "meta": {"lockline_version": version(), "state": "complete", **memory.meta}.items(),
            "memory_source": memory.sources,
            "memory_count": memory.counts,
            "memory_line": (row._replace(address=signed(row.address)) for row in memory.lines),
            "memory_thread": memory.threads,
            "memory_code": (row._replace(address=signed(row.address)) for row in memory.codes),
            "memory_access": map(_access_values, memory.accesses),
            "memory_problem": memory.problems,
        },
    )
