# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether a count differs between the two halves of pairs whose order was drawn by lot.

If it makes no difference which half was which, every exchange of the halves of some pairs was as likely as what
was found (R. A. Fisher: The Design of Experiments, 1935): nothing is asked of the events' distribution, which for
stalls comes in bursts, only that the order was drawn.  The interval is that of the ratios at which the test
does not reject; those turn out to be quantiles of the ratios of subsets (J. A. Hartigan: Using subsample
values as typical values, 1969).
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import add, ge, itemgetter, le
from statistics import NormalDist

from lockline.base.statistics import ranked

ALPHA = 0.05
POWER = 0.8

# Up to so many pairs every exchange is looked at; beyond, so many of them, drawn by lot.
EXACT_PAIRS = 14
DRAWN = 10_000
# More pairs than that are exchanged in groups of neighbours, which is a valid test too.
MOST_PAIRS = 160

# The test must not depend on when it is made.
_SEED = 1935
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class PairedTest:
    """The ratio of the sums with : without; low 0 or high inf: no such bound.

    p: two-sided.  smallest_p: what it could be at best with so many pairs.  detectable: the ratio above 1 that would
    have been found with a chance of POWER, about; None: none.
    """

    ratio: float | None
    low: float
    high: float
    confidence: float
    p: float
    smallest_p: float
    detectable: float | None


def _grouped(pairs: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    size = -(-len(pairs) // MOST_PAIRS)
    groups = [pairs[start : start + size] for start in range(0, len(pairs), max(size, 1))]
    return [(math.fsum(first for first, _ in group), math.fsum(second for _, second in group)) for group in groups]


# The sums of the first of each pair of a subset, and those of the second.
_Sums = tuple[list[float], list[float]]


def _all_sums(pairs: Sequence[tuple[float, float]]) -> _Sums:
    """The sums of every subset, the empty one first."""
    ones, others = [0.0], [0.0]
    for one, other in pairs:
        ones += [value + one for value in ones]
        others += [value + other for value in others]
    return ones, others


@lru_cache(maxsize=4)
def _draws(sizes: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """DRAWN indices for each table of such a size: always the same, so a report with several tests draws once."""
    generator = random.Random(_SEED)
    ranges = [range(size) for size in sizes]
    return tuple(zip(*([generator.choice(one) for one in ranges] for _ in range(DRAWN)), strict=True))


def _subset_sums(pairs: Sequence[tuple[float, float]]) -> _Sums:
    """The sums of the subsets that are looked at, the empty one first."""
    if len(pairs) <= EXACT_PAIRS:
        return _all_sums(pairs)
    # Eight pairs at a time: a draw is then some look-ups.
    tables = [_all_sums(pairs[start : start + 8]) for start in range(0, len(pairs), 8)]
    ones, others = [0.0] * DRAWN, [0.0] * DRAWN
    for table, draws in zip(tables, _draws(tuple(len(table[0]) for table in tables)), strict=True):
        ones = list(map(add, ones, itemgetter(*draws)(table[0])))
        others = list(map(add, others, itemgetter(*draws)(table[1])))
    return [0.0, *ones], [0.0, *others]


def _bounds(ones: Sequence[float], others: Sequence[float], outside: int) -> tuple[float, float]:
    """The ratios with so many others below and above; those of nothing to nothing are below, and above."""
    known = [one / other if other > 0 else math.inf for one, other in zip(ones, others, strict=True) if one or other]
    inside = outside - (len(ones) - len(known))
    if inside < 0:
        return -math.inf, math.inf
    return ranked(known, inside), -ranked([-ratio for ratio in known], inside)


def paired_test(pairs: Sequence[tuple[float, float]], alpha: float = ALPHA) -> PairedTest:
    """Compare the first of each pair with the second; all numbers finite and not negative.

    Raises ValueError without pairs.
    """
    if not pairs:
        raise ValueError("no pairs")
    pairs = _grouped(pairs)
    ones, others = _subset_sums(pairs)
    looked_at = len(ones)
    # Exchanging a subset makes the sums' difference as large or larger, at a ratio r, if its own ratio is r or less.
    least, most = _bounds(ones, others, math.floor(looked_at * alpha / 2))
    larger = sum(map(le, ones, others)) / looked_at
    smaller = sum(map(ge, ones, others)) / looked_at
    low, high = max(0.0, least), most
    first, second = math.fsum(a for a, _ in pairs), math.fsum(b for _, b in pairs)
    detectable = None
    if low > 0 and high < math.inf:
        certain = _NORMAL.inv_cdf(1 - alpha / 2)
        deviation = math.log(high / low) / (2 * certain)
        detectable = math.exp((certain + _NORMAL.inv_cdf(POWER)) * deviation)
    return PairedTest(
        ratio=first / second if second > 0 else None,
        low=low,
        high=high,
        confidence=1 - alpha,
        p=min(1.0, 2 * min(larger, smaller)),
        smallest_p=min(1.0, 2 / looked_at),
        detectable=detectable,
    )
