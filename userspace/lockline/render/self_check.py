# SPDX-License-Identifier: GPL-2.0-or-later
"""What a self-check found, as text."""

import math

from lockline.analysis.perturbation import (
    NO_DIFFERENCE,
    OUTLIERS_NEEDED,
    PAIRS_NEEDED,
    TOO_FEW,
    Measure,
    SelfCheck,
    Side,
)
from lockline.base.numbers import count, duration, percent
from lockline.base.paired_test import POWER, PairedTest
from lockline.base.text import Column, Style, clean, fill, table

_WHAT = {"waits": "waits for locks", "wake-ups": "wake-ups"}
_OF = {"waits": "waits for locks as long", "wake-ups": "wake-ups as late"}


def _wrap(text: str) -> list[str]:
    return fill(text, "  ", "    ")


def _row(name: str, side: Side, measure: Measure) -> list[str]:
    return [
        name,
        count(side.events),
        duration(side.average_ns),
        duration(side.p99_ns),
        duration(side.p999_ns),
        count(side.outliers),
        f"{side.outlier_rate:.3g}" if side.seconds else "-",
        percent(side.outlier_part),
    ]


def _bounds(test: PairedTest) -> str:
    ratio = "-" if test.ratio is None else f"{test.ratio:.2f}"
    high = f"{test.high:.2f}" if math.isfinite(test.high) else "no bound"
    return f"{ratio} ({test.low:.2f} to {high}, {100 * test.confidence:g} % confidence), p = {test.p:.2g}"


def _told(measure: Measure, pairs: int) -> str:
    outliers = measure.with_probes.outliers + measure.without.outliers
    if measure.bound_ns is None:
        return f"{_WHAT[measure.name]}: {measure.verdict}: none were seen"
    text = f"{_OF[measure.name]} as {duration(measure.bound_ns)} or more: {measure.verdict}"
    if measure.verdict == TOO_FEW:
        needs = f"{outliers} of them in {pairs} pairs of slices; {OUTLIERS_NEEDED} and {PAIRS_NEEDED} pairs are needed"
        return f"{text}: {needs}"
    assert measure.test is not None
    text += f"; with : without = {_bounds(measure.test)}"
    if measure.verdict == NO_DIFFERENCE:
        detectable = measure.test.detectable
        text += (
            "; they come too unevenly to give a ratio"
            if detectable is None
            else f"; a ratio of {detectable:.2f} or {1 / detectable:.2f} would have been found with {100 * POWER:.0f} %"
            " chance"
        )
    return text


def self_check(check: SelfCheck | None, style: Style) -> list[str]:
    """The section of the report; empty without a self-check."""
    if check is None:
        return []
    lines = [f"Self-check: {check.verdict} (docs/self-check.md)"]
    lines += _wrap(
        f"{check.pairs} pairs of slices of {duration(check.slice_ns)} in random order, {check.with_seconds:.1f} s with"
        f" and {check.without_seconds:.1f} s without: {clean(check.deeper.replace('; ', ', '), style)}"
    )
    lines += _wrap(f"wake-ups by {clean(check.observer, style)}")
    if check.ended:
        lines += _wrap(f"it ended early: {clean(check.ended, style)}")
    for measure in check.measures:
        lines += [""] if measure is not check.measures[0] else []
        columns = [Column(_WHAT[measure.name], 20, right=False), Column("number", 7), Column("avg", 8)]
        columns += [Column("p99", 8), Column("p99.9", 8), Column("outliers", 8), Column("a second", 8)]
        columns += [Column("of all", 8)]
        rows = [
            _row("with", measure.with_probes, measure),
            _row("without", measure.without, measure),
        ]
        lines += table(columns, rows)
        lines += _wrap(_told(measure, check.pairs))
    if check.switches is not None:
        lines += _wrap(f"context switches of the machine, with : without = {_bounds(check.switches)}")
    if not check.waits_always:
        lines += _wrap("the waits themselves were recorded in the slices with their probes alone")
    return lines
