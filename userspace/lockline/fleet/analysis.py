# SPDX-License-Identifier: GPL-2.0-or-later
"""From a fleet's directory to what is said about it.  The sums are the engine's; the tests are over hosts."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from lockline.base import histogram
from lockline.base.errors import LocklineError
from lockline.base.statistics import holm
from lockline.diff.model import DEFAULT_MIN_SHARE, MAX_JUDGED, Rule, judge
from lockline.fleet.choose import ANY, Filter, Known, known_recordings
from lockline.fleet.compare import (
    Effect,
    Shares,
    compare_groups,
    compare_times,
    corrected,
    group_test,
    reaches,
    spread,
)
from lockline.fleet.engine import Engine
from lockline.fleet.model import (
    FindingCount,
    FleetReport,
    Group,
    GroupEffect,
    LockShare,
    Silent,
)
from lockline.fleet.programs import ranked_programs
from lockline.fleet.sums import Lock, Side, Sums, by_host

NOW, BEFORE = "now", "before"
DEFAULT_SPAN = 168
# A smaller difference does not matter to a fleet.
DEFAULT_THRESHOLD = 0.10
DEFAULT_GROUPS = ("kernel", "cpu_model")
WORST_HOSTS = 3
# Of the hosts' usual time; a host that was seen for less is partial.
_PARTIAL = 0.5
# Groups of one fact that are compared, those with most hosts.
_MOST_GROUPS = 12
_ALL = ("", "")


@dataclass(frozen=True, slots=True)
class Question:
    """What a report is asked.

    since, until: hours, None: the last week of the data.  span: hours of since before until, where since is None.
    """

    since: int | None = None
    until: int | None = None
    span: int = DEFAULT_SPAN
    filter: Filter = ANY
    container: str | None = None
    group_by: tuple[str, ...] = DEFAULT_GROUPS
    threshold: float = DEFAULT_THRESHOLD
    min_share: float = DEFAULT_MIN_SHARE
    expected: tuple[str, ...] = ()


def overlapping(found: Sequence[Known], first: int, end: int) -> list[Known]:
    """The recordings that have a part between two hours."""
    return [one for one in found if one.end_hour > first and one.first_hour < end]


def heaviest(sums: Sums, sides: Sequence[str], times: Mapping[str, float], min_share: float) -> list[Lock]:
    """The locks that are judged: those with most waiting on either side, above the least share."""
    best: dict[Lock, float] = {}
    for side in sides:
        for lock, figures in sums.locks[side].items():
            best[lock] = max(best.get(lock, 0.0), figures[0] / times[side] if times[side] else 0.0)
    ordered = sorted(best, key=lambda lock: (-best[lock], lock))
    return [lock for lock in ordered if best[lock] >= min_share][:MAX_JUDGED]


def _silent(
    sums: Sums, known: Sequence[Known], before: Side | None, expected: Sequence[str]
) -> tuple[list[Silent], list[Silent], int]:
    """Hosts without a recording, those that were seen for a short time, and how many were expected."""
    seen: defaultdict[str, int] = defaultdict(int)
    last: dict[str, int] = {}
    for number in sums.numbers(NOW):
        host = sums.units[number].host
        seen[host] += sums.observed[number]
        last[host] = max(last.get(host, 0), sums.hours[number][1])
    wanted = set(expected) | ({one.host for one in before.recordings} if before is not None else set()) | set(seen)
    usual = median(seen.values()) if seen else 0
    ended: dict[str, int] = {}
    for one in known:
        ended[one.host] = max(ended.get(one.host, 0), one.end_hour - 1)
    missing = [Silent(host, 0.0, ended.get(host)) for host in sorted(wanted - seen.keys())]
    partial = [
        Silent(host, ns / usual, last[host]) for host, ns in sorted(seen.items()) if usual and ns < usual * _PARTIAL
    ]
    return missing, partial, len(wanted)


def _changes(sums: Sums, locks: Sequence[Lock], rule: Rule) -> tuple[dict[Lock, Effect], Effect]:
    now, before = sums.numbers(NOW), sums.numbers(BEFORE)
    effects: dict[Lock, Effect] = {}
    for lock in locks:
        sides = sums.shares(lock, before), sums.shares(lock, now)
        # What does not reach the threshold needs no test, but counts among the tests.
        if reaches(*sides, rule):
            effects[lock] = compare_times(*sides, rule)
        else:
            both = sides[0].keys() & sides[1].keys()
            means = [sum(side[host] for host in both) / len(both) if both else 0.0 for side in sides]
            effects[lock] = Effect(means[0], means[1], (len(both), len(both)), True, None, "within the threshold")
    total = [by_host(sums.units, numbers, totals(sums, numbers, locks), sums.weighted) for numbers in (before, now)]
    everything = [*effects.values(), compare_times(total[0], total[1], rule)]
    *judged, of_all = corrected(everything, len(everything), rule)
    return dict(zip(effects, judged, strict=True)), of_all


def totals(sums: Sums, numbers: Sequence[int], locks: Sequence[Lock]) -> dict[int, float]:
    """Waits of all judged locks by unit."""
    return {number: math.fsum(sums.waited[lock].get(number, 0.0) for lock in locks) for number in numbers}


@dataclass(frozen=True, slots=True)
class _Candidate:
    by: str
    value: str
    lock: Lock
    others: Shares
    own: Shares


def _group_effects(sums: Sums, by: int, values: Sequence[str], locks: Sequence[Lock], rule: Rule) -> list[GroupEffect]:
    """Locks that hosts of one value wait for more, or less, than the others."""
    candidates, p_values = [], []
    for value in values:
        own, others = sums.numbers(NOW, (by, value)), sums.numbers(NOW, (by, value), other=True)
        for lock in locks:
            sides = sums.shares(lock, others), sums.shares(lock, own)
            if min(len(side) for side in sides) >= 2 and reaches(*sides, rule):
                candidates.append(_Candidate(sums.group_by[by], value, lock, *sides))
                p_values.append(group_test(*sides).p)
    tested = len(values) * len(locks)
    significant = holm([*p_values, *[1.0] * (tested - len(p_values))])
    found = []
    for candidate, p in zip(candidates, significant, strict=False):
        if p >= rule.alpha:
            continue
        effect = compare_groups(candidate.others, candidate.own, rule)
        if effect.judgement is not None:
            judgement = replace(effect.judgement, p=p, tested=tested)
            effect = replace(effect, judgement=judge(judgement, rule, higher_is_better=False))
            found.append(GroupEffect(candidate.by, candidate.value, *candidate.lock, effect))
    return sorted(found, key=lambda one: (-abs(one.effect.after - one.effect.before), one.value, one.name, one.kind))


def _groups(sums: Sums, locks: Sequence[Lock]) -> list[Group]:
    found = []
    for index, by in enumerate(sums.group_by):
        numbers: defaultdict[str, list[int]] = defaultdict(list)
        for number in sums.numbers(NOW):
            numbers[sums.units[number].facts[index]].append(number)
        for value, members in numbers.items():
            time = math.fsum(sums.weighted[number] for number in members)
            waited = math.fsum(totals(sums, members, locks).values())
            hosts = {sums.units[number].host for number in members}
            found.append(Group(by, value, len(hosts), waited / time if time else 0.0))
    return sorted(found, key=lambda one: (sums.group_by.index(one.by), -one.hosts, one.value))


def _lengths(
    sums: Sums, locks: Mapping[Lock, tuple[float, int, int, int, int]]
) -> dict[Lock, tuple[int | None, int | None]]:
    counts: defaultdict[Lock, list[int]] = defaultdict(histogram.empty)
    for side, lock, kind, bucket, waits in sums.engine.run("lengths"):
        if side == NOW and 0 <= bucket <= histogram.OVERFLOW:
            counts[lock, kind][int(bucket)] += round(float(waits))
    return {
        lock: (
            histogram.percentile(found, 0.5, locks[lock][3]),
            histogram.percentile(found, 0.99, locks[lock][3]),
        )
        for lock, found in counts.items()
        if lock in locks
    }


def _findings(sums: Sums, time: float, before: Side | None) -> list[FindingCount]:
    rows = sums.engine.run("findings")
    earlier = {rule: int(hosts) for side, rule, hosts, _, _ in rows if side == BEFORE}
    return [
        FindingCount(
            rule,
            int(hosts),
            int(recordings),
            float(ns or 0) / time if time else 0.0,
            None if before is None else earlier.get(rule, 0),
        )
        for side, rule, hosts, recordings, ns in rows
        if side == NOW
    ]


def make_report(directory: Path, engine: Engine, question: Question) -> FleetReport:
    """What a fleet's recordings say.  Raises LocklineError."""
    return report_of(known_recordings(directory, engine), directory, engine, question)


