# SPDX-License-Identifier: GPL-2.0-or-later
"""What the probes do to the waits, and what a self-check found, in the report."""

from typing import Annotated, Literal

from lockline.analysis.trust import DISTORTION
from lockline.base.values import dataclass
from lockline.render.walker import Amount, Count, FiniteAmount, Fraction, Limits, Name, Positive, shown


@dataclass(frozen=True)
class Handoff:
    """What the programs do to a wait at each hand-off of the lock; null: not measured."""

    cut_ns: Amount | None = shown("off the begin of the wait")
    longer_ns: Amount | None = shown("on top of it")
    shortest_trusted_wait_ns: Count | None = shown(
        "from there on both together, and the clock's step, are at most `distortion` of a wait of one hand-off",
        "trusted_ns",
    )


@dataclass(frozen=True)
class Program:
    """A program on the waiting path."""

    name: str = shown("its name")
    place: Literal["begin", "lock held", "unlock", "switch"] = shown("where it runs")
    spinning: bool = shown("on spinning waits")
    sleeping: bool = shown("on sleeping waits")
    ns: Amount | None = shown("of a run on average; null: not measured")


@dataclass(frozen=True)
class Trust:
    """How far the lengths of waits can be trusted; see self-check.md."""

    distortion: Annotated[float, Limits({"exclusiveMinimum": 0, "maximum": 1})] = shown(
        "what part of a wait may be wrong for its length to be called trusted", lambda *_: DISTORTION
    )
    measurement_ns: Count | None = shown("what measuring adds to a run of a program")
    clock_step_ns: Count | None = shown("of a coarse clock")
    programs: tuple[Program, ...] = shown("on the waiting path")
    spinning: Handoff = shown("of locks that spin")
    sleeping: Handoff = shown("of locks that sleep")


@dataclass(frozen=True)
class PairedTest:
    """With against without the deeper probes, in pairs of slices."""

    ratio: Amount | None = shown("of the sums, with over without")
    low: FiniteAmount = shown("of its interval")
    high: FiniteAmount = shown("of its interval; null: no bound")
    confidence: Fraction = shown("of the interval")
    p: Fraction = shown("two-sided")
    smallest_p: Fraction = shown("what p could be at best with so many pairs")
    detectable_ratio: Annotated[float, Limits({"minimum": 1})] | None = shown(
        "that would have been found, about", "detectable"
    )


@dataclass(frozen=True)
class Observed:
    """What an observer saw in the slices of one side."""

    seconds: Amount = shown("of these slices")
    events: Count = shown("seen")
    outliers: Count = shown("of them")
    outliers_per_second: Amount | None = shown(
        "in these slices", lambda side, _: side.outlier_rate if side.seconds else None
    )
    outlier_part: Fraction | None = shown("of the events")
    average_ns: Amount | None = shown("of an event")
    p99_ns: Count | None = shown("of the events")
    p999_ns: Count | None = shown("of the events")


@dataclass(frozen=True)
class Measure:
    """An observer's outliers compared."""

    name: Literal["waits", "wake-ups"] = shown("what was observed")
    verdict: Literal["makes stalls", "hides stalls", "no difference found", "too few outliers to tell"] = shown(
        "what the deeper probes do"
    )
    outliers_from_ns: Count | None = shown("so long and longer", "bound_ns")
    with_probes: Observed = shown("with the deeper probes", name="with")
    without: Observed = shown("without them")
    test: PairedTest | None = shown("of the outliers")
    poisson_p: Fraction | None = shown("as if they came independently of each other")


@dataclass(frozen=True)
class SelfCheck:
    """Whether lockline itself makes stalls, or hides them; see self-check.md."""

    verdict: Literal[
        "makes stalls",
        "hides stalls",
        "makes some stalls and hides others",
        "no difference found",
        "too few outliers to tell",
    ] = shown("over all measures")
    pairs: Count = shown("of slices")
    slice_ns: Positive = shown("length of a slice")
    deeper: tuple[str, ...] = shown(
        "signals that were switched", lambda check, _: [signal for signal in check.deeper.split("; ") if signal]
    )
    observer: str = shown("of late wake-ups")
    waits_always: bool = shown("the probes of the waits were not among those switched")
    with_seconds: Amount = shown("with the deeper probes")
    without_seconds: Amount = shown("without them")
    measures: tuple[Measure, ...] = shown("by observer")
    switches: PairedTest | None = shown("context switches of the whole machine: a measure of its work")
    ended: Name = shown("why it ended before the recording did")
