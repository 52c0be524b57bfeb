# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads the memory_* tables of a recording: all lines in sums, then the accesses of the lines that count.

A line is what perf c2c tells apart, summed over the events of one file.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import reduce
from itertools import chain, islice
from operator import or_

from lockline.base.values import dataclass, field
from lockline.c2c.model import Access, Counts, Coverage, Line, Source, add_counts
from lockline.c2c.shares import Shares, read_shares
from lockline.c2c.users import FULL, STRAY_THREAD, stray_threads
from lockline.c2c.watched import with_transfers
from lockline.recording import memory
from lockline.recording import memory_rows as rows
from lockline.recording.code import UNKNOWN_CODE, Code, read_codes, unsigned
from lockline.recording.conditions import among
from lockline.recording.memory_rows import C2C_CONTRADICTED, C2C_INDEXES, C2C_SHARES, C2C_TRANSFERS
from lockline.recording.reader import Recording
from lockline.watch.model import Watch
from lockline.watch.tables import read_watches

# Lines with most transfers; perf c2c itself lists none below a thousandth of all.
MAX_LINES = 20_000
PROBLEMS = 1000
# Kind of memory_source of watched lines.
WATCHPOINT = "watchpoint"
# Names of tasks, of each line.
COMMS = 4
# A fill buffer hit waited for a part of a transfer, and many of them for the same one.
FILL_BUFFER_WEIGHT = 1 / 16
# Parts of the names of events whose samples are memory accesses.
_MEMORY_EVENTS = ("mem-", "mem_", "ldlat", "ibs_op", "spe", "memory", "load", "store")
# What is asked of the other half of a pair: to sum all of its figures takes as long as to read a line.
_OF_BUDDIES = ("records", "loads", "stores", "local_hitm", "remote_hitm", "local_peer", "remote_peer")
# Lines whose accesses are read in one query.
BATCH = 8
_PROBLEM_CHARACTERS = 400
# Where fewer than one in so many is wanted they are looked up one by one.
_SPARSE = 8
_DIGITS = bytes.maketrans(b"\0\1", b"01")


LineKey = tuple[str, str, int, int]


@dataclass(frozen=True, slots=True)
class LineSum:
    """A line's key and what it is ranked by."""

    key: LineKey
    ids: tuple[int, ...]
    row: rows.MemoryLine
    score: float
    records: int
    source: str
    watch: Watch | None


@dataclass(frozen=True, slots=True)
class Tables:
    """What a recording holds of memory accesses, but for the accesses themselves."""

    sources: tuple[Source, ...]
    coverage: Coverage
    lines: tuple[LineSum, ...]  # best first: those that processors transfer among each other
    other_lines: int  # that were sampled, and show no transfer
    transfers: int  # of all lines, also those that a text does not show
    problems: tuple[tuple[int, str], ...]
    sums: Mapping[int, memory.SharedLine] = field(default_factory=dict)  # of the lines with most transfers, by id


def _signed(address: int) -> int:
    return address - (1 << 64) if address >> 63 else address


def score(transfers: int, fill_buffer: int, written_by_others: bool) -> float:
    """What lines are ranked by: HITM and peer snoops, and fill buffer hits where the line is written meanwhile.

    On one socket most of the waiting for a contended line can show up as hits in the fill buffer alone.
    """
    return transfers + (fill_buffer * FILL_BUFFER_WEIGHT if written_by_others else 0.0)


def _sources(recording: Recording) -> tuple[Source, ...]:
    counts: defaultdict[int, dict[str, int]] = defaultdict(dict)
    for row in recording.table(rows.MemoryCount):
        counts[row.source][row.name] = row.value
    files: dict[tuple[str, str], tuple[list[str], dict[str, int]]] = {}
    for source in recording.table(rows.MemorySource, order="id"):
        events, sums = files.setdefault((source.kind, source.name), ([], {}))
        events.extend(event for event in source.event.split("\n") if event)
        for name, value in counts[source.id].items():
            sums[name] = sums.get(name, 0) + value
    return tuple(Source(kind, name, tuple(events), sums) for (kind, name), (events, sums) in files.items())


def _total(sources: Sequence[Source], *names: str) -> int | None:
    known = [source.counts[name] for source in sources for name in names if name in source.counts]
    return sum(known) if known else None


def _snoops(sources: Sequence[Source]) -> int | None:
    """HITM and peer snoops of all lines, as far as the files tell their sum."""
    return _total(sources, "lcl_hitm", "rmt_hitm", "lcl_peer", "rmt_peer")


