# SPDX-License-Identifier: GPL-2.0-or-later
"""Counters for a monitoring system, from the reports of recordings that follow each other.

A recording's totals begin at zero; these counters never go back.  Their number is bounded: a lock or container has a
series of its own once it was among the heaviest, all else is in the series "other", so that the sums are those of all
waits.  What was not among the heaviest for long makes room for others, and what it had counted goes to "retired".
No address and no id of a task is in a label.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from lockline.analysis.containers import SHORT_ID
from lockline.analysis.model import Report
from lockline.base import histogram

OTHER = "other"
RETIRED = "retired"
# Updates without being among the heaviest, after which a series makes room.
PATIENCE = 40
# Upper ends of the histogram's buckets in ns, all of them ends of a recording's buckets too.
BUCKETS_NS = tuple(1 << power for power in range(10, 35, 2))
NS = 1_000_000_000

_LONGEST_LABEL = 120
_ADDRESS = re.compile(r"0x[0-9a-f]{5,}|\b[0-9a-f]{12,16}\b")

Labels = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Tally:
    """Waits and their sum."""

    waits: int = 0
    wait_ns: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(self.waits + other.waits, self.wait_ns + other.wait_ns)

    def since(self, before: "Tally") -> "Tally":
        """What was gained; nothing where a figure went back."""
        return Tally(max(0, self.waits - before.waits), max(0, self.wait_ns - before.wait_ns))


@dataclass(frozen=True, slots=True)
class Series:
    """Counters of one family by their labels.

    counted: what is shown.  idle: updates since a series was last among the heaviest.  seen: totals of the recording
    at the last update.
    """

    counted: Mapping[Labels, Tally] = field(default_factory=dict)
    idle: Mapping[Labels, int] = field(default_factory=dict)
    seen: Mapping[Labels, Tally] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Metrics:
    """All that is shown.  run: the begin of the recording that the last update was from, in ns; 0: none yet."""

    run: int = 0
    updates: int = 0
    locks: Series = field(default_factory=Series)
    containers: Series = field(default_factory=Series)
    # By kind: waits by the bucket of BUCKETS_NS, the last for all longer ones.
    kinds: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    kinds_seen: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    # Other counters, by name and label.
    counters: Mapping[tuple[str, str], int] = field(default_factory=dict)
    counters_seen: Mapping[tuple[str, str], int] = field(default_factory=dict)
    findings: Mapping[str, int] = field(default_factory=dict)
    memory_bytes: int = 0


def _name(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text)[:_LONGEST_LABEL]


def label(text: str) -> str:
    """Text that is fit for a label: printable, not long, without addresses."""
    return _ADDRESS.sub("ADDRESS", _name(text)) or "unknown"


def advance_series(before: Series, totals: Mapping[Labels, Tally], limit: int, *, restarted: bool) -> Series:
    """The series after an update with these totals; restarted: they are those of a new recording.

    At most `limit` series have names of their own; "other" and "retired" keep the kind of wait, a lock's first label.
    """
    seen: Mapping[Labels, Tally] = {} if restarted else before.seen
    gained = _gained(totals, seen)
    heaviest = sorted(
        (labels for labels, gain in gained.items() if gain.wait_ns),
        key=lambda labels: (-gained[labels].wait_ns, labels),
    )[:limit]
    counted = dict(before.counted)
    idle = {labels: count + 1 for labels, count in before.idle.items()}
    for labels in heaviest:
        if labels not in idle and len(idle) >= limit:
            oldest = max(idle, key=lambda one: (idle[one], one))
            if idle[oldest] <= PATIENCE:
                continue
            del idle[oldest]
            retired = _rest(oldest, RETIRED)
            counted[retired] = counted.get(retired, Tally()) + counted.pop(oldest)
        idle[labels] = 0
    for labels, gain in gained.items():
        place = labels if labels in idle else _rest(labels, OTHER)
        counted[place] = counted.get(place, Tally()) + gain
    return Series(counted, idle, dict(totals))


def _gained(totals: Mapping[Labels, Tally], seen: Mapping[Labels, Tally]) -> dict[Labels, Tally]:
    """What each has more than before.  A lock may get its name late: what moved to it is counted already."""
    gained = {labels: total.since(seen.get(labels, Tally())) for labels, total in totals.items()}
    moved: dict[str, Tally] = {}
    for labels, before in seen.items():
        kind = _rest(labels, OTHER)[0]
        moved[kind] = moved.get(kind, Tally()) + before.since(totals.get(labels, Tally()))
    for labels in sorted(gained, key=lambda one: (one in seen, -gained[one].wait_ns, one)):
        left, gain = moved.get(_rest(labels, OTHER)[0], Tally()), gained[labels]
        gained[labels] = gain.since(left)
        moved[_rest(labels, OTHER)[0]] = left.since(gain)
    return gained


def _rest(labels: Labels, name: str) -> Labels:
    # Of a lock the kind stays, so that the sums of each kind hold.
    return (labels[0], name) if len(labels) == 2 else (name,) * len(labels)


def _add(into: dict[Labels, Tally], labels: Labels, tally: Tally) -> None:
    into[labels] = into.get(labels, Tally()) + tally


def _buckets(counts: Iterable[int]) -> tuple[int, ...]:
    """Waits by BUCKETS_NS, from those by the recording's buckets; what is on no side of an end does not exist."""
    found = [0] * (len(BUCKETS_NS) + 1)
    for index, count in enumerate(counts):
        if count:
            end = histogram.upper_bound(index)
            place = next(
                (at for at, bound in enumerate(BUCKETS_NS) if end is not None and end <= bound), len(BUCKETS_NS)
            )
            found[place] += count
    return tuple(found)


