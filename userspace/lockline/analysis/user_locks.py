# SPDX-License-Identifier: GPL-2.0-or-later
"""What kind of lock a program's futexes are, by how such locks work (record --futex, docs/futex.md).

By the layout of their words, the functions that wait and wake there, and who wakes whom.
"""

import functools
import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from lockline.analysis import openmp_waits, pthreads
from lockline.analysis.futex_waits import UNCLEAR, nature
from lockline.analysis.java_waits import java_waits
from lockline.analysis.python_idle import python_conditions, python_queues
from lockline.analysis.python_waits import python_waits
from lockline.analysis.row_locks import row_locks
from lockline.analysis.ruby_locks import ruby_locks
from lockline.analysis.user_evidence import (
    ABSL_MUTEX,
    ANY_BARRIER,
    ATOMICS,
    BEHAVIOUR,
    CONDITION_VARIABLE,
    ERLANG_LOCK,
    FOLLY_MUTEX,
    GIL,
    GO_CHANNEL,
    GO_COND,
    GO_GROUP,
    GO_MUTEX,
    GO_RWMUTEX,
    HALF,
    JAVA_LOCK,
    JAVA_QUEUE,
    MONITOR,
    MOST,
    NET_LOCK,
    NET_MONITOR,
    OPENMP_BARRIER,
    OUT_OF_CONDITION,
    PARKING_LOT,
    PY_LOCK,
    PY_MUTEX,
    PY_PARKED,
    PY_PROCESS_LOCK,
    RUST_CHANNEL,
    RUST_MUTEX,
    RUST_RWLOCK,
    SEVERAL,
    TBB_MUTEX,
    Calls,
    Goroutines,
    Processes,
    Recognised,
    Seen,
    apart,
    behaves_as_barrier,
    behaves_as_lock,
    below_c_library,
    burns_cpus,
    by_process,
    circles,
    expects_2,
    has,
    held_over_wait,
    is_yields,
    nobody_holds,
    place_of,
    seems_mutex,
    several_wait,
    share_from,
    share_of,
    total_of,
    waiting,
    waiting_still,
    wake_each_other,
    wakes_all_who_sleep,
)
from lockline.base.values import dataclass
from lockline.recording import rows, user_rows

# pthread_cond_t of glibc 2.25 to 2.42: its waiters sleep on one of two words; the mutex behind it in CPython's GIL.
_GROUP = 4
_BEHIND_GROUPS = 8
# The GIL's second condition variable, for who let it go and waits until another thread has it: 88 bytes on.
_SECOND_CONDITION = 88


def _is_condition(total: user_rows.FutexTotal) -> bool:
    return not seems_mutex(total) and bool(total.ops & 1 << 9)


def _with_other_word(seen: Sequence[Seen]) -> list[Seen]:
    """The words; one of a condition variable that has no sample of a wait has those of the other one.

    Threads that wait for it go to either of its words, in turns.
    """
    processes = by_process(seen)
    found = []
    for entry in seen:
        of_process = processes.get((entry.futex.tgid, bool(entry.futex.shared)), {})
        other = of_process.get(entry.futex.address ^ _GROUP)
        if other is not None and not entry.waits and _is_condition(entry.total) and _is_condition(other.total):
            entry = replace(entry, waits=other.waits, wakes=entry.wakes or other.wakes)
        found.append(entry)
    return found


# --- CPython's global interpreter lock ---

_TAKES_GIL = ("take_gil",)


def _of_gil(entry: Seen) -> str:
    """By what a word is known as the GIL's; '' if it is not."""
    if entry.futex.name.startswith("_PyRuntime"):
        return "_PyRuntime"
    if share_from(entry.waits, _TAKES_GIL) >= HALF:
        return "take_gil()"
    return ""


def _in_python(entry: Seen) -> bool:
    return entry.futex.comm.startswith("python") or any(
        "python" in module.rsplit("/", 1)[-1] for calls in entry.waits for module in calls.modules
    )


