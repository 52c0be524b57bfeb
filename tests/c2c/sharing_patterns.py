# SPDX-License-Identifier: GPL-2.0-or-later
"""More patterns with known truth: lock words, true sharing, adjacent lines, read-mostly lines, peer snoops."""

from collections.abc import Sequence

from c2c.access_kinds import INTEL, SPE, Kind
from c2c.description import Builder, Description, Thread, intel_events, spe_events
from c2c.patterns import SHIFT, SLAB, instruction, kernel, noise, workers
from c2c.perfdata_format import File, Machine

SMALL = Machine(cpus=16, nodes=2, hostname="lab3", memory_bytes=16 << 30)

Row = tuple[int, str, Kind, int]


def _rows(builder: Builder, line: int, rows: Sequence[Row]) -> None:
    symbols = kernel()
    for offset, function, kind, count in rows:
        builder.add(line + offset, kind, instruction(symbols, function, offset, kind), count)


def _builder(machine: Machine = SMALL, cpus: Sequence[int] | None = None, pid: int = 2000) -> Builder:
    chosen = range(machine.cpus) if cpus is None else cpus
    return Builder(machine, chosen, workers(pid, machine.cpus, "worker"))


def _description(name: str, *builders: Builder, machine: Machine = SMALL) -> Description:
    accesses = [access for builder in builders for access in builder.accesses]
    return Description(name, File(machine, intel_events(machine.cpus)), accesses, kernel(), shift=SHIFT)


def lock_word() -> Description:
    """A spinlock alone on its line: all accesses at one offset, by the functions of spinning and unlocking."""
    builder = _builder()
    rows: Sequence[Row] = (
        (0, "native_queued_spin_lock_slowpath", INTEL["local HITM"], 90),
        (0, "native_queued_spin_lock_slowpath", INTEL["remote HITM"], 60),
        (0, "native_queued_spin_lock_slowpath", INTEL["L1"], 200),
        (0, "_raw_spin_lock", INTEL["local HITM"].locked(), 40),
        (0, "_raw_spin_lock", INTEL["remote HITM"].locked(), 30),
        (0, "_raw_spin_lock", INTEL["store, L1 miss"].locked(), 80),
        (0, "_raw_spin_unlock", INTEL["store, L1 hit"], 75),
    )
    _rows(builder, kernel().symbol("inode_hash_lock").address, rows)
    noise(builder, INTEL, ("L1", "L2"), 200)
    return _description("lock-word", builder)


def true_sharing() -> Description:
    """One counter that all CPUs add to."""
    builder = _builder()
    rows: Sequence[Row] = (
        (8, "percpu_counter_add_batch", INTEL["local HITM"].locked(), 70),
        (8, "percpu_counter_add_batch", INTEL["remote HITM, remote bit"].locked(), 50),
        (8, "percpu_counter_add_batch", INTEL["store, L1 hit"].locked(), 110),
        (8, "page_counter_try_charge", INTEL["local HITM"], 12),
    )
    _rows(builder, kernel().symbol("vm_committed_as").address, rows)
    return _description("true-sharing", builder)


def adjacent_lines() -> Description:
    """The first line of a 128-byte pair is written, the second only read, yet comes modified from others."""
    writers, readers = _builder(cpus=range(0, 16, 2)), _builder(cpus=range(1, 16, 2))
    pair = SLAB & -128
    _rows(
        writers,
        pair,
        (
            (0x00, "page_counter_try_charge", INTEL["local HITM"].locked(), 44),
            (0x00, "page_counter_try_charge", INTEL["remote HITM"].locked(), 21),
            (0x00, "page_counter_try_charge", INTEL["store, L1 miss"].locked(), 90),
            (0x08, "page_counter_uncharge", INTEL["store, L1 hit"].locked(), 60),
        ),
    )
    _rows(
        readers,
        pair + 64,
        (
            (0x10, "memcg_stat_flush", INTEL["local HITM"], 17),
            (0x10, "memcg_stat_flush", INTEL["remote HITM"], 9),
            (0x10, "memcg_stat_flush", INTEL["LLC, snoop hit"], 80),
            (0x18, "try_charge_memcg", INTEL["fill buffer"], 50),
        ),
    )
    return _description("adjacent-lines", writers, readers)


