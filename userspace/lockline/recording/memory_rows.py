# SPDX-License-Identifier: GPL-2.0-or-later
"""The tables of memory accesses, watched lines and pairs of CPUs.  Times in ns; see rows.py."""

from lockline.base.values import NamedTuple
from lockline.recording.tables import table

# A fact in meta: "LINE:NUMBER ...", the number that the text of `perf c2c report` gives each line.
C2C_INDEXES = "c2c_indexes"
# Likewise "LINE:OFFSET:CODE:TRANSFERS:STORES ...", in parts of 10,000, of lines whose totals the text does not tell.
C2C_SHARES = "c2c_shares"
# Ids of the lines whose figures in the text contradict each other.
C2C_CONTRADICTED = "c2c_contradicted"
# HITM and peer snoops of all lines, by the shares that the text gives some of them: within rounding.
C2C_TRANSFERS = "c2c_transfers"


@table("memory_source", since=2)
class MemorySource(NamedTuple):
    """Where memory accesses are from: kind of source, file or PMU, event."""

    id: int
    kind: str
    name: str
    event: str


@table("memory_count", since=2, columns={"value": "count"})
class MemoryCount(NamedTuple):
    """One figure of a whole memory source, as struct c2c_stats of tools/perf/util/mem-events.h names it."""

    source: int
    name: str
    value: int


@table("memory_line", since=2)
class MemoryLine(NamedTuple):
    """A cache line as perf c2c tells lines apart."""

    id: int
    source: int
    address: int
    size: int
    space: str
    pid: int
    object: str
    symbol: str
    symbol_offset: int
    nodes: str
    pages: int


@table("memory_thread", since=2)
class MemoryThread(NamedTuple):
    """A thread that accesses memory."""

    id: int
    pid: int
    tid: int
    comm: str


@table("memory_code", since=2)
class MemoryCode(NamedTuple):
    """An instruction that accesses memory; id 0 is none."""

    id: int
    address: int
    space: str
    symbol: str
    offset: int
    object: str
    line: str


@table("memory_access", since=2, added={"threads": (5, None), "thread_set": (12, None), "thread_records": (12, None)})
class MemoryAccess(NamedTuple):
    """Accesses from one instruction to one offset of a line; None: the source does not tell.

    They are of one thread, or of those in `thread_set`, or in `threads`: see recording.sql.
    """

    line: int
    offset: int
    code: int
    thread: int
    records: int | None
    loads: int | None
    stores: int | None
    locked: int | None
    local_hitm: int | None
    remote_hitm: int | None
    local_peer: int | None
    remote_peer: int | None
    fill_buffer: int | None
    l1_hit: int | None
    l2_hit: int | None
    llc_hit: int | None
    remote_hit: int | None
    local_dram: int | None
    remote_dram: int | None
    store_l1_hit: int | None
    store_l1_miss: int | None
    store_unknown: int | None
    blocked: int | None
    no_map: int | None
    no_parse: int | None
    remote_hitm_weight: int | None
    local_hitm_weight: int | None
    load_weight: int | None
    load_weights: int | None
    in_wait: int | None
    cpus: bytes | None
    cpu_count: int | None
    nodes: str
    threads: bytes | None
    thread_set: bytes | None
    thread_records: bytes | None


# Columns of memory_access that add up, and that no report shows or goes by.
_UNSHOWN = frozenset(("blocked", "no_map", "no_parse", "load_weight", "load_weights"))
# The others that add up.
FIGURES = tuple(name for name in MemoryAccess._fields[4:-6] if name not in _UNSHOWN)


@table("memory_problem", since=2)
class MemoryProblem(NamedTuple):
    """What an import could not read; place is a line number of a text, or an offset in a file."""

    source: int
    place: int
    problem: str


@table("btf", since=2, columns={"size": "bytes"})
class Btf(NamedTuple):
    """Types of a kernel, compressed; size: without compression, in bytes."""

    name: str
    size: int
    data: bytes


@table("memory_wait", since=3)
class MemoryWait(NamedTuple):
    """Accesses to a line that were made while a lock was waited for; transfers: of these."""

    line: int
    lock: int
    kind: int
    records: int
    transfers: int


@table("memory_interrupts", since=3)
class MemoryInterrupts(NamedTuple):
    """Accesses of which it is known whether interrupts were off, and those with interrupts off."""

    line: int
    offset: int
    code: int
    thread: int
    records: int
    off: int


@table("watch", since=3)
class Watch(NamedTuple):
    """A line under watchpoints; columns as in recording.sql."""

    line: int
    target: str
    lock: int
    lock_offset: int
    type: str
    type_offset: int
    type_from: str
    access_from: str
    budget: float
    begin_ns: int
    end_ns: int
    hit_ns: int
    ended: str


@table("watch_told", since=4)
class WatchTold(NamedTuple):
    """How a line's accesses were told to read or write; columns as in recording.sql."""

    line: int
    instruction: int
    watchpoint: int
    remembered: int
    untold: int
    compared: int
    disagreed: int
    typed_windows: int
    typed_hits: int
    typed_hit_ns: int


@table("watch_comparison", since=4)
class WatchComparison(NamedTuple):
    """An instruction, by the disassembler and by watchpoints; columns as in recording.sql."""

    line: int
    code: int
    decoded: int
    only_read: int
    wrote: int


@table("watch_window", since=3)
class WatchWindow(NamedTuple):
    """One stretch of time with watchpoints set; columns as in recording.sql."""

    line: int
    begin_ns: int
    length_ns: int
    offsets: int
    hits: int
    lost: int
    transfers: int
    cut: int
    changed: int


@table("watch_transfer", since=3)
class WatchTransfer(NamedTuple):
    """One CPU touched the watched bytes after another had written in them."""

    line: int
    from_cpu: int
    from_offset: int
    from_code: int
    cpu: int
    offset: int
    code: int
    write: int
    transfers: int


@table("cpu_pair", since=3)
class CpuPair(NamedTuple):
    """How long a cache line takes between two CPUs, one way, and how far their counters are apart."""

    first: int
    second: int
    transfer_ns: float
    least_transfer_ns: float
    warp_ns: int
    rounds: int
