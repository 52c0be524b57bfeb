# SPDX-License-Identifier: GPL-2.0-or-later
"""Long holds, or long spinning, with interrupts off: that CPU serves no device and no timer meanwhile."""

from lockline.analysis.model import Finding, Report
from lockline.base.numbers import duration
from lockline.rules.common import MS, US, callers, who

# An interrupt that is late by so much is a latency problem of its own.
LONG_HOLD_NS = 500 * US
LONG_WAIT_NS = 1 * MS

_TAKES = ("_raw_spin_lock_irqsave", "_raw_spin_lock_irq", "_raw_write_lock_irqsave", "_raw_write_lock_irq")
_RELEASES = ("_raw_spin_unlock_irqrestore", "_raw_spin_unlock_irq", "_raw_write_unlock_irqrestore")


def _waits(report: Report) -> list[Finding]:
    found = []
    for outlier in report.outliers:
        functions = [frame.symbol for frame in outlier.stack]
        if outlier.wait_ns < LONG_WAIT_NS or not any(function in _TAKES for function in functions):
            continue
        site = callers(outlier.stack)
        found.append(
            Finding(
                rule="interrupts-off",
                title=f"CPU {outlier.cpu} spun for {outlier.lock} with interrupts off for {duration(outlier.wait_ns)}",
                confidence="medium",
                evidence=(
                    f"{outlier.task.comm} ({outlier.task.tid}) waited in"
                    f" {next(function for function in functions if function in _TAKES)}()"
                    + (f", called from {site[0]}()" if site else ""),
                    "interrupts are inferred to be off: that function takes the lock with them disabled",
                ),
                next=("find who held it meanwhile: that CPU could not even serve its timer",),
                wait_ns=outlier.wait_ns,
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
                found.append(
                    Finding(
                        rule="interrupts-off",
                        title=f"{lock.name} is held with interrupts off for up to {duration(holder.max_caused_ns)}",
                        confidence="low",
                        evidence=(
                            f"{who(holder)} made a waiter wait for {duration(holder.max_caused_ns)}, and released in"
                            f" {next(function for function in functions if function in _RELEASES)}()"
                            + (f", called from {site[0]}()" if site else ""),
                            (
                                "inferred: that function restores interrupts, disabled when the lock was taken;"
                                " the longest hold may be another one"
                            ),
                        ),
                        next=("the interrupts of the holder's CPU waited as long: shorten that section",),
                        wait_ns=holder.caused_ns,
                    )
                )
                break
    return sorted(found, key=lambda finding: -finding.wait_ns)[:1]


def find(report: Report) -> list[Finding]:
    """The longest spinning, and the longest hold, that are inferred to be with interrupts off."""
    return _waits(report) + _holds(report)
