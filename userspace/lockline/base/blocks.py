# SPDX-License-Identifier: GPL-2.0-or-later
"""Two time series against each other, where a value may depend on the ones before it.

Each series is cut into a few blocks.  If nothing changed, a block may as well come from the other side: so all ways
to exchange blocks between the sides are tried (E. J. G. Pitman's permutation test, 1937), and the ratio of the two
means gets the interval that belongs to this test (P. Garthwaite: Confidence Intervals from Randomization Tests, 1996).
Blocks that are too short to be independent would make p too small: it is corrected by what a process with this
correlation between neighbours (AR(1)) adds to the variance of a mean (N. F. Marriott, J. A. Pope, 1954, for the bias
of the correlation).  A load that drifts for longer than a recording lasts is worse than that.  The slow waves in each
recording tell how far the drift may go on between the two, and the interval is widened by it.  And the load of a real
machine varies more over long times than independent blocks would: what halves, quarters and eighths of a recording
differ by tells what two recordings may differ by (D. W. Allan's variance, 1966).  An error that is estimated from a
few parts is itself uncertain: there Student's distribution takes the normal one's place (W. S. Gosset, 1908).  All
functions are pure and give the same result each time; numbers must be finite and not below 0.
"""

import math
import random
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, pairwise, product
from operator import ge, itemgetter, le, truediv
from statistics import NormalDist, fmean

from lockline.base.statistics import ALPHA, Interval, Test, ranked, student_p, student_quantile

# Blocks of the shorter side, if it has as many values: eight on each side can be exchanged in 12,870 ways.
BLOCKS = 8
# With more dependence p is corrected instead.
MIN_BLOCKS = 6
MAX_BLOCKS = 1_024

# Up to so many ways all are tried, beyond it so many by chance.
EXACT_WAYS = 20_000
DRAWS = 10_000

# Slow waves: the first three half periods in each side, seen in twelve blocks; noise is what is in the faster ones.
_DRIFT_BLOCKS = 12
_SLOW = (1, 2, 3)
# A drift is one from so many times the noise on; so much of it may lie between the sides (a random walk has 6.6 times
# the first wave's variance, a straight line 12, and there are few waves to tell it from).
_DRIFTS = 1.8
_BETWEEN = 18.0

# Neighbouring parts: halves, quarters and eighths of a side.  Each time the parts are twice as long, the variance of
# their difference falls by this power of two: 1 for independent values, 0 for 1/f noise.  Real loads lie between.
_PARTS = (1, 2, 3)
_FALLS = 0.5
# These differences overlap: 22 of them, of two sides, tell a variance as well as 12 independent ones if the values are
# independent, and as 7 to 9 if neighbours' correlation is 0.9 and more.
_FREEDOM = 0.4

_NEARLY_ONE = 0.99
# Of fewer values on a side their correlation cannot be told; of fewer on both only where it is significant.
_FEWEST = 8
_MANY = 48
_SAME = 1e-9
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class BlockTest:
    """The test's result.

    before, after: the mean of each block.  difference: of the means, in their unit; ratio: of the means, less 1,
    its estimate None where before's is 0.  inflation: what dependence makes of a mean's standard error.
    correlated: over how many values a value is felt, 1 for independent ones.
    drift: what slow waves in both sides make of it, 1 where there are none.
    """

    before: tuple[float, ...]
    after: tuple[float, ...]
    test: Test
    difference: Interval
    ratio: Interval | None
    inflation: float
    correlated: float
    drift: float


def _means(values: Sequence[float], size: int) -> list[float]:
    return [fmean(values[i : i + size]) for i in range(0, len(values) - size + 1, size)]


def _neighbours(sides: Sequence[Sequence[float]], certain: bool) -> float:
    """Correlation of a value with the next one, over both sides, without the bias of short series.

    certain: 0 unless it is significant by itself.
    """
    spread = common = 0.0
    lengths = []
    for side in sides:
        mean = fmean(side)
        off = [value - mean for value in side]
        squares = math.fsum(value * value for value in off)
        # A side that waits for nothing tells nothing.
        if squares > 0:
            lengths.append(len(side))
            spread += squares
            common += math.fsum(a * b for a, b in pairwise(off))
    if not lengths:
        return 0.0
    n = sum(lengths) / len(lengths)
    raw = common / spread
    if n < _FEWEST or (certain and raw < 2 / math.sqrt(sum(lengths))):
        return 0.0
    return max(0.0, min(_NEARLY_ONE, (raw * n * n / (n - 1) + 1) / (n - 3)))


