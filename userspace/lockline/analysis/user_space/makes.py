# SPDX-License-Identifier: GPL-2.0-or-later
"""Locks known by the functions that wait for them."""

import functools
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from lockline.analysis.user_space.behaviour import (
    WAITS_EACH,
    held_over_wait,
    mostly_brought,
    nobody_holds,
    wait_again,
    wait_once,
    waits_by_task,
    wake_each_other,
)
from lockline.analysis.user_space.python_gil import GROUP
from lockline.analysis.user_space.python_parked import at_object_lock, at_py_mutex
from lockline.analysis.user_space.user_evidence import (
    ABSL_MUTEX,
    ATOMICS,
    CONDITION_VARIABLE,
    ERLANG_LOCK,
    FOLLY_MUTEX,
    HALF,
    JAVA_LOCK,
    MONITOR,
    MONO_LOCK,
    MONO_MONITOR,
    MOST,
    NET_LOCK,
    NET_MONITOR,
    OCAML_LOCK,
    PARKING_LOT,
    PERL_LOCK,
    PY_MUTEX,
    PY_OBJECT,
    QT_MUTEX,
    QT_RWLOCK,
    QT_SEMAPHORE,
    RUST_MUTEX,
    RUST_RWLOCK,
    TBB_MUTEX,
    Calls,
    Processes,
    Recognised,
    Seen,
    apart,
    asleep,
    below_c_library,
    by_waiting,
    circles,
    has,
    is_condition,
    is_yields,
    seems_mutex,
    several_wait,
    share_from,
    share_of,
    total_of,
    waiting_still,
    without_sleeps,
)
from lockline.base.values import dataclass
from lockline.recording import rows, user_rows


@dataclass(frozen=True, slots=True)
class _Make:
    """A make of lock: functions of those who wait for it, and of waits there that are none (unless).

    peers: only if threads that wait also wake each other and somebody can have it, as idle workers come from the same
    functions.  words: each of its threads waits at a word of its own.  pair: it has two words.  conditions: each lock
    has a condition variable, and most have a mutex, where its threads wait for that.  queues: idle workers
    wait there too, which only functions with one of these in their names tell from those who wait for a lock.  files:
    also who waits in a file called so, whatever the function, as stripped ones have no names; what lies in its own data
    is no program's.  sleeps: a thread sleeps for a while at the
    same word, too.  at: tells such waits, in place of the functions.  surely: where most waits are in one of these
    functions, it is a lock though not more than one thread waits on average.
    """

    name: str
    waits: tuple[str, ...]
    unless: tuple[str, ...] = ()
    peers: bool = False
    words: bool = False
    pair: bool = False
    conditions: bool = False
    queues: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    sleeps: bool = False
    at: Callable[[Calls], bool] | None = None
    surely: tuple[str, ...] = ()


# A thread of CoreCLR has a condition variable of its own, and waits there whatever for.  A monitor's owner wakes one of
# those that wait in AwareLock::Enter(): EnterEpilogHelper() is the part that sleeps.
_CORECLR = ("libcoreclr.so",)
_NET_MONITOR = ("AwareLock::Enter", "AwareLock::TryEnter")
# Its own threads, and those that wait for the garbage collector, for work of the pool, or for a thread to end.
_NET_OWN = (
    *("FinalizerThread::", "DebuggerRCThread::", "ThreadpoolMgr::", "CLRLifoSemaphore::", "Thread::JoinEx"),
    *("gc_heap::", "GCHeap::", "ThreadSuspend::", "RareDisablePreemptiveGC", "CorUnix::InternalCreateThread"),
    *("System.Threading.LowLevelLifoSemaphore", "System.Threading.PortableThreadPool"),
)

# Thread.Sleep(); and where CoreCLR's other waits sleep, if its file has names.
_NET_SLEEPS = ("InternalSleepEx", "SleepEx", "ThreadNative::Sleep")
_NET_WAITS = ("CPalSynchronizationManager::", "InternalWaitForMultipleObjectsEx")

# Mono's monitor has a condition variable and a mutex; so has each handle (Mutex, Semaphore, EventWaitHandle), one that
# a thread makes for each Monitor.Wait() among them.  Debian's file has no names; Mono writes a map of its code.
_MONO = ("mono-sgen", "mono-boehm", "mono", "libmonosgen-2.0.so", "libmonoboehm-2.0.so")
_MONO_MONITOR = ("mono_monitor_enter", "Monitor_try_enter", "Monitor:Enter", "Monitor:TryEnter")
# Those that wait for a thread to end, or to begin; for work of the pool; for the garbage collector.
_MONO_OWN = ("Thread:JoinInternal", "Thread:Thread_internal", "mono_threadpool", "worker_park", "mono_gc_")

