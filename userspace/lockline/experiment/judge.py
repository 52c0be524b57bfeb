# SPDX-License-Identifier: GPL-2.0-or-later
"""What the slices of an experiment say: pure functions."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from lockline.base.paired_test import PairedTest, paired_test

Verdict = Literal["more", "less", "no difference", "cannot be told"]
# With fewer, of pairs or of blocks of them, no interval excludes anything.
FEWEST_PAIRS = 6
# An interval within this factor of 1 shows that there is no difference that matters.
_NO_MATTER = 1.2
# The difference that a longer experiment is to show.
WORTH_SEEING = 1.1


@dataclass(frozen=True, slots=True)
class Slice:
    """The measured part of a slice.  held_s: for how long its state lasted, warm-up included."""

    seconds: float
    work: float
    held_s: float

    @property
    def rate(self) -> float:
        """Work in a second."""
        return self.work / self.seconds


@dataclass(frozen=True, slots=True)
class Pair:
    """Two slices, one after the other; changed_first: the lot said so."""

    changed: Slice
    unchanged: Slice
    changed_first: bool


@dataclass(frozen=True, slots=True)
class Judgement:
    """test: None with too few pairs.  why_not: of what cannot be told.  enough_s: so long would do; None: not known."""

    verdict: Verdict
    test: PairedTest | None
    rate_changed: float
    rate_unchanged: float
    why_not: str = ""
    enough_s: float | None = None


def _rate(slices: Sequence[Slice]) -> float:
    seconds = math.fsum(one.seconds for one in slices)
    return math.fsum(one.work for one in slices) / seconds if seconds else 0.0


def _test(rates: Sequence[tuple[float, float]]) -> PairedTest:
    """The test of the pairs, and of blocks of 2, 4, 8, ... pairs that follow each other: the widest interval.

    Each alone is a valid test that the change makes the same difference in each pair.  If that difference comes and
    goes, as with other load on the machine, pairs that follow each other are alike: only blocks that are longer than
    that show how much the difference varies.
    """
    test = paired_test(rates)
    size = 2
    while -(-len(rates) // size) >= FEWEST_PAIRS:
        blocks = [rates[start : start + size] for start in range(0, len(rates), size)]
        sums = [(math.fsum(one for one, _ in block), math.fsum(other for _, other in block)) for block in blocks]
        wider = paired_test(sums)
        detectable = None
        if test.detectable is not None and wider.detectable is not None:
            detectable = max(test.detectable, wider.detectable)
        test = replace(
            test,
            low=min(test.low, wider.low),
            high=max(test.high, wider.high),
            p=max(test.p, wider.p),
            smallest_p=wider.smallest_p,
            detectable=detectable,
        )
        size *= 2
    return test


def _enough_s(test: PairedTest, took_s: float) -> float | None:
    """How long an experiment shows a difference of WORTH_SEEING: the interval narrows with the root of the time."""
    if test.detectable is None or test.detectable <= 1:
        return None
    return took_s * (math.log(test.detectable) / math.log(WORTH_SEEING)) ** 2


def judge(pairs: Sequence[Pair], took_s: float) -> Judgement:
    """What the pairs say; took_s: the time that they took."""
    changed, unchanged = _rate([one.changed for one in pairs]), _rate([one.unchanged for one in pairs])
    if len(pairs) < FEWEST_PAIRS:
        why = f"there are {len(pairs)} pairs of slices, and {FEWEST_PAIRS} are needed"
        enough = took_s / len(pairs) * FEWEST_PAIRS if pairs else None
        return Judgement("cannot be told", None, changed, unchanged, why, enough)
    test = _test([(one.changed.rate, one.unchanged.rate) for one in pairs])
    if not changed and not unchanged:
        return Judgement("cannot be told", test, changed, unchanged, "the counter did not move in any slice")
    if test.low > 1:
        return Judgement("more", test, changed, unchanged)
    if test.high < 1:
        return Judgement("less", test, changed, unchanged)
    enough = _enough_s(test, took_s)
    if test.low >= 1 / _NO_MATTER and test.high <= _NO_MATTER:
        return Judgement("no difference", test, changed, unchanged, enough_s=enough)
    idle = sum(not one.work for pair in pairs for one in (pair.changed, pair.unchanged))
    if idle > len(pairs) / 2:
        why = f"the counter did not move in {idle} of {2 * len(pairs)} slices: longer slices (--slice) say more"
    else:
        why = "the work comes in bursts that differ more from slice to slice than the change makes"
    return Judgement("cannot be told", test, changed, unchanged, why, enough)
