# SPDX-License-Identifier: GPL-2.0-or-later
"""The comparison as text, and as a table for the description of a kernel patch."""

import math
from collections.abc import Iterable, Sequence

from lockline.base.numbers import count, counted, duration, percent, short_count
from lockline.base.text import Column, Style, beside, clean, cut, fill, pad, paragraphs, table
from lockline.diff.lines import LineDifference, LinesDiff
from lockline.diff.model import Comparison, Judgement, Verdict
from lockline.diff.recordings import Rates, Side, WaitDifference, WaitsDiff
from lockline.diff.result import Diff, SamplesDiff
from lockline.render.diff_watched import changelog_watched, watched

ROWS = 15
CHANGELOG_WIDTH = 75
CHANGELOG_ROWS = 10

_LABEL = 11

# Less waiting is what is measured; whether anything became faster is not.
_WAITING: dict[Verdict, str] = {"improved": "less waiting", "regressed": "more waiting"}
_TRANSFERS: dict[Verdict, str] = {"improved": "fewer transfers", "regressed": "more transfers"}

_STATISTICS = (("average", "average"), ("median", "median"), ("minimum", "min"), ("maximum", "max"))

Labels = tuple[str, str]


def render(diff: Diff, style: Style, labels: Labels = ("before", "after"), top: int | None = None) -> str:
    """The whole comparison, ending in a line end."""
    parts = [_header(diff, style)]
    rows = ROWS if top is None else top
    if diff.samples is not None:
        parts.append(_samples(diff.samples, labels))
    if diff.waits is not None:
        parts += _waits(diff.waits, style, labels, rows)
    if diff.lines is not None:
        parts += _lines(diff.lines, style, labels, rows)
    if diff.watched is not None:
        parts.append(watched(diff.watched, style, labels, rows))
    parts.append(_verdict(diff, style))
    return paragraphs(parts)


# Parts of the comparison that an option shows.
SECTIONS = {
    "waits": "waiting by kind and by lock, and how long waits are",
    "lines": "cache lines that were sampled",
    "watched": "cache lines that were watched",
}


def render_sections(diff: Diff, style: Style, labels: Labels, top: int | None, names: Sequence[str]) -> str:
    """These sections alone, and the verdict."""
    rows = ROWS if top is None else top
    parts: list[list[str]] = []
    if "waits" in names and diff.waits is not None:
        parts += _waits(diff.waits, style, labels, rows)
    if "lines" in names and diff.lines is not None:
        parts += _lines(diff.lines, style, labels, rows)
    if "watched" in names and diff.watched is not None:
        parts.append(watched(diff.watched, style, labels, rows))
    parts.append(_verdict(diff, style))
    return paragraphs(parts)


def _wrapped(label: str, text: str) -> list[str]:
    return beside(pad(label, _LABEL), text)


def _header(diff: Diff, style: Style) -> list[str]:
    lines = _wrapped("lockline", f"diff of {clean(diff.before, style)} and {clean(diff.after, style)}")
    if diff.waits is not None:
        lines += _wrapped("Before", clean(_side(diff.waits.before), style))
        lines += _wrapped("After", clean(_side(diff.waits.after), style))
    for warning in diff.warnings:
        lines += _wrapped("Warning", clean(warning, style))
    return lines


def _side(side: Side) -> str:
    parts = [
        side.host.name,
        f"Linux {side.host.kernel_release}" if side.host.kernel_release else None,
        counted(side.window.cpus, "CPU") if side.window.cpus else None,
        f"spinlocks {side.host.spinlock_mode}" if side.host.spinlock_mode else None,
        duration(side.window.duration_ns),
        f"{side.locks:,} locks",
        f"{side.samples:,} samples of {duration(side.sample_ns)}",
    ]
    return ", ".join(part for part in parts if part)


def _decimals(values: Iterable[float]) -> int:
    """Decimals that show four digits of the largest; none for whole numbers."""
    known = [abs(value) for value in values]
    largest = max(known, default=0.0)
    if not largest or largest >= 1000 or all(value == int(value) for value in known):
        return 0
    return min(12, 3 - math.floor(math.log10(largest)))


