# SPDX-License-Identifier: GPL-2.0-or-later
"""`lockline watch` of two threads whose sharing is known: what it says of their lines."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from schemas import validator_of
from support import ATTACHED, DEADLINE_S, LOAD_NICE, Collector, Lines, Recording, Workload, wait_for

TOP = Path(__file__).resolve().parents[2]
# Enough for the time of any test.
ENDLESS = 1 << 50
ENVIRONMENT = {"PYTHONPATH": str(TOP / "userspace"), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}


def watch(live: Path, target: str, *options: str) -> dict[str, Any]:
    """The report; skips where no watchpoint is available."""
    command = [sys.executable, "-m", "lockline", "watch", target, "--format", "json", "-q", *options]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
        cwd=TOP,
        env=ENVIRONMENT,
    )
    if done.returncode and "debug register" in done.stderr:
        pytest.skip(f"no watchpoint is available: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    # Nothing was asked to be kept: where it was is of no use.
    assert "lockline-watch-" not in done.stderr
    value: dict[str, Any] = json.loads(done.stdout)
    validator_of("watch").validate(value)
    return value


def watched_until_told(live: Path, workload: Workload, *options: str) -> dict[str, Any]:
    """The line of the workload's first member, once it was seen that both threads use it.

    On a busy machine they may not run for a while, and then there is nothing to tell.
    """

    def told() -> dict[str, Any] | None:
        (line,) = watch(live, f"user:{workload.pid}:{workload.ready['line']:#x}", "-d", "2", *options)["lines"]
        return line if line["verdict"] not in ("none", "too little evidence") else None

    line = wait_for(told, "verdict on two threads that share a line")
    assert line is not None
    return line


def start(workload: Workload) -> None:
    """Let the threads write, with 100 us of rest in between, until they are killed."""
    assert workload.process.stdin is not None
    workload.process.stdin.write(f"go {ENDLESS} 100\n")
    workload.process.stdin.flush()


@pytest.mark.parametrize(("members", "verdict"), [("line", "false sharing"), ("same", "true sharing")])
def test_two_threads_on_a_line(live: Path, debug_registers: None, members: str, verdict: str) -> None:
    workload = Workload(live, "ping_pong", members, "free")
    try:
        start(workload)
        line = watched_until_told(live, workload, "--full")
    finally:
        workload.process.kill()
        workload.end()
    assert line["verdict"] == verdict
    assert line["source"]["kind"] == "watchpoint"
    used = {offset["offset"]: offset["cpus"] for offset in line["offsets"]}
    expected = {0: [0], 24: [1]} if members == "line" else {0: [0, 1]}
    assert used == expected
    assert line["matrix"]["cpus"] == [0, 1]
    (none, there), (back, nothing) = line["matrix"]["transfers"]
    assert none == nothing == 0
    assert there + back == line["transfers"] == sum(offset["transfers"] for offset in line["offsets"]) > 0
    # What goes to one CPU comes from the other, but for where windows begin and end.
    assert abs(there - back) <= line["windows"]["count"] + line["windows"]["lost"]
    assert line["writes"] == line["records"] == line["hits"] - line["windows"]["lost"]


def test_two_threads_on_lines_of_their_own(live: Path, debug_registers: None) -> None:
    workload = Workload(live, "ping_pong", "lines", "free")

    def told() -> dict[str, Any] | None:
        (line,) = watch(live, f"user:{workload.pid}:{workload.ready['line']:#x}", "-d", "2", "--full")["lines"]
        return line if line["records"] > 200 else None

    try:
        start(workload)
        line = wait_for(told, "accesses of a thread")
    finally:
        workload.process.kill()
        workload.end()
    assert line is not None
    assert (line["verdict"], line["transfers"]) == ("none", 0)
    assert [offset["cpus"] for offset in line["offsets"]] == [[0]]


def breakpoints(pid: int) -> int:
    """Open perf events of a process; 0 of one that is gone, or that nobody has waited for."""
    found = 0
    try:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            found += "[perf_event]" in str(descriptor.readlink())
    except OSError:
        return 0
    return found


def test_killed_it_leaves_no_collector(live: Path, recording: Path, debug_registers: None) -> None:
    """By SIGKILL, which no handler sees: no watchpoint stays, and the recording is whole."""

    def collector_of(parent: int) -> int:
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text(encoding="ascii").split()
        return next((int(child) for child in children if breakpoints(int(child))), 0)

    with Workload(live, "ping_pong", "line", "free") as workload:
        target = f"user:{workload.pid}:{workload.ready['line']:#x}"
        command = [sys.executable, "-m", "lockline", "watch", target, "--full", "-o", str(recording)]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=TOP, env=ENVIRONMENT)
        lines = Lines(process.stderr)
        try:
            while not (said := lines.next("word of the collector that it records")).startswith(ATTACHED):
                if "debug register" in said:
                    pytest.skip(f"no watchpoint is available: {said}")
            collector = wait_for(lambda: collector_of(process.pid), "watchpoint of the collector")
        finally:
            process.kill()
            process.wait(DEADLINE_S)
        wait_for(lambda: not breakpoints(collector), "end of the watchpoints")

        def complete() -> bool:
            with Recording(recording) as result:
                return result.rows("SELECT value FROM meta WHERE name = 'state'") == [("complete",)]

        wait_for(complete, "end of the recording")


# What a line takes where that was not measured, and the shares from which the rule speaks: docs/rules.md.
MOVE_NS = 1000
SPOKEN_OF = 0.01
EXPLAINS = 0.05
TRIES = 5


def report_of(recording: Path) -> dict[str, Any]:
    """`lockline report` of it."""
    command = [sys.executable, "-m", "lockline", "report", str(recording), "--format", "json"]
    shown = subprocess.run(command, capture_output=True, text=True, check=False, cwd=TOP, env=ENVIRONMENT)
    assert shown.returncode == 0, shown.stderr
    value: dict[str, Any] = json.loads(shown.stdout)
    validator_of("report").validate(value)
    return value


def explains(line: dict[str, Any], duration_ns: int) -> bool:
    """Whether the moves of the line can be a part of the waits for its locks, by the figures of the report."""
    locks = [lock for lock in line["locks"] if (lock["waits"] or 0) >= 20]
    wait_ns = sum(lock["wait_ns"] for lock in locks)
    if line["verdict"] not in ("false sharing", "lock word", "true sharing") or wait_ns < SPOKEN_OF * duration_ns:
        return False
    moves = line["transfer_rate"]["per_second"] * duration_ns / 1e9
    return bool(moves * MOVE_NS * max(1.0, wait_ns / duration_ns) >= EXPLAINS * wait_ns)


def test_a_line_that_explains_waits(live: Path, recording: Path, tmp_path: Path, debug_registers: None) -> None:
    """Two threads at one pipe: the report says what its mutex's line has to do with their waits, or nothing."""
    before = tmp_path / "waits.lockline"
    query = "SELECT name, instance FROM lock JOIN lock_total ON lock.id = lock WHERE address AND source = 'slab'"
    query += " GROUP BY lock.id HAVING sum(waits) > 20 ORDER BY sum(wait_ns) DESC"
    with Workload(live, "reused_objects", "pipe", nice=LOAD_NICE) as workload:
        workload.do("use 0")
        with Collector(live, before, "-p", str(workload.pid)):

            def waited() -> list[tuple[str, str]]:
                with Recording(before) as found:
                    return found.rows(query)

            name, instance = wait_for(lambda: before.exists() and waited(), "wait for a pipe's mutex")[0]
        target = f"lock:{name}[{instance}]" if instance else f"lock:{name}"
        for _ in range(TRIES):
            command = [str(live / "bin" / "lockline-collect"), "watch", "-i", str(before), target, "-q"]
            command += ["--max-overhead", "5", "-d", "1", "-o", str(recording)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
            if done.returncode and "debug register" in done.stderr:
                pytest.skip(f"no watchpoint is available: {done.stderr.strip()}")
            assert done.returncode == 0, done.stderr
            value = report_of(recording)
            (line,) = value["lines"]
            found = [finding for finding in value["findings"] if finding["rule"] == "shared-line"]
            assert bool(found) == explains(line, value["window"]["duration_ns"])
            if found:
                break
        else:
            pytest.skip("this machine is too busy for two threads to wait for each other 1 % of the time")
    (finding,) = found
    worst = max(line["locks"], key=lambda lock: lock["wait_ns"] or 0)
    assert worst["name"] in finding["title"]
    assert f"waits for {worst['name']}" in finding["evidence"][0]
    # The mutex's own spinlock lies on the line too, and may have been waited for.
    assert any("its line moves between CPUs" in evidence for evidence in finding["evidence"][1:])
    assert 0 < finding["wait_ns"] <= sum(lock["wait_ns"] or 0 for lock in line["locks"])
