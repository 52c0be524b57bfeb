# SPDX-License-Identifier: GPL-2.0-or-later
"""Writers starved by readers, and the reverse."""

from lockline.analysis.findings import Confidence, Fact, Finding, Impact, Lock, Measure, Text, fact, ns, part, remedy
from lockline.analysis.model import LockWaits, Report
from lockline.rules.common import ENOUGH_WAITS, other_side_in, share, visitor, writers

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


def _waits(lock: LockWaits) -> Fact:
    p99 = lock.figures.percentile(0.99)
    return fact(
        "side-waits",
        waits=Measure(lock.figures.waits, "waits"),
        kind=Text(lock.kind),
        average=ns(lock.figures.average_ns),
        p99=None if p99 is None else ns(p99),
    )


def find(report: Report) -> list[Finding]:
    """One side waits at least five times as long as the other, and long enough to matter."""
    found = []
    for read, written in _pairs(report):
        for starved, other, writers_starve in ((written, read, True), (read, written, False)):
            if starved is None or starved.figures.waits < ENOUGH_WAITS:
                continue
            if share(report, starved.figures.wait_ns) < WORTH_TELLING:
                continue
            average = starved.figures.average_ns
            held = _held_by_readers(starved)
            evidence = [_waits(starved)]
            sure: Confidence = "medium"
            if other is not None and other.figures.waits >= ENOUGH_WAITS:
                if average < TIMES * max(other.figures.average_ns, 1):
                    continue
                evidence.append(
                    fact(
                        "other-side-waits",
                        waits=Measure(other.figures.waits, "waits"),
                        kind=Text(other.kind),
                        average=ns(other.figures.average_ns),
                    )
                )
            elif not writers_starve or held is None or held < 0.5:
                # One side alone tells nothing, unless its holders are known.
                continue
            evidence += [
                *writers(report, starved),
                *(visitor(report, starved) or other_side_in(report, starved)),
            ]
            if writers_starve and held is not None:
                evidence.append(fact("held-by-readers", part=part(held, "the waiting")))
                sure = "high" if held >= 0.5 else sure
            lock = Lock(starved.name, starved.kind)
            found.append(
                Finding(
                    rule="writer-starved" if writers_starve else "readers-starved",
                    subject=lock,
                    confidence=sure,
                    claim=fact("writers-starved", lock=lock) if writers_starve else fact("readers-starved", lock=lock),
                    evidence=tuple(evidence),
                    remedies=(
                        remedy("shorten-readers", lock=lock)
                        if writers_starve
                        else remedy("shorten-writers", lock=lock),
                    ),
                    impact=Impact(starved.figures.wait_ns),
                )
            )
    return found
