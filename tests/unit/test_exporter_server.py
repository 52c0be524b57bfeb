# SPDX-License-Identifier: GPL-2.0-or-later
"""The exporter's answers, while the metrics are brought up to date."""

import threading
import urllib.request

from lockline.cli.exporter import _Page, _Server


class Growing(_Page):
    """One that is longer each time it is looked at."""

    def __init__(self) -> None:
        self.looks = 0

    @property
    def text(self) -> bytes:  # type: ignore[override]
        self.looks += 1
        return b"locks 1\n" * self.looks


def test_an_answer_is_of_one_moment() -> None:
    """Its length and its text."""
    server = _Server(("127.0.0.1", 0), Growing())
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        for looks in (1, 2):
            with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/metrics", timeout=60) as answer:
                assert answer.read() == b"locks 1\n" * looks
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
