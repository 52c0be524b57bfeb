# SPDX-License-Identifier: GPL-2.0-or-later
"""Tracers that attach, and that wait until their tracee is off its CPU: wait_task_inactive() (record --ptrace)."""

from lockline.analysis.model import Figures
from lockline.base import histogram
from lockline.base.errors import RecordingError
from lockline.base.values import dataclass
from lockline.recording import rows
from lockline.recording.reader import Recording


@dataclass(frozen=True, slots=True)
class InactiveCpu:
    """Calls that ended on one CPU; turns: calls by their turns, index 0: none, n: 2^(n-1) and more."""

    cpu: int
    figures: Figures
    turns: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class InactiveWaits:
    """All calls; calls is None where the function could not be probed, and then there are no times either."""

    calls: int | None
    turns: int
    wait_ns: int
    max_ns: int
    max_turns: int
    pairs: tuple[rows.InactiveWait, ...]
    cpus: tuple[InactiveCpu, ...]


def read_inactive_waits(recording: Recording) -> InactiveWaits | None:
    """The calls of the whole run, pairs with most waiting (or turns) first; None if none were recorded.

    Raises RecordingError if a histogram is damaged.
    """
    pairs = [
        row for row in recording.table(rows.InactiveWait) if all(value >= 0 for value in row if isinstance(value, int))
    ]
    if not pairs:
        return None
    pairs.sort(key=lambda row: (-row.wait_ns, -row.turns, row.tid, row.target_tid))
    found = []
    for row in recording.table(rows.InactiveCpu, order="cpu"):
        times, turns = histogram.empty(), histogram.empty()
        try:
            histogram.add_blob(times, row.histogram)
            histogram.add_blob(turns, row.turns)
        except ValueError as error:
            raise RecordingError(f"{recording.path}: the recording is damaged: {error}") from error
        last = max((index for index, count in enumerate(turns) if count), default=-1)
        found.append(InactiveCpu(row.cpu, Figures(sum(times), 0, 0, 0, tuple(times)), tuple(turns[: last + 1])))
    calls = sum(row.calls for row in pairs)
    return InactiveWaits(
        calls=calls or None,
        turns=sum(row.turns for row in pairs),
        wait_ns=sum(row.wait_ns for row in pairs),
        max_ns=max(row.max_ns for row in pairs),
        max_turns=max(row.max_turns for row in pairs),
        pairs=tuple(pairs),
        cpus=tuple(found),
    )


@dataclass(frozen=True, slots=True)
class AttachCpu:
    """Calls of ptrace_attach() that ended on one CPU."""

    cpu: int
    figures: Figures


@dataclass(frozen=True, slots=True)
class Attaches:
    """All calls of ptrace_attach(), failed ones too; times in ns."""

    attaches: int
    failed: int
    attach_ns: int
    max_ns: int
    pairs: tuple[rows.PtraceAttach, ...]
    cpus: tuple[AttachCpu, ...]


def read_attaches(recording: Recording) -> Attaches | None:
    """The calls of the whole run, pairs with most time first; None if none were recorded.

    Raises RecordingError if a histogram is damaged.
    """
    pairs = [
        row for row in recording.table(rows.PtraceAttach) if all(value >= 0 for value in row if isinstance(value, int))
    ]
    if not pairs:
        return None
    pairs.sort(key=lambda row: (-row.attach_ns, row.tid, row.target_tid))
    found = []
    for row in recording.table(rows.PtraceAttachCpu, order="cpu"):
        times = histogram.empty()
        try:
            histogram.add_blob(times, row.histogram)
        except ValueError as error:
            raise RecordingError(f"{recording.path}: the recording is damaged: {error}") from error
        found.append(AttachCpu(row.cpu, Figures(sum(times), 0, 0, 0, tuple(times))))
    failed = sum(loss.events for loss in recording.losses() if loss.name == "attach_failed")
    return Attaches(
        attaches=sum(row.attaches for row in pairs),
        failed=max(0, failed),
        attach_ns=sum(row.attach_ns for row in pairs),
        max_ns=max(row.max_ns for row in pairs),
        pairs=tuple(pairs),
        cpus=tuple(found),
    )