def _gil_at(words: Mapping[int, Seen], low: int) -> tuple[list[Seen], str]:
    """The words of the GIL whose condition variable has its first word there, and by what it is known."""
    pair = [words[at] for at in (low, low + _GROUP) if at in words]
    # Who unlocks a mutex may wake its word though nobody waits there: no call to wait, so none without a timeout.
    if not pair or not all(entry.total.timed >= MOST * entry.total.calls > 0 for entry in pair):
        return [], ""
    known = next((by for by in map(_of_gil, pair) if by), "")
    mutex = words.get(low + _BEHIND_GROUPS)
    if not known and mutex is not None and expects_2(mutex.total) and any(map(_in_python, pair)):
        both = all(entry.total.both >= HALF * entry.total.waiters > 0 for entry in pair)
        second = range(low + _SECOND_CONDITION, low + _SECOND_CONDITION + _BEHIND_GROUPS + 1, _GROUP)
        known = "layout" if both and any(at in words for at in second) else ""
    if not known:
        return [], ""
    further = (low + _BEHIND_GROUPS, *(low + _SECOND_CONDITION + at for at in (0, _GROUP, _BEHIND_GROUPS)))
    return [*sorted(pair, key=lambda entry: -entry.total.wait_ns), *(words[at] for at in further if at in words)], known


def _gils(processes: Processes, window_ns: int) -> Iterable[Recognised]:
    for words in processes.values():
        for low in sorted({address & ~7 for address in words}):
            found, known = _gil_at(words, low)
            if not found:
                continue
            waits = sum(entry.total.slept for entry in found)
            ended = sum(entry.total.timed_out for entry in found)
            ended_ns = sum(entry.total.timed_out_ns for entry in found)
            threads = waiting(found, window_ns)
            by = "its futexes lie in memory as those of the GIL do: a condition variable, then a mutex"
            if known != "layout":
                by = f"known by {known}"
            again = ""
            if ended:
                after = f"{ended_ns / ended / 1e6:.1f} ms"
                again = f"; {ended:,} of {waits:,} waits ended after {after} and began again"
            yield Recognised(
                tuple(entry.futex.id for entry in found),
                GIL,
                lock=True,
                sure="medium" if known == "layout" else "high",
                why=f"CPython's GIL ({by}): {threads:.1f} threads wait for it on average{again}",
            )


# --- Locks known by the functions that wait for them ---


@dataclass(frozen=True, slots=True)
class _Make:
    """A make of lock: functions of those who wait for it, and of waits there that are none (unless).

    peers: only if threads that wait also wake each other and somebody can have it, as idle workers come from the same
    functions.  words: each of its threads waits at a word of its own.  pair: it has two words.  queues: idle workers
    wait there too, which only functions with one of these in their names tell from those who wait for a lock.  file:
    also who waits in this file, whatever the function; stripped files have no names.
    """

    name: str
    waits: tuple[str, ...]
    unless: tuple[str, ...] = ()
    peers: bool = False
    words: bool = False
    pair: bool = False
    queues: tuple[str, ...] = ()
    file: str = ""


# A thread of CoreCLR has a condition variable of its own, and waits there whatever for.  A monitor's owner wakes one of
# those that wait in AwareLock::Enter(): EnterEpilogHelper() is the part that sleeps.
_CORECLR = "libcoreclr.so"
_NET_MONITOR = ("AwareLock::Enter", "AwareLock::TryEnter")
# Its own threads, and those that wait for the garbage collector, for work of the pool, or for a thread to end.
_NET_OWN = (
    *("FinalizerThread::", "DebuggerRCThread::", "ThreadpoolMgr::", "CLRLifoSemaphore::", "Thread::JoinEx"),
    *("gc_heap::", "GCHeap::", "ThreadSuspend::", "RareDisablePreemptiveGC", "CorUnix::InternalCreateThread"),
    *("System.Threading.LowLevelLifoSemaphore", "System.Threading.PortableThreadPool"),
)

