# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes texts in the layouts of `perf c2c report`, of figures that are known.

Columns and widths are those of the dimensions in tools/perf/builtin-c2c.c, by version.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

RULE = "=" * 49


@dataclass(frozen=True)
class Offset:
    """Accesses to one offset of a line by one instruction; cycles: mean weights of remote, local and other loads."""

    offset: int
    code: int
    remote: int = 0
    local: int = 0
    store_hit: int = 0
    store_miss: int = 0
    store_unknown: int = 0
    loads: int = 0
    cycles: tuple[int, int, int] = (0, 0, 0)
    cpus: tuple[int, ...] = (0,)
    symbol: str = "function"
    object: str = "program"
    source: str = "program.c:1"
    pid: int = 1000
    tid: int = 1001
    comm: str = "worker"

    @property
    def stores(self) -> int:
        """Stores of all levels."""
        return self.store_hit + self.store_miss + self.store_unknown

    @property
    def kernel(self) -> bool:
        """Whether the instruction is the kernel's."""
        return self.code >> 63 == 1


@dataclass(frozen=True)
class Line:
    """One cache line; remote and local are HITM, or peer snoops in that display.

    clean: loads that the local and the remote last level served, not modified.  Other loads are L1 hits.
    """

    address: int
    offsets: tuple[Offset, ...]
    fill_buffer: int = 0
    node: str = "0"
    clean: tuple[int, int] = (0, 0)

    def total(self, name: str) -> int:
        """The sum over the offsets."""
        return sum(getattr(offset, name) for offset in self.offsets)

    @property
    def loads(self) -> int:
        """All loads, with those from the fill buffer, which are of no offset shown."""
        return self.total("loads") + self.fill_buffer


@dataclass(frozen=True)
class Report:
    """What is to be printed."""

    lines: tuple[Line, ...]
    events: tuple[str, ...] = ("cpu/mem-loads,ldlat=30/P", "cpu/mem-stores/P")
    node_cpus: dict[int, range] = field(default_factory=lambda: {0: range(8), 1: range(8, 16)})


@dataclass(frozen=True)
class Style:
    """The layout: family is 4.10, 5.4, 5.11, 5.17 or 6.1; -d peer, -d llc and -d all of a vendor, the browser."""

    family: str = "6.1"
    peer: bool = False
    vendor: str = ""
    browser: bool = False
    node_info: int = 0
    pid: bool = False
    tid: bool = False
    code: bool = True
    source: bool = True

    @property
    def version(self) -> tuple[int, ...]:
        """The family as numbers."""
        return tuple(int(part) for part in self.family.split("."))


Column = tuple[str, str, int]


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole if whole else 0:.2f}%"


def _ranges(cpus: Sequence[int]) -> str:
    parts: list[list[int]] = []
    for cpu in sorted(cpus):
        if parts and parts[-1][1] == cpu - 1:
            parts[-1][1] = cpu
        else:
            parts.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def _nodes(report: Report, offset: Offset, style: Style) -> str:
    shown = []
    for node, cpus in report.node_cpus.items():
        mine = [cpu for cpu in offset.cpus if cpu in cpus]
        if not mine:
            continue
        if style.node_info == 0:
            shown.append(f"{node:2d}")
        elif style.node_info == 1:
            hitm = f"{100.0:5.1f}% " if offset.remote + offset.local else f"{'n/a':>6} "
            stores = f"{100.0:5.1f}%" if offset.stores else f"{'n/a':>6}"
            shown.append(f"{node:2d}{{{len(mine):2d} {hitm}{stores}}}")
        else:
            shown.append(f"{node:2d}{{{_ranges(mine)}}}")
    return " ".join(shown)


def _header(columns: Sequence[Column], browser: bool) -> list[str]:
    """Two header lines and the dots; an upper text ends where its own column does, unless it spans more."""
    mark = "" if browser else "# "
    upper = mark + "  ".join(group.rjust(width) for group, _, width in columns)
    lower = mark + "  ".join(name.rjust(width) for _, name, width in columns)
    dots = mark + "  ".join("." * width for _, _, width in columns)
    return [upper, lower] if browser else [upper, lower, dots, "#"]


