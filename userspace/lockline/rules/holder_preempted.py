# SPDX-License-Identifier: GPL-2.0-or-later
"""Lock holders whose virtual CPU the host took away (steal time)."""

from lockline.analysis.findings import Finding, Impact, Lock, Machine, Measure, Text, fact, ns, part, remedy
from lockline.analysis.model import Report
from lockline.analysis.stolen import SLICE_NS, hypervisor, long_spins, steal
from lockline.rules.common import share

WORTH_TELLING = 0.005
ENOUGH_STEAL = 0.01
LOCKS_NAMED = 3


def find(report: Report) -> list[Finding]:
    """In a virtual machine: spinlock waits as long as a host's slice, by a host that took time away meanwhile."""
    host, taken = hypervisor(report), steal(report)
    if not host or not report.window.duration_ns:
        return []
    long = long_spins(report)
    long_ns = sum(outlier.wait_ns for outlier in long)
    if len(long) < 3 or share(report, long_ns) < WORTH_TELLING:
        return []
    if taken is not None and taken < ENOUGH_STEAL:
        return []
    locks = sorted({outlier.lock for outlier in long})
    evidence = [
        fact(
            "long-spins",
            waits=Measure(len(long), "waits"),
            limit=ns(SLICE_NS, "at least"),
            waiting=ns(long_ns),
            locks=Measure(len(locks), "locks"),
            names=tuple(Lock(name) for name in locks[:LOCKS_NAMED]),
        ),
        fact("guest-of", hypervisor=Text(host)),
    ]
    if taken is not None:
        evidence.append(fact("stolen", part=part(taken, "the time of all CPUs")))
    remedies = [remedy("own-cpus-for-guest")]
    if report.host.spinlock_mode == "test-and-set":
        remedies.append(remedy("paravirtual-spinlocks-yield"))
    return [
        Finding(
            rule="holder-preempted",
            subject=Machine(),
            confidence="high" if taken is not None and len(locks) > 1 else "medium" if taken is not None else "low",
            claim=fact("holder-preempted-by-host"),
            evidence=tuple(evidence),
            remedies=tuple(remedies),
            impact=Impact(long_ns),
        )
    ]
