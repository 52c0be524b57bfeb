# SPDX-License-Identifier: GPL-2.0-or-later
"""Reports of single intervals: of a recording, or of one that is still being written."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from lockline.analysis.containers import container_name, read_containers
from lockline.analysis.holders import with_holders
from lockline.analysis.model import LockWaits, Report
from lockline.analysis.report import read_report
from lockline.analysis.selection import Selection
from lockline.base.errors import LocklineError, RecordingError
from lockline.recording.reader import Recording, open_recording
from lockline.recording.rows import Interval


def steps(recording: Recording) -> list[Interval]:
    """The intervals that a view can show, oldest first."""
    return [interval for interval in recording.intervals() if interval.end_ns > interval.begin_ns]


def read_step(recording: Recording, step: int | None) -> tuple[Report, Sequence[LockWaits], int]:
    """The report of an interval from 0 on (-1: the last one; None: of all), the first locks with holders, the steps.

    Raises LocklineError if there is no such interval, or the recording is damaged.
    """
    known = steps(recording)
    if step is None:
        report = read_report(recording, Selection(), 0, 0)
        return report, report.locks, len(known)
    if not known:
        raise LocklineError(f"{recording.path}: no interval in it yet")
    chosen = known[min(step, len(known) - 1)]
    begin = recording.meta().get("begin_ns")
    origin = begin if isinstance(begin, int) else known[0].begin_ns
    # A limit on an edge would bring in the neighbour.
    selection = Selection(from_ns=chosen.begin_ns - origin + 1, to_ns=chosen.end_ns - origin - 1)
    report = read_report(recording, selection, 0, 0)
    names = {cgroup: container_name(row) for cgroup, row in read_containers(recording).items()}
    return report, with_holders(recording, report.locks, recording.kinds(), names), len(known)


def read_file(path: Path, step: int | None) -> tuple[Report, Sequence[LockWaits], int]:
    """read_step() of a file."""
    with open_recording(path) as recording:
        return read_step(recording, step)


def read_last(path: Path, after_ns: int) -> tuple[Report, Sequence[LockWaits], int] | None:
    """The last interval of a recording that is being written; None if none ended after this time yet."""
    # It begins as an empty file, and its tables come a little later.
    with suppress(RecordingError), open_recording(path) as recording:
        if any(interval.end_ns > after_ns for interval in steps(recording)):
            return read_step(recording, -1)
    return None
