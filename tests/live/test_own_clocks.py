# SPDX-License-Identifier: GPL-2.0-or-later
"""Locks of many makes beside the programs' own clocks: the sum, the make and the function; idle and split, none.

Each program of tests/languages is recorded from its begin to its end.  What cannot be built here is skipped.
"""

import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from lockline.analysis.report import Report
from lockline.analysis.selection import Selection
from lockline.analysis.user_space.futex_waits import LOCK, FutexWaits
from lockline.analysis.user_space.user_evidence import (
    ABSL_MUTEX,
    ATOMICS,
    GIL,
    OPENMP_BARRIER,
    OPENMP_LOCK,
    PARKING_LOT,
    RUBY_GVL,
    RUBY_MUTEX,
    RUST_MUTEX,
)
from lockline.recording.reader import open_recording
from lockline.rules.report import make_report

LANGUAGES = Path(__file__).resolve().parents[1] / "languages"
SECONDS = 1.5
NEAR = 0.1
RULES = {"user-lock", "gil-bound", "gvl-bound", "hot-monitor", "thundering-herd", "deadlock", "lock-not-released"}
ABSL = "g++ -O2 -std=c++20 -fPIC -pthread -DMAKE=ABSL {}/makes.cc -o program $(pkg-config --cflags --libs {package})"


@dataclass(frozen=True)
class Program:
    """How a program is built ({}: the sources), and run; modes that wait for no lock.

    needs: commands, and what pkg-config knows.
    """

    needs: tuple[str, ...]
    build: str
    run: tuple[str, ...] = ("./program",)
    at_rest: tuple[str, ...] = ("idle", "split")
    package: str = ""


CXX = Program(("g++",), "g++ -O2 -std=c++17 -pthread {}/threads.cc -o program")
RUST = Program(("rustc",), "rustc -O {}/threads.rs -o program")
WITH_ABSL = Program(("g++", "pkg-config"), ABSL, package="absl_synchronization")
CARGO = Program(
    ("cargo",),
    "cargo build --quiet --release --manifest-path {}/spins/Cargo.toml --target-dir .",
    ("release/spins",),
)
OPENMP = Program(("gcc",), "gcc -O2 -fopenmp {}/spins_openmp.c -o program", at_rest=())
RUBY = Program(("ruby",), "", ("ruby", f"{LANGUAGES}/threads.rb"), ("idle", "mutexes", "split"))
NODE = Program(("node",), "", ("node", f"{LANGUAGES}/threads.js"))
PYTHON = Program((), "", (sys.executable, f"{LANGUAGES}/threads.py"))


@dataclass(frozen=True)
class Case:
    """A mode in which threads wait: the make ('' an unnamed mutex of glibc), a function of those who wait ('' unnamed).

    awake: the program's clock has the waits till the wake-up alone.  lock: it is one.  near: of the program's sum.
    """

    name: str
    program: Program
    mode: str
    make: str
    function: str
    awake: bool = False
    lock: bool = True
    near: float = NEAR


CASES = (
    Case("std::mutex", CXX, "contended", "", "load::under_mutex"),
    # In the call that sleeps another thread may have the CPU before it sleeps, too.
    Case("std::mutex, for moments", CXX, "statistics", "", "", near=0.3),
    Case("Rust", RUST, "contended", RUST_MUTEX, "under_mutex"),
    Case("absl", WITH_ABSL, "contended", ABSL_MUTEX, "load::under_lock"),
    Case("parking_lot", CARGO, "mutex", PARKING_LOT, "spins::under_mutex"),
    Case("OpenMP critical", OPENMP, "critical", OPENMP_LOCK, "main._omp_fn.0"),
    Case("OpenMP lock", OPENMP, "lock", OPENMP_LOCK, "main._omp_fn.0"),
    Case("OpenMP barrier", OPENMP, "barrier", OPENMP_BARRIER, "main._omp_fn.0", lock=False),
    Case("Ruby Mutex", RUBY, "mutex", RUBY_MUTEX, ""),
    # Beside other work most of a wait is for a CPU, which both sides leave out, each by a measure of its own.
    Case("Ruby GVL", RUBY, "contended", RUBY_GVL, "", awake=True, near=0.25),
    Case("Node.js", NODE, "contended", ATOMICS, ""),
    Case("Python GIL", PYTHON, "contended", GIL, "", awake=True, near=0.25),
)
AT_REST = tuple(
    (f"{name} {mode}", program, mode)
    for name, program in {case.name: case.program for case in CASES}.items()
    for mode in program.at_rest
    if program is not CXX or name == "std::mutex"
)


def built(program: Program, directory: Path) -> list[str | Path]:
    """The command; skips where something is missing."""
    for needed in program.needs:
        if shutil.which(needed) is None:
            pytest.skip(f"no {needed} is installed: scripts/setup languages")
    if program.package and subprocess.run(["pkg-config", "--exists", program.package], check=False).returncode:
        pytest.skip(f"no {program.package} is installed")
    if program.build:
        made = subprocess.run(
            program.build.format(LANGUAGES, package=program.package),
            shell=True,
            cwd=directory,
            capture_output=True,
            text=True,
            check=False,
        )
        if program is CARGO and made.returncode:
            pytest.skip(f"its packages cannot be had here: {made.stderr[-200:]}")
        assert made.returncode == 0, made.stderr
    first, *others = program.run
    return [shutil.which(first) or directory / first, *others]


def recorded(live: Path, recording: Path, command: list[str | Path]) -> tuple[Report, int]:
    """The report of a program from its begin to its end, and how long it waited by its own clock, ns."""
    record = [live / "bin/lockline-collect", "record", "--futex", "-q", "-o", recording, "--"]
    with subprocess.Popen([*record, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(SECONDS)
        told, _ = process.communicate("\n")
    assert process.returncode == 0
    counters = dict(line.split() for line in told.splitlines() if line.count(" ") == 1)
    with open_recording(recording) as opened:
        return make_report(opened, Selection(), 0), int(counters.get("wait_ns", 0))


def functions_of(lock: FutexWaits) -> set[str]:
    """All on the stacks of those who wait."""
    return {frame.symbol for stack in lock.stacks if stack.role == "waiter" for frame in stack.frames}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_a_program_waits(live: Path, recording: Path, tmp_path: Path, case: Case) -> None:
    command = built(case.program, tmp_path)
    report, own = recorded(live, recording, [*command, case.mode])
    assert report.futexes is not None
    waits = [one for one in report.futexes.futexes if (one.nature == LOCK) == case.lock and one.make == case.make]
    heaviest = max(waits, key=lambda one: one.figures.wait_ns)
    told = heaviest.figures.wait_ns - (heaviest.latency.wait_ns if case.awake else 0)
    assert abs(told - own) <= case.near * own, f"{case.name}: {told / 1e9:.3f} s, by its own clock {own / 1e9:.3f} s"
    if case.lock:
        locks = [one for one in report.futexes.futexes if one.nature == LOCK]
        assert max(locks, key=lambda one: one.figures.wait_ns) is heaviest
    if case.function:
        assert any(case.function in function for function in functions_of(heaviest))


@pytest.mark.parametrize(("name", "program", "mode"), AT_REST, ids=[name for name, _, _ in AT_REST])
def test_a_program_that_waits_for_no_lock(
    live: Path, recording: Path, tmp_path: Path, name: str, program: Program, mode: str
) -> None:
    command = built(program, tmp_path)
    report, _ = recorded(live, recording, [*command, mode])
    assert {finding.rule for finding in report.findings} & RULES == set(), name
