# SPDX-License-Identifier: GPL-2.0-or-later
"""What systemd hears of a recording: that it records, that it is alive, and that it stops."""

import os
import signal
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import Collector

SECONDS = 60


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A socket as systemd's; collectors get its name, and a watchdog's interval."""
    with tempfile.TemporaryDirectory() as directory, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as opened:
        name = f"{directory}/notify" if request.param == "path" else f"@lockline-test-{os.getpid()}"
        opened.bind(name if request.param == "path" else "\0" + name[1:])
        opened.settimeout(SECONDS)
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        monkeypatch.setenv("WATCHDOG_USEC", "200000")
        yield opened


def rest(opened: socket.socket) -> list[bytes]:
    """All that is there, and comes until nothing has come for a second."""
    opened.settimeout(1)
    heard = []
    try:
        while True:
            heard.append(opened.recv(100))
    except TimeoutError:
        opened.settimeout(SECONDS)
        return heard


def test_it_is_ready_alive_and_stops(live: Path, recording: Path, manager: socket.socket) -> None:
    with Collector(live, recording, "-a") as collector:
        heard = [manager.recv(100) for _ in range(4)]
        assert heard == [b"READY=1", *[b"WATCHDOG=1"] * 3]
        # One that does not run is not alive.
        collector.process.send_signal(signal.SIGSTOP)
        rest(manager)
        collector.process.send_signal(signal.SIGCONT)
        assert manager.recv(100) == b"WATCHDOG=1"
        assert collector.stop() == 0
    assert rest(manager)[-1] == b"STOPPING=1"


def test_the_watchdog_of_another_is_left_alone(
    live: Path, recording: Path, manager: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_PID", "1")
    with Collector(live, recording, "-a", "-d", "0.5") as collector:
        assert collector.process.wait(SECONDS) == 0
    assert [manager.recv(100) for _ in range(2)] == [b"READY=1", b"STOPPING=1"]
