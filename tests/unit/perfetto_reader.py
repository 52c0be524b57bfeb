# SPDX-License-Identifier: GPL-2.0-or-later
"""A trace read with the protobufs that Perfetto's authors publish, and followed as their trace_processor does.

That program itself is fetched from their site when it is first used, so tests cannot count on it.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace import perfetto_trace_pb2

CLEARED, NEEDED = 1, 2
MONOTONIC, REALTIME = 3, 1


@dataclass
class Track:
    """A track, its place in the tree (outermost name first), and what is on it."""

    path: tuple[str, ...]
    pid: int
    tid: int
    unit: str
    rank: int
    # Of closed slices: begin, end, name, category, annotations, depth.
    slices: list[tuple[int, int, str, str, dict[str, Any], int]] = field(default_factory=list)
    counts: list[tuple[int, float]] = field(default_factory=list)


@dataclass
class Perfetto:
    """All of a trace."""

    tracks: dict[int, Track] = field(default_factory=dict)
    clocks: dict[int, int] = field(default_factory=dict)
    # By number: slices, in order of time, that the arrow joins; whether the last one ends it.
    flows: dict[int, list[tuple[int, str, int]]] = field(default_factory=dict)
    ended: set[int] = field(default_factory=set)
    texts: list[str] = field(default_factory=list)

    def track(self, *path: str) -> list[Track]:
        """The tracks whose path ends like this."""
        return [track for track in self.tracks.values() if track.path[-len(path) :] == path]

    def of_thread(self, tgid: int, tid: int) -> list[Track]:
        """A thread's own track, and those below it."""
        own = [track for track in self.tracks.values() if (track.pid, track.tid) == (tgid, tid)]
        return [track for track in self.tracks.values() for one in own if track.path[: len(one.path)] == one.path]


def _known(message: Any) -> None:
    """Every field, of all messages inside too, is one that the authors name."""
    assert len(UnknownFieldSet(message)) == 0
    for descriptor, value in message.ListFields():
        if descriptor.message_type is not None:
            for each in value if hasattr(value, "append") else [value]:
                _known(each)


def _described(tracks: dict[int, Track], descriptor: Any) -> None:
    assert descriptor.uuid not in tracks
    parent = tracks[descriptor.parent_uuid].path if descriptor.parent_uuid else ()
    thread, process = descriptor.thread, descriptor.process
    name = descriptor.name or thread.thread_name or process.process_name
    if descriptor.HasField("thread"):
        # A thread is drawn below the process of its number, which needs a descriptor too.
        assert thread.pid in {track.pid for track in tracks.values() if not track.tid}
    assert name
    unit, rank = descriptor.counter.unit_name, descriptor.sibling_order_rank
    tracks[descriptor.uuid] = Track((*parent, name), thread.pid or process.pid, thread.tid, unit, rank)


def read(path: Path) -> Perfetto:
    """The trace; fails where trace_processor would note an error, or would join the wrong begin and end."""
    raw = perfetto_trace_pb2.Trace.FromString(path.read_bytes())
    _known(raw)
    found = Perfetto()
    interned: dict[str, dict[int, str]] = {}
    kinds = perfetto_trace_pb2.TrackEvent.Type
    cleared, clock = False, 0
    open_slices: defaultdict[int, list[tuple[int, str, str, dict[str, Any]]]] = defaultdict(list)
    events = []
    for packet in raw.packet:
        assert packet.trusted_packet_sequence_id > 0
        if packet.sequence_flags & CLEARED:
            cleared, interned, clock = True, {}, packet.trace_packet_defaults.timestamp_clock_id
        for table in ("event_names", "debug_annotation_names", "debug_annotation_string_values"):
            for entry in getattr(packet.interned_data, table):
                text = entry.name if hasattr(entry, "name") else entry.str.decode()
                assert entry.iid > 0
                interned.setdefault(table, {})[entry.iid] = text
        if packet.HasField("clock_snapshot"):
            assert packet.clock_snapshot.primary_trace_clock == MONOTONIC
            found.clocks = {each.clock_id: each.timestamp for each in packet.clock_snapshot.clocks}
        if packet.HasField("track_descriptor"):
            _described(found.tracks, packet.track_descriptor)
        if packet.HasField("track_event"):
            assert cleared
            assert packet.sequence_flags & NEEDED
            assert clock == MONOTONIC
            events.append((packet.timestamp, packet.track_event))

    def value(annotation: Any) -> Any:
        if annotation.array_values:
            return [value(each) for each in annotation.array_values]
        if annotation.HasField("int_value"):
            return annotation.int_value
        return interned["debug_annotation_string_values"][annotation.string_value_iid]

    # trace_processor sorts by time and keeps the file's order else.
    for time_ns, event in sorted(events, key=lambda one: one[0]):
        track, opened = found.tracks[event.track_uuid], open_slices[event.track_uuid]
        if event.type == kinds.TYPE_COUNTER:
            assert track.unit
            track.counts.append((time_ns, event.double_counter_value))
            continue
        if event.type == kinds.TYPE_SLICE_END:
            begin, name, category, said = opened.pop()
            track.slices.append((begin, time_ns, name, category, said, len(opened)))
            continue
        name = interned["event_names"][event.name_iid]
        said = {interned["debug_annotation_names"][one.name_iid]: value(one) for one in event.debug_annotations}
        for flow in (*event.flow_ids, *event.terminating_flow_ids):
            assert flow not in found.ended
            found.flows.setdefault(flow, []).append((event.track_uuid, name, time_ns))
        found.ended.update(event.terminating_flow_ids)
        [category] = event.categories
        if event.type == kinds.TYPE_INSTANT:
            track.slices.append((time_ns, time_ns, name, category, said, len(opened)))
        else:
            assert event.type == kinds.TYPE_SLICE_BEGIN
            opened.append((time_ns, name, category, said))
    assert not any(open_slices.values())
    found.texts = [text for table in interned.values() for text in table.values()]
    found.texts += [part for track in found.tracks.values() for part in track.path]
    return found
