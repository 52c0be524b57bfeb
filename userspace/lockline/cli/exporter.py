# SPDX-License-Identifier: GPL-2.0-or-later
"""`lockline exporter`: lock waits as metrics of Prometheus, over HTTP or as a file for node_exporter."""

import argparse
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockline.base.collector import NAME, end_with_us, finish, spawn
from lockline.base.ending import ended_by_signals
from lockline.base.errors import LocklineError
from lockline.cli.common import argument, positive
from lockline.cli.output import replace_whole
from lockline.cli.temporary import temporary

if TYPE_CHECKING:
    from lockline.export.metrics import Metrics

DEFAULT_LISTEN = "127.0.0.1:9435"
DEFAULT_INTERVAL = 15
# A recording grows with time; the next one goes on where it ended.
RECORDING_SECONDS = 3600
# Clients at once, and how long one may be silent.
MOST_CLIENTS = 64
CLIENT_SECONDS = 5


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit() and int(port) < 1 << 16):
        raise ValueError(f"'{text}' is not an address; write it as 127.0.0.1:9435 or [::1]:9435")
    return host.removeprefix("[").removesuffix("]"), int(port)


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command's parser."""
    exporter = commands.add_parser("exporter", help="lock waits as metrics of Prometheus (as root)")
    where = exporter.add_mutually_exclusive_group()
    where.add_argument(
        "--listen", type=argument(_address), metavar="ADDRESS:PORT", help=f"serve /metrics; default {DEFAULT_LISTEN}"
    )
    where.add_argument("--textfile", metavar="FILE", help="write FILE instead, for node_exporter's textfile collector")
    exporter.add_argument(
        "--once", action="store_true", help="print the metrics after one interval, or write FILE, then stop"
    )
    exporter.add_argument(
        "-i", "--input", metavar="FILE", help="show the metrics of this recording, also while it is being written"
    )
    exporter.add_argument(
        "--interval",
        type=positive,
        default=DEFAULT_INTERVAL,
        metavar="SECONDS",
        help="how often the metrics are brought up to date; default: 15",
    )
    exporter.add_argument(
        "--locks", type=positive, default=50, metavar="N", help="how many locks have a series of their own; default: 50"
    )
    exporter.add_argument(
        "--containers",
        type=positive,
        default=50,
        metavar="N",
        help="how many containers have series of their own; default: 50",
    )


class _Page:
    """What is served: the last text that was made."""

    text = b""


def _handler(page: _Page) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = CLIENT_SECONDS
        server_version = "lockline"
        sys_version = ""

        def do_GET(self) -> None:
            if self.path.partition("?")[0] != "/metrics":
                self.send_error(404, "see /metrics")
                return
            # Once: a newer page, of another length, may come meanwhile.
            text = page.text
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as http.server has it
            """Nothing: a scrape is no event."""

    return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    # At five, the default, a scrape waits a second for its connection when some come at once.
    request_queue_size = MOST_CLIENTS

    def __init__(self, address: tuple[str, int], page: _Page) -> None:
        # In the order in which they came.
        self._clients: dict[Any, None] = {}
        self._lock = threading.Lock()
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, _handler(page))

    def process_request(self, request: Any, client_address: Any) -> None:
        # Where many are slow, or pretend to be, the one that came first makes room.
        with self._lock:
            while len(self._clients) >= MOST_CLIENTS:
                oldest = next(iter(self._clients))
                del self._clients[oldest]
                with suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)
            self._clients[request] = None
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                self._clients.pop(request, None)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: a client that goes away, or sends what is no request, is no event."""


def _update(metrics: "Metrics", path: Path, arguments: argparse.Namespace) -> "Metrics":
    """The metrics with what the recording has by now."""
    from lockline.analysis.selection import Selection
    from lockline.export.metrics import advance
    from lockline.recording.reader import open_recording
    from lockline.rules.report import make_report

    with open_recording(path) as recording:
        report = make_report(recording, Selection(), 0)
    return advance(metrics, report, arguments.locks, arguments.containers)


def _put(path: Path, text: bytes) -> None:
    try:
        # Who collects it is another user.
        replace_whole(path, text, 0o644)
    except OSError as error:
        raise LocklineError(f"--textfile {path}: {error.strerror}") from error


def _check_place(path: Path) -> None:
    """Before anything is recorded, which takes an interval.  Raises LocklineError."""
    if not os.access(path.parent, os.W_OK | os.X_OK) or not path.parent.is_dir():
        raise LocklineError(f"--textfile {path}: {path.parent} is no directory to write in")


@contextmanager
def _recorded(path: Path, interval: int) -> "Iterator[subprocess.Popen[bytes]]":
    """A collector that records into the file until the block ends."""
    command = ["record", "-a", "-q", "-I", str(interval), *end_with_us()]
    command += ["-d", str(RECORDING_SECONDS), "-o", str(path)]
    process = spawn(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        finish(process)


def _followed(path: Path, arguments: argparse.Namespace) -> "Generator[Metrics, None, None]":
    """The metrics of a recording that another process makes, at each interval; it may be replaced by the next one."""
    from lockline.export.metrics import Metrics

    metrics = _update(Metrics(), path, arguments)
    while True:
        yield metrics
        time.sleep(arguments.interval)
        # Between two recordings there may be none.
        with suppress(LocklineError):
            metrics = _update(metrics, path, arguments)


def _own(arguments: argparse.Namespace) -> "Generator[Metrics, None, None]":
    """The metrics of recordings of our own, one after the other, at each interval."""
    from lockline.export.metrics import Metrics

    metrics = Metrics()
    with temporary("exporter") as directory:
        path = directory / "recording"
        while True:
            with _recorded(path, arguments.interval) as process:
                while process.poll() is None:
                    with suppress(subprocess.TimeoutExpired):
                        process.wait(arguments.interval)
                    if path.exists() and not process.returncode:
                        metrics = _update(metrics, path, arguments)
                        yield metrics
            if process.returncode:
                raise LocklineError(f"exporter: {NAME} record failed, exit code {process.returncode}")
            for file in Path(directory).iterdir():
                file.unlink()


def run(arguments: argparse.Namespace) -> tuple[str, int]:
    """What is printed, and the exit code.  Raises LocklineError."""
    from lockline.export.prometheus import load_client, render

    load_client()
    if arguments.textfile:
        _check_place(Path(arguments.textfile))
    with ExitStack() as stack:
        stack.enter_context(ended_by_signals())
        found = _followed(Path(arguments.input), arguments) if arguments.input else _own(arguments)
        # Its collector ends with it.
        stack.callback(found.close)
        if arguments.once and not arguments.textfile:
            return render(next(found)).decode(), 0
        if arguments.textfile:
            for metrics in found:
                _put(Path(arguments.textfile), render(metrics))
                if arguments.once:
                    break
            return "", 0
        _serve(found, arguments.listen or _address(DEFAULT_LISTEN), stack)
    return "", 0


def _serve(found: "Iterator[Metrics]", address: tuple[str, int], stack: ExitStack) -> None:
    """Serve the metrics until a signal comes."""
    from lockline.export.metrics import Metrics
    from lockline.export.prometheus import render

    page = _Page()
    page.text = render(Metrics())
    try:
        server = _Server(address, page)
    except OSError as error:
        raise LocklineError(f"--listen {address[0]}:{address[1]}: {error.strerror}") from error
    stack.callback(server.server_close)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    stack.callback(server.shutdown)
    print(f"lockline: http://{address[0]}:{server.server_address[1]}/metrics", file=sys.stderr, flush=True)
    for metrics in found:
        page.text = render(metrics)
