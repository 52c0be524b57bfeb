# SPDX-License-Identifier: GPL-2.0-or-later
"""A recording's waits as text, made in the database: a day of one host has hundreds of thousands of rows."""

from collections.abc import Iterator
from typing import NamedTuple

from lockline.recording.reader import Recording

_MAX_INTEGER = (1 << 63) - 1
_NUMBERS = ("interval", "cpu", "lock", "kind", "waits", "wait_ns", "max_ns", "failed")

# The columns of wait_lines().
WAIT_LINE = (*_NUMBERS, "histogram")


class _Text(NamedTuple):
    text: str


class _Count(NamedTuple):
    number: int


class ContainerWeight(NamedTuple):
    """What the samples of one cgroup, lock and kind stand for."""

    cgroup: int
    lock: int
    kind: int
    samples: int
    waits: int
    wait_ns: int


def wait_lines(recording: Recording, longest_ns: int) -> Iterator[str]:
    """wait_interval as lines of CSV, several in each text, without titles; the histogram in hexadecimal.

    Rows with a wait longer than longest_ns, or with negative figures, are left out.  Every value is a number or
    hexadecimal, whatever the file holds.  Raises RecordingError if the recording is damaged.
    """
    longest = int(min(longest_ns, _MAX_INTEGER))
    form = ",".join(["%d"] * len(_NUMBERS) + ["%s"])
    query = f"""
        SELECT group_concat(printf('{form}', {", ".join(_NUMBERS)}, hex(histogram)), char(10)) FROM wait_interval
        WHERE waits > 0 AND failed >= 0 AND max_ns BETWEEN 0 AND {longest} AND wait_ns BETWEEN 0 AND waits * {longest}
        GROUP BY interval, cpu"""
    return (row.text for row in recording.select(_Text, "wait_interval", query))


def wrong_types(recording: Recording) -> int:
    """Rows of wait_interval with a value of another type than its column's.  Raises RecordingError."""
    wrong = " OR ".join(f"typeof({name}) <> 'integer'" for name in _NUMBERS)
    query = f"SELECT count(*) FROM wait_interval WHERE {wrong} OR typeof(histogram) <> 'blob'"
    return next(iter(recording.select(_Count, "wait_interval", query))).number


def container_weights(recording: Recording) -> list[ContainerWeight]:
    """What samples stand for by cgroup, lock and kind; 0: the cgroup is not known.  Raises RecordingError."""
    query = """
        SELECT ifnull(waiter.cgroup, 0), lock, kind, SUM(samples), SUM(waits), SUM(wait_ns)
        FROM sample_total LEFT JOIN waiter ON waiter.id = sample_total.waiter
        WHERE samples >= 0 AND waits >= 0 AND wait_ns >= 0
        GROUP BY ifnull(waiter.cgroup, 0), lock, kind"""
    return list(recording.select(ContainerWeight, "sample_total", query))
