# SPDX-License-Identifier: GPL-2.0-or-later
"""CPU by latency: which CPUs wait, how long each time, and which of them waits far more than the others."""

from collections.abc import Sequence

from lockline.analysis.model import CpuWaits, Figures, Window
from lockline.analysis.waits import merged
from lockline.base import histogram
from lockline.base.numbers import count, duration, percent, short_count
from lockline.base.text import Column, Style, page, table

# Each column spans two octaves from 1,024 ns on: 8 buckets.
_BOUNDS = (0, *(1 << shift for shift in range(10, 32, 2)))
_TITLES = ("<1us", "1us", "4us", "16us", "65us", "260u", "1ms", "4ms", "17ms", "67ms", ".27s", ">1s")

# Columns of a line before its bands, and of each; on a narrow page bands are joined.
_FIGURES, _BAND = 47, 6
_STEPS = (1, 2, 3)

# A CPU stands out from here: this many times the median CPU's wait, and this share of the window.
_SUFFERING_RATIO = 3.0
_SUFFERING_SHARE = 0.001


def _bands(figures: Figures, bounds: Sequence[int]) -> tuple[list[int], list[int]]:
    """Counts and estimated wait time, by band."""
    counts = [0] * len(bounds)
    times = [0] * len(bounds)
    band = 0
    for index, number in enumerate(figures.histogram[: histogram.OVERFLOW + 1]):
        while band + 1 < len(bounds) and histogram.LOWER[index] >= bounds[band + 1]:
            band += 1
        counts[band] += number
        times[band] += number * histogram.middle(index, figures.max_ns)
    return counts, times


def typical_wait(cpus: Sequence[CpuWaits], online: int | None) -> float:
    """The median CPU's total wait, in ns; online CPUs that are not listed waited 0."""
    waits = [cpu.figures.wait_ns for cpu in cpus]
    waits += [0] * max(0, min(online or 0, 1 << 16) - len(waits))
    if not waits:
        return 0.0
    from statistics import median

    return float(median(waits))


def heat_table(cpus: Sequence[CpuWaits], window: Window, style: Style, limit: int) -> list[str]:
    """Lines: up to `limit` CPUs, all by number, or those that wait most; one line for the others."""
    filtered = window.selection.cpus is not None
    typical = typical_wait(cpus, None if filtered else window.cpus)
    by_wait = sorted(cpus, key=lambda cpu: (-cpu.figures.wait_ns, cpu.cpu))
    shown = cpus if len(cpus) <= limit else by_wait[:limit]
    others = [] if len(cpus) <= limit else by_wait[limit:]
    rows = [(str(cpu.cpu), cpu.figures, cpu.figures.wait_ns / typical if typical else None) for cpu in shown]
    if others:
        rows.append((f"+{len(others)}", merged([cpu.figures for cpu in others]), None))
    titles: Sequence[str] = _TITLES
    for step in _STEPS:
        bounds = _BOUNDS[::step]
        titles = titles if step == 1 else ("<" + _TITLES[step], *_TITLES[step::step])
        bands = [_bands(figures, bounds) for _, figures, _ in rows]
        used = [band for band in range(len(bounds)) if any(counts[band] for counts, _ in bands)]
        span = range(min(used, default=0), max(used, default=-1) + 1)
        if _FIGURES + _BAND * len(span) <= page().columns:
            break
    # One CPU's heat is comparable to another's; the line of the others has its own scale.
    hottest = max((time for (_, times), _ in zip(bands, shown, strict=False) for time in times), default=0)
    columns = [
        Column("CPU", 6),
        Column("waits", 6),
        Column("total", 7),
        Column("share", 7),
        Column("median", 7),
        Column("max", 7),
        *(Column(titles[band] + " ", 5) for band in span),
    ]
    lines = []
    for (label, figures, ratio), (counts, times) in zip(rows, bands, strict=True):
        share = window.share(figures.wait_ns)
        idle_others = typical == 0 and len(cpus) < (window.cpus or 0)
        suffers = (
            not label.startswith("+")
            and share is not None
            and share >= _SUFFERING_SHARE
            and (idle_others or (ratio is not None and ratio >= _SUFFERING_RATIO))
        )
        scale = hottest if not label.startswith("+") else max(times)
        lines.append(
            [
                ("> " if suffers else "") + label,
                count(figures.waits),
                duration(figures.wait_ns),
                percent(share),
                "-" if ratio is None else f"x{ratio:.1f}" if ratio < 1000 else f"x{ratio:.0e}",
                duration(figures.max_ns),
                *(_cell(counts[band], times[band], scale, style) for band in span),
            ]
        )
    return table(columns, lines)


def _cell(number: int, time: int, hottest: int, style: Style) -> str:
    """A count and the shade of its wait time; anything at all is at least the faintest shade."""
    if not number:
        return "  "
    step = min(4, 1 + int(4 * time / hottest)) if hottest else 1
    return short_count(number) + style.shades[step]
