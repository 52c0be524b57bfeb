# SPDX-License-Identifier: GPL-2.0-or-later
"""Which of a line's transfers are paid for the writes to the very bytes, and which for writes beside them.

A load finds a line modified elsewhere because another core has written to the line.  If nobody else writes to the
bytes that are loaded, the write was to other bytes: false sharing.  What the samples do not tell stays open.
"""

from collections.abc import Sequence

from lockline.base.values import replace
from lockline.c2c.model import Part
from lockline.c2c.parts import COST_TRANSFERS, clean_told
from lockline.c2c.sharing_cpus import by_numbers
from lockline.c2c.sharing_model import (
    LONGER,
    MEMBER,
    THREADS,
    Sharing,
    is_written,
    places,
    seldom_written,
    written_parts,
)
from lockline.c2c.sharing_stores import unseen_writes
from lockline.c2c.sharing_threads import Rows, by_threads, shared_out
from lockline.c2c.users import apart, repeated, same_cpus, surely_apart, users_of


def share_out(parts: Sequence[Part], kind: str, stores_told: bool, clean: int = 0) -> Sharing:
    """What kind of sharing the line's cost is.

    parts, kind: as of divide(); stores_told: whether a member without a sampled store is one that is not written;
    clean: loads of the line that a clean copy elsewhere served.
    """
    written = written_parts(parts)
    if written or not stores_told or not (seldom := seldom_written(parts)):
        return _share_out(parts, written, kind, stores_told, clean)
    found = _share_out(parts, seldom, kind, stores_told, clean)
    why = f"few of its stores were sampled, and others may be at other bytes; {LONGER}"
    return found if found.kind == "open" else replace(found, strength="likely", open=found.open or why)


def _share_out(parts: Sequence[Part], written: list[Part], kind: str, stores_told: bool, clean: int) -> Sharing:
    """The same; written: the members that are."""
    fought = [part for part in parts if part.share >= MEMBER]
    used = sorted({id(part): part for part in (*fought, *written)}.values(), key=lambda part: -part.share)
    if not used:
        return Sharing("open", "likely", (), "", None, "no member has a part in it")
    if all(part.users.threads for part in used):
        known = {id(part) for part in used}
        used += [part for part in _fetched(parts, kind) if id(part) not in known and part.users.threads]
        return by_threads(used, written, stores_told, Rows(used, parts, kind, clean))
    if not written:
        return unseen_writes(used)
    found = by_numbers(used, written, stores_told)
    if found.strength == "proven" or len(used) < 2 or not all(part.users.cpus for part in used):
        return found
    if not repeated(part.users for part in used):
        return found
    return _by_cpus(found, used, shared_out(used, written, stores_told, Rows(used, parts, kind, clean, True)))


def _by_cpus(found: Sharing, used: list[Part], by_cpu: Sharing) -> Sharing:
    """What the CPUs of each access tell, beside what their numbers tell: found; by_cpu: as if they were threads.

    CPUs have the caches.  Threads that migrate make users of bytes that are others look like the same ones, and never
    the same ones like others: that others use them is shown, that the same ones do is likely.
    """
    if by_cpu.kind == "open":
        several_each = found.kind == "false" and found.strength == "shown" and not any(p.users.alone for p in used)
        why = f"several CPUs use each of them, and what they pay for each other stays; {by_cpu.open}"
        if several_each:
            return replace(found, strength="likely", open=why)
        # The CPUs say who uses what, so that is not what is missing.
        return by_cpu if found.kind == "open" else found
    if by_cpu.kind == "true":
        shown = all(_read_by_others(part) for part in used if part.share >= MEMBER)
        if not shown and (not same_cpus([part.users for part in used]) or _array(used)):
            return found
        why = "threads that migrate would look the same"
        if shown and (others := [part for part in used if part.share < MEMBER]):
            why = f"a part may be paid for the writes at {places(others)} beside it"
        return replace(by_cpu, strength="likely", open=f"{why}; {THREADS}")
    return replace(by_cpu, strength="shown" if by_cpu.strength == "proven" else by_cpu.strength)


def _array(used: Sequence[Part]) -> bool:
    """Whether it may be slots of threads that migrate, which look like an array that all use.

    The same functions write to all members, and on no member others read than those who write.
    """
    one_code = len({frozenset(row.function for row in part.accesses) for part in used}) == 1
    return one_code and all(map(is_written, used)) and not any(map(_read_by_others, used))


def _read_by_others(part: Part) -> bool:
    """Whether the CPUs that read a member are others than those that write to it, or surely some of them are."""
    readers, writers = [row for row in part.main if not row.wrote], [row for row in part.main if row.wrote]
    if not readers or not writers:
        return False
    changing = users_of(writers)
    return apart(users_of(readers), changing) or any(
        surely_apart(users_of([row]), changing) for row in readers if row.transfers
    )


def _fetched(parts: Sequence[Part], kind: str) -> list[Part]:
    """The members at which much of the line is fetched, where the file has clean copies by instruction.

    The first load after a write finds the line modified; who comes next finds a clean copy, and waits as well.
    """
    if kind != COST_TRANSFERS or not clean_told(parts):
        return []
    prices = [part.cost + part.counts.clean for part in parts]
    least = MEMBER * sum(prices)
    return [part for part, price in zip(parts, prices, strict=True) if price >= least > 0]
