# SPDX-License-Identifier: GPL-2.0-or-later
"""The command line.

Exit codes: 0 done, 1 failed with one line on stderr, or wrong usage; of diff 2 is a regression.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from lockline import version
from lockline.analysis.selection import GROUPINGS, SORTS, Selection, parse_cpus, parse_time
from lockline.base.collector import exec_collector, read_collector
from lockline.base.errors import LocklineError
from lockline.base.text import Style, clean
from lockline.cli import c2c as c2c_command
from lockline.cli import diff as diff_command
from lockline.cli import explain as explain_command
from lockline.cli import terminal
from lockline.recording.reader import open_recording

# What one command alone needs is imported by it: loading all takes longer than a small report.
if TYPE_CHECKING:
    from lockline.analysis.model import Report
    from lockline.analysis.series import Slice

DEFAULT_RECORDING = "lockline.data"
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
    "trust": "what was not seen, what was lost, and how exact lengths are",
    "cost": "what recording cost",
}
JSON_OUTLIERS = 100

Value = TypeVar("Value")


def _argument(parse: Callable[[str], Value]) -> Callable[[str], Value]:
    """A parser whose ValueError is argparse's message."""

    def checked(text: str) -> Value:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return checked


def _kinds(text: str) -> tuple[str, ...]:
    kinds = tuple(part.strip() for part in text.split(",") if part.strip())
    if not kinds:
        raise ValueError("no kind given; write them as spinlock,mutex,rwsem:W")
    return kinds


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) > 0):
        raise ValueError(f"'{text}' is no number from 1 to 999999999")
    return int(text)


def _report_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--format", choices=("text", "json"), default="text", help="text (default) or json")
    parser.add_argument("--sort", choices=SORTS, default="total", help="order of the locks (default: total)")
    parser.add_argument(
        "--top", type=_argument(_positive), metavar="N", help="rows of each table (default: as fits; json: all)"
    )
    parser.add_argument(
        "--by", choices=GROUPINGS, default="identity", help="one row per name and kind (default), or per lock"
    )
    parser.add_argument("--addresses", action="store_true", help="show kernel addresses")
    parser.add_argument(
        "--color", choices=("auto", "always", "never"), default="auto", help="colours (default: auto, on a terminal)"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lockline", description="Which lock holds this machine back, who waits for it, and from where."
    )
    parser.add_argument("--version", action="version", version=f"lockline {version()}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser(
        "record", add_help=False, help="record lock waits (as root); `lockline record --help` shows its options"
    )
    commands.add_parser("watch", add_help=False, help="watch a lock's cache line (as root), or show what was watched")

    report = commands.add_parser("report", help="show a recording")
    files = report.add_mutually_exclusive_group()
    files.add_argument("file", nargs="?", metavar="FILE", help=f"default: {DEFAULT_RECORDING}")
    files.add_argument("-i", "--input", metavar="FILE", help="the same, as of perf")
    _report_options(report)
    report.add_argument(
        "--kinds", type=_argument(_kinds), metavar="LIST", help="only these kinds, as spinlock,rwsem,mutex*"
    )
    report.add_argument("--cpu", type=_argument(parse_cpus), metavar="LIST", help="only waits on these CPUs, as 0-3,7")
    report.add_argument("--lock", metavar="PATTERN", help="only locks whose name holds this text, or matches *, ?, [")
    shown = report.add_argument_group("what to show, in place of the first screen")
    for name, what in SECTIONS.items():
        shown.add_argument(f"--{name}", action="store_true", help=what)
    shown.add_argument(
        "--episodes",
        type=_argument(_positive),
        metavar="N",
        help="the N longest waits with what went on around them, as recorded with --episodes or --flight",
    )
    times = "seconds from the begin of the recording, or with a unit: 90, 1.5s, 300ms, 2m"
    report.add_argument("--from", dest="from_ns", type=_argument(parse_time), metavar="TIME", help=times)
    report.add_argument("--to", dest="to_ns", type=_argument(parse_time), metavar="TIME", help="likewise")

    checks = commands.add_parser("doctor", help="show what this kernel offers to lockline, and what it hides")
    checks.add_argument("--format", choices=("text", "json"), default="text", help="text (default) or json")
    checks.add_argument(
        "--deep", action="store_true", help="also time a cache line between CPUs, and compare their clocks (seconds)"
    )

    demo = commands.add_parser("demo", help="record a contended load and show the report (as root)")
    demo.add_argument("-d", "--duration", type=_argument(_positive), default=8, metavar="SECONDS", help="default: 8")
    _report_options(demo)
    explain_command.add_parser(commands)
    diff_command.add_parser(commands)
    c2c_command.add_parser(commands, _argument(_positive))
    for command in commands.choices.values():
        command.set_defaults(parser=command)
    return parser


def _style(addresses: bool) -> Style:
    return terminal.style(addresses)


def _selection(arguments: argparse.Namespace) -> Selection:
    return Selection(
        kinds=getattr(arguments, "kinds", None),
        cpus=getattr(arguments, "cpu", None),
        lock=getattr(arguments, "lock", None),
        from_ns=getattr(arguments, "from_ns", None),
        to_ns=getattr(arguments, "to_ns", None),
        sort=arguments.sort,
        by=arguments.by,
        top=arguments.top,
    )


def _outlier_limit(arguments: argparse.Namespace) -> int:
    from lockline.render import text as text_render

    default = JSON_OUTLIERS if arguments.format == "json" else text_render.OUTLIERS
    return default if arguments.top is None else int(arguments.top)


