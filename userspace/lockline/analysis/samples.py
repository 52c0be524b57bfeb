# SPDX-License-Identifier: GPL-2.0-or-later
"""Who waits and from where, estimated: each sample stands for the waits since the sample before it."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from lockline.analysis.model import LockWaits, Sampled, StackShare, Task
from lockline.analysis.waits import UNKNOWN_LOCK
from lockline.recording import rows
from lockline.recording.reader import Recording, Span
from lockline.recording.stacks import without_probe

# The locks of a report that come with their heaviest stacks, and how many.
LOCKS_WITH_STACKS = 20
STACKS_PER_LOCK = 3

UNKNOWN_WAITER = rows.Waiter(0, 0, 0, "?", "")


def sampled(weights: Sequence[rows.TaskWeight], exact_wait_ns: int | None) -> Sampled:
    """What all samples stand for; exact_wait_ns: the total of the same selection, None if there is none."""
    wait_ns = sum(weight.wait_ns for weight in weights)
    return Sampled(
        samples=sum(weight.samples for weight in weights),
        waits=sum(weight.waits for weight in weights),
        wait_ns=wait_ns,
        coverage=wait_ns / exact_wait_ns if exact_wait_ns else None,
    )


def tasks(
    weights: Sequence[rows.TaskWeight],
    waiters: Mapping[int, rows.Waiter],
    locks: Mapping[int, rows.Lock],
    kinds: Mapping[int, str],
    containers: Mapping[int, str],
) -> tuple[Task, ...]:
    """Tasks by estimated wait, longest first, each with the lock that it waited longest for.

    containers: names by the id of their cgroup.
    """
    found = []
    for weight in weights:
        who = waiters.get(weight.waiter, UNKNOWN_WAITER)
        found.append(
            Task(
                tid=who.tid,
                tgid=who.tgid,
                comm=who.comm,
                cgroup=who.cgroup,
                samples=weight.samples,
                waits=weight.waits,
                wait_ns=weight.wait_ns,
                lock=locks.get(weight.lock, UNKNOWN_LOCK).name,
                kind=kinds.get(weight.kind, f"kind {weight.kind}"),
                lock_ns=weight.lock_ns,
                container=containers.get(who.cgroup_id, ""),
            )
        )
    return tuple(sorted(found, key=lambda task: (-task.wait_ns, task.comm, task.tid, task.tgid, task.cgroup)))


def with_stacks(
    recording: Recording,
    entries: Sequence[LockWaits],
    span: Span | None,
    kinds: Mapping[int, str],
    sound: bool = False,
) -> tuple[LockWaits, ...]:
    """The entries, the first ones with the stacks that most of their sampled wait came from.

    sound: no sample of these locks is impossible.
    """
    chosen = entries[:LOCKS_WITH_STACKS]
    entry_of = {(lock, entry.kind): index for index, entry in enumerate(chosen) for lock in entry.ids}
    sampled_ns = [0] * len(chosen)
    weights: list[defaultdict[int, list[int]]] = [defaultdict(lambda: [0, 0, 0]) for _ in chosen]
    for weight in recording.stack_weights(sorted({lock for lock, _ in entry_of}), span, sound):
        index = entry_of.get((weight.lock, kinds.get(weight.kind, f"kind {weight.kind}")))
        if index is None:
            continue
        sampled_ns[index] += weight.wait_ns
        if weight.stack:
            sums = weights[index][weight.stack]
            sums[0] += weight.samples
            sums[1] += weight.waits
            sums[2] += weight.wait_ns
    heaviest = [sorted(by.items(), key=lambda item: (-item[1][2], item[0]))[:STACKS_PER_LOCK] for by in weights]
    frames = recording.stacks(sorted({stack for ranked in heaviest for stack, _ in ranked}))
    first = tuple(
        replace(
            entry,
            sampled_ns=total,
            stacks=tuple(
                StackShare(samples, waits, wait_ns, without_probe(frames[stack]))
                for stack, (samples, waits, wait_ns) in ranked
                if stack in frames
            ),
        )
        for entry, total, ranked in zip(chosen, sampled_ns, heaviest, strict=True)
    )
    return first + tuple(entries[len(first) :])
