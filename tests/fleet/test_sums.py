# SPDX-License-Identifier: GPL-2.0-or-later
"""The sums by hour are those of the waits by interval and CPU, to the last wait."""

import itertools
import random
import sqlite3
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

from lockline.base import histogram
from lockline.fleet import add as adding
from lockline.fleet.add import Told, add
from lockline.fleet.store import Place, places
from lockline.recording.bulk import LockSum, collected_sums, lock_sums
from lockline.recording.reader import open_recording
from recording_generator import SECOND, RecordingBuilder

HOUR_NS = 3600 * SECOND
LOCK_HOURS = """
    SELECT recording, host, weight, hour, observed_ns, lock, kind, sum(waits)::BIGINT, sum(wait_ns)::BIGINT,
        max(max_ns), sum(failed)::BIGINT
    FROM waits JOIN hours USING (recording, host, weight, hour) GROUP BY ALL ORDER BY ALL"""


def irregular(path: Path, seed: int) -> Path:
    """Intervals of many lengths over some hours, locks of one name, rows that no recording can have."""
    generator = random.Random(seed)
    begin = generator.randrange(489_000 * HOUR_NS, 489_001 * HOUR_NS)
    builder = RecordingBuilder(path, 0, meta={"hostname": "web", "begin_unix_ns": begin, "begin_ns": 7 * SECOND})
    now, spans = 7 * SECOND, []
    # As where older intervals became longer: their numbers have gaps.
    for interval in sorted(generator.sample(range(1, 400), 60)):
        length = generator.randrange(1, 600) * SECOND
        spans.append((interval, now, now + length))
        now += length
    builder.insert("interval", spans)
    builder.connection.execute("INSERT OR REPLACE INTO meta VALUES ('end_ns', ?)", (now,))
    for lock in range(1, 7):
        builder.lock(lock, f"lock_{lock % 4}")
    for interval, _, _ in spans:
        # Lock 9 and kind 77 have no name.
        for cpu, lock, kind in {
            tuple(map(generator.choice, (range(4), (1, 2, 3, 4, 5, 6, 9), (0, 1, 77)))) for _ in range(9)
        }:
            lengths = [int(generator.lognormvariate(9, 3)) for _ in range(generator.randrange(1, 30))]
            builder.waits(interval, cpu, lock, kind, lengths, failed=generator.randrange(3))
    impossible = [
        (spans[3][0], 9, 1, 0, 0, 0, 0, 0, b""),
        (spans[3][0], 9, 2, 0, 5, 9, 9, -1, b""),
        (spans[3][0], 9, 3, 0, 1, 7, 1 << 62, 0, b"\x01\x00\x01\x00\x00\x00"),
        (spans[3][0], 9, 4, 0, 1, -7, 7, 0, b"\x01\x00\x01\x00\x00\x00"),
        (spans[3][0], 9, 5, 0, 1, 1 << 61, 7, 0, b"\x01\x00\x01\x00\x00\x00"),
        # Of no interval.
        (5000, 0, 1, 0, 1, 7, 7, 0, b"\x01\x00\x01\x00\x00\x00"),
    ]
    builder.write_intervals()
    builder.insert("wait_interval", impossible)
    return builder.finish()


def added(directory: Path, recording: Path) -> Place:
    [one] = add(directory, [str(recording)], Told(1.5, intervals=True), 1)
    assert one.outcome == "added", one.why
    [place] = places(directory)
    return place


def rows_of(place: Place, table: str) -> str:
    return f"SELECT * FROM read_parquet('{place.path}/{table}.parquet', hive_partitioning=false)"


def summed_again(place: Place) -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
    """The rows of lock_hours and lengths, made of the waits by interval."""
    with duckdb.connect() as connection:
        for name in ("waits", "hours"):
            connection.execute(f"CREATE VIEW {name} AS {rows_of(place, name)}")
        hours = connection.execute(LOCK_HOURS).fetchall()
        lengths: dict[tuple[object, ...], list[int]] = {}
        for *key, blob in connection.execute(
            "SELECT recording, host, weight, hour, lock, kind, histogram FROM waits"
        ).fetchall():
            histogram.add_blob(lengths.setdefault(tuple(key), histogram.empty()), blob)
    return hours, sorted(
        (*key, bucket, count) for key, counts in lengths.items() for bucket, count in enumerate(counts) if count
    )


def stored(place: Place, table: str) -> list[tuple[object, ...]]:
    with duckdb.connect() as connection:
        return connection.execute(f"{rows_of(place, table)} ORDER BY ALL").fetchall()


def test_a_wait_that_was_read_while_it_was_written_keeps_its_time(tmp_path: Path) -> None:
    """Its time is in one interval, its count in the next."""
    builder = RecordingBuilder(tmp_path / "a.data", 0, meta={"begin_unix_ns": 489_000 * HOUR_NS, "begin_ns": 0})
    builder.insert("interval", [(1, 0, SECOND), (2, SECOND, 2 * SECOND)])
    builder.connection.execute("INSERT OR REPLACE INTO meta VALUES ('end_ns', ?)", (2 * SECOND,))
    builder.lock(1, "lock_1")
    builder.write_intervals()
    builder.insert("wait_interval", [(1, 0, 1, 0, 0, 5000, 4096, 0, b""), (2, 0, 1, 0, 1, 0, 0, 0, b"")])
    place = added(tmp_path / "fleet", builder.finish())
    with duckdb.connect() as connection:
        found = connection.execute(f"SELECT sum(waits), sum(wait_ns) FROM ({rows_of(place, 'lock_hours')})").fetchall()
    assert found == [(1, 5000)]


