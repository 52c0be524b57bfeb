# SPDX-License-Identifier: GPL-2.0-or-later
"""Texts as pagers, terminals, chats, trackers and editors leave them: no figure is lost or changed."""

import random
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
