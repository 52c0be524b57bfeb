# SPDX-License-Identifier: GPL-2.0-or-later
"""A lock that passes its waiters over: others take it while they wait."""

from lockline.analysis.findings import Finding, Impact, Lock, Measure, fact, part, remedy
from lockline.analysis.model import Report
from lockline.rules.common import ENOUGH_WAITS, worth_telling

# One in ten waits passed over, or a wait passed over so often, is more than chance at a hand-off.
PART = 0.1
OFTEN = 10


def find(report: Report) -> list[Finding]:
    """Waits overtaken by tasks that came later, as the releases show (record --holders)."""
    found = []
    for lock in worth_telling(report, report.locks):
        fairness = lock.fairness
        if fairness is None or fairness.waits < ENOUGH_WAITS or not fairness.overtaken:
            continue
        if fairness.overtaken < PART * fairness.waits and fairness.max_bypasses < OFTEN:
            continue
        evidence = [
            fact(
                "overtaken",
                part=part(fairness.overtaken / fairness.waits, "the waits"),
                waits=Measure(fairness.waits, "waits"),
                bypasses=Measure(fairness.bypasses, "bypasses"),
                most=Measure(fairness.max_bypasses, "bypasses", "one wait"),
            )
        ]
        if fairness.retakes:
            evidence.append(
                fact(
                    "retaken",
                    retakes=Measure(fairness.retakes, "releases"),
                    releases=Measure(fairness.releases, "releases"),
                )
            )
        subject = Lock(lock.name, lock.kind)
        queueless = report.host.spinlock_mode == "test-and-set" and lock.kind == "spinlock"
        found.append(
            Finding(
                rule="unfair",
                subject=subject,
                confidence="high",
                claim=fact("unfair", lock=subject),
                evidence=tuple(evidence),
                remedies=(remedy("paravirtual-spinlocks-queue") if queueless else remedy("pause-between"),),
                impact=Impact(lock.figures.wait_ns),
            )
        )
    return found
