# SPDX-License-Identifier: GPL-2.0-or-later
"""Threads that do not go on: stopped, or waiting for what nobody ends."""

import os
import struct
from collections.abc import Collection
from dataclasses import replace
from typing import cast

import pytest

from lockline.analysis.findings import Process, UserLock
from lockline.analysis.sleep_functions import stop_of, waits_for_futex
from lockline.cli import why_still
from lockline.cli.why_memory import Memory
from lockline.cli.why_still import with_semaphore
from lockline.investigation import probes
from lockline.investigation.choice import judge, proven
from lockline.investigation.hypotheses import culprit, hypotheses
from lockline.investigation.model import Investigation, Observation, Target, nameless
from lockline.investigation.stops import (
    Halted,
    Standing,
    Stop,
    Waiter,
    caller_of,
    kind_of_wait,
    standing_of,
    stops_of,
)
from lockline.render.documents import why as document
from why_cases import FUTEX_QUIET, MACHINE, NOBODY_SLEEPS, PROGRAM, QUIET, finding, known_of, observation, user_lock

OF_PROGRAM = Target(("-p", "100"), "process 100", (100,))


def of_program(*seen: Observation) -> Investigation:
    """An investigation about process 100."""
    return replace(known_of(*seen), target=OF_PROGRAM)


def standing(kind: str, **changes: object) -> Observation:
    """A look at sleeping threads, with some that stand still."""
    made = Standing(kind, "server", 100, 0x7F00, 5, "take_table", **changes)  # type: ignore[arg-type]
    return observation("sleeps", sleeps=replace(NOBODY_SLEEPS, standing=(made,)))


@pytest.mark.parametrize(
    ("function", "kind"),
    [("do_signal_stop", "signal"), ("ptrace_stop.part.0", "tracer"), ("__refrigerator", "frozen"), ("do_wait", None)],
)
def test_where_the_kernel_keeps_who_is_stopped(function: str, kind: str | None) -> None:
    assert stop_of(function) == kind


def test_where_threads_wait_for_futexes() -> None:
    assert waits_for_futex("futex_do_wait")
    assert waits_for_futex("futex_wait_queue.isra.0")
    assert not waits_for_futex("do_wait")


@pytest.mark.parametrize(
    ("functions", "kind", "caller"),
    [
        (("__GI___lll_lock_wait", "__pthread_mutex_lock", "take_table", "run"), "mutex", "take_table"),
        (("__futex_abstimed_wait_common", "pthread_cond_wait", "pop", "run"), "other", ""),
        # A mutex on the stack from before is not what is waited for.
        (("pthread_cond_wait", "pop", "__pthread_mutex_lock"), "other", "pop"),
        (("__new_sem_wait_slow64.constprop.0", "pop"), "semaphore", "pop"),
        (("__pthread_once_slow", "config"), "once", "config"),
        # A run time's own function says more than the C library's below it.
        (("pthread_cond_wait", "os::PlatformEvent::park", "ObjectMonitor::EnterI", "ObjectMonitor::enter"), "java", ""),
        (("pthread_cond_wait", "ObjectMonitor::wait", "JVM_MonitorWait", "ObjectMonitor::enter"), "other", ""),
        (("pthread_cond_wait", "ObjectMonitor::ReenterI", "ObjectMonitor::wait"), "java", "ObjectMonitor::wait"),
        (("syscall", "<std::sys::sync::mutex::futex::Mutex>::lock_contended", "pay"), "rust", "pay"),
        (("syscall", "std::sys::sync::condvar::futex::Condvar::wait", "pay"), "other", ""),
        (("__new_sem_wait_slow64", "PyThread_acquire_lock_timed", "lock_PyThread_acquire_lock", "f"), "python", "f"),
        (("runtime.futex", "runtime.futexsleep", "runtime.notesleep"), "go", "runtime.notesleep"),
        # Behind another function it is left from an earlier call.
        (("pthread_cond_wait", "pop", "ObjectMonitor::enter"), "other", ""),
        (
            ("syscall", "<std::thread::thread::Thread>::park", "<std::sys::sync::mutex::futex::Mutex>::lock"),
            "other",
            "",
        ),
        ((), "other", ""),
    ],
)
def test_what_a_stack_waits_for(functions: tuple[str, ...], kind: str, caller: str) -> None:
    assert kind_of_wait(functions) == kind
    if kind != "other":
        assert caller_of(functions) == caller


