# SPDX-License-Identifier: GPL-2.0-or-later
"""Other ways to read a text: what programs that pass texts on put before each line, between cells, or into numbers.

None of these is perf's.  Each is tried, and kept only if more of a report can be read that way.
"""

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

from lockline.c2c.text_cells import in_order
from lockline.c2c.text_lines import Line

# What is always there, and begins its line in a text of perf.
_ANCHOR = re.compile(
    r"={20,}|Trace Event Information|Global Shared Cache Line Event|Shared Data Cache Line Table|Shared Cache Line Dist"
    r"|#? *Index +(?:Address|Cacheline)\b|#? *Num +(?:Rmt|Lcl|Hit)"
)
_TOKEN = re.compile(r"\d+|\s+|.")
# A line's prefix, as of logs: no longer than this.
_MAX_PREFIX = 200
_MOST = 0.8
# A terminal's width, and so many lines that it broke.
_NARROWEST = 60
_FOLDS = 3
# What is the rest of no line: a row of offsets, a header, a rule.  The line before it just happens to be as wide.
_RULE = re.compile(r"\s*[-=]{20,}\s*$")
_BEGINS = re.compile(r"\s*(?:\d{1,3}(?:\.\d+)?%\s+){2}|#|\s*[-=]{20}")
# So many cells make a row of a table.
_CELLS = 5
_NODES = re.compile(r"\d{1,4}(?:\{[^{}]*\})?(?:\s+\d{1,4}(?:\{[^{}]*\})?)*")
_NODE = re.compile(r"(\d{1,4})(?:\{[^{}]*\})?")
_ENDS = ("$", "\u00b6", "\u21b5", "\u23ce")
_BAR = re.compile("[|\u2502\u2503\u2551]")
_BARS = str.maketrans({"|": " ", "\u2502": " ", "\u2503": " ", "\u2551": " "})
# Longer rows are of nobody.
_LONGEST_ROW = 2000
_CELL = re.compile(r"[,;](?![^{}]*\})")
_THOUSANDS = re.compile(r"(?<![\d,.{-])\d{1,3}(?:,\d{3})+(?![\d,}-])")
# The same of other locales; perf itself prints a point in percentages alone.
_OTHER_THOUSANDS = re.compile(r"(?<![\w,.'\u2019{:-])\d{1,3}(?:([.'\u2019])\d{3})(?:\1\d{3})*(?![\w,.'\u2019}%:-])")
_DECIMAL = re.compile(r"(?<!\d)(\d{1,3}),(\d{1,6}%)")
_ESCAPED = {"\\n": "\n", "\\t": "\t", '\\"': '"', "\\\\": "\\"}


def _without_prefix(lines: Sequence[Line]) -> list[Line]:
    """Without what stands before every line: a time and a name, as in a log, or the mark of a comment."""
    for _, text in lines:
        match = _ANCHOR.search(text, 0, _MAX_PREFIX)
        before = text[: match.start()].rstrip(" #") if match else ""
        if not before.strip() and match:
            # The mark of a comment may be perf's own one.
            before = text[: match.start()].rstrip() and "#"
        if not before.strip():
            continue
        # The same but for numbers, and for the spaces that make up for their widths.
        pattern = re.compile("".join(map(_like, _TOKEN.findall(before))) + r" ?")
        filled = [text for _, text in lines if text.strip()]
        if sum(1 for text in filled if pattern.match(text)) >= _MOST * len(filled):
            return [Line(number, pattern.sub("", text, count=1)) for number, text in lines]
    return list(lines)


def _like(token: str) -> str:
    return r"\d+" if token.isdecimal() else r" *" if token.isspace() else re.escape(token)


def _without_ends(lines: Sequence[Line]) -> list[Line]:
    """Without the mark that editors and `cat -A` show at the end of every line."""
    filled = [text for _, text in lines if text.strip()]
    if sum(1 for text in filled if text.endswith(_ENDS)) < _MOST * len(filled):
        return list(lines)
    return [Line(number, text[:-1].rstrip() if text.endswith(_ENDS) else text) for number, text in lines]


def _cells(lines: Sequence[Line]) -> list[Line]:
    """Cells as perf sets them apart: by spaces."""
    return [Line(line.number, line.text.translate(_BARS)) if _BAR.search(line.text) else line for line in lines]


def _separated(lines: Sequence[Line]) -> list[Line]:
    """The same for commas and semicolons; not those within a list of CPUs."""
    found = []
    for line in lines:
        number, text = line
        many = text.count(",") + text.count(";") >= _CELLS and len(text) < _LONGEST_ROW
        found.append(Line(number, _CELL.sub("  ", text)) if many else line)
    return found


