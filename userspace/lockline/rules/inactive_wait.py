# SPDX-License-Identifier: GPL-2.0-or-later
"""ptrace's wait for its tracee to be off its CPU: a loop that takes the very lock the tracee needs to get there.

tracing.py joins it with the other waits that tracing brings.
"""

from collections.abc import Sequence

from lockline.analysis.episode_model import Episode
from lockline.analysis.findings import (
    Cpu,
    Fact,
    Finding,
    Function,
    Impact,
    Lock,
    Measure,
    Task,
    Text,
    fact,
    ns,
    remedy,
)
from lockline.analysis.model import Holder, LockWaits, Report, StackShare
from lockline.rules.common import MS, callers, share

_LOOP = ("wait_task_inactive", "ptrace_check_attach")
# get_signal() is in every delivery of a signal.
_TRACEE = ("ptrace_stop", "ptrace_notify", "ptrace_do_notify", "do_jobctl_trap")
_LOCKS = ("runqueues", "task_struct.pi_lock", "rq.")
LONG_NS = 1 * MS
WORTH_TELLING = 0.01
# Turns in one call: a tracee that stops at once costs one or two.
MANY_TURNS = 50


def _turns(report: Report) -> list[Fact]:
    """Calls with many turns of the loop, as record --ptrace and --episodes tell."""
    told = []
    inactive = report.inactive_waits
    if inactive is not None and inactive.max_turns >= MANY_TURNS:
        pair = max(inactive.pairs, key=lambda pair: pair.max_turns)
        told.append(
            fact(
                "tracer-loops",
                tracer=Task(pair.comm, pair.tid),
                tracee=Task(pair.target_comm, pair.target_tid),
                most=Measure(pair.max_turns, "turns", "one call"),
                turns=Measure(pair.turns, "turns"),
                calls=Measure(pair.calls, "calls"),
            )
        )
    for episode in report.episodes:
        turns = sum(loop.turns for loop in episode.loops)
        if turns < MANY_TURNS:
            continue
        loop = max(episode.loops, key=lambda loop: loop.turns)
        relief = episode.relief
        told.append(
            fact(
                "loop-during-wait",
                waiter=Task(episode.waiter.comm, episode.waiter.tid),
                waited=ns(episode.duration_ns),
                lock=Lock(episode.lock),
                looper=Task(loop.task.comm, loop.task.tid),
                cpu=Cpu(loop.cpu),
                turns=Measure(turns, "turns"),
                last=None if relief is None else Text(relief.name or relief.type),
                last_cpu=None if relief is None else Cpu(relief.cpu),
                before_end=None if relief is None else ns(relief.before_end_ns),
            )
        )
    return told[:3]


def _tracer(
    report: Report, looped: Sequence[Episode], held: Sequence[tuple[LockWaits, Holder, StackShare]]
) -> Task | None:
    """Who turns the loop: as ptrace's own records, an episode, or the lock's holders tell; None: nobody is known."""
    inactive = report.inactive_waits
    if inactive is not None and inactive.max_turns >= MANY_TURNS:
        pair = max(inactive.pairs, key=lambda pair: pair.max_turns)
        return Task(pair.comm, pair.tid)
    if looped:
        loop = max((loop for episode in looped for loop in episode.loops), key=lambda loop: loop.turns)
        return Task(loop.task.comm, loop.task.tid)
    known = [(stack.wait_ns, holder) for _, holder, stack in held if holder.kind == "task"]
    if not known:
        waits = report.traced_waits
        tracers = [one.task for one in waits.tasks if one.traces] if waits is not None else []
        return Task(tracers[0].comm, tracers[0].tid) if tracers else None
    _, holder = max(known, key=lambda pair: pair[0])
    return Task(holder.comm, holder.tid)


def find(report: Report) -> list[Finding]:
    """Waits for a run queue's lock or a task's pi_lock with wait_task_inactive() on one of the two sides."""
    loops = [
        (lock, stack)
        for lock in report.locks
        if lock.name.startswith(_LOCKS)
        for stack in lock.stacks
        if any(name in _LOOP for name in callers(stack.frames))
    ]
    held = [
        (lock, holder, stack)
        for lock in report.locks
        if lock.name.startswith(_LOCKS)
        for holder in lock.holders
        for stack in holder.stacks
        if any(name in _LOOP for name in callers(stack.frames))
    ]
    long = [
        outlier
        for outlier in report.outliers
        if outlier.wait_ns >= LONG_NS
        and outlier.lock.startswith(_LOCKS)
        and any(name in _LOOP + _TRACEE for name in callers(outlier.stack))
    ]
    waited_ns = sum(stack.wait_ns for _, stack in loops)
    caused_ns = sum(stack.wait_ns for _, _, stack in held)
    turns = _turns(report)
    if not turns and not long and share(report, waited_ns + caused_ns) < WORTH_TELLING:
        return []
    evidence = list(turns)
    if held:
        lock, holder, _ = max(held, key=lambda item: item[2].wait_ns)
        evidence.append(
            fact(
                "loop-holds",
                holder=Task(holder.comm, holder.tid, holder.container),
                lock=Lock(lock.name),
                caused=ns(caused_ns),
            )
        )
    if loops:
        evidence.append(fact("loop-waits", lock=Lock(loops[0][0].name), waiting=ns(waited_ns)))
    evidence += [
        fact(
            "one-wait-in",
            waiter=Task(outlier.task.comm, outlier.task.tid, outlier.container),
            waited=ns(outlier.wait_ns),
            lock=Lock(outlier.lock),
            cpu=Cpu(outlier.cpu),
            function=Function(callers(outlier.stack)[0]),
        )
        for outlier in long[:2]
    ]
    if len(long) > 2:
        evidence.append(fact("such-waits", waits=Measure(len(long), "waits"), limit=ns(LONG_NS, "at least")))
    looped = [one for one in report.episodes if sum(loop.turns for loop in one.loops) >= MANY_TURNS]
    long_ns = max(sum(outlier.wait_ns for outlier in long), sum(episode.duration_ns for episode in looped))
    tracer = _tracer(report, looped, held)
    both = bool(held) and any(any(name in _TRACEE for name in callers(outlier.stack)) for outlier in long)
    return [
        Finding(
            rule="inactive-wait",
            subject=Function("wait_task_inactive"),
            confidence="high" if both or turns else "medium" if held else "low",
            claim=fact("inactive-wait", tracer=tracer),
            evidence=tuple(evidence),
            remedies=(
                remedy("trace-less") if tracer is None else remedy("stop-tracer", tracer=tracer),
                remedy("record-ptrace"),
            ),
            impact=Impact(waited_ns + caused_ns + long_ns),
        )
    ]
