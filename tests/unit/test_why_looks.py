# SPDX-License-Identifier: GPL-2.0-or-later
"""What an investigation makes of looks at threads and of what the kernel counts, before it judges."""

import os
import subprocess
import sys
import time
from typing import Any

import pytest

from lockline.cli.why_counters import cpus_used_by, watched
from lockline.cli.why_spins import thinned
from lockline.investigation.counters import (
    Reading,
    difference,
    parse_look,
    parse_pressure,
    parse_ready,
    parse_schedstat,
    parse_stat,
    parse_throttled,
    parse_tracer,
)
from lockline.investigation.holding import Owner, ThreadLook, holders_of, part_on_cpu
from lockline.investigation.model import Counters, Holders, Target
from lockline.investigation.spins import Sample
from why_cases import MS, S


@pytest.mark.parametrize(
    ("before", "after", "same", "part"),
    [
        # It stood still, ready, and has the lock all the time.
        ((100, 50), (100, 50), True, 0.0),
        # Who let go has run, though no tick has added that up yet.
        ((100, 50), (100, 50), False, 1.0),
        ((100, 50), (1100, 50), True, 1.0),
        # It got a CPU, after a wait within the gap, and after one that had begun before the first look.
        ((100, 50), (1100, 9050), True, 0.1),
        ((100, 50), (1100, 10051), False, 0.0),
        ((100, 50), (None, None), True, None),
    ],
)
def test_the_part_of_a_holders_time_on_a_cpu(before: Any, after: Any, same: bool, part: float | None) -> None:
    first, second = (ThreadLook(1, "server", "R", 0, "", *times) for times in (before, after))
    assert part_on_cpu(first, second, same, gap_ns=10_000) == part


def test_who_the_lock_names_is_its_holder() -> None:
    """Three of four threads use the lock; one waits, one has it asleep on a disk, and one wants a CPU with no lock."""
    waits, asleep, ready = (
        ThreadLook(1, "waits", "S", 7, "futex_do_wait", 0, 0),
        ThreadLook(2, "has it", "D", 0, "folio_wait_bit", 0, 0),
        ThreadLook(3, "ready", "R", 0, "", 0, 0),
    )
    looks = [[waits, asleep, ready]] * 10
    guessed = holders_of(looks, 7, known_users=(2, 3), look_ns=50 * MS)
    assert (guessed.running, guessed.disk, guessed.owners, guessed.exact) == (0.5, 0.5, 0, False)
    assert guessed.wants_cpu == 0.5
    known = holders_of(looks, 7, known_users=(2, 3), look_ns=50 * MS, owners=[Owner(asleep)] * 9)
    assert (known.running, known.disk, known.owners, known.known, known.exact) == (0.0, 1.0, 9, 9, True)
    assert (known.wants_cpu, known.sleeps_in, known.comm) == (0.0, "folio_wait_bit", "has it")
    # A few names are too few, and the time on a CPU counts of those alone that were ready.
    few = holders_of(looks, 7, known_users=(2, 3), look_ns=50 * MS, owners=[Owner(asleep), *[None] * 9])
    assert (few.owners, few.exact, few.running) == (1, False, 0.5)
    half = [Owner(ready, 0.0), Owner(ready, 0.5), Owner(asleep)] * 3
    mixed = holders_of(looks, 7, look_ns=50 * MS, owners=half)
    assert (mixed.delayed, mixed.running) == (0.75, pytest.approx(2 / 3))
    assert mixed.wants_cpu == pytest.approx(0.5)


def test_a_holder_at_a_futex_is_counted_and_not_taken_for_one_that_runs() -> None:
    waits = ThreadLook(1, "waits", "S", 7, "futex_do_wait", 0, 0)
    chained = ThreadLook(2, "has it", "S", 8, "futex_do_wait", 0, 0)
    seen = holders_of([[waits, chained]] * 10, 7, owners=[Owner(chained)] * 9)
    assert (seen.behind, seen.owners, seen.exact) == ((8, 9), 0, False)
    assert holders_of([[chained]] * 10, 7, owners=[Owner(chained)] * 9).behind == (0, 0), "nobody waits for it"


def test_tasks_that_want_a_cpu() -> None:
    assert parse_ready("3.20 1.10 0.90 7/430 2211") == 6
    assert parse_ready("") == parse_ready("1 2 3 x 4") == 0


