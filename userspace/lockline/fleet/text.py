# SPDX-License-Identifier: GPL-2.0-or-later
"""A fleet's report as text: the answer first, on one screen."""

from collections.abc import Sequence

from lockline.base.numbers import counted, percent
from lockline.base.text import Column, Style, clean, table
from lockline.fleet.choose import moment
from lockline.fleet.compare import Effect
from lockline.fleet.model import FleetDiff, FleetReport, GroupEffect, LockShare, ProgramLock, SideOf, Silent, is_worse
from lockline.render.screen_fit import filled, fitted

COLUMNS = 80
# Locks on the first screen, fewer where other parts need the lines.
_LOCKS = 9
_FEWEST = 3
_PROGRAM_LOCKS = 5
_DIFF_LOCKS = 11
_NAMED = 3


def change_words(effect: Effect | None, new: bool = False) -> str:
    """What a lock's waiting did, in a word or a number; '' where there is nothing to compare with."""
    if effect is None:
        return "new" if new else ""
    if effect.judgement is None or effect.judgement.verdict not in ("regressed", "improved"):
        return "same" if effect.unjudged == "within the threshold" else "?"
    return "new" if effect.ratio is None else _ratio_words(effect.ratio)


def _ratio_words(ratio: float) -> str:
    return f"{(ratio - 1) * 100:+.0f} %" if ratio < 3 else f"x {ratio:.1f}"


def program_lock_name(lock: ProgramLock) -> str:
    """What a lock of a program is called beside its program."""
    return f"{lock.name} in {lock.code}" if lock.code else lock.name


def _program_answer(report: FleetReport, style: Style) -> str:
    """A sentence where a lock of a program costs more of its hosts' time than any lock of the kernel of all hosts'."""
    programs = report.programs
    if programs is None or not programs.locks:
        return ""
    first = programs.locks[0]
    if report.locks and report.locks[0].share >= first.share:
        return ""
    return (
        f"{clean(program_lock_name(first), style)}, of the program {clean(first.program, style)}, costs most: "
        f"{percent(first.share)} of the time of {counted(programs.hosts, 'host')} recorded with --futex, "
        f"on {first.hosts:,} of them. "
    )


def _answer(report: FleetReport, style: Style) -> list[str]:
    where = f" in container {clean(report.container, style)}" if report.container else ""
    if not report.locks:
        text = _program_answer(report, style) or f"No host waited for a lock{where}."
        return filled("", text, COLUMNS, 3)
    worst = report.locks[0]
    named = f"{clean(worst.name, style)} ({clean(worst.kind, style)})"
    program = _program_answer(report, style)
    costs = f"Of the kernel's locks {named} costs most" if program else f"{named} costs the fleet most{where}"
    text = (
        f"{program}{costs}: {percent(worst.share)} of all host time, {percent(worst.of_waiting)} of all lock waiting, "
        f"on {worst.hosts:,} of {counted(report.period.hosts, 'host')}."
    )
    return filled("", text, COLUMNS, 4)


def _worse_words(lock: LockShare, style: Style) -> str:
    return f"{clean(lock.name, style)} {change_words(lock.change, lock.new)}"


def _listed(parts: Sequence[str], most: int = _NAMED) -> str:
    more = len(parts) - most
    return ", ".join(parts[:most]) + (f" and {more} more" if more > 0 else "")


def _changes(report: FleetReport, style: Style) -> list[str]:
    if report.before is None:
        return filled("Change:   ", "no recordings of the period before to compare with.", COLUMNS)
    worse = [_worse_words(lock, style) for lock in report.worse]
    text = (
        f"more waiting than in the {(report.period.end_hour - report.period.first_hour) / 24:.3g} days before: "
        f"{_listed(worse)}."
        if worse
        else "no lock is worse than in the period before."
    )
    return filled("Change:   ", text, COLUMNS, 2)


def _effect_words(one: GroupEffect, style: Style) -> str:
    what = {"kernel": "kernel", "cpu_model": "CPU"}.get(one.by, one.by)
    ratio = one.effect.ratio
    amount = "alone" if ratio is None else f"{ratio:.1f} times"
    hosts = counted(one.effect.hosts[1], "host")
    return f"{clean(one.name, style)} {amount} on {what} {clean(one.value, style)} ({hosts})"


def _machines(report: FleetReport, style: Style) -> list[str]:
    # The largest of each kind of group comes first.
    first = list({one.by: one for one in reversed(report.different)}.values())[::-1]
    found = [_effect_words(one, style) for one in (*first, *(one for one in report.different if one not in first))]
    groups = " or ".join(dict.fromkeys(group.by for group in report.groups)) or "group"
    text = (
        f"more waiting than on the others: {_listed(found, 2)}." if found else f"no {groups} differs from the others."
    )
    return filled("Machines: ", text.replace("cpu_model", "CPU model"), COLUMNS, 3)


def _findings(report: FleetReport) -> list[str]:
    found = [f"{one.rule} on {counted(one.hosts, 'host')}" for one in report.findings]
    return filled("Findings: ", f"{_listed(found)}." if found else "none.", COLUMNS, 2)


def _names(silent: Sequence[Silent], style: Style) -> str:
    return _listed([clean(one.host, style) for one in silent])


def _hours(observed_ns: int) -> str:
    """How long hosts were recorded, all together."""
    return "under 1 host-hour" if observed_ns < 3.6e12 else counted(round(observed_ns / 3.6e12), "host-hour")


