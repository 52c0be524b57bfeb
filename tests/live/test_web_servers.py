# SPDX-License-Identifier: GPL-2.0-or-later
"""Servers whose contention is known: in Go, Java and Python, nginx, and MariaDB whose clients want one row.

Each loaded (the finding is right, and its sum is the server's own) and at rest (no finding).
"""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import web_servers
from lockline.analysis.model import Report
from lockline.analysis.selection import Selection
from lockline.analysis.user_space.futex_waits import LOCK, PARKED, FutexWaits
from lockline.analysis.user_space.user_evidence import GIL, GO_MUTEX, MONITOR, ROW_LOCK, TABLE_LOCK
from lockline.recording.reader import open_recording
from lockline.rules.report import make_report
from servers import NoServerError, Server, mariadb, program
from support import Collector, Recording, running, wait_for

CLIENTS = 16
MS_100 = 100_000_000
# Their load takes most of the time: in a tier of its own.
pytestmark = pytest.mark.laboratory

NEAR = 0.1
# Five times that of 25 looks: a starved machine makes fewer.
LOOKS_ERROR = 0.5
KINDS = {
    "Go": web_servers.go,
    "Java": web_servers.java,
    "Python": web_servers.python,
    "gunicorn": web_servers.gunicorn,
    "nginx": web_servers.nginx,
    "MariaDB": mariadb,
}


