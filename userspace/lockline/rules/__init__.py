# SPDX-License-Identifier: GPL-2.0-or-later
"""Rules: each looks for one pattern in a report, and shows its evidence, how sure it is, and what to do next.

A rule is a module with find(report), a pure function.  It works on a recording without the deeper probes too,
and says less then.  Thresholds and the reasons for them: docs/rules.md.
"""

from collections.abc import Callable, Iterable

from lockline.analysis.findings import Finding
from lockline.analysis.model import Report
from lockline.rules import (
    blocked,
    convoy,
    cpu_starved,
    futex_bucket,
    holder_preempted,
    holder_throttled,
    inactive_wait,
    interrupts_off,
    long_hold,
    parked_lock,
    perturbation,
    priority_inversion,
    readers_writers,
    shared_clock,
    shared_line,
    unfair,
    user_lock,
)
from lockline.rules.impact import with_impact

RULES: tuple[Callable[[Report], list[Finding]], ...] = (
    inactive_wait.find,
    shared_clock.find,
    blocked.find,
    user_lock.find,
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
    perturbation.find,
)

_CONFIDENCE = {"high": 0, "medium": 1, "low": 2}


def _ranked(found: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted(found, key=lambda finding: (_CONFIDENCE[finding.confidence], -finding.impact.wait_ns)))


def find_all(report: Report) -> tuple[Finding, ...]:
    """What the rules find in a report: surest first, then by the wait time that it is about."""
    return _ranked(with_impact(report, finding) for rule in RULES for finding in rule(report))


def find_in_lines(report: Report) -> tuple[Finding, ...]:
    """The findings of a report that got its lines later, with those about the lines."""
    return _ranked((*report.findings, *(with_impact(report, finding) for finding in shared_line.find(report))))
