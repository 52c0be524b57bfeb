# SPDX-License-Identifier: GPL-2.0-or-later
"""A limit of CPU time stops a task that holds a lock, and everybody who waits for it."""

from lockline.analysis.findings import Finding, Impact, Lock, Measure, Task, fact, ns, part, remedy
from lockline.analysis.model import Report
from lockline.rules.common import MS

# Of the time that the holder had the lock.
THROTTLED = 0.3
LONG_NS = 1 * MS


def find(report: Report) -> list[Finding]:
    """Waits of 1 ms whose holder was throttled for a third of its hold (record --episodes); the longest is shown."""
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
    task, lock = Task(holder.task.comm, holder.task.tid), Lock(episode.lock)
    evidence = [
        fact(
            "one-wait",
            waiter=Task(episode.waiter.comm, episode.waiter.tid),
            waited=ns(episode.duration_ns),
            lock=lock,
        ),
        fact(
            "holder-throttled",
            holder=task,
            held=ns(holder.held_ns),
            throttled=ns(throttled),
            part=part(throttled / holder.held_ns, "the hold"),
        ),
    ]
    if len(found) > 1:
        evidence.append(fact("same-in-others", waits=Measure(len(found), "waits")))
    return [
        Finding(
            rule="holder-throttled",
            subject=task,
            confidence="high" if episode.complete and holder.source == "release" else "medium",
            claim=fact("throttled-while-holding", holder=task, lock=lock),
            evidence=tuple(evidence),
            remedies=(remedy("raise-cpu-limit", task=task), remedy("newer-kernel-throttling")),
            impact=Impact(sum(one.doing.throttled_ns for _, one in found)),
        )
    ]
