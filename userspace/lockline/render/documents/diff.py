# SPDX-License-Identifier: GPL-2.0-or-later
"""The comparison of two recordings or samples, lockline-diff/2."""

from collections.abc import Callable
from typing import Annotated, Any, Literal

from lockline.base.values import dataclass
from lockline.diff.result import Diff
from lockline.render.documents import schemas
from lockline.render.walker import (
    Amount,
    At,
    Count,
    Finite,
    Fraction,
    Limits,
    Name,
    Positive,
    as_line,
    inline,
    shown,
    walk,
)

SCHEMA = schemas.DIFF

Verdict = Literal["improved", "regressed", "no difference", "inconclusive"]
Presence = Literal["both", "new", "gone"]
Numbers = Annotated[tuple[float, ...], Limits({"minItems": 1})]


def _itself(value: Any, _: At) -> Any:
    return value


def _top(name: str) -> Callable[[Any, At], Any]:
    return lambda value, at: getattr(value, name)[: at.top]


def _two(name: str) -> Callable[[Any, At], tuple[float, float]]:
    """Before and after of a figure."""
    return lambda value, _: (getattr(value.before, name), getattr(value.after, name))


@dataclass(frozen=True)
class Summary:
    """One side's samples in short."""

    n: Positive = shown("samples")
    average: Finite = shown("mean")
    median: Finite = shown("the middle one")
    minimum: float = shown("the smallest")
    maximum: float = shown("the largest")
    deviation: Finite = shown("of the sample; null: fewer than two")


@dataclass(frozen=True)
class Change:
    """From before to after; of the two."""

    absolute: Finite = shown("after less before", lambda two, _: two[1] - two[0])
    relative: Finite = shown("that over before", lambda two, _: (two[1] - two[0]) / abs(two[0]) if two[0] else None)


@dataclass(frozen=True)
class Difference:
    """The estimated difference with its interval; of a judgement."""

    estimate: Finite = shown("after less before", "difference.estimate")
    low: Finite = shown("of its interval", "difference.low")
    high: Finite = shown("of its interval", "difference.high")
    relative: Finite = shown("the estimate over before")
    relative_low: Finite = shown("of its interval")
    relative_high: Finite = shown("of its interval")
    confidence: Fraction = shown("of the interval", "difference.confidence")


@dataclass(frozen=True)
class Judgement:
    """What a test says."""

    test: str = shown("its name", "test.name")
    statistic: float = shown("of the test", "test.statistic")
    p: Fraction = shown("of the test", "test.p")
    corrected_p: Fraction = shown("where several things were tested", "p")
    tested: Positive = shown("how many things were tested together")
    correction: Literal["Holm"] | None = shown(
        "how p was corrected", lambda judgement, _: "Holm" if judgement.tested > 1 else None
    )
    smallest_p: Fraction | None = shown("what p could be at best with so many samples", "test.smallest_p")
    difference: Difference = shown("with its interval", _itself)
    verdict: Verdict = shown("what follows")
    reason: str = shown("why, in words")


@dataclass(frozen=True)
class Delta:
    """Changes of a summary."""

    average: Change = shown("of the means", _two("average"))
    median: Change = shown("of the medians", _two("median"))
    minimum: Change = shown("of the smallest", _two("minimum"))
    maximum: Change = shown("of the largest", _two("maximum"))


@dataclass(frozen=True)
class Overlap:
    """How far the samples of the two sides lie in each other."""

    ranges: bool = shown("whether their ranges overlap")
    before_inside: Count = shown("samples of before in after's range")
    after_inside: Count = shown("samples of after in before's range")
    after_larger: Fraction = shown("of all pairs, those in which after's is the larger", "pairs")


@dataclass(frozen=True)
class Comparison:
    """Two sets of samples compared."""

    before: Summary = shown("its samples in short")
    after: Summary = shown("its samples in short")
    delta: Delta = shown("changes", _itself)
    overlap: Overlap = shown("of the two")
    detectable: Finite = shown("difference that would have been found")
    judgement: Judgement = inline("judgement")


@dataclass(frozen=True)
class Values:
    """The samples themselves."""

    before: Numbers = shown("samples", "before.values")
    after: Numbers = shown("samples", "after.values")


@dataclass(frozen=True)
class Samples:
    """Samples of a benchmark compared."""

    unit: Name = shown("of the samples")
    higher_is_better: bool = shown("direction", "direction.higher_is_better")
    direction: str = shown("how that is known", "direction.reason")
    taken: str = shown("how the samples were taken from the file", "before.taken")
    values: Values = shown("the samples", _itself)
    comparison: Comparison = inline("comparison")


@dataclass(frozen=True)
class Side:
    """One recording."""

    hostname: str | None = shown("of the machine", "host.name")
    kernel_release: str | None = shown("as uname -r has it", "host.kernel_release")
    cpus_online: Count | None = shown("of the machine", "host.cpus_online")
    spinlock_mode: str | None = shown("how its spinlocks queue", "host.spinlock_mode")
    duration_ns: Count = shown("of the selected time", "window.duration_ns")
    locks: Count = shown("with waits")
    samples: Count = shown("shares over time that were compared, in blocks")
    sample_ns: Count = shown("the length of each")


@dataclass(frozen=True)
class Rates:
    """Waits of one side."""

    waits: Count = shown("how many")
    wait_ns: Count = shown("their sum")
    waits_per_s: float = shown("a second")
    share: float = shown("of the window")
    p50_ns: Count | None = shown("median")
    p99_ns: Count | None = shown("99 of 100 are shorter")
    max_ns: Count = shown("the longest")
    failed: Count = shown("ended without the lock")


