# SPDX-License-Identifier: GPL-2.0-or-later
"""`lockline fleet`: recordings of many hosts in one directory, and what they say together."""

import argparse
import csv
import io
import os
import re
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockline.base.errors import LocklineError
from lockline.base.text import Style, clean
from lockline.cli.common import add_html, argument, check_html, positive
from lockline.cli.terminal import style as terminal_style

if TYPE_CHECKING:
    from lockline.fleet.analysis import Question
    from lockline.fleet.choose import Filter
    from lockline.fleet.difference import Wanted
    from lockline.fleet.engine import Engine

FAILED = 2
# Bytes of a list of names: a hundred for each of half a million hosts.
_MOST_NAMES = 64 << 20
# A query that reads the view of waits by interval.
_OF_WAITS = re.compile(r"\b(?:from|join)\s+waits\b", re.IGNORECASE)
_GROUPS = ("kernel", "cpu_model", "architecture", "host", "lockline_version", "release", "role")


def _weight(text: str) -> float:
    value = float(text)
    if not 0 < value < 1e9:
        raise ValueError("a weight must be above 0, and below 1e9")
    return value


def _share(text: str) -> float:
    value = float(text)
    if not 0 <= value < 1e6:
        raise ValueError("must not be negative")
    return value


def _percent(text: str) -> float:
    return _share(text) / 100


def _when(text: str) -> tuple[int | None, int | None]:
    """An hour, or hours before the end."""
    from lockline.fleet.choose import parse_moment, parse_span

    span = parse_span(text)
    return (None, span) if span is not None else (parse_moment(text), None)


def _wanted(text: str) -> "Wanted":
    from lockline.fleet.difference import parse_side

    return parse_side(text)


def _group_names(text: str) -> tuple[str, ...]:
    names = tuple(text.replace("-", "_").split(","))
    unknown = [name for name in names if name not in _GROUPS]
    if unknown:
        raise ValueError(f"'{unknown[0]}' is not one of {', '.join(_GROUPS)}")
    return names


