# SPDX-License-Identifier: GPL-2.0-or-later
"""Which of a line's transfers are paid for the writes to the very bytes, and which for writes beside them.

A load finds a line modified elsewhere because another core has written to the line.  If nobody else writes to the
bytes that are loaded, the write was to other bytes: false sharing.  What the samples do not tell stays open.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import exp, log
from typing import Literal

from lockline.base.values import NamedTuple, dataclass
from lockline.c2c.functions import is_lock_function
from lockline.c2c.model import Access, Counts, Part
from lockline.c2c.parts import COST_TRANSFERS, clean_copies, cost
from lockline.c2c.users import (
    Users,
    apart,
    code_known,
    differ,
    elsewhere,
    same_code,
    several,
    several_threads,
    significant,
    surely_apart,
    users_of,
    wrote,
)

Kind = Literal["false", "true", "open"]
# How far it is known: proven by who does what, shown by the numbers of CPUs, or likely by the code alone.
Strength = Literal["proven", "shown", "likely"]

# A member counts in the fight from this share of the line's cost on; less is spill-over or skid of the sampling.
MEMBER = 0.05
# A sampled store in so many loads is what skid and mistaken samples make of none.
STRAY_STORES = 0.01
# Of the line's stores, what mistaken addresses make at a member that nobody writes.
STRAY_SHARE = 0.02
# From this share on one kind of sharing is the line's; between these both are.
MOST = 0.75
MAINLY = 0.55
# So much of the cost at members of strangers makes it false sharing too, whatever else is shared.
BOTH = 0.1
# So much of it, paid at members that nobody writes, in code that does not write the line, is worth moving them.
BESIDE = 0.25
# On so many times the CPUs of those who write are readers that are others, wherever threads migrate.
MANY_READERS = 4
# Two members that are used together do not both pay so much: the first finds the line, the second has it.
BOTH_PAY = 0.3
# Nor do both pay as often when they are accessed: so much less often is as often, as samples go.
AS_OFTEN = 0.5
# Loads and stores are sampled at rates of their own: one sampled store may stand for so many more than a load.
RATES = 10
# From fewer stores nothing can be told of a member that has none.
FEW_STORES = 20
# A line of which so few accesses find it elsewhere may as well be one thread's, that migrates.
SELDOM = 0.08
# A load that takes so many cycles has waited for others that wanted the line too: fetching it takes some hundred.
QUEUE = 1000
# Sampling by latency leaves out loads that find the line: that nearly all pay is no more than this.
SATURATED = 0.95
# A member with so much of the cost cannot be one user's own: the line would have to go elsewhere as often.
MORE_THAN_HALF = 0.7

# In fewer than one of so many groups: they are not asked one by one for each member.
_SPARSE = 8

ALL_LOADS = "`perf c2c record --ldlat 3` samples more of them"
TRY_APART = "`lockline diff` of a build with the members apart would tell"
THREADS = "run `perf c2c report --stdio -NN -c tid,iaddr`: it shows which threads use which offsets"


@dataclass(frozen=True, slots=True)
class Sharing:
    """What kind of sharing a line's cost is, and why.  parts: the members that it is about; false_share: of the cost.

    open: what keeps it from being known, with the command that would tell.
    """

    kind: Kind
    strength: Strength
    parts: tuple[Part, ...]
    reason: str
    false_share: float | None = None
    open: str = ""


def is_written(part: Part) -> bool:
    """Whether it is more than a stray sample that stores to the member."""
    writes = max(part.counts.stores or 0, part.counts.locked or 0)
    return writes > STRAY_STORES * (part.counts.loads or 0)


def written_parts(parts: Sequence[Part]) -> list[Part]:
    """The members that are written, without strays."""
    whole = sum(sum(wrote(access) for access in part.accesses) for part in parts)
    return [
        part
        for part in parts
        if is_written(part)
        and sum(wrote(access) for access in part.accesses) > max(STRAY_SHARE * whole, whole >= FEW_STORES)
    ]


def places(parts: Sequence[Part]) -> str:
    """Members in words."""
    names = [part.name if not part.member else f"{part.member} (+{max(0, part.begin):#x})" for part in parts]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def share_out(parts: Sequence[Part], kind: str, stores_told: bool, clean: int = 0) -> Sharing:
    """What kind of sharing the line's cost is.

    parts, kind: as of divide(); stores_told: whether a member without a sampled store is one that is not written;
    clean: loads of the line that a clean copy elsewhere served.
    """
    fought = [part for part in parts if part.share >= MEMBER]
    written = written_parts(parts)
    used = sorted({id(part): part for part in (*fought, *written)}.values(), key=lambda part: -part.share)
    if not used:
        return Sharing("open", "likely", (), "", None, "no member has a part in it")
    users = {id(part): users_of(part.accesses) for part in used}
    if all(users[id(part)].threads for part in used):
        for part in _fetched(parts, kind):
            if id(part) not in users and (more := users_of(part.accesses)).threads:
                users[id(part)] = more
                used.append(part)
        return _by_threads(used, written, users, stores_told, _Rows(used, parts, kind, clean))
    if not written:
        return _unseen_writes(used, users)
    found = _by_numbers(used, written, users, stores_told)
    if found.kind == "open":
        return _by_cpus(used, written, kind) or found
    return found


def _fetched(parts: Sequence[Part], kind: str) -> list[Part]:
    """The members at which much of the line is fetched, where the file has clean copies by instruction.

    The first load after a write finds the line modified; who comes next finds a clean copy, and waits as well.
    """
    if kind != COST_TRANSFERS or any(row.counts.llc_hit is None for part in parts for row in part.accesses):
        return []
    prices = [part.cost + clean_copies(part.counts) for part in parts]
    return [part for part, price in zip(parts, prices, strict=True) if price >= MEMBER * sum(prices) > 0]


# Threads are known


class _Row(NamedTuple):
    """What is asked of an access again and again.  threads: a bit set of the line's, without strays; price: see _Rows.

    wrote: as of wrote(); told: the loads of the file; loads has at least those that found the line modified.
    """

    threads: int
    users: int
    loads: int
    wrote: int
    price: float
    told: int


def _bit_sets(groups: Sequence[frozenset[int]]) -> list[int]:
    """The groups as integers, with a bit for each of all their members."""
    every = list(frozenset[int]().union(*groups))
    if sum(map(len, groups)) * _SPARSE < len(every) * len(groups):
        place = {member: 1 << number for number, member in enumerate(every)}
        return [sum(map(place.__getitem__, group)) for group in groups]
    # A byte for each, 0 or 1.
    return [int.from_bytes(bytes(map(group.__contains__, every)), "little") for group in groups]


class _Rows:
    """The accesses of the members that count, by member.

    The price of an access is how many of its loads had to fetch the line because others had written to it.  The first
    to load it after a write finds it modified, and the next ones find the first one's clean copy.  Where the clean
    copies are counted for the line alone, they are shared out over the loads that did not find it modified.
    """

    def __init__(self, used: Sequence[Part], parts: Sequence[Part], kind: str, clean: int) -> None:
        accesses = [access for part in parts for access in part.accesses]
        told = sum(clean_copies(access.counts) for access in accesses)
        others = sum(_loads(access) - cost(access.counts, kind) for access in accesses if access.counts.llc_hit is None)
        self._kind = kind
        self._rate = min(1.0, max(0, clean - told) / others) if others else 0.0
        counted = [access for part in used for access in part.accesses]
        masks = _bit_sets([access.regulars for access in counted])
        self._made = {id(access): self._row(access, mask) for access, mask in zip(counted, masks, strict=True)}

    def of(self, accesses: Iterable[Access]) -> list[_Row]:
        """Of accesses to the members that count."""
        return [self._made[id(access)] for access in accesses]

    def _row(self, access: Access, threads: int) -> _Row:
        loads = _loads(access)
        return _Row(
            threads,
            threads.bit_count(),
            loads,
            wrote(access),
            self._price(access.counts, loads),
            access.counts.loads or 0,
        )

    def _price(self, counts: Counts, loads: int) -> float:
        price = cost(counts, self._kind)
        if self._kind != COST_TRANSFERS:
            return price
        if counts.llc_hit is None:
            return price + self._rate * (loads - price)
        return min(loads, price + clean_copies(counts))


# Members with their rows; of those that are written, with the rows that write, which are significant ones.
_Written = Mapping[int, Sequence[_Row]]


def _others_write(row: _Row, writers: Iterable[_Row]) -> bool:
    """Whether another thread than a load's own writes there."""
    for writer in writers:
        both = writer.threads | row.threads
        if both & (both - 1):
            return True
    return False


