# SPDX-License-Identifier: GPL-2.0-or-later
"""Patterns of sharing with known truth: a line of futex_hash_bucket, lock words, true sharing, adjacent lines."""

import hashlib
import random
from collections.abc import Mapping, Sequence
from functools import cache

from c2c.access_kinds import IBS, INTEL, Kind
from c2c.description import Builder, Description, Thread, ibs_events, intel_events
from c2c.perfdata_format import File, Machine
from c2c.symbol_images import Image, image

TEXT = 0xFFFF_FFFF_9D00_0000
LINKED = 0xFFFF_FFFF_8100_0000
SHIFT = TEXT - LINKED
# In the kernel's direct map, which no mapping of the file covers.
BUCKETS = 0xFFFF_88A0_C0D4_A000
SLAB = 0xFFFF_88A1_2300_0000

FUNCTIONS = (
    "futex_wake",
    "futex_q_lock",
    "futex_q_unlock",
    "__futex_unqueue",
    "plist_add",
    "plist_del",
    "native_queued_spin_lock_slowpath",
    "_raw_spin_lock",
    "_raw_spin_unlock",
    "percpu_counter_add_batch",
    "page_counter_try_charge",
    "page_counter_uncharge",
    "fget",
    "ktime_get",
    "update_fast_timekeeper",
    "copy_page",
    "memcg_stat_flush",
    "try_charge_memcg",
    "rep_movs_alternative",
    "do_futex",
    "__x64_sys_futex",
    "do_syscall_64",
    "entry_SYSCALL_64_after_hwframe",
)
VARIABLES = (
    ("inode_hash_lock", 4),
    ("vm_committed_as", 40),
    ("nr_dentry_total", 8),
    ("tk_core", 64),
    # As many as a kernel has that tells its variables (CONFIG_KALLSYMS_ALL).
    *((f"sysctl_lab_{index}", 8) for index in range(1200)),
)

# Of the S4 line: offset, function, kind, locked, count.  129 local and 31 remote HITM.
BUCKET = (
    (0x00, "futex_wake", "local HITM", False, 34),
    (0x00, "futex_wake", "remote HITM", False, 8),
    (0x00, "futex_wake", "L1", False, 40),
    (0x00, "futex_q_lock", "local HITM", True, 11),
    (0x00, "futex_q_lock", "remote HITM", True, 3),
    (0x00, "futex_q_lock", "store, L1 hit", True, 30),
    (0x00, "futex_q_unlock", "store, L1 hit", True, 22),
    (0x04, "native_queued_spin_lock_slowpath", "local HITM", False, 38),
    (0x04, "native_queued_spin_lock_slowpath", "remote HITM", False, 10),
    (0x04, "native_queued_spin_lock_slowpath", "L1", False, 60),
    (0x04, "native_queued_spin_lock_slowpath", "store, no level", False, 18),
    (0x04, "_raw_spin_lock", "local HITM", True, 21),
    (0x04, "_raw_spin_lock", "remote HITM", True, 5),
    (0x04, "_raw_spin_lock", "store, L1 hit", True, 26),
    (0x04, "_raw_spin_unlock", "store, L1 hit", False, 30),
    (0x08, "futex_wake", "local HITM", False, 12),
    (0x08, "futex_wake", "remote HITM", False, 3),
    (0x08, "futex_wake", "L1", False, 30),
    (0x08, "plist_add", "local HITM", False, 4),
    (0x08, "plist_add", "store, L1 hit", False, 9),
    (0x08, "__futex_unqueue", "local HITM", False, 3),
    (0x08, "__futex_unqueue", "remote HITM", False, 1),
    (0x08, "__futex_unqueue", "store, L1 hit", False, 8),
    (0x10, "plist_add", "local HITM", False, 4),
    (0x10, "plist_add", "remote HITM", False, 1),
    (0x10, "plist_add", "store, L1 hit", False, 6),
    (0x10, "plist_del", "local HITM", False, 2),
    (0x10, "plist_del", "store, no level", False, 5),
)


def build_id(name: str) -> bytes:
    """A build id made from a name."""
    return hashlib.sha1(name.encode()).digest()


@cache
def kernel() -> Image:
    """The kernel of the generated files, at the address to which KASLR moved it."""
    return image(TEXT, FUNCTIONS, VARIABLES, build_id("vmlinux"))


def bucket_line(index: int = 0) -> int:
    """The address of a futex_hash_bucket; its lock is at + 4."""
    return BUCKETS + 0x3C0 + index * 64


def _ip(symbols: Image, function: str, offset: int) -> int:
    return symbols.symbol(function).address + 0x20 + offset


