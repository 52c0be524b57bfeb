# SPDX-License-Identifier: GPL-2.0-or-later
"""Contention inside the kernel's futex hash: the bucket's own lock, not the program's."""

from lockline.analysis.findings import Finding, Impact, Lock, Measure, Process, fact, ns, part, remedy
from lockline.analysis.model import Report
from lockline.rules.common import THE_WINDOW, callers, from_caller, share, worth_telling
from lockline.rules.hot_lock import COST

_FUNCTIONS = ("futex_q_lock", "futex_wake", "futex_wait_setup", "futex_requeue", "futex_hash", "futex_q_unlock")


def _is_bucket(name: str) -> bool:
    return name.startswith("futex_hash_bucket.") or name in _FUNCTIONS


def find(report: Report) -> list[Finding]:
    """Waits for a futex_hash_bucket's lock that cost a tenth of a CPU, as of any hot lock."""
    found = []
    for lock in worth_telling(report, report.locks):
        in_futex = [stack for stack in lock.stacks if any(name in _FUNCTIONS for name in callers(stack.frames)[:3])]
        if share(report, lock.figures.wait_ns) < COST:
            continue
        if not _is_bucket(lock.name) and not (lock.kind == "spinlock" and in_futex and lock.source == "unknown"):
            continue
        subject = Lock(lock.name, lock.kind)
        evidence = [
            fact(
                "bucket-waits",
                waits=Measure(lock.figures.waits, "waits"),
                buckets=Measure(lock.instances, "buckets"),
                waiting=ns(lock.figures.wait_ns),
                part=part(share(report, lock.figures.wait_ns), THE_WINDOW),
            ),
            *from_caller(lock),
        ]
        buckets = [] if report.futexes is None else [bucket for bucket in report.futexes.buckets if bucket.waits]
        colliding = [bucket for bucket in buckets if bucket.collision]
        if colliding:
            worst = max(colliding, key=lambda bucket: bucket.wait_ns)
            evidence.append(
                fact(
                    "buckets-collide",
                    colliding=Measure(len(colliding), "buckets"),
                    buckets=Measure(len(buckets), "buckets"),
                    futexes=Measure(len(worst.futexes), "futexes", "the worst bucket"),
                    waiting=ns(worst.wait_ns),
                )
            )
        waiting = [task for task in report.tasks if task.lock == lock.name]
        if waiting:
            evidence.append(fact("most-by", process=Process(waiting[0].comm, waiting[0].tgid)))
        found.append(
            Finding(
                rule="futex-bucket",
                subject=subject,
                confidence="high" if _is_bucket(lock.name) else "medium",
                claim=fact("futex-bucket", lock=subject),
                evidence=tuple(evidence),
                remedies=(
                    remedy("fewer-futex-waiters"),
                    remedy("private-futex-hash"),
                    remedy("watch-lock", lock=Lock(lock.name)),
                ),
                impact=Impact(lock.figures.wait_ns),
            )
        )
    return found
