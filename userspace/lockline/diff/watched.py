# SPDX-License-Identifier: GPL-2.0-or-later
"""Watched lines of two recordings: transfers per second by member, or their shares where one side is sampled."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

from lockline.base.statistics import Interval, Test, holm
from lockline.c2c.live import LiveLine, live_report
from lockline.diff.model import Judgement, Rule, judge
from lockline.diff.recordings import Presence
from lockline.recording.reader import Recording
from lockline.watch.tables import watched_lines

MAX_LINES = 50
TEST = "difference of two ratio estimates, normal approximation"


@dataclass(frozen=True, slots=True)
class WatchedRate:
    """One side: transfers that were seen, their share of the line's, and what they are in a second.

    per_second: None of samples.  error: one standard error, None if it is not known; at_least: a lower bound.
    """

    seen: int
    share: float
    per_second: float | None
    error: float | None
    at_least: bool


@dataclass(frozen=True, slots=True)
class WatchedDifference:
    """A line on both sides, or one of its members; member: '' for the whole line."""

    line: str
    member: str
    presence: Presence
    before: WatchedRate | None
    after: WatchedRate | None
    judgement: Judgement | None
    unjudged: str


@dataclass(frozen=True, slots=True)
class WatchedDiff:
    """Each line followed by its members, those with most transfers first."""

    differences: tuple[WatchedDifference, ...]
    judged: int


def has_watched(recording: Recording) -> bool:
    """Whether the recording has lines that were watched."""
    return bool(watched_lines(recording))


def _names(live: LiveLine) -> list[str]:
    """What a line is called, across boots: by its lock, its variable, its object, or as it was asked for."""
    line, placement = live.report.line, live.report.placement
    names = [live.lock.name] if live.lock is not None and live.lock.name else []
    names += [lock.name for lock in live.report.locks if lock.name]
    if line.symbol:
        names.append(line.symbol + (f"+{line.symbol_offset:#x}" if line.symbol_offset else ""))
    if placement.type and placement.base is not None:
        names.append(f"{placement.type}+{placement.base:#x}")
    if live.watch is not None:
        names.append(live.watch.target)
    return names


def _pairs(before: Sequence[LiveLine], after: Sequence[LiveLine]) -> list[tuple[str, LiveLine | None, LiveLine | None]]:
    """Lines of both sides that have a name in common, of which one at least was watched."""
    found: list[tuple[str, LiveLine | None, LiveLine | None]] = []
    left = list(after)
    for one in before:
        other, name = next(
            ((line, name) for line in left for name in _names(one) if name in _names(line)),
            (None, next(iter(_names(one)), "?")),
        )
        if other is not None:
            left.remove(other)
        if one.watch is not None or (other is not None and other.watch is not None):
            found.append((name, one, other))
    found += [(next(iter(_names(line)), "?"), None, line) for line in left if line.watch is not None]
    return found[:MAX_LINES]


def _line_rate(live: LiveLine | None) -> WatchedRate | None:
    if live is None:
        return None
    rate = live.transfers
    if rate is None:
        return WatchedRate(live.report.line.counts.transfers, 1.0, None, None, False)
    return WatchedRate(rate.seen, 1.0, rate.per_second, rate.error, rate.at_least)


def _member_rates(live: LiveLine | None, by_name: bool) -> dict[str, WatchedRate]:
    """Transfers by member, or by offset where the members of one side are not known."""
    sums: dict[str, WatchedRate] = {}
    if live is None:
        return sums
    every = sum(offset.transfers for offset in live.offsets)
    for offset in live.offsets:
        name = f"+{offset.offset:#x}"
        if by_name:
            covering = (part for part in live.report.parts if part.begin <= offset.offset < part.end)
            name = next((part.name for part in covering), name)
        rate = offset.transfer_rate
        before = sums.get(name, WatchedRate(0, 0.0, 0.0 if rate else None, 0.0 if rate else None, False))
        per_second = error = None
        if rate is not None and before.per_second is not None:
            per_second = before.per_second + rate.per_second
            if rate.error is not None and before.error is not None:
                error = math.hypot(before.error, rate.error)
        seen = before.seen + offset.transfers
        sums[name] = WatchedRate(seen, seen / every if every else 0.0, per_second, error, False)
    return sums


def _judged(before: WatchedRate, after: WatchedRate, rule: Rule) -> tuple[Judgement | None, str]:
    if before.per_second is None or after.per_second is None:
        return None, "one side has samples: only the shares can be compared"
    if before.error is None or after.error is None:
        return None, "a single window gives no error"
    if before.at_least or after.at_least:
        return None, "a lower bound"
    change = after.per_second - before.per_second
    error = math.hypot(before.error, after.error)
    p = 2 * (1 - NormalDist().cdf(abs(change) / error)) if error else float(not change)
    reach = NormalDist().inv_cdf(1 - rule.alpha / 2) * error
    base = before.per_second

    def relative(value: float) -> float | None:
        return value / base if base else None

    judgement = Judgement(
        test=Test(TEST, change / error if error else 0.0, p, None),
        p=p,
        tested=1,
        difference=Interval(change, change - reach, change + reach, 1 - rule.alpha),
        relative=relative(change),
        relative_low=relative(change - reach),
        relative_high=relative(change + reach),
        verdict="inconclusive",
        reason="",
    )
    return judge(judgement, rule, higher_is_better=False), ""


def _difference(
    line: str, member: str, before: WatchedRate | None, after: WatchedRate | None, rule: Rule
) -> WatchedDifference:
    presence: Presence = "new" if before is None else "gone" if after is None else "both"
    judgement, unjudged = None, "on one side alone"
    if before is not None and after is not None:
        judgement, unjudged = _judged(before, after, rule)
    return WatchedDifference(line, member, presence, before, after, judgement, unjudged)


def diff_watched(before: Recording, after: Recording, rule: Rule) -> tuple[WatchedDiff, list[str]]:
    """Compare the watched lines of two recordings; also gives what makes them hard to compare.

    Raises LocklineError if one is damaged.
    """
    sides = [live_report(recording, MAX_LINES).lines for recording in (before, after)]
    differences: list[WatchedDifference] = []
    warnings: list[str] = []
    for name, one, other in _pairs(sides[0], sides[1]):
        differences.append(_difference(name, "", _line_rate(one), _line_rate(other), rule))
        if one is None or other is None:
            continue
        by_name = bool(one.report.placement.type and other.report.placement.type)
        members = _member_rates(one, by_name), _member_rates(other, by_name)
        rows = [
            _difference(name, member, members[0].get(member), members[1].get(member), rule)
            for member in dict.fromkeys((*members[0], *members[1]))
        ]
        rows.sort(key=lambda row: -max(side.share for side in (row.before, row.after) if side is not None))
        differences += rows
        warnings += _conditions(name, one, other)
    values = iter(holm([row.judgement.test.p for row in differences if row.judgement is not None]))
    tested = sum(row.judgement is not None for row in differences)
    corrected = [
        row
        if row.judgement is None
        else replace(
            row,
            judgement=judge(replace(row.judgement, p=next(values), tested=tested), rule, higher_is_better=False),
        )
        for row in differences
    ]
    return WatchedDiff(tuple(corrected), tested), warnings


def _conditions(name: str, one: LiveLine, other: LiveLine) -> list[str]:
    if one.watch is None or other.watch is None:
        kinds = " and ".join(live.source for live in (one, other))
        return [f"{name}: from {kinds}: lockline compares which members are used, not how often"]
    budgets = [watch.budget for watch in (one.watch, other.watch)]
    if budgets[0] != budgets[1]:
        told = " and ".join(f"{budget:.3g}" if budget else "no limit" for budget in budgets)
        return [f"{name}: watched at different shares of CPU time ({told}): watching slows those who are watched"]
    return []
