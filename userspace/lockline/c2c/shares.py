# SPDX-License-Identifier: GPL-2.0-or-later
"""A line of which only shares are known: percentages by offset, without the totals that they are shares of.

So are pages of the terminal browser and short excerpts.  Which member pays and which is written can be judged by
shares; how much it is cannot.
"""

from collections.abc import Mapping

from lockline.base.values import replace
from lockline.c2c.model import Access, Counts, Line
from lockline.recording.code import UNKNOWN_CODE

# In PARTS: what rounding leaves open.
ROUNDING = 50
# For so many the shares stand where nothing bounds them.
NOMINAL = 1000
# In the fact of a recording's meta: shares are whole numbers of so many parts.
PARTS = 10_000

# Of transfers and of stores, in PARTS, by the offset and the instruction's id.
Shares = Mapping[tuple[int, int], tuple[int, int]]


def written_shares(line: int, shares: Shares) -> str:
    """The shares of one line in words of "LINE:OFFSET:CODE:TRANSFERS:STORES"."""
    return " ".join(f"{line}:{offset}:{code}:{paid}:{wrote}" for (offset, code), (paid, wrote) in shares.items())


def read_shares(text: str) -> dict[int, dict[tuple[int, int], tuple[int, int]]]:
    """The shares of all lines, by the line's id; damaged words are left out."""
    found: dict[int, dict[tuple[int, int], tuple[int, int]]] = {}
    for word in text.split():
        numbers = word.split(":")
        if len(numbers) == 5 and all(number.isdecimal() and len(number) < 10 for number in numbers):
            line, offset, code, paid, wrote = map(int, numbers)
            found.setdefault(line, {})[offset, code] = (min(paid, PARTS), min(wrote, PARTS))
    return found


def by_shares(line: Line) -> Line:
    """The line with counts that have these shares, to be judged by; never to be shown.

    No access pays more often than it loads, as far as loads are known.
    """
    bounds = [
        access.counts.loads * PARTS // paid
        for access in line.accesses
        if access.counts.loads and (paid := line.shares.get((access.offset, access.code_id), (0, 0))[0])
    ]
    whole = min(bounds, default=NOMINAL)
    accesses = tuple(_with_counts(access, line.shares, whole) for access in line.accesses)
    # What the shares leave open is paid and written somewhere else in the line.
    paid, wrote = (max(0, PARTS - sum(column)) for column in zip(*line.shares.values(), strict=True))
    if max(paid, wrote) > ROUNDING:
        rest = Counts(local_hitm=paid * whole // PARTS, loads=paid * whole // PARTS, stores=wrote * NOMINAL // PARTS)
        accesses += (Access(-1, UNKNOWN_CODE, 0, rest, None, 0, ""),)
    transfers = sum(access.counts.local_hitm or 0 for access in accesses)
    stores = sum(access.counts.stores or 0 for access in accesses)
    loads = sum(access.counts.loads or 0 for access in accesses)
    counts = line.counts._replace(local_hitm=transfers, stores=stores, loads=loads, records=loads + stores)
    return replace(line, accesses=accesses, counts=counts)


def _with_counts(access: Access, shares: Shares, whole: int) -> Access:
    paid, wrote = shares.get((access.offset, access.code_id), (0, 0))
    counts = access.counts
    transfers = paid * whole // PARTS
    stores = counts.stores if counts.stores is not None else wrote * NOMINAL // PARTS
    loads = counts.loads if counts.loads is not None else transfers
    records = max(counts.records or 0, loads + stores)
    return replace(access, counts=counts._replace(local_hitm=transfers, stores=stores, loads=loads, records=records))
