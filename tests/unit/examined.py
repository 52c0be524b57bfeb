# SPDX-License-Identifier: GPL-2.0-or-later
"""Recordings whose cause is known, and near misses of them: what test_examination.py asks the first screen about."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lockline.base import histogram
from lockline.recording import user_rows
from recording_generator import BEGIN, SECOND, RecordingBuilder

SPINLOCK, RWLOCK_W, MUTEX, RWSEM_R, RWSEM_W, RTMUTEX, PERCPU_R, PERCPU_W = 0, 2, 3, 5, 6, 7, 10, 11
MS, US = 1_000_000, 1_000
# Of each recording.
SECONDS = 4


class Scene:
    """A recording of four seconds, filled by one case; tasks are named when they first appear."""

    def __init__(self, path: Path, cpus: int = 4, **meta: object) -> None:
        self.cpus = cpus
        self.builder = RecordingBuilder(path, SECONDS, cpus, {"cpus_online": cpus, **meta})
        self.tasks: dict[str, int] = {}
        self.stacks: dict[tuple[str, ...], int] = {}
        self.outliers = 0

    def task(self, comm: str) -> int:
        """Its id; the tid is 1000 more."""
        if comm not in self.tasks:
            self.tasks[comm] = self.builder.waiter(len(self.tasks) + 1, comm)
        return self.tasks[comm]

    def stack(self, *symbols: str) -> int:
        """Its id; no symbols: no stack."""
        if symbols and symbols not in self.stacks:
            self.stacks[symbols] = self.builder.stack(len(self.stacks) + 1, *symbols)
        return self.stacks.get(symbols, 0)

    def waits(
        self, lock: int, kind: int, each_ns: int, a_second: int, who: str = "", where: Sequence[str] = (), cpu: int = -1
    ) -> None:
        """Waits in each second, on all CPUs in turn or on one; sampled where it is known who waits."""
        for interval in range(1, SECONDS + 1):
            for one in range(self.cpus) if cpu < 0 else [cpu]:
                number = a_second // self.cpus if cpu < 0 else a_second
                if number:
                    self.builder.waits(interval, one, lock, kind, [each_ns] * number)
        if who:
            waits = a_second * SECONDS
            sample = (self.task(who), lock, kind, self.stack(*where), 0, 9, waits, waits * each_ns)
            self.builder.insert("sample_total", [sample])

    def outlier(self, lock: int, kind: int, wait_ns: int, who: str, where: Sequence[str], cpu: int = 1) -> None:
        """One long wait."""
        self.outliers += 1
        begin = BEGIN + self.outliers * 10 * MS
        row = (self.outliers, 1, begin, wait_ns, cpu, cpu, self.task(who), lock, kind, 0, self.stack(*where), 0)
        self.builder.insert("outlier", [row])

    def held(
        self, lock: int, kind: int, who: str, releases: int, caused_ns: int, most_ns: int, where: Sequence[str] = ()
    ) -> None:
        """What the holds of a task caused, and where it released; who "": readers."""
        task = self.task(who) if who else 900
        if not who:
            self.builder.insert("waiter", [(900, 0, 0, "[readers]", 0)])
        self.builder.insert("holder_total", [(lock, kind, task, releases, releases, caused_ns, most_ns)])
        if where:
            stack = self.stack(*where)
            self.builder.insert("release_stack", [(lock, kind, task, stack, 5, releases, caused_ns)])

    def futex(self, number: int, comm: str, name: str, waits: tuple[int, ...], **figures: int) -> None:
        """A futex of process 70."""
        values: dict[str, Any] = dict.fromkeys(user_rows.FutexTotal._fields, 0)
        blob = histogram.encode(histogram.of(waits))
        values |= {"futex": number, "calls": len(waits), "slept": len(waits), "wait_ns": sum(waits)}
        values |= {"max_ns": max(waits, default=0), "histogram": blob, "latency_histogram": blob} | figures
        self.builder.insert("futex", [(number, 70, comm, 4096 * number, 0, name, f"/usr/bin/{comm}")])
        self.builder.insert("futex_total", [tuple(values.values())])


@dataclass(frozen=True)
class Case:
    """make: fills a scene.  words: cause, culprit and remedy, all of which the first screen must have.

    rule: of the first finding, "" if there is to be none.  meta, cpus: of the scene.
    """

    make: Callable[[Scene], None]
    rule: str
    words: tuple[str, ...]
    cpus: int = 4
    meta: dict[str, object] = field(default_factory=dict)


def mmap_storm(scene: Scene, a_second: int = 40_000, each_ns: int = 60 * US) -> None:
    scene.builder.lock(1, "mm_struct.mmap_lock", "tid 1001", "owner object")
    where = ("rwsem_down_write_slowpath", "down_write_killable", "vm_mmap_pgoff", "do_syscall_64")
    scene.waits(1, RWSEM_W, each_ns, a_second, "allocator", where)


def few_mappings(scene: Scene) -> None:
    mmap_storm(scene, 40, 200 * US)


def pipe_mutex(scene: Scene, each_ns: int = 150 * US) -> None:
    scene.builder.lock(1, "pipe_inode_info.mutex", "", "slab")
    scene.waits(1, MUTEX, each_ns, 2_000, "writer", ("__mutex_lock", "pipe_write", "vfs_write"))


def calm_pipe(scene: Scene) -> None:
    pipe_mutex(scene, 3 * US)


def run_queues(scene: Scene, each_ns: int = 10 * US) -> None:
    """64 CPUs that steal from each other: no lock stands out, 20 % of a CPU spins."""
    where = ("_raw_spin_lock", "raw_spin_rq_lock_nested", "sched_balance_newidle", "schedule")
    for cpu in range(scene.cpus):
        scene.builder.lock(cpu + 1, "runqueues.__lock", f"CPU {cpu}", "per-CPU symbol")
        for interval in range(1, SECONDS + 1):
            scene.builder.waits(interval, (cpu + 1) % scene.cpus, cpu + 1, SPINLOCK, [each_ns] * 322)
    waits = 322 * SECONDS
    sample = (scene.task("worker"), 1, SPINLOCK, scene.stack(*where), 0, 9, waits, waits * each_ns)
    scene.builder.insert("sample_total", [sample])


def calm_run_queues(scene: Scene) -> None:
    run_queues(scene, 4 * US)


def quiet_machine(scene: Scene) -> None:
    scene.builder.lock(1, "runqueues.__lock", "CPU 0", "per-CPU symbol")
    scene.waits(1, SPINLOCK, 4 * US, 8)


def long_holder(scene: Scene, caused_ns: int = 1200 * MS) -> None:
    scene.builder.lock(1, "tasklist_lock")
    scene.waits(1, RWLOCK_W, 3 * MS, 100, "spawner", ("queued_write_lock_slowpath", "copy_process"))
    where = ("_raw_write_unlock_irq", "release_task", "wait_consider_task")
    scene.held(1, RWLOCK_W, "reaper", 400, caused_ns, 9 * MS, where)


def rt_ptrace(scene: Scene) -> None:
    """PREEMPT_RT: a tracer takes and drops the tracee's lock until that has left its CPU, which needs the lock."""
    scene.builder.lock(1, "task_struct.pi_lock", "tid 1002", "owner object")
    scene.builder.lock(2, "sighand_struct.siglock", "", "slab")
    loop = ("rt_spin_unlock", "task_rq_lock", "wait_task_inactive", "ptrace_check_attach", "__x64_sys_ptrace")
    stop = ("_raw_spin_lock_irqsave", "rt_spin_lock", "ptrace_stop", "ptrace_notify", "syscall_trace_enter")
    scene.waits(1, SPINLOCK, 2 * MS, 200, "traced", stop)
    scene.held(1, SPINLOCK, "strace", 600, 1400 * MS, 3 * MS, loop)
    for _ in range(3):
        scene.outlier(1, SPINLOCK, 20 * MS, "traced", stop)
    scene.waits(2, RTMUTEX, 500 * US, 60, "traced", ("rt_spin_lock", "ptrace_stop"))
    scene.held(2, RTMUTEX, "strace", 200, 100 * MS, MS, ("rt_spin_unlock", "ptrace_request", "__x64_sys_ptrace"))