def number(value: float, decimals: int) -> str:
    """A sample in at most 15 characters."""
    return f"{value:,.{decimals}f}" if abs(value) < 1e10 else f"{value:.6g}"


def delta(before: float, after: float) -> str:
    """The change in percent of before, as "+15.9 %"."""
    if not before:
        return "0.0 %" if not after else "-"
    return signed((after - before) / abs(before))


def signed(fraction: float | None) -> str:
    """A fraction in percent, with its sign."""
    if fraction is None or not math.isfinite(fraction):
        return "-"
    value = fraction * 100
    return f"{value:+,.1f} %" if abs(value) < 1e6 else f"{value:+.3g} %"


def _statistics(comparison: Comparison, labels: Labels) -> list[str]:
    before, after = comparison.before, comparison.after
    pairs = [(title, getattr(before, name), getattr(after, name)) for name, title in _STATISTICS]
    decimals = _decimals(value for _, *values in pairs for value in values)
    columns = [Column("", 9, right=False), Column(labels[0], 16), Column(labels[1], 16), Column("delta", 12)]
    rows = [["n", f"{before.n:,}", f"{after.n:,}", ""]]
    rows += [[title, number(old, decimals), number(new, decimals), delta(old, new)] for title, old, new in pairs]
    if before.deviation is not None and after.deviation is not None:
        base = before.average, after.average
        spreads = [
            percent(deviation / abs(mean)) if mean else "-"
            for deviation, mean in zip((before.deviation, after.deviation), base, strict=True)
        ]
        rows.append(["deviation", *spreads, ""])
    return table(columns, rows, indent="  ")


def _p(p: float) -> str:
    return "p < 0.0001" if p < 0.0001 else f"p = {p:.4f}" if p < 0.01 else f"p = {p:.2f}"


def _overlap(comparison: Comparison) -> str:
    found = comparison.overlap
    before, after = comparison.before.n, comparison.after.n
    if not found.ranges:
        return "they do not overlap"
    return (
        f"they overlap: {found.before_inside} of {before} and {found.after_inside} of {after} samples lie in both; "
        f"in {percent(found.pairs)} of all pairs the second is the larger"
    )


def _interval(judgement: Judgement) -> str:
    relative = judgement.relative
    text = signed(relative) if relative is not None else f"{judgement.difference.estimate:+.4g}"
    confidence = f"{judgement.difference.confidence * 100:.0f} % confidence"
    if judgement.difference.low is None:
        return f"{text}; too few samples for an interval of {confidence}"
    if judgement.relative_low is None or judgement.relative_high is None:
        return f"{text} ({judgement.difference.low:+.4g} to {judgement.difference.high:+.4g}, {confidence})"
    return f"{text} ({signed(judgement.relative_low)} to {signed(judgement.relative_high)}, {confidence})"


def _range(judgement: Judgement) -> str:
    """The interval in whole percent, "-" if there is none."""
    ends = judgement.relative_low, judgement.relative_high
    known = [f"{end * 100:+,.0f}" if abs(end) < 1e4 else f"{end * 100:+.1e}" for end in ends if end is not None]
    return f"{known[0]} to {known[1]} %" if len(known) == 2 else "-"


def _samples(samples: SamplesDiff, labels: Labels) -> list[str]:
    comparison = samples.comparison
    judgement = comparison.judgement
    way = "higher" if samples.direction.higher_is_better else "lower"
    taken = f"{samples.unit or 'no unit'}, {way} is better ({samples.direction.reason}); taken: {samples.before.taken}"
    detected = (
        "no difference at all: too few samples"
        if comparison.detectable is None
        else f"differences from about {percent(comparison.detectable)} on, 4 times in 5, with so many samples so spread"
    )
    return [
        *_wrapped("Samples", clean(taken, Style())),
        "",
        *_statistics(comparison, labels),
        "",
        *_wrapped("Difference", f"{_interval(judgement)}, Hodges-Lehmann"),
        *_wrapped("Would show", detected),
        *_wrapped("Ranges", _overlap(comparison)),
        *_wrapped("Test", f"{judgement.test.name}: U = {judgement.test.statistic:g}, {_p(judgement.p)}"),
    ]


