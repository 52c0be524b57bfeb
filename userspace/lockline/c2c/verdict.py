# SPDX-License-Identifier: GPL-2.0-or-later
"""What a line suffers from.  The rules and their thresholds are explained in docs/c2c.md.

No rule knows a program or a file: they rest on where transfers are paid for, where the line is written, by which
functions and threads, and on what the samples cannot show.
"""

from collections import Counter
from collections.abc import Sequence

from lockline.base.values import replace
from lockline.c2c.functions import is_spin_function
from lockline.c2c.model import Confidence, Coverage, Judgement, Line, Part, add_counts
from lockline.c2c.parts import COST_TRANSFERS, FEW_TRANSFERS
from lockline.c2c.sharing import share_out
from lockline.c2c.sharing_model import BESIDE, LONGER, MEMBER, RATES, THREADS, Sharing, is_written, places
from lockline.c2c.sharing_threads import TRY_APART
from lockline.c2c.users import everybody, several, several_threads, users_of
from lockline.c2c.verdict_case import (
    FEW_WINDOWS,
    QUIET_PER_SECOND,
    TEXT,
    TOLD,
    Case,
    actors,
    amount,
    fetched_beside,
    hides_own_loads,
    percent,
)
from lockline.c2c.verdict_locks import LOCK_WORD, lock_word, own_locks, with_a_lock
from lockline.watch.estimate import hit_rate, transfer_rate, unwatched_pairs

# Bytes of a line, as nearly all processors have it.
HALF = 64
# Functions that are named where nothing else of a line is known.
PAYERS = 3
# Transfers in so many loads are next to none.
RARE = 0.01
# And in so many even where many loads were sampled.
NEXT_TO_NONE = 0.0025
MANY_LOADS = 100
# Fewer transfers than these may all be mistaken samples; with more, who pays for whose writes is worth a weak verdict.
LEAST = 3
# So many transfers at that rate would have been seen in the time of watching: that there is none is no accident.
EXPECTED = 30
# Both halves of a pair pay as each other's neighbour: neither so many times as often as the other.
PAIR = 4
# One thread alone uses a line: of its accesses, and of its transfers, which mistaken samples have more often.
ALONE = 0.95
ALONE_PAYS = 0.8
# With less of the cost by offset, the rest may be paid anywhere.
HARDLY = 0.5


def judge(
    line: Line,
    parts: Sequence[Part],
    kind: str,
    coverage: Coverage,
    buddy: Line | None = None,
    sure: bool = True,
    spins: float = 0.0,
) -> Judgement:
    """The verdict on a line.

    parts and kind: from divide(); buddy: the other half of its 128-byte pair, if it was sampled; sure: whether the
    members' names are more than inferred; spins: waits a second in which a CPU spun for a lock of the line meanwhile.
    """
    case = Case(line, parts, kind, coverage, buddy, sure, spins)
    return _of_two_lines(case, _first_that_fits(case))


def _first_that_fits(case: Case) -> Judgement:
    for rule in (
        _unshared,
        _not_located,
        _no_transfer,
        own_locks,
        lock_word,
        _few,
        with_a_lock,
        _not_written,
        _shared,
    ):
        judgement = rule(case)
        if judgement is not None:
            return judgement
    return case.judge("too little evidence", ["no rule fits what was sampled"])


