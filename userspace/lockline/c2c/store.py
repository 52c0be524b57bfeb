# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes memory accesses as a lockline recording: the memory_* tables of recording.sql.

The way into a recording for Python code; `lockline-collect` has its own for perf.data files.
"""

import fcntl
import os
import secrets
import sqlite3
import stat
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from lockline import version
from lockline.base.errors import LocklineError
from lockline.recording.rows import MemoryCount, MemoryLine, MemorySource

SCHEMA = Path(__file__).resolve().parents[1] / "recording" / "recording.sql"

_MAGIC = b"SQLite format 3\0"
# SQLite's companions of a recording that was killed belong to it.
_COMPANIONS = ("-wal", "-shm", "")


class Thread(NamedTuple):
    """A row of memory_thread; id 0 is none."""

    id: int
    pid: int
    tid: int
    comm: str


class Code(NamedTuple):
    """A row of memory_code; id 0 is none, address is unsigned here."""

    id: int
    address: int
    space: str
    symbol: str
    offset: int
    object: str
    line: str


class Problem(NamedTuple):
    """A row of memory_problem; place is a line number of a text, or an offset in a file."""

    source: int
    place: int
    problem: str


@dataclass(slots=True)
class Access:
    """A row of memory_access, to be filled; None: the source does not tell.  offset -1: somewhere in the line.

    cpus: ranges of CPUs, first and last.
    """

    line: int
    offset: int
    code: int
    thread: int
    records: int | None = None
    loads: int | None = None
    stores: int | None = None
    locked: int | None = None
    local_hitm: int | None = None
    remote_hitm: int | None = None
    local_peer: int | None = None
    remote_peer: int | None = None
    fill_buffer: int | None = None
    l1_hit: int | None = None
    l2_hit: int | None = None
    llc_hit: int | None = None
    remote_hit: int | None = None
    local_dram: int | None = None
    remote_dram: int | None = None
    store_l1_hit: int | None = None
    store_l1_miss: int | None = None
    store_unknown: int | None = None
    blocked: int | None = None
    no_map: int | None = None
    no_parse: int | None = None
    remote_hitm_weight: int | None = None
    local_hitm_weight: int | None = None
    load_weight: int | None = None
    load_weights: int | None = None
    in_wait: int | None = None
    cpus: tuple[tuple[int, int], ...] | None = None
    cpu_count: int | None = None
    nodes: str = ""

    @property
    def key(self) -> tuple[int, int, int, int]:
        """The primary key."""
        return self.line, self.offset, self.code, self.thread


# What adds up when two rows have one key.
SUMMED = tuple(item.name for item in fields(Access) if item.name not in {"cpus", "cpu_count", "nodes"})[4:]


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


def _access_values(access: Access) -> tuple[Any, ...]:
    values = [getattr(access, item.name) for item in fields(Access)]
    values[_CPUS] = None if access.cpus is None else cpu_bits(access.cpus)
    return tuple(values)


_CPUS = [item.name for item in fields(Access)].index("cpus")


def _insert(connection: sqlite3.Connection, table: str, rows: Iterable[Sequence[Any]], width: int) -> None:
    connection.executemany(f"INSERT INTO {table} VALUES ({','.join('?' * width)})", rows)


def _schema() -> str:
    try:
        return SCHEMA.read_text(encoding="utf-8")
    except OSError as error:
        raise LocklineError(f"{SCHEMA}: {error.strerror}; install lockline again with `make install`") from error


def _fill(connection: sqlite3.Connection, memory: Memory) -> None:
    connection.executescript(_schema())
    connection.execute("BEGIN")
    meta = {"lockline_version": version(), "state": "complete", **memory.meta}
    _insert(connection, "meta", meta.items(), 2)
    _insert(connection, "memory_source", memory.sources, 4)
    _insert(connection, "memory_count", memory.counts, 3)
    _insert(connection, "memory_line", (row._replace(address=signed(row.address)) for row in memory.lines), 11)
    _insert(connection, "memory_thread", memory.threads, 4)
    _insert(connection, "memory_code", (row._replace(address=signed(row.address)) for row in memory.codes), 7)
    _insert(connection, "memory_access", map(_access_values, memory.accesses), len(fields(Access)))
    _insert(connection, "memory_problem", memory.problems, 3)
    connection.execute("COMMIT")


def _check_target(path: Path) -> Path:
    """The file behind the path, which must be a plain file or not there; nobody may be writing it."""
    target = path.resolve()
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return target
    if not stat.S_ISREG(mode):
        raise LocklineError(f"{path}: not a plain file; name another one with -o")
    with target.open("rb") as file:
        # Of .old there is one: what is no recording would be lost at the second slip.
        if file.read(len(_MAGIC)) not in (b"", _MAGIC):
            raise LocklineError(f"{path}: it is there, and no recording; name another one with -o")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LocklineError(f"{path}: another lockline is recording to it; name another one with -o") from error
    return target


def _move_away(target: Path) -> None:
    """A file that was there becomes FILE.old, as `lockline record` does it."""
    for companion in _COMPANIONS:
        old = Path(f"{target}.old{companion}")
        old.unlink(missing_ok=True)
        with suppress(FileNotFoundError):
            Path(f"{target}{companion}").rename(old)


def write_recording(path: Path, memory: Memory) -> None:
    """Writes a new recording, mode 0600, whole or not at all; a file that was there becomes FILE.old.

    Raises LocklineError if it cannot be written.
    """
    try:
        target = _check_target(path)
        partial = Path(f"{target}.{secrets.token_hex(4)}.partial")
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        try:
            with closing(sqlite3.connect(partial, isolation_level=None)) as connection:
                connection.execute("PRAGMA journal_mode = OFF")
                connection.execute("PRAGMA synchronous = OFF")
                _fill(connection, memory)
            _move_away(target)
            partial.rename(target)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise LocklineError(f"{path}: cannot be written: {error.strerror or error}") from error
    except (sqlite3.Error, OverflowError) as error:
        raise LocklineError(f"{path}: cannot be written: {error}") from error
