# SPDX-License-Identifier: GPL-2.0-or-later
"""A recording's waits, summed up or made text in the database: a day of one host has hundreds of thousands of rows."""

import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from lockline.base.collector import spawn
from lockline.base.errors import LocklineError, RecordingError
from lockline.base.values import NamedTuple
from lockline.recording.conditions import between
from lockline.recording.connection import damaged
from lockline.recording.reader import Recording, Span

_MAX_INTEGER = (1 << 63) - 1
_NUMBERS = ("interval", "cpu", "lock", "kind", "waits", "wait_ns", "max_ns", "failed")

# Bytes of one entry of a histogram.
_ENTRY = 6

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


class LockSum(NamedTuple):
    """Waits for one lock and kind in some intervals; rows: of wait_interval; histogram: its entries in hexadecimal."""

    lock: int
    kind: int
    rows: int
    waits: int
    wait_ns: int
    max_ns: int
    failed: int
    histogram: str


def _possible(longest_ns: int) -> str:
    """The condition for rows of wait_interval without longer waits, and negative figures."""
    longest = int(min(longest_ns, _MAX_INTEGER))
    # One that was read while a wait was written has that wait's time in one interval, and its count in the next.
    most = f"(waits + 1) * {longest}"
    return f"waits >= 0 AND failed >= 0 AND max_ns BETWEEN 0 AND {longest} AND wait_ns BETWEEN 0 AND {most}"


def lock_sums(recording: Recording, span: Span, begin_ns: int, longest_ns: int) -> list[LockSum]:
    """wait_interval summed up by lock and kind, of the intervals of a span of ids that begin at begin_ns or later.

    Rows that wait_lines() leaves out are left out, and those that are damaged: check_rows() finds them.  Raises
    RecordingError if the recording is damaged.
    """
    query = f"""
        SELECT lock, kind, count(*), sum(waits), sum(wait_ns), max(max_ns), sum(failed),
            group_concat(hex(histogram), '')
        FROM interval CROSS JOIN wait_interval ON wait_interval.interval = interval.id
        WHERE {between("interval.id", *span).sql} AND end_ns > begin_ns AND begin_ns >= {int(begin_ns)}
            AND {_possible(longest_ns)} AND waits <= {_MAX_INTEGER} AND failed <= {_MAX_INTEGER}
            AND length(histogram) % {_ENTRY} = 0
        GROUP BY lock, kind"""
    try:
        return list(recording.select(LockSum, "wait_interval", query))
    except RecordingError:
        # The histograms of a large machine may be too long for one value.
        if span[0] >= span[1]:
            raise
    middle = (span[0] + span[1]) // 2
    parts = (span[0], middle), (middle + 1, span[1])
    return [one for part in parts for one in lock_sums(recording, part, begin_ns, longest_ns)]


def collected_sums(
    recording: Recording, hours: Iterable[tuple[int, int]], longest_ns: int
) -> list[tuple[int, LockSum]] | None:
    """What lock_sums() gives, by hour, made by lockline-collect, which takes a third of the time.

    hours: id and hour of intervals, by id.  None: there is no lockline-collect, or it cannot read the recording; what
    is wrong with it lock_sums() finds.  The recording must be complete: it is opened once more.
    """
    text = "".join(f"{interval} {hour}\n" for interval, hour in hours)
    command = ("sums", str(Path(recording.path).absolute()), str(int(min(longest_ns, _MAX_INTEGER))))
    try:
        with spawn(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            found, _ = process.communicate(text.encode("ascii"))
        if process.returncode:
            return None
        sums = []
        for line in found.decode("ascii").splitlines():
            hour, lock, kind, rows, waits, wait_ns, max_ns, failed, entries = line.split(" ")
            numbers = map(int, (lock, kind, rows, waits, wait_ns, max_ns, failed))
            sums.append((int(hour), LockSum._make((*numbers, entries))))
    except (LocklineError, OSError, ValueError):
        return None
    return sums


def check_rows(recording: Recording, summed: int) -> None:
    """Raise RecordingError if rows that lock_sums() left out are damaged; summed: those that it did not."""
    [rows] = recording.select(_Count, "wait_interval", "SELECT count(*) FROM wait_interval")
    if rows.number == summed:
        return
    wrong = " OR ".join(f"typeof({name}) <> 'integer'" for name in _NUMBERS)
    of_types = f"SELECT count(*) FROM wait_interval WHERE {wrong} OR typeof(histogram) <> 'blob'"
    of_entries = f"SELECT count(*) FROM wait_interval WHERE length(histogram) % {_ENTRY} <> 0"
    for query, what in ((of_types, "hold no numbers"), (of_entries, "have broken histograms")):
        [found] = recording.select(_Count, "wait_interval", query)
        if found.number:
            raise damaged(recording.path, f"{found.number} rows of wait_interval {what}")


def wait_lines(recording: Recording, longest_ns: int) -> Iterator[str]:
    """wait_interval as lines of CSV, several in each text, without titles; the histogram in hexadecimal.

    Rows with a wait longer than longest_ns, or with negative figures, are left out.  Every value is a number or
    hexadecimal, whatever the file holds.  Raises RecordingError if the recording is damaged.
    """
    form = ",".join(["%d"] * len(_NUMBERS) + ["%s"])
    query = f"""
        SELECT group_concat(printf('{form}', {", ".join(_NUMBERS)}, hex(histogram)), char(10)) FROM wait_interval
        WHERE {_possible(longest_ns)} GROUP BY interval, cpu"""
    return (row.text for row in recording.select(_Text, "wait_interval", query))


def container_weights(recording: Recording) -> list[ContainerWeight]:
    """What samples stand for by cgroup, lock and kind; 0: the cgroup is not known.  Raises RecordingError."""
    query = """
        SELECT ifnull(waiter.cgroup, 0), lock, kind, SUM(samples), SUM(waits), SUM(wait_ns)
        FROM sample_total LEFT JOIN waiter ON waiter.id = sample_total.waiter
        WHERE samples >= 0 AND waits >= 0 AND wait_ns >= 0
        GROUP BY ifnull(waiter.cgroup, 0), lock, kind"""
    return list(recording.select(ContainerWeight, "sample_total", query))
