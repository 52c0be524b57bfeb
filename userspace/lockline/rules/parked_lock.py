# SPDX-License-Identifier: GPL-2.0-or-later
"""Locks of a program's own whose waiters park on a semaphore each: PostgreSQL's lightweight locks (record --futex)."""

from collections import defaultdict

from lockline.analysis.futex import PARKED, FutexWaits
from lockline.analysis.model import Finding, Report
from lockline.base.numbers import count, duration, percent
from lockline.rules.common import ENOUGH_WAITS, share

# A tenth of one thread's time.
WORTH_TELLING = 0.1

# Of the C library: not where the lock is released.
_NO_CALLERS = ("pthread_", "__pthread_", "sem_", "futex_", "__futex_", "syscall")


def _released_in(futexes: list[FutexWaits]) -> str:
    """The program's function that most of the sampled wakes come from; '' if none is known."""
    by_function: defaultdict[str, int] = defaultdict(int)
    for stack in (stack for futex in futexes for stack in futex.stacks if stack.role == "waker"):
        names = [frame.symbol for frame in stack.frames if frame.symbol and not frame.symbol.startswith(_NO_CALLERS)]
        if names:
            by_function[names[0]] += stack.samples
    return max(sorted(by_function), key=lambda name: by_function[name], default="")


def find(report: Report) -> list[Finding]:
    """Programs whose processes park, each on a semaphore of its own, for a tenth of the window, and wake each other."""
    groups: defaultdict[str, list[FutexWaits]] = defaultdict(list)
    for futex in report.futexes.futexes if report.futexes is not None else ():
        if futex.nature == PARKED:
            groups[futex.futex.comm].append(futex)
    found = []
    for comm, futexes in groups.items():
        waits, wait_ns = (sum(getattr(futex.figures, name) for futex in futexes) for name in ("waits", "wait_ns"))
        if waits < ENOUGH_WAITS or share(report, wait_ns) < WORTH_TELLING:
            continue
        released = _released_in(futexes)
        evidence = [
            (
                f"{count(waits)} waits of {duration(wait_ns / waits)} on average:"
                f" {percent(share(report, wait_ns))} of the window"
            ),
            f"{count(len(futexes))} processes wait, each on a semaphore of its own, and wake each other there",
        ]
        if released:
            evidence.append(f"most are woken by {released}()")
        found.append(
            Finding(
                rule="parked-lock",
                title=f"Processes of {comm} wait for each other, parked: for a lock of their own make, it seems",
                confidence="medium" if released else "low",
                evidence=tuple(evidence),
                next=(
                    "ask the program which lock that is (PostgreSQL: wait_event of pg_stat_activity, of type LWLock)",
                ),
                wait_ns=wait_ns,
            )
        )
    return found
