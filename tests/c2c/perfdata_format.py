# SPDX-License-Identifier: GPL-2.0-or-later
"""perf.data files, byte by byte: what tools/perf/Documentation/perf.data-file-format.txt and util/header.c describe.

A File says what is in one; write() makes the bytes.  Samples are plain tuples, so that a million of them takes seconds.
"""

import io
import itertools
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from c2c.perfdata_sample import (
    BRANCH_ANY,
    BRANCH_STACK,
    C2C_FIELDS,
    CPU,
    ID,
    IDENTIFIER,
    KERNEL,
    REGISTERS,
    REGS_INTR,
    REGS_USER,
    STACK_BYTES,
    STACK_USER,
    STREAM_ID,
    TID,
    TIME,
    USER,
    Sample,
    maker,
)

FORMAT_ID = 1 << 2

# perf_event_type and perf_user_event_type
MMAP, LOST, COMM, FORK, MMAP2 = 1, 2, 3, 7, 10
ATTR, FINISHED_ROUND, EVENT_UPDATE, FEATURE, COMPRESSED, FINISHED_INIT, COMPRESSED2 = 64, 68, 78, 80, 81, 82, 83
EVENT_UPDATE_NAME = 2

# HEADER_* of tools/perf/util/header.h
BUILD_ID = 2
HOSTNAME, OSRELEASE, VERSION, ARCH, NRCPUS, CPUDESC, CPUID, TOTAL_MEM, CMDLINE, EVENT_DESC = range(3, 13)
CPU_TOPOLOGY, NUMA_TOPOLOGY = 13, 14
PMU_MAPPINGS, SAMPLE_TIME, MEM_TOPOLOGY, CLOCKID, HEADER_COMPRESSED, CLOCK_DATA = 16, 21, 22, 23, 27, 29

# Bits of perf_event_attr after read_format
INHERIT, FLAG_MMAP, FLAG_COMM, FREQ, TASK, MMAP_DATA, SAMPLE_ID_ALL = (1 << bit for bit in (1, 8, 9, 10, 13, 17, 18))
PRECISE = 3 << 15
FLAG_MMAP2, COMM_EXEC, USE_CLOCKID = (1 << bit for bit in (23, 24, 25))

MONOTONIC = 1
ATTR_SIZE = 128
# Payloads: a record's size has 16 bits.
LARGEST_PAYLOAD = 0xFFF0 - 16


@dataclass(frozen=True)
class Event:
    """One event of a file; ids: one for each CPU, as perf gives them."""

    name: str
    ids: tuple[int, ...]
    type: int = 4
    config: int = 0x1CD
    config1: int = 0
    period: int = 4000


@dataclass(frozen=True)
class Mapping:
    """A MMAP or MMAP2 record; pid -1: the kernel's.  build_id: in the record, in place of device and inode."""

    pid: int
    start: int
    length: int
    offset: int
    name: str
    inode: int = 0
    device: tuple[int, int] = (0, 0)
    protection: int = 5
    flags: int = 2
    data: bool = False
    build_id: bytes = b""


@dataclass(frozen=True)
class Machine:
    """Whose file it is: what goes into the header's features."""

    cpus: int = 4
    nodes: int = 1
    hostname: str = "lab1"
    release: str = "6.12.0-lab"
    perf_version: str = "6.12.0"
    architecture: str = "x86_64"
    cpu_model: str = "Example CPU @ 2.00GHz"
    cpuid: str = "GenuineIntel,6,85,4"
    memory_bytes: int = 8 << 30
    block_bytes: int = 128 << 20

    def node_cpus(self, node: int) -> range:
        """CPUs of a node: consecutive, the last node takes the rest."""
        each = self.cpus // self.nodes
        return range(node * each, self.cpus if node == self.nodes - 1 else (node + 1) * each)

    def physical(self, node: int, offset: int) -> int:
        """A physical address on this node; offset below the node's share of the memory."""
        blocks = self.memory_bytes // self.nodes // self.block_bytes
        return node * blocks * self.block_bytes + offset


