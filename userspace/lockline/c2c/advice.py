# SPDX-License-Identifier: GPL-2.0-or-later
"""What to change in a structure's layout, what it costs, and what it can at most bring.

Neither waiting time nor HITM are a gain: advice gives the share of the line's transfers that can go away.
"""

from collections.abc import Sequence

from lockline.c2c.members import Member, Struct, Types
from lockline.c2c.model import Access, Advice, Judgement, Line, LockOnLine, Part, Placement
from lockline.c2c.parts import COST_LOADS, WATCHED
from lockline.c2c.sharing_model import is_written, places
from lockline.c2c.verdict_case import actors

LINE = 64
MAX_LAYOUT = 60


def _top_member(struct: Struct, offset: int) -> Member | None:
    """The direct member (of anonymous ones, the whole) that holds a byte of the object."""
    for member in struct.members:
        if member.offset <= offset < member.offset + member.size:
            return member
    return None


def _movers(parts: Sequence[Part]) -> tuple[list[Part], tuple[str, str]]:
    """The members to move away, and why these: said of one, and of several."""
    locks = [part for part in parts if part.is_lock]
    others = [part for part in parts if not part.is_lock]
    if len(locks) == len(parts) > 1:
        # Of several locks with users of their own one may stay.
        costly = max(locks, key=lambda part: (part.share, -part.begin))
        return [part for part in locks if part is not costly], (
            "it is another lock, and what it protects can go with it",
            "they are other locks, and what they protect can go with them",
        )
    if locks:
        # What is used before the lock is taken stays with it: whoever wants the lock needs both.
        held = [part for part in others if "holder" in part.roles]
        if held:
            why = "the holder works on {} while others want the lock"
            return held, (why.format("it"), why.format("them"))
        return others, ("it is used without the lock", "they are used without the lock")
    readers = [part for part in others if not is_written(part)]
    if readers and len(readers) < len(others):
        return readers, ("it is read while other members are written", "they are read while other members are written")
    # All are written: what is left is the one that most is paid for.
    worst = max(others, key=lambda part: (part.share, -part.begin), default=None)
    why = "written by others than {} neighbours"
    return [part for part in others if part is not worst], (
        f"it is {why.format('its')}",
        f"they are {why.format('their')}",
    )


def _apart(moved: Sequence[Part], members: Sequence[Part]) -> bool:
    """Whether each of them needs a line of its own: they are written, and not by one holder of a lock.

    members: all that the verdict is about; if no store to any of them was sampled, each may be written.
    """
    written = all(map(is_written, moved)) or not any(map(is_written, members))
    return len(moved) > 1 and written and not any("holder" in part.roles for part in moved)


def _move(names: Sequence[str], why: tuple[str, str], apart: bool) -> str:
    listed = " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
    if len(names) == 1:
        return f"Move {listed} to its own cache line: {why[0]}."
    where = ", each to a cache line of its own" if apart else " to a cache line of their own"
    return f"Move {listed}{where}: {why[1]}."


def largest_effect(parts: Sequence[Part]) -> float:
    """The largest share of the line's cost that separating its members can end.

    Waiters take the lock's word from each other and from the holder afterwards too: its share stays.
    """
    return max(0.0, min(1.0, 1.0 - sum(part.share for part in parts if part.is_lock)))


def own_effect(moved: Sequence[Part]) -> float:
    """The share of the line's cost that is paid at the members to move."""
    return max(0.0, min(1.0, sum(part.share for part in moved)))


def _effect_words(parts: Sequence[Part], moved: Sequence[Part], kind: str, most: float) -> str:
    own = own_effect(moved)
    stay = [
        part.name
        for part in parts
        if part not in moved and not part.is_lock and part.share and actors(_writes(part)) > 1
    ]
    # Loads go on wherever a member lies: where they stand for the cost, it is the cost that goes away.
    what = "cost (known by its loads)" if kind == COST_LOADS else kind
    text = f"At most {most:.0%} of the line's {what} can go away; {own:.0%} of it is at the members that move"
    if stay:
        text += f". {', '.join(stay)} may keep a part: several CPUs write there themselves"
    return text + "."


