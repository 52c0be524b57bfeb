# SPDX-License-Identifier: GPL-2.0-or-later
"""What a line's cost is paid for, where the threads of each access are known."""

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from math import exp, log
from operator import and_, or_

from lockline.base.values import NamedTuple
from lockline.c2c.model import Access, Part
from lockline.c2c.parts import COST_TRANSFERS, clean_told, cost
from lockline.c2c.sharing_model import (
    BESIDE,
    BOTH,
    LONGER,
    MAINLY,
    MEMBER,
    MOST,
    RATES,
    RECORD_STORES,
    SATURATED,
    Sharing,
    Strength,
    places,
)
from lockline.c2c.sharing_stores import unseen_writes
from lockline.c2c.users import apart, repeated, same_cpus, several

ALL_LOADS = "`perf c2c record --ldlat 3` samples more of them"
CPUS = "`perf script -F cpu,tid,addr,ip,sym` shows the CPU of each access"
WHICH_CPUS = "`perf c2c report --stdio -NN -c tid,iaddr` shows which CPUs these are"
TRY_APART = "`lockline diff` of a build with the members apart would tell"


# From here to MAINLY about half of the cost is of either kind: an estimate from fewer samples tells neither.
HALF = 0.4
SAMPLES = 100


class _Row(NamedTuple):
    """What is asked of an access again and again.  threads: a bit set of the line's, without strays; price: see Rows.

    wrote: as of wrote(); told: the loads of the file; loads has at least those that found the line modified.
    """

    threads: int
    users: int
    loads: int
    wrote: int
    price: float
    told: int


class Rows:
    """The accesses of the members that count, by member; main: those that are no strays.

    The price of an access is how many of its loads had to fetch the line because others had written to it.  The first
    to load it after a write finds it modified, and the next ones find the first one's clean copy.  Where the clean
    copies are counted for the line alone, they are shared out over the loads that did not find it modified.
    """

    def __init__(
        self, used: Sequence[Part], parts: Sequence[Part], kind: str, clean: int, by_cpu: bool = False
    ) -> None:
        # Where loads are not told, that a store has none before it is not told either.
        self.loads_told = None not in [access.counts.loads for part in used for access in part.accesses]
        rate = 0.0
        # Where every access has its own clean copies, the line's are not shared out.
        if not clean_told(parts):
            accesses = [access for part in parts for access in part.accesses]
            told = sum(access.clean for access in accesses)
            others = sum(
                access.found - cost(access.counts, kind) for access in accesses if access.counts.llc_hit is None
            )
            rate = min(1.0, max(0, clean - told) / others) if others else 0.0
        self.own = {id(part): [_row(access, kind, rate, by_cpu) for access in part.accesses] for part in used}
        self.main: dict[int, list[_Row]] = {}
        for part in used:
            rows = self.own[id(part)]
            if len(part.main) < len(rows):
                main = set(map(id, part.main))
                rows = [row for row, access in zip(rows, part.accesses, strict=True) if id(access) in main]
            self.main[id(part)] = rows


def _row(access: Access, kind: str, rate: float, by_cpu: bool) -> _Row:
    """Of an access; rate: of its loads that did not find the line modified, so many found a clean copy."""
    counts, loads = access.counts, access.found
    price: float = access.transfers + access.clean
    if kind != COST_TRANSFERS:
        price = cost(counts, kind)
    elif counts.llc_hit is None:
        price = access.transfers + rate * (loads - access.transfers)
    elif price > loads:
        price = loads
    threads = (access.cpus or 0) if by_cpu else access.threads & ~access.strays
    return _Row._make((threads, threads.bit_count(), loads, access.wrote, price, counts.loads or 0))


# Members with their rows; of those that are written, with the rows that write, which are significant ones.
_Written = Mapping[int, Sequence[_Row]]


def _others_write(row: _Row, writers: Iterable[_Row]) -> bool:
    """Whether another thread than a load's own writes there."""
    threads = row.threads
    for writer in writers:
        both = writer.threads | threads
        if both & (both - 1):
            return True
    return False


