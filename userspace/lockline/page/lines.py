# SPDX-License-Identifier: GPL-2.0-or-later
"""Cache lines as a map of their members: the pages of `lockline watch` and `lockline c2c report`."""

from collections.abc import Sequence

from lockline.base.numbers import counted
from lockline.c2c.live import LiveReport
from lockline.c2c.model import C2cReport, LineReport, Part
from lockline.page import svg
from lockline.page.document import Page, Section, figure, render
from lockline.page.html import Content, Markup, Writer, joined
from lockline.page.redact import Redactor
from lockline.render import c2c_text, watch_text

# Lines with a map of their own.
MAPS = 30


def _users(part: Part) -> str:
    """Who uses a member, by what they do: "waiter: f, g; holder: h"."""
    return "; ".join(f"{role}: {', '.join(functions[:3])}" for role, functions in part.roles.items())


def _table(report: LineReport, write: Writer) -> Markup:
    rows: list[Sequence[Content]] = []
    for part in report.parts:
        counts = part.counts
        rows.append(
            (
                part.name,
                part.type,
                f"{part.begin} to {part.end}",
                f"{counts.loads or 0:,}",
                f"{counts.stores or 0:,}",
                f"{counts.locked or 0:,}",
                f"{counts.transfers:,}",
                f"{part.share:.0%}",
                _users(part),
            )
        )
    titles = ("member", "type", "bytes", "reads", "writes", "atomic", "transfers", "of the cost", "who uses it")
    return write.table("Members of the line", titles, rows, (0, 1, 8))


def _map(report: LineReport, write: Writer, label: str) -> Markup:
    """The line's bytes from left to right: what lies where, and how often it is read, written and taken."""
    members: list[svg.Bar] = []
    lanes: dict[str, list[svg.Bar]] = {"reads": [], "writes": [], "takes": []}

    def counts(part: Part) -> tuple[int, int, int]:
        found = part.counts
        return found.loads or 0, (found.stores or 0) + (found.locked or 0), found.transfers

    most = max((number for part in report.parts for number in counts(part)), default=0)
    for part in report.parts:
        end, users = max(part.end, part.begin + 1), _users(part)
        kind, mark = ("hold", "*") if part.is_lock else ("busy", "")
        members.append(
            svg.Bar(part.begin, end, kind, part.name + mark, f"{part.name}, {users}" if users else part.name)
        )
        for (what, lane), number in zip(lanes.items(), counts(part), strict=True):
            if number:
                # The four palest colours: words are written on them.
                shade = f"h{min(3, 4 * number // (most + 1))}"
                lane.append(svg.Bar(part.begin, end, shade, f"{number:,}", f"{part.name}: {number:,} {what}"))
    rows = [("members", members), *lanes.items()]
    return svg.lanes(write, label, rows, 0, report.line.size or 64, lambda bytes_: f"{bytes_:g} B")


def _lines(reports: Sequence[LineReport], write: Writer) -> Section:
    parts = []
    for number, report in enumerate(reports[:MAPS], 1):
        name = c2c_text.name_of(report, write.style)
        verdict = report.judgement
        words = f"Verdict: {verdict.verdict}, {verdict.confidence} confidence."
        caption = (
            "The bytes of the line from left to right: what lies there (* is a lock), and how often it was read,"
            " written, and taken by another CPU. The more a part stands out, the more often. The table says by whom."
        )
        drawing = _map(report, write, f"Map of cache line {number}, {name}")
        advice = write("p", report.advice.text) if report.advice is not None else None
        parts.append(
            write(
                "div",
                write("h3", f"{number}. {name}"),
                write("p", words),
                write.list((*verdict.evidence, *verdict.doubts)),
                advice,
                figure(write, f"line-{number}", caption, drawing, _table(report, write), chart=False),
                id=f"line-{number}",
            )
        )
    if len(reports) > MAPS:
        parts.append(write("p", f"{len(reports) - MAPS:,} more lines are in the text report.", class_="note"))
    return Section("lines", "Cache lines", joined(parts) if parts else write("p", "No line moves between the CPUs."))


def live_sections(report: LiveReport, write: Writer) -> list[Section]:
    """The lines of a recording, as parts of its page."""
    return [_lines([line.report for line in report.lines], write)]


def make_live_page(report: LiveReport, write: Writer, redact: bool = False) -> str:
    """The page of `lockline watch`, as a file; redact: without names of hosts and commands."""
    report = Redactor().inside(report) if redact else report
    text = watch_text.render(report, write.style).rstrip("\n").split("\n")
    return _page("Watched cache lines", report.c2c, text, write)


def make_c2c_page(report: C2cReport, write: Writer, redact: bool = False) -> str:
    """The page of `lockline c2c report`, as a file; redact: without names of hosts and commands."""
    report = Redactor().inside(report) if redact else report
    return _page("Cache lines", report, c2c_text.render(report, write.style).rstrip("\n").split("\n"), write)


def _page(title: str, report: C2cReport, text: Sequence[str], write: Writer) -> str:
    machine = report.machine
    parts = [f"Linux {machine.kernel_release}" if machine.kernel_release else None]
    parts.append(counted(machine.cpus, "CPU") if machine.cpus else None)
    missing = [*report.coverage.missing, *report.notes, *(f"{place}: {why}" for place, why in report.problems)]
    # The text's second paragraph.
    answer = "\n".join(text).split("\n\n")[1:2] or ["No line."]
    sections = (
        Section("answer", "The answer", write("p", " ".join(answer[0].split()), class_="answer")),
        _lines(report.lines, write),
        Section("text", "The whole report", write.lines(text)),
        Section("missing", "What the figures lack", write.list(missing) if missing else write("p", "Nothing.")),
    )
    host = f" on {machine.hostname}" if machine.hostname else ""
    return render(Page(title + host, ", ".join(part for part in parts if part), sections), write)
