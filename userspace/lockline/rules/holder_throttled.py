# SPDX-License-Identifier: GPL-2.0-or-later
"""A limit of CPU time stops a task that holds a lock, and everybody who waits for it."""

from lockline.analysis.model import Finding, Report
from lockline.base.numbers import count, duration, percent
from lockline.rules.common import MS

# Of the time that the holder had the lock.
THROTTLED = 0.3
LONG_NS = 1 * MS


def find(report: Report) -> list[Finding]:
    """Waits of 1 ms whose holder was throttled for a third of its hold (record --episodes); the longest is told."""
    found = [
        (episode, holder)
        for episode in report.episodes
        for holder in episode.holders
        if episode.duration_ns >= LONG_NS
        and holder.held_ns > 0
        and holder.doing.throttled_ns >= max(THROTTLED * holder.held_ns, LONG_NS)
    ]
    if not found:
        return []
    episode, holder = max(found, key=lambda one: one[1].doing.throttled_ns)
    throttled = holder.doing.throttled_ns
    evidence = [
        f"{episode.waiter.comm} ({episode.waiter.tid}) waited {duration(episode.duration_ns)} for {episode.lock}",
        (
            f"{holder.task.comm} ({holder.task.tid}) held it for {duration(holder.held_ns)} of that, and was throttled"
            f" for {duration(throttled)}: {percent(throttled / holder.held_ns)}"
        ),
    ]
    if len(found) > 1:
        evidence.append(f"the same in {count(len(found))} of the long waits")
    return [
        Finding(
            rule="holder-throttled",
            title=f"A limit of CPU time stops {holder.task.comm} ({holder.task.tid}) while it holds {episode.lock}",
            confidence="high" if episode.complete and holder.source == "release" else "medium",
            evidence=tuple(evidence),
            next=(
                (
                    "raise the CPU limit of its control group (cpu.max; cpu.stat there counts throttled_usec), or, of a"
                    " real-time task, kernel.sched_rt_runtime_us"
                ),
                "since Linux 6.18 a group's limit stops no task inside the kernel",
            ),
            wait_ns=sum(one.doing.throttled_ns for _, one in found),
        )
    ]
