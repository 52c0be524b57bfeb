# SPDX-License-Identifier: GPL-2.0-or-later
"""What kind of sharing a line's cost is, where threads are not known: by CPUs, by how many they are, and by code."""

from collections.abc import Sequence
from math import sqrt

from lockline.c2c.functions import is_lock_function
from lockline.c2c.model import Access, Part, Users
from lockline.c2c.sharing_model import (
    BESIDE,
    FEW_STORES,
    LONGER,
    MAINLY,
    MEMBER,
    MOST,
    RATES,
    RECORD_STORES,
    THREADS,
    Sharing,
    places,
)
from lockline.c2c.sharing_stores import unseen_writes
from lockline.c2c.users import (
    FAR_MORE,
    REPEATED,
    apart,
    code_known,
    differ,
    named,
    repeated,
    same_code,
    several_threads,
    surely_apart,
    users_of,
)

# A line of which so few accesses find it elsewhere may as well be one thread's, that migrates.
SELDOM = 0.08
# A load that takes so many cycles has waited for others that wanted the line too: fetching it takes some hundred.
QUEUE = 1000
# So likely may a member of which no store was sampled be written as often as others, for code to tell who uses what.
UNSEEN = 0.2
_TOO_FEW = f"so few stores were sampled that each member may be written; {LONGER}"
# A member with so much of the cost cannot be one user's own: the line would have to go elsewhere as often.
MORE_THAN_HALF = 0.7


def by_numbers(used: list[Part], written: list[Part], stores_told: bool) -> Sharing:
    """By what hardware allows: where the line is written, and on how many CPUs each member is used."""
    fought = [part for part in used if part.share >= MEMBER]
    everyone = [part for part in used if part in written or part.share >= MEMBER]
    if len(everyone) == 1:
        return _one_member(everyone[0], stores_told)
    alone = [part for part in fought if part.users.alone]
    share = sum(part.share for part in alone)
    others = len(alone) > 1 or any(part not in alone for part in written)
    if share >= MAINLY and others and repeated(part.users for part in alone):
        each = "each of them" if len(alone) == len(everyone) else places(alone)
        reason = f"one CPU alone uses {each}, and pays for what others write beside it"
        # Rows that one CPU makes each may be of several CPUs, where it is not told which.
        known = {part.users.cpus for part in everyone}
        sure = share >= MOST and all(part.users.cpus for part in alone) and len(known) > 1
        return Sharing("false", "proven" if sure else "shown", tuple(everyone), reason, share)
    if not stores_told and sum(row.wrote for part in written for row in part.accesses) < FEW_STORES:
        return unseen_writes(used)
    victims = [part for part in fought if part not in written]
    share = sum(part.share for part in victims)
    if share >= MAINLY:
        return _victims(victims, written, everyone, share, stores_told)
    return _writers(fought, written, everyone, stores_told)


def _wait(part: Part) -> float:
    """Mean cycles of the loads that found the line modified elsewhere; 0: not told."""
    counts = part.counts
    return ((counts.local_hitm_weight or 0) + (counts.remote_hitm_weight or 0)) / max(1, counts.hitm)


def _one_member(part: Part, stores_told: bool) -> Sharing:
    """All that is written and all that pays is one member: whoever pays, pays for the member itself."""
    users = part.users
    if users.alone or not part.share:
        why = "one CPU alone is seen at the only member, so who takes the line from it is not seen"
        return Sharing("open", "likely", (part,), "", None, f"{why}; {THREADS}")
    reason = "the same bytes are read and written by all of them: no layout changes that"
    seen = sum(row.found + row.wrote for row in part.accesses)
    if (
        users.threads is None
        and users.groups < 2
        and part.cost < SELDOM * max(part.counts.records or 0, seen)
        and _wait(part) < QUEUE
        and not _written_for_others([part], [part])
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
    share: float,
    stores_told: bool,
) -> Sharing:
    """Members that nobody writes pay: for the others, unless who reads the one also writes the other."""
    pairs = [(victim, writer) for victim in victims for writer in written]
    reason = f"{_pay(victims, share)}; the line is written at {places(written)}"
    open_ = (
        "the code that reads the one and the code that writes the other run on as many CPUs: whether the same "
        f"threads do both is not known; {THREADS}"
    )
    if not stores_told:
        return Sharing(
            "open", "likely", tuple(everyone), "", None, "not all stores to the line are known; " + RECORD_STORES
        )
    if all(surely_apart(victim.users, writer.users) for victim, writer in pairs):
        return Sharing("false", "proven", tuple(everyone), f"{reason}, by others", share)
    if all(differ(victim.users, writer.users) for victim, writer in pairs):
        return Sharing("false", "shown", tuple(everyone), f"{reason}, mostly by other CPUs", share)
    if _too_few_stores(written, everyone):
        return Sharing("open", "likely", tuple(everyone), "", None, _TOO_FEW)
    if all(
        code_known(victim.accesses) and code_known(writer.accesses) and not same_code(victim.accesses, writer.accesses)
        for victim, writer in pairs
    ):
        return Sharing("false", "likely", tuple(everyone), f"{reason}, by other code", share, open_)
    if found := _read_beside(victims, written, everyone):
        return found
    untold = [part for part in everyone if not code_known(part.accesses)]
    if untold:
        why = f"which code uses {places(untold)} is not told"
    else:
        why = "the same function uses members that are written and members that are not, and by whom is not known"
    return Sharing("open", "likely", tuple(everyone), "", None, f"{why}; {THREADS}")


