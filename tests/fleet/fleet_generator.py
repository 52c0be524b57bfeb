# SPDX-License-Identifier: GPL-2.0-or-later
"""Fleets whose truth is known: hosts, kernels, CPU models, load by the hour, and what was planted in them.

rows_of() gives the rows of a fleet's tables, for tests over many fleets; record() writes the same as recordings.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import duckdb

from lockline.base import histogram
from lockline.fleet.engine import DuckDb
from lockline.fleet.store import Place
from lockline.fleet.tables import HOUR_NS, TABLES, Row
from recording_generator import RecordingBuilder

KERNELS = ("6.1.0-30", "6.12.0-8", "6.12.0-9")
MODELS = ("Example CPU A", "Example CPU B", "Example CPU C")
KINDS = ("spinlock", "mutex", "rwsem:W", "rwsem:R")
# 2025-11-09 00:00 UTC, in hours.
FIRST_HOUR = 489_624
HOUR_S = 3600
SECOND = 1_000_000_000


@dataclass(frozen=True)
class Truth:
    """A fleet.

    days: of each of two periods.  regression: factor for lock 0 on hosts that run the last kernel, from the second
    period on.  bad_batch: factor for lock 1 on hosts of the last model.  missing: hosts without a second period.
    """

    hosts: int = 40
    locks: int = 12
    days: int = 1
    seed: int = 1
    regression: float = 1.0
    bad_batch: float = 1.0
    missing: int = 0
    # How far hosts, and days of one host, are apart: standard deviations of logarithms.
    host_spread: float = 0.5
    day_spread: float = 0.15


@dataclass
class HostDay:
    """One host on one day: lock -> wait ns in each hour."""

    host: str
    kernel: str
    model: str
    period: int
    first_hour: int
    waits: dict[int, list[int]] = field(default_factory=dict)


def lock_name(lock: int) -> str:
    """The name of a lock by its number."""
    return f"subsystem_{lock}_lock"


def kind_of(lock: int) -> str:
    """The kind of a lock by its number."""
    return KINDS[lock % len(KINDS)]


def host_name(host: int) -> str:
    """The name of a host by its number."""
    return f"web{host:04}"


def host_days(truth: Truth) -> Iterator[HostDay]:
    """All days of all hosts; the same seed gives the same figures."""
    generator = random.Random(truth.seed)
    typical = [0.03 / (1 + lock) for lock in range(truth.locks)]
    # Load follows the sun, alike on each day.
    load = [0.4 + 0.6 * max(0.0, 1 - abs(hour - 14) / 10) for hour in range(24)]
    for host in range(truth.hosts):
        own = [share * generator.lognormvariate(0, truth.host_spread) for share in typical]
        model = MODELS[host % len(MODELS)]
        if model == MODELS[-1] and truth.bad_batch != 1.0:
            own[1] *= truth.bad_batch
        first_kernel = KERNELS[host % 2]
        upgraded = truth.regression != 1.0 and host % 3 != 0
        for day in range(2 * truth.days):
            period = day // truth.days
            if period and host < truth.missing:
                continue
            kernel = KERNELS[-1] if upgraded and period else first_kernel
            busy = generator.lognormvariate(0, truth.day_spread)
            made = HostDay(host_name(host), kernel, model, period, FIRST_HOUR + 24 * day)
            for lock in range(truth.locks):
                factor = truth.regression if lock == 0 and kernel == KERNELS[-1] else 1.0
                noise = generator.lognormvariate(0, truth.day_spread)
                made.waits[lock] = [int(own[lock] * factor * busy * noise * part * HOUR_S * SECOND) for part in load]
            yield made


def _waits_of(wait_ns: int) -> int:
    return max(1, wait_ns // 20_000)


def rows_of(truth: Truth) -> tuple[dict[str, list[Row]], dict[str, Place]]:
    """The rows of the tables that a report reads, and the places of the recordings."""
    tables: dict[str, list[Row]] = {name: [] for name in ("recordings", "hours", "lock_hours", "lengths")}
    places = {}
    for number, day in enumerate(host_days(truth)):
        name = f"{number:032x}"
        head = name, day.host, 1.0
        begin = day.first_hour * HOUR_NS
        total = sum(map(sum, day.waits.values()))
        tables["recordings"].append(
            (
                *head,
                "2025-11-09",
                f"boot-{day.host}",
                day.kernel,
                "",
                "x86_64",
                day.model,
                8,
                1 << 33,
                "1.0",
                "",
                begin,
                begin + 24 * HOUR_NS,
                24 * HOUR_NS,
                total // 20_000,
                total,
                0,
                "",
                "",
            )
        )
        places[name] = Place(Path(name), "2025-11-09", name)
        tables["hours"] += [(*head, day.first_hour + hour, HOUR_NS) for hour in range(24)]
        for lock, waits in day.waits.items():
            of_lock = lock_name(lock), kind_of(lock)
            for hour, ns in enumerate(waits):
                tables["lock_hours"].append(
                    (*head, day.first_hour + hour, HOUR_NS, *of_lock, _waits_of(ns), ns, 1_000_000, 0)
                )
    return tables, places


def record(path: Path, day: HostDay, intervals_per_hour: int = 1) -> Path:
    """The same as a recording of the collector's schema; its intervals are parts of an hour."""
    count = 24 * intervals_per_hour
    step = HOUR_NS // intervals_per_hour
    begin = 5_000 * SECOND
    builder = RecordingBuilder(
        path,
        0,
        meta={
            "hostname": day.host,
            "kernel_release": day.kernel,
            "cpu_model": day.model,
            "boot_id": f"boot-{day.host}",
            "begin_ns": begin,
            "end_ns": begin + count * step,
            "begin_unix_ns": day.first_hour * HOUR_NS,
            "interval_ns": step,
        },
    )
    builder.insert("interval", ((i + 1, begin + i * step, begin + (i + 1) * step) for i in range(count)))
    kinds = {kind: number for number, kind in builder.connection.execute("SELECT id, name FROM kind")}
    for lock in day.waits:
        builder.lock(lock + 1, lock_name(lock))
    for interval in range(count):
        for lock, waits in day.waits.items():
            # No two intervals are alike, as in life.
            part = (50 + (interval * 7919 + lock * 104_729) % 101) / 100
            ns = int(waits[interval // intervals_per_hour] * part) // intervals_per_hour
            number = _waits_of(ns)
            one = ns // number
            counts = [(histogram.bucket(one), number)]
            builder.add(interval + 1, lock % 4, lock + 1, kinds[kind_of(lock)], number, ns, one + 1, 0, counts)
        if interval % 512 == 511:
            builder.write_intervals()
    return builder.finish()


@cache
def _instance() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1})


class InMemory(DuckDb):
    """An engine whose tables are the generator's, without files."""

    def __init__(self, truth: Truth) -> None:
        super().__init__(instance=_instance())
        tables, self.places = rows_of(truth)
        for name, columns in TABLES.items():
            self.put(name, columns, tables.get(name, []))

    def read(self, places: Sequence[Place], tables: Sequence[str] = (), alone: bool = False) -> None:
        """Nothing: the tables are there."""
