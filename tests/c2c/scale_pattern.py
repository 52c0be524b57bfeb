# SPDX-License-Identifier: GPL-2.0-or-later
"""Large files: many lines of which some are contended, to measure time and memory with."""

import random

from c2c.access_kinds import INTEL
from c2c.description import Access, Description, intel_events
from c2c.patterns import FUNCTIONS, INTEL_BIG, SHIFT, SLAB, instruction, kernel, workers
from c2c.perfdata_format import File

CONTENDED = 2_000


def scale(samples: int = 1_000_000) -> Description:
    """So many samples by 176 threads: 30 % at 2,000 contended lines, unevenly; the others at lines of their own."""
    private = samples * 2 // 5
    symbols = kernel()
    machine = INTEL_BIG
    generator = random.Random(11)
    threads = workers(4000, machine.cpus, "ucache")
    hot = [INTEL[name] for name in ("local HITM", "remote HITM", "L1", "LLC", "store, L1 hit", "store, L1 miss")]
    cold = [INTEL[name] for name in ("L1", "L2", "LLC", "local DRAM", "fill buffer", "store, L1 hit")]
    addresses = {name: symbols.symbol(name).address for name in FUNCTIONS}
    hot_kinds = generator.choices(hot, (3, 1, 6, 2, 4, 2), k=samples)
    cold_kinds = generator.choices(cold, (6, 2, 2, 1, 1, 3), k=samples)
    ips = {
        (name, offset, kind): instruction(symbols, name, offset, kind)
        for name in addresses
        for offset in range(0, 64, 8)
        for kind in {*hot, *cold}
    }
    accesses = []
    # As randrange(), in a third of its time: these are millions.
    chance = generator.random
    for index in range(samples):
        cpu = int(chance() * machine.cpus)
        offset = int(chance() * 8) * 8
        if index % 10 < 3:
            line = SLAB + int(generator.paretovariate(0.6)) % CONTENDED * 64
            kind = hot_kinds[index]
        else:
            line = SLAB + (CONTENDED + int(chance() * private)) * 64
            kind = cold_kinds[index]
        name = FUNCTIONS[(line >> 6) % len(FUNCTIONS)]
        physical = machine.physical((line >> 12) % machine.nodes, (line & 0x3FFF_FFFF) + offset)
        accesses.append(Access(line + offset, kind, ips[name, offset, kind], cpu, threads[cpu], physical))
    return Description("scale", File(machine, intel_events(machine.cpus)), accesses, symbols, shift=SHIFT)
