# SPDX-License-Identifier: GPL-2.0-or-later
"""What tests/vm/coherence, the plugin that follows an emulated guest's cache lines, has counted."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

LINE = 64
USER_END = 1 << 63

# What an access found, in the order of the file's columns.
OWN, MODIFIED_ELSEWHERE, CLEAN_ELSEWHERE, NOWHERE = range(4)


@dataclass(frozen=True, slots=True)
class Row:
    """All accesses of one instruction on one CPU to one address; loads and stores by what they found."""

    phase: int
    cpu: int
    address: int
    physical: int
    instruction: int
    loads: tuple[int, int, int, int]
    stores: tuple[int, int, int, int]
    atomics: int

    @property
    def line(self) -> int:
        """Its line's virtual address."""
        return self.address & -LINE

    @property
    def offset(self) -> int:
        """Where in the line."""
        return self.address % LINE

    @property
    def user(self) -> bool:
        """Whether a program made the accesses, not the kernel."""
        return self.instruction < USER_END


@dataclass
class Sums:
    """Sums of rows."""

    loads: list[int] = field(default_factory=lambda: [0] * 4)
    stores: list[int] = field(default_factory=lambda: [0] * 4)
    cpus: set[int] = field(default_factory=set)

    def add(self, row: Row) -> None:
        """Add a row."""
        self.loads = [sum(pair) for pair in zip(self.loads, row.loads, strict=True)]
        self.stores = [sum(pair) for pair in zip(self.stores, row.stores, strict=True)]
        self.cpus.add(row.cpu)

    @property
    def hitm(self) -> int:
        """Loads that found the line modified by another CPU."""
        return self.loads[MODIFIED_ELSEWHERE]

    @property
    def transfers(self) -> int:
        """Accesses of either kind that found it so."""
        return self.hitm + self.stores[MODIFIED_ELSEWHERE]

    @property
    def records(self) -> int:
        """All accesses."""
        return sum(self.loads) + sum(self.stores)


@dataclass(frozen=True)
class Cpu:
    """What was followed on one CPU, and what was not: no row free, a device's memory, beyond the memory, no address."""

    number: int
    followed: int
    lost: int
    device: int
    outside: int
    unplaced: int


@dataclass(frozen=True)
class Truth:
    """A file of the plugin."""

    cpus: tuple[Cpu, ...]
    rows: tuple[Row, ...]

    def of_phase(self, phase: int) -> "Truth":
        """The rows of one phase."""
        return Truth(self.cpus, tuple(row for row in self.rows if row.phase == phase))


def _rows(lines: Iterable[str]) -> Iterator[Row | Cpu]:
    for line in lines:
        words = line.split("\t")
        if words[0] == "vcpu":
            yield Cpu(*map(int, words[1:]))
            continue
        address, physical, instruction = (int(word, 16) for word in words[3:6])
        counts = [int(word) for word in words[6:]]
        loads, stores = (counts[0], counts[1], counts[2], counts[3]), (counts[4], counts[5], counts[6], counts[7])
        yield Row(int(words[1]), int(words[2]), address, physical, instruction, loads, stores, counts[8])


def read_truth(path: Path) -> Truth:
    """The plugin's file; it must be whole."""
    first, *lines, last = path.read_text(encoding="ascii").splitlines()
    assert (first, last) == ("coherence\t1", "end"), (first, last)
    found = list(_rows(lines))
    return Truth(
        tuple(entry for entry in found if isinstance(entry, Cpu)),
        tuple(entry for entry in found if isinstance(entry, Row)),
    )


Key = TypeVar("Key")


def sums_by(rows: Iterable[Row], key: Callable[[Row], Key]) -> dict[Key, Sums]:
    """Sums of rows by what key gives."""
    sums: dict[Key, Sums] = {}
    for row in rows:
        sums.setdefault(key(row), Sums()).add(row)
    return sums
