# SPDX-License-Identifier: GPL-2.0-or-later
"""How a recording starts and ends when things are not as they should be."""

import os
import signal
import sqlite3
import subprocess
import threading
from pathlib import Path

import pytest

from support import DEADLINE_S, Collector, Recording, Workload, running, wait_for


def record(live: Path, output: Path, *arguments: str | Path, prefix: tuple[str, ...] = ()) -> tuple[int, str]:
    """Exit status and messages of a recording that ends by itself."""
    command = [*prefix, live / "bin/lockline-collect", "record", "-o", output, *arguments]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stderr


def begun(path: Path) -> int:
    """When the recording began, which tells recordings apart."""
    with Recording(path) as recording:
        return recording.number("SELECT value FROM meta WHERE name = 'begin_ns'")


def test_failed_start_keeps_the_recording_before(live: Path, recording: Path) -> None:
    assert record(live, recording, "--", "true")[0] == 0
    first = begun(recording)
    assert record(live, recording, "--", "true")[0] == 0
    second = begun(recording)
    old = recording.with_name(recording.name + ".old")
    for _ in range(2):
        status, errors = record(live, recording, "--", "/no/such/command")
        assert status == 1
        assert "/no/such/command" in errors
    assert begun(recording) == second
    assert begun(old) == first
    assert {path.name for path in recording.parent.iterdir()} == {recording.name, old.name}


def test_what_is_asked_for_and_missing_is_told_at_once(live: Path, recording: Path) -> None:
    status, errors = record(live, recording, "--holds", "--ptrace", "--", "true")
    assert status == 0
    signals = {"spinlock holders", "spinlock hold times", "tracers that attach"}
    with Recording(recording) as made:
        missing = {str(row[0]) for row in made.rows("SELECT signal FROM probe WHERE state = 'unavailable'")} & signals
    told = {signal for signal in signals if f"no {signal}: " in errors}
    assert told == missing
    assert errors.count("the recording goes on without them") == len(missing)


def test_the_command_line_is_recorded(live: Path, recording: Path) -> None:
    assert record(live, recording, "-a", "--threshold", "2ms", "--", "sh", "-c", "exit $((0))")[0] == 0
    with Recording(recording) as made:
        ((line,),) = made.rows("SELECT value FROM meta WHERE name = 'command_line'")
    assert line == f"lockline record -o {recording} -a --threshold 2ms -- sh -c 'exit $((0))'"


def test_ends_when_it_has_cost_enough(live: Path, recording: Path) -> None:
    """Without -d: nothing else would end it."""
    status, errors = record(live, recording, "-a", "--max-cost", "50ms")
    assert status == 0
    assert "the CPU time of --max-cost is used up" in errors
    assert f" s to {recording}: " in errors
    assert begun(recording) > 0


def test_the_kernels_types_are_parsed_once(live: Path, recording: Path) -> None:
    """By the collector, which says nothing of it; libbpf would say that it parses a copy of its own."""
    status, messages = record(live, recording, "-v", "-v", "--", "true")
    assert status == 0
    assert "libbpf: prog 'contention_begin': relo #" in messages
    assert messages.count("loading kernel BTF") == 0


def test_link_is_refused(live: Path, recording: Path) -> None:
    target = recording.with_name("target.lockline")
    assert record(live, target, "--", "true")[0] == 0
    before = target.read_bytes()
    recording.symlink_to(target)
    status, errors = record(live, recording, "--", "true")
    assert status == 1
    assert "it is a symbolic link" in errors
    assert recording.is_symlink()
    assert target.read_bytes() == before


def test_name_that_sqlite_gives_a_meaning(live: Path, recording: Path) -> None:
    command = [live / "bin/lockline-collect", "record", "-q", "-o", ":memory:", "--", "true"]
    assert subprocess.run(command, cwd=recording.parent, timeout=120, check=False).returncode == 0
    assert begun(recording.with_name(":memory:")) > 0


def test_second_collector_on_one_file(live: Path, recording: Path) -> None:
    with Collector(live, recording, "-a") as collector:
        status, errors = record(live, recording, "-a", "-d", "1")
        assert status == 1
        assert "another lockline is recording to it" in errors
        assert collector.stop() == 0
    with Recording(recording) as result:
        assert result.integrity() == "ok"
        assert result.rows("SELECT value FROM meta WHERE name = 'state'") == [("complete",)]


def test_command_that_ignores_sigterm(live: Path, recording: Path) -> None:
    # Its own number: a search by name reads all processes' memory, and that of a test beside this one may never come.
    number = recording.with_name("number")
    status, errors = record(
        live, recording, "-d", "0.3", "--", "sh", "-c", f'trap "" TERM; echo $$ >{number}; exec sleep 1000 >&- 2>&-'
    )
    os.kill(int(number.read_text()), signal.SIGKILL)
    assert status == 0
    assert "does not end on SIGTERM" in errors
    with Recording(recording) as result:
        assert result.rows("SELECT value FROM meta WHERE name = 'state'") == [("complete",)]