def _of_single(correlation: float) -> float:
    """The AR(1) correlation of neighbours, from that of the means of pairs: of those it is c (1 + c) / 2."""
    return (math.sqrt(1 + 8 * correlation) - 1) / 2


def correlation(before: Sequence[float], after: Sequence[float]) -> float:
    """How much a value depends on the one before it, from 0 to 0.99.

    Seen at two scales, for noise upon a slow process hides it at the finer one.
    """
    sides = [side for side in (before, after) if len(side) > 1]
    found = _neighbours(sides, certain=sum(map(len, sides)) < _MANY)
    pairs = _neighbours([_means(side, 2) for side in sides], certain=True)
    return min(_NEARLY_ONE, max(found, _of_single(pairs)))


def inflation(correlated: float, size: float) -> float:
    """By what the standard error of a mean exceeds what independent blocks of this size would tell; AR(1)."""
    if correlated <= 0 or size <= 0:
        return 1.0
    share = 1 - 2 * correlated * (1 - correlated**size) / (size * (1 - correlated**2))
    return math.sqrt(1 / min(1.0, max(0.02, share)))


def cut(values: Sequence[float], blocks: int) -> tuple[float, ...]:
    """The means of so many blocks, which are as long as each other but for one value."""
    edges = [round(i * len(values) / blocks) for i in range(blocks + 1)]
    return tuple(fmean(values[low:high]) for low, high in pairwise(edges))


@dataclass(frozen=True, slots=True)
class _Exchanges:
    """Sums of so many blocks of before and of after; each is exchanged for each, or, paired, for its like."""

    number: int
    before: tuple[float, ...]
    after: tuple[float, ...]
    paired: bool

    def __len__(self) -> int:
        return len(self.before) if self.paired else len(self.before) * len(self.after)

    def pairs(self) -> Iterable[tuple[float, float]]:
        return zip(self.before, self.after, strict=True) if self.paired else product(self.before, self.after)

    def ratios(self) -> list[float]:
        """After's sum by before's, which may not be 0."""
        # Without the tuples of pairs(): there are 12,870 ways and more.
        if self.paired:
            return list(map(truediv, self.after, self.before))
        return [b / a for a in self.before for b in self.after]

    def at_most(self) -> tuple[int, int]:
        """In how many of them after's sum is at most before's, and in how many at least."""
        if self.paired:
            return (
                sum(map(le, self.after, [a * (1 + _SAME) for a in self.before])),
                sum(map(ge, [b * (1 + _SAME) for b in self.after], self.before)),
            )
        ordered = sorted(self.after)
        fewer = sum(bisect_right(ordered, a * (1 + _SAME)) for a in self.before)
        more = sum(len(ordered) - bisect_left(ordered, a / (1 + _SAME)) for a in self.before)
        return fewer, more


# Takes some of a side's blocks, by their numbers.
_Take = Callable[[Sequence[float]], Sequence[float]]


def _take(numbers: Sequence[int]) -> _Take:
    if len(numbers) > 1:
        return itemgetter(*numbers)
    return itemgetter(slice(numbers[0], numbers[0] + 1))


@lru_cache(maxsize=16)
def _drawn(m: int, n: int) -> dict[int, tuple[list[_Take], list[_Take]]]:
    """The exchanges that are drawn, by how many blocks they exchange: those of before, and those of after."""
    generator = random.Random(m * 4_099 + n)
    drawn: dict[int, tuple[list[_Take], list[_Take]]] = {}
    for _ in range(DRAWS):
        chosen = generator.sample(range(m + n), n)
        kept = {index - m for index in chosen if index >= m}
        mine, others = [i for i in chosen if i < m], [i for i in range(n) if i not in kept]
        if mine:
            sides = drawn.setdefault(len(mine), ([], []))
            sides[0].append(_take(mine))
            sides[1].append(_take(others))
    return drawn


def _drawn_exchanges(before: Sequence[float], after: Sequence[float]) -> list[_Exchanges]:
    if len(before) < len(after):
        # The shorter side's blocks are the ones to draw.
        return [_Exchanges(one.number, one.after, one.before, True) for one in _drawn_exchanges(after, before)]
    return [
        _Exchanges(
            number,
            tuple([math.fsum(take(before)) for take in mine]),
            tuple([math.fsum(take(after)) for take in others]),
            True,
        )
        for number, (mine, others) in _drawn(len(before), len(after)).items()
    ]


