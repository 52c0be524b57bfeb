# SPDX-License-Identifier: GPL-2.0-or-later
"""What several commands' options have in common."""

import argparse
from collections.abc import Callable
from typing import TypeVar

from lockline.base.errors import LocklineError

Value = TypeVar("Value")


def argument(parse: Callable[[str], Value]) -> Callable[[str], Value]:
    """A parser whose ValueError is argparse's message."""

    def checked(text: str) -> Value:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return checked


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) > 0):
        raise ValueError(f"'{text}' must be a number from 1 to 999999999")
    return int(text)


positive = argument(_positive)


def add_wait_filter(parser: "argparse.ArgumentParser | argparse._ArgumentGroup") -> None:
    """Add the options of which waits are recorded; the collector checks their words."""
    parser.add_argument("-L", "--lock-filter", metavar="LOCK,...", help="waits for these locks alone, as of record")
    parser.add_argument(
        "-S", "--callstack-filter", metavar="FUNC,...", help="waits below these functions alone, as of record"
    )


def wait_filter(arguments: argparse.Namespace) -> tuple[str, ...]:
    """The collector's options for what add_wait_filter() took; () where all waits are recorded."""
    locks, callers = arguments.lock_filter, arguments.callstack_filter
    return (*(("-L", locks) if locks else ()), *(("-S", callers) if callers else ()))


def add_html(parser: "argparse.ArgumentParser | argparse._ArgumentGroup") -> None:
    """Add the options of what can be a page."""
    parser.add_argument(
        "--html", metavar="FILE", help="write a page with tables and charts: one file that loads nothing else"
    )
    parser.add_argument(
        "--redact", action="store_true", help="with --html: leave out names of hosts, commands and control groups"
    )


def check_html(arguments: argparse.Namespace) -> None:
    """Raises LocklineError if an option of a page stands without one."""
    if arguments.redact and arguments.html is None:
        raise LocklineError("--redact needs --html FILE")