class Words:
    """Memory of which each read finds the same two words."""

    def __init__(self, tokens: int, waiting: int) -> None:
        self._data = struct.pack("=II", tokens, waiting)

    def read(self, _tgid: int, _begin: int, size: int) -> bytes:
        return self._data[:size]


@pytest.mark.parametrize(
    ("functions", "words", "expected", "semaphore"),
    [
        (("leak", "run"), (0, 3), 0, True),
        ((), (0, 2), 0, True),
        # It has a token; fewer are counted than wait; it waits for a 2; it is known for another wait.
        (("leak",), (1, 3), 0, False),
        (("leak",), (0, 1), 0, False),
        (("leak",), (0, 3), 2, False),
        (("pthread_cond_wait", "pop"), (0, 3), 0, False),
    ],
)
def test_a_semaphore_whose_function_is_on_no_stack(
    functions: tuple[str, ...], words: tuple[int, int], expected: int, semaphore: bool
) -> None:
    """As sem_wait() of glibc 2.41 is not."""
    at = [(5, tid, f"202 0x1000 0x189 {expected:#x} 0x0 0x0 0xffffffff 0x7ffe 0x7f00") for tid in (6, 7)]
    found = with_semaphore(cast("Memory", Words(*words)), at, functions)
    assert (kind_of_wait(found) == "semaphore") == semaphore
    assert found[len(found) - len(functions) :] == functions


MUTEX = ("__lll_lock_wait", "pthread_mutex_lock", "take_table")


def stand(waiters: list[Waiter], owner: int = 0, alive: bool = True) -> tuple[Standing, ...]:
    """Of waits whose mutex has that owner."""

    def in_once(_: int, but: Collection[int]) -> tuple[int, str, str] | None:
        return None if 9 in but else (9, "maker", "hrtimer_nanosleep")

    return standing_of(waiters, lambda _, __: owner, lambda _: alive, in_once)


RUST = ("syscall", "<std::sys::sync::mutex::futex::Mutex>::lock_contended", "pay")
PYTHON = ("__new_sem_wait_slow64", "PyThread_acquire_lock_timed", "lock_PyThread_acquire_lock")
JAVA = ("pthread_cond_wait", "os::PlatformEvent::park", "ObjectMonitor::EnterI", "ObjectMonitor::enter")


@pytest.mark.parametrize(
    ("functions", "words", "told"),
    [
        # Two locks: each has waiters.
        (RUST, (1, 1, 2), ("user-lock", "likely", "medium", "see-all-stacks")),
        # One lock: workers in line behind the one that waits for a job look the same.
        (RUST, (1, 1, 1), ("user-lock", "likely", "low", "see-all-stacks")),
        # Each thread of Java has a word of its own.
        (JAVA, (1, 2, 3), ("user-lock", "likely", "medium", "java-thread-print")),
        (PYTHON, (1, 1, 1), ("user-lock", "likely", "medium", "python-dump")),
        # Who waits for a queue or an event has a lock of its own.
        (PYTHON, (1, 2, 3), None),
        (("runtime.futex", "runtime.futexsleep"), (1, 2, 3), ("goroutines-at-rest", "not testable", "low", "")),
    ],
)
def test_threads_that_stand_at_locks_of_a_run_time(
    functions: tuple[str, ...], words: tuple[int, ...], told: tuple[str, str, str, str] | None
) -> None:
    waiters = [Waiter(100, 101 + at, "server", 0x7F00 + 8 * word, functions) for at, word in enumerate(words)]
    sleeps = replace(NOBODY_SLEEPS, standing=stand(waiters))
    known = known_of(observation("totals", sleeps=sleeps), observation("futex", user_waiters=0.0, sleeps=sleeps))
    known = replace(known, target=OF_PROGRAM)
    found = [one for one in hypotheses(known) if one.subject == Process("server", 100)]
    remedies = [one.remedies[0].action if one.remedies else "" for one in found]
    assert [(one.cause, one.state, one.sure, what) for one, what in zip(found, remedies, strict=True)] == (
        [told] if told is not None else []
    )
    # Of a whole machine what may be idle is no cause.
    machine = judge(replace(known, target=Target(("-a",), "this machine")), "nothing left to try")
    assert machine.kind == ("cause" if told is not None and told[2] == "medium" else "nothing")
    verdict = judge(known, "nothing left to try")
    assert verdict.kind == ("cause" if told is not None and told[1] == "likely" else "nothing")
    assert verdict.kind == "cause" or told is None or verdict.sure != "high"


