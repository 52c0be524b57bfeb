# SPDX-License-Identifier: GPL-2.0-or-later
"""Threads that wait at a barrier for one of them, which comes last nearly each time (record --futex)."""

from lockline.analysis.findings import (
    Finding,
    Function,
    Impact,
    Measure,
    Process,
    Task,
    UserLock,
    fact,
    part,
    remedy,
)
from lockline.analysis.model import Report
from lockline.analysis.user_space.futex_waits import BARRIER, BarrierSite, FutexWaits
from lockline.analysis.user_space.user_evidence import OPENMP_BARRIER
from lockline.rules.common import ENOUGH_WAITS, USER_WORTH_TELLING, share

# Of even work each of N threads comes last in 1/N of the rounds.  The one to blame comes last in more than halfway
# from that to always.
_HALFWAY = 0.5


def _threads(futex: FutexWaits) -> int:
    return max(len({task.tid for task in futex.tasks}), futex.total.waiters, 2)


def _is_uneven(site: BarrierSite, threads: int) -> bool:
    even = 1 / threads
    return site.rounds >= ENOUGH_WAITS and site.last_part >= even + _HALFWAY * (1 - even)


def find(report: Report) -> list[Finding]:
    """Barriers where the others wait for one thread, for a tenth of the window."""
    found = []
    for futex in report.futexes.futexes if report.futexes is not None else ():
        if futex.nature != BARRIER:
            continue
        threads = _threads(futex)
        for site in futex.sites:
            if share(report, site.wait_ns) < USER_WORTH_TELLING or site.last is None or not _is_uneven(site, threads):
                continue
            process = Process(futex.futex.comm, futex.futex.tgid)
            last = Task(site.last.comm, site.last.tid)
            evidence = [
                fact("barrier-waits", threads=Measure(share(report, site.wait_ns), "threads")),
                fact(
                    "comes-last",
                    task=last,
                    part=part(site.last_part, "the rounds that were sampled"),
                    even=part(1 / threads, "the rounds"),
                ),
            ]
            if site.function:
                evidence.append(fact("barrier-in", function=Function(site.function)))
            found.append(
                Finding(
                    rule="barrier-imbalance",
                    subject=UserLock(futex.futex.name, ""),
                    confidence="high" if futex.sure == "high" else "medium",
                    claim=fact(
                        "barrier-imbalance", process=process, task=last, threads=Measure(threads - 1, "threads")
                    ),
                    evidence=tuple(evidence),
                    remedies=(remedy("even-work-openmp") if futex.make == OPENMP_BARRIER else remedy("even-work"),),
                    impact=Impact(site.wait_ns),
                )
            )
    return sorted(found, key=lambda finding: -finding.impact.wait_ns)[:3]
