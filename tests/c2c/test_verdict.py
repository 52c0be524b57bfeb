# SPDX-License-Identifier: GPL-2.0-or-later
"""Each verdict on a line that has the pattern, and on lines that nearly have it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from c2c.kernel_types import types
from c2c.memory_recording import MemoryBuilder
from lockline.c2c.advice import largest_effect, line_begins
from lockline.c2c.members import Member, Struct, Types
from lockline.c2c.model import Access, Code, Counts, Coverage, Judgement, Line, LineReport, add_counts
from lockline.c2c.parts import divide
from lockline.c2c.report import cpu_list, make_c2c_report
from lockline.c2c.verdict import judge
from lockline.recording.memory_rows import FIGURES
from lockline.recording.reader import open_recording

LINE = 0xFFFF88A123000000
SLOW_PATH = "native_queued_spin_lock_slowpath"


def other_stores(builder: MemoryBuilder) -> None:
    """Stores elsewhere, so that stores are known to be sampled."""
    builder.add(builder.line(LINE + 0x10000), 0, builder.code("elsewhere"), stores=5000)


Fill = Callable[[MemoryBuilder, int], None]


def report_of(tmp_path: Path, fill: Fill, read: Types | None = None, stores: bool = True) -> LineReport:
    builder = MemoryBuilder()
    fill(builder, builder.line(LINE))
    if stores:
        other_stores(builder)
    for row in builder.accesses.values():
        row.records = (row.loads or 0) + (row.stores or 0)
    with open_recording(builder.write(tmp_path / "line.lockline")) as recording:
        report = make_c2c_report(recording, 10, None if read is None else lambda *names: read)
    (found,) = [line for line in report.lines if line.line.address == LINE]
    return found


def verdict_of(tmp_path: Path, fill: Fill, stores: bool = True) -> tuple[str, str]:
    judgement = report_of(tmp_path, fill, stores=stores).judgement
    assert judgement.evidence
    return judgement.verdict, judgement.confidence


def lock_traffic(builder: MemoryBuilder, line: int, scale: int = 1) -> None:
    builder.add(line, 4, builder.code(SLOW_PATH, 0x20), 0, range(32), loads=90 * scale, local_hitm=60 * scale)
    code = builder.code("_raw_spin_lock", 0x10)
    builder.add(
        line, 4, code, 0, range(32), loads=30 * scale, stores=30 * scale, locked=30 * scale, local_hitm=30 * scale
    )
    builder.add(line, 4, builder.code("_raw_spin_unlock", 4), 0, range(32), stores=40 * scale)


def test_waiters_on_a_locks_word(tmp_path: Path) -> None:
    assert verdict_of(tmp_path, lock_traffic) == ("lock word", "medium")
    assert verdict_of(tmp_path, lambda builder, line: lock_traffic(builder, line, 3)) == ("lock word", "high")


def test_who_gets_clean_copies_beside_a_lock_pays_too(tmp_path: Path) -> None:
    """A waiter is the first to load the line after a write, and who reads beside the lock finds the waiter's copy."""

    def fill(builder: MemoryBuilder, line: int) -> None:
        lock_traffic(builder, line, 3)
        builder.add(line, 0x28, builder.code("is_idle"), 0, range(32), loads=300, llc_hit=200)

    judged = report_of(tmp_path, fill).judgement
    assert (judged.verdict, judged.confidence) == ("lock word", "medium")
    assert any("200 more loads of the line came from a clean copy elsewhere" in doubt for doubt in judged.doubts)


