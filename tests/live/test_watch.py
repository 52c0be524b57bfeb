# SPDX-License-Identifier: GPL-2.0-or-later
"""Cache lines under watchpoints, on this machine's debug registers: transfers whose true number is known."""

import json
import math
import os
import platform
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from registers import REGISTERS
from support import DEADLINE_S, Collector, Recording, Workload, running, wait_for

TOP = Path(__file__).resolve().parents[2]
# The eighths of the line that hold both members of ping_pong.
MEMBERS = ("--offsets", "0-7,24-31")


pytestmark = pytest.mark.usefixtures("debug_registers")


def target(workload: Workload) -> str:
    """The first line of ping_pong."""
    return f"user:{workload.pid}:ping_pong_lines"


@contextmanager
def watching(build: Path, output: Path, *arguments: str) -> Iterator[Collector]:
    """A watch that has begun."""
    with Collector(build, output, *arguments, command="watch") as collector:
        yield collector


def refuse(build: Path, output: Path, *arguments: str) -> str:
    """What is said of a watch that cannot be."""
    done = subprocess.run(
        [build / "bin" / "lockline-collect", "watch", "-o", output, "-d", "1", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert not output.exists(), "a refusal leaves no recording"
    return done.stderr


def windows(recording: Recording) -> dict[str, int]:
    """Sums over all windows."""
    names = ("count(*)", "sum(length_ns)", "sum(hits)", "sum(lost)", "sum(transfers)")
    row = recording.rows(f"SELECT {', '.join(names)} FROM watch_window")[0]
    return dict(zip(("windows", "length_ns", "hits", "lost", "transfers"), (int(v or 0) for v in row), strict=True))


def ask(path: Path, query: str, *values: object) -> list[tuple[Any, ...]]:
    """The rows of one query."""
    with Recording(path) as found:
        return found.rows(query, *values)


def stores(recording: Recording) -> dict[int, int]:
    """By offset."""
    return dict(recording.rows("SELECT offset, sum(stores) FROM memory_access GROUP BY offset HAVING sum(stores)"))


@pytest.mark.parametrize("order", ["tokens", "turns"])
@pytest.mark.parametrize(("members", "second"), [("same", 0), ("line", 24)])
def test_every_transfer_is_counted(live: Path, recording: Path, members: str, second: int, order: str) -> None:
    count = 2000 if order == "tokens" else 100  # who takes turns looks until it has one, each look a hit
    with (
        Workload(live, "ping_pong", members, order) as workload,
        watching(live, recording, target(workload), "--full", *MEMBERS),
    ):
        workload.do(f"go {count} 0")
    with Recording(recording) as found:
        seen = windows(found)
        # Each write is followed by the other side's access but the last.
        # An access that is stamped late, by a CPU that was taken away in between, can fall behind the next one.
        assert 2 * count - 1 - (5 if order == "turns" else 0) <= seen["transfers"] <= 2 * count - 1
        assert seen["lost"] == 0
        assert stores(found) == ({0: 2 * count} if second == 0 else {0: count, second: count})
        assert found.number("SELECT sum(transfers) FROM watch_transfer") == seen["transfers"]
        assert found.number("SELECT sum(records) FROM memory_access") == seen["hits"]
        assert found.number("SELECT count(*) FROM memory_access WHERE loads AND stores") == 0
        pairs = found.rows("SELECT DISTINCT from_cpu, cpu FROM watch_transfer ORDER BY 1")
        assert pairs == [(0, 1), (1, 0)]
        writers = found.rows("SELECT DISTINCT from_offset FROM watch_transfer WHERE from_cpu = 1")
        assert writers == [(second,)]
        assert found.rows("SELECT DISTINCT space, symbol FROM memory_code") == [("user", "run")]
        assert found.rows("SELECT symbol, symbol_offset, space, pid FROM memory_line") == [
            ("ping_pong_lines", 0, "user", workload.pid)
        ]


def test_members_of_two_lines(live: Path, recording: Path) -> None:
    """One side writes the watched line, the other only looks at it."""
    count = 2000
    with (
        Workload(live, "ping_pong", "lines", "tokens") as workload,
        watching(live, recording, target(workload), "--full", *MEMBERS),
    ):
        workload.do(f"go {count} 0")
    with Recording(recording) as found:
        seen = windows(found)
        assert seen["transfers"] == count
        assert stores(found) == {0: count}
        assert found.rows("SELECT DISTINCT from_cpu, cpu FROM watch_transfer") == [(0, 1)]


def test_lines_of_their_own_have_no_transfers(live: Path, recording: Path) -> None:
    with (
        Workload(live, "ping_pong", "lines", "free") as workload,
        watching(live, recording, target(workload), "--full", *MEMBERS),
    ):
        workload.do("go 5000 0")
    with Recording(recording) as found:
        assert windows(found)["transfers"] == 0
        assert stores(found) == {0: 5000}


def test_false_sharing_without_a_look(live: Path, recording: Path) -> None:
    """Two members that two threads write, each its own: the line moves, no member does."""
    with (
        Workload(live, "ping_pong", "line", "free") as workload,
        watching(live, recording, target(workload), "--full", *MEMBERS),
    ):
        workload.do("go 3000 50")
    with Recording(recording) as found:
        assert stores(found) == {0: 3000, 24: 3000}
        assert windows(found)["transfers"] > 1000
        assert found.number("SELECT sum(transfers) FROM watch_transfer WHERE from_offset = offset") == 0
        assert found.number("SELECT sum(loads) FROM memory_access") == 0


def test_windows_tell_the_rate(live: Path, recording: Path) -> None:
    """Transfers at a known rate, seen a part of the time: within the error of a count."""
    with (
        Workload(live, "ping_pong", "line", "tokens") as workload,
        watching(live, recording, target(workload), *MEMBERS),
    ):
        truth = workload.do("go 4000 100")
    with Recording(recording) as found:
        begin, end = truth["begin_ns"], truth["end_ns"]
        watched, counted = found.rows(
            "SELECT sum(length_ns), sum(transfers) FROM watch_window WHERE begin_ns >= ? AND begin_ns + length_ns <= ?",
            begin,
            end,
        )[0]
        rate = 2 * truth["writes"] / (end - begin)
        assert counted > 100
        assert 0.02 < watched / (end - begin) < 0.9, "a part of the time"
        # Four times the error of a count, and what the hits themselves hold the threads up.
        assert abs(counted / watched / rate - 1) < 4 / math.sqrt(counted) + 0.25


def test_the_budget_is_kept(live: Path, recording: Path) -> None:
    """By counts: hits times their cost, against the time of the recording."""
    with (
        Workload(live, "ping_pong", "same", "free") as workload,
        watching(live, recording, target(workload)),
    ):
        begin = time.monotonic_ns()
        while time.monotonic_ns() - begin < 2_000_000_000:
            workload.do("go 3000000 0")
    with Recording(recording) as found:
        hit_ns, share = found.rows("SELECT hit_ns, budget FROM watch")[0]
        elapsed = found.number("SELECT max(value) - min(value) FROM meta WHERE name IN ('begin_ns', 'end_ns')")
        seen = windows(found)
        assert share == 0.01
        assert hit_ns > 100
        assert seen["windows"] > 3
        assert seen["hits"] > 50
        cpus = len(os.sched_getaffinity(0))
        # Each CPU within its share; the last window is paid for after the end.
        most = found.number("SELECT max(hits) FROM watch_window")
        assert (seen["hits"] - most) * hit_ns <= share * elapsed * cpus


def test_all_of_the_line_in_turns(live: Path, recording: Path) -> None:
    """Half of it at a time, and each pair of eighths together in some window."""
    with Workload(live, "ping_pong", "same", "free") as workload:
        with watching(live, recording, target(workload)) as collector:

            def covered() -> bool:
                if not recording.exists():
                    return False
                with Recording(recording) as found:
                    sets = [row[0] % (1 << 64) for row in found.rows("SELECT offsets FROM watch_window")]
                masks = [{bit // 8 for bit in range(64) if offsets >> bit & 1} for offsets in sets]
                assert all(len(mask) <= REGISTERS for mask in masks)
                return all(any({one, other} <= mask for mask in masks) for one in range(8) for other in range(8))

            wait_for(covered, "window for each pair of eighths")
        assert collector.process.returncode == 0


def test_killed_it_leaves_no_watchpoint(live: Path, recording: Path, tmp_path: Path) -> None:
    """Another one has all registers then, at once."""
    second = tmp_path / "second.lockline"
    with Workload(live, "ping_pong", "same", "tokens") as workload:
        collector = Collector(live, recording, target(workload), "--full", command="watch").attached()
        workload.do("go 50 0")
        assert collector.stop(signal.SIGKILL) == -signal.SIGKILL
        with watching(live, second, target(workload), "--full", *MEMBERS):
            workload.do("go 50 0")
    with Recording(second) as found:
        assert found.number("SELECT value FROM meta WHERE name = 'watch_registers'") == REGISTERS
        # The last write of the first round was followed by a look in the second.
        assert windows(found)["transfers"] in (99, 100)


def test_registers_that_others_have(live: Path, recording: Path, tmp_path: Path) -> None:
    """Two are enough for two members; of none it is said who may have them."""
    second = tmp_path / "second.lockline"
    with Workload(live, "ping_pong", "same", "tokens") as workload:
        with (
            watching(live, recording, target(workload), "--full", "--offsets", "0-15"),
            watching(live, second, target(workload), "--full", *MEMBERS),
        ):
            workload.do("go 100 0")
        with watching(live, recording, target(workload), "--full", "--offsets", "0-31") as taker:
            wait_for(lambda: windows_of(recording) > 0, "window of the one that takes them")
            said = refuse(live, tmp_path / "third.lockline", target(workload))
            assert "no debug register is left" in said
            assert str(taker.process.pid) in said
    with Recording(second) as found:
        assert found.number("SELECT value FROM meta WHERE name = 'watch_registers'") in (2, 4)
        assert windows(found)["transfers"] == 199


def test_the_limit_of_files_is_its_own(live: Path, recording: Path, tmp_path: Path) -> None:
    """Raised for events of many CPUs; COMMAND has the one that it would have without."""
    told = tmp_path / "limit"
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with Workload(live, "ping_pong", "same", "tokens") as workload:
        collector = Collector(
            live,
            recording,
            target(workload),
            "--",
            "sh",
            "-c",
            f"ulimit -Sn > {told}; exec sleep 1000",
            command="watch",
        ).attached()
        wait_for(lambda: told.exists() and told.read_text(), "word of the command")
        limits = Path(f"/proc/{collector.process.pid}/limits").read_text()
        assert collector.stop() == 0
    assert int(told.read_text()) == soft
    assert re.search(rf"^Max open files\s+{hard}\s+{hard}\s", limits, re.M), limits


def test_the_bucket_of_a_futex(live: Path, recording: Path, tmp_path: Path) -> None:
    """From a recording of the waits for its lock, which the futex's own calls made; the kernel's hash has the same."""
    hashed = tmp_path / "hashed.lockline"
    found_at = tmp_path / "futexes.lockline"
    query = (
        "SELECT tgid, futex.address, lock.address FROM futex_bucket JOIN futex ON futex.id = futex JOIN lock ON"
        " lock.id = lock WHERE tgid AND futex.id > 1 AND lock.address AND futex.comm LIKE 'stress-ng%'"
        " ORDER BY waits DESC"
    )
    with running("stress-ng", "--futex", "2", "--timeout", "300", "--temp-path", tmp_path, share=0.3):
        with Collector(live, found_at, "--futex"):
            wait_for(lambda: found_at.exists() and bool(ask(found_at, query)), "waits for a futex's bucket")
        tgid, address, lock = ask(found_at, query)[0]
        said = refuse(live, recording, "-i", str(found_at), f"futex:{tgid}:{address + 4:#x}")
        assert "has no wait for the lock of this futex's hash bucket" in said
        with watching(live, recording, "-i", str(found_at), f"futex:{tgid}:{address:#x}", "--max-overhead", "5"):
            wait_for(lambda: recording.exists() and windows_of(recording) > 5, "windows of the bucket")
        with watching(live, hashed, f"futex:{tgid}:{address:#x}", "--max-overhead", "5"):
            wait_for(lambda: hashed.exists() and windows_of(hashed) > 5, "windows of the bucket")
    for file in (recording, hashed):
        with Recording(file) as found:
            query = "SELECT address, lock_offset FROM memory_line JOIN watch ON watch.line = memory_line.id"
            assert found.rows(query) == [(lock & ~63, lock & 63)]


# A thread waits for a futex, and another wakes it, for ever; arguments: the operations' flag, the kind of mapping.
FUTEX_LOAD = """
import ctypes, mmap, sys, threading, time
flag, shared = int(sys.argv[1]), sys.argv[2] == "shared"
page = mmap.mmap(-1, 4096, mmap.MAP_SHARED if shared else mmap.MAP_PRIVATE)
word = ctypes.c_int.from_buffer(page, 256)
library = ctypes.CDLL(None)
call = lambda op: library.syscall(NUMBER, ctypes.byref(word), op | flag, 0, None, None, 0)
threading.Thread(target=lambda: [call(0) for _ in iter(int, 1)], daemon=True).start()
print(ctypes.addressof(word), flush=True)
while True:
    call(1)
    time.sleep(0.001)
""".replace("NUMBER", "202" if platform.machine() == "x86_64" else "98")


@pytest.mark.parametrize("mapping", ["private", "shared"])
@pytest.mark.parametrize("flag", [0, 128], ids=["without", "with"])
def test_the_bucket_by_how_a_futex_is_used(
    live: Path, recording: Path, mapping: str, flag: int, two_cpus: None
) -> None:
    """With FUTEX_PRIVATE_FLAG and without it the kernel looks in other places: the wrong one is never accessed."""
    with subprocess.Popen(
        [sys.executable, "-c", FUTEX_LOAD, str(flag), mapping], stdout=subprocess.PIPE, text=True
    ) as load:
        try:
            assert load.stdout
            address = int(load.stdout.readline())
            with watching(live, recording, f"futex:{load.pid}:{address:#x}", "--max-overhead", "5"):
                wait_for(
                    lambda: (
                        recording.exists()
                        and ask(recording, "SELECT coalesce(sum(hits), 0) FROM watch_window") > [(20,)]
                    ),
                    "accesses to the bucket",
                )
        finally:
            load.kill()


def test_the_bucket_of_a_private_futex(live: Path, recording: Path, tmp_path: Path, two_cpus: None) -> None:
    """Where the kernel looks for it, without a recording: the lock that calls for it wait for is the same."""
    found_at = tmp_path / "futexes.lockline"
    query = (
        "SELECT futex.address, lock.address, futex.shared FROM futex_bucket JOIN futex ON futex.id = futex"
        " JOIN lock ON lock.id = lock WHERE tgid = ? AND futex.id > 1 AND lock.address ORDER BY waits DESC"
    )
    with running(live / "workloads" / "lock_load", "hand-over", "6") as load:
        with Collector(live, found_at, "--futex", "-p", str(load.pid)):
            wait_for(lambda: found_at.exists() and bool(ask(found_at, query, load.pid)), "waits for a futex's bucket")
        address, lock, shared = ask(found_at, query, load.pid)[0]
        assert not shared
        with watching(live, recording, f"futex:{load.pid}:{address:#x}", "--max-overhead", "5"):
            wait_for(lambda: recording.exists() and windows_of(recording) > 5, "windows of the bucket")
    with Recording(recording) as found:
        rows = found.rows(
            "SELECT address, lock_offset, watch.type, type_from, -type_offset FROM memory_line"
            " JOIN watch ON watch.line = memory_line.id"
        )
        assert rows == [(lock & ~63, lock & 63, "futex_hash_bucket", "futex hash", 0)]
        assert found.number("SELECT sum(hits) FROM watch_window") > 0
        # The hash is the process's own: it is known to be the same as long as that lives.
        assert found.number("SELECT count(*) FROM watch_window WHERE changed = 0")


def test_a_run_queue(live: Path, recording: Path, tmp_path: Path) -> None:
    """A kernel's line under load: members, functions of scheduling, transfers."""
    with (
        watching(live, recording, "runqueues:0", "--max-overhead", "5"),
        running("stress-ng", "--futex", "2", "--timeout", "120", "--temp-path", tmp_path),
    ):

        def seen() -> bool:
            with Recording(recording) as found:
                return windows(found)["transfers"] > 20 and windows(found)["windows"] > 20

        wait_for(lambda: recording.exists() and seen(), "transfers of a run queue")
    with Recording(recording) as found:
        assert found.rows("SELECT target, type, type_from, access_from FROM watch") == [
            ("runqueues:0", "rq", "symbol", "instruction")
        ]
        assert found.rows("SELECT symbol, space FROM memory_line") == [("runqueues", "kernel")]
        names = {row[0] for row in found.rows("SELECT symbol FROM memory_code")}
        assert any("schedule" in name or "enqueue" in name or "dequeue" in name for name in names), names
        records, known, locked = found.rows(
            "SELECT sum(records), sum(CASE WHEN loads OR stores THEN records ELSE 0 END), sum(locked)"
            " FROM memory_access"
        )[0]
        assert known >= 0.95 * records, "nearly every instruction is known"
        assert locked > 0
        assert found.number("SELECT count(*) FROM btf WHERE name = 'vmlinux'") == 1
        # Packed by zlib's fastest way: a start waits for it.
        assert found.number("SELECT hex(substr(data, 1, 2)) = '7801' FROM btf") == 1
        off, of = found.rows("SELECT sum(off), sum(records) FROM memory_interrupts")[0]
        assert 0 < off <= of == records
        assert found.number("SELECT runs > 0 OR measured_runs >= 0 FROM program WHERE name = 'watch_hit'")


def test_the_locks_waited_for_most(live: Path, recording: Path, tmp_path: Path) -> None:
    with (
        watching(live, recording, "--auto=2"),
        running(
            "stress-ng", "--futex", "2", "--dentry", "2", "--timeout", "120", "--temp-path", tmp_path, cwd=tmp_path
        ),
    ):

        def seen() -> bool:
            with Recording(recording) as found:
                return found.number("SELECT count(DISTINCT line) FROM watch_window WHERE hits") == 2

        wait_for(lambda: recording.exists() and seen(), "hits of two lines")
    with Recording(recording) as found:
        rows = found.rows(
            "SELECT lock.name, watch.target, lock.address - memory_line.address, lock_offset FROM watch"
            " JOIN lock ON lock.id = watch.lock JOIN memory_line ON memory_line.id = watch.line"
        )
        assert len(rows) == 2
        for name, chosen, distance, offset in rows:
            assert chosen.startswith(name)
            assert 0 <= distance == offset < 64


@pytest.mark.laboratory
def test_the_benchmark(live: Path) -> None:
    """It tells ratios of speeds, and what the windows took, of each pair and round that it made."""
    command = [sys.executable, TOP / "scripts" / "bench-watch", "--load", "futex", "--pairs", "2", "--rounds", "1"]
    done = subprocess.run(
        [*command, "--seconds", "0.4", "--begin", "0", "--format", "json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    (result,) = json.loads(done.stdout)["results"]
    assert (result["pairs"], result["rounds"]) == (2, 1)
    assert set(result["ratios"]) == {"watch : nothing", "record : nothing", "watch : record"}
    assert result["speed"] > 0 < result["paused"]["ratio"]
    assert result["watching"]["hits"] > 0 < result["watching"]["watched"] <= 3


def test_a_lock_of_a_recording(live: Path, recording: Path, tmp_path: Path) -> None:
    with running("stress-ng", "--futex", "2", "--timeout", "120", "--temp-path", tmp_path):
        before = tmp_path / "before.lockline"
        with Collector(live, before):

            def named() -> list[tuple[str, str]]:
                with Recording(before) as found:
                    return found.rows(
                        "SELECT name, instance FROM lock JOIN lock_total ON lock.id = lock WHERE source = ?"
                        " ORDER BY waits DESC",
                        "per-CPU symbol",
                    )

            name, instance = wait_for(lambda: before.exists() and named(), "wait for a lock of a CPU")[0]
        wanted = f"lock:{name}[{instance}]"
        with watching(live, recording, "-i", str(before), wanted, "-d", "1") as collector:
            assert collector.wait() == 0
            said = [line for line in collector.errors() if "watched for" in line]
        # Addresses of the kernel are for --addresses, which is a report's option.
        assert len(said) == 1
        assert "0x" not in said[0]
    with Recording(recording) as found, Recording(before) as old:
        address = old.number("SELECT address FROM lock WHERE name = ? AND instance = ?", name, instance)
        assert found.rows("SELECT target, address + lock_offset FROM watch JOIN memory_line ON line = id") == [
            (wanted, address)
        ]
    assert "has no such lock" in refuse(live, tmp_path / "none.lockline", "-i", str(before), "lock:nosuch")


def test_a_task_that_ends(live: Path, recording: Path) -> None:
    """Its memory is another's then, and no more watched."""
    task = subprocess.Popen(["sleep", "1000"])
    try:
        with watching(live, recording, f"task:{task.pid}.pi_lock"):
            wait_for(lambda: recording.exists() and windows_of(recording) > 1, "window of a task")
            task.kill()
            task.wait(DEADLINE_S)
            wait_for(lambda: gone(recording), "word that the task is gone")
    finally:
        task.kill()
        task.wait(DEADLINE_S)
    with Recording(recording) as found:
        assert found.rows("SELECT type, type_from FROM watch") == [("task_struct", "owner object")]
        offset = found.number("SELECT type_offset + lock_offset FROM watch")
        assert offset > 0
        assert found.number("SELECT count(*) FROM watch_window WHERE changed = 0") > 0
        assert found.number("SELECT max(begin_ns) FROM watch_window WHERE changed = 1") == found.number(
            "SELECT max(begin_ns) FROM watch_window"
        )


def test_a_process_that_ends(live: Path, recording: Path) -> None:
    """Its id may be another's then: the watch of its memory ends."""
    with Workload(live, "ping_pong", "same", "free") as workload:
        watched = target(workload)
        collector = Collector(live, recording, watched, *MEMBERS, command="watch").attached()
        wait_for(lambda: recording.exists() and windows_of(recording) > 1, "window of a process")
        assert not gone(recording, "the process has ended")
    wait_for(lambda: gone(recording, "the process has ended"), "word that the process has ended")
    assert collector.stop() == 0
    with Recording(recording) as found:
        assert found.number("SELECT count(*) FROM watch_window WHERE changed = 0") == 0
        assert found.number("SELECT max(begin_ns) FROM watch_window WHERE changed = 1") == found.number(
            "SELECT max(begin_ns) FROM watch_window"
        )


def windows_of(path: Path) -> int:
    """How many windows the recording has so far."""
    with Recording(path) as found:
        return windows(found)["windows"]


def gone(path: Path, why: str = "gone") -> bool:
    """Whether the watch says that its object is."""
    with Recording(path) as found:
        return why in found.rows("SELECT ended FROM watch")[0][0]
