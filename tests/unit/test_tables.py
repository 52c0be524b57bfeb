# SPDX-License-Identifier: GPL-2.0-or-later
"""The description of the tables is recording.sql's, and the only one: SQL stands in lockline.recording alone."""

import ast
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from lockline.base.errors import RecordingError
from lockline.c2c.model import Counts
from lockline.recording import memory_rows, rows
from lockline.recording.conditions import Condition, above, among, at_most_bytes, between, either, equal, where
from lockline.recording.reader import Recording
from lockline.recording.tables import OLDEST_SCHEMA, SCHEMA_VERSION, TABLES, Table
from recording_generator import SCHEMA

PACKAGE = Path(__file__).resolve().parents[2] / "userspace" / "lockline"
SQL_TYPES = {int: "INTEGER", str: "TEXT", bytes: "BLOB", float: "REAL"}
# Keywords in capitals, as our queries have them.
SQL = re.compile(r"\b(SELECT|FROM|WHERE|ORDER BY|GROUP BY|INSERT INTO|LIMIT|BETWEEN|PRAGMA)\b")


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    """A recording without rows."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as made:
        made.executescript(SCHEMA.read_text())
        yield made


def test_every_table_and_every_column_is_described(connection: sqlite3.Connection) -> None:
    names = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    assert sorted(names) == sorted(TABLES)
    for name in names:
        wanted = [
            # What is in a primary key is never NULL.
            (column, kind, not (not_null or key))
            for _, column, kind, not_null, _, key in connection.execute(f"PRAGMA table_info({name})")
        ]
        described = [
            (column.name, SQL_TYPES[column.types[0]], type(None) in column.types) for column in TABLES[name].columns
        ]
        if name == "meta":
            # A fact is a number or a text: the column has no type.
            assert wanted.pop() == ("value", "", True)
            assert described.pop() == ("value", "TEXT", True)
        assert described == wanted, name


def test_the_version_is_the_schemas(connection: sqlite3.Connection) -> None:
    assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
    added = {column.since for table in TABLES.values() for column in table.columns}
    assert added == set(range(OLDEST_SCHEMA, SCHEMA_VERSION + 1))


def test_what_is_counted_of_accesses_are_the_columns() -> None:
    assert Counts._fields == (*memory_rows.FIGURES, "watched")


class Grown(NamedTuple):
    """A row that later schemas added columns to."""

    id: int
    waits: int | None
    comm: str


def test_columns_that_an_older_recording_lacks_have_their_defaults(connection: sqlite3.Connection) -> None:
    grown = Table("grown", Grown, 2, {"waits": "count"}, {"waits": (3, None), "comm": (4, "it's not known")})
    connection.execute("CREATE TABLE grown (id INTEGER)")
    connection.execute("INSERT INTO grown VALUES (7)")
    assert [column.name for column in grown.present(2)] == ["id"]
    assert connection.execute(f"SELECT {grown.select(2)} FROM grown").fetchall() == [(7, None, "it's not known")]
    connection.execute("ALTER TABLE grown ADD count INTEGER")
    connection.execute("UPDATE grown SET count = 2")
    assert connection.execute(f"SELECT {grown.select(3)} FROM grown").fetchall() == [(7, 2, "it's not known")]


def test_a_value_of_another_type_is_one_line(connection: sqlite3.Connection) -> None:
    connection.execute("INSERT INTO kind VALUES (1, x'00')")
    with pytest.raises(RecordingError, match=r"^x: the recording is damaged: kind\.name holds bytes$"):
        list(Recording("x", connection, SCHEMA_VERSION).table(rows.Kind))


def test_conditions(connection: sqlite3.Connection) -> None:
    connection.executemany("INSERT INTO stack VALUES (?, 0, ?)", [(number, b"\0" * 8 * number) for number in range(5)])

    def found(*conditions: Condition | None) -> list[int]:
        return [row.id for row in Recording("x", connection, 4).table(rows.Stack, *conditions, order="id")]

    assert found() == found(None) == [0, 1, 2, 3, 4]
    assert found(among("id", [1, 3, 9])) == [1, 3]
    assert found(among("id", [])) == []
    assert found(between("id", 1, 3), above("id", 1)) == [2, 3]
    assert found(at_most_bytes("frames", 8)) == [0, 1]
    assert found(either(among("id", [0]), among("id", [4])), between("id", 1, 9)) == [4]
    assert where() == ""
    connection.execute("INSERT INTO kind VALUES (1, 'it''s')")
    kinds = Recording("x", connection, 4).table(rows.Kind, equal("name", "it's"))
    assert [row.id for row in kinds] == [1]


def strings_of(path: Path) -> list[str]:
    """The strings of a module, but for its documentation."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    notes = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    return [
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in notes
    ]


def test_sql_stands_in_one_place() -> None:
    """Of recordings beside their description, of fleets beside theirs; help and options show users a SELECT."""
    shown = {PACKAGE / "cli" / "help.py", PACKAGE / "cli" / "fleet.py"}
    rooms = {PACKAGE / "recording", PACKAGE / "fleet"}
    elsewhere = [path for path in PACKAGE.rglob("*.py") if path.parent not in rooms and path not in shown]
    assert len(elsewhere) > 100
    assert [(path.name, text) for path in elsewhere for text in strings_of(path) if SQL.search(text)] == []
    # That it can fail.
    assert any(SQL.search(text) for text in strings_of(PACKAGE / "recording" / "memory.py"))
