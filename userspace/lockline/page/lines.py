# SPDX-License-Identifier: GPL-2.0-or-later
"""Cache lines as a map of their members: the pages of `lockline watch` and `lockline c2c report`."""

from collections.abc import Sequence

from lockline.base.numbers import counted
from lockline.c2c.live import LiveReport
from lockline.c2c.model import C2cReport, LineReport, Part
from lockline.c2c.worth import Worth, worth_of_report
from lockline.page import svg
from lockline.page.document import Page, Section, figure, render
from lockline.page.html import Content, Markup, Writer, joined
from lockline.page.redact import Redactor
from lockline.render import c2c_text, lines_screen, watch_text

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


def _advice(report: LineReport, worth: Worth, write: Writer) -> Markup | None:
    """What to do about a line; of one that costs little that, first."""
    if report.advice is None:
        return None
    todo = lines_screen.todo_words(report, worth, write.style)
    if worth.known and (worth.acting or lines_screen.untold(report, worth)):
        return write("p", todo)
    return write("p", f"Not worth acting on: {todo}." if worth.known else f"Too little was seen: {todo}.")


def _lines(lines: Sequence[tuple[LineReport, Worth]], write: Writer) -> Section:
    parts = []
    for number, (report, worth) in enumerate(lines[:MAPS], 1):
        name = c2c_text.name_of(report, write.style)
        verdict = report.judgement
        words = f"Verdict: {verdict.verdict}, {verdict.confidence} confidence."
        caption = (
            "The bytes of the line from left to right: what lies there (* is a lock), and how often it was read,"
            " written, and taken by another CPU. The more a part stands out, the more often. The table says by whom."
        )
        drawing = _map(report, write, f"Map of cache line {number}, {name}")
        parts.append(
            write(
                "div",
                write("h3", f"{number}. {name}"),
                write("p", words),
                write.list((*verdict.evidence, *verdict.doubts)),
                _advice(report, worth, write),
                figure(write, f"line-{number}", caption, drawing, _table(report, write), chart=False),
                id=f"line-{number}",
            )
        )
    if len(lines) > MAPS:
        parts.append(write("p", f"{len(lines) - MAPS:,} more lines are in the text report.", class_="note"))
    return Section("lines", "Cache lines", joined(parts) if parts else write("p", "No line moves between the CPUs."))


def live_sections(report: LiveReport, write: Writer) -> list[Section]:
    """The lines of a recording, as parts of its page."""
    return [_lines(_judged(report), write)]


def _judged(report: LiveReport) -> list[tuple[LineReport, Worth]]:
    return [(line.report, worth) for line, worth in lines_screen.watched_lines(report)]


def make_live_page(report: LiveReport, write: Writer, redact: bool = False) -> str:
    """The page of `lockline watch`, as a file; redact: without names of hosts and commands."""
    report = Redactor().inside(report) if redact else report
    text = watch_text.render(report, write.style).rstrip("\n").split("\n")
    return _page("Watched cache lines", report.c2c, _judged(report), text, write)


def make_c2c_page(report: C2cReport, write: Writer, redact: bool = False) -> str:
    """The page of `lockline c2c report`, as a file; redact: without names of hosts and commands."""
    report = Redactor().inside(report) if redact else report
    text = c2c_text.render(report, write.style).rstrip("\n").split("\n")
    return _page("Cache lines", report, [(line, worth_of_report(line, report)) for line in report.lines], text, write)


def _answer(lines: Sequence[tuple[LineReport, Worth]], text: Sequence[str], write: Writer) -> Section:
    """As the first screen has it: whether to act, and what to do; without a line the text's second paragraph."""
    if lines:
        words = [lines_screen.answer_words(*lines[0], write.style)]
        todo = lines_screen.todo_words(*lines[0], write.style)
        words += [f"What to do: {todo.rstrip('.')}."] if todo else []
    else:
        words = ["\n".join(text).split("\n\n")[1]] if "" in text else ["No line."]
    return Section(
        "answer", "The answer", joined([write("p", " ".join(each.split()), class_="answer") for each in words])
    )


def _page(
    title: str, report: C2cReport, lines: Sequence[tuple[LineReport, Worth]], text: Sequence[str], write: Writer
) -> str:
    machine = report.machine
    parts = [f"Linux {machine.kernel_release}" if machine.kernel_release else None]
    parts.append(counted(machine.cpus, "CPU") if machine.cpus else None)
    missing = [*report.coverage.missing, *report.notes, *(f"{place}: {why}" for place, why in report.problems)]
    sections = (
        _answer(lines, text, write),
        _lines(lines, write),
        Section("text", "The whole report", write.lines(text)),
        Section("missing", "What the figures lack", write.list(missing) if missing else write("p", "Nothing.")),
    )
    host = f" on {machine.hostname}" if machine.hostname else ""
    return render(Page(title + host, ", ".join(part for part in parts if part), sections), write)
