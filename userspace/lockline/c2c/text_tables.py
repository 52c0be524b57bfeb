# SPDX-License-Identifier: GPL-2.0-or-later
"""Rows of the tables of `perf c2c report`: cache lines, and the offsets in each."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lockline.c2c import text_layouts as layouts
from lockline.c2c.text_layouts import Layout

# NR_CPUS of no distribution is larger.
MAX_CPUS = 8192
_MAX_NODES = 1024

# perf's counters have 32 bits, a few are sums of them; with means of weights their products fit into 64 bits.
_COUNT = re.compile(r"\d{1,10}")
_MAX_MEAN = 10**8
# No 00.00%: that is what is left of 100.00%.
_PERCENT = re.compile(r"(\d|[1-9]\d{1,2})(?:\.(\d{1,6}))?%")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{1,16}")
_NODES = re.compile(r"N/A|\d{1,4}(?:[-,]\d{1,4})*")
_SIGNED = re.compile(r"-?\d{1,10}")
_THREAD = re.compile(r"(-?\d{1,10}):(.*)")
_WORD = re.compile(r"\S+")
_SYMBOL = re.compile(r"(?:0x[0-9a-fA-F]+ +\S +)?\[(\S)\] *(.*)")
_NUMBER_BEFORE = re.compile(r"\d+\s+\[")
_NAME = re.compile(r"[A-Za-z_~<]")
_COLUMN_GAP = re.compile(r"\s{2,}")
_SYMBOL_OFFSET = re.compile(r"(\S.*)\+(\d{1,9})")
_OPEN_LIST = re.compile(r"\s\d+\{[\d,\- %./na]*$")
_OBJECT_OFFSET = re.compile(r".*\[[0-9a-f]+\]")

_LEVELS = (
    *("fill_buffer", "l1_hit", "l2_hit", "llc_hit", "local_hitm"),
    *("remote_hit", "remote_hitm", "local_dram", "remote_dram"),
)
_SPACES = {"k": "kernel", ".": "user"}


# The offset of a row that does not tell it.
NOWHERE = -1


class RowError(ValueError):
    """A row that is not as its header has it; incomplete: its end is missing, perhaps on the next line.

    shifted: it has more numbers before its names than the header, so that those behind the code are of no column.
    """

    def __init__(self, message: str, incomplete: bool = False, shifted: bool = False) -> None:
        super().__init__(message)
        self.incomplete = incomplete
        self.shifted = shifted


@dataclass(frozen=True)
class Percent:
    """A printed percentage: value / scale percent, rounded to half of 1 / scale."""

    value: int
    scale: int


@dataclass(frozen=True)
class TableRow:
    """One cache line of the table: what the text counts of it, by the names of text_layouts.

    line: its number in the text; pa_count: changes of the physical address between its samples, as perf prints it;
    share: of what the display sorts by, in all of the file, None where the column is not there.
    """

    line: int
    index: int | None
    address: int
    nodes: str
    pa_count: int | None
    counts: Mapping[str, int]
    share: Percent | None = None


@dataclass(frozen=True)
class OffsetRow:
    """One row of the pareto table: accesses of one offset in a line, by instruction and thread where told.

    None and '' are what the row does not tell.  cycles: mean weights by the names of text_layouts.
    cpus: ranges, first and last, of `-NN`.
    """

    line: int
    offset: int
    percents: Mapping[str, Percent]
    pid: int | None
    tid: int | None
    comm: str
    code: int | None
    cycles: Mapping[str, int]
    records: int | None
    cpu_count: int | None
    space: str
    symbol: str
    symbol_offset: int
    object: str
    source: str
    nodes: str
    cpus: tuple[tuple[int, int], ...] | None


@dataclass(frozen=True)
class LineDetail:
    """One cache line of the pareto table: its totals by percentage column, and its offsets.

    address: below 0 where it is not told, another one for each line.
    """

    line: int
    index: int | None
    address: int
    totals: Mapping[str, int]
    rows: tuple[OffsetRow, ...]
    peer: bool


def _count(word: str) -> int:
    if not _COUNT.fullmatch(word):
        raise RowError(f"'{word[:20]}' is not a count")
    return int(word)


def _percent(word: str) -> Percent:
    match = _PERCENT.fullmatch(word)
    if not match:
        raise RowError(f"'{word[:20]}' is not a percentage")
    decimals = match[2] or ""
    percent = Percent(int(match[1] + decimals), int(10 ** len(decimals)))
    if percent.value > 100 * percent.scale:
        raise RowError(f"{word} is more than the whole")
    return percent


def _address(word: str) -> int:
    if not _ADDRESS.fullmatch(word):
        raise RowError(f"'{word[:20]}' is not an address")
    return int(word, 16)


def parse_ranges(text: str, limit: int) -> tuple[tuple[int, int], ...]:
    """Ranges, first and last, of a list as '0-1,4'; ValueError if it is none, or passes the limit."""
    ranges = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not _COUNT.fullmatch(first) or (dash and not _COUNT.fullmatch(last)):
            raise ValueError(f"'{part[:20]}' is not a range")
        ranges.append((int(first), int(last or first)))
        if not ranges[-1][0] <= ranges[-1][1] < limit:
            raise ValueError(f"'{part[:20]}' is out of range")
    return tuple(ranges)


def _page_nodes(word: str) -> str:
    """Nodes of a line's pages, '0-1' as '0,1'; '' for N/A."""
    if not _NODES.fullmatch(word):
        raise RowError(f"'{word[:20]}' is not a node")
    if word == "N/A":
        return ""
    try:
        ranges = parse_ranges(word, _MAX_NODES)
    except ValueError as error:
        raise RowError(str(error)) from error
    return ",".join(str(node) for first, last in ranges[:64] for node in range(first, last + 1))


