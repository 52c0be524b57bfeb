# SPDX-License-Identifier: GPL-2.0-or-later
"""SAMPLE records: the order of fields in perf_output_sample() of kernel/events/core.c, Linux 6.12."""

import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

# perf_event_sample_format, include/uapi/linux/perf_event.h
IP, TID, TIME, ADDR, READ, CALLCHAIN, ID, CPU, PERIOD, STREAM_ID, RAW, BRANCH_STACK = (1 << bit for bit in range(12))
REGS_USER, STACK_USER, WEIGHT, DATA_SRC, IDENTIFIER, TRANSACTION, REGS_INTR = (1 << bit for bit in range(12, 19))
PHYS_ADDR, CGROUP, DATA_PAGE_SIZE, CODE_PAGE_SIZE, WEIGHT_STRUCT = (1 << bit for bit in (19, 21, 22, 23, 24))

# What `perf c2c record` asks for: -W -d --phys-data --sample-cpu
C2C_FIELDS = IDENTIFIER | IP | TID | TIME | ADDR | CPU | PERIOD | DATA_SRC | WEIGHT | PHYS_ADDR
# And all else that a sample may hold.
ALL_FIELDS = (
    *(C2C_FIELDS, ID, STREAM_ID, READ, CALLCHAIN, RAW, BRANCH_STACK, REGS_USER, STACK_USER, TRANSACTION, REGS_INTR),
    *(CGROUP, DATA_PAGE_SIZE, CODE_PAGE_SIZE),
)

SAMPLE = 9
KERNEL, USER = 1, 2
# The registers that samples with REGS_USER or REGS_INTR have.
REGISTERS = 0b1_0000_0011
STACK_BYTES = 32
BRANCH_ANY = 1 << 3


class Sample(NamedTuple):
    """One memory sample; event is an index into File.events, user says in which mode the CPU was."""

    event: int
    ip: int
    pid: int
    tid: int
    time: int
    address: int
    cpu: int
    physical: int
    data_src: int
    weight: int
    user: bool
    callchain: tuple[int, ...] = ()


Part = Callable[[Sample, int], bytes]


def _words(order: str, *values: int) -> bytes:
    return struct.pack(f"{order}{len(values)}Q", *values)


def _raw(order: str, sample: Sample) -> bytes:
    """Its own size and the payload make a multiple of 8 bytes."""
    size = 4 + sample.cpu % 3 * 8
    return struct.pack(f"{order}I", size) + bytes(range(size))


def _branches(order: str, sample: Sample) -> bytes:
    number = sample.tid % 3
    return _words(order, number, *(word for i in range(number) for word in (sample.ip - i, sample.ip + i, 1)))


def _registers(order: str, present: bool) -> bytes:
    return _words(order, 2, *range(REGISTERS.bit_count())) if present else _words(order, 0)


def _stack(order: str, sample: Sample) -> bytes:
    """Of a kernel thread there is none."""
    return _words(order, STACK_BYTES) + bytes(STACK_BYTES) + _words(order, 16) if sample.cpu % 2 else _words(order, 0)


def _parts(order: str, fields: int, periods: Sequence[int]) -> list[Part]:
    """What makes each field, in the order of the record."""
    table: Sequence[tuple[int, Part]] = (
        (IDENTIFIER, lambda s, identity: _words(order, identity)),
        (IP, lambda s, _: _words(order, s.ip)),
        (TID, lambda s, _: struct.pack(f"{order}II", s.pid, s.tid)),
        (TIME, lambda s, _: _words(order, s.time)),
        (ADDR, lambda s, _: _words(order, s.address)),
        (ID, lambda s, identity: _words(order, identity)),
        (STREAM_ID, lambda s, identity: _words(order, identity)),
        (CPU, lambda s, _: struct.pack(f"{order}II", s.cpu, 0)),
        (PERIOD, lambda s, _: _words(order, periods[s.event])),
        (READ, lambda s, identity: _words(order, s.time, identity)),
        (CALLCHAIN, lambda s, _: _words(order, len(s.callchain), *s.callchain)),
        (RAW, lambda s, _: _raw(order, s)),
        (BRANCH_STACK, lambda s, _: _branches(order, s)),
        (REGS_USER, lambda s, _: _registers(order, bool(s.tid % 2))),
        (STACK_USER, lambda s, _: _stack(order, s)),
        (WEIGHT | WEIGHT_STRUCT, lambda s, _: _words(order, s.weight)),
        (DATA_SRC, lambda s, _: _words(order, s.data_src)),
        (TRANSACTION, lambda s, _: _words(order, 0)),
        (REGS_INTR, lambda s, _: _registers(order, True)),
        (PHYS_ADDR, lambda s, _: _words(order, s.physical)),
        (CGROUP, lambda s, _: _words(order, 1)),
        (DATA_PAGE_SIZE, lambda s, _: _words(order, 4096)),
        (CODE_PAGE_SIZE, lambda s, _: _words(order, 1 << 21)),
    )
    return [part for bit, part in table if fields & bit]


def maker(order: str, fields: int, ids: Sequence[Sequence[int]], periods: Sequence[int]) -> Callable[[Sample], bytes]:
    """A function that makes the record of a sample; ids and periods by event."""
    if fields & ~(WEIGHT | WEIGHT_STRUCT) == C2C_FIELDS & ~WEIGHT:
        return _fast_maker(order, ids, periods)
    parts = _parts(order, fields, periods)
    header = struct.Struct(f"{order}IHH")

    def make(sample: Sample) -> bytes:
        own = ids[sample.event]
        body = b"".join(part(sample, own[sample.cpu % len(own)]) for part in parts)
        return header.pack(SAMPLE, USER if sample.user else KERNEL, header.size + len(body)) + body

    return make


def _fast_maker(order: str, ids: Sequence[Sequence[int]], periods: Sequence[int]) -> Callable[[Sample], bytes]:
    """The usual fields in one go, for files of millions of samples."""
    record = struct.Struct(f"{order}IHHQQIIQQIIQQQQ")
    size, pack = record.size, record.pack

    def make(sample: Sample) -> bytes:
        event, ip, pid, tid, time, address, cpu, physical, data_src, weight, user, _ = sample
        own = ids[event]
        identity = own[cpu % len(own)]
        head = (SAMPLE, 2 if user else 1, size, identity, ip, pid, tid, time, address, cpu, 0)
        return pack(*head, periods[event], weight, data_src, physical)

    return make
