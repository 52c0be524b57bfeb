# SPDX-License-Identifier: GPL-2.0-or-later
"""From an offset in an object to the member: reads what `lockline-collect types` prints (lockline-types/1)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from lockline.base.errors import LocklineError
from lockline.base.values import dataclass

SCHEMA = "lockline-types/1"
DEEPEST = 24
MAX_MEMBERS = 65536

# Locks whose inside is the lock's own business: told as one member.
SPIN_TYPES = frozenset(
    [
        "raw_spinlock",
        "qspinlock",
        "arch_spinlock_t",
        "qrwlock",
        "rwlock_t",
        "spinlock",
        "spinlock_t",
        "raw_spinlock_t",
        "rqspinlock",
        "rqspinlock_t",
        "bpf_spin_lock",
        "bpf_res_spin_lock",
        "arch_rwlock_t",
    ]
)
LOCK_TYPES = SPIN_TYPES | frozenset(
    [
        "mutex",
        "ww_mutex",
        "rw_semaphore",
        "rwbase_rt",
        "rt_mutex",
        "rt_mutex_base",
        "semaphore",
        "percpu_rw_semaphore",
        "optimistic_spin_queue",
        "seqlock_t",
        "lockref",
    ]
)
# Read before and after data that are written under them: nobody waits for one, and readers need both.
SEQUENCE_TYPES = frozenset(
    [
        "seqcount",
        "seqcount_t",
        "seqcount_latch_t",
        "seqcount_spinlock",
        "seqcount_raw_spinlock",
        "seqcount_rwlock",
        "seqcount_mutex",
        "seqcount_ww_mutex",
        "seqcount_spinlock_t",
        "seqcount_raw_spinlock_t",
        "seqcount_rwlock_t",
        "seqcount_mutex_t",
    ]
)
ATOMIC_TYPES = SEQUENCE_TYPES | frozenset(
    ["atomic_t", "atomic64_t", "atomic_long_t", "refcount_t", "refcount_struct", "rcuref_t", "kref"]
)
# Nobody changes or walks these without a lock, but for what RCU allows.
LIST_TYPES = frozenset(
    ("list_head", "hlist_head", "hlist_node", "plist_head", "plist_node", "rb_root", "rb_root_cached", "rb_node")
)
# What is moved or left as a whole, and changes as a whole.
UNIT_TYPES = (
    LOCK_TYPES
    | ATOMIC_TYPES
    | LIST_TYPES
    | frozenset(["llist_head", "wait_queue_head", "wait_queue_head_t", "swait_queue_head", "percpu_counter", "xarray"])
)


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a structure; offset from its begin, bytes.  struct: id of its type, '' if it is none."""

    name: str
    offset: int
    size: int
    type: str
    struct: str
    count: int  # of an array's elements; 1: no array
    stride: int
    bits: tuple[int, int] | None  # first bit after offset, number of bits


@dataclass(frozen=True, slots=True)
class Struct:
    """A structure or union."""

    name: str
    kind: str
    size: int
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Function:
    """The ids of the structures that its parameters point to, and that it returns a pointer to."""

    parameters: tuple[str, ...]
    returns: str


@dataclass(frozen=True, slots=True)
class Place:
    """What lies at an offset of an object.  unit: the member that is moved as a whole, and where it lies."""

    path: str  # as chain.next
    offset: int  # of the innermost member in the object
    size: int
    type: str
    unit: str
    unit_offset: int
    unit_size: int
    unit_type: str


@dataclass(frozen=True, slots=True)
class Types:
    """Structures by id, functions and variables by name.

    foreign: in words whose they are, if they are another kernel's than the recorded one's.
    """

    structs: Mapping[str, Struct]
    functions: Mapping[str, Function]
    variables: Mapping[str, str]  # id of the variable's structure
    foreign: str = ""

    def named(self, name: str) -> str:
        """Id of the structure of that tag, or of the typedef of one without a tag; '' if there is none."""
        found = [id_ for id_, struct in self.structs.items() if struct.name == name]
        if found:
            return found[0]
        for struct in self.structs.values():
            for member in struct.members:
                if member.type == name and member.struct and member.count == 1:
                    return member.struct
        return ""

    def name(self, id_: str) -> str:
        """The structure's tag, or ''."""
        return self.structs[id_].name if id_ in self.structs else ""