def _of_two_lines(case: Case, found: Judgement) -> Judgement:
    """The verdict on a line of 128 bytes in a text: --double-cl shows two lines of 64 bytes so.

    Members in different halves are on different lines then.  They meet only where the processor fetches both together.
    """
    line = case.line
    if line.source != TEXT or line.size != 2 * HALF or len({part.begin < HALF for part in found.members}) < 2:
        return found
    halves = []
    for begin in (0, HALF):
        parts = [part for part in case.parts if begin <= part.begin < begin + HALF]
        paid = sum(part.cost for part in parts)
        accesses = tuple(access for part in parts for access in part.accesses)
        counts = add_counts(access.counts for access in accesses)
        own = replace(line, address=line.address + begin, size=HALF, accesses=accesses, counts=counts)
        halves.append((paid, own, [replace(part, share=part.cost / paid if paid else 0.0) for part in parts]))
    other, (_, half, parts) = sorted(halves, key=lambda one: one[0])
    judged = judge(half, parts, case.kind, case.coverage, other[1], case.sure)
    shows = "the text shows 128 bytes as one line: two lines of 64 bytes (--double-cl)"
    doubt = (
        f"where a line itself has 128 bytes the verdict is {found.verdict}; `getconf LEVEL1_DCACHE_LINESIZE` on the"
        " machine tells"
    )
    lower: dict[Confidence, Confidence] = {"high": "medium", "medium": "low", "low": "low"}
    evidence = (found.evidence[0], f"{shows}; of the half that costs more:", *judged.evidence)
    return replace(judged, confidence=lower[judged.confidence], evidence=evidence, doubts=(*judged.doubts, doubt))


def _unshared(case: Case) -> Judgement | None:
    """All accesses were seen, and next to none found the line at another CPU."""
    watch = case.line.watch
    if watch is None:
        return None
    milliseconds = watch.watched_ns / 1e6
    records = case.line.counts.records or 0
    used = {access.offset for access in case.line.located}
    # Whoever spun for its lock took the line from who had that: it moves, whatever the windows saw.
    if case.spins >= QUIET_PER_SECOND:
        if case.transfers:
            return None
        seen = "its lock is spun for, by another CPU than its holder's each time, and no transfer was seen"
        return case.judge("too little evidence", [seen])
    if case.transfers:
        rate = transfer_rate(watch, used)
        if rate.error is None or rate.per_second + 2 * rate.error >= QUIET_PER_SECOND:
            return None
        if len(watch.windows) < FEW_WINDOWS and rate.error:
            return None
        return case.judge("none", [f"the line moves {rate.per_second:,.3g} times a second: that costs nothing"])
    touched = hit_rate(watch, {access.offset: access.counts.records or 0 for access in case.line.located})
    seldom = (
        QUIET_PER_SECOND * milliseconds >= EXPECTED * 1000
        and touched.error is not None
        and touched.per_second + 2 * touched.error < QUIET_PER_SECOND
    )
    # Of the first access in a window it is not seen who wrote before.
    if sum(max(0, window.hits - 1) for window in watch.windows) < MANY_LOADS and not seldom:
        return case.judge("too little evidence", [f"{records:,} accesses in {milliseconds:.3g} ms of watching"])
    if not records:
        return case.judge("none", [f"nothing touched it in {milliseconds:.3g} ms of watching"])
    if seldom:
        return case.judge("none", [f"it is touched {touched.per_second:.3g} times a second: that costs nothing"])
    if not case.stores:
        return case.judge("none", ["no CPU wrote to it"])
    if actors(case.line.accesses) < 2:
        return case.judge("none", ["one CPU alone uses it"])
    if unwatched_pairs(watch, used):
        return case.judge("too little evidence", ["no transfer between CPUs, but not all of it was watched at once"])
    return case.judge("none", ["no CPU touched it after another had written to it"])


def _not_located(case: Case) -> Judgement | None:
    if case.parts:
        return None
    shared = case.transfers >= FEW_TRANSFERS and case.stores > 0
    payers = _payers(case.line)
    by = [f"paid in {', '.join(f'{name}() {percent(part)}' for name, part in payers[:PAYERS])}"] if payers else []
    spinning = sum(part for name, part in payers if is_spin_function(name))
    if spinning >= LOCK_WORD and case.transfers >= FEW_TRANSFERS:
        return case.judge(
            "lock word", by, (), ["no offset in the line is known; only the functions show that it is a lock"]
        )
    why = "no offset in the line is known, so its members are not known; see the whole text of `perf c2c report"
    why += " --stdio -NN -c tid,iaddr`, or the perf.data file"
    told = ["the line is written and moves between caches", *by, why] if shared else [*by, why]
    if not case.transfers and not case.stores:
        quiet = _no_transfer(case)
        if quiet is not None and quiet.verdict == "read mostly":
            return quiet
    return case.judge("too little evidence", told)


