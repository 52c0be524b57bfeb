# SPDX-License-Identifier: GPL-2.0-or-later
"""Where samples fit one kind of sharing, and what a line of their own would bring is not known: no high confidence."""

from dataclasses import replace
from pathlib import Path

from c2c.test_sharing import access, judged
from c2c.test_text_published import HEADER, judgement, totals
from c2c.test_text_published import row as row_of_text
from lockline.c2c.model import Access, Counts, Coverage, Judgement
from lockline.recording.code import Code

FIRST, SECOND, MASTER = 1, 2, 3


def row(offset: int, thread: int, *, loads: int = 0, hitm: int = 0, stores: int = 0, clean: int = 0) -> Access:
    """What one thread does at one offset, as a perf.data file tells it."""
    counts = Counts(
        records=loads + stores, loads=loads, stores=stores, local_hitm=hitm, remote_hitm=0, llc_hit=clean, locked=0
    )
    code = Code(0x1000 + 0x100 * thread + 8 * bool(stores), "user", f"work{thread}", 0, "program", "")
    return Access(offset, code, 1 << thread, counts, 1 << thread, 1, "")


def ends_of_a_queue() -> list[Access]:
    """Two threads: each changes its end, and pays for that as the other one has changed its own."""
    return [
        made
        for thread, end in ((FIRST, 0), (SECOND, 32))
        for made in (row(end, thread, loads=400, hitm=200), row(end, thread, stores=300))
    ]


def test_who_pays_and_reads_what_others_write_beside_it_may_wait_there_instead() -> None:
    """The first of two loads brings the line along, so that the second one never pays."""
    own = judged(*ends_of_a_queue())
    assert (own.verdict, own.confidence) == ("false sharing", "high")
    found = judged(*ends_of_a_queue(), row(32, FIRST, loads=400), row(0, SECOND, loads=400))
    assert (found.verdict, found.confidence) == ("false sharing", "low")
    assert any("may wait there instead" in doubt for doubt in found.doubts)
    # A stray sample at the other's bytes is no use of them.
    stray = judged(*ends_of_a_queue(), row(32, FIRST, loads=2), row(0, SECOND, loads=2))
    assert (stray.verdict, stray.confidence) == ("false sharing", "high")


def test_loads_at_bytes_that_a_text_leaves_out_are_a_doubt() -> None:
    """perf lists no offset that has neither HITM nor stores: these loads may be at the other one's bytes."""
    left_out = replace(row(-1, FIRST, loads=300), threads=0, cpus=None, cpu_count=0)
    found = judged(*ends_of_a_queue(), left_out)
    assert (found.verdict, found.confidence) == ("false sharing", "medium")
    assert any("300 of 1,100 loads are at bytes that are not shown" in doubt for doubt in found.doubts)
    # One of them may follow each load that pays.
    as_many = judged(*ends_of_a_queue(), replace(left_out, counts=Counts(records=400, loads=400, stores=0)))
    assert as_many.confidence == "low"
    assert all("`perf " in doubt for doubt in found.doubts)
    few = judged(*ends_of_a_queue(), replace(left_out, counts=Counts(records=80, loads=80, stores=0)))
    assert few.confidence == "high"


def test_what_padding_brings_is_not_known_where_nearly_all_loads_wait() -> None:
    """Two counters that all change in one go: when a thread gets the one, has it the other?  Waiting hides it."""

    def counters(loads: int) -> list[Access]:
        some = [
            access((offset, "add", 100, stores), threads=(1, 2, 3), cpus=0b1110)
            for offset in (0, 32)
            for stores in (0, 200)
        ]
        return [
            replace(one, counts=one.counts._replace(loads=loads, records=loads + (one.counts.stores or 0)))
            for one in some
        ]

    assert judged(*counters(400)).confidence == "high"
    found = judged(*counters(100))
    assert (found.verdict, found.confidence) == ("true sharing", "low")
    assert any("`lockline diff` of a build with the members apart" in doubt for doubt in found.doubts)


