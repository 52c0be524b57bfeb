# SPDX-License-Identifier: GPL-2.0-or-later
"""A tracer at work: waits for locks in code of the kernel that runs only where a task is traced.

Which lock it is does not matter, and differs between kernels: all of these waits end with the tracing.
"""

from dataclasses import replace

from lockline.analysis.findings import Fact, Finding, Function, Impact, Lock, Task, fact, ns, part, remedy
from lockline.analysis.model import Report
from lockline.analysis.ptrace import TracedTask, TracedWaits
from lockline.rules import inactive_wait
from lockline.rules.common import ALL_WAITING, WORTH_TELLING, share

# Less of all waiting is not what holds a machine back.
PART = 0.05
# Locks that are named.
LOCKS = 3


def _traced(report: Report) -> TracedWaits | None:
    """The waits that tracing brings, if they are worth telling."""
    traced = report.traced_waits
    if traced is None or not traced.sampled_ns:
        return None
    enough = share(report, traced.wait_ns) >= WORTH_TELLING and traced.wait_ns >= PART * traced.sampled_ns
    return traced if enough else None


def _first(traced: TracedWaits, traces: bool) -> Task | None:
    found: list[TracedTask] = [one for one in traced.tasks if one.traces is traces]
    return Task(found[0].task.comm, found[0].task.tid) if found else None


def _tracer(report: Report, traced: TracedWaits) -> Task | None:
    """Who traces most: by ptrace's own records, else by the waits of the system call; None: nobody is known."""
    inactive = report.inactive_waits
    pairs = [pair for pair in inactive.pairs if pair.traced] if inactive is not None else []
    if pairs:
        pair = max(pairs, key=lambda pair: (pair.calls, pair.turns))
        return Task(pair.comm, pair.tid)
    return _first(traced, traces=True)


def _evidence(traced: TracedWaits) -> list[Fact]:
    """How much of all waiting it is, and for which locks."""
    told = [fact("traced-part", waiting=ns(traced.wait_ns), part=part(traced.wait_ns / traced.sampled_ns, ALL_WAITING))]
    for name, kind, wait_ns in traced.locks[:LOCKS]:
        if wait_ns >= PART * traced.wait_ns:
            told.append(fact("traced-lock", lock=Lock(name, kind), waiting=ns(wait_ns)))
    tracee = _first(traced, traces=False)
    if tracee is not None:
        told.append(fact("traced-task", tracee=tracee, function=Function("ptrace_stop")))
    return told


def find(report: Report) -> list[Finding]:
    """One finding: the loop that starves its tracee where that is shown, else that tracing makes tasks wait."""
    loops = inactive_wait.find(report)
    traced = _traced(report)
    if traced is None:
        return loops
    if loops and loops[0].confidence != "low":
        (loop,) = loops
        return [
            replace(
                loop,
                evidence=(*loop.evidence, *_evidence(traced)),
                impact=Impact(max(loop.impact.wait_ns, traced.wait_ns)),
            )
        ]
    tracer, tracee = _tracer(report, traced), _first(traced, traces=False)
    if tracer is not None:
        stop = remedy("stop-tracer", tracer=tracer)
    else:
        stop = remedy("trace-less") if tracee is None else remedy("find-tracer", tracee=tracee)
    return [
        Finding(
            rule="tracing",
            subject=tracer or Function("ptrace"),
            confidence="high",
            claim=fact("tracing", tracer=tracer),
            evidence=(*_evidence(traced), *(loops[0].evidence if loops else ())),
            remedies=(
                stop,
                *([] if report.inactive_waits is not None else [remedy("record-ptrace")]),
            ),
            impact=Impact(traced.wait_ns),
        )
    ]