def clocksource(scene: Scene, device: str = "hpet") -> None:
    del device
    scene.builder.lock(1, "runqueues.__lock", "CPU 0", "per-CPU symbol")
    scene.waits(1, SPINLOCK, 40 * US, 400)
    blob = histogram.encode(histogram.of((40 * US,) * 100))
    for cpu in range(scene.cpus):
        scene.builder.insert("clock_total", [(cpu, 40_000, 450 * MS, 90 * US, blob)])
    stack = scene.stack("read_hpet", "ktime_get", "__x64_sys_clock_gettime", "do_syscall_64")
    scene.builder.insert("clock_sample", [(scene.task("database"), stack, 9, 160_000, 1800 * MS)])


def futex_buckets(scene: Scene, each_ns: int = 30 * US) -> None:
    scene.builder.lock(1, "futex_hash_bucket.lock", "bucket 3", "slab")
    where = ("native_queued_spin_lock_slowpath", "_raw_spin_lock", "futex_q_lock", "futex_wait_setup", "futex_wait")
    scene.waits(1, SPINLOCK, each_ns, 8_000, "server", where)


def held_bucket(scene: Scene) -> None:
    """One task holds a bucket's lock for long: the queue is no fault of the futexes."""
    scene.builder.lock(1, "futex_hash_bucket.lock", "bucket 3", "slab")
    where = ("native_queued_spin_lock_slowpath", "_raw_spin_lock", "futex_q_lock", "futex_wait_setup", "futex_wait")
    scene.waits(1, SPINLOCK, 20 * MS, 24, "server", where)
    scene.held(1, SPINLOCK, "reaper", 60, 1700 * MS, 68 * MS, ("_raw_spin_unlock", "futex_wake", "do_futex"))


