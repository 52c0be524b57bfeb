# SPDX-License-Identifier: GPL-2.0-or-later
"""Priority inversion: a real-time task waits for a lock whose holder could have run, and did not."""

from lockline.analysis.findings import Finding, Impact, Lock, Measure, Task, Text, fact, ns, part, remedy
from lockline.analysis.model import Report
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
            task, lock = Task(holder.task.comm, holder.task.tid), Lock(episode.lock)
            found.append(
                Finding(
                    rule="priority-inversion",
                    subject=task,
                    confidence="high" if episode.complete and holder.source == "release" else "medium",
                    claim=fact(
                        "priority-inversion",
                        waiter=Task(episode.waiter.comm, episode.waiter.tid),
                        lock=lock,
                        holder=task,
                    ),
                    evidence=(
                        fact(
                            "waited-at-priority",
                            waited=ns(episode.duration_ns),
                            priority=None if episode.priority is None else Measure(episode.priority, "priority"),
                            policy=Text(episode.policy_name) if episode.policy_name else None,
                        ),
                        fact(
                            "holder-preempted",
                            holder=task,
                            held=ns(holder.held_ns),
                            preempted=ns(preempted),
                            part=part(preempted / holder.held_ns, "the hold"),
                        ),
                    ),
                    remedies=(remedy("lend-priority", lock=lock), remedy("see-episode")),
                    impact=Impact(preempted),
                )
            )
    return sorted(found, key=lambda finding: -finding.impact.wait_ns)[:1]
