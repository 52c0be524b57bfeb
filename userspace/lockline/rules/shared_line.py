# SPDX-License-Identifier: GPL-2.0-or-later
"""The cache line that a lock lies on: whose use of it makes the lock's waits (lockline watch, record --hitm, --c2c)."""

from typing import TYPE_CHECKING

from lockline.analysis.findings import (
    Confidence,
    Fact,
    Finding,
    Impact,
    Line,
    Lock,
    Measure,
    Remedy,
    Text,
    Value,
    fact,
    ns,
    part,
    remedy,
)
from lockline.analysis.model import Report
from lockline.base.values import dataclass
from lockline.rules.common import ENOUGH_WAITS, THE_WINDOW, WORTH_TELLING, share
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

_LEVELS: tuple[Confidence, ...] = ("high", "medium", "low")
_CLAIMS = {
    "false sharing": "line-shared-falsely",
    "lock word": "line-of-lock-word",
    "true sharing": "line-shared-truly",
    "adjacent line": "line-with-neighbour",
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


def _lock(lock: "LockOnLine", kinds: bool = False) -> Lock:
    return Lock(lock.name, (", ".join(lock.kinds) or "spinlock") if kinds else "", lock.instance)


def _moves(case: _Case) -> Fact:
    rate = case.line.transfers
    counts = case.line.report.line.counts
    if rate is None or case.part is None:
        return fact(
            "line-sampled",
            source=Text(case.line.source) if case.line.source else None,
            hitm=Measure(counts.hitm, "HITM"),
            peer=Measure(counts.peer, "peer snoops"),
        )
    return fact(
        "line-moves",
        rate=Measure(
            rate.per_second,
            "per second",
            "moves between CPUs",
            error=rate.error or None,
            bound="at least" if rate.at_least else "",
        ),
        each=Measure(TRANSFER_NS, "ns", "a guess", bound="at most")
        if case.move_ns is None
        else Measure(case.move_ns, "ns", "measured between these CPUs"),
        part=Measure(case.part, "share", "the waiting", bound="at most"),
    )


def _shares(case: _Case) -> list[Fact]:
    parts = sorted(case.line.report.parts, key=lambda part: -part.share)
    what = "transfers" if case.line.watch is not None else case.line.report.cost_is
    paying = [one for one in parts if one.share >= PART]
    if not paying:
        return []
    values: dict[str, Value] = {}
    for number, one in enumerate(paying, 1):
        values |= {f"payer_{number}": Text(one.name), f"part_{number}": part(one.share, f"the line's {what}")}
    return [fact("line-paid-by", events=Text(what), **values)]


def _in_waits(case: _Case) -> list[Fact]:
    names = {lock.name for lock in case.locks}
    waits = [wait for wait in case.line.waits if wait.lock in names]
    records, transfers = (sum(getattr(wait, name) for wait in waits) for name in ("records", "transfers"))
    if not records:
        return []
    accesses = min(1.0, records / (case.line.report.line.counts.records or records))
    return [fact("seen-in-waits", part=part(accesses, "the accesses seen"), transfers=Measure(transfers, "transfers"))]


def _seen(case: _Case) -> list[Fact]:
    watch = case.line.watch
    if watch is None:
        return []
    shares = [offset.coverage for offset in case.line.offsets if offset.coverage is not None]
    return [
        fact(
            "watched",
            windows=Measure(len(watch.windows), "windows"),
            least=part(min(shares, default=0.0), "the time"),
            most=part(max(shares, default=0.0), "the time"),
            hits=Measure(watch.hits, "accesses"),
        )
    ]


def _doubts(case: _Case) -> tuple[list[Fact], int]:
    """Why it is not surer than it is, and by how many levels that lowers the verdict's confidence."""
    told = []
    if any(lock.join != "address" for lock in case.locks):
        told.append(fact("doubt-lock-by-name"))
    rate, watch = case.line.transfers, case.line.watch
    if rate is not None and rate.per_second and (rate.error is None or rate.error > rate.per_second / 2):
        told.append(fact("doubt-rate"))
    if watch is not None and len(watch.windows) < FEW_WINDOWS and watch.watched_ns < watch.span_ns / 2:
        told.append(fact("doubt-few-windows", windows=Measure(len(watch.windows), "windows")))
    if case.part is not None and case.move_ns is None and case.part < SURE_PART:
        told.append(fact("doubt-transfer-time"))
    lowers = len(told)
    judgement = case.line.report.judgement
    if case.line.report.cost < SURE_TRANSFERS and judgement.confidence != "high":
        told.append(
            fact(
                "doubt-few-transfers",
                seen=Measure(case.line.report.cost, "transfers"),
                enough=Measure(SURE_TRANSFERS, "transfers"),
            )
        )
    return [*told, *(fact("doubt", why=Text(doubt)) for doubt in judgement.doubts)], lowers


def _remedies(case: _Case) -> tuple[Remedy, ...]:
    advice = case.line.report.advice
    told = [text for text in (advice.text, advice.warning) if text] if advice is not None else []
    return (*(remedy("change-layout", how=Text(text)) for text in told), remedy("see-line-map"))


def _claim(case: _Case, lock: "LockOnLine") -> Fact:
    judgement = case.line.report.judgement
    members = tuple(Text(member.name) for member in judgement.members if not member.is_lock)
    return fact(_CLAIMS[judgement.verdict], lock=_lock(lock), members=members or None)


def _finding(report: Report, case: _Case) -> Finding:
    judgement = case.line.report.judgement
    lock = max(case.locks, key=lambda lock: lock.wait_ns or 0)
    evidence = [
        fact(
            "lock-on-line",
            waits=Measure(lock.waits or 0, "waits"),
            lock=_lock(lock, kinds=True),
            waiting=ns(lock.wait_ns or 0),
            part=part(share(report, lock.wait_ns or 0), THE_WINDOW),
        )
        for lock in sorted(case.locks, key=lambda lock: -(lock.wait_ns or 0))[:3]
    ]
    doubts, lowers = _doubts(case)
    evidence += [_moves(case), *_shares(case), *_in_waits(case), *_seen(case), *doubts]
    level = min(len(_LEVELS) - 1, _LEVELS.index(judgement.confidence) + lowers)
    return Finding(
        rule="shared-line",
        subject=Line(lock.name, lock.instance),
        confidence=_LEVELS[level],
        claim=_claim(case, lock),
        evidence=tuple(evidence),
        remedies=_remedies(case),
        impact=Impact(round(case.wait_ns * (1.0 if case.part is None else min(1.0, case.part)))),
    )


def find(report: Report) -> list[Finding]:
    """Lines that move, with locks on them that were waited for, where the moves can be a part of that waiting."""
    if report.lines is None:
        return []
    cases = [_case(report, line) for line in report.lines.lines if line.report.judgement.verdict in _CLAIMS]
    found = [_finding(report, case) for case in cases if case is not None]
    return sorted(found, key=lambda finding: -finding.impact.wait_ns)[:MOST_FINDINGS]
