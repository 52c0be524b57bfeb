# SPDX-License-Identifier: GPL-2.0-or-later
"""What a recording has of a program's futexes, and what follows from it whatever make of lock they are.

A lock: somebody has it while others wait, and whoever lets go wakes one of those who wait, or all of them.  A barrier:
who comes last wakes all others.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from lockline.analysis.findings import UserLock
from lockline.base.c_library import FUTEX_CALLERS, is_c_library, is_cxx_library, lambda_in
from lockline.base.values import dataclass
from lockline.recording import rows, user_rows

GIL = "CPython GIL"
PY_MUTEX = "CPython PyMutex"
MONITOR = "Java monitor"
JAVA_LOCK = "java.util.concurrent lock"
JAVA_BARRIER = "java.util.concurrent barrier"
JAVA_QUEUE = "java.util.concurrent queue"
GO_CHANNEL = "Go channel"
GO_COND = "Go sync.Cond"
GO_GROUP = "Go sync.WaitGroup"
GO_MUTEX = "Go sync.Mutex"
GO_RWMUTEX = "Go sync.RWMutex"
RUST_CHANNEL = "Rust channel"
RUST_MUTEX = "Rust Mutex"
RUST_RWLOCK = "Rust RwLock"
PARKING_LOT = "parking_lot lock"
ABSL_MUTEX = "absl::Mutex"
FOLLY_MUTEX = "folly mutex"
TBB_MUTEX = "TBB mutex"
ERLANG_LOCK = "Erlang lock"
NET_MONITOR = ".NET monitor"
NET_LOCK = ".NET lock"
ATOMICS = "JavaScript Atomics lock"
PY_LOCK = "Python threading.Lock"
PY_QUEUE = "Python queue"
PY_CONDITION = "Python condition"
PY_BARRIER = "Python threading.Barrier"
PY_SEMAPHORE = "Python threading.Semaphore"
PY_PROCESS_LOCK = "Python multiprocessing.Lock"
RUBY_GVL = "Ruby GVL"
RUBY_MUTEX = "Ruby Mutex"
ROW_LOCK = "database row lock"
RWLOCK = "pthread rwlock"
BARRIER = "pthread barrier"
OPENMP_BARRIER = "OpenMP barrier"
OPENMP_LOCK = "OpenMP lock"
ANY_BARRIER = "barrier"
CONDITION_VARIABLE = "condition variable"
BEHAVIOUR = "unknown make"

MOST = 0.8
HALF = 0.5
# Of a window: waits elsewhere by one thread at a time, of those who queue for a lock.
NEARLY_ALL = 0.8
_ONE_THREAD = 1.1
_SEVERAL_TASKS = 2
# At a lock's holder: fewer may all be of one moment.
_ENOUGH_LOOKS = 10
# Threads that were asleep for this part of a window lived that long at least; shorter lives cannot be told.
_MOSTLY_THERE = 0.6
# Threads that wait on average: more than one nearly all the time.  Two that take turns have 1.0.
SEVERAL = 1.2
# Tasks woken by one call: a lock lets one in, a barrier all.
_ONE_AT_A_TIME = 1.5
# Of the others, by one call, at a barrier; and the fewest threads that show it.
_ALL = 0.9
_BARRIER_THREADS = 3
# Of the window, in which all who use a word may seem asleep there, although it is a lock.
_MOMENT = 0.05
# What a thread's last wait may have too much, as a recording ends.
_EDGE_NS = 10_000_000
# Of all wakes of a word: a thread that makes fewer does not take the lock.
_NOW_AND_THEN = 0.05
# Sampled wakes of each word, from which on it is no chance that two circles have no thread in common.
_ENOUGH_WAKES = 5
# Calls of sched_yield() in a second.
_SPINS = 10_000
# Hashes of 128 beyond which a set of threads says nothing any more.
_FULL_SET = 96

# Where a thread parks, whatever for (Python/parking_lot.c): stripped interpreters keep the name of this one alone.
PY_PARKED = "_PySemaphore_Wait"
# Where threading.Lock sleeps.  A thread that waits for a Condition, Semaphore, Event or Queue does so at a lock that it
# made for this wait, and has; whoever notifies it releases that lock, once.
_PYTHON_LOCKS = ("PyThread_acquire_lock", "PyMutex_LockTimed", PY_PARKED)
# Of a pool's threads, which wait for work alone.
_PYTHON_IDLE = ("SimpleQueue",)

# Waits for a mutex below these are of threads that come out of a condition variable.
OUT_OF_CONDITION = (
    "__pthread_mutex_cond_lock",
    "pthread_cond_wait",
    "pthread_cond_timedwait",
    "pthread_cond_clockwait",
)

# enum futex_op of bpf/futex.h: sched_yield().  It names no word: all of a process are one row.
YIELD_OP = 1 << 20

# By process, and apart where processes share it: the words by address.
Processes = Mapping[tuple[int, bool], Mapping[int, "Seen"]]


@dataclass(frozen=True, slots=True)
class Calls:
    """Sampled waits or wakes of one task from one stack: functions from the leaf on, and the files they are in.

    frames: the stack itself, with what has no name.
    """

    task: int
    functions: tuple[str, ...]
    modules: tuple[str, ...]
    waits: int
    wait_ns: int
    frames: tuple[rows.Frame, ...] = ()


@dataclass(frozen=True, slots=True)
class Seen:
    """A futex, with the evidence of its kind.

    looks: at its holder while others waited for it; ran: at how many of them that ran, or waited for a CPU.
    """

    futex: user_rows.Futex
    total: user_rows.FutexTotal
    waits: tuple[Calls, ...] = ()
    wakes: tuple[Calls, ...] = ()
    looks: int = 0
    ran: int = 0


@dataclass(frozen=True, slots=True)
class Site:
    """Where a barrier's threads wait: the program's function ('' unknown), and who comes last there, in what part."""

    function: str
    wait_ns: int
    rounds: int
    last: int
    last_part: float


@dataclass(frozen=True, slots=True)
class Recognised:
    """Futexes that are one lock (or barrier, or condition variable): words, by id, the first of them names it.

    lock: it is contended.  sites: it is a barrier.  unclear: it cannot be told whether it is contended.
    sure: high or medium.  why: '' where the words' own nature holds.  name: of the whole object, '' if that is the
    first word's.  behind_readers: of a rwlock, that nearly all who wait are writers, for its readers to let go.
    """

    words: tuple[int, ...]
    make: str
    lock: bool
    sure: str
    why: str
    name: str = ""
    sites: tuple[Site, ...] = ()
    unclear: bool = False
    behind_readers: bool = False


@dataclass(frozen=True, slots=True)
class Goroutines:
    """A busy program in Go, whose goroutines wait for mutexes without the kernel: nobody knows how long.

    wakes: sampled, that end such waits.  0: whether goroutines wait at all is not known either.
    """

    comm: str
    tgid: int
    wakes: int


# Of Java, whose name is that of a class of java.util.concurrent.
OF_PACKAGE = (JAVA_LOCK, JAVA_BARRIER, JAVA_QUEUE)
# Threads that each wait at a word of their own: its address and name are the waiter's, and not the lock's.
_CALLED = {
    MONITOR: "a Java monitor (its object moves)",
    JAVA_LOCK: "a lock of java.util.concurrent",
    JAVA_BARRIER: "a barrier of java.util.concurrent",
    JAVA_QUEUE: "a queue of java.util.concurrent",
    NET_MONITOR: "a .NET monitor",
    NET_LOCK: "a lock of .NET",
    PARKING_LOT: "a lock of parking_lot",
    ABSL_MUTEX: "an absl::Mutex",
    TBB_MUTEX: "a mutex of TBB",
    ERLANG_LOCK: "a lock of Erlang's run time",
    PY_MUTEX: "a PyMutex",
    PY_BARRIER: "a Barrier of Python's threading",
    PY_SEMAPHORE: "a Semaphore of Python's threading",
    ROW_LOCK: "locked rows of the database",
    RUBY_MUTEX: "a Mutex of Ruby",
    RUST_CHANNEL: "a channel of Rust",
}
# The address is the lock's: a variable has a name, what lies on the heap has none.
_CALLED_ON_HEAP = {
    GO_MUTEX: "a sync.Mutex",
    GO_RWMUTEX: "a sync.RWMutex",
    GO_CHANNEL: "a channel of Go",
    RUST_MUTEX: "a Rust Mutex",
    RUST_RWLOCK: "a Rust RwLock",
    FOLLY_MUTEX: "a mutex of folly",
    OPENMP_LOCK: "an OpenMP lock",
    RWLOCK: "a pthread rwlock",
    PY_LOCK: "a Lock of Python's threading",
    PY_PROCESS_LOCK: "a Lock of Python's multiprocessing",
}


def lock_called(futex: user_rows.Futex, make: str, class_name: str = "") -> UserLock:
    """What a lock is called: by its make where that tells more than an address on a heap, else as the word is.

    class_name: of a Java monitor's object, or of java.util.concurrent, if it is known.
    """
    if make == MONITOR and class_name:
        return UserLock(f"the monitor of class {class_name}", "")
    if make in OF_PACKAGE and class_name:
        return UserLock(f"{'an' if class_name[0] in 'AEIOU' else 'a'} {class_name} of java.util.concurrent", "")
    name = _CALLED.get(make, "") or futex.name or _CALLED_ON_HEAP.get(make, "")
    return UserLock(name, "" if name else futex.object)


def by_process(seen: Iterable[Seen]) -> dict[tuple[int, bool], dict[int, Seen]]:
    """The words of each process, and those that it shares, by address."""
    found: defaultdict[tuple[int, bool], dict[int, Seen]] = defaultdict(dict)
    for entry in seen:
        if entry.futex.address and entry.futex.tgid:
            found[entry.futex.tgid, bool(entry.futex.shared)][entry.futex.address] = entry
    return found


def expects_2(total: user_rows.FutexTotal) -> bool:
    """Whether its waits expect a 2, as nearly all for a mutex do.

    The word of a condition variable counts: since glibc 2.41 it passes the 2 as any other number.
    """
    return total.value_2 >= HALF * total.calls > 0


def seems_mutex(total: user_rows.FutexTotal) -> bool:
    """Whether its waits are as for a mutex: they expect a 2, or a thread was seen to own it."""
    return expects_2(total) or total.owners > 0


def total_of(words: Iterable[Seen], figure: str) -> int:
    """A figure of all these words together."""
    return sum(int(getattr(entry.total, figure)) for entry in words)


def most_of(words: Iterable[Seen], figure: str) -> int:
    """The largest such figure of one of these words."""
    return max(int(getattr(entry.total, figure)) for entry in words)


def waiting(words: Iterable[Seen], window_ns: int) -> float:
    """Threads that wait at these words on average."""
    return total_of(words, "wait_ns") / window_ns if window_ns else 0.0


def asleep(words: Iterable[Seen], window_ns: int) -> float:
    """Threads that sleep at these words on average, to the end too: without the way from the wake-up to the CPU.

    That way is the scheduler's: on a busy machine it makes idle threads seem to wait for long.
    """
    entries = tuple(words)
    still = sum(open_ns(entry.total) for entry in entries)
    slept = total_of(entries, "wait_ns") - total_of(entries, "latency_ns") + still
    return slept / window_ns if window_ns else 0.0


def several_wait(words: Sequence[Seen], window_ns: int) -> bool:
    """Whether more than one thread waits there nearly all the time, and not for a CPU alone."""
    return waiting_still(words, window_ns) >= SEVERAL and asleep(words, window_ns) >= HALF


def open_ns(total: user_rows.FutexTotal) -> int:
    """How long the waits lasted that had not ended, ns; in recordings that lack the sum, the oldest of them."""
    return max(total.open_ns, total.oldest_ns) if total.open_waits else 0


def waiting_still(words: Sequence[Seen], window_ns: int) -> float:
    """The same, with the waits that have not ended."""
    still = sum(open_ns(entry.total) for entry in words)
    return waiting(words, window_ns) + (still / window_ns if window_ns else 0.0)


def _mangled(name: str) -> str:
    """As a C++ compiler writes Class::function, in part."""
    return "".join(f"{len(part)}{part}" for part in name.split("::")) if "::" in name else name


def has(functions: Iterable[str], names: Collection[str]) -> bool:
    """Whether one of these functions has one of the names in its own."""
    forms = {form for name in names for form in (name, _mangled(name))}
    return any(form in function for function in functions for form in forms)


def below_c_library(frames: Sequence[rows.Frame]) -> Sequence[rows.Frame]:
    """A stack from whoever called the C library's wait."""
    for at, frame in enumerate(frames):
        if not is_c_library(frame.module) and not frame.symbol.startswith(FUTEX_CALLERS):
            return frames[at:]
    return ()