@pytest.mark.parametrize("seed", range(4))
def test_the_sums_by_hour_are_those_of_the_intervals(seed: int, tmp_path: Path) -> None:
    place = added(tmp_path / "fleet", irregular(tmp_path / "a.data", seed))
    hours, lengths = summed_again(place)
    assert len({row[3] for row in hours}) > 2
    assert stored(place, "lock_hours") == hours
    assert stored(place, "lengths") == lengths
    assert sum(row[7] for row in hours) == sum(row[7] for row in lengths)


def test_without_intervals_the_other_tables_are_the_same(tmp_path: Path) -> None:
    recording = irregular(tmp_path / "a.data", 9)
    place = added(tmp_path / "with", recording)
    assert [one.outcome for one in add(tmp_path / "without", [str(recording)], Told(1.5), 1)] == ["added"]
    [other] = places(tmp_path / "without")
    assert {file.stem for file in place.path.iterdir()} - {file.stem for file in other.path.iterdir()} == {"waits"}
    for file in other.path.iterdir():
        assert stored(other, file.stem) == stored(place, file.stem)


@pytest.mark.parametrize("seed", range(4))
def test_the_collector_sums_up_alike(seed: int, tmp_path: Path) -> None:
    with open_recording(irregular(tmp_path / "a.data", seed)) as recording:
        intervals = [(one.id, one.id // 90) for one in recording.intervals()]
        longest = 1 << 50
        found = collected_sums(recording, intervals, longest)
        assert found is not None
        expected = []
        for hour, members in itertools.groupby(intervals, key=lambda one: one[1]):
            ids = [interval for interval, _ in members]
            expected += [(hour, one) for one in lock_sums(recording, (ids[0], ids[-1]), 0, longest)]
        for hour in {hour for hour, _ in intervals}:
            assert sums([one for at, one in found if at == hour]) == sums([one for at, one in expected if at == hour])
        # One line has the sum of all.
        assert len(found) == len({(hour, one.lock, one.kind) for hour, one in found})
        assert collected_sums(recording, reversed(intervals), longest) is None


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE wait_interval SET histogram = x'040001'",
        "UPDATE wait_interval SET histogram = x'7b0001000000'",
        "UPDATE wait_interval SET histogram = 'text'",
        "UPDATE wait_interval SET kind = 'text' || kind",
        "UPDATE wait_interval SET wait_ns = 1.5",
        "UPDATE wait_interval SET waits = 4611686018427387904",
        "UPDATE wait_interval SET histogram = zeroblob(6000000) WHERE interval = (SELECT min(id) FROM interval)",
        "DROP TABLE wait_interval",
        "PRAGMA user_version",
    ],
)
def test_what_the_collector_cannot_read_is_read_without_it(change: str, tmp_path: Path) -> None:
    path = irregular(tmp_path / "a.data", 3)
    with sqlite3.connect(path) as connection:
        connection.execute(change)
    connection.close()
    with open_recording(irregular(tmp_path / "b.data", 3)) as recording:
        recording.path = str(path)
        found = collected_sums(recording, [(one.id, 1) for one in recording.intervals()], 1 << 50)
    assert (found is None) == (change != "PRAGMA user_version")


def test_many_locks_are_summed_up_in_parts(tmp_path: Path) -> None:
    builder = RecordingBuilder(tmp_path / "a.data", 4)
    builder.waits(1, 0, 1, 0, [100])
    builder.write_intervals()
    # The others are copies of this row.
    others = "WITH RECURSIVE n (i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 40000)"
    columns = "waits, wait_ns, max_ns, failed, histogram"
    builder.connection.execute(
        f"""{others} INSERT INTO wait_interval (interval, cpu, lock, kind, {columns})
            SELECT (i + 19999) / 20000, 0, (i - 1) % 20000 + 1, 0, {columns} FROM wait_interval, n"""
    )
    with open_recording(builder.finish()) as recording:
        found = collected_sums(recording, [(1, 7), (2, 7)], 1 << 50)
    assert found is not None
    assert len(found) == 40_000
    assert {one.lock for _, one in found} == set(range(1, 20_001))


@pytest.mark.parametrize("collector", [True, False])
def test_both_ways_give_the_same_tables(collector: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ways: list[bool] = []

    def spy(*arguments: Any) -> Any:
        found = collected_sums(*arguments) if collector else None
        ways.append(found is not None)
        return found

    monkeypatch.setattr(adding, "collected_sums", spy)
    place = added(tmp_path / "fleet", irregular(tmp_path / "a.data", 6))
    assert ways == [collector]
    hours, lengths = summed_again(place)
    assert stored(place, "lock_hours") == hours
    assert stored(place, "lengths") == lengths


def sums(found: list[LockSum]) -> dict[tuple[int, int], list[Any]]:
    """Everything that is added up, by lock and kind."""
    out: dict[tuple[int, int], list[Any]] = {}
    for one in found:
        into = out.setdefault((one.lock, one.kind), [0, 0, 0, 0, 0, histogram.empty()])
        for index, number in enumerate((one.rows, one.waits, one.wait_ns, one.failed)):
            into[index] += number
        into[4] = max(into[4], one.max_ns)
        histogram.add_blob(into[5], bytes.fromhex(one.histogram))
    return out


@pytest.mark.skipif(sys.version_info < (3, 11), reason="before Python 3.11 nothing limits values")
def test_histograms_that_are_too_long_for_one_value(tmp_path: Path) -> None:
    """As of a machine with very many CPUs: the sums are made of fewer intervals at once."""
    with open_recording(irregular(tmp_path / "a.data", 5)) as recording:
        span, longest = (1, 400), 1 << 50
        whole = lock_sums(recording, span, 0, longest)
        recording._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 2000)
        parts = lock_sums(recording, span, 0, longest)
    assert len(parts) > len(whole)
    assert sums(parts) == sums(whole)
