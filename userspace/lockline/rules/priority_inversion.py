# SPDX-License-Identifier: GPL-2.0-or-later
"""Priority inversion: a real-time task waits for a lock whose holder could have run, and did not."""

from lockline.analysis.model import Finding, Report
from lockline.base.numbers import duration, percent
from lockline.rules.common import US

# Of the time that the holder had the lock.
PREEMPTED = 0.3
LONG_NS = 100 * US


def find(report: Report) -> list[Finding]:
    """The longest wait of a real-time task whose holder was preempted for a third of its hold (record --episodes)."""
    found = []
    for episode in report.episodes:
        if not episode.real_time or episode.duration_ns < LONG_NS:
            continue
        for holder in episode.holders:
            if not holder.held_ns or holder.doing.preempted_ns < PREEMPTED * holder.held_ns:
                continue
            preempted = holder.doing.preempted_ns
            found.append(
                Finding(
                    rule="priority-inversion",
                    title=f"{episode.waiter.comm} ({episode.waiter.tid}), a real-time task, waits for {episode.lock}"
                    f" while its holder does not run",
                    confidence="high" if episode.complete and holder.source == "release" else "medium",
                    evidence=(
                        f"it waited {duration(episode.duration_ns)} at priority {episode.priority}"
                        + (f" ({episode.policy_name})" if episode.policy_name else ""),
                        (
                            f"{holder.task.comm} ({holder.task.tid}) held it for {duration(holder.held_ns)} of that,"
                            f" and could have run but did not for {duration(preempted)}:"
                            f" {percent(preempted / holder.held_ns)}"
                        ),
                    ),
                    next=(
                        "see what ran on the holder's CPU meanwhile: `lockline report --episodes 1`",
                        ("a lock that lends its waiter's priority (rt_mutex, PTHREAD_PRIO_INHERIT) has the holder run"),
                    ),
                    wait_ns=preempted,
                )
            )
    return sorted(found, key=lambda finding: -finding.wait_ns)[:1]
