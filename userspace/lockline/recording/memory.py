# SPDX-License-Identifier: GPL-2.0-or-later
"""Sums over the tables of memory accesses.  SQLite sums; of tens of thousands of rows Python sees some hundreds.

Every function raises RecordingError if what it reads is damaged, and gives nothing of a recording before schema 2.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from lockline.base.late import Late
from lockline.base.values import NamedTuple
from lockline.recording.conditions import Condition, above, among, equal, where
from lockline.recording.connection import damaged
from lockline.recording.memory_rows import FIGURES, MemoryAccess, MemoryLine
from lockline.recording.reader import Recording
from lockline.recording.tables import accepted_types

if TYPE_CHECKING:
    import array
else:
    array = Late("array")

# Of functions of the kernel whose places are compared.
MAX_SYMBOLS = 100_000
# Bit sets of 65,536 CPUs.
_MAX_CPU_BYTES = 8192

_SINCE = 2
# A row of several threads has them in one column.
_GROUPED_SINCE = 5
# Larger ids make no bits: sets of one line's own threads are shorter then.
MAX_SET = 1 << 12
# Threads whose names are asked for at once.
_NAMES = 10_000
_SETS_SINCE = 12
# A thread's id, and its records.
_COUNT_BYTES = 4
_PAIR_BYTES = 2 * _COUNT_BYTES
_BYTES = bytes(range(256))
_TRANSFERS = "ifnull(local_hitm, 0) + ifnull(remote_hitm, 0) + ifnull(local_peer, 0) + ifnull(remote_peer, 0)"
_SUMS = ", ".join(f"SUM({name})" for name in FIGURES)
_TYPES = accepted_types(MemoryAccess)
_FIGURE_TYPES = {name: _TYPES[name] for name in FIGURES}
_KEY_TYPES = {name: _TYPES[name] for name in ("line", "offset", "code")}

Figures = tuple[int | None, ...]


class LineSum(NamedTuple):
    """Accesses to one cache line; None: the source does not tell.  cpu_count: at least so many CPUs."""

    line: int
    records: int | None
    loads: int | None
    stores: int | None
    local_hitm: int | None
    remote_hitm: int | None
    local_peer: int | None
    remote_peer: int | None
    cpu_count: int | None


class LineFunction(NamedTuple):
    """Accesses of one function to one cache line; snoops: HITM and peer."""

    line: int
    symbol: str
    snoops: int
    records: int


class Whole(NamedTuple):
    """All accesses of a recording; transfers: HITM and peer snoops."""

    loads: int | None
    stores: int | None
    transfers: int


class SharedLine(NamedTuple):
    """A line that may be shared, in sums; threads: at least so many access it."""

    line: int
    threads: int
    transfers: int
    records: int | None
    loads: int | None
    stores: int | None
    local_hitm: int | None
    remote_hitm: int | None
    local_peer: int | None
    remote_peer: int | None
    fill_buffer: int | None


class AccessSum(NamedTuple):
    """The accesses of one instruction to one offset of a line; figures: as FIGURES.

    cpus: a bit set, None where a row has none.  thread_set: likewise of the threads' ids, None where one of these is
    large.  records_of: of each thread, in the order of the set, one byte each or four; listed: threads and their
    records where the recording has no set of them.
    """

    line: int
    offset: int
    code: int
    figures: Figures
    cpu_count: int | None
    nodes: str
    cpus: int | None
    thread_set: int | None
    records_of: bytes
    listed: tuple[Sequence[int], Sequence[int]] | None = None

    @property
    def threads(self) -> Sequence[int]:
        """The threads' ids."""
        return self.listed[0] if self.listed else tuple(places_of(self.thread_set or 0))

    @property
    def shares(self) -> Sequence[int]:
        """How many records each of them has, in the same order, () where it is not told."""
        if self.listed:
            return self.listed[1]
        return _shares(self.thread_set or 0, self.records_of)

    def reaches(self, least: int) -> bool:
        """Whether one of them has so many records, at most 256."""
        if self.listed:
            return max(self.listed[1], default=0) >= least
        # By bytes: to make a number of each takes ten times as long.  Of four bytes one has 256 or more.
        found = self.records_of.translate(None, _BYTES[:least])
        return bool(found) or len(self.records_of) != (self.thread_set or 0).bit_count()


class Symbol(NamedTuple):
    """An address in a function, and how far behind its begin."""

    address: int
    symbol: str
    offset: int


