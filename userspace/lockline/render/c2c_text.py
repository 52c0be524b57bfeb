# SPDX-License-Identifier: GPL-2.0-or-later
"""The report of cache lines as text: the answer first, then the lines, then each line's map."""

from collections.abc import Mapping, Sequence

from lockline.base.numbers import count, counted, duration, percent
from lockline.base.text import Column, Style, clean, cut, fill, pad, page, paragraphs, table
from lockline.c2c.model import Access, C2cReport, Counts, LineReport, LockOnLine, OffsetReport

# Of each line's map.
OFFSETS = 12
FUNCTIONS = 4
LOCKS = 4
PROBLEMS = 5
# Lines whose map is shown: of those after them, the table tells.
MAPS = 10


def render(report: C2cReport, style: Style) -> str:
    """The whole report, ending in a line end."""
    parts = [header(report, style), _answer(report, style), _lines(report, style)]
    parts += [_map(number, line, style) for number, line in enumerate(report.lines[:MAPS], 1)]
    parts.append(_footer(report, style))
    return paragraphs(parts)


def render_sections(report: C2cReport, style: Style, names: Sequence[str]) -> str:
    """These sections alone."""
    parts = []
    if "lines" in names:
        parts.append(_lines(report, style))
    if "maps" in names:
        parts += [_map(number, line, style) for number, line in enumerate(report.lines[:MAPS], 1)]
    if "trust" in names:
        parts.append(_footer(report, style) or ["Nothing is known to be missing."])
    return paragraphs(parts)


def wrapped(text: str, indent: str = "  ", hang: str = "  ") -> list[str]:
    """A text on as many lines as it takes."""
    return fill(text, indent, indent + hang, cut_words=False) or [indent]


def _labelled(label: str, text: str) -> list[str]:
    return fill(text, pad(label, 11), " " * 11) or [label]


def header(report: C2cReport, style: Style, what: str = "cache lines of") -> list[str]:
    """Which file, which machine, which source."""
    machine = report.machine
    parts = [
        machine.hostname,
        f"Linux {machine.kernel_release}" if machine.kernel_release else None,
        machine.architecture,
        counted(machine.cpus, "CPU") if machine.cpus else None,
    ]
    lines = _labelled("lockline", clean(f"{what} {report.path}", style))
    told = ", ".join(part for part in parts if part)
    if told:
        lines += _labelled("Host", clean(told, style))
    for source in report.sources:
        events = ", ".join(source.events)
        lines += _labelled("Source", clean(source.kind + (f": {events}" if events else ""), style))
    return lines


def name_of(report: LineReport, style: Style) -> str:
    """What a line is called: its type, its symbol, or where it lies."""
    line, placement = report.line, report.placement
    if placement.type:
        name = placement.type if not placement.base else f"{placement.type}+{placement.base:#x}"
        return clean(name if placement.sure else f"{name} (inferred)", style)
    if line.symbol:
        return clean(line.symbol + (f"+{line.symbol_offset:#x}" if line.symbol_offset else ""), style)
    if style.addresses or line.space == "user":
        return f"{line.address:#x}"
    return f"[{line.space}]"


def _amount(report: LineReport) -> str:
    counts = report.line.counts
    if report.line.watch is not None:
        return f"{counts.transfers:,} transfers between them in {duration(report.line.watch.watched_ns)} of watching"
    if report.line.shares:
        return "the text tells shares alone"
    if counts.hitm or not counts.peer:
        return f"{counts.hitm:,} HITM ({counts.local_hitm or 0:,} local, {counts.remote_hitm or 0:,} remote)"
    return f"{counts.peer:,} peer snoops ({counts.local_peer or 0:,} local, {counts.remote_peer or 0:,} remote)"


# What the verdicts say.
PLAIN = {
    "lock word": "Its cost is the lock itself: those who wait for it take its word from each other.",
    "false sharing": "Members that have nothing to do with each other share the line, and make each other wait.",
    "true sharing": "They use the same bytes, and what is paid for these stays in any layout.",
    "adjacent line": "It moves because the other half of its 128 bytes is written: the CPU fetches both together.",
    "read mostly": "It is read, hardly ever written; it is no problem.",
    "none": "It hardly moves between CPUs; it is no problem.",
    "too little evidence": "What was seen does not show why it is slow.",
}


# From so many records without a data source on it is said where no line was seen to move.
_UNREAD = 0.05


def _no_moves(totals: Mapping[str, int], hitm_told: bool, unread: float = 0.0) -> list[str]:
    """Why there is no line to show: nothing was measured, it is not told, or nothing moved.

    unread: of all records, those whose data source perf could not read.
    """
    record = "`perf c2c record -a -- sleep 10` samples loads and stores with their addresses"
    loads, stores = totals.get("load"), totals.get("store")
    if not loads and not stores:
        return wrapped(f"Nothing was measured: no memory access was sampled, or could be read; {record}.", "", "")
    if not hitm_told:
        return wrapped(f"This file does not show whether lines move between processors; {record}.", "", "")
    text = f"No cache line was seen to move between processors: no HITM and no peer snoop in {loads or 0:,} loads."
    if unread >= _UNREAD:
        text += (
            f" But perf could not read who served {percent(unread)} of the records, so that lines may move: a newer "
            "`perf c2c report` may read them from the same perf.data."
        )
    if totals.get("ld_fbhit") and stores:
        text += (
            f" There are {totals['ld_fbhit']:,} fill buffer hits and {stores:,} stores: on a machine with one socket "
            "these may be the only sign of a contended line. A whole report, or the perf.data file, shows which lines."
        )
    return wrapped(text, "", "")


