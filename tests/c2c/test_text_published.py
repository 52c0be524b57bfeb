# SPDX-License-Identifier: GPL-2.0-or-later
"""Texts as people publish them: short excerpts, pages of the browser, edited tables; one case for each fault met."""

from pathlib import Path

from c2c.report_text import Line, Offset, Report
from c2c.report_text import Style as TextStyle
from c2c.report_text import text as report_text
from lockline.base.text import Style
from lockline.c2c.model import C2cReport, Judgement
from lockline.c2c.report import make_c2c_report
from lockline.c2c.text_import import import_text
from lockline.recording.reader import open_recording
from lockline.render.lines_screen import render_c2c


def report(text: str, directory: Path) -> C2cReport:
    path, recording = directory / "text", directory / "recording"
    path.write_text(text, encoding="utf-8")
    import_text(path, recording)
    with open_recording(recording) as opened:
        return make_c2c_report(opened, 30)


def judgement(text: str, directory: Path) -> Judgement:
    return report(text, directory).lines[0].judgement


LOCK_IN_BROWSER = """Cacheline 0xffff88810ab3c540
----- HITM -----  ------- Store Refs ------  ------ Data address ------
RmtHitm  LclHitm   L1 Hit  L1 Miss      N/A  Offset  Node  PA cnt        Code address  \
rmt hitm  lcl hitm      load  records       cnt                             Symbol            Object  Source:Line  Node
 61.20%   58.10%    0.00%    0.00%    0.00%    0x0     1       1  0xffffffff8110f0a2  \
     890       310       220    41230        64  [k] native_queued_spin_lock_slowpath  [kernel.vmlinux]  qs.c:410  0  1
 33.50%   37.20%    0.00%    0.00%    0.00%   0x18     1       1  0xffffffff812f3010  \
     650       250       160    18900        64  [k] vmap_stat_show                    [kernel.vmlinux]  vm.c:301  0  1
  5.30%    4.70%  100.00%  100.00%    0.00%   0x20     1       1  0xffffffff812f1a40  \
     600       240       150     3010        60  [k] vmap_insert                       [kernel.vmlinux]  vm.c:812  0  1
"""


def test_shares_of_stores_tell_that_there_are_stores(tmp_path: Path) -> None:
    """How many they are is not told: neither that they are none, nor that they were not sampled."""
    found = report(LOCK_IN_BROWSER, tmp_path)
    (line,) = found.lines
    assert line.judgement.verdict == "false sharing"
    assert (line.line.counts.loads, line.line.counts.stores) == (None, None)
    assert not [reason for reason in (*found.coverage.missing, *line.judgement.doubts) if "stores were" in reason]
    unwritten = LOCK_IN_BROWSER.replace("100.00%", "  0.00%")
    (reason, *_) = report(unwritten, tmp_path).coverage.missing
    assert "no store was sampled" in reason


def test_a_flag_that_is_seldom_set_is_not_called_unwritten(tmp_path: Path) -> None:
    """It is set 60 times, and the counter beside it 6,000 times: who polls it pays for the counter."""
    text = HEADER + totals(0, 3010, 6060, 0, 0)
    text += row("0.00 99.00 0.00 0.00 0.00", 0, 9800, 15, "poll_flag")
    text += row("0.00 0.00 0.99 0.00 0.00", 0, 60, 1, "work_loop", "0  0  0")
    text += row("0.00 1.00 99.01 0.00 0.00", 8, 8100, 1, "work_loop")
    found = judgement(text, tmp_path)
    assert found.verdict == "false sharing"
    assert "+0x0 pays 99% almost without being written" in found.evidence[-1]


HEADER = (
    "#   Num  RmtHitm  LclHitm   L1 Hit  L1 Miss      N/A              Offset  Node  PA cnt        Code address"
    "  rmt hitm  lcl hitm      load  records       cnt        Symbol  Object  Source:Line  Node\n"
)
RULE = "  " + "-" * 70 + "\n"


def row(shares: str, offset: int, records: int, cpus: int, symbol: str, cycles: str = "0  210  180") -> str:
    percents = "  ".join(f"{share}%" for share in shares.split())
    code = 0x401000 + 0x100 * offset + (0x10 if cycles.startswith("0  0") else 0)
    return f"  {percents}  {offset:#x}  0  1  {code:#x}  {cycles}  {records}  {cpus}  {symbol}  app  app.c:1  0\n"


