# SPDX-License-Identifier: GPL-2.0-or-later
"""Cache lines and locks: which lock of a recording lies on a line, by address, by name, or by the code.

An address means something within one boot alone; across boots the name is the identity (docs/lock-identity.md).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from lockline.base.values import dataclass, replace
from lockline.c2c.functions import is_lock_function
from lockline.c2c.model import Line, LockOnLine
from lockline.recording.code import unsigned
from lockline.recording.memory import Symbol, code_symbols, frame_symbols
from lockline.recording.reader import MetaValue, Recording
from lockline.recording.stacks import without_internals, without_probe

if TYPE_CHECKING:
    from lockline.recording.rows import Lock

# Facts of meta that tell one boot of one kernel from another; where both have one it must be the same.
BOOT_FACTS = ("boot_id", "kernel_text_address")
HOST_FACTS = ("hostname", "kernel_release", "architecture")
# How far behind its address a lock reaches, by perf's words for kinds: struct sizes of x86-64 without debugging.
_SIZES = {"spinlock": 4, "rwlock": 8, "mutex": 32, "mutex-spin": 32, "rwsem": 40, "rtmutex": 32, "pcpu-sem": 96}
# Who waits so holds a CPU, and the holder another one.
_SPINNING = ("spinlock", "rwlock", "mutex-spin", "rqspinlock")
# Of a lock's sampled waits, so many must come from functions that access the line.
CODE_SHARE = 0.5
MAX_STACKS = 2000


Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class Locks:
    """The locks of a recording, with what was waited for them.  by_address: its addresses are those of the lines."""

    by_address: bool
    why: str  # in words: why addresses are compared, or not
    locks: tuple[LockOnLine, ...]  # all of them, offset not set
    blocks: Mapping[int, tuple[LockOnLine, ...]]  # the same by address, in blocks of 64 bytes
    names: Mapping[str, tuple[LockOnLine, ...]]  # the same by name
    callers: Mapping[str, Mapping[str, int]]  # by name of lock, then function: share of waits in thousandths


NO_LOCKS = Locks(False, "", (), {}, {}, {})


def _text(facts: Mapping[str, MetaValue], name: str) -> str | None:
    value = facts.get(name)
    return str(value).lower() if value not in (None, "") else None


def _function_starts(symbols: Iterable[Symbol]) -> dict[str, int]:
    """Where kernel functions begin, by name; those of a name that begin in several places are left out."""
    starts: dict[str, int] = {}
    for row in symbols:
        start = unsigned(row.address - row.offset)
        starts[row.symbol] = start if starts.get(row.symbol, start) == start else -1
    return {symbol: start for symbol, start in starts.items() if start > 0}


def same_kernel_base(lines: Recording, locks: Recording) -> bool | None:
    """Whether kernel functions lie at the same addresses in both (KASLR moves them at each boot); None: not known."""
    ours = _function_starts(code_symbols(lines))
    theirs = _function_starts(frame_symbols(locks))
    common = [ours[symbol] == theirs[symbol] for symbol in ours.keys() & theirs.keys()]
    return sum(common) * 2 > len(common) if common else None


def same_boot(
    lines: Mapping[str, MetaValue], locks: Mapping[str, MetaValue], same_base: bool | None
) -> tuple[bool, str]:
    """Whether addresses of both recordings are of one boot, and why.

    By the facts in their `meta` and same_kernel_base(): what both tell must agree, times of CLOCK_MONOTONIC must
    overlap, and the boot's id or the kernel's base must be known of both.
    """
    agreed = []
    for name in (*BOOT_FACTS, *HOST_FACTS):
        ours, theirs = _text(lines, name), _text(locks, name)
        if ours is None or theirs is None:
            continue
        if ours != theirs:
            return False, f"{name} differs"
        agreed.append(name)
    if same_base is False:
        return False, "the kernel's functions lie at other addresses"
    if same_base:
        agreed.append("the kernel's base address")
    elif not any(name in agreed for name in BOOT_FACTS):
        return False, "neither the boot's id nor the kernel's base address is known of both"
    if _text(lines, "clock_id") in (None, "1", "monotonic", "CLOCK_MONOTONIC"):
        spans = [(facts.get("begin_ns"), facts.get("end_ns")) for facts in (lines, locks)]
        if all(isinstance(value, int) for span in spans for value in span):
            (begin, end), (other_begin, other_end) = spans
            if max(int(begin or 0), int(other_begin or 0)) > min(int(end or 0), int(other_end or 0)):
                return False, "recorded at different times"
    return True, ", ".join(agreed) + " agree"


def read_locks(recording: Recording, lines: Recording) -> Locks:
    """The locks of a recording of lock waits, to be joined with the lines of another recording, or of the same."""
    if recording is lines:
        by_address, why = True, "one recording"
    else:
        by_address, why = same_boot(lines.meta(), recording.meta(), same_kernel_base(lines, recording))
    kinds = recording.kinds()
    sums: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0])
    lock_kinds: defaultdict[int, set[str]] = defaultdict(set)
    spins: defaultdict[int, int] = defaultdict(int)
    seconds = _seconds(recording.meta()) if recording is lines else 0.0
    for row in recording.lock_totals():
        sums[row.lock][0] += max(0, row.waits)
        sums[row.lock][1] += max(0, row.wait_ns)
        kind = kinds.get(row.kind, "unknown")
        lock_kinds[row.lock].add(kind)
        if kind.partition(":")[0] in _SPINNING:
            spins[row.lock] += max(0, row.waits)
    named = {id_: lock for id_, lock in recording.locks().items() if lock.address and lock.name not in ("", "?")}
    places, shares = _callers(recording, named)
    locks = tuple(
        LockOnLine(
            name=lock.name,
            instance=lock.instance,
            kinds=tuple(sorted(lock_kinds[id_])),
            offset=None,
            waits=sums[id_][0] if id_ in lock_kinds else None,
            wait_ns=sums[id_][1] if id_ in lock_kinds else None,
            address=unsigned(lock.address),
            join="address",
            callers=places.get(lock.name, {}),
            spins_per_second=spins[id_] / seconds if seconds else 0.0,
        )
        for id_, lock in named.items()
    )
    blocks: defaultdict[int, list[LockOnLine]] = defaultdict(list)
    names: defaultdict[str, list[LockOnLine]] = defaultdict(list)
    for lock in locks:
        blocks[(lock.address or 0) >> 6].append(lock)
        names[lock.name].append(lock)
    return Locks(by_address, why, locks, _frozen(blocks), _frozen(names), shares)


def _seconds(facts: Mapping[str, MetaValue]) -> float:
    begin, end = facts.get("begin_ns"), facts.get("end_ns")
    return max(0, end - begin) / 1e9 if isinstance(begin, int) and isinstance(end, int) else 0.0


def _frozen(groups: Mapping[Key, list[LockOnLine]]) -> dict[Key, tuple[LockOnLine, ...]]:
    return {key: tuple(group) for key, group in groups.items()}


def _callers(
    recording: Recording, named: "Mapping[int, Lock]"
) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, int]]]:
    """By name of lock: where functions have it (lowest return address), and their share of its sampled waits."""
    weights = sorted(recording.stack_weights(list(named)), key=lambda row: -row.wait_ns)[:MAX_STACKS]
    stacks = recording.stacks([row.stack for row in weights if row.stack])
    places: defaultdict[str, dict[str, int]] = defaultdict(dict)
    waited: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in weights:
        frames = without_internals(without_probe(stacks.get(row.stack, ())))
        name = named[row.lock].name
        waited[name][""] += row.waits
        if not frames or not frames[0].symbol:
            continue
        function = frames[0].symbol.partition(".")[0]
        known = places[name].get(function)
        places[name][function] = frames[0].offset if known is None else min(known, frames[0].offset)
        waited[name][function] += row.waits
    shares = {
        name: {function: waits * 1000 // max(1, functions[""]) for function, waits in functions.items() if function}
        for name, functions in waited.items()
    }
    return dict(places), shares


def _placed(lock: LockOnLine, offset: int | None, join: str) -> LockOnLine:
    return replace(lock, offset=offset, join=join)


def _reach(lock: LockOnLine) -> int:
    return max((_SIZES.get(kind.partition(":")[0].removesuffix("-rt"), 8) for kind in lock.kinds), default=8)


def locks_by_address(line: Line, locks: Locks) -> list[LockOnLine]:
    """The locks that lie on a line of the kernel, or reach into it, most waits first."""
    if not locks.by_address or line.space != "kernel":
        return []
    found = []
    for block in range((line.address >> 6) - 2, (line.address + line.size - 1 >> 6) + 1):
        for lock in locks.blocks.get(block, ()):
            offset = (lock.address or 0) - line.address
            if offset < line.size and offset + _reach(lock) > 0:
                found.append(_placed(lock, offset, "address"))
    return sorted(found, key=lambda lock: (-(lock.wait_ns or 0), lock.name))


def spins_per_second(locks: Iterable[LockOnLine]) -> float:
    """Waits that moved the line: a CPU spun for one of its locks while another one had that."""
    return sum(lock.spins_per_second for lock in locks if lock.join == "address" and (lock.offset or 0) >= 0)


def locks_by_name(names: Iterable[str], locks: Locks, offset: int | None = None) -> list[LockOnLine]:
    """All waits for locks of these names, one entry for each name."""
    return [_together(locks.names[name], offset, "name") for name in names if name in locks.names]


def _together(same: Sequence[LockOnLine], offset: int | None, join: str) -> LockOnLine:
    return LockOnLine(
        name=same[0].name,
        instance=same[0].instance if len(same) == 1 else "",
        kinds=tuple(sorted({kind for lock in same for kind in lock.kinds})),
        offset=offset,
        waits=sum(lock.waits or 0 for lock in same),
        wait_ns=sum(lock.wait_ns or 0 for lock in same),
        address=None,
        join=join,
        callers=same[0].callers,
    )


def locks_by_code(functions: Iterable[str], locks: Locks, offset: int | None = None) -> list[LockOnLine]:
    """The name of lock that is mostly waited for from functions that access the line; none if two fit alike."""
    ours = {function for function in functions if function and not is_lock_function(function)}
    shares = {
        name: sum(share for function, share in callers.items() if function in ours)
        for name, callers in locks.callers.items()
    }
    fitting = sorted((name for name, share in shares.items() if share >= CODE_SHARE * 1000), key=lambda n: -shares[n])
    if len(fitting) != 1:
        return []
    return [_together(locks.names[fitting[0]], offset, "code")] if fitting[0] in locks.names else []
