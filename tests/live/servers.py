# SPDX-License-Identifier: GPL-2.0-or-later
"""Real servers under load, Debian's memcached, PostgreSQL and MariaDB.

They are unprivileged, with sockets and directories of their own.  Nothing of the machine's own services is touched,
and nothing is left.  As root: servers do not run as root, and become `nobody`.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

DEADLINE_S = 120.0
USER, GROUP = "nobody", "nogroup"


class NoServerError(Exception):
    """The server or its load generator is not here, or does not start; the text says why."""


@dataclass(frozen=True)
class Server:
    """A server that takes requests.

    load: the command for so many clients and requests of each, which ends when all are answered.
    """

    name: str
    pid: int
    load: Callable[[int, int], list[str]]

    def start(self, clients: int, requests: int) -> "subprocess.Popen[bytes]":
        """The load, running, to be ended by who started it."""
        return subprocess.Popen(
            self.load(clients, requests),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def run(self, clients: int, requests: int) -> float:
        """Answers so many requests to each client; requests a second, as the load generator counts and times them."""
        done = subprocess.run(
            self.load(clients, requests),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=10 * DEADLINE_S,
            check=False,
        )
        found = re.search(r"(?:tps = |TPS: |transactions: .*\(|Requests per second: +)([\d.]+)", done.stdout)
        if done.returncode or not found:
            raise NoServerError(f"the load of {self.name} failed: {(done.stderr or done.stdout).strip()[-300:]}")
        return float(found[1])

    def children(self) -> set[int]:
        """The processes that it has started and that live."""
        return set(_descendants(self.pid))


def threads_of(pid: int) -> set[int]:
    """Ids of the process's threads."""
    return {int(path.name) for path in Path(f"/proc/{pid}/task").iterdir()}


def program(*names: str) -> str:
    """The first of these programs that is here; PostgreSQL's newest, which Debian keeps out of PATH."""
    for name in names:
        of_postgresql = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[4]))
        found = str(of_postgresql[-1]) if of_postgresql else shutil.which(name)
        if found:
            return found
    raise NoServerError(f"{names[0]} is not installed: scripts/setup test")


def _descendants(pid: int) -> list[int]:
    children = [
        int(child)
        for listed in Path(f"/proc/{pid}/task").glob("*/children")
        for child in listed.read_text(encoding="ascii").split()
    ]
    return children + [further for child in children for further in _descendants(child)]


@contextmanager
def started(command: list[str], log: Path, answers: Callable[[], bool], ask_to_end: signal.Signals) -> Iterator[int]:
    """The pid of a server that answers; ended with all that it started."""
    with log.open("w", encoding="utf-8") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=log.parent,
            user=USER,
            group=GROUP,
            extra_groups=[],
        )
    try:
        deadline = time.monotonic() + DEADLINE_S
        while not answers():
            if process.poll() is not None or time.monotonic() > deadline:
                raise NoServerError(f"{command[0]} does not start: {log.read_text(errors='replace').strip()[-300:]}")
            time.sleep(0.05)
        yield process.pid
    finally:
        process.send_signal(ask_to_end)
        try:
            process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            for pid in (*_descendants(process.pid), process.pid):
                os.kill(pid, signal.SIGKILL)
            process.wait()


def run_in(directory: Path, *command: str) -> None:
    """A command that prepares a server, as its user."""
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=directory,
        user=USER,
        group=GROUP,
        extra_groups=[],
        check=False,
    )
    if done.returncode:
        raise NoServerError(f"{command[0]} failed: {done.stderr.strip()[-300:]}")


@contextmanager
def directory_of_server() -> Iterator[Path]:
    """An empty directory of the servers' user."""
    with tempfile.TemporaryDirectory(prefix="lockline-server-") as name:
        shutil.chown(name, USER, GROUP)
        yield Path(name)


