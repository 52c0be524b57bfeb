# SPDX-License-Identifier: GPL-2.0-or-later
"""Opens the SQLite file of a recording, read-only, and checks what it is before anything is read from it.

A recording is data from elsewhere: it may be truncated, corrupted or made to harm.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lockline.base.errors import RecordingError
from lockline.base.files import SQLITE, is_regular, takes_changes
from lockline.recording.tables import OLDEST_SCHEMA, SCHEMA_VERSION, TABLES

if TYPE_CHECKING:
    import sqlite3
else:
    # What is behind the library's module, which loads dates as well.
    import _sqlite3 as sqlite3

APPLICATION_ID = 0x6C6F636B

# No text or blob of a true recording comes near this.
MAX_VALUE_BYTES = 4 << 20

# Texts that are kept decoded, and of how many bytes at most.
_KEPT = 4096
_KEPT_BYTES = 256

# So long a file system may take for a change of a file; a busy disk needs some seconds.
PATIENCE_S = 10.0

# What a damaged file makes SQLite raise; its messages may quote bytes that are no text.
FAULTS = (sqlite3.Error, OverflowError, UnicodeDecodeError)


def damaged(path: str, why: object) -> RecordingError:
    """The error of a file that is damaged."""
    return RecordingError(f"{path}: the recording is damaged: {why}")


# Bytes of a path that mean themselves in a URI.
_PLAIN = frozenset(b"/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")


class _Texts(dict[bytes, str]):
    """Text as SQLite has it, decoded: most of a recording's texts stand in row after row."""

    def __missing__(self, text: bytes) -> str:
        found = text.decode("utf-8", "replace")
        if len(text) <= _KEPT_BYTES:
            if len(self) >= _KEPT:
                self.clear()
            self[text] = found
        return found


def _connect(path: str, parameters: str) -> sqlite3.Connection:
    # An absolute path after an empty authority: nothing in it can pass for a part of the URI.
    location = b"/" + os.fsencode(os.path.join(os.getcwd(), path)).lstrip(b"/")  # noqa: PTH109, PTH118
    quoted = "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in location)
    uri = f"file://{quoted}?{parameters}"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None)
    try:
        connection.text_factory = _Texts().__getitem__
        # Python 3.10 cannot set it: there a value is at most as long as the file.
        if sys.version_info >= (3, 11):
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
        # A schema is code: it must not call functions, and reading it must not trust its sizes.
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        connection.execute("PRAGMA query_only = ON")
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def check_header(path: str) -> None:
    """Tell what is no SQLite file, or a truncated one, before SQLite says less clearly."""
    try:
        regular = is_regular(path)
        if regular is None:
            raise RecordingError(f"{path}: no such file; make one with `lockline record -o {path}`")
        if not regular:
            raise RecordingError(f"{path}: not a file")
        with open(path, "rb") as file:
            header = file.read(100)
            size = file.seek(0, os.SEEK_END)
    except (OSError, ValueError) as error:
        raise RecordingError(f"{path}: cannot be read: {getattr(error, 'strerror', error)}") from error
    if not header:
        raise RecordingError(f"{path}: empty, not a recording")
    if not header.startswith(SQLITE[: len(header)]):
        raise RecordingError(f"{path}: not a lockline recording")
    pages = int.from_bytes(header[28:32], "big")
    page_bytes = int.from_bytes(header[16:18], "big")
    page_bytes = 65536 if page_bytes == 1 else page_bytes
    if len(header) < 100 or (size < pages * page_bytes and not _has_wal(path)):
        raise RecordingError(f"{path}: truncated, {size} bytes of {max(pages * page_bytes, 100)}")


def _wal(path: str) -> str:
    return f"{path}-wal"


def _has_wal(path: str) -> bool:
    try:
        return os.stat(_wal(path)).st_size > 0  # noqa: PTH116
    except OSError:
        return False


