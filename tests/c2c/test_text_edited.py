# SPDX-License-Identifier: GPL-2.0-or-later
"""Texts whose tables people have edited, or that other programs or other displays of perf have made."""

import quopri
import re
import textwrap
from pathlib import Path

import pytest

from c2c import report_text
from c2c.known_report import REPORT, of_line, tables, total
from c2c.report_text import Line, Offset, Report, Style
from lockline.c2c.text_import import read_text
from lockline.c2c.text_parse import TextImportError, parse
from lockline.cli.main import main
from lockline.recording.memory_rows import C2C_CONTRADICTED

ADDRESS = 0xFFFF888104C3D080
STACKED = """\
 Rmt      Lcl     Store   Data    Load    Total    Symbol
Hitm%    Hitm%   L1 Hit%  offset  cycles  records
-------  -------  ------  ------  ------  ------  ---------
 120      380      900    0xffff888104c3d080
-------  -------  ------  ------  ------  ------  ---------
 0.00%    0.00%  100.00%  0x8     800     950    bump_seq
75.00%   80.00%    0.00%  0x20    1100    2900   get_conf
25.00%   20.00%    0.00%  0x28    1200    900    [k] get_mask
"""
FEW_COLUMNS = """\
  RmtHitm  LclHitm   L1 Hit   Offset   Symbol
  -----------------------------------
      120      380      900   0xffff888104c3d080
  -----------------------------------
    0.00%    0.00%  100.00%      0x8   [k] bump_seq
   75.00%   80.00%    0.00%     0x20   get_conf
   25.00%   20.00%    0.00%     0x28   get_mask
"""


@pytest.mark.parametrize("text", [STACKED, FEW_COLUMNS], ids=["names in two lines", "few columns"])
def test_columns_that_people_left_out(text: str) -> None:
    memory = tables(text)
    assert not memory.problems
    assert [line.address for line in memory.lines] == [ADDRESS]
    found = {access.offset: access for access in memory.accesses}
    assert {offset: (access.remote_hitm, access.local_hitm) for offset, access in found.items()} == {
        0x8: (0, 0),
        0x20: (90, 304),
        0x28: (30, 76),
    }
    assert [access.store_l1_hit for access in memory.accesses] == [900, 0, 0]
    assert {code.symbol for code in memory.codes} == {"bump_seq", "get_conf", "get_mask"}


def test_lines_whose_figures_contradict_each_other() -> None:
    assert C2C_CONTRADICTED not in tables(STACKED).meta
    # No whole number of 120 is 74 %: that is half a sample.
    assert C2C_CONTRADICTED not in tables(STACKED.replace("75.00%", "74.00%")).meta
    wrong = STACKED.replace("25.00%   20.00%", "25.00%   30.00%")
    memory = tables(STACKED + "\nThe next line:\n" + wrong.replace("3d080", "3d0c0"))
    assert memory.meta[C2C_CONTRADICTED] == "2"
    assert [problem for *_, problem in memory.problems if "add up to 110.00 %" in problem]


def test_two_edited_tables_are_two_lines() -> None:
    memory = tables(STACKED + "\nThe next line:\n" + STACKED.replace("3d080", "3d0c0"))
    assert [line.address for line in memory.lines] == [ADDRESS, ADDRESS + 64]
    assert len(memory.accesses) == 6


def test_a_table_of_the_browser_with_few_columns() -> None:
    memory = tables(
        "Cacheline 0x7fff1dede640\n----- HITM -----                cpu\n    Rmt      Lcl       Off      cnt\n"
        "  0.00%   59.20%       0x0        4  (one thread)\n  0.00%   40.80%       0x0        3\n"
    )
    assert [(access.offset, access.cpu_count) for access in memory.accesses] == [(0, 4)]


def test_a_line_without_anything_is_none() -> None:
    with pytest.raises(TextImportError, match="an offset without its line or its header"):
        parse("Cacheline 0x7fff1dede640\n  0.00%   59.20%       0x0        4\n")


