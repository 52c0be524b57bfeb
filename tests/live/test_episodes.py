# SPDX-License-Identifier: GPL-2.0-or-later
"""Long waits with what went on around them, and the flight recorder, on this kernel."""

import json
import os
import signal
import struct
import subprocess
import sys
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pytest

from support import Collector, Recording, Workload, running, wait_for

FIRED = 2
# A wait that several intervals end in.
LONG_HOLD_US = 1_500_000
HOLD_US = 60_000
RELIEF_PROGRAMS = ("context_switch", "task_waking", "task_wakeup", "wait_task", "softirq_enter")
TOP = Path(__file__).resolve().parent.parent.parent


def report(recording: Path) -> dict[str, Any]:
    """The JSON report."""
    done = subprocess.run(
        [sys.executable, "-m", "lockline", "report", "--format", "json", recording],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(TOP / "userspace")},
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_wait_of_known_length(live: Path, recording: Path) -> None:
    """The waiter sleeps from its begin to the end, and who held the lock wakes it."""
    with (
        Workload(live, "uffd_mutex") as workload,
        Collector(live, recording, "--episodes", "-p", str(workload.pid), "--threshold", "20ms"),
    ):
        bounds = workload.do(f"go 4 {HOLD_US}")["waits"]
    found = [episode for episode in report(recording)["episodes"] if episode["lock"]["kind"] == "mutex"]
    assert len(found) == 4
    longest = sorted((high for _, high in bounds), reverse=True)
    for episode, high in zip(sorted(found, key=lambda one: -one["duration_ns"]), longest, strict=True):
        assert HOLD_US * 1000 // 2 <= episode["duration_ns"] <= high
        doing = episode["waiter"]["doing"]
        assert sum(doing.values()) == episode["duration_ns"]
        assert doing["asleep_ns"] >= episode["duration_ns"] * 0.5
        assert episode["waiter"]["tgid"] == workload.pid
        assert episode["waiter"]["policy"] == "SCHED_OTHER"
        assert episode["waiter"]["real_time"] is False
        assert episode["irqs_off"]["state"] is False
        assert "inferred" in episode["irqs_off"]["from"]
        assert episode["relief"]["before_end_ns"] <= episode["duration_ns"]
        assert not episode["in_progress"]


def test_what_ended_a_wait(live: Path, recording: Path) -> None:
    """The holder sleeps until a third thread gives it what it waits for, at a known moment: that ends the wait."""
    with (
        Workload(live, "uffd_mutex") as workload,
        Collector(live, recording, "--episodes", "--holders", "-p", str(workload.pid), "--threshold", "20ms"),
    ):
        served = workload.do(f"go 4 {HOLD_US}")["served_ns"]
    found = [episode for episode in report(recording)["episodes"] if episode["lock"]["kind"] == "mutex"]
    assert len(found) == len(served)
    for episode, served_ns in zip(sorted(found, key=lambda one: one["begin_ns"]), served, strict=True):
        [holder] = [one for one in episode["holders"] if one["tid"] == workload.ready["holder"]]
        assert holder["doing"]["asleep_ns"] >= HOLD_US * 1000 // 2
        relief = episode["relief"]
        assert relief["side"] == "holder"
        at_ns = episode["begin_ns"] + episode["duration_ns"] - relief["before_end_ns"]
        assert served_ns <= at_ns <= episode["begin_ns"] + episode["duration_ns"]
        # Its wake-up, its getting a CPU, or an interrupt that came into what it did then.
        assert relief["type"] in ("switch", "wakeup", "vector", "interrupt", "ipi")
        if relief["type"] in ("switch", "wakeup"):
            assert relief["task"]["tid"] == workload.ready["holder"]
    with Recording(recording) as result:
        for served_ns in served:
            woken = result.number(
                "SELECT count(*) FROM timeline JOIN waiter ON waiter.id = other WHERE type = 'wakeup' AND tid = ?"
                " AND time_ns BETWEEN ? AND ?",
                workload.ready["holder"],
                served_ns,
                served_ns + HOLD_US * 1000,
            )
            assert woken


