# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether a recording's first finding is about the cause that was planted, and its first screen says so."""

from pathlib import Path

from lockline.analysis.findings import Finding, Lock
from lockline.analysis.model import Report
from lockline.analysis.selection import Selection
from lockline.analysis.series import read_slices
from lockline.base.text import Style, width
from lockline.recording.reader import open_recording
from lockline.render import screen
from lockline.rules.report import make_report


def report_and_screen(path: Path) -> tuple[Report, list[str]]:
    """The report, and its first screen at 80 columns."""
    with open_recording(path) as recording:
        report = make_report(recording, Selection(), 5)
        lines = screen.render(report, read_slices(recording, report), Style(), 80).splitlines()
    assert len(lines) <= 24
    assert max(map(width, lines)) <= 80
    return report, lines


def locks_of(finding: Finding) -> set[str]:
    """The names of the kernel's locks in it."""
    facts = (finding.claim, *finding.evidence)
    return {value.name for told in facts for _, value in told.values if isinstance(value, Lock)}
