# SPDX-License-Identifier: GPL-2.0-or-later
"""Texts of perf c2c after mail, terminals and web pages had them: the same figures, or fewer, never more."""

import html
import json
import quopri
import re
from collections.abc import Callable
from contextlib import suppress
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from c2c import report_text
from c2c.known_report import HITM_STYLES, REPORT, STYLES, of_line, total
from c2c.report_text import Line, Offset, Report, Style
from lockline.c2c.text_import import memory_tables
from lockline.c2c.text_parse import C2cText, TextImportError, parse


def _each(change: Callable[[str], str]) -> Callable[[str], str]:
    return lambda text: "\n".join(change(line) for line in text.split("\n"))


def _wrapped(width: int) -> Callable[[str], str]:
    def wrap(line: str) -> str:
        parts = []
        while len(line) > width:
            at = line.rfind(" ", 0, width + 1)
            if at <= 0 or not line[:at].strip():
                at = line.find(" ", width)
            if at < 0:
                break
            parts.append(line[:at])
            line = line[at + 1 :]
        return "\n".join([*parts, line])

    return _each(wrap)


def _broken(width: int) -> Callable[[str], str]:
    """As copied from a terminal that goes on in its next line, in the midst of a word or not."""

    def parts(line: str) -> str:
        return "\n".join(line[at : at + width].rstrip() for at in range(0, max(1, len(line)), width))

    return _each(parts)


def _numbered(text: str) -> str:
    return "\n".join(f"{number:6}\t{line}" for number, line in enumerate(text.split("\n"), 1))


MANGLED: dict[str, Callable[[str], str]] = {
    "quoted": _each(lambda line: "> " + line),
    "quoted twice": _each(lambda line: ">> " + line),
    "quoted with initials": _each(lambda line: "JM> " + line),
    "added by a patch": _each(lambda line: "+" + line),
    "a patch, quoted": _each(lambda line: "> > +" + line),
    "CRLF": lambda text: text.replace("\n", "\r\n"),
    "CR": lambda text: text.replace("\n", "\r"),
    "no-break spaces": lambda text: text.replace(" ", "\xa0"),
    "entities": lambda text: f"<pre>{html.escape(text).replace(' ', '&nbsp;')}</pre>",
    "breaks": lambda text: html.escape(text).replace("\n", "<br>\n"),
    "tabs": lambda text: re.sub(" {2,}", "\t", text),
    "single spaces": lambda text: re.sub(" {2,}", " ", text),
    "no indentation": _each(str.strip),
    "indented": _each(lambda line: "    " + line),
    "numbered": _numbered,
    "numbered with spaces": lambda text: "\n".join(f"{n:4}  {line}" for n, line in enumerate(text.split("\n"), 67)),
    "quoted-printable": lambda text: quopri.encodestring(text.encode()).decode(),
    "colours": lambda text: text.replace("%", "%\x1b[m").replace("  0x", "  \x1b[31m0x"),
    "in a log": _each(lambda line: "2024-03-05T10:11:12Z host app[12]: " + line),
    "in the kernel's log": lambda text: "\n".join(
        f"[{n * 0.37:12.6f}] {line}" for n, line in enumerate(text.split("\n"), 20)
    ),
    "in a comment": lambda text: "/*\n" + _each(lambda line: " * " + line)(text) + "\n */",
    "behind slashes": _each(lambda line: "// " + line),
    "behind hashes": _each(lambda line: "# " + line),
    "behind bars": _each(lambda line: "| " + line),
    "in a box": _each(lambda line: f"\u2502 {line} \u2502"),
    "with ends that show": _each(lambda line: line + "$"),
    "in JSON": lambda text: json.dumps({"report": text}),
    "in a list of JSON": lambda text: json.dumps(text.splitlines(), indent=1),
    "in a notebook": lambda text: json.dumps(
        {"cells": [{"outputs": [{"name": "stdout", "text": text.splitlines(keepends=True)}], "source": ["!perf\n"]}]},
        indent=1,
    ),
    "decimal commas": lambda text: re.sub(r"(\d)\.(\d\d%)", r"\1,\2", text),
    "in prose": lambda text: f"Hello,\nthis is 100% reproducible:\n\n{text}\nWhat do you think of 0x10?\n",
    **{f"wrapped at {width}": _wrapped(width) for width in (60, 72, 80, 132)},
    "wrapped and quoted": lambda text: _each(lambda line: "> " + line)(_wrapped(72)(text)),
}


def contents(parsed: C2cText) -> object:
    """All that a text gives but for line numbers and notes."""
    memory = memory_tables(parsed, "text")
    return memory.lines, memory.accesses, memory.codes, memory.threads, parsed.counts, len(memory.problems)


# A command with a space ends where the gap before the next column was, unless that is an address.
CASES = [
    (how, style) for how in MANGLED for style in STYLES if not (how == "single spaces" and style.tid and not style.code)
]


@cache
def whole(style: Style) -> tuple[str, C2cText, object]:
    """A text as perf wrote it, as it is read, and what it gives: the same for all ways to mangle it."""
    text = report_text.text(REPORT, style)
    parsed = parse(text)
    return text, parsed, contents(parsed)


@pytest.mark.parametrize("how, style", CASES, ids=str)
def test_mangled_texts_read_the_same(how: str, style: Style) -> None:
    text, _, expected = whole(style)
    assert contents(parse(MANGLED[how](text))) == expected


