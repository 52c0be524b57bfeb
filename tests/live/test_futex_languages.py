# SPDX-License-Identifier: GPL-2.0-or-later
"""What kind of lock a program of Python, Ruby or JavaScript waits for, at rest none (others: make lab-languages)."""

import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from lockline.analysis.report import Report
from lockline.analysis.selection import Selection
from lockline.analysis.user_space.futex_waits import CONDITION, LOCK
from lockline.analysis.user_space.user_evidence import ATOMICS, GIL, PY_CONDITION, PY_SEMAPHORE, RUBY_GVL, RUBY_MUTEX
from lockline.recording.reader import open_recording
from lockline.rules.report import make_report
from support import Collector, wait_for

PROGRAMS = Path(__file__).resolve().parents[1] / "languages"
RULES = {"gil-bound", "gvl-bound", "hot-monitor", "user-lock"}


# How long a program is recorded that hardly waits.
AT_REST_S = 2


@dataclass(frozen=True)
class Case:
    """A program in a mode: how many waits to see, and the rule and the kind of lock that must be told ('' none)."""

    program: str
    mode: str
    waits: int
    rule: str = ""
    make: str = ""


CASES = (
    # Four threads that compute pass it to each other; four that wait for a queue hardly touch it.
    Case("threads.py", "contended", 200, "gil-bound", GIL),
    Case("threads.py", "idle", 200),
    # The same, where a thread has it for 100 ms; where each calls the system; and a Mutex that is held over a sleep.
    Case("threads.rb", "contended", 60, "gvl-bound", RUBY_GVL),
    Case("threads.rb", "calls", 200, "gvl-bound", RUBY_GVL),
    Case("threads.rb", "mutex", 200, "user-lock", RUBY_MUTEX),
    Case("threads.rb", "idle", 200),
    # A mutex of JavaScript's own; workers of Node.js without messages, and those of libuv without jobs.
    Case("threads.js", "contended", 200, "user-lock", ATOMICS),
    Case("threads.js", "idle", 0),
)
INTERPRETERS = {".py": sys.executable, ".rb": shutil.which("ruby"), ".js": shutil.which("node")}
PACKAGES = {
    ".rb": "ruby is not installed: scripts/setup test",
    ".js": "Node.js is not installed: scripts/setup languages",
}


def recorded(live: Path, recording: Path, case: Case) -> Report:
    """The report of the program, which has waited as often as the case wants."""
    kind = Path(case.program).suffix
    language = INTERPRETERS[kind]
    if language is None:
        pytest.skip(PACKAGES[kind])
    command = [language, PROGRAMS / case.program, case.mode]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"

        def seen() -> bool:
            with open_recording(recording) as opened:
                ran = opened.raw("SELECT COALESCE(SUM(slept), 0) FROM futex_total")
                return any(int(slept) >= case.waits for (slept,) in ran)

        with Collector(live, recording, "--futex", "-p", str(program.pid)):
            if case.waits:
                wait_for(seen, f"{case.waits} waits in the recording")
            else:
                time.sleep(AT_REST_S)
        program.communicate("\n")
    with open_recording(recording) as opened:
        return make_report(opened, Selection(), 0)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.program}-{case.mode}")
def test_what_threads_wait_for(live: Path, recording: Path, case: Case) -> None:
    report = recorded(live, recording, case)
    assert report.futexes is not None
    assert {finding.rule for finding in report.findings} & RULES == ({case.rule} if case.rule else set())
    if case.make:
        locks = [futex for futex in report.futexes.futexes if futex.nature == LOCK]
        assert max(locks, key=lambda futex: futex.figures.wait_ns).make == case.make


@pytest.mark.parametrize(
    ("case", "make", "nature"),
    [
        (Case("threads.py", "idle", 200), PY_CONDITION, CONDITION),
        (Case("kinds.py", "semaphore", 6000), PY_SEMAPHORE, LOCK),
    ],
    ids=["queue", "semaphore"],
)
def test_who_waits_for_notice_in_python(live: Path, recording: Path, case: Case, make: str, nature: str) -> None:
    """Workers at a queue.Queue are idle; threads that starve at a Semaphore are not."""
    report = recorded(live, recording, case)
    assert report.futexes is not None
    assert report.futexes.hidden == ()
    made = {(one.make, one.nature) for one in report.futexes.futexes if one.make in (PY_CONDITION, PY_SEMAPHORE)}
    assert made == {(make, nature)}
