# SPDX-License-Identifier: GPL-2.0-or-later
"""Locks in texts: names that perf has cut, and fast paths that a compiler has built into the lock's users."""

from pathlib import Path

import pytest

from c2c.test_text_published import HEADER, judgement, row, totals
from lockline.c2c.model import Judgement

STATISTICS = """=================================================
            Trace Event Information
=================================================
  Total records                     :       6400
  Load Operations                   :       6000
  Store Operations                  :        400

"""
# What perf c2c prints of a name behind "[k] ".
WIDTH = 26


def cut(symbol: str) -> str:
    """As perf c2c prints it without --full-symbols."""
    return symbol[:WIDTH]


def found(
    directory: Path,
    *rows: tuple[int, float, float, str],
    full: bool = False,
    sums: tuple[int, ...] = (500, 1000, 3000, 100, 0),
    records: int = 2000,
) -> Judgement:
    """The verdict on rows of an offset, the percents of HITM and of the stores, and a function; sums: of the line.

    records: of each row.
    """
    text = STATISTICS + HEADER + totals(*sums)
    for offset, hitm, stores, symbol in rows:
        shares = f"{hitm:.2f} {hitm:.2f} {stores:.2f} {stores:.2f} 0.00"
        text += row(shares, offset, records, 32, symbol if full else f"[.] {cut(symbol)}")
    return judgement(text, directory)


def test_a_spinlock_with_a_cut_name_beside_its_data(tmp_path: Path) -> None:
    """Its word is also changed by a function that the fast path was built into."""
    judged = found(
        tmp_path,
        (0x10, 65, 40, "native_queued_spin_lock_slowpath"),
        (0x10, 5, 25, "folio_lruvec_lock_irqsave"),
        (0x18, 22, 0, "__mod_lruvec_page_state"),
        (0x20, 8, 35, "lru_add_fn"),
    )
    assert judged.verdict == "false sharing"
    assert any("who waits for the lock" in told for told in judged.evidence)


@pytest.mark.parametrize(
    ("slow", "user"),
    [
        ("sync.(*Mutex).lockSlow", "main.(*Store).Get"),
        ("parking_lot::raw_mutex::RawMutex::lock_slow", "<api::Handler as hyper::service::Service>::call"),
        ("std::sys::sync::mutex::futex::Mutex::lock_contended", "cache::shard::Shard::get"),
        ("je_malloc_mutex_lock_slow", "je_tcache_bin_flush_small"),
        ("__lll_lock_wait_private", "_int_free"),
    ],
)
def test_where_a_lock_is_waited_for_there_is_one(tmp_path: Path, slow: str, user: str) -> None:
    """Compilers build the fast path into who uses the lock: most of the accesses have that function's name."""
    assert found(tmp_path, (0x8, 40, 25, slow), (0x8, 60, 75, user)).verdict == "lock word"
    beside = found(tmp_path, (0x8, 30, 15, slow), (0x8, 45, 85, user), (0x10, 25, 0, "main.watch"))
    assert beside.verdict == "false sharing"
    # One mistaken sample in a hundred makes no lock.
    assert found(tmp_path, (0x8, 1, 1, "main.tick"), (0x8, 99, 99, user)).verdict == "true sharing"


def test_what_holders_write_beside_a_lock_goes_from_one_to_the_next(tmp_path: Path) -> None:
    """Apart from the lock it may cost as much.  What others read there, and nobody writes, is surely false sharing."""
    slow = "native_queued_spin_lock_slowpath"
    held = found(tmp_path, (0, 60, 20, slow), (0, 20, 40, "_raw_spin_lock"), (8, 20, 40, "pool_get"))
    assert held.verdict == "lock word"
    assert held.confidence != "high"
    assert any("+0x8, which goes from one to the next" in doubt and "lockline diff" in doubt for doubt in held.doubts)
    read = found(tmp_path, (0, 60, 40, slow), (0, 20, 60, "_raw_spin_lock"), (8, 20, 0, "pool_is_empty"))
    assert read.verdict == "false sharing"
    assert not any("goes from one to the next" in doubt for doubt in read.doubts)
    both = (*((0, 35, 20, slow), (0, 15, 40, "_raw_spin_lock")), (8, 40, 40, "pool_get"), (16, 10, 0, "pool_is_empty"))
    mixed = found(tmp_path, *both)
    assert mixed.verdict == "false sharing"
    assert any("10% at +0x10 are false sharing" in doubt for doubt in mixed.doubts)