def test_who_gets_most_copies_beside_a_lock_pays_most(tmp_path: Path) -> None:
    """Each write to a lock takes the line from all who read beside it, but one load alone finds it modified."""

    def fill(builder: MemoryBuilder, line: int, beside: int = 400) -> None:
        lock_traffic(builder, line, 3)
        builder.add(line, 0x28, builder.code("is_idle"), 0, range(32), loads=beside, llc_hit=beside)

    judged = report_of(tmp_path, fill).judgement
    assert (judged.verdict, judged.confidence) == ("false sharing", "low")
    assert any(
        "400 loads of the line came from a clean copy elsewhere, beside +0x4" in told for told in judged.evidence
    )

    def fill_a_part(builder: MemoryBuilder, line: int) -> None:
        fill(builder, line, 1000)
        builder.add(line, 0x30, builder.code("holder"), 0, range(32), loads=60, local_hitm=60, stores=40)

    assert verdict_of(tmp_path, fill_a_part) == ("false sharing", "low")


def test_a_text_by_thread_does_not_tell_where_clean_copies_are_read(tmp_path: Path) -> None:
    """Rows of threads that did not wait are not shown, of the lock's own loads neither."""

    def fill(builder: MemoryBuilder, line: int) -> None:
        builder.kind = "c2c text"
        thread = builder.thread(4001)
        code = builder.code(SLOW_PATH, 0x20)
        builder.add(line, 4, code, thread, range(32), loads=270, local_hitm=270, stores=60, locked=60)
        builder.add(line, -1, builder.code(""), 0, (), loads=400, llc_hit=400)

    judged = report_of(tmp_path, fill).judgement
    assert (judged.verdict, judged.confidence) == ("lock word", "medium")
    assert not any("beside the lock's word" in doubt for doubt in judged.doubts)
    assert any("of the lock or beside it: not shown" in told for told in judged.evidence)


def test_one_function_at_both_halves_of_a_pair_is_evidence_for_neither_kind(tmp_path: Path) -> None:
    """A thread's own count in each half, or one count of all: the halves travel together, and who counts is unknown."""

    def pair(*functions: str) -> Fill:
        def fill(builder: MemoryBuilder, line: int) -> None:
            builder.kind = "c2c text"
            for half in (line, builder.line(LINE + 64)):
                for number, function in enumerate(functions):
                    code = builder.code(function, 0x10 + number)
                    builder.add(half, 0, code, 0, (), loads=300, local_hitm=120, stores=200)

        return fill

    judged = report_of(tmp_path, pair("count_packet")).judgement
    assert judged.verdict == "too little evidence"
    assert any("halves travel together" in told and "-NN -c tid,iaddr" in told for told in judged.evidence)
    # Several functions that change the same bytes do share them.
    assert verdict_of(tmp_path, pair("get_page", "put_page")) == ("true sharing", "low")


def test_a_lock_and_a_little_else_is_the_lock(tmp_path: Path) -> None:
    def fill(builder: MemoryBuilder, line: int) -> None:
        lock_traffic(builder, line)
        builder.add(line, 0x20, builder.code("holder"), 0, range(32), loads=20, stores=10, local_hitm=8)

    assert verdict_of(tmp_path, fill)[0] == "lock word"


def test_what_its_holders_pay_beside_a_lock_is_said(tmp_path: Path) -> None:
    """A tenth of the cost: too little for a verdict of its own, enough to keep it off the lock's line."""

    def fill(builder: MemoryBuilder, line: int) -> None:
        lock_traffic(builder, line, 3)
        builder.add(line, 0x20, builder.code("holder"), 0, range(32), loads=40, stores=10, local_hitm=28)

    report = report_of(tmp_path, fill)
    assert report.judgement.verdict == "lock word"
    assert report.judgement.confidence == "medium"
    assert "its holders write +0x20, which goes from one to the next" in report.judgement.doubts[0]
    assert report.advice is not None
    assert report.advice.members == ("+0x20",)
    assert "On another line than the lock that part can go away" in report.advice.text


