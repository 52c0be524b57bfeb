# SPDX-License-Identifier: GPL-2.0-or-later
"""Contention inside the kernel's futex hash: the bucket's own lock, not the program's."""

from lockline.analysis.model import Finding, Report
from lockline.base.numbers import count, duration, percent
from lockline.rules.common import callers, heaviest_caller, share, worth_telling

_FUNCTIONS = ("futex_q_lock", "futex_wake", "futex_wait_setup", "futex_requeue", "futex_hash", "futex_q_unlock")


def _is_bucket(name: str) -> bool:
    return name.startswith("futex_hash_bucket.") or name in _FUNCTIONS


def find(report: Report) -> list[Finding]:
    """Waits for a futex_hash_bucket's lock that amount to something."""
    found = []
    for lock in worth_telling(report, report.locks):
        in_futex = [stack for stack in lock.stacks if any(name in _FUNCTIONS for name in callers(stack.frames)[:3])]
        if not _is_bucket(lock.name) and not (lock.kind == "spinlock" and in_futex and lock.source == "unknown"):
            continue
        evidence = [
            (
                f"{count(lock.figures.waits)} waits for {count(lock.instances)} bucket{'s' * (lock.instances > 1)},"
                f" {duration(lock.figures.wait_ns)}: {percent(share(report, lock.figures.wait_ns))} of the window"
            )
        ]
        caller = heaviest_caller(lock)
        if caller:
            evidence.append(f"{percent(caller[1])} of the sampled waiting comes from {caller[0]}()")
        buckets = [] if report.futexes is None else [bucket for bucket in report.futexes.buckets if bucket.waits]
        colliding = [bucket for bucket in buckets if bucket.collision]
        if colliding:
            worst = max(colliding, key=lambda bucket: bucket.wait_ns)
            evidence.append(
                f"{count(len(colliding))} of {count(len(buckets))} buckets are shared by several futexes:"
                f" {count(len(worst.futexes))} of them in the worst, {duration(worst.wait_ns)}"
            )
        waiting = [task for task in report.tasks if task.lock == lock.name]
        if waiting:
            evidence.append(f"most of it by {waiting[0].comm} ({waiting[0].tgid})")
        found.append(
            Finding(
                rule="futex-bucket",
                title="System calls of futexes queue for the kernel's own hash buckets",
                confidence="high" if _is_bucket(lock.name) else "medium",
                evidence=tuple(evidence),
                next=(
                    f"`lockline watch -i FILE 'lock:{lock.name}'` tells whether the bucket's line is shared falsely",
                    "Linux 6.16 and newer give a process a hash of its own: fewer futexes meet in a bucket",
                    "spin in user space before the system call, or have fewer threads wait on one futex",
                ),
                wait_ns=lock.figures.wait_ns,
            )
        )
    return found
