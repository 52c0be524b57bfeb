# SPDX-License-Identifier: GPL-2.0-or-later
"""Sharing in user space with known truth: a program's data, heaps, shared memory, and the kernel's accesses to it."""

from c2c.access_kinds import INTEL
from c2c.description import MAP_SHARED, Builder, Description, Thread, intel_events
from c2c.patterns import SHIFT, build_id, kernel
from c2c.perfdata_format import File, Machine, Mapping
from c2c.symbol_images import Image, Symbol

MACHINE = Machine(cpus=16, nodes=2, hostname="lab3", memory_bytes=16 << 30)
PROGRAM = "/opt/lab/counters"
TEXT, DATA = 0x40_1000, 0x40_4000
HEAP = 0x1C3_2000
SHARED = (0x7F12_3400_0000, 0x7F98_7600_0000)
REUSED = 0x7FAA_0000_0000
INODE, SHARED_INODE = 4711, 4712


def program() -> Image:
    """A program with two counters on one line, and one on a line of its own."""
    functions = [Symbol(name, TEXT + index * 0x100, 0x100) for index, name in enumerate(("add_a", "add_b", "add_c"))]
    variables = [
        Symbol("counters", DATA + 0x80, 16, data=True),
        Symbol("alone", DATA + 0x100, 8, data=True),
    ]
    return Image((TEXT, TEXT + 0x1000), (DATA, DATA + 0x1000), [*functions, *variables], build_id("counters"))


def user_sharing() -> Description:
    """Two counters on one line; heaps of three processes at one address; memory shared at two addresses."""
    return _user_sharing("user-sharing", b"")


def user_sharing_by_build_id() -> Description:
    """The same with build ids in the records of mappings, as newer versions of perf write them."""
    return _user_sharing("user-sharing-by-build-id", program().build_id)


def _user_sharing(name: str, inline_id: bytes) -> Description:
    symbols = program()
    mappings = []
    for pid, shared in zip((3000, 3100), SHARED, strict=True):
        mappings += [
            Mapping(pid, TEXT, 0x1000, 0x1000, PROGRAM, INODE, (8, 1), build_id=inline_id),
            Mapping(pid, DATA, 0x1000, 0x4000, PROGRAM, INODE, (8, 1), protection=3, data=True, build_id=inline_id),
            Mapping(pid, HEAP, 0x21000, HEAP, "[heap]", protection=3, data=True),
            Mapping(
                pid,
                shared,
                0x10000,
                0,
                "/dev/shm/lab",
                SHARED_INODE,
                (0, 25),
                protection=3,
                flags=MAP_SHARED,
                data=True,
            ),
        ]
    mappings.append(Mapping(3100, REUSED, 0x2000, REUSED, "//anon", protection=3, data=True))
    later = [Mapping(3100, REUSED, 0x2000, 0x8000, "/dev/shm/lab", SHARED_INODE, (0, 25), 3, MAP_SHARED, True)]
    first = Builder(MACHINE, range(8), [Thread(3000, 3000 + index, "counters") for index in range(8)])
    second = Builder(MACHINE, range(8, 16), [Thread(3100, 3100 + index, "counters") for index in range(8)])

    def ip(name: str, more: int) -> int:
        return symbols.symbol(name).address + more

    counters = symbols.symbol("counters").address
    first.add(counters, INTEL["local HITM"], ip("add_a", 4), 55, user=True)
    first.add(counters, INTEL["store, L1 miss"], ip("add_a", 8), 140, user=True)
    first.add(counters + 8, INTEL["local HITM"], ip("add_b", 4), 61, user=True)
    first.add(counters + 8, INTEL["remote HITM"], ip("add_b", 4), 13, user=True)
    first.add(counters + 8, INTEL["store, L1 hit"], ip("add_b", 8), 120, user=True)
    first.add(symbols.symbol("alone").address, INTEL["L1"], ip("add_c", 4), 30, user=True)
    # One address in two processes: two lines.
    first.add(HEAP + 0x2A0, INTEL["local HITM"], ip("add_c", 12), 7, user=True)
    second.add(HEAP + 0x2A0, INTEL["local HITM"], ip("add_c", 12), 5, user=True)
    second.add(HEAP + 0x2A8, INTEL["store, L1 hit"], ip("add_c", 16), 6, user=True)
    # Two addresses of one page: one line.
    first.add(SHARED[0] + 0x1240, INTEL["remote HITM"], ip("add_a", 32), 9, user=True)
    second.add(SHARED[1] + 0x1240, INTEL["remote HITM"], ip("add_a", 32), 8, user=True)
    second.add(SHARED[1] + 0x1248, INTEL["store, L1 hit"], ip("add_a", 36), 10, user=True)
    # A child without records of its mappings: the program's data is the same line, the heap is its own.
    child = Builder(MACHINE, range(4), [Thread(3200, 3200, "counters")])
    child.add(counters + 8, INTEL["remote HITM"], ip("add_b", 4), 6, user=True)
    child.add(HEAP + 0x2A0, INTEL["local HITM"], ip("add_c", 12), 4, user=True)
    # The second process gets other memory at an address: after that it is another line.
    second.add(REUSED + 0x100, INTEL["local HITM"], ip("add_b", 64), 8, user=True)
    second.add(REUSED + 0x100, INTEL["local HITM"], ip("add_b", 64), 14, user=True, later=True)
    second.add(REUSED + 0x108, INTEL["store, L1 hit"], ip("add_b", 68), 5, user=True, later=True)
    # A page that is in no mapping of the file.
    first.add(0x7F00_0000_0040, INTEL["local HITM"], ip("add_b", 32), 3, user=True)
    # The kernel reads what the program writes: for perf a line of its own.
    kernel_ip = kernel().symbol("rep_movs_alternative").address + 0x20
    first.add(counters, INTEL["local HITM"], kernel_ip, 4)
    first.add(HEAP + 0x2A0, INTEL["local HITM"], kernel_ip, 2)
    file = File(MACHINE, intel_events(MACHINE.cpus), mappings=mappings, forks=[(3200, 3000)], round_samples=60)
    accesses = [*first.accesses, *second.accesses, *child.accesses]
    return Description(name, file, accesses, kernel(), programs=[(PROGRAM, symbols)], later=later, shift=SHIFT)