def _too_few_stores(written: Sequence[Part], everyone: Sequence[Part]) -> bool:
    """Whether a member without a sampled store may be written as often as each of the others, by accident unseen."""
    stores = sum(row.wrote for part in written for row in part.accesses)
    return (1 - 1 / len(everyone)) ** stores > UNSEEN


def _pay(victims: Sequence[Part], share: float) -> str:
    """What members pay that nobody writes, or next to nobody, in words."""
    almost = "almost " if any(part.written for part in victims) else ""
    pay = "pays" if len(victims) == 1 else "pay"
    return f"{places(victims)} {pay} {share:.0%} {almost}without being written"


def _slots(parts: list[Part]) -> bool:
    """Whether they look like an array of which each thread has a slot.

    The same code on an array that all threads use would run on as many CPUs at each place.
    """
    if not all(same_code(parts[0].accesses, part.accesses) for part in parts):
        return False
    # Others read or write some of them too: who uses all of them tells.
    common = frozenset.intersection(*(frozenset(row.function for row in part.accesses if named(row)) for part in parts))
    users = [users_of([row for row in part.accesses if not common or row.function in common]) for part in parts]
    return all(any(differ(one, other) for other in users if other is not one) for one in users)


def _written_together(one: Part, other: Part) -> bool:
    """Whether the same code writes both, and others only read one of them: these are what makes the users differ."""
    if not (code_known(one.main) and code_known(other.main)):
        return False
    (changing, reading), (changing_other, reading_other) = (
        [{row.function for row in rows} for rows in _changing_and_reading([part])] for part in (one, other)
    )
    if "" in changing or changing != changing_other:
        return False
    return bool(reading - changing) != bool(reading_other - changing)


def _writers(fought: list[Part], written: list[Part], everyone: list[Part], stores_told: bool) -> Sharing:
    """Several members are written, or the ones that pay are."""
    pairs = [(one, other) for index, one in enumerate(everyone) for other in everyone[index + 1 :]]
    if all(surely_apart(one.users, other.users) for one, other in pairs):
        # What several use stays contended on a line of its own: how much of the cost ends is not proven.
        sure = all(part.users.alone for part in everyone)
        reason = "nobody uses more than one of them"
        return Sharing("false", "proven" if sure else "shown", tuple(everyone), reason, None)
    first = max(fought, key=lambda part: part.share, default=None)
    if first is not None and first.share >= MORE_THAN_HALF and first in written and not first.users.alone:
        others = [part for part in everyone if part is not first]
        writes = sum(access.wrote for part in others for access in part.accesses)
        back = sum(part.cost for part in others)
        if first.cost > RATES * writes + 3 * back:
            reason = f"{places([first])} pays more often than all the others together could take the line from it"
            reason += _ends_beside(fought, written) if stores_told else ""
            return Sharing("true", "shown", tuple(everyone), reason, 0.0)
    if all(differ(one.users, other.users) and not _written_together(one, other) for one, other in pairs):
        return Sharing("false", "shown", tuple(everyone), "mostly other CPUs use each of them", None)
    if _slots(everyone):
        reason = "the same code uses each of them, but not on as many CPUs: each is some threads' own"
        return Sharing("false", "likely", tuple(everyone), reason, None, f"who uses which is not known; {THREADS}")
    if stores_told:
        found = (
            _read_beside(fought, written, everyone)
            or _written_for_others(written, everyone)
            or _exchanged(written, everyone)
            or _written_alone(fought, written, everyone)
        )
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
    writers = [row for part in written for row in part.main if row.wrote]
    victims = [
        part
        for part in fought
        if part not in written
        and code_known(part.accesses)
        and code_known(writers)
        and not same_code(part.main, writers)
    ]
    share = sum(part.share for part in victims)
    if share < BESIDE or _too_few_stores(written, everyone):
        return None
    reason = (
        f"{_pay(victims, share)}, in code that does not write the line; what is paid at {places(written)} stays (true "
        "sharing)"
    )
    return Sharing("false", "likely", tuple(everyone), reason, share, f"who uses which is not known; {THREADS}")


