# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs whose waits their futexes do not explain (record --futex)."""

from dataclasses import replace

import pytest

from lockline.analysis.user_space.hidden_waits import HiddenWaits, hidden_waits
from lockline.analysis.user_space.user_evidence import YIELD_OP, Seen
from user_words import WINDOW, frame, from_functions, word

SLEPT = 20 * WINDOW // 1_000_000_000 or 20
COMMS = {1: "ForkJoinPool-1-", 2: "ForkJoinPool-1-", 3: "VirtualThread-u", 4: "ForkJoinPool-2-"}
PARK = ("pthread_cond_wait", "Unsafe_Park")
UNBLOCK = ("pthread_cond_wait", "JVM_TakeVirtualThreadListToUnblock")


def java(helper: tuple[str, ...] | None, slept: int, unblocked: int = 1) -> list[Seen]:
    """Two carriers, and a helper of virtual threads, if there is one."""
    words = [word(2, 4096, comm="java", slept=slept, waits=(from_functions(*PARK, task=1),))]
    words += [word(3, 8192, comm="java", slept=slept, waits=(from_functions(*PARK, task=2),))]
    if helper is not None:
        words += [word(4, 12288, comm="java", slept=unblocked, waits=(from_functions(*helper, task=3),))]
    return words


@pytest.mark.parametrize(
    ("helper", "slept", "unblocked", "kind"),
    [
        (PARK, SLEPT, 0, "virtual threads"),
        (UNBLOCK, SLEPT, 1, "virtual threads"),
        (UNBLOCK, SLEPT, 2 * SLEPT, "virtual monitors"),
        # A pool of the program's own; virtual threads that do nothing.
        (None, 10 * SLEPT, 0, None),
        (UNBLOCK, SLEPT // 4, 1, None),
    ],
)
def test_virtual_threads_are_known_by_their_helper(
    helper: tuple[str, ...] | None, slept: int, unblocked: int, kind: str | None
) -> None:
    # All these words are condition variables.
    found = hidden_waits(java(helper, slept, unblocked), {2, 3, 4}, COMMS, WINDOW)
    assert found == ((HiddenWaits(kind, "java", 7),) if kind else ())  # type: ignore[arg-type]


def python(waits_in: str, slept: int, waiters: int = 1) -> list[Seen]:
    """Five threads that wait at locks of their own."""
    return [
        word(n, 4096 * n, comm="python3", slept=slept, waiters=waiters, waits=(from_functions("sem_wait", waits_in),))
        for n in range(2, 7)
    ]


@pytest.mark.parametrize(
    ("waits_in", "slept", "waiters", "hidden"),
    [
        ("PyThread_acquire_lock_timed", SLEPT, 1, True),
        # Nobody wakes them; they queue for one lock; a pool's idle workers; another program.
        ("PyThread_acquire_lock_timed", 0, 1, False),
        ("PyThread_acquire_lock_timed", SLEPT, 5, False),
        ("_queue_SimpleQueue_get", SLEPT, 1, False),
        ("wait_for_job", SLEPT, 1, False),
    ],
)
def test_threads_that_wait_for_conditions_of_python(waits_in: str, slept: int, waiters: int, hidden: bool) -> None:
    words = python(waits_in, slept, waiters)
    assert [one.kind for one in hidden_waits(words, (), {}, WINDOW)] == ["python condition"] * hidden
    # A known lock keeps its own row.
    assert hidden_waits(words, range(2, 7), {}, WINDOW) == ()


@pytest.mark.parametrize(
    ("functions", "slept", "kind"),
    [
        (("pthread_cond_wait", "waitForCapability", "schedule"), SLEPT, "Haskell threads"),
        (("syscall", "ethr_event_swait", "", "erts_schedule"), SLEPT, "Erlang processes"),
        (("syscall", "tokio::runtime::scheduler::multi_thread::park::Inner::park_condvar"), SLEPT, "tokio tasks"),
        # At rest; a pool beside a scheduler.
        (("pthread_cond_wait", "waitForCapability", "schedule"), SLEPT // 4, None),
        (("syscall", "tokio::runtime::blocking::pool::Inner::run"), SLEPT, None),
    ],
)
def test_schedulers_whose_tasks_wait_without_the_kernel(
    functions: tuple[str, ...], slept: int, kind: str | None
) -> None:
    words = [word(2, 4096, comm="h", slept=slept, waits=(from_functions(*functions, task=1),))]
    assert [one.kind for one in hidden_waits(words, {2}, {}, WINDOW)] == ([kind] if kind else [])


@pytest.mark.parametrize(
    ("function", "threads", "told"),
    [("erts_schedule", 0.17, False), ("erts_schedule", 1.4, True), ("serve", 0.17, True)],
)
def test_schedulers_at_rest_look_for_tasks_before_they_sleep(function: str, threads: float, told: bool) -> None:
    """BEAM at 200 messages a second: 16,500 calls of sched_yield() a second, 0.17 threads."""
    yields = word(
        3, 1, ops=YIELD_OP, calls=16_500, wait_ns=round(threads * WINDOW), waits=(from_functions("", task=1),)
    )
    words = [word(2, 4096, slept=2, waits=(from_functions("syscall", function, task=1),)), yields]
    assert [one.kind for one in hidden_waits(words, {2}, {}, WINDOW)] == ["spin"] * told


@pytest.mark.parametrize(
    ("file", "told"),
    [("/opt/dotnet/libcoreclr.so", False), ("/usr/lib/erlang/bin/beam.smp", False), ("/srv/app", True)],
)
def test_a_run_time_looks_for_work_before_it_sleeps(file: str, told: bool) -> None:
    """Idle workers of .NET at a SemaphoreSlim, 200 jobs a second: 0.04 threads."""
    frames = (frame("__sched_yield", "/lib/libc.so.6"), frame("SwitchToThread", file))
    waits = (replace(from_functions("__sched_yield", "SwitchToThread"), frames=frames),)
    yields = word(3, 1, ops=YIELD_OP, calls=16_500, wait_ns=round(0.04 * WINDOW), waits=waits)
    assert [one.kind for one in hidden_waits([yields], (), {}, WINDOW)] == ["spin"] * told


@pytest.mark.parametrize("window_ns", [WINDOW // 25, WINDOW])
def test_a_program_that_lived_for_a_moment_does_not_spin(window_ns: int) -> None:
    """As the begin of CPython 3.13 without the GIL, 0.04 s long: hundreds of calls, and then it ended."""
    yields = word(2, 1, ops=YIELD_OP, calls=800, slept=10, wait_ns=1000, waits=(from_functions("main"),))
    assert hidden_waits([yields], (), {}, window_ns) == ()
