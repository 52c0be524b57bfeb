# SPDX-License-Identifier: GPL-2.0-or-later
"""The values that the analysis of memory accesses is made of.  Offsets and sizes in bytes, times in ns."""

from collections.abc import Iterable, Mapping
from operator import add
from typing import Literal

from lockline.base.values import NamedTuple, dataclass, field
from lockline.recording.code import Code
from lockline.watch.model import Watch

Verdict = Literal[
    "lock word", "false sharing", "true sharing", "adjacent line", "read mostly", "none", "too little evidence"
]
Confidence = Literal["high", "medium", "low"]
# What an access does to the line, from where it is made.
Role = Literal["waiter", "unlock", "holder", "lockless reader", "atomic", "reader", "writer"]


class Counts(NamedTuple):
    """Samples, counted as perf c2c does (c2c_decode_stats() of tools/perf/util/mem-events.c); None: not told.

    All but the last are FIGURES of the recording, in their order.
    """

    records: int | None = None
    loads: int | None = None
    stores: int | None = None
    locked: int | None = None
    local_hitm: int | None = None
    remote_hitm: int | None = None
    local_peer: int | None = None
    remote_peer: int | None = None
    fill_buffer: int | None = None
    l1_hit: int | None = None
    l2_hit: int | None = None
    llc_hit: int | None = None
    remote_hit: int | None = None
    local_dram: int | None = None
    remote_dram: int | None = None
    store_l1_hit: int | None = None
    store_l1_miss: int | None = None
    store_unknown: int | None = None
    remote_hitm_weight: int | None = None
    local_hitm_weight: int | None = None
    in_wait: int | None = None
    # Of a watched line, where all accesses are seen: a CPU touched it after another had written.  No column.
    watched: int | None = None

    @property
    def hitm(self) -> int:
        """Loads that found the line modified in another core's cache."""
        return (self.local_hitm or 0) + (self.remote_hitm or 0)

    @property
    def peer(self) -> int:
        """Loads that another core's cache served, where the PMU does not tell whether it was modified (Arm SPE)."""
        return (self.local_peer or 0) + (self.remote_peer or 0)

    @property
    def transfers(self) -> int:
        """Accesses for which the line came from another core: sampled loads, or of a watched line all accesses."""
        return self.hitm + self.peer + (self.watched or 0)

    @property
    def clean(self) -> int:
        """Loads that a cache further away served: some find the line there because a write has taken it from theirs.

        perf counts a load that a peer's cache served as a hit at its level too: it is a transfer, and not a second
        load.
        """
        return self.asked()[1]

    def asked(self) -> tuple[int, int, int, int]:
        """What the rules ask for, in one go: transfers, clean, and wrote and found of an access."""
        records, loads, stores, locked, local, remote, peer, far, _, _, _, llc, away = self[:_ASKED]
        transfers = (local or 0) + (remote or 0) + (peer or 0) + (far or 0) + (self[-1] or 0)
        near, away = (llc or 0) - (peer or 0), (away or 0) - (far or 0)
        clean = (near if near > 0 else 0) + (away if away > 0 else 0)
        wrote = stores or 0
        found = loads if loads is not None else (records or 0) - wrote
        if locked and locked - wrote > wrote:
            wrote = locked - wrote
        return transfers, clean, wrote, found if found > transfers else transfers


_ASKED = Counts._fields.index("remote_hit") + 1
# Every file of samples has the figures before it.
_MOSTLY_TOLD = Counts._fields.index("in_wait")


def add_counts(counts: Iterable[Counts]) -> Counts:
    """The sum; a figure that none of them tells is None."""
    every = list(counts)
    if len(every) == 1:
        return every[0]
    if not every:
        return Counts()
    try:
        if len(every) == 2:
            one, other = every
            if one[-1] is one[-2] is other[-1] is other[-2] is None:
                return Counts._make((*map(add, one[:_MOSTLY_TOLD], other[:_MOSTLY_TOLD]), None, None))
            told = [*map(add, one[:_MOSTLY_TOLD], other[:_MOSTLY_TOLD])]
            neither = False
        else:
            *columns, in_wait, watched = zip(*every, strict=True)
            told = [*map(sum, columns)]
            neither = in_wait.count(None) == len(every) == watched.count(None)
    except TypeError:
        return Counts._make(map(_sum, zip(*every, strict=True)))
    if neither:
        return Counts._make((*told, None, None))
    return Counts._make([*told, *map(_sum, zip(*[one[_MOSTLY_TOLD:] for one in every], strict=True))])


def _sum(column: tuple[int | None, ...]) -> int | None:
    return _some(column) if None in column else sum(column)  # type: ignore[arg-type]


