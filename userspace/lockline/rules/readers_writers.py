# SPDX-License-Identifier: GPL-2.0-or-later
"""Writers starved by readers, and the reverse."""

from lockline.analysis.model import Finding, LockWaits, Report
from lockline.base.numbers import count, duration, percent
from lockline.rules.common import ENOUGH_WAITS, share

# Average wait of one side over that of the other.
TIMES = 5.0
WORTH_TELLING = 0.01


def _pairs(report: Report) -> list[tuple[LockWaits | None, LockWaits | None]]:
    """(readers, writers) of each lock that has either kind of waits."""
    sides: dict[tuple[str, str, str], dict[str, LockWaits]] = {}
    for lock in report.locks:
        family, _, side = lock.kind.partition(":")
        if side in ("R", "W"):
            sides.setdefault((lock.name, family, lock.worst_instance if lock.instances == 1 else ""), {})[side] = lock
    return [(side.get("R"), side.get("W")) for side in sides.values()]


def _held_by_readers(lock: LockWaits) -> float | None:
    """What readers caused of the waiting for it; None if its holders were not recorded."""
    if not lock.holders or not lock.figures.wait_ns:
        return None
    return sum(holder.caused_ns for holder in lock.holders if holder.kind == "readers") / lock.figures.wait_ns


def find(report: Report) -> list[Finding]:
    """One side waits at least five times as long as the other, and long enough to matter."""
    found = []
    for readers, writers in _pairs(report):
        for starved, other, side, by in (
            (writers, readers, "Writers", "readers"),
            (readers, writers, "Readers", "writers"),
        ):
            if starved is None or starved.figures.waits < ENOUGH_WAITS:
                continue
            if share(report, starved.figures.wait_ns) < WORTH_TELLING:
                continue
            average = starved.figures.average_ns
            held = _held_by_readers(starved)
            evidence = [
                (
                    f"{count(starved.figures.waits)} waits of {starved.kind}, {duration(average)} on average,"
                    f" p99 {duration(starved.figures.percentile(0.99))}"
                )
            ]
            sure = "medium"
            if other is not None and other.figures.waits >= ENOUGH_WAITS:
                if average < TIMES * max(other.figures.average_ns, 1):
                    continue
                evidence.append(
                    f"{count(other.figures.waits)} waits of {other.kind}, {duration(other.figures.average_ns)} each"
                )
            elif side == "Readers" or held is None or held < 0.5:
                # One side alone tells nothing, unless its holders are known.
                continue
            if side == "Writers" and held is not None:
                evidence.append(f"readers held it for {percent(held)} of that time")
                sure = "high" if held >= 0.5 else sure
            found.append(
                Finding(
                    rule="writer-starved" if side == "Writers" else "readers-starved",
                    title=f"{side} of {starved.name} are starved by {by}",
                    confidence=sure,
                    evidence=tuple(evidence),
                    next=(
                        f"shorten what the {by} do with the lock held, or take them off it"
                        + (" (RCU, per-object locks)" if by == "readers" else ""),
                    ),
                    wait_ns=starved.figures.wait_ns,
                )
            )
    return found