def _ends_beside(fought: Sequence[Part], written: Sequence[Part]) -> str:
    """In words: what is paid at members that nobody writes, and would end on a line of their own."""
    victims = [part for part in fought if part not in written]
    return f"; {_pay(victims, sum(part.share for part in victims))}: that part is false sharing" if victims else ""


def _written_alone(fought: list[Part], written: list[Part], everyone: list[Part]) -> Sharing | None:
    """One member has all stores, and pays for most of it: that stays, wherever what is read beside it lies."""
    first = written[0]
    samples = sum(part.cost for part in fought)
    # Of few samples a share is no more than a guess.
    error = sqrt(first.share * (1 - first.share) / max(1, samples))
    if len(written) > 1 or first.share - error < MAINLY or first.users.alone:
        return None
    # As of one thread that migrates, see _one_member().
    if first.cost < SELDOM * (first.counts.records or 0) and _wait(first) < QUEUE:
        return None
    reason = f"{places([first])} has all stores of the line, so what is paid there is paid for its own bytes"
    reason += _ends_beside(fought, written)
    why = f"who reads the others may then wait at {places([first])} instead; {THREADS}"
    return Sharing("true", "likely", tuple(everyone), reason, 1 - first.share, why)


def _changing_and_reading(parts: Sequence[Part]) -> tuple[list[Access], list[Access]]:
    """Their accesses that write, and the others."""
    rows = [row for part in parts for row in part.main]
    return [row for row in rows if row.wrote], [row for row in rows if not row.wrote]


def _copied(parts: Sequence[Part]) -> tuple[Users, Users] | None:
    """Who writes to all of these members, and who reads them, where the same code does so at each; None: it differs."""
    every = [_changing_and_reading([part]) for part in parts]
    if len(parts) < 2 or not all(writers and readers for writers, readers in every):
        return None
    if not all(code_known(part.main) for part in parts):
        return None
    for which in (0, 1):
        if len({frozenset(row.function for row in rows[which]) for rows in every}) > 1:
            return None
    writers, readers = _changing_and_reading(parts)
    return None if same_code(writers, readers) else (users_of(writers), users_of(readers))


def _written_for_others(written: list[Part], everyone: list[Part]) -> Sharing | None:
    """Each member is written by some, and read by others: apart, they would pay as well."""
    share = 0.0
    # A block that is copied in and out has the same writers and readers at each member: together these have samples
    # enough to show who they are.
    whole = _copied(everyone)
    for part in everyone:
        writers, readers = _changing_and_reading([part])
        if any(is_lock_function(row.code.symbol) for row in part.main):
            return None
        if part not in written or not writers or not readers:
            continue
        some, others = users_of(writers), users_of(readers)
        if apart(some, others) or (differ(*(whole or (some, others))) and others.count >= FAR_MORE * some.count):
            # Who writes may pay for what is written beside it.
            paid = sum(row.transfers for row in part.main)
            share += part.share * (sum(row.transfers for row in readers) / paid if paid else 1.0)
    if share < MOST:
        return None
    reason = "each of them is written by some, and read by others"
    return Sharing("true", "shown", tuple(everyone), reason, None)


def _exchanged(written: list[Part], everyone: list[Part]) -> Sharing | None:
    """Each function waits where it only reads, and all that others write is there: as at the two ends of a queue.

    A function that is on one CPU at each of its places does not wait for its own writes.
    """
    rows = [(part, row) for part in everyone for row in part.main]
    if not all(named(row) for _, row in rows) or any(row.groups > 1 for _, row in rows):
        return None
    several = {row.function for _, row in rows if row.cpu_count != 1}
    writes = [(part, row.function) for part in written for row in part.main if row.wrote]
    paid = kept = 0
    for part, row in rows:
        if not row.transfers:
            continue
        paid += row.transfers
        others = [place for place, function in writes if function != row.function or row.function in several]
        if (part, row.function) not in writes and others and all(place is part for place in others):
            kept += row.transfers
    if kept < MOST * paid or paid < REPEATED * len(everyone):
        return None
    reason = "each function pays for what another one writes to the very bytes, and for nothing beside them"
    return Sharing("true", "shown", tuple(everyone), reason, 1 - kept / paid)
