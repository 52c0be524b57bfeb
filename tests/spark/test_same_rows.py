# SPDX-License-Identifier: GPL-2.0-or-later
"""Every query of the fleet gives the same rows on DuckDB and on Spark, which runs in this machine."""

import io
import json
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from fleet_generator import Truth, host_days, record
from lockline.cli.main import main
from lockline.fleet.add import Told, add
from lockline.fleet.engine import SQL, DuckDb, Engine
from lockline.fleet.spark import Spark
from lockline.fleet.store import places
from program_recordings import API, HEAP, record_programs
from recording_generator import SECOND, RecordingBuilder

VIEWED = ("waited_locks", "waited_containers", "container_names", "view_host_locks", "view_lock_shares")
QUERIES = sorted(path.stem for path in SQL.glob("*.sql") if path.stem not in VIEWED)


def contained(path: Path) -> Path:
    """A recording with containers and a finding."""
    builder = RecordingBuilder(path, seconds=20, meta={"hostname": "web0000", "begin_unix_ns": 489_630 * 3600 * SECOND})
    builder.lock(1, "subsystem_0_lock")
    for interval in range(1, 21):
        builder.waits(interval, 0, 1, 0, [200_000_000] * 4)
    builder.insert("cgroup", [(7, "/pod")])
    builder.insert("container", [(7, "docker", "a" * 64, "shop", "", "", "", "", "", "", "path")])
    builder.waiter(1, "worker", cgroup=7)
    builder.insert("sample_total", [(1, 1, 0, 0, 0, 10, 80, 16_000_000_000)])
    return builder.finish()


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with six hosts and two days."""
    directory = tmp_path_factory.mktemp("fleet")
    recordings = [record(directory / f"{n}.data", day) for n, day in enumerate(host_days(Truth(hosts=6, locks=4)))]
    recordings.append(contained(directory / "contained.data"))
    begin_s = 489_630 * 3600
    recordings += [record_programs(directory / f"p{n}.data", n, (API, HEAP), begin_s=begin_s) for n in (1, 2)]
    outcomes = [one.outcome for one in add(directory / "fleet", map(str, recordings), Told(1.5), 1)]
    assert outcomes == ["added"] * 15
    return directory / "fleet"


def prepared(engine: Engine, fleet: Path, waited: str) -> Engine:
    placed = list(places(fleet))
    engine.read(placed)
    of_picked = (("recording", "VARCHAR"), ("side", "VARCHAR"), ("unit", "BIGINT"))
    hours = (("first_hour", "BIGINT"), ("end_hour", "BIGINT"))
    picked = [(place.recording, ("now", "before")[n % 2], n % 5, 489_626, 489_660) for n, place in enumerate(placed)]
    engine.put("picked", of_picked + hours, picked)
    engine.put("wanted", (("container", "VARCHAR"),), [("shop",)])
    engine.view("waited", waited)
    engine.view("known_containers", "container_names")
    engine.put(
        "judged",
        (("lock", "VARCHAR"), ("kind", "VARCHAR")),
        [("subsystem_0_lock", "spinlock"), ("subsystem_1_lock", "mutex")],
    )
    columns = (("program", "VARCHAR"), ("lock", "VARCHAR"), ("code", "VARCHAR"))
    engine.put("ranked", columns, [("api", "sessions_lock", ""), ("api", "lock", "write_log")])
    for name in ("host_locks", "lock_shares"):
        engine.view(name, f"view_{name}")
    return engine


@pytest.fixture(scope="module")
def spark() -> Iterator[Spark]:
    engine = Spark()
    yield engine
    engine.close()


def same(one: Any, other: Any) -> bool:
    """Equal, but for the last digits of sums that were added up in another order."""
    if isinstance(one, str) or one is None:
        return bool(one == other)
    return float(one) == pytest.approx(float(other), rel=1e-12)


def compared(found: list[tuple[Any, ...]], expected: list[tuple[Any, ...]]) -> None:
    assert len(found) == len(expected) > 0
    for row, other in zip(found, expected, strict=True):
        assert len(row) == len(other)
        assert all(map(same, row, other)), (row, other)


@pytest.mark.parametrize("waited", ["waited_locks", "waited_containers"])
@pytest.mark.parametrize("query", QUERIES)
def test_a_query_gives_the_same_rows(query: str, waited: str, fleet: Path, spark: Spark) -> None:
    duckdb = DuckDb(1)
    expected = prepared(duckdb, fleet, waited).run(query)
    compared(prepared(spark, fleet, waited).run(query), expected)
    duckdb.close()


@pytest.mark.parametrize("view", ["host_locks", "lock_shares"])
def test_a_view_gives_the_same_rows(view: str, fleet: Path, spark: Spark) -> None:
    duckdb = DuckDb(1)
    prepared(duckdb, fleet, "waited_locks")
    expected = duckdb.connection.execute(f"SELECT * FROM {view} ORDER BY ALL").fetchall()
    prepared(spark, fleet, "waited_locks")
    compared([tuple(row) for row in spark._sql(f"SELECT * FROM {view} ORDER BY ALL").collect()], expected)
    duckdb.close()


def answer(*arguments: object) -> Any:
    out = io.StringIO()
    with redirect_stdout(out):
        assert main(["fleet", *map(str, arguments), "--format", "json"]) in (0, 2)
    return json.loads(out.getvalue())


def alike(one: Any, other: Any) -> bool:
    """JSON values that are the same, but for the last digits of numbers."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(alike, one, other))
    return bool(one == (pytest.approx(other, rel=1e-9) if isinstance(other, float) else other))


@pytest.mark.parametrize(
    "arguments",
    [
        ("report", "--since", "24h"),
        ("report", "--container", "shop"),
        ("diff", "--before", "2025-11-09..2025-11-10", "--after", "2025-11-10..2025-11-11"),
    ],
)
def test_a_report_is_the_same(arguments: tuple[str, ...], fleet: Path) -> None:
    action, *options = arguments
    expected = answer(action, fleet, *options)
    assert alike(answer(action, fleet, *options, "--engine", "spark"), expected)
