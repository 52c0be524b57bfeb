# SPDX-License-Identifier: GPL-2.0-or-later
"""Tracers that attach, and that wait until their tracee is off its CPU: wait_task_inactive() (record --ptrace).

And the waits for locks that tracing brings, which every recording has.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

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


# Functions that run in a task that traces (the system call), and in one that is traced.  ptrace_may_access() is
# neither: reading /proc/PID passes it too.
_TRACER = re.compile(
    r"(__(x64|ia32|arm64|do|se)_)?(compat_)?sys_ptrace|(compat_)?arch_ptrace|compat_ptrace_request|exit_ptrace"
    r"|ptrace_(check_attach|request|attach|seize|detach|resume|(un)?freeze_traced)"
)
_TRACEE = re.compile(r"ptrace_(stop|notify|do_notify|signal|traceme)")
# What an interrupt does is not for the task that it came to.
_INTERRUPT = re.compile(r"asm_\w*interrupt|asm_sysvec_\w+|el1h_64_irq(_handler)?|el1_interrupt")


@dataclass(frozen=True, slots=True)
class TracedTask:
    """A task that waited for locks because it traces, or is traced; wait_ns: estimated from samples."""

    task: rows.Waiter
    traces: bool
    wait_ns: int


@dataclass(frozen=True, slots=True)
class TracedWaits:
    """Waits for locks that the kernel reaches only where a task is traced, of tracers and tracees; times in ns.

    sampled_ns: what all samples stand for, those of other waits too.  locks: name, kind and time, heaviest first.
    """

    wait_ns: int
    sampled_ns: int
    tasks: tuple[TracedTask, ...]
    locks: tuple[tuple[str, str, int], ...]


def _side(frames: Sequence[rows.Frame]) -> str:
    """Whose side a stack is on, by the function nearest to the lock: "tracer", "tracee" or ""."""
    for frame in frames:
        name = frame.symbol.partition(".")[0]
        if _INTERRUPT.fullmatch(name):
            return ""
        if _TRACEE.fullmatch(name):
            return "tracee"
        if _TRACER.fullmatch(name):
            return "tracer"
    return ""


def read_traced_waits(
    recording: Recording,
    locks: Mapping[int, rows.Lock],
    kinds: Mapping[int, str],
    waiters: Mapping[int, rows.Waiter],
    weights: Sequence[rows.TaskWeight],
) -> TracedWaits | None:
    """The waits of the whole run that tracing brings; None where no sample is one.

    weights: of all samples.  Raises RecordingError.
    """
    stacks = recording.stacks_through("ptrace")
    sides = {stack: side for stack, frames in recording.stacks(stacks).items() if (side := _side(frames))}
    if not sides:
        return None
    by_task: defaultdict[tuple[int, bool], int] = defaultdict(int)
    by_lock: defaultdict[tuple[str, str], int] = defaultdict(int)
    for sample in recording.samples_of(sorted(sides)):
        by_task[sample.waiter, sides[sample.stack] == "tracer"] += sample.wait_ns
        lock = locks.get(sample.lock)
        by_lock[lock.name if lock else "?", kinds.get(sample.kind, "")] += sample.wait_ns
    tasks = [
        TracedTask(waiters[waiter], traces, ns)
        for (waiter, traces), ns in sorted(by_task.items(), key=lambda item: -item[1])
        if waiter in waiters
    ]
    return TracedWaits(
        wait_ns=sum(by_task.values()),
        sampled_ns=sum(weight.wait_ns for weight in weights),
        tasks=tuple(tasks),
        locks=tuple((*lock, ns) for lock, ns in sorted(by_lock.items(), key=lambda item: -item[1])),
    )
