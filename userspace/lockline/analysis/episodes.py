# SPDX-License-Identifier: GPL-2.0-or-later
"""From a long wait and the timeline around it to who held the lock meanwhile, and what ended it."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from lockline.analysis.activity import UNKNOWN, Stretch, doing_in, stretches
from lockline.analysis.episode_model import (
    Doing,
    Episode,
    EpisodeHolder,
    Link,
    Loop,
    Party,
    Relief,
    TimelineEvent,
)
from lockline.analysis.samples import UNKNOWN_WAITER
from lockline.analysis.waits import UNKNOWN_LOCK
from lockline.recording import rows
from lockline.recording.reader import Recording
from lockline.recording.stacks import without_probe
from lockline.recording.timeline import episodes as recorded_episodes
from lockline.recording.timeline import last_switches, timeline

# One holder at a time: only there does each release mean that somebody else had the lock.
EXCLUSIVE_KINDS = frozenset({"spinlock", "mutex", "mutex-spin", "rtmutex"})
# Their waiters cannot be switched out.
SPINNING_KINDS = frozenset({"spinlock", "rwlock:R", "rwlock:W", "rqspinlock"})
INTERRUPTIONS = frozenset({"interrupt", "vector", "ipi"})
MOST_EVENTS = 20_000
MOST_ALL_EVENTS = 400_000
MOST_LINKS = 8
# A holder that went off its CPU longer ago than this is not looked for.
BEFORE_NS = 10_000_000_000
# Holders of one wait whose doings are kept.
MOST_HOLDERS = 64
# Waits among which the next link of a chain is looked for.
MOST_EPISODES = 10_000
# Times and lengths beyond this (146 years) are no machine's.
_MOST_NS = 1 << 62

NOBODY = Party(0, "")


def _party(waiters: Mapping[int, rows.Waiter], task: int) -> Party:
    who = waiters.get(task, UNKNOWN_WAITER)
    return Party(who.tid, who.comm)


def to_events(found: Iterable[rows.TimelineRow], waiters: Mapping[int, rows.Waiter]) -> tuple[TimelineEvent, ...]:
    """Rows of the timeline with their tasks, in order of time."""
    events = [
        TimelineEvent(
            row.time_ns,
            row.cpu,
            row.type,
            max(0, row.length_ns),
            _party(waiters, row.task),
            _party(waiters, row.other) if row.other else None,
            row.value,
            row.name,
            row.stack,
        )
        for row in found
    ]
    return tuple(sorted(events, key=lambda event: (event.time_ns, event.cpu)))


def _during(events: Sequence[TimelineEvent], kind: str, begin_ns: int, end_ns: int) -> list[TimelineEvent]:
    return [event for event in events if event.type == kind and begin_ns < event.time_ns <= end_ns]


def find_holders(
    events: Sequence[TimelineEvent],
    begin_ns: int,
    end_ns: int,
    complete: bool,
    frames: Mapping[int, tuple[rows.Frame, ...]] = MappingProxyType({}),
) -> tuple[list[EpisodeHolder], int | None]:
    """Who had the lock for which part of the wait, longest first, and the hand-off (None without releases).

    As in holdings.c of the collector: the time from the wait's begin, or the release before, up to a release was
    caused by the task that released; what is left after the last one is the hand-off.
    """
    held: defaultdict[Party, int] = defaultdict(int)
    holds: defaultdict[Party, int] = defaultdict(int)
    doing: defaultdict[Party, Doing] = defaultdict(Doing)
    stacks: dict[Party, int] = {}
    known: dict[int, list[Stretch]] = {}
    since = begin_ns
    releases = _during(events, "release", begin_ns, end_ns)
    for release in releases:
        who = release.task
        if who.tid not in known:
            known[who.tid] = (
                stretches(events, who.tid, begin_ns, end_ns, complete)
                if len(known) < MOST_HOLDERS
                else [(begin_ns, end_ns, UNKNOWN)]
            )
        held[who] += release.time_ns - since
        holds[who] += 1
        if release.stack in frames:
            stacks[who] = release.stack
        doing[who] += doing_in(known[who.tid], since, release.time_ns)
        since = release.time_ns
    found = [
        EpisodeHolder(
            who, "release", held[who], holds[who], doing[who], "", without_probe(frames.get(stacks.get(who, 0), ()))
        )
        for who in held
    ]
    found.sort(key=lambda holder: (-holder.held_ns, holder.task.tid))
    return found, end_ns - since if releases else None


def count_bypasses(events: Sequence[TimelineEvent], waiter: int, begin_ns: int, end_ns: int) -> int:
    """How often others had the lock that came later: releases, less the hold that was there, less those before in line.

    As in holdings.c of the collector.
    """
    releases = len(_during(events, "release", begin_ns, end_ns))
    served = sum(
        1
        for event in _during(events, "acquired", begin_ns, end_ns)
        if event.task.tid != waiter and event.time_ns - event.length_ns <= begin_ns
    )
    return max(0, releases - 1 - served)


def find_loops(events: Sequence[TimelineEvent], begin_ns: int, end_ns: int) -> tuple[Loop, ...]:
    """Turns of wait_task_inactive() between begin_ns and end_ns, by who looked at whom, most turns first.

    A row stands for turns in an even row: of one that overlaps the wait the part in it is counted.
    """
    turns: defaultdict[tuple[Party, Party, int], float] = defaultdict(float)
    for event in events:
        if event.type != "wait task" or event.value <= 0:
            continue
        last = event.time_ns + event.length_ns
        if last < begin_ns or event.time_ns > end_ns:
            continue
        inside = min(last, end_ns) - max(event.time_ns, begin_ns)
        share = inside / event.length_ns if event.length_ns else 1.0
        turns[event.task, event.other or NOBODY, event.cpu] += max(1.0, event.value * share)
    loops = [Loop(task, other, round(number), cpu) for (task, other, cpu), number in turns.items()]
    return tuple(sorted(loops, key=lambda loop: (-loop.turns, loop.task.tid, loop.other.tid)))


def find_relief(
    events: Sequence[TimelineEvent],
    waiter: int,
    waiter_cpu: int,
    others: frozenset[int],
    begin_ns: int,
    end_ns: int,
) -> Relief | None:
    """The last interruption, switch or wake-up before the wait's end on the side of the holders, else of the waiter.

    others: the tids of the other side.  Their side is the CPUs on which they were running when it happened, and their
    own wake-ups and switches.
    """
    where: dict[int, int] = {}
    last: Relief | None = None
    fallback: Relief | None = None
    for event in events:
        if event.time_ns > end_ns:
            break
        other = event.other
        if event.task.tid in others:
            where[event.cpu] = event.task.tid
        on_their_cpu = event.cpu in where
        if event.type == "switch":
            where.pop(event.cpu, None)
            if other is not None and other.tid in others:
                where[event.cpu] = other.tid
        if event.time_ns < begin_ns:
            continue
        theirs = (on_their_cpu and event.type in INTERRUPTIONS) or (
            event.type in ("switch", "wakeup") and other is not None and other.tid in others
        )
        before = end_ns - event.time_ns
        if theirs:
            who = other if other is not None and event.type in ("switch", "wakeup") else event.task
            last = Relief(event.type, event.name, event.cpu, who, "holder", before)
        elif (event.type in INTERRUPTIONS and event.cpu == waiter_cpu) or (
            event.type == "wakeup" and other is not None and other.tid == waiter
        ):
            fallback = Relief(event.type, event.name, event.cpu, event.task, "waiter", before)
    return last or fallback


def _overlap(row: rows.Episode, begin_ns: int, end_ns: int) -> int:
    return min(end_ns, row.begin_ns + row.wait_ns) - max(begin_ns, row.begin_ns)


def find_chain(
    first: Episode, waits: Mapping[int, Sequence[rows.Episode]], make: Callable[[rows.Episode], Episode]
) -> tuple[Link, ...]:
    """Who waits for whom: from this wait to the last holder of which is known that it waited itself meanwhile.

    waits: the episodes of each task, of which make() gives the evidence; the one that overlaps longest counts.
    Empty unless there are two waits at least.
    """
    links: list[Link] = []
    seen: set[int] = set()
    current = first
    begin, end = first.begin_ns, first.begin_ns + first.duration_ns
    while True:
        holder = current.holders[0].task if current.holders else None
        links.append(Link(current.waiter, current.lock, current.duration_ns, holder))
        seen.add(current.waiter.tid)
        if holder is None or holder.tid in seen or len(links) == MOST_LINKS:
            break
        candidates = [row for row in waits.get(holder.tid, ()) if _overlap(row, begin, end) > 0]
        if not candidates:
            break
        best = max(candidates, key=lambda row: (_overlap(row, begin, end), -row.begin_ns))
        current = make(best)
        begin, end = max(begin, current.begin_ns), min(end, current.begin_ns + current.duration_ns)
    return tuple(links) if len(links) > 1 else ()


def explain(
    row: rows.Episode,
    events: Sequence[TimelineEvent],
    waiters: Mapping[int, rows.Waiter],
    lock: rows.Lock,
    kind: str,
    origin_ns: int,
    frames: Mapping[int, tuple[rows.Frame, ...]],
    releases_recorded: bool,
) -> Episode:
    """One wait with its evidence; its chain is empty still.  origin_ns: the recording's begin."""
    begin, end = row.begin_ns, row.begin_ns + row.wait_ns
    complete = bool(row.complete) and row.left_out <= 0
    who = waiters.get(row.waiter, UNKNOWN_WAITER)
    waiter = Party(row.tid, who.comm)
    holders, handoff = find_holders(events, begin, end, complete, frames)
    if not holders:
        task = _party(waiters, row.holder) if row.holder else _owner_at_begin(events, row)
        if task is not None:
            doing = doing_in(stretches(events, task.tid, begin, end, complete), begin, end)
            stack = without_probe(frames.get(row.holder_stack, ()))
            holders = [EpisodeHolder(task, "owner", row.wait_ns, 1, doing, row.holder_state, stack)]
    loops = find_loops(events, begin, end)
    others = {holder.task.tid for holder in holders}
    # Who turns there takes spinlocks, and with PREEMPT_RT those are rt-mutexes: no mutex, no rwsem.
    if kind in SPINNING_KINDS or kind == "rtmutex":
        others |= {loop.task.tid for loop in loops if loop.other.tid == row.tid}
        others |= {loop.other.tid for loop in loops if loop.task.tid == row.tid}
    others -= {row.tid}
    ended = row.state == "ended"
    return Episode(
        state=row.state,
        waiter=waiter,
        tgid=who.tgid,
        cpu=row.cpu,
        begin_cpu=row.begin_cpu,
        policy=row.policy if row.policy >= 0 else None,
        priority=row.priority if row.policy >= 0 else None,
        lock=lock.name,
        instance=lock.instance,
        kind=kind,
        offset_ns=begin - origin_ns,
        begin_ns=begin,
        duration_ns=row.wait_ns,
        interrupts=row.interrupts,
        interrupts_from=row.interrupts_from,
        stack=without_probe(frames.get(row.stack, ())),
        doing=Doing(running_ns=row.wait_ns)
        if kind in SPINNING_KINDS
        else doing_in(stretches(events, row.tid, begin, end, complete), begin, end),
        holders=tuple(holders),
        handoff_ns=handoff if ended else None,
        bypass=count_bypasses(events, row.tid, begin, end) if releases_recorded and kind in EXCLUSIVE_KINDS else None,
        loops=loops,
        relief=find_relief(events, row.tid, row.cpu, frozenset(others), begin, end) if ended else None,
        chain=(),
        complete=bool(row.complete),
        left_out=max(0, row.left_out),
        events=tuple(event for event in events if event.time_ns >= row.from_ns),
    )


