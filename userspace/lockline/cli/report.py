# SPDX-License-Identifier: GPL-2.0-or-later
"""`lockline report`: its options, which demo shares, and what it prints."""

import argparse
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lockline.analysis.selection import GROUPINGS, SORTS, Selection, parse_cpus
from lockline.base.errors import LocklineError
from lockline.base.text import Style
from lockline.cli import terminal
from lockline.cli.common import add_html, add_times, argument, check_html, positive

if TYPE_CHECKING:
    from lockline.analysis.model import Report
    from lockline.recording.reader import Recording

DEFAULT_RECORDING = "lockline.data"
# Of packaging/lockline.service.
SERVICE_RECORDING = Path("/var/lib/lockline/lockline.data")
# Options of `lockline report` that show a part of it.
SECTIONS = {
    "all": "everything",
    "findings": "what the rules found, with evidence",
    "locks": "waits by kind and by lock",
    "stacks": "where the waits come from",
    "cpus": "waits by CPU and by length",
    "tasks": "who waits",
    "cgroups": "who waits, by control group",
    "longest": "the longest waits, with their stacks",
    "holders": "who held the locks (record --holders)",
    "futex": "locks of programs (record --futex)",
    "lines": "cache lines (watch, record --hitm)",
    "time": "waiting over time",
    "trust": "what lockline could not see, what it lost, and how exact the lengths are",
    "cost": "what recording cost",
}
JSON_OUTLIERS = 100
# Of the series, for the bars of the first screen: some tenths of a second.
SCREEN_ROWS = 50_000
TEXT_OUTLIERS = 5
HTML_OUTLIERS = 100


def _kinds(text: str) -> tuple[str, ...]:
    kinds = tuple(part.strip() for part in text.split(",") if part.strip())
    if not kinds:
        raise ValueError("no kind given; write them as spinlock,mutex,rwsem:W")
    return kinds


kinds_argument = argument(_kinds)