def broken_sums(counts: Mapping[str, int]) -> list[str]:
    """The sums that perf's own counts of one line must satisfy, and do not.

    total_records(), total_loads() and get_load_llc_misses() of tools/perf/builtin-c2c.c, Linux 4.10 to 7.x.
    """

    def differs(total: str, parts: Sequence[str]) -> str | None:
        if total not in counts or any(part not in counts for part in parts):
            return None
        sum_of_parts = sum(counts[part] for part in parts)
        if counts[total] == sum_of_parts:
            return None
        return f"{counts[total]} {total.replace('_', ' ')}, but the parts add up to {sum_of_parts}"

    stores = [name for name in ("store_l1_hit", "store_l1_miss", "store_unknown") if name in counts]
    records = differs("records", ["loads", *stores]) if stores else None
    if records and differs("records", ["loads", "stores"]) is None and "stores" in counts:
        records = None
    # Where peers are not told apart, they are counted beside the levels.
    beside = (layouts.TOTAL_PEER,) if layouts.TOTAL_PEER in counts and "local_peer" not in counts else ()
    found = (
        differs(layouts.TOTAL_HITM, ("local_hitm", "remote_hitm")),
        differs(layouts.TOTAL_PEER, ("local_peer", "remote_peer")),
        differs(layouts.LLC_MISS, ("local_dram", "remote_dram", "remote_hitm", "remote_hit")),
        differs("loads", (*_LEVELS, *beside)),
        records,
    )
    return [problem for problem in found if problem]


def parse_table_row(layout: Layout, words: Sequence[str], number: int) -> tuple[TableRow, list[str]]:
    """One row of the table of cache lines, and what is wrong with it.

    Of a row whose end is missing, all but its last word is taken: that one may be cut too.
    Raises RowError if the words do not fit the columns.
    """
    problems: list[str] = []
    columns = layout.columns
    extra = words[len(columns) + layout.cut :]
    if extra and any(_COUNT.fullmatch(word) or _PERCENT.fullmatch(word) for word in extra):
        raise RowError(f"{len(words)} values in {len(columns)} columns")
    if len(words) < len(columns):
        problems.append(f"cut off: {len(words)} of {len(columns)} columns")
        words = words[:-1]
    index: int | None = None
    address: int | None = None
    pa_count: int | None = None
    share: Percent | None = None
    nodes = ""
    counts: dict[str, int] = {}
    for column, word in zip(columns, words, strict=False):
        if column == layouts.INDEX:
            index = _count(word)
        elif column == layouts.ADDRESS:
            address = _address(word)
        elif column == layouts.NODE:
            nodes = _page_nodes(word)
        elif column == layouts.PA_COUNT:
            pa_count = _count(word)
        elif column == layouts.PERCENT:
            share = _percent(word)
        elif not column.startswith(layouts.UNKNOWN):
            value = _count(word)
            if counts.setdefault(column, value) != value:
                problems.append(f"{counts[column]} and {value} in two columns of {column.replace('_', ' ')}")
    if address is None:
        raise RowError("no address")
    if not counts:
        raise RowError("no counts")
    problems += broken_sums(counts)
    if len(words) < len(columns) and len(problems) > 1:
        # Its end is not what is missing: values are gone within, and those behind them are of other columns.
        raise RowError(f"{len(words) + 1} of {len(columns)} columns, and not the first ones: {problems[1]}")
    return TableRow(number, index, address, nodes, pa_count, counts, share), problems


