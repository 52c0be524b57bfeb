# SPDX-License-Identifier: GPL-2.0-or-later
"""A tracer that turns in wait_task_inactive() while its tracee wants the same lock: flights, and who did what.

Virtual CPUs share no cache line that one of them could be starved of: the test checks that the report has both sides,
the turns, the lock and what came before the end, on kernels with PREEMPT_RT.  Known holds are in
test_known_episodes.py.
"""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest
from boots import Section
from guest import Guest
from matrix import STATISTICS_ON, boot, selected

from lockline.analysis.episode_model import Episode
from lockline.analysis.selection import Selection
from lockline.recording.reader import open_recording
from lockline.rules.report import make_report

FIRED = 2
SECONDS = 5  # of a recording with the load


@dataclass(frozen=True)
class StarvationCase:
    """A kernel, and its load of tracers."""

    kernel: str
    load: str = "stress-ng --ptrace 4 --quiet --timeout 0"
    comm: str = "stress-ng-ptrac"
    cyclictest: bool = True
    vectors: str = "vector"

    def __str__(self) -> str:
        return self.kernel

    @property
    def sections(self) -> tuple[Section]:
        """Three recordings of one load."""
        mark = CYCLICTEST if self.cyclictest else "echo 'hit latency threshold' > /sys/kernel/tracing/trace_marker"
        script = COMMAND.format(statistics=STATISTICS_ON, load=self.load, mark=mark, seconds=SECONDS)
        # The probes come and go under a load that runs through all of them: 6.1-rt stood still of it, twice in a row
        # (boots.py).
        where = boot(self.kernel, turns=self.kernel == "bookworm-rt")
        return (Section(where, "starvation", script, ("cyclictest",) if self.cyclictest else ()),)


# Other architectures run static programs alone.
ARM64 = {"load": "lock_load ptrace 4", "comm": "lock_load", "cyclictest": False, "vectors": "interrupt"}
CASES = (
    StarvationCase("bookworm-rt"),
    StarvationCase("trixie-rt"),
    StarvationCase("trixie-backports-rt"),
    StarvationCase("bookworm-rt-arm64", **ARM64),
)

# The load takes both CPUs.  The first flight is attached under it.  The others find it when they record, and no
# recording is written under it: that would only take longer.
COMMAND = r"""
say() {{ echo "$(cut -d' ' -f1 /proc/uptime) $*" > /dev/console; }}
told() {{ until grep -q "$2" $1.err || ! kill -0 $flight; do sleep 0.2; done 2> /dev/null; }}
flight() {{
	lockline-collect record -a --flight --until "$2" -d 60 -o $1.lockline 2> $1.err &
	flight=$!
}}
load() {{ {load} & load=$!; }}
over() {{
	told $1 'the flight is over'
	kill $load
	wait $flight
	echo $? > $1.status
	wait $load
	say $1
}}
{statistics}
mount -t debugfs debugfs /sys/kernel/debug
mount -t tracefs tracefs /sys/kernel/tracing
load
sleep 1
say load
flight wait 'wait>400us'
over wait
lockline-collect record -a --episodes --threshold 200us -o turns.lockline -- \
	sh -c 'timeout {seconds} {load}; true' || exit
say turns
flight marker marker
told marker 'recording all CPUs'
load
{mark}
over marker
ps > processes
"""
CYCLICTEST = "timeout 50 cyclictest -S -p98 -m -i2000 -b 200 --tracemark -q > cyclictest"


@pytest.fixture(scope="module", params=[case for case in CASES if selected(case.kernel)], ids=str)
def case(request: pytest.FixtureRequest) -> StarvationCase:
    """A kernel."""
    found: StarvationCase = request.param
    return found


@pytest.fixture(scope="module")
def guest(case: StarvationCase, results: Callable[[Section], Guest]) -> Guest:
    """Three recordings of one load."""
    return results(case.sections[0])


def query(guest: Guest, name: str, sql: str) -> list[tuple[Any, ...]]:
    """Rows of one of the recordings."""
    with closing(sqlite3.connect(guest.directory / f"{name}.lockline")) as connection:
        return connection.execute(sql).fetchall()


