# SPDX-License-Identifier: GPL-2.0-or-later
"""From a recording and a selection to a Report with its findings."""

from dataclasses import replace

from lockline.analysis.model import Report
from lockline.analysis.report import EPISODES, read_report
from lockline.analysis.selection import Selection
from lockline.recording.memory import has_lines
from lockline.recording.reader import Recording
from lockline.rules import find_all, find_in_lines
from lockline.watch.pairs import read_pairs

# What the rules look at, however few are shown.
RULE_OUTLIERS = 100
# Of `lockline report`, where the lines are one part among others.
REPORT_LINES = 100


def make_report(
    recording: Recording, selection: Selection, outlier_limit: int, episode_limit: int = EPISODES
) -> Report:
    """Analyse a recording, and judge what is found; outliers and errors are those of read_report()."""
    looked_at = outlier_limit if outlier_limit < 0 else max(outlier_limit, RULE_OUTLIERS)
    report = read_report(recording, selection, looked_at, episode_limit)
    shown = report.outliers if outlier_limit < 0 else report.outliers[:outlier_limit]
    return replace(report, findings=find_all(report), outliers=shown)


def with_lines(report: Report, recording: Recording) -> Report:
    """A report with the lines of its recording, and what they explain, unless it is of a part of the waits.

    Raises LocklineError.
    """
    pairs = read_pairs(recording)
    selection = report.window.selection
    parts = (selection.kinds, selection.cpus, selection.lock, selection.from_ns, selection.to_ns)
    if any(part is not None for part in parts) or not has_lines(recording):
        return replace(report, cpu_pairs=pairs)
    # Most recordings have no lines, and what makes a map of them takes long to load.
    from lockline.c2c.live import live_report

    report = replace(report, cpu_pairs=pairs, lines=live_report(recording, REPORT_LINES))
    return replace(report, findings=find_in_lines(report))
