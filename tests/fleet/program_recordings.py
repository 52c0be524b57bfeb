# SPDX-License-Identifier: GPL-2.0-or-later
"""Recordings of hosts whose programs wait for locks of their own."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lockline.base import histogram
from lockline.recording import user_rows
from recording_generator import RecordingBuilder

MS = 1_000_000
SECONDS = 10
SPAN_NS = SECONDS * 1000 * MS
OF_LOCK = 1 << 6  # FUTEX_LOCK_PI, which only a lock uses
HOUR_S = 3600
BEGIN_S = 1_700_000_000 // HOUR_S * HOUR_S


@dataclass(frozen=True)
class Lock:
    """A lock of a program: its symbol, or the function that waits for it; how often, for so long each."""

    comm: str
    waits: int
    each_ns: int
    symbol: str = ""
    function: str = ""


API = Lock("api", 100, 20 * MS, symbol="sessions_lock")
HEAP = Lock("api", 50, 8 * MS, function="write_log")
OTHER = Lock("api", 25, 8 * MS, function="read_user")


def record_programs(
    path: Path, host: int, locks: Sequence[Lock], looked: bool = True, kernel_ns: int = MS, begin_s: int = BEGIN_S
) -> Path:
    """A recording of a host on which no address is as on another one."""
    facts: dict[str, object] = {"hostname": f"web{host}", "boot_id": f"boot-{host}-{begin_s}"}
    facts["begin_unix_ns"] = begin_s * 1000 * MS
    builder = RecordingBuilder(path, SECONDS, meta=facts)
    builder.insert("probe", [("futex waits", "on" if looked else "off", "", "", "")])
    builder.lock(1, "mm_struct.mmap_lock")
    builder.add(1, 0, 1, 5, 10, kernel_ns, kernel_ns // 10, 0, [(histogram.bucket(kernel_ns // 10), 10)])
    for number, lock in enumerate(locks if looked else (), 2):
        tgid = 1000 * host + number
        address = 0x7F00_0000_0000 + (host << 32) + 4096 * number
        lengths = (lock.each_ns,) * lock.waits
        blob = histogram.encode(histogram.of(lengths))
        values: dict[str, Any] = dict.fromkeys(user_rows.FutexTotal._fields, 0)
        values |= {"futex": number, "ops": OF_LOCK, "calls": lock.waits, "slept": lock.waits}
        values |= {"wait_ns": sum(lengths), "max_ns": lock.each_ns, "histogram": blob, "latency_histogram": blob}
        values |= {"waiters": 4, "wakers": 4, "both": 4, "tasks_woken": lock.waits}
        builder.insert("futex", [(number, tgid, lock.comm, address, 0, lock.symbol, f"/usr/bin/{lock.comm}")])
        builder.insert("futex_total", [tuple(values.values())])
        if lock.function:
            code = 0x5500_0000_0000 + (host << 32) + 64 * number
            builder.insert("frame", [(tgid, code, lock.function, 4, f"/usr/bin/{lock.comm}")])
            builder.insert("stack", [(number, tgid, struct.pack("<Q", code))])
            task = builder.waiter(number, lock.comm, tgid)
            builder.insert("futex_sample", [(number, "waiter", task, number, 20, lock.waits, sum(lengths))])
    return builder.finish()