def calm_buckets(scene: Scene) -> None:
    futex_buckets(scene, 500)


def deadlock(scene: Scene, age_ns: int = 4 * SECOND) -> None:
    scene.builder.insert("futex", [(1, 0, "", 0, 0, "", "")])
    scene.futex(2, "server", "first_mutex", (), owner_samples=5, owners=5, open_waits=1, oldest_ns=age_ns)
    scene.futex(3, "server", "second_mutex", (), owner_samples=5, owners=5, open_waits=1, oldest_ns=age_ns)
    waits = [
        (2, 71, 70, "left", age_ns, 0, 72, age_ns, "right", "S", "futex_do_wait"),
        (3, 72, 70, "right", age_ns, 0, 71, age_ns, "left", "S", "futex_do_wait"),
    ]
    scene.builder.insert("futex_owned_wait", waits)


def not_released(scene: Scene) -> None:
    scene.builder.insert("futex", [(1, 0, "", 0, 0, "", "")])
    scene.futex(2, "server", "big_lock", (), owner_samples=5, owners=5, open_waits=2, oldest_ns=4 * SECOND)
    waits = [(2, tid, 70, f"worker{tid}", 4 * SECOND, 0, 90, 4 * SECOND, "logger", "S", "do_poll") for tid in (71, 72)]
    scene.builder.insert("futex_owned_wait", waits)


def user_mutex(scene: Scene, waits: int = 400, name: str = "cache_lock") -> None:
    scene.builder.insert("futex", [(1, 0, "", 0, 0, "", "")])
    scene.futex(2, "server", name, (5 * MS,) * waits, owner_samples=9, owners=9, waiters=4, wakers=4)
    scene.builder.insert("futex_sample", [(2, "owner", scene.task("refresher"), 0, 9, waits, waits * 5 * MS)])


def mutex_beside_file(scene: Scene) -> None:
    """Half a thread waits for a program's mutex, and one for a lock file: now this job, now that one."""
    user_mutex(scene)
    scene.builder.insert("sleeper", [(job, "job", "locks_lock_inode_wait", 5) for job in (80, 81)])


def mutex_beside_queue(scene: Scene) -> None:
    """The same, and a job that starts when another one has ended."""
    user_mutex(scene)
    scene.builder.insert("sleeper", [(80, "job", "locks_lock_inode_wait", 10)])


def idle_pool(scene: Scene) -> None:
    """Workers that wait for work: hours of waiting, and none of it contention."""
    scene.builder.insert("futex", [(1, 0, "", 0, 0, "", "")])
    scene.futex(2, "server", "", (900 * MS,) * 16, waiters=8, wakers=1, tasks_woken=16)


