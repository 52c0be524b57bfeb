# SPDX-License-Identifier: GPL-2.0-or-later
"""What runs the queries of sql/: DuckDB here; they are written in its words."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from lockline.base.errors import LocklineError
from lockline.export.parquet import Columns, load_duckdb
from lockline.fleet.gather import files_of
from lockline.fleet.store import Place
from lockline.fleet.tables import TABLES, Row, put_rows

SQL = Path(__file__).resolve().parent / "sql"
# Views of `fleet sql` beside the tables; view_NAME.sql has what they are.
VIEWS = ("host_locks", "lock_shares")
# Beyond this DuckDB writes to the disk.
MEMORY = "700MiB"

EVERY = tuple(TABLES)


@cache
def query_text(name: str) -> str:
    """The text of sql/NAME.sql."""
    return (SQL / f"{name}.sql").read_text(encoding="utf-8")


class Engine(Protocol):
    """Runs the queries over the files of some recordings.  Its methods raise LocklineError."""

    def read(self, places: Sequence[Place], tables: Sequence[str] = EVERY, alone: bool = False) -> None:
        """Make these tables of these recordings; they may have rows of others, unless alone."""

    def put(self, name: str, columns: Columns, rows: Sequence[Row]) -> None:
        """Make a table of these rows."""

    def view(self, name: str, query: str) -> None:
        """Make a view of the query sql/QUERY.sql."""

    def run(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of the query sql/QUERY.sql."""

    def close(self) -> None:
        """End."""


class DuckDb:
    """DuckDB in this process; instance: a connection whose instance of DuckDB this one shares."""

    def __init__(self, threads: int | None = None, instance: Any = None) -> None:
        self._duckdb = load_duckdb("fleet", "fleet")
        config: dict[str, Any] = {"memory_limit": MEMORY, "preserve_insertion_order": False}
        if threads is not None:
            config["threads"] = threads
        self.connection = self._duckdb.connect(config=config) if instance is None else instance.cursor()

    def _execute(self, text: str, values: Sequence[Any] = ()) -> Any:
        try:
            return self.connection.execute(text, list(values))
        except self._duckdb.Error as error:
            raise LocklineError(f"DuckDB: {str(error).splitlines()[0]}") from error

    def read(self, places: Sequence[Place], tables: Sequence[str] = EVERY, alone: bool = False) -> None:
        """See Engine."""
        for name, found in files_of(places, tables, alone).items():
            columns = TABLES[name]
            if found:
                listed = ", ".join("'" + file.replace("'", "''") + "'" for file in found)
                read = f"SELECT * FROM read_parquet([{listed}], hive_partitioning = false)"
                self._execute(f"CREATE OR REPLACE TEMP VIEW {name} AS {read}")
            else:
                empty = ", ".join(f"NULL::{kind} AS {column}" for column, kind in columns)
                self._execute(f"CREATE OR REPLACE TEMP VIEW {name} AS SELECT {empty} WHERE false")

    def put(self, name: str, columns: Columns, rows: Sequence[Row]) -> None:
        """See Engine."""
        put_rows(self.connection, name, columns, rows)

    def view(self, name: str, query: str) -> None:
        """See Engine."""
        self._execute(f"CREATE OR REPLACE TEMP VIEW {name} AS {query_text(query)}")

    def run(self, query: str) -> list[tuple[Any, ...]]:
        """See Engine."""
        rows: list[tuple[Any, ...]] = self._execute(query_text(query)).fetchall()
        return rows

    def close(self) -> None:
        """See Engine."""
        self.connection.close()

    def select(self, directory: Path, text: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        """The titles and rows of a user's query, which can read this directory and nothing else, and write nothing.

        Raises LocklineError.
        """
        duckdb = self._duckdb
        try:
            statements = duckdb.extract_statements(text)
        except duckdb.Error as error:
            raise LocklineError(f"sql: {str(error).splitlines()[0]}") from error
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise LocklineError("sql: give one SELECT; a fleet's directory is only read")
        folder = str(directory.resolve()).replace("'", "''")
        self._execute(f"SET allowed_directories = ['{folder}/']")
        self._execute("SET enable_external_access = false")
        self._execute("SET lock_configuration = true")
        try:
            found = self.connection.execute(statements[0])
            return [column[0] for column in found.description], found.fetchall()
        except duckdb.Error as error:
            raise LocklineError(f"sql: {' '.join(str(error).split(chr(10))[:1])}") from error
