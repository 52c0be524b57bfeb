# SPDX-License-Identifier: GPL-2.0-or-later
"""Memory samples of PMUs that are not here: made up, through the real program and the collector's sums.

What a data source word counts as is written down by hand in c2c/access_kinds.py, from perf's rules.
"""

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from c2c import imported
from c2c.access_kinds import IBS, INTEL, NO_ADDRESS, SPE, Kind
from memory_feeder import Feeder

LINE = 0xFFFF_8881_2345_6000
CODE = 0xFFFF_FFFF_8110_0000
LOCK, OTHER = 0xFFFF_8880_0000_1000, 0xFFFF_8880_0000_2040
SPINLOCK, RWLOCK_WRITE, MUTEX, MUTEX_SPIN = 0, 2, 3, 4
INTERRUPTS_ON, INTERRUPTS_OFF = 1, 2
RING = 512

HITM = INTEL["local HITM"].word
HIT = INTEL["L1"].word

KINDS = [
    *((f"Intel, {kind.name}", kind) for kind in INTEL.values()),
    *((f"Intel, {kind.name}, locked", kind.locked()) for kind in INTEL.values()),
    *((f"IBS, {kind.name}", kind) for kind in IBS.values()),
    *((f"SPE, {kind.name}", kind) for kind in SPE.values()),
]


@dataclass(frozen=True)
class Fed:
    """What became of the samples."""

    counters: dict[str, int]
    path: Path

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        with closing(sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)) as connection:
            return connection.execute(query).fetchall()

    @property
    def tables(self) -> imported.Imported:
        """The memory tables."""
        return imported.read(self.path)


Feed = Callable[[Sequence[str]], Fed]


@pytest.fixture
def feed(feeder: Feeder, tmp_path: Path) -> Feed:
    """Runs commands of memory_feed."""

    def run(commands: Sequence[str]) -> Fed:
        path = tmp_path / "fed.lockline"
        status, printed = feeder.feed(commands, path)
        assert status == 0, printed
        return Fed(json.loads(printed), path)

    return run


def sample(word: int = HITM, address: int = LINE, code: int = CODE, weight: int = 0, flags: int = INTERRUPTS_ON) -> str:
    return f"sample {address:#x} {code:#x} {word:#x} {weight} {flags}"


def counts_of(kind: Kind) -> Counter[str]:
    """By column of memory_access, of one sample."""
    told = Counter(kind.counts) + Counter(nr_entries=1)
    return +Counter({column: sum(told[name] for name in names) for column, names in imported.COUNTS.items()})


def has_source(kind: Kind) -> bool:
    """Whether the word says more than that there was no access."""
    return bool(kind.word & 0x1E)


def test_every_encoding_is_counted_as_perf_counts_it(feed: Feed) -> None:
    commands = [sample(kind.word, LINE + 64 * at, CODE, kind.weight) for at, (_, kind) in enumerate(KINDS)]
    fed = feed(commands)
    lines = {line.address: line for line in fed.tables.lines}
    total: Counter[str] = Counter()
    without = 0
    for at, (name, kind) in enumerate(KINDS):
        total += Counter(kind.counts) + Counter(nr_entries=1)
        if not has_source(kind):
            without += 1
            assert LINE + 64 * at not in lines, name
            continue
        counts = lines[LINE + 64 * at].total.counts
        assert Counter({column: counts[column] for column in imported.COUNTS}) == counts_of(kind), name
        weights = counts["remote_hitm_weight"] + counts["local_hitm_weight"] + counts["load_weight"]
        assert weights == (0 if not counts["loads"] else kind.weight), name
        assert lines[LINE + 64 * at].total.cpus == {0}
    assert without == 1
    assert fed.counters["without_source"] == without
    assert fed.counters["records"] == len(KINDS) - without
    # The collector adds those that the program counted alone.
    told = fed.tables.counts
    assert told["nr_entries"] == len(KINDS) - without
    assert {name: told[name] for name in total if name not in {"nr_entries", "noparse"}} == {
        name: count for name, count in total.items() if name not in {"nr_entries", "noparse"}
    }


@pytest.mark.parametrize("word", [0, IBS["not a memory op"].word, 1])
def test_nothing_is_made_up_without_a_data_source(feed: Feed, word: int) -> None:
    fed = feed([sample(word)] * 5)
    assert fed.counters["samples"] == fed.counters["without_source"] == 5
    assert fed.counters["records"] == 0
    assert fed.tables.lines == []


@pytest.mark.parametrize("operation", NO_ADDRESS)
def test_a_sample_without_address_is_in_no_line(feed: Feed, operation: str) -> None:
    word = HITM if operation == "load" else INTEL["store, L1 hit"].word
    fed = feed([sample(word, 0)])
    assert fed.counters["without_address"] == 1
    assert fed.tables.lines == []


def waits(fed: Fed) -> dict[tuple[int, int], tuple[int, int]]:
    """By lock and kind: records and transfers of the one line."""
    query = "SELECT address, kind, records, transfers FROM memory_wait JOIN lock ON lock.id = lock"
    return {(address & (1 << 64) - 1, kind): (records, moved) for address, kind, records, moved in fed.rows(query)}


