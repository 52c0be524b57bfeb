# SPDX-License-Identifier: GPL-2.0-or-later
"""Long waits of known truth: who held, what the holder did, who came first, and what ended it."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest
from boots import Section
from guest import Guest
from matrix import STATISTICS_ON, TEST_AND_SET, boot, chosen, kernel_of

from lockline.analysis.episode_model import Episode
from lockline.analysis.model import Report
from lockline.analysis.selection import Selection
from lockline.recording.reader import open_recording
from lockline.rules.report import make_report

KERNEL = "trixie"
HOLD_US, HOLDS = 20_000, 25
# Ended by an interrupt: the program that holds raises it.
RAISED_AFTER_US = 6000
# futex-retake of held_lock: holds of a round, each of this length, and one less for next to nothing.
RETAKES, RETAKE_US, ROUNDS = 16, 1000, 30
# Of a group of control: 5 ms of 100.
LIMIT_US, PERIOD_US = 5_000, 100_000
TIMES = 15
# So many of the other's writes slept as for a lock, and still did WAIT_S later.
SEEN_WAITING, WAIT_S = 3, 0.05

RECORD = "lockline-collect record -a --holders --episodes --threshold {threshold} -I 100ms -o {name}.lockline --"

# One writes into a file, a megabyte at once, and holds the inode's rwsem for as long; the other wants to write a byte.
# Where the guest is slow the first spends its time to start programs, and may hold nothing for seconds.
THROTTLED = f"""
echo +cpu > /sys/fs/cgroup/cgroup.subtree_control
mkdir /sys/fs/cgroup/slow
echo "{LIMIT_US} {PERIOD_US}" > /sys/fs/cgroup/slow/cpu.max
dd if=/dev/zero of=/tmp/file bs=1M count=8 2> /dev/null
cat > /tmp/holder <<'END'
echo $$ > /sys/fs/cgroup/slow/cgroup.procs
while [ ! -e /tmp/enough ]; do
	dd if=/dev/zero of=/tmp/file bs=1M count=8 conv=notrunc &
	echo $! >> throttled.holders
	wait $!
done
END
cat > /tmp/load <<'END'
throttled() {{ sed -n 's/nr_throttled //p' /sys/fs/cgroup/slow/cpu.stat; }}
asleep() {{ sleep {WAIT_S}; grep -q '^State:.D' /proc/$1/status; }} 2> /dev/null
seen=0
sh /tmp/holder 2> /dev/null &
until [ $(throttled) -ge {TIMES} ] && [ $seen -ge {SEEN_WAITING} ]; do
	dd if=/dev/zero of=/tmp/file bs=1 count=1 conv=notrunc 2> /dev/null &
	writer=$!
	asleep $writer && asleep $writer && seen=$((seen + 1))
	wait $writer
done
touch /tmp/enough
echo max > /sys/fs/cgroup/slow/cpu.max
wait
cat /sys/fs/cgroup/slow/cpu.stat > throttled.stat
END
{RECORD.format(threshold="20ms", name="throttled")} sh /tmp/load || exit
"""


def held_lock(name: str, arguments: str, threshold: str = "5ms") -> str:
    """The command that leaves NAME.lockline, and NAME.json with the truth."""
    return f"{RECORD.format(threshold=threshold, name=name)} held_lock {arguments} --waiters 1 > {name}.json || exit"


GUEST = Section(
    boot(KERNEL, turns=True),
    "episodes",
    "\n".join(
        [
            STATISTICS_ON,
            held_lock("held", f"futex-bucket --hold-us {HOLD_US} --count {HOLDS}"),
            held_lock("raised", f"futex-bucket --hold-us {RAISED_AFTER_US} --count {HOLDS} --by-interrupt"),
            THROTTLED,
        ]
    ),
)
UNFAIR = Section(
    boot(KERNEL, TEST_AND_SET, turns=True),
    "retakes",
    f"{STATISTICS_ON}\n" + held_lock("retake", f"futex-retake --hold-us {RETAKE_US} --count {ROUNDS}", "1ms"),
)


@pytest.fixture(scope="module", params=chosen(GUEST), ids=kernel_of)
def guest(request: pytest.FixtureRequest, results: Callable[[Section], Guest]) -> Guest:
    """Locks that one task holds for a known time while another waits."""
    return results(request.param)


@pytest.fixture(scope="module", params=chosen(UNFAIR), ids=kernel_of)
def unfair(request: pytest.FixtureRequest, results: Callable[[Section], Guest]) -> Guest:
    """A lock without a queue: who releases it may have it again, before the one that waits."""
    return results(request.param)


def report_of(guest: Guest, name: str) -> Report:
    """With all episodes of one of the recordings."""
    with open_recording(str(guest.directory / f"{name}.lockline")) as recording:
        return make_report(recording, Selection(), 5, -1)


def truth_of(guest: Guest, name: str) -> dict[str, Any]:
    """The workload's last word."""
    truth: dict[str, Any] = json.loads(guest.text(f"{name}.json").splitlines()[-1])
    assert truth["event"] == "holds"
    return truth