def _payers(line: Line) -> list[tuple[str, float]]:
    """The functions that transfers are paid in, and their parts, most first."""
    costs: Counter[str] = Counter()
    for access in line.accesses:
        if access.code.symbol and access.transfers:
            costs[access.code.symbol] += access.transfers
    whole = line.counts.transfers
    return [(name, paid / whole) for name, paid in costs.most_common() if whole]


def _only_l1(case: Case) -> bool:
    return (case.line.counts.l1_hit or 0) >= 0.98 * case.loads > 0


def _no_transfer(case: Case) -> Judgement | None:
    """No load came from another core, and no fill buffer hit speaks for one."""
    if case.transfers or case.kind != COST_TRANSFERS:
        return None
    if not case.stores and case.loads and (case.coverage.stores_seen or _only_l1(case)):
        reason = "every load hit its own L1 cache" if _only_l1(case) else "no store was sampled, and no transfer"
        return case.judge("read mostly", [reason])
    if case.coverage.snoops_seen is False:
        return case.judge("too little evidence", ["this file shows no transfer of any line, so it cannot tell"])
    return case.judge("too little evidence", ["no transfer between caches was sampled"])


def _few(case: Case) -> Judgement | None:
    if case.kind != COST_TRANSFERS:
        return None
    # Who finds a clean copy elsewhere has lost the line to a writer too, or its cache was full.
    fetched = case.transfers + case.line.counts.clean
    if case.line.watch is None and LEAST <= case.transfers < FEW_TRANSFERS and fetched >= RARE * case.loads:
        return None
    if (case.stores or case.transfers) and fetched >= RARE * case.loads and case.transfers < FEW_TRANSFERS:
        return case.judge("too little evidence", [f"fewer than {LEAST} transfers, but {fetched:,} fetches", LONGER])
    if case.transfers >= FEW_TRANSFERS:
        seldom = case.transfers < NEXT_TO_NONE * case.loads and case.stores < RARE * case.loads
        seldom = seldom and fetched < RARE * case.loads
        if not seldom or not (case.stores and case.coverage.stores_seen):
            return None
        return case.judge("read mostly", ["almost no store, and no transfer among its loads"])
    # Where stores were sampled in part at most, few of them show nothing, but where next to no load waits.
    hidden = not case.coverage.stores_seen and (not case.stores or case.transfers >= NEXT_TO_NONE * case.loads)
    written = hidden or case.stores > RARE * case.loads
    if not written and case.loads >= MANY_LOADS and case.transfers < RARE * case.loads:
        return case.judge("read mostly", ["almost no store, and no transfer among its loads"])
    why = f"fewer than {FEW_TRANSFERS} transfers"
    told = [why] if case.line.watch else [f"{why}, and few fill buffer hits", LONGER]
    return case.judge("too little evidence", told)


def _not_written(case: Case) -> Judgement | None:
    """Transfers, but not one sampled store to this line, in a file that has stores: another line's writes move it."""
    if case.stores or any(part.counts.locked for part in case.parts) or not case.coverage.stores_seen:
        return None
    buddy = case.buddy
    # Were this half written as often as the other one, that many would have shown it.
    if buddy is not None and (buddy.counts.stores or 0) >= FEW_TRANSFERS:
        evidence = [
            "not one store to this line was sampled",
            f"the other half of its 128 bytes is written: {amount(buddy)}",
            "the processor fetches both halves together (adjacent line prefetch)",
        ]
        doubt = (
            "prefetching is only inferred, from the neighbour's stores; `perf c2c report --stdio --double-cl` shows "
            "both halves together"
        )
        return case.judge("adjacent line", evidence, case.fought, [doubt])
    why = f"{case.word} show that somebody writes the line, but none of the file's stores is to it or to its neighbour"
    if buddy is not None and buddy.counts.stores:
        why = f"not one store to this line was sampled, and to the other half of its 128 bytes too few; {LONGER}"
    return case.judge("too little evidence", [why], case.fought)


