# SPDX-License-Identifier: GPL-2.0-or-later
"""The first screen of `lockline diff`: better, worse or neither, by how much, and whether that is worth acting on."""

import math
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lockline.analysis.answer import NEGLIGIBLE_SHARE, is_spinning
from lockline.base.numbers import count, counted, percent
from lockline.base.text import Column, Style, clean, cut, pad, table, width
from lockline.c2c.worth import MOST_NS, WORTH_CPU
from lockline.diff.lines import LineDifference
from lockline.diff.model import Judgement
from lockline.diff.recordings import WaitDifference
from lockline.diff.result import Diff
from lockline.diff.watched import WatchedDifference
from lockline.render.diff_text import Labels, signed
from lockline.render.screen_fit import NARROWEST, filled, fitted

# Rows of changes, warnings, lines of one warning: fewer by each step until the screen fits.
_STEPS = ((9, 3, 2), (7, 2, 2), (5, 2, 1), (3, 1, 1))
# Threads that are told apart from none.
_FEWEST = 0.001
_HEADS = {
    "improved": "Better",
    "regressed": "Worse",
    "no difference": "No difference",
    "inconclusive": "No answer",
}


@dataclass(frozen=True, slots=True)
class _Row:
    """One thing that was compared; weight: how far it changed, in its own unit."""

    name: str
    before: str
    after: str
    judgement: Judgement | None
    unjudged: str
    presence: str
    weight: float


def _number(value: float) -> str:
    if value and abs(value) < 99.95:
        return f"{value:.3g}"
    return count(round(value)) if abs(value) < 1e15 else f"{value:.0e}"


def _waiters(share: float, spinning: bool) -> str:
    """Waiting as `report` says it: spinning as CPUs, sleeping as threads that wait on average."""
    if spinning:
        return f"{share:.3g} CPUs" if share >= 1 else f"{percent(share)} CPU"
    if 0 < share < _FEWEST:
        return f"<{_FEWEST:g} threads"
    return f"{count(round(share)) if share >= 1000 else format(share, '.3g' if share >= 1 else '.2g')} threads"


def _wait_row(wait: WaitDifference) -> _Row:
    kinds = f" ({wait.kind})" if wait.kind and wait.name else ""
    spinning = is_spinning(wait.kind)
    return _Row(
        (wait.name or wait.kind or "all lock waiting") + kinds,
        _waiters(wait.before.share, spinning),
        _waiters(wait.after.share, spinning),
        wait.comparison.judgement if wait.comparison else None,
        wait.unjudged,
        wait.presence,
        abs(wait.after.share - wait.before.share),
    )


def _line_row(line: LineDifference) -> _Row:
    return _Row(
        f"line of {line.name}" if line.name else "all lines",
        f"{line.before.per_10k:.3g}",
        f"{line.after.per_10k:.3g}",
        line.judgement,
        line.unjudged,
        line.presence,
        abs(line.after.per_10k - line.before.per_10k) / 1e4,
    )


def _watched_row(row: WatchedDifference) -> _Row:
    before, after = (side.per_second if side is not None else None for side in (row.before, row.after))
    return _Row(
        f"line of {row.line}",
        "-" if before is None else f"{_number(before)}/s",
        "-" if after is None else f"{_number(after)}/s",
        row.judgement,
        row.unjudged,
        row.presence,
        abs((after or 0.0) - (before or 0.0)) * MOST_NS / 1e9,
    )


def _effect(judgement: Judgement) -> str:
    """By how much, with its interval, and p last."""
    if judgement.relative is None:
        text = f"a change of {_number(judgement.difference.estimate)}"
    else:
        text = signed(judgement.relative)
    sure = f"{judgement.difference.confidence * 100:.0f} % confidence"
    if judgement.relative_low is not None and judgement.relative_high is not None:
        text += f" ({signed(judgement.relative_low)} to {signed(judgement.relative_high)}, {sure}"
        return f"{text}; {_p(judgement)})"
    return f"{text} ({_p(judgement)})"


def _p(judgement: Judgement) -> str:
    p = judgement.p
    return "p < 0.0001" if p < 0.0001 else f"p = {p:.2g}"