def free_port() -> int:
    """A port of this machine that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def listens(port: int) -> bool:
    """Whether somebody takes connections at this port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def memcached(threads: int = 4) -> Iterator[Server]:
    """memcached with so many worker threads; its load gets nine times and sets once in ten requests."""
    server, load = program("memcached"), program("memcaslap", "memaslap")
    port = free_port()

    options = ["-l", "127.0.0.1", "-p", str(port), "-U", "0", "-t", str(threads), "-m", "64", "-c", "4096"]
    with (
        directory_of_server() as directory,
        started([server, *options], directory / "log", lambda: listens(port), signal.SIGTERM) as pid,
    ):
        yield Server(
            "memcached",
            pid,
            lambda clients, requests: [
                *(load, "-s", f"127.0.0.1:{port}", "-T", "1"),
                *("-c", str(clients), "-x", str(clients * requests)),
            ],
        )


@contextmanager
def _running_postgresql(directory: Path, scale: int) -> Iterator[tuple[int, tuple[str, ...]]]:
    """A new cluster in the directory, with pgbench's tables of that scale: its pid, and how to connect.

    fsync is off, since it is locks that are looked at and not disks; no autovacuum, which would run in some rounds
    alone.
    """
    settings = {"listen_addresses": "", "fsync": "off", "autovacuum": "off", "jit": "off", "max_connections": "200"}
    run = partial(run_in, directory)
    data = str(directory / "data")
    connect = ("-h", str(directory), "-U", "postgres")
    run(program("initdb"), "-D", data, "-A", "trust", "-U", "postgres", "--no-sync", "--no-locale")
    command = [program("postgres"), "-D", data, "-k", str(directory)]
    command += [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]

    def answers() -> bool:
        return subprocess.run([program("pg_isready"), "-q", *connect], check=False).returncode == 0

    with started(command, directory / "log", answers, signal.SIGINT) as pid:
        run(program("pgbench"), *connect, "-q", "-i", "-s", str(scale), "postgres")
        yield pid, connect


@contextmanager
def postgresql(scale: int) -> Iterator[Server]:
    """A PostgreSQL cluster with pgbench's tables of that scale; its load is TPC-B's."""
    with directory_of_server() as directory, _running_postgresql(directory, scale) as (pid, connect):
        yield Server(
            "PostgreSQL",
            pid,
            lambda clients, requests: [
                *(program("pgbench"), *connect, "-n", "-M", "prepared"),
                *("-c", str(clients), "-t", str(requests), "postgres"),
            ],
        )


@contextmanager
def stopped_postgresql(scale: int) -> Iterator[Path]:
    """The data of such a cluster, which nobody uses."""
    with directory_of_server() as directory:
        with _running_postgresql(directory, scale):
            pass
        yield directory / "data"


@contextmanager
def mariadb(rows: int = 1) -> Iterator[Server]:
    """MariaDB with one table of so many rows, which sysbench updates by their key: with one row, all want the same.

    The log is not waited for, since it is locks that are looked at and not disks.
    """
    sysbench = program("sysbench")
    with directory_of_server() as directory:
        where, data = str(directory / "socket"), str(directory / "data")
        server = program("mariadbd")
        words = ["--no-defaults", f"--datadir={data}"]
        run_in(directory, program("mariadb-install-db"), *words, "--auth-root-authentication-method=normal")
        words += [f"--socket={where}", "--skip-networking", "--performance-schema=on", "--max-connections=200"]
        words += ["--innodb-flush-log-at-trx-commit=0", "--innodb-lock-wait-timeout=100"]
        ask = [program("mariadb-admin"), "--no-defaults", f"--socket={where}", "-u", "root"]
        load = [sysbench, "oltp_update_non_index", f"--mysql-socket={where}", "--mysql-user=root", "--mysql-db=test"]
        load += ["--db-driver=mysql", "--tables=1", f"--table-size={rows}"]

        def answers() -> bool:
            return subprocess.run([*ask, "ping"], capture_output=True, check=False).returncode == 0

        with started([server, *words], directory / "log", answers, signal.SIGTERM) as pid:
            run_in(directory, *load, "prepare")
            yield Server(
                "MariaDB",
                pid,
                lambda clients, requests: [
                    *(*load, "--time=0", f"--threads={clients}", f"--events={clients * requests}", "run"),
                ],
            )
