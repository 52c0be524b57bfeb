# SPDX-License-Identifier: GPL-2.0-or-later
"""The size of first screens: labelled paragraphs that are cut, and parts that give way until they fit.

Without what is told there: `lockline c2c report` loads nothing of the analysis of locks.
"""

import itertools
import textwrap
from collections.abc import Callable, Iterable, Sequence

from lockline.base.text import cut, paragraphs

# Of a first screen at 80 columns.
LINES = 24
NARROWEST = 40
# What stands for the rest of a text that is cut, and from how many free columns on the next word is cut too.
_LEFT_OUT = " ..."
_ROOM = 20


def filled(label: str, text: str, columns: int, most: int = 99) -> list[str]:
    """A text beside its label, on at most so many lines; what does not fit ends in "..."."""
    indent = " " * len(label)
    lines = textwrap.wrap(
        text,
        columns,
        initial_indent=label,
        subsequent_indent=indent,
        break_on_hyphens=False,
        max_lines=most,
        placeholder=_LEFT_OUT,
    )
    shown = lines[-1].removesuffix("...").rstrip() if lines else ""
    room = columns - len(shown) - len(_LEFT_OUT) - 1
    if room >= _ROOM and lines and lines[-1].endswith(_LEFT_OUT):
        # A long word comes next, as a path: its ends tell more than nothing.
        # By letters: a word that is longer than a line has been parted.
        told = len("".join("".join([*lines[:-1], shown])[len(label) :].split()))
        words = text.split()
        left = [end - told for end in itertools.accumulate(map(len, words))]
        rest = [word[-more:] for word, more in zip(words, left, strict=True) if more > 0]
        if rest:
            lines[-1] = f"{shown.ljust(len(label) - 1)} {cut(rest[0], room)}{_LEFT_OUT if rest[1:] else ''}"
    # A word longer than the line (a path) is cut, not pushed over the edge.
    return [cut(line, columns) for line in lines]


def fitted(make: Callable[[int], Iterable[Sequence[str]]], steps: int) -> str:
    """The screen of the first step that is short enough, or of the last one; make: its parts, shorter by each step."""
    text = ""
    for step in range(steps):
        text = paragraphs([line.rstrip() for line in part] for part in make(step))
        if text.count("\n") <= LINES:
            break
    return text
