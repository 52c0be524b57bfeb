# SPDX-License-Identifier: GPL-2.0-or-later
"""Watched and sampled lines as text: the answer first, then each line's map, who takes it from whom, and the cost."""

from collections.abc import Sequence

from lockline.base.numbers import count, duration, percent, short_count
from lockline.base.text import Column, Style, clean, cut, fill, page, paragraphs, table
from lockline.c2c.join import spins_per_second
from lockline.c2c.live import Handover, LiveLine, LiveOffset, LiveReport, Matrix, WaitOnLine
from lockline.c2c.report import cpu_list
from lockline.c2c.verdict_case import QUIET_PER_SECOND
from lockline.render.c2c_text import PLAIN, header, judged, name_of, wrapped
from lockline.watch.model import Rate, Told, Watch

OFFSETS = 16
HANDOVERS = 6
WAITS = 4
MATRIX_CPUS = 12
PAIRS = 8
REPORT_LINES = 3
DIFFERING = 3


def render(report: LiveReport, style: Style) -> str:
    """The whole report, ending in a line end."""
    parts = [header(report.c2c, style, "watch of"), _answer(report, style)]
    parts += [_line(number, line, style) for number, line in enumerate(report.lines, 1)]
    parts.append(_footer(report, style))
    return paragraphs(parts)


# Parts of the report that an option shows.
SECTIONS = {
    "map": "who uses each line: members, functions, CPUs, verdict, advice",
    "trust": "what the figures rest on",
}


def render_sections(report: LiveReport, style: Style, names: Sequence[str]) -> str:
    """These sections alone."""
    parts = []
    if "map" in names:
        parts += [_line(number, line, style) for number, line in enumerate(report.lines, 1)]
    if "trust" in names:
        parts.append(_footer(report, style) or ["Nothing is known to be missing."])
    return paragraphs(parts)


def section(report: LiveReport, style: Style, top: int | None) -> list[str]:
    """The lines as a part of a report; empty without any."""
    if not report.lines:
        return []
    shown = report.lines[: REPORT_LINES if top is None else top]
    lines = ["Cache lines (who takes them from whom; `lockline watch -i` and `lockline c2c report` show them alone)"]
    for number, line in enumerate(shown, 1):
        lines += [*([""] if number > 1 else []), *_line(number, line, style)]
    if len(report.lines) > len(shown):
        lines.append(f"  ({len(report.lines) - len(shown)} more lines)")
    return lines


def rate(value: Rate | None) -> str:
    """A rate as "45.1k +-2.3%" a second; with ">" in front of what is a lower bound."""
    if value is None:
        return "-"
    text = ">" if value.at_least else ""
    text += f"{value.per_second:.2g}" if 0 < value.per_second < 9.95 else short_count(round(value.per_second))
    if not value.per_second or value.error == 0:
        return text
    if value.error is None:
        return f"{text} +-?"
    relative = value.error / value.per_second * 100
    return f"{text} +-{relative:.2g}%" if relative < 99.5 else f"{text} +-{relative:.0f}%"


def _answer(report: LiveReport, style: Style) -> list[str]:
    if not report.lines:
        return ["No cache line was watched, or sampled, in this recording."]
    first = report.lines[0]
    judgement = first.report.judgement
    cpus = first.report.cpus
    text = f"Line 1 is {name_of(first.report, style)}"
    text += f": {cpus} CPU{'s use' if cpus != 1 else ' uses'} it" if cpus else ""
    spins = spins_per_second(first.report.locks)
    if first.transfers is not None and spins > max(first.transfers.per_second, QUIET_PER_SECOND):
        text += f", it moves between CPUs >{short_count(round(spins))} times a second, as those spin for its lock"
    elif first.transfers is not None:
        text += f", it moves between CPUs {rate(first.transfers)} times a second"
    text += f". Verdict: {judgement.verdict}, confidence {judgement.confidence}. {PLAIN[judgement.verdict]}"
    named = [clean(part.name, style) for part in judgement.members]
    if judgement.verdict == "false sharing" and named:
        text += f" They are {', '.join(named)}."
    lines = wrapped(text, "", "")
    if first.report.advice is not None:
        lines += wrapped(clean(first.report.advice.text, style), "", "")
    return lines


def _line(number: int, live: LiveLine, style: Style) -> list[str]:
    report = live.report
    title = f"Line {number}: {name_of(report, style)}"
    if style.addresses and report.line.address:
        title += f" at {report.line.address:#x}"
    if report.line.comms:
        title += f", used by {', '.join(clean(comm, style) for comm in report.line.comms)}"
    lines = [cut(title, page().columns)]
    lines += _source(live, style)
    lines += _map(live, style)
    lines += _matrix(live.matrix) if live.matrix else []
    lines += _handovers(live.handovers, style)
    lines += _waits(live.waits, live.watch is not None, style)
    return lines + judged(report, style)