def _exchanges(before: Sequence[float], after: Sequence[float]) -> list[_Exchanges]:
    """All ways to exchange blocks, or DRAWS of them; without the one in which none is."""
    m, n = len(before), len(after)
    if math.comb(m + n, n) > EXACT_WAYS:
        return _drawn_exchanges(before, after)
    return [
        _Exchanges(
            k, tuple(map(math.fsum, combinations(before, k))), tuple(map(math.fsum, combinations(after, k))), False
        )
        for k in range(1, min(m, n) + 1)
    ]


def _ends(lows: list[float], highs: list[float], tail: float) -> tuple[float | None, float | None]:
    """Of the interval, from what would be the ratio (or difference) for which each exchange changes nothing."""
    outside = math.floor(tail * (len(lows) + 1)) - 1
    if outside < 0:
        return None, None
    return ranked(lows, outside), -ranked([-high for high in highs], outside)


def _ratio(exchanges: Sequence[_Exchanges], estimate: float, tail: float, confidence: float) -> Interval:
    """The ratio of the means less 1; without an interval where it has no upper end."""
    if all(all(one.before) for one in exchanges):
        lows = [ratio for one in exchanges for ratio in one.ratios()]
        highs = lows
    else:
        pairs = [pair for one in exchanges for pair in one.pairs()]
        lows = [b / a if a else math.inf if b else 0.0 for a, b in pairs]
        highs = [b / a if a else math.inf for a, b in pairs]
    low, high = _ends(lows, highs, tail)
    if low is None or high is None or math.isinf(high):
        return Interval(estimate, None, None, confidence)
    return Interval(estimate, low - 1, high - 1, confidence)


def _waves(side: Sequence[float]) -> tuple[float, list[float]]:
    """Variance that slow waves add to the first of them, and that of each faster one; relative to the squared mean."""
    mean = fmean(side)
    blocks = [value / mean for value in cut(side, _DRIFT_BLOCKS)]
    squares = {
        wave: 2
        * math.fsum(value * math.cos(math.pi * wave * (i + 0.5) / _DRIFT_BLOCKS) for i, value in enumerate(blocks)) ** 2
        / _DRIFT_BLOCKS**2
        for wave in range(1, _DRIFT_BLOCKS)
    }
    weights = math.fsum(1 / wave**2 for wave in _SLOW)
    slow = math.fsum(squares[wave] / wave**2 for wave in _SLOW) / weights
    return slow, [squares[wave] for wave in range(len(_SLOW) + 1, _DRIFT_BLOCKS)]


def drift_error(before: Sequence[float], after: Sequence[float]) -> tuple[float, float] | None:
    """The standard error of the logarithm of the means' ratio with the drift, and how much larger it is for it.

    None: no drift is seen, or a side has too few values or no waiting.
    """
    sides = [side for side in (before, after) if len(side) >= _DRIFT_BLOCKS and fmean(side) > 0]
    if len(sides) < 2:
        return None
    waves = [_waves(side) for side in sides]
    slow = fmean(wave[0] for wave in waves)
    noise = fmean(square for wave in waves for square in wave[1])
    if slow <= _DRIFTS * noise or slow <= _SAME**2:
        return None
    # Of a drift the waves' variances go as 1, 1/4, 1/9.
    added = (slow - noise) * math.fsum(1 / k**2 for k in _SLOW) / math.fsum(1 / k**4 for k in _SLOW)
    variance = 2 * noise + _BETWEEN * added
    return math.sqrt(variance), math.sqrt(variance / (2 * noise)) if noise > 0 else math.inf


def parts_error(before: Sequence[float], after: Sequence[float]) -> tuple[float, int] | None:
    """The standard error of the logarithm of the means' ratio, by what neighbouring parts of the sides differ by.

    With its degrees of freedom.

    None: a side has no waiting, or too few values.
    """
    total, weight = 0.0, 0
    for side in (before, after):
        mean = fmean(side)
        if mean <= 0:
            return None
        for halvings in _PARTS:
            if 1 << halvings > len(side):
                break
            parts = cut(side, 1 << halvings)
            total += math.fsum(((b - a) / mean) ** 2 for a, b in pairwise(parts)) * 2 ** (-_FALLS * halvings)
            weight += len(parts) - 1
    return (math.sqrt(math.log1p(total / weight)), max(1, round(_FREEDOM * weight))) if total > 0 else None