def starved_writers(scene: Scene, writers_ns: int = 8 * MS) -> None:
    scene.builder.lock(1, "inode.i_rwsem", "", "slab")
    scene.waits(
        1, RWSEM_W, writers_ns, 40, "appender", ("rwsem_down_write_slowpath", "down_write", "ext4_file_write_iter")
    )
    scene.waits(1, RWSEM_R, 200 * US, 200, "scanner", ("rwsem_down_read_slowpath", "down_read", "ext4_file_read_iter"))
    if writers_ns > MS:
        scene.held(1, RWSEM_W, "", 0, 1000 * MS, 20 * MS)


def fair_writers(scene: Scene) -> None:
    starved_writers(scene, 300 * US)


def starved_readers(scene: Scene) -> None:
    scene.builder.lock(1, "mm_struct.mmap_lock", "tid 1001", "owner object")
    scene.waits(1, RWSEM_R, 6 * MS, 60, "monitor", ("rwsem_down_read_slowpath", "down_read", "proc_pid_cmdline_read"))
    scene.waits(1, RWSEM_W, 300 * US, 100, "jvm", ("rwsem_down_write_slowpath", "down_write", "mprotect_fixup"))


def host_preempts(scene: Scene) -> None:
    """A guest whose host has more virtual CPUs than CPUs."""
    where = ("native_queued_spin_lock_slowpath", "_raw_spin_lock", "dput")
    for lock, name in ((1, "dentry.d_lock"), (2, "inode.i_lock")):
        scene.builder.lock(lock, name, "", "slab")
        scene.waits(lock, SPINLOCK, 5 * MS, 8, "build", where)
        for _ in range(6):
            scene.outlier(lock, SPINLOCK, 5 * MS, "build", where)


def one_cpu_suffers(scene: Scene) -> None:
    scene.builder.lock(1, "console_owner_lock")
    scene.waits(1, SPINLOCK, 2 * MS, 60, "poller", ("_raw_spin_lock", "console_trylock_spinning"), cpu=3)
    for cpu in range(3):
        scene.waits(1, SPINLOCK, 3 * US, 20, cpu=cpu)


def interrupts_off(scene: Scene) -> None:
    scene.builder.lock(1, "timer_bases.lock", "CPU 1", "per-CPU symbol")
    where = ("native_queued_spin_lock_slowpath", "_raw_spin_lock_irqsave", "lock_timer_base", "__mod_timer")
    scene.waits(1, SPINLOCK, 30 * MS, 4, "kworker/1:2", where, cpu=1)
    for _ in range(4):
        scene.outlier(1, SPINLOCK, 30 * MS, "kworker/1:2", where)


def network_agent(scene: Scene, a_second: int = 300, each_ns: int = 3 * MS) -> None:
    scene.builder.lock(1, "rtnl_mutex", "", "symbol")
    where = ("__mutex_lock", "rtnl_lock", "rtnetlink_rcv_msg", "netlink_rcv_skb")
    scene.waits(1, MUTEX, each_ns, a_second, "kubelet", where)


def calm_network(scene: Scene) -> None:
    network_agent(scene, 16, 100 * US)


def slab_of_packets(scene: Scene, a_second: int = 60_000) -> None:
    scene.builder.lock(1, "kmem_cache_node.list_lock", "skbuff_head_cache", "slab")
    where = ("native_queued_spin_lock_slowpath", "_raw_spin_lock_irqsave", "___slab_alloc", "kmem_cache_alloc_node")
    scene.waits(1, SPINLOCK, 6 * US, a_second, "ksoftirqd/2", where)


def calm_slab(scene: Scene) -> None:
    slab_of_packets(scene, 1_200)


def cgroups_held(scene: Scene, each_ns: int = 12 * MS, releases: int = 200) -> None:
    """Containers start while another task removes cgroups."""
    scene.builder.lock(1, "cgroup_mutex", "", "symbol")
    where = ("__mutex_lock", "cgroup_kn_lock_live", "cgroup_mkdir", "kernfs_iop_mkdir")
    scene.waits(1, MUTEX, each_ns, 60, "runc", where)
    released = ("mutex_unlock", "cgroup_rmdir", "kernfs_iop_rmdir")
    scene.held(1, MUTEX, "systemd", releases, 200 * each_ns, 3 * each_ns, released)


