# SPDX-License-Identifier: GPL-2.0-or-later
"""The help of commands whose options are the collector's: what it prints, and what is ours."""

import os
import subprocess
from collections.abc import Collection, Iterator
from itertools import groupby

from lockline.base.collector import find_collector
from lockline.cli.help import epilog
from lockline.cli.terminal import columns

# Where the words begin that explain an option.
INDENT = 24


def lines_of(command: str, width: int) -> list[str]:
    """The collector's help of a command, in so many columns.  Raises LocklineError without a collector."""
    environment = {**os.environ, "COLUMNS": str(width)}
    done = subprocess.run(
        [find_collector(), command, "--help"], capture_output=True, text=True, check=False, env=environment
    )
    return (done.stdout or done.stderr).splitlines()


def _names(line: str) -> set[str]:
    """The options that a line of help is about; none, if it only goes on with the words of one."""
    left = line[:INDENT] if line[INDENT - 2 : INDENT] == "  " else line
    return {word.rstrip(",").partition("[")[0] for word in left.split() if word.startswith("-")}


def _blocks(lines: list[str]) -> Iterator[list[str]]:
    """What stands between empty lines."""
    for empty, block in groupby(lines, key=lambda line: not line):
        if not empty:
            yield list(block)


def without(lines: list[str], known: Collection[str]) -> str:
    """Groups of options and paragraphs, without these options, and without groups that have no others."""
    kept = []
    for block in _blocks(lines):
        if not block[0].endswith(":") or len(block) == 1:
            kept.append(block)
            continue
        mine, shown = [block[0]], True
        for line in block[1:]:
            if line[: len("  -a, --")].strip():
                shown = not _names(line) & set(known)
            mine += [line] if shown else []
        kept += [mine] if len(mine) > 1 else []
    return "\n\n".join("\n".join(block) for block in kept)


def of_record() -> str:
    """`lockline record --help`."""
    from lockline.base.text import fill
    from lockline.cli.remote import OPTIONS

    width = columns()
    lines = ["another machine:"]
    for name, (metavar, words) in OPTIONS.items():
        first, *rest = fill(words, columns=width - INDENT)
        left = f"      {name} {metavar}"
        lines += [f"{left:{INDENT}}{first}"] if len(left) + 2 <= INDENT else [left, " " * INDENT + first]
        lines += [" " * INDENT + more for more in rest]
    theirs = lines_of("record", width)
    # Behind the options; the kinds of locks come last.
    end = next(index for index, line in enumerate(theirs) if line.startswith("messages and help"))
    return "\n".join([*theirs[:end], *lines, "", *theirs[end:], "", epilog("record")]) + "\n"
