# SPDX-License-Identifier: GPL-2.0-or-later
"""The findings of a first screen: what, how sure, the evidence, and what to do; the first ones alone."""

import re

from lockline.analysis.answer import (
    LONG_HOLD,
    LONG_WAITS,
    NEGLIGIBLE_SHARE,
    OVERUSED,
    STARVED,
    Answer,
    is_explained,
    waiting_for,
)
from lockline.analysis.findings import Finding, Function, Lock
from lockline.analysis.model import Report
from lockline.atlas import KnownLock, atlas
from lockline.base.text import Style, clean, cut, width
from lockline.render.findings import functions_of, worded
from lockline.render.screen_fit import filled
from lockline.render.screen_parts import SMALL, SMALL_EFFECT, all_waiting, command, few_threads, percent_short

# Sentences of it where there is but one finding.
EVIDENCE = 3
# Of the evidence: the heading of a finding has the share already.
_REPEATED = re.compile(r"; [0-9.]+% of all lock waiting$")
# Of the time: somebody waits for a lock seldom.
_SELDOM = 0.5
# Before what to do about a finding.
_DO = "   do      "


def _finding(
    number: int, finding: Finding, report: Report, style: Style, columns: int, evidence: int, steps: int
) -> list[str]:
    words = worded(finding)
    every = all_waiting(report)
    part = finding.impact.wait_ns / every if every else 0.0
    what = f"{clean(words.title, style)}"
    if 0 < part <= 1:
        waiting = report.window.share(finding.impact.wait_ns) or 0.0
        # How sure it is does not show how much it matters.
        small = f", a small effect: {few_threads(waiting)}" if waiting < SMALL_EFFECT else ""
        what += f" ({percent_short(part)} of all waiting{small})"
    lines = filled(f" {number} {finding.confidence:8}", what, columns, 2)
    for seen in words.evidence[:evidence]:
        lines += filled("           ", clean(_REPEATED.sub("", seen), style), columns, 2)
    todo = advice(finding, report)[:1]
    lines += [line for step in todo if steps > 0 for line in filled(_DO, clean(step, style), columns, steps)]
    return lines


def advice(finding: Finding, report: Report) -> tuple[str, ...]:
    """What to do about it, what fits best first: by the atlas where it knows the lock, else by the rule."""
    # What helps against a busy lock, the atlas knows better.
    # Of few waits it is the holder that matters.
    use = isinstance(finding.subject, Lock) and finding.rule in (*OVERUSED, *STARVED) and finding.confidence != "low"
    use = use and not _held_by_others(finding, report)
    known = atlas().find(finding.subject.name) if use and isinstance(finding.subject, Lock) else None
    # Nobody but a kernel's developer can shorten a function of it; who calls it may do so less often.
    if isinstance(finding.subject, Function) and (held := _held_lock(finding)) is not None:
        known = held if held.where_in([finding.subject.name]) else None
    # Where the other side's function is none that the atlas speaks of, it does not know that side.
    if known is not None and finding.rule in STARVED and not known.speaks_of(functions_of(finding.evidence)):
        known = None
    functions = functions_of((finding.claim, *finding.evidence))
    return (known.helps_in(functions, _instance(finding, report)) if known is not None else ()) or worded(finding).next


def _held_lock(finding: Finding) -> KnownLock | None:
    """The lock that a function holds for long, if the atlas knows it."""
    lock = next((value for _, value in finding.claim.values if isinstance(value, Lock)), None)
    return atlas().find(lock.name) if lock is not None and finding.rule == LONG_HOLD else None


def _instance(finding: Finding, report: Report) -> str:
    """Which of the locks of a name a finding is about: the one that is waited for longest."""
    subject = finding.subject
    if not isinstance(subject, Lock):
        return ""
    same = (one for one in report.locks if (one.name, one.kind) == (subject.name, subject.kind))
    return next((one.worst_instance for one in same), "")