def read_mappings(scene: Scene, reads: int = 60, each_ns: int = 5 * MS) -> None:
    """An agent reads the mappings of a server whose threads unmap."""
    scene.builder.lock(1, "mm_struct.mmap_lock", "pid 1001", "owner object")
    unmapping = ("rwsem_down_write_slowpath", "down_write_killable", "__vm_munmap", "do_syscall_64")
    reading = ("rwsem_down_read_slowpath", "down_read_killable", "m_start", "seq_read_iter", "vfs_read")
    scene.waits(1, RWSEM_W, 15 * MS, 40, "server", unmapping)
    scene.tasks["its thread"] = scene.builder.waiter(50, "server", 1001)
    scene.waits(1, RWSEM_W, 15 * MS, 20, "its thread", unmapping)
    scene.waits(1, RWSEM_R, each_ns, reads, "agent", reading)


def mappings_read_at_length(scene: Scene) -> None:
    """The agent hardly waits itself: whoever unmaps is quick."""
    read_mappings(scene, each_ns=500 * US)


def seldom_read_mappings(scene: Scene) -> None:
    """The same agent looks once in a while: it is the server that holds its threads up."""
    read_mappings(scene, 8)


def short_groups(scene: Scene) -> None:
    """A directory of a control group file system, in which groups come and go."""
    scene.builder.lock(1, "inode.i_rwsem", "inode 1 cgroup2", "slab")
    where = ("rwsem_down_write_slowpath", "down_write", "do_rmdir", "__x64_sys_rmdir")
    scene.waits(1, RWSEM_W, 10 * MS, 400, "runner", where)


def shared_position(scene: Scene, call: str = "__x64_sys_getdents64") -> None:
    """Threads that list a directory through one descriptor."""
    scene.builder.lock(1, "file.f_pos_lock", "", "slab")
    scene.waits(1, MUTEX, 5 * MS, 800, "lister", ("__mutex_lock.constprop.0", "fdget_pos", call, "do_syscall_64"))


def unmounts(scene: Scene) -> None:
    """Programs that mount and unmount all the time."""
    scene.builder.lock(1, "rcu_state.exp_mutex", "", "call site")
    where = ("__mutex_lock.constprop.0", "exp_funnel_lock", "synchronize_rcu_expedited", "namespace_unlock")
    scene.waits(1, MUTEX, 600 * US, 1000, "sandbox", where)


def accounting(scene: Scene) -> None:
    """Short processes, each of which writes a record of itself when it ends."""
    scene.builder.lock(1, "bsd_acct_struct.lock", "", "slab")
    scene.waits(1, MUTEX, 4 * MS, 400, "sh", ("__mutex_lock.constprop.0", "acct_process", "do_exit"))


def most_of_little(scene: Scene) -> None:
    """One lock costs 8 % of a CPU, several others 4 % together."""
    scene.builder.lock(1, "unix_sock.lock", "", "slab")
    scene.waits(1, SPINLOCK, 8 * US, 10_000, "sender", ("_raw_spin_lock", "unix_dgram_sendmsg"))
    for number in range(2, 6):
        scene.builder.lock(number, f"object_{number}.lock", "", "slab")
        scene.waits(number, SPINLOCK, 10 * US, 1_000)


def calm_cgroups(scene: Scene) -> None:
    cgroups_held(scene, 40 * US)


def one_inode(scene: Scene, a_second: int = 80, each_ns: int = 11 * MS, where: str = "ext4_file_write_iter") -> None:
    """Writers of one file, too few for a queue at every moment."""
    scene.builder.lock(1, "ext4_inode_info.vfs_inode.i_rwsem", "inode 4711 vda", "slab")
    scene.waits(1, RWSEM_W, each_ns, a_second, "logger", ("rwsem_down_write_slowpath", "down_write", where))


def one_directory(scene: Scene) -> None:
    one_inode(scene, where="do_unlinkat")


def seldom_written(scene: Scene) -> None:
    one_inode(scene, 4, 5 * MS)


