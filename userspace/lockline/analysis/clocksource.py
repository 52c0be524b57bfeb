# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads of a clock device that all CPUs share (record --clocksource)."""

from collections import defaultdict

from lockline.analysis.model import Figures, StackShare
from lockline.analysis.samples import UNKNOWN_WAITER
from lockline.base import histogram
from lockline.base.errors import RecordingError
from lockline.base.values import dataclass
from lockline.recording import rows
from lockline.recording.reader import Recording
from lockline.recording.stacks import without_probe

CALLERS = 10
TASKS = 10


@dataclass(frozen=True, slots=True)
class CpuReads:
    """Reads on one CPU; share: of that CPU's time, None if they were not timed."""

    cpu: int
    figures: Figures
    share: float | None


@dataclass(frozen=True, slots=True)
class ClockReads:
    """Reads of the device.  share: of the time of all CPUs, None if the reads were counted alone."""

    function: str
    timed: bool
    figures: Figures
    share: float | None
    cpus: tuple[CpuReads, ...]
    callers: tuple[StackShare, ...]
    tasks: tuple[tuple[rows.Waiter, int, int], ...]


def read_clock_reads(recording: Recording, duration_ns: int, cpus: int | None) -> ClockReads | None:
    """The reads of a recording of duration_ns on so many CPUs; None if none were recorded.

    Raises RecordingError if a histogram is damaged.
    """
    totals = [row for row in recording.table(rows.ClockTotal, order="cpu") if min(row[:4]) >= 0]
    if not totals:
        return None
    meta = recording.meta()
    timed = bool(meta.get("clock_reads_timed"))
    whole = histogram.empty()
    found = []
    for row in totals:
        counts = histogram.empty()
        try:
            histogram.add_blob(counts, row.histogram)
            histogram.add_blob(whole, row.histogram)
        except ValueError as error:
            raise RecordingError(f"{recording.path}: the recording is damaged: {error}") from error
        share = row.read_ns / duration_ns if timed and duration_ns > 0 else None
        found.append(CpuReads(row.cpu, Figures(row.reads, row.read_ns, row.max_ns, 0, tuple(counts)), share))
    figures = Figures(
        sum(row.reads for row in totals),
        sum(row.read_ns for row in totals),
        max(row.max_ns for row in totals),
        0,
        tuple(whole),
    )
    by_stack: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
    by_task: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0])
    for sample in recording.table(rows.ClockSample):
        if min(sample) < 0:
            continue
        for index, value in enumerate((sample.samples, sample.reads, sample.read_ns)):
            by_stack[sample.stack][index] += value
        by_task[sample.task][0] += sample.reads
        by_task[sample.task][1] += sample.read_ns
    ranked = sorted(by_stack.items(), key=lambda item: (-item[1][2], -item[1][1], item[0]))[:CALLERS]
    frames = recording.stacks([stack for stack, _ in ranked])
    waiters = recording.waiters()
    tasks = sorted(by_task.items(), key=lambda item: (-item[1][1], -item[1][0], item[0]))[:TASKS]
    return ClockReads(
        function=str(meta.get("clock_function") or "?"),
        timed=timed,
        figures=figures,
        share=figures.wait_ns / (duration_ns * cpus) if timed and cpus and duration_ns > 0 else None,
        cpus=tuple(found),
        callers=tuple(
            StackShare(samples, reads, ns, without_probe(frames[stack]))
            for stack, (samples, reads, ns) in ranked
            if stack in frames
        ),
        tasks=tuple((waiters.get(task, UNKNOWN_WAITER), reads, ns) for task, (reads, ns) in tasks),
    )
