# SPDX-License-Identifier: GPL-2.0-or-later
"""A convoy: tasks queue for one lock all the time, though each holds it shortly."""

from lockline.analysis.findings import Confidence, Finding, Impact, Lock, Measure, fact, ns, part, remedy
from lockline.analysis.model import LockWaits, Report
from lockline.rules.common import (
    ALL_WAITING,
    from_caller,
    record_again,
    share,
    stands_out,
    visitor,
    which_file,
    whose_memory,
    worth_telling,
    writers,
)

# Waiters on average, at any moment.
QUEUE = 1.0
# A queue of several: shorter waits are those behind the holder alone.
HOLDS = 2


def _long_holds(lock: LockWaits) -> bool:
    """Whether it is known that waits last about as long as one hold, so that nobody queues."""
    holds = lock.fairness.holds if lock.fairness is not None else None
    return holds is not None and holds.waits > 0 and lock.figures.average_ns < HOLDS * holds.average_ns


def queues(report: Report) -> list[LockWaits]:
    """Locks, each by itself, that have a waiter all the time, and enough of all waiting."""
    single = {(lock.name, lock.kind) for lock in report.queues}
    locks = [*report.queues, *(lock for lock in report.locks if (lock.name, lock.kind) not in single)]
    return [
        lock
        for lock in worth_telling(report, locks)
        if share(report, lock.worst_instance_ns) >= QUEUE
        and stands_out(report, lock, lock.worst_instance_ns)
        and not _long_holds(lock)
    ]


def find(report: Report) -> list[Finding]:
    """At least one waiter all the time, for one lock that stands out among all."""
    found = []
    for lock in queues(report):
        evidence = [
            fact(
                "queue",
                waiters=Measure(share(report, lock.worst_instance_ns), "tasks", "on average"),
                part=part(lock.worst_instance_ns / report.totals.wait_ns, ALL_WAITING),
            ),
            *visitor(report, lock),
            *writers(report, lock),
            fact("waits", waits=Measure(lock.figures.waits, "waits"), average=ns(lock.figures.average_ns)),
            *from_caller(lock),
            *which_file(lock),
        ]
        sure: Confidence = "medium"
        fairness = lock.fairness
        if fairness is not None and fairness.holds is not None and fairness.holds.waits:
            evidence.append(fact("held", average=ns(fairness.holds.average_ns)))
            sure = "high"
        several = lock.instances > 1 or lock in report.queues
        subject = Lock(lock.name, lock.kind, lock.worst_instance if several else "")
        whose = whose_memory(report, lock)
        named = subject if whose is None else Lock(lock.name, lock.kind)
        found.append(
            Finding(
                rule="convoy",
                subject=subject,
                confidence=sure,
                claim=fact("convoy", lock=named, process=whose),
                evidence=tuple(evidence),
                remedies=(remedy("take-less-often"), *record_again(report, "--holders", "who-holds")),
                impact=Impact(lock.worst_instance_ns),
            )
        )
    return found
