# SPDX-License-Identifier: GPL-2.0-or-later
"""Adds recordings to a fleet's directory: each one whole, or not at all."""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from lockline.base import histogram
from lockline.base.errors import LocklineError, RecordingError
from lockline.export.parquet import Instance, load_duckdb, read_rows, write_rows
from lockline.fleet.facts import Facts, Interval, read_facts
from lockline.fleet.gather import gather_all
from lockline.fleet.store import Place, aside, clean_up, make_store, place_of, publish
from lockline.fleet.tables import TABLES, Row, put_rows
from lockline.recording.bulk import WAIT_LINE, LockSum, check_rows, collected_sums, lock_sums, wait_lines
from lockline.recording.reader import Recording, open_recording

_COPY = 1 << 20
# Of one entry of a histogram, in hexadecimal: the bucket in two bytes, the count in four, the low ones first.
_ENTRY = 12
# What _hour_rows() gives.
_SUMMED = (("hour", "BIGINT"), *TABLES["lock_hours"][5:], ("histogram", "VARCHAR"))

Outcome = Literal["added", "there", "failed", "note"]


@dataclass(frozen=True, slots=True)
class Added:
    """What became of one recording; why: of one that failed, or what else there is to tell; date: of its directory."""

    path: str
    outcome: Outcome
    why: str = ""
    rows: int = 0
    date: str = ""


@dataclass(frozen=True, slots=True)
class Told:
    """What the user says of the recordings.

    weight: hosts, or time, that each stands for.  release, role: what runs on the hosts, in the user's words.
    intervals: whether the waits by interval and CPU are kept beside their sums by hour.
    """

    weight: float = 1.0
    release: str = ""
    role: str = ""
    intervals: bool = False


class _Sum:
    """What the waits for one lock in one hour add up to."""

    __slots__ = ("failed", "histogram", "max_ns", "wait_ns", "waits")

    def __init__(self) -> None:
        self.waits = self.wait_ns = self.max_ns = self.failed = 0
        self.histogram = histogram.empty()

    def add(self, one: LockSum) -> None:
        """Add what the database has summed up.  Raises ValueError if its histogram is damaged."""
        self.waits += one.waits
        self.wait_ns += one.wait_ns
        self.max_ns = max(self.max_ns, one.max_ns)
        self.failed += one.failed
        histogram.add_blob(self.histogram, bytes.fromhex(one.histogram))


def content_hash(path: Path) -> str:
    """What tells a recording from every other: a hash of its content, with the log that belongs to it."""
    digest = hashlib.sha256()
    for file in (path, path.with_name(path.name + "-wal")):
        if file.exists():
            with file.open("rb") as opened:
                while block := opened.read(_COPY):
                    digest.update(block)
    return digest.hexdigest()[:32]


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _head(recording: str, facts: Facts, weight: float) -> str:
    return f"{_literal(recording)} AS recording, {_literal(facts.host)} AS host, {weight!r}::DOUBLE AS weight"


def _write_small(connection: Any, made: Path, facts: Facts, head: str, told: Told) -> None:
    of_user = {"recordings": (told.release, told.role)}
    for name, found in facts.tables.items():
        rows = [row + of_user.get(name, ()) for row in found]
        if rows:
            columns = TABLES[name][3:]
            put_rows(connection, "small", columns, rows)
            write_rows(connection.sql(f"SELECT {head}, * FROM small"), made / f"{name}.parquet")


def _spans(intervals: Sequence[Interval]) -> Iterator[tuple[int, int, int]]:
    """Hour, first and last id of the intervals, ordered by id, that follow each other in one hour."""
    for hour, members in groupby(intervals, key=lambda one: one.hour):
        ids = [one.id for one in members]
        yield hour, ids[0], ids[-1]


def _parts(recording: Recording, facts: Facts) -> Iterable[tuple[int, LockSum]]:
    """Waits by hour, lock and kind, which add up."""
    intervals = sorted(facts.intervals, key=lambda one: one.id)
    if facts.complete:
        found = collected_sums(recording, ((one.id, one.hour) for one in intervals), facts.longest_ns)
        if found is not None:
            return found
    return (
        (hour, one)
        for hour, first, last in _spans(intervals)
        for one in lock_sums(recording, (first, last), facts.begin_ns, facts.longest_ns)
    )


def _hour_rows(recording: Recording, facts: Facts) -> tuple[list[Row], int]:
    """Waits by lock, kind and hour, with their histograms in hexadecimal; and how many rows of waits these are."""
    sums: dict[tuple[str, str, int], _Sum] = defaultdict(_Sum)
    rows = 0
    for hour, part in _parts(recording, facts):
        rows += part.rows
        sums[facts.locks.get(part.lock, "?"), facts.kinds.get(part.kind, f"kind {part.kind}"), hour].add(part)
    check_rows(recording, rows)
    return [
        (hour, lock, kind, one.waits, one.wait_ns, one.max_ns, one.failed, histogram.encode(one.histogram).hex())
        for (lock, kind, hour), one in sorted(sums.items(), key=lambda item: item[0])
    ], rows


