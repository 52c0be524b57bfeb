#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes recordings through the collector's own schema: small ones for tests, large ones to measure reports.

tests/recording_generator.py OUT --cpus 256 --locks 2000 --seconds 600 --cells 4000 --seed 1
"""

import argparse
import random
import sqlite3
import struct
import sys
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import starmap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "userspace"))

from lockline.base import histogram  # noqa: E402 - found by the line above

SCHEMA = ROOT / "userspace" / "collector" / "recording" / "recording.sql"

KINDS = (
    "spinlock",
    "rwlock:R",
    "rwlock:W",
    "mutex",
    "mutex-spin",
    "rwsem:R",
    "rwsem:W",
    "rtmutex",
    "rwlock-rt:R",
    "rwlock-rt:W",
    "pcpu-sem:R",
    "pcpu-sem:W",
    "semaphore",
    "unknown",
)
SECOND = 1_000_000_000
BEGIN = 5_000 * SECOND


def _signed(address: int) -> int:
    return address - (1 << 64) if address >> 63 else address


@cache
def _empty() -> sqlite3.Connection:
    """A database of the schema, in memory: to copy it takes a seventh of the time of its statements."""
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    connection.executescript(SCHEMA.read_text(encoding="utf-8"))
    return connection


@cache
def _insertion(table: str) -> str:
    """The statement for rows in the order of the table's columns."""
    width = len(_empty().execute(f"PRAGMA table_info({table})").fetchall())
    return f"INSERT INTO {table} VALUES ({','.join('?' * width)})"


_ENTRY = struct.Struct("<HI").pack


@dataclass(slots=True)
class Total:
    """Figures of one cell, lock or CPU."""

    waits: int = 0
    wait_ns: int = 0
    max_ns: int = 0
    failed: int = 0
    counts: dict[int, int] = field(default_factory=dict)

    def add(self, waits: int, wait_ns: int, max_ns: int, failed: int, counts: Sequence[tuple[int, int]]) -> None:
        """Add waits; counts are (bucket, count) pairs."""
        self.waits += waits
        self.wait_ns += wait_ns
        if max_ns > self.max_ns:
            self.max_ns = max_ns
        self.failed += failed
        own = self.counts
        for bucket, count in counts:
            own[bucket] = own.get(bucket, 0) + count

    def row(self) -> tuple[int, int, int, int]:
        """The columns waits, wait_ns, max_ns, failed."""
        return self.waits, self.wait_ns, self.max_ns, self.failed

    def blob(self) -> bytes:
        """The column histogram."""
        return b"".join(starmap(_ENTRY, sorted(self.counts.items())))


