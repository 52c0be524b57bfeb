# SPDX-License-Identifier: GPL-2.0-or-later
"""The tables of memory accesses of a recording, made of what a text of perf c2c says.

perf prints records, cycles and CPUs of an offset as numbers, HITM, peers and stores as shares of the line's totals,
and all else for the line alone.  What the table counts of a line and its offsets do not tell stands in one row with
offset -1, so that the rows of a line add up to perf's own numbers.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lockline.c2c import text_layouts as layouts
from lockline.c2c.shares import PARTS, written_shares
from lockline.c2c.store import Access, Code, Memory, Problem, Thread, merged
from lockline.c2c.text_counts import recover, whole_of
from lockline.c2c.text_parse import C2cText
from lockline.c2c.text_samples import Sample, decode
from lockline.c2c.text_tables import NOWHERE, LineDetail, OffsetRow, TableRow
from lockline.recording.memory_rows import (
    C2C_CONTRADICTED,
    C2C_INDEXES,
    C2C_SHARES,
    C2C_TRANSFERS,
    MemoryCount,
    MemoryLine,
    MemorySource,
)

SOURCE_KIND = "c2c text"

_LINE_BYTES = 64
_STORES = ("store_l1_hit", "store_l1_miss", "store_unknown")


@dataclass
class _Builder:
    """Rows with ids that are given out as they come."""

    lines: list[MemoryLine] = field(default_factory=list)
    threads: dict[tuple[int, int, str], int] = field(default_factory=dict)
    codes: dict[tuple[int, str, str, int, str, str], int] = field(default_factory=dict)
    accesses: list[Access] = field(default_factory=list)
    problems: list[tuple[int, str]] = field(default_factory=list)
    shares: list[str] = field(default_factory=list)
    contradicted: set[int] = field(default_factory=set)

    def thread(self, pid: int | None, tid: int | None, comm: str) -> int:
        """The id of a thread; tid 0 where only the process is known."""
        if pid is None and tid is None:
            return 0
        return self.threads.setdefault((pid or 0, tid or 0, comm), len(self.threads) + 1)

    def code(self, address: int, space: str, symbol: str, offset: int, name: str, line: str) -> int:
        """The id of an instruction, or of the symbol or object where that is all that is known."""
        if not (address or symbol or name):
            return 0
        return self.codes.setdefault((address, space, symbol, offset, name, line), len(self.codes) + 1)

    def problem(self, where: int, problem: str) -> None:
        """What could not be read as it stands; where: line of the text."""
        self.problems.append((where, problem))

    def contradiction(self, where: int, problem: str) -> None:
        """A problem of the newest line: its figures contradict each other."""
        self.problem(where, problem)
        self.contradicted.add(len(self.lines))

    def memory(self, name: str, event: str, counts: Mapping[str, int], meta: Mapping[str, str | int]) -> Memory:
        """The finished tables."""
        return Memory(
            sources=[MemorySource(1, SOURCE_KIND, name, event)],
            counts=[MemoryCount(1, key, value) for key, value in counts.items()],
            lines=self.lines,
            threads=[Thread(number, *key) for key, number in self.threads.items()],
            codes=[Code(number, *key) for key, number in self.codes.items()],
            accesses=merged(self.accesses),
            problems=[Problem(1, line, problem) for line, problem in sorted(self.problems)],
            meta=meta,
        )


def _space(address: int) -> str:
    """Kernel or user space by the address alone: kernels live in the upper half on all that have perf c2c."""
    return "kernel" if address >> 63 else "user"


def _line_bytes(details: Sequence[LineDetail]) -> int:
    """64, or more if an offset is beyond that: 128 of --double-cl, or of a machine with long lines."""
    largest = max((row.offset for detail in details for row in detail.rows if row.offset < 4096), default=0)
    return max(_LINE_BYTES, 1 << largest.bit_length())


def _pairs(text: C2cText, builder: _Builder) -> list[tuple[TableRow | None, LineDetail | None]]:
    """Each line of the table with its offsets; lines that only one of the two has are given too."""
    details = list(text.details)
    by_key = {(detail.index, detail.address): i for i, detail in reversed(list(enumerate(details)))}
    by_address: dict[int, list[int]] = {}
    for i, detail in enumerate(details):
        by_address.setdefault(detail.address, []).append(i)
    in_table = Counter(row.address for row in text.table)
    used: set[int] = set()
    pairs: list[tuple[TableRow | None, LineDetail | None]] = []
    for row in text.table:
        at = by_key.get((row.index, row.address))
        same = by_address.get(row.address, [])
        if at is None and len(same) == 1 and in_table[row.address] == 1:
            at = same[0]
        if at is None or at in used:
            pairs.append((row, None))
            continue
        used.add(at)
        pairs.append((row, details[at]))
    pairs += [(None, detail) for i, detail in enumerate(details) if i not in used]
    return pairs


def _compare(row: TableRow, detail: LineDetail, builder: _Builder) -> None:
    for column, total in detail.totals.items():
        in_table = row.counts.get(column, total)
        if in_table != total:
            name = column.replace("_", " ")
            problem = f"{total} {name} of {row.address:#x}, but {in_table} in line {row.line}"
            builder.contradiction(detail.line, problem)


def _shares(
    detail: LineDetail, totals: Mapping[str, int], builder: _Builder
) -> tuple[dict[str, tuple[int, ...]], set[str]]:
    """Counts per row of each column that has percentages and a total, and the columns that are exact."""
    counts: dict[str, tuple[int, ...]] = {}
    exact: set[str] = set()
    if not totals:
        builder.problems.append((detail.line, "its rows are shares of totals that are not in the text"))
        return counts, exact
    for column in dict.fromkeys(column for row in detail.rows for column in row.percents):
        rows = [row for row in detail.rows if column in row.percents]
        if column not in totals or len(rows) != len(detail.rows):
            if column not in totals and column in layouts.COUNTS:
                name = column.replace("_", " ")
                builder.problems.append(
                    (detail.line, f"{name} of {detail.address:#x}: shares of a total that is missing")
                )
            continue
        recovered = recover(totals[column], [row.percents[column] for row in rows])
        if recovered.problem:
            problem = f"{column.replace('_', ' ')} of {detail.address:#x}: {recovered.problem}"
            # A percentage that no whole number has is off by half a sample at most: nothing rests on that.
            note = builder.contradiction if recovered.counts is None or not totals[column] else builder.problem
            note(detail.line, problem)
        if recovered.counts is not None:
            counts[column] = recovered.counts
        if recovered.exact:
            exact.add(column)
    return counts, exact


def _totals(row: TableRow | None, detail: LineDetail | None) -> dict[str, int]:
    """What is counted of a line, by the table first; peers that are not told apart are taken as local."""
    totals = {**(detail.totals if detail else {}), **(row.counts if row else {})}
    if "local_peer" not in totals and layouts.TOTAL_PEER in totals:
        totals["local_peer"] = totals[layouts.TOTAL_PEER]
    return totals


def _fill(access: Access, values: Mapping[str, int | None]) -> Access:
    for column, value in values.items():
        setattr(access, column, value)
    return access


def _weights(row: OffsetRow, access: Access, peer: bool) -> None:
    """Sums of the weights, of the means that perf prints (compute_stats() of builtin-c2c.c)."""
    means = (
        row.cycles.get(layouts.REMOTE_CYCLES),
        row.cycles.get(layouts.LOCAL_CYCLES),
        row.cycles.get(layouts.LOAD_CYCLES),
    )
    if access.loads is None or None in means:
        return
    remote_mean, local_mean, load_mean = (mean or 0 for mean in means)
    remote, local = (access.remote_peer, access.local_peer) if peer else (access.remote_hitm, access.local_hitm)
    if remote is None or local is None or (peer and (access.remote_hitm or access.local_hitm)):
        return
    others = max(0, access.loads - remote - local)
    if peer:
        access.load_weight = load_mean * others + remote_mean * remote + local_mean * local
        access.load_weights = others + remote + local
        return
    access.remote_hitm_weight, access.local_hitm_weight = remote_mean * remote, local_mean * local
    access.load_weight, access.load_weights = load_mean * others, others


def _by_cycles(row: OffsetRow) -> dict[str, int | None]:
    """The loads and stores of a row whose line's stores are not told.

    Its share of the stores may be above 0, and loads have cycles: a row with one of the two alone has no others.
    """
    shares = [row.percents[column].value for column in _STORES if column in row.percents]
    paid = [percent.value for column, percent in row.percents.items() if column not in _STORES]
    if not shares or layouts.LOAD_CYCLES not in row.cycles:
        return {}
    loaded = any(row.cycles.values()) or any(paid)
    if any(shares) == loaded:
        return {}
    return {"loads": row.records if loaded else 0, "stores": 0 if loaded else row.records}


def _round_down(
    row: OffsetRow, values: dict[str, int | None], totals: Mapping[str, int], levels: Sequence[str]
) -> None:
    """Takes from a row's stores what rounding of their percentages has made of them beyond its records."""
    over = sum(values[column] or 0 for column in levels) - (row.records if row.records is not None else 1 << 62)
    rounding = sum(
        -(-totals[column] // (200 * row.percents[column].scale)) for column in levels if column in row.percents
    )
    if 0 < over <= rounding:
        most = max(levels, key=lambda column: values[column] or 0)
        values[most] = max(0, (values[most] or 0) - over)


def _row_access(
    line: int,
    row: OffsetRow,
    counts: Mapping[str, int],
    totals: Mapping[str, int],
    detail: LineDetail,
    builder: _Builder,
) -> Access:
    """One row of the text as an access; what the line has none of, no offset of it has."""
    values: dict[str, int | None] = {column: 0 for column in layouts.COUNTS if totals.get(column) == 0}
    for column, value in counts.items():
        if column == layouts.TOTAL_PEER:
            values["local_peer"] = value
        elif column in layouts.COUNTS:
            values[column] = value
    if row.records is not None:
        values["records"] = row.records
    levels = [column for column in _STORES if column in totals]
    if levels and all(values.get(column) is not None for column in levels):
        _round_down(row, values, totals, levels)
        stores = sum(values[column] or 0 for column in levels)
        # Stores without any of these levels are in the line's total alone: an offset may have more than it shows.
        whole = totals.get("stores", 0) <= sum(totals[column] for column in levels)
        values.setdefault("stores", stores if stores or whole else None)
        if row.records is not None:
            if stores > row.records:
                builder.problem(row.line, f"{row.records} records, but {stores} stores")
            values.setdefault("loads", max(0, row.records - stores))
    elif row.records is not None and not levels:
        values.update(_by_cycles(row))
    space = row.space or (_space(row.code) if row.code is not None else "other")
    access = _fill(
        Access(
            line,
            row.offset,
            builder.code(row.code or 0, space, row.symbol, row.symbol_offset, row.object, row.source),
            builder.thread(row.pid, row.tid, row.comm),
        ),
        values,
    )
    access.cpus, access.cpu_count, access.nodes = row.cpus, row.cpu_count, row.nodes
    if row.cpus is not None:
        access.cpu_count = sum(last - first + 1 for first, last in row.cpus)
    _weights(row, access, detail.peer)
    return access


def _rest(line: int, totals: Mapping[str, int], accesses: Sequence[Access], where: int, builder: _Builder) -> None:
    """What the table counts of a line beyond its offsets' rows, in one row."""
    values: dict[str, int | None] = {}
    for column in layouts.COUNTS:
        if column not in totals:
            continue
        told = sum(getattr(access, column) or 0 for access in accesses)
        if told > totals[column]:
            name = column.replace("_", " ")
            problem = (
                f"{told} {name} of the offsets, but {totals[column]} of the line: those of the offsets are left out"
            )
            builder.contradiction(where, problem)
            told = 0
            for access in accesses:
                setattr(access, column, None)
        values[column] = totals[column] - told
    levels = [column for column in _STORES if column in totals]
    if levels and "stores" not in totals:
        # Rows without their table: of the line's stores the text has the levels alone.
        told = sum(access.stores or 0 for access in accesses)
        values["stores"] = max(0, sum(totals[column] for column in levels) - told)
    if any(values.values()):
        builder.accesses.append(_fill(Access(line, NOWHERE, 0, 0), values))


def _only_shares(line: int, rows: Sequence[OffsetRow], accesses: Sequence[Access]) -> str:
    """The shares of a line's rows; of several columns, as remote and local HITM, the mean of those that tell any."""
    told = {column for row in rows for column, percent in row.percents.items() if percent.value}

    def mean(row: OffsetRow, columns: Sequence[str]) -> int:
        found = [row.percents[column] for column in columns if column in row.percents]
        return sum(percent.value * PARTS // (100 * percent.scale) for percent in found) // max(1, len(found))

    stores = [column for column in _STORES if column in told]
    paid = [column for column in layouts.COUNTS if column in told and column not in stores]
    shares: dict[tuple[int, int], tuple[int, int]] = {}
    for row, access in zip(rows, accesses, strict=False):
        key = row.offset, access.code
        before = shares.get(key, (0, 0))
        shares[key] = before[0] + mean(row, paid), before[1] + mean(row, stores)
    return written_shares(line, shares)


def _add_line(row: TableRow | None, detail: LineDetail | None, size: int, builder: _Builder) -> None:
    known = row or detail
    assert known
    number = len(builder.lines) + 1
    rows = detail.rows if detail else ()
    pids = {offset.pid for offset in rows}
    pid = (pids.pop() or 0) if len(pids) == 1 and _space(known.address) == "user" else 0
    pages = 1 if row and row.pa_count == 1 else 0
    nodes = row.nodes if row else ""
    if known.address < 0:
        # Lines are distinguished by their addresses: such a line gets one that no data have.
        name = "the only line of the text" if known.index is None else f"line {known.index} of the text"
        builder.lines.append(MemoryLine(number, 1, -known.address * size, size, "other", 0, "", name, 0, nodes, pages))
    else:
        builder.lines.append(
            MemoryLine(number, 1, known.address, size, _space(known.address), max(0, pid), "", "", 0, nodes, pages)
        )
    if row and detail:
        _compare(row, detail, builder)
    totals = _totals(row, detail)
    accesses: list[Access] = []
    if detail:
        if layouts.TOTAL_PEER in detail.totals and "local_peer" not in detail.totals:
            builder.problems.append(
                (detail.line, "peer snoops that are neither local nor remote in the text count as local")
            )
        counts, _ = _shares(detail, totals, builder)
        for i, offset in enumerate(detail.rows):
            if offset.offset >= size:
                builder.problems.append((offset.line, f"offset {offset.offset:#x} is not in a line of {size} bytes"))
                continue
            mine = {column: values[i] for column, values in counts.items()}
            accesses.append(_row_access(number, offset, mine, totals, detail, builder))
        if not totals and detail.rows:
            builder.shares.append(_only_shares(number, detail.rows, accesses))
    builder.accesses += accesses
    _rest(number, totals, accesses, known.line, builder)


_SNOOPS = ("local_hitm", "remote_hitm", "local_peer", "remote_peer")


def _transfers(rows: Sequence[TableRow]) -> int | None:
    """HITM and peer snoops of the whole file, by the shares of the lines in the table, if these are shares of them."""
    return whole_of((sum(row.counts.get(name, 0) for name in _SNOOPS), row.share) for row in rows if row.share)


def _report_tables(text: C2cText, name: str) -> Memory:
    builder = _Builder(problems=list(text.problems))
    size = _line_bytes(text.details)
    indexes = {}
    for row, detail in _pairs(text, builder):
        _add_line(row, detail, size, builder)
        index = row.index if row else detail.index if detail else None
        if index is not None:
            indexes[builder.lines[-1].id] = index
    meta: dict[str, str | int] = {"c2c_text": name, "c2c_text_line": text.first_line}
    if indexes:
        meta[C2C_INDEXES] = " ".join(f"{line}:{index}" for line, index in indexes.items())
    if builder.shares:
        meta[C2C_SHARES] = " ".join(builder.shares)
    if builder.contradicted:
        meta[C2C_CONTRADICTED] = " ".join(map(str, sorted(builder.contradicted)))
    whole = _transfers(text.table) if "lcl_hitm" not in text.counts else None
    if whole is not None:
        meta[C2C_TRANSFERS] = whole
    if text.sort:
        meta["c2c_sort"] = text.sort
    if text.grouping:
        meta["c2c_grouping"] = text.grouping
    return builder.memory(name, "\n".join(text.events), text.counts, meta)


def _sample_line(sample: Sample, lines: dict[tuple[int, int], int], builder: _Builder) -> int:
    """The id of a sample's line; in user space lines of several processes differ."""
    address = sample.address & ~(_LINE_BYTES - 1)
    space = _space(address)
    pid = sample.pid if space == "user" else 0
    number = lines.setdefault((address, pid), len(lines) + 1)
    if number > len(builder.lines):
        builder.lines.append(MemoryLine(number, 1, address, _LINE_BYTES, space, max(0, pid), "", "", 0, "", 0))
    return number


def _sample_tables(text: C2cText, samples: Sequence[Sample], name: str) -> Memory:
    builder = _Builder(problems=list(text.problems))
    lines: dict[tuple[int, int], int] = {}
    totals = {"nr_entries": len(samples), "ld_noadrs": 0, "noparse": 0}
    rows: dict[tuple[int, int, int, int], Access] = {}
    cpus: dict[tuple[int, int, int, int], set[int]] = {}
    for sample in samples:
        if not sample.address:
            totals["ld_noadrs"] += 1
            continue
        counts = decode(sample.data_src)
        totals["noparse"] += counts.get("no_parse", 0)
        line = _sample_line(sample, lines, builder)
        space = _space(sample.ip) if sample.ip is not None else "other"
        code = builder.code(sample.ip or 0, space, sample.symbol, sample.symbol_offset, sample.object, "")
        thread = builder.thread(sample.pid, sample.tid, sample.comm) if sample.tid is not None else 0
        key = (line, sample.address % _LINE_BYTES, code, thread)
        row = rows.setdefault(
            key, _fill(Access(*key), dict.fromkeys((*layouts.COUNTS, "locked", "blocked", "no_parse"), 0))
        )
        for column, value in counts.items():
            setattr(row, column, getattr(row, column) + value)
        if sample.cpu is not None:
            cpus.setdefault(key, set()).add(sample.cpu)
        _sample_weight(sample, counts, row)
    for key, row in rows.items():
        if key in cpus:
            row.cpus = tuple((cpu, cpu) for cpu in sorted(cpus[key]) if cpu < 8192)
            row.cpu_count = len(row.cpus)
    builder.accesses = list(rows.values())
    return builder.memory(name, "\n".join(text.events), totals, {"c2c_text": name, "c2c_text_line": text.first_line})


def _sample_weight(sample: Sample, counts: Mapping[str, int], row: Access) -> None:
    if sample.weight is None or not counts.get("loads"):
        return
    column = "load_weight"
    if counts.get("remote_hitm"):
        column = "remote_hitm_weight"
    elif counts.get("local_hitm"):
        column = "local_hitm_weight"
    setattr(row, column, (getattr(row, column) or 0) + sample.weight)
    if column == "load_weight":
        row.load_weights = (row.load_weights or 0) + 1


def memory_tables(text: C2cText, name: str) -> Memory:
    """The memory tables of a recording; name: what the source is called, the file's name."""
    if text.samples:
        return _sample_tables(text, text.samples.samples, name)
    return _report_tables(text, name)
