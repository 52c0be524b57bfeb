# SPDX-License-Identifier: GPL-2.0-or-later
"""Tracers: calls and turns of wait_task_inactive(), and attaches, held against independent counts."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from boots import Section
from guest import Guest
from matrix import STATISTICS_ON, boot, chosen, kernel_of

from lockline.base import histogram

KERNELS = ("bookworm", "bookworm-rt", "trixie-rt", "sid")
# Where the same is done once more with kprobes, as on a kernel that has no fentry.
BY_KPROBE = "bookworm"
TRACERS = 2
ATTACHES = 50
LOAD = f"stress-ng --ptrace {TRACERS} --timeout 4"

COMMAND = f"""
{STATISTICS_ON}
mkfifo /tmp/fifo
function_counter wait_task_inactive < /tmp/fifo > counter &
exec 3> /tmp/fifo
until grep -q ready counter || ! kill -0 $!; do sleep 0.1; done
echo read > /tmp/fifo
until [ $(wc -l < counter) -ge 2 ]; do sleep 0.1; done
cat > /tmp/inner <<'END'
echo read > /tmp/fifo
attach_often {ATTACHES}
{LOAD}
echo read > /tmp/fifo
until [ $(wc -l < counter) -ge $1 ]; do sleep 0.1; done
END
lockline-collect record -a -q --ptrace -o run.lockline -- sh /tmp/inner 4 || exit
by_kprobe
exec 3>&-
wait
"""


RECORD_BY_KPROBE = """
no_fentry lockline-collect record -a -q --ptrace -o kprobe.lockline -- sh /tmp/inner 6 || exit
"""


def section(kernel: str) -> Section:
    """A guest with tracers."""
    script = COMMAND.replace("by_kprobe", RECORD_BY_KPROBE if kernel == BY_KPROBE else "")
    return Section(boot(kernel), "ptrace", script)


SECTIONS = chosen(*map(section, KERNELS))
# Of the calls: 0.2 % were skipped on 7.2.
SKIPPED_MOST = 0.02


@pytest.fixture(scope="module", params=SECTIONS, ids=kernel_of)
def guest(request: pytest.FixtureRequest, results: Callable[[Section], Guest]) -> Guest:
    """What a guest with tracers left."""
    return results(request.param)


def counts(guest: Guest) -> list[dict[str, Any]]:
    """Before the first recording, at the begin and the end of the load in each, and at last."""
    lines = [json.loads(line) for line in guest.text("counter").splitlines()]
    return [line for line in lines if line["event"] == "counts"]


def test_calls_and_turns_are_those_of_an_independent_count(guest: Guest) -> None:
    before, begin, end, after = counts(guest)[:4]
    calls, turns = guest.query("SELECT sum(calls), sum(turns) FROM inactive_wait")[0]
    print(f"\n{calls} calls, {turns} turns; counted inside {end['calls'] - begin['calls']},")
    print(f"{end['turns'] - begin['turns']}; outside {after['calls'] - before['calls']},", end=" ")
    print(after["turns"] - before["turns"])
    # Where a program at a function can be preempted, the kernel skips another task's meanwhile, and counts that.
    missed = dict(guest.query("SELECT name, recursion_misses FROM program WHERE name LIKE 'inactive_%'"))
    lost = missed.pop("inactive_enter", 0) + missed.pop("inactive_leave", 0)
    uncounted = after["misses"] - before["misses"]
    # Of a call or a turn that is in progress while they are read one program may know and not yet the other.
    assert end["calls"] - begin["calls"] <= calls + lost
    assert calls <= after["calls"] - before["calls"] + uncounted + TRACERS
    assert end["turns"] - begin["turns"] <= turns + sum(missed.values())
    assert turns <= after["turns"] - before["turns"] + uncounted + TRACERS
    assert lost + uncounted <= SKIPPED_MOST * calls


def test_tracers_and_tracees_are_named(guest: Guest) -> None:
    pairs = guest.query(
        "SELECT tid, target_tid, calls, turns, max_turns, traced, wait_ns, max_ns FROM inactive_wait"
        " WHERE comm = 'stress-ng-ptrac' AND target_comm = comm ORDER BY calls DESC"
    )
    assert len(pairs) >= TRACERS, guest.query("SELECT * FROM inactive_wait")
    for tid, target, calls, turns, max_turns, traced, wait_ns, max_ns in pairs[:TRACERS]:
        assert tid != target
        assert calls > 0
        assert 0 < max_turns <= turns
        assert traced > 0.9 * turns
        assert 0 < max_ns <= wait_ns


def test_histograms_hold_every_call(guest: Guest) -> None:
    times, turns = histogram.empty(), histogram.empty()
    for time_blob, turn_blob in guest.query("SELECT histogram, turns FROM inactive_cpu"):
        histogram.add_blob(times, time_blob)
        histogram.add_blob(turns, turn_blob)
    calls = guest.query("SELECT sum(calls) FROM inactive_wait")[0][0]
    assert sum(times) == sum(turns) == calls


def test_attaches_are_all_there(guest: Guest) -> None:
    """Of a program that attaches a known number of times, and once to itself, which fails."""
    rows = guest.query(
        "SELECT attaches, attach_ns, max_ns, tid, target_tid FROM ptrace_attach WHERE comm = 'attach_often'"
    )
    assert sorted(row[0] for row in rows) == [1, ATTACHES]
    for _, attach_ns, max_ns, tid, target in rows:
        assert 0 < max_ns <= attach_ns
        assert (tid == target) == (attach_ns == max_ns)
    times = histogram.empty()
    for (blob,) in guest.query("SELECT histogram FROM ptrace_attach_cpu"):
        histogram.add_blob(times, blob)
    assert sum(times) == guest.query("SELECT sum(attaches) FROM ptrace_attach")[0][0]
    assert guest.facts("loss")["attach_failed"] >= 1


def test_the_source(guest: Guest) -> None:
    sources = dict(guest.query("SELECT signal, source FROM probe"))
    assert sources["tracers that wait for tracees"] == sources["tracers that attach"] == "fentry"


def test_by_kprobe_it_is_the_same(guest: Guest) -> None:
    if not (guest.directory / "kprobe.lockline").exists():
        pytest.skip(f"kernels but {BY_KPROBE} are recorded by fentry alone")
    assert "no_fentry: 38 programs" in guest.text("stderr")
    with closing(sqlite3.connect(guest.directory / "kprobe.lockline")) as connection:
        sources = dict(connection.execute("SELECT signal, source FROM probe").fetchall())
        assert sources["tracers that wait for tracees"] == sources["tracers that attach"] == "kprobe"
        calls, turns, longest, most = connection.execute(
            "SELECT sum(calls), sum(turns), max(max_ns), max(max_turns) FROM inactive_wait"
        ).fetchone()
        attaches = connection.execute("SELECT attaches FROM ptrace_attach WHERE comm = 'attach_often'").fetchall()
        unmatched = connection.execute("SELECT count FROM loss WHERE name = 'inactive_unmatched'").fetchone()[0]
    _, _, end_of_first, begin, end, after = counts(guest)
    print(
        f"\nby kprobe: {calls} calls, {turns} turns; counted inside {end['calls'] - begin['calls']}, {unmatched} ends"
    )
    assert end["calls"] - begin["calls"] <= calls <= after["calls"] - end_of_first["calls"] + TRACERS
    assert end["turns"] - begin["turns"] <= turns <= after["turns"] - end_of_first["turns"]
    assert longest > 0
    assert most > 0
    assert sorted(number for (number,) in attaches) == [1, ATTACHES]