@pytest.mark.parametrize(("others", "state"), [(0, "likely"), (1, "likely"), (2, "not testable")])
def test_two_idle_pools_of_rust(others: int, state: str) -> None:
    """Behind each of two Mutexes one thread may wait for a job."""
    at = [(1, RUST), (1, RUST), (2, RUST), *((3 + at, ("syscall", "std::thread::park")) for at in range(others))]
    waiters = [Waiter(100, 101 + word, "server", 0x7F00 + 8 * word, functions) for word, functions in at]
    known = of_program(observation("totals", sleeps=replace(NOBODY_SLEEPS, standing=stand(waiters))))
    assert [one.state for one in hypotheses(known) if one.cause == "user-lock"] == [state]
    assert (judge(known, "nothing left to try").kind == "cause") == (state == "likely")


def test_an_owner_that_has_ended() -> None:
    waiters = [Waiter(tgid, tgid, "server", 0x7F00 + tgid, MUTEX) for tgid in (5, 6, 7)]
    # Of one mutex in the memory of several processes, wherever each has it.
    (one,) = stand(waiters, 4, alive=False)
    assert (one.kind, one.threads, one.owner, one.gone, one.function) == ("mutex", 3, 4, True, "take_table")
    assert not any(one.gone for one in stand(waiters, 4, alive=True))
    assert not any(one.gone for one in stand(waiters, 0, alive=False))


def test_who_is_in_an_initialiser() -> None:
    (one,) = stand([Waiter(5, 6, "server", 0x10, ("__pthread_once_slow", "config"))])
    assert (one.kind, one.owner, one.owner_comm, one.owner_in) == ("once", 9, "maker", "hrtimer_nanosleep")
    assert stand([Waiter(5, 6, "server", 0x10, ("pthread_cond_wait", "pop"))]) == ()


def test_who_is_stopped_on_average() -> None:
    looks = [[tracee(5)], [tracee(5), tracee(5)], [], [Halted(6, "b", "do_wait")]]
    (one,) = stops_of(looks, {5: 4})
    assert one == Stop("tracer", "a", 5, 0.75, 4, 77, "strace")


def tracee(tgid: int, tracer: tuple[int, str] = (77, "strace")) -> Halted:
    """A thread that its tracer has stopped."""
    return Halted(tgid, "a", "ptrace_stop", tracer)


def test_tracees_that_live_for_moments_count_for_their_tracer() -> None:
    looks = [[tracee(2 * look), tracee(2 * look + 1)] for look in range(1, 9)]
    (one,) = stops_of(looks, {})
    assert (one.threads, one.of, one.by, one.by_comm, one.processes) == (2.0, 2, 77, "strace", 16)
    # Those whose tracer is not known do not count for one.
    unknown = stops_of([[tracee(look, (0, ""))] for look in range(1, 9)], {})
    assert len(unknown) == 8
    known = of_program(observation("totals"), FUTEX_QUIET, observation("sleeps", stops=(one,)))
    verdict = judge(known, "nothing left to try")
    assert verdict.cause is not None
    assert (verdict.cause.cause, verdict.sure) == ("stopped", "high")
    assert culprit(verdict.cause, known) == Process("strace", 77)


def test_a_mutex_whose_owner_has_ended_is_the_cause() -> None:
    known = of_program(observation("totals"), FUTEX_QUIET, standing("mutex", owner=77, gone=True))
    verdict = judge(known, "proven")
    assert verdict.cause is not None
    assert (verdict.cause.cause, verdict.sure) == ("lock-not-released", "high")
    # Who waits is not who did it, and who did it is gone.
    assert culprit(verdict.cause, known) is None


def test_an_initialiser_that_does_not_end_is_the_cause() -> None:
    known = of_program(observation("totals"), FUTEX_QUIET, standing("once", owner=9, owner_comm="maker"))
    verdict = judge(known, "proven")
    assert verdict.cause is not None
    assert (verdict.cause.cause, verdict.sure) == ("lock-not-released", "high")


def test_a_semaphore_that_nobody_posts_leaves_a_doubt() -> None:
    quiet = of_program(observation("totals"), FUTEX_QUIET, observation("sleeps"))
    assert judge(quiet, "nothing left to try").sure == "high"
    known = of_program(observation("totals"), FUTEX_QUIET, standing("semaphore"))
    verdict = judge(known, "nothing left to try")
    assert (verdict.kind, verdict.sure) == ("nothing", "medium")


