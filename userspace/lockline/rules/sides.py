# SPDX-License-Identifier: GPL-2.0-or-later
"""One lock that is taken in two ways is one cause: its readers and writers, or those who spin for it and who sleep."""

from collections.abc import Sequence
from dataclasses import replace

from lockline.analysis.answer import CONFIDENCE, OVERUSED, family
from lockline.analysis.findings import Fact, Finding, Impact, Lock, Text, fact, part
from lockline.analysis.model import Report
from lockline.rules.common import ALL_WAITING

_WHO = {"R": "readers", "W": "writers"}


def _same(one: Lock, other: Lock) -> bool:
    """Whether both are one lock; a finding about all locks of a name includes each of them."""
    if one.name != other.name or one.kind == other.kind or family(one.kind) != family(other.kind):
        return False
    return one.instance == other.instance or not one.instance or not other.instance


def _waits_too(report: Report, lock: Lock, wait_ns: int) -> Fact:
    side = lock.kind.partition(":")[2]
    who = Text(_WHO.get(side, "those who sleep" if lock.kind == "mutex" else "those who spin"))
    return fact("wait-too", who=who, part=part(wait_ns / report.totals.wait_ns, ALL_WAITING))


def one_cause(report: Report, findings: Sequence[Finding]) -> list[Finding]:
    """The findings; of those that a lock is busy, the one of its other side is a part of the heavier one."""
    order = sorted(
        (found for found in findings if found.rule in OVERUSED),
        key=lambda found: -CONFIDENCE[found.confidence] * found.impact.wait_ns,
    )
    kept: list[Finding] = []
    for found in order:
        subject = found.subject
        whole = next(
            (
                index
                for index, other in enumerate(kept)
                if isinstance(subject, Lock) and isinstance(other.subject, Lock) and _same(subject, other.subject)
            ),
            None,
        )
        if whole is None or not isinstance(subject, Lock):
            kept.append(found)
            continue
        heavier = kept[whole]
        first, *rest = heavier.evidence
        kept[whole] = replace(
            heavier,
            evidence=(first, _waits_too(report, subject, found.impact.wait_ns), *rest),
            impact=Impact(heavier.impact.wait_ns + found.impact.wait_ns),
        )
    others = [found for found in findings if found.rule not in OVERUSED]
    return [*others, *kept]
