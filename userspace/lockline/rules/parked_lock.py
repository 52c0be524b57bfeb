# SPDX-License-Identifier: GPL-2.0-or-later
"""Locks of a program's own whose waiters park on a semaphore each: PostgreSQL's lightweight locks (record --futex)."""

from collections import defaultdict

from lockline.analysis.findings import Finding, Function, Impact, Measure, Process, fact, remedy
from lockline.analysis.model import Report
from lockline.analysis.user_space.critical_sections import most_released
from lockline.analysis.user_space.futex_waits import PARKED, FutexWaits
from lockline.rules.common import ENOUGH_WAITS, USER_WORTH_TELLING, share, user_waits


def find(report: Report) -> list[Finding]:
    """Programs whose processes park, each on a semaphore of its own, for a tenth of the window, and wake each other."""
    groups: defaultdict[str, list[FutexWaits]] = defaultdict(list)
    for futex in report.futexes.futexes if report.futexes is not None else ():
        if futex.nature == PARKED:
            groups[futex.futex.comm].append(futex)
    found = []
    for comm, futexes in groups.items():
        waits, wait_ns = (sum(getattr(futex.figures, name) for futex in futexes) for name in ("waits", "wait_ns"))
        if waits < ENOUGH_WAITS or share(report, wait_ns) < USER_WORTH_TELLING:
            continue
        released = most_released(futexes)
        process = Process(comm, None)
        evidence = [
            user_waits(report, waits, wait_ns),
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