def test_an_estimate_near_both_kinds_is_no_proof() -> None:
    """Two threads poll a slot each, and a master writes to both: a fifth of the cost is the neighbour's, or more."""
    rows = (
        *(row(24, FIRST, loads=141, hitm=117, clean=20), row(24, FIRST, stores=1), row(24, MASTER, stores=134)),
        *(row(32, SECOND, loads=151, hitm=107, clean=31), row(32, SECOND, stores=3), row(32, MASTER, stores=150)),
    )
    found = judged(*(replace(one, cpus=0b1110, cpu_count=3) for one in rows))
    assert found.verdict == "true sharing"
    assert any("ends if these move (false sharing)" in told for told in found.evidence)
    assert found.confidence == "medium"


def test_two_members_with_a_user_each_may_be_a_mailbox_where_stores_were_not_sampled() -> None:
    """Each user may read what the other one writes: then the bytes that pay are shared themselves."""
    rows = [row(0, FIRST, loads=900, hitm=400), row(32, SECOND, loads=700, hitm=300)]
    unsampled = Coverage(100_000, 0.0, False, True, ())
    unseen = [replace(one, counts=one.counts._replace(stores=0), cpu_count=1) for one in rows]
    found = judged(*unseen, coverage=unsampled)
    assert (found.verdict, found.confidence) == ("false sharing", "low")
    assert any("each of which reads what the other one writes" in doubt for doubt in found.doubts)
    # One function at both is no two sides: slots of an array.
    same = [replace(one, code=rows[0].code) for one in unseen]
    assert judged(*same, coverage=unsampled).confidence == "medium"


def test_several_cpus_at_each_member_may_write_there_where_nearly_all_loads_wait() -> None:
    """Two counters look the same as two members of others, if stores were not sampled."""
    unsampled = Coverage(100_000, 0.0, False, True, ())

    def found(loads: int, cpus: int) -> Judgement:
        rows = [row(0, FIRST, loads=loads, hitm=400), row(32, SECOND, loads=loads, hitm=400)]
        unknown = [replace(one, threads=0, cpus=None, cpu_count=cpus) for one in rows]
        untold = [replace(one, counts=one.counts._replace(stores=0, locked=None, llc_hit=None)) for one in unknown]
        return judged(*untold, coverage=unsampled)

    waits = found(400, 8)
    assert waits.verdict == "too little evidence"
    assert any("they may wait for each other's writes" in told for told in waits.evidence)
    # Who often finds the line there does not always lose it to the users of the same bytes.
    assert (found(2000, 8).verdict, found(2000, 8).confidence) == ("false sharing", "low")
    assert found(400, 1).verdict == "false sharing"


def test_a_text_that_counts_no_accesses_by_offset_is_not_asked_for_anew() -> None:
    """Of an older perf: the whole text does not tell it either.  Two HITM, and many hits of the fill buffer."""
    rows = [
        Access(
            offset,
            Code(0x1000 + offset, "user", f"work{offset}", 0, "program", ""),
            0,
            Counts(records=None, loads=2, stores=400, local_hitm=2, remote_hitm=0),
            None,
            2,
            "",
        )
        for offset in (0, 4)
    ]
    rest = Counts(records=None, loads=100_000, stores=0, fill_buffer=20_000, local_hitm=0, remote_hitm=0)
    found = judged(*rows, replace(rows[0], offset=-1, cpu_count=0, counts=rest))
    assert found.verdict == "too little evidence"
    told = [
        text for text in (*found.evidence, *found.doubts) if "at each offset; `lockline c2c report perf.data`" in text
    ]
    assert len(told) == 2


def test_what_stands_before_a_spinlock_may_be_its_sequence_count(tmp_path: Path) -> None:
    """A seqlock_t is both, and is not parted; a text does not tell the type."""
    text = HEADER + totals(500, 1000, 3000, 100, 0)
    text += row_of_text("50.00 50.00 0.00 0.00 0.00", 0, 3000, 40, "[k] path_init")
    text += row_of_text("8.00 8.00 40.00 40.00 0.00", 0, 900, 40, "[k] mntput_no_expire")
    text += row_of_text("42.00 42.00 60.00 60.00 0.00", 4, 3000, 40, "[k] native_queued_spin_lock_sl")
    found = judgement(text, tmp_path)
    # Both are words of one lock then; if not, it is false sharing, and the report says so.
    assert (found.verdict, found.confidence) == ("lock word", "low")
    assert any("seqlock_t" in doubt for doubt in found.doubts)
    apart = judgement(text.replace("  0x4  ", "  0x8  "), tmp_path)
    assert not any("seqlock_t" in doubt for doubt in apart.doubts)


