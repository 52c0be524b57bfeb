# SPDX-License-Identifier: GPL-2.0-or-later
"""The import of texts of perf c2c: every layout, what mail does to them, what cannot be read."""

import re
import sqlite3
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from c2c import report_text
from c2c.known_report import BUCKET, REPORT, STYLES, of_line, tables, total
from c2c.report_text import Offset, Report, Style
from lockline.base.errors import LocklineError
from lockline.c2c import store
from lockline.c2c.store import Access, Memory
from lockline.c2c.text_counts import recover
from lockline.c2c.text_import import MAX_BYTES, import_text, memory_tables, read_text
from lockline.c2c.text_parse import TextImportError, parse
from lockline.c2c.text_samples import decode
from lockline.c2c.text_tables import Percent
from lockline.recording import memory_rows as rows
from lockline.recording.reader import open_recording


@pytest.mark.parametrize("style", STYLES, ids=str)
def test_every_count_of_every_layout(style: Style) -> None:
    parsed = parse(report_text.text(REPORT, style))
    memory = memory_tables(parsed, "text")
    assert not memory.problems
    assert [line.address for line in memory.lines] == [line.address for line in REPORT.lines]
    assert [line.nodes for line in memory.lines] == (["", ""] if style.family == "4.10" else ["0,1", ""])
    remote, local = ("remote_peer", "local_peer") if style.peer else ("remote_hitm", "local_hitm")
    for line in REPORT.lines:
        accesses = of_line(memory, line.address)
        assert total(accesses, "loads") == line.loads
        assert total(accesses, remote) == line.total("remote")
        assert total(accesses, local) == line.total("local")
        assert total(accesses, "store_l1_hit") == line.total("store_hit")
        assert total(accesses, "store_l1_miss") == line.total("store_miss")
        assert total(accesses, "store_unknown") == (line.total("store_unknown") if style.version >= (5, 17) else None)
        assert total(accesses, "fill_buffer") == line.fill_buffer
        for offset in line.offsets:
            (access,) = [access for access in accesses if access.offset == offset.offset]
            if not style.vendor:
                assert (getattr(access, remote), getattr(access, local)) == (offset.remote, offset.local)
            assert (access.store_l1_hit, access.store_l1_miss) == (offset.store_hit, offset.store_miss)
            assert access.cpu_count == len(offset.cpus)
            if style.family != "4.10":
                assert access.loads == offset.loads


@pytest.mark.parametrize("style", STYLES, ids=str)
def test_who_accesses(style: Style) -> None:
    memory = tables(report_text.text(REPORT, style))
    codes = {code.id: code for code in memory.codes}
    threads = {thread.id: thread for thread in memory.threads}
    for line in REPORT.lines:
        for offset in line.offsets:
            (access,) = [each for each in of_line(memory, line.address) if each.offset == offset.offset]
            if style.code:
                code = codes[access.code]
                assert (code.address, code.symbol, code.object) == (offset.code, offset.symbol, offset.object)
                assert code.space == ("kernel" if offset.kernel else "user")
                assert code.line == (offset.source if style.source else "")
            else:
                assert access.code == 0
            thread = threads.get(access.thread)
            assert (thread.pid if thread else None) == (offset.pid if style.pid else 0 if style.tid else None)
            assert (thread.tid if thread else None) == (offset.tid if style.tid else 0 if style.pid else None)
            assert (thread.comm if thread else "") == (offset.comm if style.tid else "")
            cpus = None if access.cpus is None else {cpu for a, b in access.cpus for cpu in range(a, b + 1)}
            assert cpus == (set(offset.cpus) if style.node_info == 2 else None)


def test_weights_are_means_times_counts() -> None:
    hitm = of_line(tables(report_text.text(REPORT, Style())), BUCKET)[0]
    assert (hitm.remote_hitm_weight, hitm.local_hitm_weight) == (21 * 700, 90 * 310)
    assert (hitm.load_weight, hitm.load_weights) == (19 * 25, 19)
    # Peer snoops are loads that are no HITM.
    peer = of_line(tables(report_text.text(REPORT, Style(peer=True))), BUCKET)[0]
    assert (peer.load_weight, peer.load_weights) == (21 * 700 + 90 * 310 + 19 * 25, 130)


def test_figures_of_the_whole_file() -> None:
    parsed = parse(report_text.text(REPORT, Style()))
    assert parsed.events == REPORT.events
    assert parsed.sort == "Total HITMs"
    assert parsed.counts["lcl_hitm"] == 135
    assert parsed.counts["ld_llchit"] == 0
    assert parsed.counts["tot_hitm"] == 164
    assert parsed.counts["noparse"] == 7
    assert parsed.counts["shared_lines"] == 2
    only = parse(report_text.statistics(REPORT, Style()))
    assert only.counts == parsed.counts
    assert not memory_tables(only, "text").lines