def _rows(diff: Diff) -> list[_Row]:
    """All that was compared: the sums first, then what changed for sure, then what changed most."""
    sums: list[_Row] = []
    parts: list[_Row] = []
    if diff.waits is not None:
        sums.append(_wait_row(diff.waits.total))
        parts += map(_wait_row, diff.waits.locks)
    if diff.lines is not None:
        sums.append(_line_row(diff.lines.total))
        parts += map(_line_row, diff.lines.lines)
    if diff.watched is not None:
        sums += [_watched_row(row) for row in diff.watched.differences if not row.member]
    return [*sums, *sorted(parts, key=lambda row: (not _is_sure(row), -row.weight))]


def _is_sure(row: _Row) -> bool:
    return row.judgement is not None and row.judgement.verdict in ("improved", "regressed")


def _worth(diff: Diff) -> tuple[bool, str]:
    """Whether the change is worth acting on, and the threshold in words."""
    if diff.samples is not None:
        verdict = diff.samples.comparison.judgement.verdict
        return verdict in ("improved", "regressed"), f"threshold: {percent(diff.rule.threshold)}"
    wanted = diff.verdict
    changed = [row for row in _rows(diff) if row.judgement is not None and row.judgement.verdict == wanted]
    acting = wanted in ("improved", "regressed") and any(row.weight >= NEGLIGIBLE_SHARE for row in changed)
    if diff.waits is not None:
        return acting, f"threshold: {NEGLIGIBLE_SHARE:.0%} of one thread's time"
    if diff.watched is not None:
        return acting, f"threshold: {WORTH_CPU:.0%} of one CPU, at {MOST_NS:g} ns a move"
    return acting, f"threshold: {NEGLIGIBLE_SHARE:.0%} of the samples"


def _about(diff: Diff) -> _Row | None:
    """What the answer is about: the sum, or what got worse though the sum did not."""
    rows = _rows(diff)
    wanted = [row for row in rows if row.judgement is not None and row.judgement.verdict == diff.verdict]
    return next(iter(wanted or rows), None)


def _subject(diff: Diff, labels: Labels) -> tuple[str, Judgement | None, str]:
    if diff.samples is not None:
        comparison = diff.samples.comparison
        unit = f" {diff.samples.unit}" if diff.samples.unit else ""
        what = (
            f"the median went from {_number(comparison.before.median)} to {_number(comparison.after.median)}{unit},"
            f" {'higher' if diff.samples.direction.higher_is_better else 'lower'} is better"
        )
        return what, comparison.judgement, ""
    row = _about(diff)
    if row is None:
        return "nothing could be compared", None, ""
    if row.presence != "both":
        what = f"{row.name} is {row.presence}: {row.before} {labels[0]}, {row.after} {labels[1]}"
        return what, row.judgement, row.unjudged
    return f"{row.name} went from {row.before} to {row.after}", row.judgement, row.unjudged


def _most_of_it(diff: Diff, style: Style) -> str:
    """The lock that changed most, the same way as the sum."""
    if diff.waits is None:
        return ""
    parts = [
        row
        for row in map(_wait_row, diff.waits.locks)
        if row.judgement is not None and row.judgement.verdict == diff.verdict and _is_sure(row)
    ]
    if not parts:
        return ""
    most = max(parts, key=lambda row: row.weight)
    return f" Most of it: {clean(most.name, style)}, from {most.before} to {most.after}."


def answer_words(diff: Diff, labels: Labels, style: Style) -> str:
    """Better or worse, of what, by how much, and whether that matters."""
    acting, threshold = _worth(diff)
    what, judgement, unjudged = _subject(diff, labels)
    head = _HEADS[diff.verdict]
    if diff.verdict in ("improved", "regressed"):
        matters = "worth acting on" if diff.verdict == "regressed" else "worth having"
        head += f", {matters}" if acting else f", but not {matters}"
    text = f"{head} ({threshold}): {clean(what, style)}"
    if judgement is not None:
        text += f", {_effect(judgement)}"
    text += "." + _most_of_it(diff, style)
    if diff.verdict in ("inconclusive", "no difference"):
        reason = judgement.reason if judgement is not None else unjudged
        text += f" {reason[:1].upper()}{clean(reason[1:], style)}." if reason else ""
    if diff.samples is None and diff.verdict == "improved":
        text += " Less waiting does not always mean more throughput: measure that too."
    return text


