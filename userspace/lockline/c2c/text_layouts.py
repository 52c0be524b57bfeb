# SPDX-License-Identifier: GPL-2.0-or-later
"""Columns of the tables of `perf c2c report`, told by their header's words, never by their position.

The words are those of the dimensions in tools/perf/builtin-c2c.c of Linux 4.10 to 7.x, of the vendor kernels that have
`-d llc` and `-d all`, and of the terminal browser.  Columns of counts are called as in the table memory_access.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

# Columns that are no counts.
INDEX, ADDRESS, NODE, PA_COUNT, PERCENT = "index", "address", "node", "pa_count", "percent"
OFFSET, PID, TID, CODE = "offset", "pid", "tid", "code"
REMOTE_CYCLES, LOCAL_CYCLES, LOAD_CYCLES, PEER_CYCLES = "remote_cycles", "local_cycles", "load_cycles", "peer_cycles"
RECORDS, CPU_COUNT = "records", "cpu_count"
SYMBOL, OBJECT, SOURCE, CPU_NODES = "symbol", "object", "source", "cpu_nodes"
_NAMES = (SYMBOL, OBJECT, SOURCE, CPU_NODES)
# Read and checked, but in no table: sums of others, and what the vendors' displays sort on.
TOTAL_HITM, TOTAL_PEER, TOTAL_HITS, LLC_MISS, LOAD_HIT, LOAD_MISS = (
    "total_hitm",
    "total_peer",
    "total_hits",
    "llc_miss",
    "load_hit",
    "load_miss",
)
UNKNOWN = "?"

# What a table row counts of one line.
COUNTS = (
    "records",
    "loads",
    "stores",
    "local_hitm",
    "remote_hitm",
    "local_peer",
    "remote_peer",
    "fill_buffer",
    "l1_hit",
    "l2_hit",
    "llc_hit",
    "remote_hit",
    "local_dram",
    "remote_dram",
    "store_l1_hit",
    "store_l1_miss",
    "store_unknown",
)

_MOST_COLUMNS = 40
# Words with single spaces between them.
_FIELD = re.compile(r"\S+(?: \S+)*")
_NODE_WORDS = re.compile(r"Node\s*\{[^{}]*\}")
_PAIRS = {
    ("PA", "cnt"),
    ("Ld", "Miss"),
    ("L1", "Hit"),
    ("L1", "Miss"),
    ("Any", "Lvl"),
    ("Code", "address"),
    ("rmt", "hitm"),
    ("lcl", "hitm"),
    ("rmt", "peer"),
    ("lcl", "peer"),
}


@dataclass(frozen=True)
class Layout:
    """The columns of one table in their order.

    peer: whether it counts peer snoops in the place of HITM; cut: whether the header's end is missing, so that rows
    may have a value more, and the last name may be the begin of another one.
    """

    columns: tuple[str, ...]
    peer: bool = False
    cut: bool = False

    @cached_property
    def numbers(self) -> tuple[str, ...]:
        """The columns of a row of the pareto table up to its names; the line's index is not in these rows."""
        return tuple(column for column in self.columns if column != INDEX and column not in _NAMES)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns after them: symbol, object, source, nodes."""
        return tuple(column for column in self.columns if column in _NAMES)

    @cached_property
    def percents(self) -> tuple[str, ...]:
        """The columns of percentages that begin a row of the pareto table."""
        first = 1 if self.columns[:1] == (INDEX,) else 0
        if OFFSET in self.columns:
            return self.columns[first : self.columns.index(OFFSET)]
        return tuple(takewhile(lambda column: column in _SHARES, self.columns[first:]))

    @property
    def placed(self) -> bool:
        """Whether rows tell their offset, and lines their address, which stands above it."""
        return OFFSET in self.columns

    @property
    def unknown(self) -> tuple[str, ...]:
        """Header words that no perf is known to print."""
        unknown = [column[1:] for column in self.columns if column.startswith(UNKNOWN)]
        return tuple(word for word in unknown if not word.endswith("..."))


def header_words(text: str) -> list[str]:
    """The columns' names in a header line; the words say which spaces are within a name, not the number of spaces."""
    words = _NODE_WORDS.sub(lambda match: "".join(match.group().split()), text.replace("#", " ")).split()
    names: list[str] = []
    for word in words:
        if names and (names[-1], word) in _PAIRS:
            names[-1] += " " + word
        else:
            names.append(word)
    return names


