# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads of other processes' memory: what is there, what is not, and a reader that never answers."""

import ctypes
import mmap
import os
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from lockline.base import patience
from lockline.base.patience import Reader, left_alone
from lockline.cli.why_memory import Memory
from lockline.investigation import probes

pytestmark = pytest.mark.usefixtures("build")


def test_memory_and_mappings() -> None:
    content = ctypes.create_string_buffer(b"in our memory")
    with Reader() as reader:
        assert reader.memory(os.getpid(), ctypes.addressof(content), 13) == b"in our memory"
        assert sys.executable.rpartition("/")[2][:6] in reader.maps(os.getpid())
        assert left_alone() == 0


@pytest.mark.parametrize(
    ("access", "shared"),
    [(mmap.ACCESS_WRITE, True), (mmap.ACCESS_READ, False), (mmap.ACCESS_COPY, False)],
    ids=["shared", "read", "copy"],
)
def test_memory_that_another_process_can_write(tmp_path: Path, access: int, shared: bool) -> None:
    """The word of a lock in it may name a thread of that process as its owner; in others it lies."""
    path = tmp_path / "memory"
    path.write_bytes(bytes(4096))
    holds = "import mmap, sys; f = open(sys.argv[1], 'r+b'); m = mmap.mmap(f.fileno(), 4096, access=int(sys.argv[2]))"
    command = [sys.executable, "-c", f"{holds}; print(1, flush=True); input()", path, str(access)]
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 4096) as ours, Memory() as memory:
        word = ctypes.c_char.from_buffer(ours)
        address = ctypes.addressof(word)
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == b"1\n"
            assert memory.shared_with(os.getpid(), address, other.pid) == shared
            # What is not in that file.
            assert not memory.shared_with(os.getpid(), ctypes.addressof(ctypes.c_int()), other.pid)
            other.communicate(b"\n")
        del word


def test_a_mutex_and_what_its_owner_does() -> None:
    """Between two reads of the mutex stand the state of the thread, where it sleeps, its call and its CPU time."""
    asleep = threading.Event()
    thread = threading.Thread(target=asleep.wait)
    thread.start()
    assert thread.native_id is not None
    mutex = ctypes.create_string_buffer(struct.pack("=IIi", 2, 0, thread.native_id), 12)
    try:
        with Reader() as reader:
            seen = reader.holder(os.getpid(), ctypes.addressof(mutex))
            assert seen is not None
            before, after, (stat, wchan, syscall, schedstat) = seen
            assert before == after == mutex.raw
            assert stat.startswith(f"{thread.native_id} (")
            assert wchan.startswith("futex")
            assert syscall.split()[0].isdigit()
            assert len(schedstat.split()) == 3
            # It names a thread of another process, or nobody.
            for tid in (1, 0, 0x7FFFFFFF):
                nobody = ctypes.create_string_buffer(struct.pack("=IIi", 2, 0, tid), 12)
                seen = reader.holder(os.getpid(), ctypes.addressof(nobody))
                assert seen is not None
                assert seen[2] == ("", "", "", "")
            assert reader.holder(os.getpid(), 0) is None
            assert reader.holder(4194305, 4096) is None
    finally:
        asleep.set()
        thread.join()


def test_what_is_not_there() -> None:
    with Reader() as reader:
        assert reader.memory(os.getpid(), 0, 8) == b""
        assert reader.memory(os.getpid(), 1 << 63, 8) == b""
        # PID_MAX_LIMIT is 2^22.
        assert reader.memory(4194305, 4096, 8) == b""
        assert reader.maps(4194305) == ""
        # It is known not to be there, and the reader goes on after all that.
        assert not reader.late
        assert reader.maps(os.getpid())
        assert left_alone() == 0


def test_of_more_mappings_than_can_be_paid_no_name_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their list is read no further than the budget pays for."""
    code = ctypes.cast(ctypes.CDLL(None).getpid, ctypes.c_void_p).value or 0
    with Reader() as reader:
        whole = len(reader.maps(os.getpid()))
        cut = len(reader.maps(os.getpid(), 4096))
    assert 4096 <= cut < whole
    monkeypatch.setattr(probes, "ORDINARY_MAPS_BYTES", 4096)
    with Memory(0) as memory:
        assert not memory.is_code(os.getpid(), code)
        assert not memory.affords_names(os.getpid())
        assert memory.unpaid == {os.getpid()}
    # A byte is paid for, and a page may come in its place.
    with Memory(probes.MAPS_BYTE_NS * (whole + (64 << 10))) as memory:
        assert memory.is_code(os.getpid(), code)
        assert memory.affords_names(os.getpid())
        assert not memory.unpaid


def test_a_reader_that_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is left alone with the process that it reads; others are read by a new one."""
    real, started = patience.spawn, []

    def spawn(arguments: list[str], **how: Any) -> "subprocess.Popen[bytes]":
        if not started:
            # Deaf to the question, as one that waits for a page.
            started.append(subprocess.Popen(["sleep", "600"], **how))
            return started[0]
        return real(arguments, **how)

    monkeypatch.setattr(patience, "spawn", spawn)
    # What waits for a page is not ended by a signal.
    monkeypatch.setattr(subprocess.Popen, "kill", lambda self: None)
    content = ctypes.create_string_buffer(b"x")
    with Reader() as reader:
        assert reader.memory(1, 4096, 8) == b""
        assert (left_alone(), reader.late) == (1, True)
        assert reader.memory(1, 4096, 8) == b"", "not asked a second time"
        assert reader.late
        assert reader.memory(os.getpid(), ctypes.addressof(content), 1) == b"x"
        assert left_alone() == 1
        started[0].terminate()
        started[0].wait()
        assert left_alone() == 0, "it can be read again"


def test_a_reader_that_gets_no_cpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It could run all the time: it waits for no memory."""
    ready = tmp_path / "ready"
    late = (
        "import os, sys, time\n"
        "open(sys.argv[1], 'w').close()\n"
        "os.read(0, 4096)\n"
        f"end = time.monotonic() + {2 * patience.MEMORY_SECONDS}\n"
        "while time.monotonic() < end: pass\n"
        "os.write(0, (1).to_bytes(8, 'little') + b'x')\n"
        "os.read(0, 4096)\n"
    )

    def spawn(arguments: list[str], **how: Any) -> "subprocess.Popen[bytes]":
        process = subprocess.Popen([sys.executable, "-c", late, ready], **how)
        deadline = time.monotonic() + 60
        while not ready.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        return process

    monkeypatch.setattr(patience, "spawn", spawn)
    with Reader() as reader:
        assert reader.memory(os.getpid(), 4096, 1) == b"x"
        assert left_alone() == 0