def _some(column: tuple[int | None, ...]) -> int | None:
    told = [value for value in column if value is not None]
    return sum(told) if told else None


class _Asked:
    """What the rules ask of an access again and again: worked out once, when it is made.

    transfers and clean: of the counts.  wrote: stores, or atomic instructions where only these are known: both their
    loads and their stores are locked.  found: loads, at least those that found the line modified, whatever a text says
    of its other figures.  function: of the code.
    """

    __slots__ = ("clean", "found", "function", "transfers", "wrote")

    counts: Counts
    code: Code
    clean: int
    found: int
    function: str
    transfers: int
    wrote: int

    def __post_init__(self) -> None:
        transfers, clean, wrote, found = self.counts.asked()
        _put_transfers(self, transfers)
        _put_clean(self, clean)
        _put_wrote(self, wrote)
        _put_found(self, found)
        _put_function(self, self.code.function)


# A slot sets itself in half of the time that object's method takes to find it.
_put_clean, _put_found, _put_function, _put_transfers, _put_wrote = (
    vars(_Asked)[name].__set__ for name in ("clean", "found", "function", "transfers", "wrote")
)


@dataclass(frozen=True, slots=True)
class Access(_Asked):
    """Accesses from one instruction to one offset of a line; threads: a bit set of those that are known.

    Bit n is the n-th of the line's threads.  strays: those with so few of the samples that they may be mistaken ones.
    code_id: of the instruction in the recording, 0: not known.  groups: so many threads, processes if threads are
    unknown, have accesses of their own in these sums; cpu_count is then of one of them.
    """

    offset: int
    code: Code
    threads: int
    counts: Counts
    cpus: int | None  # a bit set; None: not known which
    cpu_count: int  # at least so many; 0: not known
    nodes: str
    code_id: int = 0
    groups: int = 0
    strays: int = 0

    @property
    def regulars(self) -> int:
        """The threads without the strays: those that the rules go by."""
        return self.threads & ~self.strays