def test_who_held_it() -> None:
    """Threads 1 to 3 use the futex; of the others nothing is known."""

    def look(tid: int, state: str, futex: int = 0, where: str = "") -> ThreadLook:
        return ThreadLook(tid, f"thread{tid}", state, futex, where)

    waits = {"state": "S", "futex": 7, "where": "futex_do_wait"}
    disk = look(1, "D", 0, "folio_wait_bit")
    moments = [
        [disk, look(2, **waits), look(3, **waits), look(4, "S", 0, "ep_poll")],  # type: ignore[arg-type]
        [look(1, **waits), look(2, "R"), look(3, **waits), look(4, "R")],  # type: ignore[arg-type]
        [look(1, "S", 0, "ep_poll"), look(2, "R"), look(3, "R"), look(4, "R")],
    ]
    found = holders_of(moments, 7)
    assert (found.looks, found.known) == (2, 2)
    assert (found.running, found.sleeping, found.disk) == (0.5, 0.0, 0.5)
    assert (found.sleeps_in, found.sleeps_part, found.delayed) == ("folio_wait_bit", 1.0, None)
    assert holders_of([], 7) == Holders(0, 0, 0.0, 0.0, 0.0, "", 0.0, None)


def test_who_waits_at_the_other_word_of_a_rwlock_waits_for_it() -> None:
    """Readers wait at one word, writers at another: neither holds it asleep."""
    moments = [(ThreadLook(1, "a", "S", 4096, "futex_do_wait"), ThreadLook(2, "b", "S", 4100, "futex_do_wait"))] * 2
    moments += [(ThreadLook(2, "b", "S", 4096, "futex_do_wait"), ThreadLook(1, "a", "R", 0, ""))]
    found = holders_of(moments, 4096, rwlock=True)
    assert (found.known, found.running, found.sleeping) == (1, 1.0, 0.0)
    # Of a mutex that is another futex, a condition variable for one: who waits there has let the mutex go.
    assert holders_of(moments, 4096).known == 1
    moments += [(ThreadLook(2, "b", "S", 4100, "futex_do_wait"), ThreadLook(1, "a", "R", 0, ""))]
    assert (holders_of(moments, 4096, rwlock=True).looks, holders_of(moments, 4096).looks) == (4, 3)


def test_whether_the_holder_had_a_cpu() -> None:
    """From look to look, of who is the likely holder at both; others' times do not count."""

    def moment(on_cpu: int, delayed: int, other: int) -> list[ThreadLook]:
        return [
            ThreadLook(1, "a", "R", 0, "", on_cpu * MS, delayed * MS),
            ThreadLook(2, "b", "S", 7, "futex_do_wait", other * MS, other * MS),
        ]

    first = [ThreadLook(1, "a", "S", 7, "futex_do_wait", 0, 0), ThreadLook(2, "b", "R", 0, "", 0, 0)]
    found = holders_of([first, moment(10, 10, 50), moment(20, 40, 90), moment(30, 70, 99)], 7)
    assert found.delayed == 60 / 80
    assert holders_of([first, moment(1, 1, 0), moment(1, 2, 0)], 7).delayed is None
    # A thread that gets no CPU at all: the kernel adds up only when it does.
    starved = [first, *[moment(5, 5, 0)] * 4]
    assert holders_of(starved, 7, look_ns=50 * MS).delayed == 1.0
    # What is added up then is not counted twice.
    assert holders_of([*starved, moment(15, 165, 0)], 7, look_ns=50 * MS).delayed == 160 / 170


def test_how_many_cpus_the_threads_that_use_a_lock_keep_busy() -> None:
    """Over 200 ms one thread ran for 200 ms, another for 100; a third, which does not use the lock, is not counted."""

    def moment(ms: int) -> list[ThreadLook]:
        return [
            ThreadLook(1, "a", "R", 0, "", 2 * ms * MS, 0),
            ThreadLook(2, "b", "S", 7, "futex_do_wait", ms * MS, 0),
            ThreadLook(3, "c", "R", 0, "", 2 * ms * MS, 0),
        ]

    looks = [moment(0), moment(50), moment(100)]
    assert holders_of(looks, 7, known_users=(1,), look_ns=100 * MS).used_cpus == 1.5
    # Whom the lock names uses it; with one look there is no time.
    assert holders_of(looks, 7, look_ns=100 * MS, owners=[Owner(looks[0][0])]).used_cpus == 1.5
    assert holders_of(looks[:1], 7, known_users=(1,), look_ns=100 * MS).used_cpus == 0.0


