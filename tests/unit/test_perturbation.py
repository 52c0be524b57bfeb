# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether a self-check finds a perturbation that was planted, and none where there is none."""

import json
import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockline.analysis.perturbation import (
    CHANGES,
    HIDES,
    MAKES,
    NO_DIFFERENCE,
    OUTLIERS_WANTED,
    TOO_FEW,
    outlier_bucket,
    overall,
    seen_whole,
    whole_pairs,
)
from lockline.analysis.selection import Selection
from lockline.base import histogram
from lockline.base.paired_test import DRAWN, EXACT_PAIRS, MOST_PAIRS, paired_test
from lockline.base.statistics import compare_counts
from lockline.base.text import Style
from lockline.recording.reader import open_recording
from lockline.recording.rows import SelfCheckSlice
from lockline.render.documents import report as report_json
from lockline.render.text import render
from lockline.rules.report import make_report
from recording_generator import BEGIN, RecordingBuilder

SCHEMA = json.loads((Path(__file__).resolve().parents[2] / "docs" / "report-schema.json").read_text())
SIMULATIONS = 200
MS = 1_000_000
SLICE = 2_000 * MS

counts = st.integers(0, 1_000_000).map(float)


def poisson(generator: random.Random, mean: float) -> int:
    if mean > 300:
        return max(0, round(generator.gauss(mean, math.sqrt(mean))))
    limit, product, number = math.exp(-mean), generator.random(), 0
    while product > limit:
        product *= generator.random()
        number += 1
    return number


def simulated(generator: random.Random, pairs: int, mean: float, ratio: float, bursts: bool) -> list[tuple[int, int]]:
    """Stalls (with, without) of each pair: under a load that grows, and that comes and goes in step with the slices."""
    found = []
    for pair in range(pairs):
        first = generator.random() < 0.5
        by_side = {}
        for position in range(2):
            slice_number = 2 * pair + position
            rate = mean * (1.8 if slice_number % 4 < 2 else 1) * (1 + slice_number / 20)
            if bursts:
                rate *= generator.gammavariate(0.5, 2)
            deeper = (position == 0) == first
            by_side[deeper] = poisson(generator, rate * (ratio if deeper else 1))
        found.append((by_side[True], by_side[False]))
    return found


def share(
    generator: random.Random,
    pairs: int,
    ratio: float,
    bursts: bool,
    holds: Callable[..., bool],
    simulations: int = SIMULATIONS,
) -> float:
    """Of so many checks, in how many holds(pairs) is so."""
    return sum(holds(simulated(generator, pairs, 20, ratio, bursts)) for _ in range(simulations)) / simulations


def significant(pairs: Sequence[tuple[float, float]]) -> bool:
    return paired_test(pairs).p <= 0.05


@pytest.mark.laboratory
@pytest.mark.parametrize(("pairs", "bursts"), [(6, False), (8, True), (EXACT_PAIRS, False), (EXACT_PAIRS + 1, True)])
def test_false_alarms_are_as_rare_as_said(pairs: int, bursts: bool) -> None:
    # 5 % of 200 are 10; more than 21 come once in two thousand times.
    assert share(random.Random(pairs), pairs, 1.0, bursts, significant) <= 21 / SIMULATIONS


@pytest.mark.laboratory
def test_the_poisson_test_would_not_do() -> None:
    def poisson_significant(pairs: list[tuple[int, int]]) -> bool:
        with_probes, without = (sum(side) for side in zip(*pairs, strict=True))
        return compare_counts(without, 1.0, with_probes, 1.0)[0].p <= 0.05

    assert share(random.Random(1), 8, 1.0, True, poisson_significant, 50) > 0.5


@pytest.mark.parametrize("ratio", [1.5, pytest.param(1 / 1.5, marks=pytest.mark.laboratory)])
def test_planted_perturbation_is_found(ratio: float) -> None:
    assert share(random.Random(2), 12, ratio, False, significant) >= 0.95


@pytest.mark.parametrize(("ratio", "bursts"), [(1.0, True), (2.0, False), (3.0, True)])
def test_interval_holds_the_true_ratio(ratio: float, bursts: bool) -> None:
    def covers(pairs: list[tuple[int, int]]) -> bool:
        test = paired_test(pairs)
        return test.low <= ratio <= test.high

    # 95 % of 200 are 190; fewer than 179 come once in two thousand times.
    assert share(random.Random(3), 10, ratio, bursts, covers) >= 179 / SIMULATIONS