def is_table_header(words: Sequence[str]) -> bool:
    """Whether these are the names of the table of cache lines."""
    return len(words) > 2 and words[0] == "Index" and words[1] in ("Address", "Cacheline")


def is_pareto_header(words: Sequence[str]) -> bool:
    """Whether these are the names of the table of offsets in cache lines."""
    known = sum(1 for word in words if word in _PARETO or word in ("Rmt", "Lcl") or word.startswith("Node"))
    offset = "Offset" in words or ("Off" in words and words[-1] != "Off")
    # Who published the text may have made it narrower.
    narrowed = not {"Offset", "Off"}.intersection(words) and "Symbol" in words
    return len(words) > 3 + (not offset) and (offset or narrowed) and known * 2 > len(words)


# Names that stand in two lines in tables which people have edited, without their case and percent signs.
_STACKED = {
    "rmt hitm": "RmtHitm",
    "lcl hitm": "LclHitm",
    "rmt peer": "RmtPeer",
    "lcl peer": "LclPeer",
    "store l1 hit": "L1 Hit",
    "store l1 miss": "L1 Miss",
    "store n/a": "N/A",
    "data offset": "Offset",
    "offset": "Offset",
    "load cycles": "load",
    "total records": "records",
    "records": "records",
    "cpu cnt": "cnt",
    "symbol": "Symbol",
    "object": "Object",
    "shared object": "Object",
}


def stacked_words(upper: str, lower: str) -> list[str]:
    """The names of a header in two lines, each name above or below the rest of it; [] if it is none."""
    above = [(match.span(), match.group()) for match in _FIELD.finditer(upper)]
    below = [(match.span(), match.group()) for match in _FIELD.finditer(lower)]
    if max(len(above), len(below)) > _MOST_COLUMNS:
        return []
    columns: list[tuple[int, str]] = []
    for (begin, end), name in below:
        over = [text for (first, last), text in above if first < end and begin < last]
        if len(over) > 1:
            return []
        columns.append((begin, " ".join([*over, name])))
    lone = [
        (first, text)
        for (first, last), text in above
        if not any(first < end and begin < last for (begin, end), _ in below)
    ]
    names = [name.lower().replace("%", "").strip() for _, name in sorted([*columns, *lone])]
    words = [_STACKED.get(name, "") for name in names]
    return words if all(words) and "Offset" in words else []


_TABLE = {
    "Index": INDEX,
    "Cacheline": ADDRESS,
    "Address": ADDRESS,
    "Node": NODE,
    "PA cnt": PA_COUNT,
    "records": "records",
    "Hitm": PERCENT,
    "Snoop": PERCENT,
    "Pct": PERCENT,
    "LclHitm": "local_hitm",
    "RmtHitm": "remote_hitm",
    "Local": "local_peer",
    "Remote": "remote_peer",
    "Anylvl": "store_unknown",
    "Loads": "loads",
    "Stores": "stores",
    "L1Hit": "store_l1_hit",
    "L1Miss": "store_l1_miss",
    "N/A": "store_unknown",
    "Ld Miss": LLC_MISS,
    "FB": "fill_buffer",
    "L1": "l1_hit",
    "L2": "l2_hit",
    "Llc": "llc_hit",
    "LclHit": "llc_hit",
    "RmtHit": "remote_hit",
}

# What a name at the end of a cut header may be the begin of: L1Hit and L1Miss, LclHitm, RmtHitm.
_BEGINS = {"L1", "Lcl", "LclHit", "Rmt", "RmtHit"}

# Names that several columns have, told by the name before, or for stores by the one after.
_TOTALS = {"Hitm": TOTAL_HITM, "Snoop": TOTAL_PEER, "Pct": TOTAL_HITS, "Peer": TOTAL_HITM}
_LOCAL = {TOTAL_HITM: "local_hitm"}
_REMOTE = {"local_hitm": "remote_hitm", "llc_hit": "remote_hit", "local_dram": "remote_dram"}


