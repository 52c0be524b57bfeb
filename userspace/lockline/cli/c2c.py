# SPDX-License-Identifier: GPL-2.0-or-later
"""`lockline c2c import` and `lockline c2c report`: what the command line gives them, and where their data is from."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from lockline.base.collector import Importing
from lockline.base.errors import LocklineError
from lockline.base.files import plain_path
from lockline.base.scratch import scratch
from lockline.cli.c2c_inputs import STANDARD_INPUT, Input, check_options, kind_of
from lockline.cli.c2c_inputs import opened as opened_input
from lockline.cli.c2c_options import (
    FILES,
    INPUT_OPTIONS,
    JSON_LINES,
    REPORT_OPTIONS,
    SHOWN,
    TEXT_LINES,
    TYPES,
    Option,
)
from lockline.cli.c2c_start import take
from lockline.cli.progress import progress
from lockline.render.c2c_sections import SECTIONS

if TYPE_CHECKING:
    import argparse

    from lockline.c2c.model import C2cReport

# What progress says.
_READING = "reading the lines"


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command c2c to the command line's."""
    from lockline.cli.common import add_html
    from lockline.cli.parser import Parser

    c2c = commands.add_parser("c2c", help="cache lines of perf c2c data, joined with locks")
    if isinstance(c2c, Parser):
        c2c.elsewhere = {"record": "`lockline record --c2c`"}
    parts = c2c.add_subparsers(dest="c2c_command", required=True, metavar="COMMAND")

    imports = parts.add_parser("import", help="make a recording of a perf.data file or of the text of a report")
    imports.add_argument(
        "file", metavar="FILE", help="perf.data of `perf c2c record`, or text of `perf c2c report`; - is stdin"
    )
    imports.add_argument("-o", "--output", required=True, metavar="OUT", help="the recording")
    for option in INPUT_OPTIONS:
        _add(imports, option)

    report = parts.add_parser("report", help="what the cache lines suffer from, who does it, and what to change")
    groups: dict[str, Any] = {
        "": report,
        FILES: report.add_mutually_exclusive_group(required=True),
        TYPES: report.add_mutually_exclusive_group(),
        SHOWN: report.add_argument_group(SHOWN),
    }
    for option in REPORT_OPTIONS:
        _add(groups[option.group], option)
    add_html(report)
    for part in (imports, report):
        part.set_defaults(parser=part)


def _add(group: "argparse._ActionsContainer", option: Option) -> None:
    from lockline.cli.common import positive

    told = {**option.told, "type": positive} if option.number else option.told
    group.add_argument(*option.words, **told)


# Of the import of a recording that is gone afterwards.
_PASSING = ("-q", "--temporary")

# What a report is made with.  Loading it takes as long as reading many samples, so that both are done at once.
_MAKERS = ("c2c.report", "c2c.types_reader", "recording.reader")


def _load(arguments: "argparse.Namespace") -> None:
    as_json = getattr(arguments, "format", "") == "json"
    shown = "cli.c2c_lines" if as_json else "render.lines_screen"
    for name in (*_MAKERS, shown) if arguments.c2c_command == "report" else ():
        import_module(f"lockline.{name}")
    if as_json:
        from lockline.render.documents import lines as document

        # To compile what writes the JSON takes as long as ten lines.
        document.prepare_pieces()


def _import_perf_data(given: Input, output: str, arguments: "argparse.Namespace", *more: str) -> list[str]:
    """Make the recording of a perf.data file; gives the import's notes.  Meanwhile a report's modules are loaded."""
    options = list(more)
    for option in ("kallsyms", "system_map", "symfs"):
        value = getattr(arguments, option)
        if value is not None:
            options += ["--" + option.replace("_", "-"), value]
    with ExitStack() as opened:
        source = opened.enter_context(open(given.path, "rb")) if given.standard else None
        name = STANDARD_INPUT if given.standard else given.path
        command = ["import", name, "-o", output, *options]
        importing = opened.enter_context(Importing(command, output, source))
        _load(arguments)
        return importing.finish()


def _import(given: Input, output: str, arguments: "argparse.Namespace", *more: str) -> list[str]:
    """Make the recording; gives notes for people.  more: options for the import of a perf.data file."""
    kind = kind_of(given)
    if kind == "recording":
        raise LocklineError(f"{given.name}: this is a recording already; show it with `lockline c2c report`")
    if kind == "perf.data":
        return _import_perf_data(given, output, arguments, *more)
    # The layouts of perf's texts take longer to load than most reports to make.
    from pathlib import Path

    from lockline.c2c.text_import import import_text

    return list(import_text(Path(given.path), Path(output), arguments.number, given.name).notes)


def _names_from(imported: str, waits: str) -> bool:
    """Whether kernel code of an import without names can be named by a recording of the same boot."""
    from lockline.recording.reader import open_recording

    with open_recording(imported) as recording, open_recording(waits) as other:
        facts, known = recording.meta(), other.meta()
    base = known.get("kernel_text_address")
    unnamed = str(facts.get("kernel_symbols", "")).startswith("none")
    return unnamed and base is not None and base == facts.get("kernel_text_address")


def _note(text: str) -> None:
    from lockline.base.text import Style, clean

    print(f"lockline: {clean(text, Style())}", file=sys.stderr)


