# SPDX-License-Identifier: GPL-2.0-or-later
"""Lines of a pasted text, freed of what mail, terminals and web pages add to them.

Every line keeps the number that an editor shows for it, so that whatever cannot be read can be named.
"""

import html
import quopri
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

# Quoted-printable shows itself in the first lines.
_SAMPLE = 1 << 16

# A row of perf c2c has at most a few hundred characters, with --full-symbols a few thousand.
MAX_LINE_CHARACTERS = 16384

# Thin spaces between digits are a locale's; a hard space is one where others stand for spaces.
_GROUPS = re.compile(r"(?<![\w.,])\d{1,3}(?:[\u2009\u202f]\d{3})+(?![\w.,%])")
_HARD_GROUPS = re.compile(r"(?<![\w.,\u00a0])\d{1,3}(?:\u00a0\d{3})+(?![\w.,%\u00a0])")
# Some locales put a space before the sign.
_PERCENT = re.compile(r"(?<=\d[.,]\d)(\d*)[ \u00a0\u202f]%")
_SPACES = dict.fromkeys((*range(0x2000, 0x200B), 0xA0, 0x1680, 0x202F, 0x205F, 0x3000), " ")
_NOTHING = dict.fromkeys((0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF, 0xAD))
_DASHES = dict.fromkeys((0x2010, 0x2011, 0x2012, 0x2013, 0x2014, 0x2015, 0x2212), "-")
_CONTROL = dict.fromkeys((*range(0x09), 0x0B, 0x0C, *range(0x0E, 0x20), *range(0x7F, 0xA0)))
_TRANSLATION = {**_CONTROL, **_SPACES, **_NOTHING, **_DASHES, 0x09: "        ", 0x2026: "..."}

_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_TAG = re.compile(
    r"</?(?:a|b|blockquote|body|code|div|em|font|html|i|li|p|pre|span|strong|table|td|tr|tt)\b[^<>]*>", re.I
)
_BREAK = re.compile(r"<br ?/?>", re.I)
_CELL = re.compile(r"</t[dh] ?>", re.I)
_HTML = re.compile(r"</(?:pre|code|span|div|p|body|t[dhr])>|<br ?/?>", re.I)
_FOLDED = re.compile(r"[^\n]{69,75}[^=\n]=\r?$", re.M)

_QUOTE = re.compile(r" {0,3}> ?")
_MAX_QUOTES = 8
# As of a patch that adds the text to a document.
_ADDED = re.compile(r" ?\+(?=[^0-9+]|$)")
_NAMED_QUOTE = re.compile(r" {0,3}(?:[A-Za-z]{1,4}> ?)+")
# As of cat -n and grep -n.
_NUMBER = re.compile(r"\s*(\d{1,7})(?:\t|:(?=\s|$))")
# As of a listing in a blog.  Rows of perf's tables begin with numbers too, but never its headers.
_SPACED = re.compile(r"\s*(\d{1,7})(?: {1,2}|$)")
_HEADER = re.compile(r"\s*[=#A-Za-z]")
# Some wrap lines so.
_WRAPPED = re.compile(r"(?<=\s)\\$")
_NOT_A_NUMBER = re.compile(r"\s*(?:[^\d\s]|$)")


class Line(NamedTuple):
    """One line: its number in the text, from 1, and what it says."""

    number: int
    text: str


def narrow(data: bytes) -> str:
    """Text of bytes: UTF-8, but for the lines that are none, as of mails and pages in Windows-1252.

    Their blanks that do not break are bytes that UTF-8 has no place for.
    """
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "".join(map(_narrow_line, data.splitlines(keepends=True)))


def _narrow_line(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return line.decode("cp1252", "replace")


def _split(text: str) -> Iterator[tuple[int, str]]:
    yield from enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1)


