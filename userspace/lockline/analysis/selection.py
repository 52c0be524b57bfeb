# SPDX-License-Identifier: GPL-2.0-or-later
"""What part of a recording a report is about, and in which order."""

import re
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase

from lockline.base.errors import LocklineError
from lockline.base.values import dataclass

SORTS = ("total", "waits", "max", "avg", "p99")
GROUPINGS = ("identity", "instance")

MAX_CPU = 1 << 16

_SECOND = 1_000_000_000
_UNITS = {"ns": 1, "us": 1000, "ms": 1_000_000, "m": 60 * _SECOND, "h": 3600 * _SECOND, "d": 86400 * _SECOND}


@dataclass(frozen=True, slots=True)
class Selection:
    """Filters and order of a report; None: no filter.

    kinds: names or patterns of kinds; cpus: CPU numbers; lock: a pattern of lock names; from_ns and to_ns: since the
    begin of the recording, below 0: from its end; top: rows of each table, None for the renderer's own choice;
    container: a name or the begin of an id, pod: "NAMESPACE/NAME": of tasks, cgroups and single waits, totals have no
    waiters.
    """

    kinds: tuple[str, ...] | None = None
    cpus: tuple[int, ...] | None = None
    lock: str | None = None
    from_ns: int | None = None
    to_ns: int | None = None
    sort: str = "total"
    by: str = "identity"
    top: int | None = None
    container: str | None = None
    pod: str | None = None


def parse_time(text: str) -> int:
    """Nanoseconds of "1.5", "1.5s", "300ms", "2m", "3h" or "1d".  Raises ValueError."""
    match = re.fullmatch(r"(\d{1,12}(?:\.\d{0,9})?)(ns|us|ms|s|m|h|d|)", text.strip(), re.ASCII)
    if not match:
        raise ValueError(f"'{text}' is not a time; write it as 1.5, 1.5s, 300ms, 2m or 3h")
    return round(float(match[1]) * _UNITS.get(match[2], _SECOND))


def parse_moment(text: str) -> int:
    """Nanoseconds since the begin, or with a minus before the end, which gives a number below 0.  Raises ValueError."""
    if not text.strip().startswith("-"):
        return parse_time(text)
    return -parse_time(text.strip()[1:]) or -1


def parse_cpus(text: str) -> tuple[int, ...]:
    """The numbers of a CPU list such as "0-3,7", ascending.  Raises ValueError."""
    cpus: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", part.strip(), re.ASCII)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last or last >= MAX_CPU:
            raise ValueError(f"'{part}' is not a CPU or a range of CPUs; write a list as 0-3,7")
        cpus.update(range(first, last + 1))
    return tuple(sorted(cpus))


def select_kinds(names: Mapping[int, str], patterns: Collection[str]) -> tuple[int, ...]:
    """The kinds that the patterns name: exactly, as a family (without :R, :W or -spin), or as shell patterns.

    Raises LocklineError if a pattern names none.
    """
    selected: set[int] = set()
    for pattern in patterns:
        found = {
            kind
            for kind, name in names.items()
            if pattern in (name, name.partition(":")[0].removesuffix("-spin")) or fnmatchcase(name, pattern)
        }
        if not found:
            raise LocklineError(f"--kinds: no kind '{pattern}'; there are {', '.join(names.values()) or 'none'}")
        selected |= found
    return tuple(sorted(selected))


def lock_matches(pattern: str, name: str) -> bool:
    """Whether a lock's name matches a shell pattern, or holds a text without pattern characters."""
    if any(character in pattern for character in "*?["):
        return fnmatchcase(name, pattern)
    return pattern in name
