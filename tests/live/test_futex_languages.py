# SPDX-License-Identifier: GPL-2.0-or-later
"""What kind of lock a program of Python waits for: the GIL, and at rest none (make lab-languages: other languages)."""

import subprocess
import sys
from pathlib import Path

import pytest

from lockline.analysis.futex import LOCK
from lockline.analysis.selection import Selection
from lockline.analysis.user_locks import GIL
from lockline.recording.reader import open_recording
from lockline.rules.report import make_report
from support import Collector, wait_for

PROGRAM = Path(__file__).resolve().parents[1] / "languages/threads.py"
PYTHON = Path(sys.executable)


@pytest.mark.parametrize("mode", ["contended", "idle"])
def test_the_gil(live: Path, recording: Path, mode: str) -> None:
    """Four threads that compute pass it to each other; four that wait for a queue hardly touch it."""
    with subprocess.Popen([PYTHON, PROGRAM, mode], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"

        def seen() -> bool:
            with open_recording(recording) as opened:
                ran = opened.raw("SELECT COALESCE(SUM(slept), 0) FROM futex_total")
                return any(int(slept) >= 200 for (slept,) in ran)

        with Collector(live, recording, "--futex", "-p", str(program.pid)):
            wait_for(seen, "200 waits in the recording")
        program.communicate("\n")
    with open_recording(recording) as opened:
        report = make_report(opened, Selection(), 0)
    assert report.futexes is not None
    rules = {finding.rule for finding in report.findings} & {"gil-bound", "hot-monitor", "user-lock"}
    assert rules == ({"gil-bound"} if mode == "contended" else set())
    if mode == "contended":
        heaviest = max(report.futexes.futexes, key=lambda futex: futex.figures.wait_ns)
        assert (heaviest.make, heaviest.nature) == (GIL, LOCK)
