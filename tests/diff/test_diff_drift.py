# SPDX-License-Identifier: GPL-2.0-or-later
"""Loads that drift for longer than a recording lasts, and what a comparison makes of them: the truth is known.

One series is cut in two: what differs then is the drift and chance.  A step is a real change.  All seeds are fixed.
"""

import math
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from two_sides import SPINLOCK

from lockline.base.blocks import BlockTest, compare_series, drift_error
from lockline.base.statistics import ALPHA
from lockline.cli import main as cli
from recording_generator import RecordingBuilder

Series = list[float]
Load = Callable[[random.Random, int], Series]
SEEDS = 200
# Four seconds on each side, by intervals of 100 ms.
N = 40


def noisy(levels: Series, chance: random.Random, noise: float = 0.3) -> Series:
    """Waiting of these levels (logarithms), with noise of its own in each interval."""
    return [math.exp(level) * chance.lognormvariate(0, noise) for level in levels]


def steady(chance: random.Random, n: int) -> Series:
    """Every interval for itself."""
    return noisy([0.0] * n, chance, 0.7)


def memory(kept: float, noise: float) -> Load:
    """AR(1): each level keeps this much of the one before."""

    def make(chance: random.Random, n: int) -> Series:
        levels, level = [], chance.gauss(0, 1)
        for _ in range(n):
            level = kept * level + math.sqrt(1 - kept * kept) * chance.gauss(0, 1)
            levels.append(0.7 * level)
        return noisy(levels, chance, noise)

    return make


def trend(chance: random.Random, n: int) -> Series:
    """Waiting that rises or falls all the time, by a factor of 1 to 50."""
    slope = chance.gauss(0, 1)
    return noisy([2 * slope * (i / n - 0.5) for i in range(n)], chance)


def wave(chance: random.Random, n: int) -> Series:
    """Waiting that comes and goes, one to four times as slowly as both recordings last."""
    phase, period = chance.uniform(0, 2 * math.pi), n * chance.uniform(1, 4)
    return noisy([0.7 * math.sin(2 * math.pi * i / period + phase) for i in range(n)], chance)


def walk(chance: random.Random, n: int) -> Series:
    """Waiting that goes up or down by a little in each interval, and does not come back."""
    levels, level = [], 0.0
    for _ in range(n):
        level += chance.gauss(0, 1.4 / math.sqrt(n))
        levels.append(level)
    return noisy(levels, chance)


def compared(load: Load, n: int, times: float = 1.0, seeds: int = SEEDS) -> list[BlockTest]:
    """Before and after, n intervals each; after's waiting is so many times as much as it would be."""
    chance = random.Random(7)
    out = []
    for _ in range(seeds):
        series = load(chance, 2 * n)
        out.append(compare_series(series[:n], [times * value for value in series[n:]]))
    return out


def rate(found: list[BlockTest]) -> float:
    """The part that is significant."""
    return sum(one.test.p < ALPHA for one in found) / len(found)


# The most that docs/diff.md states, of loads without a change.
ALARMS = {
    "steady": (steady, 0.06),
    "AR(1), 0.5": (memory(0.5, 0.0), 0.06),
    "AR(1), 0.95": (memory(0.95, 0.0), 0.06),
    "trend": (trend, 0.06),
    "wave": (wave, 0.06),
    "walk": (walk, 0.06),
    "AR(1), 0.95, with noise": (memory(0.95, 0.5), 0.1),
    "AR(1), 0.98, with noise": (memory(0.98, 0.5), 0.12),
}


@pytest.mark.laboratory
@pytest.mark.parametrize("name", ALARMS)
def test_a_drift_is_no_change(name: str) -> None:
    load, most = ALARMS[name]
    assert rate(compared(load, N)) <= most


@pytest.mark.parametrize(("load", "n", "power"), [(steady, N, 0.55), (memory(0.5, 0.0), 3 * N, 0.6)])
def test_twice_the_waiting_is_found(load: Load, n: int, power: float) -> None:
    found = compared(load, n, 2.0, 60)
    assert rate(found) >= power
    assert all(one.difference.estimate > 0 for one in found if one.test.p < ALPHA)


def test_what_a_drift_says() -> None:
    chance = random.Random(3)
    rising = noisy([i / N for i in range(2 * N)], chance)
    found = compare_series(rising[:N], rising[N:])
    assert found.test.p > ALPHA
    assert found.drift > 2
    # Twenty times as much is more than such a drift does.
    found = compare_series(rising[:N], [20 * value for value in rising[:N]])
    assert found.test.p < ALPHA
    assert found.ratio is not None
    assert found.ratio.low is not None
    assert found.ratio.high is not None
    assert 0 < found.ratio.low < found.ratio.estimate < found.ratio.high


def drifting_recording(path: Path, levels: Series) -> Path:
    """One second each of so many threads that wait for one lock."""
    builder = RecordingBuilder(path, len(levels))
    builder.lock(1, "mm_struct.mmap_lock")
    for interval, level in enumerate(levels, 1):
        builder.waits(interval, 0, 1, SPINLOCK, [int(level * 1e7)] * 10)
    builder.finish()
    return path


def test_the_screen_tells_a_drift(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chance = random.Random(3)
    rising = noisy([i / N for i in range(2 * N)], chance, 0.2)
    sides = [drifting_recording(tmp_path / str(i), rising[i * N : (i + 1) * N]) for i in (0, 1)]
    assert cli.main(["diff", *map(str, sides), "--fail-inconclusive"]) == 2
    told = " ".join(capsys.readouterr().out.split())
    assert "the load itself drifts within each recording" in told
    assert "record several pairs in turn, or for 320 s" in told


def test_where_no_drift_can_be_seen() -> None:
    assert drift_error([1.0] * N, [2.0] * N) is None
    assert drift_error([0.0] * N, [2.0] * N) is None
    assert drift_error([1.0, 2.0, 3.0], [2.0, 3.0, 4.0]) is None
    assert drift_error([1.0, 2.0] * N, [2.0, 1.0] * N) is None