def totals(*values: int) -> str:
    return RULE + "  0  " + "  ".join(map(str, values)) + "  0x55d0f3a2c040\n" + RULE


# The page of one line in the terminal browser has no totals.
BROWSER = """Cacheline 0x55d0f3a2c040
----- HITM -----  ------- Store Refs ------  ------- CL --------                      ---------- cycles ----------
RmtHitm  LclHitm   L1 Hit  L1 Miss      N/A    Off  Node  PA cnt        Code address  rmt hitm  lcl hitm      load\
  records       cnt        Symbol  Object  Source:Line  Node
  0.00%    3.31%    0.00%    0.00%    0.00%    0x0     0       1            0x401a2c         0       210       180\
     1500         1  [.] writer   app  app.c:21   0
  0.00%    0.00%  100.00%  100.00%    0.00%    0x0     0       1            0x401a34         0         0         0\
    10000         1  [.] writer   app  app.c:21   0
  0.00%   96.69%    0.00%    0.00%    0.00%   0x20     0       1            0x401b2c         0       212       181\
     4450         6  [.] reader   app  app.c:40   0
"""


def test_shares_without_their_totals_are_judged_and_never_called_counts(tmp_path: Path) -> None:
    found = report(BROWSER, tmp_path)
    line = found.lines[0]
    assert (line.judgement.verdict, line.judgement.confidence) == ("false sharing", "low")
    assert line.line.counts.local_hitm is None
    assert "not told" in line.judgement.evidence[0]
    assert not any(" stores" in told for told in line.judgement.evidence[1:])
    screen = render_c2c(found, Style(), 80)
    assert "how often it moves is not told" in screen
    assert "0 HITM" not in screen
    # How much it is remains open: neither is it said to cost little, nor are there zeros where nothing is told.
    words = " ".join(screen.split())
    assert "Whether it is worth acting on is open" in words
    assert "Not worth acting on" not in words
    assert "the table of `perf c2c report --stdio` has the totals" in words
    row = next(part for part in screen.splitlines() if part.startswith(" 1 "))
    assert row.split()[2:4] == ["-", "-"]


# https://lore.kernel.org: "[RFC PATCH] sched/fair: wake up the wakee on the waker's CPU", Chen Yu, 2024.
OFFENDERS = """----- HITM -----  ------- Store Refs ------  --------- Data address -------
RmtHitm  LclHitm   L1 Hit  L1 Miss                     Offset  Node
0.00%    55.17%    0.00%    0.00%                      0x1c         <---- read
0.00%    0.00%     20.00%   0.00%                      0x1f         <---- write
"""


def test_rows_without_a_line_and_with_remarks_are_read(tmp_path: Path) -> None:
    line = report(OFFENDERS, tmp_path).lines[0]
    assert [part.begin for part in line.parts] == [0x1C, 0x1F]
    assert line.judgement.verdict == "too little evidence"
    assert any("+0x1c: 55% of the" in told for told in line.judgement.evidence)


def test_decimal_commas_are_read(tmp_path: Path) -> None:
    text = HEADER + totals(0, 1210, 8800, 1200, 0) + row("0.00 3.31 0.00 0.00 0.00", 0, 1500, 1, "[.] writer")
    text += row("0.00 0.00 100.00 100.00 0.00", 0, 10_000, 1, "[.] writer", "0  0  0")
    text += row("0.00 96.69 0.00 0.00 0.00", 0x20, 4450, 6, "[.] reader")
    plain = judgement(text, tmp_path)
    assert plain.verdict == "false sharing"
    assert judgement(text.replace(".31", ",31").replace(".00", ",00").replace(".69", ",69"), tmp_path) == plain
    assert judgement(text.replace("[.] ", ""), tmp_path).evidence == plain.evidence


