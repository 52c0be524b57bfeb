# SPDX-License-Identifier: GPL-2.0-or-later
"""What several documents have of cache lines, and the report of sampled lines, lockline-c2c/1."""

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal

from lockline.base.values import dataclass, replace
from lockline.c2c.model import C2cReport, Confidence, LineReport, Role, Verdict
from lockline.render.documents import schemas
from lockline.render.walker import (
    ITSELF,
    WORD_IF_ANY,
    Address,
    Amount,
    At,
    Count,
    Fraction,
    Known,
    KnownCount,
    Name,
    Positive,
    Repeated,
    Sum,
    as_line,
    entries,
    inline,
    pieces,
    prepare,
    shown,
    walk,
)

SCHEMA = schemas.LINES
# Of one offset, the accesses with most cost.
ACCESSES = 50

Size = Literal[32, 64, 128, 256]


def offset_of(symbol: str, offset: int) -> int | None:
    """An offset from a symbol; None without one."""
    return offset if symbol else None


@dataclass(frozen=True)
class Machine:
    """Where it was recorded."""

    hostname: Name = shown("its name")
    kernel_release: Name = shown("as uname -r has it")
    architecture: Name = shown("as uname -m has it")
    cpus: Count | None = shown("how many CPUs it has")


@dataclass(frozen=True)
class Source:
    """Where figures are from."""

    kind: str = shown("watchpoint, PMU, perf.data or c2c text")
    name: str = shown("the file, or what was asked for")
    events: tuple[str, ...] = shown("the PMU's events")
    counts: dict[str, int] = shown("the figures of all samples, under perf's names")


@dataclass(frozen=True)
class Coverage:
    """What the samples hold, and what they lack."""

    records: Count | None = shown("samples")
    unparsable: Amount | None = shown("fraction of them whose data source could not be read")
    stores_seen: bool | None = shown("whether stores were sampled; null: in part, or not known")
    snoops_seen: bool | None = shown("whether any load tells HITM or peer")
    missing: tuple[str, ...] = shown("what is missing, in words")


@dataclass(frozen=True)
class Totals:
    """Over all lines."""

    lines: Count = shown("lines that processors transfer among each other", "line_count")
    other_lines: Count = shown("other lines that were sampled")
    transfers: Count = shown("HITM and peer snoops of all")


@dataclass(frozen=True)
class Hitm:
    """Loads that found the line modified in another cache."""

    total: Count | None = shown("both", Sum(("local_hitm", "remote_hitm"), known=True))
    local: Count | None = shown("on this node", "local_hitm")
    remote: Count | None = shown("on another node", "remote_hitm")


@dataclass(frozen=True)
class Peer:
    """Loads that another core's cache served, where the PMU does not tell whether it was modified (Arm SPE)."""

    total: Count | None = shown("both", Sum(("local_peer", "remote_peer"), known=True))
    local: Count | None = shown("on this node", "local_peer")
    remote: Count | None = shown("on another node", "remote_peer")


@dataclass(frozen=True)
class LoadHits:
    """What served the loads."""

    fill_buffer: Count | None = shown("a line fill buffer: the line was on its way")
    l1: Count | None = shown("the first cache", "l1_hit")
    l2: Count | None = shown("the second cache", "l2_hit")
    llc: Count | None = shown("the last cache", "llc_hit")
    remote: Count | None = shown("another node's cache", "remote_hit")
    local_dram: Count | None = shown("this node's memory")
    remote_dram: Count | None = shown("another node's memory")


@dataclass(frozen=True)
class StoreHits:
    """What the stores met."""

    l1_hit: Count | None = shown("the first cache had the line", "store_l1_hit")
    l1_miss: Count | None = shown("it had not", "store_l1_miss")
    unknown: Count | None = shown("not known", "store_unknown")


@dataclass(frozen=True)
class Counts:
    """Samples, counted as perf c2c counts them."""

    records: Count | None = shown("samples")
    loads: Count | None = shown("loads")
    stores: Count | None = shown("stores")
    hitm: Hitm = shown("loads that found the line modified in another cache", ITSELF)
    peer: Peer = shown("loads that another core's cache served", ITSELF)
    locked: Count | None = shown("with a LOCK prefix, or atomic")
    load_hits: LoadHits = shown("what served the loads", ITSELF)
    store_hits: StoreHits = shown("what the stores met", ITSELF)
    in_wait: Count | None = shown("records made while the thread waited for a lock")
    transfers: Count | None = shown(
        "of a watched line: accesses that followed another CPU's write; null of samples", "watched"
    )


@dataclass(frozen=True)
class Instruction:
    """An instruction that accesses memory."""

    symbol: Name = shown("the function")
    symbol_offset: int | None = shown("in it", lambda code, _: offset_of(code.symbol, code.offset))
    object: Name = shown("module or file")
    line: Name = shown("source file and line")
    address: Address | None = shown(
        "of the instruction, with --addresses, or in user space",
        lambda code, at: code.address if code.address and at.may_show(code.address) else None,
    )


