# SPDX-License-Identifier: GPL-2.0-or-later
"""A clocksource that is one device for all CPUs: each reading of the time is a queue of its own."""

from lockline.analysis.findings import Finding, Function, Impact, Machine, Measure, Text, fact, ns, part, remedy
from lockline.analysis.model import Report
from lockline.rules.common import callers

# As the plan's table of shared clocks (userspace/collector/kernel/plan.c): all that are not a CPU's own, and those of
# them whose readings queue.
_DEVICES = ("hpet", "acpi_pm", "pit", "jiffies", "refined-jiffies")
_QUEUED = ("hpet", "acpi_pm", "pit")


def find(report: Report) -> list[Finding]:
    """The clocksource is a shared device, and there is more than one CPU."""
    clock = report.host.clocksource
    cpus = report.host.cpus_online or report.window.cpus or len(report.cpus)
    if clock is None or clock not in _QUEUED or cpus < 2:
        return []
    available = report.host.facts.get("clocksources_available", "")
    better = [name for name in available.split() if name not in _DEVICES]
    device = Machine(clock)
    evidence = [fact("shared-device", device=device, cpus=Measure(cpus, "CPUs"))]
    if better:
        evidence.append(fact("better-clocks", clocks=tuple(Text(name) for name in better)))
    reads = report.clock_reads
    if reads is not None and reads.figures.waits:
        timed = reads.timed and reads.share is not None
        evidence.append(
            fact(
                "clock-reads",
                reads=Measure(reads.figures.waits, "readings"),
                part=part(reads.share, "all CPU time") if timed and reads.share is not None else None,
                average=ns(reads.figures.average_ns) if timed else None,
                most=ns(reads.figures.max_ns) if timed else None,
            )
        )
        evidence += [
            fact("most-reads-from", function=Function(callers(stack.frames)[0]))
            for stack in reads.callers[:1]
            if callers(stack.frames)
        ]
    return [
        Finding(
            rule="shared-clocksource",
            subject=device,
            confidence="high",
            claim=fact("shared-clocksource", device=device),
            evidence=(*evidence, fact("own-clock-is-coarse")),
            remedies=(remedy("switch-clock", clock=Text(better[0])) if better else remedy("see-why-no-tsc"),),
            impact=Impact(reads.figures.wait_ns if reads is not None else report.totals.wait_ns),
        )
    ]
