# SPDX-License-Identifier: GPL-2.0-or-later
"""The values that a comparison gives, and how a verdict is reached."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from lockline.base.blocks import BlockTest, compare_series
from lockline.base.statistics import (
    ALPHA,
    Interval,
    Summary,
    Test,
    compare_counts,
    detectable,
    hodges_lehmann,
    mann_whitney,
    summarize,
)

Verdict = Literal["improved", "regressed", "no difference", "inconclusive"]

DEFAULT_THRESHOLD = 0.02
# Locks with less waiting than this share of the window on both sides are listed, not judged.
DEFAULT_MIN_SHARE = 0.001
# Of the locks, or cache lines, with most waiting or transfers: the others are listed, not judged.
MAX_JUDGED = 50


@dataclass(frozen=True, slots=True)
class Rule:
    """How a verdict is reached; threshold: the difference that matters, a fraction of before's median."""

    threshold: float = DEFAULT_THRESHOLD
    alpha: float = ALPHA


@dataclass(frozen=True, slots=True)
class Overlap:
    """Whether the sides' ranges meet; inside: samples of each that lie within the other's range.

    pairs: of all pairs of a sample of before and one of after, the fraction in which after's is the larger
    (ties half).
    """

    ranges: bool
    before_inside: int
    after_inside: int
    pairs: float


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is made of a test and an interval; relative figures are fractions of before's median, None if that is 0.

    p: corrected where several things were tested (see tested), else the test's own.  reason: in words.
    """

    test: Test
    p: float
    tested: int
    difference: Interval
    relative: float | None
    relative_low: float | None
    relative_high: float | None
    verdict: Verdict
    reason: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Samples of both sides against each other; detectable: see statistics.detectable(), relative to the median."""

    before: Summary
    after: Summary
    overlap: Overlap
    detectable: float | None
    judgement: Judgement


def _ratio(value: float | None, base: float) -> float | None:
    if value is None or base == 0:
        return None
    ratio = value / abs(base)
    return ratio if math.isfinite(ratio) else None


def overlap(before: Sequence[float], after: Sequence[float], statistic: float) -> Overlap:
    """Of samples that are there on both sides; statistic: U of after."""
    low, high = max(min(before), min(after)), min(max(before), max(after))
    return Overlap(
        low <= high,
        sum(low <= value <= high for value in before),
        sum(low <= value <= high for value in after),
        statistic / (len(before) * len(after)),
    )


def _percent(value: float) -> str:
    return f"{value * 100:.3g} %" if value < 10 else f"{value * 100:,.0f} %"


def judge(judgement: Judgement, rule: Rule, higher_is_better: bool) -> Judgement:
    """The judgement with its verdict and reason, from its p, its interval and the rule.

    A difference counts if it is significant and its estimate reaches the threshold.  None is claimed only if
    the interval lies within the threshold on both sides of zero; all else is inconclusive.
    """
    difference = judgement.difference
    limit = _percent(rule.threshold)

    def told(verdict: Verdict, reason: str) -> Judgement:
        return replace(judgement, verdict=verdict, reason=reason)

    smallest = judgement.test.smallest_p
    if smallest is not None and smallest > rule.alpha:
        return told("inconclusive", f"too few samples: whatever they are, p cannot be below {smallest:.2g}")
    significant = judgement.p < rule.alpha
    reaches = judgement.relative is None or abs(judgement.relative) >= rule.threshold
    if significant and reaches and difference.estimate:
        better = (difference.estimate > 0) == higher_is_better
        return told("improved" if better else "regressed", f"p < {rule.alpha:g}, and the difference reaches {limit}")
    low, high = judgement.relative_low, judgement.relative_high
    if low is None or high is None:
        if difference.low == difference.high == difference.estimate == 0:
            return told("no difference", "all alike")
        return told("inconclusive", "the difference cannot be given in percent")
    if -rule.threshold < low and high < rule.threshold:
        return told("no difference", f"the interval of the difference lies within {limit}")
    if significant:
        return told("inconclusive", f"a difference, but it may lie below or above {limit}")
    return told("inconclusive", f"spread too wide for so few samples: up to {_percent(max(-low, high))} is possible")


def compare(
    before: Sequence[float],
    after: Sequence[float],
    higher_is_better: bool,
    rule: Rule = Rule(),
) -> Comparison:
    """Compare two sides' samples.  Raises ValueError if one is empty."""
    test = mann_whitney(before, after)
    difference = hodges_lehmann(before, after, rule.alpha)
    base = summarize(before)
    judgement = Judgement(
        test=test,
        p=test.p,
        tested=1,
        difference=difference,
        relative=_ratio(difference.estimate, base.median),
        relative_low=_ratio(difference.low, base.median),
        relative_high=_ratio(difference.high, base.median),
        verdict="inconclusive",
        reason="",
    )
    return Comparison(
        before=base,
        after=summarize(after),
        overlap=overlap(before, after, test.statistic),
        detectable=_ratio(detectable(before, after, rule.alpha), base.median),
        judgement=judge(judgement, rule, higher_is_better),
    )


def compare_shares(
    before: Sequence[float], after: Sequence[float], rule: Rule = Rule()
) -> tuple[Comparison, BlockTest]:
    """Compare two series of shares, less being better; see blocks.  Raises ValueError if one is empty."""
    found = compare_series(before, after, rule.alpha)
    ratio = found.ratio
    judgement = Judgement(
        test=found.test,
        p=found.test.p,
        tested=1,
        difference=found.difference,
        relative=ratio.estimate if ratio else None,
        relative_low=ratio.low if ratio else None,
        relative_high=ratio.high if ratio else None,
        verdict="inconclusive",
        reason="",
    )
    larger = sum((new > old) + (new == old) / 2 for new in found.after for old in found.before)
    least = detectable(found.before, found.after, rule.alpha)
    base = summarize(found.before)
    comparison = Comparison(
        before=base,
        after=summarize(found.after),
        overlap=overlap(found.before, found.after, larger),
        detectable=_ratio(None if least is None else least * max(found.inflation, found.drift), base.average),
        judgement=judge(judgement, rule, higher_is_better=False),
    )
    return comparison, found


def count_judgement(before: int, before_base: float, after: int, after_base: float, rule: Rule) -> Judgement:
    """Compare two counts of events per base, fewer being better."""
    test, ratio = compare_counts(before, before_base, after, after_base, rule.alpha)
    known = before > 0
    judgement = Judgement(
        test=test,
        p=test.p,
        tested=1,
        difference=ratio,
        relative=ratio.estimate if known else None,
        relative_low=ratio.low if known else None,
        relative_high=ratio.high if known else None,
        verdict="inconclusive",
        reason="",
    )
    return judge(judgement, rule, higher_is_better=False)