def _is_ordinary(sources: Sequence[Source]) -> bool:
    """Whether the samples are of events that are not about memory: most of them are of other instructions then."""
    events = [event for source in sources if source.kind == "perf.data" for event in source.events]
    return bool(events) and not any(word in event for event in events for word in _MEMORY_EVENTS)


def _coverage(sources: Sequence[Source], whole: memory.Whole, shares: bool, written: bool) -> Coverage:
    """shares: there are shares in place of totals; written: some of them are of stores."""
    records = _total(sources, "nr_entries")
    no_parse = _total(sources, "noparse")
    unparsable = no_parse / records if records and no_parse is not None else None
    stores = _total(sources, "store")
    loads = _total(sources, "load")
    ordinary = _is_ordinary(sources) and bool(loads or stores)
    # Of all that a program does, some percent are stores; of the lines of a report, maybe fewer.
    enough = 50 * (stores or 0) > (loads or 0) if stores is not None and loads is not None else bool(whole.stores)
    stores = whole.stores if stores is None else stores
    loads = whole.loads if loads is None else loads
    snoops = whole.transfers or _snoops(sources) or 0
    stores_seen = None if stores is None or not (stores or loads) else enough
    sampled_in_part = ordinary or any("ibs_op" in event for source in sources for event in source.events)
    if stores_seen and (sampled_in_part or (unparsable or 0) >= 0.5):
        stores_seen = None
    missing = []
    if ordinary:
        unparsable = None
        missing.append(
            f"an ordinary profile: {(loads or 0) + (stores or 0):,} of its {records or 0:,} samples are memory accesses"
            " (AMD's IBS); `perf c2c record` samples more of them"
        )
    elif unparsable is not None and unparsable >= 0.05:
        missing.append(f"{unparsable:.0%} of the records have a data source that perf could not read")
    if stores_seen is False and not written:
        missing.append("no store was sampled, or next to none: a line without stores may be written all the time")
    elif stores_seen is None and not written:
        partly = (
            "stores were sampled in part at most" if stores else "the file does not say whether stores were sampled"
        )
        missing.append(f"{partly}: a line without stores may be written all the time")
    if shares:
        missing.append("the text tells shares without the totals that they are of")
        return Coverage(records, unparsable, None, None, tuple(missing))
    if loads and not snoops:
        missing.append("no load says which cache served it (HITM, peer): transfers are not seen at all")
    return Coverage(records, unparsable, stores_seen, bool(snoops) if loads or stores else None, tuple(missing))


def _transfers_of(watch: Watch | None) -> int:
    return sum(transfer.count for transfer in watch.transfers) if watch else 0


def _sums(recording: Recording) -> dict[int, memory.SharedLine]:
    sums = sorted(memory.shared_lines(recording), key=lambda row: (-row.transfers, -(row.fill_buffer or 0), row.line))
    return {row.line: row for row in sums[:MAX_LINES]}


def _ranked(
    recording: Recording, by_id: Mapping[int, memory.SharedLine], watches: Mapping[int, Watch]
) -> list[LineSum]:
    kinds = {row.id: row.kind for row in recording.table(rows.MemorySource)}
    texts = {id_ for id_, kind in kinds.items() if kind == "c2c text"}
    grouped: defaultdict[tuple[LineKey, int], list[rows.MemoryLine]] = defaultdict(list)
    # Loads and stores of one line may be of different events, and so under two numbers; what was watched is no sample.
    for row in memory.lines_at_the_same_address(recording, [*by_id, *watches]):
        key = row.space, row.object, row.pid, unsigned(row.address)
        grouped[key, row.id if row.id in watches else 0].append(row)
    ranked = []
    for (key, watched), members in grouped.items():
        found = [by_id[row.id] for row in members if row.id in by_id]
        watch = watches.get(watched)
        listed = watch is not None or any(row.source in texts for row in members)
        if not found and not listed:
            continue
        transfers = sum(row.transfers for row in found) + _transfers_of(watch)
        fill_buffer = sum(row.fill_buffer or 0 for row in found)
        stores = sum(row.stores or 0 for row in found)
        several = listed or len(members) > 1 or any(row.threads > 1 for row in found)
        written = several and (stores > 0 or len(found) < len(members))
        if transfers > 0 or listed or (written and fill_buffer > 0):
            points = score(transfers, fill_buffer, written)
            records = sum(row.records or 0 for row in found)
            ids = tuple(row.id for row in members)
            ranked.append(LineSum(key, ids, members[0], points, records, kinds.get(members[0].source, ""), watch))
    ranked.sort(key=lambda line: (-line.score, -line.records, line.key))
    return ranked


