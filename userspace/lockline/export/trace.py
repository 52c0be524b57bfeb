# SPDX-License-Identifier: GPL-2.0-or-later
"""A recording as a trace: for ui.perfetto.dev and chrome://tracing, in the Trace Event Format.

Long waits are slices of their task, and of their CPU.  Where the recording has episodes, holdings are slices of the
holder, and an arrow leads from the release that ended a wait to the waiter.  Counters show how many threads wait.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lockline.analysis.episode_model import Episode
from lockline.analysis.model import Report
from lockline.base.text import Style, clean
from lockline.export.stacks import to_json
from lockline.recording.reader import Recording

# Locks with a counter of their own.
COUNTERS = 20

# Processes that do not exist: no pid is as large.
_CPUS, _LOCKS = 1 << 30, (1 << 30) + 1
# Tracks of one CPU: several sleeping waits may end on it at a time.
_LANES = 64


@dataclass(frozen=True, slots=True)
class _Slice:
    """A stretch of time of a task: a wait or a holding.  key: of the arrow that begins, or ends, at its end."""

    begin_ns: int
    length_ns: int
    tgid: int
    tid: int
    cpu: int
    name: str
    arguments: Mapping[str, str | int]
    starts: int = 0
    ends: int = 0


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


def _waits(report: Report, style: Style) -> Iterator[_Slice]:
    for wait in report.outliers:
        lock = clean(wait.lock, style)
        arguments: dict[str, str | int] = {"lock": lock, "kind": clean(wait.kind, style), "cpu": wait.cpu}
        if wait.instance:
            arguments["instance"] = clean(wait.instance, style)
        for index, frame in enumerate(wait.stack):
            arguments[f"stack {index:02}"] = clean(frame.symbol, style) or "[unknown]"
        task = wait.task
        yield _Slice(wait.begin_ns, wait.wait_ns, task.tgid, task.tid, wait.cpu, f"waits for {lock}", arguments)


def _holdings(episode: Episode, tasks: _Tasks, arrow: int, style: Style) -> Iterator[_Slice]:
    """From each release of the lock back to the one before it, or to the wait's begin; the last has the arrow."""
    end = episode.begin_ns + episode.duration_ns
    releases = [event for event in episode.events if event.type == "release" and event.time_ns <= end]
    lock, begin = clean(episode.lock, style), episode.begin_ns
    for release in sorted(releases, key=lambda event: (event.time_ns, event.cpu)):
        if release.time_ns <= begin:
            continue
        held = _Slice(
            begin,
            release.time_ns - begin,
            tasks.tgid(release.task.tid, release.task.comm),
            release.task.tid,
            release.cpu,
            f"holds {lock}",
            {"lock": lock, "waiter": clean(f"{episode.waiter.comm} ({episode.waiter.tid})", style)},
            starts=arrow if release is releases[-1] and not episode.in_progress else 0,
        )
        begin = release.time_ns
        yield held


def _slices(report: Report, tasks: _Tasks, style: Style) -> list[_Slice]:
    """Waits, each once, and holdings, each once for a time and a task."""
    waits = {(wait.tid, wait.begin_ns): wait for wait in _waits(report, style)}
    holdings: dict[tuple[int, int, str], _Slice] = {}
    for arrow, episode in enumerate(report.episodes, 1):
        if episode.state == "moment":
            continue
        key = episode.waiter.tid, episode.begin_ns
        lock = clean(episode.lock, style)
        arguments: dict[str, str | int] = {"lock": lock, "kind": clean(episode.kind, style), "state": episode.state}
        wait = waits.get(key)
        found = list(_holdings(episode, tasks, arrow, style))
        arrives = arrow if any(holding.starts for holding in found) else 0
        waits[key] = _Slice(
            episode.begin_ns,
            episode.duration_ns,
            episode.tgid,
            episode.waiter.tid,
            episode.cpu,
            f"waits for {lock}",
            arguments | dict(wait.arguments if wait else {}),
            ends=arrives,
        )
        tasks.add(episode.tgid, episode.waiter.tid, episode.waiter.comm)
        for holding in found:
            # Two who wait for the same lock see the same release: the longer look is kept, and both arrows.
            place = holding.tid, holding.begin_ns + holding.length_ns, holding.name
            holdings.setdefault((*place[:2], f"{place[2]} {holding.starts}" if holding.starts else place[2]), holding)
    return sorted([*waits.values(), *holdings.values()], key=lambda part: (part.begin_ns, -part.length_ns))


def _lanes(slices: Sequence[_Slice]) -> Iterator[tuple[_Slice, int]]:
    """Slices of one track in as many lanes as keep them from crossing each other."""
    ends: list[int] = []
    for part in slices:
        lane = next((index for index, end in enumerate(ends) if end <= part.begin_ns), len(ends))
        if lane == len(ends):
            if lane == _LANES:
                continue
            ends.append(0)
        ends[lane] = part.begin_ns + part.length_ns
        yield part, lane


