# SPDX-License-Identifier: GPL-2.0-or-later
"""Threads that do not go on: stopped by a signal, a tracer or a freezer; and waits for futexes that nobody ends."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from lockline.analysis.sleep_functions import StopKind, stop_of
from lockline.base.values import dataclass

# What a thread waits for, by the C library's function that it called.
WaitKind: TypeAlias = Literal["mutex", "once", "semaphore", "java", "juc", "rust", "python", "go", "other"]
_CALLS: tuple[tuple[tuple[str, ...], WaitKind], ...] = (
    (("pthread_cond_", "__pthread_cond_", "pthread_barrier_", "pthread_join", "__pthread_clockjoin"), "other"),
    (("sem_wait", "__new_sem_wait", "sem_clockwait", "__sem_wait", "do_futex_wait"), "semaphore"),
    (("pthread_once", "__pthread_once"), "once"),
    (("pthread_mutex_lock", "__pthread_mutex_lock", "___pthread_mutex_lock"), "mutex"),
)

# The same by a run time's own function, which the C library's lies under: it says more.  HotSpot's
# src/hotspot/share/runtime/objectMonitor.cpp; Rust's library/std/src/sys/sync/; Modules/_threadmodule.c of CPython.
_RUN_TIMES: tuple[tuple[tuple[str, ...], WaitKind], ...] = (
    (("ObjectMonitor::EnterI", "ObjectMonitor::enter", "ObjectMonitor::ReenterI"), "java"),
    (("mutex::futex::Mutex", "rwlock::futex::RwLock"), "rust"),
    (("lock_PyThread_acquire_lock", "rlock_acquire"), "python"),
    # An idle thread of Go: a goroutine that waits has none.
    (("runtime.futex",), "go"),
)
_OF_RUN_TIMES = tuple(kind for _, kind in _RUN_TIMES)
# What lies between a run time's function and the kernel.  The first other function decides: those behind it may be left
# from earlier calls.
_THROUGH = (
    *("syscall", "__futex", "futex", "do_futex", "pthread_cond_", "__pthread_cond_"),
    *("sem_", "__new_sem_wait", "__sem_"),
    *("os::Platform", "PlatformEvent::", "PyThread_acquire_lock", "acquire_timed"),
)
# A thread that waits for a queue, an event or a thread has a lock of its own in Python, and waits for that.
_SHARED = 2


# What the C library and its like have between a program and a nap.
_NAP_CALLS = (
    "nanosleep",
    "__nanosleep",
    "clock_nanosleep",
    "__clock_nanosleep",
    "usleep",
    "sleep",
    "thrd_sleep",
    "__GI_",
)


def is_nap_call(function: str) -> bool:
    """Whether a function only has its thread sleep."""
    return function.startswith(_NAP_CALLS) or "sleep_for" in function or "sleep_until" in function


@dataclass(frozen=True, slots=True)
class Stop:
    """A process whose threads are stopped.  threads: so many on average, of `of`.

    by: who traces it, 0: not known; processes: that are stopped by the same, of which this one was seen most.
    frozen_group: the control group that is frozen.  whole: nothing of
    the target runs, of this process or another one of it.
    """

    kind: StopKind
    comm: str
    tgid: int
    threads: float
    of: int
    by: int = 0
    by_comm: str = ""
    frozen_group: str = ""
    whole: bool = False
    processes: int = 1


@dataclass(frozen=True, slots=True)
class Halted:
    """A thread that is stopped at one moment, in that kernel function; tracer: who stopped it, 0: nobody is known."""

    tgid: int
    comm: str
    function: str
    tracer: tuple[int, str] = (0, "")


@dataclass(frozen=True, slots=True)
class Waiter:
    """A thread that waited for one futex all the time: its word's address, and the functions that it came by.

    functions: names on its stack from the leaf on, of which some may be left from earlier calls.
    """

    tgid: int
    tid: int
    comm: str
    word: int
    functions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Standing:
    """Threads of a process that wait for one futex, and that nobody has let go on while it was looked.

    function: of the program, that called.  owner: thread that a mutex names, or the one that is in the same
    pthread_once(), 0: not known; gone: there is no such thread any more.  owner_in: the kernel function that it is in.
    words: that they wait at; others: threads of the process that wait for something else.
    """

    kind: WaitKind
    comm: str
    tgid: int
    word: int
    threads: int
    function: str
    owner: int = 0
    owner_comm: str = ""
    owner_in: str = ""
    gone: bool = False
    words: int = 1
    others: int = 0

    @property
    def may_be_in_line(self) -> bool:
        """Whether they may be idle: workers of Rust in line behind one that has their Mutex, and waits for a job."""
        return self.kind == "rust" and self.others >= self.words


def kind_of_wait(functions: Sequence[str]) -> WaitKind:
    """What a thread waits for, by the first function on its stack that says so."""
    first = next((function for function in functions if not function.startswith(_THROUGH)), "")
    for names, kind in _RUN_TIMES:
        if any(name in first for name in names):
            return kind
    for function in functions:
        for names, kind in _CALLS:
            if function.startswith(names):
                return kind
    return "other"


def names_no_wait(functions: Sequence[str]) -> bool:
    """Whether none of these functions says what a thread waits for."""
    known = tuple(name for names, _ in _CALLS for name in names)
    return kind_of_wait(functions) not in _OF_RUN_TIMES and not any(
        function.startswith(known) for function in functions
    )


def caller_of(functions: Sequence[str]) -> str:
    """The function of the program that called the C library's; '' if there is none."""
    waits = [at for at, function in enumerate(functions) if kind_of_wait((function,)) != "other"]
    behind = functions[waits[-1] + 1 :] if waits else ()
    return behind[0] if behind else ""