def _unknown_rate(used: list[Part]) -> Sharing:
    why = "nearly all loads wait, so how many writes come between two of them is not known"
    return Sharing("open", "likely", tuple(used), "", None, f"{why}; {TRY_APART}")


def _own_cpus(used: list[Part], written: list[Part], stores_told: bool) -> Sharing | None:
    """Whether one CPU alone uses each member that pays, whatever threads run there: caches are CPUs', not threads'.

    So it is with data of each CPU that threads use where they run.
    """
    sets = {id(part): part.users.cpus for part in used}
    alone = [part for part in used if part.share >= MEMBER and (sets[id(part)] or 0).bit_count() == 1]
    share = sum(part.share for part in alone)
    victims = [part for part in alone if any((sets[id(part)] or 0) & ~(sets[id(other)] or 0) for other in written)]
    if share < MOST or not victims or len(used) < 2 or None in sets.values():
        return None
    if not repeated(part.users for part in alone):
        return None
    if all(part.users.alone for part in alone):
        # One thread each: the threads say who does what.
        return None
    reason = "one CPU alone uses each of them, whatever thread runs there, and pays for what others write beside it"
    return Sharing("false", "proven" if stores_told else "shown", tuple(used), reason, share)


def by_threads(used: list[Part], written: list[Part], stores_told: bool, rows: Rows) -> Sharing:
    """What kind of sharing it is, by the threads of each access: who pays, and who writes there and beside it."""
    every = 0
    for part in used:
        every |= part.users.threads or 0
    if every.bit_count() < 2:
        why = (
            "one thread alone is seen on the line: it takes the line along when it migrates, or others were not sampled"
        )
        return Sharing("open", "likely", tuple(used), "", None, f"{why}; a longer `perf c2c record` would show others")
    if not written:
        return unseen_writes(used)
    if own_cpus := _own_cpus(used, written, stores_told):
        return own_cpus
    return shared_out(used, written, stores_told, rows)