def test_status_of_the_command_is_told(live: Path, recording: Path) -> None:
    status, errors = record(live, recording, "--", "sh", "-c", "exit 7")
    assert status == 0
    assert "ended with status 7" in errors


def test_command_has_ordinary_signals(live: Path, recording: Path) -> None:
    status, errors = record(live, recording, "--", "sh", "-c", "yes | head -1; kill -HUP $$", prefix=("nohup",))
    assert status == 0
    assert "Broken pipe" not in errors


def test_sigchld_ignored_by_the_parent(live: Path, recording: Path) -> None:
    ignore = ("sh", "-c", 'trap "" CHLD; exec "$@"', "sh")
    assert record(live, recording, "--", "true", prefix=ignore)[0] == 0


def test_process_that_ends_ends_the_recording(live: Path, recording: Path) -> None:
    """Also one that nobody has waited for: a zombie does nothing any more."""
    child = subprocess.Popen(["sleep", "600"])
    result: list[tuple[int, str]] = []
    thread = threading.Thread(target=lambda: result.append(record(live, recording, "-I", "3600", "-p", str(child.pid))))
    thread.start()
    wait_for(recording.exists, "the recording")
    child.kill()
    thread.join(60)
    child.wait()
    assert result
    assert result[0][0] == 0, result


def test_thread_is_no_process(live: Path, recording: Path) -> None:
    with Workload(live, "uffd_mutex") as workload:
        threads = {int(path.name) for path in Path(f"/proc/{workload.pid}/task").iterdir()} - {workload.pid}
        thread = threads.pop()
        status, errors = record(live, recording, "-d", "1", "-p", str(thread))
    assert status == 1
    assert f"{thread} is a thread of process {workload.pid}" in errors


def test_pid_namespace(live: Path, recording: Path) -> None:
    other = ("unshare", "-p", "-f")
    status, errors = record(live, recording, "--", "true", prefix=other)
    assert status == 1
    assert "pid namespace" in errors
    assert not recording.exists()
    assert record(live, recording, "-a", "-d", "0.2", prefix=other)[0] == 0


@pytest.mark.parametrize("target", ["task:1.pi_lock", "user:1:0x1000", "futex:1:0x1000"])
def test_pid_namespace_of_a_target(live: Path, recording: Path, target: str) -> None:
    done = subprocess.run(
        ["unshare", "-p", "-f", live / "bin" / "lockline-collect", "watch", target, "-o", recording, "-d", "0.2"],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 1
    assert "pid namespace" in done.stderr
    assert not recording.exists()


def has_intervals(recording: Path) -> bool:
    """Whether the recording, that may not be there yet, or without its tables, has any."""
    try:
        with Recording(recording) as result:
            return result.number("SELECT count(*) FROM interval") > 0
    except sqlite3.OperationalError:
        return False


def test_ends_with_the_process_that_started_it(live: Path, recording: Path) -> None:
    """Killed, that process cannot end it; what was recorded is kept."""
    collector = [str(live / "bin" / "lockline-collect"), "record", "-o", str(recording), "-I", "0.1"]
    with subprocess.Popen(["sh", "-c", '"$@" --end-with $$; :', "sh", *collector], stderr=subprocess.DEVNULL) as shell:
        try:
            wait_for(lambda: has_intervals(recording), "an interval")
        finally:
            shell.kill()

    def complete() -> bool:
        with Recording(recording) as result:
            return result.rows("SELECT value FROM meta WHERE name = 'state'") == [("complete",)]

    wait_for(complete, "end of the recording")


def test_ends_with_a_process_that_did_not_start_it(live: Path, recording: Path) -> None:
    status, errors = record(live, recording, "--end-with", "1", "-d", "0.2", prefix=("sh", "-c", '"$@"; exit $?', "sh"))
    assert status == 1
    assert "--end-with 1" in errors
    assert not recording.exists()


def test_full_table_does_not_grow(live: Path, recording: Path, tmp_path: Path) -> None:
    """The waits without a row have one cell for each CPU and kind, however long it lasts."""
    with Collector(live, recording, "-a", "--memory", "1800K", "-I", "0.1") as collector:
        with running(live / "workloads" / "lock_load", "new-locks", "2", cwd=tmp_path, nice=0):

            def full() -> bool:
                with Recording(recording) as result:
                    lost = result.rows("SELECT count FROM loss WHERE name = 'table_full' AND count > 1000")
                    return bool(lost) and result.number("SELECT count(*) FROM interval") > 20

            wait_for(full, "a full table for a while")
        assert collector.stop() == 0
    with Recording(recording) as result:
        blobs = result.rows("SELECT length(histogram) FROM cell_total JOIN lock ON lock.id = lock WHERE address = 0")
        assert blobs
        # Six bytes for each bucket in use.
        assert max(size for (size,) in blobs) <= 6 * 128
        per_lock = result.rows("SELECT sum(waits), sum(wait_ns) FROM lock_total")
        assert per_lock == result.rows("SELECT sum(waits), sum(wait_ns) FROM cell_total")
        assert result.begins() == result.begins_accounted()
