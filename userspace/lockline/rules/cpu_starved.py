# SPDX-License-Identifier: GPL-2.0-or-later
"""One CPU that waits far longer than the others."""

from statistics import median

from lockline.analysis.model import Finding, Report
from lockline.base.numbers import duration, percent
from lockline.rules.common import share

TIMES = 8.0
# Of the CPU's time.
WORTH_TELLING = 0.02
ENOUGH_CPUS = 4
_SPINNING = ("spinlock", "rwlock:R", "rwlock:W", "mutex-spin")


def find(report: Report) -> list[Finding]:
    """The CPU that spins longest, if it spins for at least 2 % of its time and eight times the median."""
    if len(report.cpus) < ENOUGH_CPUS:
        return []
    spinning = {
        cpu.cpu: sum(kind.figures.wait_ns for kind in cpu.kinds if kind.kind in _SPINNING) for cpu in report.cpus
    }
    worst, worst_ns = max(spinning.items(), key=lambda item: (item[1], -item[0]))
    usual_ns = median(ns for cpu, ns in spinning.items() if cpu != worst)
    if share(report, worst_ns) < WORTH_TELLING or worst_ns < TIMES * usual_ns:
        return []
    locks = [lock for lock in report.locks if lock.worst_cpu == worst and lock.kind in _SPINNING]
    evidence = [
        (
            f"CPU {worst} spun for {duration(worst_ns)}, {percent(share(report, worst_ns))} of its time;"
            f" the median of the others is {duration(usual_ns)}"
        )
    ]
    if locks:
        evidence.append(f"mostly for {locks[0].name} ({locks[0].kind}): {duration(locks[0].worst_cpu_ns)}")
    return [
        Finding(
            rule="cpu-starved",
            title=f"CPU {worst} waits far longer than the others",
            confidence="medium",
            evidence=tuple(evidence),
            next=(
                (
                    "see what is special about it: its distance to the lock's memory (another node), its interrupts,"
                    " what is pinned to it"
                ),
            ),
            wait_ns=worst_ns,
        )
    ]