@dataclass(frozen=True)
class WaitDifference:
    """Waits for one lock, of one kind, or in all."""

    lock: Name = shown("its name", "name")
    kind: Name = shown("of wait")
    presence: Presence = shown("in which recording it is")
    before: Rates = shown("its waits")
    after: Rates = shown("its waits")
    waits_per_s: Change = shown("change", _two("waits_per_s"))
    share: Change = shown("change", _two("share"))
    unjudged: Name = shown("why it was not judged")
    judged: Comparison | None = shown("of the mean share; its samples are blocks of time", "comparison")


@dataclass(frozen=True)
class Waits:
    """Lock waits compared."""

    before: Side = shown("one recording")
    after: Side = shown("the other")
    min_share: float = shown("locks below it are not judged")
    locks_judged: Count = shown("how many", "judged")
    total: WaitDifference = shown("all waits")
    kinds: tuple[WaitDifference, ...] = shown("by kind")
    locks: tuple[WaitDifference, ...] = shown("by lock", _top("locks"))


@dataclass(frozen=True)
class LineHitm:
    """Loads that found a line modified in another cache."""

    total: Count = shown("both", lambda rates, _: rates.local_hitm + rates.remote_hitm)
    local: Count = shown("on this node", "local_hitm")
    remote: Count = shown("on another node", "remote_hitm")


@dataclass(frozen=True)
class LinePeer:
    """Loads that another core's cache served."""

    total: Count = shown("both", lambda rates, _: rates.local_peer + rates.remote_peer)
    local: Count = shown("on this node", "local_peer")
    remote: Count = shown("on another node", "remote_peer")


@dataclass(frozen=True)
class LineRates:
    """Samples of a line on one side."""

    lines: Count = shown("that are meant")
    records: Count | None = shown("samples")
    loads: Count | None = shown("loads")
    stores: Count | None = shown("stores")
    hitm: LineHitm = shown("loads that found it modified", _itself)
    peer: LinePeer = shown("loads that another core served", _itself)
    cpus: Count | None = shown("that use it")
    per_10k: float = shown("transfers in 10,000 samples")
    share: float = shown("of all transfers of the recording")


@dataclass(frozen=True)
class LineDifference:
    """One line, or all."""

    line: Name = shown("its name", "name")
    named_by: str = shown("how it is known again")
    presence: Presence = shown("in which recording it is")
    before: LineRates = shown("its samples")
    after: LineRates = shown("its samples")
    per_10k: Change = shown("change", _two("per_10k"))
    unjudged: Name = shown("why it was not judged")
    judged: Judgement | None = shown("what the test says", "judgement")


@dataclass(frozen=True)
class LineSamples:
    """Samples of both recordings."""

    before: Count = shown("samples", lambda samples, _: samples[0])
    after: Count = shown("samples", lambda samples, _: samples[1])


@dataclass(frozen=True)
class Lines:
    """Sampled cache lines compared."""

    metric: Literal["hitm", "peer"] = shown("what was compared")
    samples: LineSamples = shown("of both recordings")
    lines_judged: Count = shown("how many", "judged")
    total: LineDifference = shown("all lines")
    lines: tuple[LineDifference, ...] = shown("by line", _top("lines"))


@dataclass(frozen=True)
class WatchedRate:
    """Transfers of a watched line on one side."""

    transfers: Count = shown("that were seen", "seen")
    share: Fraction = shown("of the line's")
    per_second: Amount | None = shown("null of samples")
    error_per_second: Amount | None = shown("one standard error", "error")
    at_least: bool = shown("a lower bound")


def _rate_change(value: Any, _: At) -> tuple[float, float] | None:
    rates = [side.per_second if side else None for side in (value.before, value.after)]
    return None if rates[0] is None or rates[1] is None else (rates[0], rates[1])


@dataclass(frozen=True)
class WatchedDifference:
    """One watched line, or one member of it."""

    line: str = shown("its name")
    member: Name = shown("of the type; null: the whole line")
    presence: Presence = shown("in which recording it is")
    before: WatchedRate | None = shown("its transfers")
    after: WatchedRate | None = shown("its transfers")
    per_second: Change | None = shown("change", _rate_change)
    unjudged: Name = shown("why it was not judged")
    judged: Judgement | None = shown("what the test says", "judgement")


@dataclass(frozen=True)
class Watched:
    """Watched lines compared."""

    judged: Count = shown("how many")
    lines: tuple[WatchedDifference, ...] = shown("by line and member", _top("differences"))


@dataclass(frozen=True)
class Document:
    """Output of `lockline diff --format json`; docs/diff.md explains the fields."""

    schema: Literal["lockline-diff/2"] = shown("this schema", lambda *_: SCHEMA)
    before: str = shown("one file")
    after: str = shown("the other")
    threshold: float = shown("a difference below it does not count", "rule.threshold")
    alpha: Fraction = shown("chance of a false alarm", "rule.alpha")
    verdict: Verdict = shown("over all")
    warnings: tuple[str, ...] = shown("what makes the comparison doubtful")
    samples: Samples | None = shown("of a benchmark")
    waits: Waits | None = shown("of two recordings")
    lines: Lines | None = shown("of two recordings with samples of memory accesses")
    watched: Watched | None = shown("of two recordings of watched lines")


def document(diff: Diff, top: int | None = None) -> dict[str, Any]:
    """The comparison as JSON values; top: entries of each list, None for all."""
    return walk(Document, diff, top=top)


def render(diff: Diff, top: int | None = None) -> str:
    """One JSON object on one line; top: entries of each list, None for all."""
    return as_line(document(diff, top))