def _names(process: int, name: str, threads: Mapping[int, str]) -> Iterator[dict[str, Any]]:
    yield {"ph": "M", "name": "process_name", "pid": process, "args": {"name": name}}
    for thread, text in sorted(threads.items()):
        yield {"ph": "M", "name": "thread_name", "pid": process, "tid": thread, "args": {"name": text}}


def _events(part: _Slice, process: int, thread: int, origin_ns: int, arrows: bool) -> Iterator[dict[str, Any]]:
    place = {"pid": process, "tid": thread}
    begin, end = part.begin_ns - origin_ns, part.begin_ns + part.length_ns - origin_ns
    category = "hold" if part.name.startswith("holds ") else "wait"
    yield {
        "ph": "X",
        "name": part.name,
        "cat": category,
        **place,
        "ts": begin / 1e3,
        "dur": part.length_ns / 1e3,
        "args": dict(part.arguments),
    }
    # An arrow belongs to the slice around its time: just before the end.
    inside = max(begin, end - 1) / 1e3
    if arrows and part.starts:
        yield {"ph": "s", "name": "release", "cat": "release", "id": part.starts, **place, "ts": inside}
    if arrows and part.ends:
        yield {"ph": "f", "bp": "e", "name": "release", "cat": "release", "id": part.ends, **place, "ts": inside}


def _counters(recording: Recording, report: Report, style: Style) -> Iterator[dict[str, Any]]:
    """How many threads wait for each of the first locks, by interval."""
    window = report.window
    kinds = recording.kinds()
    heaviest = sorted(report.locks, key=lambda lock: -lock.figures.wait_ns)[:COUNTERS]
    name_of = {(lock, entry.kind): f"{entry.name} ({entry.kind})" for entry in heaviest for lock in entry.ids}
    sums: defaultdict[tuple[int, str], int] = defaultdict(int)
    for row in recording.interval_sums(None):
        name = name_of.get((row.lock, kinds.get(row.kind, "")))
        if name is not None:
            sums[row.interval, name] += row.wait_ns
    names = sorted(set(name_of.values()))
    ends = []
    for interval in recording.intervals():
        length = interval.end_ns - interval.begin_ns
        if length <= 0 or interval.end_ns <= window.begin_ns or interval.begin_ns >= window.end_ns:
            continue
        ends.append(interval.end_ns)
        for name in names:
            yield _counter(name, interval.begin_ns, window.begin_ns, sums[interval.id, name] / length, style)
    if ends:
        for name in names:
            yield _counter(name, max(ends), window.begin_ns, 0, style)


def _counter(name: str, time_ns: int, origin_ns: int, threads: float, style: Style) -> dict[str, Any]:
    return {
        "ph": "C",
        "name": f"waiting for {clean(name, style)}",
        "pid": _LOCKS,
        "ts": (time_ns - origin_ns) / 1e3,
        "args": {"threads": round(threads, 6)},
    }


def encode(recording: Recording, report: Report, style: Style) -> bytes:
    """The trace; report: with all its long waits and episodes.  Times begin with the report's window.

    Raises RecordingError if the recording is damaged.
    """
    tasks = _Tasks(report, style)
    slices = _slices(report, tasks, style)
    origin = report.window.begin_ns
    by_task: defaultdict[tuple[int, int], list[_Slice]] = defaultdict(list)
    by_cpu: defaultdict[int, list[_Slice]] = defaultdict(list)
    for part in slices:
        by_task[part.tgid, part.tid].append(part)
        by_cpu[part.cpu].append(part)
    events: list[dict[str, Any]] = []
    threads: defaultdict[int, dict[int, str]] = defaultdict(dict)
    for (tgid, tid), parts in sorted(by_task.items()):
        name = tasks.names.get((tgid, tid), "")
        threads[tgid][tid] = name
        for part in parts:
            events += _events(part, tgid, tid, origin, arrows=True)
    for tgid, names in sorted(threads.items()):
        events += _names(tgid, tasks.names.get((tgid, tgid)) or next(iter(names.values())), names)
    lanes: dict[int, str] = {}
    for cpu, parts in sorted(by_cpu.items()):
        for part, lane in _lanes(parts):
            thread = cpu * _LANES + lane
            lanes[thread] = f"CPU {cpu}" + (f" ({lane + 1})" if lane else "")
            who = tasks.names.get((part.tgid, part.tid), "")
            named = replace(part, cpu=cpu, arguments={"task": f"{who} ({part.tid})", **part.arguments})
            events += _events(named, _CPUS, thread, origin, arrows=False)
    events += _names(_CPUS, "CPUs", lanes)
    events += _counters(recording, report, style)
    events += _names(_LOCKS, "locks", {})
    facts = {"made by": "lockline", "host": clean(report.host.name or "", style)}
    return to_json({"displayTimeUnit": "ns", "otherData": facts, "traceEvents": events})
