# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes Parquet by DuckDB, which is loaded when it is asked for."""

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lockline.base.errors import LocklineError

COMPRESSION = "zstd"


def load_duckdb(what: str, extra: str) -> Any:
    """The module.  what: needs it; extra: of lockline, that has it.  Raises LocklineError if it is not installed."""
    try:
        return importlib.import_module("duckdb")
    except ImportError as error:
        raise LocklineError(
            f"{what} needs DuckDB, which is not installed; install it with: pip install 'lockline[{extra}]'"
        ) from error


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
