# SPDX-License-Identifier: GPL-2.0-or-later
"""The statistics: against every arrangement counted one by one, published tables, and figures of scipy 1.17.1."""

import itertools
import math
from statistics import NormalDist, median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockline.base.statistics import (
    compare_counts,
    detectable,
    hodges_lehmann,
    holm,
    mann_whitney,
    student_p,
    student_quantile,
    summarize,
)

FEW = st.lists(st.integers(0, 6).map(float), min_size=1, max_size=5)
SOME = st.lists(st.floats(-1e6, 1e6, allow_subnormal=False), min_size=1, max_size=30)


def pairs_larger(before: list[float], after: list[float]) -> float:
    return sum((new > old) + (new == old) / 2 for new in after for old in before)


@given(FEW, FEW)
@settings(deadline=None)
def test_p_is_the_share_of_arrangements_as_far_off(before: list[float], after: list[float]) -> None:
    test = mann_whitney(before, after)
    middle = len(before) * len(after) / 2
    assert test.statistic == pairs_larger(before, after)
    far = [
        abs(
            pairs_larger(
                [value for i, value in enumerate([*before, *after]) if i not in chosen],
                [[*before, *after][i] for i in chosen],
            )
            - middle
        )
        >= abs(test.statistic - middle)
        for chosen in map(set, itertools.combinations(range(len(before) + len(after)), len(after)))
    ]
    assert test.p == pytest.approx(sum(far) / len(far))


@pytest.mark.parametrize(
    ("m", "n", "critical"),
    # Two-sided, 5 %: the largest smaller U that is significant (tables of any textbook).
    [(4, 4, 0), (5, 5, 2), (5, 8, 6), (6, 6, 5), (7, 9, 12), (8, 8, 13), (10, 10, 23), (12, 15, 49), (20, 20, 127)],
)
def test_published_critical_values(m: int, n: int, critical: int) -> None:
    def with_u(u: int) -> float:
        """p of samples of n among which exactly u pairs have the second the larger."""
        before = [float(i) for i in range(m)]
        after = []
        left = u
        for _ in range(n):
            step = min(m, left)
            after.append(step - 0.5 + len(after) * 1e-6)
            left -= step
        test = mann_whitney(before, after)
        assert test.statistic == u
        return test.p

    assert with_u(critical) <= 0.05 < with_u(critical + 1)


@pytest.mark.parametrize(
    ("before", "after", "statistic", "p"),
    [
        # scipy.stats.mannwhitneyu(after, before, method="exact")
        ([1.0, 2.0, 3.0, 4.0, 5.0], [2.5, 3.5, 4.5, 5.5, 6.5, 7.5], 24.0, 0.1255411255411255),
        ([19.0, 22.0, 16.0, 29.0, 24.0], [20.0, 11.0, 17.0, 12.0], 3.0, 0.1111111111111111),
        # method="asymptotic", use_continuity=True
        ([i % 7 / 2 for i in range(40)], [(i % 9 + 1) / 2 for i in range(50)], 1414.5, 0.0007134217009308568),
    ],
)
def test_figures_of_scipy(before: list[float], after: list[float], statistic: float, p: float) -> None:
    test = mann_whitney(before, after)
    assert test.statistic == statistic
    assert test.p == pytest.approx(p, rel=1e-6)


@given(SOME, SOME)
@settings(deadline=None)
def test_sides_can_be_swapped(before: list[float], after: list[float]) -> None:
    one, other = mann_whitney(before, after), mann_whitney(after, before)
    assert one.p == pytest.approx(other.p)
    assert one.statistic + other.statistic == len(before) * len(after)
    forth, back = hodges_lehmann(before, after), hodges_lehmann(after, before)
    assert forth.estimate == pytest.approx(-back.estimate, abs=1e-9)
    assert (forth.low is None) == (back.low is None)
    if forth.low is not None and forth.high is not None:
        assert (forth.low, forth.high) == (-back.high if back.high else 0.0, -back.low if back.low else 0.0)
        assert forth.low <= forth.estimate <= forth.high


@given(SOME, SOME)
@settings(deadline=None)
def test_estimate_is_the_median_of_all_differences(before: list[float], after: list[float]) -> None:
    wanted = median(new - old for new in after for old in before)
    assert hodges_lehmann(before, after).estimate == pytest.approx(wanted, abs=1e-9)


def test_long_series_give_what_short_ones_would() -> None:
    # 300 * 200 differences are searched, not listed.
    before = [math.sin(i) * 1000 + i for i in range(300)]
    after = [math.cos(i) * 900 + i + 55.5 for i in range(200)]
    differences = sorted(new - old for new in after for old in before)
    found = hodges_lehmann(before, after)
    assert found.estimate == (differences[29_999] + differences[30_000]) / 2
    z = NormalDist().inv_cdf(0.975)
    rank = math.floor(30_000 - z * math.sqrt(60_000 * 501 / 12))
    assert (found.low, found.high) == (differences[rank - 1], differences[-rank])


