# SPDX-License-Identifier: GPL-2.0-or-later
"""Those who made others wait, as text."""

from lockline.analysis.model import Fairness, Holder, LockWaits, Report
from lockline.base.numbers import count, duration, percent
from lockline.base.text import Column, Style, clean, cut, table
from lockline.recording.stacks import without_internals

LOCKS = 8
HOLDERS = 4


def _who(holder: Holder, style: Style) -> str:
    if holder.kind == "unknown":
        return "not known"
    if holder.kind == "readers":
        return "readers"
    return f"{clean(holder.comm, style) or '?'} {holder.tid}"


def _released_in(holder: Holder, style: Style) -> str:
    for stack in holder.stacks:
        callers = without_internals(stack.frames)
        if callers:
            return " < ".join(clean(frame.symbol, style) or "?" for frame in callers[:2])
    return ""


def _handed_on(fairness: Fairness) -> list[str]:
    """What is worth telling of how a lock was handed on."""
    told = []
    if fairness.handoffs:
        average = fairness.handoff_ns / fairness.handoffs
        text = f"hand-off {duration(average)} on average, longest {duration(fairness.max_handoff_ns)}"
        if fairness.line_ns is not None:
            text += f"; a cache line takes {duration(fairness.line_ns)} between these CPUs"
        told.append(text)
    if fairness.bypasses:
        told.append(
            f"{count(fairness.overtaken)} of {count(fairness.waits)} waits were overtaken, {count(fairness.bypasses)}"
            f" times in all, {count(fairness.max_bypasses)} in one wait"
        )
    if fairness.retakes:
        told.append(f"{count(fairness.retakes)} of {count(fairness.releases)} releases: the same task took it again")
    if fairness.holds is not None:
        holds = fairness.holds
        told.append(
            f"held {count(holds.waits)} times, {duration(holds.average_ns)} on average, p50"
            f" {duration(holds.percentile(0.5))}, p99 {duration(holds.percentile(0.99))},"
            f" {duration(holds.max_ns)} at most"
        )
    return told


def _lock_label(lock: LockWaits, style: Style) -> str:
    return f"{cut(clean(lock.name, style) or '?', 36)} {clean(lock.kind, style)}"


def holders(report: Report, style: Style) -> list[str]:
    """The section of the report; empty without recorded holders."""
    shown = [lock for lock in report.locks if lock.holders][: min(LOCKS, report.window.selection.top or LOCKS)]
    if not shown:
        return []
    columns = [
        Column("holder", 24, right=False),
        Column("waits", 6),
        Column("caused", 7),
        Column("of lock", 7),
        Column("longest", 7),
        Column("released", 8),
        Column("in", 50, right=False),
    ]
    lines = ["Who makes them wait (each part of a wait is charged to the task whose release ended it)"]
    for lock in shown:
        cells = [
            [
                _who(holder, style),
                count(holder.waits),
                duration(holder.caused_ns),
                percent(holder.caused_ns / lock.figures.wait_ns if lock.figures.wait_ns else None),
                duration(holder.max_caused_ns),
                count(holder.releases) if holder.releases else "-",
                _released_in(holder, style),
            ]
            for holder in lock.holders[:HOLDERS]
        ]
        lines.append(f"  {_lock_label(lock, style)}")
        lines += table(columns, cells, indent="    ")
        rest = lock.holders[HOLDERS:]
        if rest:
            lines.append(f"    ({len(rest)} more, {duration(sum(holder.caused_ns for holder in rest))})")
        if lock.fairness is not None:
            lines += [f"    {line}" for line in _handed_on(lock.fairness)]
    return lines
