# SPDX-License-Identifier: GPL-2.0-or-later
"""The verdict on a line with a lock: its traffic, and what is paid beside it.

Who wants a lock takes its line from those who use what stands beside it.  What the holders write goes from one holder
to the next wherever it lies, so that apart from the lock it may cost as much, or more: two lines move then.
"""

from collections.abc import Sequence
from math import exp, sqrt

from lockline.base.values import replace
from lockline.c2c.functions import is_lock_function, is_spin_function, waits_for_lock
from lockline.c2c.members import is_sequence_type
from lockline.c2c.model import Access, Judgement, Part, Users
from lockline.c2c.parts import LOCK_BYTES, cost, of_two_locks
from lockline.c2c.sharing import share_out
from lockline.c2c.sharing_model import (
    BESIDE,
    FEW_STORES,
    LONGER,
    MAINLY,
    MEMBER,
    MOST,
    RECORD_STORES,
    STRAY_STORES,
    THREADS,
    WHOLE_TEXT,
    is_written,
    places,
)
from lockline.c2c.sharing_threads import TRY_APART, writes_between
from lockline.c2c.users import apart, differ, named, repeated, several_threads, users_of
from lockline.c2c.verdict_case import SOME_TRANSFERS, Case, fetched_beside, hides_own_loads, percent

# From this share on a lock's word is what the line suffers from, and other members do not matter.
LOCK_WORD = 0.85
# Waiters' traffic needs no more samples than these to be known as such: it is known by its functions.
FEW_OF_LOCK = 3
# A lock's word is written to take it and to release it.
WRITES_OF_HOLD = 2
# So few writes beside a lock may be mistaken samples.
LEAST_WRITES = 3
# Less than this is not most of it.
HALF = 0.5
FROM_FILE = "`lockline c2c report perf.data` tells it"
# Of few samples a share may be off by chance: by one standard error often, by two seldom.
LIKELY, SURE = 1, 2
# With so many of a line's writes beside its lock, about half of what its waiters pay ends when they lie elsewhere.
MOSTLY_BESIDE = 0.55
# With fewer of them it is a part, and with fewer than these next to nothing: apart, two lines move.
PARTLY_BESIDE = 0.4


def _is_locks_own(part: Part) -> bool:
    """Whether it is a word of a lock.  A sequence count is one, but takes nothing from the data that it goes with."""
    return part.is_lock or (part.type != "" and is_sequence_type(part.type))


def lock_word(case: Case) -> Judgement | None:
    """Nearly all is the traffic of those who wait for a lock, on its word."""
    locks = [part for part in case.parts if _is_locks_own(part)]
    share = sum(part.share for part in locks)
    if share < LOCK_WORD or cost(case.line.counts, case.kind) < FEW_OF_LOCK:
        return None
    evidence = [case.describe(part) for part in locks]
    others = [part for part in case.parts if not _is_locks_own(part) and part.cost]
    beside = sum(part.share for part in others)
    if others:
        evidence.append(f"all other members together: {percent(beside)}")
    several = _several_locks(locks)
    doubts = _doubts_of_several(several)
    # How much of the cost is between two locks may be nothing, or nearly all, unless the same threads take both.
    weak = bool(several) and not _same_threads(several)
    spun = _spun_for_beside(case, locks)
    if spun is not None and spun[1] >= MOSTLY_BESIDE and not doubts:
        return _paid_at_the_lock(case, evidence, locks, spun)
    fetched = fetched_beside(case, locks)
    many = fetched > BESIDE * case.transfers
    unknown = many and hides_own_loads(case)
    if unknown:
        evidence.append(f"{fetched:,} loads came from a clean copy elsewhere, of the lock or beside it: not shown")
    elif not doubts and (fetching := _mostly_fetched_beside(case, evidence, locks, [])):
        return fetching
    strangers, by_others, untold, writes = _written_beside(case, locks)
    if not doubts and by_others >= MOSTLY_BESIDE and case.stores_told:
        return _taken_by_others(case, evidence, locks, strangers, by_others)
    doubts += _doubts_of_waiters(case, locks, spun)
    if not doubts and beside < MEMBER:
        doubts += _doubts_of_writers(strangers, by_others, untold, writes)
    if many and not unknown:
        doubts.append(
            f"{fetched:,} more loads of the line came from a clean copy elsewhere, beside the lock's word: who reads "
            f"there pays too, and that part is false sharing; {TRY_APART}"
        )
    if not doubts and not unknown:
        doubts += _doubts_of_clean(case, locks)
    if beside < MEMBER:
        return case.judge("lock word", evidence, locks, doubts, weak=unknown + weak)
    # What is paid there makes the lock be held for longer, if it is under the lock.
    doubt = f"{percent(beside)} are paid at {places(others)} beside it: that part is false sharing; {TRY_APART}"
    if case.stores_told and surely_for_the_lock(locks, others) < MEMBER:
        doubt = f"{percent(beside)} are paid beside it; {_goes_along(others)}"
    return case.judge("lock word", evidence, [*locks, *others], [doubt, *doubts], weak=unknown + weak)


