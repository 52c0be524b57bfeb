# SPDX-License-Identifier: GPL-2.0-or-later
"""Futexes on other kernels: a mutex that is held for a known time, idle workers, timed polls."""

import json
from collections.abc import Callable

import pytest
from boots import Section
from guest import Guest
from matrix import STATISTICS_ON, boot, chosen, kernel_of

from lockline.analysis.futex import CONDITION, LOCK, NONE, POLL, FutexWaits, read_futexes
from lockline.recording.reader import open_recording

KERNELS = ("bookworm", "bookworm-rt", "trixie", "sid", "bookworm-arm64", "trixie-arm64")
ROUNDS = 10
HOLD_US = 20_000

# The workload says a line for each command.
COMMAND = f"""
{STATISTICS_ON}
mkfifo /tmp/commands
futex_mutex < /tmp/commands > told &
exec 3> /tmp/commands
until grep -q ready told || ! kill -0 $!; do sleep 0.1; done
inner='
do_one() {{ echo "$1" > /tmp/commands; until [ $(wc -l < told) -ge $2 ]; do sleep 0.1; done; }}
do_one "lock {ROUNDS} {HOLD_US}" 2
do_one "work {ROUNDS} 2000" 3
do_one "poll {ROUNDS} 3000" 4'
lockline-collect record -a -q --futex -o run.lockline -- sh -c "$inner" || exit
exec 3>&-
wait
"""


SECTIONS = chosen(*(Section(boot(kernel), "futexes", COMMAND) for kernel in KERNELS))


@pytest.fixture(scope="module", params=SECTIONS, ids=kernel_of)
def guest(request: pytest.FixtureRequest, results: Callable[[Section], Guest]) -> Guest:
    """What a guest with the workload left."""
    return results(request.param)


@pytest.fixture(scope="module")
def futexes(guest: Guest) -> dict[str, FutexWaits]:
    """The futexes of the workload by the symbol that holds them."""
    with open_recording(guest.recording) as recording:
        found = read_futexes(recording, recording.locks())
    assert found is not None
    return {futex.futex.name: futex for futex in found.futexes if futex.futex.name}


def misses(guest: Guest) -> int:
    """Runs that the kernel skipped, since another task's was preempted there: from 7.x on."""
    return int(guest.query("SELECT sum(recursion_misses) FROM program WHERE name LIKE 'futex%'")[0][0])


def test_the_mutex(guest: Guest, futexes: dict[str, FutexWaits]) -> None:
    ready, truth, *_ = [json.loads(line) for line in guest.text("told").splitlines()]
    mutex = futexes["held_mutex"]
    print(f"\n{mutex.figures.waits} waits, {mutex.figures.wait_ns / 1e6:.1f} ms of {truth['waited_ns'] / 1e6:.1f} ms")
    assert mutex.nature == LOCK, mutex
    assert ROUNDS - misses(guest) <= mutex.figures.waits <= ROUNDS
    assert mutex.figures.waits * HOLD_US * 1000 <= mutex.figures.wait_ns <= truth["waited_ns"]
    assert {task.tid for task in mutex.tasks if task.role == "owner"} == {ready["pid"]}


def test_idle_workers_and_polls(guest: Guest, futexes: dict[str, FutexWaits]) -> None:
    workers = [futex for name, futex in futexes.items() if name.startswith("work_condition")]
    assert sum(futex.figures.waits for futex in workers) > 0
    assert {futex.nature for futex in workers} <= {CONDITION, NONE}
    (poll,) = [futex for name, futex in futexes.items() if name.startswith("poll_condition") and futex.total.calls]
    assert poll.nature == POLL
    assert ROUNDS - misses(guest) <= poll.total.timed_out <= ROUNDS
    assert 0 < poll.figures.waits <= poll.total.timed_out


def test_nothing_is_lost(guest: Guest) -> None:
    loss = guest.facts("loss")
    assert loss["futex_calls"] > 0
    assert not any(loss[name] for name in ("futex_no_slot", "futex_no_row", "futex_compat"))
    assert loss["futex_orphaned"] <= misses(guest)