def test_table_alone_counts_somewhere_in_the_line() -> None:
    memory = tables(report_text.table(REPORT, Style()))
    assert [(access.offset, access.code, access.thread) for access in memory.accesses] == [(-1, 0, 0)] * 2
    assert total(of_line(memory, BUCKET), "local_hitm") == 123
    pareto = tables(report_text.pareto(REPORT, Style()))
    assert total(of_line(pareto, BUCKET), "local_hitm") == 123
    assert total(of_line(pareto, BUCKET), "fill_buffer") is None


def test_one_address_twice() -> None:
    """perf has a line for each process that maps the address to memory of its own."""
    other = replace(REPORT.lines[1], offsets=(Offset(0x18, 0x401136, 0, 3, loads=5, pid=2000),))
    text = report_text.text(Report((*REPORT.lines, other)), Style(pid=True))
    memory = tables(text)
    assert [(line.address, line.pid) for line in memory.lines[1:]] == [(0x7F3A51C02040, 1000), (0x7F3A51C02040, 2000)]
    assert [total([row for row in memory.accesses if row.line == number], "local_hitm") for number in (2, 3)] == [12, 3]


def test_order_of_rows_means_nothing() -> None:
    """perf before 5.6 does not sort them: the lines' numbers tell which is which."""
    text = report_text.text(REPORT, Style("5.4"))
    rows = [row for row in report_text.table(REPORT, Style("5.4")).split("\n") if re.match(r" +\d +0x", row)]
    swapped = text.replace("\n".join(rows), "\n".join(reversed(rows)))
    assert swapped != text
    for line in REPORT.lines:
        assert total(of_line(tables(swapped), line.address), "remote_hitm") == line.total("remote")
        assert len(of_line(tables(swapped), line.address)) == len(of_line(tables(text), line.address))


def test_callchains_are_passed_over() -> None:
    text = report_text.text(REPORT, Style())
    chain = "            |\n            ---table_pending\n               0xffffffff81000123\n               main\n"
    row = next(line for line in text.split("\n") if "table.c:41" in line)
    parsed = parse(text.replace(row, f"{row}\n{chain}"))
    assert not parsed.problems
    assert len(parsed.details[0].rows) == 3


def test_source_that_is_an_offset_in_the_symbol() -> None:
    memory = tables(report_text.text(REPORT, Style()).replace("table.c:41", "table_pending+19"))
    code = memory.codes[0]
    assert (code.symbol, code.offset, code.line) == ("table_pending", 19, "")


def test_double_lines() -> None:
    line = replace(REPORT.lines[1], address=0x7F3A51C02080, offsets=(Offset(0x58, 0x401136, 0, 12, loads=40),))
    assert [row.size for row in tables(report_text.text(Report((line,)), Style())).lines] == [128]
    assert [row.size for row in tables(report_text.text(REPORT, Style())).lines] == [64, 64]


def test_rows_that_lost_their_header() -> None:
    for style in (Style(), Style(peer=True), Style("5.11"), Style("5.4"), Style("4.10")):
        row = next(line for line in report_text.table(REPORT, style).split("\n") if line.startswith("      0  0x"))
        memory = tables(f"the hot line:\n  {row.strip()}\nthanks")
        assert total(memory.accesses, "remote_peer" if style.peer else "remote_hitm") == 29
        assert "without its header" in memory.problems[0].problem
        with pytest.raises(TextImportError, match="nothing of perf c2c"):
            parse(row.rsplit("  ", 1)[0])


def test_header_whose_end_is_missing() -> None:
    """A name may be the begin of another one, and rows have a value that the header does not reach."""
    lines = report_text.table(REPORT, Style()).split("\n")
    header = next(line for line in lines if line.startswith("# Index"))
    for name, told in (("  L1Hit", (29, 58)), ("  RmtHitm", (29, None)), ("  L1", (29, None))):
        width = header.index(name) + len(name)
        memory = tables("\n".join(line[:width] for line in lines))
        (row,) = of_line(memory, BUCKET)
        assert (row.remote_hitm, row.store_l1_hit) == told
        assert row.l1_hit is None
    with pytest.raises(TextImportError, match="line 6: a column that is not known: Lc"):
        parse("\n".join(line[: header.index("  Lc") + 4] for line in lines))


def test_sums_that_do_not_hold_are_named() -> None:
    text = report_text.text(REPORT, Style())
    row = next(line for line in text.split("\n") if line.startswith("      0  0x"))
    problems = parse(text.replace(row, row.replace("    152", "    153", 1))).problems
    assert [line for line, _ in problems] == [1 + text.split("\n").index(row)]
    assert "152 total hitm" in problems[0][1] or "153 total hitm" in problems[0][1]