# Where a thread asks for it: when its turn has ended, when it comes back from a call that waits, and at its start.
_OCAML = ("caml_thread_yield", "caml_thread_leave_blocking_section", "caml_thread_start", "st_masterlock_acquire")
_OCAML_NOT = ("caml_thread_join", "caml_condition_wait", "caml_mutex_lock")
# Of OCaml 5.3, below functions of its run time.
_OCAML_YIELD = "thread_yield"


def _at_ocaml_lock(call: Calls) -> bool:
    yields = _OCAML_YIELD in call.functions and has(call.functions, ("caml_",))
    return yields or has(call.functions, _OCAML)


# Of Qt 6 and Qt 5.
_QT_LOCKS = ("tryLockForWrite", "tryLockForRead", "lockForWrite", "lockForRead")

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
        surely=("ReentrantLock", "ReentrantReadWriteLock", "StampedLock"),
    ),
    _Make(
        PY_MUTEX,
        ("PyMutex_Lock",),
        ("py::Condition.wait:", "py::Event.wait:"),
        peers=True,
        words=True,
        at=at_py_mutex,
    ),
    _Make(PY_OBJECT, ("_PyCriticalSection_BeginSlow",), words=True, at=at_object_lock),
    # Of those by one word the behaviour decides as well: whoever has it may wait for work.
    _Make(RUST_MUTEX, ("std::sync::Mutex::lock", "mutex::futex::Mutex"), peers=True),
    # Nobody waits for work there: a writer that never waits itself may hold all readers up.
    _Make(RUST_RWLOCK, ("std::sync::RwLock", "rwlock::futex::RwLock"), pair=True),
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
    # JavaScript sleeps by such a wait, too.
    _Make(
        ATOMICS,
        ("FutexEmulation::Wait", "Builtin_AtomicsWait"),
        ("__pthread_mutex_cond_lock", "__pthread_mutex_lock"),
        peers=True,
        words=True,
        sleeps=True,
    ),
    _Make(NET_MONITOR, _NET_MONITOR, words=True, sleeps=True),
    # SemaphoreSlim, a wait handle, a lock of the program's own making; of a stripped run time a monitor too.
    _Make(NET_LOCK, (), (*_NET_MONITOR, *_NET_OWN), peers=True, words=True, files=_CORECLR, sleeps=True),
    _Make(MONO_MONITOR, _MONO_MONITOR, conditions=True),
    _Make(MONO_LOCK, (), (*_MONO_MONITOR, *_MONO_OWN), peers=True, conditions=True, files=_MONO),
    # One thread of OCaml computes at a time (OCaml 5: of each domain).
    _Make(OCAML_LOCK, _OCAML, _OCAML_NOT, peers=True, conditions=True, at=_at_ocaml_lock),
    _Make(PERL_LOCK, ("Perl_pp_lock",), peers=True, conditions=True),
    _Make(QT_MUTEX, ("QBasicMutex::lockInternal",), ("QWaitCondition::",), peers=True),
    _Make(QT_RWLOCK, tuple(f"QReadWriteLock::{method}" for method in _QT_LOCKS), peers=True, conditions=True),
    _Make(QT_SEMAPHORE, ("QSemaphore::acquire", "QSemaphore::tryAcquire"), peers=True),
    _Make(FOLLY_MUTEX, ("folly::SharedMutex", "folly::DistributedMutex", "folly::MicroLock"), peers=True),
)


# Of threads that have words of their own; fewer do not tell who takes turns with whom.
_FEW_WAITS = 8
# Sampled wakes, and of all of them, by a thread that never waits: as many as this are no chance.
_JOBS = 3
_BRINGS_JOBS = 0.05


def _pairs_of(found: Sequence[Seen]) -> list[list[Seen]]:
    """Words of locks that have two side by side: readers wait at one, writers at the other."""
    by_address = {entry.futex.address: entry for entry in found}
    pairs: list[list[Seen]] = []
    for address in sorted(by_address):
        if pairs and len(pairs[-1]) == 1 and pairs[-1][0].futex.address == address - GROUP:
            pairs[-1].append(by_address[address])
        else:
            pairs.append([by_address[address]])
    return pairs


def _tasks(entry: Seen) -> set[int]:
    return {call.task for call in entry.waits}


# Bytes from the words of one condition variable of glibc to those of the next one, side by side.
_NEXT_CONDITION = 48


