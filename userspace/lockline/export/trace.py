# SPDX-License-Identifier: GPL-2.0-or-later
"""What a trace of a recording shows, whatever its format: slices of time by thread and by CPU, and counters.

Long waits are slices of their task, and of their CPU.  Where the recording has episodes, holdings are slices of the
holder, and an arrow leads from the release that ended a wait to the waiter.  Counters show how many threads wait.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lockline.analysis.episode_model import Episode
from lockline.analysis.model import Report
from lockline.base.text import Style, clean
from lockline.recording import rows
from lockline.recording.reader import Recording

# Locks with a counter of their own.
COUNTERS = 20


@dataclass(frozen=True, slots=True)
class Slice:
    """A stretch of time of a task: it waits for a lock, or holds it.

    category: "wait" or "hold".  stack: innermost function first.  starts, ends: the number of the arrow that begins
    at the end of this holding, or that arrives at the end of this wait; 0: none.
    """

    category: str
    begin_ns: int
    length_ns: int
    tgid: int
    tid: int
    cpu: int
    lock: str
    arguments: Mapping[str, str | int]
    stack: tuple[str, ...] = ()
    starts: int = 0
    ends: int = 0

    @property
    def end_ns(self) -> int:
        """When it ends."""
        return self.begin_ns + self.length_ns

    @property
    def name(self) -> str:
        """What a viewer writes on it."""
        return f"{'holds' if self.category == 'hold' else 'waits for'} {self.lock}"


@dataclass(frozen=True, slots=True)
class Counter:
    """How many threads wait for a lock: from each time in ns on, until the next one."""

    name: str
    points: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class Trace:
    """Times are those of the recording's clock, in ns.  threads: names by process and thread.  All texts are clean."""

    begin_ns: int
    begin_unix_ns: int | None
    host: str
    threads: Mapping[tuple[int, int], str]
    slices: Sequence[Slice]
    counters: Sequence[Counter]

    def by_thread(self) -> dict[tuple[int, int], list[Slice]]:
        """The slices of each process and thread, in order."""
        found: defaultdict[tuple[int, int], list[Slice]] = defaultdict(list)
        for part in self.slices:
            found[part.tgid, part.tid].append(part)
        return dict(sorted(found.items()))

    def by_cpu(self) -> dict[int, list[Slice]]:
        """The slices of each CPU, in order."""
        found: defaultdict[int, list[Slice]] = defaultdict(list)
        for part in self.slices:
            found[part.cpu].append(part)
        return dict(sorted(found.items()))

    def task(self, part: Slice) -> str:
        """Whose slice it is, as text."""
        return f"{self.threads.get((part.tgid, part.tid), '')} ({part.tid})"

    def process(self, tgid: int) -> str:
        """What a process is called: as its first thread, or as any that is known."""
        first = self.threads.get((tgid, tgid))
        return first or next((name for (owner, _), name in sorted(self.threads.items()) if owner == tgid), "")


class _Tasks:
    """Which process a thread belongs to, as far as the recording tells, and what it is called."""

    def __init__(self, report: Report, style: Style) -> None:
        self.names: dict[tuple[int, int], str] = {}
        self._tgid: dict[int, int] = {}
        self._style = style
        for task in report.tasks:
            self.add(task.tgid, task.tid, task.comm)
        for lock in report.locks:
            for holder in lock.holders:
                if holder.kind == "task":
                    self.add(holder.tgid, holder.tid, holder.comm)
        for wait in report.outliers:
            self.add(wait.task.tgid, wait.task.tid, wait.task.comm)

    def add(self, tgid: int, tid: int, comm: str) -> None:
        self._tgid[tid] = tgid
        self.names[tgid, tid] = clean(comm, self._style)

    def tgid(self, tid: int, comm: str) -> int:
        if tid not in self._tgid:
            self.add(tid, tid, comm)
        return self._tgid[tid]


def _stack(frames: Iterable[rows.Frame], style: Style) -> tuple[str, ...]:
    return tuple(clean(frame.symbol, style) or "[unknown]" for frame in frames)


def _waits(report: Report, style: Style) -> Iterator[Slice]:
    for wait in report.outliers:
        lock, task = clean(wait.lock, style), wait.task
        arguments: dict[str, str | int] = {"lock": lock, "kind": clean(wait.kind, style), "cpu": wait.cpu}
        if wait.instance:
            arguments["instance"] = clean(wait.instance, style)
        place = wait.begin_ns, wait.wait_ns, task.tgid, task.tid, wait.cpu, lock
        yield Slice("wait", *place, arguments, _stack(wait.stack, style))


