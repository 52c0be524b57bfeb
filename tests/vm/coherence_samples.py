# SPDX-License-Identifier: GPL-2.0-or-later
"""The truth of a guest's cache lines as a perf.data file: each access that was followed is one sample."""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from coherence_truth import CLEAN_ELSEWHERE, MODIFIED_ELSEWHERE, NOWHERE, OWN, Row, sums_by

from c2c.access_kinds import INTEL, Kind
from c2c.description import SECOND, Access, Description, Thread, intel_events
from c2c.perfdata_format import File, Machine, Mapping
from c2c.symbol_images import Image, Symbol

LINKED = 0xFFFF_FFFF_8100_0000
# What a processor with memory events would say of it.
LOADS = {OWN: "L1", MODIFIED_ELSEWHERE: "local HITM", CLEAN_ELSEWHERE: "LLC, snoop hit", NOWHERE: "local DRAM"}
STORES = {
    OWN: "store, L1 hit",
    MODIFIED_ELSEWHERE: "store, L1 miss",
    CLEAN_ELSEWHERE: "store, L1 miss",
    NOWHERE: "store, L1 miss",
}
# /proc/PID/maps: what of it a record of a mapping has.
_MAPPING = re.compile(
    r"([0-9a-f]+)-([0-9a-f]+) ([r-])([w-])([x-])([sp]) ([0-9a-f]+) ([0-9a-f]+):([0-9a-f]+) (\d+) *(.*)"
)


def kernel_image(kallsyms: str) -> Image:
    """The kernel's own symbols (no modules) of a copy of /proc/kallsyms."""
    named: dict[int, tuple[str, str]] = {}
    marks: dict[str, int] = {}
    for line in kallsyms.splitlines():
        address, kind, name = line.split()[:3]
        if name in ("_text", "_etext", "_end"):
            marks[name] = int(address, 16)
        elif "[" not in line:
            named.setdefault(int(address, 16), (kind, name))
    begin, text_end, end = marks["_text"], marks["_etext"], marks["_end"]
    addresses = sorted(address for address in named if begin <= address < end)
    symbols = [
        Symbol(named[address][1], address, following - address, data=named[address][0] not in "tTwW")
        for address, following in zip(addresses, [*addresses[1:], end], strict=True)
    ]
    return Image((begin, text_end), (text_end, end), symbols, hashlib.sha1(kallsyms.encode()).digest())


def program_mappings(maps: str, pid: int, name: str, path: str) -> list[Mapping]:
    """The mappings of a program's own file in a copy of its /proc/PID/maps; path: where the file is now."""
    found = []
    for line in maps.splitlines():
        parts = _MAPPING.fullmatch(line)
        if not parts or not parts[11].endswith(name):
            continue
        start, end, offset, major, minor = (int(parts[index], 16) for index in (1, 2, 7, 8, 9))
        protection = sum(bit for bit, group in ((1, 3), (2, 4), (4, 5)) if parts[group] != "-")
        writable = bool(protection & 2)
        found.append(
            Mapping(pid, start, end - start, offset, path, int(parts[10]), (major, minor), protection, data=writable)
        )
    return found


def without_spinning(rows: Iterable[Row], most: int) -> list[Row]:
    """The rows with so many loads at most that found the line in their own cache: a CPU that spins makes any number."""
    return [replace(row, loads=(min(row.loads[OWN], most), *row.loads[1:])) for row in rows]


def hottest(rows: Iterable[Row], first: int, most_samples: int) -> list[int]:
    """A line, and then those with HITM, most of them first, as long as all together make no more samples than that."""
    by_line = sums_by(rows, lambda row: row.line)
    chosen = []
    for line, sums in sorted(by_line.items(), key=lambda item: (item[0] != first, -item[1].hitm, item[0])):
        if line == first or (sums.hitm and sums.records <= most_samples):
            chosen.append(line)
            most_samples -= sums.records
    return chosen


def _accesses(row: Row, thread: Thread) -> list[Access]:
    # One kind of instruction or the other; without a thread for each CPU the emulator does not tell.
    locked = row.atomics > 0 and row.atomics == sum(row.stores)

    def of(kind: Kind, count: int) -> list[Access]:
        chosen = kind.locked() if locked else kind
        access = Access(row.address, chosen, row.instruction, row.cpu, thread, row.physical, row.user)
        return [access] * count

    made = []
    for found in (OWN, MODIFIED_ELSEWHERE, CLEAN_ELSEWHERE, NOWHERE):
        made += of(INTEL[LOADS[found]], row.loads[found])
        made += of(INTEL[STORES[found]], row.stores[found])
    return made


def describe(
    rows: Iterable[Row],
    lines: Sequence[int],
    machine: Machine,
    kernel: Image,
    pid: int,
    mappings: Sequence[Mapping] = (),
    begin: int = SECOND,
) -> Description:
    """A perf.data file of all accesses to these lines; the program's threads stand for what its CPUs did."""
    wanted = set(lines)
    accesses: list[Access] = []
    for row in rows:
        if row.line in wanted:
            accesses += _accesses(row, Thread(pid, pid + row.cpu, f"CPU {row.cpu}"))
    file = File(machine, intel_events(machine.cpus), mappings=mappings)
    shift = kernel.text[0] - LINKED
    return Description("coherence", file, accesses, kernel, shift=shift, begin=begin, seconds=1)
