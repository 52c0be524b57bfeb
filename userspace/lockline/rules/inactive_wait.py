# SPDX-License-Identifier: GPL-2.0-or-later
"""ptrace's wait for its tracee to be off its CPU: a loop that takes the very lock the tracee needs to get there."""

from lockline.analysis.model import Finding, Report
from lockline.base.numbers import count, duration
from lockline.rules.common import MS, callers, share

_LOOP = ("wait_task_inactive", "ptrace_check_attach")
_TRACEE = ("ptrace_stop", "ptrace_notify", "ptrace_do_notify", "do_jobctl_trap", "get_signal")
_LOCKS = ("runqueues", "task_struct.pi_lock", "rq.")
LONG_NS = 1 * MS
WORTH_TELLING = 0.01
# Turns in one call: a tracee that stops at once costs one or two.
MANY_TURNS = 50


def _turns(report: Report) -> list[str]:
    """Calls with many turns of the loop, as record --ptrace and --episodes tell."""
    told = []
    inactive = report.inactive_waits
    if inactive is not None and inactive.max_turns >= MANY_TURNS:
        pair = max(inactive.pairs, key=lambda pair: pair.max_turns)
        told.append(
            f"{pair.comm} ({pair.tid}) waited for {pair.target_comm} ({pair.target_tid}) in wait_task_inactive():"
            f" up to {count(pair.max_turns)} turns in one call, {count(pair.turns)} in {count(pair.calls)} calls"
        )
    for episode in report.episodes:
        turns = sum(loop.turns for loop in episode.loops)
        if turns < MANY_TURNS:
            continue
        loop = max(episode.loops, key=lambda loop: loop.turns)
        relief = episode.relief
        told.append(
            f"{episode.waiter.comm} ({episode.waiter.tid}) waited {duration(episode.duration_ns)} for {episode.lock},"
            f" while {loop.task.comm} ({loop.task.tid}) on CPU {loop.cpu} made {count(turns)} turns"
            + (
                f"; the last thing before its end was {relief.name or relief.type} on CPU {relief.cpu},"
                f" {duration(relief.before_end_ns)} before"
                if relief is not None
                else ""
            )
        )
    return told[:3]


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
            f"{holder.comm} ({holder.tid}) takes and drops {lock.name} in wait_task_inactive(): waits of"
            f" {duration(caused_ns)} in sum are charged to it"
        )
    if loops:
        evidence.append(
            f"wait_task_inactive() itself waits for {loops[0][0].name}: {duration(waited_ns)} of sampled waits"
        )
    evidence += [
        f"{outlier.task.comm} ({outlier.task.tid}) waited {duration(outlier.wait_ns)} for {outlier.lock} on CPU"
        f" {outlier.cpu}, in {callers(outlier.stack)[0]}()"
        for outlier in long[:2]
    ]
    if len(long) > 2:
        evidence.append(f"{count(len(long))} such waits of {duration(LONG_NS)} or more are kept")
    both = bool(held) and any(any(name in _TRACEE for name in callers(outlier.stack)) for outlier in long)
    return [
        Finding(
            rule="inactive-wait",
            title="ptrace waits in a loop for its tracee, which waits for the lock that the loop takes",
            confidence="high" if both or turns else "medium" if held else "low",
            evidence=tuple(evidence),
            next=(
                "find out who traces (strace, debuggers, checkpointing) and trace less on this machine",
                "`lockline record --holders --ptrace` tells tracer, tracee and the turns of the loop",
            ),
            wait_ns=waited_ns + caused_ns + sum(outlier.wait_ns for outlier in long),
        )
    ]