def _source(live: LiveLine, style: Style) -> list[str]:
    watch = live.watch
    if watch is None:
        counts = live.report.line.counts
        told = f"Source: {live.source}" + (f", {live.event}" if live.event else "")
        told += f": {counts.records or 0:,} samples, {counts.hitm:,} HITM, {counts.peer:,} peer snoops"
        return wrapped(clean(told, style))
    told = f"Source: watchpoint on {watch.target}"
    if live.lock is not None and live.lock.name != watch.target.removeprefix("lock:"):
        told += f", the lock {live.lock.name}" + (f" [{live.lock.instance}]" if live.lock.instance else "")
    if watch.access_from:
        told += f"; reads and writes told apart by {watch.access_from}"
    lines = wrapped(clean(told, style))
    if watch.told is not None:
        lines += [line for text in _told(watch.told, style) for line in wrapped(text)]
    lines += wrapped(_seen(live, watch))
    lines += wrapped(_cost(live, watch))
    if watch.ended:
        lines += wrapped(f"Ended early: {clean(watch.ended, style)}")
    return lines


def _told(told: Told, style: Style) -> list[str]:
    """What the figures of reads and writes lack, and where the two ways to tell them differ."""
    lines = []
    if told.watchpoint or told.remembered:
        text = f"Told apart: {told.instruction:,} accesses by their instruction, {told.watchpoint:,} by watchpoints"
        lines.append(text + f", {told.remembered:,} by those of the same instruction; {told.untold:,} not told")
    elif told.untold:
        lines.append(f"Told apart: all but {told.untold:,} accesses, which are neither reads nor writes here")
    if told.disagreed:
        names = {clean(part.code.function, style) or "?": None for part in told.differing}
        shown = ", ".join(list(names)[:DIFFERING])
        text = f"Of {told.compared:,} that both told {told.disagreed:,} differ and count as the watchpoints told them"
        lines.append(text + (f": {shown}" if shown else ""))
    return lines


def _seen(live: LiveLine, watch: Watch) -> str:
    shares = [offset.coverage for offset in live.offsets if offset.coverage is not None]
    text = f"Seen: {watch.hits:,} accesses"
    if live.transfers is not None:
        text += f" and {live.transfers.seen:,} transfers between CPUs"
    text += f" in {len(watch.windows):,} windows, {duration(watch.watched_ns)} of {duration(watch.span_ns)}"
    if shares:
        low, high = percent(min(shares)), percent(max(shares))
        text += f" (each byte {low if low == high else f'{low} to {high}'} of the time)"
    text += f"; a second has {rate(live.hits)} accesses, {rate(live.transfers)} transfers"
    if watch.lost:
        text += f"; {watch.lost:,} without a record"
    cut_short = sum(1 for window in watch.windows if window.cut)
    if cut_short:
        text += f"; {cut_short:,} windows ended at their limit of hits"
    return text


def _cost(live: LiveLine, watch: Watch) -> str:
    cost = live.cost
    allowed = f"{percent(watch.budget)} of any CPU's time allowed" if watch.budget else "no limit set"
    if cost is None or cost.cpu_ns is None:
        return f"Cost: not measured, {allowed}"
    text = f"Cost: {duration(watch.hit_ns)} a hit, {duration(cost.cpu_ns)} in all"
    if cost.cpu_share is not None:
        text += f", {percent(cost.cpu_share)} of all CPUs' time ({percent(cost.in_windows)} in the windows)"
    return f"{text}; {allowed}"


def _map(live: LiveLine, style: Style) -> list[str]:
    if not live.offsets:
        return []
    watched = live.watch is not None
    # User space runs with interrupts on.
    known = live.interrupts.off > 0
    by = 38 if known else 46
    columns = [
        Column("offset", 6),
        Column("member", 20, right=False),
        Column("reads", 6),
        Column("writes", 6),
        *([Column("moves", 6), Column("moves/s", 13)] if watched else [Column("HITM", 6), Column("peer", 6)]),
        *([Column("irq off", 7)] if known else []),
        Column("CPUs", 6, right=False),
        Column("by", by, right=False),
    ]
    ranked = sorted(live.offsets, key=lambda o: (-o.transfers, -(o.reads or 0) - (o.writes or 0)))
    shown = sorted(ranked[:OFFSETS], key=lambda o: o.offset)
    rows = [
        [
            f"{offset.offset:#x}" if offset.offset >= 0 else "?",
            clean(offset.member, style) or "-",
            "-" if offset.reads is None else count(offset.reads),
            "-" if offset.writes is None else count(offset.writes),
            *(
                [count(offset.transfers), rate(offset.transfer_rate)]
                if watched
                else [count(offset.hitm), count(offset.peer)]
            ),
            *([percent(offset.interrupts.share)] if known else []),
            _cpus(offset.cpus),
            _functions(offset, by, style),
        ]
        for offset in shown
    ]
    lines = table(columns, rows)
    if len(ranked) > len(shown):
        lines.append(f"  ({len(ranked) - len(shown)} more offsets)")
    if watched:
        lines.append("  (moves: a CPU touched it after another one had written to the line, exact in the windows)")
    return lines