def test_who_holds_the_lock_now(live: Path, recording: Path) -> None:
    """A wait that lasts is looked at while it does: its holder, what that does, and its stack at that moment."""
    with (
        Workload(live, "uffd_mutex") as workload,
        Collector(live, recording, "--episodes", "-p", str(workload.pid), "-I", "200ms", "--threshold", "20ms"),
    ):
        workload.do(f"go 1 {LONG_HOLD_US}")
    with Recording(recording) as result:
        rows = result.rows(
            "SELECT episode.state, episode.tid, holder.tid, holder.tgid, holder_state, holder_stack, holder_from,"
            " outlier FROM episode JOIN waiter AS holder ON holder.id = episode.holder ORDER BY wait_ns DESC"
        )
        assert rows, result.rows("SELECT * FROM episode")
        state, waiter, holder, tgid, holder_state, stack, source, outlier = rows[0]
        assert state == "ended"
        assert outlier
        assert holder != waiter
        assert tgid == workload.pid
        # It waits for a page that userfaultfd holds back.
        assert holder_state in ("S", "D")
        assert source.startswith("owner field")
        [[frames]] = result.rows("SELECT frames FROM stack WHERE id = ?", stack)
        addresses = struct.unpack(f"<{len(frames) // 8}q", frames)
        named = dict(result.rows("SELECT address, symbol FROM frame WHERE tgid = 0"))
        symbols = [named[address] for address in addresses]
        assert "handle_userfault" in symbols


def test_relief_records_only_on_request(live: Path, recording: Path) -> None:
    with Collector(live, recording):
        pass
    with Recording(recording) as result:
        names = {name for (name,) in result.rows("SELECT name FROM program")}
        assert not names & set(RELIEF_PROGRAMS)
        states = dict(result.rows("SELECT signal, state FROM probe"))
        assert states["context switches"] == "off"
        assert states["turns of wait_task_inactive"] == "off"


def interval_rows(result: Recording) -> list[int]:
    """Rows of the tables that grow with each interval."""
    return [result.number(f"SELECT count(*) FROM {table}") for table in ("interval", "sample_interval")]


def test_a_wait_ends_the_flight(live: Path, recording: Path) -> None:
    with Workload(live, "uffd_mutex") as workload:
        condition = f"wait>20ms and kind=mutex and pid={workload.pid}"
        collector = Collector(live, recording, "--flight", "-I", "100ms", "--until", condition).attached()
        bounds = workload.do(f"go 1 {HOLD_US}")["waits"]
        assert collector.wait() == FIRED
    assert any("the flight is over: thread" in line for line in collector.errors())
    with Recording(recording) as result:
        assert "waited" in str(result.rows("SELECT value FROM meta WHERE name = 'fired'")[0][0])
        # Not one interval before it.
        assert interval_rows(result) == [1, 0]
        assert result.number("SELECT count(*) FROM outlier WHERE interval NOT IN (SELECT id FROM interval)") == 0
        [[state, wait_ns]] = result.rows(
            "SELECT state, wait_ns FROM episode JOIN kind ON kind.id = episode.kind WHERE kind.name = 'mutex'"
            " AND tid = ?",
            workload.ready["waiter"],
        )
        # It may have been noticed before it was over.
        assert wait_ns <= bounds[0][1]
        assert wait_ns >= (bounds[0][0] if state == "ended" else 20_000_000)
        # The totals have everything, as ever.
        assert result.begins() == result.begins_accounted()


def test_a_wait_that_lasts_ends_the_flight(live: Path, recording: Path) -> None:
    """Long before an interval ends, and with whoever holds the lock at that moment."""
    with Workload(live, "uffd_mutex") as workload:
        condition = f"wait>20ms and pid={workload.pid}"
        collector = Collector(live, recording, "--flight", "-I", "600", "--until", condition).attached()
        seen_ns = workload.do("leave")["seen_ns"]
        assert collector.wait() == FIRED
    assert any("has waited" in line for line in collector.errors())
    with Recording(recording) as result:
        state, begin_ns, wait_ns, holder = result.rows(
            "SELECT state, begin_ns, wait_ns, holder.tid FROM episode JOIN waiter AS holder ON holder.id = holder"
            " WHERE episode.tid = ?",
            workload.ready["waiter"],
        )[0]
        assert state == "in progress"
        assert begin_ns <= seen_ns
        assert wait_ns > 20_000_000
        assert holder == workload.ready["holder"]


def test_another_wait_does_not(live: Path, recording: Path) -> None:
    with Workload(live, "uffd_mutex") as workload:
        condition = f"wait>20ms and kind=rwsem and pid={workload.pid}"
        collector = Collector(live, recording, "--flight", "-I", "100ms", "--until", condition).attached()
        workload.do(f"go 1 {HOLD_US}")
        assert collector.stop() == 0
    with Recording(recording) as result:
        assert result.rows("SELECT value FROM meta WHERE name = 'fired'") == []
        assert result.number("SELECT count(*) FROM episode") == 0
        assert result.number("SELECT count(*) FROM interval") == 1