def _plain_numbers(lines: Sequence[Line]) -> list[Line]:
    """Numbers as perf prints them: 1500 for 1,500 and 1.500 and 1'500, and 12.50% for 12,50%."""
    found = []
    for line in lines:
        number, text = line
        if "," in text:
            text = _THOUSANDS.sub(lambda match: match.group().replace(",", ""), _DECIMAL.sub(r"\1.\2", text))
        text = _OTHER_THOUSANDS.sub(lambda match: match.group().replace(match[1], ""), text)
        found.append(Line(number, text) if text is not line.text else line)
    return found


_SIGNS = re.compile(r"hitm|peer|cache ?line", re.IGNORECASE)


def of_perf(lines: Sequence[Line]) -> bool:
    """Whether any word of perf c2c is in it at all."""
    return any(_SIGNS.search(text) for _, text in lines)


def _are_nodes(text: str) -> bool:
    """Whether a line is a row's last column, the nodes, which perf lists in order.

    A terminal leaves the blanks before a column; a mail program that wraps lines between words takes them away.
    """
    if not _NODES.fullmatch(text):
        return False
    return all(int(one) < int(other) for one, other in pairwise(_NODE.findall(text)))


def unfolded(lines: Sequence[Line]) -> list[Line]:
    """Lines as they were before a terminal broke them at its width, in the midst of words; the same if it has not.

    Its width is that of several lines, and none is wider; behind one of them at least a word goes on.
    """
    width = max((len(text) for _, text in lines), default=0)
    full = [index for index, (_, text) in enumerate(lines) if len(text) == width]
    rests = [lines[index + 1].text for index in full if index + 1 < len(lines)]
    in_words = any(text[:1].strip() for text in rests)
    # All of one width are filled up with blanks: what was broken has a rest.
    if width < _NARROWEST or not _FOLDS <= len(full) < len(lines) or not in_words or all(map(_are_nodes, rests)):
        return list(lines)
    found: list[Line] = []
    goes_on = False
    for line in lines:
        if goes_on and not _BEGINS.match(line.text):
            found[-1] = Line(found[-1].number, found[-1].text + line.text)
        else:
            found.append(line)
        goes_on = len(line.text) == width and not _RULE.match(line.text)
    return found


READINGS: tuple[Callable[[Sequence[Line]], list[Line]], ...] = (
    *(_without_prefix, _without_ends, _cells, _separated, _plain_numbers, in_order),
)


# As of a container's log: each line is an object of JSON, with the text in one member.
_LOGGED = re.compile(r'\{[^{}\n]*?"(?:log|message|msg|text)" ?: ?"((?:[^"\\\n]|\\.)*)"[^\n]*')
# As syslog writes what ends a line and what sets columns apart.
_SYSLOG = {"#012": "\n", "#011": "\t"}


def _logged(text: str) -> str:
    """The text of a log whose lines are objects of JSON."""
    lines = text.splitlines()
    found = [_LOGGED.fullmatch(line.strip()) for line in lines]
    if sum(match is not None for match in found) < _MOST * len(lines):
        return text
    return "\n".join(match[1].removesuffix("\\n") if match else line for line, match in zip(lines, found, strict=True))


# As of a notebook: each line is a string of a list.
_LISTED = re.compile(r'\s*\[?\s*"((?:[^"\\\n]|\\.)*)"\s*,?\s*\]?,?\s*')


def _listed(text: str) -> str:
    """The text of a list of strings, one on each line; what stands around the list stays."""
    lines = text.split("\n")
    found = [_LISTED.fullmatch(line) for line in lines]
    # Not of any list: of one that has a text of perf.
    if not any(match and _SIGNS.search(match[1]) for match in found):
        return text
    strings = (match[1].removesuffix("\\n") if match else line for line, match in zip(lines, found, strict=True))
    return re.sub(r"\\(?:u[0-9a-fA-F]{4}|.)", _character, "\n".join(strings))


def unescaped(text: str) -> str:
    """A text that is a string of JSON or of a program, or a log's, as it was before."""
    if text.lstrip()[:1] == "{" and text.count("\n") > 2:
        logged = _logged(text)
        if logged is not text:
            return re.sub(r"\\(?:u[0-9a-fA-F]{4}|.)", _character, logged)
    if text.count("#012") > 2 * text.count("\n"):
        return re.sub("#01[12]", lambda match: _SYSLOG[match.group()], text)
    if text.count('"\n') + text.count('",\n') > _FOLDS:
        listed = _listed(text)
        if listed is not text:
            return listed
    if text.count("\\n") <= text.count("\n"):
        return text
    return re.sub(r"\\[nt\"\\]", lambda match: _ESCAPED[match.group()], text)


def _character(match: re.Match[str]) -> str:
    """One character of a string of JSON."""
    escaped = match.group()
    if len(escaped) == 6:
        return chr(int(escaped[2:], 16))
    return _ESCAPED.get(escaped, {"\\r": "\r", "\\/": "/"}.get(escaped, escaped))
