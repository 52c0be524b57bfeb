# SPDX-License-Identifier: GPL-2.0-or-later
"""A server with threads: each request computes in Python (/), or does nothing (/free).

`server.py PORT` is the standard library's; gunicorn takes `server:application`.
"""

import sys
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TURNS = 200_000


def compute() -> int:
    """Some 10 ms of interpreted code, which holds the GIL."""
    total = 0
    for number in range(TURNS):
        total += number
    return total


def application(environment: dict[str, str], start: Callable[[str, list[tuple[str, str]]], object]) -> Iterable[bytes]:
    """The same by WSGI."""
    text = b"free\n" if environment["PATH_INFO"] == "/free" else b"%d\n" % compute()
    start("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(text)))])
    return [text]


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answers a request."""
        text = b"free\n" if self.path == "/free" else b"%d\n" % compute()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.send_header("Connection", "keep-alive")
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
        """Not a line for each request."""


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
