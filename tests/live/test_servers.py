# SPDX-License-Identifier: GPL-2.0-or-later
"""Real servers, attached to by pid: under load the recording has their threads' waits, at rest it finds nothing.

What a server really waits for is its own affair: the tests hold to what its make tells, and to its own counts.
"""

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lockline.analysis.model import Report
from lockline.analysis.selection import Selection
from lockline.analysis.user_space.futex import read_futexes
from lockline.analysis.user_space.futex_waits import (
    CONDITION,
    LOCK,
    NATURES,
    NONE,
    PARKED,
    POLL,
    SEMAPHORE,
    UNCLEAR,
    Futexes,
)
from lockline.cli.why_sleeps import look_at_sleeps
from lockline.investigation.model import Target
from lockline.recording.reader import open_recording
from lockline.rules.report import make_report
from servers import NoServerError, Server, memcached, postgresql, threads_of
from support import DEADLINE_S, Collector, Lines, Recording, wait_for
from told import told

TOP = Path(__file__).resolve().parents[2]

CLIENTS = 32
ENOUGH = 200
MS_100 = 100_000_000


@pytest.fixture(scope="module")
def cache(live: Path) -> Iterator[Server]:
    """memcached with four workers."""
    try:
        with memcached(4) as server:
            yield server
    except NoServerError as why:
        pytest.skip(str(why))


@pytest.fixture(scope="module")
def database(live: Path) -> Iterator[Server]:
    """PostgreSQL; pgbench of scale 1: each transaction updates the one branch."""
    try:
        with postgresql(1) as server:
            yield server
    except NoServerError as why:
        pytest.skip(str(why))


@contextmanager
def loaded(server: Server, requests: int) -> Iterator[None]:
    """The server under load, run after run until the end."""
    ended = threading.Event()
    running = server.start(CLIENTS, requests)
    statuses: list[int] = []

    def go_on() -> None:
        nonlocal running
        while not ended.is_set():
            statuses.append(running.wait())
            if not ended.is_set():
                running = server.start(CLIENTS, requests)

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        running.terminate()
        thread.join(DEADLINE_S)
        running.kill()
        running.wait()
    # The last one was ended by us.
    assert not any(statuses[:-1]), statuses


def report_of(path: Path) -> Report:
    with open_recording(path) as recording:
        return make_report(recording, Selection(), 20)


def futexes_of(path: Path) -> Futexes:
    with open_recording(path) as recording:
        found = read_futexes(recording, recording.locks())
    assert found is not None
    return found


def processes_of(path: Path) -> set[int]:
    """All whose waits are in the recording, in the kernel or in user space."""
    with Recording(path) as result:
        return {row[0] for row in result.rows("SELECT DISTINCT tgid FROM waiter WHERE tgid > 0")}


def test_memcached_under_load(live: Path, cache: Server, recording: Path) -> None:
    with (
        loaded(cache, 500),
        Collector(live, recording, "--futex", "-p", str(cache.pid)),
        Recording(recording) as result,
    ):
        wait_for(lambda: result.waits() > ENOUGH, "lock waits of memcached")
        wait_for(lambda: result.number("SELECT sum(calls + wakes) FROM futex_total") > 0, "futex calls of memcached")
    assert processes_of(recording) == {cache.pid}
    threads = threads_of(cache.pid)
    with Recording(recording) as result:
        waiting = {row[0] for row in result.rows("SELECT tid FROM waiter WHERE tgid = ?", cache.pid)}
        assert waiting <= threads
        assert not result.loss("futex_no_row") + result.loss("futex_no_slot") + result.loss("table_full")
    # It has nothing but mutexes and conditions: what is called a lock is a mutex, owned by one of its threads.
    found = futexes_of(recording)
    assert {futex.nature for futex in found.futexes} <= {LOCK, CONDITION, POLL, NONE}
    for futex in found.futexes:
        if futex.nature == LOCK:
            assert futex.total.value_2
            assert {task.tid for task in futex.tasks} <= threads


def test_memcached_at_rest(live: Path, cache: Server, recording: Path) -> None:
    """Its workers wait for connections, its maintainers for conditions: hours of it are no contention."""
    with Collector(live, recording, "--futex", "-p", str(cache.pid), "-I", "0.2"), Recording(recording) as result:
        wait_for(lambda: result.number("SELECT max(id) FROM interval") > 5, "intervals")
    report = report_of(recording)
    # What keeps house may meet there: that is a wait for a lock, of no weight.
    assert report.futexes is None or report.futexes.wait_ns(LOCK) + report.futexes.wait_ns(PARKED) < MS_100
    assert {finding.rule for finding in report.findings} <= {"shared-clock"}


