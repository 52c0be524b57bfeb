# SPDX-License-Identifier: GPL-2.0-or-later
"""What several commands' options have in common."""

import argparse
import re
from collections.abc import Callable, Sequence
from typing import TypeVar

from lockline.base.errors import LocklineError
from lockline.base.numbers import as_number

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
    number = as_number(text)
    if number is None:
        raise ValueError(f"'{text}' must be a number from 1 to 999999999")
    return number


positive = argument(_positive)


def add_wait_filter(parser: "argparse.ArgumentParser | argparse._ArgumentGroup") -> None:
    """Add the options of which waits are recorded; the collector checks their words."""
    parser.add_argument("-L", "--lock-filter", metavar="LOCK,...", help="only waits for these locks, as with record")
    parser.add_argument(
        "-S", "--callstack-filter", metavar="FUNC,...", help="only waits below these functions, as with record"
    )


def wait_filter(arguments: argparse.Namespace) -> tuple[str, ...]:
    """The collector's options for what add_wait_filter() took; () where all waits are recorded."""
    locks, callers = arguments.lock_filter, arguments.callstack_filter
    return (*(("-L", locks) if locks else ()), *(("-S", callers) if callers else ()))


def add_times(parser: "argparse.ArgumentParser | argparse._ArgumentGroup") -> None:
    """Add the options that select a time of a recording, for Selection.from_ns and to_ns."""
    from lockline.analysis.selection import parse_moment, parse_time

    def last(text: str) -> int:
        return -parse_time(text) or -1

    parser.add_argument(
        "--from",
        dest="from_ns",
        type=argument(parse_moment),
        metavar="TIME",
        help="begin at this time: seconds since the recording began, or with a unit, as in 90, 1.5s, 300ms, 2m;"
        " with a minus: before its end, as in -10m",
    )
    parser.add_argument(
        "--to",
        dest="to_ns",
        type=argument(parse_moment),
        metavar="TIME",
        help="end at this time, written as for --from",
    )
    parser.add_argument(
        "--last", dest="from_ns", type=argument(last), metavar="TIME", help="the last part, as in 10m: --from -10m"
    )


def with_negative_times(arguments: Sequence[str]) -> list[str]:
    """The arguments with "--from -10m" as "--from=-10m": argparse would take -10m for an option.

    Of `save` -10m alone is --last 10m.
    """
    joined: list[str] = []
    for word in arguments:
        if joined and joined[-1] in ("--from", "--to") and re.match(r"-[0-9]", word):
            joined[-1] += f"={word}"
        elif joined[:1] == ["save"] and re.match(r"-[0-9]", word):
            joined.append(f"--last={word[1:]}")
        else:
            joined.append(word)
    return joined


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
