# SPDX-License-Identifier: GPL-2.0-or-later
"""Wake-ups in vain: threads that are woken many at once and sleep again, or nobody who wakes (record --futex)."""

from lockline.analysis.findings import (
    Fact,
    Finding,
    Function,
    Impact,
    Measure,
    Process,
    Remedy,
    UserLock,
    fact,
    ns,
    remedy,
)
from lockline.analysis.model import Report
from lockline.analysis.user_space.critical_sections import released_in, waited_in
from lockline.analysis.user_space.futex_waits import CONDITION, LOCK, SEMAPHORE, UNCLEAR, FutexWaits
from lockline.analysis.user_space.run_times import is_interpreter
from lockline.analysis.user_space.user_evidence import below_c_library
from lockline.rules.common import empty_wakes, is_made_by_others
from lockline.rules.herd import HERD, condition_of, woken_at_once

# Awake for less on average, a thread had next to nothing to do.
_BRIEFLY_NS = 50_000
# What a context switch there and back takes, about; it is no time that the thread is awake.
_SWITCH_NS = 5_000
# Of a window: time that the woken threads were awake, and their switches.
_WORTH_TELLING = 0.05
# Sets of threads beyond which their number is not known.
_KNOWN_THREADS = 96
# What such a call takes at least: a system call that looks into an empty queue.
_CALL_NS = 200
# Natures of what threads wait at for others, and not for a lock.
_FOR_OTHERS = (CONDITION, SEMAPHORE, UNCLEAR)


def _awake_ns(report: Report, futex: FutexWaits) -> int:
    """How long the threads that wait there were awake in all, ns; they are there from begin to end."""
    return max(0, futex.total.waiters * report.window.duration_ns - futex.waited_ns)


def _woken_by(futex: FutexWaits) -> list[Fact]:
    waker = released_in(futex)
    return [fact("woken-by", function=Function(waker))] if waker else []


def _finding(
    futex: FutexWaits, claim: Fact, evidence: list[Fact], advice: Remedy, impact_ns: int, sure: str
) -> Finding:
    return Finding(
        rule="wake-storm",
        subject=UserLock(futex.futex.name, ""),
        confidence="high" if sure == "high" else "medium",
        claim=claim,
        evidence=(*evidence, *_woken_by(futex)),
        remedies=(advice,),
        impact=Impact(impact_ns),
    )


def _of_many(report: Report, futex: FutexWaits) -> Finding | None:
    """Threads that are woken many at once, for next to nothing."""
    total = futex.total
    awake_ns, woken = _awake_ns(report, futex), total.tasks_woken
    if futex.nature not in _FOR_OTHERS or not HERD <= total.waiters <= _KNOWN_THREADS:
        return None
    if woken_at_once(futex) < HERD or awake_ns > _BRIEFLY_NS * woken:
        return None
    cost_ns = awake_ns + woken * _SWITCH_NS
    if (report.window.share(cost_ns) or 0.0) < _WORTH_TELLING:
        return None
    where = waited_in(futex)
    return _finding(
        futex,
        fact(
            "woken-in-vain",
            process=Process(futex.futex.comm, futex.futex.tgid),
            threads=Measure(woken_at_once(futex), "threads"),
            where=Function(where) if where else None,
        ),
        [fact("awake-briefly", woken=Measure(woken, "threads"), awake=ns(awake_ns // woken))],
        remedy("wake-one"),
        cost_ns,
        "medium",
    )


def _in_interpreter(futex: FutexWaits) -> bool:
    """Whether an interpreter makes the calls that wake: no program of its language can change these."""
    wakes = [stack for stack in futex.stacks if stack.role == "waker"]
    callers = [(next(iter(below_c_library(stack.frames)), None), stack) for stack in wakes]
    inside = sum(stack.samples for frame, stack in callers if frame is not None and is_interpreter(frame.module))
    return inside > sum(stack.samples for stack in wakes) / 2


def _of_nobody(report: Report, futex: FutexWaits) -> Finding | None:
    """Calls that wake nobody.  For a lock that a library or a run time makes, the lock's own finding has them."""
    found = empty_wakes(report, futex)
    if found is None or (futex.nature == LOCK and is_made_by_others(futex)) or _in_interpreter(futex):
        return None
    return _finding(
        futex,
        fact("wakes-nobody", process=Process(futex.futex.comm, futex.futex.tgid), lock=UserLock(futex.futex.name, "")),
        [found],
        remedy("wake-if-waited"),
        futex.total.wakes_empty * _CALL_NS,
        "high",
    )


def find(report: Report) -> list[Finding]:
    """Where wake-ups cost much and do little; a herd that queues for a mutex has a finding of its own."""
    found = []
    futexes = report.futexes.futexes if report.futexes is not None else ()
    herds = {
        condition.futex.id
        for condition in (condition_of(report, mutex) for mutex in futexes if mutex.nature == LOCK)
        if condition is not None
    }
    for futex in futexes:
        many = _of_many(report, futex) if futex.futex.id not in herds else None
        found += [one for one in (many, _of_nobody(report, futex)) if one is not None]
    return sorted(found, key=lambda finding: -finding.impact.wait_ns)[:3]
