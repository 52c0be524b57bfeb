# SPDX-License-Identifier: GPL-2.0-or-later
"""Who uses the members of a line, as far as the samples tell: threads, or CPUs, or only how many CPUs.

A thread is itself wherever it runs.  A CPU is less: a thread that migrates uses several, so CPUs that differ tell users
apart, and CPUs in common do not join them.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache, reduce
from math import exp
from operator import and_, or_

from lockline.c2c.model import Access, Part, Users

# Instructions no further apart are of one function, where symbols do not tell.
NEAR_CODE = 64
# Of a member's samples, what mistaken addresses and code that ran once make.
STRAY = 0.02
# Of the samples of the busiest thread at an instruction, what mistaken samples and visits make of another one, and of
# all samples there, of all such threads together; and how many samples the busiest has at least.
STRAY_THREAD = 0.05
FULL = 20
# A CPU that takes part shows itself in so many samples.
SAMPLES_PER_CPU = 4
# Of the CPUs of two members, so many are of one alone though all of them use both.
OTHER_CPUS = 0.3
# Were the users the same, so many pairs of samples, one of each member, would be of one CPU: none is no accident.
MEET = 2
# On so many times the CPUs of some are others, whatever migrates.
FAR_MORE = 4
# One sample has one user, whoever else there is.  So many more that all repeat it are no accident.
REPEATED = 3


def named(access: Access) -> bool:
    """Whether the function is known by its name."""
    symbol = access.code.symbol
    return bool(symbol) and not symbol.startswith("0x")


def same_code(one: Sequence[Access], other: Sequence[Access]) -> bool:
    """Whether some function makes accesses of both; without names, instructions near each other are of one."""
    names = {access.function for access in one if named(access)}
    if names & {access.function for access in other if named(access)}:
        return True
    places = [access.code.address for access in one if not named(access)]
    others = [access.code.address for access in other if not named(access)]
    return any(abs(place - near) < NEAR_CODE for place in places for near in others if place and near)


def elsewhere(one: Sequence[Access], other: Sequence[Access]) -> bool:
    """Whether the accesses of both are known to be made at different places in the code."""
    places = [access.code.address for access in one]
    others = [access.code.address for access in other]
    return all(places) and all(others) and all(abs(place - far) >= NEAR_CODE for place in places for far in others)


def code_known(accesses: Sequence[Access]) -> bool:
    """Whether it is known of all of them which code makes them."""
    return all(named(access) or access.code.address for access in accesses)


def significant(accesses: Sequence[Access]) -> Sequence[Access]:
    """Without the few samples that may be strays."""
    if len(accesses) < 2:
        return accesses
    each = [access.counts.records or 0 for access in accesses]
    if min(each) > STRAY * sum(each):
        return accesses
    records = transfers = stores = 0.0
    for access in accesses:
        records += access.counts.records or 0
        transfers += access.transfers
        stores += access.wrote
    records, transfers, stores = STRAY * records, STRAY * transfers, STRAY * stores
    kept = [
        access
        for access in accesses
        if (access.counts.records or 0) > records or access.transfers > transfers or access.wrote > stores
    ]
    return kept or accesses


@lru_cache(256)
def _nodes(told: str) -> frozenset[str]:
    return frozenset(word.partition("{")[0] for word in told.replace("}", "} ").split() if word[:1].isdigit())


def stray_threads(threads: Sequence[int], records: Sequence[int]) -> frozenset[int]:
    """Of the threads of one instruction, those with so few samples that skid, mistakes and visits can make them.

    records: of each thread, in the same order, of which one has FULL or more.  A thread is none because others
    are busier: only the least of all are, as long as they have next to nothing together.
    """
    most = max(records)
    if min(records) > STRAY_THREAD * most:
        return frozenset()
    room = max(1.0, STRAY_THREAD * sum(records))
    found = []
    for count, thread in sorted(zip(records, threads, strict=True)):
        room -= count
        if count > STRAY_THREAD * most or room < 0:
            break
        found.append(thread)
    return frozenset(found)


def users_of(accesses: Sequence[Access]) -> Users:
    """Who makes these accesses, without the few samples that may be strays."""
    return users_of_all(significant(accesses))


def users_of_all(rows: Sequence[Access]) -> Users:
    """Who makes these accesses, each of which counts."""
    cpus = threads = count = groups = samples = 0
    # Whether each access tells them.
    cpus_told = threads_told = bool(rows)
    same_nodes, told = True, rows[0].nodes if rows else ""
    for row in rows:
        if row.nodes != told:
            same_nodes = False
        regulars = row.threads & ~row.strays if row.strays else row.threads
        if row.cpus:
            cpus |= row.cpus
        else:
            cpus_told = False
        if regulars:
            threads |= regulars
        else:
            threads_told = False
        if row.cpu_count > count:
            count = row.cpu_count
        if row.groups > groups:
            groups = row.groups
        records, moved = row.counts.records or 0, row.transfers + row.wrote
        samples += records if records > moved else moved
    cpus, threads = cpus if cpus_told else 0, threads if threads_told else 0
    if cpus:
        count = cpus.bit_count()
    if same_nodes:
        nodes = _nodes(told)
    else:
        places = [_nodes(told) for told in {row.nodes for row in rows}]
        nodes = frozenset[str]().union(*places) if all(places) else frozenset()
    if threads:
        alone = threads.bit_count() == 1
    elif cpus:
        alone = count == 1
    else:
        # Several instructions of one function are likely run by one thread; of several functions that is not known.
        one_cpu = bool(rows) and groups <= 1 and all(row.cpu_count == 1 for row in rows)
        alone = one_cpu and all(same_code([rows[0]], [row]) for row in rows[1:]) and code_known(rows)
    return Users(threads or None, cpus or None, nodes or None, count, groups, alone, samples)


def apart(one: Users, other: Users) -> bool:
    """Whether it is known that nobody belongs to both."""
    if one.threads and other.threads:
        if one.threads & other.threads:
            return False
        enough = SAMPLES_PER_CPU * max(one.threads.bit_count(), other.threads.bit_count())
        return min(one.samples, other.samples) >= enough
    pairs = one.samples * other.samples
    if one.cpus and other.cpus and not one.cpus & other.cpus:
        return pairs >= MEET * (one.cpus | other.cpus).bit_count()
    if one.nodes and other.nodes and not one.nodes & other.nodes:
        return pairs >= MEET * len(one.nodes | other.nodes)
    return False


def repeated(every: Iterable[Users]) -> bool:
    """Whether it is no accident that one user alone is seen at each member: samples enough repeat it."""
    return sum(max(0, one.samples - 1) for one in every) >= REPEATED


def _far_fewer(some: Users, others: Users) -> bool:
    """Whether some are on far fewer CPUs than they would be seen on, were they the same ones as the others.

    So many samples that fall on any of the others' CPUs miss few of them.
    """
    if not some.count or others.count < FAR_MORE * some.count:
        return False
    return others.count * (1 - exp(-some.samples / others.count)) >= FAR_MORE * some.count


def _more(one: Users, other: Users) -> bool:
    """Whether most CPUs of the one are missing among the other's, which has samples enough to show them."""
    if other.samples < SAMPLES_PER_CPU * one.count:
        return _far_fewer(other, one)
    if one.cpus and other.cpus:
        return (one.cpus & ~other.cpus).bit_count() * 2 >= one.count
    return bool(other.count) and one.count >= 2 * other.count