def share_of(calls: Sequence[Calls], which: Callable[[Calls], bool]) -> float:
    """The share of the sampled time (of wakes: of the samples) that these calls have."""
    every = sum(call.wait_ns or call.waits for call in calls)
    return sum(call.wait_ns or call.waits for call in calls if which(call)) / every if every else 0.0


def share_from(calls: Sequence[Calls], names: Collection[str], unless: Collection[str] = ()) -> float:
    """The same from stacks with one of these functions."""
    return share_of(calls, lambda call: has(call.functions, names) and not has(call.functions, unless))


def waits_for_notice(entry: Seen) -> bool:
    """Whether one thread of Python waits here as for a Condition: at a lock of its own, not for a while only."""
    return (
        entry.total.waiters == 1
        and entry.total.timed_out < HALF * entry.total.slept
        and share_from(entry.waits, _PYTHON_LOCKS, unless=_PYTHON_IDLE) >= HALF
        and not any(has(call.functions, _PYTHON_IDLE) for call in entry.waits)
    )


def wake_each_other(words: Sequence[Seen]) -> bool:
    """Whether most wakes of these words come from threads that wait at one of them."""
    inside = {call.task for entry in words for call in entry.waits}
    wakes = [(call.task in inside, call.waits) for entry in words for call in entry.wakes]
    return sum(waits for peer, waits in wakes if peer) >= MOST * sum(waits for _, waits in wakes) > 0