_MAKES = (
    _Make(
        MONITOR,
        ("ObjectMonitor::enter", "ObjectMonitor::EnterI", "ObjectMonitor::ReenterI", "ObjectSynchronizer::enter"),
        words=True,
    ),
    _Make(
        JAVA_LOCK,
        ("Unsafe_Park",),
        ("ConditionObject", "ConditionNode", "BlockingQueue", "ForkJoinPool", "SynchronousQueue", "awaitNanos"),
        peers=True,
        words=True,
        queues=("java.util.concurrent", "LockSupport", "AbstractQueued", "ReentrantLock", "Semaphore"),
    ),
    _Make(
        PY_MUTEX,
        ("PyMutex_Lock", "_PyMutex_Lock", "PyMutex_LockSlow", "_PyMutex_LockTimed", PY_PARKED),
        ("py::Condition.wait:", "py::Event.wait:"),
        peers=True,
        words=True,
    ),
    # Of those by one word the behaviour decides as well: whoever has it may wait for work.
    _Make(RUST_MUTEX, ("std::sync::Mutex::lock", "mutex::futex::Mutex"), peers=True),
    _Make(RUST_RWLOCK, ("std::sync::RwLock", "rwlock::futex::RwLock"), peers=True, pair=True),
    _Make(
        PARKING_LOT,
        ("parking_lot::raw_mutex", "parking_lot::raw_rwlock", "parking_lot::remutex"),
        ("parking_lot::condvar",),
        peers=True,
        words=True,
    ),
    _Make(
        ABSL_MUTEX,
        ("absl::Mutex::LockSlow", "absl::Mutex::ReaderLock", "AbslInternalPerThreadSemWait"),
        ("absl::CondVar", "absl::Mutex::Await", "absl::Notification", "absl::BlockingCounter"),
        peers=True,
        words=True,
    ),
    # Idle workers and those who wait at a queue of TBB do so in other functions of the library.
    _Make(
        TBB_MUTEX,
        ("tbb::detail::r1::wait_on_address", "tbb::detail::d1::mutex::lock", "tbb::detail::d1::rw_mutex::lock"),
        peers=True,
        words=True,
    ),
    # Each scheduler sleeps at an event of its own, at rest in erts_schedule() itself.  Locks of tables (ETS), of an
    # Erlang process, of the run time.
    _Make(
        ERLANG_LOCK,
        ("ethr_mutex_lock", "ethr_rwmutex_rlock", "ethr_rwmutex_rwlock", "erts_proc_lock_failed"),
        ("ethr_cond_wait",),
        peers=True,
        words=True,
    ),
    # V8's, of Node.js and Deno; its own mutex, which all such waits share, is not the program's lock.
    _Make(
        ATOMICS,
        ("FutexEmulation::Wait", "Builtin_AtomicsWait"),
        ("__pthread_mutex_cond_lock", "__pthread_mutex_lock"),
        peers=True,
        words=True,
    ),
    _Make(NET_MONITOR, _NET_MONITOR, words=True),
    # SemaphoreSlim, a wait handle, a lock of the program's own making; of a stripped run time a monitor too.
    _Make(NET_LOCK, (), (*_NET_MONITOR, *_NET_OWN), peers=True, words=True, file=_CORECLR),
    _Make(FOLLY_MUTEX, ("folly::SharedMutex", "folly::DistributedMutex", "folly::MicroLock"), peers=True),
)


# Of threads that have words of their own; fewer do not tell who takes turns with whom.
_FEW_WAITS = 8
# Of each of them: the end of an idle program wakes its threads one by one.
_WAITS_EACH = 3
# Sampled wakes, and of all of them, by a thread that never waits: as many as this are no chance.
_JOBS = 3
_BRINGS_JOBS = 0.05


def _pairs_of(found: Sequence[Seen]) -> list[list[Seen]]:
    """Words of locks that have two side by side: readers wait at one, writers at the other."""
    by_address = {entry.futex.address: entry for entry in found}
    pairs: list[list[Seen]] = []
    for address in sorted(by_address):
        if pairs and len(pairs[-1]) == 1 and pairs[-1][0].futex.address == address - _GROUP:
            pairs[-1].append(by_address[address])
        else:
            pairs.append([by_address[address]])
    return pairs


def _takes_turns(make: _Make, entry: Seen, wakers: Collection[int]) -> bool:
    """Whether a thread queues with the others, as its names say, or as it waits and wakes as they do.

    Threads that a run time has besides wait below the same function, and may be woken once, at the end.
    """
    named = [call for call in entry.waits if has(call.functions, make.queues)]
    wakes = any(call.task in wakers for call in entry.waits)
    return bool(named) or wakes or entry.total.slept > _WAITS_EACH


