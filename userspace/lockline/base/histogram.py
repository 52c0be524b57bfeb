# SPDX-License-Identifier: GPL-2.0-or-later
"""Log-linear histograms of waits, in the buckets of histogram_bucket() in bpf/lockline.h.

Bucket 0 holds waits below 64 ns; then four buckets per octave up to 2**36 ns; the last takes all above.
In memory a histogram is a list of BUCKETS counts; in a recording a blob of 6-byte entries (bucket, count).
"""

import struct
from collections.abc import Iterable, Sequence

FIRST_SHIFT = 6
LAST_SHIFT = 36
BUCKETS = 128
OVERFLOW = 1 + (LAST_SHIFT - FIRST_SHIFT) * 4

_ENTRY = struct.Struct("<HI")


def bucket(ns: int) -> int:
    """The bucket of a wait of ns nanoseconds (>= 0)."""
    if ns < 1 << FIRST_SHIFT:
        return 0
    if ns >> LAST_SHIFT:
        return OVERFLOW
    top = ns.bit_length() - 1
    return 1 + (top - FIRST_SHIFT) * 4 + (ns >> (top - 2) & 3)


def lower_bound(index: int) -> int:
    """The shortest wait, in ns, that bucket index holds."""
    if index <= 0:
        return 0
    octave, quarter = divmod(index - 1, 4)
    return (4 + quarter) << (octave + FIRST_SHIFT - 2)


LOWER = tuple(lower_bound(index) for index in range(OVERFLOW + 1))


def upper_bound(index: int) -> int | None:
    """The bound, in ns, that all waits of bucket index stay below; None for the last bucket."""
    return None if index >= OVERFLOW else LOWER[index + 1]


def empty() -> list[int]:
    """A histogram without waits."""
    return [0] * BUCKETS


def add_blob(into: list[int], blob: bytes | bytearray) -> None:
    """Add the entries of a blob to a histogram.

    Raises ValueError if the blob is no whole number of entries or names a bucket that does not exist.
    """
    if len(blob) % _ENTRY.size:
        raise ValueError(f"histogram of {len(blob)} bytes, not a multiple of {_ENTRY.size}")
    for index, count in _ENTRY.iter_unpack(blob):
        if index > OVERFLOW:
            raise ValueError(f"histogram with a bucket {index}, the last is {OVERFLOW}")
        into[index] += count


def total(parts: Sequence[Sequence[int]]) -> list[int]:
    """The sum of histograms; without any, an empty one."""
    return list(map(sum, zip(*parts, strict=True))) if parts else empty()


def encode(counts: Sequence[int]) -> bytes:
    """The blob of a histogram; counts above 32 bits take several entries, which readers add up."""
    entries = bytearray()
    for index, count in enumerate(counts):
        while count:
            part = min(count, 0xFFFFFFFF)
            entries += _ENTRY.pack(index, part)
            count -= part
    return bytes(entries)


def of(waits: Iterable[int]) -> list[int]:
    """The histogram of waits given in ns."""
    counts = empty()
    for ns in waits:
        counts[bucket(ns)] += 1
    return counts


def middle(index: int, max_ns: int) -> int:
    """What stands for a wait of bucket index, in ns: the middle of the bucket, at most 12.5 % off from 64 ns on.

    max_ns is the longest wait of the histogram: no value above it is given, and the last bucket, which has
    no end, is given as max_ns.  Where max_ns is itself a lower bound (see wait_interval in recording.sql), a
    value in its bucket is up to 20 % too low.
    """
    if index >= OVERFLOW:
        return max(LOWER[OVERFLOW], max_ns)
    value = (LOWER[index] + LOWER[index + 1]) // 2
    # A maximum below the bucket belongs to other waits: the recording is inconsistent.
    return min(value, max_ns) if max_ns >= LOWER[index] else value


def percentile(counts: Sequence[int], fraction: float, max_ns: int) -> int | None:
    """The wait, in ns, that `fraction` (0 < fraction <= 1) of the waits do not exceed, by nearest rank.

    It is the middle of the bucket that holds this rank (see middle()).  None without waits.
    """
    total = sum(counts)
    if not total:
        return None
    # In integers: 0.99 * 100 must be rank 99, not 100.
    rank = max(1, -(-total * round(fraction * 1_000_000) // 1_000_000))
    seen = 0
    for index, count in enumerate(counts):
        seen += count
        if seen >= rank:
            return middle(index, max_ns)
    raise AssertionError("a rank beyond the last wait")


def pairs(counts: Sequence[int]) -> list[list[int]]:
    """The buckets that hold waits, as [lower bound in ns, count] pairs, shortest first."""
    return [[LOWER[index], count] for index, count in enumerate(counts) if count]