@dataclass(frozen=True)
class Access:
    """The accesses of one instruction to one offset."""

    code: Instruction = inline("code", again=True)
    threads: KnownCount = shown("how many threads", "threads.bit_count()")
    records: Count | None = shown("samples", "counts.records")
    loads: Count | None = shown("loads", "counts.loads")
    stores: Count | None = shown("stores", "counts.stores")
    hitm: Count = shown("HITM", Sum(("counts.local_hitm", "counts.remote_hitm")))
    peer: Count = shown("peer snoops", Sum(("counts.local_peer", "counts.remote_peer")))
    transfers: Count | None = shown("of a watched line", "counts.watched")
    cpus: KnownCount = shown("at least so many CPUs", "cpu_count")


@dataclass(frozen=True)
class Offset:
    """One offset of a line."""

    offset: Count = shown("in the line")
    member: Name = shown("of the type")
    symbol: Name = shown("the function with most of its cost")
    counts: Counts = inline("counts")
    cpus: Count | None = shown("how many CPUs use it")
    accesses: tuple[Access, ...] = shown(
        f"by instruction, most cost first, at most {ACCESSES}", lambda one, _: one.accesses[:ACCESSES]
    )
    accesses_left_out: Count = shown("how many more there are", lambda one, _: max(0, len(one.accesses) - ACCESSES))


@dataclass(frozen=True)
class Part:
    """A member that is fought over."""

    member: Name = shown("its name")
    type: Name = shown("its type")
    begin: int = shown("first byte in the line")
    end: int = shown("byte after its last one")
    lock: bool = shown("whether it is a lock", "is_lock")
    cost: Count = shown("samples that waited for the line here")
    share: Amount = shown("of the line's cost at known offsets")
    roles: dict[Role, tuple[Repeated, ...]] = shown("functions by what they do to it")


@dataclass(frozen=True)
class LockOnLine:
    """A lock that lies on a line."""

    name: Name = shown("null: known by its waiters' functions alone")
    instance: Name = shown("which of the locks of this name")
    kinds: tuple[str, ...] = shown("kinds of its waits")
    offset: int | None = shown("in the line; negative: it begins in the line before")
    waits: Count | None = shown("null: not recorded")
    wait_ns: Count | None = shown("waited for it, ns")
    join: Literal["address", "name", "code"] = shown("how it is known to lie there")
    address: Address | None = shown("with --addresses", lambda lock, at: lock.address if at.addresses else None)


def _growth(advice: Any, _: At) -> int | None:
    if advice.objects is None or advice.size_after is None or advice.size_before is None:
        return None
    return int(advice.objects * max(0, advice.size_after - advice.size_before))


@dataclass(frozen=True)
class Advice:
    """What to change."""

    text: str = shown("in words")
    members: tuple[str, ...] = shown("to move")
    bytes_per_object: Count | None = shown("padding", "padding")
    size_before: Count | None = shown("of an object, bytes")
    size_after: Count | None = shown("of an object, bytes")
    objects: Count | None = shown("on this machine")
    bytes_total: Count | None = shown("growth of all objects", _growth)
    own_effect: Fraction | None = shown("share of the line's cost that is paid at the members to move")
    largest_effect: Fraction | None = shown("largest share of it that can go away", "effect")
    warning: Name = shown("what it does not cure")
    layout: tuple[str, ...] = shown("lines of C, as pahole prints them")


@dataclass(frozen=True)
class Verdicts:
    """What the rules make of a line."""

    verdict: Verdict = shown("see c2c.md; none: it does not move between CPUs", "judgement.verdict")
    confidence: Confidence = shown("how sure that is", "judgement.confidence")
    evidence: tuple[str, ...] = shown("what it rests on", "judgement.evidence")
    doubts: tuple[str, ...] = shown("what speaks against it", "judgement.doubts")
    members: tuple[Part, ...] = shown("what is fought over", "judgement.members")


@dataclass(frozen=True)
class Place:
    """Where a line lies, and what lies on it; of a value with a line and its placement."""

    address: Address | None = shown(
        "with --addresses, or in user space",
        lambda report, at: report.line.address if at.may_show(report.line.address) else None,
    )
    size: Size = shown("bytes", "line.size")
    space: str = shown("kernel or user", "line.space")
    pid: Known = shown("of a line in user space", "line.pid")
    object: Name = shown("the mapping's file", "line.object")
    symbol: Name = shown("static variable that covers its first byte", "line.symbol")
    symbol_offset: int | None = shown(
        "of the line from it", lambda report, _: offset_of(report.line.symbol, report.line.symbol_offset)
    )


@dataclass(frozen=True)
class Type:
    """The structure that lies on a line."""

    type: Name = shown("structure of the object", "placement.type")
    type_offset: int | None = shown("byte x of the line is byte type_offset + x of it", "placement.base")
    type_source: Annotated[Literal["lock", "symbol", "per-CPU symbol", "target", "code"] | None, WORD_IF_ANY] = shown(
        "how it is known; target: what was watched; code: inferred", "placement.source"
    )
    type_evidence: tuple[str, ...] = shown("what speaks for it", "placement.evidence")