def _of_make(make: _Make, found: list[Seen], words: Collection[Seen], window_ns: int) -> Iterable[Recognised]:
    part = circles if make.peers else apart
    for circle in part(found) if make.words else _pairs_of(found) if make.pair else [[one] for one in found]:
        if make.queues:
            wakers = {call.task for entry in circle for call in entry.wakes}
            circle = [entry for entry in circle if _takes_turns(make, entry, wakers)]
        circle.sort(key=lambda entry: (-entry.total.wait_ns, entry.futex.id))
        threads = waiting_still(circle, window_ns)
        several = several_wait(circle, window_ns)
        if make.peers and (not several or not wake_each_other(circle) or nobody_holds(circle, window_ns)):
            continue
        tasks = {call.task for entry in circle for call in entry.waits}
        if make.peers and make.words and total_of(circle, "slept") < max(_FEW_WAITS, _WAITS_EACH * len(tasks)):
            continue
        why = f"threads wait in {make.file or f'{make.waits[0]}()'}: {threads:.1f} on average"
        if make.peers:
            why += ", and are woken by threads that wait there too"
        # Who waits for a job, or for another lock, waits for others; who sleeps for a while is woken by the clock.
        others = (entry for entry in words if entry not in found and entry.total.timed_out < MOST * entry.total.slept)
        held = "" if make.peers else held_over_wait(circle, others, window_ns)
        if make.queues:
            held = _waits_for_jobs(make, circle, words)
        if not make.peers and not any(entry.wakes or entry.total.slept for entry in circle):
            held = "nobody released it during the recording: its holder may wait for work"
        if held:
            ids = tuple(entry.futex.id for entry in circle)
            yield Recognised(ids, make.name, lock=False, sure="medium", why=f"{why}; {held}", unclear=True)
            continue
        yield Recognised(
            tuple(entry.futex.id for entry in circle),
            make.name,
            lock=True,
            sure="medium" if make.peers and make.words else "high",
            why=why,
        )


def _waits_for_jobs(make: _Make, circle: Sequence[Seen], words: Collection[Seen]) -> str:
    """Why these threads may be idle workers; '' if nothing says so.

    A map of compiled code lacks what was compiled after it was written: what the same threads' waits with names are
    tells of those without.
    """
    tasks = {call.task for entry in circle for call in entry.waits}
    calls = [call for entry in words for call in entry.waits if call.task in tasks and has(call.functions, make.waits)]
    named = [call for call in calls if has(call.functions, make.queues)]
    if not named:
        return _hands_out_work(circle)
    below = share_from(named, make.unless)
    if below < HALF:
        return ""
    return f"of these threads' waits whose functions have names {below:.0%} are for jobs, at a queue or a condition"


def _hands_out_work(words: Sequence[Seen]) -> str:
    """Why the threads may be workers that wait for jobs; '' if nothing says so.

    A thread that takes a lock as often as others do waits for it as often: one that wakes and was never seen to wait
    there may bring the jobs, which workers pass on (java.util.concurrent.LinkedBlockingQueue: take() signals the next).
    """
    inside = {call.task for entry in words for call in entry.waits}
    wakes: Counter[int] = Counter()
    for call in (call for entry in words for call in entry.wakes):
        wakes[call.task] += call.waits
    every = sum(wakes.values())
    brings = [task for task, count in wakes.items() if task not in inside and count >= max(_JOBS, _BRINGS_JOBS * every)]
    if not brings:
        return ""
    part = sum(wakes[task] for task in brings) / every
    return (
        f"a thread that never waits there makes {part:.0%} of the wakes: it may bring jobs to idle workers;"
        " the names of Java's functions would tell, and lockline could not read them from this JVM"
    )


def _waits_at(make: _Make, call: Calls) -> bool:
    caller = next(iter(below_c_library(call.frames)), None) if make.file else None
    in_file = caller is not None and caller.module.rpartition("/")[2] == make.file
    if not in_file and not has(call.functions, make.waits):
        return False
    return not has(call.functions, make.unless)


def _caller(call: Calls, module: str = "") -> rows.Frame | None:
    """The first function behind the C library's wait, of one file if it is named."""
    return next((frame for frame in below_c_library(call.frames) if module in ("", frame.module)), None)


