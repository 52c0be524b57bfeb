# SPDX-License-Identifier: GPL-2.0-or-later
"""What stands beside the lock waits in the report: futexes, clock reads, tracers."""

from typing import Any, Literal

from lockline.analysis.user_space.futex_waits import BARRIER, CONDITION, LOCK, PARKED, POLL, SEMAPHORE, SPIN, UNCLEAR
from lockline.base import histogram
from lockline.base.values import dataclass
from lockline.render.documents.figures import PlainFrame, Sums, Task
from lockline.render.walker import At, Count, Fraction, Name, Pairs, inline, shown

Role = Literal["waiter", "waker", "owner"]
Nature = Literal[
    "lock", "parked", "barrier", "spin", "unclear", "timed poll", "semaphore", "condition or idle", "no wait"
]


def _top(name: str) -> Any:
    return lambda value, at: getattr(value, name)[: at.report.window.selection.top]


def _itself(value: Any, _: At) -> Any:
    return value


@dataclass(frozen=True)
class Futex:
    """Which futex."""

    id: Count = shown("in the recording; 1: all without a row of their own")
    name: Name = shown("the symbol that holds it")
    object: Name = shown("the mapping that it lies in")
    tgid: Count = shown("of a process that uses it")
    comm: str = shown("of that process")
    shared: bool = shown("between processes", lambda futex, _: bool(futex.shared))


@dataclass(frozen=True)
class FutexTask:
    """A thread that waits, wakes or owns."""

    role: Role = shown("what it does")
    task: Task = inline()
    samples: Count = shown("in which it was seen")
    waits: Count = shown("that they stand for")
    wait_ns: Count = shown("that they stand for")


@dataclass(frozen=True)
class FutexStack:
    """A stack in user space."""

    role: Role = shown("whose")
    samples: Count = shown("with this stack")
    waits: Count = shown("that they stand for")
    wait_ns: Count = shown("that they stand for")
    frames: tuple[PlainFrame, ...] = shown("leaf first")


@dataclass(frozen=True)
class HolderLook:
    """What a mutex's holder was seen doing while others waited."""

    state: str = shown("as in /proc/PID/stat")
    call: Name = shown("the system call that it slept in, or 'page fault'")
    function: Name = shown("the kernel function that it slept in")
    looks: Count = shown("at which it was seen so")


@dataclass(frozen=True)
class Behind:
    """A lock that those who have another one wait for meanwhile."""

    futex: Futex = inline(lambda behind, _: behind[0])
    part: Fraction = shown("of the looks at holders", lambda behind, _: behind[1])


@dataclass(frozen=True)
class JavaMonitor:
    """A monitor of Java that the waits were for, by looks at the JVM's threads."""

    class_name: Name = shown("of its object")
    address: Count = shown("of HotSpot's ObjectMonitor; its object moves")
    part: Fraction = shown("of the threads seen waiting, and so of the waiting")
    looks: Count = shown("at which somebody waited for it")
    owner: Name = shown("the thread that had it most often then, as Java calls it")
    owner_tid: Count = shown("of that thread, as its process sees it; 0: no owner was seen")
    owner_part: Fraction = shown("of the looks")


@dataclass(frozen=True)
class FutexWaits:
    """A futex, and all that was done with it over the whole run; figures: of the calls that slept."""

    futex: Futex = inline("futex")
    nature: Nature = shown("what it is used as")
    why: str = shown("why that is thought, in words")
    make: Name = shown("what kind of lock it was recognised as: CPython GIL, Java monitor...")
    confidence: Literal["high", "medium"] = shown("of nature and make", "sure")
    words: Count = shown("futexes that are parts of it, this one included", lambda futex, _: len(futex.words) + 1)
    operations: tuple[str, ...] = shown("of futex(2)", "ops")
    figures: Sums = inline("figures")
    calls: Count = shown("to wait", "total.calls")
    timed_out: Count = shown("calls that ended so", "total.timed_out")
    timed_out_ns: Count = shown("slept until then", "total.timed_out_ns")
    value_changed: Count = shown("calls that returned at once", "total.again")
    interrupted: Count = shown("calls that ended so", "total.interrupted")
    failed: Count = shown("calls that ended so", "total.failed")
    with_timeout: Count = shown("calls", "total.timed")
    wakes: Count = shown("calls to wake", "total.wakes")
    wakes_of_nobody: Count = shown("of them", "total.wakes_empty")
    tasks_woken: Count = shown("by them", "total.tasks_woken")
    owner_samples: Count = shown("samples that looked for an owner", "total.owner_samples")
    owner_verified: Count = shown("of them, those in which it was verified", "total.owners")
    in_progress: Count = shown("waits at the end", "total.open_waits")
    oldest_ns: Count = shown("of them", "total.oldest_ns")
    in_progress_ns: Count = shown(
        "of all of them; not in wait_ns", lambda futex, _: futex.waited_ns - futex.figures.wait_ns
    )
    wake_to_run: Sums = shown("from the wake-up to the CPU", "latency")
    tasks: tuple[FutexTask, ...] = shown("of the first 20 futexes")
    stacks: tuple[FutexStack, ...] = shown("likewise, by role")
    holders: tuple[HolderLook, ...] = shown("likewise, of mutexes: what their holders did, most looks first")
    behind: Behind | None = shown("a lock that its holders wait for meanwhile; null: none")
    monitors: tuple[JavaMonitor, ...] = shown("of Java, that the waits were for, those with most waiting first")
    to_blame_ns: Count = shown("waiting that is its doing: for it, and at locks whose holders wait for it")


