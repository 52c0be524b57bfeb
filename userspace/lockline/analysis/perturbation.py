# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether lockline hides stalls or makes them, from the slices of record --self-check.

Two measures, each with its own observer that is the same in all slices: how late timers woke the observer's
threads, and, if the probes of the waits were on all the time, the waits for locks.  What is long enough to be an
outlier is chosen without looking at which slices had the deeper probes.  docs/self-check.md tells the design.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lockline.base import histogram
from lockline.base.errors import RecordingError
from lockline.base.values import dataclass
from lockline.recording import rows
from lockline.recording.conditions import at_most_bytes, between
from lockline.recording.reader import MetaValue, Recording

# Tests take long to load, and few recordings have a self-check.
if TYPE_CHECKING:
    from lockline.base.paired_test import PairedTest

MAKES, HIDES, NO_DIFFERENCE = "makes stalls", "hides stalls", "no difference found"
CHANGES, TOO_FEW = "makes some stalls and hides others", "too few outliers to tell"

# Below 6 pairs no order of the slices is rare enough: 2 / 2**5 > ALPHA.
PAIRS_NEEDED = 6
# Below that, in all slices, hardly any ratio could be found.
OUTLIERS_NEEDED = 20
# The bound of outliers is lowered until so many lie above it, but never below the 99th percentile.
OUTLIERS_WANTED = 100
_OUTLIER_PART = 0.01
# Slices beyond that are no recording's, nor are longer histograms.
_POSSIBLE = (
    between("slice", 0, 200_000),
    at_most_bytes("wait_histogram", 4096),
    at_most_bytes("wakeup_histogram", 4096),
)


@dataclass(frozen=True, slots=True)
class Side:
    """What a measure saw with, or without, the deeper probes.  Quantiles in ns, None without events."""

    seconds: float
    events: int
    outliers: int
    p99_ns: int | None
    p999_ns: int | None
    average_ns: float | None

    @property
    def outlier_rate(self) -> float:
        """Outliers in a second."""
        return self.outliers / self.seconds

    @property
    def outlier_part(self) -> float | None:
        """Outliers of all events; None without events."""
        return self.outliers / self.events if self.events else None


@dataclass(frozen=True, slots=True)
class Measure:
    """An observer's outliers compared.

    name: "waits" or "wake-ups".  bound_ns: outliers are as long or longer; None: no events.  poisson_p: as if they came
    independently of each other, None where test is.
    """

    name: str
    bound_ns: int | None
    with_probes: Side
    without: Side
    test: "PairedTest | None"
    poisson_p: float | None
    verdict: str


@dataclass(frozen=True, slots=True)
class SelfCheck:
    """deeper: the signals that were switched.  waits_always: the probes of the waits were not among them.

    switches: context switches of the whole machine compared, a measure of the work that it did; None: not known, or
    too few pairs.  ended: why it ended before the recording did, or "".
    """

    verdict: str
    pairs: int
    slice_ns: int
    deeper: str
    observer: str
    waits_always: bool
    with_seconds: float
    without_seconds: float
    measures: tuple[Measure, ...]
    switches: "PairedTest | None"
    ended: str


@dataclass(frozen=True, slots=True)
class _Counts:
    seconds: float
    counts: tuple[int, ...]
    total_ns: int | None
    max_ns: int

    @property
    def events(self) -> int:
        return sum(self.counts)


def _counts(recording: Recording, blob: bytes) -> tuple[int, ...]:
    counts = histogram.empty()
    try:
        histogram.add_blob(counts, blob)
    except ValueError as error:
        raise RecordingError(f"{recording.path}: the recording is damaged: {error}") from error
    return tuple(counts)


def _is_possible(row: rows.SelfCheckSlice) -> bool:
    numbers = (row.slice, row.pair, row.begin_ns, row.waits, row.wait_ns, row.wakeups, row.max_late_ns)
    return min(numbers) >= 0 and row.end_ns > row.begin_ns and row.deeper in (0, 1)


Pair = tuple[rows.SelfCheckSlice, rows.SelfCheckSlice]


def whole_pairs(slices: Sequence[rows.SelfCheckSlice]) -> list[Pair]:
    """(with, without) of every pair that has one of each, in order of time."""
    by_pair: defaultdict[int, list[rows.SelfCheckSlice]] = defaultdict(list)
    for row in slices:
        if _is_possible(row):
            by_pair[row.pair].append(row)
    found = []
    for _, both in sorted(by_pair.items()):
        if len(both) == 2 and both[0].deeper != both[1].deeper:
            found.append((both[0], both[1]) if both[0].deeper else (both[1], both[0]))
    return found


def _sum(parts: Sequence[_Counts]) -> _Counts:
    return _Counts(
        sum(part.seconds for part in parts),
        tuple(histogram.total([part.counts for part in parts])),
        None if any(part.total_ns is None for part in parts) else sum(part.total_ns or 0 for part in parts),
        max((part.max_ns for part in parts), default=0),
    )


def outlier_bucket(counts: Sequence[int], threshold_ns: int | None) -> int | None:
    """The first bucket of outliers in the histogram of all slices; None if it is empty.

    That of the threshold, if enough lie above it; else as far out as OUTLIERS_WANTED lie above, but no more than a
    hundredth of all.
    """
    events = sum(counts)
    if not events:
        return None
    highest = len(counts) - 1 if threshold_ns is None else histogram.bucket(min(threshold_ns, 1 << 62))
    above = 0
    for index in range(len(counts) - 1, 0, -1):
        if above + counts[index] > max(1, events * _OUTLIER_PART) and index < highest:
            # Whoever asks for a shorter threshold gets it; this is beyond what can be called an outlier.
            return min(index + 1, highest)
        above += counts[index]
        if index <= highest and above >= OUTLIERS_WANTED:
            return index
    return 1


