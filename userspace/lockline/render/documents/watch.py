# SPDX-License-Identifier: GPL-2.0-or-later
"""Watched and sampled lines, lockline-watch/1."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from lockline.base.values import dataclass, replace
from lockline.c2c.live import LiveLine, LiveReport
from lockline.c2c.model import Role
from lockline.render.documents import schemas
from lockline.render.documents.lines import Advice, LockOnLine, Machine, Place, Source, Type, Verdicts, offset_of
from lockline.render.walker import (
    Address,
    Amount,
    At,
    Count,
    Fraction,
    KnownCount,
    Limits,
    Name,
    Policy,
    as_line,
    inline,
    shown,
    walk,
)

SCHEMA = schemas.WATCH
# Of one offset; they are sorted by transfers.
INSTRUCTIONS = 50
HANDOVERS = 100
DIFFERING = 20


def _bits(cpus: int, _: At) -> list[int]:
    return [cpu for cpu in range(cpus.bit_length()) if cpus >> cpu & 1]


Cpus = Annotated[tuple[Count, ...], Policy(_bits)]
OffsetInLine = Annotated[int, Limits({"minimum": -1})]


@dataclass(frozen=True)
class CpuPair:
    """Two CPUs, as `lockline doctor --deep` measured them."""

    first: Count = shown("where the line is")
    second: Count = shown("where it goes")
    transfer_ns: Amount = shown("how long a line takes from one to the other, median")
    least_transfer_ns: Amount = shown("the shortest")
    warp_ns: int = shown("how far their counters are apart")
    rounds: int = shown("how often it was measured")


@dataclass(frozen=True)
class Rate:
    """How often something happens, over the whole time."""

    per_second: Amount = shown("a second")
    error_per_second: Amount | None = shown(
        "one standard error; null: one window alone tells; 0: full coverage", "error"
    )
    at_least: bool = shown("a lower bound: not all of the line was watched at once")


@dataclass(frozen=True)
class Interrupts:
    """Accesses with interrupts off."""

    known: Count = shown("accesses of which it is known")
    off: Count = shown("those with interrupts off")
    share_off: Fraction | None = shown("their share", "share")


@dataclass(frozen=True)
class Differing:
    """An instruction where the disassembler and the watchpoints differ."""

    symbol: Name = shown("the function", "code.symbol")
    symbol_offset: int | None = shown("in it", lambda part, _: offset_of(part.code.symbol, part.code.offset))
    object: Name = shown("module or file", "code.object")
    reads: bool = shown("by the disassembler")
    writes: bool = shown("by the disassembler")
    only_read: Count = shown("accesses by the watchpoints")
    wrote: Count = shown("accesses by the watchpoints")


@dataclass(frozen=True)
class Told:
    """How many accesses were told to read or write, by whom."""

    instruction: Count = shown("by the disassembler")
    watchpoint: Count = shown("by the watchpoints that the access hit")
    remembered: Count = shown("by those that other accesses of the same instruction hit")
    untold: Count = shown("neither read nor write here")
    compared: Count = shown("accesses that both know")
    disagreed: Count = shown("of these, those where the two differ; the watchpoints' word counts")
    differing: tuple[Differing, ...] = shown(
        f"instructions of these, most such accesses first, at most {DIFFERING}",
        lambda told, _: told.differing[:DIFFERING],
    )
    typed_windows: Count = shown("windows with two watchpoints at each place", "windows")
    typed_hits: Count = shown("hits in them", "hits")
    typed_hit_ns: KnownCount = shown("cost of a write there; null: not measured, or not told", "hit_ns")


@dataclass(frozen=True)
class Target:
    """What was asked to be watched."""

    text: str = shown("as it was asked for", "watch.target")
    lock: Name = shown("if it is a lock", lambda live, _: live.lock.name if live.lock else None)
    instance: Name = shown("which one", lambda live, _: live.lock.instance if live.lock else None)
    offset: int = shown("in the line", "watch.lock_offset")
    access_from: str = shown("how reads and writes were told apart", "watch.access_from")
    told: Told | None = shown("null of a recording that does not say", "watch.told")


def _share(watch: Any, _: At) -> float:
    return min(1.0, watch.watched_ns / watch.span_ns) if watch.span_ns else 0.0


def _count(wanted: Iterable[object]) -> int:
    return sum(1 for one in wanted if one)


@dataclass(frozen=True)
class Windows:
    """The stretches of time in which a line was watched."""

    count: Count = shown("how many", lambda watch, _: len(watch.windows))
    watched_ns: Count = shown("time with any watchpoint set")
    begin_ns: Count = shown("of watching")
    end_ns: Count = shown("of watching", lambda watch, _: watch.begin_ns + watch.span_ns)
    share: Fraction = shown("of the time, with any watchpoint set", _share)
    lost: Count = shown("hits without a record")
    cut: Count = shown("ended by their limit of hits", lambda watch, _: _count(one.cut for one in watch.windows))
    changed: Count = shown(
        "the object was freed or replaced", lambda watch, _: _count(one.changed == 1 for one in watch.windows)
    )
    changed_unknown: Count = shown(
        "not known whether", lambda watch, _: _count(one.changed < 0 for one in watch.windows)
    )
    ended: Name = shown("why watching ended before its time")


@dataclass(frozen=True)
class Instruction:
    """The accesses of one instruction to one offset."""

    symbol: Name = shown("the function", "access.code.symbol")
    symbol_offset: int | None = shown("in it", lambda one, _: offset_of(one.access.code.symbol, one.access.code.offset))
    object: Name = shown("module or file", "access.code.object")
    line: Name = shown("source file and line", "access.code.line")
    role: Role | None = shown("what it does to the line; null: of a place that no part covers")
    reads: Count | None = shown("accesses that read", "access.counts.loads")
    writes: Count | None = shown("accesses that wrote", "access.counts.stores")
    locked: Count | None = shown("with a LOCK prefix, or atomic", "access.counts.locked")
    transfers: Count = shown("for which the line came from another CPU", "access.counts.transfers")
    in_wait: Count | None = shown("made while waiting for a lock", "access.counts.in_wait")
    cpus: Annotated[tuple[Count, ...] | None, Policy(lambda cpus, at: None if cpus is None else _bits(cpus, at))] = (
        shown("on these CPUs; null: not known", "access.cpus")
    )
    comms: tuple[str, ...] = shown("names of tasks")
    interrupts: Interrupts = shown("with interrupts off")
    address: Address = shown(
        "with --addresses, or in user space",
        "access.code.address",
        where=lambda one, at: at.may_show(one.access.code.address),
    )


@dataclass(frozen=True)
class LiveOffset:
    """One offset of a line."""

    offset: Count = shown("in the line")
    member: Name = shown("of the type")
    reads: Count | None = shown("accesses that read")
    writes: Count | None = shown("accesses that wrote")
    locked: Count | None = shown("with a LOCK prefix, or atomic")
    transfers: Count = shown("for which the line came from another CPU")
    hitm: Count = shown("HITM")
    peer: Count = shown("peer snoops")
    cpus: Cpus = shown("who uses it")
    comms: tuple[str, ...] = shown("names of tasks")
    interrupts: Interrupts = shown("with interrupts off")
    coverage: Fraction | None = shown("share of the time in which this byte was watched")
    read_rate: Rate | None = shown("reads")
    write_rate: Rate | None = shown("writes")
    transfer_rate: Rate | None = shown("transfers")
    instructions: tuple[Instruction, ...] = shown(
        f"most cost first, at most {INSTRUCTIONS}", lambda one, _: one.instructions[:INSTRUCTIONS]
    )


@dataclass(frozen=True)
class Matrix:
    """Transfers from CPU to CPU."""

    cpus: tuple[Count, ...] = shown("of rows and columns, in their order")
    transfers: tuple[tuple[Count, ...], ...] = shown("rows from, columns to", "counts")
    left_out: Count = shown("of CPUs beyond the 64 with most")


@dataclass(frozen=True)
class WriterPlace:
    """Who wrote before."""

    function: Name = shown("where", "from_function")
    offset: OffsetInLine = shown("in the line, -1: not known", "from_offset")
    member: Name = shown("of the type", "from_member")


@dataclass(frozen=True)
class ToucherPlace:
    """Who touched the line then."""

    function: Name = shown("where")
    offset: OffsetInLine = shown("in the line, -1: not known")
    member: Name = shown("of the type")


@dataclass(frozen=True)
class Handover:
    """Who wrote before who touched the line."""

    writer: WriterPlace = shown("who wrote", lambda value, _: value, name="from")
    toucher: ToucherPlace = shown("who touched it then", lambda value, _: value, name="to")
    write: bool = shown("the second wrote too")
    transfers: Count = shown("how often")


@dataclass(frozen=True)
class WaitOnLine:
    """Accesses made while a lock was waited for."""

    lock: str = shown("its name")
    instance: Name = shown("which of this name")
    kind: str = shown("of wait")
    records: Count = shown("accesses")
    transfers: Count = shown("of them, those for which the line came from another CPU")


@dataclass(frozen=True)
class WatchCost:
    """What watching cost."""

    budget: Annotated[Fraction | None, Policy(lambda value, _: value or None)] = shown(
        "share of CPU time allowed, null: unlimited", "watch.budget"
    )
    hit_ns: KnownCount = shown("cost of a hit", "watch.hit_ns")
    cpu_ns: Count | None = shown(
        "hits times that, those in typed windows times typed_hit_ns", lambda live, _: live.cost and live.cost.cpu_ns
    )
    cpu_share: Amount | None = shown("of all CPUs' time", lambda live, _: live.cost and live.cost.cpu_share)
    in_windows: Amount | None = shown(
        "the same while watchpoints were set", lambda live, _: live.cost and live.cost.in_windows
    )


@dataclass(frozen=True)
class Where:
    """Which line."""

    place: Place = inline()
    type: Type = inline()


@dataclass(frozen=True)
class SeenBy:
    """What a line was seen by."""

    kind: str = shown("watchpoint, PMU, perf.data or c2c text", "source")
    event: str = shown("of the PMU")


def _watched(live: Any, _: At) -> Any:
    return live if live.watch else None


def _sampled(name: str) -> Any:
    return lambda live, _: getattr(live.report.line.counts, name) if live.watch is None else None


@dataclass(frozen=True)
class Line:
    """One cache line, of a LiveLine."""

    line: Where = shown("which line", "report")
    source: SeenBy = shown("what it was seen by", lambda live, _: live)
    target: Target | None = shown("of a watched line: what was asked for", _watched)
    windows: Windows | None = shown("of a watched line: when", "watch")
    hits: Count | None = shown("watchpoint hits in the kernel", lambda live, _: live.watch.hits if live.watch else None)
    transfers: Count = shown(
        "accesses by a CPU after another had written; of samples: HITM and peer snoops", "report.line.counts.transfers"
    )
    hit_rate: Rate | None = shown("of a watched line", "hits")
    transfer_rate: Rate | None = shown("of a watched line", "transfers")
    hitm: Count | None = shown("of samples", _sampled("hitm"))
    peer: Count | None = shown("of samples", _sampled("peer"))
    records: Count | None = shown("accesses with a record", "report.line.counts.records")
    reads: Count | None = shown("an instruction that reads and writes counts as both", "report.line.counts.loads")
    writes: Count | None = shown("likewise", "report.line.counts.stores")
    locked: Count | None = shown("with a LOCK prefix, or atomic", "report.line.counts.locked")
    cpu_list: Name = shown("who uses it", "report.cpu_list")
    comms: tuple[str, ...] = shown("names of tasks, the most frequent first", "report.line.comms")
    interrupts: Interrupts = shown("with interrupts off")
    offsets: tuple[LiveOffset, ...] = shown("by offset")
    matrix: Matrix | None = shown("from CPU to CPU")
    handovers: tuple[Handover, ...] = shown(
        f"who wrote before who touched it; at most {HANDOVERS}", lambda live, _: live.handovers[:HANDOVERS]
    )
    locks: tuple[LockOnLine, ...] = shown("locks on it", "report.locks")
    waits: tuple[WaitOnLine, ...] = shown("accesses made while a lock was waited for")
    verdicts: Verdicts = inline("report")
    advice: Advice | None = shown("what to change", "report.advice")
    cost: WatchCost | None = shown("of a watched line: what watching cost", _watched)

    @staticmethod
    def enter(live: LiveLine, at: At) -> At:
        """What the line says of the addresses of its accesses."""
        return replace(at, space=live.report.line.space)


@dataclass(frozen=True)
class Document:
    """Output of `lockline watch --format json`; see watch-schema.md."""

    schema: Literal["lockline-watch/1"] = shown("this schema", lambda *_: SCHEMA)
    file: str = shown("the recording, or the arguments of watch if it was not kept", "c2c.path")
    machine: Machine = shown("where it was recorded", "c2c.machine")
    sources: tuple[Source, ...] = shown("where the figures are from", "c2c.sources")
    lines: tuple[Line, ...] = shown("most transfers per second first")
    cpu_pairs: tuple[CpuPair, ...] = shown("what `lockline doctor --deep` measured", "pairs")
    notes: tuple[str, ...] = shown("which types were used, and the like", "c2c.notes")


def document(report: LiveReport, addresses: bool = False) -> dict[str, Any]:
    """The report as JSON values; addresses: with kernel addresses."""
    return walk(Document, report, addresses)


def render(report: LiveReport, addresses: bool = False) -> str:
    """One JSON object on one line; addresses: with kernel addresses."""
    return as_line(document(report, addresses))
