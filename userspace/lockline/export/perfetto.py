# SPDX-License-Identifier: GPL-2.0-or-later
"""A trace in Perfetto's own format, a protobuf of TrackEvents: for ui.perfetto.dev and trace_processor.

Numbers of fields are those of protos/perfetto/trace/ of github.com/google/perfetto.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lockline.export.protobuf import double, fixed64, message, number, text, varint
from lockline.export.trace import Slice, Trace, lanes

_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4
_BY_RANK = 3  # TrackDescriptor.ChildTracksOrdering
_MONOTONIC, _REALTIME = 3, 1  # BuiltinClock
_CLEARED, _NEEDED = 1, 2  # TracePacket.SequenceFlags
_SEQUENCE = 1
# What a thread's number may be; anything else is shown by its name alone.
_PIDS = range(1, 1 << 31)


@dataclass
class _Interned:
    """Texts that are written once; events name them by number.  One table for each kind of text."""

    event_names: dict[str, int] = field(default_factory=dict)
    keys: dict[str, int] = field(default_factory=dict)
    values: dict[str, int] = field(default_factory=dict)

    @staticmethod
    def number(table: dict[str, int], content: str) -> int:
        return table.setdefault(content, len(table) + 1)

    def encoded(self) -> bytes:
        tables = ((2, self.event_names), (3, self.keys), (29, self.values))
        return b"".join(
            message(field, number(1, iid) + text(2, content))
            for field, table in tables
            for content, iid in table.items()
        )


class _Tracks:
    """Descriptors of tracks, each with a number of its own."""

    def __init__(self) -> None:
        self.packets: list[bytes] = []

    def add(self, name: str, parent: int = 0, more: bytes = b"") -> int:
        uuid = len(self.packets) + 1
        named = text(2, name) if name else b""
        self.packets.append(message(60, number(1, uuid) + named + number(5, parent) + more))
        return uuid


class _Events:
    """Events in order of time; those of one time stay in the order in which they came."""

    def __init__(self, interned: _Interned) -> None:
        self.interned = interned
        self._events: list[tuple[int, bytes]] = []

    def add(self, time_ns: int, kind: int, track: int, content: bytes = b"") -> None:
        self._events.append((max(0, time_ns), number(9, kind) + number(11, track) + content))

    def packets(self) -> Iterator[bytes]:
        for time_ns, event in sorted(self._events, key=lambda one: one[0]):
            yield number(8, time_ns) + message(11, event) + number(13, _NEEDED)

    def annotation(self, key: str, value: str | int | Sequence[str]) -> bytes:
        """A debug annotation: a number, a text, or a list of texts."""
        return message(4, number(1, _Interned.number(self.interned.keys, key)) + self._value(value))

    def _value(self, value: str | int | Sequence[str]) -> bytes:
        if isinstance(value, int):
            # int_value; 0 is written as well.
            return varint(4 << 3) + varint(value & (1 << 64) - 1)
        if isinstance(value, str):
            return number(17, _Interned.number(self.interned.values, value))
        return b"".join(message(12, self._value(each)) for each in value)

    def named(self, category: str, name: str) -> bytes:
        """The name and category of a slice that begins here."""
        return text(22, category) + number(10, _Interned.number(self.interned.event_names, name))

    def slices(self, track: int, parts: Iterable[tuple[Slice, bytes]]) -> None:
        """One lane of slices that follow or nest, each with what else its begin says."""
        open_ends: list[int] = []

        def close(until_ns: int) -> None:
            while open_ends and open_ends[-1] <= until_ns:
                self.add(open_ends.pop(), _END, track)

        for part, more in parts:
            close(part.begin_ns)
            self.add(part.begin_ns, _BEGIN, track, self.named(part.category, part.name) + more)
            open_ends.append(part.end_ns)
        close(max(open_ends, default=0))


def _by_lane(parts: Iterable[Slice]) -> list[list[Slice]]:
    found: dict[int, list[Slice]] = {}
    for lane, part in lanes(parts):
        found.setdefault(lane, []).append(part)
    return [found[lane] for lane in sorted(found)]


def _details(events: _Events, part: Slice, more: Mapping[str, str] | None = None) -> bytes:
    said = b"".join(events.annotation(key, value) for key, value in {**(more or {}), **part.arguments}.items())
    return said + (events.annotation("stack", part.stack) if part.stack else b"")


def _thread_track(tracks: _Tracks, processes: dict[int, int], trace: Trace, tgid: int, tid: int) -> int:
    """The track of a thread, below its process; of a number that no thread has, a track with a name alone."""
    name = trace.threads.get((tgid, tid), "")
    if tgid not in _PIDS or tid not in _PIDS:
        return tracks.add(f"{name} ({tid})")
    if tgid not in processes:
        process = number(1, tgid) + text(6, trace.process(tgid))
        processes[tgid] = tracks.add("", more=message(3, process))
    thread = number(1, tgid) + number(2, tid) + text(5, name)
    return tracks.add("", processes[tgid], message(4, thread))


def _flow(part: Slice) -> bytes:
    return fixed64(47, part.starts) if part.starts else b""


def _threads(trace: Trace, tracks: _Tracks, events: _Events) -> None:
    """Waits on the threads' own tracks, holdings below them; arrows from a holding's end to who gets the lock then."""
    processes: dict[int, int] = {}
    for (tgid, tid), parts in trace.by_thread().items():
        thread = _thread_track(tracks, processes, trace, tgid, tid)
        for category, name in (("wait", "waits"), ("hold", "holds")):
            for lane, some in enumerate(_by_lane(part for part in parts if part.category == category)):
                track = thread if category == "wait" and lane == 0 else tracks.add(name, thread)
                flows = (fixed64(47, part.starts) if part.starts else b"" for part in some)
                events.slices(
                    track, [(part, _details(events, part) + flow) for part, flow in zip(some, flows, strict=True)]
                )
        for part in parts:
            if part.ends:
                # A point of its own: an arrow to the wait would end where the wait begins, before the release.
                arrival = events.named("wait", f"gets {part.lock}") + fixed64(48, part.ends)
                events.add(part.end_ns, _INSTANT, thread, arrival)


def _cpus(trace: Trace, tracks: _Tracks, events: _Events) -> None:
    above = tracks.add("CPUs", more=number(11, _BY_RANK))
    for cpu, parts in trace.by_cpu().items():
        for some in _by_lane(parts):
            # Tracks of one name and parent are shown as one.
            track = tracks.add(f"CPU {cpu}", above, number(12, max(0, cpu)))
            events.slices(track, [(part, _details(events, part, {"task": trace.task(part)})) for part in some])


def _counters(trace: Trace, tracks: _Tracks, events: _Events) -> None:
    above = tracks.add("locks")
    for counter in trace.counters:
        track = tracks.add(counter.name, above, message(8, text(6, "threads")))
        for time_ns, threads in counter.points:
            events.add(time_ns, _COUNTER, track, double(44, threads))


def _clocks(trace: Trace) -> Iterator[bytes]:
    """Times are the kernel's monotonic ones; the wall clock's are given where they are known."""
    clocks = [(_MONOTONIC, trace.begin_ns)]
    if trace.begin_unix_ns is not None and 0 <= trace.begin_unix_ns < 1 << 63:
        clocks.append((_REALTIME, trace.begin_unix_ns))
    pairs = b"".join(message(1, number(1, clock) + number(2, max(0, time_ns))) for clock, time_ns in clocks)
    yield number(8, max(0, trace.begin_ns)) + number(58, _MONOTONIC) + message(6, pairs + number(2, _MONOTONIC))


def encode(trace: Trace) -> bytes:
    """The file.  Its times are the recording's own, of the kernel's monotonic clock."""
    interned = _Interned()
    tracks, events = _Tracks(), _Events(interned)
    _threads(trace, tracks, events)
    _cpus(trace, tracks, events)
    _counters(trace, tracks, events)
    happened = list(events.packets())
    defaults = message(59, number(58, _MONOTONIC))
    first = message(12, interned.encoded()) + defaults + number(13, _CLEARED)
    packets = [*_clocks(trace), first, *tracks.packets, *happened]
    return b"".join(message(1, packet + number(10, _SEQUENCE)) for packet in packets)