def test_rows_are_read_with_their_totals_where_some_reading_has_both(tmp_path: Path) -> None:
    text = HEADER + totals(0, 1210, 8800, 1200, 0) + row("0.00 3.31 0.00 0.00 0.00", 0, 1500, 1, "[.] writer")
    text += row("0.00 0.00 100.00 100.00 0.00", 0, 10_000, 1, "[.] writer", "0  0  0")
    text += row("0.00 96.69 0.00 0.00 0.00", 0x20, 4450, 6, "[.] reader")
    plain = judgement(text, tmp_path)
    for change in ("\u00b6\n", "   |\n"):
        lines = text.removesuffix("\n").replace("\n", change + ("| " if "|" in change else ""))
        assert judgement(("| " if "|" in change else "") + lines + change, tmp_path) == plain


def test_totals_without_rows_are_named(tmp_path: Path) -> None:
    found = report(HEADER + totals(0, 1210, 8800, 1200, 0), tmp_path)
    assert any("none of its offsets" in problem for _, problem in found.problems)


def test_rounding_makes_no_stores_and_no_contradiction(tmp_path: Path) -> None:
    """Shares of 160,000 stores are good to eight of them: 0.00 % is none, and 25,521 of 25,520 records are 25,520."""
    text = HEADER + totals(0, 446, 159_354, 22_984, 0)
    text += row("0.00 98.00 0.00 0.00 0.00", 0x18, 72_662, 14, "[.] work")
    text += row("0.00 1.00 13.99 14.04 0.00", 0x28, 25_520, 2, "[.] work")
    text += row("0.00 1.00 86.00 85.96 0.00", 0x30, 156_801, 2, "[.] work")
    found = report(text, tmp_path)
    assert not [problem for _, problem in found.problems if "records, but" in problem]
    assert found.lines[0].offsets[0].counts.stores == 0


def test_two_halves_of_a_name_are_a_lock(tmp_path: Path) -> None:
    text = HEADER + totals(90, 810, 300, 20, 0)
    text += row("80.00 82.00 0.00 0.00 0.00", 0, 1300, 24, "[.] ngx_shmtx_trylock")
    text += row("20.00 18.00 100.00 100.00 0.00", 0, 500, 24, "[.] ngx_shmtx_unlock")
    assert judgement(text, tmp_path).verdict == "lock word"
    assert judgement(text.replace("ngx_shmtx_unlock", "ngx_reset"), tmp_path).verdict == "true sharing"


def test_a_lockref_is_a_lock(tmp_path: Path) -> None:
    text = HEADER + totals(1204, 2107, 6020, 801, 0)
    text += row("51.00 50.00 50.00 50.00 0.00", 0x18, 7800, 88, "[k] lockref_get_not_dead")
    text += row("49.00 50.00 50.00 50.00 0.00", 0x18, 7700, 88, "[k] lockref_put_return")
    found = report(text, tmp_path).lines[0]
    assert found.judgement.verdict == "lock word"
    assert found.advice is not None
    assert "padding changes nothing" in found.advice.text


def test_slots_go_each_to_a_line_of_its_own_and_the_screen_has_the_command(tmp_path: Path) -> None:
    text = HEADER + totals(0, 4000, 8000, 0, 0)
    for number, cpus in enumerate((1, 5, 2, 9)):
        text += row("0.00 25.00 25.00 0.00 0.00", 8 * number, 3000, cpus, "[.] work")
    found = report(text, tmp_path)
    advice = found.lines[0].advice
    assert found.lines[0].judgement.verdict == "false sharing"
    assert advice is not None
    assert ", each to a cache line of its own: " in advice.text
    screen = render_c2c(found, Style(), 80)
    assert "DOUBT" in screen
    assert "-c tid,iaddr" in " ".join(screen.split())
    assert len(screen.splitlines()) <= 24
    assert max(map(len, screen.split("\n"))) <= 80


def test_shares_are_of_the_whole_line_where_rows_are_left_out(tmp_path: Path) -> None:
    text = HEADER + totals(0, 1000, 500, 0, 0) + row("0.00 40.00 0.00 0.00 0.00", 0, 900, 8, "[.] one")
    text += row("0.00 20.00 0.00 0.00 0.00", 8, 800, 8, "[.] two")
    found = judgement(text, tmp_path)
    assert any(told.startswith("+0x0: 40% of the HITM") for told in found.evidence)


def test_every_doubt_about_samples_names_a_command(tmp_path: Path) -> None:
    text = HEADER + totals(0, 1000, 0, 0, 0) + row("0.00 60.00 0.00 0.00 0.00", 0, 900, 1, "[.] one")
    found = judgement(text + row("0.00 40.00 0.00 0.00 0.00", 0x20, 800, 1, "[.] two"), tmp_path)
    assert found.doubts
    assert all("`perf " in doubt for doubt in found.doubts)