class RecordingBuilder:
    """Writes one recording; totals follow from the waits that are added.

    seconds: intervals of one second each; after all waits, call finish().
    """

    def __init__(self, path: Path, seconds: int = 1, cpus: int = 4, meta: dict[str, object] | None = None) -> None:
        self.path = path
        self.seconds = seconds
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")
        _empty().backup(self.connection)
        self.connection.execute("BEGIN")
        facts: dict[str, object] = {
            "lockline_version": "0.1.0",
            "hostname": "lab1",
            "kernel_release": "6.12.0-lab",
            "kernel_version": "#1 SMP PREEMPT_DYNAMIC",
            "architecture": "x86_64",
            "cpu_model": "Example CPU @ 2.00GHz",
            "cpus_possible": cpus,
            "cpus_online": cpus,
            "memory_bytes": 64 << 20,
            "memory_total_bytes": 8 << 30,
            "clocksource": "tsc",
            "boot_id": "00000000-0000-0000-0000-000000000000",
            "spinlock_mode": "native",
            "command_line": "lockline record -a",
            "begin_ns": BEGIN,
            "end_ns": BEGIN + seconds * SECOND,
            "begin_unix_ns": 1_700_000_000 * SECOND,
            "threshold_ns": 1_000_000,
            "sample_period": 256,
            "interval_ns": SECOND,
            "filter": "",
            "state": "complete",
        }
        facts.update(meta or {})
        self.insert("meta", ((name, value) for name, value in facts.items() if value is not None))
        self.insert("kind", enumerate(KINDS))
        self.insert("interval", ((i + 1, BEGIN + i * SECOND, BEGIN + (i + 1) * SECOND) for i in range(seconds)))
        self.interval_cells: dict[int, dict[tuple[int, int, int], Total]] = {}
        self.cells: dict[tuple[int, int, int], Total] = {}

    def insert(self, table: str, rows: Iterable[Sequence[object]]) -> None:
        """Insert rows in the order of the table's columns."""
        self.connection.executemany(_insertion(table), rows)

    def lock(self, lock: int, name: str, instance: str = "", source: str = "symbol") -> int:
        """Add a lock at an address made from its id; gives the id."""
        address = _signed(0xFFFF_8880_0000_0000 + lock * 64)
        self.insert("lock", [(lock, address, name, instance, source)])
        return lock

    def waiter(self, waiter: int, comm: str, tgid: int = 0, cgroup: int = 1) -> int:
        """Add a task with tid 1000 + id; gives the id."""
        self.insert("waiter", [(waiter, 1000 + waiter, tgid or 1000 + waiter, comm, cgroup)])
        return waiter

    def stack(self, stack: int, *symbols: str) -> int:
        """Add a kernel stack, leaf first; a symbol may be 'name module'.  Gives the id."""
        addresses = []
        for text in symbols:
            symbol, _, module = text.partition(" ")
            address = 0xFFFF_FFFF_8000_0000 + zlib.crc32(text.encode()) % (1 << 24) * 16
            addresses.append(address)
            self.connection.execute(
                "INSERT OR IGNORE INTO frame VALUES (0, ?, ?, ?, ?)", (_signed(address), symbol, 0x5A, module)
            )
        self.insert("stack", [(stack, 0, struct.pack(f"<{len(addresses)}Q", *addresses))])
        return stack

    def waits(self, interval: int, cpu: int, lock: int, kind: int, lengths: Sequence[int], failed: int = 0) -> None:
        """Add waits of these lengths in ns; intervals count from 1."""
        counts = [(index, count) for index, count in enumerate(histogram.of(lengths)) if count]
        self.add(interval, cpu, lock, kind, len(lengths), sum(lengths), max(lengths), failed, counts)

    def add(
        self,
        interval: int,
        cpu: int,
        lock: int,
        kind: int,
        waits: int,
        wait_ns: int,
        max_ns: int,
        failed: int,
        counts: Sequence[tuple[int, int]],
    ) -> None:
        """Add figures to a cell, in its interval and in the whole run."""
        for cells in (self.cells, self.interval_cells.setdefault(interval, {})):
            cells.setdefault((lock, kind, cpu), Total()).add(waits, wait_ns, max_ns, failed, counts)

    def write_intervals(self) -> None:
        """Write the intervals that were added since the last call, and forget them."""
        self.insert(
            "wait_interval",
            (
                (interval, cpu, lock, kind, *total.row(), total.blob())
                for interval, cells in sorted(self.interval_cells.items())
                for (lock, kind, cpu), total in sorted(cells.items(), key=lambda item: (item[0][2], item[0]))
            ),
        )
        self.interval_cells.clear()

    def finish(self) -> Path:
        """Write the totals, close the file; gives its path."""
        self.write_intervals()
        locks: dict[tuple[int, int], Total] = {}
        cpus: dict[tuple[int, int], Total] = {}
        worst: dict[tuple[int, int], tuple[int, int]] = {}
        for (lock, kind, cpu), cell in sorted(self.cells.items()):
            counts = list(cell.counts.items())
            locks.setdefault((lock, kind), Total()).add(*cell.row(), counts)
            cpus.setdefault((cpu, kind), Total()).add(*cell.row(), counts)
            if cell.wait_ns > worst.get((lock, kind), (0, -1))[1]:
                worst[lock, kind] = cpu, cell.wait_ns
        self.insert(
            "lock_total", ((*key, *total.row(), *worst[key], total.blob()) for key, total in sorted(locks.items()))
        )
        self.insert("cpu_total", ((*key, *total.row(), total.blob()) for key, total in sorted(cpus.items())))
        self.insert("cell_total", ((*key, *total.row(), total.blob()) for key, total in sorted(self.cells.items())))
        self.connection.execute("COMMIT")
        self.connection.close()
        return self.path


@dataclass(frozen=True)
class Shape:
    """Size of a generated recording; cells: (CPU, lock) pairs that change in each second."""

    cpus: int = 256
    locks: int = 2000
    seconds: int = 600
    cells: int = 4000
    seed: int = 1
    tasks: int = 4000
    outliers: int = 64


def _palette(generator: random.Random) -> list[tuple[int, int, int, int, list[tuple[int, int]]]]:
    """Plausible figures of one cell in one second: few waits with a long tail, as (add's arguments from waits on)."""
    palette = []
    for _ in range(512):
        middle = generator.choice((300, 1_500, 8_000, 60_000))
        number = min(400, 1 + int(generator.paretovariate(1.1)))
        lengths = [max(80, int(generator.lognormvariate(0, 1.0) * middle)) for _ in range(number)]
        counts = [(index, count) for index, count in enumerate(histogram.of(lengths)) if count]
        palette.append((number, sum(lengths), max(lengths), 0, counts))
    return palette