def _todo(diff: Diff) -> str:
    if diff.verdict == "inconclusive":
        if diff.samples is not None:
            return "take more samples of both sides, in turns"
        hint = diff.waits.total.hint if diff.waits is not None else ""
        return hint or "record both sides for longer: lockline record -a -d 60"
    if diff.verdict == "regressed" and diff.samples is None:
        return f"see what the lock suffers from now: lockline report -i {shlex.quote(diff.after)}"
    return ""


def _verdict(row: _Row) -> str:
    if row.judgement is None:
        return "too little"
    return {"improved": "less", "regressed": "more", "inconclusive": "unclear"}.get(row.judgement.verdict, "the same")


def _change(row: _Row) -> str:
    if row.presence != "both":
        return row.presence
    return "-" if row.judgement is None or row.judgement.relative is None else signed(row.judgement.relative)


def _changes(diff: Diff, labels: Labels, style: Style, columns: int, most: int) -> list[str]:
    rows = _rows(diff)
    if not rows:
        return []
    heads = [
        Column(cut(labels[0], 14), 14),
        Column(cut(labels[1], 14), 14),
        Column("change", 10),
        Column("verdict", 10, right=False),
    ]
    while heads and sum(head.width + 1 for head in heads) + 16 > columns:
        heads.pop()
    name = columns - sum(head.width + 1 for head in heads)
    cells = [
        [f" {clean(row.name, style)}", *[row.before, row.after, _change(row), _verdict(row)][: len(heads)]]
        for row in rows[:most]
    ]
    if len(rows) > most:
        cells.append([f" {len(rows) - most:,} more", *("" for _ in heads)])
    return [line.rstrip() for line in table([Column("CHANGES", name, right=False), *heads], cells, "", grow=False)]


def _samples(diff: Diff, labels: Labels, columns: int) -> list[str]:
    if diff.samples is None:
        return []
    comparison = diff.samples.comparison
    lines = [pad("CHANGES", 12) + pad(labels[0], 14, right=True) + " " + pad(labels[1], 14, right=True)]
    lines.append(pad(" samples", 12) + f"{comparison.before.n:>14,} {comparison.after.n:>14,}")
    for title, name in (("median", "median"), ("average", "average"), ("min", "minimum"), ("max", "maximum")):
        before, after = getattr(comparison.before, name), getattr(comparison.after, name)
        lines.append(pad(f" {title}", 12) + f"{_number(before):>14} {_number(after):>14}")
    if comparison.detectable is not None and math.isfinite(comparison.detectable):
        lines.append(f" this many samples show differences of about {percent(comparison.detectable)} on")
    return [cut(line, columns) for line in lines]


def _flags(diff: Diff) -> Iterable[str]:
    for name, part in (("waits", diff.waits), ("lines", diff.lines), ("watched", diff.watched)):
        if part is not None:
            yield f"--{name}"


def render(diff: Diff, style: Style, columns: int, labels: Labels = ("before", "after")) -> str:
    """The first screen; columns: of the terminal."""
    columns = max(NARROWEST, columns)
    title = f"diff of {clean(diff.before, style)} and {clean(diff.after, style)}"
    if width(title) > columns:
        half = (columns - len("diff of  and ")) // 2
        title = f"diff of {cut(clean(diff.before, style), half)} and {cut(clean(diff.after, style), half)}"
    todo = _todo(diff)
    more = f"lockline diff {shlex.quote(diff.before)} {shlex.quote(diff.after)} {' '.join(_flags(diff))} --all"

    def make(step: int) -> Sequence[Sequence[str]]:
        rows, warnings, lines = _STEPS[step]
        told = [filled("TRUST   ", clean(text, style), columns, lines) for text in diff.warnings[:warnings]]
        trust = [line for text in told for line in text]
        if len(diff.warnings) > warnings:
            trust.append(f"TRUST   {counted(len(diff.warnings) - warnings, 'more warning')}: --all")
        if diff.waits is not None:
            trust += filled("TRUST   ", "one run on each side: another run may differ by more", columns, 1)
        return (
            [cut(title, columns)],
            filled("ANSWER  ", answer_words(diff, labels, style), columns, 7)
            + (filled("DO      ", todo, columns, 2) if todo else []),
            _samples(diff, labels, columns) or _changes(diff, labels, style, columns, rows),
            trust + filled("MORE    ", " ".join(more.split()), columns, 2),
        )

    return fitted(make, len(_STEPS))