def test_a_lock_and_what_others_read_is_false_sharing(tmp_path: Path) -> None:
    def fill(builder: MemoryBuilder, line: int) -> None:
        lock_traffic(builder, line)
        builder.add(line, 0x20, builder.code("look"), 0, range(32), loads=90, local_hitm=40)

    report = report_of(tmp_path, fill)
    assert report.judgement.verdict == "false sharing"
    assert [part.name for part in report.judgement.members] == ["+0x4", "+0x20"]
    assert report.advice is not None
    assert report.advice.members == ("+0x20",)
    # What the lock pays stays.
    assert report.advice.effect == pytest.approx(40 / 130)
    assert "padding does not change that" in report.advice.warning


def test_a_lock_and_what_its_holders_write(tmp_path: Path) -> None:
    """The lock pays most, and what is written under it moves from holder to holder wherever it lies."""

    def fill(builder: MemoryBuilder, line: int) -> None:
        lock_traffic(builder, line, 3)
        builder.add(line, 0x20, builder.code("holder"), 0, range(32), loads=120, stores=90, local_hitm=70)

    report = report_of(tmp_path, fill)
    assert (report.judgement.verdict, report.judgement.confidence) == ("lock word", "medium")
    assert "goes from one to the next" in report.judgement.doubts[0]
    assert report.advice is not None
    assert report.advice.members == ("+0x20",)
    assert "but for what one holder writes at +0x20 and the next one reads" in report.advice.text


def rwsem(builder: MemoryBuilder, line: int) -> None:
    """Its count at 8 and its owner at 16, and the tree that its holder changes at 0."""
    builder.add(line, 8, builder.code("down_write"), 0, range(8), loads=400, stores=40, local_hitm=4)
    builder.add(line, 8, builder.code("up_write"), 0, range(8), loads=100, stores=30, local_hitm=2)
    builder.add(line, 16, builder.code("rwsem_spin_on_owner"), 0, range(8), loads=2000, local_hitm=200)
    builder.add(line, 0, builder.code("tree_remove"), 0, range(8), loads=200, local_hitm=15)


def test_a_sleeping_lock_is_known_by_its_functions(tmp_path: Path) -> None:
    report = report_of(tmp_path, rwsem)
    assert report.judgement.verdict == "lock word"
    assert [(part.begin, part.end) for part in report.parts if part.is_lock] == [(8, 24)]


def test_a_sleeping_locks_words_are_known_beside_its_inner_lock(tmp_path: Path) -> None:
    """Its wait_lock's spinners are the lock's too; stores were not sampled."""

    def fill(builder: MemoryBuilder, line: int) -> None:
        builder.add(line, 8, builder.code("down_read"), 0, range(8), loads=400, local_hitm=60)
        builder.add(line, 8, builder.code("rwsem_down_write_slowpath"), 0, range(8), loads=300, local_hitm=50)
        builder.add(line, 8, builder.code("up_read"), 0, range(8), loads=100, local_hitm=2)
        builder.add(line, 16, builder.code("rwsem_spin_on_owner"), 0, range(8), loads=900, local_hitm=90)
        builder.add(line, 24, builder.code("native_queued_spin_lock_slowpath"), 0, range(8), loads=200, local_hitm=30)

    report = report_of(tmp_path, fill)
    assert report.judgement.verdict == "lock word"
    assert sum(part.share for part in report.parts if part.is_lock) == pytest.approx(1)


def owners_task(builder: MemoryBuilder, line: int) -> None:
    """Waiters look at whether a mutex's owner runs: its task is no lock."""
    builder.add(line, 16, builder.code("mutex_spin_on_owner"), 0, range(8), loads=300, local_hitm=30)
    builder.add(line, 52, builder.code("mutex_spin_on_owner"), 0, range(8), loads=2000, local_hitm=200)
    builder.add(line, 0, builder.code("finish_switch"), 0, range(8), loads=200, stores=60, local_hitm=4)


def test_the_task_of_a_locks_owner_is_no_lock(tmp_path: Path) -> None:
    report = report_of(tmp_path, owners_task)
    assert not any(part.is_lock for part in report.parts)
    assert report.judgement.verdict != "lock word"


