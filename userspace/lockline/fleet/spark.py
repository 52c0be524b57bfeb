# SPDX-License-Identifier: GPL-2.0-or-later
"""Spark runs the queries of sql/, translated by sqlglot: in this machine, or where SPARK_REMOTE says."""

import importlib
import os
from collections.abc import Sequence
from typing import Any

from lockline.base.errors import LocklineError
from lockline.export.parquet import Columns
from lockline.fleet.engine import EVERY, query_text
from lockline.fleet.gather import files_of
from lockline.fleet.store import Place
from lockline.fleet.tables import TABLES, Row

_TYPES = {"VARCHAR": "string", "BIGINT": "bigint", "INTEGER": "int", "DOUBLE": "double", "BLOB": "binary"}


def _load(name: str, extra: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise LocklineError(
            f"--engine spark needs {name.partition('.')[0]}, which is not installed; "
            f"install it with: pip install 'lockline[{extra}]'"
        ) from error


def translated(text: str) -> str:
    """A query of sql/ in Spark's words.  Raises LocklineError if sqlglot is missing."""
    sqlglot = _load("sqlglot", "fleet")
    [query] = sqlglot.transpile(text, read="duckdb", write="spark")
    return str(query)


class Spark:
    """A session of Spark; one of our own, in this machine, unless SPARK_REMOTE or spark-submit gives one."""

    def __init__(self) -> None:
        _load("sqlglot", "fleet")
        sql = _load("pyspark.sql", "spark")
        building = sql.SparkSession.builder.appName("lockline")
        if not os.environ.get("SPARK_REMOTE") and not os.environ.get("SPARK_ENV_LOADED"):
            building = building.master("local[*]").config("spark.ui.enabled", "false")
            building = building.config("spark.sql.shuffle.partitions", "4")
        try:
            self._session = building.getOrCreate()
        except Exception as error:
            reason = str(error).strip().splitlines()
            raise LocklineError(f"--engine spark: no session: {reason[0] if reason else error}") from error

    def _sql(self, text: str) -> Any:
        try:
            return self._session.sql(text)
        except Exception as error:
            raise LocklineError(f"Spark: {str(error).splitlines()[0]}") from error

    def read(self, places: Sequence[Place], tables: Sequence[str] = EVERY, alone: bool = False) -> None:
        """See Engine."""
        for name, found in files_of(places, tables, alone).items():
            schema = ", ".join(f"{column} {_TYPES[kind]}" for column, kind in TABLES[name])
            frame = (
                self._session.read.schema(schema).parquet(*found)
                if found
                else self._session.createDataFrame([], schema)
            )
            frame.createOrReplaceTempView(name)

    def put(self, name: str, columns: Columns, rows: Sequence[Row]) -> None:
        """See Engine."""
        schema = ", ".join(f"{column} {_TYPES[kind]}" for column, kind in columns)
        self._session.createDataFrame(list(rows), schema).createOrReplaceTempView(name)

    def view(self, name: str, query: str) -> None:
        """See Engine."""
        self._sql(translated(query_text(query))).createOrReplaceTempView(name)

    def run(self, query: str) -> list[tuple[Any, ...]]:
        """See Engine."""
        try:
            return [tuple(row) for row in self._sql(translated(query_text(query))).collect()]
        except LocklineError:
            raise
        except Exception as error:
            raise LocklineError(f"Spark: {str(error).splitlines()[0]}") from error

    def close(self) -> None:
        """See Engine."""
        self._session.stop()