def _waiting(rates: Rates) -> str:
    """Threads that wait on average, in at most 7 characters."""
    share = rates.share
    if share >= 100:
        return count(round(share))
    return f"{share:.3g}" if share >= 0.001 or not share else "<0.001"


def _per_second(rates: Rates) -> str:
    rate = rates.waits_per_s
    return f"{rate:.2g}" if rate < 9.95 else count(round(rate))


def _name(difference: WaitDifference) -> str:
    return difference.name or "all"


def _wait_verdict(difference: WaitDifference) -> str:
    if difference.comparison is None:
        return "not judged"
    verdict = difference.comparison.judgement.verdict
    return _WAITING.get(verdict, verdict)


def _presence(difference: WaitDifference | LineDifference, text: str) -> str:
    return text if difference.presence == "both" else difference.presence


def _wait_rows(differences: Sequence[WaitDifference], style: Style) -> list[list[str]]:
    return [
        [
            clean(_name(difference), style),
            clean(difference.kind or "all", style),
            _per_second(difference.before),
            _per_second(difference.after),
            _waiting(difference.before),
            _waiting(difference.after),
            _presence(difference, delta(difference.before.share, difference.after.share)),
            _range(difference.comparison.judgement) if difference.comparison else "",
            _wait_verdict(difference),
            _p(difference.comparison.judgement.p) if difference.comparison else "",
        ]
        for difference in differences
    ]


def _lengths(differences: Sequence[WaitDifference], style: Style) -> list[list[str]]:
    def average(rates: Rates) -> str:
        return duration(rates.wait_ns / rates.waits) if rates.waits else "-"

    def longest(rates: Rates) -> str:
        return duration(rates.max_ns) if rates.waits else "-"

    return [
        [
            clean(_name(difference), style),
            clean(difference.kind or "all", style),
            average(difference.before),
            average(difference.after),
            *(duration(getattr(rates, name)) for name in ("p50_ns", "p99_ns") for rates in _both(difference)),
            longest(difference.before),
            longest(difference.after),
        ]
        for difference in differences
    ]


def _both(difference: WaitDifference) -> tuple[Rates, Rates]:
    return difference.before, difference.after


def _more(total: int, shown: int) -> list[str]:
    return [f"  ({total - shown:,} more)"] if total > shown else []


def _test_of(waits: WaitsDiff) -> str:
    return waits.total.comparison.judgement.test.name if waits.total.comparison else "none, too little waiting"


def _waits(waits: WaitsDiff, style: Style, labels: Labels, rows: int) -> list[list[str]]:
    shown = waits.locks[:rows]
    both = [waits.total, *waits.kinds, *shown]
    columns = [
        Column("lock", 22, right=False),
        Column("kind", 10, right=False),
        Column("waits/s", 7),
        Column(cut(labels[1], 7), 7),
        Column("threads", 7),
        Column(cut(labels[1], 7), 7),
        Column("change", 11),
        Column("95 % interval", 15),
        Column("verdict", 13, right=False),
        Column("", 10),
    ]
    lengths = [
        Column("lock", 30, right=False),
        Column("kind", 10, right=False),
        *(column for title in ("avg", "p50", "p99", "max") for column in (Column(title, 8), Column("", 8))),
    ]
    kinds = len(waits.kinds)
    note = f"judged from {waits.min_share:g} threads on; p allows for {waits.judged} locks and {kinds} kinds (Holm)"
    return [
        [
            "Waiting (threads: so many wait on average; less waiting does not always mean more throughput)",
            *table(columns, _wait_rows(both, style)),
            *_more(len(waits.locks), rows),
            f"  {note}",
            f"  test: {_test_of(waits)}; this compares one run on each side:",
            "  it says how these two runs differ, not what another run would give",
        ],
        [f"How long they wait ({labels[0]}, {labels[1]})", *table(lengths, _lengths(both, style))],
    ]


def _line_verdict(difference: LineDifference) -> str:
    if difference.judgement is None:
        return "not judged"
    verdict = difference.judgement.verdict
    return _TRANSFERS.get(verdict, verdict)


