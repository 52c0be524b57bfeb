# SPDX-License-Identifier: GPL-2.0-or-later
"""Several locks on one line, and a lock whose line others write to: whether anybody waits for the lock itself."""

from collections.abc import Sequence
from pathlib import Path

from c2c.memory_recording import MemoryBuilder
from c2c.test_verdict import SLOW_PATH, Fill, report_of
from lockline.c2c.model import LineReport


def taken(builder: MemoryBuilder, line: int, at: int, threads: Sequence[int], wait: str = "", code: int = 0x10) -> None:
    """A lock that threads take, each on a CPU of its own; wait: the function of who finds it taken."""
    for tid in threads or (0,):
        thread = builder.thread(tid) if tid else 0
        cpus = (tid,) if tid else range(16)
        take, free = builder.code("pthread_spin_lock", code), builder.code("pthread_spin_unlock", 4)
        builder.add(line, at, take, thread, cpus, loads=300, local_hitm=120, stores=300, locked=300)
        builder.add(line, at, free, thread, cpus, stores=300)
        if wait:
            builder.add(line, at, builder.code(wait, 0x40), thread, cpus, loads=200, local_hitm=180)


def locks(*places: tuple[int, Sequence[int]], wait: str = "") -> Fill:
    def fill(builder: MemoryBuilder, line: int) -> None:
        for at, threads in places:
            taken(builder, line, at, threads, wait)

    return fill


def told(report: LineReport) -> tuple[str, str]:
    return report.judgement.verdict, report.judgement.confidence


def test_locks_with_one_user_each_are_false_sharing(tmp_path: Path) -> None:
    """Nobody waits for either of them: apart, nobody waits at all."""
    report = report_of(tmp_path, locks((0, [1]), (0x20, [2])))
    assert told(report) == ("false sharing", "high")
    assert any("+0x0 and +0x20 are two locks" in evidence for evidence in report.judgement.evidence)
    assert report.advice is not None
    assert report.advice.text.startswith("Move +0x20 to its own cache line: it is another lock, ")
    assert report.advice.effect == 1.0
    assert not report.advice.warning


def test_locks_that_all_take_stay_locks(tmp_path: Path) -> None:
    report = report_of(tmp_path, locks((0, [1, 2, 3]), (0x20, [1, 2, 3])))
    assert told(report) == ("lock word", "medium")
    assert any("are two locks" in doubt for doubt in report.judgement.doubts)


def test_whether_anybody_waits_for_locks_may_be_unknown(tmp_path: Path) -> None:
    """Without threads: a function that is called only where others have the lock tells it."""
    unknown = report_of(tmp_path, locks((0, []), (0x20, [])))
    assert unknown.judgement.verdict == "too little evidence"
    assert any("-NN -c tid,iaddr" in evidence for evidence in unknown.judgement.evidence)
    waited = report_of(tmp_path, locks((0, []), (0x20, []), wait="__lll_lock_wait"))
    # How much of it is between the two is not known.
    assert told(waited) == ("lock word", "low")


def test_a_lock_that_writes_half_of_the_line_and_pays_nothing_is_another_lock(tmp_path: Path) -> None:
    """Who takes the one finds the line at the other's user each time; that one's turn is hidden by its stores."""

    def fill(builder: MemoryBuilder, line: int) -> None:
        for at, paid in ((0, 3), (0x20, 300)):
            for name in ("mutex_lock", "mutex_unlock"):
                code = builder.code(name, 0x10)
                builder.add(line, at, code, 0, (), loads=300, local_hitm=paid, stores=600, locked=300)

    assert report_of(tmp_path, fill).judgement.verdict == "too little evidence"


def test_two_locks_that_pay_are_two_where_stores_were_not_sampled(tmp_path: Path) -> None:
    def fill(builder: MemoryBuilder, line: int) -> None:
        for at in (0, 0x20):
            builder.add(line, at, builder.code("_raw_spin_lock", 0x10), 0, (), loads=300, local_hitm=200)

    report = report_of(tmp_path, fill)
    assert any("two locks" in said for said in (*report.judgement.evidence, *report.judgement.doubts))
    assert told(report)[1] == "low"


def test_words_of_one_lock_are_not_two_locks(tmp_path: Path) -> None:
    """Another instruction works on each word of a lock; skid puts some of the one's samples at the other."""

    def fill(builder: MemoryBuilder, line: int) -> None:
        for at, code, skid in ((0, 0x10, 0x18), (8, 0x18, 0x10)):
            take = builder.code("pthread_mutex_lock", code)
            builder.add(line, at, take, 0, range(16), loads=300, local_hitm=150, stores=200, locked=200)
            beside = builder.code("pthread_mutex_lock", skid)
            builder.add(line, at, beside, 0, range(16), loads=40, local_hitm=20, stores=20, locked=20)

    report = report_of(tmp_path, fill)
    assert told(report) == ("lock word", "high")
    assert [part.begin for part in report.parts] == [0]


def written_beside(users: Sequence[int], strangers: Sequence[int], stores: int, wait: str = "") -> Fill:
    """A lock of some users, and a field beside it that other threads write without looking."""

    def fill(builder: MemoryBuilder, line: int) -> None:
        taken(builder, line, 0, users, wait)
        for tid in strangers or (0,):
            thread, cpus = (builder.thread(tid), (tid,)) if tid else (0, range(16))
            builder.add(line, 0x28, builder.code("tally", 8), thread, cpus, stores=stores)

    return fill


def test_a_lock_of_one_user_waits_for_who_writes_beside_it(tmp_path: Path) -> None:
    report = report_of(tmp_path, written_beside([1], [7], 400))
    assert told(report) == ("false sharing", "high")
    assert any("one thread alone takes +0x0" in evidence for evidence in report.judgement.evidence)
    assert report.advice is not None
    assert report.advice.members == ("+0x28",)
    # Who takes the line away is not seen.
    alone = report_of(tmp_path, locks((0, [1])))
    assert alone.judgement.verdict == "too little evidence"
    # Who is called only where others have the lock proves that there are others.
    waited = report_of(tmp_path, locks((0, [1]), wait=SLOW_PATH))
    assert waited.judgement.verdict == "lock word"


def test_what_strangers_write_beside_a_lock_is_counted(tmp_path: Path) -> None:
    most = report_of(tmp_path, written_beside([1, 2], [7, 8], 1200))
    assert told(most) == ("false sharing", "medium")
    assert any("67% of the line's writes are at +0x28" in evidence for evidence in most.judgement.evidence)
    part = report_of(tmp_path, written_beside([1, 2], [7, 8], 400))
    assert told(part) == ("lock word", "medium")
    assert any("40% of the line's writes" in doubt for doubt in part.judgement.doubts)
    few = report_of(tmp_path, written_beside([1, 2], [7, 8], 40))
    assert told(few) == ("lock word", "high")
    # Nothing is to be moved: that padding does not help is said once.
    assert few.advice is not None
    assert "padding changes nothing" in few.advice.text
    assert not few.advice.warning
    # Who takes the lock writes there too: they have the line already.
    holders = report_of(tmp_path, written_beside([1, 2], [1, 2], 1200))
    assert told(holders) == ("lock word", "high")
    unknown = report_of(tmp_path, written_beside([], [], 1200))
    assert told(unknown) == ("lock word", "medium")
    assert any("whether the lock's holders make them is not known" in doubt for doubt in unknown.judgement.doubts)