def _is_at(place: tuple[str, str], call: Calls) -> bool:
    symbol, module = place
    frame = _caller(call, module)
    return frame is not None and frame.symbol == symbol


def _spins_there(yields: Seen, found: Sequence[Seen]) -> bool:
    """Whether the function that yields is the first of its file that these waits come from, too.

    What a library's header makes part of the program spins, and then calls the library to sleep.
    """
    places = {(frame.symbol, frame.module) for call in yields.waits if (frame := _caller(call)) and frame.symbol}
    waits = [call for entry in found for call in entry.waits]
    tests = [functools.partial(_is_at, place) for place in sorted(places)]
    return any(share_of(yields.waits, test) >= MOST and share_of(waits, test) >= MOST for test in tests)


def _is_of_run_time(total: user_rows.FutexTotal) -> bool:
    """Where each thread has a word of its own: whether this is a mutex of the run time's, on the way there and back."""
    return seems_mutex(total) and total.waiters > 1


def _made(processes: Processes, window_ns: int) -> Iterable[Recognised]:
    for words in processes.values():
        for make in _MAKES:
            waits_there = functools.partial(_waits_at, make)
            found = [
                entry
                for entry in words.values()
                if share_of(entry.waits, waits_there) >= HALF and not (make.words and _is_of_run_time(entry.total))
            ]
            if found and make.peers and make.words:
                spun = [entry for entry in words.values() if is_yields(entry) and entry not in found]
                found += [entry for entry in spun if _spins_there(entry, found)]
            if found:
                yield from _of_make(make, found, words.values(), window_ns)


# enum futex_op of bpf/futex.h: a goroutine waited for a mutex.
_GO_LOCK = 1 << 24
# One waited to send to a channel; in a select, which may go on by another case; for a WaitGroup; for a Cond.
_GO_SEND = 1 << 26
_GO_SELECT = 1 << 27
_GO_GROUP = 1 << 28
_GO_COND = 1 << 29
_GO_FOLLOWED = _GO_LOCK | 1 << 25 | _GO_SEND | _GO_SELECT | _GO_GROUP | _GO_COND
# Writers of a sync.RWMutex wait for its own mutex as well.
_GO_WRITES = ("sync.(*RWMutex).Lock",)
_GO_READS = ("sync.(*RWMutex).RLock", "sync.runtime_SemacquireRWMutexR")
# Goroutines that wait to send, on average: as every now and then where receivers are quick.
_HARDLY = 0.1


def _channel(entry: Seen, window_ns: int) -> Recognised:
    """Several that queue for a receiver are held back by it.  One that waits may be a source that nobody asks for more.

    A select may wait for another case as well.
    """
    threads = waiting_still((entry,), window_ns)
    several, hardly = threads >= SEVERAL, threads < _HARDLY
    alone = bool(entry.total.ops & _GO_SEND)
    how = "" if alone else ", in a select"
    return Recognised(
        (entry.futex.id,),
        GO_CHANNEL,
        lock=several,
        sure="high" if several and alone else "medium",
        why=f"Go's runtime parks goroutines that send to a channel{how}: {threads:.1f} wait on average, for its"
        " receivers" + ("" if several or hardly else "; the receiver is slow, or nobody asks for more values"),
        unclear=not several and not hardly,
    )


def _goroutine_wait(entry: Seen, window_ns: int) -> Recognised | None:
    """What goroutines were seen to wait for at this address (record --futex --go); None: nothing of the kind."""
    ops, threads = entry.total.ops, waiting_still((entry,), window_ns)
    if ops & _GO_LOCK:
        why = f"Go's runtime parks goroutines for it: {threads:.1f} wait for it on average"
        write, read = (share_from(entry.waits, names) for names in (_GO_WRITES, _GO_READS))
        if write + read >= HALF:
            why += f", {write:.0%} of that to write and {read:.0%} to read"
        make = GO_RWMUTEX if write + read >= HALF else GO_MUTEX
        return Recognised((entry.futex.id,), make, lock=True, sure="high", why=why)
    # Receivers that wait are idle, and are not followed.
    if ops & (_GO_SEND | _GO_SELECT):
        return _channel(entry, window_ns)
    if ops & _GO_GROUP:
        why = f"goroutines wait until those of their group are done: {threads:.1f} on average"
        return Recognised((entry.futex.id,), GO_GROUP, lock=False, sure="high", why=why)
    if ops & _GO_COND:
        why = f"goroutines wait for a condition, and others signal it: {threads:.1f} wait on average"
        return Recognised((entry.futex.id,), GO_COND, lock=False, sure="high", why=why)
    return None


