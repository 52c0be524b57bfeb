# SPDX-License-Identifier: GPL-2.0-or-later
"""A clocksource that is one device for all CPUs: each reading of the time is a queue of its own."""

from lockline.analysis.model import Finding, Report

# As the plan's table of shared clocks (userspace/collector/plan.c).
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
    return [
        Finding(
            rule="shared-clocksource",
            title=f"Every reading of the time queues for one device ({clock})",
            confidence="high",
            evidence=(*evidence, "lockline's own clock moves at each tick meanwhile, and does not read it"),
            next=(advice,),
            wait_ns=report.totals.wait_ns,
        )
    ]
