# SPDX-License-Identifier: GPL-2.0-or-later
"""What a lock's removal would bring at most: held against closed queueing models in which it is removed."""

import heapq
import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lockline.analysis.findings import UserLock
from lockline.analysis.selection import Selection
from lockline.analysis.whatif import ENOUGH_WAITS, Bound, most_gain, what_if, within_cpus
from lockline.recording.reader import open_recording
from lockline.render.whatif import bound_words
from lockline.rules.report import make_report
from recording_generator import RecordingBuilder

SEEDS = range(10)
ROUNDS = 2000


@dataclass
class Station:
    """A lock with a queue; removed: its section is run by all at once."""

    hold: float
    removed: bool = False
    free_at: float = 0.0
    waited: float = 0.0
    held: float = 0.0
    waits: int = 0
    ready: list[tuple[float, int]] = field(default_factory=list)


@dataclass(frozen=True)
class Run:
    """What a model did: rounds a second, and for each lock the waiters on average, the busy part and the waits."""

    throughput: float
    waiters: tuple[float, ...]
    busy: tuple[float, ...]
    waits: tuple[int, ...]


def simulate(seed: int, threads: int, think: float, holds: list[float], removed: int | None = None) -> Run:
    """Threads that think, then take each lock in turn, first come first served; random times with these means."""
    rng = random.Random(seed)
    stations = [Station(hold, removed == index) for index, hold in enumerate(holds)]
    # (time, order, thread, next station)
    events = [(rng.expovariate(1 / think) if think else 0.0, thread, thread, 0) for thread in range(threads)]
    heapq.heapify(events)
    order, rounds, now = threads, 0, 0.0
    while rounds < ROUNDS:
        now, _, thread, at = heapq.heappop(events)
        order += 1
        if at == len(stations):
            rounds += 1
            heapq.heappush(events, (now + (rng.expovariate(1 / think) if think else 0.0), order, thread, 0))
            continue
        station = stations[at]
        hold = rng.expovariate(1 / station.hold)
        begin = now if station.removed else max(now, station.free_at)
        if begin > now:
            station.waits += 1
        station.waited += begin - now
        station.held += hold
        if not station.removed:
            station.free_at = begin + hold
        heapq.heappush(events, (begin + hold, order, thread, at + 1))
    return Run(
        rounds / now,
        tuple(station.waited / now for station in stations),
        tuple(min(1.0, station.held / now) for station in stations),
        tuple(station.waits for station in stations),
    )


MODELS = {
    "one lock, that is all": (6, 0.0, [1.0]),
    "one lock, busy": (4, 2.0, [1.0]),
    "one lock, seldom": (4, 20.0, [1.0]),
    "many threads": (32, 10.0, [1.0]),
    "a second lock behind it": (8, 3.0, [1.0, 0.8]),
    "a second lock, as busy": (8, 1.0, [1.0, 1.0]),
    "three locks": (12, 5.0, [1.0, 0.5, 0.7]),
}


@pytest.mark.parametrize("seen", ["waits", "waits and holds"])
@pytest.mark.parametrize("model", MODELS)
def test_the_true_gain_is_never_more(model: str, seen: str) -> None:
    """In all seeds: the lock is removed for real, and the gain is within the bound; of threads that do not wait too."""
    threads, think, holds = MODELS[model]
    for seed in SEEDS:
        before = simulate(seed, threads, think, holds)
        if before.waits[0] < ENOUGH_WAITS:
            continue
        after = simulate(seed, threads, think, holds, removed=0)
        gain = after.throughput / before.throughput - 1
        busy = before.busy[1:] if seen == "waits and holds" else []
        bound = most_gain(threads, before.waiters[0], sum(before.waiters[1:]), busy, before.waits[0])
        assert bound is None or gain <= bound, (seed, gain, bound)
        # A thread that was not seen to wait makes the bound wider, not wrong.
        fewer = most_gain(threads - 1, before.waiters[0], sum(before.waiters[1:]), busy, before.waits[0])
        assert fewer is None or gain <= fewer