def test_several_reports() -> None:
    text = report_text.text(REPORT, Style())
    both = f"Before:\n{text}\nAfter, with padding:\n{report_text.text(Report(REPORT.lines[1:]), Style())}"
    first, second = parse(both), parse(both, 2)
    assert (first.report, first.reports, second.report) == (1, 2, 2)
    assert [len(each.table) for each in (first, second)] == [2, 1]
    assert "holds 2 reports" in first.notes[0]
    assert "--report" in first.notes[0]
    # A recording has no notes.
    assert [line for line, _ in first.problems] == [second.first_line]
    assert "--report 2" in first.problems[0][1]
    assert [line for line, _ in second.problems] == [first.first_line]
    with pytest.raises(TextImportError, match="there is no report 3: the text holds 2"):
        parse(both, 3)


REFUSED = {
    "prototype": (
        "   Index           Phys Adrs   Records   Ld Miss     %hitm\n  0 0xffff881fa55b0140 7 1.0% 2.0% 3",
        "prototype",
    ),
    "perf mem": ("Memory access                 Samples  Snoop\nL1 hit          1056754  N/A\n", "perf mem report"),
    "no address": (
        " 10668100842 |OP LOAD|LVL L3 hit|SNP None|TLB L1 or L2 hit|LCK No|BLK  N/A   47\n",
        "addr,data_src",
    ),
    "script": ("  a  1 [000]  5.1:  1 ibs_op//:  ffff00 [unknown] (k)\n" * 3, "perf script"),
    "prose": ("Load of the machine: 5\nline 0x40 is hot, 12.5% and 7%\n", "nothing of perf c2c is in it"),
    "empty": ("", "nothing of perf c2c is in it"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_one_line(name: str, tmp_path: Path) -> None:
    text, why = REFUSED[name]
    path = tmp_path / "mail.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(TextImportError, match=re.escape(why)) as caught:
        import_text(path, tmp_path / "out.lockline")
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out.lockline").exists()


def test_files_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"PERFILE2\0\0\0")
    with pytest.raises(LocklineError, match="nor a text"):
        read_text(path)
    with path.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(LocklineError, match="larger than"):
        read_text(path)
    with pytest.raises(LocklineError, match="cannot be read: No such file"):
        read_text(tmp_path / "none")
    path.write_bytes(report_text.text(REPORT, Style()).encode("utf-16"))
    assert len(parse(read_text(path)).table) == 2
    with pytest.raises(TextImportError, match="lines; cut the report out"):
        parse("\n" * 1_000_001)


@given(st.lists(st.integers(0, 10**7), min_size=1, max_size=30), st.integers(0, 10**6))
def test_counts_from_percentages(counts: list[int], missing: int) -> None:
    whole = sum(counts) + missing
    percents = [Percent(round(10_000 * count / whole) if whole else 0, 100) for count in counts]
    found = recover(whole, percents)
    assert found.counts is not None
    assert sum(found.counts) <= whole
    for count, guess, percent in zip(counts, found.counts, percents, strict=True):
        assert abs(guess - count) <= 2 + whole // 9_000
        if whole:
            assert abs(100 * guess / whole - percent.value / percent.scale) <= 0.0051 + 200 / whole
    if whole <= 10_000:
        assert (found.exact, found.counts) == (True, tuple(counts))


def test_percentages_that_are_not_of_the_total() -> None:
    assert recover(10, [Percent(6000, 100), Percent(5000, 100)]).counts is None
    assert "not of a total of 3" in recover(3, [Percent(4000, 100)]).problem
    assert recover(0, [Percent(0, 100)]).counts == (0,)


# perf script


SAMPLE = (
    "     worker  4000/4019  [019]  5000.002172: {event}: {address:16x}     {data_src:11x} |OP LOAD|LVL L3 or L3 hit"
    "|SNP HitM|TLB L1 or L2 hit|LCK No|BLK  N/A   {weight} ffffffff81000050 spin+0x1f ([kernel.kallsyms])"
)
LOCAL_HITM = 0x02 | 0x02 << 5 | 0x40 << 5 | 0x10 << 19 | 0x01 << 24


def sample(address: int, data_src: int, weight: int, event: str = "cpu/mem-loads,ldlat=30/P") -> str:
    return SAMPLE.format(address=address, data_src=data_src, weight=weight, event=event)


def test_samples_of_perf_script() -> None:
    hits = sample(BUCKET + 8, 0x02 | 0x0A << 5, 7).replace("[019]", "[003]")
    memory = tables("\n".join([sample(BUCKET + 4, LOCAL_HITM, 300), hits, sample(BUCKET + 4, LOCAL_HITM, 310)]))
    assert [(line.address, line.space) for line in memory.lines] == [(BUCKET, "kernel")]
    hitm, hit = memory.accesses
    assert (hitm.offset, hitm.local_hitm, hitm.loads, hitm.records, hitm.local_hitm_weight) == (4, 2, 2, 2, 610)
    assert (hit.offset, hit.l1_hit, hit.load_weight, hit.cpus) == (8, 1, 7, ((3, 3),))
    assert [(code.symbol, code.offset, code.object) for code in memory.codes] == [("spin", 0x1F, "[kernel.kallsyms]")]
    assert [(thread.pid, thread.tid, thread.comm) for thread in memory.threads] == [(4000, 4019, "worker")]


def test_arm_spe_samples_count_once() -> None:
    events = ("l1d-access", "llc-access", "tlb-access", "memory")
    parsed = parse("\n".join(sample(BUCKET, 0x8688000842, 0, event) for event in events))
    (access,) = memory_tables(parsed, "text").accesses
    assert (access.records, access.local_peer, access.llc_hit) == (1, 1, 1)
    assert "3 samples are left out" in parsed.notes[0]


@pytest.mark.parametrize(
    "data_src, counts",
    [
        (0x10668100842, {"records": 1, "loads": 1, "llc_hit": 1}),
        (0x11868100242, {"records": 1, "loads": 1, "fill_buffer": 1}),
        (0x1026A100142, {"records": 1, "loads": 1, "l1_hit": 1, "locked": 1}),
        (0x8688000842, {"records": 1, "loads": 1, "llc_hit": 1, "local_peer": 1}),
        (0x288100144, {"records": 1, "stores": 1, "store_l1_hit": 1}),
        (0x629800842, {"records": 1, "loads": 1, "local_hitm": 1}),
        (0x1E05080021, {"records": 0, "no_parse": 1}),
        (0x24, {"records": 1, "stores": 1, "store_unknown": 1}),
    ],
)
def test_data_sources(data_src: int, counts: dict[str, int]) -> None:
    assert decode(data_src) == counts


# Recordings


def test_what_is_no_recording_is_not_replaced(tmp_path: Path) -> None:
    text = tmp_path / "c2c.txt"
    text.write_text(report_text.text(REPORT, Style(node_info=2)), encoding="utf-8")
    before = text.read_bytes()
    with pytest.raises(LocklineError, match="is not a recording"):
        import_text(text, text)
    assert text.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["c2c.txt"]


def test_recording(tmp_path: Path) -> None:
    text, output = tmp_path / "c2c.txt", tmp_path / "out.lockline"
    text.write_text(report_text.text(REPORT, Style(node_info=2)), encoding="utf-8")
    for _ in range(2):
        import_text(text, output)
    assert stat.S_IMODE(output.stat().st_mode) == 0o600
    assert {path.name for path in tmp_path.iterdir()} == {"c2c.txt", "out.lockline", "out.lockline.old"}
    with open_recording(output) as recording:
        assert recording.meta()["state"] == "complete"
        assert recording.meta()["c2c_text"] == "c2c.txt"
    with sqlite3.connect(output) as connection:
        query = "SELECT address, offset, local_hitm, cpu_count, cpus FROM memory_access JOIN memory_line ON line = id"
        rows = connection.execute(query + " ORDER BY line, offset").fetchall()
        assert rows[1] == (BUCKET - (1 << 64), 0, 90, 5, b"\x0f\x02")
        assert connection.execute("SELECT kind, name FROM memory_source").fetchall() == [("c2c text", "c2c.txt")]


def test_output_that_cannot_be_written(tmp_path: Path) -> None:
    memory = Memory(sources=())
    with pytest.raises(LocklineError, match="not a plain file"):
        store.write_recording(Path("/dev/null"), memory)
    with pytest.raises(LocklineError, match="cannot be written: No such file"):
        store.write_recording(tmp_path / "none" / "out", memory)
    precious = b"SQLite format 3\0precious"
    (tmp_path / "out").write_bytes(precious)
    with pytest.raises(LocklineError, match="cannot be written"):
        store.write_recording(tmp_path / "out", Memory(sources=[rows.MemorySource(1, "c2c text", "a", "")] * 2))
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert (tmp_path / "out").read_bytes() == precious


def test_rows_with_one_key_add_up() -> None:
    first = Access(1, 0, 1, 1, loads=2, cpus=((0, 3),), cpu_count=4, nodes="0{0-3}")
    second = Access(1, 0, 1, 1, loads=3, stores=1, cpus=((3, 4),), cpu_count=2, nodes="0{3-4}")
    (row,) = store.merged([first, second])
    assert (row.loads, row.stores, row.cpu_count) == (5, 1, 5)
    assert store.cpu_bits(row.cpus or ()) == b"\x1f"
