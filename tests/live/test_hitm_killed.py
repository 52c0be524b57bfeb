# SPDX-License-Identifier: GPL-2.0-or-later
"""record --hitm that is killed: its samples are there up to the last interval, and what is there agrees with itself.

Without a PMU: memory_inject writes samples into the ring of a collector that runs, as the program would, one CPU
beside those that have events.  What sample n is, is known by n alone.
"""

import json
import random
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from support import DEADLINE_S, Collector, Recording, started, wait_for
from test_hitm import CLOCK

KILLS, KILLS_AT_ONCE = 6, 2
PER_SECOND = 250
LINES = 30
FIRST_LINE = 0xFFFF_8881_2345_6000
LOCK = 0xFFFF_8880_0000_1000
OPTIONS = ("-a", "-C", "0", "-I", "0.5", "--hitm", "--hitm-event", CLOCK, "--hitm-rate", "50")

Access = tuple[int, int]  # address of the line, offset


@contextmanager
def injected(
    build: Path, pid: int, told: Path, lines: int = LINES, rate: int = PER_SECOND, *, own: Sequence[str | Path] = ()
) -> Iterator["subprocess.Popen[str]"]:
    """Samples for a collector, with a log of how many there were, and when; own: as it takes it."""
    with told.open("w") as output:
        process = subprocess.Popen(
            [build / "tests" / "memory_inject", str(pid), str(rate), str(lines), *own],
            stdout=output,
            text=True,
        )
        started.append(process)
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(DEADLINE_S) == 0


def counts_until(told: Path, end_ns: int) -> int:
    """How many samples there were by then."""
    steps = [tuple(map(int, line.split())) for line in told.read_text().splitlines()]
    return max((count for count, time_ns in steps if time_ns <= end_ns), default=0)


def truth(samples: int, lines: int = LINES) -> Counter[Access]:
    """By line and offset: how often the first so many samples are there, as memory_inject.c has it."""
    return Counter((FIRST_LINE + 64 * (n % lines), 8 * (n % 3)) for n in range(samples))


def assert_sums_hold(got: Recording) -> None:
    """Samples that were seen are in the tables, or told as not."""
    seen = got.number("SELECT value FROM meta WHERE name = 'memory_samples'")
    in_lines = got.number("SELECT sum(records) FROM memory_access")
    losses = ("without_source", "without_address", "overwritten", "refused")
    left_out = sum(got.loss(f"memory_{name}") for name in losses) + got.loss("records_left_out")
    assert seen == in_lines + left_out
    counted = got.number("SELECT count FROM memory_count WHERE name = 'nr_entries'")
    assert counted == seen - got.loss("memory_overwritten")