# As it was proposed, and never was in perf: HITM and peer snoops in one table.
BOTH = """\
#        ----------- Cacheline ----------    Snoop  ------- Load Hitm -------    Snoop    Total    Total    Total  \
--------- Stores --------  ----- Core Load Hit -----  - LLC Load Hit --  - RMT Load Hit --  --- Load Dram ----
# Index             Address  Node  PA cnt     Peer    Total  LclHitm  RmtHitm     Peer  records    Loads   Stores  \
  L1Hit   L1Miss   Anylvl       FB       L1       L2    LclHit  LclHitm    RmtHit  RmtHitm       Lcl       Rmt
#
      0      0xaaaac17d6000   N/A       0  100.00%        0        0        0       80     9080     9080        0  \
      0        0        0        0     9000        0         0        0         0        0         0         0
"""
ROWS_OF_BOTH = """\
  -------------------------------------------------------------------------------
      0        0        0       80        0        0        0      0xaaaac17d6000
  -------------------------------------------------------------------------------
    0.00%    0.00%   10.00%    0.00%    0.00%    0.00%   0x20   N/A       0      0xaaaac17c25ac         0         0\
        43       375     9000         2  [.] 0x00000000000025ac  stress         stress[25ac]   0
    0.00%    0.00%   90.00%    0.00%    0.00%    0.00%   0x29   N/A       0      0xaaaac17c3e88         0         0\
       173       180       80         2  [.] 0x0000000000003e88  stress         stress[3e88]   0
"""


def test_a_table_of_hitm_and_of_peers() -> None:
    memory = tables(BOTH)
    assert not memory.problems
    assert total(memory.accesses, "local_peer") == 80
    assert total(memory.accesses, "loads") == 9080


def test_rows_of_hitm_and_of_peers_without_their_header() -> None:
    memory = tables(ROWS_OF_BOTH)
    assert [(access.offset, access.local_peer, access.local_hitm) for access in memory.accesses] == [
        (0x20, 8, 0),
        (0x29, 72, 0),
    ]


PLAIN = Report(
    (Line(0x7F3A51C02040, (Offset(0x8, 0x401136, 3, 1212, loads=4000), Offset(0x20, 0x40119A, 0, 0, 1500))),)
)


def _cells(text: str, mark: str) -> str:
    """As of a spreadsheet, or of a table in Markdown."""
    rows = [re.split(r"\s{2,}", line.strip(" #")) for line in text.split("\n")]
    return "\n".join(mark.join(row) if len(row) > 4 else row[0] for row in rows)


@pytest.mark.parametrize("mark", [",", ";", " | "])
def test_cells_between_marks(mark: str) -> None:
    text = report_text.text(PLAIN, Style("6.1", node_info=2))
    assert tables(_cells(text, mark)).accesses == tables(text).accesses


def test_cells_of_a_web_page() -> None:
    text = report_text.text(PLAIN, Style("6.1", node_info=2))
    rows = [re.split(r"\s{2,}", line.strip(" #")) for line in text.split("\n")]
    page = "\n".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    assert tables(f"<table>{page}</table>").accesses == tables(text).accesses


def test_thousands_have_commas() -> None:
    text = report_text.text(PLAIN, Style("6.1"))
    assert " 5500 " in text
    with_commas = re.sub(r"(?<= )(\d)(\d{3})(?= )", r"\1,\2", text)
    assert "5,500" in with_commas
    assert tables(with_commas).accesses == tables(text).accesses


def test_lists_of_cpus_keep_their_commas() -> None:
    cpus = Report((Line(0x7F3A51C02040, (Offset(0x8, 0x401136, 3, 12, loads=40, cpus=(1, 3, 5)),)),))
    text = re.sub(r" {2,}(?=\S)", "; ", report_text.text(cpus, Style("6.1", node_info=2)))
    (access,) = [access for access in tables(text).accesses if access.offset == 8]
    assert access.cpus == ((1, 1), (3, 3), (5, 5))


def test_a_row_that_a_backslash_continues() -> None:
    text = report_text.text(REPORT, Style("6.1"))
    wrapped = re.sub(r"(?m)^( +\d+\.\d\d%.{60})", r"\1 \\\n        ", text)
    assert wrapped != text
    assert tables(wrapped).accesses == tables(text).accesses


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-16", "utf-8-sig"])
def test_wide_characters(tmp_path: Path, encoding: str) -> None:
    text = report_text.text(REPORT, Style("6.1"))
    path = tmp_path / "report.txt"
    path.write_bytes(text.encode(encoding))
    assert of_line(tables(read_text(path)), 0x7F3A51C02040) == of_line(tables(text), 0x7F3A51C02040)