def table_layout(words: Sequence[str]) -> Layout:
    """The layout of the table of cache lines; words as of header_words()."""
    columns: list[str] = []
    for i, word in enumerate(words):
        before = words[i - 1] if i else ""
        column = columns[-1] if columns else ""
        if word == "Total":
            follows_stores = words[i + 1 : i + 2] == ["L1Hit"]
            columns.append(_TOTALS.get(before, "stores" if follows_stores else UNKNOWN + word))
        elif word == "Peer":
            # A display that was proposed has HITM and peers: a share before them, and a count after them.
            columns.append(TOTAL_PEER if TOTAL_HITM in columns else PERCENT)
        elif word == "Lcl":
            columns.append(_LOCAL.get(column, "local_dram"))
        elif word == "Rmt":
            columns.append(_REMOTE.get(column, UNKNOWN + word) if before in ("Lcl", "Llc") else UNKNOWN + word)
        else:
            columns.append(_TABLE.get(word, UNKNOWN + word))
    # All of them end so.
    cut = words[-1] != "Rmt" or columns[-1].startswith(UNKNOWN)
    if cut and words[-1] in _BEGINS:
        columns[-1] = UNKNOWN + words[-1]
    return Layout(tuple(columns), "Snoop" in words, cut)


_PARETO = {
    "Num": INDEX,
    "RmtHitm": "remote_hitm",
    "LclHitm": "local_hitm",
    "LclHit": "llc_hit",
    "Hit": LOAD_HIT,
    "Miss": LOAD_MISS,
    "RmtPeer": "remote_peer",
    "LclPeer": "local_peer",
    "Peer": TOTAL_PEER,
    "Any Lvl": "store_unknown",
    "L1 Hit": "store_l1_hit",
    "L1 Miss": "store_l1_miss",
    "N/A": "store_unknown",
    "Offset": OFFSET,
    "Off": OFFSET,
    "PA cnt": PA_COUNT,
    "Pid": PID,
    "Tid": TID,
    "Code address": CODE,
    "rmt hitm": REMOTE_CYCLES,
    "lcl hitm": LOCAL_CYCLES,
    "rmt peer": REMOTE_CYCLES,
    "lcl peer": LOCAL_CYCLES,
    "load": LOAD_CYCLES,
    "peer": PEER_CYCLES,
    "records": RECORDS,
    "cnt": CPU_COUNT,
    "Symbol": SYMBOL,
    "Object": OBJECT,
    "Source:Line": SOURCE,
}


# Of those that the table of offsets of any version has, without the columns that were proposed.
MOST_SHARES = 5
# Columns of percentages.
_SHARES = (
    *("remote_hitm", "local_hitm", "remote_peer", "local_peer", "llc_hit", LOAD_HIT, LOAD_MISS, TOTAL_PEER),
    *("store_l1_hit", "store_l1_miss", "store_unknown"),
)


def is_cut_at_left(words: Sequence[str]) -> bool:
    """Whether it is a header of the table of offsets whose first name has lost its begin: its values have too."""
    first = words[0] if words else ""
    left = first and first not in _PARETO and any(name.endswith(first) for name in _PARETO)
    return bool(left) and is_pareto_header(words) and {"Offset", "Code address"} <= set(words)


def pareto_layout(words: Sequence[str], group: str) -> Layout:
    """The layout of the table of offsets; group is the header line above, which tells HITM from peer snoops."""
    # less marks so where it cuts a line, and people mark so what they leave out.
    paged = bool(words) and words[-1].endswith((">", "..."))
    if paged:
        words = [word for word in (*words[:-1], words[-1].rstrip(">.")) if word]
    peer = "Peer Snoop" in group or not {"rmt peer", "lcl peer", "RmtPeer", "LclPeer"}.isdisjoint(words)
    columns: list[str] = []
    for word in words:
        if word in ("Rmt", "Lcl"):
            side = "remote" if word == "Rmt" else "local"
            columns.append(f"{side}_peer" if peer else f"{side}_hitm")
        elif word.startswith("Node"):
            columns.append(NODE if columns and columns[-1] == OFFSET else CPU_NODES)
        else:
            columns.append(_PARETO.get(word, UNKNOWN + word))
    # One of both alone is what is left of L1 Hit or L1 Miss.
    if [name for name in columns if name in (LOAD_HIT, LOAD_MISS)] != [LOAD_HIT, LOAD_MISS]:
        unknown = {LOAD_HIT: UNKNOWN + "Hit", LOAD_MISS: UNKNOWN + "Miss"}
        columns = [unknown.get(name, name) for name in columns]
    # A name that is the begin of another one: the terminal, or who copied the text, has cut the lines there.
    last = words[-1] if words else ""
    begin = columns[-1:] == [UNKNOWN + last] and any(name.startswith(last) for name in (*_PARETO, "Node"))
    return Layout(tuple(columns[:-1] if begin else columns), peer, begin or paged)


