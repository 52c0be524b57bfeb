# SPDX-License-Identifier: GPL-2.0-or-later
"""An address that another object has got is another lock: with a name, and waits, of its own."""

import subprocess
import sys
from pathlib import Path

from support import Collector, Recording, wait_for

# Threads that wait for the map of their own memory.  By ctypes, which lets go of the GIL: those of the module mmap keep
# it in the call, and wait for that instead.
PROGRAM = """
import ctypes, sys, threading
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
SIZE, READ_WRITE, PRIVATE_ANONYMOUS_POPULATE = 1 << 20, 3, 0x8022
go_on = True
def churn():
    while go_on:
        libc.munmap(libc.mmap(None, SIZE, READ_WRITE, PRIVATE_ANONYMOUS_POPULATE, -1, 0), SIZE)
threads = [threading.Thread(target=churn) for _ in range(4)]
for thread in threads:
    thread.start()
print("ready", flush=True)
sys.stdin.read()
go_on = False
"""
MMAP_LOCK = "SELECT id, address FROM lock WHERE name = 'mm_struct.mmap_lock' AND instance = ?"
MOST_PROCESSES = 60


def locks_of(recording: Path, pid: int) -> list[tuple[int, int]]:
    """Id and address of the locks that the recording says are of that process's memory map."""
    with Recording(recording) as result:
        return [(int(row[0]), int(row[1])) for row in result.rows(MMAP_LOCK, f"pid {pid}")]


def intervals(recording: Path) -> int:
    with Recording(recording) as result:
        return result.number("SELECT max(id) FROM interval")


def live_once(recording: Path) -> int:
    """One process that waits until it is in the recording; its address."""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        wait_for(lambda: locks_of(recording, process.pid), f"the mmap_lock of process {process.pid}")
        process.communicate()
        # A pause, in which whoever gets the address next does not wait yet.
        ended = intervals(recording)
        wait_for(lambda: intervals(recording) > ended + 3, "further intervals")
        ((_, address),) = locks_of(recording, process.pid)
    return address


def test_the_next_process_at_an_address_has_its_own_lock(live: Path, recording: Path) -> None:
    collector = Collector(live, recording, "-a", "-I", "0.1").attached()
    addresses: list[int] = []
    while len(set(addresses)) == len(addresses):
        assert len(addresses) < MOST_PROCESSES, "no address was used again"
        addresses.append(live_once(recording))
    assert collector.stop() == 0, collector.errors()
    with Recording(recording) as result:
        assert result.loss("locks_reused") > 0
        assert result.begins() == result.begins_accounted()
        for table in ("cell_total", "wait_interval"):
            assert result.rows(f"SELECT sum(waits) FROM {table}") == result.rows("SELECT sum(waits) FROM lock_total")
