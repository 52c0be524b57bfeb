# SPDX-License-Identifier: GPL-2.0-or-later
"""The values of an investigation: what each step saw, what may be the cause, and what it cost.  Times are ns."""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from lockline.analysis.findings import Confidence, Fact, Finding, Process, Remedy, Subject, Task
from lockline.analysis.user_space.hidden_waits import HiddenWaits
from lockline.analysis.user_space.still_waits import StillWait
from lockline.analysis.user_space.user_evidence import Goroutines
from lockline.analysis.waitgraph import Critical, Flow
from lockline.analysis.whatif import Bound
from lockline.investigation.sleeps import Sleeps
from lockline.investigation.spins import Spins
from lockline.investigation.stops import Stop

# Moments at which a lock named its holder, from which on no other moments are needed.
ENOUGH_OWNERS = 8
# ruled out: a step looked, and it is not so.  not testable: this machine lacks what would tell.
State: TypeAlias = Literal["proven", "likely", "open", "ruled out", "not testable"]
Outcome: TypeAlias = Literal["done", "failed", "over budget", "not started", "interrupted"]


@dataclass(frozen=True, slots=True)
class WaitedLock:
    """A lock of the kernel as one step saw it.

    waiters: threads that wait for it on average.  part: of all waiting for the kernel's locks.  caller_part: of the
    sampled waiting, that comes from caller; process_part: that is done by process.  readers: of the sampled waiting to
    read, the processes that do most of it, each with its part.  address: of its one instance, None if there are more.
    """

    name: str
    kind: str
    spinning: bool
    waits: int
    wait_ns: int
    max_ns: int
    waiters: float
    part: float
    caller: str = ""
    caller_part: float = 0.0
    process: Process | None = None
    process_part: float = 0.0
    readers: tuple[tuple[Process, float], ...] = ()
    address: int | None = None


@dataclass(frozen=True, slots=True)
class Holding:
    """What the holders of a kernel's lock did while others waited, over the long waits that were kept.

    waits: of which a holder is known.  function: where most of them let go, "" if not known.  exact: releases were
    seen; else the holder is whom the lock named when a wait began, and may have let go since.
    """

    lock: str
    waits: int
    held_ns: int
    running_ns: int
    preempted_ns: int
    asleep_ns: int
    throttled_ns: int
    holder: Subject | None
    function: str = ""
    exact: bool = True

    @property
    def known_ns(self) -> int:
        """The time in which it is known what the holder did."""
        return self.running_ns + self.preempted_ns + self.asleep_ns + self.throttled_ns


@dataclass(frozen=True, slots=True)
class Blamed:
    """Who had a kernel's lock while others waited for it.

    caused_ns: of its waiting, for which the holder is known; by: the processes with most of that, each with its part;
    readers: the part of all readers together, whom the lock does not name.  waits: that they kept waiting, summed up.
    """

    lock: str
    waits: int
    caused_ns: int
    by: tuple[tuple[Process, float], ...]
    readers: float

    @property
    def most(self) -> tuple[Process | None, float]:
        """The process that is to blame for most, and its part; None: none is known."""
        return self.by[0] if self.by else (None, 0.0)


@dataclass(frozen=True, slots=True)
class UserLockSeen:
    """A futex that is a contended lock, or may be one: where the steps that look at one process find it.

    why: it is one, or why that is not clear.  goroutines: they wait for it, and no threads.
    rwlock: a pthread_rwlock_t, of two words.  users: threads that were seen to wait for it, own it or wake others.
    processes: those of users, where several share it; owned_by: the one that was seen to own it most, 0: not known.
    counts: nothing says that one thread has it at a time: a semaphore, a condition variable, or of unknown make.
    where: the program's function that most wait in, '' not known.  queue: they wait for room in it, and nobody has it.
    """

    name: str
    mapping: str
    tgid: int
    comm: str
    address: int
    wait_ns: int
    waits: int
    waiters: float
    why: str = ""
    goroutines: bool = False
    rwlock: bool = False
    users: tuple[int, ...] = ()
    processes: tuple[int, ...] = ()
    owned_by: int = 0
    counts: bool = False
    queue: bool = False
    where: str = ""


