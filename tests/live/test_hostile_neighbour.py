# SPDX-License-Identifier: GPL-2.0-or-later
"""An unprivileged process tries to harm a recording of the whole machine: tests/workloads/neighbour.c has the ways."""

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostile_files import HOSTILE
from support import Collector, Recording, Workload, wait_for

SOMEBODY = "65534"
WAYS = ("fifo", "files", "changing", "names", "forks", "owners")
ROUNDS, HOLD_US = 5, 2000
# Addresses of the neighbour that the recording has met, before its end is asked for.
FRAMES = 6


@pytest.fixture(scope="module")
def files() -> Iterator[Path]:
    """A directory with the hostile files."""
    with tempfile.TemporaryDirectory(prefix="neighbour-") as name:
        for number, make_file in enumerate(HOSTILE.values()):
            (Path(name) / str(number)).write_bytes(make_file(Path("/bin/sh").resolve()))
        yield Path(name)


@pytest.fixture
def directory(files: Path) -> Iterator[Path]:
    """One where the neighbour may write, with the hostile files in it."""
    with tempfile.TemporaryDirectory(prefix="neighbour-", ignore_cleanup_errors=True) as name:
        (Path(name) / "files").mkdir()
        for file in files.iterdir():
            (Path(name) / "files" / file.name).hardlink_to(file)
        (Path(name) / "files").chmod(0o755)
        Path(name).chmod(0o777)
        yield Path(name)


def test_memory_that_never_comes(live: Path, recording: Path) -> None:
    """A neighbour's file system does not answer whoever reads its futex: the recording goes on, and ends."""
    if not Path("/dev/fuse").exists():
        pytest.skip("no FUSE here: /dev/fuse is missing")
    found = "SELECT count(*) FROM futex WHERE tgid = ? AND name = 'held_mutex'"
    with tempfile.TemporaryDirectory(prefix="neighbour-") as directory:
        Path(directory).chmod(0o755)
        with Workload(live, "stuck_memory", SOMEBODY, directory) as neighbour:
            collector = Collector(live, recording, "-a", "--futex", "--user-stacks", "--interval", "200ms").attached()
            assert neighbour.do("stick")["event"] == "stuck"
            wait_for(
                lambda: number(recording, "SELECT value FROM cost WHERE name = 'reads_given_up'"), "a read given up"
            )
            with Workload(live, "futex_mutex") as honest:
                honest.do(f"lock {ROUNDS} {HOLD_US}")
                wait_for(lambda: number(recording, found, honest.pid), "the name of an honest mutex")
            assert collector.stop() == 0, collector.errors()
    with Recording(recording) as result:
        assert result.integrity() == "ok"
        assert result.begins_accounted() == result.begins() + result.loss("slow_paths")


def test_nobody_is_blamed_by_a_forged_owner(live: Path, recording: Path, directory: Path) -> None:
    """Words that look like mutexes of another process, in memory that it has mapped too, but not shared."""
    options = ("-a", "--futex", "--interval", "200ms")
    with (
        Workload(live, "neighbour", SOMEBODY, directory, "owners") as other,
        Workload(live, "neighbour", SOMEBODY, directory, "owners") as neighbour,
    ):
        rounds = neighbour.do(f"blame {other.pid}")["owners"]
        collector = Collector(live, recording, *options).attached()
        # Each has its own futexes, though the place in the file is the same.
        shared = "SELECT count(*) FROM futex JOIN futex_total ON futex = id WHERE tgid = ? AND shared AND slept > 10"
        for process in (other, neighbour):
            wait_for(lambda pid=process.pid: number(recording, shared, pid) > 0, "a futex of each")
        wait_for(lambda: neighbour.do("count")["owners"] > rounds + 2, "further rounds")
        # A wait of over a second in progress has had its look.
        done = number(recording, "SELECT max(id) FROM interval")
        wait_for(lambda: number(recording, "SELECT max(id) FROM interval") > done + 20, "intervals of four seconds")
        assert collector.stop() == 0, collector.errors()
    lasting = "SELECT count(*) FROM futex_owned_wait WHERE tgid = ? AND owner IN (1, ?)"
    sampled = (
        "SELECT count(*) FROM futex_sample JOIN futex ON futex.id = futex JOIN waiter ON waiter.id = task"
        " WHERE role = 'owner' AND futex.tgid = ? AND waiter.tid IN (1, ?)"
    )
    assert [number(recording, query, neighbour.pid, other.pid) for query in (lasting, sampled)] == [0, 0]
    looked = "SELECT coalesce(sum(owner_samples), 0) FROM futex_total JOIN futex ON id = futex WHERE tgid = ?"
    assert number(recording, looked, neighbour.pid) > 0


def number(recording: Path, query: str, *values: object) -> int:
    with Recording(recording) as result:
        return result.number(query, *values)


@pytest.mark.parametrize("ways", [*[(way,) for way in WAYS], WAYS], ids=[*WAYS, "all"])
def test_the_recording_goes_on(live: Path, recording: Path, directory: Path, ways: tuple[str, ...]) -> None:
    options = ("-a", "--futex", "--user-stacks", "--episodes", "--interval", "200ms")
    with Workload(live, "neighbour", SOMEBODY, directory, *ways) as neighbour:
        collector = Collector(live, recording, *options).attached()
        rounds = neighbour.do("count")
        # It meets the neighbour's addresses, sees it go round, and commits intervals after that.
        wait_for(
            lambda: (
                number(recording, "SELECT count(*) FROM frame WHERE tgid AND symbol || module != ''") > FRAMES
                and all(neighbour.do("count")[way] > rounds[way] + 1 for way in ways)
            ),
            f"names of user space with {ways}",
        )
        intervals = number(recording, "SELECT max(id) FROM interval")
        wait_for(
            lambda: number(recording, "SELECT max(id) FROM interval") > intervals + 2, f"further intervals with {ways}"
        )
        with Workload(live, "futex_mutex") as honest:
            named = "SELECT count(*) FROM futex WHERE tgid = ? AND name = 'held_mutex'"
            # A row of another word, as of a wake by its stack, is no sign that the mutex has one.
            met = (
                "SELECT count(*) FROM futex JOIN futex_total ON futex = id"
                " WHERE tgid = ? AND comm = 'futex_mutex' AND slept"
            )

            def is_named() -> int:
                # Where the collector gets no CPU, all rows may be the neighbour's: those waits are counted as such.
                if not number(recording, met, honest.pid):
                    honest.do(f"lock {ROUNDS} {HOLD_US}")
                return number(recording, named, honest.pid)

            wait_for(is_named, f"the name of an honest mutex with {ways}")
            assert collector.stop() == 0, collector.errors()
    with Recording(recording) as result:
        assert result.integrity() == "ok"
        assert result.begins_accounted() == result.begins() + result.loss("slow_paths")
        texts = result.rows("SELECT symbol FROM frame UNION SELECT module FROM frame UNION SELECT object FROM futex")
        assert all(str(text).isprintable() for (text,) in texts)
        assert result.rows("SELECT value FROM meta WHERE name = 'state'") == [("complete",)]
    report = subprocess.run(
        [live / "bin/lockline", "report", "--all", "-i", recording], capture_output=True, timeout=120, check=False
    )
    assert report.returncode == 0, report.stderr
    assert b"\x1b" not in report.stdout
