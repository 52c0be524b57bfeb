# SPDX-License-Identifier: GPL-2.0-or-later
"""Stacks of Java's locks reach the program's own methods, whatever runs them, with no switch of the JVM's."""

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from jvms import JAVA_COMPILERS, jvms
from lockline.analysis.selection import Selection
from lockline.recording import rows, user_rows
from lockline.recording.reader import open_recording
from lockline.rules import find_all
from lockline.rules.report import make_report
from support import Collector, wait_for
from told import told

PROGRAMS = [Path(__file__).resolve().parents[1] / "languages" / f"{name}.java" for name in ("Threads", "Deadlock")]
JVMS = jvms()
SAMPLES = 100
REACH = 0.9
# The method that waits, and the one that calls it in a loop.
METHODS = {
    "monitor": ("Threads.underMonitor", "Threads.lambda$loop$"),
    "lock": ("Threads.underLock", "Threads.lambda$loop$"),
}
CASES = (("interpreter", "monitor"), ("C1", "lock"), ("C2", "monitor"), ("", "lock"))
# The newest always, the others in the laboratory.
VERSIONS = [one if one == max(JVMS) else pytest.param(one, marks=pytest.mark.laboratory) for one in JVMS]
# C2 is to put the method that waits into its caller, soon.
INLINE = ("-XX:CompileThreshold=100", "-XX:CompileCommand=quiet", "-XX:CompileCommand=inline,Threads::underMonitor")


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the compiled program; any JVM here is of 17 or later."""
    directory = tmp_path_factory.mktemp("classes")
    compilers = [java.with_name("javac") for java in JVMS.values() if java.with_name("javac").exists()]
    if not compilers:
        pytest.skip("no Java compiler is installed: scripts/setup test")
    subprocess.run([compilers[0], "--release", "17", "-d", directory, *PROGRAMS], check=True, timeout=300)
    return directory


def executable(pid: int, address: int) -> bool:
    """Whether the process has code there."""
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        begin, _, end = line.split()[0].partition("-")
        if int(begin, 16) <= address < int(end, 16):
            return line.split()[1][2] == "x"
    return False


def stacks_of(path: Path) -> Iterator[tuple[user_rows.FutexSample, Sequence[rows.Frame]]]:
    """Each sampled stack of a wait for Java's locks, or of its end."""
    with open_recording(path) as recording:
        samples = [one for one in recording.table(user_rows.FutexSample) if one.role != "owner" and one.stack]
        stacks = recording.stacks(sorted({one.stack for one in samples}))
    for one in samples:
        frames = stacks.get(one.stack, ())
        # Not those of the JVM's own threads.
        if any(is_of_lock(frame.symbol) for frame in frames):
            yield one, frames


def is_of_lock(symbol: str) -> bool:
    return symbol.startswith(("ObjectMonitor::", "SharedRuntime::monitor_", "Unsafe_Park", "Unsafe_Unpark"))


def reach(path: Path, mode: str) -> tuple[int, float]:
    """How many stacks were sampled, and what part of them has the program's functions.

    HotSpot keeps no scope for the place where code of C2 lets go of a monitor: there only the caller has a name.
    """
    every = there = 0
    for sample, frames in stacks_of(path):
        every += sample.samples
        wanted = METHODS[mode] if sample.role == "waiter" or mode == "lock" else METHODS[mode][1:]
        if all(any(frame.symbol.startswith(name) for frame in frames) for name in wanted):
            there += sample.samples
    return every, there / every if every else 0.0


def sampled(path: Path) -> bool:
    """Whether there are enough."""
    with open_recording(path) as recording:
        ((samples,),) = recording.raw("SELECT COALESCE(SUM(samples), 0) FROM futex_sample WHERE role = 'waiter'")
        return int(samples) >= SAMPLES


def inlined(path: Path, pid: int) -> bool:
    """Whether a method has a name whose code is its caller's: between HotSpot's stub and the caller, it is no code."""
    inner, outer = METHODS["monitor"]
    return any(
        below.symbol.startswith("HotSpot::")
        and (frame.symbol, above.symbol[: len(outer)]) == (inner, outer)
        and not executable(pid, frame.address)
        for _, frames in stacks_of(path)
        for below, frame, above in zip(frames, frames[1:], frames[2:], strict=False)
    )


@pytest.mark.parametrize(("compiler", "mode"), CASES)
@pytest.mark.parametrize("version", VERSIONS or [pytest.param(0, marks=pytest.mark.skip(reason="no JVM is installed"))])
def test_stacks_reach_the_program(
    live: Path, recording: Path, classes: Path, version: int, compiler: str, mode: str
) -> None:
    switches = [JAVA_COMPILERS[compiler]] if compiler else []
    switches += INLINE if compiler == "C2" else ()
    command = [JVMS[version], *switches, "-cp", classes, "Threads", mode]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        with Collector(live, recording, "--futex", "-I", "0.2", "-p", str(program.pid)):
            wait_for(lambda: sampled(recording), f"{SAMPLES} samples")
            if compiler == "C2":
                wait_for(lambda: inlined(recording, program.pid), "method that was put into its caller")
        program.communicate("\n")
    assert program.returncode == 0
    every, part = reach(recording, mode)
    assert part >= REACH, f"{part:.0%} of {every}"
    if mode == "monitor":
        who_owns(recording)


def who_owns(path: Path) -> None:
    """All wait for one monitor, whose class and owners are known; others of the JVM's may be seen at times."""
    with open_recording(path) as recording:
        monitor = max(recording.table(user_rows.JavaMonitor), key=lambda one: one.waiting)
        threads = [one for one in recording.table(user_rows.JavaMonitorThread) if one.address == monitor.address]
    assert monitor.class_name == "java.lang.Object"
    assert monitor.waiting >= monitor.looks > 0
    assert any(one.role == "owner" and one.name.startswith("worker-") and one.tid for one in threads)


@pytest.mark.parametrize("version", VERSIONS or [pytest.param(0, marks=pytest.mark.skip(reason="no JVM is installed"))])
def test_a_deadlock_of_monitors(live: Path, recording: Path, classes: Path, version: int) -> None:
    """Looks at the JVM's monitors see the circle: no futex is anybody's there."""
    command = [JVMS[version], "-cp", classes, "Deadlock"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        with Collector(live, recording, "--futex", "-p", str(program.pid), "-I", "0.5"):
            wait_for(lambda: looks_at_monitors(recording) >= 10, "looks at monitors")
        program.communicate("\n", timeout=60)
    with open_recording(recording) as opened:
        found = [told(one) for one in find_all(make_report(opened, Selection(), 0)) if one.rule == "deadlock"]
    (deadlock,) = found
    assert deadlock.title == f"2 threads of java ({program.pid}) wait for each other, in a circle: a deadlock"
    assert any("payer" in line and "payee" in line for line in deadlock.evidence), deadlock.evidence
    assert "Thread.print" in deadlock.next[0]


def looks_at_monitors(path: Path) -> int:
    """At how many looks somebody waited for a monitor."""
    with open_recording(path) as recording:
        return max((row.looks for row in recording.table(user_rows.JavaMonitor)), default=0)
