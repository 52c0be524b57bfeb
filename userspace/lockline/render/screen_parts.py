# SPDX-License-Identifier: GPL-2.0-or-later
"""What first screens have in common: their size, labelled paragraphs, and parts that give way until they fit."""

import itertools
import shlex
import textwrap
from collections.abc import Callable, Iterable, Sequence

from lockline.analysis.answer import OTHER_LOCKS, user_waiting
from lockline.analysis.model import Report
from lockline.base.text import cut, paragraphs

# Of a first screen at 80 columns.
LINES = 24
NARROWEST = 40
# Threads or CPUs that wait on average: however sure a cause is, less than this is a small effect.
SMALL_EFFECT = 0.5
# What stands for the rest of a text that is cut, and from how many free columns on the next word is cut too.
_LEFT_OUT = " ..."
_ROOM = 20
DEFAULT_RECORDING = "lockline.data"
# A tenth of one CPU or thread: rules find no fault with less.
SMALL = 0.1


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


def few_threads(threads: float, who: str = "threads") -> str:
    """So few threads that two digits matter: never 0.00 of what is more than nothing."""
    return f"under 0.01 {who}" if 0 < threads < 0.01 else f"{threads:.2f} {who}"


def fitted(make: Callable[[int], Iterable[Sequence[str]]], steps: int) -> str:
    """The screen of the first step that is short enough, or of the last one; make: its parts, shorter by each step."""
    text = ""
    for step in range(steps):
        text = paragraphs([line.rstrip() for line in part] for part in make(step))
        if text.count("\n") <= LINES:
            break
    return text


def percent_short(fraction: float) -> str:
    """A fraction in whole percent, never 100% of what is less."""
    return f"{min(round(fraction * 100), 99 if fraction < 1 else 100)}%"


def sentence(text: str) -> str:
    """A text as a sentence."""
    return text[:1].upper() + text[1:] + "." if text else ""


def command(report: Report, options: str) -> str:
    """A command to copy; a recording of another name than the default is named."""
    file = "" if report.path == DEFAULT_RECORDING else f" -i {shlex.quote(report.path)}"
    return f"lockline report{file} {options}"


def all_waiting(report: Report) -> int:
    """All waiting for locks that was recorded, of the kernel, of programs, and on files and semaphores, in ns."""
    others = report.sleepers.waiting(*OTHER_LOCKS) if report.sleepers is not None else 0.0
    threads = (user_waiting(report) or 0.0) + others
    return report.totals.wait_ns + round(threads * report.window.duration_ns)
