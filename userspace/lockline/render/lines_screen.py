# SPDX-License-Identifier: GPL-2.0-or-later
"""The first screen of `lockline watch` and `lockline c2c report`: is a line worth acting on, and who uses it."""

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lockline.base.numbers import count, counted, duration, percent
from lockline.base.text import Column, Style, clean, cut, table
from lockline.c2c.model import C2cReport, Judgement, LineReport
from lockline.c2c.report import cpu_list
from lockline.c2c.verdict_case import SURE_TRANSFERS
from lockline.c2c.worth import (
    HARMLESS,
    LEAST_NS,
    MOST_NS,
    UNKNOWN,
    WORTH_CPU,
    WORTH_PART,
    Worth,
    worth_of_line,
    worth_of_report,
)
from lockline.render.c2c_text import PLAIN, name_of, no_lines
from lockline.render.screen_fit import NARROWEST, filled, fitted

if TYPE_CHECKING:
    from lockline.c2c.live import LiveLine, LiveReport

# Rows of lines and of members, lines of advice, of the details: fewer by each step until the screen fits.
_STEPS = ((4, 6, 3, 2), (3, 5, 3, 2), (3, 4, 2, 1), (2, 3, 2, 1), (1, 2, 1, 1))
_MEMBER = 16


def _header(report: C2cReport, what: str, style: Style, columns: int) -> list[str]:
    machine = report.machine
    parts = [
        machine.hostname,
        f"Linux {machine.kernel_release}" if machine.kernel_release else None,
        counted(machine.cpus, "CPU") if machine.cpus else None,
        f"{what} {report.path}",
    ]
    return [cut(clean(", ".join(part for part in parts if part), style), columns)]


def moves_words(worth: Worth) -> str:
    """How often a watched line moves, and what that costs at most."""
    assert worth.moves is not None
    assert worth.cpu is not None
    least = "at least " if worth.at_least else ""
    how = f"{duration(worth.move_ns)} a move" + (
        "" if worth.measured else f", not measured: {LEAST_NS:g} to {MOST_NS:g}"
    )
    cost = f"{percent(worth.cpu)} of one CPU" + (" or more" if worth.at_least else " at most")
    return f"it moves {least}{count(round(worth.moves))} times a second, which costs {cost} ({how})"


def _samples_words(line: LineReport, worth: Worth) -> str:
    transfers = line.line.counts.transfers
    counts = line.line.counts
    if all(told is None for told in (counts.local_hitm, counts.remote_hitm, counts.local_peer, counts.remote_peer)):
        return "how often it moves is not told"
    what = "HITM" if line.line.counts.hitm or not line.line.counts.peer else "peer snoops"
    missed = line.line.counts.store_l1_miss or 0
    # With these it has as many as a line that is worth acting on.
    needed = transfers < SURE_TRANSFERS <= transfers + missed
    stores = f", and {missed:,} stores that missed the L1 cache" if needed else ""
    return f"it has {transfers:,} {what}, {percent(worth.part)} of all in this file{stores}"


def _threshold(worth: Worth) -> str:
    if worth.cpu is not None:
        return f"Worth acting on from {WORTH_CPU:.0%} of one CPU."
    return (
        f"Worth acting on from {WORTH_PART:.0%} of all and {SURE_TRANSFERS} transfers; samples do not say what they "
        "cost."
    )


def _unknown(judgement: Judgement) -> tuple[str, str]:
    """Why a line cannot be judged, and what would tell; both may be ""."""
    why, _, todo = (judgement.evidence[-1] if judgement.evidence else "").partition("; ")
    return why.removeprefix("not decided: "), todo if "`" in todo else ""


def untold(line: LineReport, worth: Worth) -> bool:
    """Whether the line is a problem, and shares alone are known of it: not how large a problem."""
    return not worth.told and worth.known and line.judgement.verdict not in HARMLESS


def answer_words(line: LineReport, worth: Worth, style: Style) -> str:
    """Whether to act, why, and what the line suffers from."""
    judgement = line.judgement
    name = name_of(line, style)
    if not worth.known:
        head = f"Too little was seen to judge {name}"
    elif judgement.verdict in (UNKNOWN, "none"):
        head = f"Not worth acting on: {name} hardly moves between CPUs"
    elif worth.acting:
        perhaps = "Perhaps worth" if judgement.confidence == "low" else "Worth"
        head = f"{perhaps} acting on: {judgement.verdict} in {name}, confidence {judgement.confidence}"
    elif untold(line, worth):
        head = f"{judgement.verdict.capitalize()} in {name}, confidence {judgement.confidence}"
        head += ". Whether it is worth acting on is open"
    else:
        head = f"Not worth acting on: {judgement.verdict} in {name}, confidence {judgement.confidence}"
    how = moves_words(worth) if worth.moves is not None else _samples_words(line, worth)
    named = [clean(part.name, style) for part in judgement.members]
    plain = f" {PLAIN[judgement.verdict]}" if judgement.verdict != "none" else ""
    if judgement.verdict == UNKNOWN:
        why = clean(_unknown(judgement)[0], style)
        plain = "" if worth.known else f" Why: {why}." if why else plain
    members = f" They are {', '.join(named)}." if judgement.verdict == "false sharing" and named else ""
    beside = [clean(part.name, style) for part in judgement.members if not part.is_lock]
    if judgement.verdict == "lock word" and beside:
        members = f" {', '.join(beside)} beside it: false sharing with the lock, a small part of the cost."
    return f"{head}: {how}. {_threshold(worth)}{plain}{members}"