def _row(columns: Sequence[Column], values: Sequence[str]) -> str:
    return "  " + "  ".join(value.rjust(width) for (_, _, width), value in zip(columns, values, strict=True))


def _table(report: Report, style: Style) -> tuple[list[Column], list[list[str]]]:
    old = style.version < (5, 11)
    address: list[Column] = [("", "Index", 5), ("----------- Cacheline ----------", "Address", 18)]
    if style.family == "4.10":
        address = [("", "Index", 5), ("", "Cacheline", 18)]
    else:
        address += [("", "Node", 4), ("", "PA cnt", 6)]
    percent = ("Peer", "Snoop", 7) if style.peer else ("Tot", "Hitm", 7)
    sides = ("Local", "Remote") if style.peer else ("Lcl", "Rmt") if old else ("LclHitm", "RmtHitm")
    snoops = [("------- Load Peer -------" if style.peer else "----- Load Hitm -----", "Total", 7)]
    snoops += [("", side, 7) for side in sides]
    if style.vendor:
        percent = ("LLC Hit" if style.vendor == "llc" else "Load Hit", "Pct", 8)
        snoops = [("LLC Hit" if style.vendor == "llc" else "Load Hit", "Total", 8)]
    levels = [("----- Core Load Hit -----", "FB", 7), ("", "L1", 7), ("", "L2", 7)]
    if old and not style.vendor:
        columns = [*address, ("Total", "records", 7), percent, *snoops]
        columns += [("---- Store Reference ----", "Total", 7), ("", "L1Hit", 7), ("", "L1Miss", 7)]
        columns += [("--- Load Dram ----", "Lcl", 8), ("", "Rmt", 8), ("LLC", "Ld Miss", 7), ("Total", "Loads", 7)]
        columns += [*levels, ("-- LLC Load Hit --", "Llc", 8), ("", "Rmt", 8)]
    else:
        columns = [*address, percent, *snoops]
        columns += [("Total", "records", 7), ("Total", "Loads", 7), ("Total", "Stores", 7)]
        columns += [("---- Stores ----", "L1Hit", 7), ("", "L1Miss", 7)]
        columns += [("", "N/A", 7)] if style.version >= (5, 17) else []
        columns += [*levels, ("- LLC Load Hit --", "LclHit", 8), ("", "LclHitm", 7)]
        columns += [("- RMT Load Hit --", "RmtHit", 8), ("", "RmtHitm", 7), ("--- Load Dram ----", "Lcl", 8)]
        columns += [("", "Rmt", 8)]
    rows = [_table_values(number, line, report, style) for number, line in enumerate(report.lines)]
    return columns, rows


def _table_values(number: int, line: Line, report: Report, style: Style) -> list[str]:
    old = style.version < (5, 11) and not style.vendor
    remote, local = line.total("remote"), line.total("local")
    everything = sum(each.total("remote") + each.total("local") for each in report.lines)
    known_stores = line.total("store_hit") + line.total("store_miss")
    records = line.loads + known_stores
    if style.version >= (5, 17):
        records += line.total("store_unknown")
    # Peer snoops are counted with the level they hit as well: local ones at L3, remote ones as remote hits.
    llc, remote_hit = (local, remote) if style.peer else line.clean
    hitm = (0, 0) if style.peer else (local, remote)
    l1 = max(0, line.loads - line.fill_buffer - remote - local - sum(line.clean))
    head: list[object] = [number, f"{line.address:#x}"]
    head += [] if style.family == "4.10" else [line.node, 3]
    snoops: list[object] = [_percent(remote + local, everything), remote + local, local, remote]
    if style.vendor:
        snoops = ["50.00%", local if style.vendor == "llc" else line.loads]
    stores: list[object] = [line.total("store_hit"), line.total("store_miss")]
    values: list[object]
    if old:
        values = [
            *head,
            records,
            *snoops,
            known_stores,
            *stores,
            0,
            0,
            remote,
            line.loads,
            line.fill_buffer,
            l1,
            0,
            *line.clean,
        ]
    else:
        stores += [line.total("store_unknown")] if style.version >= (5, 17) else []
        values = [*head, *snoops, records, line.loads, line.total("stores"), *stores, line.fill_buffer, l1, 0]
        values += [llc, hitm[0], remote_hit, hitm[1], 0, 0]
    return [str(value) for value in values]