@dataclass(frozen=True, slots=True)
class _Full:
    """A queue that threads wait to put into: by functions on the stacks of these waits, and by none of the others.

    into: what it is called in the sentence that says why.
    """

    make: str
    puts: tuple[str, ...]
    unless: tuple[str, ...]
    into: str


# Of the package's own classes alone: a program may have a class with such a name.
_JAVA_PUTS = (
    *("ArrayBlockingQueue.put", "LinkedBlockingQueue.put", "LinkedBlockingDeque.put"),
    *("SynchronousQueue.put", "LinkedTransferQueue.transfer"),
)
_FULL = (
    # std's and crossbeam's.
    _Full(RUST_CHANNEL, ("Channel<T>::send",), (), "send to a channel that is full"),
    # Who waits for the queue's own lock waits for no room.
    _Full(
        JAVA_QUEUE,
        tuple(f"java.util.concurrent.{method}" for method in _JAVA_PUTS),
        ("ReentrantLock.lock",),
        "put into a queue that is full",
    ),
)


def _full_queues(processes: Processes, window_ns: int) -> Iterable[Recognised]:
    """Queues that threads wait to put into, as they are full: each thread at a word of its own.

    Those who take from one wake the threads that put into it.
    """
    for words, kind in itertools.product(processes.values(), _FULL):
        found = [
            one
            for one in words.values()
            if not expects_2(one.total) and share_from(one.waits, kind.puts, kind.unless) >= HALF
        ]
        for circle in circles(found):
            threads = waiting(circle, window_ns)
            if threads < _HARDLY:
                continue
            several = several_wait(circle, window_ns)
            yield Recognised(
                tuple(one.futex.id for one in sorted(circle, key=lambda one: (-one.total.wait_ns, one.futex.id))),
                kind.make,
                lock=several,
                sure="high" if several else "medium",
                why=f"threads wait to {kind.into}: {threads:.1f} on average"
                + ("" if several else "; the receiver is slow, or nobody asks for more values"),
                unclear=not several,
            )


def _goroutines(processes: Processes, window_ns: int) -> Iterable[Recognised]:
    """Each mutex, channel, group and condition that goroutines were seen to wait for."""
    for words in processes.values():
        for entry in words.values():
            found = _goroutine_wait(entry, window_ns) if entry.total.slept or entry.total.open_waits else None
            if found is not None:
                yield found


_GO_UNLOCKS = ("sync.(*Mutex).unlockSlow", "sync.(*RWMutex).", "internal/sync.(*Mutex).unlockSlow")


def _go(processes: Processes, window_ns: int) -> Iterable[Recognised]:
    """Go's goroutines wait without the kernel; what wakes an idle thread tells of them: a mutex that is let go.

    Not where the goroutines themselves were followed: their waits are not counted twice.
    """
    for words in processes.values():
        if any(entry.total.ops & _GO_FOLLOWED for entry in words.values()):
            continue
        found = [entry for entry in words.values() if share_from(entry.wakes, _GO_UNLOCKS) >= HALF]
        found.sort(key=lambda entry: (-entry.total.wait_ns, entry.futex.id))
        if found:
            woken = sum(entry.total.tasks_woken for entry in found)
            yield Recognised(
                tuple(entry.futex.id for entry in found),
                GO_MUTEX,
                lock=True,
                sure="medium",
                why=f"most of {woken:,} wakes come from unlocking a mutex that goroutines wait for; they wait without"
                " the kernel, and these waits are of the threads that ran them",
            )


# Sampled wakes, of a process, that let somebody take a mutex: fewer may be chance.
_GO_ENOUGH = 20


