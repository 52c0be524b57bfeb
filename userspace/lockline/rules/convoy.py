# SPDX-License-Identifier: GPL-2.0-or-later
"""A convoy: tasks queue for one lock all the time, though each holds it shortly."""

from lockline.analysis.model import Finding, Report
from lockline.base.numbers import count, duration, percent
from lockline.rules.common import heaviest_caller, record_again, share, worth_telling

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
            (
                f"{waiting:.1f} tasks wait for it at any moment, on average;"
                f" {percent(lock.figures.wait_ns / report.totals.wait_ns)} of all lock waiting"
            ),
            f"{count(lock.figures.waits)} waits of {duration(lock.figures.average_ns)} on average",
        ]
        caller = heaviest_caller(lock)
        if caller:
            evidence.append(f"{percent(caller[1])} of the sampled waiting comes from {caller[0]}()")
        sure = "medium"
        fairness = lock.fairness
        if fairness is not None and fairness.holds is not None and fairness.holds.waits:
            hold_ns = fairness.holds.average_ns
            evidence.append(f"held for {duration(hold_ns)} on average")
            if lock.figures.average_ns < 2 * hold_ns:
                continue
            sure = "high"
        found.append(
            Finding(
                rule="convoy",
                title=f"Tasks queue for {lock.name} ({lock.kind})",
                confidence=sure,
                evidence=tuple(evidence),
                next=(
                    "take it less often, or for parts of the data: shorter waits for each will not shorten the queue",
                    *record_again(report, "--holders", "who holds it while they wait"),
                ),
                wait_ns=lock.figures.wait_ns,
            )
        )
    return found
