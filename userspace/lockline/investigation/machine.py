# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether the machine's clock makes tasks wait, a tracer, or lockline itself."""

from typing import Literal

from lockline.analysis.answer import NEGLIGIBLE_USER_SHARE
from lockline.analysis.findings import Measure, Text, fact, part
from lockline.analysis.perturbation import MAKES
from lockline.investigation import probes
from lockline.investigation.model import Evidence, Hypothesis, Investigation, WaitedLock

# Rules that say that tracing makes tasks wait.
TRACERS = ("inactive-wait", "tracing")
# What a tracer's loop takes, and what it waits for.
TRACERS_LOCKS = ("runqueues", "task_struct.pi_lock", "rq.", "sighand", "tasklist", "signal_struct.wait_chldexit")
# One device for the time of all CPUs; lockline's own doing.
CLOCK_CAUSE, PERTURBATION = "shared-clocksource", "perturbation"
# CPUs that may wait for the device, as long as nobody has looked; what a read takes at least (docs/clocksource.md).
_EXPECTED_CLOCK = 0.5
_READ_NS = 1_000
# How much more waiting makes a difference between two steps.
_GROWN = 3.0
_CLOCKS_OF_ONE_DEVICE = ("hpet", "acpi_pm", "pit", "jiffies")


def of_clock(known: Investigation) -> list[Hypothesis]:
    """Whether CPUs queue for a clock device: that they share one is no cause as long as nobody asks for the time."""
    clocks = [(step.number, seen.clocksource) for step, seen in known.observations if seen.clocksource]
    if not clocks or clocks[0][1] not in _CLOCKS_OF_ONE_DEVICE:
        if not clocks:
            return []
        evidence = (Evidence(fact("why-own-clock", clock=Text(clocks[0][1])), False, clocks[0][0]),)
        return [Hypothesis(CLOCK_CAUSE, None, "ruled out", 0.0, fact("why-clock"), evidence)]
    found = [(step, one) for step, seen in known.observations for one in seen.findings if one.rule == CLOCK_CAUSE]
    reads = [(step, seen) for step, seen in known.observations if seen.clock is not None]
    if not found:
        return []
    step, finding = found[-1]
    told = tuple(Evidence(one, True, step.number) for one in finding.evidence)
    if not reads:
        tried = any(step.probe == probes.CLOCK for step in known.steps)
        state: Literal["not testable", "open"] = "not testable" if tried else "open"
        tests = () if tried else (probes.CLOCK,)
        return [Hypothesis(CLOCK_CAUSE, finding.subject, state, _EXPECTED_CLOCK, finding.claim, told, tests)]
    step, seen = reads[-1]
    clock = seen.clock
    assert clock is not None
    reading = 0.0 if clock.part is None else clock.part * seen.cpus
    if clock.part is None and clock.reads:
        # They were counted alone: each takes a microsecond and more.
        reading = clock.reads * _READ_NS / seen.duration_ns if seen.duration_ns else 0.0
    if reading < NEGLIGIBLE_USER_SHARE:
        against = fact("why-clock-reads", reads=Measure(clock.reads, "readings"), part=part(reading, "one CPU's time"))
        return [
            Hypothesis(CLOCK_CAUSE, None, "ruled out", 0.0, finding.claim, (Evidence(against, False, step.number),))
        ]
    return [
        Hypothesis(
            cause=CLOCK_CAUSE,
            subject=finding.subject,
            state="likely",
            waiters=reading,
            claim=finding.claim,
            evidence=told,
            remedies=finding.remedies,
            finding=finding,
            sure=finding.confidence,
        )
    ]


def reading_clocks(known: Investigation) -> float:
    """CPUs that wait for a clock device, on average; 0 if nobody looked."""
    return sum(one.waiters for one in of_clock(known) if one.supported)


def of_perturbation(known: Investigation) -> list[Hypothesis]:
    """Whether lockline's own probes make the waits: steps with more of them see much more waiting than the first."""
    steps = [(step, seen) for step, seen in known.observations if not seen.not_enough and seen.waits]
    first = next((seen for step, seen in steps if step.probe == probes.TOTALS), None)
    deeper = [(step, seen) for step, seen in steps if step.probe in (probes.EPISODES, probes.HOLDERS, probes.OWNERS)]
    if first is None or not deeper:
        return []
    step, most = max(deeper, key=lambda one: one[1].kernel_waiters)
    grown = most.kernel_waiters - first.kernel_waiters
    if grown < NEGLIGIBLE_USER_SHARE or most.kernel_waiters < _GROWN * first.kernel_waiters:
        return []
    claim = fact("why-perturbation")
    told = Evidence(
        fact(
            "why-deeper-waits",
            deeper=Measure(most.kernel_waiters, "threads"),
            first=Measure(first.kernel_waiters, "threads"),
        ),
        True,
        step.number,
    )
    checked = [(step.number, seen.perturbation) for step, seen in known.observations if seen.perturbation]
    if not checked:
        tried = any(step.probe == probes.SELF_CHECK for step in known.steps)
        state: Literal["not testable", "open"] = "not testable" if tried else "open"
        tests = () if tried else (probes.SELF_CHECK,)
        return [Hypothesis(PERTURBATION, None, state, grown, claim, (told,), tests)]
    number, verdict = checked[-1]
    if verdict != MAKES:
        against = Evidence(fact("why-not-perturbed"), False, number)
        return [Hypothesis(PERTURBATION, None, "ruled out", 0.0, claim, (against,))]
    for_ = Evidence(fact("why-perturbed", verdict=Text(verdict)), True, number)
    return [Hypothesis(PERTURBATION, None, "likely", most.kernel_waiters, claim, (told, for_), sure="medium")]


def of_tracers(known: Investigation, lock: WaitedLock | None) -> list[Hypothesis]:
    """Whether a tracer makes tasks wait."""
    claim = fact("why-tracer")
    traced = [(step.number, seen.counters.traced) for step, seen in known.observations]
    counted = [(number, count) for number, count in traced if count is not None]
    looked = [step.number for step, _ in known.observations if step.probe == probes.PTRACE]
    most = max((count for _, count in counted), default=None)
    if most == 0:
        target = Text(known.target.words) if known.target.tgids else None
        evidence = (Evidence(fact("why-nobody-traced", target=target), False, counted[0][0]),)
        return [Hypothesis("tracer", None, "ruled out", 0.0, claim, evidence)]
    if any(seen.rule in TRACERS for _, one in known.observations for seen in one.findings):
        return []
    if looked:
        evidence = (Evidence(fact("why-no-turns"), False, looked[-1]),)
        return [Hypothesis("tracer", None, "ruled out", 0.0, claim, evidence)]
    if most is None or not known.steps:
        return []
    number = counted[0][0]
    evidence = (Evidence(fact("why-traced", processes=Measure(most, "processes")), True, number),)
    likely = lock is not None and lock.name.startswith(TRACERS_LOCKS)
    return [
        Hypothesis("tracer", None, "open", 1.0 if likely else 0.2, claim, evidence, tests=(probes.PTRACE,)),
    ]
