# SPDX-License-Identifier: GPL-2.0-or-later
"""One call site that holds a lock for long, and so makes most of its waiters wait."""

from lockline.analysis.findings import Fact, Finding, Function, Impact, Lock, Measure, fact, ns, part, remedy
from lockline.analysis.model import LockWaits, Report
from lockline.rules.common import US, callers, released_by_function, who, worth_telling

PART = 0.5
# Caused by one release, on average: far above what handing a lock on costs.
LONG_NS = 50 * US
ENOUGH_RELEASES = 10


def _worst_holder(lock: LockWaits, function: str) -> list[Fact]:
    """Who causes most of the waiting in holds that end in this function; nothing if no task is known."""
    caused = {
        who(holder): sum(stack.wait_ns for stack in holder.stacks if callers(stack.frames)[:1] == (function,))
        for holder in lock.holders
        if holder.kind == "task"
    }
    worst = max(caused, key=lambda task: caused[task], default=None)
    if worst is None or not caused[worst]:
        return []
    return [fact("caused-by", holder=worst, part=part(caused[worst] / sum(caused.values()), "that waiting"))]


def find(report: Report) -> list[Finding]:
    """Half of a lock's waiting, or more, is caused by holds that end in one function, and each of them is long."""
    found = []
    for lock in worth_telling(report, report.locks):
        for name, (caused_ns, releases) in released_by_function(lock).items():
            if caused_ns < PART * lock.figures.wait_ns or releases < ENOUGH_RELEASES:
                continue
            if caused_ns / releases < LONG_NS:
                continue
            longest = max(holder.max_caused_ns for holder in lock.holders)
            function, subject = Function(name), Lock(lock.name, lock.kind)
            found.append(
                Finding(
                    rule="long-hold",
                    subject=function,
                    confidence="high",
                    claim=fact("long-hold", function=function, lock=subject),
                    evidence=(
                        fact(
                            "holds-cause",
                            part=part(caused_ns / lock.figures.wait_ns, "the lock's waiting"),
                            caused=ns(caused_ns),
                        ),
                        *_worst_holder(lock, name),
                        fact(
                            "each-release",
                            each=ns(caused_ns / releases),
                            releases=Measure(releases, "releases"),
                            most=ns(longest),
                        ),
                    ),
                    remedies=(remedy("shorten-function", function=function, lock=subject),),
                    impact=Impact(caused_ns),
                )
            )
    return found
