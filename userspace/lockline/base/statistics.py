# SPDX-License-Identifier: GPL-2.0-or-later
"""Tests and intervals that ask nothing of a distribution's shape.

Two samples: the Mann-Whitney U test (H. B. Mann, D. R. Whitney, 1947), with the Hodges-Lehmann estimate of the
difference and its interval (M. Hollander, D. A. Wolfe: Nonparametric Statistical Methods, chapter 4).  Two
counts: the conditional test of two Poisson rates (J. Przyborowski, H. Wilenski, 1940).  Several tests at once:
S. Holm's correction (1979).  All functions are pure; numbers must be finite.
"""

import math
import struct
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist, fmean, median, stdev

ALPHA = 0.05
POWER = 0.8

# Up to so many samples of both sides together every arrangement is counted.
EXACT_SAMPLES = 60

# Up to so many events in all the binomial distribution is summed, beyond it is taken as normal.
EXACT_EVENTS = 1_000

# Of so many values one is looked at to guess where a rank is.
_SAMPLED = 32
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Summary:
    """One side's samples in short; deviation: of the sample, None for fewer than two."""

    n: int
    average: float
    median: float
    minimum: float
    maximum: float
    deviation: float | None


@dataclass(frozen=True, slots=True)
class Test:
    """A test of significance, two-sided.

    smallest_p: what p could be at best with so many samples, None where it has no such bound.
    """

    name: str
    statistic: float
    p: float
    smallest_p: float | None


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with the ends of its confidence interval; low and high None: too few samples for one."""

    estimate: float
    low: float | None
    high: float | None
    confidence: float


def summarize(values: Sequence[float]) -> Summary:
    """Raises ValueError for no values."""
    if not values:
        raise ValueError("no samples")
    # A mean is between its ends; rounding must not tell otherwise.
    average = min(max(fmean(values), min(values)), max(values))
    deviation = stdev(values) if len(values) > 1 else None
    return Summary(len(values), average, median(values), min(values), max(values), deviation)


def ranked(values: Sequence[float], rank: int) -> float:
    """The value of this rank, from 0: sorted()[rank] in a fraction of the time where the rank is low."""
    # What is at most a value of a sample, which is likely to be a little above the one that is sought.
    sample = sorted(values[::_SAMPLED])
    limit = sample[min(len(sample) - 1, rank * 3 // (2 * _SAMPLED) + 2)]
    few = [value for value in values if value <= limit]
    return sorted(few if len(few) > rank else values)[rank]


def _doubled_ranks(values: Sequence[float]) -> list[int]:
    """Twice the rank of each value, ties sharing the middle of theirs: always whole numbers."""
    ordered = sorted(values)
    return [bisect_left(ordered, value) + bisect_right(ordered, value) + 1 for value in values]


def _subset_sums(ranks: tuple[int, ...], size: int) -> dict[int, int]:
    """How many subsets of this size have each sum."""
    # A polynomial per size, its coefficients packed into one integer: Python adds and shifts those fast.
    width = len(ranks) + 1
    packed = [1] + [0] * size
    for number, rank in enumerate(ranks, 1):
        for chosen in range(min(number, size), 0, -1):
            packed[chosen] += packed[chosen - 1] << (rank * width)
    mask = (1 << width) - 1
    sums: dict[int, int] = {}
    rest, total = packed[size], 0
    while rest:
        zeros = ((rest & -rest).bit_length() - 1) // width
        rest >>= zeros * width
        total += zeros
        sums[total] = rest & mask
        rest >>= width
        total += 1
    return sums


@lru_cache(maxsize=64)
def _rank_sums(ranks: tuple[int, ...], size: int) -> dict[int, int]:
    return _subset_sums(ranks, size)


def mann_whitney(before: Sequence[float], after: Sequence[float]) -> Test:
    """Mann-Whitney U, two-sided; the statistic is that of after: pairs in which after is the larger, ties half.

    Up to EXACT_SAMPLES in all by counting every arrangement of the ranks, ties included; beyond by the normal
    approximation with corrections for ties and continuity.  Raises ValueError if a side is empty.
    """
    m, n = len(before), len(after)
    if not m or not n:
        raise ValueError("no samples")
    ranks = _doubled_ranks([*before, *after])
    rank_sum = sum(ranks[m:])
    statistic = rank_sum / 2 - n * (n + 1) / 2
    if m + n <= EXACT_SAMPLES:
        sums = _rank_sums(tuple(sorted(ranks)), n)
        # The doubled mean of the doubled rank sum, so that all stays whole.
        off = abs(2 * rank_sum - 2 * n * (m + n + 1))
        count = sum(ways for total, ways in sums.items() if abs(2 * total - 2 * n * (m + n + 1)) >= off)
        arrangements = math.comb(m + n, n)
        return Test("Mann-Whitney U, exact", statistic, count / arrangements, min(1.0, 2 / arrangements))
    ties = sum(count**3 - count for count in Counter([*before, *after]).values())
    total = m + n
    variance = m * n / 12 * (total + 1 - ties / (total * (total - 1)))
    if variance <= 0:
        p = 1.0
    else:
        z = max(0.0, abs(statistic - m * n / 2) - 0.5) / math.sqrt(variance)
        p = min(1.0, math.erfc(z / math.sqrt(2)))
    return Test("Mann-Whitney U, normal approximation", statistic, p, None)


@lru_cache(maxsize=256)
def _critical_rank(m: int, n: int, alpha: float) -> int:
    """How many of the m * n differences lie outside of the interval at each end; 0: there is no interval."""
    if m + n <= EXACT_SAMPLES:
        lowest = n * (n + 1) // 2
        sums = _rank_sums(tuple(range(1, m + n + 1)), n)
        arrangements = math.comb(m + n, n)
        cumulated, rank = 0, 0
        while (cumulated + sums.get(lowest + rank, 0)) * 2 <= alpha * arrangements:
            cumulated += sums.get(lowest + rank, 0)
            rank += 1
        return rank
    z = _NORMAL.inv_cdf(1 - alpha / 2)
    return max(0, math.floor(m * n / 2 - z * math.sqrt(m * n * (m + n + 1) / 12)))


def _ordinal(value: float) -> int:
    """Whole numbers in the order of the floats."""
    bits = int.from_bytes(struct.pack("<d", value + 0.0), "little", signed=True)
    return bits if bits >= 0 else -(bits & (1 << 63) - 1)


def _from_ordinal(number: int) -> float:
    value: float = struct.unpack("<d", struct.pack("<q", abs(number)))[0]
    return -value if number < 0 else value


def _kth_difference(before: Sequence[float], after: Sequence[float], k: int) -> float:
    """The k-th smallest (from 1) of all after - before; both sorted.  Found without making the list."""

    def at_most(limit: float) -> int:
        # Along one side the other's border moves one way only.
        count, border = 0, 0
        for value in after:
            while border < len(before) and value - before[border] > limit:
                border += 1
            count += len(before) - border
        return count

    low, high = _ordinal(after[0] - before[-1]), _ordinal(after[-1] - before[0])
    while low < high:
        middle = (low + high) // 2
        if at_most(_from_ordinal(middle)) >= k:
            high = middle
        else:
            low = middle + 1
    return _from_ordinal(low)


_LISTED_PAIRS = 40_000


def _ordered_difference(before: Sequence[float], after: Sequence[float]) -> Callable[[int], float]:
    before, after = sorted(before), sorted(after)
    if len(before) * len(after) <= _LISTED_PAIRS:
        differences = sorted(new - old for new in after for old in before)
        return lambda k: differences[k - 1]
    return lambda k: _kth_difference(before, after, k)


def hodges_lehmann(before: Sequence[float], after: Sequence[float], alpha: float = ALPHA) -> Interval:
    """The median of all differences after - before, and its interval of confidence 1 - alpha.

    The interval is the one that belongs to the Mann-Whitney test.  Raises ValueError if a side is empty.
    """
    m, n = len(before), len(after)
    if not m or not n:
        raise ValueError("no samples")
    difference = _ordered_difference(before, after)
    pairs = m * n
    estimate = difference((pairs + 1) // 2)
    if pairs % 2 == 0:
        estimate += (difference(pairs // 2 + 1) - estimate) / 2
    rank = _critical_rank(m, n, alpha)
    if not rank:
        return Interval(estimate, None, None, 1 - alpha)
    return Interval(estimate, difference(rank), difference(pairs + 1 - rank), 1 - alpha)


def detectable(before: Sequence[float], after: Sequence[float], alpha: float = ALPHA) -> float | None:
    """The difference that samples so many and so spread would have shown with a chance of POWER, about.

    From both sides' deviations, as if normal (for which the U test needs pi/3 times the samples of a t test).
    None if no difference, however large, could have been significant.
    """
    m, n = len(before), len(after)
    if m < 2 or n < 2 or 2 / math.comb(m + n, n) > alpha:
        return None
    spread = math.sqrt(stdev(before) ** 2 / m + stdev(after) ** 2 / n)
    return (_NORMAL.inv_cdf(1 - alpha / 2) + _NORMAL.inv_cdf(POWER)) * spread * math.sqrt(math.pi / 3)


def student_p(off: float, freedom: int) -> float:
    """The two-sided p value of Student's t, of whole degrees of freedom (M. Abramowitz, I. Stegun, 26.7)."""
    if math.isinf(off):
        return 0.0
    angle = math.atan(off / math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    term = cosine if odd else 1.0
    total = 0.0 if freedom == 1 else term
    for k in range(2 + odd, freedom - 1, 2):
        term *= cosine * cosine * (k - 1) / k
        total += term
    inside = 2 / math.pi * (angle + sine * total) if odd else sine * total
    return min(1.0, max(0.0, 1 - inside))


@lru_cache(maxsize=64)
def student_quantile(alpha: float, freedom: int) -> float:
    """How many standard errors an interval of confidence 1 - alpha reaches to either side."""
    low, high = 0.0, 1.0
    while student_p(high, freedom) > alpha:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if student_p(middle, freedom) > alpha else (low, middle)
    return high


def holm(values: Sequence[float]) -> list[float]:
    """Holm's corrected p values, in the order of the values."""
    corrected = [0.0] * len(values)
    largest = 0.0
    for done, index in enumerate(sorted(range(len(values)), key=lambda index: values[index])):
        largest = max(largest, min(1.0, values[index] * (len(values) - done)))
        corrected[index] = largest
    return corrected


@lru_cache(maxsize=16)
def _log_ways(trials: int) -> tuple[float, ...]:
    """The logarithms of the numbers of ways to choose 0, 1, 2 ... of so many."""
    logs = [math.lgamma(number + 1) for number in range(trials + 1)]
    return tuple(logs[trials] - one - other for one, other in zip(logs, reversed(logs), strict=True))


def _binomial_at_most(successes: int, trials: int, chance: float) -> float:
    """P(X <= successes)."""
    if chance <= 0 or successes >= trials:
        return 1.0
    if chance >= 1 or successes < 0:
        return 0.0
    if trials > EXACT_EVENTS:
        z = (successes + 0.5 - trials * chance) / math.sqrt(trials * chance * (1 - chance))
        return 0.5 * math.erfc(-z / math.sqrt(2))
    log, rest = math.log(chance), math.log1p(-chance)
    logs = [ways + k * log + (trials - k) * rest for k, ways in enumerate(_log_ways(trials)[: successes + 1])]
    return min(1.0, math.fsum(map(math.exp, logs)))


def _bisect_chance(wanted: Callable[[float], bool]) -> float:
    """The least chance in [0, 1] for which wanted holds, to 50 bits; it holds from there on."""
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if wanted(middle) else (middle, high)
    return high


def compare_counts(
    before: int, before_base: float, after: int, after_base: float, alpha: float = ALPHA
) -> tuple[Test, Interval]:
    """Whether events per base (samples, seconds) differ, and the ratio of the rates after : before - 1.

    Exact as long as there are no more than EXACT_EVENTS.  The interval (Clopper and Pearson's) has an infinite
    end where a side has no events.  Raises ValueError if counts or bases cannot be.
    """
    if before < 0 or after < 0 or before_base <= 0 or after_base <= 0:
        raise ValueError("counts must not be negative, and bases must be above 0")
    events = before + after
    chance = after_base / (before_base + after_base)
    exact = events <= EXACT_EVENTS
    name = "conditional test of two Poisson rates, " + ("exact" if exact else "normal approximation")
    if not events:
        return Test(name, 0.0, 1.0, 1.0), Interval(0.0, None, None, 1 - alpha)
    lower = _binomial_at_most(after, events, chance)
    upper = _binomial_at_most(before, events, 1 - chance)
    p = min(1.0, 2 * min(lower, upper))
    extremes = (chance**events, (1 - chance) ** events)
    smallest = min(1.0, 2 * min(extremes)) if exact else None

    def change(part: float) -> float:
        return part / (1 - part) * before_base / after_base - 1 if part < 1 else math.inf

    low = 0.0 if not after else _bisect_chance(lambda c: _binomial_at_most(before, events, 1 - c) >= alpha / 2)
    high = 1.0 if not before else _bisect_chance(lambda c: _binomial_at_most(after, events, c) <= alpha / 2)
    return Test(name, float(after), max(0.0, p), smallest), Interval(
        change(after / events), change(low), change(high), 1 - alpha
    )
