# SPDX-License-Identifier: GPL-2.0-or-later
"""Lock holders whose virtual CPU the host took away (steal time)."""

from lockline.analysis.model import Finding, Report
from lockline.base.numbers import count, duration, percent
from lockline.rules.common import MS, share

# A scheduling slice of a host, roughly; no kernel code spins so long for a section of its own.
SLICE_NS = 1 * MS
WORTH_TELLING = 0.005
ENOUGH_STEAL = 0.01
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
        f"{count(len(long))} spinlock waits of {duration(SLICE_NS)} or more are kept, {duration(long_ns)} in sum,"
        f" for {count(len(locks))} lock{'s' if len(locks) > 1 else ''}: "
        + ", ".join(locks[:3])
        + (", ..." if len(locks) > 3 else ""),
        f"the machine is a guest of {hypervisor}",
    ]
    if steal is not None:
        evidence.append(f"the host took {percent(steal)} of the CPUs' time away while it was recorded")
    advice = ["give the guest CPUs of its own, or fewer of them than the host has free"]
    if report.host.spinlock_mode == "test-and-set":
        advice.append("let the host offer paravirtual spinlocks: a waiter then yields to the holder")
    return [
        Finding(
            rule="holder-preempted",
            title="The host takes CPUs away from lock holders",
            confidence="high" if steal is not None and len(locks) > 1 else "medium" if steal is not None else "low",
            evidence=tuple(evidence),
            next=tuple(advice),
            wait_ns=long_ns,
        )
    ]
