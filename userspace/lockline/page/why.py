# SPDX-License-Identifier: GPL-2.0-or-later
"""The page of an investigation: cause, proof, what was ruled out, and what each step cost."""

from lockline.base.numbers import counted, duration, percent
from lockline.page import svg
from lockline.page.document import Page, Section, figure, render
from lockline.page.html import Markup, Writer, joined
from lockline.render.documents.why import Document
from lockline.render.why_screen import clock

# Of a step's cost.
SIDES = ("price", "took")


def _answer(document: Document, write: Writer) -> Section:
    verdict = document.verdict
    parts: list[Markup] = [write("p", write("strong", f"{verdict.title}."), f" Sure: {verdict.confidence}.")]
    if verdict.culprit:
        parts.append(write("p", f"Who: {verdict.culprit}."))
    for title, texts in (("What to do", verdict.remedies), ("Proof", verdict.proof)):
        if texts:
            parts += [write("h3", title), write.list(texts)]
    if document.what_if:
        parts += [write("h3", "What would be gained at most"), write.list(one.words for one in document.what_if)]
    return Section("answer", "Answer", joined(parts))


def _followed(document: Document, write: Writer) -> Section:
    """What was found one after the other, with --follow."""
    followed = document.followed
    assert followed is not None
    rows = [
        [
            clock(chapter.begin_unix_ns),
            "it goes on" if chapter.end_unix_ns is None else clock(chapter.end_unix_ns),
            chapter.verdict.title,
            chapter.verdict.confidence,
            chapter.verdict.culprit or "",
            "; ".join(chapter.verdict.remedies[:1]),
            f"{chapter.verdict.waiters:.2f}",
        ]
        for chapter in followed.chapters
    ]
    titles = ("there by", "gone by", "what", "sure", "who", "what to do", "threads")
    table = write.table("What was found, one after the other", titles, rows, left=(0, 1, 2, 3, 4, 5))
    told = (
        f"{followed.investigations} investigations and {followed.glances} short looks;"
        f" {duration(followed.paid_ns)} of CPU time of {duration(followed.allowed_ns)} allowed."
        + (f" {followed.left_out} older entries are left out." if followed.left_out else "")
    )
    return Section("followed", "The story", joined((table, write("p", told))))


def _hypotheses(document: Document, write: Writer) -> Section:
    rows = [
        [
            one.title,
            one.state,
            one.confidence,
            "; ".join((*one.evidence_for, *one.evidence_against)) or "no step looked",
            f"{one.waiters:.2f}",
        ]
        for one in document.hypotheses
    ]
    titles = ("hypothesis", "state", "sure", "for and against", "threads")
    table = write.table("What may be the cause", titles, rows, left=(0, 1, 2, 3))
    return Section("hypotheses", "What may be the cause", table)


def _steps(document: Document, write: Writer) -> Section:
    rows = [
        [
            f"{step.number} {step.probe}",
            step.why,
            f"{step.outcome}{': ' + step.message if step.message else ''}",
            f"{step.seconds:.1f} s",
            duration(step.price_ns),
            duration(step.probe_ns),
            duration(step.collector_ns),
            duration(step.start_ns),
            percent(step.share),
        ]
        for step in document.steps
    ]
    titles = ("step", "to tell", "outcome", "time", "price", "probes", "collector", "start", "of all CPUs")
    budget = document.budget
    told = f"{duration(budget.paid_ns)} of CPU time of {duration(budget.allowed_ns)} allowed; starts are not in it."
    table = write.table("Steps, with their CPU time", titles, rows, left=(0, 1, 2))
    costs = [
        (f"{step.number} {step.probe}", step.price_ns / 1e6, (step.probe_ns + step.collector_ns) / 1e6)
        for step in document.steps
    ]
    parts = [table, write("p", told)]
    if any(price or paid for _, price, paid in costs):
        caption = "Milliseconds of CPU time of each step: its price as stated before, and what it took."
        drawing = joined((svg.pairs(write, "CPU time of the steps", costs, SIDES), svg.legend(write, SIDES)))
        figures = [(name, f"{price:.3g} ms", f"{paid:.3g} ms") for name, price, paid in costs]
        beside = write.table("CPU time of the steps", ("step", *SIDES), figures)
        parts.append(figure(write, "costs", caption, drawing, beside, chart=False))
    return Section("steps", "Steps", joined(parts))


def _unseen(document: Document, write: Writer) -> Section:
    rows = [[one.signal, one.reason, one.lost] for one in document.unseen]
    table = write.table("What this machine does not show", ("signal", "why", "what is lost"), rows, left=(0, 1, 2))
    return Section("unseen", "Not seen", table)


def make_page(document: Document, write: Writer) -> str:
    """The page, as a file."""
    parts = [_answer, _hypotheses, _steps, _unseen]
    if document.followed is not None:
        parts.insert(1, _followed)
    sections = tuple(make(document, write) for make in parts)
    where = f"Linux {document.kernel_release}, {counted(document.cpus, 'CPU')}, {document.target}"
    return render(Page(f"Why {document.hostname} waits for locks", where, sections), write)
