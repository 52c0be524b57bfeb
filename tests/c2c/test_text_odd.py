# SPDX-License-Identifier: GPL-2.0-or-later
"""Texts as pagers, terminals, chats, trackers and editors leave them: no figure is lost or changed."""

import random
import re
from pathlib import Path

import pytest

from c2c import report_text
from c2c.report_text import Line, Offset, Report, Style
from lab.odd_texts import CODES, ODD, TABLES
from lockline.base.errors import LocklineError
from lockline.c2c.text_import import import_text, read_text
from lockline.c2c.text_parse import C2cText, parse

STYLE = Style("6.1", tid=True, node_info=2)
REPORT = Report(
    (
        Line(
            0xFFFF888100000040,
            (
                Offset(0, 0xFFFFFFFF81001020, 1200, 34567, 1111, 22, 0, 1234567, (310, 95, 41), (0, 1, 5), "own_slot"),
                Offset(8, 0xFFFFFFFF81001060, 0, 2000, 0, 0, 0, 4321, (0, 1048, 77), (2,), "__read_it"),
                Offset(56, 0xFFFFFFFF81001080, 0, 0, 98765, 1, 0, 0, (0, 0, 0), (9,), "a::b<int, c>"),
            ),
            fill_buffer=1357,
        ),
        Line(0xFFFF888100000080, (Offset(16, 0xFFFFFFFF81001090, 3, 4, 5, 6, 0, 78, (1, 2, 3), (3,), "other_one"),)),
    )
)
TEXT = report_text.text(REPORT, STYLE)


def figures(read: C2cText) -> list[object]:
    """All that a report says, without the numbers of its lines."""
    rows = [
        (
            *(detail.address, dict(detail.totals), row.offset, dict(row.percents), row.tid, row.code, dict(row.cycles)),
            *(row.records, row.cpu_count, row.symbol, row.object, row.source, row.cpus),
        )
        for detail in read.details
        for row in detail.rows
    ]
    table = [(row.address, dict(row.counts)) for row in read.table]
    return [dict(read.counts), table, rows]


WANTED = figures(parse(TEXT))


def test_the_text_itself_is_read_whole() -> None:
    assert [len(detail.rows) for detail in parse(TEXT).details] == [3, 1]
    assert not parse(TEXT).problems


@pytest.mark.parametrize("how", ODD)
def test_no_figure_is_lost(how: str) -> None:
    assert figures(parse(ODD[how](TEXT, random.Random(1)))) == WANTED