def test_what_the_kernel_counts() -> None:
    assert parse_stat("cpu  1 2 3 4 5 6 7 8 9 9\nintr 77 1 2\nctxt 88\n") == (88, 77, 8, 36)
    assert parse_stat("") == (0, 0, 0, 0)
    assert parse_throttled("nr_periods 5\nnr_throttled 2\nthrottled_usec 30\n") == 30_000
    assert parse_throttled("nr_periods 5\nthrottled_time 30\n") == 30
    assert parse_throttled("nr_periods 0\nthrottled_time 30\n") is None
    assert parse_throttled("odd") is None
    assert parse_pressure("some avg10=0.00 total=12\nfull avg10=0 total=3\n") == 12
    assert parse_pressure("") is None
    assert parse_tracer("Name:\tx\nTracerPid:\t12\n")
    assert not parse_tracer("Name:\tx\nTracerPid:\t0\n")
    assert parse_schedstat("10 20 3\n") == (10, 20)
    assert parse_schedstat("x") is None
    before = Reading(0, 10, 20, 0, 100, {"/a": 0, "/b": 5}, {"cpu": 0})
    after = Reading(2 * S, 30, 60, 5, 200, {"/a": S, "/b": 5, "/new": 9}, {"cpu": 500_000})
    assert difference(before, after, None, 3) == Counters(10, 20, 3, 0.5, "/a", 0.05, (("cpu", 0.25),))
    assert difference(before, after, ("/b",), None).throttled == 0.0
    assert difference(before, after, (), None).throttled is None


@pytest.mark.parametrize(
    ("stat", "syscall", "wchan", "futex"),
    [
        ("5 (a) b) S 1 2", "202 0x7f00 0x80 0x2 0x0", "futex_do_wait", 0x7F00),
        ("5 (a) b) R 1 2", "running", "0", 0),
        ("5 (a) b) S 1 2", "1 0x7f00 0x80", "pipe_write", 0),
        ("5 (a) b) S 1 2", "202 odd", "futex_do_wait", 0),
    ],
)
def test_one_look_at_a_thread(stat: str, syscall: str, wchan: str, futex: int) -> None:
    look = parse_look(5, stat, syscall, wchan, "10 20 3")
    assert look is not None
    assert (look.on_cpu_ns, look.delayed_ns) == (10, 20)
    assert (look.comm, look.futex, look.state) == ("a) b", futex, stat.split()[3])
    assert parse_look(5, "", "", "", "") is None


def test_how_much_of_the_cpus_a_process_uses() -> None:
    program = [sys.executable, "-c", "while True: pass"]
    with subprocess.Popen(program) as busy_one, subprocess.Popen(["sleep", "60"]) as idle_one:
        try:
            deadline = time.monotonic() + 60
            while not (used := cpus_used_by(busy_one.pid, 0.1)) and time.monotonic() < deadline:
                continue
            assert 0 < used <= 1.1
            assert cpus_used_by(idle_one.pid, 0.05) <= used
        finally:
            busy_one.kill()
            idle_one.kill()
    with pytest.raises(OSError):
        cpus_used_by(busy_one.pid, 0.01)


@pytest.mark.parametrize(("taken", "most"), [(100, 200), (1000, 200)])
def test_fewer_samples_stand_for_all(taken: int, most: int) -> None:
    """Where the budget does not pay to look at all of them."""
    samples = [Sample(7, 8, number, 0, stands_for=3) for number in range(taken)]
    kept, factor = thinned(samples, most)
    assert len(kept) == min(taken, most)
    assert len(kept) * factor == taken
    assert sum(one.stands_for for one in kept) == 3 * taken
    assert len({one.address for one in kept}) == len(kept)


def test_a_target_is_watched() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    others = Target(("-p", "999999999"), ""), Target(("-G", "/no/such/group"), ""), Target(("-a",), "")
    ended = watched(Target(("-p", str(process.pid)), "")), watched(Target(("-t", str(process.pid)), ""))
    unknown = [watched(one) for one in others]
    assert all(alive() for alive in (*ended, *unknown))
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert not any(alive() for alive in ended), "a zombie"
    process.wait()
    assert not any(alive() for alive in ended)
    assert all(alive() for alive in unknown), "of what was not there nobody knows that it is gone"
