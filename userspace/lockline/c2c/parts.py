# SPDX-License-Identifier: GPL-2.0-or-later
"""A line divided into members, or into offsets where members are not known, and who does what to each."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from operator import attrgetter

from lockline.base.values import dataclass
from lockline.c2c.functions import (
    half_of_lock,
    is_lock_function,
    is_slow_path,
    is_spin_function,
    is_unlock,
    paired_locks,
)
from lockline.c2c.members import Place, Types, is_atomic_type, is_list_type, is_lock_type, place
from lockline.c2c.model import Access, Counts, Line, LockOnLine, Part, Role, add_counts
from lockline.c2c.users import STRAY, significant, users_of_all
from lockline.recording.code import Code

# Below so many HITM and peer snoops they tell little; then fill buffer hits speak, if there are many, and stores.
FEW_TRANSFERS = 10
MANY_FILL_BUFFER = 50

# At a lock's own words so much of all is done by functions of locks; the rest are strays.
OWN = 0.9
# Or so much by functions that wait for a lock: the rest is then the fast path, in the functions that it is built into.
SLOW = 0.05
# Of the largest lock without debugging: rwsem 40 bytes, mutex 32, pthread_mutex_t 40.
LOCK_BYTES = 40
# One instruction works on one word of a lock: at two places it is of two locks.  Such ones make so much of all at both;
# what skid puts at the next word is less.
BY_ONE = 0.5
# The figures up to this one.
_LOCKED = Counts._fields.index("locked") + 1

COST_TRANSFERS = "HITM and peer snoops"
COST_FILL_BUFFER = "fill buffer hits"
COST_LOADS = "loads"
WATCHED = "transfers"


def cost_of_line(line: Line) -> str:
    """What the cost of a line's accesses is counted in: HITM and peer snoops, unless fill buffer hits tell more.

    Where what counts is not told by offset, loads stand for it.
    """
    counts = line.counts
    located = line.located
    if counts.transfers >= FEW_TRANSFERS:
        seen = any(one.transfers for one in located) or not any(one.counts.loads for one in located)
        return COST_TRANSFERS if seen else COST_LOADS
    if (counts.stores or 0) < MANY_FILL_BUFFER or (counts.fill_buffer or 0) < MANY_FILL_BUFFER:
        return COST_TRANSFERS
    return COST_FILL_BUFFER if any(one.counts.fill_buffer for one in located) else COST_LOADS


def cost_name(line: Line, kind: str) -> str:
    """The kind of cost by its name: what stands for HITM and peer snoops where all accesses are seen."""
    return WATCHED if line.watch is not None and kind == COST_TRANSFERS else kind


def cost_word(line: Line, kind: str) -> str:
    """The kind of cost in words: without HITM where there are none, and without peer snoops likewise."""
    if kind != COST_TRANSFERS or line.watch is not None:
        return cost_name(line, kind)
    return COST_TRANSFERS if line.counts.hitm and line.counts.peer else "peer snoops" if line.counts.peer else "HITM"


def cost(counts: Counts, kind: str) -> int:
    """Samples that waited for the line, in the kind of cost_of_line()."""
    if kind == COST_TRANSFERS:
        return counts.transfers
    if kind == COST_FILL_BUFFER:
        return counts.transfers + (counts.fill_buffer or 0)
    return counts.loads or 0


def clean_told(parts: Iterable[Part]) -> bool:
    """Whether every access tells which of its loads a clean copy elsewhere served."""
    return None not in [access.counts.llc_hit for part in parts for access in part.accesses]


@dataclass(frozen=True, slots=True)
class _Bounds:
    begin: int
    end: int
    member: str
    type: str
    is_lock: bool
    is_atomic: bool


def _lock_span(lock: LockOnLine) -> tuple[int, int] | None:
    if lock.offset is None:
        return None
    size = 4 if any(kind.startswith("spinlock") for kind in lock.kinds) or not lock.kinds else 8
    return lock.offset, lock.offset + size


def _weight(access: Access) -> int:
    return (access.counts.records or 0) + access.transfers


def _is_spin_word(accesses: Sequence[Access]) -> bool:
    """Whether most of who takes it spins there; stray samples have the address of another access."""
    known = sum(_weight(access) for access in accesses if is_spin_function(access.code.symbol))
    if not known:
        return False
    return 2 * known > sum(_weight(access) for access in accesses if not is_unlock(access.code.symbol))


def _bounds(
    offset: int,
    accesses: Sequence[Access],
    found: Place | None,
    base: int,
    locks: Sequence[LockOnLine],
    spins: bool,
) -> _Bounds:
    if found is not None and found.unit:
        begin = found.unit_offset - base
        return _Bounds(
            begin,
            begin + max(1, found.unit_size),
            found.unit,
            found.unit_type,
            is_lock_type(found.unit_type),
            is_atomic_type(found.unit_type),
        )
    for lock in locks:
        span = _lock_span(lock)
        if span and span[0] <= offset < span[1]:
            return _Bounds(*span, lock.name.rpartition(".")[2], "", True, False)
    if spins and _is_spin_word(accesses):
        # The lock's word: waiters watch its bytes and its halves one by one.
        begin = offset & ~3
        return _Bounds(begin, begin + 4, "", "", True, False)
    return _offset_alone(offset)


@cache
def _offset_alone(offset: int) -> _Bounds:
    return _Bounds(offset, offset + 1, "", "", False, False)


def _on_a_lock(access: Access, paired: Collection[str]) -> bool:
    return is_lock_function(access.code.symbol) or access.code.symbol in paired


def of_two_locks(one: Iterable[Access], other: Iterable[Access]) -> bool:
    """Whether the same instructions work on both."""
    sums: list[Counter[Code]] = []
    for accesses in (one, other):
        counted: Counter[Code] = Counter()
        for access in accesses:
            if access.code.address or access.code.offset:
                counted[access.code] += _weight(access)
        sums.append(counted)
    here, there = sums
    whole, other_whole = here.total(), there.total()
    if not whole or not other_whole:
        return False
    return sum(min(here[code] / whole, there[code] / other_whole) for code in here.keys() & there.keys()) >= BY_ONE


def _is_waited_for(accesses: Sequence[Access], weight: int) -> bool:
    """Whether functions that wait for a lock work there, more often than strays do; weight: of all of them."""
    slow = [access for access in accesses if is_slow_path(access.code.symbol)]
    return sum(map(_weight, slow)) > SLOW * weight and any(access.transfers for access in slow)


def _sleeping_locks(by_offset: Mapping[int, Sequence[Access]], symbols: Collection[str]) -> list[_Bounds]:
    """Sleeping locks and those of programs (rwsem, pthread_mutex_t, one word), which only their own functions use.

    Such a function also looks at whether the owner runs, in the owner's task: there it writes nothing.
    """
    paired = paired_locks(symbols)
    if not paired and not any(map(is_lock_function, symbols)):
        return []
    whole = sum(_weight(access) for accesses in by_offset.values() for access in accesses)
    found: list[list[int]] = []
    for offset, accesses in sorted(by_offset.items()):
        weight = sum(map(_weight, accesses))
        if weight <= STRAY * whole:
            continue
        own = sum(_weight(access) for access in accesses if _on_a_lock(access, paired))
        if own < OWN * weight and not _is_waited_for(accesses, weight):
            found.append([])
        elif (
            found
            and found[-1]
            and offset - found[-1][0] < LOCK_BYTES
            and not of_two_locks(by_offset[found[-1][0]], accesses)
        ):
            found[-1].append(offset)
        else:
            found.append([offset])
    bounds = []
    beside: list[tuple[_Bounds, set[str]]] = []
    at_locks: set[str] = set()
    for offsets in filter(None, found):
        users = [access for offset in offsets for access in by_offset[offset]]
        takes = any(_on_a_lock(access, paired) and not is_unlock(access.code.symbol) for access in users)
        # Of an owner's task nobody lets go.
        own = any(access.wrote or is_unlock(access.code.symbol) for access in users)
        # Spinlocks are one word each, and told apart by their functions, which access nothing else.
        if not takes or all(_is_spin_word(by_offset[offset]) for offset in offsets):
            continue
        span = _Bounds(offsets[0], offsets[-1] + (8 if len(offsets) > 1 else 4), "", "", True, False)
        functions = {access.function for access in users if _on_a_lock(access, paired)}
        if own:
            bounds.append(span)
            at_locks |= functions
        else:
            beside.append((span, functions))
    # An owner's task is elsewhere than the lock: what its functions read on the lock's line is the lock's.
    bounds += [span for span, functions in beside if functions & at_locks]
    return bounds


def divide(
    line: Line, types: Types, id_: str, base: int | None, locks: Sequence[LockOnLine]
) -> tuple[tuple[Part, ...], str]:
    """The parts of a line, by offset, and what their cost is counted in.

    id_: the object's structure, '' if it is not known; base: where the line lies in it.
    """
    kind = cost_of_line(line)
    located = line.located
    by_offset: defaultdict[int, list[Access]] = defaultdict(list)
    for access in located:
        by_offset[access.offset].append(access)
    symbols = {access.code.symbol for access in located}
    # Most lines have no lock on them: that is seen once, by the names of all functions.
    spins = any(map(is_spin_function, symbols))
    grouped: dict[tuple[int, str], tuple[_Bounds, list[Access]]] = {}
    word_locks = _sleeping_locks(by_offset, symbols)
    for offset in sorted(by_offset):
        accesses = by_offset[offset]
        found = place(types, id_, base + offset) if id_ and base is not None else None
        bounds = _bounds(offset, accesses, found, base or 0, locks, spins)
        if word_locks and not bounds.member:
            inside = next((lock for lock in word_locks if lock.begin <= offset < lock.end), None)
            if inside:
                bounds = inside
            elif bounds.is_lock:
                word_locks.append(bounds)
        elif bounds.is_lock and not bounds.member:
            word_locks.append(bounds)
        key = bounds.begin, bounds.member
        if key in grouped:
            grouped[key][1].extend(accesses)
        else:
            grouped[key] = bounds, accesses
    callers = {function: offset for lock in locks for function, offset in lock.callers.items()}
    has_lock = bool(locks) or True in [bounds.is_lock for bounds, _ in grouped.values()]
    holders = _holders(grouped.values()) if has_lock else frozenset()
    view = _View(has_lock, callers, holders)
    counts_of = [add_counts([access.counts for access in accesses]) for _, accesses in grouped.values()]
    by_transfers = kind == COST_TRANSFERS
    if by_transfers:
        # Each access knows its own.
        prices = [sum([access.transfers for access in accesses]) for _, accesses in grouped.values()]
    else:
        prices = [cost(counts, kind) for counts in counts_of]
    total = sum(prices)
    parts = []
    for (bounds, accesses), counts, price in zip(grouped.values(), counts_of, prices, strict=True):
        main = tuple(significant(accesses))
        role_of: dict[tuple[int, Code], Role] = {}
        roles: dict[Role, dict[str, int]] = {}
        for access in accesses:
            counts_here = access.counts
            role = role_of[access.offset, access.code] = _role(access, bounds, view)
            paid = access.transfers if by_transfers else cost(counts_here, kind)
            of_role = roles.get(role)
            if of_role is None:
                of_role = roles[role] = {}
            name = access.function or "?"
            of_role[name] = of_role.get(name, 0) + 1 + (counts_here[0] or 0) + 1000 * paid
        parts.append(
            Part(
                bounds.begin,
                bounds.end,
                bounds.member,
                bounds.type,
                bounds.is_lock,
                bounds.is_atomic,
                tuple(accesses),
                main,
                users_of_all(main),
                counts,
                price,
                price / total if total else 0.0,
                {role: _most_first(names) if len(names) > 1 else tuple(names) for role, names in roles.items()},
                role_of,
            )
        )
    parts.sort(key=attrgetter("begin"))
    return tuple(parts), kind


@dataclass(frozen=True, slots=True)
class _View:
    """What is known of a line's lock.

    callers: where functions have it: an access at a lower offset of such a function comes before it is taken.
    holders: functions that write to the line by plain stores.
    """

    has_lock: bool
    callers: Mapping[str, int]
    holders: frozenset[str]


def _holders(groups: Iterable[tuple[_Bounds, list[Access]]]) -> frozenset[str]:
    return frozenset(
        access.function
        for bounds, accesses in groups
        for access in accesses
        if not bounds.is_lock and access.counts.stores and not access.counts.locked and access.function
    )


def _role(access: Access, bounds: _Bounds, view: _View) -> Role:
    """What an access does: by its function, by being in a wait, by the LOCK bit, and by its place in the code."""
    symbol = access.code.symbol
    if is_lock_function(symbol):
        return "unlock" if is_unlock(symbol) else "waiter"
    records, _, stores, locked = access.counts[:_LOCKED]
    if (access.counts.in_wait or 0) * 2 > (records or 0):
        return "waiter"
    if bounds.is_lock:
        # A text does not tell which stores are atomic ones.
        says = half_of_lock(symbol) or ("unlock" if stores and locked == 0 else "lock")
        return "unlock" if says == "unlock" else "waiter"
    if locked:
        return "atomic"
    if not view.has_lock:
        return "writer" if stores else "reader"
    function = access.function
    taken = view.callers.get(function)
    before = taken is not None and access.code.offset < taken
    if stores:
        return "writer" if before and bounds.is_atomic else "holder"
    if is_list_type(bounds.type):
        return "holder" if taken is not None or function in view.holders else "reader"
    if before or (bounds.is_atomic and taken is None):
        return "lockless reader"
    return "holder" if taken is not None or function in view.holders else "reader"


def _most_first(weights: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(sorted(weights, key=lambda name: (-weights[name], name)))
