# SPDX-License-Identifier: GPL-2.0-or-later
"""Words of memory that threads of a program sleep at, as a recording has them."""

from typing import Any

from lockline.analysis.user_space.user_evidence import (
    Calls,
    Recognised,
    Seen,
)
from lockline.recording import rows, user_rows

LIBC = "/lib/libc.so.6"
MS = 1_000_000
WINDOW = 1000 * MS
BITSET = 1 << 9


def word(futex: int, address: int, name: str = "", comm: str = "server", **figures: Any) -> Seen:
    """A word of process 7 that threads slept at for as long as the window, once each ms, but for what is named."""
    waits, wakes, shared = (
        figures.pop(key, default) for key, default in (("waits", ()), ("wakers_of", ()), ("shared", 0))
    )
    values: dict[str, Any] = dict.fromkeys(user_rows.FutexTotal._fields, 0)
    values |= {"futex": futex, "ops": BITSET | 2, "histogram": b"", "latency_histogram": b""}
    values |= {"calls": 1000, "slept": 1000, "wait_ns": WINDOW} | figures
    total = user_rows.FutexTotal(**values)
    return Seen(user_rows.Futex(futex, 7, comm, address, shared, name, ""), total, waits, wakes)


def parked(
    functions: tuple[str, ...],
    wakers: tuple[int, ...],
    wait_ns: int = WINDOW * 6 // 10,
    module: str = "",
    slept: int = 1000,
) -> list[Seen]:
    """Three threads, each on a word of its own; wakers by task; module: what calls the C library's function."""
    frames = tuple(rows.Frame(1, name, 0, module) for name in functions if module)
    return [
        word(
            number,
            4096 * number,
            wait_ns=wait_ns,
            slept=slept,
            waits=(Calls(number, functions, (), 10, 10, frames),),
            wakers_of=tuple(Calls(task, (), (), 5, 0) for task in wakers if task != number),
        )
        for number in (2, 3, 4)
    ]


PEERS = {"waiters": 4, "wakers": 4, "both": 4, "wakes": 900, "tasks_woken": 900}


def one(found: tuple[Recognised, ...]) -> Recognised:
    assert len(found) == 1, found
    return found[0]


PARK = ("Parker::park", "Unsafe_Park", "LockSupport.park", "ReentrantLock.lock")


def frame(symbol: str = "", module: str = "[anon]") -> rows.Frame:
    return rows.Frame(4096, symbol, 0, module)


def java(folder: str) -> rows.Frame:
    return frame("Unsafe_Park", f"{folder}/libjvm.so")


def from_functions(*functions: str, task: int = 1, wait_ns: int = 10) -> Calls:
    return Calls(task, functions, (), 10, wait_ns)
