# SPDX-License-Identifier: GPL-2.0-or-later
"""One call site that holds a lock for long, and so makes most of its waiters wait."""

from lockline.analysis.model import Finding, Report
from lockline.base.numbers import count, duration, percent
from lockline.rules.common import US, released_by_function, worth_telling

PART = 0.5
# Caused by one release, on average: far above what handing a lock on costs.
LONG_NS = 50 * US
ENOUGH_RELEASES = 10


def find(report: Report) -> list[Finding]:
    """Half of a lock's waiting, or more, is caused by holds that end in one function, and each of them is long."""
    found = []
    for lock in worth_telling(report, report.locks):
        for function, (caused_ns, releases) in released_by_function(lock).items():
            if caused_ns < PART * lock.figures.wait_ns or releases < ENOUGH_RELEASES:
                continue
            if caused_ns / releases < LONG_NS:
                continue
            longest = max(holder.max_caused_ns for holder in lock.holders)
            found.append(
                Finding(
                    rule="long-hold",
                    title=f"{function}() holds {lock.name} ({lock.kind}) for long",
                    confidence="high",
                    evidence=(
                        (
                            f"holds that end there cause {percent(caused_ns / lock.figures.wait_ns)} of its waiting:"
                            f" {duration(caused_ns)}"
                        ),
                        (
                            f"{duration(caused_ns / releases)} of waiting by each of {count(releases)} releases,"
                            f" {duration(longest)} at most"
                        ),
                    ),
                    next=(
                        (
                            f"look at what {function}() does between taking the lock and releasing it: that, not the"
                            " waiters, is to be shortened"
                        ),
                    ),
                    wait_ns=caused_ns,
                )
            )
    return found
