# SPDX-License-Identifier: GPL-2.0-or-later
"""The tables of a fleet's directory: names, columns, and their types in DuckDB's words.  docs/fleet.md explains them.

Every row has the recording that it is of, its host, and the recording's weight.  Times are UTC; an hour is its number
since 1970.
"""

from collections.abc import Sequence
from typing import Any

from lockline.export.parquet import WAIT_COLUMNS, Columns

Row = tuple[str | int | float | None, ...]

# Schema 1 lacks recordings.release and recordings.role: fleet.migrate.
SCHEMA = 2

HOUR_NS = 3_600_000_000_000

_OF = (("recording", "VARCHAR"), ("host", "VARCHAR"), ("weight", "DOUBLE"))
_LOCK = (("lock", "VARCHAR"), ("kind", "VARCHAR"))
_FIGURES = (("waits", "BIGINT"), ("wait_ns", "BIGINT"))
# Of a wait, as `lockline export --format parquet` has it, less what _OF has.
_WAIT = tuple(column for column in WAIT_COLUMNS if column[0] != "host")

TABLES: dict[str, Columns] = {
    "recordings": (
        *_OF,
        ("date", "VARCHAR"),
        ("boot_id", "VARCHAR"),
        ("kernel", "VARCHAR"),
        ("kernel_version", "VARCHAR"),
        ("architecture", "VARCHAR"),
        ("cpu_model", "VARCHAR"),
        ("cpus", "BIGINT"),
        ("memory_bytes", "BIGINT"),
        ("lockline_version", "VARCHAR"),
        ("filter", "VARCHAR"),
        ("begin_unix_ns", "BIGINT"),
        ("end_unix_ns", "BIGINT"),
        ("observed_ns", "BIGINT"),
        *_FIGURES,
        ("lost", "BIGINT"),
        ("release", "VARCHAR"),
        ("role", "VARCHAR"),
    ),
    "hours": (*_OF, ("hour", "BIGINT"), ("observed_ns", "BIGINT")),
    "waits": (*_OF, *_WAIT, ("hour", "BIGINT"), ("histogram", "BLOB")),
    "lock_hours": (
        *_OF,
        ("hour", "BIGINT"),
        ("observed_ns", "BIGINT"),
        *_LOCK,
        *_FIGURES,
        ("max_ns", "BIGINT"),
        ("failed", "BIGINT"),
    ),
    "lengths": (*_OF, ("hour", "BIGINT"), *_LOCK, ("bucket", "BIGINT"), ("waits", "BIGINT")),
    "stacks": (*_OF, *_LOCK, ("stack", "VARCHAR"), ("frames", "VARCHAR"), ("samples", "BIGINT"), *_FIGURES),
    "holders": (
        *_OF,
        *_LOCK,
        ("comm", "VARCHAR"),
        ("releases", "BIGINT"),
        ("waits", "BIGINT"),
        ("caused_ns", "BIGINT"),
        ("max_caused_ns", "BIGINT"),
    ),
    "episodes": (
        *_OF,
        *_LOCK,
        ("begin_unix_ns", "BIGINT"),
        ("wait_ns", "BIGINT"),
        ("cpu", "BIGINT"),
        ("comm", "VARCHAR"),
        ("holder", "VARCHAR"),
        ("holder_state", "VARCHAR"),
    ),
    "lines": (
        *_OF,
        ("line", "VARCHAR"),
        ("named_by", "VARCHAR"),
        ("lines", "BIGINT"),
        ("records", "BIGINT"),
        ("loads", "BIGINT"),
        ("stores", "BIGINT"),
        ("hitm", "BIGINT"),
        ("peer", "BIGINT"),
    ),
    "findings": (
        *_OF,
        ("rule", "VARCHAR"),
        ("confidence", "VARCHAR"),
        ("finding", "VARCHAR"),
        ("wait_ns", "BIGINT"),
        ("waiters", "DOUBLE"),
    ),
    "containers": (
        *_OF,
        ("cgroup", "VARCHAR"),
        ("container", "VARCHAR"),
        ("image", "VARCHAR"),
        ("namespace", "VARCHAR"),
        ("pod", "VARCHAR"),
        ("unit", "VARCHAR"),
        *_LOCK,
        ("samples", "BIGINT"),
        *_FIGURES,
    ),
    # Of recordings that looked at programs (record --futex).  The hour is that in which the recording begins.
    "program_time": (*_OF, ("hour", "BIGINT"), ("observed_ns", "BIGINT")),
    "program_locks": (
        *_OF,
        ("hour", "BIGINT"),
        ("program", "VARCHAR"),
        ("lock", "VARCHAR"),
        ("code", "VARCHAR"),
        *_FIGURES,
        ("max_ns", "BIGINT"),
    ),
}


def put_rows(connection: Any, name: str, columns: Columns, made: Sequence[Row]) -> None:
    """Make a table of DuckDB of these rows."""
    selected = ", ".join(f"unnest(${at}::{kind}[]) AS {column}" for at, (column, kind) in enumerate(columns, 1))
    values = [list(column) for column in zip(*made, strict=True)] if made else [[] for _ in columns]
    connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS SELECT {selected}", values)