def _doubts_of_clean(case: Case, locks: Sequence[Part]) -> list[str]:
    """A doubt where many loads beside locks may have got a clean copy, and whether they did is not told."""
    if case.line.watch is not None or case.coverage.exact:
        return []
    rows = [row for part in locks for row in part.accesses]
    counts = case.line.counts
    told = counts.llc_hit is not None or None not in [row.counts.llc_hit for row in case.rows]
    if told and None not in [row.counts.loads for row in rows]:
        return []
    if told:
        most = counts.clean
    elif counts.loads is not None:
        most = counts.loads - sum(row.found for row in rows)
    else:
        most = case.transfers
    if most <= BESIDE * case.transfers:
        return []
    why = f"how many loads beside {places(locks)} got a clean copy from elsewhere is not told, and these pay too"
    return [f"{why}; {FROM_FILE if told else WHOLE_TEXT}"]


def _spun_for_beside(case: Case, locks: Sequence[Part]) -> tuple[list[Part], float] | None:
    """What is written beside locks that are spun for, and its part of the line's writes; None: that is not known.

    Who spins reads the lock's word again after each write to its line, to whichever bytes.  Who takes a free lock pays
    once, whatever the last holder wrote.
    """
    paid = sum(row.transfers for part in locks for row in part.accesses)
    spinning = sum(row.transfers for part in locks for row in part.accesses if _only_looks(row))
    if spinning < HALF * paid or (paid < SOME_TRANSFERS and not _surely_more(spinning, paid, HALF, SURE)):
        return [], 0.0
    wrote = sum(row.wrote for part in locks for row in part.accesses)
    beside = [part for part in case.parts if not _is_locks_own(part) and is_written(part)]
    writes = sum(row.wrote for part in beside for row in part.accesses)
    every = wrote + writes
    if not case.stores_told or (every < FEW_STORES and not _surely_more(writes, every, MOSTLY_BESIDE, LIKELY)):
        return None
    return beside, writes / every


def _surely_more(count: int, whole: int, share: float, errors: int) -> bool:
    """Whether so many of few samples are more than this share of all, by so many standard errors."""
    return whole > 0 and count - share * whole >= errors * sqrt(share * (1 - share) * whole)


def _only_looks(row: Access) -> bool:
    """Whether an instruction loads only: a store among a hundred samples is skid."""
    return row.wrote <= STRAY_STORES * (row.counts.records or 0)


def _paid_at_the_lock(
    case: Case, evidence: Sequence[str], locks: Sequence[Part], spun: tuple[list[Part], float]
) -> Judgement:
    """The lock's waiters pay mostly for what its holders write beside it."""
    beside, part = spun
    why = (
        f"who spins at {places(locks)} reads it again after each write to its line, and {percent(part)} of these are "
        f"at {places(beside)}"
    )
    doubt = f"the lock's own writes are paid for wherever {places(beside)} {_lies(beside)}; {TRY_APART}"
    return case.judge("false sharing", [*evidence, why], [*locks, *beside], [doubt], weak=1)


def _taken_by_others(
    case: Case, evidence: Sequence[str], locks: Sequence[Part], strangers: Sequence[Part], writes: float
) -> Judgement:
    """Who never takes the lock writes beside it, more often than the lock is written."""
    why = f"{percent(writes)} of the line's writes are at {places(strangers)}, by others than those who take the lock"
    doubt = f"what those who take the lock pay for each other at {places(locks)} stays; {TRY_APART}"
    return case.judge("false sharing", [*evidence, why], [*locks, *strangers], [doubt])


def _doubts_of_writers(strangers: Sequence[Part], by_others: float, untold: Sequence[Part], writes: float) -> list[str]:
    """Doubts where a part of the line's writes is beside the lock, and not by its holders as far as is known."""
    if by_others >= BESIDE:
        why = f"{percent(by_others)} of the line's writes are at {places(strangers)}, by others than who take the lock"
        return [f"{why}: that part is false sharing; {TRY_APART}"]
    if writes < PARTLY_BESIDE:
        return []
    why = f"{percent(writes)} of the line's writes are at {places(untold)}, and whether the lock's holders make them is"
    return [f"{why} not known: if not, that part is false sharing; {THREADS}"]