def test_detectable_ratio_is_mostly_detected() -> None:
    generator = random.Random(4)
    told = [paired_test(simulated(generator, 12, 20, 1.0, True)).detectable for _ in range(51)]
    ratio = sorted(value for value in told if value is not None)[len(told) // 2]
    assert 0.5 <= share(generator, 12, ratio, True, significant) <= 0.98


def test_by_hand() -> None:
    test = paired_test([(2.0, 1.0)] * 6)
    assert (test.ratio, test.low, test.high) == (2, 2, 2)
    # Only the exchange of none, and that of all, are as extreme; exchanged, all are smaller.
    assert test.p == test.smallest_p == 2 / 64
    assert paired_test([(2.0, 1.0)] * 5).p > 0.05


def test_without_events() -> None:
    test = paired_test([(0.0, 0.0)] * 8)
    assert (test.ratio, test.low, test.high, test.p, test.detectable) == (None, 0, math.inf, 1, None)
    test = paired_test([(3.0, 0.0)] * 8)
    assert (test.ratio, test.high) == (None, math.inf)
    assert test.p <= 0.05


def test_no_pairs() -> None:
    with pytest.raises(ValueError, match="no pairs"):
        paired_test([])


def test_many_pairs_are_exchanged_in_groups() -> None:
    test = paired_test([(3.0, 2.0)] * (MOST_PAIRS * 7 + 3))
    assert test.p == 2 / (DRAWN + 1)
    assert test.ratio == pytest.approx(1.5)


@settings(deadline=None)
@given(st.lists(st.tuples(counts, counts), min_size=1, max_size=EXACT_PAIRS - 4), st.sampled_from([0.05, 0.025]))
def test_interval_and_p_say_the_same(pairs: list[tuple[float, float]], alpha: float) -> None:
    test = paired_test(pairs, alpha)
    assert 0 < test.p <= 1
    assert 0 <= test.low <= test.high
    assert (test.p <= alpha) == (test.low > 1 or test.high < 1)
    if test.ratio is not None:
        assert test.low <= test.ratio * (1 + 1e-9)
        assert test.ratio <= test.high * (1 + 1e-9)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(counts, counts), min_size=1, max_size=EXACT_PAIRS + 2))
def test_neither_side_is_favoured(pairs: list[tuple[float, float]]) -> None:
    one, other = paired_test(pairs), paired_test([(b, a) for a, b in pairs])
    assert one.p == other.p
    assert other.low == pytest.approx(1 / one.high if one.high else math.inf)


def test_outliers_begin_where_enough_lie_above() -> None:
    long_tail = histogram.of([1000] * 100_000 + [50_000] * 60 + [400_000] * 90 + [5 * MS] * 20)
    assert outlier_bucket(long_tail, MS) == histogram.bucket(400_000)
    # More than enough above the threshold: they begin there.
    stalls = histogram.of([1000] * 1000 + [5 * MS] * 600)
    assert outlier_bucket(stalls, MS) == histogram.bucket(MS)
    assert outlier_bucket(histogram.empty(), MS) is None


