# SPDX-License-Identifier: GPL-2.0-or-later
"""What is known of a futex's waits, and what they are by how the word is used (record --futex, docs/futex.md)."""

from lockline.analysis.blocked import BlockedThread
from lockline.analysis.model import Figures
from lockline.analysis.user_space.crowds import is_crowd, wakes_itself
from lockline.analysis.user_space.hidden_waits import HiddenWaits
from lockline.analysis.user_space.java_monitors import Monitor
from lockline.analysis.user_space.user_evidence import YIELD_OP, Goroutines, open_ns
from lockline.base.values import dataclass
from lockline.recording import rows, user_rows

LOCK = "lock"
PARKED = "parked"
BARRIER = "barrier"
SPIN = "spin"
SEMAPHORE = "semaphore"
CONDITION = "condition or idle"
POLL = "timed poll"
UNCLEAR = "unclear"
NONE = "no wait"

# As a report orders them.
NATURES = (LOCK, PARKED, BARRIER, SPIN, UNCLEAR, POLL, SEMAPHORE, CONDITION, NONE)

# What a recording calls a holder's sleep that is no system call.
PAGE_FAULT = "page fault"

# enum futex_op of bpf/futex.h: FUTEX_LOCK_PI, FUTEX_UNLOCK_PI, FUTEX_TRYLOCK_PI, FUTEX_LOCK_PI2.
_PI_OPS = 1 << 6 | 1 << 7 | 1 << 8 | 1 << 13
OPS = {
    0: "WAIT",
    1: "WAKE",
    3: "REQUEUE",
    4: "CMP_REQUEUE",
    5: "WAKE_OP",
    6: "LOCK_PI",
    7: "UNLOCK_PI",
    8: "TRYLOCK_PI",
    9: "WAIT_BITSET",
    10: "WAKE_BITSET",
    11: "WAIT_REQUEUE_PI",
    12: "CMP_REQUEUE_PI",
    13: "LOCK_PI2",
    16: "futex_waitv",
    17: "futex_wake",
    18: "futex_wait",
    19: "futex_requeue",
    20: "sched_yield",
    # No calls: goroutines (record --futex --go).
    23: "Go pool",
    24: "Go lock",
    25: "Go unlock",
    26: "Go send",
    27: "Go select",
    28: "Go group",
    29: "Go cond",
    30: "Go receive",
}

# Shares of the rules below.
_MOST = 0.8
_HALF = 0.5
# Fewer calls than this that expect a 2 may be a counter that passed it.
_FEW_CALLS = 3


@dataclass(frozen=True, slots=True)
class FutexTask:
    """What the samples of one task stand for, as waiter, waker or owner; waits of a waker: tasks woken in samples."""

    role: str
    tid: int
    tgid: int
    comm: str
    samples: int
    waits: int
    wait_ns: int


@dataclass(frozen=True, slots=True)
class FutexStack:
    """A stack in user space from which a futex was waited for, or woken.

    owned_ns: of wakes, the waiting for owners who let go there; 0 if owners are not known.
    """

    role: str
    samples: int
    waits: int
    wait_ns: int
    frames: tuple[rows.Frame, ...]
    owned_ns: int = 0


@dataclass(frozen=True, slots=True)
class HolderLook:
    """What a mutex's holder was seen doing while others waited, and at how many looks.

    state: R (runs, or waits for a CPU), S, D, T...; call: the system call that it sleeps in, 'page fault', or '';
    function: the kernel function that it sleeps in, or ''; behind: the address of a futex that it waits for, or 0.
    """

    state: str
    call: str
    function: str
    looks: int
    behind: int = 0


@dataclass(frozen=True, slots=True)
class BarrierSite:
    """Where threads wait at a barrier: the program's function ('' unknown), and who comes last there, how often.

    rounds: sampled; last_part: of these.
    """

    function: str
    wait_ns: int
    rounds: int
    last: FutexTask | None
    last_part: float


@dataclass(frozen=True, slots=True)
class FutexWaits:
    """One futex; figures and latency (from the wake-up to the CPU) are of the calls that slept.

    nature: one of NATURES, and why in words.  make: what kind of lock it was recognised as, or ''; sure: high or
    medium.  words: other futexes that are parts of it, and are in all figures.  sites: of a barrier.
    holders: what those who have it do, most looks first.  behind: another lock that they wait for meanwhile, as part
    of the looks; before: locks whose holders wait for this one, and the waiting that comes from there.  blamed_ns:
    all waiting that this lock is to blame for, None: its own.  monitors: of Java's, that the waits were for.
    behind_readers: of a rwlock, that nearly all who wait are writers, for its readers to let go.
    """

    futex: user_rows.Futex
    total: user_rows.FutexTotal
    nature: str
    why: str
    figures: Figures
    latency: Figures
    semaphore: bool = False  # a sem_t of glibc
    tasks: tuple[FutexTask, ...] = ()
    stacks: tuple[FutexStack, ...] = ()
    make: str = ""
    sure: str = "high"
    words: tuple[int, ...] = ()
    sites: tuple[BarrierSite, ...] = ()
    holders: tuple[HolderLook, ...] = ()
    behind: tuple[user_rows.Futex, float] | None = None
    before: tuple[tuple[user_rows.Futex, int], ...] = ()
    blamed_ns: int | None = None
    monitors: tuple[Monitor, ...] = ()
    behind_readers: bool = False

    @property
    def to_blame_ns(self) -> int:
        """Waiting that this lock is to blame for, of its own or of others behind it."""
        return self.waited_ns if self.blamed_ns is None else self.blamed_ns

    @property
    def waited_ns(self) -> int:
        """Of the waits that ended, and of those that had not (in old recordings the oldest of them)."""
        return self.figures.wait_ns + open_ns(self.total)

    @property
    def longest_ns(self) -> int:
        """Of the waits that ended, and of those that had not."""
        return max(self.figures.max_ns, self.total.oldest_ns if self.total.open_waits else 0)

    @property
    def ops(self) -> tuple[str, ...]:
        """The operations seen, by name."""
        return tuple(name for bit, name in OPS.items() if self.total.ops >> bit & 1)

    @property
    def who(self) -> str:
        """Who waits: threads, or goroutines (record --futex --go), of which a process has more than threads."""
        return "goroutines" if any(name.startswith("Go ") for name in self.ops) else "threads"