def test_until_without_a_flight(live: Path, recording: Path) -> None:
    """An ordinary recording, ended by the condition."""
    with Workload(live, "uffd_mutex") as workload:
        collector = Collector(live, recording, "-I", "100ms", "--until", f"wait>20ms and pid={workload.pid}").attached()
        workload.do(f"go 1 {HOLD_US}")
        assert collector.wait() == FIRED
    with Recording(recording) as result:
        assert "wait" in str(result.rows("SELECT value FROM meta WHERE name = 'fired'")[0][0])
        assert result.number("SELECT count(*) FROM outlier") + result.number("SELECT count(*) FROM open_wait") >= 1
        assert result.number("SELECT count(*) FROM episode") == 0


def test_a_signal_ends_the_flight(live: Path, recording: Path) -> None:
    with running("sh", "-c", "while :; do sleep 0.01; done"):
        collector = Collector(live, recording, "--flight").attached()
        assert collector.stop(signal.SIGUSR2) == FIRED
    found = report(recording)["episodes"]
    assert found[0]["state"] == "moment"
    with Recording(recording) as result:
        types = {kind for (kind,) in result.rows("SELECT DISTINCT type FROM timeline")}
        assert {"switch", "waking", "wakeup"} <= types
        begin, end = result.rows("SELECT from_ns, to_ns FROM episode WHERE state = 'moment'")[0]
        outside = result.number("SELECT count(*) FROM timeline WHERE time_ns NOT BETWEEN ? AND ?", begin, end)
        assert outside == 0 or len(found) > 1


def test_a_marker_ends_the_flight(live: Path, recording: Path) -> None:
    """In a mount namespace of its own, where tracefs is sure to be mounted."""
    mount = 'mount -t tracefs tracefs /sys/kernel/tracing && exec "$@"'
    prefix = ("unshare", "-m", "sh", "-c", mount, "sh")
    tracing_on = subprocess.run([*prefix, "cat", "/sys/kernel/tracing/tracing_on"], capture_output=True, check=False)
    if tracing_on.stdout.strip() != b"1":
        pytest.skip("tracefs cannot be mounted here, or somebody has switched tracing off: no line can be written")
    collector = Collector(live, recording, "--flight", "--until", "marker", prefix=prefix).attached()
    subprocess.run([*prefix, "sh", "-c", "echo here > /sys/kernel/tracing/trace_marker"], check=True)
    assert collector.wait() == FIRED
    assert any("trace_marker" in line for line in collector.errors())


def test_no_marker_without_tracefs(live: Path, recording: Path) -> None:
    """Where it cannot be watched the flight does not begin, and says what to do."""
    hide = 'mount -t tmpfs none /sys/kernel/tracing; mount -t tmpfs none /sys/kernel/debug; exec "$@"'
    command = [live / "bin" / "lockline-collect", "record", "--flight", "--until", "marker", "-o", recording]
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", hide, "sh", *command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "mount" in done.stderr
    assert not recording.exists()


def switches(live: Path, recording: Path) -> list[tuple[int, int]]:
    """Tasks of the load that a CPU switched to, each with the task that the CPU left next; [] if some are missing."""
    collector = Collector(live, recording, "--flight").attached()
    wait_for(lambda: collector.process.poll() is None, "running collector")
    assert collector.stop(signal.SIGUSR2) == FIRED
    with Recording(recording) as result:
        rows = result.rows(
            "SELECT timeline.cpu, before.tid, after.tid, after.comm FROM timeline JOIN waiter AS before"
            " ON before.id = task JOIN waiter AS after ON after.id = other, episode WHERE type = 'switch'"
            " AND state = 'moment' AND time_ns BETWEEN from_ns AND to_ns ORDER BY timeline.cpu, time_ns, sequence"
        )
        if result.number("SELECT count(*) FROM episode WHERE NOT complete OR left_out"):
            return []
    return [
        (after, before)
        for (cpu, _, after, comm), (next_cpu, before, _, _) in pairwise(rows)
        if cpu == next_cpu and comm in ("sh", "true")
    ]


def test_switches_are_all_there(live: Path, tmp_path: Path) -> None:
    """Each CPU goes on with the task that it switched to, in the time before the end; other episodes are apart.

    Only tasks that began with the load are held to it.  A guest that was restored from a snapshot passes no
    sched_switch when it leaves a task from before: ftrace misses the same switches there.
    """
    flights = (tmp_path / f"{number}.lockline" for number in count())
    with running("sh", "-c", "while :; do env true; done"):
        # On a busy machine the load may not run in the few milliseconds of one flight.
        found = wait_for(lambda: switches(live, next(flights)), "flight with switches of the load")
    assert [after for after, _ in found] == [before for _, before in found]