def test_padding_is_not_advised_for_a_locks_word(tmp_path: Path) -> None:
    advice = report_of(tmp_path, lock_traffic).advice
    assert advice is not None
    assert advice.effect == 0
    assert advice.members == ()
    assert "padding changes nothing" in advice.text


def test_waits_tell_the_waiters_of_a_lock_that_no_function_tells(tmp_path: Path) -> None:
    def fill(builder: MemoryBuilder, line: int) -> None:
        builder.add(line, 0, builder.code("some_lock_of_a_module"), 0, range(8), loads=100, local_hitm=100, in_wait=90)

    report = report_of(tmp_path, fill)
    assert report.parts[0].roles == {"waiter": ("some_lock_of_a_module",)}


def reader_and_writer(builder: MemoryBuilder, line: int, reader: str = "reader", writer: str = "writer") -> None:
    builder.add(line, 0x20, builder.code(reader), builder.thread(7), [1, 2], loads=400, local_hitm=150)
    builder.add(line, 0, builder.code(writer), builder.thread(8), [3, 4], stores=900)


def test_a_reader_pays_for_a_writer_of_another_member(tmp_path: Path) -> None:
    assert verdict_of(tmp_path, reader_and_writer) == ("false sharing", "high")


def test_advice_for_several_members_speaks_of_several(tmp_path: Path) -> None:
    def fill(builder: MemoryBuilder, line: int) -> None:
        reader_and_writer(builder, line)
        for offset in (0x28, 0x30):
            builder.add(line, offset, builder.code("reader"), builder.thread(7), [1, 2], loads=40, local_hitm=15)

    one, several = report_of(tmp_path, reader_and_writer).advice, report_of(tmp_path, fill).advice
    assert one is not None
    assert one.text.startswith("Move +0x20 to its own cache line: it is read while")
    assert several is not None
    assert several.text.startswith("Move +0x20, +0x28 and +0x30 to a cache line of their own: they are read while")


def test_the_same_function_on_other_threads_is_still_false_sharing(tmp_path: Path) -> None:
    assert verdict_of(tmp_path, lambda b, line: reader_and_writer(b, line, "both", "both"))[0] == "false sharing"


def test_one_function_that_reads_one_member_and_writes_the_other_is_true_sharing(tmp_path: Path) -> None:
    def fill(builder: MemoryBuilder, line: int) -> None:
        for thread in (7, 8):
            builder.add(line, 0x20, builder.code("both"), builder.thread(thread), [1, 2], loads=400, local_hitm=75)
            builder.add(line, 0, builder.code("both", 8), builder.thread(thread), [1, 2], stores=900)

    assert verdict_of(tmp_path, fill)[0] == "true sharing"


def test_a_counter_is_true_sharing(tmp_path: Path) -> None:
    def fill(builder: MemoryBuilder, line: int) -> None:
        code = builder.code("refcount_inc")
        builder.add(line, 8, code, 0, range(16), loads=200, stores=200, locked=200, remote_hitm=180)

    # It may be one thread that migrates.
    assert verdict_of(tmp_path, fill) == ("true sharing", "medium")


def test_a_counter_of_known_threads_is_true_sharing(tmp_path: Path) -> None:
    def fill(builder: MemoryBuilder, line: int) -> None:
        code = builder.code("refcount_inc")
        for thread in (7, 8):
            builder.add(line, 8, code, builder.thread(thread), [1], loads=90, stores=90, locked=180, remote_hitm=80)

    assert verdict_of(tmp_path, fill) == ("true sharing", "high")


def test_a_counter_beside_one_that_others_write_is_false_sharing(tmp_path: Path) -> None:
    """Eight CPUs fight for each of them on any line: how much a line of its own gains is not known."""

    def fill(builder: MemoryBuilder, line: int) -> None:
        for offset, function, cpus in ((8, "count_a", range(8)), (16, "count_b", range(8, 16))):
            code = builder.code(function)
            builder.add(line, offset, code, 0, cpus, loads=200, stores=200, locked=200, local_hitm=90)

    assert verdict_of(tmp_path, fill) == ("false sharing", "low")


