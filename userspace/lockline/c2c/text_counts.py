# SPDX-License-Identifier: GPL-2.0-or-later
"""Counts per offset, recovered from the percentages of their line's totals that perf prints in their place.

A percentage has two decimals: of a total of up to 10,000 at most one whole number agrees with it.  Beyond that the
nearest is taken, so that the numbers of all offsets still add up to the total.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lockline.c2c.text_tables import Percent


@dataclass(frozen=True)
class Recovered:
    """Counts in the order of the percentages; exact: no other whole numbers agree with them.

    counts is None, and problem says why, where the percentages are not of this total.
    """

    counts: tuple[int, ...] | None
    exact: bool
    problem: str = ""


def _bounds(total: int, percent: Percent) -> tuple[int, int]:
    """The least and the greatest whole number that round to the percentage of the total; none if least > greatest."""
    whole = 200 * percent.scale
    least = -((total - 2 * total * percent.value) // whole)
    return max(0, least), min(total, (2 * total * percent.value + total) // whole)


def _nearest(total: int, percent: Percent) -> int:
    whole = 100 * percent.scale
    return (2 * total * percent.value + whole) // (2 * whole)


def recover(total: int, percents: Sequence[Percent]) -> Recovered:
    """Counts whose shares of the total are the percentages, never adding up to more than the total."""
    if not percents:
        return Recovered((), True)
    scale = max(percent.scale for percent in percents)
    shares = [percent.value * (scale // percent.scale) for percent in percents]
    # In units of half the last decimal: what rounding can make of the sum.
    slack = sum(scale // percent.scale for percent in percents)
    excess = 2 * sum(shares) - 200 * scale
    if excess > slack:
        return Recovered(None, False, f"percentages add up to {sum(shares) / scale:.2f} %")
    if total == 0:
        if any(shares):
            return Recovered((0,) * len(percents), False, "percentages of a total of 0")
        return Recovered((0,) * len(percents), True)
    bounds = [_bounds(total, percent) for percent in percents]
    problem = "" if all(least <= most for least, most in bounds) else f"percentages are not of a total of {total}"
    exact = not problem and all(least == most for least, most in bounds)
    counts = [_nearest(total, percent) for percent in percents]
    # Offsets that perf leaves out, or that a paste lacks, keep their part of the total.
    target = total if excess >= -slack else min(total, (2 * total * sum(shares) + 100 * scale) // (200 * scale))
    if not (exact and sum(counts) <= total):
        # What rounds to nothing is no evidence of anything: what is missing belongs to those that show a share.
        bounds = [
            (least, most if percent.value else 0) for (least, most), percent in zip(bounds, percents, strict=True)
        ]
        counts = _adjusted(counts, bounds, target)
        exact = False
    return Recovered(tuple(counts), exact, problem)


def whole_of(parts: Iterable[tuple[int, Percent]]) -> int | None:
    """What some counts are these shares of, within rounding; None if too few tell it, or they contradict each other."""
    least, most, told = 0.0, float("inf"), 0
    for count, share in parts:
        if count and share.value:
            told += 1
            least = max(least, 200 * share.scale * count / (2 * share.value + 1))
            most = min(most, 200 * share.scale * count / (2 * share.value - 1))
    return round((least + most) / 2) if told > 1 and least <= most else None


def _adjusted(counts: list[int], bounds: Sequence[tuple[int, int]], target: int) -> list[int]:
    """Counts moved within their bounds until they add up to the target; then below it, whatever their bounds."""
    missing = target - sum(counts)
    for i, (least, most) in enumerate(bounds):
        if not missing:
            break
        room = max(0, most - counts[i]) if missing > 0 else max(0, counts[i] - least)
        step = min(room, abs(missing))
        counts[i] += step if missing > 0 else -step
        missing += -step if missing > 0 else step
    # Bounds are whole numbers: together they may pass the total by up to one for each offset.
    for i in sorted(range(len(counts)), key=counts.__getitem__, reverse=True):
        if missing < 0 < counts[i]:
            counts[i] -= 1
            missing += 1
    return counts