def is_yields(entry: Seen) -> bool:
    """Whether this is no word, but what a process's threads wait in sched_yield() for."""
    return entry.total.ops == YIELD_OP


def burns_cpus(yields: Seen, window_ns: int) -> bool:
    """Whether threads yield so often that they spin, each call returning at once, and do not wait for a CPU."""
    return yields.total.calls * 1e9 >= _SPINS * window_ns


def place_of(call: Calls) -> str:
    """The function that called the C or C++ library's wait, or sched_yield(); '' if it has no name.

    std::atomic::wait() yields in one of the library's functions, and sleeps in another one.
    """
    for frame in below_c_library(call.frames):
        if not is_cxx_library(frame.symbol):
            return frame.symbol
        if name := lambda_in(frame.symbol, frame.module):
            return name
    return ""


def by_waiting(words: Iterable[Seen]) -> list[Seen]:
    """The one first that most is waited at: it names the whole."""
    return sorted(words, key=lambda one: (-one.total.wait_ns, one.futex.id))


def circles(words: Sequence[Seen]) -> list[list[Seen]]:
    """Words that one thread each waits at, parted by who wakes whom: those who queue for one lock wake each other.

    Who yields names no word: that time is the lock's if there is but one.
    """
    found = _circles([entry for entry in words if not is_yields(entry)])
    yields = [entry for entry in words if is_yields(entry)]
    return [[*found[0], *yields]] if len(found) == 1 else [*found, *([entry] for entry in yields)]


