# SPDX-License-Identifier: GPL-2.0-or-later
"""Futexes on other kernels: a mutex that is held for a known time, idle workers, timed polls."""

import json
from collections.abc import Callable

import pytest
from boots import Section
from guest import Guest
from matrix import STATISTICS_ON, boot, chosen, kernel_of

from lockline.analysis.user_space.futex import read_futexes
from lockline.analysis.user_space.futex_waits import CONDITION, LOCK, NONE, POLL, FutexWaits
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

# The same calls twice: by the functions of futex calls, and by the tracepoints of all system calls.  Of other system
# calls there are tens of thousands.
WAYS = ("fentry", "tracepoints")
BOTH_WAYS = f"""
{STATISTICS_ON}
record() {{
	name=$1; shift
	rm -f /tmp/commands; mkfifo /tmp/commands
	futex_mutex < /tmp/commands > $name.told &
	exec 3> /tmp/commands
	until grep -q ready $name.told || ! kill -0 $!; do sleep 0.1; done
	inner='
	do_one() {{ echo "$1" > /tmp/commands; until [ $(wc -l < '$name'.told) -ge $2 ]; do sleep 0.1; done; }}
	do_one "lock {ROUNDS} {HOLD_US}" 2
	do_one "pi {ROUNDS} {HOLD_US}" 3
	do_one "waitv {ROUNDS} {HOLD_US}" 4
	do_one "wait2 {ROUNDS} {HOLD_US}" 5
	do_one "requeue {ROUNDS} {HOLD_US}" 6
	do_one "restart 4 {HOLD_US}" 7
	do_one "calls32 {ROUNDS} {HOLD_US}" 8
	dd if=/dev/zero of=/dev/null bs=1 count=20000 2> /dev/null'
	"$@" lockline-collect record -a -q --futex -o $name.lockline -- sh -c "$inner" || exit
	exec 3>&-
	wait
}}
record fentry
record tracepoints no_fentry
"""
WORDS = ("held_mutex", "pi_mutex", "first_word", "second_word")


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


@pytest.fixture(scope="module", params=chosen(Section(boot("trixie"), "futex-ways", BOTH_WAYS)), ids=kernel_of)
def ways(request: pytest.FixtureRequest, results: Callable[[Section], Guest]) -> Guest:
    """A guest that recorded both ways."""
    return results(request.param)


def test_both_ways_count_the_same(ways: Guest) -> None:
    words = (
        "SELECT name, calls, slept, again, timed_out, interrupted, failed, timed, wakes, wakes_empty, tasks_woken, ops"
        f" FROM futex JOIN futex_total ON futex = futex.id WHERE name IN {WORDS} ORDER BY name"
    )
    others = "SELECT count FROM loss WHERE name IN ('futex_restarted', 'futex_compat') ORDER BY name"
    found = {way: ways.rows(f"{way}.lockline", words) for way in WAYS}
    assert [row[0] for row in found["fentry"]] == sorted(WORDS)
    assert found["fentry"] == found["tracepoints"]
    assert [ways.rows(f"{way}.lockline", others) for way in WAYS] == [[(2 * ROUNDS,), (4,)]] * 2


def test_other_calls_run_no_program(ways: Guest) -> None:
    """At most one run for each futex call; the tracepoints' program runs for the others too."""
    entered = "SELECT sum(measured_runs) FROM program WHERE name LIKE 'futex_enter%'"
    counted = "SELECT sum(count) FROM loss WHERE name IN ('futex_calls', 'futex_restarted')"
    runs = {way: ways.rows(f"{way}.lockline", entered)[0][0] for way in WAYS}
    calls = {way: ways.rows(f"{way}.lockline", counted)[0][0] for way in WAYS}
    assert 0 < runs["fentry"] <= calls["fentry"]
    assert runs["tracepoints"] > calls["tracepoints"]