def no_lines(report: C2cReport) -> list[str]:
    """Why a report has no line to show."""
    totals: dict[str, int] = {}
    for source in report.sources:
        for name, number in source.counts.items():
            totals[name] = totals.get(name, 0) + number
    hitm = totals.get("lcl_hitm", 0) + totals.get("rmt_hitm", 0)
    peer = totals.get("lcl_peer", 0) + totals.get("rmt_peer", 0)
    if not hitm and not peer:
        unread = report.coverage.unparsable or 0.0
        return _no_moves(totals, any(name in totals for name in ("lcl_hitm", "rmt_hitm", "lcl_peer")), unread)
    told = [f"{hitm:,} HITM" if hitm else f"{peer:,} peer snoops"]
    for name, word in (("load", "loads"), ("ld_fbhit", "fill buffer hits"), ("store", "stores")):
        if name in totals:
            told.append(f"{totals[name]:,} {word}")
    text = (
        f"Lines move between processors ({', '.join(told)} in all), but this file has totals alone. Which lines they "
    )
    return wrapped(text + "are, and which members, only the whole report or the perf.data file shows.", "", "")


def _answer(report: C2cReport, style: Style) -> list[str]:
    if not report.lines:
        return no_lines(report)
    first = report.lines[0]
    cpus = "an unknown number of CPUs use"
    if first.cpus:
        cpus = f"{'' if first.cpus_exact else 'at least '}{first.cpus} CPU{'s use' if first.cpus != 1 else ' uses'}"
    share = ""
    if report.transfers and first.line.counts.transfers:
        share = f", {percent(first.line.counts.transfers / report.transfers)} of all in this file"
    judgement = first.judgement
    text = (
        f"Line 1 is {name_of(first, style)}: {cpus} it, {_amount(first)}{share}. "
        f"Verdict: {judgement.verdict}, confidence {judgement.confidence}. {PLAIN[judgement.verdict]}"
    )
    named = [clean(part.name, style) for part in judgement.members]
    if judgement.verdict == "false sharing" and named:
        text += f" They are {', '.join(named)}."
    lines = wrapped(text, "", "")
    if first.advice is not None:
        lines += wrapped(clean(first.advice.text, style), "", "")
        if first.advice.warning:
            lines += wrapped(clean(first.advice.warning, style), "", "")
    return lines


def _lines(report: C2cReport, style: Style) -> list[str]:
    if not report.lines:
        return []
    watched = any(line.line.watch is not None for line in report.lines)
    indexed = any(line.line.index is not None for line in report.lines)
    columns = [
        Column("#", 3),
        *([Column("perf's", 6)] if indexed else []),
        Column("line", 27 if watched or indexed else 34, right=False),
        *([Column("moves", 6)] if watched else []),
        Column("HITM", 6),
        Column("local", 6),
        Column("remote", 6),
        Column("peer", 6),
        Column("loads", 6),
        Column("stores", 6),
        Column("CPUs", 5),
        Column("verdict", 20, right=False),
        Column("sure", 6, right=False),
    ]
    rows = []
    for number, line in enumerate(report.lines, 1):
        counts = line.line.counts
        sampled = [counts.hitm, counts.local_hitm or 0, counts.remote_hitm or 0, counts.peer]
        moves = ["-" if counts.watched is None else count(counts.watched)] if watched else []
        rows.append(
            [
                str(number),
                *(["-" if line.line.index is None else str(line.line.index)] if indexed else []),
                name_of(line, style),
                *moves,
                *("-" if line.line.watch is not None or line.line.shares else count(figure) for figure in sampled),
                "-" if counts.loads is None else count(counts.loads),
                "-" if counts.stores is None else count(counts.stores),
                "-" if line.cpus is None else f"{line.cpus}{'' if line.cpus_exact else '+'}",
                line.judgement.verdict,
                line.judgement.confidence,
            ]
        )
    told = "; perf's: the number in its text" if indexed else ""
    note = "HITM and peer snoops first; N+: at least N CPUs"
    if watched:
        note = "transfers first: HITM and peer snoops in samples, moves of watched lines; N+: at least N CPUs"
    lines = [f"Cache lines ({note}{told})", *table(columns, rows)]
    left = report.line_count - len(report.lines)
    if left > 0:
        move = " move between processors" if report.transfers else ""
        lines.append(f"  ({left:,} more lines{move}; --top shows them)")
    if report.other_lines:
        lines.append(f"  ({report.other_lines:,} more lines were sampled, and show no transfer)")
    return lines