def _conditions(found: Sequence[Seen], window_ns: int) -> list[list[Seen]]:
    """Words of locks that each have a condition variable, or two side by side, and perhaps a mutex.

    Where no more than one thread waits at a time, each may make one for its wait: these are parted by who wakes whom.
    A mutex is of the lock whose threads are the same; of several such locks, of the one that is waited for most.
    """
    variables = sorted((one for one in found if is_condition(one.total)), key=lambda one: one.futex.address)
    groups: list[list[Seen]] = []
    for entry in variables:
        if groups and entry.futex.address - groups[-1][-1].futex.address <= _NEXT_CONDITION:
            groups[-1].append(entry)
        else:
            groups.append([entry])
    shared = [group for group in groups if several_wait(group, window_ns)]
    shared.sort(key=lambda group: -total_of(group, "wait_ns"))
    shared += circles([entry for group in groups if group not in shared for entry in group])
    for mutex in (one for one in found if not is_condition(one.total)):
        tasks = _tasks(mutex)
        users = [(len(tasks & {task for entry in group for task in _tasks(entry)}), group) for group in shared]
        most, group = max(users, key=lambda user: user[0], default=(0, []))
        if 2 * most >= len(tasks) > 0:
            group.append(mutex)
    return shared


def _takes_turns(make: _Make, entry: Seen, wakers: Collection[int]) -> bool:
    """Whether a thread queues with the others, as its names say, or as it waits and wakes as they do.

    Threads that a run time has besides wait below the same function, and may be woken once, at the end.
    """
    named = [call for call in entry.waits if has(call.functions, make.queues)]
    wakes = any(call.task in wakers for call in entry.waits)
    return bool(named) or wakes or entry.total.slept > WAITS_EACH


def _without_named_sleeps(entry: Seen) -> Seen:
    """A thread's word without its sleeps, as far as their functions tell."""
    waits = tuple(call for call in entry.waits if not has(call.functions, _NET_SLEEPS))
    every, rest = (sum(call.waits for call in calls) for calls in (entry.waits, waits))
    if rest == every:
        return entry
    part = share_of(entry.waits, lambda call: has(call.functions, _NET_SLEEPS))
    sleeps = entry.total.slept * (every - rest) // every
    return replace(entry, waits=waits, total=without_sleeps(entry.total, sleeps, int(entry.total.wait_ns * part)))


def _without_sleeps(entry: Seen) -> Seen | None:
    """A thread's word without its sleeps; None: it hardly waited there besides.

    Where functions have no names, what ended by its timeout may be a sleep.
    """
    total = entry.total
    if any(has(call.functions, _NET_WAITS) for call in entry.waits):
        return entry if total.slept >= WAITS_EACH else None
    if total.slept - total.timed_out < WAITS_EACH or total.timed_out_ns >= MOST * total.wait_ns > 0:
        return None
    return replace(entry, total=without_sleeps(total, total.timed_out, total.timed_out_ns))


def _with_sleeps(known: Recognised, found: Iterable[Seen], words: Iterable[Seen]) -> Recognised:
    """A lock, with how much at its words was a sleep."""
    awake = {entry.futex.id: entry.total for entry in found}
    pairs = [(entry.total, awake[entry.futex.id]) for entry in words if entry.futex.id in known.words]
    sleeps = sum(every.slept - rest.slept for every, rest in pairs)
    slept_ns = sum(every.wait_ns - rest.wait_ns for every, rest in pairs)
    return replace(known, sleeps=sleeps, slept_ns=slept_ns)


def _released(make: _Make, entry: Seen) -> Seen:
    """A thread's word with the wakes of locks alone, if the thread mostly waits for locks there, and then for others.

    Who has the lock may wait at its word, too: for the answer of a thread that takes no lock.
    """
    if share_from(entry.waits, make.surely) < MOST:
        return entry
    wakes = tuple(call for call in entry.wakes if has(call.functions, make.surely))
    return replace(entry, wakes=wakes or entry.wakes)


