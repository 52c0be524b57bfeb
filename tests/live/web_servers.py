# SPDX-License-Identifier: GPL-2.0-or-later
"""Web servers in Go, Java and Python, and nginx, as tests/live/servers.py runs servers: what they wait for is known."""

import shutil
import signal
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from programs import go_environment
from servers import Server, directory_of_server, free_port, listens, program, started

SOURCES = Path(__file__).resolve().parent / "servers_of"
# Debian's comes with its library compiled; any other has to compile it first.
GO = shutil.which("go", path="/usr/bin") or "go"


@dataclass(frozen=True)
class WebServer(Server):
    """One whose requests for / wait for each other, and those for /free do not; load is of /."""

    port: int

    def loaded_with(self, path: str, clients: int, requests: int) -> list[str]:
        """The load generator's command for this path."""
        return _load(self.port, path)(clients, requests)

    def ask(self, path: str) -> str:
        """One answer."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=60) as answer:
            text: str = answer.read().decode()
            return text


def _load(port: int, path: str) -> Callable[[int, int], list[str]]:
    load = program("ab")

    def command(clients: int, requests: int) -> list[str]:
        return [
            *(load, "-q", "-k", "-r", "-s", "120", "-c", str(clients), "-n", str(clients * requests)),
            f"http://127.0.0.1:{port}{path}",
        ]

    return command


@contextmanager
def _serving(name: str, make: Callable[[Path, int], list[str]]) -> Iterator[WebServer]:
    """A server that takes connections; make prepares it in its directory and returns its command."""
    port = free_port()
    load = _load(port, "/")
    with directory_of_server() as directory:
        command = make(directory, port)
        # What was made here by root is read by the server's user.
        for path in directory.iterdir():
            path.chmod(0o755)
        with started(command, directory / "log", lambda: listens(port), signal.SIGTERM) as pid:
            yield WebServer(name, pid, load, port)


def go() -> AbstractContextManager[WebServer]:
    """net/http: its handlers take one sync.Mutex."""

    def make(directory: Path, port: int) -> list[str]:
        built = directory / "server"
        build = [program(GO), "build", "-o", str(built), str(SOURCES / "server.go")]
        subprocess.run(build, env=go_environment(), check=True, timeout=300)
        return [str(built), str(port)]

    return _serving("Go", make)


def java(*options: str) -> AbstractContextManager[WebServer]:
    """The JDK's com.sun.net.httpserver: 16 threads take one monitor."""

    def make(directory: Path, port: int) -> list[str]:
        subprocess.run([program("javac"), "-d", directory, SOURCES / "Server.java"], check=True, timeout=300)
        # Else each answer waits for the client's acknowledgement, and nobody for the monitor.
        given = [*options, "-Dsun.net.httpserver.nodelay=true", "-cp", str(directory)]
        return [program("java"), *given, "Server", str(port)]

    return _serving("Java", make)


def python() -> AbstractContextManager[WebServer]:
    """The standard library's server, a thread for each connection; of Debian's Python, as gunicorn's is."""
    return _serving("Python", lambda _, port: ["/usr/bin/python3", str(SOURCES / "server.py"), str(port)])


def gunicorn() -> AbstractContextManager[WebServer]:
    """One worker of eight threads; the server's pid is its parent's."""
    return _serving(
        "gunicorn",
        lambda directory, port: [
            *(program("gunicorn"), "--chdir", str(SOURCES), "-b", f"127.0.0.1:{port}", "--threads", "8", "-w", "1"),
            *("--worker-tmp-dir", str(directory), "server:application"),
        ],
    )


def nginx() -> AbstractContextManager[WebServer]:
    """Two workers, which share nothing that they would wait for."""

    def make(directory: Path, port: int) -> list[str]:
        settings = directory / "nginx.conf"
        paths = "".join(
            f"{kind}_temp_path {directory}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        settings.write_text(
            f"daemon off; worker_processes 2; pid {directory}/pid; error_log stderr; events {{}}\n"
            f"http {{ access_log off; {paths} keepalive_requests 1000000;\n"
            f"server {{ listen 127.0.0.1:{port}; location / {{ return 200 'free'; }} }} }}\n",
            encoding="utf-8",
        )
        return [program("nginx"), "-c", str(settings), "-p", str(directory), "-e", "stderr"]

    return _serving("nginx", make)