def shared_out(used: list[Part], written: list[Part], stores_told: bool, rows: Rows) -> Sharing:
    """What kind of sharing it is, by who makes each access: threads, or the CPUs where only these are known."""
    main, own = rows.main, rows.own
    writers = {id(part): [row for row in main[id(part)] if row.wrote] for part in written}
    line = _Line(used, own, writers, main)
    whole = kept = untold = shared = 0.0
    beside = dict.fromkeys(main, 0.0)
    apart_price = elsewhere = 0.0
    # Of all who use the members that are written.
    using = reduce(or_, [one.threads for other in written for one in own[id(other)]], 0)
    for part in used:
        writing = writers.get(id(part), ())
        for row in main[id(part)]:
            price = row.price
            if not price:
                continue
            mine = _others_write(row, writing)
            if not mine and not stores_told and part not in written and row.users > 1:
                untold += price
                continue
            if not mine and not _beside(row, part, written, writers):
                continue
            whole += price
            shared += price * mine
            if not row.threads & using:
                apart_price += price
            if not mine and line.uses_written_beside(row, part):
                elsewhere += price
            stays = line.kept(row, part) if mine else 0.0
            kept += stays
            beside[id(part)] += max(0.0, price - stays)
    if not whole:
        return unseen_writes(used)
    if stores_told and rows.loads_told:
        payers = 0
        for part in used:
            for row in own[id(part)]:
                payers |= row.threads if row.price else 0
        kept += sum([_blind_stores(own[id(part)], writers[id(part)], payers) for part in written])
    false = max(0.0, whole - kept)
    share = false / whole
    saturated = _saturated([row for part in used for row in own[id(part)]])
    both = shared > MAINLY * whole
    if share >= MAINLY and both and saturated:
        return _unknown_rate(used)
    if shared > (1 - MOST) * whole and share > HALF:
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
    if share >= MAINLY and elsewhere >= BESIDE * whole:
        # Of two loads in a row the first alone pays: apart, the other one may.
        reason = "others write beside the bytes that are paid for"
        why = "those who pay also use bytes that others write, and may wait there instead if they are apart"
        return Sharing("false", "likely", tuple(used), reason, share, f"{why}; {TRY_APART}")
    if share >= MAINLY:
        reason = "those who pay do not use the bytes that others write"
        return Sharing("false", "proven" if share >= MOST and stores_told else "shown", tuple(used), reason, share)
    fought = [part for part in used if part.share >= MEMBER]
    # What they pay at most is looked at first: who uses what takes longer to compare.
    if not (both and saturated) and sum(beside[id(part)] for part in fought) >= BOTH * whole:
        strangers = [
            part for part in fought if any(apart(part.users, other.users) for other in written if other is not part)
        ]
    else:
        strangers = []
    # Of what they pay, some stays: they share their own bytes too.
    if strangers and sum(beside[id(part)] for part in strangers) >= BOTH * whole:
        stay = [part for part in written if several(part.users)]
        reason = f"{places(strangers)} and the bytes written beside it are used by others"
        if stay:
            reason += f"; {places(stay)} is shared by several itself, and that part stays (true sharing)"
        return Sharing("false", "shown", tuple(used), reason, share)
    if untold > whole:
        why = f"most of the cost is at bytes that others may write too, as not all stores are known; {RECORD_STORES}"
        return Sharing("open", "likely", tuple(used), "", None, why)
    if share <= 1 - MOST:
        reason = "those who pay use the bytes that others write"
        if share >= BOTH:
            reason += f"; {share:.0%} is paid for writes beside them, and ends if these move (false sharing)"
        # An estimate that is near to both kinds is no proof.
        strength: Strength = "proven" if stores_told and share < BOTH else "shown"
        if saturated and len([part for part in written if part.share >= MEMBER]) > 1:
            why = "nearly all loads wait, so how much of it would end if each had a line of its own is not known"
            return Sharing("true", "likely", tuple(used), reason, share, f"{why}; {TRY_APART}")
        places_of = [part.users for part in used if part.share >= MEMBER]
        if len(places_of) < 2 or same_cpus(places_of):
            return Sharing("true", strength, tuple(used), reason, share)
        if all(one.cpus for one in places_of):
            why = f"other CPUs use each of them: they may be data of each CPU, which threads use where they run; {CPUS}"
        elif _may_be_of_cpus(fought):
            why = f"each thread is on one CPU at each of them: they may be data of each CPU; {WHICH_CPUS}"
        else:
            # Data of each CPU have the threads in common that run there one after the other.
            return Sharing("true", "shown", tuple(used), reason, share)
        return Sharing("true", "likely", tuple(used), reason, share, why)
    if share <= HALF and saturated:
        return _unknown_rate(used)
    if share > HALF and sum(part.cost for part in used) < SAMPLES:
        why = f"about half of the cost, {share:.0%}, is for writes beside the bytes that pay: of so few samples that"
        return Sharing("open", "likely", tuple(used), "", None, f"{why} tells neither kind; {LONGER}")
    reason = "one part of the cost is at these bytes, another part at bytes beside them"
    return Sharing("false" if share > HALF else "true", "likely", tuple(used), reason, share)


def _may_be_of_cpus(parts: Sequence[Part]) -> bool:
    """Whether members of which the CPUs are not told may be data of each CPU: one has all, by the same instruction.

    A thread that migrates is then on another CPU at each member, and always on the same one there.  A thread that stays
    where it is looks no different.
    """
    if any(access.cpu_count != 1 for part in parts for access in part.main):
        return False
    return bool(reduce(and_, [{access.code for access in part.main} for part in parts]))


def writes_between(paid: float, uses: int) -> float:
    """How many writes of others come between two uses of which so many in all are paid for."""
    return -log(1 - min(SATURATED, paid / max(1, uses)))