def _circles(words: Sequence[Seen]) -> list[list[Seen]]:
    leader: dict[int, int] = {}

    def find(task: int) -> int:
        while leader.setdefault(task, task) != task:
            leader[task] = leader[leader[task]]
            task = leader[task]
        return task

    for entry in words:
        tasks = [call.task for call in (*entry.waits, *entry.wakes)]
        for task in tasks[1:]:
            leader[find(task)] = find(tasks[0])
    found: defaultdict[int, list[Seen]] = defaultdict(list)
    for entry in words:
        tasks = [call.task for call in entry.waits]
        found[find(tasks[0]) if tasks else -entry.futex.id].append(entry)
    return list(found.values())


def apart(words: Sequence[Seen]) -> list[list[Seen]]:
    """The same of words that surely are locks: circles with enough samples of wakes; the others join the largest."""
    enough: list[list[Seen]] = []
    others: list[list[Seen]] = []
    for circle in circles(words):
        wakes = sum(call.waits for entry in circle for call in entry.wakes)
        (enough if wakes >= _ENOUGH_WAKES * len(circle) else others).append(circle)
    if not enough:
        return [list(words)]
    max(enough, key=lambda circle: total_of(circle, "wait_ns")).extend(entry for circle in others for entry in circle)
    return enough


def _users(words: Sequence[Seen]) -> int:
    """Threads that wait at these words, and others that wake there more than now and then: one who never waits."""
    waiting_there = {call.task for entry in words for call in entry.waits}
    wakes: defaultdict[int, int] = defaultdict(int)
    for call in (call for entry in words for call in entry.wakes):
        wakes[call.task] += call.waits
    often = _NOW_AND_THEN * sum(wakes.values())
    others = {task for task, count in wakes.items() if count >= often} - waiting_there
    waiters = most_of(words, "waiters") if len(words) == 1 else 0
    return max(len(waiting_there), waiters) + len(others)