def test_counters_of_one_cpu_each_are_proven_false_sharing(tmp_path: Path) -> None:
    def fill(builder: MemoryBuilder, line: int) -> None:
        for offset, function, cpu in ((8, "count_a", 0), (16, "count_b", 1)):
            code = builder.code(function)
            builder.add(line, offset, code, 0, [cpu], loads=200, stores=200, locked=200, local_hitm=90)

    assert verdict_of(tmp_path, fill) == ("false sharing", "high")


def test_who_stores_and_never_loads_is_in_the_fight(tmp_path: Path) -> None:
    def fill(builder: MemoryBuilder, line: int) -> None:
        code = builder.code("count_a")
        builder.add(line, 8, code, 0, range(8), loads=200, stores=200, locked=200, local_hitm=200)
        builder.add(line, 16, builder.code("store_b"), 0, range(8, 16), stores=300)

    assert verdict_of(tmp_path, fill)[0] == "false sharing"


def test_a_line_beside_one_that_is_written(tmp_path: Path) -> None:
    def fill(builder: MemoryBuilder, line: int) -> None:
        builder.add(line, 0x10, builder.code("reader"), 0, range(4), loads=500, local_hitm=200)
        buddy = builder.line(LINE + 64)
        builder.add(buddy, 0, builder.code("writer"), 0, range(4, 8), loads=500, stores=900, local_hitm=300)

    report = report_of(tmp_path, fill)
    assert (report.judgement.verdict, report.judgement.confidence) == ("adjacent line", "medium")
    assert report.advice is not None
    assert "128 bytes" in report.advice.text


@pytest.mark.parametrize(("stores", "verdict"), [(5, "too little evidence"), (30, "adjacent line")])
def test_no_store_beside_a_few_shows_nothing(tmp_path: Path, stores: int, verdict: str) -> None:
    """Were both halves written as often, so few samples would hardly show it."""

    def fill(builder: MemoryBuilder, line: int) -> None:
        builder.add(line, 0x10, builder.code("reader"), 0, range(4), loads=40, local_hitm=20)
        builder.add(builder.line(LINE + 64), 0, builder.code("writer"), 0, range(4, 8), loads=20, stores=stores)
        builder.add(builder.line(LINE + 4096), 0, builder.code("another"), 0, range(4, 8), loads=500, stores=900)

    assert verdict_of(tmp_path, fill)[0] == verdict


def test_a_neighbour_is_of_the_same_process(tmp_path: Path) -> None:
    """Addresses of two processes are alike: the written line beside the one is not beside the other."""
    builder = MemoryBuilder()
    for pid in (7, 8):
        line = builder.line(0x4000, "user", pid)
        builder.add(line, 0x10, builder.code("reader"), 0, range(4), loads=500, local_hitm=200 + pid)
    buddy = builder.line(0x4040, "user", 7)
    builder.add(buddy, 0, builder.code("writer"), 0, range(4, 8), loads=500, stores=900, local_hitm=100)
    path = builder.write(tmp_path / "lines.lockline")
    with open_recording(path) as recording:
        lines = make_c2c_report(recording, 10).lines
    found = {(line.line.pid, line.line.address): line.buddy for line in lines}
    assert found[8, 0x4000] is None
    written = found[7, 0x4000]
    assert written is not None
    assert written.counts.stores == 900


def test_a_written_line_two_lines_away_is_no_neighbour(tmp_path: Path) -> None:
    def fill(builder: MemoryBuilder, line: int) -> None:
        builder.add(line, 0x10, builder.code("reader"), 0, range(4), loads=500, local_hitm=200)
        other = builder.line(LINE + 128)
        builder.add(other, 0, builder.code("writer"), 0, range(4, 8), loads=500, stores=900, local_hitm=300)

    assert verdict_of(tmp_path, fill) == ("too little evidence", "low")