def differ(one: Users, other: Users) -> bool:
    """Whether they are known to be mostly others: were they the same, they would be seen on the same CPUs."""
    if one.threads and other.threads:
        fewer = min(one.threads.bit_count(), other.threads.bit_count())
        return (one.threads & other.threads).bit_count() * 2 <= fewer
    return apart(one, other) or _more(one, other) or _more(other, one)


def same_cpus(every: Sequence[Users]) -> bool:
    """Whether these are known to be on the same CPUs, but for a few that samples have missed."""
    sets = [one.cpus for one in every]
    known = [one for one in sets if one]
    if len(known) < len(sets):
        return len(sets) < 2
    # No two of them differ by more than all do.
    differing = reduce(or_, known, 0) & ~reduce(and_, known, -1)
    if differing.bit_count() <= OTHER_CPUS * min([one.bit_count() for one in known], default=0):
        return True
    return all(
        (one ^ other).bit_count() <= OTHER_CPUS * (one | other).bit_count()
        for index, one in enumerate(known)
        for other in known[index + 1 :]
    )


def several(users: Users) -> bool:
    """Whether they are known to be more than one."""
    if users.threads is not None:
        return users.threads.bit_count() > 1
    return users.count > 1 or users.groups > 1


def several_threads(users: Users) -> bool:
    """Whether they are known to be more than one thread or process: several CPUs may be those of one that migrates."""
    return users.threads.bit_count() > 1 if users.threads is not None else users.groups > 1


def surely_apart(one: Users, other: Users) -> bool:
    """Whether nobody belongs to both, and both have samples enough to show all who do."""
    enough = SAMPLES_PER_CPU * max(one.count, other.count, 1)
    return apart(one, other) and min(one.samples, other.samples) >= enough


def everybody(parts: Iterable[Part]) -> Users:
    """The users of some members together."""
    return users_of([access for part in parts for access in part.accesses])
