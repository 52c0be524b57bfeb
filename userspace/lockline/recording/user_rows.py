# SPDX-License-Identifier: GPL-2.0-or-later
"""The tables of locks of user space: futexes, files, monitors of a JVM, and who sleeps.  Times in ns; see rows.py."""

from lockline.base.values import NamedTuple
from lockline.recording.tables import table


@table("futex", since=2)
class Futex(NamedTuple):
    """A futex; id 1: all those without a row of their own.  name: the symbol that holds it, '' if there is none."""

    id: int
    tgid: int
    comm: str
    address: int
    shared: int
    name: str
    object: str


@table("futex_total", since=2, added={"open_ns": (9, 0)})
class FutexTotal(NamedTuple):
    """Waits and wakes of one futex over the whole run.

    ops: bits by enum futex_op of bpf/futex.h.  wait_ns, max_ns, timed_out_ns, latency_ns (from the wake-up to the
    CPU) and the histograms: of the calls that slept.  waiters, wakers, both: threads, by 128 hashes of their ids.
    owners: of the owner_samples those whose word's owner was another live thread of the process; threads: those that
    waited for the word to change from a live thread's id.  open_waits: in progress at the end, of at most oldest_ns,
    and of open_ns together (0: not known).
    """

    futex: int
    ops: int
    calls: int
    slept: int
    wait_ns: int
    max_ns: int
    timed_out: int
    timed_out_ns: int
    again: int
    interrupted: int
    failed: int
    timed: int
    value_2: int
    wakes: int
    wakes_empty: int
    tasks_woken: int
    latency_ns: int
    max_latency_ns: int
    waiters: int
    wakers: int
    both: int
    owner_samples: int
    owners: int
    threads: int
    open_waits: int
    oldest_ns: int
    open_ns: int
    histogram: bytes
    latency_histogram: bytes


@table("futex_semaphore", since=3)
class FutexSemaphore(NamedTuple):
    """A futex that is a semaphore (sem_t of glibc), and how many calls found it without a token."""

    futex: int
    calls: int


@table("futex_sample", since=2)
class FutexSample(NamedTuple):
    """What the samples of a task stand for; role: waiter, waker or owner; stack: in user space, 0 if none."""

    futex: int
    role: str
    task: int
    stack: int
    samples: int
    waits: int
    wait_ns: int


@table("sleeper", since=10)
class Sleeper(NamedTuple):
    """Threads of a process that were seen in a kernel function, summed over the looks; columns as in recording.sql."""

    tgid: int
    comm: str
    function: str
    seen: int


@table("file_lock_wait", since=10)
class FileLockWait(NamedTuple):
    """A process that waits for a lock on a file, at so many looks; holder: 0 if it is not known."""

    file: str
    waiter: int
    waiter_comm: str
    holder: int
    holder_comm: str
    seen: int


@table("futex_owned_wait", since=4)
class FutexOwnedWait(NamedTuple):
    """A wait in progress at the end for a lock whose owner is known; owner may be the waiter itself.

    timed: 1 if it has a timeout.  owned_ns: how long that owner was seen, 0: once.  owner_state: R, S, D...; owner_in:
    the kernel function that the owner sleeps in; '' if not known.
    """

    futex: int
    tid: int
    tgid: int
    comm: str
    age_ns: int
    timed: int
    owner: int
    owned_ns: int
    owner_comm: str
    owner_state: str
    owner_in: str


@table("futex_holder", since=7, added={"behind": (8, 0)})
class FutexHolder(NamedTuple):
    """Looks at who held a mutex while others waited for it.

    state: R, S, D...; call: the system call that it slept in, or 'page fault', or ''; function: of the kernel, or '';
    behind: the address of a futex that it waited for itself, or 0.
    """

    futex: int
    state: str
    call: str
    function: str
    behind: int
    looks: int


@table("java_look", since=11)
class JavaLook(NamedTuple):
    """Looks at the threads of a JVM; untold: threads that waited for monitors without a row, summed over the looks."""

    tgid: int
    looks: int
    untold: float


@table("java_monitor", since=11, columns={"class_name": "class"})
class JavaMonitor(NamedTuple):
    """A monitor that threads of a JVM waited for at its looks.

    address: of HotSpot's ObjectMonitor; class_name: of the object, '' if it could not be read; looks: in which somebody
    waited; waiting: threads that did, summed over the looks.
    """

    tgid: int
    address: int
    class_name: str
    looks: int
    waiting: float


@table("java_monitor_thread", since=11)
class JavaMonitorThread(NamedTuple):
    """Who waited for a monitor, or owned it meanwhile; tid: as the process sees it, 0: not known; name: in Java."""

    tgid: int
    address: int
    role: str
    tid: int
    name: str
    looks: int


@table("futex_bucket", since=2)
class FutexBucket(NamedTuple):
    """Waits for the lock of a kernel hash bucket, by the futex whose call led there."""

    lock: int
    futex: int
    waits: int
    wait_ns: int
    max_ns: int
