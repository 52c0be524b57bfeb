# SPDX-License-Identifier: GPL-2.0-or-later
"""Which object a line belongs to: from the lock on it, its static symbol, or the code that touches it.

A placement says that byte x of the line is byte base + x of an object of some type; so members have names.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from lockline.base.values import dataclass
from lockline.c2c.functions import is_lock_function, is_spin_function
from lockline.c2c.members import SPIN_TYPES, Types, base_type, embedded, find_path, is_lock_type, place
from lockline.c2c.model import Access, Line, LockOnLine, Placement

NOWHERE = Placement("", None, "", False, (), ())

# What the code lets infer, as a share of the accesses' weight: below, a type is not told.
ENOUGH = 0.4
# Two that are no further apart than this fit alike.
ALIKE = 0.05
MAX_TYPES = 24
MAX_GROUPS = 32
MAX_BASES = 320
MAX_SIZE = 1 << 16

# Structures that functions work on without having a pointer to them among their parameters (docs/lock-identity.md).
_HINTS = (("futex_", "futex_hash_bucket"), ("__futex_", "futex_hash_bucket"), ("pipe_", "pipe_inode_info"))


def hinted(function: str) -> str:
    """The structure that a function is known to work on, or ''."""
    return next((type_ for prefix, type_ in _HINTS if function.startswith(prefix)), "")


def program_of(line: Line) -> str:
    """The program in which a line of user space is a variable, or whose code touches it most; '' if that is not known.

    An import gives names of user space only if the file is the one that ran, so that its types are right, too.
    """
    if line.space != "user":
        return ""
    if line.symbol:
        return line.object if line.object.startswith("/") else ""
    weights: defaultdict[str, int] = defaultdict(int)
    for access in line.located:
        if access.code.symbol and access.code.object.startswith("/"):
            weights[access.code.object] += 1 + access.transfers
    return max(weights, key=lambda name: (weights[name], name)) if weights else ""


def wanted_names(lines: Sequence[Line], locks: Sequence[LockOnLine]) -> tuple[list[str], list[str], list[str]]:
    """Functions, structures and variables whose types name the members of these lines, the most frequent first."""
    weights: defaultdict[str, int] = defaultdict(int)
    structs: dict[str, None] = {}
    variables: dict[str, None] = {}
    for line in lines:
        for access in line.accesses:
            if access.code.declared:
                weights[access.code.declared] += 1 + access.transfers
        if line.symbol:
            variables[line.symbol] = None
            structs[line.symbol] = None
    for function in weights:
        if hinted(function):
            structs[hinted(function)] = None
    for lock in locks:
        word = lock.name.partition(".")[0]
        if "." in lock.name:
            structs[word] = None
            variables[word] = None
    return sorted(weights, key=lambda name: -weights[name]), list(structs), list(variables)


@dataclass(frozen=True, slots=True)
class _Group:
    """Accesses of one function to one offset."""

    function: str
    offset: int
    weight: float


def _groups(accesses: Sequence[Access]) -> list[_Group]:
    weights: defaultdict[tuple[str, int], float] = defaultdict(float)
    for access in accesses:
        counts = access.counts
        weight = counts.transfers + 0.01 * ((counts.records or 0) + (counts.stores or 0)) + 0.001
        weights[access.code.declared, access.offset] += weight
    ranked = sorted(weights.items(), key=lambda item: (-item[1], item[0]))
    return [_Group(function, offset, weight) for (function, offset), weight in ranked[:MAX_GROUPS]]


def place_by_lock(lock: LockOnLine, types: Types) -> Placement | None:
    """From a lock's name (type.member, or variable.member) and its offset in the line."""
    word, dot, rest = lock.name.partition(".")
    if not dot or lock.offset is None:
        return None
    id_ = types.variables.get(word) or types.named(word)
    found = [(object_, offset - lock.offset) for object_, offset in find_path(types, id_, rest.split("."))]
    # An object that is a whole number of lines begins at one.
    found.sort(key=lambda item: types.structs[item[0]].size % 64 == 0 and item[1] % 64 != 0)
    if not found:
        return None
    object_, base = found[0]
    name = types.name(object_) or word
    evidence = f"the lock {lock.name} lies at {lock.offset:#x} of the line, at {lock.offset + base:#x} of {name}"
    told = (evidence, f"members are named {types.foreign}") if types.foreign else (evidence,)
    return Placement(name, base, "lock", not types.foreign, told, ())


def place_by_symbol(line: Line, types: Types) -> Placement | None:
    """From the static variable that the line is of."""
    id_ = types.variables.get(line.symbol, "") if line.symbol else ""
    if not id_ or types.foreign:
        return None
    name = types.name(id_) or line.symbol
    evidence = f"the line is {line.symbol}+{line.symbol_offset:#x}, of type {name}"
    # Of an array, the line is in one of its elements.
    base = line.symbol_offset % max(1, types.structs[id_].size)
    return Placement(name, base, "symbol", True, (evidence,), ())


def type_id(placement: Placement, line: Line, types: Types) -> str:
    """Id of the placement's structure in these types, or ''."""
    if placement.source == "symbol" and line.symbol in types.variables:
        return types.variables[line.symbol]
    return types.named(placement.type) if placement.type else ""