def _unknown_rate(used: list[Part]) -> Sharing:
    why = "nearly all loads wait, so how many writes come between two of them is not known"
    return Sharing("open", "likely", tuple(used), "", None, f"{why}; {TRY_APART}")


def _own_cpus(used: list[Part], written: list[Part], users: dict[int, Users], stores_told: bool) -> Sharing | None:
    """Whether one CPU alone uses each member that pays, whatever threads run there: caches are CPUs', not threads'.

    So it is with data of each CPU that threads use where they run.
    """
    sets = {id(part): users[id(part)].cpus for part in used}
    alone = [part for part in used if part.share >= MEMBER and (sets[id(part)] or 0).bit_count() == 1]
    share = sum(part.share for part in alone)
    victims = [part for part in alone if any((sets[id(part)] or 0) & ~(sets[id(other)] or 0) for other in written)]
    if share < MOST or not victims or len(used) < 2 or None in sets.values():
        return None
    if all(users[id(part)].alone for part in alone):
        # One thread each: the threads say who does what.
        return None
    reason = "one CPU alone uses each of them, whatever thread runs there, and pays for what others write beside it"
    return Sharing("false", "proven" if stores_told else "shown", tuple(used), reason, share)


def _by_threads(
    used: list[Part], written: list[Part], users: dict[int, Users], stores_told: bool, rows: _Rows
) -> Sharing:
    every = frozenset[int]().union(*(users[id(part)].threads or () for part in used))
    if len(every) < 2:
        why = (
            "one thread alone is seen on the line: it takes the line along when it migrates, or others were not sampled"
        )
        return Sharing("open", "likely", tuple(used), "", None, f"{why}; a longer `perf c2c record` would show others")
    if not written:
        return _unseen_writes(used, users)
    if own_cpus := _own_cpus(used, written, users, stores_told):
        return own_cpus
    main = {id(part): rows.of(significant(part.accesses)) for part in used}
    writers = {id(part): [row for row in main[id(part)] if row.wrote] for part in written}
    own = {id(part): rows.of(part.accesses) for part in used}
    line = _Line(used, own, writers)
    whole = kept = untold = shared = 0.0
    beside = dict.fromkeys(main, 0.0)
    apart_price = 0.0
    for part in used:
        for row in main[id(part)]:
            price = row.price
            if not price:
                continue
            mine = _others_write(row, writers.get(id(part), ()))
            if not mine and not stores_told and part not in written and row.users > 1:
                untold += price
                continue
            if not mine and not _beside(row, part, written, writers):
                continue
            whole += price
            shared += price * mine
            if not any(row.threads & one.threads for other in written for one in own[id(other)]):
                apart_price += price
            stays = line.kept(row, part) if mine else 0.0
            kept += stays
            beside[id(part)] += max(0.0, price - stays)
    if not whole:
        return _unseen_writes(used, users)
    if stores_told:
        payers = 0
        for part in used:
            for row in own[id(part)]:
                payers |= row.threads if row.price else 0
        kept += sum(_blind_stores(own[id(part)], writers[id(part)], payers) for part in written)
    false = max(0.0, whole - kept)
    share = false / whole
    saturated = _saturated([row for part in used for row in own[id(part)]])
    both = shared > MAINLY * whole
    if share >= MAINLY and both and saturated:
        return _unknown_rate(used)
    if shared > (1 - MOST) * whole and share > 0.4:
        # What the threads that change the bytes would pay there, were they apart.
        hidden = sum(line.hidden(row, part) for part in written for row in own[id(part)])
        if share - hidden / whole <= 1 - MOST:
            why = "how often the bytes that are changed would be waited for if they were apart is not known: of the"
            why += " loads that change them too few were sampled"
            return Sharing("open", "likely", tuple(used), "", None, f"{why}; {ALL_LOADS}")
    if share >= MAINLY and shared > (1 - MOST) * whole:
        reason = f"most of what others write is beside the bytes that are paid for; {1 - share:.0%} of the cost stays"
        if apart_price >= (1 - MOST) * whole:
            return Sharing("false", "shown", tuple(used), reason, share)
        # The first of several loads pays for all of them, and of the others few are sampled.
        why = "who pays loads the bytes that are written too, and may wait there instead if they are apart"
        return Sharing("false", "likely", tuple(used), reason, share, f"{why}; {ALL_LOADS}")
    if share >= MAINLY:
        reason = "the threads that pay do not use the bytes that others write"
        return Sharing("false", "proven" if share >= MOST and stores_told else "shown", tuple(used), reason, share)
    fought = [part for part in used if part.share >= MEMBER]
    strangers = [
        part
        for part in fought
        if any(apart(users[id(part)], users[id(other)]) for other in written if other is not part)
    ]
    # Of what they pay, some stays: they share their own bytes too.
    if sum(beside[id(part)] for part in strangers) >= BOTH * whole and not (both and saturated):
        stay = [part for part in written if several(users[id(part)])]
        reason = f"{places(strangers)} and the bytes written beside it are used by different threads"
        if stay:
            reason += f"; {places(stay)} is shared by several threads itself, and that part stays (true sharing)"
        return Sharing("false", "shown", tuple(used), reason, share)
    if untold > whole:
        why = f"most of the cost is at bytes that others may write too, as not all stores are known; {RECORD_STORES}"
        return Sharing("open", "likely", tuple(used), "", None, why)
    if share <= 1 - MOST:
        reason = "the threads that pay use the bytes that others write"
        return Sharing("true", "proven" if stores_told else "shown", tuple(used), reason, share)
    if share <= 0.4 and saturated:
        return _unknown_rate(used)
    reason = "one part of the cost is at these bytes, another part at bytes beside them"
    return Sharing("false" if share > 0.4 else "true", "likely", tuple(used), reason, share)