def in_wait(fed: Fed) -> int:
    """Records that were taken in a wait."""
    return int(fed.rows("SELECT sum(in_wait) FROM memory_access")[0][0])


@pytest.mark.parametrize("kind", [SPINLOCK, RWLOCK_WRITE, MUTEX, MUTEX_SPIN])
def test_a_sample_is_linked_to_the_wait_in_flight(feed: Feed, kind: int) -> None:
    fed = feed(
        [
            sample(),
            f"begin {LOCK} {kind}",
            *[sample(HITM)] * 3,
            *[sample(HIT)] * 2,
            f"end {LOCK}",
            sample(),
        ]
    )
    assert waits(fed) == {(LOCK, kind): (5, 3)}
    assert in_wait(fed) == 5
    assert fed.counters["records"] == 7


def test_the_innermost_wait_counts(feed: Feed) -> None:
    fed = feed(
        [
            f"begin {LOCK} {RWLOCK_WRITE}",
            sample(),
            f"begin {OTHER} {SPINLOCK}",
            *[sample()] * 2,
            f"end {OTHER}",
            f"end {LOCK}",
            # A task in a sleeping lock's slow path spins for its inner lock.
            f"begin {LOCK} {MUTEX}",
            *[sample()] * 4,
            f"begin {OTHER} {SPINLOCK}",
            *[sample()] * 8,
            f"end {OTHER}",
            f"end {LOCK}",
        ]
    )
    assert waits(fed) == {(LOCK, RWLOCK_WRITE): (1, 1), (OTHER, SPINLOCK): (10, 10), (LOCK, MUTEX): (4, 4)}


def test_a_slot_that_a_lost_end_left_is_no_wait(feed: Feed) -> None:
    fed = feed([f"begin {LOCK} {SPINLOCK}", "forget", sample()])
    assert waits(fed) == {}
    assert fed.counters["records"] == 1


def test_interrupts_are_told(feed: Feed) -> None:
    fed = feed(
        [
            *[sample(flags=INTERRUPTS_ON)] * 3,
            *[sample(flags=INTERRUPTS_OFF)] * 2,
            sample(address=LINE + 8, flags=0),
        ]
    )
    assert fed.rows("SELECT offset, records, off FROM memory_interrupts") == [(0, 5, 2)]
    assert fed.rows("SELECT offset, records FROM memory_access ORDER BY offset") == [(0, 5), (8, 1)]


def test_names_and_places(feed: Feed) -> None:
    fed = feed([sample()])
    assert fed.rows("SELECT kind, name, event FROM memory_source ORDER BY id") == [
        ("PMU", "cpu", "cpu/mem-loads,ldlat=30/P"),
        ("PMU", "ibs_op", "ibs_op//"),
    ]
    assert fed.rows("SELECT size, space, pid, object FROM memory_line") == [(64, "kernel", 0, "[kernel.kallsyms]")]
    assert fed.rows("SELECT comm FROM memory_thread") == [("memory_feed",)]
    assert fed.rows("SELECT space FROM memory_code") == [("kernel",)]


def test_memory_of_a_process(feed: Feed) -> None:
    """User code on an address that is mapped nowhere, and kernel code on it."""
    fed = feed([sample(address=0x1000, code=0x2000), sample(address=0x1000)])
    assert sorted(fed.rows("SELECT space, object FROM memory_line")) == [("other", ""), ("user", "")]
    assert fed.tables.counts["nomap"] == 2


def test_a_process_is_named_by_its_mappings(build: Path, feed: Feed) -> None:
    fed = feed([f"own {HITM:#x}", f"anonymous {HITM:#x}"])
    program = str((build / "tests" / "memory_feed").resolve())
    lines = fed.rows("SELECT object, symbol, symbol_offset, offset FROM memory_line JOIN memory_access ON line = id")
    assert sorted(lines) == [("//anon", "", 0, 0), (program, "feed_line", 0, 16)]
    assert fed.rows("SELECT symbol, offset, object FROM memory_code") == [("feed_command", 0, program)]
    # What others cannot reach is listed with its process.
    assert [name for name, pid in fed.rows("SELECT object, pid FROM memory_line") if pid] == ["//anon"]


def test_the_ring_overwrites_and_says_so(feed: Feed) -> None:
    fed = feed([sample()] * (RING + 30))
    assert fed.counters["records"] == RING + 30
    assert fed.counters["overwritten"] == 30
    assert fed.tables.counts["nr_entries"] == RING
    fed = feed([*[sample()] * RING, "drain", *[sample()] * RING])
    assert fed.counters["overwritten"] == 0
    assert fed.tables.counts["nr_entries"] == 2 * RING


def test_what_is_left_out(feed: Feed) -> None:
    fed = feed(
        [
            "busy 1",
            sample(),
            "busy 0",
            "window 0",
            *[sample()] * 2,
            "window 1",
            "filter 1",
            *[sample()] * 3,
            "filter 0",
            *[sample()] * 4,
        ]
    )
    assert fed.counters == {
        "samples": 4,
        "records": 4,
        "without_source": 0,
        "without_address": 0,
        "filtered": 3,
        "nested": 1,
        "overwritten": 0,
    }