class Servers:
    """Each is started once, when a test first wants it."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._started: dict[str, Server] = {}

    def get(self, kind: str) -> Server:
        """The server of this kind; skips the test with the reason if it is not installed."""
        if kind not in self._started:
            try:
                self._started[kind] = self._stack.enter_context(KINDS[kind]())
            except NoServerError as why:
                pytest.skip(str(why))
        return self._started[kind]

    def end(self) -> None:
        """All of them."""
        self._stack.close()


@pytest.fixture(scope="module")
def servers(live: Path) -> Iterator[Servers]:
    """The servers of this file."""
    started = Servers()
    yield started
    started.end()


def report_of(path: Path) -> Report:
    with open_recording(path) as recording:
        return make_report(recording, Selection(), 20)


def of_make(report: Report, make: str) -> list[FutexWaits]:
    found = report.futexes.futexes if report.futexes is not None else ()
    return [one for one in found if one.make == make]


def loaded(live: Path, recording: Path, server: Server, requests: int, *options: str) -> Report:
    """The report of a load that begins and ends within the recording."""
    with Collector(live, recording, "--futex", *options, "-p", str(server.pid)):
        server.run(CLIENTS, requests)
    return report_of(recording)


@pytest.mark.parametrize("kind", KINDS)
def test_at_rest(live: Path, servers: Servers, recording: Path, kind: str) -> None:
    """Hours of waiting for requests, and no contention."""
    server = servers.get(kind)
    with Collector(live, recording, "--futex", "-p", str(server.pid), "-I", "0.2"), Recording(recording) as result:
        wait_for(lambda: result.number("SELECT max(id) FROM interval") > 5, "intervals")
    report = report_of(recording)
    assert report.futexes is None or report.futexes.wait_ns(LOCK) + report.futexes.wait_ns(PARKED) < MS_100
    assert {finding.rule for finding in report.findings} <= {"shared-clock"}


def test_go_whose_handlers_take_a_mutex(live: Path, servers: Servers, recording: Path) -> None:
    """The server times each of its waits itself."""
    server = servers.get("Go")
    assert isinstance(server, web_servers.WebServer)
    before = int(server.ask("/waited"))
    report = loaded(live, recording, server, 100, "--go")
    waited = int(server.ask("/waited")) - before
    first = max(of_make(report, GO_MUTEX), key=lambda one: one.figures.wait_ns)
    assert abs(first.figures.wait_ns - waited) <= NEAR * waited
    assert report.findings[0].rule == "user-lock"
    assert "main.book" in str(report.findings[0])


def test_java_whose_handlers_take_a_monitor(live: Path, servers: Servers, recording: Path) -> None:
    """The JDK's server has monitors of its own that the same threads wait for: they are in the sum, too.

    By the server's clock a thread also waits for a CPU before it sleeps: on average as long as after it.
    """
    server = servers.get("Java")
    assert isinstance(server, web_servers.WebServer)
    # Until its methods are compiled, and its threads started.
    server.run(CLIENTS, 100)
    before = int(server.ask("/waited"))
    report = loaded(live, recording, server, 300)
    waited = int(server.ask("/waited")) - before
    monitors = of_make(report, MONITOR)
    assert all(one.nature == LOCK for one in monitors)
    known = sum(one.figures.wait_ns + one.latency.wait_ns for one in monitors)
    assert known >= (1 - NEAR) * waited
    # The handlers' own monitor is the heaviest one; its part is known by some 25 looks, with an error of 10 %.
    first = max((one for one in monitors if one.monitors), key=lambda one: one.figures.wait_ns)
    assert first.monitors[0].class_name == "java.lang.Object"
    assert abs(first.monitors[0].part * known - waited) <= LOOKS_ERROR * waited
    assert (report.findings[0].rule, report.findings[0].confidence) == ("hot-monitor", "high")


@pytest.mark.parametrize("kind", ["Python", "gunicorn"])
def test_python_whose_handlers_compute(live: Path, servers: Servers, recording: Path, kind: str) -> None:
    """Threads that do nothing but interpret: one at a time.

    Each request takes longer than the interpreter lets a thread run, so that others wait however slow the clients are.
    """
    report = loaded(live, recording, servers.get(kind), 5)
    (gil,) = of_make(report, GIL)
    assert gil.nature == LOCK
    assert (report.findings[0].rule, report.findings[0].confidence) == ("gil-bound", "high")


def test_nginx_under_load(live: Path, servers: Servers, recording: Path) -> None:
    """Its workers share nothing."""
    report = loaded(live, recording, servers.get("nginx"), 1000)
    assert report.futexes is None or report.futexes.wait_ns(LOCK) == 0
    assert "user-lock" not in {finding.rule for finding in report.findings}


def asking(server: Server) -> list[str]:
    """How to ask MariaDB a question."""
    (where,) = [word.partition("=")[2] for word in server.load(1, 1) if word.startswith("--mysql-socket=")]
    return [program("mariadb"), "--no-defaults", f"--socket={where}", "-u", "root", "-N", "-B", "-e"]


def counters(server: Server) -> dict[str, int]:
    """MariaDB's own of its row locks."""
    done = subprocess.run(
        [*asking(server), "SHOW GLOBAL STATUS LIKE 'Innodb_row_lock%'"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return {name: int(value) for name, value in (line.split() for line in done.stdout.splitlines())}


def test_mariadb_whose_clients_update_one_row(live: Path, servers: Servers, recording: Path) -> None:
    """As many waits as the server counts; it times them in whole milliseconds, rounded down."""
    server = servers.get("MariaDB")
    before = counters(server)
    report = loaded(live, recording, server, 500)
    after = counters(server)
    waits, least_ms = (after[name] - before[name] for name in ("Innodb_row_lock_waits", "Innodb_row_lock_time"))
    (rows,) = of_make(report, ROW_LOCK)
    assert abs(rows.figures.waits - waits) <= NEAR * waits
    assert least_ms * (1 - NEAR) <= rows.figures.wait_ns / 1e6 <= (least_ms + waits) * (1 + NEAR)
    assert (report.findings[0].rule, report.findings[0].confidence) == ("user-lock", "high")
    assert "hot-row-lock" in str(report.findings[0])


def test_mariadb_whose_table_is_to_be_altered(live: Path, servers: Servers, recording: Path) -> None:
    """A transaction has read it; ALTER TABLE waits for that, and the readers that come later wait for ALTER TABLE."""
    server = servers.get("MariaDB")
    ask = asking(server)
    reads = "BEGIN; SELECT COUNT(*) FROM test.sbtest1; SELECT SLEEP(100)"
    waiting = "SELECT COUNT(*) FROM information_schema.processlist WHERE state LIKE 'Waiting for table metadata lock'"
    statements = [reads, "ALTER TABLE test.sbtest1 ADD COLUMN more INT", *[reads] * 3]
    with ExitStack() as clients:
        for number, statement in enumerate(statements):
            clients.enter_context(running(*ask, statement))
            # The transaction has read when it sleeps; the others come one after the other.
            state = waiting if number else waiting.replace("Waiting for table metadata lock", "User sleep")
            asked = [*ask, state]
            least = max(1, number)
            wait_for(lambda a=asked, n=least: int(subprocess.check_output(a)) >= n, "a statement that waits")
        with Collector(live, recording, "--futex", "-p", str(server.pid)), Recording(recording) as result:
            wait_for(lambda: result.number("SELECT count(*) FROM futex_sample"), "samples")
            wait_for(lambda: (result.number("SELECT sum(timed_out) FROM futex_total") or 0) > 12, "waits of a second")
    (tables,) = of_make(report_of(recording), TABLE_LOCK)
    assert len(tables.words) + 1 >= len(statements) - 1
    found = report_of(recording).findings[0]
    assert (found.rule, found.confidence) == ("user-lock", "high")
    assert "hot-table-lock" in str(found)


def test_mariadb_whose_clients_read_one_row(live: Path, servers: Servers, recording: Path) -> None:
    """Who only reads waits for no row."""
    server = servers.get("MariaDB")
    reads = ["oltp_point_select" if word.startswith("oltp_") else word for word in server.load(CLIENTS, 100)]
    with Collector(live, recording, "--futex", "-p", str(server.pid)):
        subprocess.run(reads, stdout=subprocess.DEVNULL, check=True, timeout=600)
    assert of_make(report_of(recording), ROW_LOCK) == []