def _owner_at_begin(events: Sequence[TimelineEvent], row: rows.Episode) -> Party | None:
    """Whom the lock's owner field named when the wait began."""
    for event in events:
        if event.type == "acquired" and event.task.tid == row.tid and event.time_ns == row.begin_ns + row.wait_ns:
            return event.other
    return None


def _possible(row: rows.Episode) -> bool:
    return all(0 <= value < _MOST_NS for value in (row.begin_ns, row.wait_ns, row.to_ns)) and row.from_ns > -_MOST_NS


def _timeline(recording: Recording, row: rows.Episode) -> list[rows.TimelineRow]:
    cpus = int.from_bytes(row.cpus[:8192], "little")
    found = timeline(recording, row.from_ns, row.to_ns, row.lock, MOST_EVENTS)
    return [one for one in found if 0 <= one.cpu < 65536 and cpus >> one.cpu & 1]


def _before(
    recording: Recording, row: rows.Episode, holders: Iterable[EpisodeHolder], waiters: Mapping[int, rows.Waiter]
) -> list[rows.TimelineRow]:
    """The last switch or wake-up of each holder before the window, where the collector kept it."""
    tids = {holder.task.tid for holder in holders if holder.task.tid}
    last: dict[int, rows.TimelineRow] = {}
    ids = [one.id for one in waiters.values() if one.tid in tids]
    if not ids:
        return []
    found = last_switches(recording, row.from_ns - BEFORE_NS, row.from_ns - 1, ids, MOST_EVENTS)
    for one in found:
        for tid in tids:
            concerned = (one.other, one.task) if one.type == "switch" else (one.other,)
            if tid not in last and any(_party(waiters, task).tid == tid for task in concerned):
                last[tid] = one
    return list({(one.time_ns, one.cpu, one.type, one.sequence): one for one in last.values()}.values())