@dataclass(frozen=True)
class File:
    """All that a perf.data file holds but its samples."""

    machine: Machine
    events: Sequence[Event]
    command: Sequence[str] = ("perf", "c2c", "record", "-a", "sleep", "5")
    fields: int = C2C_FIELDS
    mappings: Sequence[Mapping] = ()
    comms: Sequence[tuple[int, int, str]] = ()
    forks: Sequence[tuple[int, int]] = ()
    later: Sequence[tuple[int, Mapping]] = ()
    build_ids: Sequence[tuple[int, str, bytes]] = ()
    clock: int = MONOTONIC
    wall_clock: tuple[int, int] = (0, 0)
    sample_time: tuple[int, int] = (0, 0)
    big_endian: bool = False
    pipe: bool = False
    compressed: int = 0
    round_samples: int = 4096
    lost: int = 0
    left_out: frozenset[int] = field(default_factory=frozenset)

    @property
    def order(self) -> str:
        """The byte order as struct writes it."""
        return ">" if self.big_endian else "<"


def _flags(file: File) -> int:
    flags = INHERIT | FLAG_MMAP | FLAG_COMM | TASK | MMAP_DATA | SAMPLE_ID_ALL | PRECISE | FLAG_MMAP2 | COMM_EXEC
    return flags | (USE_CLOCKID if file.clock >= 0 else 0)


def _flag_bytes(file: File) -> bytes:
    # Bit fields of a big-endian machine begin with the highest bit.
    little = _flags(file).to_bytes(8, "little")
    return bytes(int(f"{byte:08b}"[::-1], 2) for byte in little) if file.big_endian else little


def attribute(file: File, event: Event) -> bytes:
    """The event's struct perf_event_attr (PERF_ATTR_SIZE_VER7)."""
    order = file.order
    return (
        struct.pack(f"{order}IIQQQQ", event.type, ATTR_SIZE, event.config, event.period, file.fields, FORMAT_ID)
        + _flag_bytes(file)
        + struct.pack(
            f"{order}IIQQQQIiQIHHIIQ",
            *(0, 0, event.config1, 0, BRANCH_ANY if file.fields & BRANCH_STACK else 0),
            *(REGISTERS if file.fields & REGS_USER else 0, STACK_BYTES if file.fields & STACK_USER else 0),
            *(max(file.clock, 0), REGISTERS if file.fields & REGS_INTR else 0, *(0,) * 6),
        )
    )


