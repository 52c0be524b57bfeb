# SPDX-License-Identifier: GPL-2.0-or-later
"""Which recordings a question is about, and between which hours."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from lockline.analysis.selection import lock_matches
from lockline.base.errors import LocklineError
from lockline.fleet.engine import Engine
from lockline.fleet.store import Place, open_store, places
from lockline.fleet.tables import HOUR_NS

# What recordings can be grouped by.
GROUPS = ("kernel", "cpu_model", "architecture", "host", "lockline_version", "release", "role")
_SPAN = re.compile(r"([0-9]{1,6})([hdw])")
_HOURS = {"h": 1, "d": 24, "w": 168}


@dataclass(frozen=True, slots=True)
class Known:
    """A recording's facts; hours: the first, and the one after the last."""

    place: Place
    host: str
    weight: float
    boot_id: str
    kernel: str
    cpu_model: str
    architecture: str
    lockline_version: str
    begin_unix_ns: int
    end_unix_ns: int
    observed_ns: int
    lost: int
    release: str
    role: str

    @property
    def first_hour(self) -> int:
        """The hour in which it begins."""
        return self.begin_unix_ns // HOUR_NS

    @property
    def end_hour(self) -> int:
        """The hour after the one in which it ends."""
        return (self.end_unix_ns - 1) // HOUR_NS + 1

    def group(self, by: str) -> str:
        """Its value of one of GROUPS."""
        return str(getattr(self, by))


@dataclass(frozen=True, slots=True)
class Filter:
    """Which recordings are wanted: text that a fact holds, or a pattern with *, ? or [; None: all."""

    host: str | None = None
    kernel: str | None = None
    cpu_model: str | None = None
    release: str | None = None
    role: str | None = None

    def wants(self, known: Known) -> bool:
        """Whether a recording is wanted."""
        return all(
            pattern is None or lock_matches(pattern, value)
            for pattern, value in (
                (self.host, known.host),
                (self.kernel, known.kernel),
                (self.cpu_model, known.cpu_model),
                (self.release, known.release),
                (self.role, known.role),
            )
        )


ANY = Filter()


def parse_span(text: str) -> int | None:
    """Hours of "24h", "7d" or "2w"; None: it is none of these."""
    found = _SPAN.fullmatch(text)
    return int(found[1]) * _HOURS[found[2]] if found else None


def parse_moment(text: str) -> int:
    """The hour, since 1970, of "2026-11-22" or "2026-11-22T14:00", UTC.  Raises ValueError."""
    try:
        when = datetime.fromisoformat(text.removesuffix("Z"))
    except ValueError:
        raise ValueError(
            f"'{text}' is not a time; write 2026-11-22, 2026-11-22T14:00, or 24h, 7d, 2w before the end"
        ) from None
    if when.tzinfo is None:
        when = when.replace(tzinfo=timezone.utc)
    return int(when.timestamp()) // 3600


def moment(hour: int) -> str:
    """An hour as people write it."""
    return datetime.fromtimestamp(hour * 3600, timezone.utc).strftime("%Y-%m-%d %H:%M")


def _longest(found: Sequence[Known]) -> list[Known]:
    """Of one recording that was added as it grew, the last state."""
    best: dict[tuple[str, str, int], Known] = {}
    for one in found:
        key = one.host, one.boot_id, one.begin_unix_ns
        if key not in best or best[key].end_unix_ns < one.end_unix_ns:
            best[key] = one
    return list(best.values())


def known_recordings(directory: Path, engine: Engine) -> list[Known]:
    """All recordings of a directory, oldest first.  Raises LocklineError."""
    open_store(directory)
    placed = list(places(directory))
    engine.read(placed, ("recordings",))
    found = known_of(engine, {place.recording: place for place in placed})
    if not found:
        raise LocklineError(
            f"{directory}: holds no recordings; add some with: lockline fleet add {directory} RECORDING..."
        )
    return found


def known_of(engine: Engine, by_name: Mapping[str, Place]) -> list[Known]:
    """The recordings of the engine's table that have a place, oldest first."""
    found = []
    for row in engine.run("recordings"):
        (
            name,
            host,
            weight,
            boot_id,
            kernel,
            cpu_model,
            architecture,
            _,
            version,
            begin,
            end,
            observed,
            _,
            _,
            lost,
            *user,
        ) = row
        if name in by_name and end > begin and observed > 0 and weight > 0:
            found.append(
                Known(
                    by_name[name],
                    host,
                    weight,
                    boot_id or "",
                    kernel or "?",
                    cpu_model or "?",
                    architecture or "?",
                    version or "?",
                    begin,
                    end,
                    observed,
                    lost or 0,
                    user[0] or "?",
                    user[1] or "?",
                )
            )
    return sorted(_longest(found), key=lambda one: (one.begin_unix_ns, one.host))
