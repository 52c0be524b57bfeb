# SPDX-License-Identifier: GPL-2.0-or-later
"""A convoy: tasks queue for one lock all the time, though each holds it shortly."""

from lockline.analysis.findings import Confidence, Finding, Impact, Lock, Measure, fact, ns, part, remedy
from lockline.analysis.model import Report
from lockline.rules.common import ALL_WAITING, from_caller, record_again, share, worth_telling

# Waiters on average, at any moment.
QUEUE = 1.0
# Of all waiting.
PART = 0.5


def find(report: Report) -> list[Finding]:
    """At least one waiter all the time, for one lock that has at least half of all waiting."""
    found = []
    for lock in worth_telling(report, report.locks):
        if lock.instances > 1:
            continue
        waiting = share(report, lock.figures.wait_ns)
        if waiting < QUEUE or lock.figures.wait_ns < PART * report.totals.wait_ns:
            continue
        evidence = [
            fact(
                "queue",
                waiters=Measure(waiting, "tasks", "on average"),
                part=part(lock.figures.wait_ns / report.totals.wait_ns, ALL_WAITING),
            ),
            fact("waits", waits=Measure(lock.figures.waits, "waits"), average=ns(lock.figures.average_ns)),
            *from_caller(lock),
        ]
        sure: Confidence = "medium"
        fairness = lock.fairness
        if fairness is not None and fairness.holds is not None and fairness.holds.waits:
            hold_ns = fairness.holds.average_ns
            evidence.append(fact("held", average=ns(hold_ns)))
            if lock.figures.average_ns < 2 * hold_ns:
                continue
            sure = "high"
        subject = Lock(lock.name, lock.kind)
        found.append(
            Finding(
                rule="convoy",
                subject=subject,
                confidence=sure,
                claim=fact("convoy", lock=subject),
                evidence=tuple(evidence),
                remedies=(remedy("take-less-often"), *record_again(report, "--holders", "who-holds")),
                impact=Impact(lock.figures.wait_ns),
            )
        )
    return found
