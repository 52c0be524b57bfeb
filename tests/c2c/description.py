# SPDX-License-Identifier: GPL-2.0-or-later
"""What a generated perf.data file is to hold, access by access, and so what perf c2c must count.

The samples and the truth of a Description come from the same list of accesses.
"""

import itertools
import random
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from operator import attrgetter
from pathlib import Path

from c2c import perfdata_format as perfdata
from c2c.access_kinds import NO_ADDRESS, Kind
from c2c.perfdata_format import Event, File, Machine, Mapping
from c2c.perfdata_sample import Sample
from c2c.symbol_images import Image

LINE = 64
SECOND = 1_000_000_000
# As tests/recording_generator.py has it: both are of one time.
BEGIN = 5_000 * SECOND
MAP_SHARED = 1

# Order in which compute_stats() of tools/perf/builtin-c2c.c asks where a sample's weight belongs.
WEIGHT_GROUPS = ("rmt_hitm", "lcl_hitm", "rmt_peer", "lcl_peer", "load")


@dataclass(frozen=True)
class Thread:
    """A task that makes accesses."""

    pid: int
    tid: int
    comm: str


@dataclass(frozen=True, slots=True)
class Access:
    """One sample to be: who, from where, to where, what kind; user: the mode of the CPU.

    later: after the file's later mappings, as all others are before them.
    """

    address: int
    kind: Kind
    ip: int
    cpu: int
    thread: Thread
    physical: int = 0
    user: bool = False
    callchain: tuple[int, ...] = ()
    later: bool = False


@cache
def _weight_group(names: Sequence[str]) -> str | None:
    return next((name for name in WEIGHT_GROUPS if name in names), None)


@dataclass
class Counts:
    """Counts under the names of struct c2c_stats, the CPUs, and the sums and numbers of weights by group."""

    stats: Counter[str] = field(default_factory=Counter)
    cpus: set[int] = field(default_factory=set)
    weights: dict[str, tuple[int, int]] = field(default_factory=dict)

    def add(self, names: tuple[str, ...], cpu: int, weight: int, times: int) -> None:
        """Count a sample that is there so many times."""
        for name in names:
            self.stats[name] += times
        self.cpus.add(cpu)
        group = _weight_group(names)
        if group:
            total, number = self.weights.get(group, (0, 0))
            self.weights[group] = total + weight * times, number + times

    def __getitem__(self, name: str) -> int:
        return self.stats[name]


@dataclass(frozen=True)
class LineKey:
    """How perf tells lines apart (sort__dcacheline_cmp() of tools/perf/util/sort.c, Linux 6.1).

    inode: of a mapped file, whose addresses are then offsets in it; pid: where the mapping is private and anonymous.
    """

    user: bool
    mapped: bool
    inode: int
    pid: int
    address: int


@dataclass
class Truth:
    """Counts of the whole file, of each line, of each offset in it, and of each instruction at that.

    first: the line's address as its first sample in time has it.
    """

    total: Counts = field(default_factory=Counts)
    lines: dict[LineKey, Counts] = field(default_factory=dict)
    offsets: dict[tuple[LineKey, int], Counts] = field(default_factory=dict)
    instructions: dict[tuple[LineKey, int, int], Counts] = field(default_factory=dict)
    first: dict[LineKey, int] = field(default_factory=dict)

    def counts_of(self, key: LineKey, offset: int, ip: int, address: int) -> tuple[Counts, Counts, Counts, Counts]:
        """All that accesses of one instruction, asked for once, count in; address: of the line, as the first has it."""
        if key not in self.lines:
            self.first[key], self.lines[key] = address, Counts()
        if (key, offset) not in self.offsets:
            self.offsets[key, offset] = Counts()
        counts = self.instructions[key, offset, ip] = Counts()
        return self.total, self.lines[key], self.offsets[key, offset], counts

    # Once it is whole it is asked for each line of a report: a search through all would take most of the tests' time.
    @cached_property
    def keys_at(self) -> dict[int, list[LineKey]]:
        """The lines that have an address."""
        found: dict[int, list[LineKey]] = {}
        for key in self.lines:
            found.setdefault(self.first[key], []).append(key)
        return found

    @cached_property
    def offsets_of(self) -> dict[LineKey, dict[int, Counts]]:
        """Of each line, by offset."""
        found: dict[LineKey, dict[int, Counts]] = {}
        for (key, offset), counts in self.offsets.items():
            found.setdefault(key, {})[offset] = counts
        return found

    @cached_property
    def code_of(self) -> dict[LineKey, dict[tuple[int, int], Counts]]:
        """Of each line, by offset and instruction."""
        found: dict[LineKey, dict[tuple[int, int], Counts]] = {}
        for (key, offset, ip), counts in self.instructions.items():
            found.setdefault(key, {})[offset, ip] = counts
        return found

    def line(self, address: int) -> Counts:
        """The counts of the one line that has this address; KeyError unless it is one."""
        (key,) = self.keys_at[address]
        return self.lines[key]