def test_a_table_alone_tells_the_whole_by_its_shares(tmp_path: Path) -> None:
    """Two of many lines, without the statistics: 648 HITM that are 6.50 % are not two thirds of all."""
    text = """\
#        ----------- Cacheline ----------    Total      Tot  ----- LLC Load Hitm -----  ---- Store Reference ----
# Index             Address  Node  PA cnt  records     Hitm    Total      Lcl      Rmt    Total    L1Hit   L1Miss
      0      0x7f3a51c01f80     0    1624     4789    6.50%      648      648        0     1211      667      544
      1      0x7f3a51c02340     0    1464     2331    4.33%      432      432        0      582      582        0
"""
    found = report(text, tmp_path)
    assert abs(found.transfers - 9970) < 20
    assert "6.50% of all" in " ".join(render_c2c(found, Style(), 80).split())
    contradicting = report(text.replace("4.33%", "8.33%"), tmp_path)
    assert contradicting.transfers == 648 + 432


def test_stores_of_rows_that_were_left_out_are_still_the_lines(tmp_path: Path) -> None:
    """Rows without their table: the line's own row has all of its stores, as it has all of its HITM."""
    text = (
        HEADER
        + totals(1000, 2000, 900, 100, 0)
        + row("70 60 40 30 0", 0x8, 5000, 64, "[k] down_write")
        + row("10 20 0 0 0", 0x0, 900, 64, "[k] insert", "0  0  150")
    )
    line = report(text, tmp_path).lines[0].line
    assert (line.counts.transfers, line.counts.stores) == (3000, 1000)
    assert sum(access.counts.stores or 0 for access in line.located) == 390


NOTHING_MOVED = """            Trace Event Information
  Total records                     :    3200455
  Load Operations                   :    2100455
  Load Local HITM                   :          0
  Load Remote HITM                  :          0
  Store Operations                  :    1100000
  Unable to parse data source       :    {}
"""


def test_that_nothing_moved_is_not_said_of_loads_that_perf_could_not_read(tmp_path: Path) -> None:
    """In a guest, or with a perf that is older than the CPU, no load may say who served it."""
    screens = [render_c2c(report(NOTHING_MOVED.format(unread), tmp_path), Style(), 80) for unread in (0, 2050000)]
    none, many = (" ".join(screen.split()) for screen in screens)
    assert "No cache line was seen to move between processors: no HITM and no peer snoop in 2,100,455 loads." in none
    assert "But perf" not in none
    assert "But perf could not read who served 64.1% of the records, so that lines may move" in many


RCU = totals(0, 590, 690, 0, 0)
RCU += row("0.00 51.00 50.00 0.00 0.00", 0x10, 640, 32, "__srcu_read_lock")
RCU += row("0.00 49.00 50.00 0.00 0.00", 0x18, 640, 32, "__srcu_read_unlock")


def test_readers_by_rcu_hold_no_lock(tmp_path: Path) -> None:
    """They count themselves, and nobody waits for them there; the same pair of another name is a lock."""
    assert judgement(HEADER + RCU, tmp_path).verdict == "too little evidence"
    (tmp_path / "other").mkdir()
    assert judgement(HEADER + RCU.replace("__srcu_read", "shard"), tmp_path / "other").verdict == "lock word"


def test_a_half_of_a_pair_that_is_written_is_not_called_unwritten(tmp_path: Path) -> None:
    """Two threads have a half of 128 bytes each, write to it, and pay for the other one."""
    lines = [
        Line(0x55D0F3A2C000 + 64 * n, (Offset(0, 0x401000, 0, 640, 1590, loads=640, cpus=(n,), tid=1001 + n),))
        for n in (0, 1)
    ]
    found = report(report_text(Report(tuple(lines)), TextStyle(tid=True, node_info=2)), tmp_path)
    assert {line.judgement.verdict for line in found.lines} == {"adjacent line"}
    screen = " ".join(render_c2c(found, Style(), 80).split())
    assert "the other half of its 128 bytes is written" in screen
    assert "Nothing on it is written" not in screen
