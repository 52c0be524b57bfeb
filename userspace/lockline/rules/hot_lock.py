# SPDX-License-Identifier: GPL-2.0-or-later
"""A hot lock: waits so many that together they cost CPUs or threads, though none of them stands out.

It follows from utilisation alone, the exact sums of all waits: waits a second times their average is how many wait at
any moment.  Samples only add who waits, and where.
"""

from collections import defaultdict

from lockline.analysis.answer import is_spinning
from lockline.analysis.findings import Fact, Finding, Impact, Lock, Measure, Process, fact, ns, part, remedy
from lockline.analysis.model import LockWaits, Report
from lockline.rules import convoy
from lockline.rules.common import ALL_WAITING, from_caller, heaviest_caller, record_again, share, worth_telling

# A tenth of one CPU that spins, or of one thread that sleeps.
COST = 0.1
# Fewer waits a second are single events, which the longest waits tell.
RATE = 100
# Of all waiting.
PART = 0.25


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


def _who_waits(report: Report, lock: LockWaits) -> list[Fact]:
    """The process that waits most for the lock, if it is half of it."""
    by_process: defaultdict[tuple[int, str], int] = defaultdict(int)
    for task in report.tasks:
        if (task.lock, task.kind) == (lock.name, lock.kind):
            by_process[task.tgid, task.comm] += task.lock_ns
    total = sum(by_process.values())
    if not total:
        return []
    (tgid, comm), most = max(by_process.items(), key=lambda item: (item[1], item[0]))
    return [fact("waited-by", process=Process(comm, tgid), part=part(most / total, "the sampled waiting"))]


def _busy(report: Report, lock: LockWaits) -> list[Fact]:
    """How much of the time the lock is held, where holds were recorded: figures of the whole run and of one lock."""
    selection, fairness = report.window.selection, lock.fairness
    if fairness is None or fairness.holds is None or lock.instances > 1 or not fairness.holds.waits:
        return []
    if selection.from_ns is not None or selection.to_ns is not None:
        return []
    held = share(report, fairness.holds.wait_ns)
    return [fact("busy", part=part(min(held, 1.0), "the window"), average=ns(fairness.holds.average_ns))]


def find(report: Report) -> list[Finding]:
    """A lock with a quarter of all waiting, which costs a tenth of a CPU or thread and is waited for often."""
    queues = {(lock.name, lock.kind) for lock in convoy.queues(report)}
    found = []
    for lock in worth_telling(report, report.locks):
        rate = lock.figures.waits * 1e9 / report.window.duration_ns
        cost = share(report, lock.figures.wait_ns)
        if cost < COST or rate < RATE or lock.figures.wait_ns < PART * report.totals.wait_ns:
            continue
        if (lock.name, lock.kind) in queues:
            continue
        subject = Lock(lock.name, lock.kind)
        evidence = [
            _cost(report, lock),
            fact(
                "wait-rate",
                rate=Measure(rate, "per second"),
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
        evidence += [*_busy(report, lock), *_who_waits(report, lock)]
        if heaviest_caller(lock) is not None:
            evidence += from_caller(lock)
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
