# SPDX-License-Identifier: GPL-2.0-or-later
"""Charts as SVG: what a page shows without scripts, and on paper.  Colours are classes: c0, c1, ... and h0 to h7."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from lockline.base.numbers import duration, percent
from lockline.base.text import cut, width
from lockline.page.html import Markup, Writer

WIDTH = 960
LEFT, RIGHT, BOTTOM = 70, 24, 22
# Colours of rows, and of heat.
COLORS, HEATS = 12, 8

_PLOT = WIDTH - LEFT - RIGHT
# What a letter is wide, about, and how many the left of a plot has room for at most.
_LETTER = 6.9
_LETTERS = 32


@dataclass(frozen=True, slots=True)
class Node:
    """A frame of a flame graph: its weight, and that of what it calls."""

    name: str
    value: int
    children: tuple["Node", ...] = ()


def _svg(write: Writer, height: float, label: str, *parts: Markup) -> Markup:
    # A view box scales; the label is what a screen reader says.
    return write("svg", *parts, viewBox=f"0 0 {WIDTH} {height:g}", role="img", aria_label=label, class_="drawing")


def _labels(write: Writer, names: Iterable[str]) -> tuple[list[str], int]:
    """Names as labels on the left of a plot, long ones without their middle; and where the plot begins."""
    shown = [cut(write.plain(name), _LETTERS) for name in names]
    return shown, max(LEFT, round(max(map(width, shown), default=0) * _LETTER) + 10)


def _text(write: Writer, x: float, y: float, text: str, anchor: str = "start") -> Markup:
    return write("text", text, x=round(x, 1), y=round(y, 1), text_anchor=anchor)


def _fitting(text: str, wide: float) -> str:
    """As much of a text as a box has room for; nothing if that is hardly any."""
    letters = int(wide / 6.6) - 1
    return text if len(text) <= letters else text[: letters - 1] + "…" if letters > 3 else ""


def _ticks(most: float) -> list[float]:
    """Round numbers from 0 to about `most`, at most five."""
    if most <= 0:
        return [0.0]
    step = 10 ** math.floor(math.log10(most / 2))
    step *= next(factor for factor in (1, 2, 5, 10) if most / (step * factor) <= 4.5)
    return [index * step for index in range(int(most / step) + 1)]


def stacked(
    write: Writer, label: str, bins: Sequence[tuple[int, int]], series: Sequence[tuple[str, Sequence[int]]]
) -> Markup:
    """Bars over time, of waiting threads on average; bins: begin and end in ns; series: wait ns in each bin."""
    height, plot = 240, 200
    lengths = [max(1, end - begin) for begin, end in bins]
    sums = [sum(values[index] for _, values in series) / length for index, length in enumerate(lengths)]
    most, span = max(sums, default=0) or 1, max((end for _, end in bins), default=1) or 1
    start = min((begin for begin, _ in bins), default=0)
    scale = _PLOT / max(1, span - start)
    tops = [0.0] * len(bins)
    parts = []
    for number, (_, values) in enumerate(series):
        path = []
        for index, value in enumerate(values):
            tall = value / lengths[index] / most * (plot - 10)
            if value:
                x, y = LEFT + (bins[index][0] - start) * scale, plot - tops[index] - tall
                path.append(f"M{x:.1f} {y:.1f}h{lengths[index] * scale:.1f}v{tall:.1f}h-{lengths[index] * scale:.1f}z")
            tops[index] += tall
        if path:
            parts.append(write("path", d="".join(path), class_=f"c{number % COLORS}"))
    for tick in _ticks(most):
        y = plot - tick / most * (plot - 10)
        parts.append(write("line", x1=LEFT, x2=WIDTH - RIGHT, y1=round(y, 1), y2=round(y, 1), class_="grid"))
        parts.append(_text(write, LEFT - 6, y + 4, f"{tick:g}", "end"))
    parts += [
        _text(write, LEFT + tick * 1e9 * scale, height - 6, f"{start / 1e9 + tick:g} s", "middle")
        for tick in _ticks((span - start) / 1e9)
    ]
    return _svg(write, height, label, *parts)


def legend(write: Writer, names: Sequence[str]) -> Markup:
    """Which colour is which row."""
    items = [write("li", write("span", class_=f"key k{number % COLORS}"), name) for number, name in enumerate(names)]
    return write("ul", *items, class_="legend")


def heat(
    write: Writer,
    label: str,
    rows: Sequence[tuple[str, Sequence[int]]],
    columns: Sequence[str],
) -> Markup:
    """A cell for each row and column, darker with the logarithm of its value; columns: titles, some may be ''."""
    tall = max(3.0, min(18.0, 480 / max(1, len(rows))))
    labels, left = _labels(write, (name for name, _ in rows))
    wide = (WIDTH - RIGHT - left) / max(1, len(columns))
    most = max((value for _, values in rows for value in values), default=0)
    levels: list[list[str]] = [[] for _ in range(HEATS)]
    floor = most / 1e4
    for row, (_, values) in enumerate(rows):
        for column, value in enumerate(values):
            if value:
                level = min(HEATS - 1, max(0, int(math.log(max(value, floor) / floor) / math.log(1e4) * HEATS)))
                levels[level].append(f"M{left + column * wide:.1f} {row * tall:.1f}h{wide:.1f}v{tall:.1f}h-{wide:.1f}z")
    parts = [write("path", d="".join(path), class_=f"h{level}") for level, path in enumerate(levels) if path]
    every = max(1, math.ceil(12 / tall))
    parts += [
        _text(write, left - 6, (row + 0.5) * tall + 4, name, "end")
        for row, name in enumerate(labels)
        if row % every == 0
    ]
    height = len(rows) * tall + BOTTOM
    parts += [
        _text(write, left + (column + 0.5) * wide, height - 6, title, "middle")
        for column, title in enumerate(columns)
        if title
    ]
    return _svg(write, height, label, *parts)


def bars(write: Writer, label: str, buckets: Sequence[tuple[int, int]], trusted_ns: int) -> Markup:
    """A histogram; buckets: lower bound in ns and count.  Up to trusted_ns lengths may be more than 10 % off."""
    height, plot = 150, 122
    most = max((count for _, count in buckets), default=0) or 1
    wide = _PLOT / max(1, len(buckets))
    parts, path = [], []
    short = sum(1 for lower, _ in buckets if lower < trusted_ns)
    if short:
        parts.append(write("rect", x=LEFT, y=0, width=round(short * wide, 1), height=plot, class_="doubt"))
        parts.append(_text(write, LEFT + 4, 12, f"under {duration(trusted_ns)}: may be more than 10% off"))
    for index, (_, count) in enumerate(buckets):
        tall = math.log1p(count) / math.log1p(most) * (plot - 18) if count else 0
        x, thin = LEFT + index * wide + 0.5, max(wide - 1, 0.5)
        path.append(f"M{x:.1f} {plot - tall:.1f}h{thin:.1f}v{tall:.1f}h-{thin:.1f}z")
    parts.append(write("path", d="".join(path), class_="c0"))
    if short:
        x = round(LEFT + short * wide, 1)
        parts.append(write("line", x1=x, x2=x, y1=0, y2=plot, class_="mark"))
    every = max(1, math.ceil(len(buckets) / 12))
    parts += [
        _text(write, LEFT + index * wide, height - 6, duration(lower))
        for index, (lower, _) in enumerate(buckets)
        if index % every == 0
    ]
    parts.append(_text(write, LEFT - 6, 22, f"{most:,}", "end"))
    return _svg(write, height, label, *parts)


def flame(write: Writer, label: str, root: Node, unknown: str = "", levels: int = 24) -> Markup:
    """A flame graph that hangs down: callers above, what they call below; gray from a frame called `unknown` on."""
    tall, total = 17, root.value or 1
    parts: list[Markup] = []
    deepest = 0

    def draw(node: Node, x: float, depth: int, gray: bool) -> None:
        nonlocal deepest
        gray |= node.name == unknown
        wide = node.value / total * WIDTH
        if wide < 1.5 or depth >= levels:
            return
        deepest = max(deepest, depth)
        shown = write.plain(node.name)
        words = _fitting(shown, wide)
        tip = f"{shown}: {duration(node.value)}, {percent(node.value / total)}"
        box = write("rect", x=round(x, 1), y=depth * tall, width=round(wide - 0.5, 1), height=tall - 1)
        # Neighbours differ in colour; the same function has the same one everywhere.
        tint = "none" if gray else sum(map(ord, shown)) % 5
        text = _text(write, x + 3, depth * tall + 12, words) if words else None
        parts.append(write("g", write("title", tip), box, text, class_=f"f{tint}"))
        for child in node.children:
            draw(child, x, depth + 1, gray)
            x += child.value / total * WIDTH

    draw(root, 0.0, 0, gray=False)
    return _svg(write, (deepest + 1) * tall, label, *parts)


@dataclass(frozen=True, slots=True)
class Bar:
    """A stretch in a lane; kind: a class of its colour; tip: what the pointer shows, else the words."""

    begin: float
    end: float
    kind: str
    words: str
    tip: str = ""


def lanes(
    write: Writer,
    label: str,
    rows: Sequence[tuple[str, Sequence[Bar]]],
    begin: float,
    end: float,
    unit: Callable[[float], str] = duration,
) -> Markup:
    """Lanes with stretches, one below the other; unit: words for a length, which is shown from `begin` on."""
    labels, left = _labels(write, (name for name, _ in rows))
    tall, scale = 26, (WIDTH - RIGHT - left) / max(1.0, end - begin)
    parts = []
    for row, (_, stretches) in enumerate(rows):
        y = row * tall
        parts.append(_text(write, left - 6, y + 16, labels[row], "end"))
        parts.append(write("line", x1=left, x2=WIDTH - RIGHT, y1=y + tall, y2=y + tall, class_="grid"))
        begins = sorted(left + (bar.begin - begin) * scale for bar in stretches)
        for bar in stretches:
            first, last = max(bar.begin, begin), min(bar.end, end)
            if last < first:
                continue
            x, wide = left + (first - begin) * scale, max(2.0, (last - first) * scale)
            shown, start = write.plain(bar.words), x + 3
            words = _fitting(shown, wide)
            if words != shown:
                # Beside it, where nothing follows.
                free = next((other for other in begins if other >= x + wide), WIDTH) - x - wide
                if _fitting(shown, free - 6) == shown:
                    words, start = shown, x + wide + 3
            box = write("rect", x=round(x, 1), y=y + 3, width=round(wide, 1), height=tall - 6, class_=bar.kind)
            text = _text(write, start, y + 17, words) if words else None
            parts.append(write("g", write("title", f"{bar.tip or shown}, {unit(bar.end - bar.begin)}"), box, text))
    height = len(rows) * tall + BOTTOM
    parts += [
        _text(write, left + tick * scale, height - 6, unit(round(tick)), "middle") for tick in _ticks(end - begin)
    ]
    return _svg(write, height, label, *parts)


def pairs(write: Writer, label: str, rows: Sequence[tuple[str, float, float]], names: tuple[str, str]) -> Markup:
    """Two bars for each row, one below the other: before and after."""
    tall, most = 34, max((max(first, second) for _, first, second in rows), default=0) or 1
    left, parts = 260, []
    for row, (name, *values) in enumerate(rows):
        y = row * tall
        parts.append(_text(write, left - 6, y + 20, cut(write.plain(name), int((left - 8) / _LETTER)), "end"))
        for side, value in enumerate(values):
            wide = round(value / most * (WIDTH - left - 110), 1)
            parts.append(write("rect", x=left, y=y + 3 + side * 14, width=max(1.0, wide), height=12, class_=f"c{side}"))
            words = f"{names[side]} {value:.3g}"
            parts.append(_text(write, left + wide + 4, y + 13 + side * 14, words))
    return _svg(write, len(rows) * tall + 6, label, *parts)


@dataclass(frozen=True, slots=True)
class Link:
    """From a node of one column to one of the next."""

    source: int
    target: int
    value: int


def flows(
    write: Writer,
    label: str,
    columns: Sequence[tuple[str, Sequence[str]]],
    links: Sequence[Sequence[Link]],
) -> Markup:
    """Columns of nodes, each with a title, and between two of them links, the wider the larger their value."""
    tall, top, gap = 30, 24, 90
    wide = (WIDTH - gap * (len(columns) - 1)) / len(columns)
    letters = int((wide - 12) / _LETTER)
    most = max((link.value for between in links for link in between), default=0) or 1
    parts = []
    for column, between in enumerate(links):
        x = column * (wide + gap) + wide
        for link in sorted(between, key=lambda link: -link.value):
            first, last = (top + (node + 0.5) * tall for node in (link.source, link.target))
            names = columns[column][1][link.source], columns[column + 1][1][link.target]
            parts.append(
                write(
                    "g",
                    write("title", f"{names[0]} to {names[1]}: {duration(link.value)}"),
                    write(
                        "path",
                        d=f"M{x:.1f} {first:.1f}C{x + gap / 2:.1f} {first:.1f} {x + gap / 2:.1f} {last:.1f}"
                        f" {x + gap:.1f} {last:.1f}",
                        stroke_width=round(1 + 17 * link.value / most, 1),
                        class_="flow",
                    ),
                )
            )
    for column, (title, nodes) in enumerate(columns):
        x = column * (wide + gap)
        parts.append(_text(write, x + 6, 14, title))
        for row, name in enumerate(nodes):
            y, shown = top + row * tall, write.plain(name)
            box = write("rect", x=round(x, 1), y=y + 3, width=round(wide, 1), height=tall - 6, class_="node")
            text = _text(write, x + 6, y + 19, cut(shown, letters))
            parts.append(write("g", write("title", shown), box, text))
    rows = max((len(names) for _, names in columns), default=0)
    return _svg(write, top + rows * tall + 4, label, *parts)