def _unfold(lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Quoted-printable, decoded; a line that was folded has the number of its first part."""
    first, parts = 0, ""
    for number, line in lines:
        first = first or number
        line = line.rstrip(" ")
        if line.endswith("=") and len(parts) < MAX_LINE_CHARACTERS:
            parts += line[:-1]
            continue
        yield first, narrow(quopri.decodestring((parts + line).encode("utf-8", "replace")))
        first, parts = 0, ""
    if parts:
        yield first, narrow(quopri.decodestring(parts.encode("utf-8", "replace")))


def _from_html(lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    for number, line in lines:
        for part in _BREAK.sub("\n", line).removesuffix("\n").split("\n"):
            yield number, _TAG.sub("", _CELL.sub("  ", part))


def _most(lines: Sequence[Line], pattern: re.Pattern[str]) -> bool:
    """Whether four in five of the lines that say anything begin with the pattern."""
    filled = [line.text for line in lines if line.text.strip()]
    return len(filled) > 1 and sum(1 for text in filled if pattern.match(text)) * 5 >= len(filled) * 4


def _unquoted(lines: Sequence[Line], mark: re.Pattern[str] = _QUOTE) -> list[Line]:
    """One quote mark off every line that has a quoted neighbour: a mark alone may be the rest of a C++ name."""
    quoted = [mark.match(text) is not None for _, text in lines]
    near = [before or after for before, after in zip([False, *quoted], [*quoted[1:], False], strict=False)]
    return [
        Line(line.number, mark.sub("", line.text, count=1)) if mine and beside else line
        for line, mine, beside in zip(lines, quoted, near, strict=True)
    ]


def _numbered(lines: Sequence[Line]) -> bool:
    """Whether lines begin with their numbers: going up by one, also before what is no number itself."""
    found = [(int(match[1]), text[match.end() :]) for _, text in lines if (match := _NUMBER.match(text))]
    steps = sum(1 for (first, _), (second, _) in pairwise(found) if second - first == 1)
    return steps * 5 >= max(1, len(found) - 1) * 4 and any(_NOT_A_NUMBER.match(rest) for _, rest in found)


def _counted(lines: Sequence[Line]) -> bool:
    """Whether lines begin with their numbers and a space, headers too."""
    found = [(int(match[1]), text[match.end() :]) for _, text in lines if (match := _SPACED.match(text))]
    steps = sum(1 for (first, _), (second, _) in pairwise(found) if second - first == 1)
    return steps * 5 >= (len(found) - 1) * 4 and any(_HEADER.match(rest) for _, rest in found)


def _without(lines: Sequence[Line], pattern: re.Pattern[str]) -> list[Line]:
    return [Line(number, pattern.sub("", text, count=1) if pattern.match(text) else text) for number, text in lines]


def _joined(match: re.Match[str]) -> str:
    return re.sub(r"\D", "", match.group())


def clean_lines(text: str, blanks: bool = False) -> tuple[list[Line], list[int]]:
    """The lines of a text, without quote marks, line numbers, entities, escapes and exotic spaces.

    blanks: with those at their ends.  Also gives the numbers of the lines that are longer than any of perf's, which
    are left out.
    """
    raw = _split(text)
    if "=3D=3D=3D=3D" in text or len(_FOLDED.findall(text, 0, _SAMPLE)) > 2:
        raw = _unfold(raw)
    if _HTML.search(text):
        raw = _from_html(raw)
    lines: list[Line] = []
    too_long: list[int] = []
    for number, line in raw:
        if len(line) > MAX_LINE_CHARACTERS:
            # Blanks at its end are a terminal's or an editor's.
            line = line.rstrip()
        if len(line) > MAX_LINE_CHARACTERS:
            too_long.append(number)
            continue
        if "&" in line:
            line = html.unescape(line)
        if "\x1b" in line:
            line = _ESCAPE.sub("", line)
        if not line.isascii():
            line = _GROUPS.sub(_joined, line)
            line = _HARD_GROUPS.sub(_joined, line) if " " in line else line
        lines.append(Line(number, _PERCENT.sub(r"\1%", line) if " %" in line or "\u00a0%" in line else line))
    for _ in range(_MAX_QUOTES):
        unquoted = _unquoted(lines)
        if unquoted == lines:
            break
        lines = unquoted
    lines = _unquoted(lines, _ADDED)
    if _most(lines, _NAMED_QUOTE):
        lines = _without(lines, _NAMED_QUOTE)
    for _ in range(2):
        if _numbered(lines):
            lines = _without(lines, _NUMBER)
    if _most(lines, _SPACED) and _counted(lines):
        lines = _without(lines, _SPACED)
    plain = [(number, line.translate(_TRANSLATION)) for number, line in lines]
    return [Line(number, _WRAPPED.sub("", line if blanks else line.rstrip())) for number, line in plain], too_long
