# SPDX-License-Identifier: GPL-2.0-or-later
"""What describes a table: the class of its rows.  Everything that names columns is made from it.

A field is a column: its name, its type (int, str, bytes, float, with `| None` where it may be NULL), its place.
recording.sql is compared with these descriptions by a test.  Rows are NamedTuples, which are frozen as well, and made
several times faster than dataclasses: a report reads hundreds of thousands.
"""

from collections.abc import Callable, Mapping
from functools import cached_property
from types import UnionType
from typing import Any, TypeVar

from lockline.base.values import dataclass

SCHEMA_VERSION = 12
OLDEST_SCHEMA = 1

Row = TypeVar("Row", bound=tuple[Any, ...])


@dataclass(frozen=True, slots=True)
class Column:
    """A column; recordings before schema `since` lack it, and read as if it held `default`."""

    name: str
    field: str
    types: tuple[type, ...]
    since: int
    default: int | str | None


class Table:
    """A table; recordings before schema `since` lack it, and read as if it were empty.  row: the class of its rows."""

    def __init__(
        self,
        name: str,
        row: type,
        since: int,
        renamed: Mapping[str, str],
        added: Mapping[str, tuple[int, int | str | None]],
    ) -> None:
        self.name = name
        self.row = row
        self.since = since
        self._renamed = renamed
        self._added = added

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """Its columns, described when they are asked for: a report needs those of few tables."""
        return tuple(
            Column(self._renamed.get(field, field), field, types, *self._added.get(field, (self.since, None)))
            for field, types in accepted_types(self.row).items()
        )

    def present(self, schema: int) -> tuple[Column, ...]:
        """The columns that a recording of this schema has."""
        return tuple(column for column in self.columns if column.since <= schema)

    def select(self, schema: int) -> str:
        """What SELECT takes to make a row: all columns, in their order, with defaults of those that are missing."""
        return ", ".join(
            column.name if column.since <= schema else f"{_literal(column.default)} AS {column.name}"
            for column in self.columns
        )


# By name, and by the class of their rows.
TABLES: dict[str, Table] = {}
_BY_ROW: dict[type, Table] = {}


def _literal(value: int | str | None) -> str:
    if value is None:
        return "NULL"
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"


def accepted_types(row: type) -> dict[str, tuple[type, ...]]:
    """The types that each field of a row may have."""
    return {
        name: hint.__args__ if isinstance(hint, UnionType) else (hint,) for name, hint in row.__annotations__.items()
    }


def table(
    name: str,
    since: int = OLDEST_SCHEMA,
    columns: Mapping[str, str] | None = None,
    added: Mapping[str, tuple[int, int | str | None]] | None = None,
) -> Callable[[type[Row]], type[Row]]:
    """A class of rows describes this table, which schema `since` added.

    columns: names of columns, by field, where they differ.  added: by field, the later schema that added the column,
    and what stands for it in older recordings.
    """

    def decorate(row: type[Row]) -> type[Row]:
        TABLES[name] = _BY_ROW[row] = Table(name, row, since, columns or {}, added or {})
        return row

    return decorate


def table_of(row: type) -> Table:
    """The table that a class of rows describes."""
    return _BY_ROW[row]
