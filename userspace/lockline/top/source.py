# SPDX-License-Identifier: GPL-2.0-or-later
"""Reports of single intervals: of a recording, or of one that is being written, of which only what is new is read."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from lockline.analysis.containers import container_name, read_containers
from lockline.analysis.holders import with_holders
from lockline.analysis.model import LockWaits, Report
from lockline.analysis.report import SLACK_NS, read_report
from lockline.analysis.samples import tasks, with_stacks
from lockline.analysis.selection import Selection
from lockline.analysis.user_space.futex import read_futexes
from lockline.analysis.user_space.futex_waits import Futexes
from lockline.analysis.waits import Limits, read_waits
from lockline.base.errors import LocklineError, RecordingError
from lockline.base.values import replace
from lockline.recording.reader import Recording, open_recording
from lockline.recording.rows import HolderTotal, Interval
from lockline.top.state import State, key_of

# What hardly changes (host, plan, how far lengths are to be trusted) is read anew after so many intervals.
_WHOLE_EVERY = 30
# Figures of the whole recording take longer to read the longer it is.  This part of a CPU is what they may cost.
_WHOLE_PART = 1 / 300


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


class Follower:
    """A recording that is being written.  It stays open, but nothing of it is locked between two reads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._opened = ExitStack()
        self._recording: Recording | None = None
        self._base: Report | None = None
        self._interval: Interval | None = None
        self._reads = 0
        # By function: what was read last, when to read it anew, and what was found.
        self._whole: dict[str, tuple[object, float, Any]] = {}

    def close(self) -> None:
        """Let go of the file: the one who writes it can finish it then."""
        self._opened.close()
        self._recording = None

    def next(self) -> Report | None:
        """The newest interval: its locks by waiting; None if it was given already, or there is none yet."""
        try:
            return self._next(self._open())
        except RecordingError:
            # It begins as an empty file, its tables come a little later, and a writer that ends takes all of it.
            self.close()
            return None

    def _next(self, recording: Recording) -> Report | None:
        with recording.moment():
            newest = next(iter(recording.intervals(newest=1)), None)
            if newest is None or newest.end_ns <= newest.begin_ns or newest == self._interval:
                return None
            self._interval = newest
            if self._base is None or self._reads % _WHOLE_EVERY == 0:
                self._base = read_step(recording, -1)[0]
            self._reads += 1
            return self._locks(recording, self._base, newest)

    def details(self, report: Report, state: State) -> tuple[Report, Sequence[LockWaits]]:
        """The interval's report with what the view shows beside the locks; the selected lock with who held it."""
        if self._recording is None or self._interval is None:
            return report, ()
        with self._recording.moment():
            # Each view has a line on them.
            if report.futexes is not None or state.view == "futexes":
                found = self._seldom("futexes", None, self._futexes, self._recording, report)
                report = replace(report, futexes=found)
            if state.view == "lock":
                return self._one_lock(self._recording, report, state, (self._interval.id, self._interval.id))
        return report, ()

    def _seldom(self, name: str, what: object, read: Callable[..., Any], *arguments: object) -> Any:
        """What a function reads of the whole recording: anew once that is a small part of the time since."""
        known, due, value = self._whole.get(name, (None, 0.0, None))
        now = time.monotonic()
        if known != what or now >= due:
            begun = time.process_time()
            value = read(*arguments)
            self._whole[name] = what, now + (time.process_time() - begun) / _WHOLE_PART, value
        return value

    @staticmethod
    def _futexes(recording: Recording, report: Report) -> Futexes | None:
        span_ns = report.window.end_ns - report.window.recording_begin_ns
        return read_futexes(recording, recording.locks(), span_ns)

    def _open(self) -> Recording:
        if self._recording is None:
            self._recording = self._opened.enter_context(open_recording(self._path))
        return self._recording

    def _locks(self, recording: Recording, base: Report, interval: Interval) -> Report:
        span = (interval.id, interval.id)
        window = replace(
            base.window,
            begin_ns=interval.begin_ns,
            end_ns=interval.end_ns,
            recording_end_ns=max(base.window.recording_end_ns, interval.end_ns),
        )
        limits = Limits(window.end_ns - window.recording_begin_ns + SLACK_NS, window.cpus)
        waits = read_waits(recording, Selection(), span, recording.kinds(), None, recording.locks(span), limits)
        return replace(
            base,
            window=window,
            totals=waits.totals,
            kinds=waits.kinds,
            locks=waits.locks,
            cpus=waits.cpus,
            tasks=(),
            cgroups=(),
            outliers=(),
        )

    def _one_lock(
        self, recording: Recording, report: Report, state: State, span: tuple[int, int]
    ) -> tuple[Report, Sequence[LockWaits]]:
        chosen = [lock for lock in report.locks if key_of(lock) == state.selected]
        if not chosen:
            return report, ()
        kinds = recording.kinds()
        names = {cgroup: container_name(row) for cgroup, row in read_containers(recording).items()}
        weights = recording.task_weights(span)
        waiters = recording.waiters([weight.waiter for weight in weights])
        found = with_stacks(recording, chosen, span, kinds)
        held = next(recording.table(HolderTotal, limit=1), None) is not None
        others = [lock for lock in report.locks if key_of(lock) != state.selected]
        known = recording.locks(span)
        return (
            replace(report, locks=(*found, *others), tasks=tasks(weights, waiters, known, kinds, names)),
            self._seldom("holders", state.selected, with_holders, recording, found, kinds, names) if held else found,
        )