@dataclass(frozen=True)
class Description:
    """A file to be written.  kernel, programs: symbols; shift: how far KASLR moved the kernel.

    later: mappings that replace earlier ones while it was recorded; begin: in ns of the file's clock.
    """

    name: str
    file: File
    accesses: Sequence[Access]
    kernel: Image | None = None
    programs: Sequence[tuple[str, Image]] = ()
    later: Sequence[Mapping] = ()
    shift: int = 0
    begin: int = BEGIN
    seconds: int = 5
    seed: int = 1

    def _ordered(self) -> list[Access]:
        shuffled = list(self.accesses)
        random.Random(self.seed).shuffle(shuffled)
        return sorted(shuffled, key=attrgetter("later"))

    def weight(self, access: Access, index: int) -> int:
        """The latency that sample number index of the file has."""
        return access.kind.weight + index % 13 if access.kind.weight else 0

    def samples(self, repeats: int = 1) -> Iterator[Sample]:
        """The samples in the order of time; repeated, the time goes on."""
        ordered = self._ordered()
        step = self.seconds * SECOND // (len(ordered) + 1)
        time = itertools.count(self.begin + step, max(1, step))
        single = len(self.file.events) == 1
        fixed = [
            (
                0 if single or not access.kind.store else 1,
                access.ip,
                access.thread.pid,
                access.thread.tid,
                access.address,
                access.cpu,
                access.physical,
                access.kind.word,
                self.weight(access, index),
                access.user,
                access.callchain,
            )
            for index, access in enumerate(ordered)
        ]
        make = tuple.__new__
        for _ in range(repeats):
            for event, ip, pid, tid, address, cpu, physical, word, weight, user, chain in fixed:
                yield make(Sample, (event, ip, pid, tid, next(time), address, cpu, physical, word, weight, user, chain))

    def complete(self, repeats: int = 1) -> File:
        """The file's facts, with what follows from the accesses: mappings, names, times."""
        mappings = list(self.file.mappings)
        if self.kernel:
            begin, end = self.kernel.text[0], self.kernel.data[1]
            mappings.insert(0, Mapping(-1, begin, end - begin, begin, "[kernel.kallsyms]_text"))
        # Told apart as objects first: to hash a thread for each of a million accesses takes seconds.
        objects = {id(access.thread): access.thread for access in self.accesses}
        threads = sorted(set(objects.values()), key=lambda t: (t.pid, t.tid))
        step = max(1, self.seconds * SECOND // (len(self.accesses) + 1))
        build_ids = [(-1, "[kernel.kallsyms]", self.kernel.build_id)] if self.kernel else []
        build_ids += [(0, path, program.build_id) for path, program in self.programs]
        return replace(
            self.file,
            mappings=mappings,
            comms=[(thread.pid, thread.tid, thread.comm) for thread in threads],
            later=[(self._turn(step), mapping) for mapping in self.later],
            build_ids=[*self.file.build_ids, *build_ids],
            wall_clock=(1_700_000_000 * SECOND, self.begin),
            sample_time=(self.begin + step, self.begin + step * len(self.accesses) * repeats),
        )

    def _turn(self, step: int) -> int:
        """When the later mappings came: half a step after the last access that is not later."""
        before = sum(not access.later for access in self.accesses)
        return self.begin + step * before + step // 2

    def _mapping(self, mappings: Sequence[Mapping], access: Access, address: int) -> Mapping | None:
        # The kernel's own accesses are looked up in the kernel's mappings alone, whatever the address.
        parents = dict(self.file.forks)
        wanted = parents.get(access.thread.pid, access.thread.pid) if access.user else -1
        found = None
        for mapping in (*mappings, *self.later) if access.later else mappings:
            if mapping.pid == wanted and mapping.start <= address < mapping.start + mapping.length:
                found = mapping
        return found

    def truth(self, repeats: int = 1, lines: Collection[int] | None = None) -> Truth:
        """What perf c2c must count in this file, or of the lines at these addresses alone."""
        truth = Truth()
        mappings = self.complete().mappings
        cache: dict[tuple[bool, int, int, bool], Mapping | None] = {}
        # By what a LineKey is made of, the offset and the instruction: most accesses are at a place of earlier ones.
        counted: dict[tuple[bool, bool, int, int, int, int, int], tuple[Counts, ...]] = {}

        def mapping_of(access: Access, address: int) -> Mapping | None:
            key = access.user, access.thread.pid if access.user else -1, address, access.later
            if key not in cache:
                cache[key] = self._mapping(mappings, access, address)
            return cache[key]

        for index, access in enumerate(self._ordered()):
            if lines is not None and access.address & -LINE not in lines:
                continue
            data = mapping_of(access, access.address)
            names: tuple[str, ...] = ("nr_entries", *access.kind.counts)
            if not access.address and "noparse" not in names:
                kept = {"locks", "blk_data", "blk_addr"}
                side = "store" if access.kind.store else "load"
                names = ("nr_entries", *(name for name in access.kind.counts if name in kept), *NO_ADDRESS[side])
            elif "noparse" not in names and not (data and mapping_of(access, access.ip)):
                names = (*names, "nomap")
            address, inode, pid = access.address, 0, 0
            if data and access.user:
                inode = data.inode
                if inode:
                    address = access.address - data.start + data.offset
                elif not data.flags & MAP_SHARED:
                    pid = access.thread.pid
            place = access.user, data is not None, inode, pid, address & -LINE, address % LINE, access.ip
            if place not in counted:
                counted[place] = truth.counts_of(LineKey(*place[:5]), *place[5:], access.address & -LINE)
            weight = self.weight(access, index)
            for counts in counted[place]:
                counts.add(names, access.cpu, weight, repeats)
        return truth

    def write(self, path: Path, repeats: int = 1) -> Path:
        """Write the perf.data file; gives its path."""
        return perfdata.write_path(self.complete(repeats), self.samples(repeats), path)

    def changed(self, **changes: object) -> "Description":
        """The same accesses in another kind of file: big_endian, pipe, compressed, fields."""
        return replace(self, file=perfdata.variant(self.file, **changes))


def intel_events(cpus: int) -> tuple[Event, Event]:
    """Loads and stores as `perf c2c record` has them on Intel."""
    return (
        Event("cpu/mem-loads,ldlat=30/P", tuple(range(1000, 1000 + cpus)), config=0x1CD, config1=30),
        Event("cpu/mem-stores/P", tuple(range(5000, 5000 + cpus)), config=0x82D0),
    )


def ibs_events(cpus: int) -> tuple[Event]:
    """The one event of AMD."""
    return (Event("ibs_op//", tuple(range(1000, 1000 + cpus)), type=11, config=0, period=100_000),)


def spe_events(cpus: int) -> tuple[Event]:
    """The event that perf makes of Arm SPE's records."""
    return (Event("memory", tuple(range(1000, 1000 + cpus)), type=11, config=0, period=1),)


class Builder:
    """Collects accesses; CPUs and threads are taken in turn, so that so many accesses come from so many CPUs."""

    def __init__(self, machine: Machine, cpus: Sequence[int], threads: Sequence[Thread]) -> None:
        self.machine = machine
        self.accesses: list[Access] = []
        self.cpus = itertools.cycle(cpus)
        self.threads = {cpu: threads[index % len(threads)] for index, cpu in enumerate(cpus)}

    def physical(self, address: int) -> int:
        """A physical address: pages alternate between the nodes."""
        page = address >> 12
        inside = (page * 4096 + address % 4096) % (self.machine.memory_bytes // self.machine.nodes // 2)
        return self.machine.physical(page % self.machine.nodes, 0x1000 + inside)

    def add(self, address: int, kind: Kind, ip: int, count: int = 1, user: bool = False, later: bool = False) -> None:
        """Add so many accesses of one instruction to one address."""
        physical = self.physical(address) if address else 0
        for _ in range(count):
            cpu = next(self.cpus)
            self.accesses.append(Access(address, kind, ip, cpu, self.threads[cpu], physical, user, later=later))
