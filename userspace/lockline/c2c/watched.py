# SPDX-License-Identifier: GPL-2.0-or-later
"""A watched line as a line of memory accesses: its transfers stand where a sampled line has HITM."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

from lockline.base.values import replace
from lockline.c2c.model import Access, Counts, Coverage, Line, Placement
from lockline.recording.code import Code
from lockline.watch.estimate import covering, never_watched, pair_time, unwatched_pairs
from lockline.watch.model import Watch, Window

# From such a share on, what was lost or replaced is a doubt that the report names.
MUCH = 0.05
# Times that differ by less are taken to be the same, so that the figures are those that were seen.
ALIKE = 1.1

EXACT = Coverage(None, None, True, True, (), exact=True)

_KNOWN_FROM = {
    "symbol": "by the symbol table",
    "user symbol": "by the program's symbol table",
    "owner object": "by the object that the lock was found in",
    "slab": "by the slab that the object is of",
    "futex hash": "by the kernel's hash of the futex",
    "call site": "by the code that waits for its lock",
}


def with_transfers(accesses: Sequence[Access], watch: Watch) -> list[Access]:
    """The accesses, each with the transfers that it ended; those without a row of their own are added."""
    sums: defaultdict[tuple[int, Code], int] = defaultdict(int)
    cpus: defaultdict[tuple[int, Code], int] = defaultdict(int)
    for transfer in watch.transfers:
        sums[transfer.offset, transfer.code] += transfer.count
        cpus[transfer.offset, transfer.code] |= 1 << transfer.cpu
    found = []
    for access in accesses:
        count = sums.pop((access.offset, access.code), 0)
        found.append(replace(access, counts=access.counts._replace(watched=count)))
    for (offset, code), count in sums.items():
        bits = cpus[offset, code]
        found.append(Access(offset, code, 0, Counts(watched=count), bits, bits.bit_count(), ""))
    return found


def even(line: Line) -> Line:
    """The line as if each byte, and each pair of bytes, had been watched for the same time.

    The sums of accesses and of transfers stay as they were seen: they say how much there is to judge by.
    """
    watch = line.watch
    if watch is None or len({window.offsets for window in watch.windows}) <= 1:
        return line
    seen = {access.offset: _time(covering(watch, access.offset)) for access in line.located}
    times = {
        (transfer.from_offset, transfer.offset): pair_time(watch, transfer) or seen.get(transfer.offset, 0)
        for transfer in watch.transfers
    }
    accesses = list(line.accesses)
    if _differ(seen.values()):
        rates = sum((access.counts.records or 0) / (seen[access.offset] or 1) for access in line.located)
        scale = sum(access.counts.records or 0 for access in line.located) / rates if rates else 1.0
        accesses = [_scaled(access, scale / (seen.get(access.offset, 0) or scale)) for access in accesses]
    if _differ(times.values()):
        moves: defaultdict[tuple[int, Code], float] = defaultdict(float)
        for transfer in watch.transfers:
            time = times[transfer.from_offset, transfer.offset] or 1
            moves[transfer.offset, transfer.code] += transfer.count / time
        scale = line.counts.transfers / (sum(moves.values()) or 1.0)
        accesses = [
            replace(access, counts=access.counts._replace(watched=round(moves[access.offset, access.code] * scale)))
            for access in accesses
        ]
    return replace(line, accesses=tuple(accesses), weighted=tuple(accesses) != line.accesses)


def _time(windows: Iterable[Window]) -> int:
    return sum(window.length_ns for window in windows)


def _differ(times: Collection[int]) -> bool:
    return bool(times) and max(times) > ALIKE * min(times)


def _scaled(access: Access, factor: float) -> Access:
    counts = Counts(*(None if value is None else round(value * factor) for value in access.counts))
    return replace(access, counts=counts._replace(watched=access.counts.watched))


def place_by_target(line: Line) -> Placement | None:
    """From the object that the target was found in when it was watched."""
    watch = line.watch
    if watch is None or not watch.type:
        return None
    how = _KNOWN_FROM.get(watch.type_from, f"by {watch.type_from}" if watch.type_from else "by the collector")
    evidence = f"the line is {watch.type}{watch.type_offset:+#x}, {how}"
    return Placement(watch.type, watch.type_offset, "target", True, (evidence,), ())


def _stretch(begin: int, end: int) -> str:
    return f"{begin:#x}..{end - 1:#x}"


def doubts(line: Line) -> list[str]:
    """What watching a line lacks, in words."""
    watch = line.watch
    if watch is None:
        return []
    told = []
    missed = never_watched(watch)
    if missed and watch.windows:
        told.append(f"bytes {', '.join(_stretch(*stretch) for stretch in missed)} of the line were not watched")
    apart = unwatched_pairs(watch, (access.offset for access in line.located))
    if apart:
        shown = ", ".join(f"{one:#x} and {other:#x}" for one, other in apart[:3])
        told.append(f"{shown} were not watched at the same time: transfers between them are not seen")
    if watch.lost > MUCH * watch.hits:
        told.append(f"{watch.lost:,} of {watch.hits:,} hits have no record")
    unknown = sum(
        access.counts.records or 0 for access in line.accesses if not access.counts.loads and not access.counts.stores
    )
    if unknown > MUCH * (line.counts.records or 0):
        told.append(f"of {unknown:,} accesses it is not known whether they read or wrote")
    changed = sum(1 for window in watch.windows if window.changed == 1)
    if changed:
        told.append(f"in {changed:,} of {len(watch.windows):,} windows the object was freed or replaced")
    return told
