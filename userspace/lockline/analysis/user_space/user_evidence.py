# SPDX-License-Identifier: GPL-2.0-or-later
"""What a recording has of a program's futexes: who waits, who wakes, from which stacks, and for how long."""

import functools
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from lockline.analysis.findings import UserLock
from lockline.base.c_library import FUTEX_CALLERS, is_c_library, is_cxx_library, lambda_in
from lockline.base.values import dataclass
from lockline.recording import rows, user_rows

GIL = "CPython GIL"
PYPY_GIL = "PyPy GIL"
PY_MUTEX = "CPython PyMutex"
PY_OBJECT = "CPython object lock"
PY_STOP = "CPython stop-the-world"
MONITOR = "Java monitor"
JAVA_LOCK = "java.util.concurrent lock"
JAVA_BARRIER = "java.util.concurrent barrier"
JAVA_WAIT = "Java Object.wait()"
JAVA_CONDITION = "Java Condition.await()"
JAVA_CLASS = "Java class initialization"
JAVA_QUEUE = "java.util.concurrent queue"
GO_CHANNEL = "Go channel"
GO_COND = "Go sync.Cond"
GO_POOL = "Go channel as a pool"
GO_SEMAPHORE = "Go channel as a semaphore"
GO_GROUP = "Go sync.WaitGroup"
GO_FLIGHT = "Go singleflight"
GO_DATABASE = "Go database/sql connections"
GO_WEIGHTED = "Go semaphore.Weighted"
GO_MUTEX = "Go sync.Mutex"
GO_ONCE = "Go sync.Once"
GO_RWMUTEX = "Go sync.RWMutex"
RUST_CHANNEL = "Rust channel"
RUST_MUTEX = "Rust Mutex"
RUST_RWLOCK = "Rust RwLock"
PARKING_LOT = "parking_lot lock"
PARKING_LOT_CONDITION = "parking_lot Condvar"
ABSL_MUTEX = "absl::Mutex"
FOLLY_MUTEX = "folly mutex"
TBB_MUTEX = "TBB mutex"
TBB_QUEUE = "TBB queue"
OWN_POOL = "pool, by its functions' names"
OWN_QUEUE = "full queue"
ERLANG_LOCK = "Erlang lock"
NET_MONITOR = ".NET monitor"
NET_LOCK = ".NET lock"
MONO_MONITOR = "Mono monitor"
PERL_LOCK = "Perl lock()"
OCAML_LOCK = "OCaml master lock"
OCAML_STOP = "OCaml stop-the-world"
OCAML_BACKUP = "OCaml backup thread"
MONO_LOCK = "Mono lock"
QT_MUTEX = "Qt QMutex"
QT_RWLOCK = "Qt QReadWriteLock"
QT_SEMAPHORE = "Qt QSemaphore"
ATOMICS = "JavaScript Atomics lock"
PY_LOCK = "Python threading.Lock"
PYPY_LOCK = "PyPy threading.Lock"
PY_QUEUE = "Python queue"
PY_CONDITION = "Python condition"
PY_BARRIER = "Python threading.Barrier"
PY_SEMAPHORE = "Python threading.Semaphore"
PY_PROCESS_LOCK = "Python multiprocessing.Lock"
RUBY_GVL = "Ruby GVL"
RUBY_MUTEX = "Ruby Mutex"
ROW_LOCK = "database row lock"
TABLE_LOCK = "database metadata lock"
RWLOCK = "pthread rwlock"
BARRIER = "pthread barrier"
OPENMP_BARRIER = "OpenMP barrier"
OPENMP_LOCK = "OpenMP lock"
ANY_BARRIER = "barrier"
CONDITION_VARIABLE = "condition variable"
ONCE = "one-time initialization"
BEHAVIOUR = "unknown make"

# Queues and channels that threads wait to put into: others take from them.
FULL_QUEUES = (GO_CHANNEL, JAVA_QUEUE, OWN_QUEUE, PY_QUEUE, RUST_CHANNEL, TBB_QUEUE)
# Locks of an interpreter: whoever has it computes.
INTERPRETERS = (GIL, PYPY_GIL, OCAML_LOCK, RUBY_GVL)

