# SPDX-License-Identifier: GPL-2.0-or-later
"""How often a comparison of recordings is wrong, and what it finds: loads whose waiting depends on what was before.

One series of a known process is cut in two: what differs then is chance alone.  All seeds are fixed.
"""

import math
import random
import re
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from two_sides import MUTEX, SPINLOCK

from lockline.base.blocks import BlockTest, compare_series, correlation, cut, inflation
from lockline.base.statistics import ALPHA
from recording_generator import BEGIN, RecordingBuilder

Series = list[float]
SPLITS = 200
# Four seconds on each side, by intervals of 100 ms.
N = 40


def steady(chance: random.Random, n: int) -> Series:
    """Every interval for itself."""
    return [chance.lognormvariate(0, 0.7) for _ in range(n)]


def slow(memory: float) -> Callable[[random.Random, int], Series]:
    """Load that drifts: each interval keeps this much of the one before."""

    def make(chance: random.Random, n: int) -> Series:
        out, level = [], chance.gauss(0, 1)
        for _ in range(n):
            level = memory * level + math.sqrt(1 - memory * memory) * chance.gauss(0, 1)
            out.append(math.exp(0.7 * level))
        return out

    return make


def bursts(on: float, off: float) -> Callable[[random.Random, int], Series]:
    """On and off for exponential times, these on average, in intervals; each burst as heavy as it happens to be."""

    def make(chance: random.Random, n: int) -> Series:
        out = []
        running = chance.random() < on / (on + off)
        left, weight = chance.expovariate(1 / (on if running else off)), chance.lognormvariate(0, 0.5)
        for _ in range(n):
            rest, waited = 1.0, 0.0
            while rest > 0:
                step = min(rest, left)
                waited += step * weight * running
                rest, left = rest - step, left - step
                if left <= 1e-12:
                    running = not running
                    left, weight = chance.expovariate(1 / (on if running else off)), chance.lognormvariate(0, 0.5)
            out.append(waited * chance.lognormvariate(0, 0.3))
        return out

    return make


LOADS = {
    "steady": steady,
    "slow": slow(0.5),
    "slower": slow(0.9),
    "short bursts": bursts(0.5, 2),
    "bursts": bursts(2, 2),
    "long bursts": bursts(5, 5),
}


def halves(
    load: Callable[[random.Random, int], Series], splits: int = SPLITS, seed: int = 7
) -> Iterator[tuple[Series, Series]]:
    chance = random.Random(seed)
    for _ in range(splits):
        series = load(chance, 2 * N)
        yield series[:N], series[N:]


def significant(found: BlockTest) -> bool:
    return found.test.p < ALPHA


@pytest.mark.laboratory
def test_halves_of_one_recording_differ_as_rarely_as_stated() -> None:
    alarms = {
        name: sum(significant(compare_series(*sides)) for sides in halves(load)) / SPLITS
        for name, load in LOADS.items()
    }
    # Of 200 splits each rate has a standard error of 1.5 %; all together one of 0.6 %.
    assert all(rate <= 0.1 for rate in alarms.values()), alarms
    assert sum(alarms.values()) / len(alarms) <= 0.06, alarms