def found_in(guest: Guest, name: str, truth: dict[str, Any]) -> list[Episode]:
    """The waits of the workload's waiter that had an end, for the lock that its holder held most."""
    return [
        episode
        for episode in report_of(guest, name).episodes
        if episode.state == "ended"
        and episode.waiter.tid in truth["waiters"]
        and episode.kind == "spinlock"
        and episode.holders
        and episode.holders[0].task.tid == truth["holder"]
    ]


def test_known_holds(guest: Guest) -> None:
    """The holder is the one that held, for no longer than it did, and nobody came in between."""
    truth = truth_of(guest, "held")
    found = found_in(guest, "held", truth)
    # On a loaded machine many a waiter comes too late for a hold, or others' waits are longer.
    assert len(found) >= HOLDS // 5, len(found)
    longest = sorted((held_ns for held_ns, _ in truth["holds"]), reverse=True)
    parts = sorted((episode.holders[0].held_ns for episode in found), reverse=True)
    # The lock is let go after the program that holds it has ended: the function goes on, and may be interrupted.
    for part, limit in zip(parts, longest, strict=False):
        assert part <= limit + HOLD_US * 1000 // 2
    for episode in found:
        assert episode.handoff_ns is not None
        assert sum(holder.held_ns for holder in episode.holders) + episode.handoff_ns == episode.duration_ns
        assert episode.waiter.tid != truth["holder"]
        assert episode.bypass is not None
    # One waiter: nobody else wants the lock but the holder itself, once in a while.
    assert sorted(episode.bypass or 0 for episode in found)[len(found) // 2] == 0
    # It ran while it held: the program that stops it does not sleep.
    running = [episode.holders[0].doing.running_ns / episode.holders[0].held_ns for episode in found]
    assert sorted(running)[len(running) // 2] > 0.9


def test_an_interrupt_of_known_kind_ends_a_wait(guest: Guest) -> None:
    """The holder lets go once an irq_work interrupt came into it: named, on its CPU, at its time."""
    truth = truth_of(guest, "raised")
    found = found_in(guest, "raised", truth)
    assert len(found) >= HOLDS // 5, len(found)
    named = 0
    for episode in found:
        end_ns = episode.begin_ns + episode.duration_ns
        # Not those that were given up, for want of a waiter in time.
        raised = [log for log in truth["log"] if episode.begin_ns < log[1] <= end_ns and log[2]]
        if not raised:
            continue
        held_from_ns, let_go_ns, interrupted_ns = raised[-1]
        came = [
            event
            for event in episode.events
            if event.name == "irq_work" and event.task.tid == truth["holder"] and held_from_ns < event.time_ns < end_ns
        ]
        assert came, (raised, [event for event in episode.events if event.type == "vector"])
        event = came[-1]
        assert (event.type, event.cpu) == ("vector", 0)
        # Of two programs at one tracepoint either is first.
        assert event.time_ns - event.length_ns <= interrupted_ns <= event.time_ns + event.length_ns
        assert event.time_ns <= max(let_go_ns, interrupted_ns) + event.length_ns
        relief = episode.relief
        assert relief is not None
        assert (relief.side, relief.cpu) == ("holder", 0)
        # Nothing older is taken for it; something younger may have come, as far as anybody can tell.
        assert relief.before_end_ns <= end_ns - event.time_ns
        if relief.name == "irq_work":
            named += 1
            assert relief.before_end_ns == end_ns - event.time_ns
            assert (relief.type, relief.task.tid) == ("vector", truth["holder"])
    # Ticks of the timer come every 4 ms and are as likely to be last as the machine is slow.
    assert named >= max(1, len(found) // 4), (named, len(found))


def throttled_usec(guest: Guest) -> int:
    """What the kernel says of the group."""
    return int(dict(line.split() for line in guest.text("throttled.stat").splitlines())["throttled_usec"])


def test_a_throttled_holder(guest: Guest) -> None:
    """It has 5 % of a CPU: for most of the wait it could have run and was not allowed to."""
    holders = {int(tid) for tid in guest.text("throttled.holders").split()}
    report = report_of(guest, "throttled")
    found = [
        episode
        for episode in report.episodes
        if episode.kind == "rwsem:W" and episode.holders and episode.holders[0].task.tid in holders
    ]
    assert found
    for episode in found:
        doing = episode.holders[0].doing
        print(f"\n{episode.duration_ns / 1e6:.0f} ms of waiting: {doing}")
        assert doing.throttled_ns <= episode.holders[0].held_ns
        assert not doing.stopped_ns
    # The kernel's own count is of all of the run, the waits are parts of it.
    throttled_ns = sum(episode.holders[0].doing.throttled_ns for episode in found)
    held_ns = sum(episode.holders[0].held_ns for episode in found)
    # Once the time is given back it takes until a CPU is free.
    assert throttled_ns <= throttled_usec(guest) * 1000 + len(found) * PERIOD_US * 1000 + held_ns // 10
    assert throttled_ns > 0.5 * held_ns
    assert "holder-throttled" in {finding.rule for finding in report.findings}


@dataclass(frozen=True)
class Retaken:
    """What a wait of the futex-retake mode was overtaken by, as far as its workload knows."""

    least: int
    most: int


def overtakings(truth: dict[str, Any], episode: Episode) -> Retaken:
    """Others had the lock once for each release in the wait, but for the hold that the wait began behind.

    The program logs the end of a hold just before the release: one at either end of the wait may be on the other side
    of it.  The short takings at the end of a round are not logged, but for that they are over when the system call is.
    """
    begin_ns, end_ns = episode.begin_ns, episode.begin_ns + episode.duration_ns
    least = most = -1
    for number, [round_end_ns] in enumerate(truth["rounds"]):
        log = truth["log"][number * RETAKES : (number + 1) * RETAKES]
        holds = sum(1 for _, let_go_ns, _ in log if begin_ns < let_go_ns <= end_ns)
        least += holds
        most += holds
        last_ns = log[-1][1]
        if begin_ns < round_end_ns and end_ns > last_ns:
            most += RETAKES - 1
            if begin_ns <= last_ns and end_ns > round_end_ns:
                least += RETAKES - 1
    return Retaken(max(0, least - 1), max(0, most + 1))


def test_overtakings_are_counted(unfair: Guest) -> None:
    """A waiter that is passed over, each time that the lock is free, by the one that let go of it."""
    truth = truth_of(unfair, "retake")
    found = found_in(unfair, "retake", truth)
    assert len(found) >= ROUNDS // 5, len(found)
    bypasses = []
    for episode in found:
        if not episode.complete or episode.left_out:
            continue
        known = overtakings(truth, episode)
        assert episode.bypass is not None
        assert known.least <= episode.bypass <= known.most, (episode.bypass, known)
        bypasses.append(episode.bypass)
        holder = episode.holders[0]
        # Releases, that is: others' holds, the first one's too.
        assert episode.bypass <= sum(one.holds for one in episode.holders) - 1 <= known.most
        assert holder.held_ns <= episode.duration_ns
    print(f"\novertaken {bypasses} times")
    assert bypasses
    if UNFAIR.boot.accel:
        # An emulated waiter looks when its turn comes, not when the lock is free.
        assert max(bypasses) >= RETAKES // 2


def test_waits_last_as_long_as_they_are_seen_to(unfair: Guest) -> None:
    """From the waiter's word to its return at most; from the first hold's end on at least."""
    truth = truth_of(unfair, "retake")
    found = found_in(unfair, "retake", truth)
    [waits] = truth["waits"]
    longest = sorted((waited_ns for _, waited_ns in waits), reverse=True)
    for episode, limit in zip(sorted(found, key=lambda one: -one.duration_ns), longest, strict=False):
        assert episode.duration_ns <= limit


def test_the_collector_has_no_complaint(guest: Guest, unfair: Guest) -> None:
    for where, name in ((guest, "held"), (guest, "raised"), (guest, "throttled"), (unfair, "retake")):
        with closing(sqlite3.connect(where.directory / f"{name}.lockline")) as connection:
            states = dict(connection.execute("SELECT signal, state FROM probe").fetchall())
        assert states["context switches"] == states["spinlock holders"] == "on", states