def read_mostly() -> Description:
    """One writer, many readers: few HITM among many hits."""
    readers, writer = _builder(), _builder(cpus=[3])
    line = kernel().symbol("tk_core").address
    _rows(
        readers,
        line,
        (
            (0x00, "ktime_get", INTEL["local HITM"], 2),
            (0x00, "ktime_get", INTEL["remote HITM"], 1),
            (0x00, "ktime_get", INTEL["L1"], 900),
            (0x10, "ktime_get", INTEL["L1"], 700),
            (0x10, "ktime_get", INTEL["remote hit"], 4),
        ),
    )
    _rows(writer, line, ((0x00, "update_fast_timekeeper", INTEL["store, L1 hit"], 5),))
    return _description("read-mostly", readers, writer)


def fill_buffer_only() -> Description:
    """One socket: no HITM at all, but fill-buffer hits and stores of several threads on one line."""
    machine = Machine(cpus=4, nodes=1, hostname="lab4")
    builder = _builder(machine)
    rows: Sequence[Row] = (
        (0x00, "fget", INTEL["fill buffer"].locked(), 120),
        (0x00, "fget", INTEL["store, L1 miss"].locked(), 300),
        (0x08, "futex_wake", INTEL["fill buffer"], 150),
        (0x08, "futex_wake", INTEL["store, L1 miss"], 250),
    )
    _rows(builder, SLAB, rows)
    quiet = _builder(machine)
    _rows(quiet, SLAB + 0x1000, ((0, "futex_q_lock", INTEL["local HITM"], 1),))
    return _description("fill-buffer-only", builder, quiet, machine=machine)


def stores_without_level() -> Description:
    """Stores of which the PMU tells no level."""
    builder = _builder()
    rows: Sequence[Row] = (
        (0x00, "fget", INTEL["store, no level"], 70),
        (0x20, "futex_wake", INTEL["store, no level"].locked(), 30),
        (0x20, "futex_wake", INTEL["local HITM"], 20),
    )
    _rows(builder, SLAB, rows)
    return _description("stores-without-level", builder)


def peer_snoops() -> Description:
    """Arm: data from a peer instead of HITM."""
    machine = Machine(
        cpus=64,
        nodes=2,
        hostname="lab5",
        architecture="aarch64",
        cpu_model="Neoverse-V2",
        cpuid="0x00000000410fd4f0",
        memory_bytes=16 << 30,
    )
    builder = _builder(machine)
    rows: Sequence[Row] = (
        (0x00, "futex_wake", SPE["local peer"], 60),
        (0x00, "futex_wake", SPE["remote peer"], 25),
        (0x00, "futex_wake", SPE["L1"], 40),
        (0x08, "plist_add", SPE["local peer, L2"], 11),
        (0x08, "plist_add", SPE["store, no level"], 30),
        (0x10, "plist_del", SPE["store, L1 hit"], 20),
    )
    _rows(builder, SLAB, rows)
    for index in range(1, 12):
        _rows(builder, SLAB + index * 64, ((0, "fget", SPE["local peer"], index), (0, "fget", SPE["local DRAM"], 3)))
    file = File(machine, spe_events(machine.cpus), command=("perf", "inject", "--itrace", "-i", "perf.data"))
    return Description("peer-snoops", file, builder.accesses, kernel(), shift=SHIFT)


def every_kind() -> Description:
    """Each kind of access, locked and not, in a mapping and in none, and without an address."""
    builder = _builder()
    symbols = kernel()
    mapped = symbols.symbol("nr_dentry_total").address
    newer = INTEL["L2, modified by another"]
    for index, kind in enumerate(kind for kind in INTEL.values() if kind != newer):
        for chosen, count in ((kind, 3 + index), (kind.locked(), 2)):
            offset = index * 8 % 64
            ip = instruction(symbols, "copy_page", offset, chosen)
            builder.add(SLAB + index // 8 * 64 + offset, chosen, ip, count)
            builder.add(mapped, chosen, ip, count)
            builder.add(SLAB + 0x4000 + index * 64, chosen, ip, 1)
            builder.add(0, chosen, ip, 2)
    for index in range(3):
        # Code that no mapping covers.
        builder.add(SLAB + 8, INTEL["local HITM"], 0xFFFF_FFFF_C0A0_1000 + index * 16, 4)
    return _description("every-kind", builder)


def level_2_hitm() -> Description:
    """A modified line in a level-2 cache: perf counts it as a HITM since the versions that know such caches."""
    builder = _builder()
    rows: Sequence[Row] = (
        (0, "futex_wake", INTEL["local HITM"], 10),
        (0, "futex_wake", INTEL["L2, modified by another"], 14),
        (8, "plist_add", INTEL["store, L1 hit"], 9),
    )
    _rows(builder, SLAB, rows)
    return _description("level-2-hitm", builder)


def threads_of(description: Description) -> list[Thread]:
    """The tasks that make the accesses."""
    return sorted({access.thread for access in description.accesses}, key=lambda thread: thread.tid)
