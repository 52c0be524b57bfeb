# SPDX-License-Identifier: GPL-2.0-or-later
"""wait_task_inactive(): calls and turns of tracers, held against an independent count of both."""

import json
from collections.abc import Callable

import pytest
from guest import Guest
from matrix import CPU, NATIVE, selected
from test_holders import STATISTICS_ON

from lockline import histogram

KERNELS = ("bookworm", "bookworm-rt", "trixie-rt", "sid")
TRACERS = 2
LOAD = f"stress-ng --ptrace {TRACERS} --timeout 4"

COMMAND = f"""
{STATISTICS_ON}
mkfifo /tmp/fifo
function_counter wait_task_inactive < /tmp/fifo > counter &
exec 3> /tmp/fifo
until grep -q ready counter || ! kill -0 $!; do sleep 0.1; done
echo read > /tmp/fifo
until [ $(wc -l < counter) -ge 2 ]; do sleep 0.1; done
inner='echo read > /tmp/fifo; {LOAD}; echo read > /tmp/fifo; until [ $(wc -l < counter) -ge 4 ]; do sleep 0.1; done'
lockline-collect record -a -q --ptrace -o run.lockline -- sh -c "$inner" || exit
exec 3>&-
wait
dmesg > dmesg
"""


@pytest.fixture(scope="module", params=[kernel for kernel in KERNELS if selected(kernel)])
def guest(request: pytest.FixtureRequest, boot: Callable[..., Guest]) -> Guest:
    """What a guest with tracers left."""
    return boot(request.param, COMMAND, "--cpus", "2", "--cpu", CPU[NATIVE], "--append", "tsc=reliable")


def test_calls_and_turns_are_those_of_an_independent_count(guest: Guest) -> None:
    lines = [json.loads(line) for line in guest.text("counter").splitlines()]
    before, begin, end, after = [line for line in lines if line["event"] == "counts"]
    calls, turns = guest.query("SELECT sum(calls), sum(turns) FROM inactive_wait")[0]
    print(f"\n{lines[0]['source']}: {calls} calls, {turns} turns; counted inside {end['calls'] - begin['calls']},")
    print(f"{end['turns'] - begin['turns']}; outside {after['calls'] - before['calls']},", end=" ")
    print(after["turns"] - before["turns"])
    # Of a call that is in progress while they are read one program may know and not yet the other.
    assert end["calls"] - begin["calls"] <= calls <= after["calls"] - before["calls"] + TRACERS
    assert end["turns"] - begin["turns"] <= turns <= after["turns"] - before["turns"]


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