def generate(path: Path, shape: Shape) -> Path:
    """A recording of this shape; the same seed gives the same figures.

    Locks are unevenly popular, CPUs evenly, so that over time most cells of the product come up.
    """
    generator = random.Random(shape.seed)
    builder = RecordingBuilder(path, shape.seconds, shape.cpus)
    palette = _palette(generator)
    sources = ("symbol", "per-CPU symbol", "owner object", "slab", "call site")
    for lock in range(1, shape.locks + 1):
        # One name in ten is shared, as instances of one member are.
        name = f"object_{lock // 10}.lock" if lock % 10 < 5 else f"subsystem_{lock}_lock"
        builder.lock(lock, name, f"tid {lock}" if lock % 10 < 5 else "", sources[lock % 5])
    kind_of = [generator.choice((0, 0, 0, 3, 4, 5, 6)) for _ in range(shape.locks + 1)]
    builder.insert("cgroup", [(1, "/"), *((i, f"/system.slice/service-{i}.service") for i in range(2, 42))])
    for waiter in range(1, shape.tasks + 1):
        builder.waiter(waiter, f"worker/{waiter % 97}", tgid=1000 + waiter // 16, cgroup=1 + waiter % 41)
    stacks = [
        builder.stack(stack, f"slow_path_{stack % 7}", f"caller_{stack}", f"syscall_{stack % 31}", "entry")
        for stack in range(1, 1001)
    ]
    # Zipf's law, flattened.
    weights = [1 / (rank + 20) for rank in range(shape.locks)]
    samples: dict[tuple[int, int, int, int], list[int]] = {}
    outlier = 0
    for interval in range(1, shape.seconds + 1):
        chosen: set[tuple[int, int]] = set()
        while len(chosen) < min(shape.cells, shape.cpus * shape.locks):
            for lock in generator.choices(range(1, shape.locks + 1), weights, k=shape.cells - len(chosen)):
                chosen.add((generator.randrange(shape.cpus), lock))
        by_sample: dict[tuple[int, int, int, int], list[int]] = {}
        for cpu, lock in sorted(chosen):
            figures = palette[generator.randrange(len(palette))]
            kind = kind_of[lock]
            builder.add(interval, cpu, lock, kind, *figures)
            if generator.random() < 0.1:
                key = generator.randrange(1, shape.tasks + 1), lock, kind, stacks[lock % len(stacks)]
                for sums in (samples, by_sample):
                    sample = sums.setdefault(key, [0, 0, 0])
                    sample[0] += 1
                    sample[1] += figures[0] * 10
                    sample[2] += figures[1] * 10
        builder.write_intervals()
        builder.insert("sample_interval", ((interval, *key, 0, *sums) for key, sums in by_sample.items()))
        long_waits = []
        for cpu, lock in generator.sample(sorted(chosen), min(shape.outliers, len(chosen))):
            outlier += 1
            length = int(1_000_000 * generator.paretovariate(1.5))
            begin = BEGIN + (interval - 1) * SECOND + generator.randrange(SECOND)
            waiter = generator.randrange(1, shape.tasks + 1)
            stack = stacks[lock % len(stacks)]
            long_waits.append(
                (outlier, interval, begin, min(length, SECOND), cpu, cpu, waiter, lock, kind_of[lock], 0, stack, 0)
            )
        builder.insert("outlier", long_waits)
    builder.insert("sample_total", ((*key, 0, *sums) for key, sums in samples.items()))
    builder.insert("probe", [("lock waits", "on", "tp_btf", "", "")])
    builder.insert("program", [("on_contention_begin", "lock waits", 10_000_000, 1_000_000, 90_000_000, 0)])
    builder.insert("cost", [("cpu_ns", 3 * SECOND, "ns"), ("peak_rss_bytes", 90 << 20, "bytes")])
    builder.insert("loss", [("unmatched", 12, "ends without a begin", "info")])
    return builder.finish()


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description="Make a recording of a given size.")
    parser.add_argument("output", type=Path)
    defaults = Shape()
    for name in ("cpus", "locks", "seconds", "cells", "seed", "tasks", "outliers"):
        parser.add_argument(f"--{name}", type=int, default=getattr(defaults, name))
    arguments = vars(parser.parse_args())
    output = arguments.pop("output")
    output.unlink(missing_ok=True)
    generate(output, Shape(**arguments))
    print(f"{output}: {output.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
