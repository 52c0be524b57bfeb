# SPDX-License-Identifier: GPL-2.0-or-later
"""From windows to the whole time: against accesses that are all known."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockline.c2c.live import matrix_of
from lockline.recording.reader import open_recording
from lockline.watch import estimate
from lockline.watch.model import Rate, Transfer, Watch, Window
from lockline.watch.tables import read_watches
from recording_generator import SECOND
from watched_lines import (
    ALL,
    HIGH,
    LOW,
    MS,
    US,
    Event,
    Seen,
    Stretch,
    bursts,
    in_windows,
    look,
    ping_pong,
    whole,
    write_watch,
)

# The chance of a true value beyond so many standard errors is one in 10,000; the seeds are fixed.
ERRORS = 4


def watch_of(seen: Seen, tmp_path: Path, span_ns: int = SECOND) -> Watch:
    path = tmp_path / "watch.lockline"
    path.unlink(missing_ok=True)
    with open_recording(write_watch(path, seen, span_ns=span_ns)) as recording:
        (watch,) = read_watches(recording).values()
    return watch


def records(seen: Seen) -> dict[int, int]:
    sums: dict[int, int] = {}
    for (offset, _, _), events in seen.accesses.items():
        sums[offset] = sums.get(offset, 0) + len(events)
    return sums


def near(rate: Rate, truth: float) -> bool:
    assert rate.error is not None
    return abs(rate.per_second - truth) <= ERRORS * rate.error


def test_at_full_coverage_the_figures_are_exact(tmp_path: Path) -> None:
    events = ping_pong((0, 8), 5_000, 200 * US)
    seen = whole(events, SECOND)
    watch = watch_of(seen, tmp_path)
    hits = estimate.hit_rate(watch, records(seen))
    moves = estimate.transfer_rate(watch, records(seen))
    assert (hits.per_second, hits.error, hits.at_least) == (5_000, 0.0, False)
    assert (moves.per_second, moves.error, moves.at_least) == (seen.transfer_count, 0.0, False)
    assert seen.transfer_count == 4_999
    assert estimate.coverage(watch, 0) == 1.0
    assert estimate.offset_rate(watch, 8, 2_500).per_second == pytest.approx(2_500)


# Tests of one seed follow each other.
@lru_cache(maxsize=1)
def bursts_and_truth(seconds: int, seed: int) -> tuple[Sequence[Event], int]:
    """Accesses, and the transfers among all of them."""
    events = bursts(seconds, seed)
    return events, whole(events, seconds * SECOND).transfer_count


@pytest.mark.parametrize("limit", [1 << 62, 20], ids=["whole windows", "cut by their limit of hits"])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.laboratory) for seed in range(1, 6))])
def test_windows_tell_the_rates_within_their_error(tmp_path: Path, seed: int, limit: int) -> None:
    seconds = 10
    events, transfers = bursts_and_truth(seconds, seed)
    seen = look(events, in_windows(seconds * SECOND, MS, 20 * MS, seed=seed, limit=limit))
    watch = watch_of(seen, tmp_path, seconds * SECOND)
    hits = estimate.hit_rate(watch, records(seen))
    moves = estimate.transfer_rate(watch, records(seen))
    assert near(hits, len(events) / seconds)
    assert near(moves, transfers / seconds)
    # The error is worth telling.
    assert hits.error is not None
    assert 0 < hits.error < hits.per_second / 4
    at_offset = estimate.offset_transfer_rate(watch, 0, seen.transfer_count)
    assert at_offset.per_second == pytest.approx(moves.per_second, rel=0.05)


@pytest.mark.laboratory
def test_the_error_is_neither_too_small_nor_too_large(tmp_path: Path) -> None:
    """Of many runs, about two thirds lie within one standard error, and the mean is the truth."""
    seconds, runs = 3, 40
    within, total, squares = 0, 0.0, 0.0
    for seed in range(runs):
        events = bursts(seconds, 1000 + seed)
        seen = look(events, in_windows(seconds * SECOND, MS, 20 * MS, seed=seed, limit=20))
        rate = estimate.hit_rate(watch_of(seen, tmp_path, seconds * SECOND), records(seen))
        assert rate.error is not None
        truth = len(events) / seconds
        within += abs(rate.per_second - truth) <= rate.error
        total += rate.per_second / truth
        squares += (rate.error / truth) ** 2
    assert 0.45 <= within / runs <= 0.85
    # Of the mean the error is smaller by the root of the runs.
    assert total / runs == pytest.approx(1, abs=ERRORS * (squares / runs / runs) ** 0.5)


def test_hits_over_time_alone_would_be_wrong(tmp_path: Path) -> None:
    """Windows that end at a limit of hits are short where there are many: each stands for the time around it."""
    seconds = 10
    events = bursts(seconds, 5)
    seen = look(events, in_windows(seconds * SECOND, MS, 20 * MS, seed=5, limit=5))
    watch = watch_of(seen, tmp_path, seconds * SECOND)
    plain = watch.hits / watch.watched_ns * SECOND
    rate = estimate.hit_rate(watch, records(seen))
    truth = len(events) / seconds
    assert plain < truth / 2
    assert near(rate, truth)


def test_halves_of_a_line_that_are_watched_by_turns(tmp_path: Path) -> None:
    events = ping_pong((0, 40), 100_000)
    seen = look(events, in_windows(SECOND, MS, 5 * MS, sets=(LOW, HIGH)))
    watch = watch_of(seen, tmp_path)
    # No window saw both, so no transfer was seen, and the result says so.
    assert seen.transfer_count == 0
    assert estimate.unwatched_pairs(watch, [0, 40]) == [(0, 40)]
    moves = estimate.transfer_rate(watch, [0, 40])
    assert (moves.per_second, moves.at_least) == (0.0, True)
    hits = estimate.hit_rate(watch, records(seen))
    assert near(hits, 100_000)
    assert estimate.coverage(watch, 0) == pytest.approx(0.1)


def test_sets_that_see_both_tell_the_transfers(tmp_path: Path) -> None:
    events = ping_pong((0, 40), 100_000)
    seen = look(events, in_windows(SECOND, MS, 5 * MS, sets=(LOW, HIGH, 0xFF | 0xFF << 40)))
    moves = estimate.transfer_rate(watch_of(seen, tmp_path), [0, 40])
    assert not moves.at_least
    assert moves.per_second == pytest.approx(100_000, rel=0.02)


def test_a_part_of_a_line_gives_a_lower_bound(tmp_path: Path) -> None:
    events = ping_pong((0, 8, 40), 90_000)
    truth = whole(events, SECOND)
    seen = look(events, in_windows(SECOND, MS, 5 * MS, sets=(LOW,)))
    watch = watch_of(seen, tmp_path)
    assert estimate.never_watched(watch) == [(32, 64)]
    moves = estimate.transfer_rate(watch, records(seen))
    assert moves.at_least
    assert 0 < moves.per_second <= truth.transfer_count * 1.02


def test_one_window_has_no_error_to_tell(tmp_path: Path) -> None:
    seen = look(ping_pong((0,), 1_000), [Stretch(0, MS)])
    rate = estimate.hit_rate(watch_of(seen, tmp_path), records(seen))
    assert rate.error is None
    assert rate.per_second == pytest.approx(100_000)


def test_hits_without_a_record_count(tmp_path: Path) -> None:
    windows = tuple(Window(10 * MS * i, MS, ALL, 100, 50, 20, False, 0) for i in range(10))
    watch = Watch("t", 0, 0, "", 0, "", "", 0.01, 0, 100 * MS, 0, "", windows, ())
    assert estimate.hit_rate(watch, {0: 500}).per_second == pytest.approx(100_000)
    assert estimate.offset_rate(watch, 0, 500).per_second == pytest.approx(100_000)
    # 20 transfers in the 49 of 50 recorded accesses that have one before them.
    assert estimate.transfer_rate(watch, [0]).per_second == pytest.approx(40_000 * 100 / 99)


def watch_with(windows: Sequence[Window], span_ns: int) -> Watch:
    return Watch("t", 0, 0, "", 0, "", "", 0.0, 0, span_ns, 0, "", tuple(windows), ())


WINDOWS = st.lists(
    st.tuples(st.integers(0, 10_000), st.integers(0, 1_000), st.integers(0, ALL), st.integers(0, 1_000)), max_size=30
)


@given(WINDOWS)
def test_any_windows_give_figures(parts: list[tuple[int, int, int, int]]) -> None:
    windows, time = [], 0
    for gap, length, offsets, hits in parts:
        windows.append(Window(time + gap, length, offsets, hits, hits // 3, hits // 4, False, 0))
        time += gap + length
    watch = watch_with(windows, time)
    for rate in (
        estimate.hit_rate(watch, {0: 3, 33: 4}),
        estimate.offset_rate(watch, 7, 5),
        estimate.offset_transfer_rate(watch, 7, 5),
        estimate.transfer_rate(watch, [0, 7, 33]),
    ):
        assert rate.per_second >= 0
        assert rate.error is None or rate.error >= 0
    assert 0 <= estimate.coverage(watch, 7) <= 1


@given(st.lists(st.tuples(st.integers(0, 20 * US), st.integers(0, 3), st.integers(0, 63), st.booleans()), max_size=80))
def test_what_a_subset_shows_is_a_lower_bound(parts: list[tuple[int, int, int, bool]]) -> None:
    """The line moves at least once for each transfer among some of its bytes."""
    events, time = [], 0
    for gap, cpu, offset, write in parts:
        time += gap + 1
        events.append(Event(time, cpu, offset, f"f{cpu}", write))
    span = time + 1
    every = whole(events, span).transfer_count
    for mask in (LOW, HIGH, 0xFF00_FF00, 1):
        assert look(events, [Stretch(0, span, mask)]).transfer_count <= every


TRANSFERS = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 200), st.integers(0, 1 << 40)), max_size=120)


@given(TRANSFERS)
def test_the_matrix_adds_up(parts: list[tuple[int, int, int]]) -> None:
    from lockline.recording.code import UNKNOWN_CODE

    transfers = [Transfer(one, 0, UNKNOWN_CODE, other, 0, UNKNOWN_CODE, True, count) for one, other, count in parts]
    matrix = matrix_of(transfers)
    assert sum(map(sum, matrix.counts)) + matrix.left_out == sum(count for _, _, count in parts)
    assert len(matrix.counts) == len(matrix.cpus) <= 64
    assert all(len(row) == len(matrix.cpus) for row in matrix.counts)
    assert list(matrix.cpus) == sorted(set(matrix.cpus))