def test_a_frozen_process_is_proven_by_the_first_look() -> None:
    stop = Stop("frozen", "server", 100, 8, 8, frozen_group="/jobs", whole=True)
    blocked = finding("deadlock", PROGRAM, 5.0, "high")
    known = of_program(observation("totals", stops=(stop,), findings=(blocked,)))
    first = proven(known, hypotheses(known))
    assert first is not None
    assert first.cause == "stopped"


def test_one_stopped_process_of_several_is_no_more_than_that() -> None:
    stop = Stop("signal", "server", 100, 1, 1)
    blocked = finding("deadlock", PROGRAM, 5.0, "high")
    known = of_program(
        observation("totals", stops=(stop,)), observation("futex", user_waiters=5.0, findings=(blocked,))
    )
    assert hypotheses(known)[0].cause == "deadlock"


def test_a_tracer_that_stops_threads_is_the_cause() -> None:
    stop = Stop("tracer", "server", 100, 1.9, 6, 77, "strace")
    known = of_program(observation("totals"), FUTEX_QUIET, observation("sleeps", stops=(stop,)))
    verdict = judge(known, "nothing left to try")
    assert verdict.cause is not None
    assert verdict.cause.cause == "stopped"


def test_a_lock_that_no_rule_tells_of_is_named() -> None:
    from why_cases import lock

    known = of_program(
        observation("totals", kernel_waiters=0.05, waits=1000, locks=(lock(0.05, max_ns=1000),)), FUTEX_QUIET
    )
    verdict = judge(known, "nothing left to try")
    assert verdict.cause is not None
    assert (verdict.cause.cause, verdict.sure) == ("busy-lock", "low")
    # Less than that holds nothing back, and from 1 % of a thread's time on that is not sure.
    for waiters, sure in ((0.015, "medium"), (0.005, "high")):
        little = observation("totals", kernel_waiters=waiters, waits=1000, locks=(lock(waiters, max_ns=1000),))
        verdict = judge(of_program(little, FUTEX_QUIET), "nothing left to try")
        assert (verdict.kind, verdict.cause, verdict.sure) == ("nothing", None, sure)


def test_threads_that_stand_at_a_mutex_are_no_nothing() -> None:
    """Of a recording that is short no wait begins or ends; who has the mutex still lives."""
    seen = standing("mutex", owner=105)
    known = of_program(observation("totals"), FUTEX_QUIET, seen)
    verdict = judge(known, "nothing left to try")
    assert verdict.cause is not None
    assert (verdict.cause.cause, verdict.sure) == ("user-lock", "medium")
    assert "105" in str(document.make(known, verdict, MACHINE).verdict.proof)
    told = finding("user-lock", UserLock("table_mutex", ""), 3.0, "high")
    recorded = observation("futex", user_waiters=3.0, user_locks=(user_lock(),), findings=(told,))
    causes = [one.subject for one in hypotheses(of_program(observation("totals"), recorded, seen)) if one.supported]
    assert causes == [UserLock("table_mutex", "")], "the recording says more"


def test_who_is_short_of_memory_meets_at_the_list_of_pages() -> None:
    """The pressure says so; a lock that tasks wait for as long as for memory may be what makes them wait."""
    from why_cases import lock

    def cause(name: str, caller: str, waiters: float, memory: float) -> str:
        waited = replace(lock(waiters, max_ns=1000), name=name, kind="spinlock", caller=caller)
        counters = replace(QUIET, stalled=(("memory", memory),))
        seen = observation("totals", kernel_waiters=waiters, waits=1000, locks=(waited,), counters=counters)
        known = of_program(seen, FUTEX_QUIET)
        verdict = judge(known, "nothing left to try")
        assert verdict.cause is not None
        told = document.make(known, verdict, MACHINE).verdict
        assert any("waits for memory" in one for one in told.proof) == (verdict.cause.cause == "short-of-memory")
        assert verdict.sure == ("medium" if verdict.cause.cause == "short-of-memory" else "low")
        return verdict.cause.cause

    assert cause("lruvec.lru_lock", "folio_batch_move_lru", 0.09, 0.89) == "short-of-memory"
    assert cause("zone.lock", "shrink_folio_list", 0.012, 0.5) == "short-of-memory"
    assert cause("lruvec.lru_lock", "folio_batch_move_lru", 0.09, 0.3) == "busy-lock"
    assert cause("lruvec.lru_lock", "folio_batch_move_lru", 0.02, 0.09) == "busy-lock"
    assert cause("zone.lock", "rmqueue_bulk", 0.05, 0.9) == "busy-lock"


