# SPDX-License-Identifier: GPL-2.0-or-later
"""Finds the reports of perf c2c in a text, and reads their sections line by line."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from lockline.c2c import text_layouts as layouts
from lockline.c2c.text_layouts import Layout
from lockline.c2c.text_lines import Line
from lockline.c2c.text_tables import (
    LineDetail,
    OffsetRow,
    RowError,
    TableRow,
    parse_offset_row,
    parse_table_row,
    take_nodes,
    whole_row,
)

# "Trace Event Information": the label, and the member of struct c2c_stats (print_c2c__display_stats).
TRACE_LABELS = {
    "Total records": "nr_entries",
    "Locked Load/Store Operations": "locks",
    "Load Operations": "load",
    "Loads - uncacheable": "ld_uncache",
    "Loads - IO": "ld_io",
    "Loads - Miss": "ld_miss",
    "Loads - no mapping": "ld_noadrs",
    "Load Fill Buffer Hit": "ld_fbhit",
    "Load L1D hit": "ld_l1hit",
    "Load L2D hit": "ld_l2hit",
    "Load LLC hit": "llc",
    "Load Local HITM": "lcl_hitm",
    "Load Remote HITM": "rmt_hitm",
    "Load Remote HIT": "rmt_hit",
    "Load Local DRAM": "lcl_dram",
    "Load Remote DRAM": "rmt_dram",
    "Load MESI State Exclusive": "ld_excl",
    "Load MESI State Shared": "ld_shared",
    "Load LLC Misses": "llc_miss",
    "Load access blocked by data": "blk_data",
    "Load access blocked by address": "blk_addr",
    "Load HIT Local Peer": "lcl_peer",
    "Load HIT Remote Peer": "rmt_peer",
    "Store Operations": "store",
    "Store - uncacheable": "st_uncache",
    "Store - no mapping": "st_noadrs",
    "Store L1D Hit": "st_l1hit",
    "Store L1D Miss": "st_l1miss",
    "Store No available memory level": "st_na",
    "No Page Map Rejects": "nomap",
    "Unable to parse data source": "noparse",
}
# "Global Shared Cache Line Event Information" (print_shared_cacheline_info).
SHARED_LABELS = {
    "Total Shared Cache Lines": "shared_lines",
    "Load HITs on shared lines": "shared_load",
    "Fill Buffer Hits on shared lines": "shared_ld_fbhit",
    "L1D hits on shared lines": "shared_ld_l1hit",
    "L2D hits on shared lines": "shared_ld_l2hit",
    "LLC hits on shared lines": "shared_llc",
    "Load hits on peer cache or nodes": "shared_peer",
    "Locked Access on shared lines": "shared_locks",
    "Blocked Access on shared lines": "shared_blocked",
    "Store HITs on shared lines": "shared_store",
    "Store L1D hits on shared lines": "shared_st_l1hit",
    "Store No available memory level": "shared_st_na",
    "Total Merged records": "shared_merged",
}
_DERIVED = re.compile(r"LLC Misses to (Local|Remote) ")

# Sections in perf's order: one that comes again, or comes late, begins another report.
_TRACE, _SHARED, _DETAILS, _TABLE, _PARETO = range(1, 6)
_TITLES = {
    "Trace Event Information": _TRACE,
    "Global Shared Cache Line Event Information": _SHARED,
    "c2c details": _DETAILS,
    "Shared Data Cache Line Table": _TABLE,
    "Shared Cache Line Distribution Pareto": _PARETO,
}
_TITLE_END = re.compile(r"\(\d+ entries, sorted on .*\)?")
# As the browser prints it, or as a heading above a table.
_BROWSER_LINE = re.compile(r"[#*_` ]*[Cc]ache ?line:?[*_` ]+(0x[0-9a-fA-F]{1,16})[*_`:]*$")
_VALUE = re.compile(r"(\d{1,3}(?:,\d{3})+|\d{1,18})(?![\d.,%'\u2019])")
_TABLE_ROW = re.compile(r"\s*\d{1,9}\s+0x[0-9a-fA-F]+(?:\s|$)")
_ROW_IN_PROSE = re.compile(r"(?:^|\s)(\d{1,9}\s+0x[0-9a-fA-F]+(?:\s+(?:[\d.,-]+%?|N/A)){17,21})\s*$")
_LINE_TOTALS = re.compile(r"\s*((?:\d{1,10}\s+){2,8})(0x[0-9a-fA-F]{1,16})\s*$")
_COUNTS_ALONE = re.compile(r"\s*\d{1,10}(?:\s+\d{1,10}){1,7}\s*$")
_TOTALS_ALONE = re.compile(r"\s*(?:\d{1,10}\s+){3,7}\d{1,10}\s*$")
_PARETO_ROW = re.compile(r"\s*(?:\d{1,3}(?:\.\d+)?%\s+){2}")
_LIKE_A_ROW = re.compile(r"\s*(?:\d[\d.]*%?\s+)+(?:\d|0x)|\s*0x[0-9a-fA-F]+\s+\d")
_VALUES_ALONE = re.compile(r"\s*(?:[\d.,-]+%?|N/A)(?:\s+(?:[\d.,-]+%?|N/A))*\s*$")
_NODES_ALONE = re.compile(r"\s*\d{1,4}(?:\{[^{}]*\}[\d{}\s,%./na-]*|(?:\s+\d{1,4}){0,2})$")
_CALLCHAIN = re.compile(r"\s*(?:\||--)")
_COMMENT = re.compile(r"(?<=[\d}])\s+(?=[^\s\d\[\]{},.])")
_REMARK = re.compile(r"\s(?:<[-=<]+|//|/\*|#)\s*\S")
_LONGEST_COMMENTED = 2000
_RULE_LENGTH = 20
_RULE_CHARACTERS = frozenset("#-=_. ")

_HEADER_FIRST = {"Index", "Num", "Rmt", "Lcl", "RmtHitm", "LclHitm", "RmtPeer", "LclPeer", "LclHit", "Hit"}

# Bytes of the shortest cache line.
_SMALLEST_LINE = 32

# A row is wrapped into no more lines than this.
_MAX_PARTS = 8
_MAX_PROBLEMS = 1000


@dataclass
class Draft:
    """A report while it is read."""

    first_line: int
    sections: set[int] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)
    sort: str = ""
    grouping: str = ""
    table: list[TableRow] = field(default_factory=list)
    table_peer: bool = False
    details: list[LineDetail] = field(default_factory=list)
    indexes: set[int] = field(default_factory=set)
    problems: list[tuple[int, str]] = field(default_factory=list)

    def problem(self, line: int, text: str) -> None:
        """Note what cannot be read."""
        if len(self.problems) < _MAX_PROBLEMS:
            self.problems.append((line, text))

    def filled(self) -> bool:
        """Whether anything was read."""
        return bool(self.counts or self.table or self.details)


@dataclass
class _OpenDetail:
    line: int
    index: int | None
    address: int
    totals: Mapping[str, int]
    peer: bool
    rows: list[OffsetRow] = field(default_factory=list)


def find_title(text: str) -> int:
    """The section that a line is the title of, or 0."""
    bare = " ".join(text.strip(" #=*`").split())
    for title, section in _TITLES.items():
        if bare == title or (bare.startswith(title) and _TITLE_END.fullmatch(bare[len(title) :].strip())):
            return section
    return 0


def _is_rule(text: str) -> bool:
    """Whether a line draws a rule, or the dots under a header."""
    return set(text) <= _RULE_CHARACTERS and len(text.replace(" ", "")) > 3


def _is_mark(text: str) -> bool:
    """Whether a line only says that something was left out: [...], [snip]."""
    return text.startswith("[") and text.endswith("]") and text[2:3] != "]"


class Scanner:
    """Reads cleaned lines once, from first to last, into drafts of reports."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self._lines = lines
        self._at = 0
        self._draft = Draft(lines[0].number if lines else 1)
        self._section = 0
        self._group = ""
        self._table: Layout | None = None
        self._pareto: Layout | None = None
        self._open: _OpenDetail | None = None
        self._callchain = False
        self._cut_header = False
        self._odd_totals = False
        self._widest = max((len(line.text.rstrip()) for line in lines), default=0)
        self._last_filled = max((i for i, line in enumerate(lines) if line.text.strip()), default=-1)
        # Rows and headers that go on in the next line.
        self.wrapped = 0
        self.drafts: list[Draft] = []
        self.unread: list[tuple[int, str]] = []

    def run(self) -> list[Draft]:
        """The reports of the text, in its order; of those without any content, `unread` has the problems."""
        while self._at < len(self._lines):
            self._line(self._lines[self._at])
            self._at += 1
        self._close()
        return self.drafts

    def _close(self) -> None:
        self._close_detail()
        if self._draft.filled():
            self.drafts.append(self._draft)
        else:
            self.unread += self._draft.problems

    def _close_detail(self) -> None:
        detail = self._open
        if detail and not detail.rows and any(detail.totals.values()):
            self._draft.problem(detail.line, "the totals of a line, and none of its offsets")
        if detail and (detail.rows or detail.totals):
            self._draft.details.append(
                LineDetail(detail.line, detail.index, detail.address, detail.totals, tuple(detail.rows), detail.peer)
            )
        self._open = None

    def _new_report(self, number: int) -> None:
        problems = [] if self._draft.filled() else self._draft.problems
        self._close()
        self._draft = Draft(number, problems=list(problems))
        self._section = 0
        self._table = self._pareto = None

    def _enter(self, section: int, number: int) -> None:
        """A section begins; another report, if this one is past it."""
        if section in self._draft.sections or any(seen > section for seen in self._draft.sections):
            self._new_report(number)
        self._draft.sections.add(section)
        self._section = section
        self._group = ""

    def _line(self, line: Line) -> None:
        text = line.text
        stripped = text.strip()
        if not stripped:
            self._callchain = False
            return
        if section := find_title(stripped):
            self._close_detail()
            self._enter(section, line.number)
        elif self._statistic(line) or self._header(line) or self._row(line):
            self._callchain = False
        elif self._open and self._open.rows and _CALLCHAIN.match(text) and not _is_rule(stripped):
            self._callchain = True
        elif stripped.startswith(("#", "-")) or _is_rule(stripped):
            if self._open and self._open.rows and len(stripped) > _RULE_LENGTH and set(stripped) <= {"#", "-"}:
                # The next line's totals follow; without them its offsets are nobody's.
                self._close_detail()
            self._remember(stripped)
        elif not (self._callchain or _is_mark(stripped)):
            self._unread(line)

    def _remember(self, text: str) -> None:
        """Keep what may be the upper line of a header."""
        self._group = (self._group + " " + text)[-2000:]

    def _unread(self, line: Line) -> None:
        """Prose is passed over; what looks like a part of a table is named."""
        if not self._section or not re.search(r"\d", line.text):
            self._remember(line.text.strip())
        elif (self._section in (_TABLE, _PARETO) and _LIKE_A_ROW.match(line.text)) or (
            self._section in (_TRACE, _SHARED) and ":" in line.text and len(line.text) < 80
        ):
            self._draft.problem(line.number, "not understood: " + _shown(line.text))

    # Statistics

    def _statistic(self, line: Line) -> bool:
        label, colon, value = line.text.partition(":")
        if not colon or len(label) > 80:
            return False
        label = " ".join(label.split())
        if self._section == _DETAILS and self._detail(label, value.strip()):
            return True
        if label in TRACE_LABELS or label in SHARED_LABELS:
            self._count(line, label, value)
            return True
        return bool(_DERIVED.match(label))

    def _count(self, line: Line, label: str, value: str) -> None:
        shared = label in SHARED_LABELS and (label not in TRACE_LABELS or self._section >= _SHARED)
        name = (SHARED_LABELS if shared else TRACE_LABELS)[label]
        section = _SHARED if shared else _TRACE
        if name in self._draft.counts or (self._section > section and not (self._section == _SHARED and not shared)):
            self._new_report(line.number)
        if section not in self._draft.sections:
            self._enter(section, line.number)
        self._section = section
        match = _VALUE.match(value.strip())
        if not match:
            self._draft.problem(line.number, "no count: " + _shown(line.text))
        elif (
            (self._at == self._last_filled or len(line.text.rstrip()) == self._widest)
            and value.startswith("  ")
            and len(value.rstrip()) < 11
        ):
            # perf prints these ten characters wide.
            self._draft.problem(line.number, "the text ends within a count: " + _shown(line.text))
        else:
            self._draft.counts[name] = int(match[1].replace(",", ""))

    def _detail(self, label: str, value: str) -> bool:
        if label in ("Events", "") and value:
            if len(self._draft.events) < 64:
                self._draft.events.append(value)
        elif label == "Cachelines sort on":
            self._draft.sort = value
        elif label in ("Cacheline data grouping", "Cacheline data groupping"):
            self._draft.grouping = value
        else:
            return False
        return True

    # Headers

    def _header(self, line: Line) -> bool:
        first = line.text.lstrip(" #").split(None, 1)
        if not first:
            return False
        words = layouts.header_words(line.text[:2000])
        if first[0] not in _HEADER_FIRST and not layouts.is_cut_at_left(words):
            return False
        table = layouts.is_table_header(words)
        words = self._stacked(line) or self._header_rest(words)
        if not table and not layouts.is_pareto_header(words):
            if self._section == _PARETO and len(words) > 2:
                self._draft.problem(line.number, "a header whose end is cut off: " + _shown(line.text))
                self._cut_header = True
            return False
        if table:
            if self._draft.table or _TABLE not in self._draft.sections:
                group = self._group
                self._close_detail()
                self._enter(_TABLE, line.number)
                self._group = group
            self._table = layout = layouts.table_layout(words)
            self._draft.table_peer = layout.peer
        else:
            if self._section != _PARETO and not self._open:
                group = self._group
                if _PARETO not in self._draft.sections:
                    self._enter(_PARETO, line.number)
                self._group = group
            self._pareto = layout = layouts.pareto_layout(words, self._group)
            if self._open:
                self._open.peer = layout.peer
        self._section = _TABLE if table else _PARETO
        if not table and not layout.placed:
            self._draft.problem(line.number, "the table has no column Offset: no row shows its place in a cache line")
        if layout.cut and not table:
            self._draft.problem(line.number, f"the lines are cut within the column {_shown(words[-1])}")
        for word in layout.unknown:
            self._draft.problem(line.number, f"a column that is not known: {_shown(word)}")
        self._group = ""
        return True

    def _stacked(self, line: Line) -> list[str]:
        """The names of a header that stands in this line and the next one; [] if it does not."""
        if self._at + 1 >= len(self._lines):
            return []
        words = layouts.stacked_words(line.text[:2000], self._lines[self._at + 1].text[:2000])
        self._at += bool(words)
        return words

    def _header_rest(self, words: list[str]) -> list[str]:
        """The names of a header that a mail program wrapped: all lines up to the dots, or the first row."""
        for _ in range(_MAX_PARTS):
            following = self._lines[self._at + 1] if self._at + 1 < len(self._lines) else None
            if following is None or not following.text.strip() or following.text.lstrip().startswith("#"):
                break
            text = following.text
            if _is_rule(text.strip()) or re.search(r"\d%|0x|^\s*\d+\s|^[^A-Za-z]*$", text):
                break
            words = layouts.header_words(" ".join(words) + " " + text[:2000])
            self._at += 1
            self.wrapped += 1
        return words

    # Rows

    def _row(self, line: Line) -> bool:
        if match := _BROWSER_LINE.match(line.text.strip()):
            self._close_detail()
            self._section = _PARETO
            self._draft.sections.add(_PARETO)
            self._group = ""
            self._open = _OpenDetail(line.number, None, int(match[1], 16), {}, False)
            return True
        if _LINE_TOTALS.match(line.text) and self._section == _PARETO:
            return self._line_totals(line)
        if _PARETO_ROW.match(line.text):
            return self._offset_row(line)
        if _TABLE_ROW.match(line.text):
            return self._table_row(line)
        if self._pareto and not self._pareto.placed and _COUNTS_ALONE.match(line.text):
            return self._totals_without_address(line)
        if self._section == _PARETO and _TOTALS_ALONE.match(line.text):
            return self._line_totals(line)
        if _LINE_TOTALS.match(line.text) and (self._pareto or self._next_is_row()):
            return self._line_totals(line)
        if match := _ROW_IN_PROSE.search(line.text):
            return self._bare_row(line, match[1].split())
        return False

    def _next_is_row(self) -> bool:
        following = (self._lines[i].text for i in range(self._at + 1, min(self._at + 4, len(self._lines))))
        return any(_PARETO_ROW.match(text) for text in following)

    def _table_row(self, line: Line) -> bool:
        words = line.text.split()
        if not self._table:
            return self._bare_row(line, words)
        for _ in range(_MAX_PARTS):
            following = self._lines[self._at + 1] if self._at + 1 < len(self._lines) else None
            if len(words) >= len(self._table.columns) or following is None:
                break
            if not _VALUES_ALONE.match(following.text) or _TABLE_ROW.match(following.text):
                break
            words += following.text.split()
            self._at += 1
            self.wrapped += 1
        try:
            row, problems = parse_table_row(self._table, words, line.number)
        except RowError as error:
            self._draft.problem(line.number, f"no row of the table: {error}")
            return True
        self._add_row(row, problems)
        return True

    def _bare_row(self, line: Line, words: Sequence[str]) -> bool:
        if self._table and self._section == _TABLE:
            return False
        found = whole_row(words, line.number)
        if not found:
            return False
        layout, row = found
        if self._draft.sections - {_TRACE, _SHARED, _DETAILS, _TABLE}:
            self._new_report(line.number)
        self._draft.sections.add(_TABLE)
        self._draft.table_peer = layout.peer
        self._add_row(row, ["without its header; its columns are recognised by their sums"])
        return True

    def _add_row(self, row: TableRow, problems: Sequence[str]) -> None:
        if row.address % _SMALLEST_LINE:
            self._draft.problem(row.line, f"{row.address:#x} is not the address of a cache line")
            return
        self._draft.table.append(row)
        for problem in problems:
            self._draft.problem(row.line, f"line {row.index}, {row.address:#x}: {problem}")

    def _line_totals(self, line: Line) -> bool:
        text = line.text
        match = _LINE_TOTALS.match(text)
        if not match and self._at + 1 < len(self._lines):
            text += " " + self._lines[self._at + 1].text
            match = _LINE_TOTALS.match(text)
            self._at += bool(match)
        if not match:
            return False
        self._close_detail()
        if self._at >= self._last_filled:
            self._draft.problem(line.number, "the text ends with a line's totals, perhaps within its address")
            return True
        values = [int(word) for word in match[1].split()]
        if not self._pareto:
            near = range(self._at + 1, min(self._at + 4, len(self._lines)))
            row = next((i for i in near if _PARETO_ROW.match(self._lines[i].text)), None)
            self._pareto = self._inferred_pareto(line, row, len(values))
        columns = self._pareto.percents if self._pareto else ()
        if not columns or len(values) - len(columns) not in (0, 1):
            self._draft.problem(line.number, f"a line's totals without their header: {_shown(line.text)}")
            return True
        if int(match[2], 16) % _SMALLEST_LINE:
            self._draft.problem(line.number, f"{match[2]} is not the address of a cache line")
            return True
        index = values.pop(0) if len(values) > len(columns) else None
        if index is not None and index in self._draft.indexes:
            layout = self._pareto
            self._new_report(line.number)
            self._section, self._pareto = _PARETO, layout
        self._draft.sections.add(_PARETO)
        self._section = _PARETO
        if index is not None:
            self._draft.indexes.add(index)
        totals = dict(zip(columns, values, strict=True))
        assert self._pareto
        self._open = _OpenDetail(line.number, index, int(match[2], 16), totals, self._pareto.peer)
        return True

    def _totals_without_address(self, line: Line) -> bool:
        """Whether they are a line's totals in a table that has neither offsets nor addresses."""
        assert self._pareto
        columns = self._pareto.percents
        values = [int(word) for word in line.text.split()]
        if not columns or len(values) != len(columns) + 1:
            return False
        self._close_detail()
        totals = dict(zip(columns, values[1:], strict=True))
        address = -len(self._draft.details) - 1
        self._draft.sections.add(_PARETO)
        self._section = _PARETO
        self._open = _OpenDetail(line.number, values[0], address, totals, self._pareto.peer)
        return True

    def _whole_layout(self, at: int, peer: bool) -> Layout | None:
        """The layout of the row that begins in a line, which may go on in the next ones; None if unclear."""
        text, best = "", None
        for index in range(at, min(at + _MAX_PARTS, len(self._lines))):
            if index > at and not self._goes_on(index):
                break
            text = f"{text} {self._lines[index].text.strip()}"
            layout = layouts.row_layout(text, peer)
            best = layout or best
            if layout and layouts.CPU_NODES in layout.names:
                break
        return best

    def _inferred_pareto(self, line: Line, row: int | None, totals: int | None) -> Layout | None:
        """The layout of rows that lost their header, from the kinds of values in the first one, which is at row.

        totals: how many values the line's totals above it have; None: these are lost too, and only a row with a symbol
        tells.

        HITM and peer snoops stand in the same columns: the figures above tell which, if there are any.
        """
        counts = self._draft.counts
        hitm = counts.get("lcl_hitm", 0) + counts.get("rmt_hitm", 0)
        peers = counts.get("lcl_peer", 0) + counts.get("rmt_peer", 0)
        if (hitm and peers) or self._cut_header:
            return None
        layout = self._whole_layout(row, bool(peers) and not hitm) if row is not None else None
        if layout is None:
            return None
        if totals is None and layouts.SYMBOL not in layout.names:
            return None
        if totals is None and self._odd_totals:
            return None
        # Without its number a line may have lost the column behind it too: four of the five of newer versions are left.
        cut = totals == len(layout.percents) < layouts.MOST_SHARES
        if totals is not None and (cut or totals - len(layout.percents) not in (0, 1)):
            # Values are missing in the rows or in the totals: neither tells which columns there are.
            self._odd_totals = True
            return None
        told = "the figures above are of peer snoops" if peers else "there are HITM above"
        if not hitm and not peers:
            told = "or peer snoops, if it is from Arm: the text does not say which"
        problem = f"without its header; its columns are recognised by their values, and read as HITM ({told})"
        self._draft.problem(line.number, problem.replace("as HITM", "as peer snoops") if layout.peer else problem)
        return layout

    def _offset_row(self, line: Line) -> bool:
        if not self._pareto and not self._open:
            self._pareto = self._inferred_pareto(line, self._at, None)
        if not self._pareto:
            self._draft.problem(line.number, "an offset without its line or its header: " + _shown(line.text))
            return True
        if not self._open:
            # Whoever published it has left out the line's totals and its address.
            address = -len(self._draft.details) - 1
            self._draft.sections.add(_PARETO)
            self._section = _PARETO
            self._open = _OpenDetail(line.number, None, address, {}, self._pareto.peer)
        text, parts = line.text, 1
        start = self._at
        while True:
            try:
                row = parse_offset_row(self._pareto, text, line.number)
                break
            except RowError as error:
                if found := self._before_comment(text, line.number):
                    row = found
                    break
                if error.incomplete and parts < _MAX_PARTS and self._continues():
                    self._at += 1
                    text += " " + self._lines[self._at].text.strip()
                    parts += 1
                    self.wrapped += 1
                    continue
                self._at = start
                self._cut_row(line, error)
                return True
        row = self._more_nodes(text, row)
        self._open.rows.append(row)
        return True

    def _before_comment(self, text: str, number: int) -> OffsetRow | None:
        """The row in front of what its reader wrote behind it; None if that does not make it one.

        What follows the nodes is no part of a row, unless it may be nodes that a mail program has wrapped.
        """
        assert self._pareto
        remark = _REMARK.search(text) if len(text) <= _LONGEST_COMMENTED else None
        if remark and layouts.CPU_NODES not in self._pareto.names:
            # Columns that the author left empty are missing; the last word stands for them.
            with suppress(RowError):
                return parse_offset_row(self._pareto, text[: remark.start()] + " ?", number, cut=True)
        if layouts.CPU_NODES not in self._pareto.names or len(text) > _LONGEST_COMMENTED:
            return None
        for match in list(_COMMENT.finditer(text))[-_MAX_PARTS:]:
            with suppress(RowError):
                return parse_offset_row(self._pareto, text[: match.start()], number)
        return None

    def _continues(self) -> bool:
        """Whether the next line may be the rest of a row."""
        return self._goes_on(self._at + 1)

    def _goes_on(self, at: int) -> bool:
        """Whether a line may be the rest of a row before it."""
        if at >= len(self._lines):
            return False
        text = self._lines[at].text
        stripped = text.strip()
        if not stripped or stripped.startswith("#") or _is_rule(stripped) or _CALLCHAIN.match(text):
            return False
        return not (_PARETO_ROW.match(text) or _LINE_TOTALS.match(text) or find_title(stripped) or _is_mark(stripped))

    def _cut_row(self, line: Line, error: RowError) -> None:
        """A row whose end is missing: what is there is taken, but for the last word."""
        assert self._pareto
        assert self._open
        if not error.incomplete:
            try:
                row = parse_offset_row(self._pareto, line.text, line.number, cut=True)
                what = "its figures are read, its names are not"
                if error.shifted:
                    row = replace(row, cycles={}, records=None, cpu_count=None)
                    what = "its shares and its place are read, nothing behind them"
                self._open.rows.append(row)
                self._draft.problem(line.number, f"{what}: {error}")
            except RowError:
                self._draft.problem(line.number, f"no row of the offsets: {error}")
            return
        try:
            self._open.rows.append(parse_offset_row(self._pareto, line.text, line.number, cut=True))
            self._draft.problem(line.number, f"cut off: {error}")
        except RowError:
            self._draft.problem(line.number, f"cut off too early to be read: {_shown(line.text)}")

    def _more_nodes(self, text: str, row: OffsetRow) -> OffsetRow:
        """The row with the nodes that were wrapped into the next line."""
        assert self._pareto
        while row.nodes and self._continues() and _NODES_ALONE.match(self._lines[self._at + 1].text):
            number, rest = self._lines[self._at + 1]
            more = text + " " + rest.strip()
            try:
                if take_nodes(more)[1] == row.nodes or len(more) > 1 << 16:
                    break
                row = parse_offset_row(self._pareto, more, row.line)
            except RowError as error:
                # The text ends within a list of CPUs.
                self._draft.problem(number, f"{error}: {_shown(rest)}")
                self._at += 1
                break
            text = more
            self._at += 1
            self.wrapped += 1
        return row


def _shown(text: str) -> str:
    """The begin of a line from elsewhere, fit for a message."""
    return " ".join(text.split())[:60]