@dataclass(frozen=True, slots=True)
class BucketWaits:
    """Waits for the lock of one of the kernel's hash buckets, and the futexes whose calls waited there.

    collision: futexes of more than one word waited there.
    """

    lock: str
    instance: str
    waits: int
    wait_ns: int
    max_ns: int
    futexes: tuple[tuple[user_rows.Futex, int, int], ...]

    @property
    def collision(self) -> bool:
        """Whether more than one futex led to this bucket's lock."""
        return len(self.futexes) > 1


@dataclass(frozen=True, slots=True)
class Futexes:
    """All futexes, those of contended locks first, the one with most waiting first; the buckets; and who is blocked.

    unseen: programs in Go whose goroutines wait for mutexes without a futex.  hidden: others, and threads that wait for
    what their futexes do not tell.  span_ns: of which time all this is.
    """

    futexes: tuple[FutexWaits, ...]
    buckets: tuple[BucketWaits, ...]
    blocked: tuple[BlockedThread, ...] = ()
    unseen: tuple[Goroutines, ...] = ()
    hidden: tuple[HiddenWaits, ...] = ()
    span_ns: int = 0

    def wait_ns(self, nature: str) -> int:
        """All waiting of that nature."""
        return sum(futex.figures.wait_ns for futex in self.futexes if futex.nature == nature)


def is_semaphore(total: user_rows.FutexTotal, calls: int) -> bool:
    """Whether a futex is a sem_t; calls: of those to wait, how many found one without a token."""
    return calls >= _MOST * total.calls > 0


def _is_handed(total: user_rows.FutexTotal) -> bool:
    """Whether one thread waits at a word and others wake it, which itself never does: a place to park, no mutex.

    Who has waited for a mutex has it then, and wakes the word in its turn, whether somebody waits there or not.
    """
    return total.waiters == 1 and not total.both and total.tasks_woken >= _MOST * max(total.slept, _FEW_CALLS)


def nature(total: user_rows.FutexTotal, semaphore: bool = False, same: bool | None = False) -> tuple[str, str]:
    """What a futex is, by how it is used, and the reason: the first rule of docs/futex.md that holds.

    same: of a crowd, whether its samples say that those who wake are those who wait; None: they do not tell.
    """
    if total.ops == YIELD_OP:
        return SPIN, "threads give their CPU away and look again (sched_yield): what they wait for, no futex tells"
    if not total.slept and not total.open_waits:
        return NONE, "no call slept" + (f": {total.again:,} found the word changed" if total.again else "")
    if total.ops & _PI_OPS:
        return LOCK, "it is locked by the kernel (FUTEX_LOCK_PI)"
    if total.owners and total.owners >= _HALF * total.owner_samples:
        return LOCK, (
            f"in {total.owners:,} of {total.owner_samples:,} samples another live thread of the process owned it"
        )
    crowd = is_crowd(total.waiters, total.wakers)
    shared = bool(same) if crowd else wakes_itself(total)
    if total.value_2 >= _HALF * total.calls and shared:
        return LOCK, "waits expect the value 2 (locked, with waiters), and the threads that wait also wake"
    handed = _is_handed(total)
    if total.value_2 >= _MOST * total.calls and total.calls >= _FEW_CALLS and not handed:
        return LOCK, "waits expect the value 2: locked, with waiters"
    # The kernel wakes who waits for a thread's end: no call does.  A lock may have its owner's id in its word, too.
    ended = total.tasks_woken < _HALF * total.slept or not total.slept
    if ended and total.threads and total.threads >= _HALF * total.owner_samples:
        return CONDITION, "waits end when a thread does (pthread_join)"
    if total.timed_out and total.timed_out >= _MOST * max(total.slept, 1):
        return POLL, f"{min(total.timed_out, total.slept):,} of {total.slept:,} waits ended by their timeout"
    if shared and total.waiters > 1 and total.tasks_woken and semaphore:
        return (
            UNCLEAR,
            "a semaphore (sem_wait) that its waiters also post: a lock, or threads that take turns",
        )
    if crowd and same is None and total.wakers >= _HALF * total.waiters:
        return (
            UNCLEAR,
            "so many threads wait and wake here that nobody can tell whether they are the same: record for longer",
        )
    if semaphore:
        return SEMAPHORE, "a semaphore (sem_wait): those who post it are not those who wait for it"
    if shared and total.waiters > 1 and total.tasks_woken:
        return (
            UNCLEAR,
            "the threads that wait also wake: a lock that the program makes itself, or threads that take turns",
        )
    if handed and total.value_2:
        return CONDITION, "one thread waits here, and never wakes the word itself: others wake it up"
    if not total.slept and not total.wakes:
        return CONDITION, "its threads slept the whole time: nobody woke them"
    return CONDITION, "nobody holds it, and others wake those who wait"
