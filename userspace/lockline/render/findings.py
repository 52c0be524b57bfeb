# SPDX-License-Identifier: GPL-2.0-or-later
"""Findings as text: what was found in plain words, the evidence, what to do next."""

import textwrap

from lockline.analysis.model import Report
from lockline.base.text import WIDTH, Style, clean


def _hanging(text: str, first: str, rest: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False, break_long_words=False
    )


def findings(report: Report, style: Style) -> list[str]:
    """The section of the report; empty if no rule found anything."""
    if not report.findings:
        return []
    lines = ["Findings (surest first; docs/rules.md tells the rules)"]
    for number, finding in enumerate(report.findings, 1):
        label = f"  {number}. "
        indent = " " * len(label)
        lines += _hanging(
            f"{clean(finding.title, style)}  [{finding.rule}, confidence {finding.confidence}]", label, indent
        )
        for evidence in finding.evidence:
            lines += _hanging(clean(evidence, style), f"{indent}- ", f"{indent}  ")
        for step in finding.next:
            lines += _hanging(clean(step, style), f"{indent}next: ", f"{indent}      ")
    return lines
