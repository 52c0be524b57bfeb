# SPDX-License-Identifier: GPL-2.0-or-later
"""Recordings of watched lines, made from a list of accesses: the truth is known, and what windows show of it."""

import math
import random
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from lockline.recording.memory_rows import MemoryAccess
from recording_generator import BEGIN, SECOND, RecordingBuilder

ALL = (1 << 64) - 1
US = 1_000
MS = 1_000_000
# Two 8-byte parts of a line in each set, so that any two of the eight are in one of them.
LOW, HIGH = 0xFFFF_FFFF, 0xFFFF_FFFF << 32


class Event(NamedTuple):
    """One access, at a time from the begin of the recording."""

    time_ns: int
    cpu: int
    offset: int
    code: str
    write: bool
    read: bool = True
    locked: bool = False
    in_wait: bool = False
    interrupts_off: bool = False


@dataclass(frozen=True)
class Stretch:
    """A window; limit: hits after which it ends."""

    begin_ns: int
    length_ns: int
    offsets: int = ALL
    limit: int = 1 << 62
    changed: int = 0


@dataclass
class Seen:
    """What windows show: rows by key, as the tables have them."""

    windows: list[tuple[int, ...]] = field(default_factory=list)
    accesses: defaultdict[tuple[int, str, int], list[Event]] = field(default_factory=lambda: defaultdict(list))
    transfers: defaultdict[tuple[int, int, str, int, int, str, int], int] = field(
        default_factory=lambda: defaultdict(int)
    )

    @property
    def transfer_count(self) -> int:
        """All transfers."""
        return sum(self.transfers.values())


def look(events: Sequence[Event], windows: Iterable[Stretch]) -> Seen:
    """What these windows show of the accesses, which are sorted by time; windows do not overlap."""
    seen = Seen()
    index = 0
    for window in windows:
        index = bisect_left(events, window.begin_ns, index, key=attrgetter("time_ns"))
        hits = transfers = 0
        end = window.begin_ns + window.length_ns
        cut = 0
        writer: Event | None = None
        last = bisect_left(events, end, index, key=attrgetter("time_ns"))
        for event in events[index:last]:
            time, cpu, offset, code, write, *_ = event
            index += 1
            if not window.offsets >> offset & 1:
                continue
            hits += 1
            seen.accesses[offset, code, cpu].append(event)
            if writer is not None and writer.cpu != cpu:
                key = (writer.cpu, writer.offset, writer.code, cpu, offset, code, int(write))
                seen.transfers[key] += 1
                transfers += 1
                writer = None
            writer = event if write else writer
            if hits >= window.limit:
                end = time + 1
                cut = 1
                break
        seen.windows.append(
            (window.begin_ns, end - window.begin_ns, window.offsets, hits, 0, transfers, cut, window.changed)
        )
    return seen


def whole(events: Sequence[Event], span_ns: int) -> Seen:
    """All of it."""
    return look(events, [Stretch(0, span_ns)])


def in_windows(
    span_ns: int, length_ns: int, period_ns: int, sets: Sequence[int] = (ALL,), seed: int = 1, limit: int = 1 << 62
) -> Iterator[Stretch]:
    """A window at a random place of each period, their bytes by turns."""
    generator = random.Random(seed)
    for number, begin in enumerate(range(0, span_ns - period_ns + 1, period_ns)):
        place = begin + generator.randrange(period_ns - length_ns + 1)
        yield Stretch(place, length_ns, sets[number % len(sets)], limit)