@settings(deadline=None)
@given(st.lists(st.integers(0, 10**10), min_size=1, max_size=300), st.none() | st.integers(0, 10**10))
def test_outliers_are_a_hundredth_or_asked_for(lengths: list[int], threshold: int | None) -> None:
    buckets = histogram.of(lengths)
    first = outlier_bucket(buckets, threshold)
    assert first is not None
    assert first >= 1
    outliers = sum(buckets[first:])
    asked = threshold is not None and first == max(1, histogram.bucket(threshold))
    assert asked or outliers <= max(1, len(lengths) // 100) + OUTLIERS_WANTED


def test_verdicts_together() -> None:
    assert overall([NO_DIFFERENCE, MAKES]) == MAKES
    assert overall([TOO_FEW, HIDES]) == HIDES
    assert overall([MAKES, HIDES]) == CHANGES
    assert overall([TOO_FEW, NO_DIFFERENCE]) == NO_DIFFERENCE
    assert overall([TOO_FEW]) == TOO_FEW


def blob(lengths: Sequence[int]) -> bytes:
    """The histogram of lengths in ns, most of which are the same: equal ones are put into their bucket at once."""
    counts = histogram.empty()
    for ns, times in Counter(lengths).items():
        counts[histogram.bucket(ns)] += times
    return histogram.encode(counts)


def a_slice(number: int, pair: int, deeper: int, late: Sequence[int] = (), waits: Sequence[int] = ()) -> SelfCheckSlice:
    begin = BEGIN + number * SLICE
    return SelfCheckSlice(
        number,
        pair,
        begin,
        begin + SLICE,
        deeper,
        len(waits),
        sum(waits),
        blob(waits),
        len(late),
        max(late, default=0),
        blob(late),
        20_000 - 100 * deeper,
    )


def slices_with(stalls_with: int, stalls_without: int, pairs: int = 10) -> list[SelfCheckSlice]:
    """2,000 wake-ups and waits in a slice; of the wake-ups so many come 3 ms late, with a little chance."""
    generator = random.Random(5)
    found = []
    for number in range(2 * pairs):
        deeper = (number + number // 2) % 2
        stalls = poisson(generator, stalls_with if deeper else stalls_without)
        found.append(a_slice(number, number // 2, deeper, [3 * MS] * stalls + [5_000] * 2_000, [2_000] * 2_000))
    return found


def make_recording(path: Path, slices: Sequence[SelfCheckSlice], **facts: object) -> Path:
    meta: dict[str, object] = {
        "self_check_slice_ns": SLICE,
        "self_check_settle_ns": 200 * MS,
        "self_check_deeper": "interrupts; wake-ups",
        "self_check_observer": "2 threads, SCHED_FIFO, every 2000 us",
        "self_check_waits": "always",
    }
    builder = RecordingBuilder(path, seconds=60, meta=meta | facts)
    builder.insert("self_check", slices)
    return builder.finish()


@pytest.mark.parametrize(
    ("slices", "verdict"),
    [
        (slices_with(20, 5), MAKES),
        (slices_with(5, 20), HIDES),
        (slices_with(20, 0), MAKES),
        (slices_with(0, 20), HIDES),
        (slices_with(12, 12), NO_DIFFERENCE),
        (slices_with(20, 5, pairs=5), TOO_FEW),
        (slices_with(0, 0), TOO_FEW),
        ([], TOO_FEW),
    ],
    ids=["makes", "hides", "with alone", "without alone", "equal", "five pairs", "no stalls", "empty"],
)
def test_recordings_with_planted_rates(tmp_path: Path, slices: list[SelfCheckSlice], verdict: str) -> None:
    with open_recording(make_recording(tmp_path / "r.lockline", slices)) as recording:
        report = make_report(recording, Selection(), 5)
    check = report.self_check
    assert check is not None
    assert check.verdict == verdict
    assert [finding.rule for finding in report.findings].count("perturbation") == (verdict in (MAKES, HIDES))
    document = json.loads(report_json.render(report))
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    assert document["self_check"]["verdict"] == verdict
    text = render(report, Style(unicode=False, addresses=False))
    assert f"Self-check: {verdict}" in text
    if verdict == NO_DIFFERENCE:
        assert "would have been found" in text


def test_plain_record_has_no_waits_to_compare(tmp_path: Path) -> None:
    path = make_recording(tmp_path / "r.lockline", slices_with(20, 5), self_check_waits="with")
    with open_recording(path) as recording:
        report = make_report(recording, Selection(), 5)
    assert report.self_check is not None
    assert [measure.name for measure in report.self_check.measures] == ["wake-ups"]
    assert report.self_check.measures[0].test is not None
    assert report.self_check.measures[0].test.confidence == 0.95


def test_no_self_check(example: Path) -> None:
    with open_recording(example) as recording:
        report = make_report(recording, Selection(), 5)
    assert report.self_check is None
    assert report_json.document(report)["self_check"] is None


def test_what_is_no_pair_is_left_out() -> None:
    good = [a_slice(0, 0, 1), a_slice(1, 0, 0)]
    bad = [
        *(a_slice(2, 1, 1), a_slice(3, 1, 1)),
        a_slice(4, 2, 0),
        *(a_slice(6, 3, 0), a_slice(7, 3, 1)._replace(end_ns=BEGIN)),
        *(a_slice(8, 4, 0), a_slice(9, 4, 2)),
        *(a_slice(10, 5, 0)._replace(wakeups=-1), a_slice(11, 5, 1)),
    ]
    assert whole_pairs([*bad, *good]) == [(good[0], good[1])]


def test_seen_whole() -> None:
    slices = [a_slice(0, 0, 1), a_slice(1, 0, 0)]
    assert seen_whole([], 0, 1)
    assert seen_whole(slices, BEGIN + 1, BEGIN + SLICE)
    assert not seen_whole(slices, BEGIN + 1, BEGIN + SLICE + 1)
    assert not seen_whole(slices, BEGIN + SLICE + 1, BEGIN + SLICE + 2)