def assert_as_injected(got: Recording, told: Path) -> int:
    """What is there are the first samples, all that had come by then; how many these are."""
    taken = got.number("SELECT sum(records) FROM memory_access")
    assert got.loss("memory_overwritten") == 0, "the machine was too slow to read a ring within a second"
    assert taken >= counts_until(told, got.number("SELECT value FROM meta WHERE name = 'memory_end_ns'"))
    query = (
        "SELECT address, offset, sum(records) FROM memory_access JOIN memory_line ON id = line GROUP BY line, offset"
    )
    found = Counter({(address & (1 << 64) - 1, offset): records for address, offset, records in got.rows(query)})
    assert found == truth(taken)
    waits = got.rows("SELECT address, sum(records) FROM memory_wait JOIN lock ON lock.id = lock GROUP BY lock")
    assert [(address & (1 << 64) - 1, records) for address, records in waits] == [(LOCK, (taken + 4) // 5)]
    assert got.number("SELECT sum(in_wait) FROM memory_access") == (taken + 4) // 5
    return taken


def written_intervals(path: Path) -> int:
    """Intervals of a recording that have samples in them, or come after such."""
    with Recording(path) as got:
        query = "SELECT count(*) FROM interval WHERE (SELECT count(*) FROM memory_access)"
        return got.number(query)


def reported(build: Path, *command: str | Path) -> str:
    """What lockline says."""
    done = subprocess.run(
        [build / "bin" / "lockline", *command], capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.usefixtures("spare_cpu")
def test_samples_are_there_up_to_the_last_interval(live: Path, tmp_path: Path) -> None:
    """Several recordings at once: each mostly waits."""
    randomness = random.Random(7)
    turns = [(turn, randomness.random() * 0.6) for turn in range(KILLS)]

    def kill(turn: tuple[int, float]) -> None:
        number, wait = turn
        path, told = tmp_path / f"killed-{number}.lockline", tmp_path / f"told-{number}"
        collector = Collector(live, path, *OPTIONS).attached()
        with injected(live, collector.process.pid, told):
            wait_for(lambda: written_intervals(path) >= 2, "interval with samples")
            # Anywhere in the interval that follows; not a wait for anything.
            subprocess.run(["sleep", f"{wait:.4f}"], check=True)
            assert collector.stop(signal.SIGKILL) == -signal.SIGKILL
        with Recording(path) as got:
            assert got.integrity() == "ok"
            assert_sums_hold(got)
            taken = assert_as_injected(got, told)
            # The tables are of the last interval: between its ends.
            begin_ns, end_ns = got.rows("SELECT begin_ns, end_ns FROM interval ORDER BY id DESC LIMIT 1")[0]
            assert begin_ns <= got.number("SELECT value FROM meta WHERE name = 'memory_end_ns'") <= end_ns
        assert taken >= counts_until(told, begin_ns) > 0
        if number % 5:
            return
        (top,) = json.loads(reported(live, "c2c", "report", path, "--format", "json", "--top", "1"))["lines"]
        assert top["loads"] > 0
        assert "cache line" in reported(live, "report", "--all", path).lower()

    with ThreadPoolExecutor(KILLS_AT_ONCE) as pool:
        assert len(list(pool.map(kill, turns))) == KILLS


@pytest.mark.usefixtures("spare_cpu")
def test_an_orderly_end_has_all(live: Path, recording: Path, tmp_path: Path) -> None:
    told = tmp_path / "told"
    collector = Collector(live, recording, *OPTIONS).attached()
    with injected(live, collector.process.pid, told):
        wait_for(lambda: written_intervals(recording) >= 2, "interval with samples")
    count = int(told.read_text().splitlines()[-1].split()[0])
    assert collector.stop() == 0, collector.errors()
    with Recording(recording) as got:
        assert_sums_hold(got)
        assert assert_as_injected(got, told) == count
        assert got.number("SELECT value FROM cost WHERE name = 'memory_writes'") >= 1


@pytest.mark.usefixtures("spare_cpu")
def test_writes_that_are_dear_come_less_often(live: Path, recording: Path, tmp_path: Path) -> None:
    """They take a fiftieth of a CPU's time at most, and the sums hold even so."""
    collector = Collector(live, recording, *OPTIONS, "-I", "0.1").attached()

    def stretched() -> bool:
        with Recording(recording) as got:
            intervals = got.number("SELECT count(*) FROM interval WHERE (SELECT count(*) FROM memory_access)")
            writes = got.number("SELECT value FROM cost WHERE name = 'memory_writes'")
            return 5 <= 2 * writes < intervals

    with injected(live, collector.process.pid, tmp_path / "told", 1000, 8 * PER_SECOND):
        wait_for(stretched, "writes less often than intervals")
        assert collector.stop(signal.SIGKILL) == -signal.SIGKILL
    with Recording(recording) as got:
        assert_sums_hold(got)
        begin_ns, end_ns = (
            got.number("SELECT value FROM meta WHERE name = ?", name) for name in ("begin_ns", "memory_end_ns")
        )
        assert 50 * got.number("SELECT value FROM cost WHERE name = 'memory_write_cpu_ns'") <= end_ns - begin_ns
