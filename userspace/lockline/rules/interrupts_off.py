# SPDX-License-Identifier: GPL-2.0-or-later
"""Long holds, or long spinning, with interrupts off: that CPU serves no device and no timer meanwhile."""

from lockline.analysis.findings import Cpu, Fact, Finding, Function, Impact, Lock, Task, fact, ns, remedy
from lockline.analysis.model import Report
from lockline.rules.common import MS, US, callers, who

# An interrupt that is late by so much is a latency problem of its own.
LONG_HOLD_NS = 500 * US
LONG_WAIT_NS = 1 * MS

_TAKES = ("_raw_spin_lock_irqsave", "_raw_spin_lock_irq", "_raw_write_lock_irqsave", "_raw_write_lock_irq")
# Locks that the kernel takes with interrupts off wherever it does, by any function: of run queues, their tasks, timers.
_ALWAYS_OFF = ("runqueues.", "task_struct.pi_lock", "hrtimer_bases.lock")
_PLAIN = ("_raw_spin_lock", "native_queued_spin_lock_slowpath", "queued_spin_lock_slowpath")
_RELEASES = ("_raw_spin_unlock_irqrestore", "_raw_spin_unlock_irq", "_raw_write_unlock_irqrestore")


def _first(functions: list[str], among: tuple[str, ...]) -> Function:
    return Function(next(function for function in functions if function in among))


def _why_off(functions: list[str]) -> Fact:
    if any(function in _TAKES for function in functions):
        return fact("inferred-from-taking")
    return fact("always-taken-off")


def _waits(report: Report) -> list[Finding]:
    found = []
    for outlier in report.outliers:
        functions = [frame.symbol for frame in outlier.stack]
        takes = _TAKES + (_PLAIN if outlier.lock.startswith(_ALWAYS_OFF) else ())
        if outlier.wait_ns < LONG_WAIT_NS or not any(function in takes for function in functions):
            continue
        site = callers(outlier.stack)
        cpu = Cpu(outlier.cpu)
        found.append(
            Finding(
                rule="interrupts-off",
                subject=cpu,
                confidence="medium",
                claim=fact("spun-interrupts-off", cpu=cpu, lock=Lock(outlier.lock), waited=ns(outlier.wait_ns)),
                evidence=(
                    fact(
                        "waited-in",
                        waiter=Task(outlier.task.comm, outlier.task.tid, outlier.container),
                        function=_first(functions, takes),
                        caller=Function(site[0]) if site else None,
                    ),
                    _why_off(functions),
                ),
                remedies=(remedy("find-holder", cpu=cpu),),
                impact=Impact(outlier.wait_ns),
            )
        )
    # The longest tells the story.
    return found[:1]


def _holds(report: Report) -> list[Finding]:
    found = []
    for lock in report.locks:
        for holder in lock.holders:
            if holder.max_caused_ns < LONG_HOLD_NS:
                continue
            for stack in holder.stacks:
                functions = [frame.symbol for frame in stack.frames]
                if not any(function in _RELEASES for function in functions):
                    continue
                site = callers(stack.frames)
                subject = Lock(lock.name)
                found.append(
                    Finding(
                        rule="interrupts-off",
                        subject=subject,
                        confidence="low",
                        claim=fact("held-interrupts-off", lock=subject, most=ns(holder.max_caused_ns)),
                        evidence=(
                            fact(
                                "released-in",
                                holder=who(holder),
                                caused=ns(holder.max_caused_ns),
                                function=_first(functions, _RELEASES),
                                caller=Function(site[0]) if site else None,
                            ),
                            fact("inferred-from-release"),
                        ),
                        remedies=(remedy("shorten-section", lock=subject),),
                        impact=Impact(holder.caused_ns),
                    )
                )
                break
    return sorted(found, key=lambda finding: -finding.impact.wait_ns)[:1]


def find(report: Report) -> list[Finding]:
    """The longest spinning, and the longest hold, that are inferred to be with interrupts off."""
    return _waits(report) + _holds(report)
