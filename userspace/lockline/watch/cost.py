# SPDX-License-Identifier: GPL-2.0-or-later
"""What watching a line cost, beside what it was allowed."""

from lockline.base.values import dataclass
from lockline.watch.model import Watch


@dataclass(frozen=True, slots=True)
class WatchCost:
    """Of one line.

    cpu_ns: hits times what a hit costs, in each kind of window, None if that was not measured; cpu_share: of the time
    of all CPUs; in_windows: of the time of all CPUs while watchpoints were set, how much those that hit them lose.
    """

    cpu_ns: int | None
    cpu_share: float | None
    in_windows: float | None


def cost_of(watch: Watch, cpus: int | None) -> WatchCost:
    """The cost of watching a line on a machine of so many CPUs (None: not known)."""
    if not watch.hit_ns:
        return WatchCost(None, None, None)
    cost = watch.hits * watch.hit_ns
    if watch.told is not None and watch.told.hit_ns:
        # As if all of these wrote: what is read hits one watchpoint.
        cost += min(watch.told.hits, watch.hits) * (watch.told.hit_ns - watch.hit_ns)

    def share(ns: int) -> float | None:
        return cost / (ns * cpus) if ns > 0 and cpus else None

    return WatchCost(cost, share(watch.span_ns), share(watch.watched_ns))
