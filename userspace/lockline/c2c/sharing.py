# SPDX-License-Identifier: GPL-2.0-or-later
"""Which of a line's transfers are paid for the writes to the very bytes, and which for writes beside them.

A load finds a line modified elsewhere because another core has written to the line.  If nobody else writes to the
bytes that are loaded, the write was to other bytes: false sharing.  What the samples do not tell stays open.
"""

from collections.abc import Sequence

from lockline.c2c.model import Part
from lockline.c2c.parts import COST_TRANSFERS, clean_copies
from lockline.c2c.sharing_cpus import by_cpus, by_numbers
from lockline.c2c.sharing_model import MEMBER, Sharing, written_parts
from lockline.c2c.sharing_stores import unseen_writes
from lockline.c2c.sharing_threads import Rows, by_threads
from lockline.c2c.users import users_of


def share_out(parts: Sequence[Part], kind: str, stores_told: bool, clean: int = 0) -> Sharing:
    """What kind of sharing the line's cost is.

    parts, kind: as of divide(); stores_told: whether a member without a sampled store is one that is not written;
    clean: loads of the line that a clean copy elsewhere served.
    """
    fought = [part for part in parts if part.share >= MEMBER]
    written = written_parts(parts)
    used = sorted({id(part): part for part in (*fought, *written)}.values(), key=lambda part: -part.share)
    if not used:
        return Sharing("open", "likely", (), "", None, "no member has a part in it")
    users = {id(part): users_of(part.accesses) for part in used}
    if all(users[id(part)].threads for part in used):
        for part in _fetched(parts, kind):
            if id(part) not in users and (more := users_of(part.accesses)).threads:
                users[id(part)] = more
                used.append(part)
        return by_threads(used, written, users, stores_told, Rows(used, parts, kind, clean))
    if not written:
        return unseen_writes(used, users)
    found = by_numbers(used, written, users, stores_told)
    if found.kind == "open":
        return by_cpus(used, written, kind) or found
    return found


def _fetched(parts: Sequence[Part], kind: str) -> list[Part]:
    """The members at which much of the line is fetched, where the file has clean copies by instruction.

    The first load after a write finds the line modified; who comes next finds a clean copy, and waits as well.
    """
    if kind != COST_TRANSFERS or any(row.counts.llc_hit is None for part in parts for row in part.accesses):
        return []
    prices = [part.cost + clean_copies(part.counts) for part in parts]
    return [part for part, price in zip(parts, prices, strict=True) if price >= MEMBER * sum(prices) > 0]