def _coverage(report: FleetReport, style: Style) -> list[str]:
    period = report.period
    text = (
        f"{counted(period.hosts, 'host')} of {report.expected:,}, {counted(period.recordings, 'recording')},"
        f" {_hours(period.observed_ns)}, "
        f"{moment(period.first_hour)} to {moment(period.end_hour)} UTC."
    )
    if report.missing:
        text += f" Missing: {_names(report.missing, style)}."
    if report.partial:
        text += f" Seen for less than half the usual time: {_names(report.partial, style)}."
    if period.lost:
        text += f" {counted(period.lost, 'event')} {'was' if period.lost == 1 else 'were'} lost."
    return filled("Coverage: ", text, COLUMNS, 4)


def lock_table(locks: Sequence[LockShare], style: Style, changes: bool) -> list[str]:
    """Locks by share of all host time."""
    columns = [
        Column("lock", 24, right=False),
        Column("kind", 9, right=False),
        Column("of time", 7),
        Column("median", 7),
        Column("p99", 7),
        Column("worst host", 12, right=False),
    ]
    if changes:
        columns.append(Column("change", 6))
    rows = []
    for lock in locks:
        worst = clean(lock.spread.worst[0][0], style) if lock.spread.worst else "-"
        row = [clean(lock.name, style), clean(lock.kind, style), percent(lock.share), percent(lock.spread.median)]
        row += [percent(lock.spread.p99), worst]
        rows.append([*row, change_words(lock.change, lock.new)] if changes else row)
    return table(columns, rows, indent="", grow=False)


def program_table(locks: Sequence[ProgramLock], style: Style) -> list[str]:
    """Locks of programs by their share of the time of hosts that were recorded with them."""
    columns = [
        Column("lock of a program", 24, right=False),
        Column("program", 9, right=False),
        Column("of time", 7),
        Column("median", 7),
        Column("p99", 7),
        Column("worst host", 12, right=False),
    ]
    rows = []
    for lock in locks:
        worst = clean(lock.spread.worst[0][0], style) if lock.spread.worst else "-"
        row = [clean(program_lock_name(lock), style), clean(lock.program, style), percent(lock.share)]
        rows.append([*row, percent(lock.spread.median), percent(lock.spread.p99), worst])
    return table(columns, rows, indent="", grow=False)


def _judged_words(effect: Effect) -> str:
    return effect.judgement.verdict if effect.judgement is not None else effect.unjudged


_HEADS = {"regressed": "Worse", "improved": "Better", "no difference": "No difference", "inconclusive": "No answer"}


def _verdict(diff: FleetDiff, style: Style) -> list[str]:
    worse = [f"{clean(one.name, style)} {_ratio_of(one.effect)}" for one in diff.locks if is_worse(one.effect)]
    total = diff.total.effect
    shares = f"from {percent(total.before)} to {percent(total.after)} of a host's time"
    text = f"{_HEADS[diff.verdict]}: all lock waiting went {shares}"
    text += f"; more waiting for {_listed(worse)}." if worse else "."
    return filled("", text, COLUMNS, 4)


def _ratio_of(effect: Effect) -> str:
    return "new" if effect.ratio is None else _ratio_words(effect.ratio)


def _side(label: str, side: SideOf, style: Style) -> list[str]:
    period = side.period
    text = (
        f"{clean(side.text, style)}: {counted(period.hosts, 'host')}, {counted(period.recordings, 'recording')}, "
        f"{_hours(period.observed_ns)}, {moment(period.first_hour)} to {moment(period.end_hour)} UTC."
    )
    return filled(label, text, COLUMNS, 2)


def render_diff(diff: FleetDiff, style: Style) -> str:
    """The first screen of a comparison: at most 24 lines of 80 columns."""
    columns = [
        Column("lock", 24, right=False),
        Column("kind", 9, right=False),
        Column("before", 7),
        Column("after", 7),
        Column("change", 7),
        Column("p", 7),
        Column("verdict", 13, right=False),
    ]

    def parts(step: int) -> list[list[str]]:
        rows = []
        for one in diff.locks[: _DIFF_LOCKS - 2 * step]:
            judgement = one.effect.judgement
            row = [
                clean(one.name, style),
                clean(one.kind, style),
                percent(one.effect.before),
                percent(one.effect.after),
            ]
            rows.append(
                [*row, _ratio_of(one.effect), f"{judgement.p:.2g}" if judgement else "-", _judged_words(one.effect)]
            )
        warnings = [line for text in diff.warnings for line in filled("Mind:   ", f"{text}.", COLUMNS, 2)]
        return [
            _verdict(diff, style),
            table(columns, rows, indent="", grow=False) if rows else [],
            [*_side("Before: ", diff.before, style), *_side("After:  ", diff.after, style), *warnings],
        ]

    return fitted(parts, 5)


def render(report: FleetReport, style: Style) -> str:
    """The first screen: at most 24 lines of 80 columns."""

    def parts(step: int) -> list[list[str]]:
        locks = report.locks[: _LOCKS - step]
        programs = report.programs.locks[: max(_FEWEST, _PROGRAM_LOCKS - step)] if report.programs else ()
        return [
            _answer(report, style),
            lock_table(locks, style, report.before is not None) if locks else [],
            program_table(programs, style) if programs else [],
            [*_changes(report, style), *_machines(report, style), *_findings(report), *_coverage(report, style)],
        ]

    return fitted(parts, _LOCKS - _FEWEST)
