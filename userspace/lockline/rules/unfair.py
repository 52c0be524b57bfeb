# SPDX-License-Identifier: GPL-2.0-or-later
"""A lock that passes its waiters over: others take it while they wait."""

from lockline.analysis.model import Finding, Report
from lockline.base.numbers import count, percent
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
            (
                f"{percent(fairness.overtaken / fairness.waits)} of {count(fairness.waits)} waits were overtaken,"
                f" {count(fairness.bypasses)} times in all, {count(fairness.max_bypasses)} in one wait"
            )
        ]
        if fairness.retakes:
            evidence.append(
                f"{count(fairness.retakes)} of {count(fairness.releases)} contended releases gave it to the same task"
            )
        advice = "the releasing CPU has the line in its cache and wins it back: leave a pause between two sections"
        if report.host.spinlock_mode == "test-and-set" and lock.kind == "spinlock":
            advice = (
                "test-and-set spinlocks have no queue: paravirtual spinlocks, offered by the hypervisor, would have one"
            )
        found.append(
            Finding(
                rule="unfair",
                title=f"{lock.name} ({lock.kind}) passes waiters over",
                confidence="high",
                evidence=tuple(evidence),
                next=(advice,),
                wait_ns=lock.figures.wait_ns,
            )
        )
    return found