def standing_of(
    waiters: Sequence[Waiter],
    owner: Callable[[int, int], int],
    alive: Callable[[int], bool],
    in_once: Callable[[int, Collection[int]], tuple[int, str, str] | None],
) -> tuple[Standing, ...]:
    """Waits by word.

    owner: of a mutex, by process and address, 0: none.  alive: whether there is such a thread.  in_once: of a process
    a thread that is in pthread_once() and none of these: its number, name and kernel function.
    """
    by_word: defaultdict[tuple[int, int, WaitKind], list[Waiter]] = defaultdict(list)
    for one in waiters:
        by_word[one.tgid, one.word, kind_of_wait(one.functions)].append(one)
    others: Counter[int] = Counter()
    for (tgid, _, kind), at in by_word.items():
        others[tgid] += len(at) if kind == "other" else 0
    found = []
    for (tgid, word, kind), at in by_word.items():
        if kind == "other" or (kind == "python" and len(at) < _SHARED):
            continue
        function = Counter(caller_of(one.functions) for one in at).most_common(1)[0][0]
        made = Standing(kind, at[0].comm, tgid, word, len(at), function, others=others[tgid])
        if kind == "mutex":
            tid = owner(tgid, word)
            made = Standing(kind, at[0].comm, tgid, word, len(at), function, owner=tid, gone=tid > 0 and not alive(tid))
        elif kind == "once" and (first := in_once(tgid, {one.tid for one in at})) is not None:
            made = Standing(kind, at[0].comm, tgid, word, len(at), function, *first)
        found.append(made)
    return tuple(sorted(_merged(found), key=lambda one: -one.threads))


def _merged(found: Sequence[Standing]) -> list[Standing]:
    """With those of several processes together that wait for one mutex in shared memory; of a run time all locks.

    Each thread of Java has a word of its own, whichever monitor it waits for.
    """
    merged: dict[object, Standing] = {}
    for one in sorted(found, key=lambda one: -one.threads):
        key: object = (one.tgid, one.word, one.kind)
        if one.kind in _OF_RUN_TIMES:
            key = (one.tgid, one.kind)
        elif one.gone:
            key = one.owner
        first = merged.get(key)
        merged[key] = (
            one if first is None else replace(first, threads=first.threads + one.threads, words=first.words + 1)
        )
    return list(merged.values())


def stops_of(looks: Sequence[Sequence[Halted]], threads: Mapping[int, int]) -> tuple[Stop, ...]:
    """Who is stopped on average; looks: the threads that are stopped at each.  threads: of each process, 0: it is gone.

    All whom one tracer stops count together: it may trace many that live for moments.
    """
    seen: Counter[tuple[StopKind, int]] = Counter()
    tracees: defaultdict[tuple[StopKind, int], Counter[int]] = defaultdict(Counter)
    comms: dict[int, str] = {}
    tracers: dict[int, str] = {}
    at_once: Counter[tuple[StopKind, int]] = Counter()
    for moment in looks:
        now: defaultdict[tuple[StopKind, int], set[int]] = defaultdict(set)
        for one in moment:
            kind = stop_of(one.function)
            if kind is None:
                continue
            by, by_comm = one.tracer
            key = (kind, by or one.tgid)
            seen[key] += 1
            tracees[key][one.tgid] += 1
            comms[one.tgid] = one.comm
            now[key].add(one.tgid)
            if by:
                tracers[by] = by_comm
        for key, processes in now.items():
            at_once[key] = max(at_once[key], len(processes))
    found = []
    for key, count in seen.most_common():
        kind, who = key
        tgid = tracees[key].most_common(1)[0][0]
        of = sum(threads.get(one, 0) for one in tracees[key])
        by = who if kind == "tracer" and who in tracers else 0
        found.append(
            Stop(
                kind=kind,
                comm=comms[tgid],
                tgid=tgid,
                threads=count / len(looks),
                of=max(of, at_once[key]),
                by=by,
                by_comm=tracers.get(by, ""),
                processes=len(tracees[key]),
            )
        )
    return tuple(found)
