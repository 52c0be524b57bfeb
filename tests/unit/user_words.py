# SPDX-License-Identifier: GPL-2.0-or-later
"""Words of memory that threads of a program sleep at, as a recording has them."""

from typing import Any

from lockline.analysis.user_evidence import Seen
from lockline.recording import rows

LIBC = "/lib/libc.so.6"
MS = 1_000_000
WINDOW = 1000 * MS
BITSET = 1 << 9


def word(futex: int, address: int, name: str = "", comm: str = "server", **figures: Any) -> Seen:
    """A word of process 7 that threads slept at for as long as the window, once each ms, but for what is named."""
    waits, wakes, shared = (
        figures.pop(key, default) for key, default in (("waits", ()), ("wakers_of", ()), ("shared", 0))
    )
    values: dict[str, Any] = dict.fromkeys(rows.FutexTotal._fields, 0)
    values |= {"futex": futex, "ops": BITSET | 2, "histogram": b"", "latency_histogram": b""}
    values |= {"calls": 1000, "slept": 1000, "wait_ns": WINDOW} | figures
    total = rows.FutexTotal(**values)
    return Seen(rows.Futex(futex, 7, comm, address, shared, name, ""), total, waits, wakes)