def add_options(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Add what every command has that shows a report; gives their group."""
    shown = parser.add_argument_group("how it is shown")
    shown.add_argument("--format", choices=("text", "json"), default="text", help="text (default) or json")
    shown.add_argument("--sort", choices=SORTS, default="total", help="order of the locks (default: total)")
    shown.add_argument("--top", type=positive, metavar="N", help="rows of each table (default: as fits; json: all)")
    shown.add_argument(
        "--by", choices=GROUPINGS, default="identity", help="one row per name and kind (default), or per lock"
    )
    shown.add_argument("--addresses", action="store_true", help="show kernel addresses")
    shown.add_argument(
        "--color", choices=("auto", "always", "never"), default="auto", help="colours (default: auto, on a terminal)"
    )
    return shown


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command's parser."""
    report = commands.add_parser("report", help="show a recording")
    files = report.add_mutually_exclusive_group()
    files.add_argument("file", nargs="?", metavar="FILE", help=f"the recording; default: {DEFAULT_RECORDING}")
    files.add_argument("-i", "--input", metavar="FILE", help="the same, as in perf")
    part = report.add_argument_group("which part of the recording")
    add_times(part)
    part.add_argument("--kinds", type=kinds_argument, metavar="LIST", help="only these kinds, as spinlock,rwsem,mutex*")
    part.add_argument("--cpu", type=argument(parse_cpus), metavar="LIST", help="only waits on these CPUs, as 0-3,7")
    part.add_argument("--lock", metavar="PATTERN", help="only locks whose name holds this text, or matches *, ?, [")
    part.add_argument(
        "--container", metavar="NAME", help="who waits, and the longest waits, in this container: a name or an id"
    )
    part.add_argument("--pod", metavar="NS/NAME", help="the same for this pod")
    shown = report.add_argument_group("what to show, in place of the first screen")
    for name, what in SECTIONS.items():
        shown.add_argument(f"--{name}", action="store_true", help=what)
    shown.add_argument(
        "--episodes",
        type=positive,
        metavar="N",
        help="the N longest waits and what happened around them (record --episodes or --flight)",
    )
    shown.add_argument(
        "--why", action="store_true", help="the story of the investigation (lockline why -o FILE); all of it with --all"
    )
    shown.add_argument(
        "--blame", action="store_true", help="who waits for whom in the end: chains, knots, critical path"
    )
    shown.add_argument("--what-if", action="store_true", help="what would be gained at most without a lock")
    add_html(add_options(report))


def default_recording() -> str:
    """The recording that is meant without a name: the one here, or else the service's."""
    here = Path(DEFAULT_RECORDING)
    return str(SERVICE_RECORDING if not here.exists() and os.access(SERVICE_RECORDING, os.R_OK) else here)


def selection_of(arguments: argparse.Namespace) -> Selection:
    """What the options select."""
    return Selection(
        kinds=getattr(arguments, "kinds", None),
        cpus=getattr(arguments, "cpu", None),
        lock=getattr(arguments, "lock", None),
        from_ns=getattr(arguments, "from_ns", None),
        to_ns=getattr(arguments, "to_ns", None),
        sort=arguments.sort,
        by=arguments.by,
        top=arguments.top,
        container=getattr(arguments, "container", None),
        pod=getattr(arguments, "pod", None),
    )


def outlier_limit(arguments: argparse.Namespace) -> int:
    """How many waits over the threshold are shown."""
    default = JSON_OUTLIERS if arguments.format == "json" else TEXT_OUTLIERS
    return default if arguments.top is None else int(arguments.top)


def render(report: "Report", arguments: argparse.Namespace) -> str:
    """The report in the format that the options name."""
    if arguments.format == "json":
        from lockline.render.documents import report as document

        return document.render(report, arguments.addresses)
    from lockline.render import text as text_render

    return text_render.render(report, terminal.style(arguments.addresses))


def _sections(report: "Report", arguments: argparse.Namespace) -> str:
    """The parts that were asked for; "" if none was."""
    style = terminal.style(arguments.addresses)
    parts = []
    names = [name for name in SECTIONS if getattr(arguments, name) and name not in ("all", "time")]
    if (arguments.container or arguments.pod) and not (names or arguments.time or arguments.episodes):
        # What samples know: the totals by lock and CPU are of all waiters.
        names = ["tasks", "longest"]
    if names:
        from lockline.render import text as text_render

        parts.append(text_render.render_sections(report, style, names))
    if arguments.what_if:
        from lockline.analysis.whatif import what_if
        from lockline.render import whatif

        bounds = tuple(map(whatif.bound_words, what_if(report)))
        parts.append(whatif.render(bounds, style, terminal.columns()))
    if arguments.blame:
        from lockline.analysis.waitgraph_of import waitgraph_of
        from lockline.render import waitgraph

        parts.append(waitgraph.render(waitgraph_of(report), style, terminal.columns()))
    if arguments.time:
        from lockline.render import screen

        parts.append(screen.render_time(report, report.slices, style, terminal.columns()))
    if arguments.episodes:
        from lockline.render import episodes as episodes_render

        parts.append(episodes_render.render(report, style, arguments.episodes))
    return "\n".join(parts)


def _why(recording: "Recording", path: str, arguments: argparse.Namespace) -> str:
    """The story of the investigation that made the recording.  Raises LocklineError if there was none."""
    from lockline.render import why_screen
    from lockline.render.documents import why

    story = recording.investigation()
    if story is None:
        raise LocklineError(f"--why: {path} has no investigation; `lockline why -o FILE` makes one")
    document = why.from_json(story)
    if arguments.format == "json":
        return why.as_json(document, arguments.addresses)
    style, columns = terminal.style(arguments.addresses), terminal.columns()
    text = why_screen.render(document, style, columns, path, arguments.all)
    text += why_screen.bounds(document, style, columns) if arguments.what_if else ""
    return terminal.painted(text, arguments.color)


def _screen(report: "Report", arguments: argparse.Namespace, story: str | None) -> str:
    from lockline.render import screen

    style, columns = terminal.style(arguments.addresses), terminal.columns()
    text = screen.render(report, report.slices, style, columns)
    if story is not None:
        from lockline.render import why_screen
        from lockline.render.documents import why

        # In place of the empty line below the header: the screen is no longer for it.
        text = text.replace("\n\n", f"\n{why_screen.line(why.from_json(story), style, columns)}\n", 1)
    return terminal.painted(text, arguments.color)


def _wants_series(arguments: argparse.Namespace) -> bool:
    """Whether the series is shown: as JSON, as a table, or on the first screen."""
    if arguments.format == "json" or arguments.time:
        return True
    return not arguments.episodes and not any(getattr(arguments, name) for name in SECTIONS)


def run(arguments: argparse.Namespace) -> tuple[str, int]:
    """What is printed, and the exit code.  Raises LocklineError."""
    from lockline.analysis.report import EPISODES
    from lockline.analysis.series import read_slices
    from lockline.recording.reader import open_recording
    from lockline.rules.report import make_report, with_lines

    check_html(arguments)
    selection = selection_of(arguments)
    path = arguments.input or arguments.file or default_recording()
    with open_recording(path) as recording:
        if arguments.why:
            return _why(recording, path, arguments), 0
        limit = arguments.episodes or EPISODES
        outliers = HTML_OUTLIERS if arguments.html is not None else outlier_limit(arguments)
        report = with_lines(make_report(recording, selection, outliers, limit), recording)
        if arguments.html is not None:
            from lockline.cli.output import write_whole
            from lockline.page.html import Writer
            from lockline.page.report import make_page

            write = Writer(Style(unicode=True, addresses=arguments.addresses))
            write_whole(Path(arguments.html), make_page(report, recording, write, arguments.redact).encode())
            return "", 0
        if _wants_series(arguments):
            rows = None if arguments.format == "json" or arguments.time else SCREEN_ROWS
            report = replace(report, slices=read_slices(recording, report, rows))
        story = recording.investigation()
    if arguments.format == "json" or arguments.all:
        return render(report, arguments), 0
    return _sections(report, arguments) or _screen(report, arguments, story), 0