def read_tables(recording: Recording) -> Tables:
    """Sources, their coverage and all lines, best first.  Raises RecordingError if the recording is damaged."""
    if recording.schema < 2:
        return Tables((), Coverage(None, None, None, None, ()), (), 0, 0, ())
    sources = _sources(recording)
    whole = memory.whole(recording)
    problems = [
        (row.place, row.problem[:_PROBLEM_CHARACTERS])
        for row in islice(recording.table(rows.MemoryProblem, order="source, place"), PROBLEMS)
    ]
    watches = read_watches(recording)
    sums = _sums(recording)
    lines = _ranked(recording, sums, watches)
    # An import keeps the lines that matter most, and tells how many there were.
    seen = recording.meta().get("lines_seen")
    line_count = max(memory.line_count(recording), seen if isinstance(seen, int) else 0)
    others = max(0, line_count - sum(len(line.ids) for line in lines))
    # A text may have the totals of more lines than it shows.
    shares_tell = recording.meta().get(C2C_TRANSFERS)
    told = max(_snoops(sources) or 0, shares_tell if isinstance(shares_tell, int) else 0)
    transfers = max(whole.transfers, told) + sum(map(_transfers_of, watches.values()))
    sampled = [source for source in sources if source.kind != WATCHPOINT]
    # What watching cannot see stands with each line.
    shares = recording.meta().get(C2C_SHARES)
    written = any(wrote for line in read_shares(str(shares or "")).values() for _, wrote in line.values())
    coverage = (
        _coverage(sampled, whole, shares is not None, written)
        if sampled or not sources
        else Coverage(None, None, True, True, (), exact=True)
    )
    return Tables(sources, coverage, tuple(lines), others, transfers, tuple(problems), sums)


Place = tuple[str, int, int]


def place_of(line: Line | rows.MemoryLine) -> Place:
    """Where a line lies: its space, process and address, unsigned."""
    return line.space, line.pid, unsigned(line.address)


def find_buddies(
    recording: Recording, lines: Iterable[LineSum], sums: Mapping[int, memory.SharedLine]
) -> dict[Place, Line]:
    """The other 64 bytes of the 128-byte pairs of these lines, in sums, by the line's own place.

    sums: of Tables, which has those of most already.
    """
    owned = {place_of(line.row) for line in lines if _size(line.row) == 64}
    if not owned:
        return {}
    wanted = {(space, pid, address ^ 64) for space, pid, address in owned}
    grouped: defaultdict[LineKey, list[rows.MemoryLine]] = defaultdict(list)
    owner: dict[int, LineKey] = {}
    # Of all lines at once: to find a line by its address SQLite looks at each.
    for row in recording.table(rows.MemoryLine, among("address", {_signed(address) for _, _, address in wanted})):
        if place_of(row) in wanted:
            key = owner[row.id] = row.space, row.object, row.pid, unsigned(row.address)
            grouped[key].append(row)
    found: defaultdict[LineKey, list[Counts]] = defaultdict(list)
    for id_ in owner.keys() & sums.keys():
        known = sums[id_]
        moved = known.local_hitm, known.remote_hitm, known.local_peer, known.remote_peer
        found[owner[id_]].append(Counts(known.records, known.loads, known.stores, None, *moved))
    rest = sorted(owner.keys() - sums.keys())
    for id_, figures in memory.figures_of_lines(recording, rest, _OF_BUDDIES) if rest else ():
        found[owner[id_]].append(Counts(**dict(zip(_OF_BUDDIES, figures, strict=True))))
    buddies = {}
    for (space, object_, pid, address), parts in found.items():
        first = grouped[space, object_, pid, address][0]
        buddies[space, pid, address ^ 64] = _line(first, (), counts=add_counts(parts))
    return buddies


def _batches(values: Iterable[LineSum]) -> Iterator[Sequence[LineSum]]:
    rest = iter(values)
    while batch := tuple(islice(rest, BATCH)):
        yield batch


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) < 10


def _indexes(recording: Recording) -> dict[int, int]:
    """The number that perf's text gives each line, by the line's id; damaged ones are left out."""
    pairs = (word.partition(":") for word in str(recording.meta().get(C2C_INDEXES, "")).split())
    return {int(line): int(index) for line, _, index in pairs if _is_number(line) and _is_number(index)}