def two_long_waits(scene: Scene, each_ns: int = 1290 * MS) -> None:
    """The holder had no CPU for more than a second."""
    scene.builder.lock(1, "ext4_inode_info.vfs_inode.i_data.i_mmap_rwsem", "inode 316526 vda", "slab")
    where = ("rwsem_down_write_slowpath", "down_write", "vma_link", "mmap_region")
    scene.builder.waits(2, 1, 1, RWSEM_W, [each_ns] * 2)
    scene.outlier(1, RWSEM_W, each_ns, "cc", where)


def one_short_wait(scene: Scene) -> None:
    two_long_waits(scene, 15 * MS)


def list_of_file_locks(scene: Scene) -> None:
    """An agent reads /proc/locks, which stops all who lock files."""
    scene.builder.lock(1, "file_rwsem")
    scene.waits(1, PERCPU_R, 10 * MS, 1_200, "mailer", ("__percpu_down_read", "flock_lock_inode"))
    scene.waits(1, PERCPU_W, 15 * MS, 4, "agent", ("percpu_down_write", "locks_start", "seq_read_iter"))


def tracer_without_holders(scene: Scene) -> None:
    """A storm of ptrace stops: the remedy is for those who trace, not for those who fork."""
    scene.builder.lock(1, "tasklist_lock")
    scene.waits(1, RWLOCK_W, 300 * US, 2_000, "traced", ("queued_write_lock_slowpath", "ptrace_stop"))


def second_queue(scene: Scene, each_ns: int = 600 * US) -> None:
    """Eight threads wait for one lock, and more than one for another, which has an eighth of all waiting."""
    mmap_storm(scene, each_ns=200 * US)
    scene.builder.lock(2, "pipe_inode_info.mutex", "", "slab")
    scene.waits(2, MUTEX, each_ns, 2_000, "writer", ("__mutex_lock", "pipe_write", "vfs_write"))


def little_beside(scene: Scene) -> None:
    """Beside the same lock less than one thread waits for the other one."""
    second_queue(scene, 480 * US)


def other_side(scene: Scene) -> None:
    """Those who read wait as long as that second queue, for the lock that is the first cause already."""
    mmap_storm(scene, each_ns=200 * US)
    where = ("rwsem_down_read_slowpath", "down_read", "lock_mm_and_find_vma", "exc_page_fault")
    scene.waits(1, RWSEM_R, 600 * US, 2_000, "allocator", where)


def both_worlds(scene: Scene) -> None:
    """A queue for a lock of the kernel, and one for a program's: each share is of all waiting."""
    one_inode(scene, 200, 15 * MS)
    user_mutex(scene, 1_600)


