# SPDX-License-Identifier: GPL-2.0-or-later
"""Rules: each looks for one pattern in a report, and shows its evidence, how sure it is, and what to do next.

A rule is a module with find(report), a pure function.  It works on a recording without the deeper probes too,
and says less then.  Thresholds and the reasons for them: docs/rules.md.
"""

from collections.abc import Callable

from lockline.analysis.answer import by_impact
from lockline.analysis.findings import Finding
from lockline.analysis.model import Report
from lockline.rules import (
    barrier,
    blocked,
    convoy,
    cpu_starved,
    futex_bucket,
    herd,
    holder_preempted,
    holder_throttled,
    hot_lock,
    interrupts_off,
    long_hold,
    long_waits,
    many_locks,
    parked_lock,
    perturbation,
    priority_inversion,
    readers_writers,
    shared_clock,
    shared_line,
    tracing,
    unfair,
    user_lock,
    wake_storm,
)
from lockline.rules.impact import with_impact
from lockline.rules.sides import one_cause

RULES: tuple[Callable[[Report], list[Finding]], ...] = (
    tracing.find,
    shared_clock.find,
    blocked.find,
    user_lock.find,
    herd.find,
    wake_storm.find,
    barrier.find,
    parked_lock.find,
    futex_bucket.find,
    holder_preempted.find,
    holder_throttled.find,
    priority_inversion.find,
    interrupts_off.find,
    long_hold.find,
    readers_writers.find,
    unfair.find,
    cpu_starved.find,
    convoy.find,
    hot_lock.find,
    long_waits.find,
    many_locks.find,
    perturbation.find,
)


def find_all(report: Report) -> tuple[Finding, ...]:
    """What the rules find in a report: by impact times confidence, most first."""
    found = one_cause(report, [finding for rule in RULES for finding in rule(report)])
    return by_impact([with_impact(report, finding) for finding in found])


def find_in_lines(report: Report) -> tuple[Finding, ...]:
    """The findings of a report that got its lines later, with those about the lines."""
    return by_impact((*report.findings, *(with_impact(report, finding) for finding in shared_line.find(report))))