def read_lines(recording: Recording, wanted: Iterable[LineSum]) -> Iterator[Line]:
    """These lines with their accesses, in the same order; wanted: taken a batch at a time, when its turn comes.

    Raises RecordingError if the recording is damaged.
    """
    nobody = memory.nobodys_threads(recording)
    indexes = _indexes(recording)
    shares = read_shares(str(recording.meta().get(C2C_SHARES, "")))
    contradicted = set(map(int, filter(_is_number, str(recording.meta().get(C2C_CONTRADICTED, "")).split())))
    codes: dict[int, Code] = {}
    names = _Names()
    for batch in _batches(wanted):
        owner = {id_: number for number, line in enumerate(batch) for id_ in line.ids}
        found: list[list[memory.AccessSum]] = [[] for _ in batch]
        for row in memory.access_sums(recording, list(owner)):
            found[owner[row.line]].append(row)
        missing = {row.code for part in found for row in part} - codes.keys()
        if missing:
            codes.update(read_codes(recording, missing))
        groups = [_Threads(part, nobody) for part in found]
        names.ask(recording, groups)
        for line, part, group in zip(batch, found, groups, strict=True):
            accesses = _accesses(part, group, codes, recording.made_here)
            if line.watch is not None:
                accesses = with_transfers(accesses, line.watch)
            index = next((indexes[id_] for id_ in line.ids if id_ in indexes), None) if indexes else None
            told = next((shares[id_] for id_ in line.ids if id_ in shares), {}) if shares else {}
            yield _line(
                line.row,
                tuple(accesses),
                group.places,
                names.of(part, group),
                line.ids,
                line.source,
                line.watch,
                index,
                told,
                not contradicted.isdisjoint(line.ids),
            )


def read_names(recording: Recording, wanted: Sequence[LineSum]) -> Iterator[Line]:
    """These lines with what types are looked up by alone: one access for each function, with its transfers."""
    owner = {id_: number for number, line in enumerate(wanted) for id_ in line.ids}
    found: list[list[Access]] = [[] for _ in wanted]
    for row in memory.line_functions(recording, list(owner)):
        if row.symbol:
            code, counts = UNKNOWN_CODE._replace(symbol=row.symbol), Counts(local_hitm=max(0, row.snoops))
            found[owner[row.line]].append(Access(-1, code, 0, counts, None, 0, ""))
    for line, accesses in zip(wanted, found, strict=True):
        yield _line(line.row, tuple(accesses), watch=line.watch)


class _Threads:
    """The threads of a line, and which bit each has in the sets of its accesses.

    places: ids by bit.  Where all ids are small, a thread's bit is its id.  known: their bits, 0 where ids are large.
    """

    known = 0

    def __init__(self, part: Sequence[memory.AccessSum], nobody: Set[int]) -> None:
        self.places: Sequence[int]
        sets = [row.thread_set for row in part]
        self._are_ids = None not in sets
        if self._are_ids:
            self.known = reduce(or_, filter(None, sets), 0) & ~_bits_of(nobody)
            self.places = range(self.known.bit_length())
            return
        self.places = sorted(frozenset[int]().union(*(row.threads for row in part)) - nobody)
        self._bit = {thread: number for number, thread in enumerate(self.places)}

    @property
    def ids(self) -> Iterable[int]:
        """Of the threads."""
        return memory.places_of(self.known) if self._are_ids else self.places

    def of(self, row: memory.AccessSum) -> int:
        """The threads of an access, as a set of bits."""
        if self._are_ids:
            return (row.thread_set or 0) & self.known
        return self._bits(row.threads)

    def strays(self, row: memory.AccessSum) -> int:
        """Those of an access with so few of its samples that they may be mistaken; one has FULL of them or more."""
        shares = row.shares
        # Mostly there are none, and then nobody asks which threads they are.
        if min(shares) > STRAY_THREAD * max(shares):
            return 0
        strays = stray_threads(row.threads, shares)
        return self._bits(strays) if strays else 0

    def _bits(self, wanted: Iterable[int]) -> int:
        some = frozenset(wanted)
        if self._are_ids:
            return sum(1 << thread for thread in some if thread in self.places) & self.known
        if len(some) * _SPARSE < len(self.places):
            return sum(1 << self._bit[thread] for thread in some if thread in self._bit)
        digits = bytes(map(some.__contains__, self.places)).translate(_DIGITS)
        return int(digits[::-1] or b"0", 2)