def _pareto_columns(report: Report, style: Style) -> tuple[list[Column], list[Column]]:
    """Columns of the totals of a line, and those of its rows."""
    new = style.version >= (5, 11)
    sides = ("Rmt", "Lcl") if style.peer or not new else ("RmtHitm", "LclHitm")
    group = "-- Peer Snoop --" if style.peer else "----- HITM -----"
    if style.vendor:
        sides = ("LclHit", "LclHitm") if style.vendor == "llc" else ("Hit", "Miss")
        group = "---- LLC LD ----" if style.vendor == "llc" else "--  Load Refs --"
    number = [] if style.browser else [("", "Num", 5)]
    shares = [(group, sides[0], 7), ("", sides[1], 7), ("-- Store Refs --", "L1 Hit", 7), ("", "L1 Miss", 7)]
    if style.version >= (5, 17):
        shares.append(("", "N/A", 7))
    cycle = "peer" if style.peer else "hitm"
    width = max([len(offset.symbol) + 4 for line in report.lines for offset in line.offsets], default=4)
    objects = max([len(offset.object) for line in report.lines for offset in line.offsets], default=6)
    sources = max([len(offset.source) for line in report.lines for offset in line.offsets], default=11)
    offset = ("------- CL --------", "Off", 5) if style.browser else ("--- Data address -", "Offset", 18)
    rows = [*number, *shares, offset]
    rows += [] if style.family == "4.10" else [("", "Node", 4), ("", "PA cnt", 6)]
    rows += [("", "Pid", 7)] if style.pid else []
    rows += [("", "Tid", 20)] if style.tid else []
    rows += [("", "Code address", 18)] if style.code else []
    rows += [("---------- cycles ----------", f"rmt {cycle}", 8), ("", f"lcl {cycle}", 8), ("", "load", 8)]
    rows += [] if style.family == "4.10" else [("Total", "records", 7)]
    rows += [("cpu", "cnt", 8)]
    rows += [("", "Symbol", width), ("Shared", "Object", objects)] if style.code else []
    rows += [("", "Source:Line", max(sources, 11))] if style.source and style.code else []
    info = ("Node", "Node{cpus %peers %stores}" if style.peer else "Node{cpus %hitms %stores}", "Node{cpu list}")
    rows += [("", info[style.node_info], 4)]
    return [*number, *shares, ("", "", 18)], rows


def _shares(offset: Offset, line: Line, style: Style) -> list[str]:
    names = ["remote", "local", "store_hit", "store_miss"] + (["store_unknown"] if style.version >= (5, 17) else [])
    shares = [_percent(getattr(offset, name), line.total(name)) for name in names]
    if style.vendor == "llc":
        shares[0] = "0.00%"
    elif style.vendor:
        shares[:2] = [_percent(offset.loads, line.total("loads")), "0.00%"]
    return shares


def _totals(line: Line, style: Style) -> list[str]:
    names = ["remote", "local", "store_hit", "store_miss"] + (["store_unknown"] if style.version >= (5, 17) else [])
    totals = [line.total(name) for name in names]
    if style.vendor == "llc":
        totals[0] = 0
    elif style.vendor:
        totals[:2] = [line.total("loads"), 0]
    return [str(total) for total in totals]


def _offset_values(offset: Offset, line: Line, report: Report, style: Style) -> list[str]:
    records = offset.loads + offset.store_hit + offset.store_miss
    records += offset.store_unknown if style.version >= (5, 17) else 0
    values = [] if style.browser else [""]
    values += [*_shares(offset, line, style), f"{offset.offset:#x}"]
    values += [] if style.family == "4.10" else ["0", "1"]
    values += [str(offset.pid)] if style.pid else []
    values += [f"{offset.tid:7d}:{offset.comm}".ljust(20)] if style.tid else []
    values += [f"{offset.code:#x}"] if style.code else []
    values += [str(mean) for mean in offset.cycles]
    values += [] if style.family == "4.10" else [str(records)]
    values += [str(len(offset.cpus))]
    if style.code:
        values += [f"[{'k' if offset.kernel else '.'}] {offset.symbol}", offset.object]
        values += [offset.source] if style.source else []
    return [*values, _nodes(report, offset, style)]