def _line_rows(differences: Sequence[LineDifference], metric: str, style: Style) -> list[list[str]]:
    def split(difference: LineDifference) -> list[str]:
        out = []
        for rates in (difference.before, difference.after):
            local, remote = (
                (rates.local_hitm, rates.remote_hitm) if metric == "hitm" else (rates.local_peer, rates.remote_peer)
            )
            out.append(f"{short_count(local)}+{short_count(remote)}")
        return out

    return [
        [
            clean(difference.name or "all", style),
            *split(difference),
            f"{difference.before.per_10k:.3g}",
            f"{difference.after.per_10k:.3g}",
            _presence(difference, delta(difference.before.per_10k, difference.after.per_10k)),
            "-" if difference.before.cpus is None else str(difference.before.cpus),
            "-" if difference.after.cpus is None else str(difference.after.cpus),
            _p(difference.judgement.p) if difference.judgement else "",
            _line_verdict(difference),
        ]
        for difference in differences
    ]


def _lines(lines: LinesDiff, style: Style, labels: Labels, rows: int) -> list[list[str]]:
    what = "HITM" if lines.metric == "hitm" else "peer snoops"
    columns = [
        Column("line", 30, right=False),
        Column("lcl+rmt", 11),
        Column(cut(labels[1], 11), 11),
        Column("per 10k", 7),
        Column(cut(labels[1], 7), 7),
        Column("change", 10),
        Column("CPUs", 4),
        Column("", 4),
        Column("", 10),
        Column("verdict", 15, right=False),
    ]
    samples = " and ".join(map(count, lines.samples))
    test = lines.total.judgement.test.name if lines.total.judgement else "none, too few transfers"
    return [
        [
            f"Cache lines ({what}, local + remote; per 10k: in 10,000 of {samples} samples)",
            *table(columns, _line_rows([lines.total, *lines.lines[:rows]], lines.metric, style)),
            *_more(len(lines.lines), rows),
            f"  test: {test}; p is corrected (Holm); lines judged: {lines.judged}",
        ]
    ]


def _regressed(diff: Diff) -> list[str]:
    names = []
    if diff.waits is not None:
        names += [
            f"{_name(wait)} {wait.kind}".strip()
            for wait in [diff.waits.total, *diff.waits.kinds, *diff.waits.locks]
            if wait.comparison and wait.comparison.judgement.verdict == "regressed"
        ]
    if diff.lines is not None:
        names += [
            line.name or "all lines"
            for line in [diff.lines.total, *diff.lines.lines]
            if line.judgement and line.judgement.verdict == "regressed"
        ]
    if diff.watched is not None:
        names += [
            f"{row.line} {row.member}".strip()
            for row in diff.watched.differences
            if row.judgement and row.judgement.verdict == "regressed"
        ]
    return names


def _reason(diff: Diff) -> str:
    if diff.samples is not None:
        return diff.samples.comparison.judgement.reason
    regressed = _regressed(diff)
    if regressed:
        more = f" and {len(regressed) - 5} more" if len(regressed) > 5 else ""
        return "more waiting or transfers: " + ", ".join(regressed[:5]) + more
    parts = []
    if diff.waits is not None:
        total = diff.waits.total
        parts.append(
            f"waiting in all: {total.comparison.judgement.reason}"
            if total.comparison
            else f"waiting in all: {total.unjudged}"
        )
    if diff.lines is not None:
        judged = diff.lines.total.judgement
        parts.append(f"transfers in all: {judged.reason if judged else diff.lines.total.unjudged}")
    if diff.watched is not None:
        whole = [row for row in diff.watched.differences if not row.member]
        parts += [f"{row.line}: {row.judgement.reason if row.judgement else row.unjudged}" for row in whole[:3]]
    return "; ".join(parts)


def _verdict(diff: Diff, style: Style) -> list[str]:
    return _wrapped("Verdict", f"{diff.verdict}: {clean(_reason(diff), style)}")