def test_the_bound_says_something() -> None:
    """It is no more than a few times the truth where one lock is the only one, and small where hardly anybody waits."""
    before = simulate(1, 4, 2.0, [1.0])
    after = simulate(1, 4, 2.0, [1.0], removed=0)
    bound = most_gain(4, before.waiters[0], 0.0, [], before.waits[0])
    assert bound is not None
    assert after.throughput / before.throughput - 1 <= bound <= 1.6 * (after.throughput / before.throughput - 1)
    seldom = simulate(1, 4, 200.0, [1.0])
    bound = most_gain(4, seldom.waiters[0], 0.0, [], max(seldom.waits[0], ENOUGH_WAITS))
    assert bound is not None
    assert bound < 0.5


def test_a_model_in_which_the_removal_makes_it_worse_has_a_bound_all_the_same() -> None:
    """The bound is from above: a loss is within it."""
    assert (most_gain(4, 1.0, 0.0, [], 10_000) or 0.0) >= 0.0
    assert most_gain(2, 2.0, 0.0, [], 10_000) is None
    assert most_gain(2, 2.0, 0.0, [0.5], 10_000) is not None


def bounds(path: Path, threads: int, waits_each: int, wait_ns: int) -> tuple[Bound, ...]:
    """Of a recording of two seconds in which threads wait for one lock."""
    builder = RecordingBuilder(path, seconds=2, cpus=2)
    builder.lock(1, "mm_struct.mmap_lock", "tid 5", "owner object")
    for interval in (1, 2):
        builder.waits(interval, 0, 1, 6, [wait_ns] * (threads * waits_each // 2))
    rows = []
    for thread in range(threads):
        builder.waiter(thread + 1, f"worker{thread}")
        rows.append((thread + 1, 1, 6, 0, 0, 10, waits_each, waits_each * wait_ns))
    builder.insert("sample_total", rows)
    builder.finish()
    with open_recording(path) as opened:
        return what_if(make_report(opened, Selection(), 0))


def test_of_a_recording(tmp_path: Path) -> None:
    (bound,) = bounds(tmp_path / "a", threads=4, waits_each=1000, wait_ns=1_000_000)
    # Two of four threads wait at any moment: twice as much at most, and the figures' own uncertainty.
    assert bound.threads == 4
    assert bound.waiters == pytest.approx(2.0)
    assert bound.gain is not None
    assert 1.0 <= bound.gain < 1.4
    assert bound.binds is None
    (few,) = bounds(tmp_path / "b", threads=4, waits_each=4, wait_ns=100_000_000)
    assert (few.gain, few.why_not) == (None, "there were too few waits for it")
    (churn,) = bounds(tmp_path / "c", threads=100, waits_each=2, wait_ns=10_000_000)
    assert churn.why_not.endswith("lockline sees no loop")
    (one,) = bounds(tmp_path / "d", threads=1, waits_each=1000, wait_ns=1_000_000)
    assert one.why_not == "the threads that wait for it are not known"


@pytest.mark.parametrize(
    ("gain", "used", "cpus", "told", "binding"),
    [
        # Six threads of Python on two CPUs: one computes, and another one could.
        (5.0, 1.0, 2, 1.0, 2),
        (5.0, 0.5, 2, 3.0, 2),
        # More CPUs than it could use.
        (5.0, 1.0, 64, 5.0, 0),
        # Other work of the process has them already.
        (5.0, 2.1, 2, 0.0, 2),
        (None, 1.0, 2, None, 0),
        (5.0, 0.0, 2, 5.0, 0),
    ],
)
def test_threads_that_compute_gain_no_more_than_there_are_cpus(
    gain: float | None, used: float, cpus: int, told: float | None, binding: int
) -> None:
    bound = within_cpus(Bound(UserLock("gil", ""), gain, 6, 5.0, computes=12), used, cpus)
    assert (bound.gain, bound.cpus) == (told, binding)
    if binding and told:
        assert (
            bound_words(bound)
            == f"Without gil its 6 threads get at most +{told:.0%} done; then the 2 CPUs are the limit"
        )