class Packer:
    """Writes records in the file's byte order."""

    def __init__(self, file: File) -> None:
        self.file = file
        self.order = file.order

    def record(self, kind: int, misc: int, payload: bytes) -> bytes:
        """One record: header and payload."""
        return struct.pack(f"{self.order}IHH", kind, misc, 8 + len(payload)) + payload

    def sample_id(self, pid: int, tid: int, time: int, cpu: int, event: int = 0) -> bytes:
        """What sample_id_all puts behind each record of the kernel."""
        fields = self.file.fields
        identity = self.file.events[event].ids[0]
        parts = (
            (TID, "II", (pid & 0xFFFFFFFF, tid & 0xFFFFFFFF)),
            (TIME, "Q", (time,)),
            (ID, "Q", (identity,)),
            (STREAM_ID, "Q", (identity,)),
            (CPU, "II", (cpu, 0)),
            (IDENTIFIER, "Q", (identity,)),
        )
        return b"".join(struct.pack(self.order + form, *values) for bit, form, values in parts if fields & bit)

    def name(self, text: str) -> bytes:
        """A file name, its end padded to 8 bytes."""
        data = text.encode() + b"\0"
        return data + bytes(-len(data) % 8)

    def mapping(self, mapping: Mapping, time: int) -> bytes:
        """MMAP for the kernel and its modules, MMAP2 for processes."""
        pid = mapping.pid & 0xFFFFFFFF
        identity = self.sample_id(mapping.pid, mapping.pid, time, 0)
        place = struct.pack(f"{self.order}QQQ", mapping.start, mapping.length, mapping.offset)
        if mapping.pid < 0:
            head = struct.pack(f"{self.order}II", pid, 0)
            return self.record(MMAP, KERNEL, head + place + self.name(mapping.name) + identity)
        head = struct.pack(f"{self.order}II", pid, pid)
        misc = USER | (1 << 13 if mapping.data else 0)
        if mapping.build_id:
            misc |= 1 << 14
            rest = struct.pack("<BBH20s", len(mapping.build_id), 0, 0, mapping.build_id)
        else:
            rest = struct.pack(f"{self.order}IIQQ", *mapping.device, mapping.inode, 0)
        rest += struct.pack(f"{self.order}II", mapping.protection, mapping.flags)
        return self.record(MMAP2, misc, head + place + rest + self.name(mapping.name) + identity)

    def comm(self, pid: int, tid: int, text: str, time: int) -> bytes:
        """A COMM record."""
        head = struct.pack(f"{self.order}II", pid, tid)
        return self.record(COMM, 0, head + self.name(text) + self.sample_id(pid, tid, time, 0))

    def fork(self, pid: int, parent: int, time: int) -> bytes:
        """A FORK record: the process has its parent's mappings."""
        head = struct.pack(f"{self.order}IIIIQ", pid, parent, pid, parent, time)
        return self.record(FORK, 0, head + self.sample_id(pid, pid, time, 0))

    def lost(self, count: int, time: int) -> bytes:
        """A LOST record."""
        payload = struct.pack(f"{self.order}QQ", self.file.events[0].ids[0], count)
        return self.record(LOST, 0, payload + self.sample_id(0, 0, time, 0))


def _string(order: str, text: str) -> bytes:
    data = text.encode() + b"\0"
    data += bytes(-len(data) % 64)
    return struct.pack(f"{order}I", len(data)) + data


def _cpu_list(cpus: Sequence[int]) -> str:
    return f"{cpus[0]}-{cpus[-1]}" if len(cpus) > 1 else str(cpus[0])


def _cpu_topology(order: str, machine: Machine) -> bytes:
    """Two threads to a core: CPU n and n + half; one socket for each node."""
    sockets = [machine.node_cpus(node) for node in range(machine.nodes)]
    data = struct.pack(f"{order}I", len(sockets))
    data += b"".join(_string(order, _cpu_list(cpus)) for cpus in sockets)
    data += struct.pack(f"{order}I", machine.cpus)
    data += b"".join(_string(order, str(cpu)) for cpu in range(machine.cpus))
    for cpu in range(machine.cpus):
        socket = next(index for index, cpus in enumerate(sockets) if cpu in cpus)
        data += struct.pack(f"{order}II", cpu, socket)
    return data