@dataclass(frozen=True, slots=True)
class Holders:
    """What the likely holder of a program's lock did, at moments when others waited for it.

    looks: moments with a waiter.  running, sleeping, disk: parts of them, by the state of the one thread that uses the
    lock and does not wait for it.  sleeps_in: kernel function, the most frequent one.  delayed: of the time in which
    the holder wanted a CPU, the part in which it had none.  owners: moments at which the lock itself named its holder;
    from ENOUGH_OWNERS on these moments alone count.  tasks: that wanted one of all CPUs, on average; 0: not known.
    used_cpus: CPUs that the threads which use the lock kept busy meanwhile, all together; 0: not known.
    together: of the moments at which a likely holder slept, the part at which two or more did, in one function; places:
    so many, on average.  behind: of a lock that names its holder, the futex that this one waits for itself, and at how
    many moments; (0, 0): at none.  tid: of the holder, if that is one thread nearly all the time, else 0; holder: that
    one.  comes_last: other threads run before it, at their usual priority; nice: its own.  stop: what stops it.
    before: who runs on its CPU before it does, at a real-time priority.
    """

    looks: int
    known: int
    running: float
    sleeping: float
    disk: float
    sleeps_in: str
    sleeps_part: float
    delayed: float | None
    comm: str = ""
    owners: int = 0
    tasks: float = 0.0
    cpus: int = 0
    used_cpus: float = 0.0
    together: float = 0.0
    places: float = 0.0
    behind: tuple[int, int] = (0, 0)
    tid: int = 0
    holder: Task | None = None
    comes_last: bool = False
    nice: int = 0
    stop: Stop | None = None
    before: Task | None = None

    @property
    def exact(self) -> bool:
        """Whether the lock itself said who its holder is."""
        return self.owners >= ENOUGH_OWNERS

    @property
    def wants_cpu(self) -> float:
        """The part of the moments at which the holder wanted a CPU and had none."""
        return self.running * (self.delayed or 0.0)


@dataclass(frozen=True, slots=True)
class Counters:
    """What the kernel counts anyway, over one step: no probe is needed.

    traced: processes that are being traced.  throttled: part of the time in which the target's control group (or, of
    the whole machine, the worst one) was stopped by its CPU limit.  stalled: by resource, part of the time in which
    some task waited for it (/proc/pressure).
    """

    switches_per_s: float = 0.0
    interrupts_per_s: float = 0.0
    traced: int | None = None
    throttled: float | None = None
    throttled_group: str = ""
    steal: float | None = None
    stalled: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Unseen:
    """A signal that this kernel refuses, and what cannot be told for want of it."""

    signal: str
    reason: str
    lost: str


# The signal of unread().
UNREAD = "memory of processes"


def unnamed(processes: int) -> tuple[Unseen, ...]:
    """That so many processes have more mappings than the budget pays for."""
    if not processes:
        return ()
    many = "a process has" if processes == 1 else f"{processes} processes have"
    reason = f"{many} more mappings than the budget pays to read (--max-overhead)"
    return (Unseen(UNREAD, reason, "which functions of programs threads wait in"),)


def nameless(threads: int) -> tuple[Unseen, ...]:
    """That so many threads stand still at a futex, and their stacks do not say what for."""
    if not threads:
        return ()
    many = "a thread has" if threads == 1 else f"{threads} threads have"
    reason = f"{many} not run while they were looked at, and no function on their stacks has a name"
    return (Unseen(UNREAD, reason, "which futex is a lock that nobody releases"),)


def unread(reads: int) -> tuple[Unseen, ...]:
    """That so many reads of processes' memory or files were given up, because they did not end."""
    if not reads:
        return ()
    many = "a read" if reads == 1 else f"{reads} reads"
    return (Unseen(UNREAD, f"{many} did not end in time", "what the threads of those processes wait for"),)


@dataclass(frozen=True, slots=True)
class LineSeen:
    """A cache line that a step watched, or that a PMU sampled.

    address: of its first byte.  moves: between CPUs, a second, and cpu: what they cost, of one CPU's time; None: of
    samples.  at_least: a lower bound.  move_ns: what a move is taken to need.  part: of all sampled transfers.
    acting: it is worth acting on.  verdict, sure, members, advice: as `lockline watch` has them.
    """

    address: int
    moves: float | None
    cpu: float | None
    at_least: bool
    move_ns: float
    part: float
    acting: bool
    verdict: str
    sure: Confidence
    members: tuple[str, ...] = ()
    advice: str = ""


@dataclass(frozen=True, slots=True)
class ClockRead:
    """Reads of a clock device.  part: of the time of all CPUs, None if reads were not timed."""

    reads: int
    part: float | None
    read_ns: int


@dataclass(frozen=True, slots=True)
class Cost:
    """What a step cost.

    probe_ns: in the load's path.  collector_ns: of the collector from the moment that it recorded.  start_ns: to load
    and to end, which no load waits for.  window_ns: how long it recorded.
    """

    probe_ns: int
    collector_ns: int
    start_ns: int
    window_ns: int
    cpus: int

    @property
    def paid_ns(self) -> int:
        """What counts against the budget."""
        return self.probe_ns + self.collector_ns

    @property
    def share(self) -> float:
        """Of the time of all CPUs while it recorded."""
        return self.paid_ns / (self.window_ns * self.cpus) if self.window_ns and self.cpus else 0.0