def _writes(part: Part) -> list[Access]:
    return [access for access in part.accesses if (access.counts.stores or 0) + (access.counts.locked or 0)]


def line_begins(struct: Struct, moved: Sequence[Member], apart: bool = False) -> dict[Member, int]:
    """Padding in bytes before each member that must begin a line of its own, for the moved ones to be apart.

    A run of moved members begins a line; one that does so already ends one too: what follows must begin another.
    apart: each of the moved ones begins a line.
    """
    padding: dict[Member, int] = {}
    shift = 0
    before = at_begin = False
    for member in struct.members:
        mine = member in moved
        begin = member.offset + shift
        if mine and not before:
            at_begin = begin % LINE == 0
        if (mine and (apart or not before)) or (before and not mine and at_begin):
            padding[member] = -begin % LINE
            shift += padding[member]
        before = mine
    return padding


def _natural_end(struct: Struct) -> int:
    return max((member.offset + member.size for member in struct.members), default=struct.size)


def layout(
    types: Types,
    id_: str,
    base: int,
    parts: Sequence[Part],
    moved: Sequence[Member],
    kind: str,
    apart: bool = False,
) -> list[str]:
    """The structure as pahole prints it, with what each member pays; what is far from the line is left out."""
    struct = types.structs[id_]
    lines = [f"{struct.kind} {struct.name} {{"]
    end = 0
    skipped = 0
    begins = {member for member, padding in line_begins(struct, moved, apart).items() if padding}
    for member in struct.members:
        if member.offset > end and not skipped:
            lines.append(f"\t/* hole of {member.offset - end} bytes */")
        end = max(end, member.offset + member.size)
        near = member.offset < base + LINE and member.offset + max(member.size, 1) > base
        if not near:
            skipped += 1
            continue
        if skipped:
            lines.append(f"\t/* {skipped} members */")
            skipped = 0
        mine = [
            part
            for part in parts
            if member.offset <= part.begin + base < member.offset + max(member.size, 1) and part.cost + 1
        ]
        lines.append(_layout_line(member, mine, member in begins, kind))
        if len(lines) >= MAX_LAYOUT:
            break
    if skipped:
        lines.append(f"\t/* {skipped} members */")
    lines.append(f"}}; /* size {struct.size}, line at {base:#x}..{base + LINE:#x} */")
    return lines


def _layout_line(member: Member, parts: Sequence[Part], begins: bool, kind: str) -> str:
    bounds = member.type[member.type.index("[") :] if "[" in member.type else ""
    bits = f":{member.bits[1]}" if member.bits else ""
    star = member.type.partition("[")[0]
    space = "" if star.endswith("*") else " "
    declaration = f"{star}{space}{member.name}{bounds}{bits};"
    if begins:
        declaration = declaration[:-1] + " ____cacheline_aligned_in_smp;"
    note = f"/* {member.offset:5d} {member.size:5d}"
    if parts:
        paid = sum(part.cost for part in parts)
        share = sum(part.share for part in parts)
        stores = sum(part.counts.stores or 0 for part in parts)
        # As the map of a watched line has it.
        word = "moves" if kind == WATCHED else kind
        note += f"   {paid:,} {word} ({share:.0%}), {stores:,} stores"
    return f"\t{declaration:<58} {note} */"


def objects_of(placement: Placement, line: Line, locks: Sequence[LockOnLine], cpus: int | None) -> int | None:
    """How many objects of the type this machine has, where that is known."""
    if placement.source == "symbol":
        return 1
    if any(lock.instance.startswith("CPU ") for lock in locks):
        return cpus
    if placement.type == "futex_hash_bucket" and cpus:
        # futex_init() of kernel/futex/core.c (2.6.x to 7.x): 256 for each possible CPU, as a power of two.
        return 1 << (256 * cpus - 1).bit_length()
    return None