def test_a_flag_of_which_few_loads_find_it_elsewhere(tmp_path: Path) -> None:
    """One thread that migrates would write wherever it reads; so many stores on so few CPUs are another one's."""

    def found(stores: int, writers: int) -> tuple[str, str]:
        text = HEADER + totals(90, 120, stores, 0, 0)
        text += row_of_text("100.00 100.00 0.00 0.00 0.00", 0, 4600, 60, "[k] fib_lookup")
        text += row_of_text("0.00 0.00 100.00 0.00 0.00", 0, stores, writers, "[k] fib_insert")
        judged = judgement(text, tmp_path)
        return judged.verdict, judged.confidence

    assert found(70, 1) == ("true sharing", "medium")
    assert found(70, 30)[0] == "too little evidence"
    assert found(3, 1)[0] == "too little evidence"


def test_one_user_of_all_members_may_read_what_others_write() -> None:
    """No store was sampled: slots of threads, or a block that one thread reads.  Its CPU at each member tells."""
    unsampled = Coverage(100_000, 0.0, False, True, ())

    def found(*cpus: int | None) -> tuple[str, str]:
        rows = [access((8 * at, "drain", 100, 0), (), cpu, 1) for at, cpu in enumerate(cpus)]
        judged_rows = judged(*rows, coverage=unsampled)
        return judged_rows.verdict, judged_rows.confidence

    assert found(1, 2, 4) == ("false sharing", "medium")
    assert found(None, None, None) == ("false sharing", "low")
    assert found(2, 2, 2) == ("too little evidence", "low")


def test_half_of_the_cost_beside_is_neither_kind_in_few_samples() -> None:
    """All read a limit, and count beside it: an estimate of half errs to either side."""

    def found(times: int) -> str:
        rows = []
        for offset, hitm, clean, stores in ((0, 65, 34, 0), (8, 35, 64, 100)):
            made = access((offset, "charge", times * hitm // 10, times * stores // 10), threads=[1, 2, 3, 4])
            loads, wrote = times * 10, times * stores // 10
            counts = made.counts._replace(loads=loads, records=loads + wrote, llc_hit=times * clean // 10)
            rows.append(replace(made, counts=counts))
        return judged(*rows).verdict

    assert found(100) == "false sharing"
    assert found(5) == "too little evidence"


def test_a_member_without_a_store_among_few_may_be_written() -> None:
    """Different code pays where no store was seen: one store of the line does not show that."""

    def found(stores: int) -> str:
        return judged(access((0, "read_it", 12, 0), count=4), access((8, "change_it", 0, stores), count=4)).verdict

    assert found(30) == "false sharing"
    assert found(2) == "too little evidence"


def test_who_always_waits_for_a_count_beside_a_lock_waits_wherever_it_lies() -> None:
    """Each holder changes the count: who reads it so seldom that all reads wait finds it changed on any line."""

    def found(loads: int, writes: int = 300) -> str:
        spins = access((0, "native_queued_spin_lock_slowpath", 300, 600), count=16)
        holds = access((8, "pool_get", 10, writes), count=16)
        reads = access((8, "pool_count", 300, 0), count=16)
        reads = replace(reads, counts=reads.counts._replace(loads=loads, records=loads))
        return judged(spins, holds, reads).confidence

    # Nobody changes it, or one holder in four, or all.
    assert [found(5000, writes) for writes in (0, 75, 300)] == ["high", "medium", "low"]
    assert found(300) == "low"


def test_what_writers_take_from_each_other_shows_in_no_load() -> None:
    """Several threads store to a word that they never load, and others pay for the word beside it."""
    reads = access((0, "scan", 200, 0), threads=(1, 2), cpus=0b11)

    def found(*threads: int) -> Judgement:
        stores = access((0x10, "post", 0, 500), threads=threads, cpus=0b1100)
        return judged(reads, stores)

    one, several = found(3), found(3, 4, 5)
    assert (one.verdict, one.confidence) == ("false sharing", "high")
    assert (several.verdict, several.confidence) == ("false sharing", "low")
    assert any("+0x10: several write there without loading it" in doubt for doubt in several.doubts)
