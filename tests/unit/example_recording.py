# SPDX-License-Identifier: GPL-2.0-or-later
"""A small recording in which every part of a report has something to show."""

from pathlib import Path

from recording_generator import BEGIN, SECOND, RecordingBuilder

SPINLOCK, RWLOCK_W, MUTEX, RWSEM_W = 0, 2, 3, 6
MS = 1_000_000
US = 1_000

RUNQUEUE_0, RUNQUEUE_1, TASKLIST, PIPE, MMAP, UNNAMED = range(1, 7)


def make_example(path: Path) -> Path:
    """4 CPUs for 4 s: CPU 2 suffers, tasklist_lock is the worst lock, one wait for it lasts 40 ms."""
    builder = RecordingBuilder(
        path, seconds=4, cpus=4, meta={"tracefs": "not mounted", "command_line": "lockline record -a -d 4"}
    )
    builder.lock(RUNQUEUE_0, "runqueues.__lock", "CPU 0", "per-CPU symbol")
    builder.lock(RUNQUEUE_1, "runqueues.__lock", "CPU 1", "per-CPU symbol")
    builder.lock(TASKLIST, "tasklist_lock")
    builder.lock(PIPE, "pipe_inode_info.mutex", "", "slab")
    builder.lock(MMAP, "mm_struct.mmap_lock", "tid 1003", "owner object")
    builder.lock(UNNAMED, "a_function_with_a_rather_long_name_that_takes_a_lock", "", "call site")
    for interval in range(1, 5):
        for cpu in range(4):
            builder.waits(interval, cpu, RUNQUEUE_0, SPINLOCK, [400, 900, 2 * US])
            builder.waits(interval, cpu, RUNQUEUE_1, SPINLOCK, [700, 1_500])
            builder.waits(interval, cpu, PIPE, MUTEX, [50 * US, 80 * US, 200 * US], failed=1)
        builder.waits(interval, 2, TASKLIST, RWLOCK_W, [3 * MS] * 20 + [8 * MS])
        builder.waits(interval, 1, MMAP, RWSEM_W, [12 * US])
    builder.waits(3, 2, TASKLIST, RWLOCK_W, [40 * MS])
    builder.waits(3, 3, UNNAMED, SPINLOCK, [5 * US])

    builder.insert("cgroup", [(1, "/"), (2, "/system.slice/database.service")])
    builder.waiter(1, "strace", cgroup=2)
    builder.waiter(2, "writer")
    builder.waiter(3, "writer", tgid=1002)
    probe = ("bpf_prog_0123456789abcdef_on_begin bpf", "bpf_trace_run2", "__traceiter_contention_begin")
    builder.stack(1, *probe, "queued_write_lock_slowpath", "ptrace_attach", "__x64_sys_ptrace", "do_syscall_64")
    builder.stack(2, *probe, "__mutex_lock.constprop.0", "pipe_write", "vfs_write", "ksys_write", "do_syscall_64")
    builder.stack(3, "exit_notify", "do_exit", "nft_do_chain nf_tables")
    builder.insert(
        "sample_total",
        [
            (1, TASKLIST, RWLOCK_W, 1, 0, 5, 80, 260 * MS),
            (1, TASKLIST, RWLOCK_W, 3, 0, 1, 4, 60 * MS),
            (2, PIPE, MUTEX, 2, 0, 2, 24, 2_600 * US),
            (3, PIPE, MUTEX, 2, 0, 1, 20, 2_000 * US),
        ],
    )
    builder.insert(
        "sample_interval",
        [
            (3, 1, TASKLIST, RWLOCK_W, 1, 0, 2, 22, 108 * MS),
            (4, 2, PIPE, MUTEX, 2, 0, 1, 12, 1_300 * US),
        ],
    )
    builder.insert(
        "outlier",
        [
            (1, 3, BEGIN + 2 * SECOND, 40 * MS, 2, 2, 1, TASKLIST, RWLOCK_W, 0, 1, 0),
            (2, 1, BEGIN + 500 * MS, 8 * MS, 2, 1, 1, TASKLIST, RWLOCK_W, 0, 1, 0),
            (3, 4, BEGIN + 3 * SECOND, 8 * MS, 2, 2, 1, TASKLIST, RWLOCK_W, -4, 3, 0),
        ],
    )
    builder.stack(4, "_raw_write_unlock_irq", "release_task", "wait_consider_task", "do_wait")
    builder.waiter(4, "reaper")
    builder.insert(
        "holder_total",
        [
            (TASKLIST, RWLOCK_W, 4, 70, 60, 280 * MS, 39 * MS),
            (TASKLIST, RWLOCK_W, 0, 0, 24, 9 * MS, 2 * MS),
            (PIPE, MUTEX, 3, 0, 20, 2 * MS, 150 * US),
        ],
    )
    builder.insert("release_stack", [(TASKLIST, RWLOCK_W, 4, 4, 3, 70, 280 * MS)])
    builder.insert(
        "fairness",
        [
            (TASKLIST, RWLOCK_W, 84, 70, 2, 5, 9, 4, 60, 90 * US, 4 * US, 0, 0, 0, b""),
            (RUNQUEUE_0, SPINLOCK, 12, 12, 0, 0, 0, 0, 12, 6 * US, 900, 4, 8 * US, 3 * US, b"\x10\0\x04\0\0\0"),
        ],
    )
    builder.insert(
        "episode",
        [
            (
                1,
                1,
                "ended",
                1001,
                1,
                TASKLIST,
                RWLOCK_W,
                BEGIN + 2 * SECOND,
                40 * MS,
                2,
                2,
                1,
                1,
                "off",
                "inferred: caller frame _raw_*_lock_irq or _irqsave",
                1,
                BEGIN + 2 * SECOND - MS,
                BEGIN + 2 * SECOND + 41 * MS,
                b"\x0e",
                1,
                0,
                0,
                "",
                0,
                "",
            ),
            (
                2,
                0,
                "in progress",
                1002,
                3,
                PIPE,
                MUTEX,
                BEGIN + 3 * SECOND,
                700 * MS,
                3,
                3,
                0,
                120,
                "on",
                "inferred: waiters for sleeping locks may sleep",
                2,
                BEGIN + 3 * SECOND - MS,
                BEGIN + 3 * SECOND + 700 * MS,
                b"\x08",
                0,
                3,
                4,
                "D",
                4,
                "owner field, and /proc/TID/stack",
            ),
        ],
    )
    begin = BEGIN + 2 * SECOND
    builder.insert(
        "timeline",
        [
            (begin + 10 * US, 1, "wait task", 1, 9 * MS, 4, 1, 0, 900, "", 0),
            (begin + 20 * MS, 1, "release", 1, 0, 4, 0, TASKLIST, 0, "", 4),
            (begin + 39 * MS, 1, "vector", 2, 5 * US, 4, 0, 0, 0, "local_timer", 0),
            (begin + 39 * MS + 50 * US, 1, "release", 2, 0, 4, 0, TASKLIST, 0, "", 0),
            (begin + 40 * MS, 2, "acquired", 1, 40 * MS, 1, 0, TASKLIST, 0, "", 0),
            (begin + 40 * MS, 0, "switch", 1, 0, 2, 3, 0, 1, "", 0),
        ],
    )
    builder.insert("open_wait", [(1002, 1002, "writer", 3, PIPE, MUTEX, BEGIN + 3 * SECOND, 700 * MS)])
    builder.insert(
        "probe",
        [
            ("lock waits", "on", "tp_btf", "BTF has both tracepoints", ""),
            (
                "spinlock first waiter",
                "blind",
                "",
                "native qspinlock: the pending bit has no tracepoint",
                "waits of the first waiter behind a holder",
            ),
            (
                "slab lock names",
                "unavailable",
                "",
                "bpf_get_kmem_cache is not in this kernel",
                "members of slab objects",
            ),
            ("user stacks", "off", "", "not asked for", ""),
        ],
    )
    builder.insert(
        "program",
        [
            ("contention_begin", "lock waits", 600_000, 20_000, 1_400_000, 3),
            ("contention_end", "lock waits", None, 0, 0, 0),
        ],
    )
    builder.insert("cost", [("cpu_ns", 80 * MS, "ns"), ("peak_rss_bytes", 12 << 20, "bytes"), ("rows", 9, "rows")])
    builder.insert(
        "loss",
        [
            ("table full", 0, "waits that went to the row of all locks", "loss"),
            ("torn events", 2, "events that were overwritten while they were read", "loss"),
            ("unmatched", 5, "ends without a begin", "info"),
        ],
    )
    builder.insert("begin_count", [(SPINLOCK, 120), (RWLOCK_W, 85), (MUTEX, 70), (RWSEM_W, 4)])
    return builder.finish()