def figures(parsed: C2cText) -> list[tuple[int | None, ...]]:
    """What each row counts, without the names of its code and tasks."""
    return sorted(
        (one.line, one.offset, one.remote_hitm or 0, one.local_hitm or 0, one.stores or 0, one.store_l1_miss or 0)
        for one in memory_tables(parsed, "text").accesses
    )


@pytest.mark.parametrize("width", [80, 100, 120, 132, 160])
@pytest.mark.parametrize("style", STYLES, ids=str)
def test_a_terminal_that_breaks_lines_loses_no_figure(style: Style, width: int) -> None:
    """A name may keep the gap; a column that was broken in its header does not lose its figures."""
    text, parsed, _ = whole(style)
    assert figures(parse(_broken(width)(text))) == figures(parsed)


def names(parsed: C2cText) -> list[tuple[str, ...]]:
    """What each row says of its code, and where it ran."""
    return [(row.symbol, row.object, row.source, row.nodes) for line in parsed.details for row in line.rows]


@pytest.mark.parametrize("width", [90, 117, 128, 168, 185, 196, 212])
@pytest.mark.parametrize("style", STYLES, ids=str)
def test_a_name_is_whole_where_a_terminal_broke_it(style: Style, width: int) -> None:
    """A row that is broken within a name is read either way; with the blanks at ends it is known how it was."""
    text, parsed, _ = whole(style)
    broken = "\n".join(line[at : at + width] for line in text.split("\n") for at in range(0, max(1, len(line)), width))
    read = parse(broken)
    assert figures(read) == figures(parsed)
    assert names(read) == names(parsed)


def test_nodes_that_mail_wrapped_are_not_glued_to_the_source() -> None:
    """Rows of one width, of which the last column alone went into the next line: no terminal broke them."""
    text, *_ = whole(Style("6.1"))
    found = [re.fullmatch(r"(.*?\S) {2,}(\d+(?: +\d+)*) *", line) for line in text.split("\n") if " [" in line]
    rows = [match for match in found if match]
    width = max(map(len, text.split("\n"))) + 1
    broken = text
    for match in rows:
        # Sources that are longer than their column's header.
        broken = broken.replace(match[0], match[1].ljust(width, "7") + "\n0  1")
    read = parse(broken)
    assert [row.nodes for line in read.details for row in line.rows] == ["0 1"] * len(rows)


OFFSETS = st.builds(
    Offset,
    offset=st.sampled_from(range(0, 64, 4)),
    code=st.integers(1, (1 << 64) - 1),
    remote=st.integers(0, 300),
    local=st.integers(0, 20_000),
    store_hit=st.integers(0, 2000),
    store_miss=st.integers(0, 50),
    loads=st.integers(20_300, 40_000),
    symbol=st.sampled_from(["main", "std::vector<int, A<B> >::at", "operator<< <char, int>", "_ZN1a1bEv"]),
)
REPORTS = st.lists(st.lists(OFFSETS, min_size=1, max_size=5), min_size=1, max_size=4).map(
    lambda lines: Report(tuple(Line(0x1000 + 64 * i, tuple(offsets)) for i, offsets in enumerate(lines)))
)


def not_beyond(parsed: C2cText, report: Report) -> None:
    """No count of a line is above what the report has of it."""
    memory = memory_tables(parsed, "text")
    for line in report.lines:
        accesses = of_line(memory, line.address)
        for name, most in (
            ("loads", line.loads),
            ("remote_hitm", line.total("remote")),
            ("local_hitm", line.total("local")),
            ("store_l1_hit", line.total("store_hit")),
        ):
            assert (total(accesses, name) or 0) <= most


@given(REPORTS, st.sampled_from(HITM_STYLES[:9]))
@settings(deadline=None, max_examples=60)
def test_counts_of_any_report(report: Report, style: Style) -> None:
    parsed = parse(report_text.text(report, style))
    memory = memory_tables(parsed, "text")
    for line in report.lines:
        accesses = of_line(memory, line.address)
        assert total(accesses, "local_hitm") == line.total("local")
        assert total(accesses, "remote_hitm") == line.total("remote")
        assert total(accesses, "loads") == line.loads
    not_beyond(parsed, report)


@given(
    REPORTS,
    st.sampled_from(HITM_STYLES[:9]),
    st.sampled_from(sorted(MANGLED)),
    st.sampled_from(["begin", "end", "columns", "lines"]),
    st.randoms(use_true_random=False),
)
@settings(deadline=None, max_examples=150)
def test_cut_texts_never_count_more(report: Report, style: Style, how: str, cut: str, random: object) -> None:
    text = report_text.text(report, style)
    lines = text.split("\n")
    pick = getattr(random, "randrange")  # noqa: B009 - hypothesis's own Random
    if cut == "begin":
        text = text[pick(len(text)) :]
    elif cut == "end":
        text = text[: pick(len(text))]
    elif cut == "columns":
        width = pick(20, 220)
        text = "\n".join(line[:width] for line in lines)
    else:
        text = "\n".join(line for line in lines if pick(10))
    try:
        parsed = parse(MANGLED[how](text))
    except TextImportError:
        return
    not_beyond(parsed, report)


@given(st.lists(st.sampled_from(report_text.text(REPORT, Style(tid=True)).split("\n")) | st.text(max_size=80)))
@settings(deadline=None)
def test_any_text_is_read_or_refused(lines: list[str]) -> None:
    with suppress(TextImportError):
        memory = memory_tables(parse("\n".join(lines)), "text")
        assert all(access.offset >= -1 for access in memory.accesses)
