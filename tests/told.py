# SPDX-License-Identifier: GPL-2.0-or-later
"""A finding with its words, for tests that look at both."""

from dataclasses import dataclass

from lockline.analysis.findings import Confidence, Finding
from lockline.render.findings import worded


@dataclass(frozen=True)
class Told:
    """A finding as the reports tell it."""

    rule: str
    confidence: Confidence
    wait_ns: int
    title: str
    evidence: tuple[str, ...]
    next: tuple[str, ...]


def told(finding: Finding) -> Told:
    """The finding in words."""
    words = worded(finding)
    return Told(finding.rule, finding.confidence, finding.impact.wait_ns, words.title, words.evidence, words.next)