def _of_nature(nature: str) -> Any:
    return lambda futexes, _: futexes.wait_ns(nature)


@dataclass(frozen=True)
class Natures:
    """Wait time in ns by what the futexes are used as."""

    lock: Count = shown("locks", _of_nature(LOCK))
    parked: Count = shown("threads parked on a word of their own, and woken by each other", _of_nature(PARKED))
    barrier: Count = shown("barriers: whoever comes waits for the last", _of_nature(BARRIER))
    spin: Count = shown("threads that give their CPU away while they wait (sched_yield)", _of_nature(SPIN))
    unclear: Count = shown("not clear", _of_nature(UNCLEAR))
    poll: Count = shown("polls with a timeout", _of_nature(POLL))
    semaphore: Count = shown("semaphores", _of_nature(SEMAPHORE))
    condition: Count = shown("conditions, or idle", _of_nature(CONDITION))


@dataclass(frozen=True)
class BucketFutex:
    """A futex that led to a bucket."""

    futex: Futex = inline(lambda entry, _: entry[0])
    waits: Count = shown("for the bucket's lock", lambda entry, _: entry[1])
    wait_ns: Count = shown("for the bucket's lock", lambda entry, _: entry[2])


@dataclass(frozen=True)
class Bucket:
    """Waits for a hash bucket's lock."""

    lock: str = shown("its name")
    instance: Name = shown("which of this name")
    waits: Count = shown("for it")
    wait_ns: Count = shown("for it")
    max_ns: Count = shown("the longest")
    collision: bool = shown("several futexes led there")
    futexes: tuple[BucketFutex, ...] = shown("which")


@dataclass(frozen=True)
class Owner:
    """Who has the lock."""

    tid: Count = shown("its id", "owner")
    comm: str = shown("its name", "owner_comm")
    for_ns: Count = shown("how long it was seen as the owner", "owned_ns")
    state: Name = shown("as in /proc/PID/stat", "owner_state")
    sleeps_in: Name = shown("a kernel function", "owner_in")


@dataclass(frozen=True)
class Thread:
    """A thread."""

    tid: Count = shown("its id")
    tgid: Count = shown("of its process")
    comm: str = shown("its name")


@dataclass(frozen=True)
class Blocked:
    """A wait of over a second in progress at the end, for a lock with an owner."""

    futex: Futex = inline("futex")
    thread: Thread = shown("who waits", _itself)
    age_ns: Count = shown("since the wait began, or the recording did")
    with_timeout: bool = shown("it will give up by itself", "timed")
    owner: Owner = shown("who has the lock", _itself)


@dataclass(frozen=True)
class Futexes:
    """Of the whole run and of every process recorded, whatever the selection; see futex.md."""

    count: Count = shown("how many there are", lambda futexes, _: len(futexes.futexes))
    wait_ns: Natures = shown("by what they are used as", _itself)
    futexes: tuple[FutexWaits, ...] = shown("locks first, then by wait time", _top("futexes"))
    buckets: tuple[Bucket, ...] = shown("the kernel's hash buckets", _top("buckets"))
    blocked: tuple[Blocked, ...] = shown("waits of over a second in progress at the end", _top("blocked"))


@dataclass(frozen=True)
class CpuReads:
    """Reads on one CPU."""

    cpu: Count = shown("its number")
    figures: Sums = inline("figures")
    share: float | None = shown("of that CPU's time")


