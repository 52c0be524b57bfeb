# SPDX-License-Identifier: GPL-2.0-or-later
"""Spinning waits that a host makes: it takes the virtual CPU away from whoever has the lock."""

from lockline.analysis.model import OutlierWait, Report

# A scheduling slice of a host, roughly; no kernel code spins so long for a section of its own.
SLICE_NS = 1_000_000
_SPINNING = ("spinlock", "rwlock:R", "rwlock:W")


def hypervisor(report: Report) -> str:
    """Whose guest the machine is; '': of none that is known."""
    name = report.host.facts.get("hypervisor", "")
    return "" if name.startswith("none") else name


def steal(report: Report) -> float | None:
    """What part of its CPUs' time the host took away while it was recorded; None: not known."""
    recorded_ns = report.window.recording_end_ns - report.window.recording_begin_ns
    cpus = report.window.cpus or len(report.cpus)
    if report.window.steal_ns is None or recorded_ns <= 0 or not cpus:
        return None
    return report.window.steal_ns / (recorded_ns * cpus)


def long_spins(report: Report) -> tuple[OutlierWait, ...]:
    """The kept spinning waits as long as a host's slice."""
    return tuple(wait for wait in report.outliers if wait.kind in _SPINNING and wait.wait_ns >= SLICE_NS)


def by_host(report: Report) -> tuple[OutlierWait, ...]:
    """The long spinning waits, if the host took enough time away to make all of them; else none.

    While it has one CPU taken away, all others may spin for what that one holds.
    """
    found = long_spins(report)
    cpus = report.window.cpus or len(report.cpus)
    most_ns = (report.window.steal_ns or 0) * (cpus - 1)
    return found if hypervisor(report) and sum(wait.wait_ns for wait in found) <= most_ns else ()