NO_TYPES = Types({}, {}, {})
# Functions, structures, variables: what a reader of types is asked for.
ReadTypes = Callable[[Sequence[str], Sequence[str], Sequence[str]], Types]
# The same of the program in a file.
ReadProgram = Callable[[str, Sequence[str], Sequence[str], Sequence[str]], Types]


def parse_types(text: str, foreign: str = "") -> Types:
    """Types from the collector's JSON.  Raises LocklineError if it is something else."""
    import json

    try:
        document = json.loads(text)
        if document["schema"] != SCHEMA:
            raise ValueError(f"schema {document['schema']!r}")
        structs = {id_: _struct(value) for id_, value in document["structs"].items()}
        functions = {
            name: Function(
                tuple(parameter["struct"] for parameter in value["parameters"] if parameter.get("struct") in structs),
                value["returns"].get("struct", ""),
            )
            for name, value in document["functions"].items()
        }
        variables = {
            name: value["struct"] for name, value in document["variables"].items() if value.get("struct") in structs
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise LocklineError(f"lockline-collect types printed what is not {SCHEMA}: {error}") from error
    return Types(structs, functions, variables, foreign)


def merge_types(first: Types, second: Types, prefix: str) -> Types:
    """Both; ids of the second get a prefix, names of the first win."""

    def renamed(id_: str) -> str:
        return f"{prefix}{id_}" if id_ else ""

    structs = dict(first.structs)
    for id_, struct in second.structs.items():
        members = tuple(
            Member(m.name, m.offset, m.size, m.type, renamed(m.struct), m.count, m.stride, m.bits)
            for m in struct.members
        )
        structs[renamed(id_)] = Struct(struct.name, struct.kind, struct.size, members)
    functions = {
        name: Function(tuple(map(renamed, function.parameters)), renamed(function.returns))
        for name, function in second.functions.items()
    }
    variables = {name: renamed(id_) for name, id_ in second.variables.items()}
    return Types(structs, {**functions, **first.functions}, {**variables, **first.variables}, first.foreign)


def _struct(value: dict[str, Any]) -> Struct:
    members = value["members"]
    if len(members) > MAX_MEMBERS:
        raise ValueError("a structure of too many members")
    return Struct(str(value["name"]), str(value["kind"]), _natural(value["size"]), tuple(map(_member, members)))


def _natural(value: object) -> int:
    if type(value) is not int or not 0 <= value < 1 << 33:
        raise ValueError(f"{value!r} is not a size")
    return value


def _member(value: dict[str, Any]) -> Member:
    bits = (_natural(value["bit_offset"]), _natural(value["bit_size"])) if "bit_size" in value else None
    return Member(
        name=str(value["name"]),
        offset=_natural(value["offset"]),
        size=_natural(value["size"]),
        type=str(value["type"]),
        struct=str(value.get("struct", "")),
        count=_natural(value.get("count", 1)),
        stride=_natural(value.get("stride", value["size"])),
        bits=bits,
    )


def base_type(type_: str) -> str:
    """A type's name without `struct`, `union`, qualifiers and array bounds."""
    word = type_.partition("[")[0].strip()
    for prefix in ("const ", "struct ", "union ", "enum "):
        word = word.removeprefix(prefix)
    return word


def is_lock_type(type_: str) -> bool:
    """Whether a type's name is that of a lock."""
    return base_type(type_) in LOCK_TYPES


def is_atomic_type(type_: str) -> bool:
    """Whether a member of that type is meant to be used without a lock."""
    return base_type(type_) in ATOMIC_TYPES


def is_sequence_type(type_: str) -> bool:
    """Whether a member of that type is a sequence count."""
    return base_type(type_) in SEQUENCE_TYPES


def is_list_type(type_: str) -> bool:
    """Whether a member of that type is part of a list or tree that a lock protects."""
    return base_type(type_) in LIST_TYPES


def _covering(types: Types, struct: Struct, offset: int) -> Iterator[tuple[Member, int]]:
    """The members that hold a byte, named ones first, each with the index of the array's element, or -1."""
    found = []
    for number, member in enumerate(struct.members):
        last = number == len(struct.members) - 1
        if member.offset <= offset and (offset < member.offset + member.size or (last and not member.size)):
            index = -1
            if member.count != 1 and member.stride:
                index = (offset - member.offset) // member.stride
            found.append((member, index))
    # In a union, the alternative with a name of its own tells more than a structure without one.
    yield from sorted(found, key=lambda item: (not item[0].name, item[0].size if struct.kind == "union" else 0))


def place(types: Types, id_: str, offset: int) -> Place | None:
    """The innermost member at an offset of an object, or None: padding, or beyond its end.

    Members that are all that their structure holds (the node_list of a plist_head) are left out of the path.
    """
    return _place(types, id_, offset, "", 0, None, 0)


def _place(types: Types, id_: str, offset: int, path: str, base: int, unit: Place | None, depth: int) -> Place | None:
    struct = types.structs.get(id_)
    if struct is None or depth > DEEPEST:
        return None
    for member, index in _covering(types, struct, offset):
        begin = member.offset + max(index, 0) * member.stride
        size = member.stride if index >= 0 else member.size
        word = member.name + (f"[{index}]" if index >= 0 else "")
        # The only named member of a named type is how that type is made.
        wraps = bool(path) and len(struct.members) == 1 and index < 0
        inner = path if wraps or not member.name else f"{path}.{word}" if path else word
        here = Place(inner, base + begin, size, member.type, inner, base + begin, size, member.type)
        whole = unit
        if whole is None and member.name and base_type(member.type) in UNIT_TYPES:
            whole = here
        if member.struct and base_type(member.type) not in SPIN_TYPES:
            found = _place(types, member.struct, offset - begin, inner, base + begin, whole, depth + 1)
            if found is not None:
                return found
            if struct.kind == "union" or not member.name:
                continue
        if not inner:
            continue
        return _with_unit(here, whole)
    return None


def _with_unit(leaf: Place, unit: Place | None) -> Place:
    if unit is None:
        return leaf
    return Place(
        leaf.path, leaf.offset, leaf.size, leaf.type, unit.path, unit.unit_offset, unit.unit_size, unit.unit_type
    )


_WRAPPING = frozenset(("", "raw_lock", "rlock"))


def find_path(types: Types, id_: str, path: Sequence[str]) -> list[tuple[str, int]]:
    """Where a path of members, as the names of locks have it, begins: (structure, offset in it).

    The structure is the given one, or that of the elements of an array on the path, since which of them is not said.
    """
    return list(_find(types, id_, tuple(path), id_, 0, 0))


def _find(
    types: Types, id_: str, path: tuple[str, ...], object_: str, base: int, depth: int
) -> Iterator[tuple[str, int]]:
    struct = types.structs.get(id_)
    if struct is None or depth > DEEPEST or not path:
        return
    for member in struct.members:
        array = member.count != 1 and bool(member.struct)
        inner = (member.struct, 0) if array else (object_, base + member.offset)
        if member.name == path[0]:
            if len(path) == 1:
                yield object_, base + member.offset
            else:
                yield from _find(types, member.struct, path[1:], *inner, depth + 1)
        elif member.name in _WRAPPING and member.struct:
            yield from _find(types, member.struct, path, *inner, depth + 1)


def embedded(types: Types, id_: str, deepest: int = 8) -> dict[str, list[int]]:
    """Where structures lie within a structure: offsets by id, of arrays the first 64 elements'.  Itself at 0."""
    found: dict[str, list[int]] = {id_: [0]}
    pending = [(id_, 0, 0)]
    while pending and len(found) < 4096:
        current, base, depth = pending.pop()
        struct = types.structs.get(current)
        if struct is None or depth >= deepest:
            continue
        for member in struct.members:
            if not member.struct:
                continue
            for index in range(min(member.count, 64)):
                offset = base + member.offset + index * member.stride
                offsets = found.setdefault(member.struct, [])
                if len(offsets) < 256 and offset not in offsets:
                    offsets.append(offset)
                    pending.append((member.struct, offset, depth + 1))
    return found