def _gain(now: tuple[int, ...], before: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(max(0, one - other) for one, other in zip(now, before or (0,) * len(now), strict=True))


def _counters(report: Report) -> dict[tuple[str, str], int]:
    """Whole numbers that grow while a recording lasts, by name and label."""
    found = {("recorded_ns", ""): report.window.recording_end_ns - report.window.recording_begin_ns}
    if report.cost.estimated_ns is not None:
        found["probe_ns", ""] = report.cost.estimated_ns
    for cost in report.cost.collector:
        if cost.name == "collector_cpu_ns":
            found["collector_cpu_ns", ""] = cost.value
    for loss in report.loss:
        if loss.severity == "loss":
            found["lost", label(loss.name)] = loss.events
    return found


def advance(before: Metrics, report: Report, most_locks: int, most_containers: int) -> Metrics:
    """The metrics after a report of the recording that runs, or of one that began after it."""
    restarted = report.window.recording_begin_ns != before.run
    locks: dict[Labels, Tally] = {}
    for lock in report.locks:
        _add(locks, (label(lock.kind), label(lock.name)), Tally(lock.figures.waits, lock.figures.wait_ns))
    containers: dict[Labels, Tally] = {}
    for cgroup in report.cgroups:
        row = cgroup.container
        names = (row.namespace, row.pod, row.name or row.container[:SHORT_ID]) if row and cgroup.name else ("", "", "")
        _add(containers, tuple(_name(name) for name in names), Tally(cgroup.waits, cgroup.wait_ns))
    kinds = {label(kind.kind): _buckets(kind.figures.histogram) for kind in report.kinds}
    buckets = dict(before.kinds)
    for kind, counts in kinds.items():
        gained = _gain(counts, () if restarted else before.kinds_seen.get(kind, ()))
        old = buckets.get(kind, (0,) * len(gained))
        buckets[kind] = tuple(one + other for one, other in zip(old, gained, strict=True))
    now = _counters(report)
    counters = dict(before.counters)
    for name, value in now.items():
        gain = max(0, value - (0 if restarted else before.counters_seen.get(name, 0)))
        counters[name] = counters.get(name, 0) + gain
    findings = dict.fromkeys(before.findings, 0)
    for finding in report.findings:
        findings[finding.rule] = findings.get(finding.rule, 0) + 1
    memory = report.cost.value("collector_peak_rss_bytes")
    return replace(
        before,
        run=report.window.recording_begin_ns,
        updates=before.updates + 1,
        locks=advance_series(before.locks, locks, most_locks, restarted=restarted),
        containers=advance_series(before.containers, containers, most_containers, restarted=restarted),
        kinds=buckets,
        kinds_seen=kinds,
        counters=counters,
        counters_seen=now,
        findings=findings,
        memory_bytes=memory,
    )