_DOUBLE = "`perf c2c report --stdio --double-cl` shows both halves together"


def _both_halves_pay(case: Case) -> bool:
    """Whether the other half of its 128 bytes is written as well, and pays as well."""
    buddy = case.buddy
    if buddy is None or not buddy.counts.stores or not case.stores:
        return False
    return PAIR * buddy.counts.transfers >= case.transfers and buddy.counts.transfers <= PAIR * case.transfers


def _one_user(line: Line) -> bool:
    """Whether one thread, or one CPU, makes nearly all accesses of a line and pays nearly all."""
    rows = line.located
    regulars = [row.threads & ~row.strays for row in rows]
    if not all(regulars):
        cpus = users_of(rows).cpus
        return cpus is not None and cpus.bit_count() == 1
    # Several threads are no power of two.
    if 0 not in [threads & (threads - 1) for threads in regulars]:
        return False
    records: Counter[int] = Counter()
    paid: Counter[int] = Counter()
    for row in rows:
        records[row.regulars] += row.counts.records or 0
        paid[row.regulars] += row.transfers
    first, most = records.most_common(1)[0]
    return first.bit_count() == 1 and most >= ALONE * records.total() and paid[first] >= ALONE_PAYS * paid.total()


def _pair_of_users(case: Case) -> Judgement | None:
    """One thread or CPU alone uses the line, and the other half of its 128 bytes is written."""
    buddy = case.buddy
    if buddy is None or not case.rows or (buddy.counts.stores or 0) < FEW_TRANSFERS:
        return None
    if not _one_user(case.line):
        return None
    evidence = [
        "one thread or CPU alone uses the line, so nobody takes it away for these bytes",
        f"the other half of its 128 bytes is written: {amount(buddy)}",
        "the processor fetches both halves together (adjacent line prefetch)",
    ]
    return case.judge("adjacent line", evidence, case.fought, [f"prefetching is only inferred; {_DOUBLE}"])


def _pair_untold(case: Case) -> str:
    """A doubt where a line's users may be one thread that migrates, and the other half has another one."""
    if not _both_halves_pay(case) or several_threads(everybody(case.fought)):
        return ""
    return (
        "the other half of its 128 bytes is written too, and pays as much: each may be one thread's own, and the halves"
        f" travel together (adjacent line prefetch); {_DOUBLE}, and {THREADS.removeprefix('run ')}"
    )


def _taken_along(case: Case) -> str:
    """A doubt where the other half of its 128 bytes pays without being written: who reads that fetches this one too."""
    buddy = case.buddy
    if buddy is None or buddy.counts.stores or not case.coverage.stores_seen or not case.stores:
        return ""
    if buddy.counts.transfers < max(FEW_TRANSFERS, MEMBER * case.transfers):
        return ""
    return (
        f"the other half of its 128 bytes pays {buddy.counts.transfers:,} {case.word} without being written: who reads"
        " it takes this half along (adjacent line prefetch), so a part of the cost is theirs; `perf c2c report --stdio "
        "--double-cl` shows both halves together"
    )


def _between_writers(found: Sharing) -> str:
    """A doubt where several write the same bytes without loading them: what they take from each other shows in no load.

    An atomic instruction loads what it changes.
    """
    paid = sum(part.cost for part in found.parts)
    for part in found.parts:
        writers = [row for row in part.main if row.wrote]
        wrote = sum(row.wrote for row in writers)
        blind = wrote > RATES * sum(row.found for row in part.accesses) and wrote > paid
        if blind and is_written(part) and several(users_of(writers)):
            why = "several write there without loading it: what they take from each other shows in no load, and stays"
            return f"{places([part])}: {why}; {TRY_APART}"
    return ""