@dataclass(frozen=True)
class Target:
    """What was watched; columns of the table watch and of memory_line."""

    target: str = "user:1000:0x55d000001000"
    address: int = 0x55D0_0000_1000
    space: str = "user"
    pid: int = 1000
    symbol: str = "shared"
    lock: int = 0
    lock_offset: int = 0
    type: str = ""
    type_offset: int = 0
    type_from: str = ""
    budget: float = 0.01
    hit_ns: int = 1200
    ended: str = ""
    object: str = ""


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _bits(cpus: Iterable[int]) -> bytes:
    value = 0
    for cpu in cpus:
        value |= 1 << cpu
    return value.to_bytes((value.bit_length() + 7) // 8, "little")


# Columns of memory_access behind the key.
_COLUMNS = MemoryAccess._fields[4:]


def add_watch(builder: RecordingBuilder, seen: Seen, target: Target, line: int = 1, span_ns: int = SECOND) -> None:
    """Write what was seen into a recording.  Threads are one for each CPU, called "worker"."""
    if line == 1:
        builder.insert("memory_source", [(1, "watchpoint", "watch", "4 of 8 bytes, read and write")])
        builder.insert("memory_count", [(1, "nr_entries", sum(row[3] for row in seen.windows))])
        cpus = sorted({cpu for _, _, cpu in seen.accesses} | {0, 1})
        builder.insert("memory_thread", ((cpu + 1, 1000, 1000 + cpu, "worker") for cpu in cpus))
    address = _signed(target.address)
    builder.insert(
        "memory_line",
        [(line, 1, address, 64, target.space, target.pid, target.object, target.symbol, 0, "", 0)],
    )
    names = sorted({code for _, code, _ in seen.accesses} | {key[2] for key in seen.transfers})
    codes = {name: line * 1000 + number for number, name in enumerate(names, 1)}
    builder.insert(
        "memory_code",
        (
            (
                id_,
                _signed(0xFFFF_FFFF_8100_0000 + id_ * 256) if target.space == "kernel" else 0x1000 + id_ * 256,
                target.space,
                name.partition("+")[0],
                int(name.partition("+")[2] or "0", 0),
                target.object,
                "",
            )
            for name, id_ in codes.items()
        ),
    )
    rows, states = [], []
    waits: defaultdict[str, int] = defaultdict(int)
    for (offset, code, cpu), events in sorted(seen.accesses.items()):
        figures: dict[str, object] = dict.fromkeys(_COLUMNS)
        figures["records"] = len(events)
        figures["loads"] = sum(event.read for event in events)
        figures["stores"] = sum(event.write for event in events)
        figures["locked"] = sum(event.locked for event in events)
        figures["in_wait"] = sum(event.in_wait for event in events)
        figures["cpus"] = _bits([cpu])
        figures["cpu_count"] = 1
        figures["nodes"] = ""
        waits[""] += sum(event.in_wait for event in events)
        rows.append((line, offset, codes[code], cpu + 1, *figures.values()))
        off = sum(event.interrupts_off for event in events)
        states.append((line, offset, codes[code], cpu + 1, len(events), off))
    builder.insert("memory_access", rows)
    builder.insert("memory_interrupts", states)
    if target.lock and waits[""]:
        builder.insert("memory_wait", [(line, target.lock, 0, waits[""], waits[""] // 2)])
    watch = (target.target, target.lock, target.lock_offset, target.type, target.type_offset, target.type_from)
    more = ("instruction", target.budget, BEGIN, BEGIN + span_ns, target.hit_ns, target.ended)
    builder.insert("watch", [(line, *watch, *more)])
    builder.insert("watch_window", ((line, BEGIN + row[0], row[1], _signed(row[2]), *row[3:]) for row in seen.windows))
    builder.insert(
        "watch_transfer",
        (
            (line, key[0], key[1], codes[key[2]], key[3], key[4], codes[key[5]], key[6], count)
            for key, count in sorted(seen.transfers.items())
        ),
    )


class ToldRow(NamedTuple):
    """A row of watch_told, but for the line; as many accesses as were told by nothing but their instruction."""

    instruction: int = 0
    watchpoint: int = 0
    remembered: int = 0
    untold: int = 0
    compared: int = 0
    disagreed: int = 0
    typed_windows: int = 0
    typed_hits: int = 0
    typed_hit_ns: int = 0


def add_told(builder: RecordingBuilder, told: ToldRow, comparisons: Iterable[tuple[int, ...]] = ()) -> None:
    """How the accesses of line 1 were told; comparisons: code, decoded, only_read, wrote."""
    builder.insert("watch_told", [(1, *told)])
    builder.insert("watch_comparison", ((1, *row) for row in comparisons))


def write_watch(path: Path, seen: Seen, target: Target | None = None, span_ns: int = SECOND, cpus: int = 2) -> Path:
    """A recording of one watched line."""
    builder = RecordingBuilder(path, max(1, span_ns // SECOND), cpus)
    add_watch(builder, seen, target or Target(), span_ns=span_ns)
    return builder.finish()


def ping_pong(offsets: tuple[int, ...], turns: int, period_ns: int = 10 * US, jitter: int = 1) -> list[Event]:
    """Threads on CPU 0, 1, ... that by turns increment a member each; one offset: all of them the same."""
    generator = random.Random(jitter)
    every = []
    for turn in range(turns):
        cpu = turn % max(2, len(offsets))
        offset = offsets[cpu % len(offsets)]
        time = turn * period_ns + generator.randrange(period_ns)
        every.append(Event(time, cpu, offset, f"bump_{cpu}+0x10", write=True, locked=True))
    return every


def alone(offset: int, turns: int, period_ns: int = 10 * US) -> list[Event]:
    """One thread that increments a member."""
    return [replace_event(event) for event in ping_pong((offset,), turns, period_ns) if event.cpu == 0]


def replace_event(event: Event) -> Event:
    """The same without a LOCK prefix."""
    return event._replace(locked=False)


def futex_bucket(turns: int, cpus: int = 4, seed: int = 3) -> list[Event]:
    """CPUs that take a bucket's lock, link themselves into its chain and let go, while others look at its waiters."""
    generator = random.Random(seed)
    every: list[Event] = []
    time = 0
    for _ in range(turns):
        cpu = generator.randrange(cpus)
        other = (cpu + 1 + generator.randrange(cpus - 1)) % cpus
        times = [time := time + 200 + generator.randrange(800) for _ in range(7)]
        every += [
            Event(times[0], cpu, 0, "futex_q_lock+0x40", write=True, locked=True),
            Event(times[1], cpu, 4, "_raw_spin_lock+0x1d", write=True, locked=True, interrupts_off=True),
            Event(times[2], other, 4, "native_queued_spin_lock_slowpath+0x6a", write=False, in_wait=True),
            Event(times[3], cpu, 8, "plist_add+0x33", write=False),
            Event(times[4], cpu, 0x10, "plist_add+0x51", write=True, read=False),
            Event(times[5], other, 0, "futex_wake+0xb0", write=False),
            Event(times[6], cpu, 4, "_raw_spin_unlock+0x5", write=True, read=False),
        ]
        time += generator.randrange(200 * US)
    return every


def bursts(seconds: int, seed: int, busy: float = 0.3) -> list[Event]:
    """Accesses of two CPUs to one member that come in bursts of some 10 ms, with next to none in between."""
    generator = random.Random(seed)
    chance, log = generator.random, math.log
    names = ("bump_0", "bump_1")
    every: list[Event] = []
    time = 0
    cpu = 0
    while time < seconds * SECOND:
        length = generator.randrange(2 * MS, 20 * MS)
        if generator.random() < busy:
            end = time + length
            while time < end:
                # As expovariate(), without its call: these are millions.
                time += int(-log(1.0 - chance()) / (1 / (20 * US))) + 1
                cpu ^= chance() < 0.4
                every.append(Event(time, cpu, 0, names[cpu], chance() < 0.5))
        else:
            time += length
    return [event for event in every if event.time_ns < seconds * SECOND]
