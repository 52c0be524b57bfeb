# SPDX-License-Identifier: GPL-2.0-or-later
"""Tables of offsets that somebody has set anew: cells between bars, commas or semicolons, columns in any order.

Trackers, wikis and spreadsheets have such tables.  They are put back into perf's order, and read as the browser's.
"""

import re
from collections.abc import Sequence
from itertools import groupby

from lockline.c2c.text_lines import Line

# Names as perf prints them, in its order, by the ends of the names that people give to columns.
_SHARES = {
    "RmtHitm": ("rmthitm", "rmt hitm", "remote hitm", "hitm rmt", "hitm remote"),
    "LclHitm": ("lclhitm", "lcl hitm", "local hitm", "hitm lcl", "hitm local"),
    "RmtPeer": ("rmtpeer", "rmt peer", "remote peer", "peer snoop rmt", "peer rmt"),
    "LclPeer": ("lclpeer", "lcl peer", "local peer", "peer snoop lcl", "peer lcl"),
    "L1 Hit": ("l1 hit", "l1hit"),
    "L1 Miss": ("l1 miss", "l1miss"),
    "N/A": ("n/a",),
}
_STORES = {"L1 Hit", "L1 Miss", "N/A"}
_FIGURES = {
    "Offset": ("offset", "off"),
    "Pid": ("pid", "process"),
    "Tid": ("tid", "thread"),
    "Code address": ("code address", "code", "ip"),
    "rmt hitm": ("rmt hitm", "rmt peer"),
    "lcl hitm": ("lcl hitm", "lcl peer"),
    "load": ("load", "load cycles"),
    "records": ("records", "samples"),
    "cnt": ("cnt", "cpus", "cpu count"),
}
_NAMES = {
    "Symbol": ("symbol", "function", "function name", "func", "who", "by"),
    "Object": ("object", "dso"),
    "Source:Line": ("source:line", "source line", "source"),
}
_NODES = "Node{cpu list}"
_ORDER = (*_SHARES, *_FIGURES, *_NAMES, _NODES)
# Changes of the physical address: no count of CPUs.
_PAGES = "pa cnt"
_LINE = ("line", "cacheline", "cache line", "line address")

_SHARE = re.compile(r"\d{1,3}(?:[.,]\d+)?\s*%?")
_COMMAS = re.compile(r",(?![^{}]*\})")
_SEMICOLONS = re.compile(r";(?![^{}]*\})")
_MARKS = re.compile(r"[^a-z0-9/: ]+")
_RULE = re.compile(r"[\s|:+=-]*")
_FEWEST = 4
_LONGEST = 4000
_MOST_CELLS = 64


def _cells(text: str) -> list[str]:
    """The cells of a line: [] if it is no row of a table."""
    if len(text) > _LONGEST:
        return []
    if "|" in text:
        cells = text.replace("||", "|").strip().removeprefix("|").removesuffix("|").split("|")
    else:
        # Where semicolons part the cells, commas are a locale's decimal points.
        cells = (_SEMICOLONS if text.count(";") >= _FEWEST else _COMMAS).split(text)
    if not _FEWEST <= len(cells) <= _MOST_CELLS:
        return []
    return [cell.strip().strip('"*`').strip() for cell in cells]


def _named(cell: str, percents: bool, braces: bool) -> str:
    """The name that perf gives to a column, or ''."""
    name = " ".join(_MARKS.sub(" ", cell.lower()).split())
    if name.startswith("node") and braces:
        return _NODES
    if name in _LINE:
        return "Line"
    if name == _PAGES:
        return ""
    known = _SHARES if percents else {**_FIGURES, **_NAMES}
    found = [(len(end), column) for column, ends in known.items() for end in ends if _ends(name, end)]
    return max(found)[1] if found else ""


