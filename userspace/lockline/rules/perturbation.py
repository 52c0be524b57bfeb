# SPDX-License-Identifier: GPL-2.0-or-later
"""lockline itself hides stalls, or makes them: record --self-check."""

from lockline.analysis.model import Finding, Report
from lockline.analysis.perturbation import HIDES, MAKES, Measure
from lockline.base.numbers import duration

_WHAT = {"waits": "waits for locks", "wake-ups": "late wake-ups"}
_ADVICE = (
    "record with one of the options that bring these probes at a time, and --self-check, to see which it is; take the"
    " lengths of stalls from a recording without them"
)
# Beyond that chance is left out of account.
_SURE = 0.005


def _ratio(measure: Measure) -> str:
    test = measure.test
    if test is None or test.ratio is None or not measure.without.outliers:
        return "alone"
    if not measure.with_probes.outliers:
        return "never"
    high = f"{test.high:.2f}" if test.high < float("inf") else "any number of"
    return f"{test.ratio:.2f} times as often ({test.low:.2f} to {high}, {100 * test.confidence:g} % confidence)"


def find(report: Report) -> list[Finding]:
    """A measure of the self-check differs between the slices with and without the deeper probes."""
    check = report.self_check
    if check is None:
        return []
    found = [measure for measure in check.measures if measure.verdict in (MAKES, HIDES)]
    if not found:
        return []
    evidence = []
    for measure in found:
        assert measure.test is not None
        evidence.append(
            f"{_WHAT[measure.name]} of {duration(measure.bound_ns)} and more come with the deeper probes"
            f" {_ratio(measure)}: {measure.with_probes.outliers:,} in {measure.with_probes.seconds:.0f} s with,"
            f" {measure.without.outliers:,} in {measure.without.seconds:.0f} s without them;"
            f" p = {measure.test.p:.2g} over {check.pairs} pairs of slices in random order"
        )
    sure = min(measure.test.p for measure in found if measure.test is not None) <= _SURE
    return [
        Finding(
            rule="perturbation",
            title=f"lockline itself {check.verdict} here: {check.deeper.replace('; ', ', ')}",
            confidence="high" if sure else "medium",
            evidence=tuple(evidence),
            next=(_ADVICE,),
            wait_ns=0,
        )
    ]
