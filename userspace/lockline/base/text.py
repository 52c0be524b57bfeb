# SPDX-License-Identifier: GPL-2.0-or-later
"""Numbers, names and columns.  What comes from a recording is made harmless for a terminal here."""

import re
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

from lockline.base.values import dataclass

WIDTH = 120

# Kernel addresses: canonical upper half, with or without 0x.
_ADDRESS = re.compile(r"(?:0x)?\bffff[0-9a-f]{12}\b|0xffff[0-9a-f]{12}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Style:
    """unicode: the terminal shows more than ASCII; addresses: kernel addresses may be shown."""

    unicode: bool = False
    addresses: bool = False

    @property
    def shades(self) -> str:
        """Five steps from nothing to full."""
        return " ░▒▓█" if self.unicode else " .:*#"

    @property
    def bars(self) -> str:
        """Eight heights from low to full."""
        return "▁▂▃▄▅▆▇█" if self.unicode else "_.:-=+*#"


def is_kernels(address: int) -> bool:
    """Whether hide_addresses() would hide it: canonical upper half, x86-64 and arm64 with 48 bits."""
    return address >> 48 == 0xFFFF


def may_show(address: int, addresses: bool, space: str) -> bool:
    """Whether an address on a line of that space ("kernel", "user") may be shown; addresses: all may.

    The kernel's code touches a program's memory too: its addresses are not shown there either.
    """
    return addresses or (space == "user" and not is_kernels(address))


def hide_addresses(text: str) -> str:
    """The text with kernel addresses replaced."""
    return _ADDRESS.sub("[address]", text)


def without_addresses(value: Any) -> Any:
    """A JSON value in which every text is as hide_addresses() gives it."""
    if isinstance(value, str):
        return hide_addresses(value)
    if isinstance(value, dict):
        return {key: without_addresses(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_addresses(item) for item in value]
    return value


def paragraphs(parts: Iterable[Sequence[str]]) -> str:
    """The lines of all parts that have any, an empty line between two parts, ending in a line end."""
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def clean(text: str, style: Style) -> str:
    """Text from a recording without control characters, escapes, line ends or what has no width of its own."""
    if not style.addresses:
        text = hide_addresses(text)
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character if _is_plain(character, style) else character.encode("unicode_escape", "surrogatepass").decode()
        for character in text
    )


def _is_plain(character: str, style: Style) -> bool:
    if character.isascii():
        return character.isprintable()
    return style.unicode and character.isprintable() and not unicodedata.combining(character)


def width(text: str) -> int:
    """Columns that a clean text takes."""
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def cut(text: str, columns: int) -> str:
    """A clean text in at most so many columns: of a longer one, both ends."""
    if width(text) <= columns:
        return text
    if columns < 3:
        return "." * columns
    head = _prefix(text, columns - 2 - (columns - 2) // 2)
    tail = _prefix(text[::-1], (columns - 2) // 2)[::-1]
    return f"{head}..{tail}"


def _prefix(text: str, columns: int) -> str:
    taken = 0
    for index, character in enumerate(text):
        taken += width(character)
        if taken > columns:
            return text[:index]
    return text


def pad(text: str, columns: int, right: bool = False) -> str:
    """A clean text cut and filled to exactly so many columns; right: flush right."""
    text = cut(text, columns)
    fill = " " * (columns - width(text))
    return fill + text if right else text + fill


def fill(text: str, first: str = "", rest: str = "", columns: int = WIDTH, cut_words: bool = True) -> list[str]:
    """A clean text on as many lines as it takes, none if it has no words.

    first, rest: what the first line and the others begin with.  cut_words: no word is longer than a line.
    """
    return textwrap.wrap(
        text,
        columns,
        initial_indent=first,
        subsequent_indent=rest,
        break_on_hyphens=False,
        break_long_words=cut_words,
    )


def beside(label: str, text: str) -> list[str]:
    """A clean text on as many lines as it takes, to the right of its label; one line at least."""
    indent = " " * width(label)
    lines = textwrap.wrap(text, WIDTH - len(indent), break_on_hyphens=False) or [""]
    return [label + lines[0], *(indent + line for line in lines[1:])]


@dataclass(frozen=True, slots=True)
class Column:
    """A table's column; right: numbers."""

    title: str
    width: int
    right: bool = True


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]], indent: str = "  ") -> list[str]:
    """Lines of a table of clean texts, with its titles."""
    lines = [[column.title for column in columns], *rows]
    return [
        indent
        + " ".join(pad(text, column.width, column.right) for column, text in zip(columns, line, strict=True)).rstrip()
        for line in lines
    ]