class _Line:
    """A line's members with their rows, and those of them that write."""

    def __init__(self, used: Sequence[Part], own: Mapping[int, Sequence[_Row]], writers: _Written) -> None:
        self._own = own
        self._writers = writers
        self._rows = [own[id(part)] for part in used]
        # In the order of the members, each with how much it writes: see kept().
        self._write = [
            (part, writer.threads, writer.users, writer.wrote) for part in used for writer in writers.get(id(part), ())
        ]

    def kept(self, row: _Row, part: Part) -> float:
        """How many of a row's loads would still pay if its bytes had a line of their own.

        A load pays if another thread has written since its own thread had the line.  How many such writes come between
        two uses of the line is told by how often these pay; how many of them are to the very bytes, by where others
        write.  Between two uses of the bytes alone there is more time for them than between two uses of the line.
        """
        threads, users = row.threads, row.users
        very = every = 0.0
        for other, writing, writers, wrote_there in self._write:
            # How often a thread that wrote is not the one that loads.
            count = wrote_there * (1 - (writing & threads).bit_count() / max(1, writers * users))
            every += count
            very += count if other is part else 0.0
        if not very:
            return 0.0
        uses, paid = 0, 0.0
        for rows in self._rows:
            for one in rows:
                if one.threads & threads:
                    uses += one.loads
                    paid += one.price
        at_bytes = sum(one.loads for one in self._own[id(part)] if one.threads & threads)
        between = -log(1 - min(SATURATED, paid / max(1, uses))) * very / every
        return row.loads * (1 - exp(-between * uses / max(1, at_bytes)))

    def hidden(self, row: _Row, part: Part) -> float:
        """How many more loads of a row may pay if its bytes are apart than kept() tells.

        An instruction that loads and stores loads as often as it stores; of loads that find the line few are sampled.
        So few loads as RATES tells are mistaken ones, of an instruction that stores alone.  Where a text has fewer
        loads than HITM, its loads tell nothing.
        """
        told = row.told >= row.loads >= row.wrote / RATES
        if not told or not _others_write(row, self._writers.get(id(part), ())):
            return 0.0
        return max(0.0, row.wrote - self.kept(row, part))