@dataclass(frozen=True)
class ReadCaller:
    """A stack that reads the clock."""

    samples: Count = shown("with this stack")
    reads: Count = shown("that they stand for", "waits")
    read_ns: Count = shown("that they stand for", "wait_ns")
    frames: tuple[PlainFrame, ...] = shown("leaf first")


@dataclass(frozen=True)
class ReadTask:
    """A thread that reads the clock."""

    task: Task = inline(lambda entry, _: entry[0])
    reads: Count = shown("by samples", lambda entry, _: entry[1])
    read_ns: Count = shown("by samples", lambda entry, _: entry[2])


@dataclass(frozen=True)
class ClockReads:
    """Readings of a clock that is one device for all CPUs; see clocksource.md."""

    function: str = shown("that reads it")
    timed: bool = shown("false: they were counted alone")
    figures: Sums = inline("figures")
    cpu_share: float | None = shown("of the time of all CPUs, null: counted alone", "share")
    cpus: tuple[CpuReads, ...] = shown("by CPU")
    callers: tuple[ReadCaller, ...] = shown("by stack")
    tasks: tuple[ReadTask, ...] = shown("by thread")


@dataclass(frozen=True)
class Tracee:
    """The thread that is traced."""

    comm: str = shown("its name", "target_comm")
    tid: Count = shown("its id", "target_tid")
    tgid: Count = shown("of its process", "target_tgid")


def _if_timed(name: str) -> Any:
    return lambda value, at: getattr(value, name) if at.report.inactive_waits.calls is not None else None


@dataclass(frozen=True)
class InactivePair:
    """A tracer's calls of wait_task_inactive() for a tracee."""

    tracer: Task = shown("who waits", _itself)
    tracee: Tracee = shown("for whom", _itself)
    calls: Count | None = shown("null: the function could not be probed", _if_timed("calls"))
    turns: Count = shown("of its loop")
    max_turns: Count | None = shown("of one call", _if_timed("max_turns"))
    traced_turns: Count = shown("turns with the tracee stopped by ptrace", "traced")
    failed: Count | None = shown("calls", _if_timed("failed"))
    wait_ns: Count | None = shown("in the calls", _if_timed("wait_ns"))
    max_ns: Count | None = shown("of one call", _if_timed("max_ns"))


def _cpu_buckets(cpu: Any, _: At) -> Any:
    return histogram.pairs(cpu.figures.histogram)


@dataclass(frozen=True)
class InactiveCpu:
    """Calls that ended on one CPU."""

    cpu: Count = shown("its number")
    calls: Count = shown("that ended there", "figures.waits")
    histogram: Pairs = shown("pairs of a bucket's lower end in ns and its count", _cpu_buckets)
    turns: Pairs = shown(
        "pairs of a number of turns and the calls with so many and more, up to its double",
        lambda cpu, _: [[1 << index >> 1, calls] for index, calls in enumerate(cpu.turns) if calls],
    )


@dataclass(frozen=True)
class InactiveWaits:
    """ptrace's waits for a tracee to be off its CPU."""

    calls: Count | None = shown("null: the function could not be probed; there are no times then")
    turns: Count = shown("of the loop")
    wait_ns: Count | None = shown("in the calls", _if_timed("wait_ns"))
    max_ns: Count | None = shown("of one call", _if_timed("max_ns"))
    max_turns: Count | None = shown("of one call", _if_timed("max_turns"))
    pairs: tuple[InactivePair, ...] = shown("by tracer and tracee", _top("pairs"))
    cpus: tuple[InactiveCpu, ...] = shown("by CPU")


@dataclass(frozen=True)
class AttachPair:
    """A tracer's calls of ptrace_attach() for a tracee."""

    tracer: Task = shown("who attaches", _itself)
    tracee: Tracee = shown("to whom", _itself)
    attaches: Count = shown("calls")
    attach_ns: Count = shown("in them")
    max_ns: Count = shown("of one call")


@dataclass(frozen=True)
class AttachCpu:
    """Calls that ended on one CPU."""

    cpu: Count = shown("its number")
    attaches: Count = shown("that ended there", "figures.waits")
    histogram: Pairs = shown("pairs of a bucket's lower end in ns and its count", _cpu_buckets)


@dataclass(frozen=True)
class Attaches:
    """All calls of ptrace_attach(), failed ones too."""

    attaches: Count = shown("calls")
    failed: Count = shown("of them")
    attach_ns: Count = shown("in them")
    max_ns: Count = shown("of one call")
    pairs: tuple[AttachPair, ...] = shown("by tracer and tracee", _top("pairs"))
    cpus: tuple[AttachCpu, ...] = shown("by CPU")
