# SPDX-License-Identifier: GPL-2.0-or-later
"""Waiting over time by lock and by CPU, in as many steps as a page can show.  Sums are kept."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lockline.analysis.model import LockWaits, Report
from lockline.base import histogram
from lockline.base.numbers import duration
from lockline.recording.reader import Recording

# Steps of time, rows of the chart of locks, and of the map of CPUs: what does not fit is summed up.
STEPS, LOCKS, CPUS = 240, 11, 256
OTHERS = "all others"

Row = tuple[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Series:
    """steps: begin and end in ns from the begin of the recording.  locks, cpus: name, and wait ns in each step.

    joined: intervals of the recording in one step.
    """

    steps: tuple[tuple[int, int], ...]
    locks: tuple[Row, ...]
    cpus: tuple[Row, ...]
    joined: int


def lock_name(lock: LockWaits) -> str:
    """A lock in a chart."""
    return f"{lock.name or '?'} ({lock.kind})"


def _rows(sums: Mapping[str, Sequence[int]], most: int, order: Callable[[str], tuple[int, str]]) -> tuple[Row, ...]:
    """The heaviest rows in their order, the others as one."""
    ranked = sorted(sums, key=lambda name: (-sum(sums[name]), name))
    shown = sorted(ranked[:most], key=order)
    found = [(name, tuple(sums[name])) for name in shown]
    if ranked[most:]:
        others = [sum(column) for column in zip(*(sums[name] for name in ranked[most:]), strict=True)]
        found.append((OTHERS, tuple(others)))
    return tuple(found)


def read_series(recording: Recording, report: Report) -> Series:
    """The waits of the report in steps of time.  Raises RecordingError if the recording is damaged."""
    window, origin = report.window, report.window.recording_begin_ns
    intervals = [
        interval
        for interval in sorted(recording.intervals(), key=lambda one: one.begin_ns)
        if interval.end_ns > interval.begin_ns
        and interval.end_ns > window.begin_ns
        and interval.begin_ns < window.end_ns
    ]
    joined = max(1, -(-len(intervals) // STEPS))
    step_of = {interval.id: index // joined for index, interval in enumerate(intervals)}
    groups = [intervals[index : index + joined] for index in range(0, len(intervals), joined)]
    steps = tuple((group[0].begin_ns - origin, group[-1].end_ns - origin) for group in groups)
    kinds = recording.kinds()
    names = {(lock, entry.kind): lock_name(entry) for entry in report.locks for lock in entry.ids}
    locks: defaultdict[str, list[int]] = defaultdict(lambda: [0] * len(steps))
    cpus: defaultdict[str, list[int]] = defaultdict(lambda: [0] * len(steps))
    wanted = None if window.selection.cpus is None else set(window.selection.cpus)
    span = (min(step_of), max(step_of)) if step_of else (1, 0)
    for row in recording.interval_cells(span):
        name, step = names.get((row.lock, kinds.get(row.kind, f"kind {row.kind}"))), step_of.get(row.interval)
        if name is None or step is None or (wanted is not None and row.cpu not in wanted):
            continue
        locks[name][step] += row.wait_ns
        cpus[str(row.cpu)][step] += row.wait_ns
    total = {name: sum(values) for name, values in locks.items()}
    return Series(
        steps,
        _rows(locks, LOCKS, lambda name: (-total[name], name)),
        _rows(cpus, CPUS, lambda name: (int(name), name)),
        joined,
    )


def lengths(lock: LockWaits) -> list[tuple[int, int]]:
    """Lower bound in ns and count of each bucket from the first wait to the last, without those of no wait outside."""
    counts = lock.figures.histogram[: histogram.OVERFLOW + 1]
    used = [index for index, count in enumerate(counts) if count]
    return [(histogram.LOWER[index], counts[index]) for index in range(used[0], used[-1] + 1)] if used else []


def lengths_of_all(locks: Sequence[LockWaits], most: int) -> tuple[list[str], list[Row]]:
    """Titles of octaves, and for the first locks how long was waited, in ns, in waits of each octave."""
    octaves = [[0] * 34 for _ in locks[:most]]
    for row, lock in zip(octaves, locks, strict=False):
        for index, count in enumerate(lock.figures.histogram[: histogram.OVERFLOW + 1]):
            if count:
                row[max(0, histogram.LOWER[index].bit_length() - 6)] += count * histogram.middle(
                    index, lock.figures.max_ns
                )
    used = [index for index in range(34) if any(row[index] for row in octaves)]
    span = range(min(used, default=0), max(used, default=-1) + 1)
    titles = [duration(1 << (index + 5)) if index and (index - span[0]) % 3 == 0 else "" for index in span]
    rows = [(lock_name(lock), tuple(row[index] for index in span)) for row, lock in zip(octaves, locks, strict=False)]
    return titles, rows
