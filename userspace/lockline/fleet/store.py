# SPDX-License-Identifier: GPL-2.0-or-later
"""The directory of a fleet: date=DATE/host=HOST/recording=HASH/TABLE.parquet.

The directory of a recording appears whole, by a rename, and never changes.  What is being written is in .adding, each
part with a lock that its writer holds.
"""

import fcntl
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from lockline.base.errors import LocklineError
from lockline.fleet.tables import SCHEMA

MARKER = "lockline-fleet.json"
ADDING = ".adding"
# What DuckDB or Spark would take for a pattern.
_PATTERN = re.compile(r"[*?\[\]{}]")
_LONGEST_NAME = 150


@dataclass(frozen=True, slots=True)
class Place:
    """Where a recording is, or would be."""

    path: Path
    date: str
    recording: str


def host_part(host: str) -> str:
    """The name of a host's directory; long names are cut, and end in what tells them apart."""
    name = quote(host, safe="")
    if len(name) > _LONGEST_NAME:
        import hashlib

        name = f"{name[:_LONGEST_NAME]}-{hashlib.sha256(host.encode()).hexdigest()[:16]}"
    return f"host={name}"


def place_of(directory: Path, date: str, host: str, recording: str) -> Place:
    """The place of a recording."""
    return Place(directory / f"date={date}" / host_part(host) / f"recording={recording}", date, recording)


def sync(path: Path) -> None:
    """Have a file or directory on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_marker(directory: Path, schema: int) -> None:
    """Say which schema the directory has, all at once."""
    descriptor, name = tempfile.mkstemp(prefix=f".{MARKER}.", dir=directory)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump({"lockline-fleet": schema}, file)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    Path(name).chmod(0o644)
    Path(name).replace(directory / MARKER)
    sync(directory)


def schema_of(directory: Path) -> int:
    """The directory's schema.  Raises LocklineError if it is no fleet's directory."""
    if _PATTERN.search(str(directory)):
        raise LocklineError(f"{directory}: the name of a fleet's directory must not hold any of * ? [ ] {{ }}")
    try:
        schema = json.loads((directory / MARKER).read_text(encoding="utf-8"))["lockline-fleet"]
    except FileNotFoundError:
        raise LocklineError(f"{directory}: no fleet's directory; make one with: lockline fleet add") from None
    except NotADirectoryError:
        raise LocklineError(f"{directory}: not a directory") from None
    except OSError as error:
        raise LocklineError(f"{directory / MARKER}: cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise LocklineError(f"{directory / MARKER}: is not what lockline wrote; it is damaged") from error
    if not isinstance(schema, int) or schema < 1:
        raise LocklineError(f"{directory / MARKER}: schema {schema!r} does not exist")
    if schema > SCHEMA:
        raise LocklineError(
            f"{directory}: schema {schema} is newer than this lockline reads ({SCHEMA}); use a newer lockline"
        )
    return schema


def open_store(directory: Path) -> None:
    """Check that a directory can be read.  Raises LocklineError."""
    schema = schema_of(directory)
    if schema < SCHEMA:
        raise LocklineError(f"{directory}: has schema {schema}; bring it to {SCHEMA} with: lockline fleet migrate")


def make_store(directory: Path) -> None:
    """Make a directory, or open the one that is there.  Raises LocklineError."""
    if _PATTERN.search(str(directory)):
        raise LocklineError(f"{directory}: the name of a fleet's directory must not hold any of * ? [ ] {{ }}")
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = "not a directory" if isinstance(error, (FileExistsError, NotADirectoryError)) else error.strerror
        raise LocklineError(f"{directory}: {why}") from error
    if not (directory / MARKER).exists():
        others = any(entry.name[0] != "." for entry in directory.iterdir())
        # Another writer may have made it meanwhile.
        if others and not (directory / MARKER).exists():
            raise LocklineError(f"{directory}: holds other files; name an empty or a new directory")
        (directory / ADDING).mkdir(exist_ok=True)
        write_marker(directory, SCHEMA)
    open_store(directory)


def places(directory: Path, first_date: str = "", last_date: str = "~") -> Iterator[Place]:
    """The recordings of these dates, in the order of their paths."""
    for day in sorted(entry.name for entry in os.scandir(directory) if entry.name.startswith("date=")):
        date = day.removeprefix("date=")
        if not first_date <= date <= last_date:
            continue
        for host in sorted(entry.path for entry in os.scandir(directory / day) if entry.name.startswith("host=")):
            for name in sorted(entry.name for entry in os.scandir(host) if entry.name.startswith("recording=")):
                yield Place(Path(host) / name, date, name.removeprefix("recording="))


@contextmanager
def aside(directory: Path) -> Iterator[Path]:
    """A directory of our own to write in; it is gone afterwards, unless it was moved.  Raises OSError."""
    parent = directory / ADDING
    parent.mkdir(exist_ok=True)
    while True:
        own = Path(tempfile.mkdtemp(dir=parent))
        lock = os.open(own / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            (own / "lock").stat()
            break
        except OSError:
            # Somebody who cleans up was faster.
            os.close(lock)
    try:
        yield own
    finally:
        shutil.rmtree(own, ignore_errors=True)
        os.close(lock)


def clean_up(directory: Path) -> None:
    """Remove what writers left that were killed: nobody holds the lock of it."""
    with suppress(OSError):
        for left in (directory / ADDING).iterdir():
            try:
                lock = os.open(left / "lock", os.O_RDWR | os.O_CLOEXEC)
            except OSError:
                continue
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left, ignore_errors=True)
            except OSError:
                pass
            finally:
                os.close(lock)


def publish(made: Path, place: Place) -> bool:
    """Give a directory that is complete its place; False: another writer has put the same recording there.

    Raises OSError.
    """
    for file in made.iterdir():
        file.chmod(0o644)
        sync(file)
    made.chmod(0o755)
    sync(made)
    parent = place.path.parent
    parent.mkdir(parents=True, exist_ok=True)
    try:
        made.rename(place.path)
    except OSError:
        if place.path.is_dir():
            return False
        raise
    for holding in (parent, parent.parent, parent.parent.parent):
        sync(holding)
    return True
