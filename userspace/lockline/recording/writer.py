# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes a recording, by the schema of recording.sql; `lockline-collect` has its own way."""

import fcntl
import os
import secrets
import sqlite3
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from lockline.base.errors import LocklineError
from lockline.base.files import SQLITE
from lockline.recording import memory_rows, rows, user_rows  # noqa: F401 - they fill TABLES
from lockline.recording.tables import TABLES

SCHEMA = Path(__file__).with_name("recording.sql")

# SQLite's companions of a recording that was killed belong to it.
_COMPANIONS = ("-wal", "-shm", "")


def _schema() -> str:
    try:
        return SCHEMA.read_text(encoding="utf-8")
    except OSError as error:
        raise LocklineError(f"{SCHEMA}: {error.strerror}; install lockline again with `make install`") from error


def _fill(connection: sqlite3.Connection, tables: Mapping[str, Iterable[Sequence[Any]]]) -> None:
    connection.executescript(_schema())
    connection.execute("BEGIN")
    for table, values in tables.items():
        places = ",".join("?" * len(TABLES[table].columns))
        connection.executemany(f"INSERT INTO {table} VALUES ({places})", values)
    connection.execute("COMMIT")


def _check_target(path: Path) -> Path:
    """The file behind the path, which must be a plain file or not there; nobody may be writing it."""
    target = path.resolve()
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return target
    if not stat.S_ISREG(mode):
        raise LocklineError(f"{path}: not a plain file; name another one with -o")
    with target.open("rb") as file:
        # Of .old there is one: what is no recording would be lost at the second slip.
        if file.read(len(SQLITE)) not in (b"", SQLITE):
            raise LocklineError(f"{path}: it exists and is not a recording; name another one with -o")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LocklineError(f"{path}: another lockline is recording to it; name another one with -o") from error
    return target


def _move_away(target: Path) -> None:
    """A file that was there becomes FILE.old, as `lockline record` does it."""
    for companion in _COMPANIONS:
        old = Path(f"{target}.old{companion}")
        old.unlink(missing_ok=True)
        with suppress(FileNotFoundError):
            Path(f"{target}{companion}").rename(old)


def _give_to_user(file: int) -> None:
    """What is made by sudo belongs to who called it, as a recording of the collector does (output_file.c)."""
    user, group = (os.environ.get(name, "") for name in ("SUDO_UID", "SUDO_GID"))
    if os.geteuid() == 0 and user.isdecimal() and group.isdecimal() and int(user):
        os.fchown(file, int(user), int(group))


def write_recording(
    path: Path,
    tables: Mapping[str, Iterable[Sequence[Any]]],
    finish: Callable[[sqlite3.Connection], None] | None = None,
) -> None:
    """Writes a new recording, mode 0600, whole or not at all; a file that was there becomes FILE.old.

    tables: rows by table, with values in the order of the columns.  finish: what follows from these rows.

    Raises LocklineError if it cannot be written.
    """
    try:
        target = _check_target(path)
        partial = Path(f"{target}.{secrets.token_hex(4)}.partial")
        made = os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        try:
            _give_to_user(made)
        finally:
            os.close(made)
        try:
            with closing(sqlite3.connect(partial, isolation_level=None)) as connection:
                connection.execute("PRAGMA journal_mode = OFF")
                connection.execute("PRAGMA synchronous = OFF")
                _fill(connection, tables)
                if finish is not None:
                    finish(connection)
            _move_away(target)
            partial.rename(target)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise LocklineError(f"{path}: cannot be written: {error.strerror or error}") from error
    except (sqlite3.Error, OverflowError) as error:
        raise LocklineError(f"{path}: cannot be written: {error}") from error


def add_investigation(path: Path, document: str) -> None:
    """Adds the story of an investigation to a recording that is complete; one that is there is replaced.

    Raises LocklineError if it cannot be written.
    """
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            # Without companions: who copies the file copies all of it.
            connection.execute("PRAGMA journal_mode = DELETE")
            connection.execute("INSERT OR REPLACE INTO investigation VALUES (1, ?)", (document,))
    except sqlite3.Error as error:
        raise LocklineError(f"{path}: the investigation cannot be kept: {error}") from error
