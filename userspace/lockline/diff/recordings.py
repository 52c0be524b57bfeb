# SPDX-License-Identifier: GPL-2.0-or-later
"""Waits of two recordings, by lock identity: name and kind, never the address."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from lockline.analysis.model import Figures, Host, Window
from lockline.analysis.report import SLACK_NS, read_host, read_window
from lockline.analysis.selection import Selection, lock_matches
from lockline.analysis.waits import UNKNOWN_LOCK, Limits, Waits, read_waits
from lockline.base.blocks import BlockTest
from lockline.base.errors import LocklineError
from lockline.base.statistics import holm
from lockline.diff.model import MAX_JUDGED, Comparison, Rule, compare_shares, judge
from lockline.recording.reader import Recording

Identity = tuple[str, str]
Presence = Literal["both", "new", "gone"]

# What is as long as this part of a sample is one.
_WHOLE = 0.75
# So many times the length of a burst has enough of them.
_ENOUGH = 16
# Slower than a drift that a recording shows, by so much, is what hides it.
_LONGER = 8
# From so much dependence on it is worth a word.
_BURSTS = 1.5

# What makes two recordings hard to compare, if it differs: fact of meta, and what it is called.
_CONDITIONS = (
    ("hostname", "hosts"),
    ("architecture", "architectures"),
    ("cpu_model", "CPU models"),
    ("cpus_online", "numbers of CPUs"),
    ("memory_total_bytes", "memory sizes"),
    ("kernel_release", "kernels"),
    ("kernel_version", "kernel builds"),
    ("spinlock_mode", "kinds of spinlock"),
    ("clocksource", "clocksources"),
    ("filter", "filters"),
    ("interval_ns", "intervals"),
    ("lockline_version", "versions of lockline"),
)
# Longer by more than this is reported.
_MAX_LENGTH_RATIO = 1.25


@dataclass(frozen=True, slots=True)
class Rates:
    """One side's waits, per second of the window.  share: wait time per time; 1.0 is one waiter all the time."""

    waits: int
    wait_ns: int
    waits_per_s: float
    share: float
    p50_ns: int | None
    p99_ns: int | None
    max_ns: int
    failed: int


@dataclass(frozen=True, slots=True)
class WaitDifference:
    """One identity on both sides; name and kind are '' for what they are summed over.

    comparison: of the share over time; None where it was not judged, for the reason in unjudged.
    hint: how to record so that it can be decided, '' where that makes no difference.
    """

    name: str
    kind: str
    presence: Presence
    before: Rates
    after: Rates
    comparison: Comparison | None
    unjudged: str
    hint: str


@dataclass(frozen=True, slots=True)
class Side:
    """What one recording is, beside its waits; sample_ns: the length of each sample of its series."""

    path: str
    host: Host
    window: Window
    locks: int
    samples: int
    sample_ns: int


@dataclass(frozen=True, slots=True)
class WaitsDiff:
    """All waits, by kind, and by lock, in the order of the change."""

    before: Side
    after: Side
    total: WaitDifference
    kinds: tuple[WaitDifference, ...]
    locks: tuple[WaitDifference, ...]
    judged: int
    min_share: float


@dataclass(frozen=True, slots=True)
class _Read:
    """A recording's figures by identity, and its series: wait ns per identity and interval."""

    path: str
    host: Host
    window: Window
    waits: Waits
    by_identity: Mapping[Identity, Figures]
    lengths: Mapping[int, int]
    series: Mapping[Identity, Mapping[int, int]]


def _intervals(recording: Recording) -> dict[int, int]:
    """Length in ns by interval."""
    return {row.id: row.end_ns - row.begin_ns for row in recording.intervals() if row.end_ns > row.begin_ns}


def read_side(recording: Recording, selection: Selection) -> _Read:
    """All waits of a recording.  Raises RecordingError if it is damaged."""
    meta, kinds, locks = recording.meta(), recording.kinds(), recording.locks()
    selected = None
    if selection.lock is not None:
        selected = {lock.id for lock in locks.values() if lock_matches(selection.lock, lock.name)}
    window, _ = read_window(recording, meta, selection, locks, kinds)
    span = window.end_ns - window.begin_ns
    limits = Limits(span + SLACK_NS if span > 0 else None, window.cpus)
    waits = read_waits(recording, selection, None, kinds, None, locks, limits)
    series: defaultdict[Identity, Counter[int]] = defaultdict(Counter)
    for row in recording.interval_sums(limits.span_ns):
        if selected is None or row.lock in selected:
            identity = locks.get(row.lock, UNKNOWN_LOCK).name, kinds.get(row.kind, f"kind {row.kind}")
            series[identity][row.interval] += row.wait_ns
    return _Read(
        path=recording.path,
        host=read_host(meta),
        window=window,
        waits=waits,
        by_identity={(lock.name, lock.kind): lock.figures for lock in waits.locks},
        lengths=_intervals(recording),
        series=series,
    )