def test_a_neighbour_that_is_not_written_explains_nothing(tmp_path: Path) -> None:
    def fill(builder: MemoryBuilder, line: int) -> None:
        builder.add(line, 0x10, builder.code("reader"), 0, range(4), loads=500, local_hitm=200)
        builder.add(builder.line(LINE + 64), 0, builder.code("reader"), 0, range(4), loads=500, local_hitm=10)

    assert verdict_of(tmp_path, fill)[0] == "too little evidence"


def test_a_line_that_is_hardly_written_is_no_problem(tmp_path: Path) -> None:
    def fill(builder: MemoryBuilder, line: int) -> None:
        builder.add(line, 0, builder.code("reader"), 0, range(16), loads=5000, l1_hit=4990, local_hitm=4)
        builder.add(line, 0, builder.code("writer"), 0, [3], stores=5)

    assert verdict_of(tmp_path, fill)[0] == "read mostly"
    # In a file that has hardly a store of any line, one store does not show that the line is hardly written.
    assert verdict_of(tmp_path, fill, stores=False)[0] == "read mostly"

    def waits_more(builder: MemoryBuilder, line: int) -> None:
        builder.add(line, 0, builder.code("reader"), 0, range(16), loads=530, l1_hit=500, local_hitm=3)
        builder.add(line, 0, builder.code("writer"), 0, [3], stores=1)

    assert verdict_of(tmp_path, waits_more, stores=False)[0] == "too little evidence"
    assert verdict_of(tmp_path, waits_more)[0] == "read mostly"


@pytest.mark.parametrize(("hitm", "verdict"), [(2, "too little evidence"), (3, "true sharing")])
def test_too_few_transfers_are_no_verdict(tmp_path: Path, hitm: int, verdict: str) -> None:
    def fill(builder: MemoryBuilder, line: int) -> None:
        builder.add(line, 0, builder.code("user"), 0, range(4), loads=10, stores=10, local_hitm=hitm)

    assert verdict_of(tmp_path, fill) == (verdict, "low")


def one_socket(builder: MemoryBuilder, line: int, threads: tuple[int, int], fill_buffer: int) -> None:
    reader, writer = (builder.thread(thread) for thread in threads)
    builder.add(line, 0x10, builder.code("reader"), reader, [1], loads=60_000, fill_buffer=fill_buffer, local_hitm=2)
    builder.add(line, 0x14, builder.code("writer"), writer, [2], stores=100_000)


def test_few_hitm_with_many_fill_buffer_hits_are_false_sharing(tmp_path: Path) -> None:
    report = report_of(tmp_path, lambda builder, line: one_socket(builder, line, (7, 8), 50_000))
    assert (report.judgement.verdict, report.judgement.confidence) == ("false sharing", "high")
    assert report.cost_is == "fill buffer hits"
    assert report.score > 1000


def test_loads_that_stand_for_the_cost_do_not_go_away(tmp_path: Path) -> None:
    def fill(builder: MemoryBuilder, line: int) -> None:
        one_socket(builder, line, (7, 8), 0)
        # As a text tells it: of the whole line, not by offset.
        builder.add(line, -1, 0, 0, loads=30_000, fill_buffer=30_000)

    report = report_of(tmp_path, fill)
    assert report.cost_is == "loads"
    assert report.advice is not None
    assert "At most 100% of the line's cost (known by its loads) can go away" in report.advice.text


def test_few_hitm_without_fill_buffer_hits_are_not(tmp_path: Path) -> None:
    verdict = verdict_of(tmp_path, lambda builder, line: one_socket(builder, line, (7, 8), 0))
    assert verdict[0] == "too little evidence"