# Functions of Go's scheduler: a thread of no other run time waits there, or is woken from there.
_GO_SCHEDULER = frozenset(
    ("runtime.futex", "runtime.futexsleep", "runtime.mcall", "runtime.schedule", "runtime.findRunnable")
)
# Waits of a program's threads in a second from which goroutines come and go: an idle one has a few.
_GO_BUSY = 20


def _is_busy_go(words: Iterable[Seen], window_ns: int) -> bool:
    entries = list(words)
    calls = (call for entry in entries for call in (*entry.waits, *entry.wakes))
    if not any(_GO_SCHEDULER.intersection(call.functions) for call in calls):
        return False
    return sum(entry.total.slept for entry in entries) * 1e9 >= _GO_BUSY * max(window_ns, 1e9)


def unseen_goroutines(seen: Iterable[Seen], window_ns: int, followed: int = 0) -> tuple[Goroutines, ...]:
    """Busy programs in Go whose goroutines were not followed, those first that let go of mutexes others wait for.

    A goroutine waits without the kernel, and its thread runs others or sleeps for want of work: its futexes tell
    nothing of how long, and mostly not even that it waits.  followed: processes whose goroutines were followed, of
    which some had none that waited; none are unseen if these may be all.
    """
    found = []
    for words in by_process(seen).values():
        if any(entry.total.ops & _GO_FOLLOWED for entry in words.values()):
            continue
        wakes = sum(call.waits for entry in words.values() for call in entry.wakes if has(call.functions, _GO_UNLOCKS))
        if wakes >= _GO_ENOUGH or _is_busy_go(words.values(), window_ns):
            futex = next(iter(words.values())).futex
            found.append((Goroutines(futex.comm, futex.tgid, wakes if wakes >= _GO_ENOUGH else 0), words))
    if len(found) <= followed:
        return ()
    found.sort(key=lambda one: (-one[0].wakes, -sum(entry.total.slept for entry in one[1].values()), one[0].tgid))
    return tuple(one for one, _ in found)


def _woken(processes: Processes, window_ns: int) -> Iterable[Recognised]:
    """Mutexes of queues: idle threads that are woken while whoever wakes them still has the mutex."""
    for words in processes.values():
        for entry in words.values():
            threads = waiting((entry,), window_ns)
            # By number: one waker that loses its CPU makes one wait long.
            there = sum(call.waits for call in entry.waits if has(call.functions, OUT_OF_CONDITION))
            every = sum(call.waits for call in entry.waits)
            if not expects_2(entry.total) or threads >= HALF or not every or there < MOST * every:
                continue
            yield Recognised(
                (entry.futex.id,),
                CONDITION_VARIABLE,
                lock=False,
                sure="medium",
                why="idle threads that wait in pthread_cond_wait() are woken while the waker still has the mutex: "
                f"{threads:.2f} wait for it on average",
            )


# --- Of any make ---


def _mostly_at(place: str, entry: Seen) -> bool:
    return share_of(entry.waits, lambda call: place_of(call) == place) >= MOST


def _yields_at(processes: Processes, locks: Collection[int]) -> dict[int, Seen]:
    """The yields of threads that wait for a word, by its id; of locks, the word itself tells.

    They spin before they sleep, from the same function; where threads wait there for several words, no one has them.
    """
    found = {}
    for (tgid, _), words in processes.items():
        for yields in filter(is_yields, words.values()):
            of_process = (*words.values(), *processes.get((tgid, True), {}).values())
            places = {place_of(call) for call in yields.waits}
            for place in places - {""}:
                if not _mostly_at(place, yields):
                    continue
                there = [entry for entry in of_process if entry is not yields and _mostly_at(place, entry)]
                if len(there) == 1 and there[0].futex.id not in locks:
                    found[there[0].futex.id] = yields
    return found


def _pairs(processes: Processes) -> Iterable[tuple[Seen, ...]]:
    """The words as locks: both of a condition variable of glibc as one."""
    for words in processes.values():
        for address, entry in words.items():
            low = address & ~7
            pair = [words[at] for at in (low, low + _GROUP) if at in words]
            if len(pair) == 2 and all(_is_condition(one.total) for one in pair):
                if address == low:
                    yield tuple(sorted(pair, key=lambda one: (-one.total.wait_ns, one.futex.id)))
            else:
                yield (entry,)