def todo_words(line: LineReport, worth: Worth, style: Style) -> str:
    """What to do; "" where nobody knows yet."""
    if not worth.known:
        return clean(_unknown(line.judgement)[1] or "watch or sample for longer, while the load runs", style)
    advice = clean(line.advice.text, style) if line.advice is not None else ""
    if untold(line, worth):
        return f"See how much it is: the table of `perf c2c report --stdio` has the totals. If it is much: {advice}"
    return advice if worth.acting else "leave it as it is"


def _todo(line: LineReport, worth: Worth, command: str, style: Style, columns: int, most: int) -> list[str]:
    lines = filled("DO      ", todo_words(line, worth, style) or f"see who uses it: {command}", columns, most)
    warning = line.advice.warning if worth.known and worth.acting and line.advice is not None else ""
    return lines + (filled("        But: ", clean(warning, style), columns, 2) if warning else [])


def _settled(line: LineReport, worth: Worth, style: Style, columns: int, most: int) -> list[str]:
    """The doubt that a command would settle, with that command."""
    doubts = [doubt for doubt in line.judgement.doubts if "`" in doubt]
    if not (worth.known and doubts):
        return []
    return filled("DOUBT   ", clean(doubts[0], style), columns, most)


def _lines_table(
    lines: Sequence[tuple[LineReport, Worth]], total: int, style: Style, columns: int, most: int
) -> list[str]:
    watched = any(worth.moves is not None for _, worth in lines)
    heads = [
        *([Column("moves/s", 7), Column("CPU", 7)] if watched else []),
        *([Column("HITM", 6), Column("peer", 6)] if not watched else []),
        Column("CPUs", 5),
        Column("verdict", 19, right=False),
        Column("sure", 6, right=False),
    ]
    while heads and sum(head.width + 1 for head in heads) + 20 > columns:
        heads.pop()
    name = columns - sum(head.width + 1 for head in heads)
    titles = [head.title for head in heads]
    rows = []
    for number, (line, worth) in enumerate(lines[:most], 1):
        cells = {
            "moves/s": "-" if worth.moves is None else (">" if worth.at_least else "") + count(round(worth.moves)),
            "CPU": percent(worth.cpu),
            "HITM": count(line.line.counts.hitm) if worth.told else "-",
            "peer": count(line.line.counts.peer) if worth.told else "-",
            "CPUs": "-" if line.cpus is None else f"{line.cpus}{'' if line.cpus_exact else '+'}",
            "verdict": line.judgement.verdict,
            "sure": line.judgement.confidence,
        }
        rows.append([f" {number} {name_of(line, style)}", *(cells[title] for title in titles)])
    left = total - min(most, len(lines))
    if left > 0:
        rows.append([f" {left:,} more", *("" for _ in heads)])
    return [line.rstrip() for line in table([Column("LINES", name, right=False), *heads], rows, "", grow=False)]


def _functions(names: Sequence[str], columns: int, style: Style) -> str:
    told = list(dict.fromkeys(clean(name, style) or "?" for name in names))
    shown = 1
    while shown < len(told) and len(", ".join(told[: shown + 1])) + 5 <= columns:
        shown += 1
    rest = f", +{len(told) - shown}" if len(told) > shown else ""
    return cut(", ".join(told[:shown]), max(8, columns - len(rest))) + rest


def _rows_of_live(line: "LiveLine", most: int) -> list[tuple[str, list[str], list[str], int]]:
    ranked = sorted(line.offsets, key=lambda one: (-one.transfers - one.hitm - one.peer, -(one.reads or 0)))
    shown = sorted(ranked[:most], key=lambda one: one.offset)
    return [
        (
            one.member or (f"+{one.offset:#x}" if one.offset >= 0 else "?"),
            ["-" if n is None else count(n) for n in (one.reads, one.writes)]
            + [count(one.transfers or one.hitm + one.peer)],
            [step.access.code.function for step in one.instructions],
            one.cpus,
        )
        for one in shown
    ]


def _rows_of_report(line: LineReport, most: int) -> list[tuple[str, list[str], list[str], int]]:
    ranked = sorted(line.offsets, key=lambda one: (-one.counts.transfers, -(one.counts.records or 0)))
    shown = sorted(ranked[:most], key=lambda one: one.offset)
    return [
        (
            one.member or f"+{one.offset:#x}",
            ["-" if n is None else count(n) for n in (one.counts.loads, one.counts.stores)]
            + ["-" if line.line.shares else count(one.counts.transfers)],
            [access.code.symbol for access in one.accesses],
            0,
        )
        for one in shown
    ]


