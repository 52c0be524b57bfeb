# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads how lines were watched: the tables watch and watch_* of a recording."""

from collections import defaultdict
from itertools import islice

from lockline.base.errors import RecordingError
from lockline.recording import memory_rows as rows
from lockline.recording.code import UNKNOWN_CODE, read_codes
from lockline.recording.reader import Recording
from lockline.watch.model import Comparison, Told, Transfer, Watch, Window

# Beyond what hours of windows make; a line has 64 bytes and few instructions.
MAX_LINES = 10_000
MAX_WINDOWS = 1_000_000
MAX_TRANSFERS = 200_000
MAX_COMPARISONS = 200_000
LINE_BYTES = 256
MAX_CPU = 1 << 16
_MAX_NS = 1 << 62
# Bits of watch_comparison.decoded.
_READS = 1
_WRITES = 2


def _damaged(recording: Recording, why: str) -> RecordingError:
    return RecordingError(f"{recording.path}: the recording is damaged: {why}")


def _windows(recording: Recording) -> dict[int, list[Window]]:
    found: defaultdict[int, list[Window]] = defaultdict(list)
    table = recording.table(rows.WatchWindow, order="line, begin_ns")
    for row in islice(table, MAX_WINDOWS):
        if min(row.length_ns, row.hits, row.lost, row.transfers, row.begin_ns) < 0 or row.begin_ns > _MAX_NS:
            raise _damaged(recording, f"a window of line {row.line} has negative figures")
        if row.length_ns > _MAX_NS or row.lost > row.hits or row.transfers > row.hits:
            raise _damaged(recording, f"a window of line {row.line} has impossible figures")
        found[row.line].append(
            Window(
                row.begin_ns,
                row.length_ns,
                row.offsets & (1 << 64) - 1,
                row.hits,
                row.lost,
                row.transfers,
                bool(row.cut),
                row.changed if row.changed in (0, 1) else -1,
            )
        )
    return found


def _transfers(recording: Recording) -> dict[int, list[rows.WatchTransfer]]:
    found: defaultdict[int, list[rows.WatchTransfer]] = defaultdict(list)
    table = recording.table(rows.WatchTransfer, order="transfers DESC")
    for row in islice(table, MAX_TRANSFERS):
        if row.transfers < 0 or not (0 <= row.cpu < MAX_CPU and 0 <= row.from_cpu < MAX_CPU):
            raise _damaged(recording, f"a transfer of line {row.line} has impossible figures")
        if not (-1 <= row.offset < LINE_BYTES and -1 <= row.from_offset < LINE_BYTES):
            raise _damaged(recording, f"a transfer of line {row.line} lies outside of it")
        found[row.line].append(row)
    return found


def _told(recording: Recording) -> dict[int, rows.WatchTold]:
    found = {}
    for row in islice(recording.table(rows.WatchTold), MAX_LINES):
        if min(row) < 0 or row.disagreed > row.compared or row.typed_hit_ns > _MAX_NS:
            raise _damaged(recording, f"how accesses of line {row.line} were told has impossible figures")
        found[row.line] = row
    return found


def _disagreeing(row: rows.WatchComparison, atomics_hit_both: bool) -> int:
    """Accesses of which the watchpoints say another thing; as watch_agree() of the collector."""
    read_differs = row.decoded & _WRITES if atomics_hit_both else not row.decoded & _READS
    return (row.only_read if read_differs else 0) + (0 if row.decoded & _WRITES else row.wrote)


def _differing(recording: Recording) -> dict[int, list[rows.WatchComparison]]:
    found: defaultdict[int, list[rows.WatchComparison]] = defaultdict(list)
    # arm64 tells an atomic instruction as one of both.
    both = recording.meta().get("architecture") != "aarch64"
    table = recording.table(rows.WatchComparison, order="line, code, decoded")
    for row in islice(table, MAX_COMPARISONS):
        if min(row.decoded, row.only_read, row.wrote) < 0:
            raise _damaged(recording, f"a comparison of line {row.line} has negative figures")
        if row.decoded and _disagreeing(row, both):
            found[row.line].append(row)
    for part in found.values():
        part.sort(key=lambda row: -_disagreeing(row, both))
    return found


def watched_lines(recording: Recording) -> frozenset[int]:
    """The lines that were watched, by id of memory_line."""
    return frozenset(row.line for row in islice(recording.table(rows.Watch), MAX_LINES))


def read_watches(recording: Recording) -> dict[int, Watch]:
    """How lines were watched, by id of memory_line.  Raises RecordingError if the recording is damaged."""
    watched = list(islice(recording.table(rows.Watch, order="line"), MAX_LINES))
    if not watched:
        return {}
    windows = _windows(recording)
    transfers = _transfers(recording)
    told = _told(recording)
    differing = _differing(recording)
    wanted = {code for part in transfers.values() for row in part for code in (row.from_code, row.code)}
    codes = read_codes(recording, wanted | {row.code for part in differing.values() for row in part})

    def make_told(line: int) -> Told | None:
        if line not in told:
            return None
        comparisons = (
            Comparison(
                codes.get(row.code, UNKNOWN_CODE),
                bool(row.decoded & _READS),
                bool(row.decoded & _WRITES),
                row.only_read,
                row.wrote,
            )
            for row in differing.get(line, ())
        )
        return Told(*told[line][1:], differing=tuple(comparisons))

    found = {}
    for row in watched:
        times = (row.begin_ns, row.end_ns, row.hit_ns)
        # No end yet is 0.
        ordered = not row.end_ns or row.begin_ns <= row.end_ns
        if not ordered or not all(0 <= time <= _MAX_NS for time in times) or not 0 <= row.budget <= 1:
            raise _damaged(recording, f"line {row.line} was watched for an impossible time or at an impossible cost")
        found[row.line] = Watch(
            target=row.target,
            lock=row.lock,
            lock_offset=row.lock_offset,
            type=row.type,
            type_offset=row.type_offset,
            type_from=row.type_from,
            access_from=row.access_from,
            budget=row.budget,
            begin_ns=row.begin_ns,
            end_ns=row.end_ns,
            hit_ns=row.hit_ns,
            ended=row.ended,
            windows=tuple(windows.get(row.line, ())),
            transfers=tuple(
                Transfer(
                    part.from_cpu,
                    part.from_offset,
                    codes.get(part.from_code, UNKNOWN_CODE),
                    part.cpu,
                    part.offset,
                    codes.get(part.code, UNKNOWN_CODE),
                    bool(part.write),
                    part.transfers,
                )
                for part in transfers.get(row.line, ())
            ),
            told=make_told(row.line),
        )
    return found