@given(st.lists(st.integers(-3, 3).map(float), min_size=210, max_size=210))
@settings(max_examples=20, deadline=None)
def test_search_with_ties_and_both_signs(values: list[float]) -> None:
    before, after = values, values[:200]
    found = hodges_lehmann(before, after)
    differences = sorted(new - old for new in after for old in before)
    assert found.estimate == (differences[len(differences) // 2 - 1] + differences[len(differences) // 2]) / 2


@pytest.mark.parametrize(("m", "n", "possible"), [(1, 1, False), (3, 3, False), (3, 4, False), (4, 4, True)])
def test_interval_and_significance_need_the_same_samples(m: int, n: int, possible: bool) -> None:
    before, after = [float(i) for i in range(m)], [float(i + 100) for i in range(n)]
    test = mann_whitney(before, after)
    assert test.smallest_p is not None
    assert test.p == pytest.approx(test.smallest_p)
    assert (test.p < 0.05) == possible
    assert (hodges_lehmann(before, after).low is not None) == possible
    assert (detectable(before, after) is not None) == possible


def test_interval_excludes_zero_where_the_test_is_significant() -> None:
    for shift in range(200):
        before = [float(i) for i in range(10)]
        after = [i + 0.05 * shift + 0.001 for i in range(9)]
        interval = hodges_lehmann(before, after)
        assert interval.low is not None
        assert (interval.low > 0) == (mann_whitney(before, after).p <= 0.05 and shift > 0)


def test_detectable_shrinks_with_samples_and_grows_with_spread() -> None:
    narrow, wide = [100.0, 101.0, 99.0, 100.5], [100.0, 110.0, 90.0, 105.0]
    found = detectable(narrow, narrow)
    more = detectable(narrow * 4, narrow * 4)
    wider = detectable(wide, wide)
    assert found is not None
    assert more is not None
    assert wider is not None
    assert more < found < wider
    # Of a normal sample: (1.96 + 0.84) * deviation * sqrt(2 / n), and pi / 3 more samples.
    values = [NormalDist(0, 1).inv_cdf((i + 0.5) / 100) for i in range(100)]
    assert detectable(values, values) == pytest.approx(2.8016 * math.sqrt(2 / 100) * math.sqrt(math.pi / 3), rel=0.02)


def test_holm() -> None:
    assert holm([]) == []
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
@settings(deadline=None)
def test_holm_corrects_upwards_and_keeps_the_order(values: list[float]) -> None:
    corrected = holm(values)
    assert all(value <= after <= 1 for value, after in zip(values, corrected, strict=True))
    assert min(corrected) == min(1.0, min(values) * len(values))
    assert sorted(corrected) == [after for _, after in sorted(zip(values, corrected, strict=True))]


@given(st.integers(0, 40), st.integers(1, 1000), st.integers(0, 40), st.integers(1, 1000))
@settings(deadline=None)
def test_counts_against_the_sum_of_the_binomial(before: int, base: int, after: int, other: int) -> None:
    test, ratio = compare_counts(before, base, after, other)
    events = before + after
    chance = other / (base + other)
    ways = [math.comb(events, k) * chance**k * (1 - chance) ** (events - k) for k in range(events + 1)]
    if not events:
        assert (test.p, ratio.estimate, ratio.low) == (1.0, 0.0, None)
        return
    assert test.p == pytest.approx(min(1.0, 2 * min(sum(ways[: after + 1]), sum(ways[after:]))), abs=1e-9)
    assert ratio.low is not None
    assert ratio.high is not None
    assert ratio.low <= ratio.estimate <= ratio.high
    if before and after:
        assert ratio.estimate == pytest.approx((after / other) / (before / base) - 1)
        swapped = compare_counts(after, other, before, base)[1]
        assert swapped.high is not None
        assert 1 + swapped.high == pytest.approx(1 / (1 + ratio.low), rel=1e-6)
    assert (ratio.low == -1) == (after == 0)
    assert (ratio.high == math.inf) == (before == 0)


def test_counts_against_published_interval() -> None:
    # Clopper and Pearson for 8 of 20: 0.1912 to 0.6395.
    _, ratio = compare_counts(12, 1.0, 8, 1.0)
    assert ratio.low == pytest.approx(0.1912 / 0.8088 - 1, abs=1e-3)
    assert ratio.high == pytest.approx(0.6395 / 0.3605 - 1, abs=1e-3)


def test_many_events_are_taken_as_normal() -> None:
    few = compare_counts(460, 1.0, 540, 1.0)
    many = compare_counts(461, 1.0, 541, 1.0)
    assert "exact" in few[0].name
    assert "normal" in many[0].name
    assert few[0].p == pytest.approx(many[0].p, rel=0.05)


@pytest.mark.parametrize("bad", [(-1, 1.0, 1, 1.0), (1, 0.0, 1, 1.0), (1, 1.0, 1, -2.0)])
def test_counts_that_cannot_be(bad: tuple[int, float, int, float]) -> None:
    with pytest.raises(ValueError):
        compare_counts(*bad)


def test_no_samples() -> None:
    for empty in (lambda: summarize([]), lambda: mann_whitney([], [1.0]), lambda: hodges_lehmann([1.0], [])):
        with pytest.raises(ValueError):
            empty()


def test_summary() -> None:
    found = summarize([3.0, 1.0, 2.0, 10.0])
    assert (found.n, found.average, found.median, found.minimum, found.maximum) == (4, 4.0, 2.5, 1.0, 10.0)
    assert found.deviation == pytest.approx(4.0824829)
    assert summarize([5.0]).deviation is None
    # Rounding must not put a mean outside of its values.
    assert summarize([0.1] * 3).average == 0.1


@pytest.mark.parametrize(
    ("freedom", "quantile"), [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (10, 2.228), (30, 2.042)]
)
def test_students_distribution(freedom: int, quantile: float) -> None:
    """Tables have these quantiles of 95 %."""
    assert student_quantile(0.05, freedom) == pytest.approx(quantile, abs=6e-4)
    assert student_p(quantile, freedom) == pytest.approx(0.05, abs=1e-4)
    assert (student_p(0.0, freedom), student_p(math.inf, freedom)) == (1.0, 0.0)