def instruction(symbols: Image, function: str, offset: int, kind: Kind) -> int:
    """One instruction for each function, offset and operation; an atomic operation is one that loads and stores."""
    store = kind.store and "locks" not in kind.counts
    locked = "locks" in kind.counts
    return _ip(symbols, function, offset * 4 + store + 2 * locked)


def _bucket(builder: Builder, symbols: Image, kinds: Mapping[str, Kind], line: int) -> None:
    for offset, function, kind, locked, count in BUCKET:
        chosen = kinds[kind].locked() if locked else kinds[kind]
        builder.add(line + offset, chosen, instruction(symbols, function, offset, chosen), count)


def _quiet_buckets(builder: Builder, symbols: Image, kinds: Mapping[str, Kind], count: int) -> None:
    """Other buckets: a few HITM each, fewer than the first."""
    for index in range(1, count + 1):
        line = bucket_line(index)
        for offset, function, kind, count in (
            (0, "futex_wake", kinds["local HITM"], 1 + index % 5),
            (4, "_raw_spin_lock", kinds["store, L1 hit"].locked(), 2),
            (8, "futex_wake", kinds["L1"], 3),
        ):
            builder.add(line + offset, kind, instruction(symbols, function, offset, kind), count)


def noise(builder: Builder, kinds: Mapping[str, Kind], names: Sequence[str], lines: int) -> None:
    """Lines of their own that nobody shares."""
    symbols = kernel()
    generator = random.Random(7)
    for index in range(lines):
        address = SLAB + index * 64 + generator.randrange(8) * 8
        function = FUNCTIONS[generator.randrange(len(FUNCTIONS))]
        builder.add(address, kinds[generator.choice(names)], _ip(symbols, function, 40 + index % 50), 1 + index % 3)


def workers(pid: int, count: int, comm: str) -> list[Thread]:
    """Threads of one process, the first with the process's number."""
    return [Thread(pid, pid + index, comm) for index in range(count)]


BIG = Machine(
    cpus=176,
    nodes=2,
    hostname="lab2",
    cpu_model="AMD EPYC 9D64 88-Core Processor",
    cpuid="AuthenticAMD,25,17,1",
    memory_bytes=64 << 30,
)
INTEL_BIG = Machine(
    cpus=176,
    nodes=2,
    hostname="lab2",
    cpu_model="Example Xeon CPU @ 2.00GHz",
    memory_bytes=64 << 30,
)


@cache
def futex_bucket() -> Description:
    """S4: the bucket's line, 129 + 31 HITM from 156 of 176 CPUs; loads and stores as two events."""
    symbols = kernel()
    # 20 CPUs of the machine never touch it.
    cpus = [cpu for cpu in range(INTEL_BIG.cpus) if cpu % 44 < 39]
    builder = Builder(INTEL_BIG, cpus, workers(4000, len(cpus), "ucache"))
    _bucket(builder, symbols, INTEL, bucket_line())
    _quiet_buckets(builder, symbols, INTEL, 20)
    everywhere = Builder(INTEL_BIG, range(INTEL_BIG.cpus), workers(4000, INTEL_BIG.cpus, "ucache"))
    noise(everywhere, INTEL, ("L1", "L2", "LLC", "local DRAM", "fill buffer", "store, L1 hit"), 2000)
    file = File(INTEL_BIG, intel_events(INTEL_BIG.cpus))
    return Description("futex-bucket", file, builder.accesses + everywhere.accesses, symbols, shift=SHIFT)


def futex_bucket_ibs() -> Description:
    """S4 as AMD's IBS shows it: one event, most samples are of no memory op, stores mostly without a level."""
    symbols = kernel()
    cpus = [cpu for cpu in range(BIG.cpus) if cpu % 44 < 39]
    builder = Builder(BIG, cpus, workers(4000, len(cpus), "ucache"))
    _bucket(builder, symbols, IBS, bucket_line())
    _quiet_buckets(builder, symbols, IBS, 20)
    everywhere = Builder(BIG, range(BIG.cpus), workers(4000, BIG.cpus, "ucache"))
    noise(everywhere, IBS, ("L1", "L2", "LLC", "local DRAM", "store, no level"), 1000)
    memory_ops = len(builder.accesses) + len(everywhere.accesses)
    # 83.7 % of the samples, as measured on Zen 4.
    for index in range(round(memory_ops * 0.837 / 0.163)):
        everywhere.add(0, IBS["not a memory op"], _ip(symbols, FUNCTIONS[index % len(FUNCTIONS)], index % 64))
    file = File(BIG, ibs_events(BIG.cpus), command=("perf", "c2c", "record", "-a", "sleep", "1"))
    return Description("futex-bucket-ibs", file, builder.accesses + everywhere.accesses, symbols, shift=SHIFT)