def _rates(figures: Figures | None, window: Window) -> Rates:
    if figures is None:
        return Rates(0, 0, 0.0, 0.0, None, None, 0, 0)
    seconds = window.duration_ns / 1e9
    return Rates(
        figures.waits,
        figures.wait_ns,
        figures.waits / seconds,
        figures.wait_ns / window.duration_ns,
        figures.percentile(0.5),
        figures.percentile(0.99),
        figures.max_ns,
        figures.failed,
    )


def resolution(*sides: Mapping[int, int]) -> int:
    """ns: the length to which the intervals of all sides are joined; nine of ten are no longer.  0: there are none.

    A recording's first intervals are shorter than the later ones.
    """
    return max((sorted(side.values())[(len(side) * 9 - 1) // 10] for side in sides if side), default=0)


def shares(lengths: Mapping[int, int], waited: Mapping[int, int], sample_ns: int) -> list[float]:
    """Wait time per time of intervals joined until they are about as long as a sample; a short rest is left out."""
    out = []
    waited_ns = length_ns = 0
    for interval in sorted(lengths):
        waited_ns += waited.get(interval, 0)
        length_ns += lengths[interval]
        if length_ns >= sample_ns * _WHOLE:
            out.append(waited_ns / length_ns)
            waited_ns = length_ns = 0
    return out


def _sum(series: Sequence[Mapping[int, int]]) -> Counter[int]:
    total: Counter[int] = Counter()
    for one in series:
        total.update(one)
    return total


def _unjudged(before: Rates, after: Rates, min_share: float) -> str:
    if max(before.share, after.share) < min_share:
        return f"waiting below {min_share * 100:.3g} % of the window on both sides"
    return ""


class _Differ:
    """Two recordings against each other, with the same blocks for all of their series."""

    def __init__(self, before: _Read, after: _Read, rule: Rule, min_share: float) -> None:
        self.before, self.after, self.rule, self.min_share = before, after, rule, min_share
        # -L and -S: waits that one side did not record are no change.
        self.apart = before.window.wait_filter != after.window.wait_filter
        # One length for both: of unlike lengths they would have unlike spreads.
        self.sample_ns = resolution(before.lengths, after.lengths)

    def samples(self, side: _Read, identities: Sequence[Identity]) -> list[float]:
        waited = _sum([side.series[identity] for identity in identities if identity in side.series])
        return shares(side.lengths, waited, self.sample_ns)

    def bursts(self, found: BlockTest) -> str:
        """What to do about samples that depend on each other, '' if they hardly do."""
        if found.drift >= _BURSTS:
            longest = max(side.window.duration_ns for side in (self.before, self.after)) / 1e9
            return (
                "the load itself drifts within each recording: "
                f"record several pairs in turn, or for {_LONGER * longest:.0f} s"
            )
        if found.inflation < _BURSTS:
            return ""
        burst = found.correlated * self.sample_ns / 1e9
        return f"waiting comes in bursts of {burst:.2g} s: record both sides for {_ENOUGH * burst:.0f} s or longer"

    def difference(
        self,
        identity: Identity,
        members: Sequence[Identity],
        figures: tuple[Figures | None, Figures | None],
        judged: bool = True,
    ) -> WaitDifference:
        before, after = _rates(figures[0], self.before.window), _rates(figures[1], self.after.window)
        unjudged = _unjudged(before, after, self.min_share)
        if not unjudged and not judged:
            unjudged = f"beyond the {MAX_JUDGED} locks with most waiting"
        if not unjudged and self.apart:
            unjudged = "the recordings chose different waits (-L, -S)"
        comparison, hint = None, ""
        if not unjudged:
            sides = self.samples(self.before, members), self.samples(self.after, members)
            if all(sides):
                comparison, found = compare_shares(*sides, self.rule)
                hint = self.bursts(found)
            else:
                unjudged = "a recording without intervals"
        presence: Presence = "both" if before.waits and after.waits else "new" if after.waits else "gone"
        return WaitDifference(*identity, presence, before, after, comparison, unjudged, hint)


def corrected(differences: Sequence[WaitDifference], rule: Rule) -> list[WaitDifference]:
    """The differences with p values and verdicts corrected for there being several."""
    compared = [difference.comparison for difference in differences if difference.comparison is not None]
    values = iter(holm([comparison.judgement.test.p for comparison in compared]))
    out = []
    for difference in differences:
        comparison = difference.comparison
        if comparison is not None:
            judgement = replace(comparison.judgement, p=next(values), tested=len(compared))
            judgement = judge(judgement, rule, higher_is_better=False)
            difference = replace(difference, comparison=replace(comparison, judgement=judgement))
        out.append(difference)
    return out


def _change(difference: WaitDifference) -> tuple[float, float, str, str]:
    shares_of = difference.before.share, difference.after.share
    return -abs(shares_of[1] - shares_of[0]), -max(shares_of), difference.name, difference.kind


def conditions(before: Recording, after: Recording) -> list[str]:
    """What differs between the machines and the options of two recordings, in words."""
    facts = before.meta(), after.meta()
    warnings = []
    for fact, name in _CONDITIONS:
        values = [str(side.get(fact) or "") for side in facts]
        if values[0] != values[1]:
            warnings.append(f"different {name}: {values[0] or 'not known'} and {values[1] or 'not known'}")
    return warnings


def _windows(before: _Read, after: _Read) -> list[str]:
    warnings = []
    lengths = [side.window.duration_ns for side in (before, after)]
    if max(lengths) > min(lengths) * _MAX_LENGTH_RATIO:
        lengths_s = [length / 1e9 for length in lengths]
        warnings.append(
            f"different lengths: {lengths_s[0]:.1f} s and {lengths_s[1]:.1f} s; figures are per second, "
            "but the longest wait grows with the time that one looks"
        )
    warnings += [
        f"{side.path} was cut off or is still being recorded"
        for side in (before, after)
        if side.window.state == "recording"
    ]
    return warnings


def _chosen(before: _Read, after: _Read) -> list[str]:
    filters = [side.window.wait_filter or "all waits" for side in (before, after)]
    if filters[0] == filters[1]:
        return []
    return [f"different waits were chosen, {filters[0]} and {filters[1]}: locks that only one side has are left out"]


def _plans(before: Recording, after: Recording) -> list[str]:
    plans = [{probe.signal: probe.state for probe in side.probes()} for side in (before, after)]
    return [
        f"different signals, {signal}: {plans[0][signal]} and {plans[1][signal]}; "
        "waits that only one side could see are no change"
        for signal in sorted(plans[0].keys() & plans[1].keys())
        if (plans[0][signal] == "on") != (plans[1][signal] == "on")
    ]


def _programs(before: Recording, after: Recording) -> list[str]:
    """What a side knows of locks of programs is in no figure here: "no difference" says nothing about them."""
    if not (before.saw_futexes() or after.saw_futexes()):
        return []
    return ["locks of programs are not compared: `lockline report` shows those of each side"]


def diff_waits(
    before: Recording, after: Recording, rule: Rule, min_share: float, lock: str | None = None
) -> tuple[WaitsDiff, list[str]]:
    """Compare the waits of two recordings; also gives what makes them hard to compare.

    Raises RecordingError if one is damaged, LocklineError if there is nothing to compare.
    """
    selection = Selection(lock=lock)
    sides = read_side(before, selection), read_side(after, selection)
    for side in sides:
        if not side.window.duration_ns:
            raise LocklineError(f"{side.path}: holds no time: nothing to compare")
    if lock is not None and not (sides[0].by_identity or sides[1].by_identity):
        raise LocklineError(f"--lock: no lock of either recording that was waited for matches '{lock}'")
    differ = _Differ(*sides, rule, min_share)
    identities = sorted(sides[0].by_identity.keys() | sides[1].by_identity.keys())
    if differ.apart:
        identities = [found for found in identities if all(found in side.by_identity for side in sides)]

    def weight(identity: Identity) -> float:
        found = [side.by_identity.get(identity) for side in sides]
        return max(
            figures.wait_ns / side.window.duration_ns for figures, side in zip(found, sides, strict=True) if figures
        )

    judged = set(sorted(identities, key=lambda identity: (-weight(identity), identity))[:MAX_JUDGED])
    locks = corrected(
        [
            differ.difference(
                identity,
                [identity],
                (sides[0].by_identity.get(identity), sides[1].by_identity.get(identity)),
                identity in judged,
            )
            for identity in identities
        ],
        rule,
    )
    by_kind = [{kind.kind: kind.figures for kind in side.waits.kinds} for side in sides]
    kinds = corrected(
        [
            differ.difference(
                ("", kind),
                [identity for identity in identities if identity[1] == kind],
                (by_kind[0].get(kind), by_kind[1].get(kind)),
            )
            for kind in sorted(by_kind[0].keys() & by_kind[1].keys() if differ.apart else by_kind[0] | by_kind[1])
        ],
        rule,
    )
    totals = sides[0].waits.totals, sides[1].waits.totals
    described = [
        Side(
            side.path,
            side.host,
            side.window,
            len(side.by_identity),
            len(shares(side.lengths, {}, differ.sample_ns)),
            differ.sample_ns,
        )
        for side in sides
    ]
    warnings = _programs(before, after) + _windows(*sides) + _chosen(*sides) + _plans(before, after)
    return (
        WaitsDiff(
            before=described[0],
            after=described[1],
            total=differ.difference(("", ""), identities, totals),
            kinds=tuple(sorted(kinds, key=_change)),
            locks=tuple(sorted(locks, key=_change)),
            judged=sum(difference.comparison is not None for difference in locks),
            min_share=min_share,
        ),
        warnings,
    )
