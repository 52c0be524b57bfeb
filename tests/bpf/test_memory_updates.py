# SPDX-License-Identifier: GPL-2.0-or-later
"""The tables of memory samples while they are written again and again: as one write of the same samples makes them.

Samples are made up and go through the real program, the collector's sums and its writes (memory_feed).
"""

import random
import signal
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from c2c.access_kinds import INTEL
from memory_feeder import Feeder

LINE = 0xFFFF_8881_2345_6000
CODE = 0xFFFF_FFFF_8110_0000
LOCKS = (0xFFFF_8880_0000_1000, 0xFFFF_8880_0000_2040)
SPINLOCK = 0
WORDS = [INTEL[name].word for name in ("local HITM", "remote HITM", "L1", "fill buffer", "store, L1 hit")]
FEW_LINES, MANY_LINES = 6, 60
RECORDS = 4  # column of memory_access

# Locks are numbered as they are met, so by address here.
TABLES = {
    "memory_source": "SELECT * FROM memory_source",
    "memory_count": "SELECT * FROM memory_count",
    "memory_line": "SELECT * FROM memory_line",
    "memory_thread": "SELECT id, comm FROM memory_thread",
    "memory_code": "SELECT * FROM memory_code",
    "memory_access": "SELECT * FROM memory_access",
    "memory_interrupts": "SELECT * FROM memory_interrupts",
    "memory_wait": "SELECT line, address, kind, records, transfers FROM memory_wait JOIN lock ON lock.id = lock",
    "memory_problem": "SELECT * FROM memory_problem",
    "loss": "SELECT name, count FROM loss",
}

Tables = dict[str, list[tuple[Any, ...]]]
Feed = Callable[[Sequence[str]], Tables]


@pytest.fixture
def feed(feeder: Feeder, tmp_path: Path) -> Feed:
    """Runs commands of memory_feed; the tables that it leaves, also if it dies."""
    count = 0

    def run(commands: Sequence[str]) -> Tables:
        nonlocal count
        count += 1
        path = tmp_path / f"fed-{count}.lockline"
        status, printed = feeder.feed(commands, path)
        assert status == (-signal.SIGKILL if "die" in commands else 0), printed
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            return {name: sorted(connection.execute(query).fetchall()) for name, query in TABLES.items()}

    return run


def samples(randomness: random.Random, count: int, lines: int) -> list[str]:
    """Commands: samples of these lines, some lines much more often than others, and waits around some."""
    made = []
    waiting = None
    for _ in range(count):
        if waiting is None and randomness.random() < 0.1:
            waiting = randomness.choice(LOCKS)
            made.append(f"begin {waiting} {SPINLOCK}")
        elif waiting is not None and randomness.random() < 0.3:
            made.append(f"end {waiting}")
            waiting = None
        line = min(int(randomness.expovariate(4 / lines)), lines - 1)
        address = LINE + 64 * line + 8 * randomness.randrange(4)
        # Some code of its own for each line, so that code comes and goes with lines.
        code = CODE + 16 * (4 * line + randomness.randrange(4))
        made.append(f"sample {address:#x} {code:#x} {randomness.choice(WORDS):#x} {randomness.randrange(500)} 1")
        if randomness.random() < 0.02:
            made.append(f"own {randomness.choice(WORDS):#x}")
    return made + ([f"end {waiting}"] if waiting is not None else [])


def split(randomness: random.Random, commands: Sequence[str], writes: int) -> list[str]:
    """The same with writes somewhere in between."""
    places = sorted((randomness.randrange(len(commands) + 1) for _ in range(writes)), reverse=True)
    parts = list(commands)
    for place in places:
        parts.insert(place, "write")
    return parts


# Without room for all lines some are pushed out by others, and come back.
@pytest.mark.parametrize(("lines", "keep"), [(FEW_LINES, 50_000), (MANY_LINES, 50_000), (MANY_LINES, 40), (3000, 7)])
@pytest.mark.parametrize("seed", range(3))
def test_any_intervals_give_the_tables_of_one(feed: Feed, lines: int, keep: int, seed: int) -> None:
    randomness = random.Random(f"{seed} {lines} {keep}")
    commands = [f"keep {keep}", *samples(randomness, 400, lines)]
    whole = feed(commands)
    parts = feed(split(randomness, commands, randomness.choice((1, 3, 40))))
    assert parts == whole
    assert whole["memory_access"]


def total(tables: Tables) -> int:
    """Samples in the tables, or told as left out."""
    return sum(row[RECORDS] for row in tables["memory_access"]) + dict(tables["loss"]).get("records_left_out", 0)


@pytest.mark.parametrize("keep", [50_000, 40])
@pytest.mark.parametrize("seed", range(3))
def test_a_killed_recording_is_as_one_that_ended_with_its_last_write(feed: Feed, keep: int, seed: int) -> None:
    randomness = random.Random(f"{seed} {keep} killed")
    begin, rest = (samples(randomness, 200, MANY_LINES) for _ in range(2))
    first = [f"keep {keep}", *split(randomness, begin, 4)]
    killed = feed([*first, "write", *rest, "die"])
    ended = feed(first)
    for name in ("memory_thread", "memory_code"):
        # Those of lines that were pushed out are left for lines that come back.
        assert set(killed[name]) >= set(ended[name]), name
    assert {name: rows for name, rows in killed.items() if name not in {"memory_thread", "memory_code"}} == {
        name: rows for name, rows in ended.items() if name not in {"memory_thread", "memory_code"}
    }
    taken = sum(not command.startswith(("begin", "end", "keep", "write")) for command in first)
    assert total(killed) == taken == dict(row[1:] for row in killed["memory_count"])["nr_entries"]


def test_a_recording_killed_before_a_write_has_no_sample(feed: Feed) -> None:
    killed = feed([*samples(random.Random(1), 50, FEW_LINES), "die"])
    assert killed["memory_access"] == killed["memory_line"] == killed["memory_count"] == []


@pytest.mark.parametrize("keep", [50_000, 40])
@pytest.mark.parametrize("seed", range(3))
def test_samples_that_come_while_tables_are_written(feed: Feed, keep: int, seed: int) -> None:
    """They are in the next write, whole, and in nothing of this one."""
    randomness = random.Random(f"{seed} {keep} meanwhile")
    begin = samples(randomness, 200, MANY_LINES)
    meanwhile = [command for command in samples(randomness, 150, MANY_LINES) if command.startswith("sample")]
    later = [command.replace("sample", "later") for command in meanwhile]
    at_the_write = feed([f"keep {keep}", *begin])
    killed = feed([f"keep {keep}", *begin, *later, "write", "die"])
    for name in ("memory_access", "memory_interrupts", "memory_wait", "memory_line", "memory_count", "loss"):
        assert killed[name] == at_the_write[name], name
    whole = feed([f"keep {keep}", *begin, *meanwhile])
    assert feed([f"keep {keep}", *begin, *later, "write"]) == whole
    assert feed([f"keep {keep}", *begin, *later, "write", *["write"] * 3]) == whole


def test_user_code_is_named_as_it_goes_on(build: Path, feed: Feed) -> None:
    program = str((build / "tests" / "memory_feed").resolve())
    killed = feed([f"own {WORDS[0]:#x}", "write", f"own {WORDS[0]:#x}", "die"])
    assert [(row[7], row[6]) for row in killed["memory_line"]] == [("feed_line", program)]
    assert [(row[3], row[5]) for row in killed["memory_code"]] == [("feed_command", program)]
