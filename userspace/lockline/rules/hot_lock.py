# SPDX-License-Identifier: GPL-2.0-or-later
"""A hot lock: waits so many that together they cost CPUs or threads, though none of them stands out.

It follows from utilisation alone, the exact sums of all waits: waits a second times their average is how many wait at
any moment.  Samples only add who waits, and where.
"""

from lockline.analysis.answer import is_spinning
from lockline.analysis.findings import Fact, Finding, Impact, Lock, Measure, fact, ns, part, remedy
from lockline.analysis.model import LockWaits, Report
from lockline.rules import convoy
from lockline.rules.common import (
    ALL_WAITING,
    from_caller,
    record_again,
    share,
    stands_out,
    visitor,
    which_file,
    who_waits,
    worth_telling,
    writers,
)

# A tenth of one CPU that spins, or of one thread that sleeps.
COST = 0.1
# Fewer waits a second are single events, which the longest waits tell.
RATE = 100


def _cost(report: Report, lock: LockWaits) -> Fact:
    waiters = share(report, lock.figures.wait_ns)
    if not is_spinning(lock.kind):
        return fact("costs-threads", threads=Measure(waiters, "threads", "on average"))
    cpus = report.window.cpus
    return fact(
        "costs-cpus",
        cpus=Measure(waiters, "CPUs", "on average"),
        part=part(waiters / cpus, "all CPUs") if cpus else None,
    )


def _busy(report: Report, lock: LockWaits) -> list[Fact]:
    """How much of the time the lock is held, where holds were recorded: figures of the whole run and of one lock."""
    selection, fairness = report.window.selection, lock.fairness
    if fairness is None or fairness.holds is None or lock.instances > 1 or not fairness.holds.waits:
        return []
    if selection.from_ns is not None or selection.to_ns is not None:
        return []
    held = share(report, fairness.holds.wait_ns)
    return [fact("busy", part=part(min(held, 1.0), "the window"), average=ns(fairness.holds.average_ns))]


def _rate(report: Report, lock: LockWaits) -> float:
    return lock.figures.waits * 1e9 / report.window.duration_ns


def hot(report: Report) -> list[LockWaits]:
    """Locks with enough of all waiting, which cost a tenth of a CPU or thread; waited for often, but no queues."""
    queues = {(lock.name, lock.kind) for lock in convoy.queues(report)}
    return [
        lock
        for lock in worth_telling(report, report.locks)
        if share(report, lock.figures.wait_ns) >= COST
        and _rate(report, lock) >= RATE
        and stands_out(report, lock, lock.figures.wait_ns)
        and (lock.name, lock.kind) not in queues
    ]


def find(report: Report) -> list[Finding]:
    """What each hot lock costs, and who waits for it."""
    found = []
    for lock in hot(report):
        subject = Lock(lock.name, lock.kind)
        evidence = [
            _cost(report, lock),
            fact(
                "wait-rate",
                rate=Measure(_rate(report, lock), "per second"),
                average=ns(lock.figures.average_ns),
                part=part(lock.figures.wait_ns / report.totals.wait_ns, ALL_WAITING),
            ),
        ]
        if lock.instances > 1:
            evidence.append(
                fact(
                    "spread",
                    locks=Measure(lock.instances, "locks"),
                    part=part(lock.worst_instance_ns / lock.figures.wait_ns, "the locks' waiting"),
                )
            )
        evidence += [*visitor(report, lock), *writers(report, lock), *_busy(report, lock), *who_waits(report, lock)]
        evidence += [*from_caller(lock), *which_file(lock)]
        found.append(
            Finding(
                rule="hot-lock",
                subject=subject,
                confidence="medium",
                claim=fact("hot-lock", lock=subject),
                evidence=tuple(evidence),
                remedies=(remedy("take-less-often"), *record_again(report, "--holders", "who-holds")),
                impact=Impact(lock.figures.wait_ns),
            )
        )
    return found
