# SPDX-License-Identifier: GPL-2.0-or-later
"""Brings a fleet's directory of an older schema to this one.

Each file is replaced by a rename, and the directory's marker last: a migration that was stopped can be run again.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from lockline.base.errors import LocklineError
from lockline.export.parquet import Instance, load_duckdb, write_rows
from lockline.fleet.gather import gather_all
from lockline.fleet.store import Place, aside, places, schema_of, sync, write_marker
from lockline.fleet.tables import SCHEMA

_ASIDE = ".migrated"


def _replace(connection: Any, file: Path, missing: tuple[str, ...]) -> None:
    """Add columns of empty text at the end, those that the file lacks."""
    relation = connection.read_parquet(str(file), hive_partitioning=False)
    added = [name for name in missing if name not in relation.columns]
    if added:
        aside = file.with_name(file.name + _ASIDE)
        write_rows(relation.project(", ".join(["*", *(f"'' AS {name}" for name in added)])), aside)
        aside.chmod(0o644)
        sync(aside)
        aside.replace(file)
        sync(file.parent)


def _release_and_role(connection: Any, place: Place) -> None:
    _replace(connection, place.path / "recordings.parquet", ("release", "role"))


# By the schema that a step begins with.
_STEPS: dict[int, Callable[[Any, Place], None]] = {1: _release_and_role}


def migrate(directory: Path) -> int:
    """Bring a directory to this schema, and gather its files for reports; gives the schema that it had.

    Raises LocklineError.
    """
    duckdb = load_duckdb("fleet", "fleet")
    old = schema_of(directory)
    try:
        with aside(directory) as own, Instance(duckdb, own) as instance:
            for schema in range(old, SCHEMA):
                with instance.connect() as connection:
                    for place in places(directory):
                        _STEPS[schema](connection, place)
                write_marker(directory, schema + 1)
            gather_all(instance, directory, {place.date for place in places(directory)})
    except (OSError, duckdb.Error) as error:
        raise LocklineError(f"{directory}: cannot be migrated: {str(error).splitlines()[0]}") from error
    return old