class _Behind(NamedTuple):
    """What access_sums() selects behind the figures."""

    cpu_count: int | None
    nodes: str
    threads: str | None
    shares: str | None
    several: bytes | None
    thread_set: bytes | None
    records_of: bytes | None
    cpu_sets: str | None
    unknown_cpus: int
    no_cpus: int


class _Number(NamedTuple):
    number: int


class _Comm(NamedTuple):
    thread: int
    comm: str


def has_lines(recording: Recording) -> bool:
    """Whether the recording has memory accesses, or lines that were watched."""
    return any(True for _ in recording.table(MemoryLine, above("id", 0), limit=1))


def line_sums(recording: Recording) -> Iterator[LineSum]:
    """Accesses by cache line; figures that the source does not tell are None."""
    query = """
        SELECT line, SUM(records), SUM(loads), SUM(stores), SUM(local_hitm), SUM(remote_hitm), SUM(local_peer),
            SUM(remote_peer), MAX(cpu_count)
        FROM memory_access GROUP BY line"""
    return recording.select(LineSum, "memory_access", query) if recording.schema >= _SINCE else iter(())


def line_functions(recording: Recording, lines: Sequence[int]) -> Iterator[LineFunction]:
    """Which functions access these lines; weight: HITM and peer snoops, or records where there are none."""
    query = f"""
        SELECT memory_access.line, symbol, SUM({_TRANSFERS}), SUM(ifnull(records, 0))
        FROM memory_access JOIN memory_code ON memory_code.id = code
        {where(among("memory_access.line", lines))} GROUP BY memory_access.line, symbol"""
    return recording.select(LineFunction, "memory_access", query) if recording.schema >= _SINCE else iter(())


def line_cpus(recording: Recording, lines: Sequence[int]) -> dict[int, int]:
    """The CPUs that access each of these lines, as a bit set; none where only their number is known."""
    sets: dict[int, int] = {}
    if recording.schema < _SINCE:
        return sets
    known = Condition("cpus IS NOT NULL")
    for line, cpus in recording.raw(f"SELECT line, cpus FROM memory_access{where(among('line', lines), known)}"):
        if not isinstance(line, int) or not isinstance(cpus, bytes) or len(cpus) > _MAX_CPU_BYTES:
            raise damaged(recording.path, "memory_access.cpus is not a set of bits")
        sets[line] = sets.get(line, 0) | int.from_bytes(cpus, "little")
    return sets


def whole(recording: Recording) -> Whole:
    """All accesses of a recording of schema 2 or later."""
    query = f"SELECT SUM(loads), SUM(stores), ifnull(SUM({_TRANSFERS}), 0) FROM memory_access"
    return next(iter(list(recording.select(Whole, "memory_access", query))), Whole(None, None, 0))


def line_count(recording: Recording) -> int:
    """How many lines a recording of schema 2 or later has."""
    return sum(row.number for row in recording.select(_Number, "memory_line", "SELECT count(*) FROM memory_line"))


def shared_lines(recording: Recording) -> list[SharedLine]:
    """Lines that may be shared: by transfers, by fill buffer hits, or because perf c2c has listed them."""
    columns = ", ".join(f"SUM({name})" for name in SharedLine._fields[3:])
    moved = " + ".join(f"ifnull(SUM({name}), 0)" for name in ("local_hitm", "remote_hitm", "local_peer", "remote_peer"))
    # Of each line until the first row of several threads: to look into all rows takes most of the time.
    several = f"""EXISTS (
        SELECT 1 FROM memory_access AS one WHERE one.line = every.line AND ({_several(recording)}))"""
    query = f"""
        SELECT line, 1 + (MIN(thread) < MAX(thread)) + {several}, {moved} AS moved, {columns}
        FROM memory_access AS every GROUP BY line
        HAVING moved > 0 OR SUM(fill_buffer) > 0 OR line IN (
            SELECT id FROM memory_line WHERE source IN (SELECT id FROM memory_source WHERE kind = 'c2c text'))"""
    return list(recording.select(SharedLine, "memory_access", query))


def lines_at_the_same_address(recording: Recording, ids: Iterable[int]) -> Iterator[MemoryLine]:
    """These lines, and others that have the address of one of them."""
    same = f"address IN (SELECT address FROM memory_line{where(among('id', ids))})"
    return recording.table(MemoryLine, Condition(same))


