# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether a cache line that moves between CPUs costs enough to act on."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from lockline.base.values import dataclass
from lockline.c2c.join import spins_per_second
from lockline.c2c.model import C2cReport, LineReport
from lockline.c2c.verdict_case import SURE_TRANSFERS
from lockline.watch.estimate import transfer_rate
from lockline.watch.model import Rate
from lockline.watch.pairs import Pair

if TYPE_CHECKING:
    from lockline.c2c.live import LiveLine

# What a move takes where it was not measured: between cores of one socket 100 ns, between sockets about 300 ns.
LEAST_NS, MOST_NS = 100.0, 300.0
# Of one CPU's time.
WORTH_CPU = 0.01
# Of all HITM and peer snoops in the file: samples have no rate.
WORTH_PART = 0.05
# Verdicts that say that the line is no problem, or that nothing can be said.
HARMLESS = ("none", "read mostly")
UNKNOWN = "too little evidence"


@dataclass(frozen=True, slots=True)
class Worth:
    """acting: whether the line's moves cost WORTH_CPU or more, or of samples: whether it has WORTH_PART of them.

    known: whether the verdict is one.  moves: a second, None of samples.  at_least: a lower bound.  cpu: the most that
    the moves cost, of one CPU's time, None of samples.  move_ns: what that counts for a move; measured: between the
    line's CPUs.  part: of all transfers in the file, None of watched lines.  told: whether the source has amounts, not
    shares alone.
    """

    acting: bool
    known: bool
    moves: float | None
    at_least: bool
    cpu: float | None
    move_ns: float
    measured: bool
    part: float | None
    told: bool = True


def _move_ns(pairs: Sequence[Pair], cpus: Collection[int]) -> float | None:
    times = [pair.transfer_ns for pair in pairs if pair.first in cpus and pair.second in cpus]
    return max(times or [pair.transfer_ns for pair in pairs], default=None)


def _of_rate(report: LineReport, rate: Rate, move_ns: float | None) -> Worth:
    spins = spins_per_second(report.locks)
    moves = max(rate.per_second, spins)
    # Two standard errors above what was seen: the most that it costs.
    most = max(rate.per_second + 2 * (rate.error or 0.0), spins)
    each = move_ns or MOST_NS
    cpu = most * each / 1e9
    at_least = rate.at_least or spins > rate.per_second
    # That a line hardly moves is known of a rate alone, whatever its verdict.
    little = rate.error is not None and not at_least and cpu < WORTH_CPU
    known = report.judgement.verdict != UNKNOWN or little
    acting = report.judgement.verdict not in (*HARMLESS, UNKNOWN) and cpu >= WORTH_CPU
    return Worth(acting, known, moves, at_least, cpu, each, move_ns is not None, None)


def _of_samples(report: LineReport, everywhere: int) -> Worth:
    transfers = report.line.counts.transfers
    part = transfers / everywhere if everywhere else 0.0
    known = report.judgement.verdict != UNKNOWN
    harmless = report.judgement.verdict in HARMLESS
    # A store that misses has to fetch the line too, and of a line that is written more than read no load may tell.
    amount = transfers + (report.line.counts.store_l1_miss or 0)
    acting = known and not harmless and part >= WORTH_PART and amount >= SURE_TRANSFERS
    return Worth(acting, known, None, False, None, MOST_NS, False, part, not report.line.shares)


def worth_of_line(line: "LiveLine", pairs: Sequence[Pair], everywhere: int) -> Worth:
    """Of a line that was watched, or sampled; everywhere: all sampled transfers of the recording."""
    if line.transfers is None:
        return _of_samples(line.report, everywhere)
    cpus = {cpu for offset in line.offsets for cpu in range(offset.cpus.bit_length()) if offset.cpus >> cpu & 1}
    return _of_rate(line.report, line.transfers, _move_ns(pairs, cpus))


def worth_of_report(line: LineReport, report: C2cReport) -> Worth:
    """Of a line in a report of c2c data; the time of a move is not known there."""
    watch = line.line.watch
    if watch is None:
        return _of_samples(line, report.transfers)
    return _of_rate(line, transfer_rate(watch, (access.offset for access in line.line.located)), None)
