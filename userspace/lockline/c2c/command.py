# SPDX-License-Identifier: GPL-2.0-or-later
"""`lockline c2c import` and `lockline c2c report`: what the command line gives them, and where their data is from."""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from lockline.c2c.report import make_c2c_report
from lockline.c2c.text_import import import_text
from lockline.c2c.types_reader import find_types
from lockline.collector import read_collector
from lockline.errors import LocklineError
from lockline.recording import open_recording
from lockline.render import c2c_json, c2c_text
from lockline.render.format import Style, clean

# perf's files begin with one of these, by byte order (tools/perf/util/header.c).
_PERF_MAGIC = (b"PERFILE2", b"2ELIFREP", b"PERFFILE", b"ELIFFREP")
_SQLITE_MAGIC = b"SQLite format 3\0"

TEXT_LINES = 10
JSON_LINES = 1000


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]", positive: Callable[[str], int]) -> None:
    """Add the command c2c to the command line's."""
    c2c = commands.add_parser("c2c", help="cache lines of perf c2c data, joined with locks")
    parts = c2c.add_subparsers(dest="c2c_command", required=True, metavar="COMMAND")

    imports = parts.add_parser("import", help="make a recording of a perf.data file or of the text of a report")
    imports.add_argument("file", metavar="FILE", help="perf.data of `perf c2c record`, or text of `perf c2c report`")
    imports.add_argument("-o", "--output", required=True, metavar="OUT", help="the recording")
    _input_options(imports, positive)

    report = parts.add_parser("report", help="what the cache lines suffer from, who does it, and what to change")
    report.add_argument("file", metavar="FILE", help="a recording, perf.data, or the text of a report")
    _input_options(report, positive)
    report.add_argument("--recording", metavar="R", help="lock waits of the same time, to join the lines with")
    types = report.add_mutually_exclusive_group()
    types.add_argument("--btf", metavar="F", help="types of the recorded kernel: raw BTF, or a vmlinux with it")
    types.add_argument("--vmlinux", dest="btf", metavar="F", help="the same")
    report.add_argument("--top", type=positive, metavar="N", help=f"lines (default: {TEXT_LINES}; json: {JSON_LINES})")
    report.add_argument("--format", choices=("text", "json"), default="text", help="text (default) or json")
    report.add_argument("--addresses", action="store_true", help="show kernel addresses")


def _input_options(parser: argparse.ArgumentParser, positive: Callable[[str], int]) -> None:
    parser.add_argument(
        "--kallsyms",
        action="append",
        default=[],
        metavar="F",
        help="of a perf.data file: kernel symbols, or System.map",
    )
    parser.add_argument(
        "--report", dest="number", type=positive, metavar="N", help="of a text with several reports: the N-th"
    )


def kind_of(path: Path) -> str:
    """What a file is by its first bytes: recording, perf.data or text.  Raises LocklineError if it cannot be read."""
    try:
        if path.exists() and not path.is_file():
            raise LocklineError(f"{path}: not a file")
        with path.open("rb") as file:
            head = file.read(16)
    except (OSError, ValueError) as error:
        raise LocklineError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if not head:
        raise LocklineError(f"{path}: empty")
    if head.startswith(_PERF_MAGIC):
        return "perf.data"
    return "recording" if head.startswith(_SQLITE_MAGIC) else "text"


def _import(path: Path, output: Path, arguments: argparse.Namespace) -> None:
    kind = kind_of(path)
    if kind == "recording":
        raise LocklineError(f"{path}: this is a recording already; show it with `lockline c2c report {path}`")
    if kind == "text":
        if arguments.kallsyms:
            raise LocklineError("--kallsyms: a text has its symbols in it; leave the option out")
        for note in import_text(path, output, arguments.number).notes:
            _note(note)
        return
    options = [word for file in arguments.kallsyms for word in ("--kallsyms", file)]
    sys.stdout.write(read_collector(["import", str(path), "-o", str(output), *options]))


def _note(text: str) -> None:
    print(f"lockline: {clean(text, Style())}", file=sys.stderr)


@contextmanager
def _recording_of(path: Path, arguments: argparse.Namespace) -> Iterator[Path]:
    """A recording of the file's memory accesses: itself, or one that is made for the moment."""
    if kind_of(path) == "recording":
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="lockline-") as directory:
        imported = Path(directory) / "import.lockline"
        _import(path, imported, arguments)
        yield imported


def _report(arguments: argparse.Namespace, style: Style) -> str:
    as_json = arguments.format == "json"
    path = Path(arguments.file)
    with ExitStack() as opened:
        file = opened.enter_context(_recording_of(path, arguments))
        recording = opened.enter_context(open_recording(file))
        waits = opened.enter_context(open_recording(arguments.recording)) if arguments.recording else None
        types = find_types([recording] if waits is None else [recording, waits], arguments.btf)
        report = make_c2c_report(
            recording,
            arguments.top or (JSON_LINES if as_json else TEXT_LINES),
            types.reader(),
            waits,
            [types.note] if types.note else [],
            str(path),
        )
    if as_json:
        return c2c_json.render(report, arguments.addresses)
    return c2c_text.render(report, style)


def run(arguments: argparse.Namespace, style: Style) -> str:
    """Run `lockline c2c`; gives what is to be printed.  Raises LocklineError."""
    if arguments.c2c_command == "report":
        return _report(arguments, style)
    _import(Path(arguments.file), Path(arguments.output), arguments)
    return ""
