# SPDX-License-Identifier: GPL-2.0-or-later
"""Which writes a line's transfers are paid for: what follows from threads, from numbers of CPUs, and what does not."""

import gzip
import lzma
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from c2c import report_text
from c2c.known_report import REPORT, STYLES
from c2c.report_text import Style
from lab.texts import pareto_rows, rows_alone
from lockline.base.errors import LocklineError
from lockline.c2c.members import NO_TYPES
from lockline.c2c.model import Access, Counts, Coverage, Judgement, Line, add_counts
from lockline.c2c.parts import divide
from lockline.c2c.report import make_c2c_report
from lockline.c2c.text_import import import_text, memory_tables, read_text
from lockline.c2c.text_parse import parse
from lockline.c2c.verdict import judge
from lockline.recording.code import Code
from lockline.recording.reader import open_recording
from lockline.render.c2c_text import _no_moves

STORES = Coverage(100_000, 0.0, True, True, ())
Row = tuple[int, str, int, int]


def access(
    row: Row, threads: Sequence[int] = (), cpus: int | None = None, count: int = 0, stores_told: bool = True
) -> Access:
    offset, function, hitm, stores = row
    counts = Counts(
        records=2 * hitm + stores, loads=2 * hitm, stores=stores if stores_told else None, local_hitm=hitm, locked=0
    )
    address = 0x1000 + 0x100 * sum(map(ord, function)) + (8 if stores else 0)
    code = Code(address, "user", function, 0, "program", "")
    return Access(
        offset, code, sum(1 << thread for thread in threads), counts, cpus, count or (cpus or 0).bit_count(), ""
    )


def judged(*accesses: Access, coverage: Coverage = STORES, contradicted: bool = False) -> Judgement:
    counts = add_counts(a.counts for a in accesses)
    line = Line(0x4000, 64, "user", 1, "", "", 0, "", 0, counts, accesses, contradicted=contradicted)
    parts, kind = divide(line, NO_TYPES, "", None, ())
    return judge(line, parts, kind, coverage)


def slots(count: int) -> list[Access]:
    return [
        made
        for n in range(4)
        for made in (
            access((8 * n, "add", 200, 0), count=count),
            access((8 * n, "add", 0, 300), count=count),
        )
    ]


def test_one_function_on_many_offsets_is_evidence_of_neither_kind() -> None:
    found = judged(*slots(4))
    assert found.verdict == "too little evidence"
    assert "perf c2c report --stdio -NN -c tid,iaddr" in found.evidence[-1]


