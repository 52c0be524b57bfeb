# SPDX-License-Identifier: GPL-2.0-or-later
"""Waiting over time, by the intervals that every recording keeps."""

from lockline.analysis.model import Report
from lockline.analysis.selection import select_kinds
from lockline.analysis.waits import SPINNING, selected_locks
from lockline.base.values import dataclass
from lockline.recording.reader import Recording
from lockline.recording.series import interval_summaries, rows_of


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


def read_slices(recording: Recording, report: Report, most_rows: int | None = None) -> tuple[Slice, ...]:
    """The intervals of the report's window in order of time, idle ones too; none of a selection by CPU.

    most_rows: of a longer recording every so many intervals alone are read, so that they have about that many rows;
    the slices are then for bars alone: what spun and which lock was the heaviest is not read.
    Raises RecordingError if the recording is damaged.
    """
    selection = report.window.selection
    if selection.cpus is not None:
        return ()
    window, origin = report.window, report.window.recording_begin_ns
    kinds = recording.kinds()
    chosen = [
        interval
        for interval in recording.intervals()
        if interval.end_ns > max(interval.begin_ns, window.begin_ns) and interval.begin_ns < window.end_ns
    ]
    if most_rows is not None:
        rows = rows_of(recording, [interval.id for interval in chosen])
        chosen = chosen[:: max(1, -(-rows // most_rows))]
    every = len(chosen) == window.intervals
    summaries = {
        row.interval: row
        for row in interval_summaries(
            recording,
            window.recording_end_ns - origin + 1_000_000_000,
            SPINNING,
            None if selection.kinds is None else select_kinds(kinds, selection.kinds),
            None if selection.lock is None else selected_locks(selection, recording.locks()),
            None if every and selection.from_ns is None and selection.to_ns is None else [one.id for one in chosen],
            named=most_rows is None,
        )
    }
    found = []
    for interval in chosen:
        row = summaries.get(interval.id)
        begin, end = interval.begin_ns - origin, interval.end_ns - origin
        if row is None:
            found.append(Slice(begin, end, 0, 0, 0, "", "", 0))
        else:
            kind = kinds.get(row.kind, f"kind {row.kind}") if row.name else ""
            found.append(Slice(begin, end, row.waits, row.wait_ns, row.spinning_ns, row.name, kind, row.most_ns))
    return tuple(sorted(found, key=lambda part: part.begin_ns))
