# SPDX-License-Identifier: GPL-2.0-or-later
"""Goroutines that wait for mutexes and channels (record --futex --go), against Go's block profile and their clock."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from lockline.analysis.selection import Selection
from lockline.analysis.user_space.futex_waits import CONDITION, LOCK, UNCLEAR, FutexWaits
from lockline.analysis.user_space.user_evidence import (
    GO_CHANNEL,
    GO_COND,
    GO_DATABASE,
    GO_GROUP,
    GO_MUTEX,
    GO_POOL,
    GO_RWMUTEX,
    GO_SEMAPHORE,
)
from lockline.recording.reader import open_recording
from lockline.rules.report import make_report
from programs import go_environment
from support import Collector, why

SOURCE = Path(__file__).resolve().parents[1] / "languages/mutexes.go"
# Debian's comes with its library compiled; any other has to compile it first.
GO = shutil.which("go", path="/usr/bin") or "go"
# Of the clocks, which are not read at the same instant.
SLACK = 0.02
# Of Go's profile, where the same waits are compared.
NEAR = 0.05
MANY_CPUS = 4


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Without a symbol table: its functions are found by Go's own."""
    directory = tmp_path_factory.mktemp("go")
    built = directory / "mutexes"
    build = [GO, "build", "-ldflags=-s -w", "-o", built, SOURCE]
    subprocess.run(build, env=go_environment(), check=True, timeout=300)
    return built