def advise(
    line: Line,
    placement: Placement,
    id_: str,
    types: Types,
    parts: Sequence[Part],
    judgement: Judgement,
    locks: Sequence[LockOnLine],
    cpus: int | None,
    kind: str,
) -> Advice | None:
    """What to do about a line; None if nothing can be said."""
    struct = types.structs.get(id_)
    known = struct is not None and placement.base is not None
    shown = (
        tuple(layout(types, id_, placement.base or 0, parts, (), kind)) if known and placement.base is not None else ()
    )
    if judgement.verdict == "lock word":
        text = (
            "Hold the lock for a shorter time, take it less often, or give parts of what it protects locks of their "
            "own: padding changes nothing for the lock's own word."
        )
        beside = [part for part in judgement.members if not part.is_lock]
        share = sum(part.share for part in beside)
        if beside:
            text += (
                f" {places(beside)} beside it pay{'s' * (len(beside) == 1)} {share:.0%} of the line's {kind}, "
                "because waiters take the line away. On another line than the lock that part can go away"
            )
            held = [part for part in beside if is_written(part)]
            text += f", but for what one holder writes at {places(held)} and the next one reads." if held else "."
        names = tuple(part.name for part in beside)
        # Without anything beside it the text says already that padding does not help.
        warning = _LOCK_WARNING if beside else ""
        return Advice(text, names, None, None, None, None, share, share, warning, shown)
    if judgement.verdict == "true sharing":
        text = (
            "All of them need the same bytes: keep a copy per CPU, batch the updates, or write less often (test before "
            "writing). Padding ends nothing of what is paid for these bytes."
        )
        return Advice(text, (), None, None, None, None, None, None, "", shown)
    if judgement.verdict == "adjacent line":
        text = (
            "Align the object to 128 bytes, so that the two lines of a pair are used by the same CPUs; look at what "
            "writes to the other half."
        )
        return Advice(text, (), None, None, None, None, None, 1.0, "", shown)
    if judgement.verdict != "false sharing":
        return None
    moved, why = _movers(judgement.members)
    if not moved:
        return None
    apart = _apart(moved, judgement.members)
    locked = [part.is_lock for part in judgement.members]
    # Nobody waits for locks that have one user each.
    effect = 1.0 if all(locked) else largest_effect(parts)
    warning = _LOCK_WARNING if any(locked) and not all(locked) else ""
    if struct is None or placement.base is None:
        text = _move(list(dict.fromkeys(part.name for part in moved)), why, apart)
        text += " " + _effect_words(parts, moved, kind, effect)
        return Advice(
            text, tuple(part.name for part in moved), None, None, None, None, own_effect(moved), effect, warning, ()
        )
    return _separate(line, placement, struct, types, id_, parts, moved, why, apart, effect, warning, locks, cpus, kind)


_LOCK_WARNING = (
    "The lock's own word stays contended: waiters keep taking it from each other, and padding does not change that."
)


def _separate(
    line: Line,
    placement: Placement,
    struct: Struct,
    types: Types,
    id_: str,
    parts: Sequence[Part],
    moved: Sequence[Part],
    why: tuple[str, str],
    apart: bool,
    effect: float,
    warning: str,
    locks: Sequence[LockOnLine],
    cpus: int | None,
    kind: str,
) -> Advice:
    base = placement.base or 0
    found = [_top_member(struct, part.begin + base) for part in moved]
    members = list(dict.fromkeys(member for member in found if member is not None))
    padding = sum(line_begins(struct, members, apart).values())
    size = -(-(_natural_end(struct) + padding) // LINE) * LINE
    names = [member.name or part.name for member, part in zip(found, moved, strict=True) if member is not None]
    names = list(dict.fromkeys(names))
    count = objects_of(placement, line, locks, cpus)
    growth = max(0, size - struct.size)
    text = (
        f"{_move(names, why, apart and len(names) == len(moved))} "
        f"Padding: {padding} bytes per {struct.name}, which grows from {struct.size} to {size} bytes"
    )
    text += f"; {_bytes(growth * count)} for all {count:,} of them." if count and count > 1 else "."
    text += " " + _effect_words(parts, moved, kind, effect)
    return Advice(
        text,
        tuple(names),
        padding,
        struct.size,
        size,
        count,
        own_effect(moved),
        effect,
        warning,
        tuple(layout(types, id_, base, parts, members, kind, apart)),
    )


def _bytes(number: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number} bytes"