def _mostly_fetched_beside(
    case: Case, evidence: Sequence[str], locks: Sequence[Part], others: Sequence[Part]
) -> Judgement | None:
    """Most of the loads for which the line had to come are of other bytes than the lock's.

    A write to the lock takes the line from all who read beside it.  Whoever looks first finds it modified, mostly a
    waiter, and the others get a clean copy.
    """
    fetched = fetched_beside(case, locks)
    if fetched <= HALF * (case.transfers + case.line.counts.clean) or hides_own_loads(case):
        return None
    why = (
        f"{fetched:,} loads of the line came from a clean copy elsewhere, beside {places(locks)}: each write to the"
        " lock takes the line from who reads there"
    )
    doubt = f"a clean copy is fetched where a cache was full, too; `perf.data` tells which bytes are read; {TRY_APART}"
    return case.judge("false sharing", [*evidence, why], [*locks, *others], [doubt], weak=1)


def _doubts_of_waiters(case: Case, locks: Sequence[Part], spun: tuple[list[Part], float] | None) -> list[str]:
    """Doubts about what those who wait for a lock pay for: the writes beside it may be a part."""
    if spun is None:
        why = (
            f"who spins at {places(locks)} pays for each write to its line, and what is written beside it is not known"
        )
        tells = LONGER if case.stores_told else WHOLE_TEXT if case.coverage.stores_seen else RECORD_STORES
        return [f"{why}; {tells}"]
    beside, part = spun
    if part < PARTLY_BESIDE:
        return []
    counted = f"{percent(part)} of the line's writes are at {places(beside)}"
    return [f"{counted}: who spins for the lock pays for these too, and that part is false sharing; {TRY_APART}"]


def _lies(parts: Sequence[Part]) -> str:
    return "lies" if len(parts) < 2 else "lie"


def _several_locks(locks: Sequence[Part]) -> list[Part]:
    """Locks that pay, or that make the others pay, if they are two or more.

    Mutexes and rwsems have one spinlock each, and a rwlock's lies within its eight bytes.  Where no store was sampled,
    who pays tells.
    """
    stores = sum(part.counts.stores or 0 for part in locks)
    written = any(map(is_written, locks))
    paying = [
        part
        for part in locks
        if part.is_lock
        and (is_written(part) or not written)
        and (part.share >= MEMBER or (part.counts.stores or 0) > BESIDE * stores)
    ]
    spins = [part for part in paying if any(is_spin_function(row.code.symbol) for row in part.main)]
    if len(spins) > 1 and spins[-1].begin - spins[0].begin >= 8:
        return spins
    return [part for part in paying if any(of_two_locks(part.main, one.main) for one in paying if one is not part)]


def _same_threads(locks: Sequence[Part]) -> bool:
    """Whether the same threads are known to take all of these: who comes next is then as often another, also apart."""
    first = locks[0].users
    return all(part.users.threads and not differ(first, part.users) for part in locks)


def _are_locks(locks: Sequence[Part]) -> str:
    return f"{places(locks)} are {'two locks' if len(locks) == 2 else 'locks of their own'}"


def _doubts_of_several(locks: Sequence[Part]) -> list[str]:
    """A doubt where several locks pay."""
    if not locks:
        return []
    why = f"{_are_locks(locks)}: who waits for the one takes the line from who uses the other"
    return [f"{why}, and that part is false sharing; {TRY_APART}"]


def own_locks(case: Case) -> Judgement | None:
    """Several locks, each with a user of its own: nobody waits for any of them, but all take the line from the others.

    Who takes several of them, or one that others take too, would wait for it wherever it lies.
    """
    locks = _several_locks(case.parts)
    if not locks:
        return _of_one_user(case)
    found = share_out(case.parts, case.kind, case.stores_told, case.line.counts.clean)
    evidence = [case.describe(part) for part in locks]
    alone = all(part.users.alone for part in locks)
    mostly = found.false_share is not None and found.false_share >= HALF
    if found.kind == "false" and found.strength != "likely" and (alone or mostly):
        why = f"{_are_locks(locks)}, and each has users of its own, who wait for the line alone"
        doubts = [found.open] if found.open else []
        if not alone:
            doubts.append(f"several take each of them, and would wait for it on a line of its own too; {TRY_APART}")
        case.proven = found.strength == "proven"
        return case.judge("false sharing", [*evidence, why], locks, doubts, weak=found.strength != "proven")
    share = sum(part.share for part in locks)
    if share < LOCK_WORD or all(several_threads(part.users) for part in locks) or _is_waited_for(case, locks):
        return None
    why = f"{_are_locks(locks)}; whether anybody waits for them, or each has one user alone, is not known; {THREADS}"
    return case.judge("too little evidence", [*evidence, f"not decided: {why}"], locks)