def _saturated(rows: Iterable[_Row]) -> bool:
    """Whether nearly all loads of those who pay do so."""
    paying = [row for row in rows if row.price]
    return sum(row.price for row in paying) >= SATURATED * sum(row.loads for row in paying)


def _blind_stores(rows: Sequence[_Row], writers: Sequence[_Row], payers: int) -> float:
    """Stores to bytes that others write too, which follow no load there, of threads that pay elsewhere on the line.

    Each would fetch the line of these bytes, were they apart.
    """
    return sum(
        max(0.0, row.wrote - RATES * sum(one.loads for one in rows if one.threads & row.threads))
        for row in writers
        if row.threads & payers
        and _others_write(row, writers if row.users > 1 else [other for other in writers if other is not row])
    )


def _beside(row: _Row, part: Part, written: Sequence[Part], writers: _Written) -> bool:
    """Whether another thread writes to other bytes of the line: without that, nothing says why the line moved."""
    return any(_others_write(row, writers[id(other)]) for other in written if other is not part)


def _loads(access: Access) -> int:
    """Loads of an access: at least those that found the line modified, whatever a text says of its other figures."""
    counts = access.counts
    loads = counts.loads if counts.loads is not None else (counts.records or 0) - (counts.stores or 0)
    transfers = counts.transfers
    return loads if loads > transfers else transfers


