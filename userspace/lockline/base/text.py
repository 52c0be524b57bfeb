# SPDX-License-Identifier: GPL-2.0-or-later
"""Numbers, names and columns.  What comes from a recording is made harmless for a terminal here."""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from lockline.base.late import Late
from lockline.base.values import dataclass

if TYPE_CHECKING:
    import unicodedata
else:
    unicodedata = Late("unicodedata")

# Of prose, also on wider terminals; and of what is piped.
WIDTH = 120
# A column of names has so many columns at least, as long as its table has figures to leave out.
_NAMES = 20
_WORDS = 8

# Kernel addresses: canonical upper half, with or without 0x.
_ADDRESS = r"(?i)(?:0x)?\bffff[0-9a-f]{12}\b|0xffff[0-9a-f]{12}"


def _wrap(text: str, most: int, **options: Any) -> list[str]:
    # JSON wraps nothing, and need not wait for it.
    import textwrap

    return textwrap.wrap(text, most, **options)


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


@dataclass(frozen=True, slots=True)
class Page:
    """What text is written on.  whole: for a program, so that names in tables are not cut."""

    columns: int = WIDTH
    whole: bool = False


_pages = [Page()]


def page() -> Page:
    """What text is written on now."""
    return _pages[-1]


@contextmanager
def on_page(chosen: Page) -> Iterator[None]:
    """Inside, text is made for this page: the command line knows it, and each table and paragraph asks."""
    _pages.append(chosen)
    try:
        yield
    finally:
        _pages.pop()


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
    # Hardly any text has one, and to look for it so takes a tenth of the time.
    return re.sub(_ADDRESS, "[address]", text) if "ffff" in text.lower() else text


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
    return len(text) if text.isascii() else _wide(text)


@lru_cache(maxsize=512)
def _wide(text: str) -> int:
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


def cut_member(name: str, columns: int) -> str:
    """A clean name of a struct's member in at most so many columns: of a longer one, the last member stays whole."""
    outer, dot, member = name.rpartition(".")
    room = columns - 2 - width(member)
    if width(name) <= columns or not dot or room < 0:
        return cut(name, columns)
    return f"{_prefix(outer, room)}..{member}"


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
    """A clean text on as many lines as it takes, none if it has no words; never wider than the page.

    first, rest: what the first line and the others begin with.  cut_words: no word is longer than a line.
    """
    return _wrap(
        text,
        min(columns, page().columns),
        initial_indent=first,
        subsequent_indent=rest,
        break_on_hyphens=False,
        break_long_words=cut_words,
    )


def beside(label: str, text: str) -> list[str]:
    """A clean text on as many lines as it takes, to the right of its label; one line at least."""
    indent = " " * width(label)
    lines = _wrap(text, max(_NAMES, min(WIDTH, page().columns) - len(indent)), break_on_hyphens=False) or [""]
    return [label + lines[0], *(indent + line for line in lines[1:])]


def folded(text: str) -> str:
    """A text without lines wider than the page: what is on them goes on below, further in.  Not for a program."""
    most = page().columns
    if page().whole or all(len(line) <= most for line in text.split("\n")):
        return text
    lines: list[str] = []
    for line in text.split("\n"):
        if len(line) <= most or "\x1b" in line:
            lines.append(line)
            continue
        indent = " " * min(len(line) - len(line.lstrip()) + 2, most // 2)
        lines += _wrap(
            line, most, subsequent_indent=indent, break_on_hyphens=False, drop_whitespace=True, replace_whitespace=False
        )
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Column:
    """A table's column; right: numbers.  spare: on a narrow page the first to go is that with most."""

    title: str
    width: int
    right: bool = True
    spare: int = 0


def _sizes(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], room: int, least: int, grow: bool
) -> list[int] | None:
    """Widths with which a table fits: names give way, figures never do.  None: there are none."""
    needed = [max(width(row[index]) for row in rows) for index in range(len(columns))]
    gaps = len(columns) - 1
    wanted = [column.width for column in columns]
    whole = grow and page().whole
    grow = whole or (grow and room > WIDTH)
    for index, column in enumerate(columns):
        figures = max((width(row[index]) for row in rows[1:]), default=0) if column.right else 0
        wanted[index] = max(wanted[index], figures, 0 if column.right or not grow else needed[index])
    if whole or sum(wanted) + gaps <= room:
        return wanted
    sizes = [min(one) for one in zip(wanted, needed, strict=True)]
    lowest = [
        size if column.right else min(size, least if index == 0 else _WORDS)
        for index, (column, size) in enumerate(zip(columns, sizes, strict=True))
    ]
    while sum(sizes) + gaps > room:
        widest = max(range(len(sizes)), key=lambda index: sizes[index] - lowest[index])
        if sizes[widest] == lowest[widest]:
            return None
        sizes[widest] -= 1
    return sizes


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]], indent: str = "  ", grow: bool = True) -> list[str]:
    """Lines of a table of clean texts, with its titles; on a narrow page names are cut, then spare columns left out.

    grow: names may have more columns than is said, where there is room or a program reads them.
    """
    lines: list[Sequence[str]] = [[column.title for column in columns], *rows]
    room = page().columns - len(indent)
    while True:
        spare = max((column.spare for column in columns), default=0)
        sizes = _sizes(columns, lines, room, _NAMES if spare else _WORDS, grow)
        if sizes is not None:
            break
        if not spare:
            return _in_two(columns, lines, indent)
        kept = [index for index, column in enumerate(columns) if column.spare < spare]
        columns = [columns[index] for index in kept]
        lines = [[line[index] for index in kept] for line in lines]
    return [
        indent
        + " ".join(
            pad(text, size, column.right) for column, size, text in zip(columns, sizes, line, strict=True)
        ).rstrip()
        for line in lines
    ]


def _in_two(columns: Sequence[Column], lines: Sequence[Sequence[str]], indent: str) -> list[str]:
    """A table whose figures alone are as wide as the page: each row's words, and below them its figures."""
    needed = [max(width(line[index]) for line in lines) for index in range(len(columns))]
    words = [index for index, column in enumerate(columns) if not column.right]
    figures = [index for index, column in enumerate(columns) if column.right]
    found = []
    for line in lines:
        said = " ".join(line[index] for index in words if line[index])
        found.append(indent + cut(said, page().columns - len(indent)))
        below = " ".join(pad(line[index], needed[index], right=True) for index in figures)
        found += _wrap(below, page().columns, initial_indent=indent + "  ", subsequent_indent=indent + "  ")
    return found