@dataclass(frozen=True, slots=True)
class Observation:
    """What one step saw.

    kernel_waiters, user_waiters: threads that wait on average for locks of the kernel, of programs; None: not looked
    at.  users: locks as all processes wait for them, whomever the investigation is about.  unclear: futexes that may be
    locks.  goroutines: programs whose goroutines wait unseen.  hidden: others that wait so.  still: threads
    of run times that waited all the time.  not_enough: why the recording says too little; "": it
    does not.  stops: threads that something stops.  lines: that were watched.  clock: reads of a clock device, where
    they were recorded.  perturbation: what a self-check says of lockline's own probes, '' where there was none.
    flow: who waits for whom.  critical: the critical path through the long waits that were kept.
    """

    probe: str
    duration_ns: int
    cpus: int
    kernel_waiters: float
    longest_ns: int
    waits: int
    locks: tuple[WaitedLock, ...] = ()
    findings: tuple[Finding, ...] = ()
    user_waiters: float | None = None
    user_locks: tuple[UserLockSeen, ...] = ()
    unclear: tuple[UserLockSeen, ...] = ()
    goroutines: tuple[Goroutines, ...] = ()
    hidden: tuple[HiddenWaits, ...] = ()
    still: tuple[StillWait, ...] = ()
    holdings: tuple[Holding, ...] = ()
    blamed: tuple[Blamed, ...] = ()
    users: tuple[WaitedLock, ...] = ()
    holders: Holders | None = None
    counters: Counters = Counters()
    unseen: tuple[Unseen, ...] = ()
    clocksource: str = ""
    not_enough: str = ""
    bounds: tuple[Bound, ...] = ()
    sleeps: Sleeps | None = None
    spins: Spins | None = None
    stops: tuple[Stop, ...] = ()
    lines: tuple[LineSeen, ...] = ()
    clock: ClockRead | None = None
    perturbation: str = ""
    flow: Flow = field(default_factory=Flow)
    critical: tuple[Critical, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """A step that was made, or was not.

    why: what it was to tell, as a fact.  price_ns: stated before.  number: from 1 on.
    """

    number: int
    probe: str
    options: tuple[str, ...]
    why: Fact
    outcome: Outcome
    price_ns: int
    cost: Cost | None = None
    seen: Observation | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A fact that speaks for a hypothesis, or against it; step: that saw it, 0: known before."""

    fact: Fact
    supports: bool
    step: int


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """Something that may be the cause.

    waiters: threads that it keeps waiting on average, an expectation as long as it is open.  tests: probes that would
    tell.  finding: what a rule says of it.  seen: in how many steps.  sure: of the claim itself.
    """

    cause: str
    subject: Subject | None
    state: State
    waiters: float
    claim: Fact
    evidence: tuple[Evidence, ...] = ()
    tests: tuple[str, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    finding: Finding | None = None
    seen: int = 1
    sure: Confidence = "low"

    @property
    def supported(self) -> bool:
        """Whether something was seen that speaks for it."""
        return self.state in ("proven", "likely")


@dataclass(frozen=True, slots=True)
class Target:
    """Whom the investigation is about: options of the collector, in words; tgids: its processes, () for all.

    asked: the options that named a container or a pod, where the collector gets another one.

    has_threads: they are found in /proc without the collector, which alone knows which wait for some locks.
    """

    options: tuple[str, ...]
    words: str
    tgids: tuple[int, ...] = ()
    has_threads: bool = True
    asked: tuple[str, ...] = ()

    @property
    def is_machine(self) -> bool:
        """Whether it is the whole machine."""
        return self.options[:1] == ("-a",)


@dataclass(frozen=True, slots=True)
class Plan:
    """What the investigation may use: seconds of recording in all, and the part of all CPUs' time."""

    seconds: float
    max_overhead: float
    cpus: int

    @property
    def allowed_ns(self) -> int:
        """CPU time that all steps together may cost."""
        return round(self.max_overhead * self.seconds * 1e9 * self.cpus)


@dataclass(frozen=True, slots=True)
class Investigation:
    """All that is known so far."""

    target: Target
    plan: Plan
    steps: tuple[Step, ...] = ()

    @property
    def paid_ns(self) -> int:
        """What the steps have cost."""
        return sum(step.cost.paid_ns for step in self.steps if step.cost is not None)

    @property
    def recorded_ns(self) -> int:
        """How long the steps recorded."""
        return sum(step.cost.window_ns for step in self.steps if step.cost is not None)

    @property
    def observations(self) -> tuple[tuple[Step, Observation], ...]:
        """The steps that saw something."""
        return tuple((step, step.seen) for step in self.steps if step.seen is not None)


@dataclass(frozen=True, slots=True)
class Choice:
    """The next step: probe and options of the collector, how long, what for, and its stated price.

    of: the process and the futex that it looks at, of the probe "threads".  affordable: the price is not more than
    what is left.
    """

    probe: str
    options: tuple[str, ...]
    seconds: float
    why: Fact
    price_ns: int
    affordable: bool = True
    of: UserLockSeen | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """kind: cause: there is one.  nothing: no lock holds anything back.  unclear: there is waiting, and no cause found.

    Of what is unclear `cause` is a lock at which threads may be idle, or None.

    ended: why the investigation ended.
    """

    kind: Literal["cause", "nothing", "unclear"]
    sure: Confidence
    cause: Hypothesis | None
    rivals: tuple[Hypothesis, ...]
    ended: Literal["proven", "nothing left to try", "time", "budget", "interrupted", "target gone"]
