# SPDX-License-Identifier: GPL-2.0-or-later
"""The hardware's limits between pairs of CPUs, for people to read."""

from collections.abc import Sequence

from lockline.analysis.cpu_pairs import RELATIONS, CpuPair, Hardware
from lockline.base.text import Style, clean, pad, page

# Columns of a matrix: the CPU's number, then one of these for each CPU.
_HEAD = 10


_CELL = 8


_MOST_SHOWN = 10


def _matrix(pairs: Sequence[CpuPair], cpus: Sequence[int]) -> list[str]:
    cells = {(pair.first, pair.second): f"{pair.transfer_ns:.0f}" for pair in pairs}
    lines = [" " * _HEAD + "".join(pad(f"CPU {cpu}", _CELL, right=True) for cpu in cpus)]
    for row in cpus:
        line = pad(f"  CPU {row}", _HEAD)
        for column in cpus:
            line += pad(cells.get((min(row, column), max(row, column)), "-"), _CELL, right=True)
        lines.append(line)
    return lines


def _by_relation(pairs: Sequence[CpuPair], style: Style) -> list[str]:
    relations = [*RELATIONS, *sorted({pair.relation for pair in pairs} - set(RELATIONS))]
    lines = [f"  {'':24}{'pairs':>8}{'least':>8}{'median':>8}{'slowest':>9}"]
    for relation in relations:
        of_it = sorted(pair.transfer_ns for pair in pairs if pair.relation == relation)
        if of_it:
            least = min(pair.least_transfer_ns for pair in pairs if pair.relation == relation)
            median = of_it[len(of_it) // 2]
            name = pad(clean(relation, style), 24)
            lines.append(f"  {name}{len(of_it):8}{least:8.0f}{median:8.0f}{of_it[-1]:9.0f}")
    return lines


def _warps(hardware: Hardware) -> list[str]:
    readings = sum(pair.readings for pair in hardware.pairs)
    clocks = sorted((pair for pair in hardware.pairs if pair.warp_ns), key=lambda pair: -pair.warp_ns)
    counters = sorted((pair for pair in hardware.pairs if pair.counter_warp_ticks), key=lambda p: -p.counter_warp_ticks)
    if not clocks:
        lines = [f"Clocks: none was behind another one, in {readings:,} readings (CLOCK_MONOTONIC)."]
    else:
        lines = [f"Clocks: {len(clocks)} pairs whose readings go backwards from one CPU to the other:"]
        lines += [
            f"  CPU {pair.warp_behind} is up to {pair.warp_ns:,} ns behind "
            f"CPU {pair.first + pair.second - (pair.warp_behind or 0)}"
            for pair in clocks[:_MOST_SHOWN]
        ]
        lines.append("  A hand-off between them may look shorter or longer by so much.")
    if counters:
        worst = counters[0]
        ns = f" ({worst.counter_warp_ticks * 1e9 / hardware.counter_hz:,.0f} ns)" if hardware.counter_hz else ""
        lines.append(
            f"Counters: the {hardware.counter} of CPU {worst.counter_warp_behind} is up to "
            f"{worst.counter_warp_ticks:,} ticks{ns} behind another one; {len(counters)} pairs differ."
        )
    elif hardware.counter:
        lines.append(f"Counters: no {hardware.counter} was behind another one.")
    return lines


def render_hardware(hardware: Hardware, style: Style) -> list[str]:
    """A matrix of transfer times where it fits, else a line for each degree of nearness; then how clocks agree."""
    pairs = hardware.pairs
    cpus = sorted({cpu for pair in pairs for cpu in (pair.first, pair.second)})
    lines = ["Between CPUs: a cache line from one to the other, one way, median in ns"]
    if not pairs:
        why = "there is one CPU alone" if hardware.possible_pairs == 0 else "the CPUs were never free at the same time"
        return [lines[0], f"  not measured: {why}"]
    if _HEAD + _CELL * len(cpus) <= page().columns and hardware.chosen_pairs == hardware.possible_pairs:
        lines += _matrix(pairs, cpus)
    else:
        lines += _by_relation(pairs, style)
    fastest = min(pairs, key=lambda pair: pair.transfer_ns)
    slowest = max(pairs, key=lambda pair: pair.transfer_ns)
    least = min(pair.least_transfer_ns for pair in pairs)
    lines.append("")
    lines.append(
        f"Least {least:.1f} ns; medians from {fastest.transfer_ns:.1f} ns (CPUs {fastest.first} and {fastest.second}) "
        f"to {slowest.transfer_ns:.1f} ns (CPUs {slowest.first} and {slowest.second})."
    )
    if hardware.chosen_pairs < hardware.possible_pairs:
        lines.append(
            f"Chosen {hardware.chosen_pairs:,} of {hardware.possible_pairs:,} pairs of {hardware.cpus:,} CPUs: "
            "neighbours of each kind, first CPUs of caches, and some at random."
        )
    if len(pairs) < hardware.chosen_pairs:
        lines.append(f"{hardware.chosen_pairs - len(pairs)} pairs not measured: their CPUs were busy, or went offline.")
    return lines + _warps(hardware)