def nobody_holds(words: Sequence[Seen], window_ns: int) -> bool:
    """Whether all threads that use these words were asleep there at once, for more than a moment.

    While threads wait for a lock, one of the others has it.  Time from the wake-up to the CPU is no sleep: whoever
    was woken may have been given the lock.
    """
    users = _users(words)
    # Waits that end while a recording ends count as a whole: of a short one, that is much.
    edges = users * _EDGE_NS / window_ns if window_ns else 0.0
    return asleep(words, window_ns) > users - 1 + min(_MOMENT + edges, HALF)


def lived(slept_ns: Iterable[int], window_ns: int) -> int:
    """For how long threads were there, that may have started late: as long at least as the one that slept most."""
    most = max(slept_ns, default=0)
    return min(most, window_ns) if most >= _MOSTLY_THERE * window_ns else window_ns


def waiting_of(tasks: Collection[int], words: Iterable[Seen]) -> dict[int, int]:
    """How long these tasks waited at these words, ns, by what their samples stand for."""
    found: defaultdict[int, int] = defaultdict(int)
    for entry in words:
        sampled = sum(call.wait_ns for call in entry.waits)
        for call in entry.waits:
            if call.task in tasks and sampled:
                found[call.task] += entry.total.wait_ns * call.wait_ns // sampled
    return dict(found)