def _memory_topology(order: str, machine: Machine) -> bytes:
    """Each node has an equal share, one after the other."""
    blocks = machine.memory_bytes // machine.nodes // machine.block_bytes
    data = struct.pack(f"{order}QQQ", 1, machine.block_bytes, machine.nodes)
    for node in range(machine.nodes):
        bits = (1 << blocks) - 1 << node * blocks
        size = (node + 1) * blocks
        words = [bits >> 64 * word & (1 << 64) - 1 for word in range((size + 63) // 64)]
        data += struct.pack(f"{order}QQQ{len(words)}Q", node, size, size, *words)
    return data


def features(file: File) -> dict[int, bytes]:
    """The header's features by number."""
    order, machine = file.order, file.machine
    events = struct.pack(f"{order}II", len(file.events), ATTR_SIZE)
    for event in file.events:
        events += attribute(file, event) + struct.pack(f"{order}I", len(event.ids)) + _string(order, event.name)
        events += struct.pack(f"{order}{len(event.ids)}Q", *event.ids)
    numa = struct.pack(f"{order}I", machine.nodes)
    for node in range(machine.nodes):
        share = machine.memory_bytes // machine.nodes // 1024
        numa += struct.pack(f"{order}IQQ", node, share, share // 2)
        numa += _string(order, _cpu_list(machine.node_cpus(node)))
    packer = Packer(file)
    build_ids = b"".join(
        packer.record(0, (KERNEL if pid < 0 else USER) | 1 << 15, body)
        for pid, body in (
            (
                pid,
                struct.pack(f"{order}i", pid) + data.ljust(20, b"\0") + bytes([len(data), 0, 0, 0]) + packer.name(name),
            )
            for pid, name, data in file.build_ids
        )
    )
    found = {
        BUILD_ID: build_ids,
        HOSTNAME: _string(order, machine.hostname),
        OSRELEASE: _string(order, machine.release),
        VERSION: _string(order, machine.perf_version),
        ARCH: _string(order, machine.architecture),
        NRCPUS: struct.pack(f"{order}II", machine.cpus, machine.cpus),
        CPUDESC: _string(order, machine.cpu_model),
        CPUID: _string(order, machine.cpuid),
        TOTAL_MEM: struct.pack(f"{order}Q", machine.memory_bytes // 1024),
        CMDLINE: struct.pack(f"{order}I", len(file.command)) + b"".join(_string(order, word) for word in file.command),
        EVENT_DESC: events,
        CPU_TOPOLOGY: _cpu_topology(order, machine),
        NUMA_TOPOLOGY: numa,
        PMU_MAPPINGS: struct.pack(f"{order}II", 1, 4) + _string(order, "cpu"),
        SAMPLE_TIME: struct.pack(f"{order}QQ", *file.sample_time),
        MEM_TOPOLOGY: _memory_topology(order, machine),
    }
    if not build_ids:
        del found[BUILD_ID]
    if file.clock >= 0:
        found[CLOCKID] = struct.pack(f"{order}Q", 1)
        found[CLOCK_DATA] = struct.pack(f"{order}IIQQ", 1, file.clock, *file.wall_clock)
    if file.compressed:
        found[HEADER_COMPRESSED] = struct.pack(f"{order}IIIII", 1, 1, 1, 3, 1 << 20)
    return {number: found[number] for number in sorted(found) if number not in file.left_out}


def _rounds(file: File, samples: Iterable[Sample]) -> Iterator[list[Sample]]:
    """The samples as perf drains its buffers: round by round, each CPU by CPU.

    CPUs are not drained at the same time: the odd ones are half a round behind, so that a round has samples that are
    older than some of the round before.
    """
    source = iter(samples)
    late: list[Sample] = []
    while batch := list(itertools.islice(source, file.round_samples)):
        half = len(batch) // 2
        drained = [*late, *batch[:half], *(sample for sample in batch[half:] if sample.cpu % 2 == 0)]
        late = [sample for sample in batch[half:] if sample.cpu % 2]
        drained.sort(key=lambda sample: sample.cpu)
        yield drained
    if late:
        yield late


def _records(file: File, samples: Iterable[Sample]) -> Iterator[bytes]:
    """The data section: mappings and names of tasks, then rounds of samples, each with the mappings of its time."""
    packer = Packer(file)
    for mapping in file.mappings:
        yield packer.mapping(mapping, 0)
    for pid, tid, text in file.comms:
        yield packer.comm(pid, tid, text, 0)
    for pid, parent in file.forks:
        yield packer.fork(pid, parent, 1)
    yield packer.record(FINISHED_INIT, 0, b"")
    finished = packer.record(FINISHED_ROUND, 0, b"")
    make = maker(file.order, file.fields, [event.ids for event in file.events], [event.period for event in file.events])
    later = sorted(file.later, key=lambda item: item[0])
    last = 0
    for drained in _rounds(file, samples):
        last = max(last, *(sample.time for sample in drained))
        yield b"".join(map(make, drained))
        while later and later[0][0] <= last:
            time, mapping = later.pop(0)
            yield packer.mapping(mapping, time)
        yield finished
    if file.lost:
        yield packer.lost(file.lost, last)


def _compress(file: File, records: Iterable[bytes]) -> Iterator[bytes]:
    """One zstd stream cut into records, as `perf record -z` makes them; what perf itself adds stays outside."""
    import zstandard  # for compressed files alone, so that the others need nothing but Python

    packer = Packer(file)
    stream = zstandard.ZstdCompressor(level=1).compressobj()
    for data in records:
        if struct.unpack_from(f"{file.order}I", data)[0] in (FINISHED_ROUND, FINISHED_INIT):
            yield data
            continue
        for at in range(0, len(data), 0x8000):
            packed = stream.compress(data[at : at + 0x8000]) + stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
            if file.compressed == COMPRESSED:
                yield packer.record(COMPRESSED, 0, packed)
            else:
                padded = packed + bytes(-len(packed) % 8)
                yield packer.record(COMPRESSED2, 0, struct.pack(f"{file.order}Q", len(packed)) + padded)


def _data(file: File, samples: Iterable[Sample]) -> Iterator[bytes]:
    records = _records(file, samples)
    return _compress(file, records) if file.compressed else records


def _write_file(file: File, samples: Iterable[Sample], out: BinaryIO) -> None:
    order = file.order
    header = struct.Struct(f"{order}QQQQQQQQQ4Q")
    out.write(bytes(header.size))
    sections = []
    for event in file.events:
        sections.append((out.tell(), 8 * len(event.ids)))
        out.write(struct.pack(f"{order}{len(event.ids)}Q", *event.ids))
    attributes = out.tell()
    for event, section in zip(file.events, sections, strict=True):
        out.write(attribute(file, event) + struct.pack(f"{order}QQ", *section))
    begin = out.tell()
    for data in _data(file, samples):
        out.write(data)
    end = out.tell()
    present = features(file)
    place = end + 16 * len(present)
    for data in present.values():
        out.write(struct.pack(f"{order}QQ", place, len(data)))
        place += len(data)
    for data in present.values():
        out.write(data)
    bits = sum(1 << number for number in present)
    attribute_bytes = (ATTR_SIZE + 16) * len(file.events)
    out.seek(0)
    magic = int.from_bytes(b"PERFILE2", "little")
    words = [bits >> 64 * word & (1 << 64) - 1 for word in range(4)]
    data_section = begin, end - begin
    out.write(header.pack(magic, header.size, ATTR_SIZE + 16, attributes, attribute_bytes, *data_section, 0, 0, *words))


def _write_pipe(file: File, samples: Iterable[Sample], out: BinaryIO) -> None:
    order, packer = file.order, Packer(file)
    out.write(struct.pack(f"{order}QQ", int.from_bytes(b"PERFILE2", "little"), 16))
    for event in file.events:
        ids = struct.pack(f"{order}{len(event.ids)}Q", *event.ids)
        out.write(packer.record(ATTR, 0, attribute(file, event) + ids))
    for event in file.events:
        named = struct.pack(f"{order}QQ", EVENT_UPDATE_NAME, event.ids[0])
        out.write(packer.record(EVENT_UPDATE, 0, named + packer.name(event.name)))
    for number, data in features(file).items():
        # A feature of more than 64 KiB does not fit into a record, and has no place in a pipe.
        if len(data) <= LARGEST_PAYLOAD:
            out.write(packer.record(FEATURE, 0, struct.pack(f"{order}Q", number) + data + bytes(-len(data) % 8)))
    for data in _data(file, samples):
        out.write(data)


def write(file: File, samples: Iterable[Sample], out: BinaryIO) -> None:
    """Write the file; samples in the order of their times."""
    (_write_pipe if file.pipe else _write_file)(file, samples, out)


def write_path(file: File, samples: Iterable[Sample], path: Path) -> Path:
    """Write it at a path; gives the path."""
    with open(path, "wb") as out:
        write(file, samples, out)
    return path


def as_bytes(file: File, samples: Iterable[Sample]) -> bytes:
    """The file's bytes."""
    out = io.BytesIO()
    write(file, samples, out)
    return out.getvalue()


def variant(file: File, **changes: object) -> File:
    """The same file with other fields: big_endian, pipe, compressed, fields."""
    return replace(file, **changes)  # type: ignore[arg-type]