@dataclass(frozen=True, slots=True)
class _Fit:
    score: float
    id: str
    base: int
    fitting: tuple[str, ...]  # functions that speak for it
    direct: bool  # one of them has a pointer to it


def place_by_code(line: Line, types: Types, base: int | None = None) -> Placement | None:
    """The structure among the argument types of the functions that touch the line, whose members fit best.

    base: where the object begins, if that is known otherwise.  None if nothing fits well enough.
    """
    # From another kernel's types nothing is inferred.
    if types.foreign or not types.structs:
        return None
    groups = _groups(line.located)
    if not groups:
        return None
    fits = sorted(_fits(groups, types, base), key=lambda fit: (-fit.score, types.name(fit.id), fit.base))
    fits = [fit for fit in fits if fit.score >= ENOUGH and (fit.direct or len(fit.fitting) > 1)]
    if not fits:
        return None
    best = fits[0]
    alike = [fit for fit in fits if fit.score >= best.score - ALIKE]
    bases = {fit.base for fit in alike if fit.id == best.id}
    others = tuple(dict.fromkeys(types.name(fit.id) for fit in alike if types.name(fit.id) != types.name(best.id)))
    name = types.name(best.id)
    by = "arguments of " + ", ".join(best.fitting[:4])
    evidence = [f"{by} lead to {name}, whose members fit {best.score:.0%} of the accesses"]
    if len(bases) > 1:
        evidence.append(f"{len(bases)} positions in {name} fit alike, so members are not named")
    if others:
        evidence.append(f"{', '.join(others[:4])} would fit nearly as well")
    known = best.base if len(bases) == 1 and not others else None
    return Placement(name, known, "code", False, tuple(evidence), others)


def _candidates(groups: Sequence[_Group], types: Types) -> list[str]:
    weights: defaultdict[str, float] = defaultdict(float)
    for group in groups:
        function = types.functions.get(group.function)
        for id_ in {*function.parameters, function.returns} if function else ():
            weights[id_] += group.weight
        if hinted(group.function):
            weights[types.named(hinted(group.function))] += group.weight / 2
    ids = [
        id_
        for id_ in sorted(weights, key=lambda id_: (-weights[id_], id_))
        # A lock or a list's head is never the whole object.
        if id_ in types.structs and types.name(id_) and not is_lock_type(types.name(id_))
    ]
    return ids[:MAX_TYPES]


def _bases(id_: str, groups: Sequence[_Group], types: Types, inside: Mapping[str, Sequence[int]]) -> Iterator[int]:
    size = types.structs[id_].size
    locks = [group.offset for group in groups if is_spin_function(group.function)]
    if locks:
        # A spinning waiter touches the lock's word and nothing else.
        places = {
            offset
            for inner, offsets in inside.items()
            if base_type(types.name(inner)) in SPIN_TYPES
            for offset in offsets
        }
        yield from sorted({place_ - locks[0] for place_ in places if (place_ - locks[0]) % 4 == 0})[:MAX_BASES]
        return
    step = 64 if size % 64 == 0 or size > 1024 else 8
    yield from range(0 if step == 64 else -56, min(size, step * MAX_BASES), step)


def _fits(groups: Sequence[_Group], types: Types, base: int | None) -> Iterator[_Fit]:
    total = sum(group.weight for group in groups)
    for id_ in _candidates(groups, types):
        if types.structs[id_].size > MAX_SIZE:
            continue
        inside = embedded(types, id_)
        for begin in [base] if base is not None else _bases(id_, groups, types, inside):
            good = 0.0
            fitting: dict[str, None] = {}
            direct = False
            for group in groups:
                quality, own = _quality(group, id_, begin, types, inside)
                good += quality * group.weight
                if quality >= 0.4:
                    fitting[group.function] = None
                    direct = direct or own
            yield _Fit(good / total, id_, begin, tuple(fitting), direct)


def _quality(
    group: _Group, id_: str, base: int, types: Types, inside: Mapping[str, Sequence[int]]
) -> tuple[float, bool]:
    """How well an access fits (-1 to 1), and whether the function has a pointer to the very structure."""
    offset = base + group.offset
    found = place(types, id_, offset)
    if found is None:
        return -1.0, False
    on_lock = is_lock_type(found.unit_type)
    if is_spin_function(group.function):
        return (0.9, False) if on_lock else (-1.0, False)
    aligned = 1.0 if found.offset == offset or on_lock else 0.5
    if is_lock_function(group.function):
        return (0.9 if on_lock else -0.5), False
    function = types.functions.get(group.function)
    if function is not None:
        if id_ in function.parameters:
            return aligned, True
        if id_ == function.returns:
            return 0.7 * aligned, True
        for inner in function.parameters:
            size = types.structs[inner].size
            if any(begin <= offset < begin + size for begin in inside.get(inner, ())):
                return 0.8 * aligned, False
    if hinted(group.function) == types.name(id_):
        return 0.6 * aligned, True
    return 0.15 * aligned, False