def figures_of_lines(
    recording: Recording, lines: Sequence[int], names: Sequence[str] = FIGURES
) -> Iterator[tuple[int, Figures]]:
    """The figures of these names of each of these lines, in sums, with its id."""
    sums = ", ".join(f"SUM({name})" for name in names)
    query = f"SELECT line, {sums} FROM memory_access{where(among('line', lines))} GROUP BY line"
    types = {"line": (int,)} | {name: _FIGURE_TYPES[name] for name in names}
    for line, *figures in recording.checked(types, "memory_access", query):
        yield line, tuple(figures)


class _Alone(NamedTuple):
    """What _single_accesses() selects behind the figures."""

    cpu_count: int | None
    nodes: str
    cpus: bytes | None
    thread: int
    threads: bytes | None
    thread_set: bytes | None
    records_of: bytes | None


def places_of(bits: int) -> Iterator[int]:
    """The numbers of the bits that are set."""
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low


def _set_of(recording: Recording, bits: bytes, records: bytes | None) -> tuple[int, bytes]:
    """Threads as a bit set, and their records; RecordingError unless these belong together."""
    found = int.from_bytes(bits[: MAX_SET // 8], "little")
    records = records or b""
    count = found.bit_count()
    if len(records) != count and len(records) != count * _COUNT_BYTES:
        raise damaged(recording.path, "memory_access.thread_records are not those of its threads")
    return found, records


def _single_accesses(recording: Recording, lines: Sequence[int]) -> list[AccessSum] | None:
    """As access_sums(), where each is one row; None if some are of several, or a value is not what it should be."""
    query = f"""
        SELECT line, offset, code, {", ".join(FIGURES)}, cpu_count, nodes, cpus, thread, threads, {_sets(recording)}
        FROM memory_access{where(among("line", lines))} ORDER BY line, offset, code"""
    found: list[AccessSum] = []
    before: tuple[int, ...] = ()
    types = _KEY_TYPES | _FIGURE_TYPES | accepted_types(_Alone)
    first, last = len(_KEY_TYPES), len(_KEY_TYPES) + len(FIGURES)
    number = int.from_bytes
    make = AccessSum._make
    for row in recording.checked(types, "memory_access", query):
        cpu_count, nodes, bits, thread, listed, thread_set, records_of = row[last:]
        key = row[:first]
        if key == before:
            return None
        before = key
        cpus = None if bits is None else number(bits[:_MAX_CPU_BYTES], "little")
        threads: int | None
        who: tuple[Sequence[int], Sequence[int]] | None = None
        if thread_set:
            threads, each = _set_of(recording, thread_set, records_of)
        elif listed:
            if len(listed) % _PAIR_BYTES:
                return None
            who = _pairs(listed)
            threads, each = _small(who[0]), b""
        else:
            records = row[first]
            who = (thread,), () if records is None or records < 0 else (records,)
            threads, each = 1 << thread if 0 <= thread < MAX_SET else None, b""
        # By _make(): thousands of them are made.
        found.append(make((*key, row[first:last], cpu_count, nodes, cpus, threads, each, who)))
    return found


def _small(threads: Sequence[int]) -> int | None:
    """The ids as a bit set, None if one is large."""
    if max(threads) >= MAX_SET:
        return None
    return reduce(or_, map((1).__lshift__, threads))


def access_sums(recording: Recording, lines: Sequence[int]) -> Iterator[AccessSum]:
    """The accesses to these lines, by line, offset and instruction."""
    # Samples that were imported or recorded are summed already.
    alone = _single_accesses(recording, lines) if recording.schema >= _GROUPED_SINCE else None
    if alone is not None:
        return iter(alone)
    return _access_sums(recording, lines)


def _access_sums(recording: Recording, lines: Sequence[int]) -> Iterator[AccessSum]:
    query = f"""
        SELECT line, offset, code, {_SUMS}, MAX(cpu_count), MIN(nodes), GROUP_CONCAT(thread),
            GROUP_CONCAT(ifnull(records, -1)), MAX({_threads(recording)}), {_sets(recording, "MAX")},
            GROUP_CONCAT(hex(cpus)), SUM(cpus IS NULL), SUM(typeof(cpus) NOT IN ('blob', 'null'))
        FROM memory_access{where(among("line", lines))} GROUP BY line, offset, code"""
    last = len(_KEY_TYPES) + len(FIGURES)
    for row in recording.checked(_KEY_TYPES | _FIGURE_TYPES | accepted_types(_Behind), "memory_access", query):
        behind = _Behind(*row[last:])
        if behind.no_cpus:
            raise damaged(recording.path, "memory_access.cpus is not a set of bits")
        threads, shares = _who(recording, behind)
        yield AccessSum(
            row[0],
            row[1],
            row[2],
            row[len(_KEY_TYPES) : last],
            behind.cpu_count,
            behind.nodes,
            None if behind.unknown_cpus else _united(behind.cpu_sets),
            None,
            b"",
            (threads, shares),
        )


def _threads(recording: Recording) -> str:
    """The column with the threads of a row of several; recordings before schema 5 have none."""
    return "threads" if recording.schema >= _GROUPED_SINCE else "NULL"


def _several(recording: Recording) -> str:
    """Whether a row is of several threads."""
    listed = f"length({_threads(recording)}) > 0"
    return listed if recording.schema < _SETS_SINCE else f"{listed} OR length(thread_set) > 0"


def _sets(recording: Recording, function: str = "") -> str:
    """The columns with these threads as a set, and their records; recordings before schema 12 have none."""
    if recording.schema < _SETS_SINCE:
        return "NULL, NULL"
    return f"{function}(thread_set), {function}(thread_records)"


def _who(recording: Recording, behind: _Behind) -> tuple[Sequence[int], Sequence[int]]:
    """The threads of an access, and how many records each of them has, () if that is not told of all."""
    if behind.thread_set:
        bits, records = _set_of(recording, behind.thread_set, behind.records_of)
        return tuple(places_of(bits)), _shares(bits, records)
    if behind.several:
        if len(behind.several) % _PAIR_BYTES:
            raise damaged(recording.path, "memory_access.threads is not a list of threads")
        return _pairs(behind.several)
    threads = array.array("q", map(int, (behind.threads or "").split(",")) if behind.threads else ())
    shares = array.array("q", map(int, (behind.shares or "").split(",")) if behind.shares else ())
    return threads, () if any(share < 0 for share in shares) else shares


def _is_wide(threads: int, records: bytes) -> bool:
    """Whether the records of a set of threads have four bytes each, and not one."""
    return len(records) != threads.bit_count()


def _shares(threads: int, records: bytes) -> Sequence[int]:
    """How many records each of a set of threads has."""
    return _numbers(records) if _is_wide(threads, records) else records


def _pairs(listed: bytes) -> "tuple[array.array[int], array.array[int]]":
    """Threads, and their records."""
    numbers = _numbers(listed)
    return numbers[0::2], numbers[1::2]


def _numbers(listed: bytes) -> "array.array[int]":
    numbers = array.array("I", listed)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _united(sets: str | None) -> int | None:
    """The union of bit sets in hexadecimal, little-endian."""
    if not sets:
        return None
    cpus = 0
    for text in sets.split(","):
        cpus |= int.from_bytes(bytes.fromhex(text[: 2 * _MAX_CPU_BYTES]), "little")
    return cpus


def comms_of_threads(recording: Recording, threads: Sequence[int]) -> dict[int, str]:
    """The names of these threads, of those that have one."""
    found: dict[int, str] = {}
    for begin in range(0, len(threads), _NAMES):
        some = among("id", threads[begin : begin + _NAMES])
        query = f"SELECT id, comm FROM memory_thread{where(some)} AND comm != ''"
        found.update(recording.select(_Comm, "memory_thread", query))
    return found


def nobodys_threads(recording: Recording) -> frozenset[int]:
    """The ids of rows that stand for a thread that is not known."""
    query = "SELECT id FROM memory_thread WHERE tid = 0"
    return frozenset(row.number for row in recording.select(_Number, "memory_thread", query)) | {0}


def _symbols(recording: Recording, table: str, *conditions: Condition) -> Iterator[Symbol]:
    named = where(*conditions, Condition("symbol != ''"))
    return recording.select(Symbol, table, f"SELECT address, symbol, offset FROM {table}{named} LIMIT {MAX_SYMBOLS}")


def code_symbols(recording: Recording) -> Iterator[Symbol]:
    """Addresses of the kernel's code that accesses memory."""
    if recording.schema < _SINCE:
        return iter(())
    return _symbols(recording, "memory_code", equal("space", "kernel"))


def frame_symbols(recording: Recording) -> Iterator[Symbol]:
    """Addresses of the kernel's stacks, without modules."""
    return _symbols(recording, "frame", among("tgid", [0]), equal("module", ""))