def test_every_probe_is_named() -> None:
    assert {probes.WATCH, probes.HITM, probes.CLOCK, probes.SELF_CHECK} <= set(probes.PROBES)


@pytest.mark.parametrize("function", ["__vm_munmap", "rwsem_down_write_slowpath"])
def test_a_kernel_lock_behind_a_programs_lock(function: str) -> None:
    """The mutex is waited for because its holder waits for mmap_lock: both are the second one's doing."""
    from why_cases import busy, threads, user_busy

    slept = threads(running=0.1, sleeping=0.9, sleeps_in=function, sleeps_part=0.95)
    known = of_program(busy("totals", waiters=1.0), user_busy(), slept)
    verdict = judge(known, "nothing left to try")
    assert verdict.cause is not None
    assert verdict.cause.cause == "behind-lock"
    assert verdict.cause.waiters > 3.0
    # Where it sleeps for something else, that is the cause.
    disk = threads(running=0.1, sleeping=0.9, sleeps_in="io_schedule", sleeps_part=0.95)
    verdict = judge(of_program(busy("totals", waiters=1.0), user_busy(), disk), "nothing left to try")
    assert verdict.cause is not None
    assert verdict.cause.cause == "holder-sleeps"


@pytest.mark.parametrize(
    ("at_futex", "looks", "all_of_them", "sure"),
    [
        # Nobody slept at a futex at 20 looks, or next to nobody; too often; too few looks; some were not looked at.
        (0, 20, True, "high"),
        (1, 20, True, "high"),
        (4, 20, True, "medium"),
        (0, 3, True, "medium"),
        (0, 20, False, "medium"),
        (None, 20, True, "medium"),
    ],
)
def test_looks_at_sleeping_threads_can_rule_locks_of_programs_out(
    at_futex: int | None, looks: int, all_of_them: bool, sure: str
) -> None:
    """A tracer that stops one thread of several, where recording futexes would cost too much."""
    stop = Stop("tracer", "server", 100, 1.0, 4, by=9, by_comm="strace", processes=3)
    seen = replace(NOBODY_SLEEPS, looks=looks, at_futex=at_futex, all_of_them=all_of_them, stops=(stop,))
    known = of_program(observation("totals"), observation("sleeps", sleeps=seen, stops=(stop,)))
    verdict = judge(known, "budget")
    assert verdict.cause is not None
    assert (verdict.cause.cause, verdict.sure) == ("stopped", sure)


def test_a_tracer_of_others_is_no_cause() -> None:
    """The step with ptrace's probes sees the whole machine; of the target nobody is traced."""
    looped = replace(finding("convoy", PROGRAM, 5.0, "high"), rule="inactive-wait")
    seen = observation("ptrace", findings=(looped,))
    known = of_program(observation("totals"), FUTEX_QUIET, seen)
    assert judge(known, "nothing left to try").kind == "nothing"
    traced = replace(known.observations[0][1].counters, traced=1)
    known = of_program(observation("totals", counters=traced, kernel_waiters=5.0), FUTEX_QUIET, seen)
    assert any(one.cause == "inactive-wait" for one in hypotheses(known))


def test_who_stands_still_without_a_name_is_no_proof_of_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stack that tells nothing may be one of a lock that nobody releases."""
    call = "202 0x7f00 0x80 0x0 0x0 0x0 0x0 0x7ffd00 0x401000"
    monkeypatch.setattr(why_still, "switches_of", lambda *_: 7)
    monkeypatch.setattr(why_still, "_call_of", lambda *_: call)
    for functions, expected in (((), 2), (("pthread_cond_wait",), 0)):
        monkeypatch.setattr(why_still, "_functions", lambda _, at, functions=functions: [functions] * len(at))
        waiters = why_still.FutexWaiters()
        for tid in (11, 12):
            waiters.seen(os.getpid(), tid)
        with Memory() as memory:
            assert waiters.standing(memory) == ()
        assert waiters.nameless == expected
    known = of_program(observation("totals"), FUTEX_QUIET)
    assert judge(known, "nothing left to try").sure == "high"
    doubted = of_program(observation("totals"), replace(FUTEX_QUIET, unseen=nameless(2)))
    assert (judge(doubted, "nothing left to try").kind, judge(doubted, "nothing left to try").sure) == (
        "nothing",
        "medium",
    )