def _side(counts: _Counts, first: int | None) -> Side:
    def quantile(fraction: float) -> int | None:
        return histogram.percentile(counts.counts, fraction, counts.max_ns)

    return Side(
        seconds=counts.seconds,
        events=counts.events,
        outliers=0 if first is None else sum(counts.counts[first:]),
        p99_ns=quantile(0.99),
        p999_ns=quantile(0.999),
        average_ns=counts.total_ns / counts.events if counts.events and counts.total_ns is not None else None,
    )


def _verdict(outliers: int, test: "PairedTest | None", alpha: float) -> str:
    if test is None or outliers < OUTLIERS_NEEDED:
        return TOO_FEW
    if test.p > alpha:
        return NO_DIFFERENCE
    return MAKES if test.low > 1 else HIDES


def compare(name: str, pairs: Sequence[tuple[_Counts, _Counts]], threshold_ns: int | None, alpha: float) -> Measure:
    """One measure; each pair: with the deeper probes, and without."""
    from lockline.base.paired_test import paired_test
    from lockline.base.statistics import compare_counts

    with_probes, without = _sum([one for one, _ in pairs]), _sum([other for _, other in pairs])
    first = outlier_bucket(_sum([with_probes, without]).counts, threshold_ns)
    sides = _side(with_probes, first), _side(without, first)
    test, poisson_p = None, None
    if len(pairs) >= PAIRS_NEEDED and first is not None:
        # Half an outlier more on each side: no ratio is infinite, and no difference, nor its p, is another.
        more = 0.5 / len(pairs)
        rates = [
            ((sum(one.counts[first:]) + more) / one.seconds, (sum(other.counts[first:]) + more) / other.seconds)
            for one, other in pairs
        ]
        test = paired_test(rates, alpha)
        poisson, _ = compare_counts(sides[1].outliers, sides[1].seconds, sides[0].outliers, sides[0].seconds, alpha)
        poisson_p = poisson.p
    verdict = _verdict(sides[0].outliers + sides[1].outliers, test, alpha)
    bound = None if first is None else histogram.lower_bound(first)
    return Measure(name, bound, *sides, test, poisson_p, verdict)


def overall(verdicts: Sequence[str]) -> str:
    """What the measures say together."""
    found = {verdict for verdict in verdicts if verdict in (MAKES, HIDES)}
    if len(found) == 2:
        return CHANGES
    if found:
        return found.pop()
    return NO_DIFFERENCE if NO_DIFFERENCE in verdicts else TOO_FEW


def _seconds(row: rows.SelfCheckSlice) -> float:
    return (row.end_ns - row.begin_ns) / 1e9


def _wakeups(recording: Recording, row: rows.SelfCheckSlice) -> _Counts:
    return _Counts(_seconds(row), _counts(recording, row.wakeup_histogram), None, row.max_late_ns)


def _waits(recording: Recording, row: rows.SelfCheckSlice) -> _Counts:
    # A slice's longest wait is not stored: a quantile in the last bucket is then that bucket's bound.
    counts = _counts(recording, row.wait_histogram)
    top = max((index for index, count in enumerate(counts) if count), default=0)
    return _Counts(_seconds(row), counts, row.wait_ns, histogram.upper_bound(top) or histogram.lower_bound(top))


def _switches(pairs: Sequence[Pair]) -> "PairedTest | None":
    from lockline.base.paired_test import paired_test

    if len(pairs) < PAIRS_NEEDED or any(min(one.switches, other.switches) < 0 for one, other in pairs):
        return None
    return paired_test([(one.switches / _seconds(one), other.switches / _seconds(other)) for one, other in pairs])


def read_self_check(
    recording: Recording, meta: Mapping[str, MetaValue], threshold_ns: int | None
) -> tuple[SelfCheck | None, list[rows.SelfCheckSlice]]:
    """The check of a recording, None if it has none, and its slices.

    Raises RecordingError if a histogram is damaged.
    """
    slices = list(recording.table(rows.SelfCheckSlice, *_POSSIBLE, order="slice"))
    slice_ns = meta.get("self_check_slice_ns")
    if not isinstance(slice_ns, int) or slice_ns <= 0:
        return None, slices
    pairs = whole_pairs(slices)
    waits_always = meta.get("self_check_waits") == "always"
    from lockline.base.paired_test import ALPHA

    alpha = ALPHA / (2 if waits_always else 1)
    measures = [
        compare(
            "wake-ups",
            [(_wakeups(recording, one), _wakeups(recording, other)) for one, other in pairs],
            threshold_ns,
            alpha,
        )
    ]
    if waits_always:
        waits = [(_waits(recording, one), _waits(recording, other)) for one, other in pairs]
        measures.insert(0, compare("waits", waits, threshold_ns, alpha))
    check = SelfCheck(
        verdict=overall([measure.verdict for measure in measures]),
        pairs=len(pairs),
        slice_ns=slice_ns,
        deeper=str(meta.get("self_check_deeper") or ""),
        observer=str(meta.get("self_check_observer") or ""),
        waits_always=waits_always,
        with_seconds=sum(_seconds(one) for one, _ in pairs),
        without_seconds=sum(_seconds(other) for _, other in pairs),
        measures=tuple(measures),
        switches=_switches(pairs),
        ended=str(meta.get("self_check_ended") or ""),
    )
    return check, slices


def seen_whole(slices: Sequence[rows.SelfCheckSlice], begin_ns: int, end_ns: int) -> bool:
    """Whether the deeper probes were on all the time from begin_ns to end_ns; without slices they were."""
    return not slices or any(row.deeper == 1 and row.begin_ns <= begin_ns and end_ns <= row.end_ns for row in slices)
