# SPDX-License-Identifier: GPL-2.0-or-later
"""The cache line that a lock lies on: whose use of it makes the lock's waits (lockline watch, record --hitm, --c2c)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockline.analysis.model import Finding, Report
from lockline.base.numbers import count, duration, percent
from lockline.rules.common import ENOUGH_WAITS, WORTH_TELLING, share
from lockline.watch.pairs import line_time

if TYPE_CHECKING:
    from lockline.c2c.live import LiveLine
    from lockline.c2c.model import LockOnLine

# Of the locks' waiting, or of all sampled transfers: less explains nothing.
PART = 0.05
# Where it was not measured: more than a line takes between two CPUs of most machines.
TRANSFER_NS = 1000.0
# Beyond that share of it a guess of that time does not matter.
SURE_PART = 10 * PART
# From so many on a verdict is not in doubt for their number (lockline.c2c.verdict).
SURE_TRANSFERS = 100
FEW_WINDOWS = 30
MOST_FINDINGS = 3

_LEVELS = ("high", "medium", "low")
_TITLES = {
    "false sharing": "{lock} shares its cache line with {others}: who uses these and who waits for it slow each other",
    "lock word": "The cache line of {lock} moves between its waiters: its own word, which no layout cures",
    "true sharing": "The cache line of {lock} moves for {others}, which the same code uses on several CPUs",
    "adjacent line": "The neighbour of {lock}'s cache line is written, and both are fetched together",
}


@dataclass(frozen=True, slots=True)
class _Case:
    """A line with the locks on it that were waited for."""

    line: "LiveLine"
    locks: tuple["LockOnLine", ...]
    wait_ns: int
    move_ns: float | None  # None: not measured
    part: float | None  # of the waiting that the line's moves can be, at most; None: not known of sampled lines


def _case(report: Report, line: "LiveLine") -> _Case | None:
    """The line, if its locks were waited for enough to speak of and its moves can be a part of that."""
    locks = tuple(lock for lock in line.report.locks if (lock.waits or 0) >= ENOUGH_WAITS)
    wait_ns = sum(lock.wait_ns or 0 for lock in locks)
    if not locks or share(report, wait_ns) < WORTH_TELLING:
        return None
    if line.transfers is None:
        everywhere = report.lines.c2c.transfers if report.lines is not None else 0
        sampled = line.report.line.counts.transfers
        return _Case(line, locks, wait_ns, None, None) if sampled >= PART * max(1, everywhere) else None
    cpus = {cpu for offset in line.offsets for cpu in range(offset.cpus.bit_length()) if offset.cpus >> cpu & 1}
    measured = line_time(report.cpu_pairs, cpus)
    moves = line.transfers.per_second * report.window.duration_ns / 1e9
    # A move while the lock is held makes all of its waiters wait.
    waiters = max(1.0, share(report, wait_ns))
    part = moves * (measured or TRANSFER_NS) * waiters / wait_ns
    return _Case(line, locks, wait_ns, measured, part) if part >= PART else None


def _name(lock: "LockOnLine") -> str:
    return (lock.name or "a lock") + (f" [{lock.instance}]" if lock.instance else "")


def _moves(case: _Case) -> str:
    rate = case.line.transfers
    counts = case.line.report.line.counts
    if rate is None or case.part is None:
        return f"{case.line.source or 'samples'}: {counts.hitm:,} HITM and {counts.peer:,} peer snoops on its line"
    least = "at least " if rate.at_least else ""
    error = f" +-{rate.error / rate.per_second:.0%}" if rate.error and rate.per_second else ""
    each = (
        f"at {duration(case.move_ns)} each, as measured between these CPUs,"
        if case.move_ns is not None
        else f"at {duration(TRANSFER_NS)} each, which is much,"
    )
    limit = "all" if case.part >= 1 else f"{percent(case.part)}"
    return (
        f"its line moves between CPUs {least}{count(round(rate.per_second))}{error} times a second: {each} that is up"
        f" to {limit} of this waiting"
    )


def _shares(case: _Case) -> str:
    parts = sorted(case.line.report.parts, key=lambda part: -part.share)
    told = [f"{part.name} pays {part.share:.0%}" for part in parts if part.share >= PART]
    word = "transfers" if case.line.watch is not None else case.line.report.cost_is
    return f"of the line's {word} {', '.join(told)}" if told else ""


def _in_waits(case: _Case) -> list[str]:
    names = {lock.name for lock in case.locks}
    waits = [wait for wait in case.line.waits if wait.lock in names]
    records, transfers = (sum(getattr(wait, name) for wait in waits) for name in ("records", "transfers"))
    if not records:
        return []
    part = min(1.0, records / (case.line.report.line.counts.records or records))
    return [f"{percent(part)} of the accesses seen, {transfers:,} transfers among them, were made while waiting for it"]


def _seen(case: _Case) -> list[str]:
    watch = case.line.watch
    if watch is None:
        return []
    shares = [offset.coverage for offset in case.line.offsets if offset.coverage is not None]
    low, high = percent(min(shares, default=0.0)), percent(max(shares, default=0.0))
    each = low if low == high else f"{low} to {high}"
    return [
        f"watched in {len(watch.windows):,} windows, each byte {each} of the time; {watch.hits:,} accesses were seen"
    ]


def _doubts(case: _Case) -> tuple[list[str], int]:
    """Why it is not surer than it is, and by how many levels that lowers the verdict's confidence."""
    told = []
    if any(lock.join != "address" for lock in case.locks):
        told.append("the lock is known to lie on the line by name or by code, not by its address")
    rate, watch = case.line.transfers, case.line.watch
    if rate is not None and rate.per_second and (rate.error is None or rate.error > rate.per_second / 2):
        told.append("how often the line moves is known to within a factor of two at best")
    if watch is not None and len(watch.windows) < FEW_WINDOWS and watch.watched_ns < watch.span_ns / 2:
        told.append(f"{len(watch.windows)} windows may have missed what happens in bursts")
    if case.part is not None and case.move_ns is None and case.part < SURE_PART:
        told.append("how long a line takes between these CPUs was not measured (lockline record --deep)")
    lowers = len(told)
    judgement = case.line.report.judgement
    if case.line.report.cost < SURE_TRANSFERS and judgement.confidence != "high":
        told.append(f"{case.line.report.cost:,} transfers were seen; from {SURE_TRANSFERS} on there is no doubt")
    return [*told, *judgement.doubts], lowers