class _Names:
    """The names of tasks, of the threads that were met so far."""

    def __init__(self) -> None:
        self._asked = 0
        self._names: dict[int, str] = {}
        # Those of small ids, as bit sets by name.
        self._sets: dict[str, int] = {}

    def ask(self, recording: Recording, groups: Sequence[_Threads]) -> None:
        """Learn the names of these threads."""
        new: set[int] = set()
        for group in groups:
            if group.known:
                new.update(memory.places_of(group.known & ~self._asked))
            else:
                new.update(thread for thread in group.ids if thread not in self._names)
        for thread, name in memory.comms_of_threads(recording, sorted(new)).items():
            self._names[thread] = name
            if 0 <= thread < memory.MAX_SET:
                self._sets[name] = self._sets.get(name, 0) | 1 << thread
        self._asked |= _bits_of(new)

    def of(self, rows_: Sequence[memory.AccessSum], group: _Threads) -> tuple[str, ...]:
        """The names of most of a line's accesses, by threads; group: all of them."""
        if group.known:
            known = {name for name, bits in self._sets.items() if bits & group.known}
        else:
            known = {self._names[thread] for thread in group.ids if thread in self._names}
        if len(known) < 2:
            return tuple(known)
        every = chain.from_iterable(row.threads for row in rows_)
        sums = Counter(self._names[thread] for thread in every if thread in self._names)
        return tuple(sorted(sums, key=lambda name: (-sums[name], name))[:COMMS])


def _bits_of(numbers: Iterable[int]) -> int:
    """A bit set of those that are small."""
    return reduce(or_, (1 << number for number in numbers if 0 <= number < memory.MAX_SET), 0)


def _accesses(
    part: Sequence[memory.AccessSum], threads: _Threads, codes: Mapping[int, Code], sound: bool
) -> list[Access]:
    """sound: the figures need no checks."""
    make = Counts._make
    found = []
    for row in part:
        _, offset, code, figures, cpu_count, nodes, cpus, several, _, _ = row
        found.append(
            Access(
                offset,
                codes.get(code, UNKNOWN_CODE),
                threads.of(row),
                # None of the last one: it is no column.
                make((*figures, None)) if sound else _counts(figures),
                cpus,
                cpus.bit_count() if cpus is not None else max(0, cpu_count or 0),
                nodes,
                code,
                several.bit_count() if several is not None else len(row.threads),
                threads.strays(row) if row.reaches(FULL) else 0,
            )
        )
    return found


def _counts(figures: memory.Figures) -> Counts:
    """The figures; what is below 0 in a damaged recording is 0."""
    if min(filter(None, figures), default=0) >= 0:
        return Counts._make((*figures, None))
    return Counts(*(None if value is None else max(0, value) for value in figures))


def _told_by_all(accesses: Sequence[Access]) -> Counts:
    """The sum, without loads or stores that some rows of a text do not tell: a part of them would pass for all."""
    every = [access.counts for access in accesses]
    partly = [name for name in ("loads", "stores") if None in [getattr(counts, name) for counts in every]]
    return add_counts(every)._replace(**dict.fromkeys(partly))


def _size(row: rows.MemoryLine) -> int:
    return row.size if row.size in (32, 64, 128, 256) else 64


def _line(
    row: rows.MemoryLine,
    accesses: tuple[Access, ...],
    threads: Sequence[int] = (),
    comms: tuple[str, ...] = (),
    ids: tuple[int, ...] = (),
    source: str = "",
    watch: Watch | None = None,
    index: int | None = None,
    shares: Shares | None = None,
    contradicted: bool = False,
    counts: Counts | None = None,
) -> Line:
    """counts: where they are not those of the accesses."""
    if counts is None:
        counts = _told_by_all(accesses) if shares else add_counts([access.counts for access in accesses])
    return Line(
        address=unsigned(row.address),
        size=_size(row),
        space=row.space,
        pid=row.pid,
        object=row.object,
        symbol=row.symbol,
        symbol_offset=row.symbol_offset,
        nodes=row.nodes,
        pages=row.pages,
        counts=counts,
        accesses=accesses,
        threads=tuple(threads),
        comms=comms,
        ids=ids,
        source=source,
        watch=watch,
        index=index,
        shares=shares or {},
        contradicted=contradicted,
    )
