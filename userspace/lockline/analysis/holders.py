# SPDX-License-Identifier: GPL-2.0-or-later
"""Who held the locks that others waited for, and how the locks were handed on (record --holders)."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from lockline.analysis.model import Fairness, Figures, Holder, LockWaits, StackShare
from lockline.analysis.samples import LOCKS_WITH_STACKS, UNKNOWN_WAITER
from lockline.base import histogram
from lockline.base.errors import RecordingError
from lockline.recording import rows
from lockline.recording.reader import Recording
from lockline.recording.stacks import without_probe
from lockline.watch.pairs import line_time, read_pairs

HOLDERS_PER_LOCK = 10
STACKS_PER_HOLDER = 2

READERS = "[readers]"

Key = tuple[int, str]


def _possible(*figures: int) -> bool:
    return min(figures) >= 0


def _kind_of(waiter: rows.Waiter, holder: int) -> str:
    if not holder:
        return "unknown"
    return "readers" if not waiter.tid and waiter.comm == READERS else "task"


def _holders(
    recording: Recording, entry_of: Mapping[Key, int], kinds: Mapping[int, str], containers: Mapping[int, str]
) -> list[list[Holder]]:
    """For each entry its holders, the one that caused most first."""
    totals = list(recording.table(rows.HolderTotal))
    # Most recordings have none, and a large machine's have many tasks.
    waiters = recording.waiters() if totals else {}
    # A release does not say in which cgroup: the same task's waits do.
    contained = {
        (who.tid, who.tgid, who.comm): containers[who.cgroup_id]
        for who in waiters.values()
        if who.cgroup_id in containers
    }
    sums: list[defaultdict[int, list[int]]] = [
        defaultdict(lambda: [0, 0, 0, 0]) for _ in range(max(entry_of.values(), default=-1) + 1)
    ]
    stacks: defaultdict[tuple[int, int], defaultdict[int, list[int]]] = defaultdict(
        lambda: defaultdict(lambda: [0, 0, 0])
    )
    for row in totals:
        index = entry_of.get((row.lock, kinds.get(row.kind, "")))
        if index is None or not _possible(row.releases, row.waits, row.caused_ns, row.max_caused_ns):
            continue
        total = sums[index][row.holder]
        total[0] += row.releases
        total[1] += row.waits
        total[2] += row.caused_ns
        total[3] = max(total[3], row.max_caused_ns)
    for stack in recording.table(rows.ReleaseStack):
        index = entry_of.get((stack.lock, kinds.get(stack.kind, "")))
        if index is None or not _possible(stack.samples, stack.releases, stack.caused_ns):
            continue
        share = stacks[index, stack.holder][stack.stack]
        share[0] += stack.samples
        share[1] += stack.releases
        share[2] += stack.caused_ns
    ranked = [sorted(by.items(), key=lambda item: (-item[1][2], item[0]))[:HOLDERS_PER_LOCK] for by in sums]
    heaviest = {
        (index, holder): sorted(stacks[index, holder].items(), key=lambda item: (-item[1][2], item[0]))[
            :STACKS_PER_HOLDER
        ]
        for index, by in enumerate(ranked)
        for holder, _ in by
    }
    frames = recording.stacks(sorted({stack for shares in heaviest.values() for stack, _ in shares}))
    found = []
    for index, by in enumerate(ranked):
        entry = []
        for holder, (releases, waits, caused_ns, max_ns) in by:
            who = waiters.get(holder, UNKNOWN_WAITER)
            shares = tuple(
                StackShare(samples, count, ns, without_probe(frames[stack]))
                for stack, (samples, count, ns) in heaviest[index, holder]
                if stack in frames
            )
            entry.append(
                Holder(
                    _kind_of(who, holder),
                    who.tid,
                    who.tgid,
                    who.comm,
                    who.cgroup,
                    releases,
                    waits,
                    caused_ns,
                    max_ns,
                    shares,
                    contained.get((who.tid, who.tgid, who.comm), ""),
                )
            )
        found.append(entry)
    return found


def _fairness(recording: Recording, entry_of: Mapping[Key, int], kinds: Mapping[int, str]) -> dict[int, Fairness]:
    """By entry: sums over its locks."""
    parts: defaultdict[int, list[rows.Fairness]] = defaultdict(list)
    for row in recording.table(rows.Fairness):
        index = entry_of.get((row.lock, kinds.get(row.kind, "")))
        figures = row[2:-1]
        if index is not None and _possible(*(value for value in figures if isinstance(value, int))):
            parts[index].append(row)
    found = {}
    for index, locks in parts.items():
        counts = histogram.empty()
        for row in locks:
            try:
                histogram.add_blob(counts, row.hold_histogram)
            except ValueError as error:
                raise RecordingError(f"{recording.path}: the recording is damaged: {error}") from error
        holds = sum(row.holds for row in locks)
        found[index] = Fairness(
            waits=sum(row.waits for row in locks),
            releases=sum(row.releases for row in locks),
            retakes=sum(row.retakes for row in locks),
            overtaken=sum(row.overtaken for row in locks),
            bypasses=sum(row.bypasses for row in locks),
            max_bypasses=max(row.max_bypasses for row in locks),
            handoffs=sum(row.handoffs for row in locks),
            handoff_ns=sum(row.handoff_ns for row in locks),
            max_handoff_ns=max(row.max_handoff_ns for row in locks),
            holds=Figures(
                holds, sum(row.hold_ns for row in locks), max(row.max_hold_ns for row in locks), 0, tuple(counts)
            )
            if holds
            else None,
        )
    return found


def _line_times(recording: Recording, entry_of: Mapping[Key, int], kinds: Mapping[int, str]) -> dict[int, float]:
    """By entry: how long a cache line takes between the CPUs that waited for the lock."""
    pairs = read_pairs(recording)
    if not pairs:
        return {}
    cpus: defaultdict[int, set[int]] = defaultdict(set)
    for row in recording.cells(locks=[lock for lock, _ in entry_of]):
        index = entry_of.get((row.lock, kinds.get(row.kind, "")))
        if index is not None:
            cpus[index].add(row.cpu)
    times = {index: line_time(pairs, among) for index, among in cpus.items()}
    return {index: time for index, time in times.items() if time is not None}


def with_holders(
    recording: Recording, entries: Sequence[LockWaits], kinds: Mapping[int, str], containers: Mapping[int, str]
) -> tuple[LockWaits, ...]:
    """The entries, the first ones with those who made their waiters wait: figures of the whole run.

    containers: names by the id of their cgroup.

    Raises RecordingError if a histogram is damaged.
    """
    chosen = entries[:LOCKS_WITH_STACKS]
    entry_of = {(lock, entry.kind): index for index, entry in enumerate(chosen) for lock in entry.ids}
    holders = _holders(recording, entry_of, kinds, containers)
    fairness = _fairness(recording, entry_of, kinds)
    if fairness:
        for index, line_ns in _line_times(recording, entry_of, kinds).items():
            if index in fairness:
                fairness[index] = replace(fairness[index], line_ns=line_ns)
    first = tuple(
        replace(entry, holders=tuple(holders[index]) if index < len(holders) else (), fairness=fairness.get(index))
        for index, entry in enumerate(chosen)
    )
    return first + tuple(entries[len(first) :])
