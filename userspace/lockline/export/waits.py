# SPDX-License-Identifier: GPL-2.0-or-later
"""A recording's waits as a table: one row for each interval, CPU, lock and kind, as CSV or Parquet."""

import csv
import io
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

from lockline.analysis.model import Report
from lockline.base.scratch import scratch
from lockline.base.text import Style, clean
from lockline.export.parquet import WAIT_COLUMNS, load_duckdb, read_rows, write_rows
from lockline.recording.reader import Recording

Row = tuple[str | int | float, ...]


def _harmless(text: str, style: Style) -> str:
    """A text that a spreadsheet does not take for a formula."""
    shown = clean(text, style)
    return f"'{shown}" if shown[:1] in ("=", "+", "-", "@") else shown


def rows_of(recording: Recording, report: Report, style: Style) -> Iterator[Row]:
    """The rows in order of time; second: begin of the interval, from the begin of the recording.

    Their sums are those of the report.  Raises RecordingError if the recording is damaged.
    """
    window, host = report.window, report.host
    kinds = recording.kinds()
    identities = {(lock, entry.kind): entry.name for entry in report.locks for lock in entry.ids}
    begin = window.begin_unix_ns
    since = (
        datetime.fromtimestamp(begin // 1_000_000_000, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        if begin is not None and begin < 1 << 62
        else ""
    )
    facts = (*(_harmless(text or "", style) for text in (host.name, host.boot_id, host.kernel_release)), since)
    names = {text: _harmless(text, style) for text in (*identities.values(), *kinds.values())}
    cpus = None if window.selection.cpus is None else set(window.selection.cpus)
    for interval in recording.intervals():
        if interval.end_ns <= window.begin_ns or interval.begin_ns >= window.end_ns:
            continue
        sums: defaultdict[tuple[int, str, str], list[int]] = defaultdict(lambda: [0, 0, 0, 0])
        for cell in recording.cells((interval.id, interval.id)):
            kind = kinds.get(cell.kind, f"kind {cell.kind}")
            lock = identities.get((cell.lock, kind))
            if lock is None or (cpus is not None and cell.cpu not in cpus) or min(cell.waits, cell.wait_ns) < 0:
                continue
            into = sums[cell.cpu, lock, kind]
            into[0] += cell.waits
            into[1] += cell.wait_ns
            into[2] = max(into[2], cell.max_ns)
            into[3] += cell.failed
        second = round((interval.begin_ns - window.recording_begin_ns) / 1e9, 9)
        for (cpu, lock, kind), figures in sorted(sums.items()):
            length = interval.end_ns - interval.begin_ns
            yield (*facts, second, length, cpu, names[lock], names.get(kind, kind), *figures)


def to_csv(rows: Iterator[Row]) -> bytes:
    """RFC 4180, with a line of titles, in UTF-8."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([name for name, _ in WAIT_COLUMNS])
    writer.writerows(rows)
    return text.getvalue().encode("utf-8", "replace")


def to_parquet(rows: Iterator[Row]) -> bytes:
    """The same columns as Parquet, written by DuckDB.  Raises LocklineError if DuckDB is not installed."""
    duckdb = load_duckdb("--format parquet", "export")
    with scratch() as directory:
        source, target = Path(directory) / "waits.csv", Path(directory) / "waits.parquet"
        source.write_bytes(to_csv(rows))
        with duckdb.connect() as connection:
            write_rows(read_rows(connection, source, dict(WAIT_COLUMNS), header=True), target)
        return target.read_bytes()
