# SPDX-License-Identifier: GPL-2.0-or-later
"""`lockline watch`: has the collector watch lines, or takes a recording, and shows them."""

import argparse
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType

from lockline.base.collector import NAME, end_with_us, finish, spawn
from lockline.base.ending import ended_by_signals
from lockline.base.errors import LocklineError
from lockline.base.text import Style, folded, on_page
from lockline.c2c.live import LiveReport, live_report
from lockline.c2c.types_reader import find_types
from lockline.cli.common import add_html, check_html
from lockline.cli.common import positive as positive_number
from lockline.cli.help import DESCRIPTIONS, epilog
from lockline.cli.parser import Parser
from lockline.cli.temporary import temporary
from lockline.cli.terminal import columns, page, painted, style
from lockline.recording.reader import open_recording
from lockline.render import lines_screen, watch_text
from lockline.render.documents import watch as document

TEXT_LINES = 10
JSON_LINES = 1000

_USAGE = "lockline watch TARGET [options] [-- COMMAND]\n       lockline watch -i FILE [options]"


def parser(positive: Callable[[str], int]) -> argparse.ArgumentParser:
    """The options that are not the collector's."""
    made = Parser(
        prog="lockline watch",
        usage=_USAGE,
        description=DESCRIPTIONS["watch"],
        add_help=False,
        allow_abbrev=False,
    )
    made.add_argument("-h", "--help", action="store_true", help="show this help message and exit")
    made.add_argument(
        "-i",
        "--input",
        metavar="FILE",
        help="show the watched lines of a recording; with TARGET lock:NAME, the recording that has the lock",
    )
    made.add_argument("-o", "--output", metavar="FILE", help="keep the recording")
    made.add_argument("--format", choices=("text", "json"), default="text", help="text (default) or json")
    made.add_argument("--top", type=positive, metavar="N", help=f"lines (default: {TEXT_LINES}; json: {JSON_LINES})")
    made.add_argument("--btf", metavar="F", help="types of the recorded kernel: raw BTF, or a vmlinux with it")
    made.add_argument("--all", action="store_true", help="the whole report (to record every process: -a)")
    for name, what in watch_text.SECTIONS.items():
        made.add_argument(f"--{name}", action="store_true", help=what)
    made.add_argument(
        "--color", choices=("auto", "always", "never"), default="auto", help="colours (default: auto, on a terminal)"
    )
    made.add_argument("--addresses", action="store_true", help="show kernel addresses")
    add_html(made)
    return made


def parse(argv: Sequence[str], positive: Callable[[str], int]) -> tuple[argparse.Namespace, list[str]]:
    """Our options, and those of the collector with the target; argv: behind the word "watch"."""
    end = argv.index("--") if "--" in argv else len(argv)
    options, rest = parser(positive).parse_known_args(argv[:end])
    return options, [*rest, *argv[end:]]


def _help(positive: Callable[[str], int]) -> str:
    from lockline.cli import collector_help

    mine = {option for action in parser(positive)._actions for option in action.option_strings}
    # Without its usage and description.
    theirs = collector_help.lines_of("watch", columns())
    begin = next((index for index, line in enumerate(theirs) if line.endswith(":")), 0)
    rest = collector_help.without(theirs[begin:], mine - {"-a"})
    return f"{parser(positive).format_help()}\n{rest}\n\n{epilog('watch')}\n"


@contextmanager
def _interrupts_to(process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """SIGINT ends the collector, which writes what it has; what it has is shown."""

    def pass_on(number: int, frame: FrameType | None) -> None:
        process.send_signal(number)

    before = signal.signal(signal.SIGINT, pass_on)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _watch(arguments: Sequence[str], output: Path, temporary: bool) -> int:
    """Have the collector watch; gives its exit code."""
    kept = ["--temporary"] if temporary else []
    command = ["watch", "-o", str(output), *kept, *end_with_us(), *arguments]

    with ExitStack() as stack:
        stack.enter_context(ended_by_signals())
        # What a command prints is no data of ours.
        process = spawn(command, stdout=sys.stderr.fileno())
        stack.callback(finish, process)
        stack.enter_context(_interrupts_to(process))
        return process.wait()


def show(path: Path, options: argparse.Namespace) -> LiveReport:
    """The report of a recording's lines.  Raises LocklineError if it has none, or is damaged."""
    from lockline.cli.progress import progress

    limit = options.top or (JSON_LINES if options.format == "json" else TEXT_LINES)
    with progress("reading the lines"), open_recording(path) as recording:
        return live_report(recording, limit, options.btf)


def make_report(
    argv: Sequence[str], positive: Callable[[str], int]
) -> tuple[LiveReport | str, argparse.Namespace, int]:
    """Run `lockline watch`: what is to be shown, how, and the exit code.  Raises LocklineError."""
    options, rest = parse(argv, positive)
    check_html(options)
    if options.help:
        return _help(positive), options, 0
    if options.input is not None and not rest:
        if options.output is not None:
            raise LocklineError("watch: -i FILE alone shows a recording, and -o has nothing to keep; name a target")
        return show(Path(options.input), options), options, 0
    if options.input is not None:
        # Where the collector finds the lock that is to be watched.
        with open_recording(options.input):
            pass
        rest = ["-i", options.input, *rest]
    if not rest:
        raise LocklineError("watch: no target; name a lock, a symbol, an address, or a recording with -i FILE")
    if options.btf is not None and (read := find_types((), options.btf).reader()) is not None:
        # A wrong file is refused before the watch, not instead of it.
        read((), ("task_struct",), ())
    with temporary("watch") as directory:
        output = Path(options.output) if options.output is not None else directory / "watch.lockline"
        code = _watch(rest, output, options.output is None)
        if code:
            # It has said why.
            return "", options, code if code > 0 else 128 - code
        if not output.exists():
            raise LocklineError(f"watch: {NAME} wrote no recording")
        report = show(output, options)
    if options.output is None:
        # The file is gone when this is read.
        report = replace(report, c2c=replace(report.c2c, path=shlex.join(rest)))
    return report, options, 0


def _text(report: LiveReport, options: argparse.Namespace) -> str:
    plain = style(options.addresses)
    names = [name for name in watch_text.SECTIONS if getattr(options, name)]
    if options.all or names:
        with on_page(page()):
            text = watch_text.render(report, plain) if options.all else None
            return folded(text or watch_text.render_sections(report, plain, names))
    kept = options.output is not None or Path(report.c2c.path).is_file()
    text = lines_screen.render_watch(report, plain, columns(), kept)
    return painted(text, options.color)


def run(argv: Sequence[str]) -> tuple[str, int]:
    """What is printed, and the exit code.  Raises LocklineError."""
    shown, options, code = make_report(argv, positive_number)
    if isinstance(shown, str):
        return shown, code
    if options.html is not None:
        from lockline.cli.output import write_whole
        from lockline.page.html import Writer
        from lockline.page.lines import make_live_page

        write = Writer(Style(unicode=True, addresses=options.addresses))
        write_whole(Path(options.html), make_live_page(shown, write, options.redact).encode())
        return "", code
    if options.format == "json":
        return document.render(shown, options.addresses), code
    return _text(shown, options), code