def test_stores_that_are_not_sampled_are_no_evidence_of_reading(tmp_path: Path) -> None:
    def fill(builder: MemoryBuilder, line: int) -> None:
        builder.add(line, 0x30, builder.code("first"), 0, [1, 2], loads=800, local_hitm=700)
        builder.add(line, 0x38, builder.code("second"), 0, [3, 4], loads=800, local_hitm=700)

    assert verdict_of(tmp_path, fill, stores=False) == ("false sharing", "medium")
    # Where stores are sampled, their absence tells something.
    assert verdict_of(tmp_path, fill, stores=True)[0] == "too little evidence"


def test_one_member_without_sampled_stores_cannot_be_told(tmp_path: Path) -> None:
    def fill(builder: MemoryBuilder, line: int) -> None:
        builder.add(line, 0x30, builder.code("user"), 0, range(8), loads=800, local_hitm=700)

    report = report_of(tmp_path, fill, stores=False)
    assert report.judgement.verdict == "too little evidence"
    assert "perf c2c record" in report.judgement.evidence[-1]


CODE = Code(0x1000, "user", "", 0, "program", "")


def access(offset: int, address: int, hitm: int, loads: int = 0) -> Access:
    counts = Counts(records=loads or hitm, loads=loads or hitm, local_hitm=hitm)
    return Access(offset, CODE._replace(address=address), 0, counts, None, 2, "")


def judged(*accesses: Access, coverage: Coverage | None = None) -> Judgement:
    line = Line(0x4000, 64, "user", 1, "", "", 0, "", 0, add_counts(a.counts for a in accesses), accesses)
    parts, kind = divide(line, types(), "", None, ())
    return judge(line, parts, kind, coverage or Coverage(1000, 0.0, None, True, ()))


def test_instructions_side_by_side_are_of_one_function() -> None:
    # Two fields that pay alike: of one piece of code they may be used together, of two they are not.
    assert judged(access(0x20, 0x1000, 500), access(0x28, 0x1006, 500)).verdict == "too little evidence"
    assert judged(access(0x20, 0x1000, 500, 2000), access(0x28, 0x9006, 500, 2000)).verdict == "false sharing"
    # If nearly all loads wait, two CPUs at each may wait for each other.
    assert judged(access(0x20, 0x1000, 500), access(0x28, 0x9006, 500)).verdict == "too little evidence"
    # What pays next to nothing may be used right after the other: without stores that tells nothing.
    assert judged(access(0x27, 0x1000, 930), access(0x28, 0x9006, 70)).verdict == "too little evidence"


def test_what_could_not_be_read_makes_less_sure() -> None:
    many = [access(0x10, 0x1000, 500), access(0x28, 0x9006, 500)]
    sure = judged(*many, coverage=Coverage(1000, 0.0, False, True, ()))
    unsure = judged(*many, coverage=Coverage(1000, 0.6, False, True, ()))
    assert len(unsure.doubts) == len(sure.doubts) + 1


@pytest.mark.parametrize(("loads", "doubt"), [(None, "is not told"), (0, "")])
def test_a_doubt_about_loads_that_are_not_shown_counts_none_where_none_is_told(loads: int | None, doubt: str) -> None:
    accesses = tuple(
        Access(
            offset, CODE._replace(symbol=f"f{offset}"), 0, Counts(600, loads, stores, None, hitm), 1 << offset, 1, ""
        )
        for offset, hitm, stores in ((0, 200, 300), (8, 200, 300))
    )
    line = Line(LINE, 64, "user", 1, "", "", 0, "", 0, add_counts(a.counts for a in accesses), accesses)
    judged = judge(line, *divide(line, types(), "", None, ()), Coverage(1200, 0.0, True, True, ()))
    assert judged.verdict == "false sharing"
    told = [one for one in judged.doubts if "loads" in one and "not shown" in one]
    assert bool(told) == bool(doubt)
    assert all(doubt in one and "0 of 0" not in one for one in told)


