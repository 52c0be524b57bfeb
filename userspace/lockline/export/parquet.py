# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes Parquet by DuckDB, which is loaded when it is asked for."""

import importlib
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import Any

from lockline.base.errors import LocklineError

COMPRESSION = "zstd"

Columns = tuple[tuple[str, str], ...]

# Of a wait by interval and CPU, as waits.py has them: name, and type in DuckDB's words.
WAIT_COLUMNS: Columns = (
    ("host", "VARCHAR"),
    ("boot_id", "VARCHAR"),
    ("kernel", "VARCHAR"),
    ("begin_utc", "VARCHAR"),
    ("second", "DOUBLE"),
    ("length_ns", "BIGINT"),
    ("cpu", "INTEGER"),
    ("lock", "VARCHAR"),
    ("kind", "VARCHAR"),
    ("waits", "BIGINT"),
    ("wait_ns", "BIGINT"),
    ("max_ns", "BIGINT"),
    ("failed", "BIGINT"),
)


def load_duckdb(what: str, extra: str) -> Any:
    """The module.  what: needs it; extra: of lockline, that has it.  Raises LocklineError if it is not installed."""
    try:
        return importlib.import_module("duckdb")
    except ImportError as error:
        raise LocklineError(
            f"{what} needs DuckDB, which is not installed; install it with: pip install 'lockline[{extra}]'"
        ) from error


class Instance:
    """An instance of DuckDB that several threads use, each in connections of its own; the first one starts it.

    To start and end one takes 40 ms of CPU, as much as to convert a small recording.  temporary: the directory for
    what does not fit into memory.
    """

    def __init__(self, duckdb: Any, temporary: Path) -> None:
        self._duckdb = duckdb
        self._config = {"threads": 1, "temp_directory": str(temporary)}
        self._first: Any = None
        self._lock = Lock()

    def connect(self) -> Any:
        """A connection with temporary tables of its own.  Raises DuckDB's errors."""
        with self._lock:
            self._first = self._first or self._duckdb.connect(config=self._config)
            return self._first.cursor()

    def __enter__(self) -> "Instance":
        return self

    def __exit__(self, *_: object) -> None:
        if self._first is not None:
            self._first.close()


def read_rows(connection: Any, source: Path, columns: Mapping[str, str], header: bool) -> Any:
    """The rows of a CSV file as a relation of DuckDB; columns: their names and types."""
    return connection.read_csv(
        str(source),
        header=header,
        auto_detect=False,
        columns=dict(columns),
        quotechar='"',
        escapechar='"',
        delimiter=",",
    )


def write_rows(relation: Any, target: Path) -> None:
    """Write a relation of DuckDB as a Parquet file."""
    relation.write_parquet(str(target), compression=COMPRESSION)