def _of_drift(estimate: float, error: float, alpha: float, freedom: int | None = None) -> tuple[float, Interval]:
    """The p value and the interval of a ratio less 1 whose logarithm has this standard error.

    freedom: degrees of freedom of the error, None: it is known.
    """
    log = math.log1p(estimate)
    reach = error * (_NORMAL.inv_cdf(1 - alpha / 2) if freedom is None else student_quantile(alpha, freedom))
    # The largest exponent of a float is 709.
    low, high = math.expm1(max(-700.0, log - reach)), math.expm1(min(700.0, log + reach))
    off = abs(log) / error
    p = math.erfc(off / math.sqrt(2)) if freedom is None else student_p(off, freedom)
    return p, Interval(estimate, low, high, 1 - alpha)


def _both(first: Interval, second: Interval) -> Interval:
    """What holds both intervals; none if one is none."""
    if first.low is None or first.high is None or second.low is None or second.high is None:
        return Interval(first.estimate, None, None, first.confidence)
    return Interval(first.estimate, min(first.low, second.low), max(first.high, second.high), first.confidence)


def _p(tail: float, wider: float) -> float:
    """Two-sided p from one tail, for a standard error that is wider by this factor."""
    p = min(1.0, 2 * tail)
    if wider == 1 or p >= 1:
        return p
    return math.erfc(_NORMAL.inv_cdf(1 - p / 2) / wider / math.sqrt(2))


def compare_series(before: Sequence[float], after: Sequence[float], alpha: float = ALPHA) -> BlockTest:
    """Whether the means of two series differ; the values of both are of equally long times.

    Raises ValueError if a side is empty.
    """
    if not before or not after:
        raise ValueError("no samples")
    correlated = correlation(before, after)
    reach = (1 + correlated) / (1 - correlated)
    shorter = min(len(before), len(after))
    blocks = min(shorter, BLOCKS, max(MIN_BLOCKS, int(shorter / (2 * reach))))
    size = shorter / blocks
    sides = [cut(side, min(MAX_BLOCKS, max(1, round(len(side) / size)))) for side in (before, after)]
    wider = inflation(correlated, size)
    exchanges = _exchanges(*sides)
    ways = 1 + sum(map(len, exchanges))
    counts = [one.at_most() for one in exchanges]
    tail = (1 + min(sum(fewer for fewer, _ in counts), sum(more for _, more in counts))) / ways
    # Of an interval of this confidence the ends of one that is wider lie further out.
    end = math.erfc(_NORMAL.inv_cdf(1 - alpha / 2) * wider / math.sqrt(2)) / 2
    base, new = fmean(sides[0]), fmean(sides[1])
    p, ratio, drift = _p(tail, wider), None, 1.0
    smallest: float | None = _p(1 / ways, wider)
    if base > 0:
        ratio = _ratio(exchanges, new / base - 1, end, 1 - alpha)
        drifted = drift_error(before, after)
        if drifted is not None:
            (error, drift), smallest = drifted, None
            of_drift, room = _of_drift(ratio.estimate, error, alpha)
            if tail * ways < 2:
                # No exchange is like it: how far the sides are apart, the blocks cannot tell.
                p, ratio = of_drift, room
            else:
                p, ratio = max(p, of_drift), _both(ratio, room)
        error_of_parts = parts_error(before, after)
        if error_of_parts is not None:
            of_parts, room = _of_drift(ratio.estimate, error_of_parts[0], alpha, error_of_parts[1])
            if of_parts > p:
                p, ratio = of_parts, _both(ratio, room)
        ends = [None if one is None else one * base for one in (ratio.low, ratio.high)]
        difference = Interval(new - base, ends[0], ends[1], 1 - alpha)
    else:
        shifts = [(b - a) / one.number for one in exchanges for a, b in one.pairs()]
        difference = Interval(new - base, *_ends(shifts, shifts, end), 1 - alpha)
    exact = not any(one.paired for one in exchanges)
    name = f"exchange of {len(sides[0])} and {len(sides[1])} blocks of time" + (", exact" if exact else "")
    test = Test(name, new - base, p, smallest)
    return BlockTest(sides[0], sides[1], test, difference, ratio, wider, reach, drift)