MOST = 0.8
HALF = 0.5
# Threads that wait on average: more than one nearly all the time.  Two that take turns have 1.0.
SEVERAL = 1.2
# Sampled wakes of each word, from which on it is no chance that two circles have no thread in common.
_ENOUGH_WAKES = 5
# Calls of sched_yield() in a second.
_SPINS = 10_000

# PyPy's file, of which packages strip the names.  It makes each lock of a sem_t.
_PYPY = re.compile(r"(?:lib)?pypy[\d.]*(?:-c\.so)?")
_SEMAPHORES = ("sem_wait", "__new_sem_wait", "__GI___new_sem_wait", "sem_timedwait", "sem_clockwait")

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

    frames: the stack itself, with what has no name.  samples: that these are of.
    """

    task: int
    functions: tuple[str, ...]
    modules: tuple[str, ...]
    waits: int
    wait_ns: int
    frames: tuple[rows.Frame, ...] = ()
    samples: int = 1


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
    first word's.  sleeps, slept_ns: what was a sleep there, and no waiting.  behind_readers: of a
    rwlock, that nearly all who wait are writers, for its readers to let go.
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
    sleeps: int = 0
    slept_ns: int = 0


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
# Threads that each wait at a word of their own: its address and name are the waiter's, and not the lock's.  Those of Go
# are at a call.
_CALLED = {
    MONITOR: "a Java monitor (its object moves)",
    JAVA_LOCK: "a lock of java.util.concurrent",
    JAVA_WAIT: "a condition of Java (Object.wait())",
    JAVA_CONDITION: "a condition of Java (Condition.await())",
    JAVA_CLASS: "the initialization of a Java class",
    JAVA_BARRIER: "a barrier of java.util.concurrent",
    JAVA_QUEUE: "a queue of java.util.concurrent",
    NET_MONITOR: "a .NET monitor",
    NET_LOCK: "a lock of .NET",
    MONO_MONITOR: "a .NET monitor",
    MONO_LOCK: "a lock of .NET",
    PARKING_LOT: "a lock of parking_lot",
    PARKING_LOT_CONDITION: "a Condvar of parking_lot",
    ABSL_MUTEX: "an absl::Mutex",
    TBB_MUTEX: "a mutex of TBB",
    TBB_QUEUE: "a bounded queue of TBB",
    OWN_QUEUE: "a queue of their own",
    OWN_POOL: "one of a pool",
    ERLANG_LOCK: "a lock of Erlang's run time",
    PY_MUTEX: "a PyMutex",
    PY_OBJECT: "the lock of an object of Python",
    PY_STOP: "Python's stop-the-world",
    OCAML_STOP: "OCaml's stop-the-world",
    PY_BARRIER: "a Barrier of Python's threading",
    PY_SEMAPHORE: "a Semaphore of Python's threading",
    ROW_LOCK: "locked rows of the database",
    TABLE_LOCK: "locked tables of the database",
    RUBY_MUTEX: "a Mutex of Ruby",
    RUST_CHANNEL: "a channel of Rust",
    GO_FLIGHT: "a call of singleflight",
    GO_DATABASE: "connections of database/sql",
    GO_WEIGHTED: "a semaphore.Weighted",
    PY_QUEUE: "a queue of Python",
}
# The address is the lock's: a variable has a name, what lies on the heap has none.
_CALLED_ON_HEAP = {
    ONCE: "a one-time initialization",
    GO_MUTEX: "a sync.Mutex",
    GO_ONCE: "a sync.Once",
    GO_RWMUTEX: "a sync.RWMutex",
    GO_CHANNEL: "a channel of Go",
    GO_POOL: "a channel of Go",
    GO_SEMAPHORE: "a channel of Go",
    GO_COND: "a sync.Cond",
    RUST_MUTEX: "a Rust Mutex",
    RUST_RWLOCK: "a Rust RwLock",
    FOLLY_MUTEX: "a mutex of folly",
    OPENMP_LOCK: "an OpenMP lock",
    RWLOCK: "a pthread rwlock",
    PERL_LOCK: "a lock() of Perl",
    OCAML_LOCK: "OCaml's master lock",
    QT_MUTEX: "a QMutex",
    QT_RWLOCK: "a QReadWriteLock",
    QT_SEMAPHORE: "a QSemaphore",
    PY_LOCK: "a Lock of Python's threading",
    PYPY_LOCK: "a Lock of Python's threading",
    PY_PROCESS_LOCK: "a Lock of Python's multiprocessing",
}


def is_waiters_own(make: str) -> bool:
    """Whether the word, its address and its name are the waiting thread's, and not the lock's."""
    return make in _CALLED


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


def is_condition(total: user_rows.FutexTotal) -> bool:
    """Whether its waits are as those of a condition variable, which has a clock's time for a limit."""
    return not seems_mutex(total) and bool(total.ops & 1 << 9)


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