def _cannot_be_opened_there(error: sqlite3.OperationalError) -> bool:
    """Whether SQLite failed for where the file is, or for want of room there, not for what it is."""
    if sys.version_info >= (3, 11):
        code = error.sqlite_errorcode
        return (
            code & 0xFF in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_FULL)
            or code == sqlite3.SQLITE_IOERR_SHMSIZE
        )
    words = ("unable to open database file", "readonly database", "database or disk is full")
    return any(word in str(error) for word in words)


def _connect_in_place(path: str) -> sqlite3.Connection:
    """Without a copy.

    Where there is an index of the log it is only read.  To set a mark there writes into a mapping, which is a SIGBUS
    on a full file system that writes to a new place each time (btrfs).
    """
    try:
        return _connect(path, "mode=ro&readonly_shm=1")
    except sqlite3.OperationalError as error:
        if not _cannot_be_opened_there(error):
            raise
    return _connect(path, "mode=ro")


@contextmanager
def connected(path: str) -> Iterator[sqlite3.Connection]:
    """A read-only connection, also where SQLite cannot make its index of the write-ahead log.

    That is so in a directory that cannot be written to.  No collector is at work there (it would have made
    the index), so that a copy is consistent; without a log the file alone is complete.
    """
    # As root SQLite sets the log's owner anew when it opens it: on a frozen file system it waits there, and no signal
    # ends that.
    if os.geteuid() == 0 and _has_wal(path) and not takes_changes(_wal(path), PATIENCE_S):
        raise RecordingError(
            f"{path}: its file system takes no changes, as if it were frozen (fsfreeze); try again when it does"
        )
    try:
        connection = _connect_in_place(path)
    except sqlite3.OperationalError as error:
        if not _cannot_be_opened_there(error):
            raise
    else:
        try:
            yield connection
        finally:
            connection.close()
        return
    import shutil

    from lockline.base.scratch import scratch

    with scratch() as directory:
        if _has_wal(path):
            copy = f"{directory}/recording"
            shutil.copyfile(path, copy)
            shutil.copyfile(_wal(path), _wal(copy))
            connection = _connect(copy, "mode=ro")
        else:
            connection = _connect(path, "mode=ro&immutable=1")
        try:
            yield connection
        finally:
            connection.close()


def _schema_text() -> str:
    """The statements that make today's tables, as SQLite keeps them; '' where they are missing."""
    try:
        with open(f"{os.path.dirname(__file__)}/recording.sql", encoding="utf-8") as file:  # noqa: PTH120
            return file.read()
    except OSError:
        return ""


def schema_of(path: str, connection: sqlite3.Connection) -> int:
    """Gives the schema's version, if it is a recording of one that is known."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (schema,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        raise RecordingError(f"{path}: not a lockline recording but some other SQLite file")
    if schema > SCHEMA_VERSION:
        raise RecordingError(
            f"{path}: schema {schema} is newer than this lockline reads ({SCHEMA_VERSION}); use a newer lockline"
        )
    if schema < OLDEST_SCHEMA:
        raise damaged(path, f"schema {schema} does not exist")
    return int(schema)


def check_tables(path: str, connection: sqlite3.Connection, schema: int) -> None:
    """Raises RecordingError unless all tables of the schema are there."""
    from lockline.recording import memory_rows, rows, user_rows  # noqa: F401 - they fill TABLES

    # A view or a computed column in a table's place could run for ever.
    tables = {
        name: sql
        for name, sql in connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'table'")
        if isinstance(sql, str) and sql.upper().startswith("CREATE TABLE")
    }
    ours = _schema_text() if schema == SCHEMA_VERSION else ""
    for table in (table for table in TABLES.values() if table.since <= schema):
        if table.name not in tables:
            raise damaged(path, f"no table {table.name}")
        # To ask SQLite for the columns of each takes longer than to read all lines of a report.
        if tables[table.name] in ours:
            continue
        plain = {row[1] for row in connection.execute(f"PRAGMA table_xinfo({table.name})") if row[6] == 0}
        missing = {column.name for column in table.present(schema)} - plain
        if missing:
            raise damaged(path, f"no column {table.name}.{min(missing)}")