def held_over_wait(lock: Sequence[Seen], others: Iterable[Seen], window_ns: int) -> str:
    """Why a lock's holder waits at another word nearly all the time; '' if it does not.

    One thread at a time waits there, each of them one that queues for the lock too, and all others queue meanwhile:
    a queue of workers, or a lock that is held over a wait.
    """
    queue = {call.task for entry in lock for call in entry.waits}
    looks = sum(entry.looks for entry in lock)
    if len(queue) < _SEVERAL_TASKS or not window_ns:
        return ""
    # The holder was seen at work.
    if looks >= _ENOUGH_LOOKS and sum(entry.ran for entry in lock) >= HALF * looks:
        return ""
    # Who gives its CPU away runs on when it gets one.
    elsewhere = waiting_of(queue, (entry for entry in others if not is_yields(entry)))
    at_lock = waiting_of(queue, lock)
    lived_ns = lived((at_lock.get(task, 0) + elsewhere.get(task, 0) for task in queue), window_ns)
    asleep = sum(elsewhere.values()) / lived_ns
    at_work = len(queue) - asleep - waiting(lock, lived_ns)
    if len(elsewhere) < _SEVERAL_TASKS or not NEARLY_ALL <= asleep <= _ONE_THREAD or at_work > HALF:
        return ""
    return (
        f"its holder waits at another futex, {asleep:.0%} of the time: workers wait for their next job, or the lock is"
        " held during a wait; the stacks of those waits show which"
    )


def _peers(words: Sequence[Seen]) -> bool:
    waiters, wakers, both = (most_of(words, name) for name in ("waiters", "wakers", "both"))
    return (
        waiters > 1
        and max(waiters, wakers) <= _FULL_SET
        and both >= MOST * max(wakers, 1)
        and both >= HALF * waiters
        and total_of(words, "timed_out") < HALF * max(total_of(words, "slept"), 1)
    )


def _woken_by_a_call(words: Sequence[Seen]) -> float:
    """Tasks that a call wakes on average, of the calls that wake any."""
    calls = total_of(words, "wakes") - total_of(words, "wakes_empty")
    return total_of(words, "tasks_woken") / calls if calls > 0 else 0.0


def wakes_all_others(entry: Seen) -> bool:
    """Whether each call wakes nearly all who use the word, three threads or more: whoever wakes may never wait."""
    users = _users((entry,))
    return users >= _BARRIER_THREADS and _woken_by_a_call((entry,)) >= _ALL * (users - 1)


def wakes_all_who_sleep(words: Sequence[Seen]) -> bool:
    """Whether each call that wakes anybody wakes nearly all: of those who spin first, some do not sleep yet."""
    waiters = most_of(words, "waiters")
    return waiters >= _BARRIER_THREADS and _woken_by_a_call(words) >= _ALL * (waiters - 1)


def behaves_as_barrier(words: Sequence[Seen]) -> str:
    """Why the threads at these words wait until all have come; '' if it does not look so.

    Whoever wakes is one of those who wait, and wakes all others.
    """
    if not wakes_all_who_sleep(words) or not _peers(words):
        return ""
    if total_of(words, "wakes_empty") > (1 - _ALL) * total_of(words, "wakes"):
        return ""
    waiters, woken = most_of(words, "waiters"), _woken_by_a_call(words)
    return f"it behaves like a barrier: the last of {waiters} threads to come wakes {woken:.1f} at once"


def behaves_as_lock(words: Sequence[Seen], window_ns: int) -> str:
    """Why the threads at these words contend for a lock of whatever make; '' if something speaks against it.

    More than one waits nearly all the time, whoever wakes is one of those who wait, somebody can have the lock, and
    most waits end by a wake.  A dispatcher does not wait where its workers do, polls time out, and workers without
    work are all asleep.
    """
    woken, threads = _woken_by_a_call(words), waiting(words, window_ns)
    if not _peers(words) or not several_wait(words, window_ns) or not woken or behaves_as_barrier(words):
        return ""
    if nobody_holds(words, window_ns) or (any(map(is_yields, words)) and wakes_all_who_sleep(words)):
        return ""
    # Workers may pass jobs on, as those of a queue of Python do; who has jobs for them does not wait there.
    if any(entry.waits and entry.wakes for entry in words) and not wake_each_other(words):
        return ""
    how = "one at a time"
    if woken > _ONE_AT_A_TIME:
        how = f"{woken:.1f} at a time, of which one gets it"
    return f"{threads:.1f} threads wait on average, and those that wait wake each other, {how}: it behaves like a lock"
