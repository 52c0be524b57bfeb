# SPDX-License-Identifier: GPL-2.0-or-later
"""What the engine sums up of a fleet's recordings: observed time and waits, by host and lock."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lockline.base.errors import LocklineError
from lockline.fleet.choose import Known
from lockline.fleet.engine import Engine
from lockline.fleet.gather import TABLES as REPORTED
from lockline.fleet.model import Period

Lock = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Side:
    """Recordings that answer for one side, between two hours."""

    name: str
    recordings: Sequence[Known]
    first_hour: int
    end_hour: int


@dataclass(frozen=True, slots=True)
class Unit:
    """A host on one side, as it was with one value of each fact."""

    side: str
    host: str
    facts: tuple[str, ...]


class Sums:
    """What the engine summed up: observed time and waits by unit."""

    def __init__(self, engine: Engine, sides: Sequence[Side], group_by: Sequence[str], container: str | None) -> None:
        self.sides = {side.name: side for side in sides}
        self.group_by = tuple(group_by)
        self.engine = engine
        engine.read([one.place for one in _distinct(sides)], REPORTED)
        self.units: list[Unit] = []
        numbers: dict[Unit, int] = {}
        picked = []
        for side in sides:
            for one in side.recordings:
                unit = Unit(side.name, one.host, tuple(one.group(by) for by in self.group_by))
                if unit not in numbers:
                    numbers[unit] = len(self.units)
                    self.units.append(unit)
                picked.append((one.place.recording, side.name, numbers[unit], side.first_hour, side.end_hour))
        columns = (
            ("recording", "VARCHAR"),
            ("side", "VARCHAR"),
            ("unit", "BIGINT"),
            ("first_hour", "BIGINT"),
            ("end_hour", "BIGINT"),
        )
        engine.put("picked", columns, picked)
        if container is not None:
            self._want(container)
        engine.view("waited", "waited_locks" if container is None else "waited_containers")
        self.weighted: dict[int, float] = {}
        self.observed: dict[int, int] = {}
        self.hours: dict[int, tuple[int, int]] = {}
        for unit_number, weighted, observed, first, last in engine.run("observed"):
            self.weighted[unit_number], self.observed[unit_number] = float(weighted), int(observed)
            self.hours[unit_number] = int(first), int(last)
        self.locks: dict[str, dict[Lock, tuple[float, int, int, int, int]]] = {side.name: {} for side in sides}
        for side_name, lock, kind, ns, waits, wait_ns, max_ns, hosts in engine.run("locks"):
            self.locks[side_name][lock, kind] = float(ns), int(waits), int(wait_ns), int(max_ns), int(hosts)
        self.waited: defaultdict[Lock, dict[int, float]] = defaultdict(dict)

    def _want(self, container: str) -> None:
        self.engine.view("known_containers", "container_names")
        names = [name for (name,) in self.engine.run("containers")]
        wanted = [name for name in names if name == container or name.endswith(f"/{container}")]
        if not wanted:
            listed = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
            raise LocklineError(f"--container {container}: not in these recordings; there are {listed or 'none'}")
        self.engine.put("wanted", (("container", "VARCHAR"),), [(name,) for name in wanted])

    def judge(self, locks: Sequence[Lock]) -> None:
        """Have the waits of these locks by unit."""
        self.engine.put("judged", (("lock", "VARCHAR"), ("kind", "VARCHAR")), list(locks))
        for unit, lock, kind, ns in self.engine.run("units"):
            self.waited[lock, kind][unit] = float(ns)

    def total_of(self, side: str) -> float:
        """Weighted wait time of a side."""
        return math.fsum(figures[0] for figures in self.locks[side].values())

    def time_of(self, side: str) -> float:
        """Weighted host time of a side."""
        return math.fsum(ns for number, ns in self.weighted.items() if self.units[number].side == side)

    def numbers(self, side: str, group: tuple[int, str] | None = None, other: bool = False) -> list[int]:
        """The units of a side; group: of these by their value of a fact, other: by any other value."""
        return [
            number
            for number in self.weighted
            if self.units[number].side == side
            and (group is None or (self.units[number].facts[group[0]] == group[1]) != other)
        ]

    def shares(self, lock: Lock, numbers: Sequence[int]) -> dict[str, float]:
        """The lock's share by host; hosts that never waited for it have 0."""
        waited = self.waited[lock]
        return by_host(self.units, numbers, waited, self.weighted)

    def period(self, name: str) -> Period:
        """What was observed on a side."""
        side = self.sides[name]
        numbers = self.numbers(name)
        return Period(
            side.first_hour,
            side.end_hour,
            len({self.units[number].host for number in numbers}),
            len(side.recordings),
            sum(self.observed[number] for number in numbers),
            self.time_of(name),
            sum(one.lost for one in side.recordings),
        )


def by_host(
    units: Sequence[Unit], numbers: Sequence[int], waited: Mapping[int, float], observed: Mapping[int, float]
) -> dict[str, float]:
    """Wait time over observed time by host, of these units."""
    sums: dict[str, tuple[float, float]] = {}
    for number in numbers:
        ns, time = sums.get(units[number].host, (0.0, 0.0))
        sums[units[number].host] = ns + waited.get(number, 0.0), time + observed[number]
    return {host: ns / time for host, (ns, time) in sums.items() if time > 0}


def _distinct(sides: Sequence[Side]) -> list[Known]:
    return list({one.place.recording: one for side in sides for one in side.recordings}.values())