def whole_row(words: Sequence[str], number: int) -> tuple[Layout, TableRow] | None:
    """A table row without its header, if its own sums agree with a layout.

    Both displays of perf 6 have as many columns.  Where its HITM are there twice, and equal, the row is of the HITM
    display; a row without HITM and without peer snoops agrees with either, and is not read.
    """
    for layout in layouts.WHOLE_ROWS:
        if len(layout.columns) != len(words):
            continue
        try:
            row, problems = parse_table_row(layout, words, number)
        except RowError:
            continue
        total = layouts.TOTAL_PEER if layout.peer else layouts.TOTAL_HITM
        if not problems and row.counts["loads"] and row.counts[total]:
            return layout, row
    return None


def take_nodes(text: str) -> tuple[str, str]:
    """Splits the CPUs' nodes off the end: what is before them, and the nodes with single spaces.

    A node is a number, with what `-N` or `-NN` say of it in braces.
    Raises RowError if a list of CPUs has no end.
    """
    nodes: list[str] = []
    end = len(text.rstrip())
    while end:
        brace = text.rfind("{", 0, end) if text[end - 1] == "}" else -1
        inner = " ".join(text[brace + 1 : end - 1].split()) if brace >= 0 else ""
        last = brace if brace >= 0 else end
        while last and text[last - 1] == " ":
            last -= 1
        first = text.rfind(" ", 0, last) + 1
        if not _COUNT.fullmatch(text, first, last):
            break
        nodes.append(text[first:last] + (f"{{{inner}}}" if inner else ""))
        end = first
        while end and text[end - 1] == " ":
            end -= 1
    if _OPEN_LIST.search(text[max(0, text.rfind("{", 0, end) - 8) : end]):
        raise RowError("its nodes are cut off", incomplete=True)
    return text[:end], " ".join(reversed(nodes))


def node_cpus(nodes: str) -> tuple[tuple[int, int], ...] | None:
    """The CPUs of nodes as of `-NN`, '0{0-1,4} 1{24}', as ranges; None if they are not listed."""
    lists = re.findall(r"\d+\{([^{}]*)\}", nodes)
    if not lists or len(lists) != nodes.count("}") or "%" in nodes or "n/a" in nodes:
        return None
    try:
        return tuple(pair for part in lists for pair in parse_ranges(part.replace(" ", ""), MAX_CPUS))
    except ValueError:
        return None


def _thread_words(words: Sequence[str], at: int, layout: Layout, after: str) -> tuple[int, str, int]:
    """Thread id, command and the index of the next column's word; a command may hold spaces."""
    match = _THREAD.fullmatch(words[at])
    if not match:
        raise RowError(f"'{words[at][:20]}' is not a thread")
    end = at + 1
    if layouts.CODE in layout.columns:
        while end < len(words) and not _ADDRESS.fullmatch(words[end]):
            end += 1
        if end == len(words):
            raise RowError("no code address", incomplete=True)
    else:
        # The next column is a number: the command ends at the gap between the columns, or where that was lost, at
        # the first number.
        end = at + max(1, len(_COLUMN_GAP.split(after.strip(), maxsplit=1)[0].split()))
        if end == len(words):
            end = next((i for i in range(at + 1, len(words)) if _COUNT.fullmatch(words[i])), end)
    return int(match[1]), " ".join((match[2], *words[at + 1 : end])).strip(), end


def _symbol(text: str, edited: bool) -> tuple[str, str]:
    """Address space and name of '[k] name'; an address in the place of a name is none.

    edited: who published the table has left columns out, and may have left out the space too.
    """
    match = _SYMBOL.fullmatch(text)
    if not match and edited and _NAME.match(text):
        return "", text
    if not match:
        raise RowError(f"'{text[:30]}' is not a symbol", shifted=bool(_NUMBER_BEFORE.match(text)))
    name = match[2].removesuffix(" (inlined)").strip()
    return _SPACES.get(match[1], "other"), "" if _ADDRESS.fullmatch(name) else name


def _source(text: str, symbol: str) -> tuple[str, int]:
    """File and line, or the offset in the symbol that perf prints in their place (map__fprintf_srcline)."""
    match = _SYMBOL_OFFSET.fullmatch(text)
    if match and symbol and (symbol.startswith(match[1]) or match[1].startswith(symbol)):
        return "", int(match[2])
    if _OBJECT_OFFSET.fullmatch(text) or text.startswith("??"):
        return "", 0
    return text, 0


