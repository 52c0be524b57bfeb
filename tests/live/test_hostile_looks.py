# SPDX-License-Identifier: GPL-2.0-or-later
"""Processes that never let go of who looks at them, beside each command that looks at processes as root.

tests/workloads/stuck_memory.c has the ways.  Whoever reads such a page, opens such a file or reads such a list of
mappings itself waits for good, and no signal ends it.
"""

import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from support import Collector, Recording, Workload, wait_for

TOP = Path(__file__).resolve().parents[2]
SOMEBODY = "65534"
# Longer than any of these commands takes: one that hangs does so for good.
DEADLINE_S = 240
WAYS = ("stick", "nap", "code", "jvm", "lock")
WAITS = 20


@pytest.fixture(autouse=True)
def fuse() -> None:
    """Skips where no file system can be served."""
    if not Path("/dev/fuse").exists():
        pytest.skip("no FUSE here: /dev/fuse is missing")


@pytest.fixture
def stuck(live: Path) -> Iterator[Callable[[str], Workload]]:
    """Makes processes that are stuck in a way."""
    with ExitStack() as stack:

        def start(way: str) -> Workload:
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="neighbour-"))
            Path(directory).chmod(0o755)
            neighbour = stack.enter_context(Workload(live, "stuck_memory", SOMEBODY, directory))
            assert neighbour.do(way)["event"] == "stuck"
            return neighbour

        yield start


def ended(process: subprocess.Popen[str], what: str) -> str:
    """What a process has printed, which ends by itself or by the signal that it got."""
    try:
        return process.communicate(timeout=DEADLINE_S)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        pytest.fail(f"{what} hangs")


def lockline(live: Path, *arguments: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [live / "bin/lockline", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


@pytest.mark.parametrize("way", WAYS)
def test_why_ends(live: Path, stuck: Callable[[str], Workload], way: str) -> None:
    neighbour = stuck(way)
    process = lockline(live, "why", "-p", str(neighbour.pid), "-d", "6", "--max-overhead", "100%")
    out = ended(process, f"lockline why beside {way}")
    assert process.returncode == 0, out
    assert "ANSWER" in out
    # It has looked: a step in /proc and one of futexes were made.
    assert re.search(r"^STEPS.*", out, re.MULTILINE | re.DOTALL), out
    assert {"futex", "sleeps"} <= set(re.findall(r"step \d+, (\w+)", out)), out
    # What was not read may be a lock.  The time may be over before a read is given up: its stacks have no names then.
    assert "SURE     high" not in out, out
    assert re.search("what the threads of those processes wait for: |which futex is a lock that nobody releases: ", out)


def test_experiment_ends(live: Path, stuck: Callable[[str], Workload], two_cpus: None) -> None:
    pid = stuck("stick").pid
    (line,) = [line for line in Path(f"/proc/{pid}/maps").read_text().splitlines() if line.endswith("/word")]
    address = int(line.partition("-")[0], 16)
    process = lockline(live, "experiment", "--nice", f"{pid}=5", "--progress", f"memory:{pid}:{address:#x}")
    out = ended(process, "lockline experiment")
    assert process.returncode == 1, out
    assert "does not come" in out


def test_a_recording_goes_on_beside_all(
    live: Path, recording: Path, tmp_path: Path, stuck: Callable[[str], Workload]
) -> None:
    """Futexes and stacks of all of them are wanted; an honest one's still have names, and Ctrl-C ends it.

    Stacks are sampled, and of the whole machine most would be of whatever runs beside this test: a second recording, of
    these processes alone, has those of the honest one.
    """
    options = ("--futex", "--user-stacks", "--interval", "200ms")
    collectors = [Collector(live, recording, "-a", *options).attached()]
    neighbours = [stuck(way) for way in WAYS]

    def count(path: Path, query: str, *values: object) -> int:
        with Recording(path) as result:
            return result.number(query, *values)

    with Workload(live, "futex_mutex") as honest:
        chosen = tmp_path / "chosen.lockline"
        pids = ",".join(str(process.pid) for process in (honest, *neighbours))
        collectors.append(Collector(live, chosen, "-p", pids, *options).attached())

        def count_while_it_waits(path: Path, query: str) -> int:
            honest.do("lock 20 2000")
            return count(path, query, honest.pid)

        given_up = "SELECT value FROM cost WHERE name = 'reads_given_up'"
        mutex = "SELECT count(*) FROM futex WHERE tgid = ? AND name = 'held_mutex'"
        for path in (recording, chosen):
            wait_for(lambda path=path: count(path, given_up) > 0, "a read given up")
            wait_for(lambda path=path: count_while_it_waits(path, mutex), "the name of an honest mutex")
        stack = "SELECT count(*) FROM frame WHERE tgid = ? AND symbol <> ''"
        wait_for(lambda: count_while_it_waits(chosen, stack), "the name of an honest frame")
        for collector in collectors:
            assert collector.stop() == 0, collector.errors()
    for path in (recording, chosen):
        with Recording(path) as result:
            assert result.integrity() == "ok"
            assert result.begins_accounted() == result.begins() + result.loss("slow_paths")
            assert result.rows("SELECT value FROM meta WHERE name = 'state'") == [("complete",)]


def test_a_jvm_whose_memory_never_comes(live: Path, recording: Path, stuck: Callable[[str], Workload]) -> None:
    """Its waits are counted as ever, its stacks have no names, and the report says why."""
    neighbour = stuck("jvm")
    slept = "SELECT total(slept) FROM futex_total JOIN futex ON futex.id = futex WHERE tgid = ?"
    given_up = "SELECT value FROM cost WHERE name = 'reads_given_up'"

    def count(query: str, *values: object) -> int:
        with Recording(recording) as result:
            return result.number(query, *values)

    with Collector(live, recording, "--futex", "-p", str(neighbour.pid), "--interval", "200ms"):
        wait_for(lambda: count(given_up) > 0, "a read given up")
        before = count(slept, neighbour.pid)
        wait_for(lambda: count(slept, neighbour.pid) >= before + WAITS, "waits after that")
    out = ended(lockline(live, "report", recording), "lockline report")
    assert "did not end: names of functions and locks may be missing there" in " ".join(out.split()), out


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_top_goes_on_and_ends(live: Path, stuck: Callable[[str], Workload], end: signal.Signals) -> None:
    for way in WAYS:
        stuck(way)
    with tempfile.TemporaryDirectory(prefix="neighbour-", ignore_cleanup_errors=True) as name:
        (Path(name) / "files").mkdir()
        Path(name).chmod(0o777)
        with Workload(live, "neighbour", SOMEBODY, name, "names", "fifo", "changing"):
            process = lockline(live, "top", "--batch", "--futex", "--holders")
            assert process.stdout is not None
            os.set_blocking(process.stdout.fileno(), False)
            seen = b""

            def intervals() -> int:
                nonlocal seen
                with suppress(BlockingIOError):
                    seen += os.read(process.stdout.fileno(), 1 << 20)
                return seen.count(b"lockline ")

            try:
                wait_for(lambda: intervals() >= 4, "four intervals of top")
            finally:
                process.send_signal(end)
            os.set_blocking(process.stdout.fileno(), True)
            text = seen.decode() + ended(process, "lockline top")
    assert process.returncode in (130, 128 + end, -end), text
    assert all(line.isprintable() for line in text.split("\n")), "escape codes of a neighbour reach the terminal"


class Client:
    """One that harms a server: it sends this, and then does nothing."""

    def __init__(self, port: int, sent: bytes, reset: bool = False) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S)
        # It has read the rest, or has hung up.
        with suppress(OSError):
            self.socket.sendall(sent)
        if reset:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.socket.close()


REQUESTS = {
    "silent": b"",
    "half a line": b"GET /met",
    "half a header": b"GET /metrics HTTP/1.1\r\nHost: a",
    "a line of a megabyte": b"GET /" + b"a" * (1 << 20) + b" HTTP/1.1\r\n\r\n",
    "a header of a megabyte": b"GET /metrics HTTP/1.1\r\nX: " + b"a" * (1 << 20) + b"\r\n\r\n",
    "a million headers": b"GET /metrics HTTP/1.1\r\n" + b"X: a\r\n" * 100_000 + b"\r\n",
    "a body that never comes": b"POST /metrics HTTP/1.1\r\nContent-Length: 1000000000\r\n\r\n",
    "no HTTP": bytes(range(256)) * 100,
    "an answer that nobody reads": b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n" * 1000,
}
ROUNDS = 20


def status_of(pid: int, name: str) -> int:
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith(f"{name}:")]
    return int(line.split()[1])


