# SPDX-License-Identifier: GPL-2.0-or-later
"""A fleet's report and comparison as JSON, lockline-fleet/1 and lockline-fleet-diff/1."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from lockline.fleet.model import FleetDiff, FleetReport
from lockline.render.documents.diff import Judgement, Verdict
from lockline.render.walker import Amount, At, Count, Finite, Fraction, Name, as_line, inline, shown, walk

SCHEMA = "lockline-fleet/1"
DIFF_SCHEMA = "lockline-fleet-diff/1"


def _unix(name: str) -> Callable[[Any, At], int]:
    """An hour as seconds since 1970."""
    return lambda value, _: int(getattr(value, name) * 3600)


def _last(value: Any, _: At) -> int | None:
    return None if value.last_hour is None else int(value.last_hour * 3600)


@dataclass(frozen=True)
class Period:
    """Whole hours, and what was observed in them."""

    begin_unix_s: Count = shown("its begin", _unix("first_hour"))
    end_unix_s: Count = shown("its end", _unix("end_hour"))
    hosts: Count = shown("with recordings")
    recordings: Count = shown("of these hosts")
    observed_ns: Count = shown("of all hosts together")
    weighted_ns: Amount = shown("the same times the weights")
    lost: Count = shown("events that the recordings lost")


@dataclass(frozen=True)
class Effect:
    """A difference between two sides of hosts."""

    before: Amount = shown("mean share of the hosts")
    after: Amount = shown("likewise")
    ratio: Finite = shown("after over before; null: of nothing")
    hosts_before: Count = shown("that were compared", lambda effect, _: effect.hosts[0])
    hosts_after: Count = shown("that were compared", lambda effect, _: effect.hosts[1])
    paired: bool = shown("whether they are the same hosts")
    unjudged: Name = shown("why it was not judged")
    judged: Judgement | None = shown("what the test says", "judgement")


@dataclass(frozen=True)
class Host:
    """A host and its share."""

    host: str = shown("its name", lambda pair, _: pair[0])
    share: Amount = shown("wait time over its observed time", lambda pair, _: pair[1])


@dataclass(frozen=True)
class Spread:
    """A lock's shares of the time of the hosts."""

    mean: Amount = shown("of the hosts' shares")
    median: Amount = shown("of the hosts' shares")
    p99: Amount = shown("99 of 100 hosts have at most this share")
    worst: tuple[Host, ...] = shown("the hosts with the largest shares")


@dataclass(frozen=True)
class Lock:
    """Waits for one lock on all hosts."""

    lock: Name = shown("its name", "name")
    kind: Name = shown("of wait")
    share: Amount = shown("wait time over all observed host time, weighted")
    of_waiting: Fraction = shown("of all lock waiting")
    waits: Count = shown("how many were recorded")
    wait_ns: Count = shown("their sum")
    max_ns: Count = shown("the longest; 0 of a container")
    hosts: Count = shown("that waited for it")
    spread: Spread = inline("spread")
    p50_ns: Count | None = shown("median of the waits, the middle of its bucket")
    p99_ns: Count | None = shown("likewise")
    new: bool = shown("the period before has no wait for it")
    change: Effect | None = shown("from the period before; null: none, or not judged")


@dataclass(frozen=True)
class GroupEffect:
    """Waits for a lock on hosts of one group, against all other hosts."""

    by: str = shown("the fact that makes the group")
    value: str = shown("its value")
    lock: Name = shown("its name", "name")
    kind: Name = shown("of wait")
    effect: Effect = shown("before: the others; after: the group")


@dataclass(frozen=True)
class Group:
    """Hosts that share a fact."""

    by: str = shown("the fact")
    value: str = shown("its value")
    hosts: Count = shown("how many")
    share: Amount = shown("waiting for the listed locks over their observed time")


@dataclass(frozen=True)
class Finding:
    """What a rule found."""

    rule: str = shown("its name")
    hosts: Count = shown("on which it found something")
    recordings: Count = shown("likewise")
    share: Amount = shown("the waiting that it explains over observed host time")
    before: Count | None = shown("hosts in the period before; null: there is none")