def _names(columns: Sequence[str], rest: str) -> dict[str, str]:
    """Symbol, object and source, which are set apart by two spaces, or by one if a mail program ate the other."""
    if not columns:
        return {}
    fields = [field for field in _COLUMN_GAP.split(rest.strip()) if field]
    if len(fields) != len(columns):
        # A name of many words is a symbol's: templates have spaces, objects and files hardly ever.
        words = fields if len(fields) > len(columns) else rest.split()
        tail = len(columns) - 1
        if len(words) <= tail or (columns[0] == layouts.SYMBOL and len(words) < tail + 2 and words is not fields):
            raise RowError("its names are cut off", incomplete=True)
        fields = [" ".join(words[: len(words) - tail]), *words[len(words) - tail :]]
    return dict(zip(columns, fields, strict=True))


def _cut_names(columns: Sequence[str], rest: str) -> dict[str, str]:
    """The names before the one in which the lines were cut; a single word may be the begin of one."""
    fields = [field for field in _COLUMN_GAP.split(rest.strip()) if field]
    return dict(zip(columns, fields[:-1], strict=False))


def parse_offset_row(layout: Layout, text: str, number: int, cut: bool = False) -> OffsetRow:
    """One row of the pareto table.

    cut: its end is known to be missing: then all columns but the last that is there are taken.
    Raises RowError; with `incomplete` if the row may go on in the next line.
    """
    spans = [match.span() for match in _WORD.finditer(text)]
    words = [text[first:last] for first, last in spans]
    if cut:
        words = words[:-1]
    percents: dict[str, Percent] = {}
    cycles: dict[str, int] = {}
    numbers: dict[str, int] = {}
    tid: int | None = None
    comm = ""
    at = 0
    for column in layout.numbers:
        if at >= len(words):
            if cut and (layouts.OFFSET in numbers or not layout.placed):
                break
            raise RowError(f"no {column.replace('_', ' ')}", incomplete=True)
        word = words[at]
        if column == layouts.TID:
            tid, comm, at = _thread_words(words, at, layout, text[spans[at][0] :])
            continue
        if column in layout.percents:
            if not column.startswith(layouts.UNKNOWN) or "%" not in word:
                percents[column] = _percent(word)
        elif column in (layouts.OFFSET, layouts.CODE):
            numbers[column] = _address(word)
        elif column == layouts.NODE:
            _page_nodes(word)
        elif column == layouts.PID:
            if not _SIGNED.fullmatch(word):
                raise RowError(f"'{word[:20]}' is not a process")
            numbers[column] = int(word)
        elif column in (layouts.REMOTE_CYCLES, layouts.LOCAL_CYCLES, layouts.LOAD_CYCLES):
            cycles[column] = min(_count(word), _MAX_MEAN)
        elif not column.startswith(layouts.UNKNOWN):
            numbers[column] = _count(word)
        at += 1
    if len({percent.scale for percent in percents.values()}) > 1 and next(iter(percents.values())).scale == 1:
        # perf prints them all alike.
        raise RowError(f"'{words[0][:20]}' is what is left of a percentage")
    names: dict[str, str] = {}
    nodes = ""
    if not cut:
        rest = text[spans[at][0] :] if at < len(spans) else ""
        if layouts.CPU_NODES in layout.names:
            rest, nodes = take_nodes(" " + rest)
        wanted = [column for column in layout.names if column != layouts.CPU_NODES]
        names = _cut_names(wanted, rest) if layout.cut else _names(wanted, rest)
        if layouts.CPU_NODES in layout.names and not nodes:
            raise RowError("no nodes", incomplete=True)
    # Where all names are there, the one in the symbol's place is the symbol, whatever marks it.
    edited = layouts.CODE not in layout.columns or layouts.SOURCE in names
    space, symbol = _symbol(names[layouts.SYMBOL], edited) if layouts.SYMBOL in names else ("", "")
    source, symbol_offset = _source(names.get(layouts.SOURCE, ""), symbol)
    return OffsetRow(
        line=number,
        offset=numbers.get(layouts.OFFSET, NOWHERE),
        percents=percents,
        pid=numbers.get(layouts.PID),
        tid=tid,
        comm=comm,
        code=numbers.get(layouts.CODE),
        cycles=cycles,
        records=numbers.get(layouts.RECORDS),
        cpu_count=numbers.get(layouts.CPU_COUNT),
        space=space,
        symbol=symbol,
        symbol_offset=symbol_offset,
        object=names.get(layouts.OBJECT, ""),
        source=source,
        nodes=nodes,
        cpus=node_cpus(nodes) if nodes else None,
    )