def _unseen_loads(case: Case) -> int:
    """Loads at offsets that a text leaves out."""
    return sum(access.counts.loads or 0 for access in case.line.accesses if access.offset < 0)


def _read_unseen(case: Case) -> str:
    """A doubt where many loads are at offsets that a text leaves out: who pays may read there what others write.

    perf lists no row of an offset and an instruction that has neither HITM nor stores.
    """
    if case.line.shares:
        return ""
    may = "who pays may read there what others write; `perf script -F tid,addr,ip,sym` shows them"
    if case.line.counts.loads is None:
        return f"whether there are loads at bytes that are not shown is not told: {may}"
    unseen = _unseen_loads(case)
    if not unseen or unseen < BESIDE * case.loads:
        return ""
    return f"{unseen:,} of {case.loads:,} loads are at bytes that are not shown: {may}"


def _shared(case: Case) -> Judgement | None:
    """Who pays, and for whose writes."""
    found = share_out(case.parts, case.kind, case.stores_told, case.line.counts.clean)
    evidence = [case.describe(part) for part in found.parts]
    if pair := _pair_of_users(case):
        return pair
    if found.kind == "open" and case.located < HARDLY:
        return case.judge("too little evidence", [*evidence, f"not decided: {case.told_in_part}"], found.parts)
    if found.kind == "open":
        return case.judge("too little evidence", [*evidence, f"not decided: {found.open}"], found.parts)
    # What is there may be all that a cut has left of a line, unless several are seen to use the very bytes.
    hardly = case.located < TOLD and not several_threads(everybody(found.parts))
    if found.kind == "true" and found.strength == "likely" and hardly:
        why = f"offsets are known of {percent(case.located)} of the line's {case.word} alone"
        return case.judge("too little evidence", [*evidence, f"not decided: {why}"], found.parts)
    if found.reason:
        evidence.append(found.reason)
    doubts = [found.open] if found.open else []
    clean, beside = case.line.counts.clean, 0
    # Of the line's clean copies at most all are beside them.
    if found.kind == "true" and clean > case.transfers:
        beside = clean - sum([part.counts.clean for part in found.parts])
    if beside > case.transfers:
        doubts.append(
            f"{beside:,} more loads of the line came from a clean copy elsewhere, at bytes that are not shown, or that "
            "nobody writes; `perf c2c report --stdio --show-all` shows them"
        )
    told = found.kind == "true" and clean > case.transfers and not hides_own_loads(case)
    if told and fetched_beside(case, found.parts) > case.transfers:
        why = f"{beside:,} loads of the line came from a clean copy elsewhere, most of them at bytes that are not shown"
        return case.judge(
            "too little evidence", [*evidence, f"not decided: {why}; `perf.data` tells where they are"], found.parts
        )
    hidden = False
    if found.kind == "false" and (doubt := _read_unseen(case)):
        doubts.append(doubt)
        # Each load that pays may come before one that is not shown, as at the two ends of a queue.
        hidden = _unseen_loads(case) >= case.transfers > 0
    between = _between_writers(found) if found.kind == "false" else ""
    if between:
        doubts.append(between)
    if doubt := _taken_along(case):
        doubts.append(doubt)
    if found.kind == "true" and len(found.parts) == 1 and (doubt := _pair_untold(case)):
        # One function of users that are not known is evidence for neither kind of sharing.
        if len({row.function for row in found.parts[0].main}) == 1:
            return case.judge("too little evidence", [*evidence, f"not decided: {doubt}"], found.parts)
        doubts.append(doubt)
    # Members that one CPU has each are of several: one alone would never find the line elsewhere.
    case.proven = found.strength == "proven" or sum(part.users.alone for part in found.parts) > 1
    weak = {"proven": 0, "shown": 1, "likely": 3}[found.strength] + bool(between) + hidden
    return case.judge("false sharing" if found.kind == "false" else "true sharing", evidence, found.parts, doubts, weak)