class _Line:
    """A line's members with their rows, and those of them that write."""

    def __init__(
        self, used: Sequence[Part], own: Mapping[int, Sequence[_Row]], writers: _Written, main: _Written
    ) -> None:
        self._writers = writers
        self._own = own
        self._rows = [(one.threads, one.loads, one.price) for part in used for one in own[id(part)]]
        self._written = [part for part in used if writers.get(id(part))]
        self._using = {id(part): reduce(or_, [row.threads for row in main[id(part)]], 0) for part in self._written}
        # In the order of the members, each with how much it writes: see kept().
        self._write = [
            (part, writer.threads, writer.users, writer.wrote) for part in used for writer in writers.get(id(part), ())
        ]
        # Most lines have a thread that uses all of their bytes: its uses, and what they cost, are the line's.
        sets = [row[0] for row in self._rows]
        self._everywhere = reduce(and_, sets) if sets else 0
        # Or each use has so many threads that any two have one in common.
        self._fewest = min([threads.bit_count() for threads in sets], default=0)
        self._everyone = reduce(or_, sets, 0).bit_count()
        self._uses = sum([row[1] for row in self._rows])
        paid = 0.0
        for row in self._rows:
            paid += row[2]
        self._writes = writes_between(paid, self._uses)
        self._kept: dict[int, float] = {}

    def kept(self, row: _Row, part: Part) -> float:
        """How many of a row's loads would still pay if its bytes had a line of their own.

        A load pays if another thread has written since its own thread had the line.  How often loads pay shows how
        many such writes come between two uses of the line; where others write shows how many of them are to the very
        bytes.  Between two uses of the bytes alone there is more time for them than between two uses of the line.
        """
        known = self._kept.get(id(row))
        if known is None:
            known = self._kept[id(row)] = self._stays(row, part)
        return known

    def _stays(self, row: _Row, part: Part) -> float:
        threads, users = row.threads, row.users
        very = every = 0.0
        for other, writing, writers, wrote_there in self._write:
            # How often a thread that wrote is not the one that loads.
            count = wrote_there * (1 - (writing & threads).bit_count() / (writers * users or 1))
            every += count
            if other is part:
                very += count
        if not very:
            return 0.0
        if threads & self._everywhere or users + self._fewest > self._everyone:
            uses, writes = self._uses, self._writes
        else:
            uses, paid = 0, 0.0
            for others, loads, price in self._rows:
                if others & threads:
                    uses += loads
                    paid += price
            writes = writes_between(paid, uses)
        at_bytes = sum([one.loads for one in self._own[id(part)] if one.threads & threads])
        between = writes * very / every
        return row.loads * (1 - exp(-between * uses / max(1, at_bytes)))

    def uses_written_beside(self, row: _Row, part: Part) -> bool:
        """Whether who pays at bytes of their own also uses other bytes of the line that others write."""
        return any(
            other is not part and row.threads & self._using[id(other)] and _others_write(row, self._writers[id(other)])
            for other in self._written
        )

    def hidden(self, row: _Row, part: Part) -> float:
        """How many more loads of a row may pay if its bytes are apart than kept() tells.

        An instruction that loads and stores loads as often as it stores; of loads that find the line few are sampled.
        So few loads as RATES tells are mistaken ones, of an instruction that stores alone.  Where a text has fewer
        loads than HITM, its loads tell nothing.
        """
        wrote = row.wrote
        if not wrote or not row.told >= row.loads >= wrote / RATES:
            return 0.0
        if not _others_write(row, self._writers.get(id(part), ())):
            return 0.0
        return max(0.0, wrote - self.kept(row, part))


def _saturated(rows: Iterable[_Row]) -> bool:
    """Whether nearly all loads of those who pay do so."""
    paying = [row for row in rows if row.price]
    return sum([row.price for row in paying]) >= SATURATED * sum([row.loads for row in paying])


def _blind_stores(rows: Sequence[_Row], writers: Sequence[_Row], payers: int) -> float:
    """Stores to bytes that others write too, which follow no load there, of threads that pay elsewhere on the line.

    Each would fetch the line of these bytes, were they apart.
    """
    blind = 0.0
    for row in writers:
        threads = row.threads
        if not threads & payers:
            continue
        rest = row.wrote - RATES * sum([one.loads for one in rows if one.threads & threads])
        others = writers if row.users > 1 else [other for other in writers if other is not row]
        if rest > 0 and _others_write(row, others):
            blind += rest
    return blind


def _beside(row: _Row, part: Part, written: Sequence[Part], writers: _Written) -> bool:
    """Whether another thread writes to other bytes of the line: without that, nothing says why the line moved."""
    return any(other is not part and _others_write(row, writers[id(other)]) for other in written)