def _side(cell: str, head: Sequence[str]) -> str:
    """The name of a column whose group stands over the column before it alone: the other side of that one."""
    side = {"lcl": "Lcl", "local": "Lcl", "rmt": "Rmt", "remote": "Rmt"}.get(cell.strip().lower(), "")
    return side and side + ("Peer" if any("peer snoop" in other.lower() for other in head) else "Hitm")


def _ends(name: str, end: str) -> bool:
    return name == end or name.endswith(" " + end)


def _columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The names that perf gives to a table's columns; [] if it is not one of offsets."""
    names = []
    for at, cell in enumerate(head):
        values = [row[at] for row in rows if row[at]]
        percents = "%" in cell or any("%" in value and "{" not in value for value in values)
        names.append(
            _named(cell, percents, any("{" in value for value in values)) or (percents and _side(cell, head)) or ""
        )
    if not _STORES.intersection(names):
        # One column for all stores.
        stores = [at for at, cell in enumerate(head) if not names[at] and _are_stores(cell, [row[at] for row in rows])]
        if len(stores) == 1:
            names[stores[0]] = "L1 Hit"
    known = [name for name in names if name]
    shares = sum(name in _SHARES for name in known)
    if shares < 2 or "Offset" not in known or len(set(known)) < len(known):
        return []
    return names


def _are_stores(cell: str, values: Sequence[str]) -> bool:
    """Whether a column has shares of stores, of whatever level."""
    name = " ".join(_MARKS.sub(" ", cell.lower()).split())
    return _ends(name, "stores") and ("%" in cell or any("%" in value for value in values))


def _value(name: str, cell: str) -> str:
    if name in _SHARES:
        if not cell or cell in ("-", "n/a"):
            return "0.00%"
        return cell.replace(" ", "").rstrip("%").replace(",", ".") + "%" if _SHARE.fullmatch(cell) else cell
    if name == "Symbol" and cell and not cell.startswith("["):
        return "[?] " + cell
    if name == "Tid" and ":" not in cell:
        return cell + ":?"
    return re.sub(r"\s{2,}", " ", cell) or ("[?] ?" if name == "Symbol" else "?" if name in _NAMES else "0")


def _rewritten(table: Sequence[Line]) -> list[Line]:
    """A table as the browser of perf has it; as it is if it is none of offsets."""
    split = [(line, _cells(line.text)) for line in table if not _RULE.fullmatch(line.text)]
    head = split[0][1] if split else []
    rows = [(line, cells) for line, cells in split[1:] if len(cells) == len(head)]
    names = _columns(head, [cells for _, cells in rows]) if rows else []
    if not names:
        return list(table)
    # perf's own order is read as it is.
    order = [names.index(name) for name in _ORDER if name in names]
    peer = any(name.endswith("Peer") for name in names)
    words = [names[at].replace("hitm", "peer") if peer else names[at] for at in order]
    found: list[Line] = []
    before = None
    for line, cells in rows:
        address = cells[names.index("Line")] if "Line" in names else ""
        if address != before:
            if address:
                found.append(Line(split[0][0].number, f"Cacheline {address}"))
            found.append(Line(split[0][0].number, "  ".join(words)))
            before = address
        found.append(Line(line.number, "  " + "  ".join(_value(names[at], cells[at]) for at in order)))
    fitting = {id(line) for line, _ in rows}
    # What has another number of cells is named as what it is: not understood.
    others = [line for line, cells in split[1:] if id(line) not in fitting]
    return [*found, *others]


def in_order(lines: Sequence[Line]) -> list[Line]:
    """The lines with tables of offsets in perf's order, whatever order of columns somebody gave them."""
    found: list[Line] = []
    for is_table, group in groupby(lines, lambda line: bool(_cells(line.text)) or _is_rule(line.text)):
        table = list(group)
        found += _rewritten(table) if is_table and len(table) > 1 else table
    return found


def _is_rule(text: str) -> bool:
    return "|" in text and _RULE.fullmatch(text) is not None
