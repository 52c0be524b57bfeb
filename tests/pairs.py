# SPDX-License-Identifier: GPL-2.0-or-later
"""How much a figure changes, from pairs of runs: an estimate and its interval, whatever the figures' distribution."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

CONFIDENCE_Z = 1.96  # of 95 %, two-sided


@dataclass(frozen=True)
class Change:
    """By how much a figure is larger with lockline, as a ratio minus 1.

    The median of all means of two rounds, and the ends of its interval of 95 % confidence.
    """

    estimate: float
    low: float
    high: float


def change(ratios: Sequence[float]) -> Change:
    """Wilcoxon's signed ranks: Hodges and Lehmann's estimate, and the interval that belongs to it."""
    n = len(ratios)
    means = sorted((one + other) / 2 for i, one in enumerate(ratios) for other in ratios[i:])
    outside = n * (n + 1) / 4 - CONFIDENCE_Z * math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
    first = max(0, math.floor(outside))
    return Change(*(math.expm1(value) for value in (statistics.median(means), means[first], means[-1 - first])))