def test_the_exporter_goes_on_and_ends(live: Path, stuck: Callable[[str], Workload]) -> None:
    for way in WAYS:
        stuck(way)
    with tempfile.TemporaryDirectory(prefix="neighbour-", ignore_cleanup_errors=True) as name:
        (Path(name) / "files").mkdir()
        Path(name).chmod(0o777)
        with Workload(live, "neighbour", SOMEBODY, name, "names"):
            process = subprocess.Popen(
                [sys.executable, "-m", "lockline", "exporter", "--listen", "127.0.0.1:0", "--interval", "1"],
                stderr=subprocess.PIPE,
                text=True,
                cwd=TOP / "userspace",
            )
            assert process.stderr is not None
            clients: list[Client] = []
            try:
                found = re.search(r":(\d+)/metrics", process.stderr.readline())
                assert found
                port = int(found[1])

                def scrape() -> float:
                    """Seconds that were recorded, of an answer that a parser takes."""
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=DEADLINE_S) as answer:
                        text = answer.read().decode()
                    assert "\x1b" not in text
                    found = {
                        sample.name: sample.value
                        for family in text_string_to_metric_families(text)
                        for sample in family.samples
                    }
                    return found.get("lockline_recorded_seconds_total", 0.0)

                wait_for(lambda: scrape() > 0, "metrics")
                before = scrape()
                for number in range(ROUNDS):
                    clients += [Client(port, sent, reset=number % 4 == 3) for sent in REQUESTS.values()]
                    assert scrape() >= before
                assert len(clients) > 2 * 64
                # One thread for each client that it bears, and its own few.
                assert status_of(process.pid, "Threads") < 64 + 16
                wait_for(lambda: scrape() > before, "newer metrics beside all these clients")
                with pytest.raises(urllib.error.HTTPError):
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/other", timeout=DEADLINE_S)
            finally:
                process.terminate()
                rest = process.communicate(timeout=DEADLINE_S)[1]
                for client in clients:
                    client.socket.close()
    assert rest == ""
    assert process.returncode == 128 + signal.SIGTERM