@pytest.mark.parametrize("how", CODES)
def test_a_text_in_another_code_is_read(how: str, tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(TEXT.encode(CODES[how]))
    assert figures(parse(read_text(path))) == WANTED


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("how", TABLES)
def test_columns_in_another_order_are_known_by_their_names(how: str, seed: int) -> None:
    """Without totals, shares stay shares: no count is made of them."""
    read = parse(TABLES[how](REPORT, STYLE, random.Random(seed)))
    wanted = [(address, {}, *rest) for address, _, *rest in WANTED[2]]  # type: ignore[attr-defined]
    assert figures(read) == [{}, [], wanted]


@pytest.mark.parametrize("style", [Style("6.1", peer=True), Style("5.4", pid=True)])
def test_a_side_whose_group_stands_before_it_is_known(style: Style) -> None:
    """The words of a group stand over its first column alone: the one behind it is called Lcl, of HITM or of peers."""
    read = parse(TABLES["Markdown table"](REPORT, style, random.Random(3)))
    assert not read.problems
    shares = "local_peer" if style.peer else "local_hitm"
    rows = [row for detail in read.details for row in detail.rows]
    assert len(rows) == 4
    assert sum(row.percents[shares].value > 0 for row in rows) == 3


def test_two_reports_are_two() -> None:
    read = parse(ODD["two reports"](TEXT, random.Random(1)))
    assert (read.reports, read.report) == (2, 1)
    assert any("--report" in note for note in read.notes)


@pytest.mark.parametrize("content", [bytes(range(256)) * 64, b"\0" * 4096, b"Index\0Address" * 900])
def test_what_is_no_text_is_refused_in_one_line(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(content)
    with pytest.raises(LocklineError) as refused:
        import_text(path, tmp_path / "recording")
    assert "\n" not in str(refused.value)


def test_a_table_with_two_columns_of_one_name_is_not_guessed_at() -> None:
    text = "| Offset | LclHitm | LclHitm | RmtHitm | Symbol |\n| --- | --- | --- | --- | --- |\n"
    text += "| 0x8 | 50.0% | 20.0% | 1.0% | f |\n"
    with pytest.raises(LocklineError):
        parse(text)


def test_a_wrapped_row_that_ends_within_a_list_of_cpus_keeps_its_figures() -> None:
    """Nodes that mail has wrapped, and the text ends in them: the row stays, and the report says what is missing."""
    lines = TEXT.split("\n")
    at = next(i for i, line in enumerate(lines) if "own_slot" in line)
    cut = "\n".join([*lines[: at + 1], "  1{8-9}  2{10,1"])
    read = parse(cut)
    assert [row.symbol for row in read.details[0].rows] == ["own_slot"]
    assert read.problems


def _in_its_column(text: str, parts: slice = slice(None)) -> None:
    """Every figure that is read stands where the whole text has it; and if one of these parts is lost, that is said."""
    try:
        read = parse(text)
    except LocklineError:
        return
    whole = parse(TEXT)
    rows = {row.code: row for detail in whole.details for row in detail.rows}
    totals = {detail.address: dict(detail.totals) for detail in whole.details}
    table = {row.address: dict(row.counts) for row in whole.table}
    known = {row.address: {name for name in row.counts if name[0] != "?"} for row in read.table}
    assert all(row.counts[name] == table[row.address][name] for row in read.table for name in known[row.address])
    assert all(dict(whole.counts)[name] == value for name, value in read.counts.items())
    for detail in read.details:
        if detail.address >= 0:
            shown = {name: value for name, value in detail.totals.items() if name[0] != "?"}
            assert shown.items() <= totals[detail.address].items()
        for row in detail.rows:
            if row.code is None:
                continue
            there = rows[row.code]
            shares = {name: share for name, share in row.percents.items() if name[0] != "?"}
            assert shares.items() <= dict(there.percents).items()
            assert row.cycles.items() <= dict(there.cycles).items()
            assert row.records in (None, there.records)
            assert row.cpu_count in (None, there.cpu_count)
    assert read.problems or figures(read)[parts] == WANTED[parts]


@pytest.mark.parametrize("width", range(6, 60))
def test_what_is_cut_at_its_left_is_not_read_as_something_else(width: int) -> None:
    """The rows alone, as marked in a terminal by columns: a percentage loses digits, then its column is gone."""
    rows = TEXT[TEXT.index("Shared Cache Line Distribution") :]
    # A column that is gone with its name is one that was left out.
    _in_its_column("\n".join(line[width:] for line in rows.split("\n")), slice(0))


@pytest.mark.parametrize("width", range(36, 50))
def test_a_count_that_is_cut_at_its_right_is_none(width: int) -> None:
    _in_its_column("\n".join(line[:width] for line in TEXT.split("\n")))


@pytest.mark.parametrize("field", range(2, 20))
def test_a_value_that_is_missing_within_a_row_does_not_move_the_others(field: int) -> None:
    """As a reader of pictures loses one: the rows of the first table have all the same one value less."""
    lines = []
    for line in TEXT.split("\n"):
        words = list(re.finditer(r"\S+", line))
        first = len(words) > field + 2 and "0x" in line and "%" in line and not line.lstrip().startswith("#")
        if first and "[k]" not in line:
            line = line[: words[field].start()] + line[words[field].end() :]
        lines.append(line)
    _in_its_column("\n".join(lines))


@pytest.mark.parametrize(("name", "left"), [(" L1 Hit", "    Hit"), ("L1 Miss", "   Miss"), ("    load", "        ")])
def test_a_name_that_a_header_has_lost_is_no_other_column(name: str, left: str) -> None:
    assert name in TEXT
    _in_its_column(TEXT.replace(name, left))


def test_rows_alone_with_single_spaces_between_their_names() -> None:
    """As a sentence quotes them: the kernel's object in brackets tells the symbol from the source."""
    place, names = "0   1  0xffffffff812a1b", "[kernel.kallsyms] foo"
    text = "\n".join(
        (
            "line 0xffffffff8329a1c0 is the worst, with these rows:",
            f"62.10%  60.00%   0.00%   0.00%  0x8   {place}3c  2100 1800 700  4100 88 [k] get_it {names}.h:12  0 1",
            f"37.90%  40.00% 100.00% 100.00%  0x20  {place}7c  2100 1800 700  3100  4 [k] change_it {names}.c:90  0 1",
        )
    )
    (detail,) = parse(text).details
    assert [(row.offset, row.symbol, row.source, row.records, row.nodes) for row in detail.rows] == [
        (0x8, "get_it", "foo.h:12", 4100, "0 1"),
        (0x20, "change_it", "foo.c:90", 3100, "0 1"),
    ]
    assert parse(text).problems