def _map(number: int, report: LineReport, style: Style) -> list[str]:
    title = f"Line {number}: {name_of(report, style)}"
    if style.addresses and report.line.address:
        title += f" at {report.line.address:#x}"
    if report.line.comms:
        title += f", used by {', '.join(clean(comm, style) for comm in report.line.comms)}"
    lines = [cut(title, page().columns)]
    lines += _offsets(report, style)
    return lines + judged(report, style)


def judged(report: LineReport, style: Style) -> list[str]:
    """A line's verdict with what it rests on, its object, its locks, and the advice."""
    judgement = report.judgement
    lines = wrapped(f"Verdict: {judgement.verdict} (confidence {judgement.confidence})")
    for evidence in judgement.evidence:
        lines += wrapped(f"- {clean(evidence, style)}", "    ")
    for doubt in judgement.doubts:
        lines += wrapped(f"? {clean(doubt, style)}", "    ")
    for evidence in report.placement.evidence:
        lines += wrapped(f"Type: {clean(evidence, style)}")
    lines += lock_lines(report.locks, style)
    if report.advice is not None:
        lines += wrapped(f"Advice: {clean(report.advice.text, style)}")
        if report.advice.warning:
            lines += wrapped(f"But: {clean(report.advice.warning, style)}")
        lines += [f"    {clean(text.expandtabs(4), style)}" for text in report.advice.layout]
    return lines


def _offsets(report: LineReport, style: Style) -> list[str]:
    if not report.offsets:
        return []
    watched = report.line.watch is not None
    columns = [
        Column("offset", 6),
        Column("member", 24, right=False),
        *([Column("moves", 6)] if watched else [Column("HITM", 6), Column("peer", 6)]),
        Column("loads", 6),
        Column("stores", 6),
        Column("CPUs", 4),
        Column("by", 50, right=False),
    ]

    def figures(counts: Counts) -> list[int]:
        return [counts.transfers] if watched else [counts.hitm, counts.peer]

    ranked = sorted(report.offsets, key=lambda o: (-o.counts.transfers, -(o.counts.records or 0)))
    shown = sorted(ranked[:OFFSETS], key=lambda o: o.offset)
    rows = [
        [
            f"{offset.offset:#x}",
            clean(offset.member, style) or "-",
            *(["-", "-"] if report.line.shares else [count(figure) for figure in figures(offset.counts)]),
            "-" if offset.counts.loads is None else count(offset.counts.loads),
            "-" if offset.counts.stores is None else count(offset.counts.stores),
            "-" if offset.cpus is None else str(offset.cpus),
            _functions(offset, style),
        ]
        for offset in shown
    ]
    lines = table(columns, rows)
    if len(ranked) > len(shown):
        lines.append(f"  ({len(ranked) - len(shown)} more offsets)")
    return lines


def _function(access: Access, style: Style) -> str:
    code = access.code
    if code.symbol:
        return clean(code.symbol, style)
    if code.space == "user" and code.address:
        return f"{code.address:#x}"
    return "?"


def _functions(offset: OffsetReport, style: Style) -> str:
    names = list(dict.fromkeys(_function(access, style) for access in offset.accesses))
    text = ", ".join(cut(name, 34) for name in names[:FUNCTIONS])
    return text + (f", +{len(names) - FUNCTIONS}" if len(names) > FUNCTIONS else "")


def lock_lines(locks: Sequence[LockOnLine], style: Style) -> list[str]:
    """The locks on a line."""
    lines = []
    for lock in locks[:LOCKS]:
        where = "" if lock.offset is None else f" at {'-' if lock.offset < 0 else ''}{abs(lock.offset):#x}"
        instance = f" [{clean(lock.instance, style)}]" if lock.instance else ""
        waits = ", no waits recorded"
        if lock.waits is not None:
            waits = f", {lock.waits:,} waits, {duration(lock.wait_ns)} in sum"
        if lock.waits is not None and lock.join != "address":
            waits += ", of all locks of this name"
        name = clean(lock.name, style) or "a spinlock without a name"
        lines += wrapped(f"Lock: {name}{instance}{where}{waits} (joined by {lock.join})")
    if len(locks) > LOCKS:
        lines.append(f"  ({len(locks) - LOCKS} more locks)")
    return lines


def _footer(report: C2cReport, style: Style) -> list[str]:
    lines = []
    coverage = report.coverage
    if coverage.records is not None:
        lines.append(f"  {coverage.records:,} records")
    for missing in coverage.missing:
        lines += wrapped(f"missing: {clean(missing, style)}")
    for note in report.notes:
        lines += wrapped(f"note: {clean(note, style)}")
    for place, problem in report.problems[:PROBLEMS]:
        lines += wrapped(f"not read, at {place:,}: {clean(problem, style)}")
    if len(report.problems) > PROBLEMS:
        lines.append(f"  ({len(report.problems) - PROBLEMS:,} more that were not read)")
    return ["What the figures rest on", *lines] if lines else []
