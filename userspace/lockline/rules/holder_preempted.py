# SPDX-License-Identifier: GPL-2.0-or-later
"""Lock holders whose virtual CPU the host took away (steal time)."""

from lockline.analysis.findings import Finding, Impact, Lock, Machine, Measure, Text, fact, ns, part, remedy
from lockline.analysis.model import Report
from lockline.rules.common import MS, share

# A scheduling slice of a host, roughly; no kernel code spins so long for a section of its own.
SLICE_NS = 1 * MS
WORTH_TELLING = 0.005
ENOUGH_STEAL = 0.01
LOCKS_NAMED = 3
_SPINNING = ("spinlock", "rwlock:R", "rwlock:W")


def find(report: Report) -> list[Finding]:
    """In a virtual machine: spinlock waits as long as a host's slice, by a host that took time away meanwhile."""
    hypervisor = report.host.facts.get("hypervisor", "")
    cpus = report.window.cpus or len(report.cpus)
    if not hypervisor or hypervisor.startswith("none") or not report.window.duration_ns or not cpus:
        return []
    long = [outlier for outlier in report.outliers if outlier.kind in _SPINNING and outlier.wait_ns >= SLICE_NS]
    long_ns = sum(outlier.wait_ns for outlier in long)
    if len(long) < 3 or share(report, long_ns) < WORTH_TELLING:
        return []
    recorded_ns = report.window.recording_end_ns - report.window.recording_begin_ns
    stolen_ns = report.window.steal_ns
    steal = None if stolen_ns is None or recorded_ns <= 0 else stolen_ns / (recorded_ns * cpus)
    if steal is not None and steal < ENOUGH_STEAL:
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
        fact("guest-of", hypervisor=Text(hypervisor)),
    ]
    if steal is not None:
        evidence.append(fact("stolen", part=part(steal, "the time of all CPUs")))
    remedies = [remedy("own-cpus-for-guest")]
    if report.host.spinlock_mode == "test-and-set":
        remedies.append(remedy("paravirtual-spinlocks-yield"))
    return [
        Finding(
            rule="holder-preempted",
            subject=Machine(),
            confidence="high" if steal is not None and len(locks) > 1 else "medium" if steal is not None else "low",
            claim=fact("holder-preempted-by-host"),
            evidence=tuple(evidence),
            remedies=tuple(remedies),
            impact=Impact(long_ns),
        )
    ]