@given(
    st.lists(
        st.tuples(
            st.integers(-1, 63),
            st.sampled_from(["", SLOW_PATH, "reader", "futex_wake", "mutex_unlock", "0x1234"]),
            st.lists(st.none() | st.integers(0, 300), min_size=len(FIGURES), max_size=len(FIGURES)),
            st.none() | st.integers(0, 2**70),
        ),
        max_size=8,
    ),
    st.sampled_from([True, False, None]),
    st.booleans(),
)
@settings(deadline=None)
def test_every_line_has_a_verdict_with_evidence(
    rows: list[tuple[int, str, list[int | None], int | None]], stores_seen: bool | None, named: bool
) -> None:
    accesses = tuple(
        Access(offset, Code(number, "kernel", symbol, 0, "", ""), 1 << number, Counts(*counts), cpus, 1, "")
        for number, (offset, symbol, counts, cpus) in enumerate(rows)
    )
    line = Line(LINE, 64, "kernel", 0, "", "", 0, "", 0, add_counts(a.counts for a in accesses), accesses)
    parts, kind = divide(line, types(), "bucket" if named else "", 0 if named else None, ())
    coverage = Coverage(10, 0.1, stores_seen, stores_seen, ())
    for buddy in (None, replace(line, address=LINE ^ 64)):
        judgement = judge(line, parts, kind, coverage, buddy)
        assert judgement.evidence
        assert all(part in parts for part in judgement.members)
    assert 0 <= largest_effect(parts) <= 1
    assert sum(part.share for part in parts) <= 1.0001
    assert sorted(a.offset for part in parts for a in part.accesses) == sorted(r[0] for r in rows if r[0] >= 0)


@given(st.sets(st.integers(0, 300)))
def test_lists_of_cpus(cpus: set[int]) -> None:
    text = cpu_list(sum(1 << cpu for cpu in cpus))
    read: set[int] = set()
    for part in text.split(",") if text else ():
        first, _, last = part.partition("-")
        read.update(range(int(first), int(last or first) + 1))
    assert read == cpus


def structure(*sizes: int) -> Struct:
    """One with members a, b, ... of these sizes, one after the other."""
    begins = [sum(sizes[:at]) for at in range(len(sizes))]
    members = [
        Member(chr(ord("a") + at), begin, size, "char", "", 1, 0, None)
        for at, (begin, size) in enumerate(zip(begins, sizes, strict=True))
    ]
    return Struct("s", "struct", sum(sizes), tuple(members))


@pytest.mark.parametrize(
    ("sizes", "moved", "padded"),
    [
        ((4, 4, 16), "c", {"c": 56}),
        ((4, 4, 8, 8), "bc", {"b": 60}),
        ((4, 4, 8, 4), "bd", {"b": 60, "d": 52}),
        # What begins the line already: its neighbours go.
        ((4, 4, 16), "a", {"b": 60}),
        ((64, 8, 8), "b", {"c": 56}),
        ((64, 64), "a", {}),
    ],
)
def test_who_begins_a_line(sizes: tuple[int, ...], moved: str, padded: dict[str, int]) -> None:
    struct = structure(*sizes)
    begins = line_begins(struct, [member for member in struct.members if member.name in moved])
    assert {member.name: padding for member, padding in begins.items() if padding} == padded
    shift = 0
    stays = False
    for member in struct.members:
        shift += begins.get(member, 0)
        if member.name in moved:
            assert not stays or (member.offset + shift) % 64 == 0
        stays = member.name not in moved


def test_code_that_is_not_told_is_said(tmp_path: Path) -> None:
    """A row that is cut before its instruction."""

    def fill(builder: MemoryBuilder, line: int) -> None:
        builder.kind = "c2c text"
        builder.add(line, 0x38, builder.code("file_get", 8), 0, (), loads=50, local_hitm=30, stores=300)
        builder.add(line, 0, 0, 0, (), loads=300, local_hitm=200)

    judged = report_of(tmp_path, fill).judgement
    assert judged.verdict == "too little evidence"
    assert any("which code uses +0x0 is not told" in told for told in judged.evidence)
