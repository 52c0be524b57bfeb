# SPDX-License-Identifier: GPL-2.0-or-later
"""Function against function: whose loads wait for a line, and whose writes took it away.

A sample says that a load found the line modified in another cache, not who had modified it.  So each load's transfers
are shared out over the functions that write to its line, by their sampled stores.  Of a line whose stores were not
sampled the writer is not known.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lockline.c2c.model import Access, C2cReport, FunctionPair, LineReport, LockOnLine, PairPlace
from lockline.recording.code import Code


def name_of(code: Code) -> str:
    """The function, or where it is; '' if neither is known."""
    if code.symbol:
        return code.function
    return f"{code.address:#x}" if code.space == "user" and code.address else ""


def _one_thread(waiter: Access, writer: Access) -> bool:
    """Whether both are the same thread's alone: what it writes itself, it does not wait for."""
    return waiter.regulars.bit_count() == 1 and waiter.regulars == writer.regulars


@dataclass(slots=True)
class _Sums:
    transfers: float = 0.0
    most: float = 0.0
    waiter_at: str = ""
    writer_at: str = ""

    def add(self, amount: float, waiter_at: str, writer_at: str) -> None:
        self.transfers += amount
        if amount > self.most:
            self.most, self.waiter_at, self.writer_at = amount, waiter_at, writer_at


def _of_line(report: LineReport) -> dict[tuple[str, str], _Sums]:
    """One line's transfers by waiter and writer."""
    members = {offset.offset: offset.member or f"+{offset.offset:#x}" for offset in report.offsets}
    writers = [(access, access.wrote) for access in report.line.accesses if access.wrote]
    found: defaultdict[tuple[str, str], _Sums] = defaultdict(_Sums)
    for access in report.line.accesses:
        if not access.transfers:
            continue
        waiter, at = name_of(access.code), members.get(access.offset, "")
        others = [(writer, stores) for writer, stores in writers if not _one_thread(access, writer)]
        whole = sum(stores for _, stores in others)
        if not whole:
            found[waiter, ""].add(access.transfers, at, "")
        for writer, stores in others:
            part = access.transfers * stores / whole
            found[waiter, name_of(writer.code)].add(part, at, members.get(writer.offset, ""))
    return found


def with_function_pairs(report: C2cReport) -> C2cReport:
    """The report with the pairs of functions on its lines, most transfers first.

    The transfers of all pairs add up to those of these lines.
    """
    places: defaultdict[tuple[str, str], list[tuple[PairPlace, LineReport]]] = defaultdict(list)
    for rank, line in enumerate(report.lines, 1):
        for pair, sums in _of_line(line).items():
            place = PairPlace(rank, sums.waiter_at, sums.writer_at, sums.transfers)
            places[pair].append((place, line))
    found = [_pair(*pair, where, report.transfers) for pair, where in places.items()]
    pairs = tuple(sorted(found, key=lambda pair: (-pair.transfers, pair.waiter, pair.writer)))
    return replace(report, pairs=pairs)


def _locks(found: Sequence[LockOnLine]) -> list[LockOnLine]:
    """Each lock once; one that is joined by its name or by the code has the waits of all of its name already."""
    all_of_name = {lock.name: lock for lock in found if lock.join != "address"}
    by_address = {lock.address: lock for lock in found if lock.join == "address" and lock.name not in all_of_name}
    return [*by_address.values(), *all_of_name.values()]


def _pair(waiter: str, writer: str, where: Sequence[tuple[PairPlace, LineReport]], transfers: int) -> FunctionPair:
    ordered = sorted(where, key=lambda one: (-one[0].transfers, one[0].rank))
    locks = _locks([lock for _, line in ordered for lock in line.locks if lock.name])
    waited = [lock for lock in locks if lock.waits is not None]
    whole = sum(place.transfers for place, _ in ordered)
    return FunctionPair(
        waiter=waiter,
        writer=writer,
        transfers=whole,
        share=min(1.0, whole / transfers) if transfers else 0.0,
        places=tuple(place for place, _ in ordered),
        locks=tuple(dict.fromkeys(lock.name for lock in locks)),
        waits=sum(lock.waits or 0 for lock in waited) if waited else None,
        wait_ns=sum(lock.wait_ns or 0 for lock in waited) if waited else None,
    )