def _add_filters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", metavar="PATTERN", help="only hosts whose name holds this text, or matches *, ?, [")
    parser.add_argument("--kernel", metavar="PATTERN", help="only hosts whose kernel release matches, likewise")
    parser.add_argument("--cpu-model", metavar="PATTERN", help="only hosts whose CPU model matches")
    parser.add_argument("--release", metavar="PATTERN", help="only hosts added with such a --release")
    parser.add_argument("--role", metavar="PATTERN", help="only hosts added with such a --role")
    parser.add_argument("--container", metavar="NAME", help="only waits in this container, from samples")
    parser.add_argument(
        "--engine", choices=("duckdb", "spark"), default="duckdb", help="what computes the sums; default: duckdb"
    )
    parser.add_argument(
        "--threshold", type=argument(_percent), metavar="PERCENT", help="the difference that matters; default: 10"
    )
    parser.add_argument(
        "--min-share", type=argument(_percent), metavar="PERCENT", help="judge locks above this; default: 0.1"
    )


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command's parser."""
    fleet = commands.add_parser(
        "fleet",
        help="recordings of many hosts in one directory, and what they say together",
    )
    actions = fleet.add_subparsers(dest="action", required=True, metavar="ACTION")

    add = actions.add_parser("add", help="add recordings to a directory; those that are there already are skipped")
    add.add_argument("directory", metavar="DIR", type=Path, help="made if it does not exist")
    add.add_argument("recordings", nargs="+", metavar="RECORDING", help="a file; @FILE: the names in it, one a line")
    add.add_argument(
        "-j",
        "--jobs",
        type=positive,
        default=os.cpu_count() or 1,
        metavar="N",
        help="recordings that are read at once; default: one for each CPU",
    )
    add.add_argument("--intervals", action="store_true", help="keep the waits by interval and CPU too: takes longer")
    add.add_argument(
        "--weight", type=argument(_weight), default=1.0, metavar="W", help="how many hosts each recording stands for"
    )
    add.add_argument("--release", default="", metavar="TEXT", help="what runs on these hosts, to compare by")
    add.add_argument("--role", default="", metavar="TEXT", help="what these hosts are for, to compare by")

    report = actions.add_parser("report", help="which locks cost the fleet most, where, and since when")
    report.add_argument("directory", metavar="DIR", type=Path, help="where `lockline fleet add` put recordings")
    times = "2026-11-22, 2026-11-22T14:00 (UTC, whole hours)"
    report.add_argument("--since", type=argument(_when), metavar="TIME", help=f"{times}, or 24h, 7d, 2w; default: 7d")
    report.add_argument("--until", type=argument(_when), metavar="TIME", help=f"{times}; default: the end of the data")
    _add_filters(report)
    report.add_argument(
        "--group-by",
        type=argument(_group_names),
        metavar="LIST",
        help=f"of {', '.join(_GROUPS)}; default: the first two",
    )
    report.add_argument("--expect", metavar="FILE", help="names of hosts, one a line, that should be there")
    report.add_argument("--format", choices=("text", "json"), default="text", help="text (default) or json")
    add_html(report)

    diff = actions.add_parser(
        "diff", help="compare two times, or two groups of hosts; exit code 2: something regressed"
    )
    diff.add_argument("directory", metavar="DIR", type=Path, help="where `lockline fleet add` put recordings")
    sides = f"FROM..TO, or one of {', '.join(_GROUPS)}, as kernel=6.12*"
    diff.add_argument("--before", type=argument(_wanted), required=True, metavar="SIDE", help=sides)
    diff.add_argument("--after", type=argument(_wanted), required=True, metavar="SIDE", help="written as for --before")
    diff.add_argument("--since", type=argument(_when), metavar="TIME", help="with two groups: from this time on")
    diff.add_argument("--until", type=argument(_when), metavar="TIME", help="with two groups: up to this time")
    _add_filters(diff)
    diff.add_argument("--format", choices=("text", "json"), default="text", help="text (default) or json")

    migrate = actions.add_parser("migrate", help="update a directory that an older lockline made")
    migrate.add_argument("directory", metavar="DIR", type=Path, help="where `lockline fleet add` put recordings")

    sql = actions.add_parser("sql", help="run a SELECT over the fleet's tables; nothing can be written")
    sql.add_argument("directory", metavar="DIR", type=Path, help="where `lockline fleet add` put recordings")
    sql.add_argument("query", metavar="SELECT", help="the question, in SQL")
    sql.add_argument("--format", choices=("text", "csv"), default="text", help="text (default) or csv")


def _lines(path: str, option: str) -> list[str]:
    try:
        with Path(path).open("rb") as file:
            content = file.read(_MOST_NAMES + 1)
        text = content.decode("utf-8")
    except OSError as error:
        raise LocklineError(f"{option}{path}: cannot be read: {error.strerror or error}") from error
    except ValueError:
        raise LocklineError(f"{option}{path}: not a text of names, one a line") from None
    if len(content) > _MOST_NAMES or "\0" in text:
        raise LocklineError(f"{option}{path}: not a text of names, one a line")
    return [line.strip() for line in text.splitlines() if line.strip()]


def _add(arguments: argparse.Namespace) -> tuple[str, int]:
    from lockline.cli.progress import progress
    from lockline.fleet.add import Told, add

    names: list[str] = []
    for name in arguments.recordings:
        names += _lines(name[1:], "@") if name.startswith("@") else [name]
    plain = Style(unicode=False, addresses=False)
    counts = {"added": 0, "there": 0, "failed": 0, "note": 0}
    rows = 0
    # What we print goes over the line of progress.
    over = "\r" + " " * 79 + "\r" if sys.stderr.isatty() else ""
    told = Told(arguments.weight, arguments.release, arguments.role, arguments.intervals)
    with progress(lambda: f"adding recordings, {sum(counts.values()):,} of {len(names):,}"):
        for one in add(arguments.directory, names, told, arguments.jobs):
            counts[one.outcome] += 1
            rows += one.rows
            if one.why:
                what = "left out: " if one.outcome == "failed" else ""
                print(f"{over}lockline: {what}{clean(one.why, plain)}", file=sys.stderr, flush=True)
    text = f"{counts['added']:,} recordings added, {rows:,} rows of waits"
    text += f"; {counts['there']:,} were there already" if counts["there"] else ""
    text += f"; {counts['failed']:,} left out" if counts["failed"] else ""
    return text + "\n", 1 if counts["failed"] else 0


def _filter(arguments: argparse.Namespace) -> "Filter":
    from lockline.fleet.choose import Filter

    return Filter(arguments.host, arguments.kernel, arguments.cpu_model, arguments.release, arguments.role)


def _question(arguments: argparse.Namespace) -> "Question":
    from lockline.diff.model import DEFAULT_MIN_SHARE
    from lockline.fleet.analysis import DEFAULT_GROUPS, DEFAULT_SPAN, DEFAULT_THRESHOLD, Question

    since, span = arguments.since or (None, None)
    until, before_end = arguments.until or (None, None)
    if before_end is not None:
        raise LocklineError("--until: a time, as 2026-11-22")
    return Question(
        since=since,
        until=until,
        span=DEFAULT_SPAN if span is None else span,
        filter=_filter(arguments),
        container=arguments.container,
        group_by=arguments.group_by or DEFAULT_GROUPS,
        threshold=DEFAULT_THRESHOLD if arguments.threshold is None else arguments.threshold,
        min_share=DEFAULT_MIN_SHARE if arguments.min_share is None else arguments.min_share,
        expected=tuple(_lines(arguments.expect, "--expect ")) if arguments.expect else (),
    )


def _engine(name: str) -> "Engine":
    if name == "spark":
        from lockline.fleet.spark import Spark

        return Spark()
    from lockline.fleet.engine import DuckDb

    return DuckDb()


def _report(arguments: argparse.Namespace) -> tuple[str, int]:
    from lockline.fleet.analysis import make_report

    check_html(arguments)
    with closing(_engine(arguments.engine)) as engine:
        report = make_report(arguments.directory, engine, _question(arguments))
    if arguments.html is not None:
        from lockline.cli.output import write_whole
        from lockline.page.fleet import make_fleet_page
        from lockline.page.html import Writer

        page = make_fleet_page(report, Writer(Style(unicode=True)), arguments.redact)
        write_whole(Path(arguments.html), page.encode())
        return "", 0
    if arguments.format == "json":
        from lockline.fleet import document

        return document.render(report), 0
    from lockline.fleet import text

    return text.render(report, terminal_style(addresses=False)), 0


def _diff(arguments: argparse.Namespace) -> tuple[str, int]:
    from lockline.diff.model import DEFAULT_MIN_SHARE
    from lockline.fleet.analysis import DEFAULT_THRESHOLD
    from lockline.fleet.difference import Comparison, compare_sides

    hours = None
    if arguments.since is not None or arguments.until is not None:
        first, end = (arguments.since or (0, None))[0], (arguments.until or (1 << 31, None))[0]
        if first is None or end is None:
            raise LocklineError("diff: --since and --until are times, as 2026-11-22")
        hours = first, end
    asked = Comparison(
        before=arguments.before,
        after=arguments.after,
        hours=hours,
        filter=_filter(arguments),
        container=arguments.container,
        threshold=DEFAULT_THRESHOLD if arguments.threshold is None else arguments.threshold,
        min_share=DEFAULT_MIN_SHARE if arguments.min_share is None else arguments.min_share,
    )
    with closing(_engine(arguments.engine)) as engine:
        found = compare_sides(arguments.directory, engine, asked)
    code = FAILED if found.verdict == "regressed" else 0
    if arguments.format == "json":
        from lockline.fleet import document

        return document.render_diff(found), code
    from lockline.fleet import text

    return text.render_diff(found, terminal_style(addresses=False)), code


def _shown(value: Any) -> str:
    if isinstance(value, bytes):
        return value.hex()
    return "" if value is None else f"{value:.9g}" if isinstance(value, float) else str(value)


def _columns(titles: Sequence[str], rows: Sequence[Sequence[Any]], style: Style) -> str:
    """Rows as text, each column as wide as it needs."""
    from lockline.base.text import pad, width

    made = [list(titles), *([clean(_shown(value), style) for value in row] for row in rows)]
    widths = [max(width(row[index]) for row in made) for index in range(len(titles))]
    numbers = [bool(rows) and all(isinstance(row[index], (int, float)) for row in rows) for index in range(len(titles))]
    lines = (
        "  ".join(pad(text, columns, right) for text, columns, right in zip(row, widths, numbers, strict=True)).rstrip()
        for row in made
    )
    return "\n".join(lines) + "\n"


def _sql(arguments: argparse.Namespace) -> tuple[str, int]:
    from lockline.fleet.engine import VIEWS, DuckDb
    from lockline.fleet.store import open_store, places

    open_store(arguments.directory)
    with closing(DuckDb()) as engine:
        found = list(places(arguments.directory))
        kept = any((place.path / "waits.parquet").exists() for place in found)
        engine.read(found, alone=True)
        for name in VIEWS:
            engine.view(name, f"view_{name}")
        titles, rows = engine.select(arguments.directory, arguments.query)
    if not kept and _OF_WAITS.search(arguments.query):
        print("lockline: waits: no recording was added with --intervals, so this view is empty", file=sys.stderr)
    if arguments.format == "csv":
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(titles)
        writer.writerows([_shown(value) for value in row] for row in rows)
        return text.getvalue(), 0
    return _columns(titles, rows, terminal_style(addresses=False)), 0


def _migrate(arguments: argparse.Namespace) -> tuple[str, int]:
    from lockline.fleet.migrate import migrate
    from lockline.fleet.tables import SCHEMA

    old = migrate(arguments.directory)
    return (f"schema {old} is now {SCHEMA}\n" if old < SCHEMA else f"has schema {SCHEMA} already\n"), 0


def run(arguments: argparse.Namespace) -> tuple[str, int]:
    """What is printed, and the exit code.  Raises LocklineError."""
    actions = {"add": _add, "report": _report, "diff": _diff, "migrate": _migrate, "sql": _sql}
    return actions[arguments.action](arguments)
