# SPDX-License-Identifier: GPL-2.0-or-later
"""Watched lines of two recordings, as text."""

import textwrap

from lockline.base.numbers import percent, short_count
from lockline.base.text import Column, Style, clean, cut, table
from lockline.diff.watched import WatchedDiff, WatchedDifference, WatchedRate

CHANGELOG_WIDTH = 75
CHANGELOG_ROWS = 10

_VERDICTS = {"improved": "fewer transfers", "regressed": "more transfers"}


def _rate(rate: WatchedRate | None) -> str:
    if rate is None or rate.per_second is None:
        return "-"
    value = rate.per_second
    text = (">" if rate.at_least else "") + (f"{value:.2g}" if 0 < value < 9.95 else short_count(round(value)))
    if not value or rate.error == 0:
        return text
    return f"{text} +-?" if rate.error is None else f"{text} +-{rate.error / value * 100:.2g}%"


def _change(row: WatchedDifference) -> str:
    if row.before is None or row.after is None:
        return row.presence
    before, after = row.before.per_second, row.after.per_second
    if before is None or after is None or not before:
        return "-"
    return f"{(after / before - 1) * 100:+,.1f} %"


def _p(row: WatchedDifference) -> str:
    if row.judgement is None:
        return ""
    p = row.judgement.p
    return "p < 0.0001" if p < 0.0001 else f"p = {p:.4f}" if p < 0.01 else f"p = {p:.2f}"


def _name(row: WatchedDifference, style: Style) -> str:
    return clean(f"  {row.member}" if row.member else row.line, style)


def watched(diff: WatchedDiff, style: Style, labels: tuple[str, str], rows: int) -> list[str]:
    """The table of watched lines and their members."""
    columns = [
        Column("line, member", 32, right=False),
        Column("transfers/s", 14),
        Column(cut(labels[1], 14), 14),
        Column("change", 10),
        Column("share", 7),
        Column(cut(labels[1], 7), 7),
        Column("", 10),
        Column("verdict", 15, right=False),
    ]
    cells = [
        [
            _name(row, style),
            _rate(row.before),
            _rate(row.after),
            _change(row),
            percent(row.before.share if row.before else None),
            percent(row.after.share if row.after else None),
            _p(row),
            "not judged" if row.judgement is None else _VERDICTS.get(row.judgement.verdict, row.judgement.verdict),
        ]
        for row in diff.differences[: rows * 2]
    ]
    lines = [
        "Watched lines (transfers between CPUs, +- one standard error; >: at least; share: of the line's transfers)",
        *table(columns, cells),
    ]
    if len(diff.differences) > len(cells):
        lines.append(f"  ({len(diff.differences) - len(cells)} more)")
    return [
        *lines,
        f"  test: difference of two ratio estimates; p is corrected (Holm); judged: {diff.judged}",
    ]


def changelog_watched(diff: WatchedDiff, style: Style, labels: tuple[str, str]) -> list[str]:
    """The same for the description of a patch, in at most 75 columns."""
    columns = [
        Column("transfers per second", 26, right=False),
        Column(labels[0], 13),
        Column(labels[1], 13),
        Column("delta", 9),
        Column("", 10),
    ]
    cells = [
        [_name(row, style), _rate(row.before), _rate(row.after), _change(row), _p(row)]
        for row in diff.differences[:CHANGELOG_ROWS]
    ]
    told = (
        "Watched by debug registers, in windows; +- one standard error of the ratio over the windows; test of the "
        "difference of two such ratios, p corrected after Holm."
    )
    return [*table(columns, cells, indent=""), "", *textwrap.wrap(told, CHANGELOG_WIDTH)]
