# SPDX-License-Identifier: GPL-2.0-or-later
"""A lock of a program's own, in user space, that its threads wait for in the kernel (record --futex)."""

from lockline.analysis.futex import LOCK, FutexWaits
from lockline.analysis.model import Finding, Report
from lockline.base.numbers import count, duration, percent
from lockline.rules.common import ENOUGH_WAITS, share

# A tenth of one thread's time.
WORTH_TELLING = 0.1


def _names(futex: FutexWaits, role: str) -> str:
    return ", ".join(f"{task.comm} ({task.tid})" for task in futex.tasks if task.role == role)


def find(report: Report) -> list[Finding]:
    """Futexes that are contended locks, with a tenth of the window waited for; conditions and polls are none."""
    found = []
    for futex in report.futexes.futexes if report.futexes is not None else ():
        if futex.nature != LOCK or futex.figures.waits < ENOUGH_WAITS:
            continue
        waiting = share(report, futex.figures.wait_ns)
        if waiting < WORTH_TELLING:
            continue
        name = futex.futex.name or "a lock"
        evidence = [
            (
                f"{count(futex.figures.waits)} waits of {duration(futex.figures.average_ns)} on average:"
                f" {percent(waiting)} of the window; p99 {duration(futex.figures.percentile(0.99))}"
            ),
            futex.why,
        ]
        owners = _names(futex, "owner")
        if owners:
            evidence.append(f"seen as its owner: {owners}")
        found.append(
            Finding(
                rule="user-lock",
                title=f"Threads of {futex.futex.comm} ({futex.futex.tgid}) wait for {name} of their own program",
                confidence="high" if owners else "medium",
                evidence=tuple(evidence),
                next=(
                    (
                        "`lockline record --futex --user-stacks -p PID` tells where it is taken; shorten what is done"
                        " with it held"
                    ),
                ),
                wait_ns=futex.figures.wait_ns,
            )
        )
    return sorted(found, key=lambda finding: -finding.wait_ns)[:3]