def _is_waited_for(case: Case, locks: Sequence[Part]) -> bool:
    """Whether others have a lock while it is wanted: CPUs were seen to spin for it, or functions for that pay."""
    waiting = sum(row.transfers for part in locks for row in part.accesses if waits_for_lock(row.code.symbol))
    return case.spins > 0 or waiting >= MEMBER * case.transfers


def _of_one_user(case: Case) -> Judgement | None:
    """A lock that one thread alone takes: it never waits for the lock, but for what others write beside it."""
    locks = [part for part in case.parts if part.is_lock and part.share >= MEMBER]
    taking = users_of([row for part in locks for row in part.accesses])
    if not taking.threads or not taking.alone or not repeated([taking]):
        return None
    if sum(part.share for part in locks) < LOCK_WORD or case.transfers < FEW_OF_LOCK or _is_waited_for(case, locks):
        return None
    strangers = _written_beside(case, locks)[0]
    evidence = [case.describe(part) for part in [*locks, *strangers]]
    why = f"one thread alone takes {places(locks)}, so nobody waits for it"
    if not strangers:
        why += f", and who takes the line away is not seen; {LONGER if case.stores_told else RECORD_STORES}"
        return case.judge("too little evidence", [*evidence, f"not decided: {why}"], locks)
    case.proven = True
    return case.judge("false sharing", [*evidence, f"{why}: others write beside it"], [*locks, *strangers])


def _written_beside(case: Case, locks: Sequence[Part]) -> tuple[list[Part], float, list[Part], float]:
    """What is written beside locks by others than those who take them, and by whom that is not known.

    Each with its part of the line's writes.  Whoever takes the lock and writes beside it has the line already.
    """
    taking = users_of([row for part in locks for row in part.accesses])
    every = sum(row.wrote for part in case.parts for row in part.accesses)
    found: dict[bool, tuple[list[Part], int]] = {True: ([], 0), False: ([], 0)}
    for part in case.parts:
        if _is_locks_own(part) or not is_written(part):
            continue
        for by_others in (True, False):
            writes = sum(
                row.wrote
                for row in part.main
                if row.wrote and not is_lock_function(row.code.symbol) and _by_others(row, taking) is by_others
            )
            if writes >= max(MEMBER * every, LEAST_WRITES):
                parts, sum_ = found[by_others]
                found[by_others] = [*parts, part], sum_ + writes
    (strangers, apart_), (unknown, rest) = found[True], found[False]
    return strangers, apart_ / max(1, every), unknown, rest / max(1, every)


def _by_others(row: Access, taking: Users) -> bool | None:
    """Whether others than these make an access; None: the same ones do; false: it is not known."""
    users = users_of([row])
    if apart(users, taking):
        return True
    return None if users.threads and taking.threads and users.threads & taking.threads else False


