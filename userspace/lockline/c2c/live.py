# SPDX-License-Identifier: GPL-2.0-or-later
"""From the memory accesses of a recording to a map of each line: what was seen live beside what c2c data tell."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from lockline.base.values import dataclass, replace
from lockline.c2c.members import ReadProgram, ReadTypes
from lockline.c2c.model import Access, C2cReport, LineReport, Role
from lockline.c2c.report import make_c2c_report
from lockline.c2c.types_reader import find_types, read_program
from lockline.recording import memory_rows, rows
from lockline.recording.conditions import among
from lockline.recording.reader import Recording
from lockline.watch.cost import WatchCost, cost_of
from lockline.watch.estimate import coverage, hit_rate, offset_rate, offset_transfer_rate, transfer_rate
from lockline.watch.model import Rate, Transfer, Watch
from lockline.watch.pairs import Pair, read_pairs

# Of the matrix, the CPUs with most transfers.
MATRIX_CPUS = 64


@dataclass(frozen=True, slots=True)
class Interrupts:
    """Accesses of which it is known whether interrupts were off, and those with interrupts off."""

    known: int = 0
    off: int = 0

    @property
    def share(self) -> float | None:
        """Of those that are known; None without any."""
        return self.off / self.known if self.known else None


@dataclass(frozen=True, slots=True)
class Instruction:
    """Accesses of one instruction to one offset."""

    access: Access
    role: Role | None  # None: of a place that no part of the line covers
    interrupts: Interrupts
    comms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LiveOffset:
    """One offset of a line; cpus: bit set, 0 if they are not known.  coverage and rates: None of what was sampled."""

    offset: int
    member: str
    reads: int | None
    writes: int | None
    locked: int | None
    hitm: int
    peer: int
    transfers: int
    cpus: int
    comms: tuple[str, ...]
    interrupts: Interrupts
    instructions: tuple[Instruction, ...]
    coverage: float | None
    read_rate: Rate | None
    write_rate: Rate | None
    transfer_rate: Rate | None


@dataclass(frozen=True, slots=True)
class Matrix:
    """Transfers from one CPU to another: counts[i][j] from cpus[i] to cpus[j].  left_out: of other CPUs."""

    cpus: tuple[int, ...]
    counts: tuple[tuple[int, ...], ...]
    left_out: int


@dataclass(frozen=True, slots=True)
class Handover:
    """Who wrote before who touched the line, by functions and offsets."""

    from_function: str
    from_offset: int
    from_member: str
    function: str
    offset: int
    member: str
    write: bool
    transfers: int


@dataclass(frozen=True, slots=True)
class WaitOnLine:
    """Accesses that were made while a lock was waited for."""

    lock: str
    instance: str
    kind: str
    records: int
    transfers: int


@dataclass(frozen=True, slots=True)
class LiveLine:
    """All that a report says of one line.  hits, transfers: of a watched line; cost: of watching it."""

    report: LineReport
    source: str
    event: str
    lock: rows.Lock | None  # that the target is
    offsets: tuple[LiveOffset, ...]
    waits: tuple[WaitOnLine, ...]
    interrupts: Interrupts
    watch: Watch | None
    hits: Rate | None
    transfers: Rate | None
    matrix: Matrix | None
    handovers: tuple[Handover, ...]
    cost: WatchCost | None


@dataclass(frozen=True, slots=True)
class LiveReport:
    """The lines of a recording; c2c: the same as data of perf c2c are shown."""

    c2c: C2cReport
    lines: tuple[LiveLine, ...]
    pairs: tuple[Pair, ...]


def make_live_report(
    recording: Recording,
    top: int,
    read_types: ReadTypes | None = None,
    read_program: ReadProgram | None = None,
    notes: Sequence[str] = (),
) -> LiveReport:
    """The best `top` lines of a recording.  Raises RecordingError if it is damaged."""
    c2c = make_c2c_report(recording, top, read_types, notes=notes, read_program=read_program)
    seen = _Seen(recording, c2c)
    lines = [seen.line(report) for report in c2c.lines]
    lines.sort(key=lambda line: -line.transfers.per_second if line.transfers else 0.0)
    return LiveReport(c2c, tuple(lines), read_pairs(recording))


class _Seen:
    """What a recording has seen live, by line."""

    def __init__(self, recording: Recording, c2c: C2cReport) -> None:
        self.locks = recording.locks()
        self.cpus = c2c.machine.cpus
        self.events = {source.kind: ", ".join(source.events) for source in c2c.sources}
        kinds = recording.kinds()
        ids = {id_ for report in c2c.lines for id_ in report.line.ids}
        self.waits: defaultdict[int, list[WaitOnLine]] = defaultdict(list)
        self.interrupts: defaultdict[tuple[int, int, int], list[int]] = defaultdict(lambda: [0, 0])
        of_lines = among("line", sorted(ids))
        for wait in recording.table(memory_rows.MemoryWait, of_lines, order="records DESC, lock, kind"):
            lock = self.locks.get(wait.lock)
            self.waits[wait.line].append(
                WaitOnLine(
                    lock.name if lock else "?",
                    lock.instance if lock else "",
                    kinds.get(wait.kind, f"kind {wait.kind}"),
                    max(0, wait.records),
                    max(0, wait.transfers),
                )
            )
        for row in recording.table(memory_rows.MemoryInterrupts, of_lines):
            sums = self.interrupts[row.line, row.offset, row.code]
            sums[0] += max(0, row.records)
            sums[1] += min(max(0, row.off), max(0, row.records))
        self.comms = {row.id: row.comm for row in recording.table(memory_rows.MemoryThread) if row.comm}

    def line(self, report: LineReport) -> LiveLine:
        """One line with all that was seen of it."""
        line, watch = report.line, report.line.watch
        states = {(offset, code): sums for (id_, offset, code), sums in self.interrupts.items() if id_ in line.ids}
        offsets = tuple(self._offset(report, number, states) for number in range(len(report.offsets)))
        return LiveLine(
            report=report,
            source=line.source,
            event=self.events.get(line.source, ""),
            lock=self.locks.get(watch.lock) if watch is not None else None,
            offsets=offsets,
            waits=tuple(wait for id_ in line.ids for wait in self.waits.get(id_, ())),
            interrupts=_together([offset.interrupts for offset in offsets]),
            watch=watch,
            hits=hit_rate(watch, _records(report)) if watch else None,
            transfers=transfer_rate(watch, (access.offset for access in line.located)) if watch else None,
            matrix=matrix_of(watch.transfers) if watch else None,
            handovers=_handovers(watch.transfers, report) if watch else (),
            cost=cost_of(watch, self.cpus) if watch else None,
        )

    def _offset(self, report: LineReport, number: int, states: Mapping[tuple[int, int], Sequence[int]]) -> LiveOffset:
        offset = report.offsets[number]
        watch = report.line.watch
        instructions = []
        for access in offset.accesses:
            sums = states.get((access.offset, access.code_id), (0, 0))
            instructions.append(
                Instruction(access, _role(report, access), Interrupts(sums[0], sums[1]), self._comms(report, [access]))
            )
        counts = offset.counts
        cpus = 0
        for access in offset.accesses:
            cpus |= access.cpus or 0

        def rate(seen: int | None) -> Rate | None:
            return offset_rate(watch, offset.offset, seen or 0) if watch else None

        return LiveOffset(
            offset=offset.offset,
            member=offset.member,
            reads=counts.loads,
            writes=counts.stores,
            locked=counts.locked,
            hitm=counts.hitm,
            peer=counts.peer,
            transfers=counts.transfers,
            cpus=cpus,
            comms=self._comms(report, offset.accesses),
            interrupts=_together([instruction.interrupts for instruction in instructions]),
            instructions=tuple(instructions),
            coverage=coverage(watch, offset.offset) if watch else None,
            read_rate=rate(counts.loads),
            write_rate=rate(counts.stores),
            transfer_rate=offset_transfer_rate(watch, offset.offset, counts.transfers) if watch else None,
        )

    def _comms(self, report: LineReport, accesses: Sequence[Access]) -> tuple[str, ...]:
        weights: defaultdict[str, int] = defaultdict(int)
        for access in accesses:
            for bit, thread in enumerate(report.line.threads):
                if access.threads >> bit & 1 and thread in self.comms:
                    weights[self.comms[thread]] += access.counts.records or 0
        return tuple(sorted(weights, key=lambda comm: (-weights[comm], comm)))


def _records(report: LineReport) -> dict[int, int]:
    return {offset.offset: offset.counts.records or 0 for offset in report.offsets}


def _together(parts: Sequence[Interrupts]) -> Interrupts:
    return Interrupts(sum(part.known for part in parts), sum(part.off for part in parts))


def _role(report: LineReport, access: Access) -> Role | None:
    """What the access does, as the part of the line that it belongs to tells of its function."""
    for part in report.parts:
        if part.begin <= access.offset < part.end:
            return part.role_of.get((access.offset, access.code))
    return None


def matrix_of(transfers: Sequence[Transfer]) -> Matrix:
    """Transfers by CPU of the writer and of who touched the line after it."""
    sums: defaultdict[tuple[int, int], int] = defaultdict(int)
    weights: defaultdict[int, int] = defaultdict(int)
    for transfer in transfers:
        sums[transfer.from_cpu, transfer.cpu] += transfer.count
        weights[transfer.from_cpu] += transfer.count
        weights[transfer.cpu] += transfer.count
    cpus = tuple(sorted(sorted(weights, key=lambda cpu: (-weights[cpu], cpu))[:MATRIX_CPUS]))
    counts = tuple(tuple(sums.get((one, other), 0) for other in cpus) for one in cpus)
    return Matrix(cpus, counts, sum(sums.values()) - sum(map(sum, counts)))


def _handovers(transfers: Sequence[Transfer], report: LineReport) -> tuple[Handover, ...]:
    members = {offset.offset: offset.member for offset in report.offsets}
    sums: defaultdict[tuple[str, int, str, int, bool], int] = defaultdict(int)
    for transfer in transfers:
        names = transfer.from_code.function, transfer.code.function
        sums[names[0], transfer.from_offset, names[1], transfer.offset, transfer.write] += transfer.count
    return tuple(
        Handover(one, begin, members.get(begin, ""), other, end, members.get(end, ""), write, count)
        for (one, begin, other, end, write), count in sorted(sums.items(), key=lambda item: (-item[1], item[0]))
    )


def live_report(recording: Recording, top: int, btf: str | None = None) -> LiveReport:
    """The lines of a recording, with the types that are at hand.  Raises LocklineError."""
    types = find_types([recording], btf)
    report = make_live_report(recording, top, types.reader(), read_program)
    # Of programs' lines, the kernel's types say nothing.
    if types.note and any(line.report.line.space != "user" for line in report.lines):
        report = replace(report, c2c=replace(report.c2c, notes=(*report.c2c.notes, types.note)))
    return report
