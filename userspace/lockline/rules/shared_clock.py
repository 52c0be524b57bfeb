# SPDX-License-Identifier: GPL-2.0-or-later
"""A clocksource that is one device for all CPUs: each reading of the time is a queue of its own."""

from lockline.analysis.model import Finding, Report
from lockline.base.numbers import count, duration, percent
from lockline.rules.common import callers

# As the plan's table of shared clocks (userspace/collector/kernel/plan.c).
_DEVICES = {"hpet": "read_hpet()", "acpi_pm": "acpi_pm_read()", "pit": "the PIT", "jiffies": "", "refined-jiffies": ""}


def find(report: Report) -> list[Finding]:
    """The clocksource is a shared device, and there is more than one CPU."""
    clock = report.host.clocksource
    cpus = report.host.cpus_online or report.window.cpus or len(report.cpus)
    if clock not in _DEVICES or not _DEVICES[clock] or cpus < 2:
        return []
    available = report.host.facts.get("clocksources_available", "")
    better = [name for name in available.split() if name not in _DEVICES]
    evidence = [
        f"the current clocksource is {clock}: one device that {cpus} CPUs read in turn, through {_DEVICES[clock]}"
    ]
    if better:
        evidence.append(f"this machine also has {', '.join(better)}")
        advice = f"switch: echo {better[0]} > /sys/devices/system/clocksource/clocksource0/current_clocksource"
    else:
        advice = (
            "see in the kernel's log why the TSC was given up (tsc: Marking TSC unstable): firmware, or a hypervisor"
        )
    reads = report.clock_reads
    if reads is not None and reads.figures.waits:
        told = f"{count(reads.figures.waits)} readings were recorded"
        if reads.timed and reads.share is not None:
            told += (
                f": {percent(reads.share)} of all CPU time, {duration(reads.figures.average_ns)} each,"
                f" {duration(reads.figures.max_ns)} at most"
            )
        evidence.append(told)
        evidence += [
            f"most of them come from {callers(stack.frames)[0]}()"
            for stack in reads.callers[:1]
            if callers(stack.frames)
        ]
    return [
        Finding(
            rule="shared-clocksource",
            title=f"Every reading of the time queues for one device ({clock})",
            confidence="high",
            evidence=(*evidence, "lockline's own clock moves at each tick meanwhile, and does not read it"),
            next=(advice,),
            wait_ns=reads.figures.wait_ns if reads is not None else report.totals.wait_ns,
        )
    ]