def _members(rows: Sequence[tuple[str, list[str], list[str], int]], style: Style, columns: int) -> list[str]:
    if not rows:
        return []
    cpus = any(bits for _, _, _, bits in rows)
    member = min(28, max(_MEMBER, columns // 4))
    heads = [
        Column("MEMBERS of line 1", member, right=False),
        Column("reads", 6),
        Column("writes", 6),
        Column("moves", 6),
    ]
    heads += [Column("CPUs", 7, right=False)] if cpus else []
    by = max(8, columns - sum(head.width + 1 for head in heads))
    heads.append(Column("by", by, right=False))
    cells = [
        [f" {clean(name, style)}", *figures, *([cpu_list(bits) or "-"] if cpus else []), _functions(names, by, style)]
        for name, figures, names, bits in rows
    ]
    return [cut(line.rstrip(), columns) for line in table(heads, cells, "", grow=False)]


def _trust(text: str, columns: int, most: int) -> list[str]:
    return filled("TRUST   ", text, columns, most)


def _more(command: str, flags: str, columns: int, kept: bool) -> list[str]:
    return filled("MORE    ", f"{command} {flags}" if kept else flags, columns, 2)


def watched_lines(report: "LiveReport") -> list[tuple["LiveLine", Worth]]:
    """The lines that are worth acting on first, then by what they cost."""
    everywhere = report.c2c.transfers
    return sorted(
        ((line, worth_of_line(line, report.pairs, everywhere)) for line in report.lines),
        key=lambda pair: (not pair[1].acting, -(pair[1].cpu or 0.0)),
    )


def render_watch(report: "LiveReport", style: Style, columns: int, kept: bool = True) -> str:
    """Of watched lines; columns: of the terminal.  kept: the recording is there to ask it for more."""
    columns = max(NARROWEST, columns)
    header = _header(report.c2c, "watch of", style, columns)
    if not report.lines:
        return fitted(lambda _: (header, ["ANSWER  No cache line was watched, or sampled, in this recording."]), 1)
    lines = watched_lines(report)
    first, worth = lines[0]
    command = f"lockline watch -i {shlex.quote(report.c2c.path)}" if kept else "lockline watch"
    trust = []
    watch = first.watch
    if watch is not None:
        share = percent(watch.watched_ns / watch.span_ns) if watch.span_ns else "-"
        trust.append(f"watched {share} of the time, in {len(watch.windows):,} windows, with {watch.hits:,} accesses")
        if watch.lost:
            trust.append(f"{watch.lost:,} accesses have no record")
        if watch.ended:
            trust.append(f"ended early: {clean(watch.ended, style)}")
    trust += [f"doubt: {clean(doubt, style)}" for doubt in first.report.judgement.doubts]

    def make(step: int) -> Sequence[Sequence[str]]:
        most_lines, members, advice, details = _STEPS[step]
        return (
            header,
            filled("ANSWER  ", answer_words(first.report, worth, style), columns, 6)
            + _todo(first.report, worth, f"{command} --map", style, columns, advice),
            _lines_table([(line.report, each) for line, each in lines], len(lines), style, columns, most_lines),
            _members(_rows_of_live(first, members), style, columns),
            (_trust("; ".join(trust), columns, details) if trust else [])
            + _more(
                command,
                "--map --trust --all" if kept else "keep it with -o FILE, then lockline watch -i FILE --all",
                columns,
                kept,
            ),
        )

    return fitted(make, len(_STEPS))


def render_c2c(report: C2cReport, style: Style, columns: int) -> str:
    """Of c2c data; columns: of the terminal."""
    columns = max(NARROWEST, columns)
    header = _header(report, "cache lines of", style, columns)
    command = f"lockline c2c report {shlex.quote(report.path)}"
    more = _more(command, "--lines --maps --trust --all", columns, True)
    if not report.lines:
        text = " ".join(no_lines(report))
        return fitted(lambda _: (header, filled("ANSWER  ", text, columns), more), 1)
    lines = [(line, worth_of_report(line, report)) for line in report.lines]
    first, worth = lines[0]
    trust = []
    if report.coverage.records is not None:
        trust.append(f"{report.coverage.records:,} records")
    trust += [f"missing: {clean(missing, style)}" for missing in report.coverage.missing]
    if report.problems:
        count = len(report.problems)
        trust.append(f"{count:,} place{'s were' if count > 1 else ' was'} not read")
    settled = bool(_settled(first, worth, style, columns, 1))
    doubts = [doubt for doubt in first.judgement.doubts if not (settled and "`" in doubt)]
    trust += [f"doubt: {clean(doubt, style)}" for doubt in doubts]

    def make(step: int) -> Sequence[Sequence[str]]:
        most_lines, members, advice, details = _STEPS[step]
        return (
            header,
            filled("ANSWER  ", answer_words(first, worth, style), columns, 6)
            + _todo(first, worth, f"{command} --maps", style, columns, advice)
            + _settled(first, worth, style, columns, advice + 1),
            _lines_table(lines, max(report.line_count, len(lines)), style, columns, most_lines),
            _members(_rows_of_report(first, members), style, columns),
            (_trust("; ".join(trust), columns, details) if trust else []) + more,
        )

    return fitted(make, len(_STEPS))