def parts_of_real(chunk: int) -> Iterator[tuple[Series, Series]]:
    """A real recording, cut into pieces, of which as many as four seconds have go to each side as chance has it.

    Four seconds and the next four do differ: the machine had other work too, which came and went.
    """
    text = (Path(__file__).parent / "real_shares.txt").read_text()
    series = [float(line) for line in text.splitlines() if not line.startswith("#")]
    pieces = [series[i : i + chunk] for i in range(0, len(series) - chunk + 1, chunk)]
    chance = random.Random(5)
    for _ in range(SPLITS):
        chosen = chance.sample(pieces, 2 * N // chunk)
        before, after = chosen[: N // chunk], chosen[N // chunk :]
        yield [x for piece in before for x in piece], [x for piece in after for x in piece]


@pytest.mark.laboratory
# Of pieces as long as a quarter of a side some look like a drift.
@pytest.mark.parametrize(("chunk", "power"), [(5, 0.9), (10, 0.75)])
def test_parts_of_a_real_recording_differ_as_rarely_as_stated(chunk: int, power: float) -> None:
    sides = list(parts_of_real(chunk))
    assert sum(significant(compare_series(*pair)) for pair in sides) / SPLITS <= 0.08
    halved = [compare_series(before, [x / 2 for x in after]) for before, after in sides[:50]]
    assert sum(map(significant, halved)) / 50 >= power


def real_series() -> list[Series]:
    """Waiters in each 100 ms of steady loads on busy machines, 80 and 100 s."""
    found: list[Series] = []
    for name in ("real_shares.txt", "real_busy.txt"):
        text = (Path(__file__).parent / name).read_text()
        rows = [line.split() for line in text.splitlines() if not line.startswith("#")]
        found += [[float(value) for value in column] for column in zip(*rows, strict=True)]
    return found


@pytest.mark.laboratory
@pytest.mark.parametrize("seconds", [4, 8, 12])
def test_neighbouring_parts_of_real_recordings_differ_as_rarely_as_stated(seconds: int) -> None:
    """Nothing was changed in these loads; other work came and went."""
    alarms, number, chance = [], 10 * seconds, random.Random(1)
    for series in real_series():
        begins = [chance.randrange(len(series) - 2 * number) for _ in range(SPLITS // 2)]
        sides = [(series[i : i + number], series[i + number : i + 2 * number]) for i in begins]
        alarms.append(sum(significant(compare_series(*pair)) for pair in sides) / len(sides))
    # Of 100 splits a rate of 5 % has a standard error of 2.2 %, and these overlap.
    assert max(alarms) <= 0.07, alarms
    assert sum(alarms) / len(alarms) <= 0.04, alarms


@pytest.mark.parametrize(
    ("load", "left", "power"),
    [
        ("steady", 0.5, 0.65),
        ("steady", 0.0, 1.0),
        ("slow", 0.0, 0.9),
        ("short bursts", 0.0, 0.9),
        ("bursts", 0.0, 0.85),
    ],
)
def test_what_is_changed_is_found(load: str, left: float, power: float) -> None:
    found = [compare_series(before, [left * value for value in after]) for before, after in halves(LOADS[load], 40)]
    assert sum(significant(one) and one.difference.estimate < 0 for one in found) / 40 >= power


def test_interval_and_p_agree() -> None:
    inside = known = 0
    for load in LOADS.values():
        for before, after in halves(load, 30, seed=11):
            # The truth is 1.5 times as much.
            found = compare_series(before, [1.5 * value for value in after])
            assert found.ratio is not None
            low, high = found.ratio.low, found.ratio.high
            if low is None or high is None:
                # Without bursts on one side there is no upper end.
                continue
            assert low <= found.ratio.estimate <= high
            if not 0.045 < found.test.p < 0.055:
                assert significant(found) == (not low <= 0 <= high)
            known += 1
            inside += low <= 0.5 <= high
    assert known > 100
    assert inside / known >= 0.9


def test_sides_of_unlike_lengths() -> None:
    chance = random.Random(3)
    sides = [(steady(chance, N), steady(chance, 3 * N)) for _ in range(20)]
    assert sum(significant(compare_series(*pair)) for pair in sides) <= 3
    assert all(significant(compare_series(short, [0.2 * x for x in long])) for short, long in sides)
    # A load that is there in one second of ten: four seconds without it say little.
    rare = [1.0 if i % 100 < 5 else 0.0 for i in range(1000)]
    assert not significant(compare_series(rare, [0.0] * N))


def test_nothing_at_all() -> None:
    found = compare_series([0.0] * N, [0.0] * N)
    assert (found.test.p, found.difference.estimate, found.ratio) == (1.0, 0.0, None)
    same = compare_series([2.0] * N, [2.0] * N)
    assert same.ratio is not None
    assert (same.test.p, same.ratio.low, same.ratio.high) == (1.0, 0.0, 0.0)
    with pytest.raises(ValueError, match="no samples"):
        compare_series([], [1.0])


def test_few_samples() -> None:
    # Three against three can happen by chance once in ten times; four against four once in 35.
    assert not significant(compare_series([3.5, 3.6, 3.4], [0.0] * 3))
    found = compare_series([3.5, 3.6, 3.4, 3.7], [0.0] * 4)
    assert found.test.p == pytest.approx(2 / 70)
    assert found.ratio is not None
    assert found.ratio.estimate == -1.0


def test_dependence() -> None:
    assert correlation([1.0], [1.0]) == 0.0
    assert correlation([5.0] * 40, [5.0] * 40) == 0.0
    assert correlation([1.0, -1.0] * 20, [1.0, -1.0] * 20) == 0.0
    waves = [math.sin(i / 10) for i in range(100)]
    assert correlation(waves, waves) > 0.9
    # Noise upon it does not hide it.
    chance = random.Random(1)
    noisy = [value + chance.gauss(0, 0.7) for value in waves]
    assert correlation(noisy, noisy) > 0.6
    assert inflation(0.0, 5) == 1.0
    assert 1 < inflation(0.5, 10) < inflation(0.5, 5) < inflation(0.9, 5)
    assert cut([1.0, 2.0, 3.0, 4.0, 5.0], 2) == (1.5, 4.0)


def short_recording(path: Path, storm: bool, seed: int) -> Path:
    """Four seconds by intervals of 100 ms: 3.55 waiters of one lock or none, and a little of another one."""
    chance = random.Random(seed)
    builder = RecordingBuilder(path, N, 4, {"end_ns": BEGIN + 4_000_000_000})
    for lock, name in ((1, "mm_struct.mmap_lock"), (2, "pipe_inode_info.mutex")):
        builder.lock(lock, name)
    for interval in range(1, N + 1):
        builder.waits(interval, 0, 2, MUTEX, [int(2e6 * chance.lognormvariate(0, 0.5))])
        if storm:
            builder.waits(interval, 1, 1, SPINLOCK, [int(35.5e6 * chance.lognormvariate(0, 0.2)) for _ in range(10)])
    builder.finish()
    with sqlite3.connect(path) as database:
        database.execute(
            "UPDATE interval SET begin_ns = ? + (id - 1) * 100000000, end_ns = ? + id * 100000000", (BEGIN, BEGIN)
        )
    database.close()
    return path


def test_four_seconds_decide(tmp_path: Path, as_json: Any, run: Any) -> None:
    before, after = (short_recording(tmp_path / str(storm), storm, storm) for storm in (True, False))
    code, document = as_json(before, after, "--fail-inconclusive")
    assert (code, document["verdict"]) == (0, "improved")
    lock = document["waits"]["locks"][0]
    assert (lock["lock"], lock["presence"], lock["judged"]["verdict"]) == ("mm_struct.mmap_lock", "gone", "improved")
    assert lock["before"]["share"] == pytest.approx(3.55, rel=0.1)
    assert lock["judged"]["corrected_p"] < 0.01
    assert lock["judged"]["difference"]["relative"] == -1
    assert document["waits"]["before"]["samples"] == N
    assert document["waits"]["before"]["sample_ns"] == 100_000_000
    assert as_json(after, before)[1]["verdict"] == "regressed"
    _, out, _ = run(before, after)
    row = next(line for line in out.splitlines() if line.startswith("  mm_struct.mmap_lock "))
    # Effect, interval, verdict, and p last.
    assert re.search(r" gone +-100 to -100 % less waiting +p [=<] [\d.]+$", row)