def changelog(diff: Diff, style: Style, labels: Labels = ("before", "after")) -> str:
    """A table of at most 75 columns for the description of a patch, ending in a line end."""
    parts: list[list[str]] = []
    if diff.samples is not None:
        parts.append(_changelog_samples(diff.samples, labels))
    if diff.waits is not None:
        parts.append(_changelog_waits(diff.waits, style, labels))
    if diff.lines is not None:
        parts.append(_changelog_lines(diff.lines, style, labels))
    if diff.watched is not None:
        parts.append(changelog_watched(diff.watched, style, labels))
    return paragraphs([line.rstrip() for line in part] for part in parts)


def _paragraph(text: str) -> list[str]:
    return fill(text, columns=CHANGELOG_WIDTH)


def _changelog_samples(samples: SamplesDiff, labels: Labels) -> list[str]:
    comparison = samples.comparison
    judgement = comparison.judgement
    before, after = comparison.before, comparison.after
    pairs = [(title, getattr(before, name), getattr(after, name)) for name, title in _STATISTICS]
    decimals = _decimals(value for _, *values in pairs for value in values)
    columns = [Column("", 8, right=False), Column(labels[0], 17), Column(labels[1], 17), Column("delta", 12)]
    rows = [[title, number(old, decimals), number(new, decimals), delta(old, new)] for title, old, new in pairs]
    way = "higher" if samples.direction.higher_is_better else "lower"
    unit = clean(samples.unit, Style()) or "no unit"
    overlaps = "overlap" if comparison.overlap.ranges else "do not overlap"
    return [
        *table(columns, rows, indent="  "),
        "",
        *_paragraph(
            f"{before.n} and {after.n} samples, {unit}, {way} is better. The distributions {overlaps}. "
            f"{judgement.test.name}: {_p(judgement.p)}; difference {_interval(judgement)}: {judgement.verdict}."
        ),
    ]


def _changelog_waits(waits: WaitsDiff, style: Style, labels: Labels) -> list[str]:
    chosen = [lock for lock in waits.locks if lock.comparison is not None][:CHANGELOG_ROWS]
    columns = [
        Column("wait time per second", 30, right=False),
        Column(labels[0], 9),
        Column(labels[1], 9),
        Column("delta", 11),
        Column("", 10),
    ]

    def per_second(rates: Rates) -> str:
        return duration(rates.share * 1e9) if rates.waits else "0"

    rows = [
        [
            clean(_name(wait) + (f" {wait.kind}" if wait.kind else ""), style),
            per_second(wait.before),
            per_second(wait.after),
            _presence(wait, delta(wait.before.share, wait.after.share)),
            _p(wait.comparison.judgement.p) if wait.comparison else "",
        ]
        for wait in [waits.total, *chosen]
    ]
    lengths = [duration(side.window.duration_ns) for side in (waits.before, waits.after)]
    return [
        *table(columns, rows, indent=""),
        "",
        *_paragraph(
            f"Waiting for kernel locks in {lengths[0]} and {lengths[1]}; {waits.before.samples} and "
            f"{waits.after.samples} samples of one run each; Mann-Whitney U, p of locks corrected after Holm."
        ),
    ]


def _changelog_lines(lines: LinesDiff, style: Style, labels: Labels) -> list[str]:
    what = "HITM" if lines.metric == "hitm" else "peer snoops"
    chosen = [line for line in lines.lines if line.judgement is not None][:CHANGELOG_ROWS]
    columns = [
        Column(f"{what} per 10,000 samples", 30, right=False),
        Column(labels[0], 9),
        Column(labels[1], 9),
        Column("delta", 11),
        Column("", 10),
    ]
    rows = [
        [
            clean(line.name or "all", style),
            f"{line.before.per_10k:.3g}",
            f"{line.after.per_10k:.3g}",
            _presence(line, delta(line.before.per_10k, line.after.per_10k)),
            _p(line.judgement.p) if line.judgement else "",
        ]
        for line in [lines.total, *chosen]
    ]
    return [
        *table(columns, rows, indent=""),
        "",
        *_paragraph(
            f"{count(lines.samples[0])} and {count(lines.samples[1])} samples of memory accesses; "
            "conditional test of two Poisson rates, p of lines corrected after Holm."
        ),
    ]