@pytest.mark.parametrize("form", ["bytes", "quoted-printable"])
def test_blanks_of_windows_1252(tmp_path: Path, form: str) -> None:
    text = report_text.text(REPORT, Style("6.1"))
    path = tmp_path / "report.txt"
    foreign = ("What we saw \u2013 it\u2019s bad:\n" + text.replace("  ", "\u00a0 ")).encode("cp1252")
    path.write_bytes(quopri.encodestring(foreign) if form == "quoted-printable" else foreign)
    assert of_line(tables(read_text(path)), 0x7F3A51C02040) == of_line(tables(text), 0x7F3A51C02040)


def test_a_stray_zero_byte_does_not_make_a_text_binary(tmp_path: Path) -> None:
    text = report_text.text(REPORT, Style("6.1"))
    path = tmp_path / "report.txt"
    path.write_bytes(b"\0 login:\n" + text.encode())
    assert tables(read_text(path)).accesses == tables(text).accesses


@pytest.mark.parametrize(
    "remark", ["   <-- this one", "  // the reader", "   # hot!", " <- x", "  writer thread", " /* y */"]
)
def test_remarks_behind_rows(remark: str) -> None:
    text = report_text.text(REPORT, Style("6.1", node_info=2))
    remarked = re.sub(r"(?m)^( +\d+\.\d\d%.*\S) *$", rf"\1{remark}", text)
    assert remarked != text
    memory, plain = tables(remarked), tables(text)
    assert not memory.problems
    assert (memory.accesses, memory.codes) == (plain.accesses, plain.codes)


ROWS_IN_PROSE = """\
The line of our statistics bounces:

     0.00%   55.00%   50.00%    0.00%    0.00%       0x0     0       1            0x401b20  \
       0       238       171     1190         1  [.] rx_main  nicd   nic.c:181               0
     0.00%   45.00%   50.00%    0.00%    0.00%       0x8     0       1            0x401d76  \
       0       238       171      759         1  [.] tx_main  nicd   nic.c:282               1

It took 12.5% 4.2% 3.0% 1.0% more than 0x10.
"""


def test_rows_in_prose_without_line_and_header() -> None:
    """They have shares alone, and say what they are by their values."""
    memory = tables(ROWS_IN_PROSE)
    assert [(access.offset, access.cpu_count) for access in memory.accesses] == [(0, 1), (8, 1)]
    assert any("without its header" in problem for *_, problem in memory.problems)


@pytest.mark.parametrize("width", [72, 100, 128])
def test_rows_in_prose_that_mail_wrapped(width: int) -> None:
    """The first row tells its columns where it is put together again."""
    broken = "\n".join(
        part for line in ROWS_IN_PROSE.split("\n") for part in textwrap.wrap(line, width, drop_whitespace=False) or [""]
    )
    assert [(access.offset, access.cpu_count) for access in tables(broken).accesses] == [(0, 1), (8, 1)]


OWN_HEADER = """\
| field | offset | rmt hitm | lcl hitm | stores | who |
|---|---|---|---|---|---|
| refcnt | 0x0 | 60.1% | 58.2% | 100% | dst_release |
| lwtstate | 0x38 | 39.9% | 41.8% | 0% | ip_finish_output2 |
"""


def test_a_table_with_one_column_for_all_stores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its figures are shares alone: none of them is shown as a count."""
    path = tmp_path / "comment.md"
    path.write_text(OWN_HEADER)
    assert main(["c2c", "report", str(path), "--all"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "+0x0: 59% of the HITM; written by dst_release" in shown
    assert "the text tells shares alone" in shown
    assert "0 HITM" not in shown


@pytest.mark.parametrize("heading", ["### Cacheline 0x7f2a10c02040", "**Cache line:** `0x7f2a10c02040`"])
def test_a_heading_tells_the_line_of_a_table(heading: str) -> None:
    (line,) = {access.line for access in tables(f"{heading}\n\n{OWN_HEADER}").accesses}
    (only,) = tables(f"{heading}\n\n{OWN_HEADER}").lines
    assert line == only.id
    assert only.address == 0x7F2A10C02040
