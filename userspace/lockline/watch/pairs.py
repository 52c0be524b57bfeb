# SPDX-License-Identifier: GPL-2.0-or-later
"""The hardware's limits between its CPUs, as `lockline doctor --deep` measured them."""

from collections.abc import Collection, Sequence

from lockline.base.values import dataclass
from lockline.recording import memory_rows as rows
from lockline.recording.reader import Recording

MAX_CPU = 1 << 16


@dataclass(frozen=True, slots=True)
class Pair:
    """How long a cache line takes between two CPUs, one way, and how far their counters are apart."""

    first: int
    second: int
    transfer_ns: float
    least_transfer_ns: float
    warp_ns: int
    rounds: int


def read_pairs(recording: Recording) -> tuple[Pair, ...]:
    """The hardware's limits, as measured; rows that cannot be true are left out."""
    return tuple(
        Pair(*row)
        for row in recording.table(rows.CpuPair, order="first, second")
        if 0 <= row.first < MAX_CPU
        and 0 <= row.second < MAX_CPU
        and row.first != row.second
        and 0 < row.transfer_ns < 1e9
        and 0 <= row.least_transfer_ns < 1e9
    )


def line_time(pairs: Sequence[Pair], cpus: Collection[int] = ()) -> float | None:
    """How long a line takes between two of these CPUs, ns: the median; of all CPUs where these tell none."""
    times = [pair.transfer_ns for pair in pairs if pair.first in cpus and pair.second in cpus]
    every = times or [pair.transfer_ns for pair in pairs]
    if not every:
        return None
    from statistics import median

    return median(every)