def test_who_spins_pays_for_what_is_written_beside_the_lock(tmp_path: Path) -> None:
    """Each write to the line takes the lock's word from who looks at it, to whichever bytes it is."""
    slow, take, free = "native_queued_spin_lock_slowpath", "_raw_spin_lock", "_raw_spin_unlock"

    def judged(inside: float) -> Judgement:
        own = (100 - inside) / 2
        return found(tmp_path, (0, 90, 0, slow), (0, 10, own, take), (0, 0, own, free), (8, 0, inside, "tally"))

    most = judged(60)
    assert (most.verdict, most.confidence) == ("false sharing", "low")
    assert any("60% of these are at +0x8" in told for told in most.evidence)
    # Skid makes a store or two of the waiters' loads.
    skid = found(tmp_path, (0, 90, 0.2, slow), (0, 10, 20, take), (0, 0, 19.8, free), (8, 0, 60, "tally"))
    assert skid.verdict == "false sharing"
    part = judged(46)
    assert (part.verdict, part.confidence) == ("lock word", "medium")
    assert any("46% of the line's writes are at +0x8" in doubt for doubt in part.doubts)
    little = judged(30)
    assert (little.verdict, little.confidence) == ("lock word", "medium")
    assert not any("of the line's writes" in doubt for doubt in little.doubts)
    # The text has no table: "tally" may read there too, and how its loads were served is not told.
    assert any("got a clean copy from elsewhere is not told" in doubt for doubt in little.doubts)
    # Who takes it without spinning pays once, whatever was written before.
    taken = found(tmp_path, (0, 90, 20, take), (0, 10, 20, slow), (8, 0, 60, "tally"))
    assert (taken.verdict, taken.confidence) == ("lock word", "medium")
    assert any("whether the lock's holders make them is not known" in doubt for doubt in taken.doubts)
    # The text shows no stores.
    unseen = found(tmp_path, (0, 90, 0, slow), (0, 10, 0, take))
    assert (unseen.verdict, unseen.confidence) == ("lock word", "medium")
    assert any("what is written beside it is not known" in doubt for doubt in unseen.doubts)


def test_few_samples_tell_who_spins_if_they_agree(tmp_path: Path) -> None:
    """Twelve of twelve HITM where loads only look are no chance, nor are four of five stores beside the lock."""
    slow, user, other = "je_malloc_mutex_lock_slow", "arena_get", "arena_put"

    def judged(hitm: int, looks: int, stores: int, beside: int) -> Judgement:
        paid, wrote = 100 * looks / hitm, 100 * beside / stores
        rows = (0, paid, 0, slow), (0, 100 - paid, 100 - wrote, user), (8, 0, wrote, other)
        return found(tmp_path, *rows, sums=(0, hitm, stores, 0, 0), records=30)

    spun = judged(12, 12, 30, 20)
    assert (spun.verdict, spun.confidence) == ("false sharing", "low")
    assert judged(12, 12, 5, 4).verdict == "false sharing"
    # Three of five may be chance, and so may seven of twelve.
    unsure = judged(12, 12, 5, 3)
    assert (unsure.verdict, unsure.confidence) == ("lock word", "low")
    assert any("what is written beside it is not known" in doubt for doubt in unsure.doubts)
    assert judged(12, 7, 30, 20).verdict == "lock word"


def test_what_all_holders_write_beside_a_lock_others_wait_for_wherever_it_lies(tmp_path: Path) -> None:
    """A count of a run queue, which is read without the lock: each holder changes it, or few of them do."""
    slow = "native_queued_spin_lock_slowpath"

    def judged(lock: int, count: int) -> Judgement:
        lines = ((0, lock, 30, slow), (0, 5, 60 - count, "raw_spin_rq_lock_nested"), (4, 3, count, "enqueue_task"))
        return found(tmp_path, *lines, (4, 92 - lock, 0, "idle_cpu"), (0x30, 0, 10, "__schedule"))

    every = judged(45, 35)
    assert (every.verdict, every.confidence) == ("false sharing", "low")
    assert any("its holders write +0x4" in doubt for doubt in every.doubts)
    few = judged(45, 3)
    assert (few.verdict, few.confidence) == ("false sharing", "medium")
    # Where the lock pays more than the rest, it is the lock.
    most = judged(60, 35)
    assert (most.verdict, most.confidence) == ("lock word", "low")


