# SPDX-License-Identifier: GPL-2.0-or-later
"""Large files to measure time and memory with: what a shared line looks like at its extremes, and among many others.

Samples are made one by one while the file is written, so that twenty million take no memory.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from c2c import imported, perfdata_format
from c2c.access_kinds import INTEL, Kind
from c2c.description import BEGIN, SECOND, Access, Description, intel_events
from c2c.patterns import FUNCTIONS, INTEL_BIG, SHIFT, SLAB, instruction, kernel, workers
from c2c.perfdata_format import File
from c2c.perfdata_sample import Sample

HOT = [INTEL[name] for name in ("local HITM", "remote HITM", "L1", "LLC", "store, L1 hit", "store, L1 miss")]
HOT_WEIGHTS = (3, 1, 6, 2, 4, 2)
COLD = [INTEL[name] for name in ("L1", "L2", "LLC", "local DRAM", "fill buffer", "store, L1 hit")]
COLD_WEIGHTS = (6, 2, 2, 1, 1, 3)
# Choices are drawn from tables of so many entries: a draw of its own for each sample would take most of the time.
TABLE = 1 << 16

EVEN_LINES = 200
TAIL_LINES = 50_000
TAIL_HOT = 2_000

# For a sample's number: its line, and whether others use the line too.
Choose = Callable[[int], tuple[int, bool]]


def _one_line(_: random.Random) -> Choose:
    """All samples at one line."""
    return lambda number: (0, True)


def _even(_: random.Random) -> Choose:
    """200 lines, each used by all CPUs, as often as the others."""
    return lambda number: (number % EVEN_LINES, True)


def _tail(generator: random.Random) -> Choose:
    """50,000 lines: three of ten samples at 2,000 that are fought over, unevenly, the others spread over the rest."""
    hot = [int(generator.paretovariate(0.6)) % TAIL_HOT for _ in range(TABLE)]
    cold = [TAIL_HOT + generator.randrange(TAIL_LINES - TAIL_HOT) for _ in range(TABLE * 4 + 1)]
    return lambda number: (hot[number % TABLE], True) if number % 10 < 3 else (cold[number % len(cold)], False)


PATTERNS: Mapping[str, Callable[[random.Random], Choose]] = {"one line": _one_line, "even": _even, "tail": _tail}


@dataclass(frozen=True)
class Scale:
    """A file of so many samples by 176 threads on 176 CPUs."""

    pattern: str
    samples: int

    def generate(self) -> Iterator[Sample]:
        """The samples, in the order of time."""
        generator = random.Random(11)
        choose = PATTERNS[self.pattern](generator)
        symbols = kernel()
        machine = INTEL_BIG
        threads = workers(4000, machine.cpus, "ucache")
        hot = generator.choices(HOT, HOT_WEIGHTS, k=TABLE - 1)
        cold = generator.choices(COLD, COLD_WEIGHTS, k=TABLE - 1)
        cpus = [generator.randrange(machine.cpus) for _ in range(TABLE + 1)]
        offsets = [generator.randrange(8) * 8 for _ in range(TABLE - 15)]
        places: dict[tuple[str, int, Kind], int] = {
            (name, offset, kind): instruction(symbols, name, offset, kind)
            for name in FUNCTIONS
            for offset in range(0, 64, 8)
            for kind in {*HOT, *COLD}
        }
        step = max(1, 5 * SECOND // (self.samples + 1))
        make = tuple.__new__
        for number in range(self.samples):
            line, shared = choose(number)
            kind = (hot if shared else cold)[number % (TABLE - 1)]
            cpu = cpus[number % (TABLE + 1)]
            offset = offsets[number % (TABLE - 15)]
            address = SLAB + line * 64
            ip = places[FUNCTIONS[(address >> 6) % len(FUNCTIONS)], offset, kind]
            thread = threads[cpu]
            physical = machine.physical((address >> 12) % machine.nodes, (address & 0x3FFF_FFFF) + offset)
            weight = kind.weight + number % 13 if kind.weight else 0
            time = BEGIN + step * (number + 1)
            event = 1 if kind.store else 0
            yield make(
                Sample,
                (event, ip, 4000, thread.tid, time, address + offset, cpu, physical, kind.word, weight, False, ()),
            )

    def write(self, path: Path) -> Path:
        """Write the perf.data file; gives its path."""
        symbols = kernel()
        machine = INTEL_BIG
        ip = symbols.symbol(FUNCTIONS[0]).address
        each = [
            Access(SLAB, HOT[0], ip, cpu, thread) for cpu, thread in enumerate(workers(4000, machine.cpus, "ucache"))
        ]
        facts = Description("scale", File(machine, intel_events(machine.cpus)), each, symbols, shift=SHIFT).complete()
        last = BEGIN + max(1, 5 * SECOND // (self.samples + 1)) * self.samples
        return perfdata_format.write_path(replace(facts, sample_time=(BEGIN, last)), self.generate(), path)


def even_recording(directory: Path, samples: int) -> Path:
    """A recording of 200 lines that all CPUs use evenly; each is the other half of another one's 128 bytes."""
    output = directory / "out.lockline"
    done = imported.run(Scale("even", samples).write(directory / "perf.data"), output)
    assert done.returncode == 0, done.stderr
    return output