def _named(words: str) -> Layout:
    return table_layout(header_words(words))


_LEVELS = "FB L1 L2 LclHit LclHitm RmtHit RmtHitm Lcl Rmt"
# Whole rows that lost their header are read if their own sums agree with exactly one of these.
WHOLE_ROWS = (
    _named(f"Index Address Node PA cnt Hitm Total LclHitm RmtHitm records Loads Stores L1Hit L1Miss N/A {_LEVELS}"),
    _named(f"Index Address Node PA cnt Snoop Total Local Remote records Loads Stores L1Hit L1Miss N/A {_LEVELS}"),
    _named(f"Index Address Node PA cnt Hitm Total LclHitm RmtHitm records Loads Stores L1Hit L1Miss {_LEVELS}"),
    _named(
        "Index Address Node PA cnt records Hitm Total Lcl Rmt Total L1Hit L1Miss Lcl Rmt Ld Miss Loads FB L1 L2 Llc Rmt"
    ),
    _named("Index Cacheline records Hitm Total Lcl Rmt Total L1Hit L1Miss Lcl Rmt Ld Miss Loads FB L1 L2 Llc Rmt"),
)

_ROW = re.compile(
    r"(?P<percents>(?:\d{1,3}(?:\.\d+)?%\s+){4,6})0x[0-9a-fA-F]+(?P<middle>(?:\s+(?!0x)\S+)*?)"
    r"(?:\s+(?P<code>0x[0-9a-fA-F]+)(?P<numbers>(?:\s+\d+)+)(?P<names>\s+\[.\]\s.*)?)?\s*$"
)


# Names of the kernel whose columns single spaces set apart, as in HTML: the object in brackets tells which is which.
_SQUEEZED = re.compile(r"\[k\] ?\S+ \[[\w.]+\](?P<source> \S+:\d+)?(?: +\d+(?:\{[^{}]*\})?)+")


def row_layout(text: str, peer: bool) -> Layout | None:
    """The layout of a row of the pareto table that lost its header, from the kinds of its values; None if unclear.

    A display that was proposed has six percentages: of HITM and of peer snoops too.

    The order is perf's own: percentages, offset, node and PA count, process, thread, code, cycles, CPUs, names.
    """
    match = _ROW.fullmatch(text.strip())
    if not match:
        return None
    middle, numbers = match["middle"].split(), (match["numbers"] or "").split()
    percents = len(match["percents"].split())
    side = "peer" if peer else "hitm"
    columns = [f"remote_{side}", f"local_{side}", "store_l1_hit", "store_l1_miss"]
    both = percents == 6
    if match["code"] and len(numbers) - both not in (4, 5):
        return None
    if both:
        columns = ["remote_hitm", "local_hitm", TOTAL_PEER, "store_l1_hit", "store_l1_miss"]
    columns += ["store_unknown"] if percents >= 5 else []
    columns.append(OFFSET)
    thread = next((i for i, word in enumerate(middle) if re.match(r"\d+:", word)), None)
    plain = middle if thread is None else middle[:thread]
    if not match["code"] or len(plain) not in (0, 1, 2, 3):
        return Layout(tuple(columns), peer)
    columns += [NODE, PA_COUNT] if len(plain) >= 2 else []
    columns += [PID] if len(plain) in (1, 3) else []
    columns += [TID] if thread is not None else []
    columns += [CODE, REMOTE_CYCLES, LOCAL_CYCLES, LOAD_CYCLES, *([PEER_CYCLES] if both else [])]
    columns += [RECORDS] if len(numbers) - both == 5 else []
    columns.append(CPU_COUNT)
    fields = [field for field in re.split(r"\s{2,}", (match["names"] or "").strip()) if field]
    nodes = bool(fields) and re.match(r"\d+(\{|\s|$)", fields[-1]) is not None
    named = len(fields) - nodes
    if named in (2, 3) or (named > 3 and nodes):
        columns += [SYMBOL, OBJECT, SOURCE][: min(named, 3)]
        columns += [CPU_NODES] if nodes else []
    elif squeezed := _SQUEEZED.fullmatch((match["names"] or "").strip()):
        columns += [SYMBOL, OBJECT, *([SOURCE] if squeezed["source"] else []), CPU_NODES]
    return Layout(tuple(columns), peer)