@dataclass(frozen=True)
class ProgramLock:
    """Waits for one lock of a program, on all hosts that were recorded with --futex."""

    program: str = shown("its command")
    lock: str = shown("its variable, its class, or what kind it is", "name")
    code: Name = shown("the function that waits, or the file, where other locks have that name; null: none")
    share: Amount = shown("wait time over observed time of these hosts, weighted")
    waits: Count = shown("how many were recorded")
    wait_ns: Count = shown("their sum")
    max_ns: Count = shown("the longest")
    hosts: Count = shown("that waited for it")
    spread: Spread = inline("spread")
    before: Amount | None = shown("its share in the period before; null: nobody looked")


@dataclass(frozen=True)
class Programs:
    """Locks of programs, of the recordings that looked at them (record --futex)."""

    hosts: Count = shown("that were recorded with them")
    weighted_ns: Amount = shown("observed time of these, times the weights")
    share: Amount = shown("all waiting for them over that time")
    lock_count: Count = shown("locks that were waited for")
    locks: tuple[ProgramLock, ...] = shown("those with most waiting, most first")


@dataclass(frozen=True)
class Silent:
    """A host that is missing, or was seen for a short time."""

    host: str = shown("its name")
    seen: Amount = shown("time seen over the time that is usual")
    last_unix_s: Count | None = shown("the last hour that was seen; null: none", _last)


@dataclass(frozen=True)
class Document:
    """Output of `lockline fleet report --format json`; docs/fleet.md explains the fields."""

    schema: Literal["lockline-fleet/1"] = shown("this schema", lambda *_: SCHEMA)
    directory: str = shown("of the fleet")
    container: Name = shown("whose waits these are; null: of all tasks")
    threshold: float = shown("a difference below it does not count", "rule.threshold")
    alpha: Fraction = shown("chance of a false alarm in the whole report", "rule.alpha")
    min_share: float = shown("locks below it are not judged")
    period: Period = shown("what the figures are of")
    before: Period | None = shown("the period of the same length before it")
    share: Amount = shown("all lock waiting over all observed host time, weighted")
    lock_count: Count = shown("locks that were waited for")
    locks: tuple[Lock, ...] = shown("those with most waiting, most first")
    total_change: Effect | None = shown("of all judged locks together")
    groups: tuple[Group, ...] = shown("of hosts")
    different: tuple[GroupEffect, ...] = shown(
        "locks that some group waits for more, or less, than the others", "effects"
    )
    tested: Count = shown("comparisons in all, those without a finding included")
    findings: tuple[Finding, ...] = shown("by rule")
    programs: Programs | None = shown("their locks; null: no recording looked, or a container was chosen")
    expected: Count = shown("hosts that should be there")
    missing: tuple[Silent, ...] = shown("hosts without a recording")
    partial: tuple[Silent, ...] = shown("hosts that were seen for less than half the usual time")


@dataclass(frozen=True)
class Side:
    """One side of a comparison."""

    wanted: str = shown("as it was asked for", "text")
    period: Period = shown("what was observed")


@dataclass(frozen=True)
class LockChange:
    """One lock on both sides, or all of them."""

    lock: Name = shown("its name; null: all", "name")
    kind: Name = shown("of wait; null: all")
    effect: Effect = shown("the difference")


@dataclass(frozen=True)
class DiffDocument:
    """Output of `lockline fleet diff --format json`; docs/fleet.md explains the fields."""

    schema: Literal["lockline-fleet-diff/1"] = shown("this schema", lambda *_: DIFF_SCHEMA)
    directory: str = shown("of the fleet")
    threshold: float = shown("a difference below it does not count", "rule.threshold")
    alpha: Fraction = shown("chance of a false alarm", "rule.alpha")
    min_share: float = shown("locks below it are not judged")
    verdict: Verdict = shown("over all")
    before: Side = shown("one side")
    after: Side = shown("the other")
    total: LockChange = shown("all judged locks together")
    judged: Count = shown("locks that were judged")
    locks: tuple[LockChange, ...] = shown("by the size of the change")
    warnings: tuple[str, ...] = shown("what makes the comparison doubtful")


def render(report: FleetReport) -> str:
    """One JSON object on one line."""
    return as_line(walk(Document, report))


def render_diff(diff: FleetDiff) -> str:
    """One JSON object on one line."""
    return as_line(walk(DiffDocument, diff))
