# SPDX-License-Identifier: GPL-2.0-or-later
"""The page of `lockline diff --html`: before against after."""

from collections.abc import Sequence
from dataclasses import replace

from lockline.diff.recordings import WaitDifference, WaitsDiff
from lockline.diff.result import Diff
from lockline.page import svg
from lockline.page.document import Page, Section, figure, render
from lockline.page.html import Content, Writer, joined
from lockline.page.redact import Redactor
from lockline.render import diff_text

LOCKS = 25


def _rates(difference: WaitDifference) -> tuple[float, float]:
    """Milliseconds of waiting in each second, before and after."""
    return difference.before.share * 1e3, difference.after.share * 1e3


def _name(difference: WaitDifference) -> str:
    if not difference.name:
        return f"all of {difference.kind}" if difference.kind else "all lock waits"
    return f"{difference.name} ({difference.kind})"


def _waits(waits: WaitsDiff, names: tuple[str, str], write: Writer) -> Section:
    differences = [waits.total, *waits.kinds, *waits.locks]
    shown = sorted(differences, key=lambda difference: -max(_rates(difference)))[:LOCKS]
    bars = [(_name(one), *_rates(one)) for one in shown]
    rows: list[Sequence[Content]] = []
    for one in shown:
        before, after = _rates(one)
        judged = one.comparison.judgement if one.comparison is not None else None
        rows.append((_name(one), f"{before:.3f}", f"{after:.3f}", judged.verdict if judged else "-"))
    titles = ("lock", f"{names[0]}, ms/s", f"{names[1]}, ms/s", "verdict")
    table = write.table("Waiting in each second", titles, rows, (0, 3))
    drawing = joined((svg.pairs(write, "Waiting before and after", bars, names), svg.legend(write, names)))
    caption = "Milliseconds of waiting in each second."
    return Section("waits", "Lock waits", figure(write, "waits", caption, drawing, table, chart=False))


def make_diff_page(diff: Diff, write: Writer, labels: tuple[str, str], top: int | None, redact: bool = False) -> str:
    """The page of a diff, as a file; redact: without names of hosts, commands and files."""
    if redact:
        # Warnings compare the hosts by name.
        hidden: Diff = Redactor().inside(replace(diff, before=labels[0], after=labels[1], warnings=()))
        diff = hidden
    text = diff_text.render(diff, write.style, labels, top).rstrip("\n").split("\n")
    # The text's last paragraph, which begins with a label.
    answer = " ".join("\n".join(text).split("\n\n")[-1].split()).removeprefix("Verdict ")
    sections = [Section("answer", "The answer", write("p", answer, class_="answer"))]
    if diff.samples is not None:
        sides = diff.samples.comparison
        unit = f", {diff.samples.unit}" if diff.samples.unit else ""
        bars = [
            (f"median{unit}", sides.before.median, sides.after.median),
            (f"least{unit}", sides.before.minimum, sides.after.minimum),
            (f"most{unit}", sides.before.maximum, sides.after.maximum),
        ]
        rows: list[Sequence[Content]] = [(name, f"{before:g}", f"{after:g}") for name, before, after in bars]
        table = write.table("Samples", ("what", *labels), rows)
        drawing = joined((svg.pairs(write, "Samples before and after", bars, labels), svg.legend(write, labels)))
        shown = figure(write, "samples", "The benchmark's samples.", drawing, table, chart=False)
        sections.append(Section("samples", "Samples", shown))
    if diff.waits is not None:
        sections.append(_waits(diff.waits, labels, write))
    sections.append(Section("text", "The whole comparison", write.lines(text)))
    warned = write.list(diff.warnings) if diff.warnings else write("p", "Nothing that makes the two hard to compare.")
    sections.append(Section("missing", "What the figures lack", warned))
    title = f"{labels[0]} against {labels[1]}"
    return render(Page(title, f"{diff.before} and {diff.after}", tuple(sections)), write)
