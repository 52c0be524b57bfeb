# SPDX-License-Identifier: GPL-2.0-or-later
"""The comparison as JSON, schema lockline-diff/1: docs/diff.md."""

import json
import math
from typing import Any

from lockline.base.statistics import Summary
from lockline.base.text import hide_addresses
from lockline.diff.lines import LineDifference, LineRates, LinesDiff
from lockline.diff.model import Comparison, Judgement
from lockline.diff.recordings import Rates, Side, WaitDifference, WaitsDiff
from lockline.diff.result import Diff, SamplesDiff
from lockline.diff.watched import WatchedDiff, WatchedDifference, WatchedRate

SCHEMA = "lockline-diff/1"


def render(diff: Diff, top: int | None = None) -> str:
    """One JSON object on one line; top: entries of each list, None for all."""
    return json.dumps(document(diff, top), separators=(",", ":"), allow_nan=False) + "\n"


def document(diff: Diff, top: int | None = None) -> dict[str, Any]:
    """The comparison as JSON values."""
    return {
        "schema": SCHEMA,
        "before": diff.before,
        "after": diff.after,
        "threshold": diff.rule.threshold,
        "alpha": diff.rule.alpha,
        "verdict": diff.verdict,
        "warnings": [hide_addresses(warning) for warning in diff.warnings],
        "samples": None if diff.samples is None else _samples(diff.samples),
        "waits": None if diff.waits is None else _waits(diff.waits, top),
        "lines": None if diff.lines is None else _lines(diff.lines, top),
        "watched": None if diff.watched is None else _watched(diff.watched, top),
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _summary(summary: Summary) -> dict[str, Any]:
    return {
        "n": summary.n,
        "average": _finite(summary.average),
        "median": _finite(summary.median),
        "minimum": summary.minimum,
        "maximum": summary.maximum,
        "deviation": _finite(summary.deviation),
    }


def _change(before: float, after: float) -> dict[str, Any]:
    delta = after - before
    return {"absolute": _finite(delta), "relative": _finite(delta / abs(before)) if before else None}


def _judgement(judgement: Judgement) -> dict[str, Any]:
    return {
        "test": judgement.test.name,
        "statistic": judgement.test.statistic,
        "p": judgement.test.p,
        "corrected_p": judgement.p,
        "tested": judgement.tested,
        "correction": "Holm" if judgement.tested > 1 else None,
        "smallest_p": judgement.test.smallest_p,
        "difference": {
            "estimate": _finite(judgement.difference.estimate),
            "low": _finite(judgement.difference.low),
            "high": _finite(judgement.difference.high),
            "relative": _finite(judgement.relative),
            "relative_low": _finite(judgement.relative_low),
            "relative_high": _finite(judgement.relative_high),
            "confidence": judgement.difference.confidence,
        },
        "verdict": judgement.verdict,
        "reason": judgement.reason,
    }


def _comparison(comparison: Comparison) -> dict[str, Any]:
    before, after = comparison.before, comparison.after
    return {
        "before": _summary(before),
        "after": _summary(after),
        "delta": {
            name: _change(getattr(before, name), getattr(after, name))
            for name in ("average", "median", "minimum", "maximum")
        },
        "overlap": {
            "ranges": comparison.overlap.ranges,
            "before_inside": comparison.overlap.before_inside,
            "after_inside": comparison.overlap.after_inside,
            "after_larger": comparison.overlap.pairs,
        },
        "detectable": _finite(comparison.detectable),
        **_judgement(comparison.judgement),
    }


def _samples(samples: SamplesDiff) -> dict[str, Any]:
    return {
        "unit": samples.unit or None,
        "higher_is_better": samples.direction.higher_is_better,
        "direction": samples.direction.reason,
        "taken": samples.before.taken,
        "values": {"before": list(samples.before.values), "after": list(samples.after.values)},
        **_comparison(samples.comparison),
    }


def _side(side: Side) -> dict[str, Any]:
    return {
        "hostname": side.host.name,
        "kernel_release": side.host.kernel_release,
        "cpus_online": side.host.cpus_online,
        "spinlock_mode": side.host.spinlock_mode,
        "duration_ns": side.window.duration_ns,
        "locks": side.locks,
        "samples": side.samples,
        "intervals_per_sample": side.block,
    }


def _rates(rates: Rates) -> dict[str, Any]:
    return {
        "waits": rates.waits,
        "wait_ns": rates.wait_ns,
        "waits_per_s": rates.waits_per_s,
        "share": rates.share,
        "p50_ns": rates.p50_ns,
        "p99_ns": rates.p99_ns,
        "max_ns": rates.max_ns,
        "failed": rates.failed,
    }


def _wait(difference: WaitDifference) -> dict[str, Any]:
    return {
        "lock": hide_addresses(difference.name) or None,
        "kind": difference.kind or None,
        "presence": difference.presence,
        "before": _rates(difference.before),
        "after": _rates(difference.after),
        "waits_per_s": _change(difference.before.waits_per_s, difference.after.waits_per_s),
        "share": _change(difference.before.share, difference.after.share),
        "unjudged": difference.unjudged or None,
        "judged": None if difference.comparison is None else _comparison(difference.comparison),
    }


def _waits(waits: WaitsDiff, top: int | None) -> dict[str, Any]:
    return {
        "before": _side(waits.before),
        "after": _side(waits.after),
        "min_share": waits.min_share,
        "locks_judged": waits.judged,
        "total": _wait(waits.total),
        "kinds": [_wait(kind) for kind in waits.kinds],
        "locks": [_wait(lock) for lock in waits.locks[:top]],
    }


def _line_rates(rates: LineRates) -> dict[str, Any]:
    return {
        "lines": rates.lines,
        "records": rates.records,
        "loads": rates.loads,
        "stores": rates.stores,
        "hitm": {
            "total": rates.local_hitm + rates.remote_hitm,
            "local": rates.local_hitm,
            "remote": rates.remote_hitm,
        },
        "peer": {
            "total": rates.local_peer + rates.remote_peer,
            "local": rates.local_peer,
            "remote": rates.remote_peer,
        },
        "cpus": rates.cpus,
        "per_10k": rates.per_10k,
        "share": rates.share,
    }


def _line(difference: LineDifference) -> dict[str, Any]:
    return {
        "line": hide_addresses(difference.name) or None,
        "named_by": difference.named_by,
        "presence": difference.presence,
        "before": _line_rates(difference.before),
        "after": _line_rates(difference.after),
        "per_10k": _change(difference.before.per_10k, difference.after.per_10k),
        "unjudged": difference.unjudged or None,
        "judged": None if difference.judgement is None else _judgement(difference.judgement),
    }


def _lines(lines: LinesDiff, top: int | None) -> dict[str, Any]:
    return {
        "metric": lines.metric,
        "samples": {"before": lines.samples[0], "after": lines.samples[1]},
        "lines_judged": lines.judged,
        "total": _line(lines.total),
        "lines": [_line(line) for line in lines.lines[:top]],
    }


def _watched_rate(rate: WatchedRate | None) -> dict[str, Any] | None:
    if rate is None:
        return None
    return {
        "transfers": rate.seen,
        "share": rate.share,
        "per_second": rate.per_second,
        "error_per_second": rate.error,
        "at_least": rate.at_least,
    }


def _watched_difference(difference: WatchedDifference) -> dict[str, Any]:
    before, after = difference.before, difference.after
    rates = [side.per_second if side else None for side in (before, after)]
    return {
        "line": hide_addresses(difference.line),
        "member": difference.member or None,
        "presence": difference.presence,
        "before": _watched_rate(before),
        "after": _watched_rate(after),
        "per_second": None if rates[0] is None or rates[1] is None else _change(rates[0], rates[1]),
        "unjudged": difference.unjudged or None,
        "judged": None if difference.judgement is None else _judgement(difference.judgement),
    }


def _watched(watched: WatchedDiff, top: int | None) -> dict[str, Any]:
    return {
        "judged": watched.judged,
        "lines": [_watched_difference(difference) for difference in watched.differences[:top]],
    }
