# SPDX-License-Identifier: GPL-2.0-or-later
"""Functions of Python that threads wait in, of programs that know what each of them waits (record --futex)."""

import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from lockline.analysis.report import Report
from lockline.analysis.selection import Selection
from lockline.analysis.user_space.critical_sections import waited_in, waits_by_function
from lockline.analysis.user_space.futex_waits import BARRIER, LOCK, FutexWaits
from lockline.analysis.user_space.user_evidence import GIL, OWN_POOL, PY_BARRIER, PY_LOCK, PY_SEMAPHORE
from lockline.recording import user_rows
from lockline.recording.reader import open_recording
from lockline.rules.report import make_report
from support import Collector

PROGRAM = Path(__file__).resolve().parents[1] / "languages" / "truth.py"
SECONDS = 5
# Part of all waiting by which a function may be off.
NEAR = 0.15
# Part of it that has names, at least: on a busy machine a thread runs on, or wants a CPU, before it is looked at.
NAMED = 0.3


def child_of(pid: int) -> int:
    """The one child of a process."""
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii"))


def record(live: Path, recording: Path, mode: str, *before: str) -> tuple[Report, dict[str, int]]:
    """The report, and what the program's functions waited while it was recorded, ns; before: runs it as its child."""
    command = [*before, sys.executable, PROGRAM, mode]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        pid = child_of(process.pid) if before else process.pid
        with Collector(live, recording, "--futex", "-p", str(pid)):
            time.sleep(SECONDS)
        out, _ = process.communicate("\n", timeout=60)
    truth = {function: int(ns) for function, ns in (line.split() for line in out.splitlines())}
    with open_recording(recording) as opened:
        return make_report(opened, Selection(), 0), truth


def heaviest(report: Report, make: str) -> FutexWaits:
    """The row of a kind of lock that most is waited for."""
    assert report.futexes is not None
    return max((one for one in report.futexes.futexes if one.make == make), key=lambda one: one.waited_ns)


def test_functions_that_wait_for_a_lock(live: Path, recording: Path) -> None:
    report, truth = record(live, recording, "locks")
    lock = heaviest(report, PY_LOCK)
    with open_recording(recording) as opened:
        samples = [one for one in opened.table(user_rows.FutexSample) if one.role == "waiter"]
        samples = [one for one in samples if one.futex in (lock.futex.id, *lock.words)]
        frames = opened.stacks(sorted({one.stack for one in samples}))
    found: Counter[str] = Counter()
    for sample in samples:
        # enter() is called by them, and is no place of its own.
        names = [frame.symbol for frame in frames.get(sample.stack, ())]
        for function in truth:
            found[function] += sample.wait_ns * any(name.startswith(f"py::{function}:") for name in names)
    every, named = sum(truth.values()), sum(found.values())
    assert named >= NAMED * sum(sample.wait_ns for sample in samples)
    for function, ns in truth.items():
        assert abs(found[function] / named - ns / every) <= NEAR, (found, truth)
    assert lock.nature == LOCK


def test_functions_in_a_container(live: Path, recording: Path) -> None:
    """The interpreter knows its threads by the ids that they have there."""
    report, truth = record(live, recording, "locks", "unshare", "--pid", "--fork")
    waits = waits_by_function(heaviest(report, PY_LOCK))
    assert set(waits) == {"truth.py:enter"}
    assert set(truth) == {"book", "cancel", "look"}


def test_functions_that_want_the_gil(live: Path, recording: Path) -> None:
    report, _ = record(live, recording, "gil")
    lock = heaviest(report, GIL)
    found = waits_by_function(lock)
    assert set(found) == {"truth.py:compute"}
    symbols = {frame.symbol for stack in lock.stacks for frame in stack.frames}
    for function in ("price", "rank"):
        assert any(symbol.startswith(f"py::{function}:") for symbol in symbols)


@pytest.mark.parametrize(
    ("mode", "make", "nature", "function"),
    [
        ("semaphore", PY_SEMAPHORE, LOCK, "truth.py:borrow"),
        ("pool", OWN_POOL, LOCK, "truth.py:acquire"),
        ("barrier", PY_BARRIER, BARRIER, "truth.py:meet"),
    ],
)
def test_what_threads_of_python_wait_for(
    live: Path, recording: Path, mode: str, make: str, nature: str, function: str
) -> None:
    report, _ = record(live, recording, mode)
    found = heaviest(report, make)
    assert (found.nature, waited_in(found)) == (nature, function)
    rules = {finding.rule for finding in report.findings}
    assert ("user-lock" if nature == LOCK else "barrier-imbalance") in rules