def without_sleeps(total: user_rows.FutexTotal, sleeps: int, slept_ns: int) -> user_rows.FutexTotal:
    """A row without so many sleeps, ns long together.  Most of them ended by their timeout."""
    return total._replace(
        slept=total.slept - sleeps,
        wait_ns=total.wait_ns - slept_ns,
        timed_out=max(total.timed_out - sleeps, 0),
        timed_out_ns=max(total.timed_out_ns - slept_ns, 0),
    )


def waiting_still(words: Sequence[Seen], window_ns: int) -> float:
    """The same, with the waits that have not ended."""
    still = sum(open_ns(entry.total) for entry in words)
    return waiting(words, window_ns) + (still / window_ns if window_ns else 0.0)


def _mangled(name: str) -> str:
    """As a C++ compiler writes Class::function, in part."""
    return "".join(f"{len(part)}{part}" for part in name.split("::")) if "::" in name else name


# Of the kinds of locks, which are asked of each stack: there are some hundred sets of names.
@functools.lru_cache(maxsize=512)
def _forms(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(form for name in names for form in (name, _mangled(name))))


# One text is searched for each form once, in place of each function: no form has a line's end.  Where many stacks are
# asked the same, as of thousands of threads of one program, the answers are kept.
@functools.lru_cache(maxsize=1 << 12)
def _text(functions: tuple[str, ...]) -> str:
    return "\n".join(functions)


@functools.lru_cache(maxsize=1 << 17)
def _has(functions: tuple[str, ...], names: tuple[str, ...]) -> bool:
    text = _text(functions)
    return any(form in text for form in _forms(names))


def has(functions: Iterable[str], names: Collection[str]) -> bool:
    """Whether one of these functions has one of the names in its own."""
    return _has(tuple(functions), tuple(names))


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


def is_pypy(path: str) -> bool:
    """Whether a file is PyPy, or the library that it is: pypy3.9, libpypy3.9-c.so."""
    return _PYPY.fullmatch(path.rpartition("/")[2].removesuffix(" (deleted)")) is not None


def _at_pypy_lock(call: Calls) -> bool:
    caller = next(iter(below_c_library(call.frames)), None)
    return caller is not None and is_pypy(caller.module) and has(call.functions, _SEMAPHORES)


def at_pypy_lock(words: Iterable[Seen]) -> bool:
    """Whether threads wait at these words for a lock of PyPy's, whoever made it."""
    return share_of([call for entry in words for call in entry.waits], _at_pypy_lock) >= HALF


def is_yields(entry: Seen) -> bool:
    """Whether this is no word, but what a process's threads wait in sched_yield() for."""
    return entry.total.ops == YIELD_OP


def burns_cpus(yields: Seen, window_ns: int) -> bool:
    """Whether threads yield so often that they spin, each call returning at once, and do not wait for a CPU.

    Of a program that lived for less than a second some hundred calls are no rate.
    """
    return yields.total.calls * 1e9 >= _SPINS * max(window_ns, 1e9)


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
