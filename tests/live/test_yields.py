# SPDX-License-Identifier: GPL-2.0-or-later
"""Threads that wait by sched_yield() (record --futex), beside their own clocks."""

import subprocess
from pathlib import Path

from lockline.analysis.selection import Selection
from lockline.analysis.user_space.futex_waits import SPIN
from lockline.recording.reader import open_recording
from lockline.rules.report import make_report
from support import Collector, wait_for

PROGRAM = Path(__file__).resolve().parents[2] / "build" / "workloads" / "yielding"
# Waits to see; their sum may differ so much from the program's own.
WAITS = 500
WITHIN = 0.1


def test_time_in_sched_yield_is_counted_whole(live: Path, recording: Path) -> None:
    def seen() -> bool:
        """Also the name of the function: of a program that has ended it may not be read any more."""
        with open_recording(recording) as opened:
            calls = opened.raw("SELECT COALESCE(SUM(slept), 0) FROM futex_total WHERE ops = 1 << 20")
            named = list(opened.raw("SELECT 1 FROM frame WHERE symbol = 'wait_by_turns'"))
            return bool(named) and any(int(slept) >= WAITS for (slept,) in calls)

    # Recorded from before its begin to after its end: all its waits are in both sums.
    with (
        Collector(live, recording, "--futex"),
        subprocess.Popen([PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program,
    ):
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        wait_for(seen, f"{WAITS} waits in the recording")
        out, _ = program.communicate("\n")
    truth = dict(line.split() for line in out.splitlines())
    with open_recording(recording) as opened:
        report = make_report(opened, Selection(), 0)
    assert report.futexes is not None
    (found,) = [one for one in report.futexes.futexes if one.futex.tgid == program.pid and one.nature == SPIN]
    assert abs(found.figures.wait_ns / int(truth["wait_ns"]) - 1) < WITHIN
    assert any(frame.symbol == "wait_by_turns" for stack in found.stacks for frame in stack.frames)
    (told,) = [one for one in report.futexes.hidden if one.tgid == program.pid]
    assert (told.kind, told.function, told.command) == ("spin", "wait_by_turns", f"lockline why -p {program.pid}")