def _left(columns: Sequence[Column], text: Sequence[str]) -> str:
    """A row whose names are set from the left."""
    parts = []
    for (_, name, width), value in zip(columns, text, strict=True):
        parts.append(value.ljust(width) if name in ("Symbol", "Object", "Source:Line") else value.rjust(width))
    return "  " + "  ".join(parts).rstrip()


def table(report: Report, style: Style) -> str:
    """The table of cache lines."""
    columns, rows = _table(report, style)
    title = "Shared Data Cache Line Table"
    if style.browser:
        head = [f"{title}     ({len(rows)} entries, sorted on Total HITMs)", *_header(columns, True)]
    else:
        head = [RULE, f"           {title}          ", RULE, "#", *_header(columns, False)]
    return "\n".join([*head, *(_row(columns, row) for row in rows), ""])


def pareto(report: Report, style: Style) -> str:
    """The table of the offsets in each line."""
    totals, columns = _pareto_columns(report, style)
    dashes = "  " + "-" * 70
    parts = [] if style.browser else [RULE, "      Shared Cache Line Distribution Pareto      ", RULE, "#"]
    parts += [] if style.browser else _header(columns, False)
    for number, line in enumerate(report.lines):
        if style.browser:
            parts += [f"Cacheline {line.address:#x}", *_header(columns, True)]
        else:
            shown = _row(totals, [str(number), *_totals(line, style), f"{line.address:#x}"])
            parts += [dashes, shown, dashes]
        parts += [_left(columns, _offset_values(offset, line, report, style)) for offset in line.offsets]
        parts.append("")
    return "\n".join(parts)


def offset_cells(report: Report, style: Style) -> tuple[list[Column], list[tuple[int, list[str]]]]:
    """The columns of the offsets' rows, and for each row the address of its line and the cells."""
    _, columns = _pareto_columns(report, style)
    first = 0 if style.browser else 1
    rows = [
        (line.address, _offset_values(offset, line, report, style)[first:])
        for line in report.lines
        for offset in line.offsets
    ]
    return columns[first:], rows


def statistics(report: Report, style: Style) -> str:
    """The figures of the whole file, and the events."""
    lines = report.lines
    remote, local = sum(line.total("remote") for line in lines), sum(line.total("local") for line in lines)
    loads, stores = sum(line.loads for line in lines), sum(line.total("stores") for line in lines)
    hitm = (0, 0) if style.peer else (local, remote)
    trace = [
        ("Total records", loads + stores + 7),
        ("Load Operations", loads),
        ("Load Fill Buffer Hit", sum(line.fill_buffer for line in lines)),
        ("Load LLC hit", local),
        ("Load Local HITM", hitm[0]),
        ("Load Remote HITM", hitm[1]),
        *([("Load HIT Local Peer", local), ("Load HIT Remote Peer", remote)] if style.peer else []),
        ("Store Operations", stores),
        ("Unable to parse data source", 7),
    ]
    shared = [("Total Shared Cache Lines", len(lines)), ("Load HITs on shared lines", loads)]
    grouping = "groupping" if style.family == "4.10" else "grouping "
    return "\n".join(
        [
            *(RULE, "            Trace Event Information              ", RULE),
            *(f"  {label:34}: {value:10d}" for label, value in trace),
            f"  {'LLC Misses to Local DRAM':34}:       -nan%",
            *("", RULE, "    Global Shared Cache Line Event Information   ", RULE),
            *(f"  {label:34}: {value:10d}" for label, value in shared),
            *("", RULE, "                 c2c details                     ", RULE),
            *(f"{'  Events' if i == 0 else '':36}: {event}" for i, event in enumerate(report.events)),
            f"  Cachelines sort on                : {'Peer Snoop' if style.peer else 'Total HITMs'}",
            f"  Cacheline data {grouping}          : offset,iaddr",
            "",
        ]
    )


def text(report: Report, style: Style) -> str:
    """The whole text."""
    parts = [] if style.browser else [statistics(report, style)]
    return "\n".join([*parts, table(report, style), pareto(report, style)])