@contextmanager
def _recording_of(given: Input, arguments: "argparse.Namespace", directory: str) -> Iterator[str]:
    """A recording of the file's memory accesses: itself, or one that is made for the moment."""
    kind = kind_of(given)
    check_options(arguments, kind, given.name)
    if kind == "recording":
        yield given.path
        return
    imported = f"{directory}/import.lockline"
    with progress("importing"):
        early = take(given.path) if kind == "perf.data" else None
        if early is not None:
            imported = early.output
            _load(arguments)
            notes = early.finish()
        else:
            notes = _import(given, imported, arguments, *_PASSING)
        if arguments.recording and kind == "perf.data" and _names_from(imported, arguments.recording):
            notes = _import_perf_data(given, imported, arguments, *_PASSING, "--recording", arguments.recording)
    for note in notes:
        _note(note)
    yield imported


def _samples_of(path: str) -> str | None:
    """The perf.data file that `lockline record --c2c` has made beside a recording; None if it has none."""
    from lockline.recording.memory_rows import MemorySource
    from lockline.recording.reader import open_recording

    with open_recording(path) as recording:
        samples = recording.meta().get("memory_samples_file")
        if not samples or any(True for _ in recording.table(MemorySource)):
            return None
    # Both may have been moved together.
    from pathlib import Path

    places = [Path(str(samples)), Path(path).parent / Path(str(samples)).name]
    found = next((str(place) for place in places if place.is_file()), None)
    if found is None:
        raise LocklineError(f"{path}: its memory samples are in {samples}, which is missing; put that file beside it")
    return found


def _report(arguments: "argparse.Namespace") -> str:
    if arguments.html is not None or arguments.redact:
        from lockline.cli.common import check_html

        check_html(arguments)
    if arguments.by == "functions" and arguments.html is not None:
        raise LocklineError("--by functions works with text and JSON, not with --html")
    as_json = arguments.format == "json"
    with ExitStack() as opened:
        directory = opened.enter_context(scratch())
        given = opened.enter_context(opened_input(arguments.input or arguments.file, directory))
        if arguments.recording is None and kind_of(given) == "recording":
            samples = _samples_of(given.path)
            if samples is not None:
                arguments.recording, given = given.path, Input(samples, samples)
        file = opened.enter_context(_recording_of(given, arguments, directory))
        from lockline.c2c.report import make_c2c_report, open_c2c_report
        from lockline.c2c.types_reader import find_types, read_program
        from lockline.recording.reader import open_recording

        # Of a text foreign words are in it; of perf.data our own collector has written every value.
        recording = opened.enter_context(open_recording(file, made_here=kind_of(given) == "perf.data"))
        waits = opened.enter_context(open_recording(arguments.recording)) if arguments.recording else None
        types = find_types([recording] if waits is None else [recording, waits], arguments.btf)
        by_functions = arguments.by == "functions"
        top = (not by_functions and arguments.top) or (JSON_LINES if as_json or by_functions else TEXT_LINES)
        notes = [types.note] if types.note else []
        made = recording, top, types.reader(), waits, notes, given.name, read_program
        if by_functions:
            with progress(_READING):
                return _by_functions(make_c2c_report(*made), arguments)
        if arguments.html is None and as_json:
            from lockline.cli.c2c_lines import make_lines
            from lockline.render.documents import lines as document

            head, count, make = open_c2c_report(*made)
            lines = make_lines(recording, count, make, arguments.addresses, directory)
            _print(document.pieces_of(head, lines, arguments.addresses), f"{directory}/report")
            return ""
        with progress(_READING):
            return _text(make_c2c_report(*made), arguments)


def _by_functions(report: "C2cReport", arguments: "argparse.Namespace") -> str:
    from lockline.c2c.function_pairs import with_function_pairs

    report = with_function_pairs(report)
    if arguments.format == "json":
        from lockline.render.documents import lines as document

        return document.render(report, arguments.addresses) + "\n"
    from lockline.cli.terminal import style
    from lockline.render.function_pairs import render

    return render(report, style(arguments.addresses), arguments.top or TEXT_LINES)


def _text(report: "C2cReport", arguments: "argparse.Namespace") -> str:
    if arguments.html is not None:
        _write_page(report, arguments)
        return ""
    from lockline.cli.terminal import columns, painted, style
    from lockline.render import c2c_text

    plain = style(arguments.addresses)
    if arguments.all:
        return c2c_text.render(report, plain)
    names = [name for name in SECTIONS if getattr(arguments, name)]
    if names:
        return c2c_text.render_sections(report, plain, names)
    from lockline.render import lines_screen

    text = lines_screen.render_c2c(report, plain, columns())
    return painted(text, arguments.color)


def _write_page(report: "C2cReport", arguments: "argparse.Namespace") -> None:
    from pathlib import Path

    from lockline.base.text import Style
    from lockline.cli.output import write_whole
    from lockline.page.html import Writer
    from lockline.page.lines import make_c2c_page

    write = Writer(Style(unicode=True, addresses=arguments.addresses))
    write_whole(Path(arguments.html), make_c2c_page(report, write, arguments.redact).encode())


def _print(pieces: Iterator[str], path: str) -> None:
    """Pieces of a text, to standard output; nothing if one of them fails.  path: where they wait for the last one."""
    with open(path, "w+", encoding="utf-8", newline="") as whole:
        with progress(_READING):
            whole.writelines(pieces)
        whole.seek(0)
        while part := whole.read(1 << 16):
            sys.stdout.write(part)
        sys.stdout.flush()


def run(arguments: "argparse.Namespace") -> tuple[str, int]:
    """Run `lockline c2c`; gives what is to be printed, and the exit code.  Raises LocklineError."""
    if arguments.c2c_command == "report":
        return _report(arguments), 0
    with (
        scratch() as directory,
        opened_input(arguments.file, directory) as given,
    ):
        check_options(arguments, kind_of(given), given.name)
        with progress("importing"):
            notes = _import(given, plain_path(arguments.output), arguments)
        for note in notes:
            _note(note)
    return "", 0
