# SPDX-License-Identifier: GPL-2.0-or-later
"""Few waits for a lock that are long: no queue and no storm of waits, and yet threads lose time there.

It follows from the exact sums of all waits.  A spinning wait is never long in this sense: rules of their own judge it.
"""

from lockline.analysis.answer import is_spinning
from lockline.analysis.findings import Confidence, Finding, Impact, Lock, Measure, fact, ns, part, remedy
from lockline.analysis.model import LockWaits, Report
from lockline.rules import convoy, hot_lock
from lockline.rules.common import (
    ALL_WAITING,
    ENOUGH_WAITS,
    MS,
    from_caller,
    other_takers,
    record_again,
    share,
    stands_out,
    visitor,
    which_file,
    who_waits,
    writers,
)

# On average: a person notices a task that sleeps so long for each lock.
LONG_NS = MS


def _long(report: Report, lock: LockWaits) -> bool:
    return (
        not is_spinning(lock.kind)
        and share(report, lock.figures.wait_ns) >= hot_lock.COST
        and stands_out(report, lock, lock.figures.wait_ns)
        and lock.figures.average_ns >= LONG_NS
    )


def find(report: Report) -> list[Finding]:
    """A lock that stands out and costs a tenth of a thread, by waits of a millisecond on average."""
    told = {(lock.name, lock.kind) for lock in (*convoy.queues(report), *hot_lock.hot(report))}
    found = []
    for lock in report.locks:
        if not _long(report, lock) or (lock.name, lock.kind) in told:
            continue
        subject = Lock(lock.name, lock.kind, lock.worst_instance if lock.instances == 1 else "")
        sure: Confidence = "medium" if lock.figures.waits >= ENOUGH_WAITS else "low"
        found.append(
            Finding(
                rule="long-waits",
                subject=subject,
                confidence=sure,
                claim=fact("long-waits", lock=subject),
                evidence=(
                    *(other_takers(report, lock) or visitor(report, lock)),
                    fact("waits", waits=Measure(lock.figures.waits, "waits"), average=ns(lock.figures.average_ns)),
                    fact(
                        "costs-threads-of",
                        threads=Measure(share(report, lock.figures.wait_ns), "threads", "on average"),
                        part=part(lock.figures.wait_ns / report.totals.wait_ns, ALL_WAITING),
                    ),
                    *writers(report, lock),
                    *who_waits(report, lock),
                    *from_caller(lock),
                    *which_file(lock),
                ),
                remedies=(
                    *(() if report.episodes else (remedy("who-holds-longest"),)),
                    remedy("hold-shorter"),
                    *record_again(report, "--holders", "who-holds"),
                ),
                impact=Impact(lock.figures.wait_ns),
            )
        )
    return found
