# SPDX-License-Identifier: GPL-2.0-or-later
"""A fleet at two times, or two groups of its hosts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lockline.analysis.selection import lock_matches
from lockline.base.errors import LocklineError
from lockline.diff.model import DEFAULT_MIN_SHARE, Rule
from lockline.fleet.analysis import DEFAULT_THRESHOLD, heaviest, overlapping, totals
from lockline.fleet.choose import ANY, GROUPS, Filter, Known, known_recordings, parse_moment
from lockline.fleet.compare import Effect, Shares, compare_groups, compare_times, corrected
from lockline.fleet.engine import Engine
from lockline.fleet.model import FleetDiff, LockChange, SideOf
from lockline.fleet.sums import Lock, Side, Sums, by_host

BEFORE, AFTER = "before", "after"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A side as the user has it: hours, None: all; group: a fact, and a text that its value holds or matches."""

    text: str
    hours: tuple[int, int] | None
    group: tuple[str, str] | None

    def wants(self, known: Known) -> bool:
        """Whether a recording is of this side."""
        if self.group is not None:
            return lock_matches(self.group[1], known.group(self.group[0]))
        assert self.hours is not None
        return known.end_hour > self.hours[0] and known.first_hour < self.hours[1]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a comparison is asked; hours: that both groups are looked at in, None: all."""

    before: Wanted
    after: Wanted
    hours: tuple[int, int] | None = None
    filter: Filter = ANY
    container: str | None = None
    threshold: float = DEFAULT_THRESHOLD
    min_share: float = DEFAULT_MIN_SHARE


def parse_side(text: str) -> Wanted:
    """A side, of "2026-11-15..2026-11-22" or "kernel=6.12".  Raises ValueError."""
    if ".." in text and "=" not in text:
        first, _, end = text.partition("..")
        hours = parse_moment(first), parse_moment(end)
        if hours[0] >= hours[1]:
            raise ValueError(f"'{text}' ends before it begins")
        return Wanted(text, hours, None)
    by, equals, pattern = text.partition("=")
    by = by.replace("-", "_")
    if not equals or by not in GROUPS or not pattern:
        raise ValueError(f"'{text}' is not a side; write 2026-11-15..2026-11-22, or one of {'=..., '.join(GROUPS)}=...")
    return Wanted(text, None, (by, pattern))


def _side(name: str, wanted: Wanted, found: Sequence[Known], hours: tuple[int, int] | None) -> Side:
    of_side = [one for one in found if wanted.wants(one)]
    if not of_side:
        raise LocklineError(f"--{name} {wanted.text}: no recordings")
    first, end = wanted.hours or hours or (min(one.first_hour for one in of_side), max(one.end_hour for one in of_side))
    return Side(name, overlapping(of_side, first, end), first, end)


def _warnings(sums: Sums, sides: tuple[Shares, Shares], paired: bool) -> list[str]:
    both = sides[0].keys() & sides[1].keys()
    periods = [sums.period(name) for name in (BEFORE, AFTER)]
    warnings = []
    if paired and len(both) < max(map(len, sides)):
        warnings.append(f"compared: the {len(both):,} hosts of both sides, of {len(sides[0]):,} and {len(sides[1]):,}")
    if not paired and both:
        warnings.append(f"{len(both):,} hosts are on both sides, and count on both")
    per_host = [period.observed_ns / max(1, period.hosts) for period in periods]
    if max(per_host) > 1.25 * min(per_host):
        warnings.append(
            f"different lengths: {per_host[0] / 3.6e12:.1f} and {per_host[1] / 3.6e12:.1f} hours of each host; "
            "load changes with the time of day"
        )
    if not paired and (periods[0].end_hour <= periods[1].first_hour or periods[1].end_hour <= periods[0].first_hour):
        warnings.append("the two groups were seen at different times")
    return warnings


def compare_sides(directory: Path, engine: Engine, asked: Comparison) -> FleetDiff:
    """Compare two times, or two groups of hosts.  Raises LocklineError."""
    return diff_of(known_recordings(directory, engine), directory, engine, asked)


def diff_of(known: Sequence[Known], directory: Path, engine: Engine, asked: Comparison) -> FleetDiff:
    """Compare these recordings of the engine.  Raises LocklineError."""
    found = [one for one in known if asked.filter.wants(one)]
    if asked.hours is not None:
        found = overlapping(found, *asked.hours)
    sides = _side(BEFORE, asked.before, found, asked.hours), _side(AFTER, asked.after, found, asked.hours)
    sums = Sums(engine, sides, (), asked.container)
    times = {side.name: sums.time_of(side.name) for side in sides}
    for side, wanted in zip(sides, (asked.before, asked.after), strict=True):
        if not times[side.name]:
            raise LocklineError(f"--{side.name} {wanted.text}: nothing was observed")
    locks = heaviest(sums, [side.name for side in sides], times, asked.min_share)
    sums.judge(locks)
    rule = Rule(asked.threshold)
    # The same hosts are compared with themselves; hosts of different groups are not the same.
    paired = asked.before.hours is not None and asked.after.hours is not None
    numbers = sums.numbers(BEFORE), sums.numbers(AFTER)

    def effect(shares: tuple[Shares, Shares]) -> Effect:
        return compare_times(*shares, rule) if paired else compare_groups(*shares, rule)

    def shares_of(lock: Lock) -> tuple[Shares, Shares]:
        return sums.shares(lock, numbers[0]), sums.shares(lock, numbers[1])

    whole = tuple(by_host(sums.units, side, totals(sums, side, locks), sums.weighted) for side in numbers)
    of_all = effect((whole[0], whole[1]))
    effects = corrected([effect(shares_of(lock)) for lock in locks], len(locks), rule)
    changes = [LockChange(*lock, one) for lock, one in zip(locks, effects, strict=True)]
    return FleetDiff(
        directory=str(directory),
        before=SideOf(asked.before.text, sums.period(BEFORE)),
        after=SideOf(asked.after.text, sums.period(AFTER)),
        rule=rule,
        min_share=asked.min_share,
        total=LockChange("", "", of_all),
        locks=tuple(sorted(changes, key=_change)),
        judged=sum(change.effect.judgement is not None for change in changes),
        warnings=tuple(_warnings(sums, (whole[0], whole[1]), paired)),
    )


def _change(change: LockChange) -> tuple[float, str, str]:
    size = change.effect.after - change.effect.before
    return -abs(size) if math.isfinite(size) else -math.inf, change.name, change.kind