def episodes(guest: Guest, name: str) -> tuple[Episode, ...]:
    """All episodes of one of the recordings."""
    with open_recording(str(guest.directory / f"{name}.lockline")) as recording:
        return make_report(recording, Selection(), 5, -1).episodes


def test_a_long_wait_ends_the_flight(guest: Guest) -> None:
    assert int(guest.text("wait.status")) == FIRED, guest.text("wait.err")
    assert "the flight is over: thread" in guest.text("wait.err")
    found = episodes(guest, "wait")
    assert any(episode.duration_ns > 400_000 for episode in found)
    # The one that ended it is among them.
    [[why]] = query(guest, "wait", "SELECT value FROM meta WHERE name = 'fired'")
    assert any(f"thread {episode.waiter.tid} " in why and f"for {episode.lock} " in why for episode in found), why


def test_cyclictest_ends_the_flight(case: StarvationCase, guest: Guest) -> None:
    assert int(guest.text("marker.status")) == FIRED, guest.text("marker.err")
    assert "a line was written to trace_marker" in guest.text("marker.err")
    [moment] = [episode for episode in episodes(guest, "marker") if episode.state == "moment"]
    assert {"switch", "wakeup"} <= {event.type for event in moment.events}
    if case.cyclictest:
        assert "Break value" in guest.text("cyclictest")


def test_both_sides_and_the_turns_are_told(case: StarvationCase, guest: Guest) -> None:
    loops = [loop for episode in episodes(guest, "turns") for loop in episode.loops]
    assert loops
    assert all(loop.turns >= 1 for loop in loops)
    # A tracer waits for its tracee, both of the load; the names of tasks are those of their threads.
    sides = {(loop.task.comm, loop.other.comm) for loop in loops}
    assert (case.comm, case.comm) in sides, sides
    assert all(loop.task.tid != loop.other.tid for loop in loops)


def test_the_waits_of_tracers_and_tracees_have_names(case: StarvationCase, guest: Guest) -> None:
    waits = query(
        guest,
        "turns",
        "SELECT DISTINCT lock.name FROM sample_total JOIN waiter ON waiter.id = waiter JOIN lock ON lock.id = lock"
        f" WHERE comm = '{case.comm}'",
    )
    names = {name for (name,) in waits}
    # The tracee's pi_lock, its siglock, the run queues' locks, or what stands in for them in that version.
    assert any(
        part in name
        for name in names
        for part in ("pi_lock", "siglock", "runqueues", "rq", "tasklist", "wait_chldexit")
    ), names


def test_what_came_before_the_end_is_told(case: StarvationCase, guest: Guest) -> None:
    found = [episode for episode in episodes(guest, "turns") if episode.state == "ended"]
    assert found
    reliefs = [episode.relief for episode in found if episode.relief is not None]
    assert reliefs
    for episode in found:
        if episode.relief is not None:
            assert 0 <= episode.relief.before_end_ns <= episode.duration_ns
    types = {kind for (kind,) in query(guest, "turns", "SELECT DISTINCT type FROM timeline")}
    assert {case.vectors, "switch", "wakeup", "wait task"} <= types


def test_the_evidence_is_whole_or_says_that_it_is_not(guest: Guest) -> None:
    for name in ("wait", "turns"):
        for episode in episodes(guest, name):
            times = [event.time_ns for event in episode.events]
            assert times == sorted(times)
            assert episode.interrupts in ("on", "off", "unknown")
            assert episode.interrupts == "unknown" or episode.interrupts_from.startswith("inferred")


def test_the_load_ends_with_its_program(case: StarvationCase, guest: Guest) -> None:
    """Tracees that outlive their tracer would have both CPUs during all that follows in the boot."""
    load = case.load.split()[0]
    assert not [line for line in guest.text("processes").splitlines() if load in line]


def test_the_kernel_has_no_complaint(guest: Guest) -> None:
    text = guest.text("dmesg")
    assert "WARNING:" not in text
    assert "BUG:" not in text.replace("BUG: soft lockup", "")