def record(live: Path, recording: Path, program: Path, mode: str) -> tuple[int, int]:
    """Records the program from its first turn to its last; how long it waited by Go's profile, and by its own clock."""
    with subprocess.Popen([program, mode], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def line(send: str = "") -> str:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(send)
            process.stdin.flush()
            return process.stdout.readline()

        assert line() == "ready\n"
        with Collector(live, recording, "--futex", "--go", "-p", str(process.pid)):
            assert line("\n") == "busy\n"
            profile, clock = line("\n").split()
        process.communicate("\n")
    return int(profile), int(clock)


def record_command(live: Path, recording: Path, program: Path) -> tuple[int, int]:
    """The same of a program that is recorded from its begin to its end, and let go by the collector."""
    command = [live / "bin/lockline-collect", "record", "--futex", "--go", "-q", "-o", recording, "--"]
    with subprocess.Popen(
        [*command, program, "contended"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "busy\n"
        out, _ = process.communicate("\n\n")
    assert process.returncode == 0
    profile, clock = out.split()
    return int(profile), int(clock)


def of_go(recording: Path, make: str) -> tuple[list[FutexWaits], set[str], str]:
    """Go's mutexes or channels in the report, its rules' names, and what the findings say."""
    with open_recording(recording) as opened:
        report = make_report(opened, Selection(), 0)
    found = report.futexes.futexes if report.futexes is not None else ()
    rules = {finding.rule for finding in report.findings}
    return [one for one in found if one.make == make], rules, str(report.findings)


@pytest.mark.parametrize("command", [False, True], ids=["process", "command"])
def test_eight_goroutines_of_one_mutex(live: Path, recording: Path, program: Path, command: bool) -> None:
    """A wait lasts from the park until the goroutine runs: longer than Go's profile has it, shorter than the call."""
    if command:
        profile, clock = record_command(live, recording, program)
    else:
        profile, clock = record(live, recording, program, "contended")
    (mutex,), rules, words = of_go(recording, GO_MUTEX)
    assert (mutex.nature, mutex.sure, mutex.ops) == (LOCK, "high", ("Go lock", "Go unlock"))
    assert profile * (1 - SLACK) <= mutex.figures.wait_ns <= clock * (1 + SLACK)
    assert "user-lock" in rules
    assert "main.underMutex" in words
    waiting = {frame.symbol for stack in mutex.stacks if stack.role == "waiter" for frame in stack.frames}
    assert "main.underMutex" in waiting


@pytest.mark.parametrize("mode", ["split", "idle"])
def test_goroutines_that_do_not_contend(live: Path, recording: Path, program: Path, mode: str) -> None:
    """A mutex each, or a channel: no finding."""
    profile, _ = record(live, recording, program, mode)
    mutexes, rules, _ = of_go(recording, GO_MUTEX)
    assert profile == 0
    assert mutexes == []
    assert "user-lock" not in rules


@pytest.mark.parametrize(("mode", "nature"), [("slow", LOCK), ("source", UNCLEAR)])
def test_goroutines_that_send(live: Path, recording: Path, program: Path, mode: str, nature: str) -> None:
    """Eight that queue for a slow receiver are held back by it; one may be a source that nobody asks for more."""
    profile, clock = record(live, recording, program, mode)
    (channel,), rules, words = of_go(recording, GO_CHANNEL)
    assert channel.nature == nature
    # The address is that of the channel's own lock, for which threads wait by futexes where they meet there.
    assert {"Go send"} <= set(channel.ops) <= {"Go send", "Go unlock", "WAIT", "WAKE"}
    assert profile * (1 - SLACK) <= channel.figures.wait_ns <= clock * (1 + SLACK)
    assert ("user-lock" in rules) == (nature == LOCK)
    assert ("main.underSend" in words) == (nature == LOCK)


def test_a_select_that_sends(live: Path, recording: Path, program: Path) -> None:
    """The goroutines wait for the channel that they send to."""
    profile, clock = record(live, recording, program, "select")
    (channel,), rules, words = of_go(recording, GO_CHANNEL)
    assert (channel.nature, channel.sure) == (LOCK, "medium")
    assert "Go select" in channel.ops
    assert profile * (1 - SLACK) <= channel.figures.wait_ns <= clock * (1 + SLACK)
    assert "user-lock" in rules
    assert "main.underSelect" in words


def test_a_pool_by_a_channel(live: Path, recording: Path, program: Path) -> None:
    """Eight that share two values: who sends one back has received it before."""
    profile, clock = record(live, recording, program, "pool")
    (pool,), rules, _ = of_go(recording, GO_POOL)
    assert (pool.nature, pool.sure, pool.ops) == (LOCK, "medium", ("Go unlock", "Go receive"))
    assert profile * (1 - SLACK) <= pool.figures.wait_ns <= clock * (1 + SLACK)
    assert "user-lock" in rules
    waiting = {frame.symbol for stack in pool.stacks if stack.role == "waiter" for frame in stack.frames}
    assert "main.underReceive" in waiting


def test_a_semaphore_by_a_channel(live: Path, recording: Path, program: Path) -> None:
    """Eight that share two places: who takes a value out has put one in before."""
    profile, clock = record(live, recording, program, "semaphore")
    (semaphore,), rules, words = of_go(recording, GO_SEMAPHORE)
    assert (semaphore.nature, semaphore.sure) == (LOCK, "medium")
    assert {"Go send", "Go unlock"} <= set(semaphore.ops)
    assert profile * (1 - SLACK) <= semaphore.figures.wait_ns <= clock * (1 + SLACK)
    assert "user-lock" in rules
    assert "main.underSemaphore" in words


def test_a_pool_of_connections(live: Path, recording: Path, program: Path) -> None:
    """Eight that share two connections of database/sql, which counts itself how long they wait."""
    profile, clock = record(live, recording, program, "database")
    (pool,), rules, words = of_go(recording, GO_DATABASE)
    assert (pool.nature, pool.sure) == (LOCK, "high")
    assert set(pool.ops) == {"Go pool", "Go unlock"}
    assert profile * (1 - SLACK) <= pool.figures.wait_ns <= clock * (1 + SLACK)
    assert abs(pool.figures.wait_ns - clock) <= NEAR * clock
    assert "user-lock" in rules
    assert "main.underDatabase" in words


def test_a_mutex_of_readers_and_writers(live: Path, recording: Path, program: Path) -> None:
    """Go's profile ends a wait where another goroutine lets go: without the way from there to the CPU."""
    profile, clock = record(live, recording, program, "rwmutex")
    parts, rules, words = of_go(recording, GO_RWMUTEX)
    # Before Go 1.20 its parts are rows of their own, and one of them looks like a sync.Mutex.
    parts += of_go(recording, GO_MUTEX)[0]
    assert {(part.nature, part.ops) for part in parts} == {(LOCK, ("Go lock", "Go unlock"))}
    waited = sum(part.figures.wait_ns for part in parts)
    assert profile * (1 - SLACK) <= waited <= clock * (1 + SLACK)
    till_unlock = waited - sum(part.latency.wait_ns for part in parts)
    assert abs(till_unlock - profile) <= NEAR * profile
    assert "user-lock" in rules
    assert "main.under" in words
    # Writers that unlock let readers in, and are seen.
    stacks = [stack for part in parts for stack in part.stacks if stack.role == "waker"]
    waking = {frame.symbol for stack in stacks for frame in stack.frames}
    assert waking & {"main.underWrite", "main.underRead"}


@pytest.mark.parametrize(
    ("mode", "make", "function"),
    [("group", GO_GROUP, "main.underGroup"), ("cond", GO_COND, ""), ("workers", GO_CHANNEL, "")],
)
def test_goroutines_that_are_idle(
    live: Path, recording: Path, program: Path, mode: str, make: str, function: str
) -> None:
    """A group that is not done yet and a condition are no contention; all groups of one call of Wait() are one row."""
    profile, clock = record(live, recording, program, mode)
    found, rules, _ = of_go(recording, make)
    (waits,) = [one for one in found if one.futex.name.startswith(function)]
    assert waits.nature == CONDITION
    assert profile * (1 - SLACK) <= waits.figures.wait_ns <= clock * (1 + SLACK)
    assert waits.total.wakes
    assert not waits.total.tasks_woken > waits.total.slept
    assert "user-lock" not in rules


@pytest.mark.alone  # it costs too much only where it gets its share of the CPUs
def test_a_channel_that_costs_too_much(live: Path, recording: Path, program: Path) -> None:
    """Goroutines that do nothing but send: these are the first that are no longer followed.

    Of 10 % of the CPUs a fast machine's traps may take less; 1 % may be too little for the mutexes as well.
    """
    if (os.cpu_count() or 1) > MANY_CPUS:
        pytest.skip("one channel cannot take a hundredth of so many CPUs")
    with subprocess.Popen([program, "busy"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        command = [live / "bin/lockline-collect", "record", "--futex", "--go", "-p", str(process.pid), "-d", "6s"]
        command += ["--go-traps", "1", "-o", recording]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        process.communicate("\n\n")
    assert ran.returncode == 0, ran.stderr
    assert "take more than 1 % of the CPUs' time; goroutines that send are no longer followed" in ran.stderr
    with open_recording(recording) as opened:
        lost = "SELECT name, count FROM loss WHERE name IN ('go_followed', 'go_sends_stopped')"
        assert set(opened.raw(lost)) == {("go_followed", 1), ("go_sends_stopped", 1)}
    sends, _, others = ran.stderr.partition("goroutines that send are no longer followed")
    assert "goroutines are no longer followed" not in sends, others


def test_a_process_that_is_no_go_program(live: Path, recording: Path) -> None:
    """It says so, and records the rest."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        command = [live / "bin/lockline-collect", "record", "--futex", "--go", "-p", str(process.pid), "-d", "1s"]
        ran = subprocess.run([*command, "-o", recording], capture_output=True, text=True, check=False, timeout=120)
        process.communicate()
    assert ran.returncode == 0, ran.stderr
    assert f"--go: process {process.pid} is not a Go program" in ran.stderr
    with open_recording(recording) as opened:
        none = "SELECT name, count FROM loss WHERE name IN ('go_followed', 'go_traps')"
        assert set(opened.raw(none)) == {("go_followed", 0), ("go_traps", 0)}


def test_why_follows_goroutines(program: Path, tmp_path: Path) -> None:
    """Nobody has to know of --go: seven of eight goroutines wait all the time, which their threads do not."""
    with subprocess.Popen([program, "contended"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        story = why(tmp_path, "-p", str(process.pid), "-d", "8")
        process.communicate("\n\n")
    assert [step["probe"] for step in story["steps"]] == ["totals", "futex", "go"]
    verdict = story["verdict"]
    assert (verdict["cause"], verdict["confidence"]) == ("user-lock", "high")
    assert "sync.Mutex" in verdict["title"]