def test_a_lockref_beside_what_is_read_pays_on(tmp_path: Path) -> None:
    """What nobody writes is false sharing, and most of the line's cost is the lock's, and stays."""
    lock = ((0x18, 42, 20, "lockref_get_not_dead"), (0x18, 40, 20, "lockref_put_return"), (0x18, 0, 60, "lockref_get"))
    judged = found(tmp_path, *lock, (0x20, 18, 0, "__d_lookup_rcu"))
    assert (judged.verdict, judged.confidence) == ("false sharing", "medium")
    assert any("what the lock pays at +0x18 stays: 82%" in doubt for doubt in judged.doubts)


def test_the_slow_path_of_postgresqls_spinlock(tmp_path: Path) -> None:
    """s_lock() is called only where the word is taken; its fast path is in the functions that want it."""
    user = "ReserveXLogInsertLocation"
    judged = found(tmp_path, (0, 13, 3, "s_lock"), (0, 70, 40, user), (8, 14, 30, user), (16, 3, 27, user))
    assert judged.verdict == "lock word"


@pytest.mark.parametrize(
    "symbol",
    [
        "absl::lts_20230802::Mutex::LockSlowLoop",
        "PolicyMutex<TTASEventMutex<GenericPolicy> >::enter",
        "folly::SharedMutexImpl<false, void, std::atomic>::lockSharedImpl<folly::SharedMutexImpl<false>::Wait>",
    ],
)
def test_a_class_of_locks_is_known_where_the_method_is_cut_off(tmp_path: Path, symbol: str) -> None:
    assert found(tmp_path, (0x0, 100, 100, symbol)).verdict == "lock word"
    assert found(tmp_path, (0x0, 100, 100, f"[.] {symbol}"), full=True).verdict == "lock word"


def test_what_one_written_member_pays_stays(tmp_path: Path) -> None:
    """A counter, and limits beside it that its own function reads: who reads what is open, for most it is the same."""
    judged = found(
        tmp_path,
        (0x0, 40, 50, "page_counter_try_charge"),
        (0x0, 32, 50, "page_counter_cancel"),
        (0x28, 16, 0, "page_counter_try_charge"),
        (0x38, 12, 0, "page_counter_cancel"),
    )
    assert (judged.verdict, judged.confidence) == ("true sharing", "low")
    assert "+0x28 and +0x38 pay 28% without being written: that part is false sharing" in judged.evidence[-1]


def test_what_the_functions_of_a_lock_read_on_its_line_is_the_locks(tmp_path: Path) -> None:
    """A flag that waiters look at, farther from the mutex than any lock of the C library is large."""
    wait, take = "je_malloc_mutex_lock_slow", "__GI___pthread_mutex_lock"
    free = (0, 10, 50, "__GI___pthread_mutex_unlock_usercnt")
    assert found(tmp_path, (0, 50, 50, take), free, (0, 10, 0, wait), (0x28, 30, 0, wait)).verdict == "lock word"
    # Who has nothing to do with that lock looks at something else: where another lock's owner runs.
    other = found(tmp_path, (0, 60, 50, take), free, (0x28, 30, 0, "mutex_spin_on_owner"))
    assert other.verdict == "false sharing"


def test_two_spinlocks_on_one_line_take_it_from_each_other(tmp_path: Path) -> None:
    slow, take = "native_queued_spin_lock_slowpath", "_raw_spin_lock"
    one = found(tmp_path, (0, 60, 40, slow), (0, 40, 60, take))
    assert one.verdict == "lock word"
    assert not any("are two locks" in doubt for doubt in one.doubts)
    two = found(tmp_path, (0, 30, 20, slow), (0, 20, 30, take), (0x20, 30, 20, slow), (0x20, 20, 30, take))
    assert two.verdict == "lock word"
    assert any("are two locks" in doubt and "`lockline diff`" in doubt for doubt in two.doubts)
    # A rwlock, and the spinlock in it.
    read = "queued_read_lock_slowpath"
    rwlock = found(tmp_path, (0, 30, 20, read), (0, 20, 30, "_raw_read_lock"), (4, 50, 50, read))
    assert not any("are two locks" in doubt for doubt in rwlock.doubts)


def test_a_count_beside_fields_that_other_code_reads(tmp_path: Path) -> None:
    """Who counts reads a field too, which says nothing of those who read the other fields and do not count."""
    count = (0x38, 15, 100, "file_get")
    judged = found(tmp_path, count, (0, 35, 0, "file_get"), (0x10, 50, 0, "file_read"))
    assert (judged.verdict, judged.confidence) == ("false sharing", "low")
    assert any("+0x10 pays 50% without being written" in told for told in judged.evidence)
    alone = found(tmp_path, count, (0, 85, 0, "file_get"))
    assert alone.verdict == "too little evidence"
    assert any("the same function uses" in told for told in alone.evidence)