def test_one_cpu_for_each_offset_is_false_sharing() -> None:
    found = judged(*slots(1))
    # Rows of one CPU each may be of several CPUs, where it is not told which.
    assert (found.verdict, found.confidence) == ("false sharing", "medium")
    known = [replace(one, cpus=1 << (one.offset // 8)) for one in slots(1)]
    found = judged(*known)
    assert (found.verdict, found.confidence) == ("false sharing", "high")


def test_one_function_on_fewer_cpus_at_some_offsets_has_slots() -> None:
    """On an array that all threads use the same code would run on as many CPUs at each place."""
    counts = (2, 2, 8, 8)
    rows = [access((8 * n, "add", 200, stores), count=counts[n]) for n in range(4) for stores in (0, 300)]
    found = judged(*rows)
    assert (found.verdict, found.confidence) == ("false sharing", "low")
    assert "who uses which is not known" in found.doubts[0]
    # Other code at one of them has reasons of its own to run on fewer.
    other = judged(*rows[2:], access((0, "drain", 200, 0), count=2), access((0, "drain", 0, 300), count=2))
    assert other.verdict == "too little evidence"


def test_cpus_of_rows_tell_whose_writes_they_pay() -> None:
    """As many CPUs are at both places: at each of them one half reads what the other half writes."""

    def verdict(*readers: int) -> tuple[str, str]:
        rows = [access((8 * n, "read", 200, 0), cpus=readers[n]) for n in range(2)]
        rows += [access((8 * n, "add", 0, 300), cpus=(0b0011, 0b1100)[n]) for n in range(2)]
        found = judged(*rows)
        return found.verdict, found.confidence

    assert verdict(0b1100, 0b0011) == ("true sharing", "low")
    # Of rows with CPUs in common a thread that migrates may be both.
    assert verdict(0b1111, 0b1111)[0] == "too little evidence"
    # CPUs that read the one and write the other alone pay for writes beside what they read.
    assert verdict(0b0011, 0b1100)[0] == "false sharing"


def test_rows_that_pay_as_often_are_of_strangers() -> None:
    """The data have no stores: of two members used together the second is found in the cache."""

    def verdict(loads: int) -> tuple[str, str]:
        one = access((0, "take", 300, 0), count=4)
        rows = access((8, "put", 120, 0), count=4)
        two = replace(rows, counts=rows.counts._replace(records=loads, loads=loads))
        found = judged(one, two, coverage=Coverage(100_000, 0.0, False, True, ()))
        return found.verdict, found.confidence

    assert verdict(240) == ("false sharing", "low")
    assert verdict(2400)[0] == "too little evidence"


def test_rows_of_several_threads_are_not_one_cpus() -> None:
    """Each row has one CPU, and there is a row for each process."""
    found = judged(*(replace(made, groups=3) for made in slots(1)))
    assert found.verdict == "too little evidence"


def test_slots_of_cpus_look_like_slots_of_all_where_cpus_are_not_told() -> None:
    """All threads use all slots, each thread each slot on one CPU: the text of -c tid,iaddr shows no more."""

    def verdict(count: int, function: str = "add") -> tuple[str, str]:
        rows = [
            access((8 * n, f"{function}{n}" if function != "add" else function, hitm, stores), range(4), count=count)
            for n in range(4)
            for hitm, stores in ((200, 0), (0, 300))
        ]
        found = judged(*(replace(row, groups=4) for row in rows))
        told = [doubt for doubt in found.doubts if "data of each CPU" in doubt]
        assert all("-NN -c tid,iaddr" in doubt for doubt in told)
        return found.verdict, found.confidence if told else f"{found.confidence}, no doubt of CPUs"

    assert verdict(1) == ("true sharing", "low")
    # A thread that was on several CPUs at one slot.
    assert verdict(2) == ("true sharing", "medium, no doubt of CPUs")
    # One instruction finds the slot of any CPU.
    assert verdict(1, "count") == ("true sharing", "medium, no doubt of CPUs")


def test_few_samples_do_not_tell_threads_apart() -> None:
    def verdict(samples: int) -> str:
        rows = [access((8 * n, "add", samples, 0), threads=range(4 * n, 4 * n + 4)) for n in range(2)]
        return judged(*rows, coverage=Coverage(1000, 0.0, False, True, ())).verdict

    assert verdict(6) == "too little evidence"
    assert verdict(60) == "false sharing"


def test_a_thread_for_each_offset_is_false_sharing_wherever_it_ran() -> None:
    rows = [access((8 * n, "add", 200, s), threads=[n + 1], cpus=0b1111) for n in range(4) for s in (0, 300)]
    found = judged(*rows)
    assert (found.verdict, found.confidence) == ("false sharing", "high")


def test_all_threads_on_all_offsets_is_true_sharing() -> None:
    rows = [access((8 * n, "add", 200, s), threads=[1, 2, 3], cpus=0b111) for n in range(4) for s in (0, 300)]
    assert judged(*rows).verdict == "true sharing"


def test_who_reads_one_member_and_writes_the_other_pays_for_the_other() -> None:
    threads = [1, 2, 3]
    rows = [access((0, "check", 300, 0), threads), access((8, "take", 20, 600), threads)]
    assert judged(*rows).verdict == "true sharing"


def test_true_and_false_sharing_in_one_line_is_one_verdict() -> None:
    rows = [
        access((0, "lock", 400, 0), [1, 2]),
        access((0, "lock", 0, 900), [1, 2]),
        access((0x20, "read", 100, 0), [3, 4]),
    ]
    found = judged(*rows)
    assert found.verdict == "false sharing"
    assert "that part stays (true sharing)" in found.evidence[-1]


def test_a_member_that_nobody_writes_pays_for_others() -> None:
    reader, writer = (0x20, "read", 300, 0), (0, "write", 0, 800)
    apart = judged(access(reader, cpus=0b1100), access(writer, cpus=0b0001))
    assert (apart.verdict, apart.confidence) == ("false sharing", "high")
    # As many CPUs may be the same ones.
    same = judged(access(reader, count=4), access(writer, count=4))
    assert (same.verdict, same.confidence) == ("false sharing", "low")
    assert any("-c tid,iaddr" in doubt for doubt in same.doubts)
    one = judged(access((0x20, "both", 300, 0), count=4), access((0, "both", 0, 800), count=4))
    assert one.verdict == "too little evidence"


def test_stores_that_are_not_told_are_not_absent() -> None:
    rows = [access((0, "use", 300, 0), count=4, stores_told=False)]
    found = judged(*rows, coverage=Coverage(None, None, None, True, ()))
    assert found.verdict == "too little evidence"
    assert "the stores of each offset are not known" in found.evidence[-1]


def test_a_thread_alone_takes_its_line_along() -> None:
    rows = [access((0, "add", 300, 0), [1], 0b1111), access((0, "add", 0, 300), [1], 0b1111)]
    found = judged(*rows)
    assert found.verdict == "too little evidence"
    assert "migrates" in found.evidence[-1]


@pytest.mark.parametrize("style", [style for style in STYLES if style.code and not style.browser and not style.vendor])
def test_rows_without_any_header_are_read(style: Style) -> None:
    text = rows_alone(report_text.text(REPORT, style), random.Random(1))
    assert "Offset" not in text
    parsed = parse(text)
    assert sum(len(detail.rows) for detail in parsed.details) == pareto_rows(text)
    assert any("without its header" in problem for _, problem in parsed.problems)


@pytest.mark.parametrize("width", [170, 190, 210])
def test_rows_cut_within_a_name_keep_their_figures(width: int) -> None:
    text = report_text.text(REPORT, Style("6.1"))
    cut = "\n".join(line[:width] for line in text.split("\n"))
    parsed = parse(cut)
    assert sum(len(detail.rows) for detail in parsed.details) == pareto_rows(text)
    assert parsed.problems


def test_packed_texts_are_read(tmp_path: Path) -> None:
    text = report_text.text(REPORT, Style("6.1")).encode()
    for name, data in (("gz", gzip.compress(text)), ("xz", lzma.compress(text))):
        path = tmp_path / name
        path.write_bytes(data)
        assert read_text(path).encode() == text
        path.write_bytes(data[:100])
        with pytest.raises(LocklineError, match="cannot be read"):
            read_text(path)


def test_the_headline_says_what_was_not_measured() -> None:
    assert "Nothing was measured" in _no_moves({}, False)[0]
    assert "does not show whether" in _no_moves({"load": 5, "store": 5}, False)[0]
    assert "No cache line was seen to move" in _no_moves({"load": 5}, True)[0]
    assert "fill buffer hits" in " ".join(_no_moves({"load": 50, "ld_fbhit": 40, "store": 20}, True))


def test_headers_that_less_has_cut() -> None:
    """It marks where: what stands before the mark may be the begin of a name."""
    text = report_text.text(REPORT, Style("6.1"))
    header = next(line for line in text.split("\n") if "Offset" in line)
    whole = parse(text)
    for end in (header.rindex("Node") + 2, header.rindex("Node"), header.rindex("Source") + len("Source:Line")):
        cut = "\n".join(line if len(line) <= end else line[:end] + ">" for line in text.split("\n"))
        parsed = parse(cut)
        assert not [problem for _, problem in parsed.problems if "not known" in problem]
        for mine, known in zip(parsed.details, whole.details, strict=True):
            assert [(row.offset, row.percents, row.records) for row in mine.rows] == [
                (row.offset, row.percents, row.records) for row in known.rows
            ]
            assert {row.symbol for row in mine.rows} == {row.symbol for row in known.rows}


def test_columns_that_were_left_out_are_no_unknown_columns() -> None:
    text = report_text.text(REPORT, Style("6.1"))
    end = next(line for line in text.split("\n") if "Offset" in line).index("Code address")
    parsed = parse("\n".join(line if len(line) <= end else line[:end] + "\u2026" for line in text.split("\n")))
    assert not [problem for _, problem in parsed.problems if "not known" in problem]
    assert [[row.offset for row in detail.rows] for detail in parsed.details] == [
        [row.offset for row in detail.rows] for detail in parse(text).details
    ]


def test_dots_for_what_was_left_out_are_no_part_of_a_header() -> None:
    text = report_text.text(REPORT, Style("6.1"))
    lines = text.split("\n")
    at = max(number for number, line in enumerate(lines) if "Offset" in line)
    dotted = "\n".join([*lines[: at + 1], "...", *lines[at + 2 :]])
    assert [detail.rows for detail in parse(dotted).details] == [detail.rows for detail in parse(text).details]
    assert not parse(dotted).problems


def without_offsets(function: str) -> str:
    """A text that its author has made narrower."""
    return f"""
#        ----- HITM -----                                     Shared
#   Num  RmtHitm  LclHitm                      Symbol         Object  Source:Line  Node
# .....  .......  .......  ..........................  .............  ...........  ....
  -------------------------
      0      412     1028
  -------------------------
      41.50%   42.00%  [k] put_cred         [kernel.vmlinux]  cred.h:39  0  1
      58.50%   58.00%  [k] {function}       [kernel.vmlinux]  file.c:81  0  1

  -------------------------
      1       50      103
  -------------------------
     100.00%  100.00%  [k] {function}       [kernel.vmlinux]  file.c:81  0
"""


def test_a_table_without_offsets_is_read(tmp_path: Path) -> None:
    """It tells the lines' transfers and the functions, and no place."""
    parsed = parse(without_offsets("permission"))
    assert [(detail.index, detail.totals) for detail in parsed.details] == [
        (0, {"remote_hitm": 412, "local_hitm": 1028}),
        (1, {"remote_hitm": 50, "local_hitm": 103}),
    ]
    assert any("no column Offset" in problem for _, problem in parsed.problems)
    memory = memory_tables(parsed, "text")
    assert len({line.address for line in memory.lines}) == 2
    assert {access.offset for access in memory.accesses} == {-1}
    assert sum(access.local_hitm or 0 for access in memory.accesses) == 1028 + 103


@pytest.mark.parametrize(
    "told, transfers", [("", 1593), ("Load Local HITM : 19,000\nLoad Remote HITM : 100\n", 19_100)]
)
def test_a_part_is_of_all_that_the_text_tells(tmp_path: Path, told: str, transfers: int) -> None:
    """The statistics count the HITM of all lines, also of those that were not copied."""
    text, recording = tmp_path / "c2c.txt", tmp_path / "c2c.lockline"
    text.write_text(told + without_offsets("permission"), encoding="utf-8")
    import_text(text, recording)
    with open_recording(recording) as opened:
        assert make_c2c_report(opened, 30).transfers == transfers


def test_functions_alone_tell_a_lock(tmp_path: Path) -> None:
    found = []
    for function in ("permission", "native_queued_spin_lock_slowpath"):
        text, recording = tmp_path / "text", tmp_path / function
        text.write_text(without_offsets(function))
        import_text(text, recording)
        with open_recording(recording) as opened:
            found.append(make_c2c_report(opened, 30).lines)
    assert [line.judgement.verdict for lines in found for line in lines] == [
        *("too little evidence", "too little evidence", "too little evidence", "lock word")
    ]
    assert found[0][0].judgement.evidence[1] == "paid in permission() 58%, put_cred() 42%"
    assert found[1][1].judgement.confidence == "medium"


def test_rows_tell_loads_from_stores_where_no_total_does() -> None:
    """A row with cycles or transfers has loads; one with a share of the stores and without any has none."""
    text = """
Index Address Node PA cnt Hitm Total LclHitm RmtHitm
    0  0x4000    0     1  100.00%  10  10  0
Cacheline 0x4000
----- HITM -----  -- Store Refs --  -- CL --       ------ cycles ------  Total  cpu
RmtHitm  LclHitm  L1 Hit  L1 Miss  Off  Node  PA cnt  Code address  rmt hitm  lcl hitm  load  records  cnt  Symbol
  0.00%   60.00%   0.00%    0.00%  0x0     0       1      0x401000         0        90    40      300    4  [.] get
  0.00%    0.00%  55.00%    0.00%  0x0     0       1      0x401008         0         0     0      200    4  [.] add
  0.00%   40.00%  45.00%    0.00%  0x8     0       1      0x401010         0        90    40      100    4  [.] both
"""
    memory = memory_tables(parse(text), "text")
    told = {(a.offset, a.records): (a.loads, a.stores) for a in memory.accesses if a.offset >= 0}
    assert told[0, 300] == (300, 0)
    assert told[0, 200] == (0, 200)
    assert told[8, 100] == (None, None)


def test_members_that_are_only_read_pay_beside_one_that_is_written() -> None:
    """A count that all write, and pointers that all read at other times: the pointers need not pay."""

    def found(pointer: str, hitm: int) -> Judgement:
        count = [access((0, "use", 900, 0), count=16), access((0, "get", 400, 900), count=16)]
        return judged(*count, access((8, pointer, hitm, 0), count=16), access((16, "send", hitm, 0), count=16))

    judgement = found("route", 300)
    assert (judgement.verdict, judgement.confidence) == ("false sharing", "low")
    assert "+0x8 and +0x10 pay 32% without being written" in judgement.evidence[-1]
    # Who writes the count too may use both in one go: what the count pays stays all the same.
    same = found("get", 300)
    assert (same.verdict, same.confidence) == ("true sharing", "low")
    assert "may then wait at" in same.doubts[-1]
    # What is paid beside the count is hardly anything.
    assert found("route", 80).verdict != "false sharing"


def test_members_that_some_write_and_others_read_are_true_sharing() -> None:
    """A clock of two words: one CPU writes both, and sixteen read both."""

    def found(writers: int) -> tuple[str, str]:
        rows = [
            row
            for offset, hitm in ((0, 900), (8, 500))
            for row in (
                access((offset, "read", hitm, 0), count=16),
                access((offset, "tick", 0, 400), count=writers),
            )
        ]
        judgement = judged(*rows)
        return judgement.verdict, judgement.confidence

    assert found(1) == ("true sharing", "medium")
    assert found(16)[0] == "too little evidence"


def test_a_block_that_is_copied_in_and_out_is_true_sharing() -> None:
    """Each word has too few stores to show who writes it; the same code writes all, and together they are enough."""

    def found(beside: str, writers_pay: int) -> str:
        rows = [
            row
            for offset in range(0, 64, 8)
            for row in (
                access((offset, "read_snapshot", 40, 0), count=30),
                access((offset, beside if offset == 56 else "publish", writers_pay, 8), count=2),
            )
        ]
        return judged(*rows).verdict

    assert found("publish", 0) == "true sharing"
    # Another function may have users of its own.
    assert found("another", 0) == "too little evidence"
    # Slots of threads, which pay for each other's writes as well.
    assert found("publish", 40) == "too little evidence"


def test_the_two_ends_of_a_queue_wait_for_each_other() -> None:
    """Each side writes its own end, and reads the other one's: apart, both would wait as well."""

    def found(*rows: tuple[int, str, int, int], count: int = 1) -> str:
        return judged(*(access(row, count=count) for row in rows)).verdict

    push = ((0, "push", 0, 900), (8, "push", 300, 0))
    pop = ((8, "pop", 0, 900), (0, "pop", 300, 0))
    assert found(*push, *pop) == "true sharing"
    # Who runs on several CPUs waits for the writes of its own kind too.
    assert found(*push, *pop, count=4) != "true sharing"
    # Who writes beside it as well takes the line for that.
    assert found(*push, *pop, (16, "pop", 0, 900)) != "true sharing"
    # Who changes what it reads, as its own slot.
    assert found((0, "one", 300, 900), (8, "other", 300, 900)) == "false sharing"


def test_who_reads_some_of_what_one_writes_makes_no_slots() -> None:
    """One writes a record of several words; all read its beginning.  Only the readers make the CPUs differ."""

    def found(*offsets: int) -> str:
        rows = [access((offset, "advance", 0, 300), count=1) for offset in (0, 8, 16)[: len(offsets) + 1]]
        rows += [access((offset, "read_it", 400 if offset == 0 else 60, 0), count=90) for offset in offsets]
        return judged(*rows).verdict

    assert found(0) == "true sharing"
    assert found(0, 8) == "true sharing"


def test_cpus_that_only_read_what_others_write_show_true_sharing() -> None:
    """Half of the CPUs count a word up, the others poll it and write beside it; both pay for the word."""

    def found(polling: int) -> Judgement:
        return judged(
            access((0, "poll", 700, 0), cpus=polling),
            access((0, "count", 400, 0), cpus=0x0F),
            access((0, "count", 0, 900), cpus=0x0F),
            access((8, "poll", 0, 1200), cpus=polling),
        )

    judgement = found(0xF0)
    assert (judgement.verdict, judgement.confidence) == ("true sharing", "low")
    assert any("the writes at +0x8 beside it" in doubt for doubt in judgement.doubts)


@pytest.mark.parametrize(
    "take, free", [("sync.(*Mutex).lockSlow", "sync.(*Mutex).Unlock"), ("Spinlock::lock()", "Spinlock::unlock()")]
)
def test_a_programs_lock_may_be_one_word(take: str, free: str) -> None:
    lock = [access((0, take, 600, 300), count=8), access((0, free, 0, 300), count=8)]
    assert judged(*lock, access((8, "push", 10, 5), count=8)).verdict == "lock word"
    assert judged(*lock, access((8, "look", 200, 0), count=8)).verdict == "false sharing"


@pytest.mark.parametrize(
    "take, free",
    [("__cilkrts_worker_lock", "__cilkrts_worker_unlock"), ("os_unfair_lock_lock", "os_unfair_lock_unlock")],
)
def test_two_halves_of_a_lock_are_known_by_their_names(take: str, free: str) -> None:
    judgement = judged(access((0, take, 400, 600), count=8), access((0, free, 9, 590), count=8))
    assert (judgement.verdict, judgement.confidence) == ("lock word", "high")
    assert any(f"waited for by {take}; released by {free}" in told for told in judgement.evidence)
    # A clock and what is unblocked are no locks.
    assert judged(access((0, "set_clock", 400, 600), count=8), access((0, "unblock", 9, 590), count=8)).verdict != (
        "lock word"
    )


def test_a_lock_that_few_wait_for_is_one() -> None:
    """Most take it in one instruction of their own: one in fifteen accesses is by the function that waits."""
    lock = [access((0, "sync.(*Mutex).lockSlow", 40, 20), count=8), access((0, "tick", 200, 900), count=8)]
    assert judged(*lock, access((8, "tick", 10, 600), count=8)).verdict == "lock word"
    strays = [access((0, "sync.(*Mutex).lockSlow", 3, 2), count=2), access((0, "tick", 200, 900), count=8)]
    assert judged(*strays).verdict == "true sharing"


def test_code_without_a_name_near_a_lock_may_be_of_the_lock() -> None:
    lock = [access((0, "pthread_mutex_lock", 600, 300), count=4), access((0, "pthread_mutex_unlock", 0, 300), count=4)]

    def verdict(offset: int, function: str) -> str:
        return judged(*lock, access((offset, function, 500, 0), count=4)).verdict

    assert verdict(8, "") == "too little evidence"
    # The name of one of several is cut off, and the others are the lock's own functions.
    owner = [access((8, "mutex_spin_on_owner", 400, 0), count=4), access((8, "__mutex_lock", 0, 350), count=4)]
    count = [access((0, "__mutex_lock", 110, 500), count=4), access((0, "mutex_unlock", 0, 400), count=4)]
    assert judged(*count, *owner, access((8, "", 0, 400), count=4)).verdict == "too little evidence"
    assert verdict(8, "push") == "false sharing"
    assert verdict(48, "") == "false sharing"


def test_seldom_written_and_much_read_is_no_problem() -> None:
    def verdict(loads: int, hitm: int, stores: int) -> str:
        row = access((0, "look", hitm, 0), count=16)
        read = replace(row, counts=row.counts._replace(records=loads, loads=loads))
        return judged(read, access((0, "reload", 0, stores), count=1)).verdict

    assert verdict(20_000, 40, 30) == "read mostly"
    assert verdict(20_000, 400, 30) != "read mostly"
    assert verdict(20_000, 40, 3000) != "read mostly"


def test_a_count_beside_a_field_keeps_what_its_own_uses_pay() -> None:
    """All threads add to a count, and read a field: apart, the field costs nothing, and each use of the count pays."""
    threads = [1, 2, 3, 4]

    def verdict(uses: int, paid: int) -> str:
        row = access((8, "add", paid, 300), threads)
        count = replace(row, counts=row.counts._replace(loads=uses, records=uses + 300))
        return judged(access((0, "look", 500, 0), threads), count).verdict

    assert verdict(uses=60, paid=50) == "false sharing"
    assert verdict(uses=700, paid=10) == "true sharing"


def test_a_slot_that_a_master_writes_now_and_then_is_mostly_its_threads_own() -> None:
    """Each thread polls its slot, which the others' writes beside it take away far more often than the master's."""

    rows = []
    for number in range(4):
        poll = access((8 * number, "poll", 300, 0), [number + 1])
        rows.append(replace(poll, counts=poll.counts._replace(loads=1000, records=1000)))
        rows.append(access((8 * number, "clear", 0, 400), [number + 1]))
        rows.append(access((8 * number, "post", 0, 40), [9]))
    found = judged(*rows)
    assert found.verdict == "false sharing"
    assert found.confidence != "high"
    assert any("beside the bytes that are paid for" in line for line in found.evidence)


def test_a_single_stray_store_is_no_writer() -> None:
    readers = access((0, "read", 900, 1), threads=[1, 2, 3])
    assert judged(readers, access((8, "write", 0, 40), threads=[4, 5])).verdict == "false sharing"


def test_what_a_cut_has_left_of_a_line_is_not_all_of_it() -> None:
    def verdict(hitm: int, count: int, threads: Sequence[int] = ()) -> str:
        told = [access((0, "add", hitm, 0), threads, count=count), access((0, "add", 0, 300), threads, count=count)]
        rest = access((-1, "", 1000 - hitm, 0))
        return judged(*told, replace(rest, cpu_count=0)).verdict

    assert verdict(200, 0) == "too little evidence"
    # Several CPUs may be those of one thread that migrates.
    assert verdict(200, 4) == "too little evidence"
    # Several threads are seen to write the very bytes that they pay for.
    assert verdict(200, 4, (1, 2, 3)) == "true sharing"


def test_what_others_may_write_unseen_is_no_true_sharing() -> None:
    """All threads use both: of the stores a few were sampled, so that the first may be written too, or not."""
    threads = [1, 2, 3, 4]
    partly = Coverage(100_000, 0.0, None, True, ())

    def verdict(hitm: int) -> str:
        rows = [access((0, "look", hitm, 0), threads), access((8, "stamp", 150, 6), threads)]
        return judged(*rows, coverage=partly).verdict

    assert verdict(800) == "too little evidence"
    assert verdict(20) == "true sharing"


def counter(records: int) -> tuple[Access, ...]:
    """Two threads that add to one counter; records: of each, which stand for 200 loads and 300 stores."""
    made = access((8, "add", 100, 300), threads=[1, 2], cpus=0b11)
    return (replace(made, counts=made.counts._replace(records=records)),)


def test_figures_that_contradict_each_other_are_never_sure() -> None:
    assert judged(*counter(500)).confidence == "high"
    found = judged(*counter(250))
    assert (found.verdict, found.confidence) == ("true sharing", "medium")
    assert any("contradict each other" in doubt and "`perf c2c report" in doubt for doubt in found.doubts)
    found = judged(*counter(500), contradicted=True)
    assert (found.verdict, found.confidence) == ("true sharing", "medium")


def test_stores_of_a_part_of_the_line_are_never_sure() -> None:
    rest = replace(access((-1, "", 0, 100)), cpu_count=0)
    found = judged(*counter(500), rest)
    assert found.verdict == "true sharing"
    assert found.confidence != "high"


def test_a_clean_copy_was_waited_for_too() -> None:
    """All read a limit and then count beside it: the first read finds the line modified, others its clean copy."""

    def verdict(limit: int, used: int) -> str:
        rows = []
        for offset, hitm, clean, stores in ((0, 650, limit, 0), (8, 350, used, 1000)):
            made = access((offset, "charge", hitm, stores), threads=[1, 2, 3, 4])
            counts = made.counts._replace(loads=1000, records=1000 + stores, llc_hit=clean)
            rows.append(replace(made, counts=counts))
        return judged(*rows).verdict

    assert verdict(0, 0) == "true sharing"
    assert verdict(345, 640) == "false sharing"


def test_a_peer_snoop_is_no_clean_copy_too() -> None:
    """perf counts a load that a peer served as a hit of the last or of the remote cache as well (Arm SPE)."""
    assert Counts(llc_hit=100, local_peer=100).clean == 0
    assert Counts(llc_hit=120, local_peer=100, remote_hit=7, remote_peer=3).clean == 24
    # Of peers in the second cache it does not.
    assert Counts(l2_hit=50, llc_hit=10, local_peer=60).clean == 0
    assert Counts(llc_hit=120, local_hitm=100, remote_hit=7, remote_hitm=3).clean == 127


def test_one_sample_of_each_member_shows_no_user_alone() -> None:
    # Each sample has one CPU, whoever else uses the member.
    once = [access((8 * n, f"f{n}", 1, n == 2), cpus=1 << n) for n in range(3)]
    once = [replace(row, counts=row.counts._replace(loads=1, records=1)) for row in once]
    found = judged(*once)
    assert found.confidence == "low"
    assert not any("CPU alone" in reason or "do not use the bytes" in reason for reason in found.evidence), found
    often = [access((8 * n, f"f{n}", 40, 30), cpus=1 << n) for n in range(3)]
    assert judged(*often).verdict == "false sharing"


def test_without_stores_many_users_of_each_member_may_wait_for_each_other() -> None:
    def rows(loads: int) -> list[Access]:
        made = [access((8 * n, f"f{n}", 300, 0), threads=range(4 * n, 4 * n + 4)) for n in range(2)]
        return [replace(row, counts=row.counts._replace(loads=loads, records=loads)) for row in made]

    assert judged(*rows(300), coverage=Coverage(100_000, 0.0, False, True, ())).verdict == "too little evidence"
    assert judged(*rows(900), coverage=Coverage(100_000, 0.0, False, True, ())).verdict == "false sharing"
