# SPDX-License-Identifier: GPL-2.0-or-later
"""Rules that know what went on around a wait, at a clock, or in programs' futexes; near misses."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lockline.analysis.clocksource import ClockReads
from lockline.analysis.episode_model import Doing, Episode, EpisodeHolder, Loop, Party, Relief
from lockline.analysis.model import Figures, Report
from lockline.analysis.ptrace import InactiveWaits
from lockline.analysis.user_space.futex_waits import (
    CONDITION,
    LOCK,
    PARKED,
    SEMAPHORE,
    BucketWaits,
    Futexes,
    FutexStack,
    FutexTask,
    FutexWaits,
)
from lockline.recording.rows import Frame, InactiveWait
from lockline.recording.user_rows import Futex, FutexTotal
from lockline.rules import find_all
from recording_generator import BEGIN
from rule_cases import MS, SPINLOCK, US, Made, one, rules_of


def episode(**changes: Any) -> Episode:
    """A wait of 2 ms of a real-time task, its holder preempted for 80 % of it."""
    return replace(
        Episode(
            state="ended",
            waiter=Party(10, "cyclictest"),
            tgid=10,
            cpu=1,
            begin_cpu=1,
            policy=1,
            priority=1,
            lock="task_struct.pi_lock",
            instance="",
            kind="spinlock",
            offset_ns=0,
            begin_ns=BEGIN,
            duration_ns=2 * MS,
            interrupts="off",
            interrupts_from="",
            stack=(),
            doing=Doing(),
            holders=(
                EpisodeHolder(
                    Party(20, "stress"),
                    "release",
                    2 * MS,
                    1,
                    Doing(running_ns=400 * US, preempted_ns=1600 * US),
                    "",
                    (),
                ),
            ),
            handoff_ns=0,
            bypass=0,
            loops=(),
            relief=None,
            chain=(),
            complete=True,
            left_out=0,
            events=(),
        ),
        **changes,
    )


@pytest.mark.parametrize(
    ("changes", "confidence"),
    [
        ({}, "high"),
        ({"complete": False}, "medium"),
        ({"priority": 120}, None),
        ({"priority": None}, None),
        ({"duration_ns": 50 * US}, None),
        ({"holders": ()}, None),
    ],
)
def test_priority_inversion(quiet: Report, changes: dict[str, Any], confidence: str | None) -> None:
    findings = find_all(replace(quiet, episodes=(episode(**changes),)))
    if confidence is None:
        assert findings == ()
    else:
        assert one(findings, "priority-inversion").confidence == confidence
        assert "80.0%" in one(findings, "priority-inversion").evidence[1]


@pytest.mark.parametrize(
    ("doing", "changes", "confidence"),
    [
        (Doing(running_ns=400 * US, throttled_ns=1600 * US), {}, "high"),
        (Doing(running_ns=400 * US, throttled_ns=1600 * US), {"complete": False}, "medium"),
        (Doing(running_ns=400 * US, preempted_ns=1600 * US), {"priority": 120}, None),
        (Doing(running_ns=1600 * US, throttled_ns=400 * US), {}, None),
        (Doing(throttled_ns=900 * US), {"duration_ns": 900 * US}, None),
    ],
)
def test_a_throttled_holder(quiet: Report, doing: Doing, changes: dict[str, Any], confidence: str | None) -> None:
    holder = replace(episode().holders[0], doing=doing)
    findings = find_all(replace(quiet, episodes=(episode(holders=(holder,), **changes),)))
    if confidence is None:
        assert findings == ()
    else:
        assert one(findings, "holder-throttled").confidence == confidence
        assert "80.0%" in one(findings, "holder-throttled").evidence[1]
        # It could not have run: nobody of a lower priority had its CPU.
        assert "priority-inversion" not in rules_of(findings)


def test_a_holder_that_runs_is_no_inversion(quiet: Report) -> None:
    holder = replace(episode().holders[0], doing=Doing(running_ns=1500 * US, preempted_ns=500 * US))
    assert find_all(replace(quiet, episodes=(episode(holders=(holder,)),))) == ()


@pytest.mark.parametrize(("turns", "found"), [(7000, True), (2, False)])
def test_turns_of_the_loop_during_a_wait(quiet: Report, turns: int, found: bool) -> None:
    waiting = episode(
        priority=120,
        loops=(Loop(Party(30, "strace"), Party(10, "cyclictest"), turns, 0),),
        relief=Relief("irq", "local_timer", 0, Party(30, "strace"), "holder", 3 * US),
    )
    findings = find_all(replace(quiet, episodes=(waiting,)))
    assert ("inactive-wait" in rules_of(findings)) == found
    if found:
        finding = one(findings, "inactive-wait")
        assert finding.confidence == "high"
        assert "7,000 turns" in finding.evidence[0]
        assert "local_timer on CPU 0, 3.00 us before" in finding.evidence[0]


@pytest.mark.parametrize(("most", "found"), [(900, True), (3, False)])
def test_turns_of_the_loop_in_one_call(quiet: Report, most: int, found: bool) -> None:
    pair = InactiveWait(30, 30, "strace", 10, 10, "traced", 1000, 2000, most, 0, 0, MS, MS)
    inactive = InactiveWaits(1000, 2000, MS, MS, most, (pair,), ())
    findings = find_all(replace(quiet, inactive_waits=inactive))
    assert ("inactive-wait" in rules_of(findings)) == found
    if found:
        assert "up to 900 turns in one call" in one(findings, "inactive-wait").evidence[0]


def test_readings_of_a_shared_clock(quiet: Report) -> None:
    reads = ClockReads("read_hpet", True, Figures(5000, 40 * MS, 90 * US, 0, ()), 0.11, (), (), ())
    report = replace(quiet, clock_reads=reads, host=replace(quiet.host, clocksource="hpet"))
    finding = one(find_all(report), "shared-clocksource")
    assert "5,000 readings were recorded: 11.0% of all CPU time" in finding.evidence[1]
    assert find_all(replace(report, host=replace(quiet.host, clocksource="tsc"))) == ()


def test_collisions_in_the_futex_hash(made: Callable[..., Made]) -> None:
    recording = made()
    recording.lock(1, "futex_hash_bucket.lock", "slab")
    recording.waits(1, SPINLOCK, 500 * US, 300)
    futexes = tuple((Futex(number, 7, "server", 4096 * number, 0, "", ""), 10, 10 * US) for number in (2, 3))
    shared = BucketWaits("futex_hash_bucket.lock", "", 300, 150 * MS, MS, futexes)
    alone = BucketWaits("futex_hash_bucket.lock", "", 10, MS, MS, futexes[:1])
    report = replace(recording.report(), futexes=Futexes((), (shared, alone)))
    evidence = one(find_all(report), "futex-bucket").evidence
    assert any("1 of 2 buckets are shared by several futexes: 2 of them in the worst" in text for text in evidence)


@pytest.mark.parametrize(
    ("nature", "futexes", "wait_ns", "shared", "title"),
    [
        (PARKED, 4, 100 * MS, 1, "Processes of database"),
        (PARKED, 4, 10 * MS, 1, None),
        (SEMAPHORE, 4, 100 * MS, 1, None),
    ],
)
def test_parked_waiters(quiet: Report, nature: str, futexes: int, wait_ns: int, shared: int, title: str | None) -> None:
    """A semaphore alone, on which a worker waits for work, is none."""
    total = FutexTotal._make([2, *(0 for _ in FutexTotal._fields[1:])])
    figures = Figures(10, wait_ns, wait_ns, 0, ())
    waker = FutexStack("waker", 5, 5, 0, (Frame(1, "sem_post@GLIBC_2.2.5", 0, ""), Frame(2, "LWLockRelease", 0, "")))
    found = tuple(
        FutexWaits(
            Futex(2 + i, 7, "database", 4096 * i, shared, "", "/dev/zero"),
            *(total, nature, "as its word tells", figures, figures, True, (), (waker,)),
        )
        for i in range(futexes)
    )
    findings = find_all(replace(quiet, futexes=Futexes(found, ())))
    if title is None:
        assert findings == ()
    else:
        finding = one(findings, "parked-lock")
        assert finding.title.startswith(title)
        assert finding.confidence == "medium"
        assert "most are woken by LWLockRelease()" in finding.evidence


@pytest.mark.parametrize(
    ("nature", "waits", "wait_ns", "owner", "confidence"),
    [
        (LOCK, 100, 400 * MS, True, "high"),
        (LOCK, 100, 400 * MS, False, "medium"),
        (CONDITION, 100, 900 * MS, False, None),
        (LOCK, 100, 50 * MS, True, None),
        (LOCK, 5, 400 * MS, True, None),
    ],
)
def test_a_lock_of_a_program(
    quiet: Report, nature: str, waits: int, wait_ns: int, owner: bool, confidence: str | None
) -> None:
    """An idle pool waits on conditions, for as long as it likes."""
    total = FutexTotal._make([2, *(0 for _ in FutexTotal._fields[1:])])
    figures, woken = Figures(waits, wait_ns, wait_ns // waits, 0, ()), Figures(waits, 0, 0, 0, ())
    tasks = (FutexTask("owner", 71, 7, "server", 3, 3, MS),) if owner else ()
    futex = FutexWaits(
        Futex(2, 7, "server", 4096, 0, "", ""), total, nature, "as its word tells", figures, woken, tasks=tasks
    )
    findings = find_all(replace(quiet, futexes=Futexes((futex,), ())))
    if confidence is None:
        assert findings == ()
    else:
        assert one(findings, "user-lock").confidence == confidence
        assert one(findings, "user-lock").title.startswith("Threads of server (7) wait for a lock")
