# SPDX-License-Identifier: GPL-2.0-or-later
"""One call site that holds a lock for long, and so makes most of its waiters wait."""

from lockline.analysis.findings import Finding, Function, Impact, Lock, Measure, fact, ns, part, remedy
from lockline.analysis.model import Report
from lockline.rules.common import US, released_by_function, worth_telling

PART = 0.5
# Caused by one release, on average: far above what handing a lock on costs.
LONG_NS = 50 * US
ENOUGH_RELEASES = 10


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
