# SPDX-License-Identifier: GPL-2.0-or-later
"""Functions that wait for cache lines, against those that write to them, as text."""

from lockline.base.numbers import count, duration, percent
from lockline.base.text import Column, Style, clean, paragraphs, table
from lockline.c2c.model import C2cReport, FunctionPair
from lockline.render.c2c_text import header, name_of, no_lines, wrapped

LOCKS = 1


def _function(name: str, style: Style) -> str:
    return clean(name, style) or "?"


def _where(pair: FunctionPair, report: C2cReport, style: Style) -> str:
    """The line on which they meet most, and the members there."""
    place = pair.places[0]
    line = name_of(report.lines[place.rank - 1], style)
    members = clean(f"{place.waiter_at or '?'} / {place.writer_at or '?'}", style)
    more = f", +{len(pair.places) - 1} lines" if len(pair.places) > 1 else ""
    return f"#{place.rank} {line}: {members}{more}"


def _lock(pair: FunctionPair, style: Style) -> str:
    """The locks on their lines."""
    if not pair.locks:
        return "-"
    more = f", +{len(pair.locks) - LOCKS}" if len(pair.locks) > LOCKS else ""
    return clean(", ".join(pair.locks[:LOCKS]), style) + more


def render(report: C2cReport, style: Style, top: int) -> str:
    """The table of pairs with at most so many rows, ending in a line end."""
    pairs = report.pairs or ()
    if not pairs:
        why = (
            no_lines(report) if not report.lines else wrapped("None of these lines has a HITM or a peer snoop.", "", "")
        )
        return paragraphs([header(report, style), why])
    locks = any(pair.locks for pair in pairs[:top])
    columns = [
        Column("moves", 6),
        Column("of all", 6),
        Column("waits", 22 if locks else 27, right=False),
        Column("writes", 22 if locks else 27, right=False),
        Column("waited for / written", 21 if locks else 44, right=False),
        *([Column("lock", 22, right=False), Column("its waits", 9)] if locks else []),
    ]
    rows = [
        [
            count(round(pair.transfers)),
            percent(pair.share),
            _function(pair.waiter, style),
            _function(pair.writer, style),
            _where(pair, report, style),
            *([_lock(pair, style), "-" if pair.wait_ns is None else duration(pair.wait_ns)] if locks else []),
        ]
        for pair in pairs[:top]
    ]
    lines = ["Functions that wait for a line, and functions that write to it", *table(columns, rows)]
    if len(pairs) > top:
        rest = sum(pair.transfers for pair in pairs[top:])
        lines.append(f"  ({len(pairs) - top:,} more pairs with {count(round(rest))} moves; --top shows them)")
    left = report.line_count - len(report.lines)
    if left > 0:
        lines.append(f"  (of the first {len(report.lines):,} lines; {left:,} more are not in it)")
    notes = wrapped(
        "moves: HITM and peer snoops of the function that waits. A sample does not say who wrote: they are shared out"
        " over the functions that write to the line, by their sampled stores. ?: no store was sampled, or no name.",
        "",
        "",
    )
    return paragraphs([header(report, style), lines, notes])