def _write_sums(connection: Any, made: Path, recording: Recording, facts: Facts, head: str) -> int:
    """The tables of waits by hour; gives how many rows of waits they are of."""
    try:
        found, rows = _hour_rows(recording, facts)
    except ValueError as error:
        raise RecordingError(f"{recording.path}: the recording is damaged: histograms: {error}") from error
    if not found:
        return 0
    put_rows(connection, "summed", _SUMMED, found)
    put_rows(connection, "observed", TABLES["hours"][3:], facts.tables["hours"])
    selected = {
        "lock_hours": f"""
            SELECT {head}, hour, observed_ns, lock, kind, waits, wait_ns, max_ns, failed
            FROM summed JOIN observed USING (hour) ORDER BY lock, kind, hour""",
        "lengths": f"""
            WITH entries AS (
                SELECT hour, lock, kind, histogram,
                    unnest(range(length(histogram) // {_ENTRY})) * {_ENTRY} AS byte
                FROM summed)
            SELECT {head}, hour, lock, kind,
                ('0x' || substr(histogram, byte + 3, 2) || substr(histogram, byte + 1, 2))::BIGINT AS bucket,
                sum(('0x' || substr(histogram, byte + 11, 2) || substr(histogram, byte + 9, 2)
                    || substr(histogram, byte + 7, 2) || substr(histogram, byte + 5, 2))::BIGINT)::BIGINT AS waits
            FROM entries GROUP BY ALL ORDER BY lock, kind, hour, bucket""",
    }
    for name, query in selected.items():
        write_rows(connection.sql(query), made / f"{name}.parquet")
    return rows


def _write_waits(connection: Any, made: Path, source: Path, facts: Facts, head: str) -> None:
    """The table of waits by interval and CPU."""
    types = {name: "VARCHAR" if name == "histogram" else "BIGINT" for name in WAIT_LINE}
    raw = read_rows(connection, source, types, header=False)
    intervals = [(one.id, one.second, one.length_ns, one.hour) for one in facts.intervals]
    steps = (("id", "BIGINT"), ("second", "DOUBLE"), ("length_ns", "BIGINT"), ("hour", "BIGINT"))
    put_rows(connection, "steps", steps, intervals)
    named = (("id", "BIGINT"), ("name", "VARCHAR"))
    put_rows(connection, "locks", named, sorted(facts.locks.items()))
    put_rows(connection, "kinds", named, sorted(facts.kinds.items()))
    of_boot = ", ".join(
        f"{_literal(text)} AS {name}"
        for name, text in (("boot_id", facts.boot_id), ("kernel", facts.kernel), ("begin_utc", facts.begin_utc))
    )
    waited = f"""
        SELECT {head}, {of_boot}, steps.second, steps.length_ns, raw.cpu::INTEGER AS cpu,
            coalesce(locks.name, '?') AS lock, coalesce(kinds.name, 'kind ' || raw.kind) AS kind,
            sum(raw.waits)::BIGINT AS waits, sum(raw.wait_ns)::BIGINT AS wait_ns, max(raw.max_ns) AS max_ns,
            sum(raw.failed)::BIGINT AS failed, steps.hour,
            from_hex(coalesce(string_agg(raw.histogram, ''), '')) AS histogram
        FROM raw JOIN steps ON steps.id = raw.interval
        LEFT JOIN locks ON locks.id = raw.lock LEFT JOIN kinds ON kinds.id = raw.kind
        GROUP BY ALL"""
    write_rows(raw.query("raw", waited), made / "waits.parquet")


def _convert(instance: Instance, recording: Recording, made: Path, name: str, told: Told, facts: Facts) -> int:
    head = _head(name, facts, told.weight)
    with instance.connect() as connection:
        _write_small(connection, made, facts, head, told)
        rows = _write_sums(connection, made, recording, facts, head)
        if told.intervals and rows:
            source = made.parent / "waits.csv"
            with source.open("w", encoding="ascii") as file:
                for text in wait_lines(recording, facts.longest_ns):
                    file.write(text + "\n")
            _write_waits(connection, made, source, facts, head)
            source.unlink()
    return rows


def add_one(duckdb: Any, instance: Instance, directory: Path, path: str, told: Told) -> Added:
    """Add one recording by an instance of DuckDB; every failure of it is in what is given."""
    try:
        with open_recording(path) as recording:
            name = content_hash(Path(path))
            facts = read_facts(recording)
            place: Place = place_of(directory, facts.date, facts.host, name)
            if place.path.is_dir():
                return Added(path, "there", date=facts.date)
            with aside(directory) as own:
                made = own / "made"
                made.mkdir()
                rows = _convert(instance, recording, made, name, told, facts)
                return Added(path, "added" if publish(made, place) else "there", rows=rows, date=facts.date)
    except LocklineError as error:
        return Added(path, "failed", str(error))
    except OSError as error:
        return Added(path, "failed", f"{path}: cannot be added to {directory}: {error.strerror or error}")
    except duckdb.Error as error:
        reason = str(error).split("\n", 1)[0]
        return Added(path, "failed", f"{path}: cannot be added to {directory}: {reason}")


def add(directory: Path, paths: Iterable[str], told: Told, jobs: int) -> Iterator[Added]:
    """Add recordings, several at once, and give what became of each as it is done.

    Raises LocklineError if the directory cannot be used, or DuckDB is missing.
    """
    duckdb = load_duckdb("fleet", "fleet")
    make_store(directory)
    clean_up(directory)
    dates = set()
    with aside(directory) as own, Instance(duckdb, own) as instance:
        with ThreadPoolExecutor(jobs) as pool:
            for one in pool.map(lambda path: add_one(duckdb, instance, directory, path, told), paths):
                dates.add(one.date)
                yield one
        try:
            gather_all(instance, directory, dates - {""})
        except (OSError, duckdb.Error) as error:
            # The recordings are there; reports take longer.
            reason = str(error).split("\n", 1)[0]
            yield Added(str(directory), "note", f"{directory}: not gathered for reports: {reason}")