def _holdings(episode: Episode, tasks: _Tasks, arrow: int, style: Style) -> Iterator[Slice]:
    """From each release of the lock back to the one before it, or to the wait's begin; the last has the arrow."""
    end = episode.begin_ns + episode.duration_ns
    releases = [event for event in episode.events if event.type == "release" and event.time_ns <= end]
    lock, begin = clean(episode.lock, style), episode.begin_ns
    for release in sorted(releases, key=lambda event: (event.time_ns, event.cpu)):
        if release.time_ns <= begin:
            continue
        held = Slice(
            "hold",
            begin,
            release.time_ns - begin,
            tasks.tgid(release.task.tid, release.task.comm),
            release.task.tid,
            release.cpu,
            lock,
            {"lock": lock, "waiter": clean(f"{episode.waiter.comm} ({episode.waiter.tid})", style)},
            starts=arrow if release is releases[-1] and not episode.in_progress else 0,
        )
        begin = release.time_ns
        yield held


def _slices(report: Report, tasks: _Tasks, style: Style) -> list[Slice]:
    """Waits, each once, and holdings, each once for a time and a task."""
    waits = {(wait.tid, wait.begin_ns): wait for wait in _waits(report, style)}
    holdings: dict[tuple[int, int, str, int], Slice] = {}
    for arrow, episode in enumerate(report.episodes, 1):
        if episode.state == "moment":
            continue
        key = episode.waiter.tid, episode.begin_ns
        lock = clean(episode.lock, style)
        arguments: dict[str, str | int] = {"lock": lock, "kind": clean(episode.kind, style), "state": episode.state}
        wait = waits.get(key)
        found = list(_holdings(episode, tasks, arrow, style))
        waits[key] = Slice(
            "wait",
            episode.begin_ns,
            episode.duration_ns,
            episode.tgid,
            episode.waiter.tid,
            episode.cpu,
            lock,
            arguments | dict(wait.arguments if wait else {}),
            wait.stack if wait else _stack(episode.stack, style),
            ends=arrow if any(holding.starts for holding in found) else 0,
        )
        tasks.add(episode.tgid, episode.waiter.tid, episode.waiter.comm)
        for holding in found:
            # Two who wait for the same lock see the same release: the longer look is kept, and both arrows.
            holdings.setdefault((holding.tid, holding.end_ns, holding.name, holding.starts), holding)
    return sorted([*waits.values(), *holdings.values()], key=lambda part: (part.begin_ns, -part.length_ns))


def lanes(slices: Iterable[Slice]) -> Iterator[tuple[int, Slice]]:
    """Slices of one track, in as many lanes as keep them from crossing: within a lane they follow or nest.

    slices: in order of their begin, of equal ones the longest first.
    """
    # Ends of the slices of a lane that are open, outermost first.
    open_ends: list[list[int]] = []
    for part in slices:
        for ends in open_ends:
            while ends and ends[-1] <= part.begin_ns:
                ends.pop()
        fitting = (lane for lane, ends in enumerate(open_ends) if not ends or ends[-1] >= part.end_ns)
        lane = next(fitting, len(open_ends))
        if lane == len(open_ends):
            open_ends.append([])
        open_ends[lane].append(part.end_ns)
        yield lane, part


def _counters(recording: Recording, report: Report, style: Style) -> Iterator[Counter]:
    """Of the first locks, by interval."""
    window = report.window
    kinds = recording.kinds()
    heaviest = sorted(report.locks, key=lambda lock: -lock.figures.wait_ns)[:COUNTERS]
    name_of = {(lock, entry.kind): f"{entry.name} ({entry.kind})" for entry in heaviest for lock in entry.ids}
    sums: defaultdict[tuple[int, str], int] = defaultdict(int)
    for row in recording.interval_sums(None):
        name = name_of.get((row.lock, kinds.get(row.kind, "")))
        if name is not None:
            sums[row.interval, name] += row.wait_ns
    points: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
    end = None
    for interval in recording.intervals():
        length = interval.end_ns - interval.begin_ns
        if length <= 0 or interval.end_ns <= window.begin_ns or interval.begin_ns >= window.end_ns:
            continue
        end = max(end or 0, interval.end_ns)
        for name in name_of.values():
            points[name].append((interval.begin_ns, sums[interval.id, name] / length))
    if end is not None:
        for name in sorted(set(name_of.values())):
            yield Counter(f"waiting for {clean(name, style)}", (*dict(points[name]).items(), (end, 0.0)))


def read_trace(recording: Recording, report: Report, style: Style) -> Trace:
    """The trace; report: with all its long waits and episodes.  Raises RecordingError if the recording is damaged."""
    tasks = _Tasks(report, style)
    slices = _slices(report, tasks, style)
    window = report.window
    counters = tuple(_counters(recording, report, style))
    host = clean(report.host.name or "", style)
    unix = window.begin_unix_ns
    since = None if unix is None else unix + window.begin_ns - window.recording_begin_ns
    return Trace(window.begin_ns, since, host, tasks.names, slices, counters)