CASES: dict[str, Case] = {
    "mmap storm": Case(
        mmap_storm,
        "convoy",
        ("mm_struct.mmap_lock", "allocator", "threads wait asleep", "do let the allocator keep memory"),
    ),
    "a second queue": Case(
        second_queue,
        "convoy",
        ("queue for mm_struct.mmap_lock", "2 medium", "queue for pipe_inode_info.mutex", "1.2 tasks wait for it"),
    ),
    "pipe mutex": Case(pipe_mutex, "hot-lock", ("pipe_inode_info.mutex", "writer", "0.30 threads wait asleep", "do ")),
    "run queues of 64 CPUs": Case(
        run_queues,
        "hot-lock",
        (
            "64 locks of one name make 100% of all lock waiting: runqueues.__lock",
            "worker",
            "20.6% of one CPU",
            "0.21 CPUs spinning",
            "do ",
        ),
        64,
    ),
    "long holder": Case(
        long_holder, "long-hold", ("tasklist_lock", "release_task() holds", "reaper (1002)", "do fewer short processes")
    ),
    "ptrace on PREEMPT_RT": Case(
        rt_ptrace,
        "inactive-wait",
        ("task_struct.pi_lock", "ptrace of strace (1002) waits in a loop", "strace", "do stop strace (1002)"),
    ),
    "HPET": Case(
        clocksource,
        "shared-clocksource",
        ("one device (hpet)", "do switch: echo tsc > /sys/devices/system/clocksource"),
        meta={
            "clocksource": "hpet",
            "clocksources_available": "tsc hpet",
            "clock_reads_timed": 1,
            "clock_function": "read_hpet",
        },
    ),
    "futex buckets": Case(
        futex_buckets, "futex-bucket", ("futex_hash_bucket.lock", "hash buckets", "server", "24.0% of one CPU", "do ")
    ),
    "deadlock": Case(
        deadlock,
        "deadlock",
        (
            "ANSWER Threads stand still: 2 threads of server (70) wait for each other, in a circle: a deadlock",
            "first_mutex",
            "do `gdb -p 70",
        ),
    ),
    "lock not released": Case(
        not_released,
        "lock-not-released",
        ("logger (90) does not release big_lock", "ANSWER Threads stand still", "do `gdb -p 70"),
    ),
    "mutex of a program": Case(
        user_mutex,
        "user-lock",
        ("Programs wait mostly for locks of their own", "cache_lock", "server", "refresher", "--user-stacks -p 70"),
    ),
    "standard output of Rust": Case(
        lambda scene: user_mutex(scene, name="std::io::stdio::STDOUT+0x8"),
        "user-lock",
        ("STDOUT", "server", "do lock the stream once for many lines"),
    ),
    "starved writers": Case(
        starved_writers,
        "writer-starved",
        ("Writers of inode.i_rwsem", "appender", "do write one file and read another"),
    ),
    "starved readers": Case(
        starved_readers,
        "readers-starved",
        ("Readers of mm_struct.mmap_lock", "monitor", "jvm (1002)", "do change protection"),
    ),
    "host takes CPUs away": Case(
        host_preempts,
        "holder-preempted",
        ("The host takes CPUs away from lock holders", "build", "do give the guest CPUs of its own"),
        meta={"hypervisor": "KVM (KVMKVMKVM)", "steal_begin_ns": 7, "steal_end_ns": 7 + 1600 * MS},
    ),
    "one CPU suffers": Case(
        one_cpu_suffers, "cpu-starved", ("CPU 3 waits far longer", "console_owner_lock", "poller", "do ")
    ),
    "interrupts off": Case(
        interrupts_off,
        "interrupts-off",
        (
            "CPU 1 spun for timer_bases.lock with interrupts off",
            "kworker/1:2",
            "do `lockline record --episodes -d 30` shows who",
        ),
    ),
}

# Causes that were chosen without a look at the rules.
CASES |= {
    "network agent": Case(
        network_agent,
        "hot-lock",
        ("rtnl_mutex", "kubelet", "0.89 threads wait asleep", "do list links and statistics"),
        8,
    ),
    "slab of packets": Case(
        slab_of_packets,
        "hot-lock",
        (
            "kmem_cache_node.list_lock",
            "ksoftirqd/2",
            "36.0% of one CPU",
            "do free where it was allocated",
            "lockline explain kmem_cache_node.list_lock: what helps",
        ),
        8,
    ),
    "cgroups that are held": Case(
        cgroups_held,
        "long-hold",
        (
            "cgroup_mutex",
            "cgroup_rmdir() holds",
            "systemd (1002) causes 100.0% of that",
            "runc",
            "do keep cgroups instead of making them",
        ),
        8,
    ),
}

