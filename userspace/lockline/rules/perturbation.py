# SPDX-License-Identifier: GPL-2.0-or-later
"""lockline itself hides stalls, or makes them: record --self-check."""

from lockline.analysis.findings import Fact, Finding, Impact, Machine, Text, Value, fact, ns, remedy
from lockline.analysis.findings import Measure as Figure
from lockline.analysis.model import Report
from lockline.analysis.perturbation import HIDES, MAKES, Measure

# Beyond that chance is left out of account.
_SURE = 0.005


def _compared(measure: Measure, pairs: int) -> Fact:
    test = measure.test
    assert test is not None
    figures: dict[str, Value] = {
        "events": Text(measure.name),
        "limit": ns(measure.bound_ns or 0, "at least"),
        "with_probes": Figure(measure.with_probes.outliers, "waits"),
        "with_time": Figure(measure.with_probes.seconds, "s"),
        "without": Figure(measure.without.outliers, "waits"),
        "without_time": Figure(measure.without.seconds, "s"),
        "p": Figure(test.p, "probability"),
        "pairs": Figure(pairs, "pairs"),
    }
    if test.ratio is None or not measure.without.outliers:
        return fact("come-alone", **figures)
    if not measure.with_probes.outliers:
        return fact("never-come", **figures)
    high = test.high if test.high < float("inf") else None
    ratio = Figure(test.ratio, "ratio", low=test.low, high=high, confidence=test.confidence)
    return fact("come-as-often", **figures, ratio=ratio)


def find(report: Report) -> list[Finding]:
    """A measure of the self-check differs between the slices with and without the deeper probes."""
    check = report.self_check
    if check is None:
        return []
    found = [measure for measure in check.measures if measure.verdict in (MAKES, HIDES)]
    if not found:
        return []
    sure = min(measure.test.p for measure in found if measure.test is not None) <= _SURE
    return [
        Finding(
            rule="perturbation",
            subject=Machine(),
            confidence="high" if sure else "medium",
            claim=fact(
                "perturbation",
                verdict=Text(check.verdict),
                probes=tuple(Text(probe) for probe in check.deeper.split("; ")),
            ),
            evidence=tuple(_compared(measure, check.pairs) for measure in found),
            remedies=(remedy("check-each-probe"),),
            impact=Impact(0),
        )
    ]