def _barriers(processes: Processes, unclear: Collection[int]) -> Iterable[Recognised]:
    """Barriers of whatever make, OpenMP's among them."""
    for words in processes.values():
        for entry in words.values():
            why = behaves_as_barrier((entry,)) if entry.futex.id in unclear else ""
            if why:
                files = {module.rsplit("/", 1)[-1] for call in entry.waits for module in call.modules}
                openmp = any(name.startswith(openmp_waits.LIBRARIES) for name in files)
                yield Recognised(
                    (entry.futex.id,),
                    OPENMP_BARRIER if openmp else ANY_BARRIER,
                    lock=False,
                    sure="high" if openmp else "medium",
                    why=why,
                    sites=pthreads.sites_of((entry,)),
                )


# Whoever waits there waits for a lock or for a queue; that it behaves like a lock tells which.
_PYTHON_WAITS = (
    (PY_PROCESS_LOCK, ("_multiprocessing_SemLock_acquire", "semlock_acquire")),
    (PY_LOCK, ("PyThread_acquire_lock",)),
)


def _make_by_behaviour(words: Sequence[Seen]) -> str:
    """The make of what behaves like a lock, by the functions that wait there."""
    calls = [call for entry in words for call in entry.waits]
    return next((make for make, names in _PYTHON_WAITS if share_from(calls, names) >= HALF), BEHAVIOUR)


def _spun(words: Sequence[Seen], unclear: bool) -> Recognised:
    """A word at which threads yield before they sleep, that behaves like no lock."""
    ids = tuple(entry.futex.id for entry in words)
    kind, why = nature(words[0].total)
    if unclear and wakes_all_who_sleep(words):
        why = "threads yield before they sleep there, and all are woken at once: a barrier, or a lock that wakes all"
    elif unclear:
        why = f"{why}; they yield before they sleep"
    return Recognised(ids, "", lock=False, sure="medium", why=why, unclear=unclear or kind == UNCLEAR)


def _others(
    processes: Processes, unclear: Collection[int], locks: Collection[int], window_ns: int
) -> Iterable[Recognised]:
    spun = _yields_at(processes, locks)
    for pair in _pairs(processes):
        yields = [spun[entry.futex.id] for entry in pair if entry.futex.id in spun]
        words = (*pair, *yields)
        why = behaves_as_lock(words, window_ns) if any(entry.futex.id in unclear for entry in words) else ""
        ids = tuple(entry.futex.id for entry in words)
        if why:
            yield Recognised(ids, _make_by_behaviour(words), lock=True, sure="medium", why=why)
        elif yields and not any(burns_cpus(entry, window_ns) for entry in yields):
            yield _spun(words, any(entry.futex.id in unclear for entry in words))
        elif len(pair) > 1:
            ids = tuple(entry.futex.id for entry in pair)
            yield Recognised(ids, CONDITION_VARIABLE, lock=False, sure="high", why="")


def recognise(
    seen: Sequence[Seen], unclear: Collection[int], window_ns: int, locks: Collection[int] = ()
) -> tuple[Recognised, ...]:
    """The locks that these futexes are, each futex in one of them at most.

    unclear: ids of those whose words and operations alone do not tell; locks: of those that are locks by them.
    window_ns: the recording's length.
    """
    processes = by_process(_with_other_word(seen))
    found: list[Recognised] = []
    for step in (
        _goroutines(processes, window_ns),
        _gils(processes, window_ns),
        ruby_locks(processes, window_ns),
        pthreads.held_while_idle(processes, locks, window_ns),
        _full_queues(processes, window_ns),
        java_waits(processes, window_ns),
        python_waits(processes, window_ns),
        row_locks(processes, window_ns),
        pthreads.barriers(processes),
        _made(processes, window_ns),
        _go(processes, window_ns),
        pthreads.rwlocks(processes, window_ns),
        _barriers(processes, unclear),
        openmp_waits.openmp_waits(processes, window_ns),
        _woken(processes, window_ns),
        python_queues(processes),
        python_conditions(processes, window_ns),
        _others(processes, unclear, locks, window_ns),
        pthreads.conditions(processes),
    ):
        taken = {word for one in found for word in one.words}
        found += [one for one in step if taken.isdisjoint(one.words)]
    return tuple(found)
