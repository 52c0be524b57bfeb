# SPDX-License-Identifier: GPL-2.0-or-later
"""The command line.

Exit codes: 0 done, 1 failed with one line on stderr, or wrong usage; of diff 2 is a regression.

Each command is a module with add_parser() and run(), which is imported when it is asked for: loading all of them takes
longer than a small report.
"""

import os
import sys

from lockline import version
from lockline.base.errors import LocklineError

# Without typing: see c2c_start.py.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence
    from types import ModuleType

# Their options are the collector's; record has no others.
_COLLECTORS = ("record", "watch")
# What they print as text is for people, and fits their terminal.
_PROSE = ("why", "experiment", "report", "doctor", "diff", "c2c")
_COMMANDS = (
    "why",
    "experiment",
    "report",
    "doctor",
    "demo",
    "explain",
    "diff",
    "c2c",
    "export",
    "save",
    "top",
    "exporter",
    "fleet",
)


def _command(name: str) -> "ModuleType":
    from importlib import import_module

    return import_module(f"lockline.cli.{name}")


def make_parser(
    wanted: "Sequence[str]" = _COMMANDS, examples: bool = True, described: bool = True
) -> "argparse.ArgumentParser":
    """The parser of these commands; examples: with those at the end of each help; described: with what each does."""
    from lockline.cli.parser import Parser

    parser = Parser(
        prog="lockline", description="Which lock holds this machine back, who waits for it, and from where."
    )
    parser.add_argument("--version", action="version", version=f"lockline {version()}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in wanted:
        _command(name).add_parser(commands)
        if described:
            _describe(commands.choices[name], name, examples)
    for command in commands.choices.values():
        if command.get_default("parser") is None:
            command.set_defaults(parser=command)
    return parser


def _describe(parser: "argparse.ArgumentParser", name: str, examples: bool) -> None:
    """What a command does, and examples at the end of its help; they keep their lines."""
    import argparse

    from lockline.base.text import fill
    from lockline.cli import terminal
    from lockline.cli.help import DESCRIPTIONS, epilog

    parser.description = DESCRIPTIONS[name]
    for actions in (action for action in parser._actions if isinstance(action, argparse._SubParsersAction)):
        for action in actions._choices_actions:
            words = action.help or ""
            actions.choices[action.dest].description = f"{words[:1].upper()}{words[1:]}."
    if examples:
        parser.description = "\n".join(fill(parser.description, columns=terminal.columns()))
        parser.epilog = "\n\n".join(part for part in (parser.epilog, epilog(name)) if part)
        parser.formatter_class = argparse.RawDescriptionHelpFormatter


def _help(wanted: "Sequence[str]") -> tuple[str, int]:
    """`lockline help [WORD]`."""
    from lockline.cli import help as helps

    if not wanted or list(wanted) in (["help"], ["-h"], ["--help"]):
        return helps.overview(), 0
    if len(wanted) > 1 or wanted[0] not in helps.COMMANDS:
        return helps.of_word(" ".join(wanted)), 0
    return _run([wanted[0], "--help"])


def _run(arguments: "Sequence[str]") -> tuple[str, int]:
    first = arguments[0] if arguments else ""
    if first == "help":
        return _help(arguments[1:])
    if first in ("-h", "--help"):
        return _help([])
    if first not in (*_COLLECTORS, *_COMMANDS, "--version"):
        from lockline.cli import help as helps

        if first:
            print(helps.refuse_command(first), file=sys.stderr)
        print("usage: lockline COMMAND [OPTIONS]; `lockline help` lists the commands", file=sys.stderr)
        raise SystemExit(1)
    if first == "--version":
        # As argparse's action: whatever follows.
        from lockline.cli import version as version_text

        sys.stdout.write(version_text.text())
        sys.stdout.flush()
        return "", 0
    if first == "record":
        if arguments[1:] in (["-h"], ["--help"]):
            from lockline.cli import collector_help

            return collector_help.of_record(), 0
        # All its other options are the collector's.
        if any(word.startswith("--host") for word in arguments):
            from lockline.cli import remote

            if remote.is_remote(arguments):
                return "", remote.run(arguments[1:])
        from lockline.base.collector import exec_collector

        exec_collector(arguments)
    if first == "c2c":
        from lockline.cli.c2c_start import started

        with started(arguments):
            return _run_parsed(first, arguments)
    return _run_parsed(first, arguments)


def _run_parsed(first: str, arguments: "Sequence[str]") -> tuple[str, int]:
    """A command with options."""
    if first == "c2c":
        from lockline.cli.c2c_options import plain

        known = plain(arguments)
        if known is not None:
            return _on_page(lambda: _command("c2c").run(known), known)
    from lockline.cli.common import with_negative_times

    try:
        if first == "watch":
            from lockline.cli import watch

            return watch.run(arguments[1:])
        asked = "-h" in arguments or "--help" in arguments
        parser = make_parser([first], examples=asked, described=asked)
        parsed, unknown = parser.parse_known_args(with_negative_times(arguments))
        if unknown:
            from lockline.cli.help import refuse_options

            # Of the command, not of all of them.
            refuse_options(parsed.parser, unknown)
    except SystemExit as stopped:
        # argparse's 2 would say that a threshold was hit, or that something regressed.
        if stopped.code == 2:
            raise SystemExit(1) from None
        raise
    run = _command(parsed.command).run
    words = _working(parsed)
    if words is None or not sys.stderr.isatty():
        return _on_page(lambda: run(parsed), parsed)
    from lockline.cli.progress import progress

    with progress(words):
        return _on_page(lambda: run(parsed), parsed)


def _on_page(run: "Callable[[], tuple[str, int]]", options: "argparse.Namespace") -> tuple[str, int]:
    """What a command prints, made for the terminal or the program that reads it."""
    from lockline.base.text import folded, on_page
    from lockline.cli import terminal

    with on_page(terminal.page()):
        text, code = run()
        prose = options.command in _PROSE and getattr(options, "format", "text") == "text"
        return folded(text) if prose and not getattr(options, "changelog", False) else text, code


def _working(parsed: "argparse.Namespace") -> str | None:
    """What a command that may take long does meanwhile; None where it tells itself, or writes as it goes."""
    if getattr(parsed, "output", None) == "-" or getattr(parsed, "changelog", False):
        return None
    if getattr(parsed, "html", None) and parsed.command in ("report", "diff", "fleet"):
        return "making the page"
    if parsed.command == "fleet":
        # Adding shows how many recordings it has added.
        return {"report": "reading the fleet", "diff": "comparing hosts", "migrate": "migrating", "sql": "asking"}.get(
            parsed.action
        )
    return {"report": "reading the recording", "diff": "comparing", "export": "exporting"}.get(parsed.command)


def _complain(text: str) -> None:
    from lockline.base.text import Style, clean

    print(f"lockline: {clean(text, Style(unicode=False, addresses=False))}", file=sys.stderr)


def _drop_output() -> None:
    """Python flushes stdout once more at exit, and complains if it cannot: what is left goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _without_closed() -> None:
    """What the shell closed (`>&-`) is no place for files that are opened, and its output fails as any other."""
    for number, access in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free; kept by the programs that are started.
            os.set_inheritable(os.open(os.devnull, access), True)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


def main(argv: "Sequence[str] | None" = None) -> int:
    """Run one command; gives the exit code.  Output goes to stdout, all else to stderr."""
    _without_closed()
    try:
        text, code = _run(sys.argv[1:] if argv is None else argv)
        if text:
            from lockline.cli import terminal

            terminal.show(text)
        return code
    except LocklineError as error:
        _complain(str(error))
        return 1
    except BrokenPipeError:
        # The reader has what it wanted.
        _drop_output()
        return 0
    except OSError as error:
        # Of a file that was opened its name; else it is what we write that finds no place.
        _complain(str(error) if error.filename else f"cannot write the output: {error.strerror or error}")
        _drop_output()
        return 1
    except KeyboardInterrupt:
        return 130
