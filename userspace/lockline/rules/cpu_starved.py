# SPDX-License-Identifier: GPL-2.0-or-later
"""One CPU that waits far longer than the others."""

from lockline.analysis.findings import Cpu, Finding, Impact, Lock, fact, ns, part, remedy
from lockline.analysis.model import Report
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
    if share(report, worst_ns) < WORTH_TELLING:
        return []
    others = sorted(ns for cpu, ns in spinning.items() if cpu != worst)
    # Their median; the module statistics takes longer to load than all rules.
    middle = len(others) // 2
    usual_ns = others[middle] if len(others) % 2 else (others[middle - 1] + others[middle]) / 2
    if worst_ns < TIMES * usual_ns:
        return []
    cpu = Cpu(worst)
    evidence = [
        fact(
            "cpu-spun",
            cpu=cpu,
            spun=ns(worst_ns),
            part=part(share(report, worst_ns), "the time of the CPU"),
            others=ns(usual_ns),
        )
    ]
    locks = [lock for lock in report.locks if lock.worst_cpu == worst and lock.kind in _SPINNING]
    if locks:
        evidence.append(fact("cpu-spun-for", lock=Lock(locks[0].name, locks[0].kind), spun=ns(locks[0].worst_cpu_ns)))
    return [
        Finding(
            rule="cpu-starved",
            subject=cpu,
            confidence="medium",
            claim=fact("cpu-starved", cpu=cpu),
            evidence=tuple(evidence),
            remedies=(remedy("compare-cpu", cpu=cpu),),
            impact=Impact(worst_ns),
        )
    ]