# Threads are not known


def _unseen_writes(used: list[Part], users: dict[int, Users]) -> Sharing:
    """No store was sampled: somebody writes the line, and it is not known where."""
    fought = [part for part in used if part.share >= MEMBER]
    pairs = [(one, other) for index, one in enumerate(fought) for other in fought[index + 1 :]]
    told = all(part.counts.stores is not None for part in fought)
    missing = (
        f"stores were not sampled, or hardly, so it is not known which bytes are written; {RECORD_STORES}"
        if told
        else f"the stores of each offset are not known, so neither are the bytes that are written; {WHOLE_TEXT}"
    )
    if pairs and all(apart(users[id(one)], users[id(other)]) for one, other in pairs):
        reason = "nobody uses more than one of them, and each pays"
        # Without stores the text shows a row only if it pays: others may use these bytes and pay nothing.  That each
        # of many users pays at bytes of its own is no accident.  A file (which tells LOCK bits) has all rows.
        rows = [access for part in fought for access in part.accesses]
        listed = any(not row.counts.transfers or row.counts.locked is not None for row in rows)
        own = len(fought) > 2 and all(len(users[id(part)].threads or "..") == 1 for part in fought)
        return Sharing("false", "shown" if listed or own else "likely", tuple(fought), reason, None)
    if pairs and all(users[id(part)].alone for part in fought):
        reason = "one user alone has each of them, and each pays for another one's writes"
        return Sharing("false", "shown", tuple(fought), reason, None)
    known = all(users[id(part)].threads for part in fought)
    often = max((_rate(part) for part in fought), default=0.0)
    paying = [
        part for part in fought if part.share >= BOTH_PAY or (part.share >= BOTH and _rate(part) >= AS_OFTEN * often)
    ]
    strangers = all(elsewhere(one.accesses, other.accesses) and not _of_locks(one, other) for one, other in pairs)
    if len(paying) > 1 and not known and strangers:
        reason = "different code pays at each of them; of members used together the first alone would pay"
        return Sharing("false", "likely", tuple(fought), reason, None, missing)
    return Sharing("open", "likely", tuple(fought), "", None, missing)


def _rate(part: Part) -> float:
    """Of the accesses to a member, those that pay."""
    return part.cost / max(1, part.counts.records or 0)


def _of_locks(one: Part, other: Part) -> bool:
    """Whether functions of locks use both, as they use a lock's words together."""
    return all(any(is_lock_function(access.code.symbol) for access in part.accesses) for part in (one, other))


WHOLE_TEXT = "the whole text of `perf c2c report --stdio -NN -c tid,iaddr` tells it"
RECORD_STORES = (
    "record with stores (Intel: `perf c2c record -e ldlat-loads -e ldlat-stores`; Arm: SPE with store_filter=1; AMD's "
    "IBS tags few stores: `perf annotate` shows which of these instructions write)"
)


def _by_cpus(used: list[Part], written: list[Part], kind: str) -> Sharing | None:
    """By the CPUs of each instruction, where they tell it: what others write, and where.

    Others are those of whose CPUs none is the row's: threads that migrate have CPUs in common, and are no others.
    """
    writers = [(part, row) for part in written for row in significant(part.accesses) if wrote(row)]
    whole = false = true = 0.0
    for part in used:
        for row in significant(part.accesses):
            price = cost(row.counts, kind)
            whole += price
            if not price or not row.cpus:
                continue
            others = [(place, wrote(writer)) for place, writer in writers if writer.cpus and not writer.cpus & row.cpus]
            writes = sum(count for _, count in others)
            if writes:
                own = sum(count for place, count in others if place is part)
                true += price * own / writes
                false += price - price * own / writes
    if false + true < MOST * whole or not whole:
        return None
    share = false / (false + true)
    if share >= MAINLY:
        return Sharing("false", "shown", tuple(used), "CPUs pay for what others write beside their bytes", share)
    if share <= 1 - MAINLY:
        reason = f"others write the very bytes that the CPUs pay for; {share:.0%} is paid for bytes beside them"
        return Sharing("true", "shown", tuple(used), reason, share)
    return None