def read_episodes(
    recording: Recording,
    limit: int,
    waiters: Mapping[int, rows.Waiter],
    locks: Mapping[int, rows.Lock],
    kinds: Mapping[int, str],
    origin_ns: int,
    lock_ids: Sequence[int] | None = None,
) -> tuple[Episode, ...]:
    """What ended a flight, then waits in progress, then the longest waits: at most `limit`, with their chains.

    lock_ids: of these locks alone.  Raises RecordingError if the recording is damaged.
    """
    found = [
        row
        for row in recorded_episodes(recording, MOST_EPISODES)
        if _possible(row) and (lock_ids is None or row.lock in set(lock_ids))
    ]
    if not found:
        return ()
    chosen = found[:limit] if limit >= 0 else found
    plan = {probe.signal: probe.state for probe in recording.probes()}
    releases = plan.get("spinlock holders") == "on" or plan.get("sleeping lock holders") == "on"
    stacks = sorted({stack for row in chosen for stack in (row.stack, row.holder_stack) if stack})
    frames = recording.stacks(stacks)

    def make(row: rows.Episode) -> Episode:
        lock = locks.get(row.lock, UNKNOWN_LOCK)
        kind = kinds.get(row.kind, f"kind {row.kind}")
        records = _timeline(recording, row)
        new = {one.stack for one in records if one.stack and one.stack not in frames}
        frames.update(recording.stacks(sorted(new)) if new else {})
        one = explain(row, to_events(records, waiters), waiters, lock, kind, origin_ns, frames, releases)
        before = _before(recording, row, one.holders, waiters) if row.complete else []
        if not before:
            return one
        return explain(row, to_events(before + records, waiters), waiters, lock, kind, origin_ns, frames, releases)

    by_tid: defaultdict[int, list[rows.Episode]] = defaultdict(list)
    for row in found:
        if row.tid and row.state != "moment":
            by_tid[row.tid].append(row)
    episodes = []
    room = MOST_ALL_EVENTS
    for row in chosen:
        one = make(row)
        one = replace(one, chain=find_chain(one, by_tid, make))
        room -= len(one.events)
        if room < 0:
            one = replace(one, events=(), left_out=one.left_out + len(one.events))
        episodes.append(one)
    return tuple(episodes)