def _next(case: _Case) -> tuple[str, ...]:
    advice = case.line.report.advice
    told = [text for text in (advice.text, advice.warning) if text] if advice is not None else []
    return (*told, "`lockline watch -i FILE` has the line's map, and who takes it from whom")


def _finding(report: Report, case: _Case) -> Finding:
    judgement = case.line.report.judgement
    lock = max(case.locks, key=lambda lock: lock.wait_ns or 0)
    others = [part.name for part in judgement.members if not part.is_lock] or ["what lies beside it"]
    evidence = [
        f"{count(lock.waits or 0)} waits for {_name(lock)} ({', '.join(lock.kinds) or 'spinlock'}) on this"
        f" line, {duration(lock.wait_ns or 0)}: {percent(share(report, lock.wait_ns or 0))} of the window"
        for lock in sorted(case.locks, key=lambda lock: -(lock.wait_ns or 0))[:3]
    ]
    evidence += [text for text in (_moves(case), _shares(case)) if text]
    evidence += _in_waits(case) + _seen(case)
    doubts, lowers = _doubts(case)
    evidence += [f"not surer: {doubt}" for doubt in doubts]
    level = min(len(_LEVELS) - 1, _LEVELS.index(judgement.confidence) + lowers)
    named = f"{', '.join(others[:-1])} and {others[-1]}" if len(others) > 1 else others[0]
    return Finding(
        rule="shared-line",
        title=_TITLES[judgement.verdict].format(lock=_name(lock), others=named),
        confidence=_LEVELS[level],
        evidence=tuple(evidence),
        next=_next(case),
        wait_ns=round(case.wait_ns * (1.0 if case.part is None else min(1.0, case.part))),
    )


def find(report: Report) -> list[Finding]:
    """Lines that move, with locks on them that were waited for, where the moves can be a part of that waiting."""
    if report.lines is None:
        return []
    cases = [_case(report, line) for line in report.lines.lines if line.report.judgement.verdict in _TITLES]
    found = [_finding(report, case) for case in cases if case is not None]
    return sorted(found, key=lambda finding: -finding.wait_ns)[:MOST_FINDINGS]