def _by_numbers(used: list[Part], written: list[Part], users: dict[int, Users], stores_told: bool) -> Sharing:
    """By what hardware allows: where the line is written, and on how many CPUs each member is used."""
    fought = [part for part in used if part.share >= MEMBER]
    everyone = [part for part in used if part in written or part.share >= MEMBER]
    if len(everyone) == 1:
        return _one_member(everyone[0], users[id(everyone[0])], stores_told)
    alone = [part for part in fought if users[id(part)].alone]
    share = sum(part.share for part in alone)
    if share >= MAINLY and (len(alone) > 1 or any(part not in alone for part in written)):
        each = "each of them" if len(alone) == len(everyone) else places(alone)
        reason = f"one CPU alone uses {each}, and pays for what others write beside it"
        # Rows that one CPU makes each may be of several CPUs, where it is not told which.
        known = {users[id(part)].cpus for part in everyone}
        sure = share >= MOST and all(users[id(part)].cpus for part in alone) and len(known) > 1
        return Sharing("false", "proven" if sure else "shown", tuple(everyone), reason, share)
    if not stores_told and sum(wrote(row) for part in written for row in part.accesses) < FEW_STORES:
        return _unseen_writes(used, users)
    victims = [part for part in fought if part not in written]
    share = sum(part.share for part in victims)
    if share >= MAINLY:
        return _victims(victims, written, everyone, users, share, stores_told)
    return _writers(fought, written, everyone, users, stores_told)


def _wait(part: Part) -> float:
    """Mean cycles of the loads that found the line modified elsewhere; 0: not told."""
    counts = part.counts
    return ((counts.local_hitm_weight or 0) + (counts.remote_hitm_weight or 0)) / max(1, counts.hitm)


def _one_member(part: Part, users: Users, stores_told: bool) -> Sharing:
    """All that is written and all that pays is one member: whoever pays, pays for the member itself."""
    if users.alone or not part.share:
        why = "one CPU alone is seen at the only member, so who takes the line from it is not seen"
        return Sharing("open", "likely", (part,), "", None, f"{why}; {THREADS}")
    reason = "the same bytes are read and written by all of them: no layout changes that"
    seen = sum(_loads(row) + wrote(row) for row in part.accesses)
    if (
        users.threads is None
        and users.groups < 2
        and part.cost < SELDOM * max(part.counts.records or 0, seen)
        and _wait(part) < QUEUE
        and not _written_for_others([part], [part], [part])
    ):
        why = f"one thread that migrates would look the same, as so few accesses find the line elsewhere; {THREADS}"
        return Sharing("open", "likely", (part,), "", None, why)
    if not stores_told:
        return Sharing("true", "likely", (part,), reason, 0.0, "stores elsewhere on the line may be missing")
    return Sharing("true", "proven" if several_threads(users) else "shown", (part,), reason, 0.0)


def _victims(
    victims: list[Part],
    written: list[Part],
    everyone: list[Part],
    users: dict[int, Users],
    share: float,
    stores_told: bool,
) -> Sharing:
    """Members that nobody writes pay: for the others, unless who reads the one also writes the other."""
    pairs = [(victim, writer) for victim in victims for writer in written]
    pay = "pays" if len(victims) == 1 else "pay"
    reason = f"{places(victims)} {pay} {share:.0%} without being written; the line is written at {places(written)}"
    open_ = (
        "the code that reads the one and the code that writes the other run on as many CPUs: whether the same "
        f"threads do both is not known; {THREADS}"
    )
    if not stores_told:
        return Sharing(
            "open", "likely", tuple(everyone), "", None, "not all stores to the line are known; " + RECORD_STORES
        )
    if all(surely_apart(users[id(victim)], users[id(writer)]) for victim, writer in pairs):
        return Sharing("false", "proven", tuple(everyone), f"{reason}, by others", share)
    if all(differ(users[id(victim)], users[id(writer)]) for victim, writer in pairs):
        return Sharing("false", "shown", tuple(everyone), f"{reason}, mostly by other CPUs", share)
    if all(
        code_known(victim.accesses) and code_known(writer.accesses) and not same_code(victim.accesses, writer.accesses)
        for victim, writer in pairs
    ):
        return Sharing("false", "likely", tuple(everyone), f"{reason}, by other code", share, open_)
    return Sharing(
        "open",
        "likely",
        tuple(everyone),
        "",
        None,
        "the same function uses members that are written and members that are not, and by whom is not known; "
        f"{THREADS}",
    )


