# SPDX-License-Identifier: GPL-2.0-or-later
"""The first screen of `lockline why`: cause, culprit, remedy, proof, and what was ruled out; at most 24 lines."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from lockline.base.numbers import counted, duration, percent
from lockline.base.text import Style, clean, cut, paragraphs
from lockline.investigation.model import UNREAD
from lockline.render import whatif
from lockline.render.documents.waitgraph import end_words, knot_words
from lockline.render.documents.why import Chapter, Document, Followed, Hypothesis, Step
from lockline.render.screen_fit import filled, fitted
from lockline.render.screen_parts import SMALL_EFFECT, few_threads, percent_short

_LABEL = 9
# More than there is of anything.
_ALL = 999
# The option that shows all of it.
_LONG = "--long"
# Each step of fitted() leaves something out.
_STEPS = 8
# Nodes of a way over two locks.
_CHAIN = 4
# Threads that sleep for something else, from which on that is worth a line.
_ASLEEP = 0.5
_ENDED = {
    "proven": "ended early: the cause is proven",
    "nothing left to try": "ended: no further step would show more",
    "time": "ended: the time is over (-d)",
    "budget": "ended: the budget (--max-overhead) pays no further step",
    "interrupted": "ended: interrupted",
    "target gone": "ended: the processes are gone",
}


def _label(text: str) -> str:
    return f"{text:<{_LABEL}}"


def _part(label: str, texts: Sequence[str], style: Style, columns: int, most: int, each: int) -> list[str]:
    """Sentences under one label, at most so many, each on at most so many lines."""
    lines: list[str] = []
    for number, text in enumerate(texts[:most]):
        lines += filled(_label(label if number == 0 else ""), clean(text, style), columns, each)
    return lines


# The longest that fits: who was asked about counts more than the second of it.
_TIMES = ("%Y-%m-%d %H:%M:%S UTC", "%Y-%m-%d %H:%M UTC", "%H:%M UTC")


def _header(document: Document, style: Style, columns: int) -> str:
    made = sum(step.outcome in ("done", "over budget") for step in document.steps)
    parts = [
        document.hostname,
        f"Linux {document.kernel_release}" if document.kernel_release else "",
        counted(document.cpus, "CPU"),
        f"{document.target}",
        counted(made, "step"),
    ]
    text = clean(", ".join(part for part in parts if part), style)
    if document.begin_unix_ns:
        when = datetime.fromtimestamp(document.begin_unix_ns // 1_000_000_000, timezone.utc)
        times = (f"{text}, {when.strftime(form)}" for form in _TIMES)
        text = next((one for one in times if len(one) <= columns), text)
    return cut(text, columns)


def _cause(document: Document) -> str:
    verdict = document.verdict
    text = f"{verdict.title}."
    if verdict.kind == "cause" and verdict.waiters:
        of_all = f", {percent_short(verdict.part)} of all that wait" if verdict.part else ""
        keeps = f"it keeps {few_threads(verdict.waiters, verdict.who or 'threads')} waiting{of_all}."
        # How sure the cause is does not show how much it matters.
        small = verdict.waiters < SMALL_EFFECT
        text += f" Its effect is small: {keeps}" if small else f" {keeps.capitalize()}"
    return text


def _ruled_out(one: Hypothesis) -> str:
    return f"{one.title}: {'; '.join(one.evidence_against)}"


def _open(one: Hypothesis, unpaid: Collection[str]) -> str:
    """unpaid: probes that were not started."""
    if one.state == "not testable":
        return f"{one.title}: {'; '.join(one.evidence_against)}"
    return f"{one.title}: not looked at{' (the budget is too small)' if set(one.probes) & set(unpaid) else ''}"


def _cost_of(step: Step) -> str:
    if step.outcome == "not started":
        return f"{step.probe} not started: its price of {duration(step.price_ns)} is more than is left"
    if step.outcome in ("failed", "interrupted"):
        return f"{step.probe} {step.outcome}{': ' + step.message if step.message else ''}"
    over = ", over the budget: not repeated" if step.outcome == "over budget" else ""
    return f"{step.number} {step.probe} {step.seconds:.1f} s {percent(step.share)}{over}"


def _cost(document: Document) -> str:
    budget = document.budget
    return (
        f"{duration(budget.paid_ns)} of CPU, {duration(budget.allowed_ns)} allowed;"
        f" starting collectors took {duration(budget.start_ns)} more"
    )


def clock(unix_ns: int) -> str:
    """The time of day, UTC."""
    return datetime.fromtimestamp(unix_ns // 1_000_000_000, timezone.utc).strftime("%H:%M:%S")


def chapter_line(chapter: Chapter) -> str:
    """When it was, and what was found, in a sentence; the time is UTC."""
    verdict = chapter.verdict
    until = "it goes on" if chapter.end_unix_ns is None else f"ended by {clock(chapter.end_unix_ns)}"
    text = f"{clock(chapter.begin_unix_ns)}, {until}: {verdict.title} (sure: {verdict.confidence})"
    return text + (f"; who: {verdict.culprit}" if verdict.culprit and verdict.culprit not in verdict.title else "")


def _followed(followed: Followed) -> str:
    seconds = round((followed.end_unix_ns - followed.begin_unix_ns) / 1e9)
    times, looks = counted(followed.investigations, "investigation"), counted(followed.glances, "short look")
    return (
        f"{seconds // 60} min {seconds % 60} s, {times} and {looks}; {duration(followed.paid_ns)} of CPU,"
        f" {duration(followed.allowed_ns)} allowed; starting collectors took {duration(followed.start_ns)} more"
    )


def _earlier(followed: Followed, most: int, option: str) -> list[str]:
    """Chapters that are not among the newest `most`; option: it shows those that are kept."""
    left = max(0, len(followed.chapters) - most)
    parts = [f"{followed.left_out} that are no longer kept"] if followed.left_out else []
    parts += [f"{left} that {option} shows"] if left else []
    return [f"before: {' and '.join(parts)}"] if parts else []


def story(
    followed: Followed, style: Style, columns: int, most: int = _ALL, each: int = 3, option: str = _LONG
) -> list[str]:
    """What was found, one after the other, the newest `most` chapters (times are UTC); and what that cost.

    option: of the command that shows all chapters.
    """
    texts = _earlier(followed, most, option)
    texts += [chapter_line(chapter) for chapter in followed.chapters[-most:]]
    lines = _part("STORY", texts, style, columns, len(texts), each)
    return [*lines, *filled(_label("TOLD"), clean(_followed(followed), style), columns, 3)]


def line(document: Document, style: Style, columns: int) -> str:
    """The story in one line, for the report of its recording."""
    verdict = document.verdict
    return cut(clean(f"WHY     {verdict.title} (sure: {verdict.confidence}); see --why", style), columns)


def _bound_of_cause(document: Document) -> list[str]:
    """What is gained at most without the lock that the verdict speaks of; nothing where no bound is of that one."""
    return [one.words for one in document.what_if if one.of_cause][:1] if document.verdict.kind == "cause" else []


def bounds(document: Document, style: Style, columns: int) -> str:
    """What is gained at most without each of the locks that are waited for most: --what-if."""
    return "\n" + whatif.render([one.words for one in document.what_if], style, columns)


def _chain(document: Document) -> list[str]:
    """The way from one lock over another to who makes all of them wait; nothing where there is one lock alone."""
    graph = document.wait_graph
    if graph is None or document.verdict.kind != "cause":
        return []
    if graph.knots:
        return [knot_words(graph.knots[0])]
    first = graph.ends[0] if graph.ends else None
    # A lock, its holder, another lock: and whoever has that.
    ends_at_lock = first is not None and first.kind in ("lock", "user lock")
    return [end_words(first)] if first is not None and len(first.path) + ends_at_lock >= _CHAIN else []


@dataclass(frozen=True, slots=True)
class _Room:
    """How many sentences of a kind there is room for, and how many lines for one of them."""

    remedies: int
    proofs: int
    others: int
    chapters: int
    besides: int
    lines: int
    lines_of_who: int
    lines_of_remedy: int
    lines_of_proof: int
    lines_of_others: int


def _room(step: int) -> _Room:
    return _Room(
        remedies=2 if step < 2 else 1,
        proofs=max(1, 4 - step // 2),
        others=max(1, 3 - step // 3),
        chapters=max(2, 5 - step),
        besides=2,
        lines=3,
        lines_of_who=1,
        lines_of_remedy=2,
        lines_of_proof=2 if step < 6 else 1,
        lines_of_others=2 if step < 2 else 1,
    )


_WHOLE = _Room(*[_ALL] * 10)


def render(document: Document, style: Style, columns: int, kept: str | None = None, whole: bool = False) -> str:
    """The screen; columns: of the terminal.  At 80 columns it has at most 24 lines.  kept: the recording's file.

    whole: all that is known, in as many lines as that takes.
    """
    verdict = document.verdict
    shown = [one for one in document.hypotheses if one.title != verdict.title]
    ruled_out = [_ruled_out(one) for one in shown if one.state == "ruled out"]
    others = [
        f"{one.title} (sure: {one.confidence})"
        for one in shown
        if one.state in ("likely", "proven") and one.waiters >= 0.25 * verdict.waiters
    ]
    unknown = [f"{one.lost}: {one.reason}" for one in document.unseen if one.signal == UNREAD]
    unpaid = [step.probe for step in document.steps if step.outcome == "not started"]
    unknown += [_open(one, unpaid) for one in shown if one.state in ("open", "not testable")]
    stalled = (
        [
            f"{one.threads:.1f} threads are asleep in {one.function}(): {one.what}"
            for one in document.asleep
            if one.threads >= _ASLEEP
        ]
        + [one.words for one in document.on_cpu if one.kind == "atomic"][:1]
        + [
            f"tasks wait for {one.resource}: {percent(one.part)} of the time"
            for one in document.stalled
            if one.part >= 0.1
        ]
    )
    option = _LONG if kept is None else "--why --all"
    heading = {"cause": "CAUSE", "nothing": "ANSWER", "unclear": "UNCLEAR"}[verdict.kind]

    def parts(room: _Room) -> list[list[str]]:
        many, other, each = room.others, room.lines_of_others, room.lines_of_proof
        short = room.lines_of_remedy
        main = filled(_label(heading), clean(_cause(document), style), columns, room.lines)
        main += filled(_label("SURE"), f"{verdict.confidence}; {_ENDED[verdict.ended]}", columns, 2)
        main += _part("WHO", [verdict.culprit] if verdict.culprit else [], style, columns, 1, room.lines_of_who)
        main += _part("DO", verdict.remedies, style, columns, room.remedies, short)
        proof = _part("PROOF", verdict.proof, style, columns, room.proofs, each)
        proof += _part("CHAIN", _chain(document), style, columns, 1, short)
        proof += _part("IF GONE", _bound_of_cause(document), style, columns, 1, each)
        rest = _part("ALSO", others, style, columns, many, other)
        rest += _part("RULED", ruled_out, style, columns, many, other)
        rest += _part("UNKNOWN", unknown, style, columns, many, other)
        if verdict.kind != "cause" or whole:
            rest += _part("BESIDES", stalled, style, columns, room.besides, short)
        steps = filled(
            _label("STEPS"), clean("; ".join(_cost_of(one) for one in document.steps), style), columns, room.lines
        )
        steps += filled(_label("COST"), clean(_cost(document), style), columns, room.lines)
        texts = (
            (verdict.remedies, room.remedies),
            (verdict.proof, room.proofs),
            *((one, many) for one in (others, ruled_out, unknown)),
        )
        left = sum(max(0, len(one) - most) for one, most in texts)
        # The shortest first: a path may be long.
        more = [f"{left} more with {option}"] if left else []
        more += [f"lockline report {kept}"] if kept is not None else []
        if more:
            steps += filled(_label("MORE"), clean("; ".join(more), style), columns, 1)
        followed = document.followed
        told: list[str] = []
        if followed is not None and len(followed.chapters) + followed.left_out > 1:
            told = story(followed, style, columns, room.chapters, other, option)
        return [[_header(document, style, columns)], main, told, proof, rest, steps]

    if whole:
        return paragraphs(parts(_WHOLE))
    return fitted(lambda step: parts(_room(step)), _STEPS)