# Seen on live machines, where the first screen had no finding, or no good advice.
CASES |= {
    "writers of one file": Case(
        one_inode,
        "long-waits",
        ("i_rwsem [inode 4711 vda]", "0.88 threads wait asleep", "logger", "few but long", "do one file per writer"),
    ),
    "one directory": Case(one_directory, "long-waits", ("few but long", "logger", "do spread files over several")),
    "two long waits": Case(
        two_long_waits,
        "long-waits",
        ("1 low", "i_mmap_rwsem", "2 waits of 1.29 s", "Longest wait: 1.29 s, cc", "do `lockline record --episodes"),
    ),
    "the list of file locks": Case(
        list_of_file_locks,
        "convoy",
        ("file_rwsem", "mailer", "readers wait for writers; agent (1002)", "do read /proc/locks less often"),
    ),
    "a held bucket": Case(
        held_bucket, "long-hold", ("futex_wake() holds", "reaper (1002)", "do look at what futex_wake() does")
    ),
    "a tracer": Case(
        tracer_without_holders,
        "tracing",
        (
            "Tracing (ptrace) makes tasks wait",
            "tasklist_lock",
            "traced (1001)",
            "do `grep TracerPid /proc/1001/status`",
        ),
    ),
    "a reader of mappings": Case(
        read_mappings,
        "long-waits",
        ("mmap_lock", "another process takes it for reading: agent (1003), in m_start()", "do read /proc/PID/smaps"),
    ),
    "a reader of many mappings": Case(
        mappings_read_at_length,
        "writer-starved",
        ("mmap_lock", "another process takes it for reading: agent (1003), in m_start()", "do read /proc/PID/smaps"),
    ),
    "a reader of mappings that comes seldom": Case(
        seldom_read_mappings, "long-waits", ("mmap_lock", "server (1001)", "do let the allocator keep memory")
    ),
    "short control groups": Case(
        short_groups, "convoy", ("inode 1 cgroup2", "do keep control groups instead of making and removing")
    ),
    "one position": Case(
        shared_position,
        "convoy",
        ("file.f_pos_lock", "comes from __x64_sys_getdents64()", "do an open file of its own for each thread"),
    ),
    "unmounts": Case(
        unmounts,
        "hot-lock",
        ("It guards waits for all CPUs at once (RCU", "sandbox (1001)", "do fewer mounts, network devices"),
    ),
    "accounting": Case(
        accounting, "convoy", ("bsd_acct_struct.lock", "acct_process()", "do switch process accounting off")
    ),
    "locks of kernel and program": Case(
        both_worlds,
        "user-lock",
        (
            "100% of the waiting for the kernel's locks",
            "Programs' own locks keep 2.0 threads waiting on average, all of them for cache_lock of server (70)",
            "(40% of all waiting)",
            "(60% of all waiting)",
            "cache_lock of 70",
        ),
    ),
    "a program's lock beside a lock file": Case(
        mutex_beside_file,
        "user-lock",
        (
            "ANSWER On average 1 thread (looked 10 times) of job (80) and 1 more of that name waits for a lock on a",
            "Programs' own locks keep 0.50 threads waiting on average, all of them for cache_lock of server (70).",
        ),
        meta={"sleep_looks": 10, "sleep_threads": 10, "sleep_threads_looked_at": 10},
    ),
    "a program's lock beside a job that is queued": Case(
        mutex_beside_queue,
        "user-lock",
        (
            "ANSWER Programs wait mostly for locks of their own: on average 0.50 threads, all of them for cache_lock",
            "Besides, on average 1 thread (looked 10 times) of job (80) waits for a lock on a file",
        ),
        meta={"sleep_looks": 10, "sleep_threads": 10, "sleep_threads_looked_at": 10},
    ),
}

# Each lacks one thing that its rule asks for: no finding stands on the first screen.
NEAR_MISSES: dict[str, Case] = {
    "quiet machine": Case(
        quiet_machine,
        "",
        ("Waiting for the kernel's locks is negligible: 32 waits", "Not looked at: locks of programs"),
    ),
    "few mappings": Case(few_mappings, "", ("negligible",)),
    "calm pipe": Case(calm_pipe, "", ("negligible",)),
    "calm run queues of 64 CPUs": Case(calm_run_queues, "", ("runqueues.__lock",), 64),
    "calm buckets": Case(calm_buckets, "", ("negligible",)),
    "fair writers": Case(fair_writers, "", ("inode.i_rwsem",)),
    "calm network": Case(calm_network, "", ("negligible", "rtnl_mutex")),
    "calm slab": Case(calm_slab, "", ("kmem_cache..list_lock",)),
    "calm cgroups": Case(calm_cgroups, "", ("negligible", "cgroup_mutex")),
    "a file that is seldom written": Case(seldom_written, "", ("none: all waiting together is under 10%",)),
    "one wait of 15 ms": Case(one_short_wait, "", ("Single waits are long, though",)),
    "a lock that has most of little": Case(
        most_of_little, "", ("One lock makes 67%", "none: waiting for that lock is under 10% of one CPU or thread"), 2
    ),
    "idle pool": Case(idle_pool, "", ("negligible",)),
    "TSC": Case(lambda scene: clocksource(scene), "", ("runqueues.__lock",)),
}