@dataclass(frozen=True, slots=True)
class Source:
    """Where the figures are from, and the figures of all its samples by perf's names."""

    kind: str
    name: str
    events: tuple[str, ...]
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Line:
    """One cache line: counts of all its accesses, and these by offset and instruction.

    threads: ids in the recording, in the order of the accesses' bits.  comms: names of the tasks that use it, the most
    frequent first.  ids: in the recording; source: kind of
    memory_source; watch: how it was watched, if it was.  weighted: the accesses are as if every byte had been watched
    for the same time, the counts as they were seen.  index: its number in the text of `perf c2c report`.
    """

    address: int  # unsigned, of the first byte
    size: int
    space: str
    pid: int
    object: str
    symbol: str
    symbol_offset: int
    nodes: str
    pages: int
    counts: Counts
    accesses: tuple[Access, ...]
    threads: tuple[int, ...] = ()
    comms: tuple[str, ...] = ()
    ids: tuple[int, ...] = ()
    source: str = ""
    watch: Watch | None = None
    weighted: bool = False
    index: int | None = None
    # Of transfers and of stores, by offset and instruction, where the source has only shares: see c2c/shares.py.
    shares: Mapping[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    # Its figures in a text contradict each other.
    contradicted: bool = False

    @property
    def located(self) -> tuple[Access, ...]:
        """The accesses whose offset is known."""
        return tuple([access for access in self.accesses if access.offset >= 0])


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the samples of a file hold, and what they lack.  Shares are fractions, None: not known."""

    records: int | None
    unparsable: float | None  # of all records: the data source could not be read
    stores_seen: bool | None  # whether stores were sampled at all
    snoops_seen: bool | None  # whether any load tells HITM or peer
    missing: tuple[str, ...]  # in words
    exact: bool = False  # every access was seen, in the windows of a watched line


@dataclass(frozen=True, slots=True)
class LockOnLine:
    """A lock that lies on a line; name: '' if only its waiters' functions tell that there is one."""

    name: str
    instance: str
    kinds: tuple[str, ...]
    offset: int | None  # in the line; negative: it begins in the line before
    waits: int | None  # None: no recording of lock waits, or the lock is not in it
    wait_ns: int | None
    address: int | None
    join: str  # address | name | code
    callers: Mapping[str, int]  # by function: offset of the return address after the lock was taken
    # A second, in the recording of the line itself: waits in which a CPU spun, each while another one had the lock.
    spins_per_second: float = 0.0


@dataclass(frozen=True, slots=True)
class Users:
    """Who makes some accesses.  Of threads and CPUs (bit sets), and of nodes: None if not known of all of the accesses.

    count: at least so many CPUs, 0 if not even that is known; groups: at least so many threads or processes; alone: one
    CPU, or one thread, made all of them; samples: of the accesses.
    """

    threads: int | None
    cpus: int | None
    nodes: frozenset[str] | None
    count: int
    groups: int
    alone: bool
    samples: int


@dataclass(frozen=True, slots=True)
class Part:
    """The accesses to one member, or to one offset of which the member is not known.

    main: without the few samples that may be strays; users: who makes these.
    """

    begin: int  # offset in the line
    end: int
    member: str  # '' if not known
    type: str
    is_lock: bool
    is_atomic: bool
    accesses: tuple[Access, ...]
    main: tuple[Access, ...]
    users: Users
    counts: Counts
    cost: int  # samples in which the line's transfer was waited for
    share: float  # of the line's cost at known offsets
    roles: Mapping[Role, tuple[str, ...]]  # functions by role, most cost first
    role_of: Mapping[tuple[int, Code], Role] = field(default_factory=dict)  # by offset and instruction

    @property
    def name(self) -> str:
        """The member, or its offset."""
        return self.member or f"+{self.begin:#x}"

    @property
    def written(self) -> bool:
        """Whether stores or atomic instructions were sampled."""
        return bool((self.counts.stores or 0) + (self.counts.locked or 0))


@dataclass(frozen=True, slots=True)
class Placement:
    """Which object a line belongs to: byte x of the line is byte base + x of the object."""

    type: str  # structure, '' if not known
    base: int | None  # None: the position in the object is not known
    source: str  # lock | symbol | per-CPU symbol | target | code | ''
    sure: bool  # false: inferred from the code alone
    evidence: tuple[str, ...]
    alternatives: tuple[str, ...]  # other types that fit nearly as well


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict with what it rests on; members: the parts that are fought over."""

    verdict: Verdict
    confidence: Confidence
    evidence: tuple[str, ...]
    members: tuple[Part, ...]
    doubts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Advice:
    """What to change.

    own_effect: the share of the line's cost that is paid at the members to move; effect: the largest share of it
    that can go away.
    """

    text: str
    members: tuple[str, ...]  # to move
    padding: int | None  # bytes of padding per object
    size_before: int | None
    size_after: int | None
    objects: int | None  # on this machine, None: not known
    own_effect: float | None
    effect: float | None
    warning: str
    layout: tuple[str, ...]  # lines of C, as pahole prints them


@dataclass(frozen=True, slots=True)
class OffsetReport:
    """One offset of a line."""

    offset: int
    member: str
    symbol: str  # the function with most of its cost
    counts: Counts
    cpus: int | None
    accesses: tuple[Access, ...]


@dataclass(frozen=True, slots=True)
class LineReport:
    """All that a report says of one line."""

    line: Line
    score: float
    cost: int
    cost_is: str  # what cost counts: "HITM and peer snoops", ...
    cpus: int | None
    cpus_exact: bool
    cpu_list: str
    placement: Placement
    offsets: tuple[OffsetReport, ...]
    parts: tuple[Part, ...]
    judgement: Judgement
    locks: tuple[LockOnLine, ...]
    advice: Advice | None
    buddy: Line | None  # the other half of its 128 bytes, if that is in the file


@dataclass(frozen=True, slots=True)
class PairPlace:
    """A line on which two functions meet.  rank: its place in the report; offsets and members: '' if not known."""

    rank: int
    waiter_at: str
    writer_at: str
    transfers: float


@dataclass(frozen=True, slots=True)
class FunctionPair:
    """waiter: the function whose loads pay; writer: the one that takes the line away, '' if no store was sampled.

    transfers: of the waiter's, those that fall to this writer; share: of all transfers of the file.  places: most
    transfers first.  locks: names of the locks on these lines.  waits, wait_ns: for these locks, None if not recorded.
    """

    waiter: str
    writer: str
    transfers: float
    share: float
    places: tuple[PairPlace, ...]
    locks: tuple[str, ...]
    waits: int | None
    wait_ns: int | None


@dataclass(frozen=True, slots=True)
class Machine:
    """Where the accesses were recorded; None: not known."""

    hostname: str | None
    kernel_release: str | None
    architecture: str | None
    cpus: int | None


@dataclass(frozen=True, slots=True)
class C2cReport:
    """A whole report, lines best first.  pairs: functions against functions, None if nobody asked."""

    path: str
    machine: Machine
    sources: tuple[Source, ...]
    coverage: Coverage
    lines: tuple[LineReport, ...]
    line_count: int  # of lines that processors transfer among each other
    other_lines: int  # that were sampled, and show no transfer
    transfers: int  # HITM and peer snoops in all lines
    problems: tuple[tuple[int, str], ...]  # what could not be read: line or offset, and why
    notes: tuple[str, ...]
    pairs: tuple[FunctionPair, ...] | None = None