def with_a_lock(case: Case) -> Judgement | None:
    """A lock's waiters, and members that others use, on one line."""
    locks = [part for part in case.parts if part.is_lock]
    share = sum(part.share for part in locks)
    if share < MEMBER:
        return None
    # Where every store is seen, a few of them are no stores that sampling has missed.
    least = MEMBER * case.stores if case.coverage.exact else 0
    others = [
        part
        for part in case.parts
        if not part.is_lock and (part.share >= MEMBER or (is_written(part) and (part.counts.stores or 0) >= least))
    ]
    if not others:
        return None
    evidence = [case.describe(part) for part in sorted([*locks, *others], key=lambda part: -part.share)]
    # Of a lock of several words the functions tell which are its own.
    nameless = [
        part
        for part in others
        if not part.member
        and any(0 < part.begin - lock.begin < LOCK_BYTES for lock in locks)
        and not all(named(access) for access in part.accesses)
        and not any(named(access) and not is_lock_function(access.code.symbol) for access in part.accesses)
    ]
    if nameless and not all(part.member for part in locks):
        why = f"the code at {places(nameless)} has no name: it may be a word of the lock itself"
        return case.judge("too little evidence", [*evidence, f"not decided: {why}"], [*locks, *others])
    if all(any(_may_be_sequence_count(part, lock) for lock in locks) for part in others):
        # Readers look at it without the lock, and writers change it with the lock taken: two words of one lock.
        doubts = [*_counts_of_locks(locks, others), f"if it is none, what is paid at {places(others)} is false sharing"]
        words = [replace(part, is_lock=True) for part in others]
        return case.judge("lock word", evidence, [*locks, *words], doubts)
    beside = sum(part.share for part in others)
    ends = surely_for_the_lock(locks, others) if case.stores_told else 0.0
    along = [_goes_along(others)]
    # Who makes each access may show what share is paid for the writes to other bytes.
    beside_it = ends >= 1 - LOCK_WORD or _is_shown_false(case)
    if (share >= MOST and ends < 1 - LOCK_WORD) or (share >= MAINLY and not beside_it):
        if fetching := _mostly_fetched_beside(case, evidence, locks, others):
            return fetching
        evidence.append(f"the lock pays most; {percent(beside)} are paid at {places(others)} beside it")
        return case.judge("lock word", evidence, [*locks, *others], along, weak=share < MOST)
    evidence.append(f"who waits for the lock takes the line from those who use {places(others)}, and they take it back")
    read = sum(part.share for part in others if not is_written(part))
    if ends < 1 - LOCK_WORD or (ends >= BESIDE > read):
        # Of members that are written it is an estimate.
        doubts = along
    else:
        doubts = [] if ends >= BESIDE else [_stays(locks, share)]
    doubts += _counts_of_locks(locks, others)
    return case.judge("false sharing", evidence, [*locks, *others], doubts, weak=not beside_it)


def _is_shown_false(case: Case) -> bool:
    """Whether who uses which bytes shows that most is paid for writes beside them."""
    found = share_out(case.parts, case.kind, case.stores_told, case.line.counts.clean)
    return found.kind == "false" and found.strength != "likely"


def _stays(locks: Sequence[Part], share: float) -> str:
    """A doubt where little is paid at members that nobody writes."""
    return f"what the lock pays at {places(locks)} stays: {percent(share)}; {TRY_APART}"


def _goes_along(others: Sequence[Part]) -> str:
    """A doubt where holders write what is beside a lock."""
    held = [part for part in others if is_written(part)]
    goes, lie = ("goes", "it lies") if len(held) < 2 else ("go", "they lie")
    what = f"its holders write {places(held)}, which {goes}" if held else "what its holders use goes"
    read = [part for part in others if part not in held and part.share >= MEMBER]
    ends = f"{percent(sum(part.share for part in read))} at {places(read)} are false sharing; " if read else ""
    return f"{ends}{what} from one to the next wherever {lie}: how much of that would stay is not known; {TRY_APART}"


def _counts_of_locks(locks: Sequence[Part], others: Sequence[Part]) -> list[str]:
    """Doubts about members that may be sequence counts."""
    return [
        f"{part.name} may be the sequence count of the lock behind it (seqlock_t), which stays with it; "
        "`lockline c2c report perf.data --btf FILE` names both"
        for part in others
        if any(_may_be_sequence_count(part, lock) for lock in locks)
    ]


def _may_be_sequence_count(part: Part, lock: Part) -> bool:
    """Whether the four bytes before a spinlock may be its sequence count: some read them, and others change them."""
    if part.member or lock.member or lock.begin - part.begin != 4 or lock.end - lock.begin != 4:
        return False
    changing = {access.function for access in part.accesses if access.wrote}
    return any(access.transfers and access.function not in changing for access in part.accesses)


def surely_for_the_lock(locks: Sequence[Part], others: Sequence[Part]) -> float:
    """The share of the line's cost that members beside its locks pay for the writes to other bytes.

    That is what functions pay that write nothing beside the lock.  Who holds a lock writes all at once: it is taken and
    released, and in between some members are changed.  So a reader pays once for each holder, and would pay as well for
    those holders that change the member, wherever it lies.
    """
    writing = {row.function for part in others if is_written(part) for row in part.main if row.wrote}
    holds = sum(row.wrote for part in locks for row in part.accesses) / WRITES_OF_HOLD
    share = 0.0
    for part in others:
        if not part.cost:
            continue
        own = sum(row.wrote for row in part.main) if is_written(part) else 0
        paid = sum(row.transfers for row in part.accesses)
        readers = [row for row in part.accesses if not is_written(part) or row.function not in writing]
        read, uses = sum(row.transfers for row in readers), sum(row.found for row in readers)
        stays = min(1.0, own / max(1.0, holds))
        if read:
            between = writes_between(read, uses)
            stays = (1 - exp(-between * stays)) / (1 - exp(-between))
        share += part.share * (read / paid if paid else 1.0) * (1 - stays)
    return share