def _held_by_others(finding: Finding, report: Report) -> bool:
    """Whether waits are long, and so seldom that those who wait are hardly those who hold the lock too.

    Where they are, most holders have one that waits behind them.  Who holds it can still be recorded, or it is known.
    """
    if finding.rule != LONG_WAITS or any(one.what in ("others-take", "visited-by") for one in finding.evidence):
        return False
    subject = finding.subject
    lock = next((one for one in report.locks if isinstance(subject, Lock) and one.name == subject.name), None)
    if lock is None or not any(one.action == "who-holds-longest" for one in finding.remedies):
        return False
    return (report.window.share(lock.worst_instance_ns) or 0.0) < _SELDOM


def _worth_showing(finding: Finding, report: Report) -> bool:
    """Whether a finding matters where waiting is negligible: it is sure, and not about that little waiting."""
    return (report.window.share(finding.impact.wait_ns) or 0.0) >= NEGLIGIBLE_SHARE


def _nothing_found(report: Report, answer: Answer, columns: int, kept: bool) -> list[str]:
    """What to do where locks are waited for, and no rule says why."""
    if answer.kind == "user space":
        return [cut(f"FINDINGS  none: see {command(report, '--futex')}", columns)] if kept else []
    if answer.kind not in ("one lock", "several"):
        return []
    if (report.window.share(report.totals.wait_ns) or 0.0) < SMALL:
        return [cut(f"FINDINGS  none: all waiting together is under {SMALL:.0%} of one CPU or thread", columns)]
    again = "lockline record --episodes -d 30"
    if report.episodes:
        again = command(report, f"--episodes {min(3, len(report.episodes))}")
    why = "no single lock stands out"
    if answer.kind == "one lock":
        if (report.window.share(waiting_for(answer.whole[0])) or 0.0) < SMALL:
            return [cut(f"FINDINGS  none: waiting for that lock is under {SMALL:.0%} of one CPU or thread", columns)]
        why = "no rule says why that lock is waited for"
    lines = [cut(f"FINDINGS  none: {why}", columns)]
    return lines + filled(_DO, f"see who holds the locks in the longest waits: {again}", columns, 2)


def finding_lines(
    report: Report, answer: Answer, style: Style, columns: int, most: int, about: int, steps: int, kept: bool
) -> list[str]:
    """The lines of the first findings, or why there are none.

    most: findings; about: sentences of evidence where there is but one; steps: lines of advice.  kept: the recording
    stays, so that commands can read it again.
    """
    # That a lock is busy is no news where another finding says why.
    ranked = [
        found
        for found in report.findings
        if not is_explained(found, report.findings)
        and (answer.kind not in ("negligible", "other locks") or _worth_showing(found, report))
    ]
    if not ranked:
        hidden = len(report.findings)
        if not hidden:
            return _nothing_found(report, answer, columns, kept)
        small = f"FINDINGS  {hidden} that matter little" + (f": {command(report, '--findings')}" if kept else "")
        return [cut(clean(small, style), columns)]
    title = "FINDINGS"
    rest = f"evidence: {command(report, '--findings')}" if kept else ""
    # A command is there to be copied, so it is never cut.
    if width(rest) + len(title) + 12 > columns:
        rest = "evidence: --findings"
    if len(ranked) > most:
        rest = f"{len(ranked)} found{', ' if rest else ''}{rest}"
    lines = [title + " " * max(1, columns - len(title) - width(rest)) + rest]
    lines = [cut(clean(lines[0].rstrip(), style), columns)]
    told: list[str] = []
    for number, finding in enumerate(ranked[:most], 1):
        evidence = about if len(ranked) == 1 else min(about, 1)
        # Where room is short, the first finding's advice is the one to read to its end.
        room = steps if number == 1 else max(1, steps - 1)
        shown = _finding(number, finding, report, style, columns, evidence, room)
        # The same advice is given once: of several directories, say.
        begin = next((index for index, line in enumerate(shown) if line.startswith(_DO)), len(shown))
        lines += shown[:begin] if shown[begin:] == told else shown
        told = shown[begin:]
    return lines