def _slots(parts: list[Part], users: dict[int, Users]) -> bool:
    """Whether they look like an array of which each thread has a slot.

    The same code on an array that all threads use would run on as many CPUs at each place.
    """
    return all(same_code(parts[0].accesses, part.accesses) for part in parts) and all(
        any(differ(users[id(part)], users[id(other)]) for other in parts if other is not part) for part in parts
    )


def _writers(
    fought: list[Part], written: list[Part], everyone: list[Part], users: dict[int, Users], stores_told: bool
) -> Sharing:
    """Several members are written, or the ones that pay are."""
    pairs = [(one, other) for index, one in enumerate(everyone) for other in everyone[index + 1 :]]
    if all(surely_apart(users[id(one)], users[id(other)]) for one, other in pairs):
        # What several use stays contended on a line of its own: how much of the cost ends is not proven.
        sure = all(users[id(part)].alone for part in everyone)
        reason = "nobody uses more than one of them"
        return Sharing("false", "proven" if sure else "shown", tuple(everyone), reason, None)
    first = max(fought, key=lambda part: part.share, default=None)
    if first is not None and first.share >= MORE_THAN_HALF and first in written and not users[id(first)].alone:
        others = [part for part in everyone if part is not first]
        writes = sum(wrote(access) for part in others for access in part.accesses)
        back = sum(part.cost for part in others)
        if first.cost > RATES * writes + 3 * back:
            reason = f"{places([first])} pays more often than all the others together could take the line from it"
            return Sharing("true", "shown", tuple(everyone), reason, 0.0)
    if all(differ(users[id(one)], users[id(other)]) for one, other in pairs):
        return Sharing("false", "shown", tuple(everyone), "mostly other CPUs use each of them", None)
    if _slots(everyone, users):
        reason = "the same code uses each of them, but not on as many CPUs: each is some threads' own"
        return Sharing("false", "likely", tuple(everyone), reason, None, f"who uses which is not known; {THREADS}")
    if stores_told:
        found = _read_beside(fought, written, everyone) or _written_for_others(fought, written, everyone)
        if found:
            return found
    if len(written) > 1:
        why = "several members are written, and whether each has its own users is not known"
    else:
        read = [part for part in everyone if part not in written]
        why = (
            f"{places(written)} is written and pays, {places(read)} {'pays' if len(read) == 1 else 'pay'} without "
            "being written, and whether the same threads use both is not known"
        )
    return Sharing("open", "likely", tuple(everyone), "", None, f"{why}; {THREADS}")


def _read_beside(fought: list[Part], written: list[Part], everyone: list[Part]) -> Sharing | None:
    """Members that nobody writes pay much, beside a written one that pays too.

    Were they used together, the first would find the line elsewhere, and the second would have it.
    """
    writers = [row for part in written for row in significant(part.accesses) if wrote(row)]
    victims = [
        part
        for part in fought
        if part not in written
        and code_known(part.accesses)
        and code_known(writers)
        and not same_code(significant(part.accesses), writers)
    ]
    share = sum(part.share for part in victims)
    if share < BESIDE:
        return None
    reason = (
        f"{places(victims)} {'pays' if len(victims) == 1 else 'pay'} {share:.0%} without being written, in code that "
        f"does not write the line; what is paid at {places(written)} stays (true sharing)"
    )
    return Sharing("false", "likely", tuple(everyone), reason, share, f"who uses which is not known; {THREADS}")


def _written_for_others(fought: list[Part], written: list[Part], everyone: list[Part]) -> Sharing | None:
    """Each member is written by some, and read by others: apart, they would pay as well."""
    share = 0.0
    for part in fought:
        rows = significant(part.accesses)
        writers = [row for row in rows if wrote(row)]
        readers = [row for row in rows if not wrote(row)]
        if any(is_lock_function(row.code.symbol) for row in rows):
            return None
        if part not in written or not writers or not readers:
            continue
        some, others = users_of(writers), users_of(readers)
        if apart(some, others) or (differ(some, others) and others.count >= MANY_READERS * some.count):
            share += part.share
    if share < MOST:
        return None
    reason = "each of them is written by some, and read by others"
    return Sharing("true", "shown", tuple(everyone), reason, None)