@pytest.mark.laboratory
def test_postgresql_under_load(live: Path, database: Server, recording: Path) -> None:
    """Backends wait for lightweight locks on a semaphore each, and wake each other: no idle workers."""
    with (
        loaded(database, 1_000_000),
        Collector(live, recording, "--futex", "-p", str(database.pid)),
        Recording(recording) as result,
    ):
        wait_for(lambda: result.waits() > ENOUGH, "lock waits of PostgreSQL")
        wait_for(lambda: result.number("SELECT sum(samples) FROM futex_sample") > 4 * ENOUGH, "samples")
    backends = processes_of(recording)
    # The postmaster that was named waits for none of them; its children do.
    assert len(backends) >= CLIENTS
    found = futexes_of(recording)
    waited = [futex for futex in found.futexes if futex.figures.waits]
    assert {futex.nature for futex in waited} <= {PARKED, SEMAPHORE, UNCLEAR}
    assert all(futex.futex.shared and futex.futex.object.startswith("/dev/zero") for futex in waited)
    # A wake belongs to the semaphore of the backend that it wakes, though others have it in their own memory.
    assert sum(futex.total.tasks_woken for futex in waited) >= sum(futex.figures.waits for futex in waited) * 0.9
    assert found.wait_ns(PARKED) >= 0.9 * sum(found.wait_ns(nature) for nature in NATURES)
    (found_lock,) = [told(finding) for finding in report_of(recording).findings if finding.rule == "parked-lock"]
    assert found_lock.title.startswith("Processes of postgres wait for each other")
    with Recording(recording) as result:
        assert not result.loss("futex_no_row")


@pytest.mark.laboratory
def test_sessions_that_wait_for_a_row(database: Server) -> None:
    """Each transaction updates the one branch: at each moment one session has it, and the others wait for that one."""
    with loaded(database, 1_000_000):
        seen = wait_for(lambda: look_at_sleeps(Target(("-p", str(database.pid)), ""), 1).sessions, "sessions that wait")
    assert seen.comm == "postgres"
    assert seen.statement == "UPDATE"
    assert seen.waiters <= CLIENTS - 1
    assert seen.left == 0
    # Backends end a moment after their clients.
    wait_for(lambda: look_at_sleeps(Target(("-p", str(database.pid)), ""), 1).sessions is None, "rest")


@pytest.mark.laboratory
def test_postgresql_at_rest(live: Path, database: Server, recording: Path) -> None:
    with Collector(live, recording, "--futex", "-p", str(database.pid), "-I", "0.2"), Recording(recording) as result:
        wait_for(lambda: result.number("SELECT max(id) FROM interval") > 5, "intervals")
    report = report_of(recording)
    assert report.futexes is None or report.futexes.wait_ns(LOCK) + report.futexes.wait_ns(PARKED) < MS_100
    assert {finding.rule for finding in report.findings} <= {"shared-clock"}


@pytest.mark.laboratory
def test_children_that_the_postmaster_has_already(live: Path, database: Server, recording: Path) -> None:
    """A recording that begins under load has the waits of backends that were there before."""
    with loaded(database, 2000):
        there = wait_for(lambda: backends if len(backends := database.children()) >= CLIENTS else None, "backends")
        with Collector(live, recording, "-p", str(database.pid)), Recording(recording) as result:
            wait_for(lambda: result.waits() > ENOUGH, "lock waits of PostgreSQL")
    assert processes_of(recording) & there


@pytest.mark.laboratory
def test_a_benchmark_that_is_ended_leaves_nothing(live: Path) -> None:
    """Neither the server's files, nor its control group, nor the collector."""
    command = [sys.executable, TOP / "scripts" / "bench-servers", "--server", "memcached", "--seconds", "0.1"]
    with tempfile.TemporaryDirectory() as directory:
        # The server's user looks for its own directory in it.
        Path(directory).chmod(0o755)
        environment = {**os.environ, "TMPDIR": directory}
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
        lines = Lines(process.stderr)
        try:
            said = lines.next("word of the first measurement")
            if "not installed" in said:
                pytest.skip(said)
            assert said.startswith("bench-servers: memcached,"), said
            wait_for(lambda: list(Path(directory).glob("*/bench.lockline")), "recording")
            process.terminate()
            assert process.wait(DEADLINE_S) == 128 + signal.SIGTERM, lines.rest()
        finally:
            process.kill()
            process.wait(DEADLINE_S)
        assert list(Path(directory).iterdir()) == []
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()]
    groups = [Path(words[1]) / f"lockline-bench-{process.pid}" for words in mounts if words[2] == "cgroup2"]
    assert not any(group.exists() for group in groups)
