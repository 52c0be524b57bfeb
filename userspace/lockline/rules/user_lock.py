# SPDX-License-Identifier: GPL-2.0-or-later
"""A lock of a program's own, in user space, that its threads wait for in the kernel (record --futex)."""

from lockline.analysis.findings import Finding, Impact, Measure, Process, Task, Text, UserLock, fact, ns, part, remedy
from lockline.analysis.futex import LOCK, FutexWaits
from lockline.analysis.model import Report
from lockline.rules.common import ENOUGH_WAITS, THE_WINDOW, share

# A tenth of one thread's time.
WORTH_TELLING = 0.1


def _tasks(futex: FutexWaits, role: str) -> tuple[Task, ...]:
    return tuple(Task(task.comm, task.tid) for task in futex.tasks if task.role == role)


def find(report: Report) -> list[Finding]:
    """Futexes that are contended locks, with a tenth of the window waited for; conditions and polls are none."""
    found = []
    for futex in report.futexes.futexes if report.futexes is not None else ():
        if futex.nature != LOCK or futex.figures.waits < ENOUGH_WAITS:
            continue
        waiting = share(report, futex.figures.wait_ns)
        if waiting < WORTH_TELLING:
            continue
        lock = UserLock(futex.futex.name, "")
        p99 = futex.figures.percentile(0.99)
        evidence = [
            fact(
                "user-waits",
                waits=Measure(futex.figures.waits, "waits"),
                average=ns(futex.figures.average_ns),
                part=part(waiting, THE_WINDOW),
                p99=None if p99 is None else ns(p99),
            ),
            fact("nature", why=Text(futex.why)),
        ]
        owners = _tasks(futex, "owner")
        if owners:
            evidence.append(fact("owners-seen", owners=owners))
        found.append(
            Finding(
                rule="user-lock",
                subject=lock,
                confidence="high" if owners else "medium",
                claim=fact("user-lock", process=Process(futex.futex.comm, futex.futex.tgid), lock=lock),
                evidence=tuple(evidence),
                remedies=(remedy("record-user-stacks", process=Process("", futex.futex.tgid)),),
                impact=Impact(futex.figures.wait_ns),
            )
        )
    return sorted(found, key=lambda finding: -finding.impact.wait_ns)[:3]
