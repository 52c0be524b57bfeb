# SPDX-License-Identifier: GPL-2.0-or-later
"""A lockline recording of the same kernel and seconds as a generated perf.data file: waits for locks on its lines."""

import struct
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import recording_generator
from c2c.description import BEGIN, SECOND, Description
from c2c.patterns import bucket_line
from c2c.perfdata_sample import Sample
from recording_generator import RecordingBuilder

BOOT_ID = "5d1f0a9e-0c2b-4e55-9d77-3f2a64b0c4aa"
SPINLOCK = recording_generator.KINDS.index("spinlock")
SLOW_PATH = "native_queued_spin_lock_slowpath"
SYSTEM_CALL = ("do_futex", "__x64_sys_futex", "do_syscall_64", "entry_SYSCALL_64_after_hwframe")
# Leaf first: who waits for the bucket's lock, and how many of the samples stand for it.
STACKS = (
    (SLOW_PATH, "_raw_spin_lock", "futex_wake", *SYSTEM_CALL),
    (SLOW_PATH, "_raw_spin_lock", "futex_q_lock", *SYSTEM_CALL),
)
BEFORE, AFTER = 21_000, 33_000


@dataclass(frozen=True)
class LockRecording:
    """The recording, its waits by lock address, and by offset the samples of the bucket's line in a wait."""

    path: Path
    waits: dict[int, int]
    in_wait: dict[int, int]


def _signed(address: int) -> int:
    return address - (1 << 64) if address >> 63 else address


def _waits(description: Description, lock: int) -> list[Sample]:
    """The samples of the slow path at the lock's word: each is within a wait."""
    assert description.kernel
    slow = description.kernel.symbol(SLOW_PATH)
    return [
        sample
        for sample in description.samples()
        if sample.address == lock and slow.address <= sample.ip < slow.address + slow.size
    ]


def _in_wait(description: Description, waits: list[Sample], line: int) -> dict[int, int]:
    """By offset, the samples of the line that their thread made while it waited."""
    spans: dict[int, list[tuple[int, int]]] = {}
    for wait in waits:
        spans.setdefault(wait.tid, []).append((wait.time - BEFORE, wait.time + AFTER))
    found: Counter[int] = Counter()
    for sample in description.samples():
        if sample.address & -64 == line:
            inside = any(begin <= sample.time <= end for begin, end in spans.get(sample.tid, ()))
            found[sample.address % 64] += inside
    return dict(found)


def write_lock_recording(description: Description, path: Path) -> LockRecording:
    """Waits for the bucket's lock, one around each sample of its slow path, and quieter ones for other locks."""
    kernel, machine = description.kernel, description.file.machine
    assert kernel
    line = bucket_line()
    lock = line + 4
    builder = RecordingBuilder(
        path,
        description.seconds,
        machine.cpus,
        {
            "hostname": machine.hostname,
            "kernel_release": machine.release,
            "architecture": machine.architecture,
            "cpu_model": machine.cpu_model,
            "memory_total_bytes": machine.memory_bytes,
            "boot_id": BOOT_ID,
            "kernel_text_address": f"{kernel.text[0]:#x}",
            "threshold_ns": 10_000,
        },
    )
    locks = {
        1: (lock, "futex_hash_bucket.lock", "", "call site"),
        2: (line + 2 * 64 + 4, "futex_hash_bucket.lock", "", "call site"),
        3: (kernel.symbol("inode_hash_lock").address, "inode_hash_lock", "", "symbol"),
    }
    builder.insert("lock", ((number, _signed(address), *rest) for number, (address, *rest) in locks.items()))
    for number, names in enumerate(STACKS, 1):
        addresses = [kernel.symbol(name).address + 0x5A for name in names]
        builder.insert("stack", [(number, 0, struct.pack(f"<{len(addresses)}Q", *addresses))])
        for name, address in zip(names, addresses, strict=True):
            builder.connection.execute(
                "INSERT OR IGNORE INTO frame VALUES (0, ?, ?, 0x5A, '')", (_signed(address), name)
            )
    waits = _waits(description, lock)
    tids = sorted({(sample.tid, sample.pid) for sample in waits})
    comms = {access.thread.tid: access.thread.comm for access in description.accesses}
    waiter = {tid: number for number, (tid, _) in enumerate(tids, 1)}
    builder.insert("cgroup", [(1, "/")])
    builder.insert("waiter", ((waiter[tid], tid, pid, comms[tid], 1) for tid, pid in tids))
    outliers, samples = [], Counter[tuple[int, int]]()
    for number, wait in enumerate(waits, 1):
        interval = min(description.seconds, (wait.time + AFTER - BEGIN) // SECOND + 1)
        stack = 1 + number % len(STACKS)
        length = BEFORE + AFTER
        builder.waits(interval, wait.cpu, 1, SPINLOCK, [length])
        samples[waiter[wait.tid], stack] += 1
        begin = wait.time - BEFORE
        row = (number, interval, begin, length, wait.cpu, wait.cpu, waiter[wait.tid], 1, SPINLOCK, 0, stack, 0)
        outliers.append(row)
    for interval in range(1, description.seconds + 1):
        builder.waits(interval, 5, 2, SPINLOCK, [700, 1_100])
        builder.waits(interval, 9, 3, SPINLOCK, [400])
    builder.insert("outlier", outliers)
    each = BEFORE + AFTER
    builder.insert(
        "sample_total",
        ((who, 1, SPINLOCK, stack, 0, count, count, count * each) for (who, stack), count in samples.items()),
    )
    builder.insert("probe", [("lock waits", "on", "tp_btf", "", ""), ("spinning waits", "on", "fentry", "", "")])
    builder.finish()
    totals = {lock: len(waits), locks[2][0]: 2 * description.seconds, locks[3][0]: description.seconds}
    return LockRecording(path, totals, _in_wait(description, waits, line))