def _of_make(make: _Make, found: list[Seen], words: Collection[Seen], window_ns: int) -> Iterable[Recognised]:
    part = circles if make.peers else apart
    if make.surely:
        found = [_released(make, entry) for entry in found]
    for circle in (
        part(found)
        if make.words
        else _conditions(found, window_ns)
        if make.conditions
        else _pairs_of(found)
        if make.pair
        else [[one] for one in found]
    ):
        if make.queues:
            wakers = {call.task for entry in circle for call in entry.wakes}
            circle = [entry for entry in circle if _takes_turns(make, entry, wakers)]
        circle = by_waiting(circle)
        threads = waiting_still(circle, window_ns)
        several = several_wait(circle, window_ns) or _is_surely(make, circle, window_ns)
        peers = wake_each_other(circle)
        if make.peers and (not several or not (peers or _is_let_go(make, circle)) or nobody_holds(circle, window_ns)):
            continue
        few = total_of(circle, "slept") < _FEW_WAITS or not wait_again(circle)
        if make.peers and (few if make.words else make.conditions and wait_once(circle, window_ns)):
            continue
        why = f"threads wait in {make.files[0] if make.files else f'{make.waits[0]}()'}: {threads:.1f} on average"
        if make.peers:
            why += ", and are woken by threads that wait there too" if peers else ", and are woken as it is let go"
        # Who waits for a job, or for another lock, waits for others; who sleeps for a while is woken by the clock.
        others = (entry for entry in words if entry not in found and entry.total.timed_out < MOST * entry.total.slept)
        held = "" if make.peers else held_over_wait(circle, others, window_ns)
        if make.peers and make.files and mostly_brought(circle):
            held = "a thread that hardly waits there makes most of the wakes: it brings work, or hogs the lock"
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
            sure="medium" if make.peers and (make.words or make.files) else "high",
            why=why,
        )


def _is_surely(make: _Make, circle: Sequence[Seen], window_ns: int) -> bool:
    """Whether these are functions of a lock alone, and a thread sleeps there for half of the time or more."""
    calls = [call for entry in circle for call in entry.waits]
    return bool(make.surely) and asleep(circle, window_ns) >= HALF and share_from(calls, make.surely) >= MOST


def _is_let_go(make: _Make, circle: Sequence[Seen]) -> bool:
    """Whether these are functions of a lock alone, where threads wait and where they are woken.

    Whoever lets go has had the lock, though it never waited: a writer that finds no readers holds them all up.
    """
    waits = [call for entry in circle for call in entry.waits]
    wakes = [call for entry in circle for call in entry.wakes]
    named = sum(call.waits for call in wakes if has(call.functions, make.surely))
    every = sum(call.waits for call in wakes)
    return bool(make.surely) and share_from(waits, make.surely) >= MOST and named >= MOST * every > 0


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
    wakes = waits_by_task(call for entry in words for call in entry.wakes)
    every = sum(wakes.values())
    brings = [task for task, count in wakes.items() if task not in inside and count >= max(_JOBS, _BRINGS_JOBS * every)]
    if not brings:
        return ""
    part = sum(wakes[task] for task in brings) / every
    return (
        f"a thread that never waits there makes {part:.0%} of the wakes: it may bring jobs to idle workers;"
        " the names of Java's functions would tell, and lockline could not read them from this JVM"
    )


def _is_file(path: str, names: Collection[str]) -> bool:
    """Whether a file has one of these names, with a version behind it or not."""
    name = path.rpartition("/")[2].removesuffix(" (deleted)")
    return any(name == one or name.startswith(f"{one}.") for one in names)


def _waits_at(make: _Make, call: Calls) -> bool:
    if make.at is not None:
        return make.at(call) and not has(call.functions, make.unless)
    caller = next(iter(below_c_library(call.frames)), None) if make.files else None
    in_file = caller is not None and _is_file(caller.module, make.files)
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


def made(processes: Processes, window_ns: int) -> Iterable[Recognised]:
    """Locks of these makes; unclear where their holder may wait for work, or their threads for jobs."""
    for words in processes.values():
        for make in _MAKES:
            waits_there = functools.partial(_waits_at, make)
            found = [
                entry
                for entry in (map(_without_named_sleeps, words.values()) if make.sleeps else words.values())
                if share_of(entry.waits, waits_there) >= HALF
                and not (make.words and _is_of_run_time(entry.total))
                and not _is_file(entry.futex.object, make.files)
            ]
            if found and make.peers and make.words:
                spun = [entry for entry in words.values() if is_yields(entry) and entry not in found]
                found += [entry for entry in spun if _spins_there(entry, found)]
            own = (entry for entry in words.values() if make.conditions and _is_file(entry.futex.object, make.files))
            for entry in own:
                if is_condition(entry.total) and entry.total.timed_out < HALF * entry.total.slept:
                    why = f"threads of {make.files[0]} itself wait for work"
                    yield Recognised((entry.futex.id,), CONDITION_VARIABLE, lock=False, sure="high", why=why)
            if make.sleeps:
                found = [rest for entry in found if (rest := _without_sleeps(entry)) is not None]
            if found:
                for known in _of_make(make, found, words.values(), window_ns):
                    yield _with_sleeps(known, found, words.values()) if make.sleeps else known
