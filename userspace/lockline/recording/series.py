# SPDX-License-Identifier: GPL-2.0-or-later
"""Waits by interval, summed up in the database: an hour of 256 CPUs has millions of rows."""

from collections.abc import Collection, Sequence

from lockline.base.values import NamedTuple
from lockline.recording.conditions import Condition, among, where
from lockline.recording.reader import Recording

_MAX_INTEGER = (1 << 63) - 1
# Intervals whose rows are counted to tell how many all have.
_COUNTED = 8


class IntervalSummary(NamedTuple):
    """Waits in one interval, and the locks of one name and kind that were waited for longest in it."""

    interval: int
    waits: int
    wait_ns: int
    spinning_ns: int
    name: str
    kind: int
    most_ns: int


class _Number(NamedTuple):
    number: int


def rows_of(recording: Recording, intervals: Sequence[int]) -> int:
    """About how many rows these intervals have: counted in some of them.  Raises RecordingError."""
    some = intervals[:: max(1, len(intervals) // _COUNTED)]
    if not some:
        return 0
    query = f"SELECT COUNT(*) FROM wait_interval{where(among('interval', some))}"
    counted = next(iter(recording.select(_Number, "wait_interval", query))).number
    return counted * len(intervals) // len(some)


def interval_summaries(
    recording: Recording,
    longest_ns: int,
    spinning: Collection[int],
    kinds: Sequence[int] | None = None,
    locks: Sequence[int] | None = None,
    intervals: Sequence[int] | None = None,
    named: bool = True,
) -> list[IntervalSummary]:
    """Of these intervals, kinds and locks, None: all; without rows that have a wait longer than longest_ns.

    spinning: kinds of spinning waits.  named False: waits and their time alone, one pass in the order of the table.
    Raises RecordingError if the recording is damaged.
    """
    possible = f"waits >= 0 AND wait_ns >= 0 AND max_ns BETWEEN 0 AND {int(min(longest_ns, _MAX_INTEGER))}"
    chosen = where(
        Condition(possible),
        None if kinds is None else among("kind", kinds),
        None if locks is None else among("lock", locks),
        None if intervals is None else among("interval", intervals),
    )
    if not named:
        sums = f"SELECT interval, SUM(waits), SUM(wait_ns), 0, '', 0, 0 FROM wait_interval{chosen} GROUP BY interval"
        return list(recording.select(IntervalSummary, "wait_interval", sums))
    spins = ", ".join(str(int(kind)) for kind in sorted(spinning)) or "NULL"
    query = f"""
        SELECT interval, SUM(waits), SUM(ns), SUM(CASE WHEN kind IN ({spins}) THEN ns ELSE 0 END), name, kind, MAX(ns)
        FROM (
            SELECT interval, COALESCE(known.name, '?') AS name, sums.kind AS kind, SUM(waits) AS waits, SUM(ns) AS ns
            FROM (
                SELECT interval, lock, kind, SUM(waits) AS waits, SUM(wait_ns) AS ns
                FROM wait_interval{chosen} GROUP BY interval, lock, kind) AS sums
            LEFT JOIN lock AS known ON known.id = sums.lock
            GROUP BY interval, COALESCE(known.name, '?'), sums.kind)
        GROUP BY interval"""
    return list(recording.select(IntervalSummary, "wait_interval", query))
