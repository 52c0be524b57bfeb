# SPDX-License-Identifier: GPL-2.0-or-later
"""A plain command line of `lockline c2c report` is read as argparse reads it, or left to argparse."""

import contextlib
import io
from collections.abc import Sequence

import pytest

from lockline.cli.c2c_options import plain
from lockline.cli.main import make_parser

PLAIN = (
    ["f"],
    ["-i", "f"],
    ["--input=f"],
    ["f", "--format", "json"],
    ["--format=json", "f", "--addresses"],
    ["f", "--top", "7", "--by", "functions", "--color", "never"],
    ["f", "--all", "--maps", "--trust"],
    ["f", "--kallsyms", "k", "--system-map", "m", "--symfs", "d", "--report", "2"],
    ["f", "--recording", "r", "--vmlinux", "v"],
    ["f", "--btf", "b"],
)
DOUBTFUL = (
    [],
    ["--all"],
    ["f", "g"],
    ["f", "-i", "g"],
    ["-"],
    ["f", "--for", "json"],
    ["f", "--format"],
    ["f", "--format", "xml"],
    ["f", "--top", "0"],
    ["f", "--top", "many"],
    ["f", "--all=1"],
    ["f", "--btf", "b", "--vmlinux", "v"],
    ["f", "--html", "h"],
    ["f", "--help"],
    ["-if"],
    ["--", "f"],
    ["f", "--input", "--all"],
    ["f", "--what"],
    ["f", "--recording="],
)


def by_argparse(words: Sequence[str]) -> dict[str, object]:
    """What argparse reads."""
    found = vars(make_parser(["c2c"]).parse_args(["c2c", "report", *words]))
    return {name: value for name, value in found.items() if name != "parser"}


@pytest.mark.parametrize("words", PLAIN, ids=" ".join)
def test_plain_command_lines_are_read_as_argparse_does(words: list[str]) -> None:
    found = plain(["c2c", "report", *words])
    assert found is not None
    assert vars(found) == by_argparse(words)


@pytest.mark.parametrize("words", DOUBTFUL, ids=" ".join)
def test_what_leaves_a_doubt_is_argparses(words: list[str]) -> None:
    assert plain(["c2c", "report", *words]) is None


def test_other_commands_are_argparses() -> None:
    assert plain(["c2c", "import", "f", "-o", "g"]) is None
    assert plain(["c2c"]) is None
    assert plain(["report", "f"]) is None


def test_help_has_all_options() -> None:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), pytest.raises(SystemExit):
        make_parser(["c2c"]).parse_args(["c2c", "report", "--help"])
    assert all(word in out.getvalue() for word in ("--kallsyms", "--vmlinux", "--lines", "--redact", "--top", "-i"))
