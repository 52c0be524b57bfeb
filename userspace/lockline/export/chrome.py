# SPDX-License-Identifier: GPL-2.0-or-later
"""A trace in the Trace Event Format, JSON: for chrome://tracing, speedscope, and ui.perfetto.dev."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from lockline.export.stacks import to_json
from lockline.export.trace import Counter, Slice, Trace, lanes

# Processes that do not exist: no pid is as large.
_CPUS, _LOCKS = 1 << 30, (1 << 30) + 1


def _names(process: int, name: str, threads: Mapping[int, str]) -> Iterator[dict[str, Any]]:
    yield {"ph": "M", "name": "process_name", "pid": process, "args": {"name": name}}
    for thread, text in sorted(threads.items()):
        yield {"ph": "M", "name": "thread_name", "pid": process, "tid": thread, "args": {"name": text}}


def _slice(part: Slice, process: int, thread: int, origin_ns: int, more: Mapping[str, str]) -> dict[str, Any]:
    stack = {f"stack {index:02}": frame for index, frame in enumerate(part.stack)}
    return {
        "ph": "X",
        "name": part.name,
        "cat": part.category,
        "pid": process,
        "tid": thread,
        "ts": (part.begin_ns - origin_ns) / 1e3,
        "dur": part.length_ns / 1e3,
        "args": {**more, **part.arguments, **stack},
    }


def _arrows(part: Slice, origin_ns: int) -> Iterator[dict[str, Any]]:
    # An arrow belongs to the slice around its time: just before the end.
    inside = (max(part.begin_ns, part.end_ns - 1) - origin_ns) / 1e3
    place = {"name": "release", "cat": "release", "pid": part.tgid, "tid": part.tid, "ts": inside}
    if part.starts:
        yield {"ph": "s", "id": part.starts, **place}
    if part.ends:
        yield {"ph": "f", "bp": "e", "id": part.ends, **place}


def _counter(counter: Counter, origin_ns: int) -> Iterator[dict[str, Any]]:
    for time_ns, threads in counter.points:
        at = (time_ns - origin_ns) / 1e3
        yield {"ph": "C", "name": counter.name, "pid": _LOCKS, "ts": at, "args": {"threads": round(threads, 6)}}


def encode(trace: Trace) -> bytes:
    """The file.  Its times begin with the trace's."""
    events: list[dict[str, Any]] = []
    origin = trace.begin_ns
    threads: defaultdict[int, dict[int, str]] = defaultdict(dict)
    for (tgid, tid), parts in trace.by_thread().items():
        threads[tgid][tid] = trace.threads.get((tgid, tid), "")
        for part in parts:
            events += [_slice(part, tgid, tid, origin, {}), *_arrows(part, origin)]
    for tgid, names in threads.items():
        events += _names(tgid, trace.process(tgid), names)
    tracks: dict[int, str] = {}
    for cpu, parts in trace.by_cpu().items():
        first = len(tracks)
        for lane, part in lanes(parts):
            tracks[first + lane] = f"CPU {cpu}" + (f" ({lane + 1})" if lane else "")
            events.append(_slice(part, _CPUS, first + lane, origin, {"task": trace.task(part)}))
    events += _names(_CPUS, "CPUs", tracks)
    for counter in trace.counters:
        events += _counter(counter, origin)
    events += _names(_LOCKS, "locks", {})
    facts = {"made by": "lockline", "host": trace.host}
    return to_json({"displayTimeUnit": "ns", "otherData": facts, "traceEvents": events})
