# SPDX-License-Identifier: GPL-2.0-or-later
"""A thundering herd: a condition variable wakes many threads at once, and they queue for its mutex (record --futex)."""

from collections.abc import Sequence

from lockline.analysis.findings import Finding, Function, Impact, Measure, Process, UserLock, fact, part, remedy
from lockline.analysis.model import Report
from lockline.analysis.user_space.critical_sections import released_in
from lockline.analysis.user_space.futex_waits import LOCK, FutexWaits
from lockline.analysis.user_space.user_evidence import CONDITION_VARIABLE, HALF, OUT_OF_CONDITION, is_condition
from lockline.rules.common import ENOUGH_WAITS, USER_WORTH_TELLING, share, user_waits

# GLib's, which are no condition variables of the C library.
_GLIB = ("g_cond_wait", "g_async_queue_pop")
# Of glibc and musl, and of Rust, where threads wait for a condition.
_CONDITIONS = (*OUT_OF_CONDITION, "ondvar::")
# Threads that one call wakes: a queue of jobs wakes one.
HERD = 4


def woken_at_once(futex: FutexWaits) -> float:
    """Threads that a call wakes on average, of the calls that wake any."""
    calls = futex.total.wakes - futex.total.wakes_empty
    return futex.total.tasks_woken / calls if calls > 0 else 0.0


def _below_condition(futex: FutexWaits, names: Sequence[str]) -> float:
    waits = [(stack.waits, stack) for stack in futex.stacks if stack.role == "waiter"]
    there = sum(
        count for count, stack in waits if any(name in (frame.symbol or "") for frame in stack.frames for name in names)
    )
    every = sum(count for count, _ in waits)
    return there / every if every else 0.0


def out_of_condition(futex: FutexWaits) -> float:
    """The part of the sampled waits for a mutex of threads that a condition variable had woken, 0 to 1."""
    return 0.0 if is_condition(futex.total) else _below_condition(futex, OUT_OF_CONDITION)


def at_condition(futex: FutexWaits) -> float:
    """The part of the sampled waits at a condition variable of threads that wait for the condition, 0 to 1."""
    return _below_condition(futex, _CONDITIONS if is_condition(futex.total) else _GLIB)


def condition_of(report: Report, mutex: FutexWaits) -> FutexWaits | None:
    """The condition variable whose herds make most of the waiting for this mutex."""
    if report.futexes is None or mutex.nature != LOCK or out_of_condition(mutex) < HALF:
        return None
    herds = [
        futex
        for futex in report.futexes.futexes
        if futex.make == CONDITION_VARIABLE
        and futex.futex.tgid == mutex.futex.tgid
        and woken_at_once(futex) >= HERD
        and futex.total.tasks_woken >= HALF * mutex.figures.waits
    ]
    return max(herds, key=lambda futex: futex.total.tasks_woken, default=None)


def find(report: Report) -> list[Finding]:
    """Mutexes that threads wait for, for a tenth of the window, because all were woken where one can go on."""
    found = []
    for mutex in report.futexes.futexes if report.futexes is not None else ():
        waiting = share(report, mutex.figures.wait_ns)
        condition = condition_of(report, mutex)
        if condition is None or mutex.figures.waits < ENOUGH_WAITS or waiting < USER_WORTH_TELLING:
            continue
        process = Process(mutex.futex.comm, mutex.futex.tgid)
        lock = UserLock(mutex.futex.name, "")
        evidence = [
            user_waits(report, mutex.figures.waits, mutex.figures.wait_ns),
            fact("out-of-condition", part=part(out_of_condition(mutex), "the sampled waits")),
        ]
        waker = released_in(condition)
        if waker:
            evidence.append(fact("woken-by", function=Function(waker)))
        found.append(
            Finding(
                rule="thundering-herd",
                subject=lock,
                confidence="high",
                claim=fact(
                    "thundering-herd",
                    process=process,
                    lock=lock,
                    threads=Measure(woken_at_once(condition), "threads"),
                ),
                evidence=tuple(evidence),
                remedies=(remedy("wake-one"),),
                impact=Impact(mutex.figures.wait_ns),
            )
        )
    return sorted(found, key=lambda finding: -finding.impact.wait_ns)[:3]
