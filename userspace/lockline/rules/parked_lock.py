# SPDX-License-Identifier: GPL-2.0-or-later
"""Locks of a program's own whose waiters park on a semaphore each: PostgreSQL's lightweight locks (record --futex)."""

from collections import defaultdict

from lockline.analysis.findings import Finding, Function, Impact, Measure, Process, fact, ns, part, remedy
from lockline.analysis.futex import PARKED, FutexWaits
from lockline.analysis.model import Report
from lockline.rules.common import ENOUGH_WAITS, THE_WINDOW, share

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
        process = Process(comm, None)
        evidence = [
            fact(
                "user-waits",
                waits=Measure(waits, "waits"),
                average=ns(wait_ns / waits),
                part=part(share(report, wait_ns), THE_WINDOW),
            ),
            fact("parked", processes=Measure(len(futexes), "processes")),
        ]
        if released:
            evidence.append(fact("woken-by", function=Function(released)))
        found.append(
            Finding(
                rule="parked-lock",
                subject=process,
                confidence="medium" if released else "low",
                claim=fact("parked-lock", process=process),
                evidence=tuple(evidence),
                remedies=(remedy("ask-program", process=process),),
                impact=Impact(wait_ns),
            )
        )
    return found