def _render(report: "Report", arguments: argparse.Namespace) -> str:
    if arguments.format == "json":
        from lockline.render.documents import report as document

        return document.render(report, arguments.addresses)
    from lockline.render import text as text_render

    return text_render.render(report, _style(arguments.addresses))


def _report(arguments: argparse.Namespace) -> str:
    from lockline.analysis.report import EPISODES
    from lockline.analysis.series import read_slices
    from lockline.rules.report import make_report, with_lines

    selection = _selection(arguments)
    if selection.to_ns is not None and selection.to_ns <= (selection.from_ns or 0):
        raise LocklineError("--to: lies before --from")
    with open_recording(arguments.input or arguments.file or DEFAULT_RECORDING) as recording:
        limit = arguments.episodes or EPISODES
        report = with_lines(make_report(recording, selection, _outlier_limit(arguments), limit), recording)
        slices = () if arguments.format == "json" else read_slices(recording, report)
    if arguments.format == "json" or arguments.all:
        return _render(report, arguments)
    return _sections(report, slices, arguments) or _screen(report, slices, arguments)


def _sections(report: "Report", slices: "Sequence[Slice]", arguments: argparse.Namespace) -> str:
    """The parts that were asked for; "" if none was."""
    style = _style(arguments.addresses)
    parts = []
    names = [name for name in SECTIONS if getattr(arguments, name) and name not in ("all", "time")]
    if names:
        from lockline.render import text as text_render

        parts.append(text_render.render_sections(report, style, names))
    if arguments.time:
        from lockline.render import screen

        parts.append(screen.render_time(report, slices, style, terminal.columns()))
    if arguments.episodes:
        from lockline.render import episodes as episodes_render

        parts.append(episodes_render.render(report, style, arguments.episodes))
    return "\n".join(parts)


def _screen(report: "Report", slices: "Sequence[Slice]", arguments: argparse.Namespace) -> str:
    from lockline.render import screen

    text = screen.render(report, slices, _style(arguments.addresses), terminal.columns())
    return terminal.colored(text) if terminal.wants_color(arguments.color) else text


def _doctor(arguments: argparse.Namespace) -> str:
    from lockline.analysis import diagnosis
    from lockline.render import doctor

    answer = read_collector(["doctor", "--deep"] if arguments.deep else ["doctor"])
    return answer if arguments.format == "json" else doctor.render(diagnosis.parse(answer), _style(addresses=False))


def _demo(arguments: argparse.Namespace) -> tuple[str, int]:
    from lockline.cli import demo

    report, slices = demo.run_demo(arguments.duration, _selection(arguments), _outlier_limit(arguments))
    agrees = demo.agrees(report)
    verdict = "as the load has it" if agrees else f"not what the load does: {demo.WHAT}"
    print(f"lockline: the report blames {'mmap_lock' if agrees else 'something else'}, {verdict}", file=sys.stderr)
    if arguments.format == "json":
        return _render(report, arguments), 0 if agrees else 1
    from lockline.render import screen

    # Its recording is gone: no command can show more of it.
    text = screen.render(report, slices, _style(arguments.addresses), terminal.columns(), kept=False)
    return terminal.colored(text) if terminal.wants_color(arguments.color) else text, 0 if agrees else 1


def _diff(arguments: argparse.Namespace) -> tuple[str, int]:
    from lockline.render import diff_text
    from lockline.render.documents import diff as document

    result = diff_command.make_diff(arguments)
    style = _style(addresses=False)
    if arguments.format == "json":
        text = document.render(result, arguments.top)
    elif arguments.changelog:
        text = diff_text.changelog(result, style, arguments.labels)
        for warning in result.warnings:
            print(f"lockline: {clean(warning, style)}", file=sys.stderr)
    else:
        text = diff_text.render(result, style, arguments.labels, arguments.top)
    return text, diff_command.REGRESSED if result.verdict == "regressed" else 0


def _c2c(arguments: argparse.Namespace) -> str:
    return c2c_command.run(arguments, _style(getattr(arguments, "addresses", False)))


def _watch(arguments: Sequence[str]) -> tuple[str, int]:
    from lockline.cli import watch as watch_command
    from lockline.render import watch_text
    from lockline.render.documents import watch as document

    shown, options, code = watch_command.run(arguments, _argument(_positive))
    if isinstance(shown, str):
        return shown, code
    if options.format == "json":
        return document.render(shown, options.addresses), code
    return watch_text.render(shown, _style(options.addresses)), code


def _run(arguments: Sequence[str]) -> tuple[str, int]:
    if arguments and arguments[0] == "record":
        # All its options, --help among them, are the collector's.
        exec_collector(arguments)
    try:
        if arguments and arguments[0] == "watch":
            return _watch(arguments[1:])
        parsed, unknown = _parser().parse_known_args(arguments)
        if unknown:
            # With the usage of the command, not of all of them.
            parsed.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    except SystemExit as stopped:
        # argparse's 2 would say that a threshold was hit, or that something regressed.
        if stopped.code == 2:
            raise SystemExit(1) from None
        raise
    if parsed.command == "diff":
        return _diff(parsed)
    if parsed.command == "demo":
        return _demo(parsed)
    commands = {"report": _report, "doctor": _doctor, "c2c": _c2c, "explain": explain_command.explain}
    return commands[parsed.command](parsed), 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; gives the exit code.  Output goes to stdout, all else to stderr."""
    try:
        text, code = _run(sys.argv[1:] if argv is None else argv)
        terminal.show(text)
        return code
    except LocklineError as error:
        message = clean(str(error), Style(unicode=False, addresses=False))
        print(f"lockline: {message}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader has what it wanted.  Python flushes stdout once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(f"lockline: {clean(str(error), Style())}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
