# SPDX-License-Identifier: GPL-2.0-or-later
"""A part of a recording as a recording of its own, also of one that is being written."""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from lockline.base.histogram import add_blob, empty, encode
from lockline.recording import rows
from lockline.recording.conditions import above, between
from lockline.recording.reader import Recording, Span
from lockline.recording.tables import TABLES
from lockline.recording.writer import write_recording

# What others refer to, or what is about the whole machine.
_WHOLE = ("kind", "lock", "cgroup", "container", "waiter", "stack", "frame", "btf", "cpu_pair")
_BY_INTERVAL = ("wait_interval", "sample_interval", "outlier")
# Signals whose tables have totals of the whole recording alone.
_LEFT_OUT = frozenset(
    {
        "futex waits",
        "sleeping lock holders",
        "spinlock holders",
        "spinlock hold times",
        "reads of a shared clock",
        "tracers that attach",
        "tracers that wait for tracees",
        "turns of wait_task_inactive",
        "memory samples (HITM)",
    }
)
_WHY = "it has totals of the whole recording alone, and this is a part of one"
# A wait's story begins before it.
_BEFORE_NS = 10_000_000_000

_SUMS = "sum(waits), sum(wait_ns), max(max_ns), sum(failed)"
_TOTALS = f"""
    INSERT INTO cell_total SELECT lock, kind, cpu, {_SUMS}, joined(histogram) FROM wait_interval
        GROUP BY lock, kind, cpu;
    INSERT INTO cpu_total SELECT cpu, kind, {_SUMS}, joined(histogram) FROM cell_total GROUP BY cpu, kind;
    INSERT INTO lock_total SELECT lock, kind, {_SUMS}, worst.cpu, worst.ns, joined(histogram) FROM cell_total JOIN
        (SELECT lock AS worst_lock, kind AS worst_kind, cpu, max(wait_ns) AS ns FROM cell_total
        GROUP BY lock, kind) AS worst
        ON worst_lock = lock AND worst_kind = kind GROUP BY lock, kind;
    INSERT INTO sample_total SELECT waiter, lock, kind, stack, user_stack, sum(samples), sum(waits), sum(wait_ns)
        FROM sample_interval GROUP BY waiter, lock, kind, stack, user_stack;
    DELETE FROM waiter WHERE id NOT IN (SELECT waiter FROM sample_interval UNION SELECT waiter FROM outlier
        UNION SELECT waiter FROM episode UNION SELECT holder FROM episode
        UNION SELECT task FROM timeline UNION SELECT other FROM timeline);
    DELETE FROM stack WHERE id NOT IN (SELECT stack FROM sample_interval UNION SELECT user_stack FROM sample_interval
        UNION SELECT stack FROM outlier UNION SELECT user_stack FROM outlier
        UNION SELECT stack FROM episode UNION SELECT holder_stack FROM episode UNION SELECT stack FROM timeline);
    DELETE FROM frame WHERE tgid <> 0 AND tgid NOT IN (SELECT tgid FROM stack);
    DELETE FROM lock WHERE id NOT IN (SELECT lock FROM wait_interval UNION SELECT lock FROM outlier
        UNION SELECT lock FROM episode UNION SELECT lock FROM timeline);
"""


class _Joined:
    """An aggregate: what histograms add up to."""

    def __init__(self) -> None:
        self._sum = empty()

    def step(self, blob: bytes) -> None:
        """One row's."""
        add_blob(self._sum, blob)

    def finalize(self) -> bytes:
        """All of them."""
        return encode(self._sum)


def _finish(connection: sqlite3.Connection) -> None:
    # The library's types have numbers alone.
    joined: Any = _Joined
    connection.create_aggregate("joined", 1, joined)
    connection.executescript(f"BEGIN; {_TOTALS} COMMIT;")


def _meta(recording: Recording, begin_ns: int, end_ns: int) -> Iterator[Sequence[Any]]:
    facts = recording.meta()
    old, unix = facts.get("begin_ns"), facts.get("begin_unix_ns")
    if isinstance(old, int) and isinstance(unix, int):
        facts["begin_unix_ns"] = unix + begin_ns - old
    for name in ("removed_until_ns", "thinned_outliers", "keep_ns", "max_bytes", "steal_begin_ns", "steal_end_ns"):
        facts.pop(name, None)
    rolled = facts.get("rolled_until_ns")
    if isinstance(rolled, int) and rolled <= begin_ns:
        del facts["rolled_until_ns"]
    facts |= {"begin_ns": begin_ns, "end_ns": end_ns, "state": "complete", "saved_from": Path(recording.path).name}
    return iter(facts.items())


def _probes(recording: Recording) -> Iterator[rows.Probe]:
    for probe in recording.probes():
        left_out = probe.signal in _LEFT_OUT and probe.state == "on"
        yield probe._replace(state="off", source="", reason=_WHY) if left_out else probe


def save_part(recording: Recording, span: Span, path: Path) -> None:
    """Write the intervals of a span, with their waits, samples and episodes, as a recording of its own.

    Totals are the sums of these intervals.  What the recording has as totals alone is left out, and its signals say so.
    Mode 0600; a recording that was there becomes FILE.old.  Raises LocklineError if it cannot be written.
    """
    intervals = [one for one in recording.intervals() if span[0] <= one.id <= span[1]]
    begin_ns, end_ns = min(one.begin_ns for one in intervals), max(one.end_ns for one in intervals)
    last = max((one.end_ns for one in recording.intervals()), default=end_ns) <= end_ns
    tables: dict[str, Iterable[Sequence[Any]]] = {
        "meta": _meta(recording, begin_ns, end_ns),
        "probe": _probes(recording),
        # Runs are those of the whole recording; what a run takes is the same.
        "program": (program._replace(runs=None) for program in recording.programs()),
        "loss": (loss._replace(meaning=f"{loss.meaning}; in the whole recording") for loss in recording.losses()),
        "interval": intervals,
    }
    tables |= {name: recording.table(TABLES[name].row) for name in _WHOLE}
    tables |= {name: recording.table(TABLES[name].row, between("interval", *span)) for name in _BY_INTERVAL}
    tables["episode"] = (
        one
        for one in recording.table(rows.Episode, above("begin_ns", begin_ns - _BEFORE_NS))
        if one.begin_ns + one.wait_ns >= begin_ns and one.begin_ns <= end_ns
    )
    tables["timeline"] = recording.table(TABLES["timeline"].row, between("time_ns", begin_ns - _BEFORE_NS, end_ns))
    if last:
        tables["open_wait"] = recording.table(TABLES["open_wait"].row)
    write_recording(path, tables, _finish)