@dataclass(frozen=True)
class LineBody:
    """One cache line, of a LineReport."""

    place: Place = inline()
    nodes: Name = shown("memory nodes of its pages", "line.nodes")
    source: Annotated[Literal["perf.data", "c2c text", "PMU", "watchpoint"] | None, WORD_IF_ANY] = shown(
        "what it was seen by", "line.source"
    )
    type: Type = inline()
    type_alternatives: tuple[str, ...] = shown("other types that fit nearly as well", "placement.alternatives")
    counts: Counts = inline("line.counts")
    cpus: Count | None = shown("how many CPUs use it")
    cpus_exact: bool = shown("false: at least so many")
    cpu_list: Name = shown("which, where that is known")
    comms: tuple[str, ...] = shown("names of tasks, the most frequent first", "line.comms")
    score: Amount = shown("what lines are ranked by")
    cost: Count = shown("samples that waited for the line")
    cost_is: Literal["HITM and peer snoops", "transfers", "fill buffer hits", "loads"] = shown("what these are")
    verdicts: Verdicts = inline()
    locks: tuple[LockOnLine, ...] = shown("locks on it")
    advice: Advice | None = shown("what to change")
    offsets: tuple[Offset, ...] = shown("by offset")


@dataclass(frozen=True)
class Line:
    """One cache line, of its rank and its LineReport."""

    rank: Positive = shown("its place", lambda numbered, _: numbered[0])
    perf_index: Count | None = shown(
        "its number in perf's text; null: of no text, or not in it", lambda numbered, _: numbered[1].line.index
    )
    body: LineBody = inline(lambda numbered, _: numbered[1])

    @staticmethod
    def enter(numbered: tuple[int, LineReport], at: At) -> At:
        """What the line says of the addresses of its accesses."""
        return replace(at, space=numbered[1].line.space)


@dataclass(frozen=True)
class Problem:
    """What was not read."""

    place: int = shown("line number of a text, or offset in a file", lambda problem, _: problem[0])
    problem: str = shown("what is wrong there", lambda problem, _: problem[1])


@dataclass(frozen=True)
class PairPlace:
    """A line on which two functions meet."""

    rank: Positive = shown("the line's, in lines")
    waiter_at: Name = shown("member or offset that is waited for")
    writer_at: Name = shown("member or offset that is written")
    transfers: Amount = shown("the waiter's transfers here")


@dataclass(frozen=True)
class FunctionPair:
    """A function that waits for lines, and one whose writes take them away."""

    waiter: Name = shown("the function whose loads pay; null: not known")
    writer: Name = shown("the function that writes; null: no store was sampled, or its name is not known")
    transfers: Amount = shown("HITM and peer snoops of the waiter, shared out over the writers by their sampled stores")
    share: Fraction = shown("of all transfers of the file")
    places: tuple[PairPlace, ...] = shown("the lines, most transfers first")
    locks: tuple[str, ...] = shown("names of locks on these lines")
    waits: Count | None = shown("for these locks; null: not recorded")
    wait_ns: Count | None = shown("waited for these locks, ns")


@dataclass(frozen=True)
class Document:
    """Output of `lockline c2c report --format json`; see c2c-schema.md."""

    schema: Literal["lockline-c2c/1"] = shown("this schema", lambda *_: SCHEMA)
    file: str = shown("the file, as it was given", "path")
    machine: Machine = shown("where it was recorded")
    sources: tuple[Source, ...] = shown("where the figures are from")
    coverage: Coverage = shown("what the samples hold, and what they lack")
    totals: Totals = shown("over all lines", lambda report, _: report)
    lines: tuple[Line, ...] = shown("best first", lambda report, _: enumerate(report.lines, 1))
    function_pairs: tuple[FunctionPair, ...] | None = shown("with --by functions; null without", "pairs")
    problems: tuple[Problem, ...] = shown("what was not read")
    notes: tuple[str, ...] = shown("how lines and locks were joined, which types were used")


def document(report: C2cReport, addresses: bool = False) -> dict[str, Any]:
    """The report as JSON values; addresses: with kernel addresses."""
    return walk(Document, report, addresses)


def render(report: C2cReport, addresses: bool = False) -> str:
    """One JSON object on one line; addresses: with kernel addresses."""
    return as_line(document(report, addresses))


def entries_of(lines: Iterable[tuple[int, LineReport]], addresses: bool = False) -> Iterator[str]:
    """The JSON of lines, each with its rank."""
    return entries(Line, lines, addresses)


def prepare_pieces() -> None:
    """What entries_of() and pieces_of() need, made before processes share it, and while an import runs."""
    prepare(Document, "lines", Line)


def pieces_of(report: C2cReport, lines: Iterable[str], addresses: bool = False) -> Iterator[str]:
    """The JSON of a report whose lines come one by one from entries_of(), piece by piece."""
    return pieces(Document, report, "lines", lines, addresses)
