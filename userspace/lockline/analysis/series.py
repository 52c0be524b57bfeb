# SPDX-License-Identifier: GPL-2.0-or-later
"""Waiting over time, by the intervals that every recording keeps."""

from collections import defaultdict
from dataclasses import dataclass

from lockline.analysis.model import Report
from lockline.analysis.selection import lock_matches, select_kinds
from lockline.analysis.waits import SPINNING, UNKNOWN_LOCK
from lockline.recording.reader import Recording


@dataclass(frozen=True, slots=True)
class Slice:
    """One interval, offsets in ns from the begin of the recording.

    heaviest, heaviest_kind: the lock with most waiting in it, '' without waits; heaviest_ns: how much.
    """

    begin_ns: int
    end_ns: int
    waits: int
    wait_ns: int
    spinning_ns: int
    heaviest: str
    heaviest_kind: str
    heaviest_ns: int

    @property
    def waiters(self) -> float:
        """Tasks that waited on average."""
        return self.wait_ns / (self.end_ns - self.begin_ns) if self.end_ns > self.begin_ns else 0.0


def read_slices(recording: Recording, report: Report) -> tuple[Slice, ...]:
    """The intervals of the report's window in order of time, idle ones too; none of a selection by CPU.

    Raises RecordingError if the recording is damaged.
    """
    selection = report.window.selection
    if selection.cpus is not None:
        return ()
    window, origin = report.window, report.window.recording_begin_ns
    locks, kinds = recording.locks(), recording.kinds()
    wanted = None if selection.kinds is None else set(select_kinds(kinds, selection.kinds))
    longest = window.recording_end_ns - origin + 1_000_000_000
    sums: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
    by_lock: defaultdict[int, defaultdict[tuple[str, str], int]] = defaultdict(lambda: defaultdict(int))
    for row in recording.interval_sums(longest):
        name = locks.get(row.lock, UNKNOWN_LOCK).name
        if (wanted is not None and row.kind not in wanted) or (
            selection.lock is not None and not lock_matches(selection.lock, name)
        ):
            continue
        entry = sums[row.interval]
        entry[0] += row.waits
        entry[1] += row.wait_ns
        entry[2] += row.wait_ns if row.kind in SPINNING else 0
        by_lock[row.interval][name, kinds.get(row.kind, f"kind {row.kind}")] += row.wait_ns
    found = []
    for interval in recording.intervals():
        if (
            interval.end_ns <= interval.begin_ns
            or interval.end_ns <= window.begin_ns
            or interval.begin_ns >= window.end_ns
        ):
            continue
        waits, wait_ns, spinning_ns = sums.get(interval.id, (0, 0, 0))
        (name, kind), most = max(by_lock.get(interval.id, {("", ""): 0}).items(), key=lambda item: (item[1], item[0]))
        found.append(
            Slice(interval.begin_ns - origin, interval.end_ns - origin, waits, wait_ns, spinning_ns, name, kind, most)
        )
    return tuple(sorted(found, key=lambda part: part.begin_ns))
