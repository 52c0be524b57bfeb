# SPDX-License-Identifier: GPL-2.0-or-later
"""The small tables of a day's recordings in few files: a report of thousands would else spend its time opening them.

.gathered/date=DATE/NAME/TABLE.parquet repeats rows of the recordings that members.json lists, each with the time its
directory was made.  Where that is another now, or a recording is gone, the files are not used; they may go any time.
"""

import fcntl
import hashlib
import json
import os
import shutil
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from lockline.export.parquet import Instance, write_rows
from lockline.fleet.store import Place, aside, places, publish

GATHERED = ".gathered"
MEMBERS = "members.json"
# The tables that reports read.
TABLES = ("recordings", "hours", "lock_hours", "lengths", "findings", "containers", "program_time", "program_locks")
# Fewer recordings of a day are left as they are.
LEAST = 16
# What is gathered already is gathered again with recordings at least half as many.
_FACTOR = 2
# A report that has begun may still read what newer files replace.
_GRACE_S = 3600
# Of the recordings of some gathered files; if fewer are wanted, their own files are read.
_WANTED = 1 / 8


@dataclass(frozen=True, slots=True)
class Gathered:
    """A directory of gathered files; members: its recordings, and when the directory of each was made."""

    path: Path
    members: Mapping[str, int]


def _made(place: Place) -> int | None:
    try:
        return place.path.stat().st_mtime_ns
    except OSError:
        return None


def gathered(directory: Path, date: str) -> list[Gathered]:
    """What is gathered of a day, most recordings first."""
    found = []
    with suppress(FileNotFoundError):
        for entry in os.scandir(_folder(directory, date)):
            try:
                members = json.loads((Path(entry.path) / MEMBERS).read_text(encoding="ascii"))
            except (OSError, ValueError):
                continue
            if isinstance(members, dict) and members:
                found.append(Gathered(Path(entry.path), members))
    return sorted(found, key=lambda one: (-len(one.members), one.path))


def _folder(directory: Path, date: str) -> Path:
    return directory / GATHERED / f"date={date}"


def _own(placed: Iterable[Place], tables: Sequence[str], files: Mapping[str, list[str]]) -> None:
    """Add the own files of recordings; one has none of a table in which it has no rows."""
    for place in placed:
        for entry in os.scandir(place.path) if tables else ():
            table = entry.name.removesuffix(".parquet")
            if table in tables and table != entry.name:
                files[table].append(entry.path)


def files_of(placed: Sequence[Place], tables: Sequence[str], alone: bool = False) -> dict[str, list[str]]:
    """The files of these tables with all rows of these recordings.

    They may have rows of other recordings; alone: they have none.
    """
    files: dict[str, list[str]] = {name: [] for name in tables}
    shared = [name for name in tables if name in TABLES]
    _own(placed, [name for name in tables if name not in TABLES], files)
    days: defaultdict[tuple[Path, str], dict[str, Place]] = defaultdict(dict)
    for place in placed:
        days[place.path.parents[2], place.date][place.recording] = place
    for (directory, date), left in days.items() if shared else ():
        for one in gathered(directory, date):
            wanted = [name for name in one.members if name in left]
            few = len(wanted) < len(one.members) * (1.0 if alone else _WANTED)
            if not wanted or few or any(_made(left[name]) != one.members[name] for name in wanted):
                continue
            _own((Place(one.path, date, ""),), shared, files)
            for name in wanted:
                del left[name]
        _own(left.values(), shared, files)
    return {name: sorted(found) for name, found in files.items()}


@contextmanager
def _alone(folder: Path) -> Iterator[bool]:
    """Whether nobody else gathers in this folder, or will until the end."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield True
    except BlockingIOError:
        yield False
    finally:
        os.close(lock)


def _choose(found: Sequence[Gathered], present: Mapping[str, int]) -> tuple[list[Gathered], set[str]]:
    """What of the gathered is true and complete, and the recordings that lack."""
    left, valid = set(present), []
    for one in found:
        if one.members.keys() <= left and all(present[name] == made for name, made in one.members.items()):
            valid.append(one)
            left -= one.members.keys()
    return valid, left


def _write(
    instance: Instance, directory: Path, date: str, parts: Sequence[Gathered], loose: Mapping[str, Place]
) -> None:
    files: dict[str, list[str]] = {name: [] for name in TABLES}
    _own(loose.values(), TABLES, files)
    _own((Place(one.path, date, "") for one in parts), TABLES, files)
    members = {name: _made(place) for name, place in loose.items()}
    for one in parts:
        members |= one.members
    with aside(directory) as own:
        made = own / "made"
        made.mkdir()
        with instance.connect() as connection:
            for name, listed in files.items():
                if listed:
                    relation = connection.read_parquet(listed, hive_partitioning=False)
                    write_rows(relation, made / f"{name}.parquet")
        (made / MEMBERS).write_text(json.dumps(members), encoding="ascii")
        name = hashlib.sha256("\n".join(sorted(members)).encode()).hexdigest()[:32]
        publish(made, Place(_folder(directory, date) / name, date, name))


def gather(instance: Instance, directory: Path, date: str) -> None:
    """Gather the recordings of a day, where enough are not.  Raises OSError and DuckDB's errors."""
    with _alone(_folder(directory, date)) as alone:
        if not alone:
            return
        placed = {place.recording: place for place in places(directory, date, date)}
        present = {name: made for name, place in placed.items() if (made := _made(place)) is not None}
        found = gathered(directory, date)
        valid, loose = _choose(found, present)
        parts: list[Gathered] = []
        count = len(loose)
        for one in reversed(valid):
            if len(one.members) <= _FACTOR * count:
                parts.append(one)
                count += len(one.members)
        if len(loose) >= LEAST:
            _write(instance, directory, date, parts, {name: placed[name] for name in sorted(loose)})
        for one in found:
            if (one not in valid or one in parts) and time.time() - one.path.stat().st_mtime > _GRACE_S:
                shutil.rmtree(one.path, ignore_errors=True)


def gather_all(instance: Instance, directory: Path, dates: Iterable[str]) -> None:
    """Gather the recordings of these days, and forget days that are gone.  Raises OSError and DuckDB's errors."""
    for date in sorted(dates):
        gather(instance, directory, date)
    for entry in (directory / GATHERED).glob("date=*"):
        if not (directory / entry.name).exists():
            shutil.rmtree(entry, ignore_errors=True)