def report_of(known: Sequence[Known], directory: Path, engine: Engine, question: Question) -> FleetReport:
    """What these recordings of the engine say.  Raises LocklineError."""
    wanted = [one for one in known if question.filter.wants(one)]
    if not wanted:
        raise LocklineError(f"{directory}: no recording has such a host, kernel and CPU model")
    end = question.until if question.until is not None else max(one.end_hour for one in wanted)
    first = question.since if question.since is not None else end - question.span
    if first >= end:
        raise LocklineError("--until: lies before --since")
    now = Side(NOW, overlapping(wanted, first, end), first, end)
    if not now.recordings:
        raise LocklineError(f"{directory}: no recording of that time")
    # The data may be younger than the span.
    first = max(first, min(one.first_hour for one in now.recordings)) if question.since is None else first
    now = replace(now, first_hour=first)
    earlier = overlapping(wanted, first - (end - first), first)
    before = Side(BEFORE, earlier, first - (end - first), first) if earlier else None
    sides = [side for side in (now, before) if side is not None]
    sums = Sums(engine, sides, question.group_by, question.container)
    if before is not None and not sums.numbers(BEFORE):
        before = None
    times = {side.name: sums.time_of(side.name) for side in sides}
    if not times[NOW]:
        raise LocklineError(f"{directory}: nothing was observed in that time")
    locks = heaviest(sums, [side.name for side in sides], times, question.min_share)
    listed = sorted(sums.locks[NOW], key=lambda lock: (-sums.locks[NOW][lock][0], lock))[:MAX_JUDGED]
    sums.judge(sorted({*locks, *listed}))

    compared = []
    for index in range(len(question.group_by)):
        counted: defaultdict[str, set[str]] = defaultdict(set)
        for number in sums.numbers(NOW):
            counted[sums.units[number].facts[index]].add(sums.units[number].host)
        chosen = sorted(counted, key=lambda value: (-len(counted[value]), value))[:_MOST_GROUPS]
        if len(chosen) > 1 and question.group_by[index] != "host":
            # Of two groups one says what the other says.
            compared.append((index, chosen if len(counted) > 2 else chosen[1:]))
    families = len(compared) + (before is not None)
    rule = Rule(question.threshold)
    part = replace(rule, alpha=rule.alpha / max(1, families))
    changes: dict[Lock, Effect] = {}
    total_change = None
    if before is not None:
        changes, total_change = _changes(sums, locks, part)
    effects = [one for index, values in compared for one in _group_effects(sums, index, values, locks, part)]
    total = sums.total_of(NOW)
    lengths = _lengths(sums, sums.locks[NOW]) if question.container is None else {}
    numbers = sums.numbers(NOW)
    shown = []
    for lock in listed:
        ns, waits, wait_ns, max_ns, hosts = sums.locks[NOW][lock]
        shares = sums.shares(lock, numbers)
        p50, p99 = lengths.get(lock, (None, None))
        shown.append(
            LockShare(
                *lock,
                share=ns / times[NOW],
                of_waiting=ns / total if total else 0.0,
                waits=waits,
                wait_ns=wait_ns,
                max_ns=max_ns,
                hosts=hosts,
                spread=spread(shares, WORST_HOSTS),
                p50_ns=p50,
                p99_ns=p99,
                new=before is not None and lock not in sums.locks[BEFORE],
                change=changes.get(lock),
            )
        )
    missing, partial, expected = _silent(sums, known, before, question.expected)
    return FleetReport(
        directory=str(directory),
        container=question.container,
        period=sums.period(NOW),
        before=sums.period(BEFORE) if before is not None else None,
        rule=rule,
        min_share=question.min_share,
        share=total / times[NOW],
        lock_count=len(sums.locks[NOW]),
        locks=tuple(shown),
        total_change=total_change,
        groups=tuple(_groups(sums, listed)),
        effects=tuple(effects),
        tested=len(locks) * (sum(len(values) for _, values in compared) + (before is not None)),
        findings=tuple(_findings(sums, times[NOW], before)),
        missing=tuple(missing),
        partial=tuple(partial),
        expected=expected,
        # The samples of stacks that name them know no container.
        programs=ranked_programs(sums, NOW, BEFORE, WORST_HOSTS) if question.container is None else None,
    )