def _cpus(bits: int) -> str:
    return cpu_list(bits) or "-"


_DOES = {
    "waiter": "waits",
    "unlock": "unlocks",
    "holder": "holds",
    "lockless reader": "no lock",
    "atomic": "atomic",
    "reader": "",
    "writer": "",
}


def _functions(offset: LiveOffset, columns: int, style: Style) -> str:
    names: dict[str, str] = {}
    for instruction in offset.instructions:
        code = instruction.access.code
        name = clean(code.function, style) or (f"{code.address:#x}" if code.space == "user" and code.address else "?")
        names.setdefault(name, _DOES.get(instruction.role or "", ""))
    told = [f"{cut(name, 26)} ({does})" if does else cut(name, 26) for name, does in names.items()]
    shown = 1
    while shown < len(told) and len(", ".join(told[: shown + 1])) + 4 <= columns:
        shown += 1
    return ", ".join(told[:shown]) + (f", +{len(told) - shown}" if len(told) > shown else "")


def _matrix(matrix: Matrix) -> list[str]:
    if not any(map(any, matrix.counts)):
        return []
    # In the order of their numbers, those with most transfers.
    weights = [sum(row) + sum(other[i] for other in matrix.counts) for i, row in enumerate(matrix.counts)]
    chosen = sorted(sorted(range(len(weights)), key=lambda i: (-weights[i], i))[:MATRIX_CPUS])
    columns = [Column("from \\ to CPU", 13), *(Column(str(matrix.cpus[i]), 6) for i in chosen)]
    rows = [[str(matrix.cpus[i]), *(count(matrix.counts[i][j]) if i != j else "" for j in chosen)] for i in chosen]
    lines = table(columns, rows)
    if len(matrix.cpus) > len(chosen):
        lines.append(f"  ({len(matrix.cpus) - len(chosen)} more CPUs)")
    return lines


def _end(function: str, offset: int, member: str, style: Style) -> str:
    place = clean(member, style) or (f"+{offset:#x}" if offset >= 0 else "the line")
    return f"{cut(clean(function, style) or '?', 34)} {{}} {place}"


def _handovers(handovers: Sequence[Handover], style: Style) -> list[str]:
    if not handovers:
        return []
    total = sum(handover.transfers for handover in handovers)
    lines = ["  Who takes it from whom:"]
    for handover in handovers[:HANDOVERS]:
        after = _end(handover.function, handover.offset, handover.member, style)
        before = _end(handover.from_function, handover.from_offset, handover.from_member, style).format("wrote")
        text = f"{after.format('writes' if handover.write else 'reads')} after {before}"
        lines.append(cut(f"    {percent(handover.transfers / total if total else None):>7}  {text}", page().columns))
    rest = len(handovers) - HANDOVERS
    if rest > 0:
        lines.append(f"    ({rest} more)")
    return lines


def _waits(waits: Sequence[WaitOnLine], watched: bool, style: Style) -> list[str]:
    lines = []
    for wait in waits[:WAITS]:
        instance = f" [{clean(wait.instance, style)}]" if wait.instance else ""
        seen = f"{wait.records:,} accesses, {wait.transfers:,} of them transfers, were made"
        if not watched:
            seen = f"{wait.records:,} samples, {wait.transfers:,} of them HITM or peer snoops, were taken"
        lines += wrapped(
            f"Waits: {seen} while waiting for {clean(wait.lock, style) or '?'}{instance} ({clean(wait.kind, style)})"
        )
    if len(waits) > WAITS:
        lines.append(f"  ({len(waits) - WAITS} more locks were waited for)")
    return lines


def _footer(report: LiveReport, style: Style) -> list[str]:
    lines = []
    for note in report.c2c.notes:
        lines += wrapped(f"note: {clean(note, style)}")
    for pair in report.pairs[:PAIRS]:
        lines.append(
            f"  a line takes {duration(pair.transfer_ns)} from CPU {pair.first} to CPU {pair.second} "
            f"({duration(pair.least_transfer_ns)} at least)"
        )
    if len(report.pairs) > PAIRS:
        lines.append(f"  ({len(report.pairs) - PAIRS} more pairs of CPUs)")
    if any(line.watch is not None for line in report.lines):
        lines += fill(
            "rates: hits over watched time, each window standing for the time around it, +- one standard error of that "
            "ratio over the windows; >: at least, where not all of the line was watched at once",
            "  ",
            "    ",
        )
    return ["What the figures rest on", *lines] if lines else []
