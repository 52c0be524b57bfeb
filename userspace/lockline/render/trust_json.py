# SPDX-License-Identifier: GPL-2.0-or-later
"""What the probes do to the waits, and what a self-check found, as JSON: docs/report-schema.md."""

import math
from typing import Any

from lockline.analysis.perturbation import Measure, SelfCheck, Side
from lockline.analysis.trust import DISTORTION, Handoff, Trust
from lockline.base.paired_test import PairedTest


def _handoff(handoff: Handoff) -> dict[str, Any]:
    return {
        "cut_ns": handoff.cut_ns,
        "longer_ns": handoff.longer_ns,
        "shortest_trusted_wait_ns": handoff.trusted_ns,
    }


def trust(value: Trust) -> dict[str, Any]:
    """The object `trust`."""
    return {
        "distortion": DISTORTION,
        "measurement_ns": value.measurement_ns,
        "clock_step_ns": value.clock_step_ns,
        "programs": [
            {
                "name": program.name,
                "place": program.place,
                "spinning": program.spinning,
                "sleeping": program.sleeping,
                "ns": program.ns,
            }
            for program in value.programs
        ],
        "spinning": _handoff(value.spinning),
        "sleeping": _handoff(value.sleeping),
    }


def _test(test: PairedTest | None) -> dict[str, Any] | None:
    if test is None:
        return None
    return {
        "ratio": test.ratio,
        "low": test.low if math.isfinite(test.low) else None,
        "high": test.high if math.isfinite(test.high) else None,
        "confidence": test.confidence,
        "p": test.p,
        "smallest_p": test.smallest_p,
        "detectable_ratio": test.detectable,
    }


def _side(side: Side) -> dict[str, Any]:
    return {
        "seconds": side.seconds,
        "events": side.events,
        "outliers": side.outliers,
        "outliers_per_second": side.outlier_rate if side.seconds else None,
        "outlier_part": side.outlier_part,
        "average_ns": side.average_ns,
        "p99_ns": side.p99_ns,
        "p999_ns": side.p999_ns,
    }


def _measure(measure: Measure) -> dict[str, Any]:
    return {
        "name": measure.name,
        "verdict": measure.verdict,
        "outliers_from_ns": measure.bound_ns,
        "with": _side(measure.with_probes),
        "without": _side(measure.without),
        "test": _test(measure.test),
        "poisson_p": measure.poisson_p,
    }


def self_check(check: SelfCheck | None) -> dict[str, Any] | None:
    """The object `self_check`; None of a recording without one."""
    if check is None:
        return None
    return {
        "verdict": check.verdict,
        "pairs": check.pairs,
        "slice_ns": check.slice_ns,
        "deeper": [signal for signal in check.deeper.split("; ") if signal],
        "observer": check.observer,
        "waits_always": check.waits_always,
        "with_seconds": check.with_seconds,
        "without_seconds": check.without_seconds,
        "measures": [_measure(measure) for measure in check.measures],
        "switches": _test(check.switches),
        "ended": check.ended or None,
    }
