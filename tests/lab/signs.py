# SPDX-License-Identifier: GPL-2.0-or-later
"""What an input tells of a line, coarsely: for how many alike lines the truth is one and the same."""

from collections import defaultdict
from collections.abc import Iterable
from functools import reduce
from operator import or_
from typing import NamedTuple

from lockline.c2c.functions import is_lock_function
from lockline.c2c.model import Access, Line

# An offset with less of a line's cost, or of its stores, does not count.
_PART = 0.05


class Signs(NamedTuple):
    """Signs that rules can go by.  They are the laboratory's own: no threshold of the rules is among them."""

    offsets: int = 0  # that pay: 0 to 3 (three or more)
    transfers: int = 0  # step of how many there are
    stores: str = ""  # at paying offsets, beside them, both, none, or not told
    idle: int = 0  # quarters of the cost that are paid where no store was seen
    users: str = ""  # who uses the offsets: apart, mixed, the same, or not told
    alone: str = ""  # whether one thread or CPU alone is seen at each
    code: str = ""  # one function, several, one for each offset, or not told
    lock: bool = False
    rate: int = 0  # step of transfers per load


def _step(count: float, steps: tuple[float, ...]) -> int:
    return sum(count >= step for step in steps)


def _sets(parts: list[list[Access]]) -> list[frozenset[int]] | None:
    """The threads that use each, or else the CPUs."""
    for who in (lambda access: access.regulars, lambda access: access.cpus):
        if all(map(who, (access for part in parts for access in part))):
            return [_members(map(who, part)) for part in parts]
    return None


def _members(sets: Iterable[int]) -> frozenset[int]:
    """What is in any of these sets of bits."""
    bits = reduce(or_, sets, 0)
    return frozenset(bit for bit in range(bits.bit_length()) if bits >> bit & 1)


def _users(sets: list[frozenset[int]] | None, parts: list[list[Access]]) -> str:
    if sets is None:
        counts = {max((access.cpu_count for access in part), default=0) for part in parts}
        return "untold" if counts == {0} else "as many" if len(counts) == 1 else "counts differ"
    pairs = [(one, other) for at, one in enumerate(sets) for other in sets[at + 1 :]]
    if not pairs:
        return "one"
    apart = sum(not one & other for one, other in pairs)
    return "apart" if apart == len(pairs) else "partly" if apart else "overlap" if len(set(sets)) > 1 else "same"


def signs_of(line: Line) -> Signs:
    """The signs of a line."""
    parts: defaultdict[int, list[Access]] = defaultdict(list)
    for access in line.located:
        parts[access.offset].append(access)
    cost = {at: sum(access.counts.transfers for access in part) for at, part in parts.items()}
    told = [access.counts.stores for access in line.located]
    stores = {at: sum(access.counts.stores or 0 for access in part) for at, part in parts.items()}
    whole, written = sum(cost.values()), sum(stores.values())
    pay = [at for at in parts if whole and cost[at] >= _PART * whole]
    write = [at for at in parts if written and stores[at] >= _PART * written]
    used = [parts[at] for at in sorted({*pay, *write})]
    where = "untold" if None in told or not told else "none" if not write else ""
    if not where:
        inside, beside = any(at in pay for at in write), any(at not in pay for at in write)
        where = "both" if inside and beside else "inside" if inside else "beside"
    sets = _sets(used)
    names = [{access.code.symbol for access in part} for part in used]
    every = set[str]().union(*names)
    functions = "untold" if not every or "" in every else "one" if len(every) == 1 else "several"
    if functions == "several" and sum(map(len, names)) == len(every):
        functions = "own"
    idle = sum(cost[at] for at in pay if not stores[at]) / whole if whole else 0.0
    counts = sets and {len(one) for one in sets}
    return Signs(
        min(3, len(pay)),
        _step(line.counts.transfers, (1, 5, 20, 100)),
        where,
        _step(idle, (0.25, 0.5, 0.75)),
        _users(sets, used),
        "" if not counts else "yes" if counts == {1} else "no" if 1 not in counts else "some",
        functions,
        any(is_lock_function(name) for name in every),
        _step(line.counts.transfers / max(1, line.counts.loads or 0), (0.02, 0.1, 0.5)),
    )
