# SPDX-License-Identifier: GPL-2.0-or-later
"""What kind of lock a program's futexes are, by how such locks work (record --futex, docs/futex.md).

By the layout of their words, the functions that wait and wake there, and who wakes whom.
"""

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from lockline.analysis.user_space import openmp_waits, pthreads
from lockline.analysis.user_space.behaviour import (
    are_brought_work,
    behaves_as_barrier,
    behaves_as_lock,
    held_over_wait,
    wakes_all_who_sleep,
    work_in_turns,
)
from lockline.analysis.user_space.futex_waits import UNCLEAR, nature
from lockline.analysis.user_space.go_locks import HARDLY, go_threads, goroutines
from lockline.analysis.user_space.java_waits import java_waits
from lockline.analysis.user_space.makes import made
from lockline.analysis.user_space.ocaml_domains import ocaml_domains
from lockline.analysis.user_space.once import made_once
from lockline.analysis.user_space.own_queues import own_words_to_put, puts_and_takes
from lockline.analysis.user_space.own_words import parking_lot_conditions
from lockline.analysis.user_space.python_gil import GROUP, gils
from lockline.analysis.user_space.python_idle import python_conditions, python_queues
from lockline.analysis.user_space.python_parked import stops
from lockline.analysis.user_space.python_waits import SEMLOCK_WAITS, python_waits, tells
from lockline.analysis.user_space.row_locks import row_locks, table_locks
from lockline.analysis.user_space.ruby_locks import ruby_locks
from lockline.analysis.user_space.user_evidence import (
    ANY_BARRIER,
    BEHAVIOUR,
    CONDITION_VARIABLE,
    HALF,
    JAVA_QUEUE,
    MOST,
    OPENMP_BARRIER,
    OUT_OF_CONDITION,
    OWN_QUEUE,
    PY_LOCK,
    PY_PROCESS_LOCK,
    PY_QUEUE,
    PYPY_LOCK,
    RUST_CHANNEL,
    TBB_QUEUE,
    Processes,
    Recognised,
    Seen,
    at_pypy_lock,
    burns_cpus,
    by_process,
    by_waiting,
    circles,
    expects_2,
    has,
    is_condition,
    is_yields,
    open_ns,
    place_of,
    several_wait,
    share_from,
    share_of,
    waiting,
)
from lockline.base.values import dataclass


def _with_other_word(seen: Sequence[Seen]) -> list[Seen]:
    """The words; one of a condition variable that has no sample of a wait has those of the other one.

    Threads that wait for it go to either of its words, in turns.
    """
    processes = by_process(seen)
    found = []
    for entry in seen:
        of_process = processes.get((entry.futex.tgid, bool(entry.futex.shared)), {})
        other = of_process.get(entry.futex.address ^ GROUP)
        if other is not None and not entry.waits and is_condition(entry.total) and is_condition(other.total):
            entry = replace(entry, waits=other.waits, wakes=entry.wakes or other.wakes)
        found.append(entry)
    return found


@dataclass(frozen=True, slots=True)
class _Full:
    """A queue that threads wait to put into: by functions on the stacks of these waits, and by none of the others.

    below: which are on these stacks too.  into: what it is called in the sentence that says why.
    at_2: threads park there at a 2, as at a mutex.
    """

    make: str
    puts: tuple[str, ...]
    unless: tuple[str, ...]
    into: str
    below: tuple[str, ...] = ()
    at_2: bool = False


# Of the package's own classes alone: a program may have a class with such a name.  An offer() that waits has a limit in
# time.
_JAVA_PUTS = (
    *("ArrayBlockingQueue.put", "LinkedBlockingQueue.put", "LinkedBlockingDeque.put", "SynchronousQueue.put"),
    *("ArrayBlockingQueue.offer", "LinkedBlockingQueue.offer", "LinkedBlockingDeque.offer", "SynchronousQueue.offer"),
    *("LinkedTransferQueue.transfer", "LinkedTransferQueue.tryTransfer"),
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
    # A template of the program's calls the library to sleep, to put there and to take.
    _Full(TBB_QUEUE, ("::internal_push",), (), "put into a queue that is full", ("wait_bounded_queue_monitor",), True),
    # Who waits for the queue's own lock is in no Condition.
    _Full(PY_QUEUE, ("py::Queue.put:",), (), "put into a queue that is full", ("py::Condition.wait:",)),
    # Of multiprocessing: its semaphore has a permit for each place that is free.
    _Full(PY_QUEUE, ("py::Queue.put:", "py::JoinableQueue.put:"), (), "put into a queue that is full", SEMLOCK_WAITS),
)


def _puts(entry: Seen, kind: _Full) -> bool:
    """Whether threads wait there to put into such a queue; of Python by the waits whose functions are known."""
    calls = [call for call in entry.waits if tells(call)] if kind.make == PY_QUEUE else entry.waits
    below = not kind.below or share_from(entry.waits, kind.below) >= HALF
    return below and share_from(calls, kind.puts, kind.unless) >= HALF


def _full_queues(processes: Processes, window_ns: int) -> Iterable[Recognised]:
    """Queues that threads wait to put into, as they are full: each thread at a word of its own.

    Those who take from one wake the threads that put into it.
    """
    for words, kind in itertools.product(processes.values(), _FULL):
        found = [one for one in words.values() if (kind.at_2 or not expects_2(one.total)) and _puts(one, kind)]
        for circle in circles(found):
            threads = waiting(circle, window_ns)
            if threads < HARDLY:
                continue
            several = several_wait(circle, window_ns)
            yield Recognised(
                tuple(one.futex.id for one in by_waiting(circle)),
                kind.make,
                lock=several,
                sure="high" if several else "medium",
                why=f"threads wait to {kind.into}: {threads:.1f} on average"
                + ("" if several else "; the receiver is slow, or nobody asks for more values"),
                unclear=not several,
            )


# Of run times: the queues of their own threads, which compile, collect garbage, or do other work beside the program's.
_SERVICE = ("CompileBroker::", "PlatformWorkerThread", "NodePlatform::")


def _woken(processes: Processes, window_ns: int) -> Iterable[Recognised]:
    """Mutexes of queues: idle threads that are woken while whoever wakes them still has the mutex.

    Of a run time's own threads also those that take from their queue, and those that put there.
    """
    for words in processes.values():
        for entry in words.values():
            threads = waiting((entry,), window_ns)
            # By number: one waker that loses its CPU makes one wait long.
            there = sum(call.waits for call in entry.waits if has(call.functions, (*OUT_OF_CONDITION, *_SERVICE)))
            every = sum(call.waits for call in entry.waits)
            if not expects_2(entry.total) or threads >= HALF or not every or there < MOST * every:
                continue
            yield Recognised(
                (entry.futex.id,),
                CONDITION_VARIABLE,
                lock=False,
                sure="medium",
                why="idle threads that wait in pthread_cond_wait(), or threads of the run time itself, are woken while"
                f" the waker still has the mutex: {threads:.2f} wait for it on average",
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
            pair = [words[at] for at in (low, low + GROUP) if at in words]
            if len(pair) == 2 and all(is_condition(one.total) for one in pair):
                if address == low:
                    yield tuple(by_waiting(pair))
            else:
                yield (entry,)


def _own_queues(processes: Processes, window_ns: int) -> Iterable[Recognised]:
    """Queues of the program's own that threads wait to put into, at a condition of whatever make."""
    own = (by_waiting(found) for words in processes.values() for found in own_words_to_put(words.values()))
    for words in (*_pairs(processes), *own):
        if any(expects_2(entry.total) for entry in words) or not several_wait(words, window_ns):
            continue
        pair = puts_and_takes(words)
        if pair is not None:
            put, take = (f"{name.removesuffix('()')}()" for name in pair)
            yield Recognised(
                tuple(entry.futex.id for entry in words),
                OWN_QUEUE,
                lock=True,
                sure="medium",
                why=f"threads wait in {put} until another one comes to {take}: {waiting(words, window_ns):.1f} on"
                " average; by these names it is a queue that is full",
            )


def _barriers(processes: Processes, unclear: Collection[int], window_ns: int) -> Iterable[Recognised]:
    """Barriers of whatever make, OpenMP's among them."""
    for words in _pairs(processes):
        why = behaves_as_barrier(words) if any(entry.futex.id in unclear for entry in words) else ""
        if not why:
            continue
        files = {module.rsplit("/", 1)[-1] for entry in words for call in entry.waits for module in call.modules}
        openmp = any(name.startswith(openmp_waits.LIBRARIES) for name in files)
        if openmp or not work_in_turns(words, window_ns):
            yield Recognised(
                tuple(entry.futex.id for entry in words),
                OPENMP_BARRIER if openmp else ANY_BARRIER,
                lock=False,
                sure="high" if openmp else "medium",
                why=why,
                sites=pthreads.sites_of(words),
            )


# Whoever waits there waits for a lock or for a queue; that it behaves like a lock tells which.
_PYTHON_WAITS = (
    (PY_PROCESS_LOCK, SEMLOCK_WAITS),
    (PY_LOCK, ("PyThread_acquire_lock",)),
)


def _make_by_behaviour(words: Sequence[Seen]) -> str:
    """The make of what behaves like a lock, by the functions that wait there."""
    calls = [call for entry in words for call in entry.waits]
    if at_pypy_lock(words) and not any(entry.futex.shared for entry in words):
        return PYPY_LOCK
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


def _held_over_wait(words: Sequence[Seen], processes: Processes, locks: Collection[int], window_ns: int) -> str:
    """The same of what behaves like a lock; at another lock nobody waits for work."""
    first = words[0].futex
    ids = {entry.futex.id for entry in words}.union(locks)
    of_process = processes[first.tgid, bool(first.shared)].values()
    return held_over_wait(words, (entry for entry in of_process if entry.futex.id not in ids), window_ns)


def _others(
    processes: Processes,
    unclear: Collection[int],
    locks: Collection[int],
    found: Iterable[Recognised],
    window_ns: int,
) -> Iterable[Recognised]:
    """found: what was recognised before."""
    spun = _yields_at(processes, locks)
    for pair in _pairs(processes):
        yields = [spun[entry.futex.id] for entry in pair if entry.futex.id in spun]
        words = (*pair, *yields)
        why = behaves_as_lock(words, window_ns) if any(entry.futex.id in unclear for entry in words) else ""
        ids = tuple(entry.futex.id for entry in words)
        if why:
            of_locks = {word for one in found if one.lock for word in one.words}.union(locks)
            held = _held_over_wait(words, processes, of_locks, window_ns)
            told = f"{why}; {held}" if held else why
            yield Recognised(ids, _make_by_behaviour(words), not held, "medium", told, unclear=bool(held))
        elif any(entry.futex.id in unclear for entry in words) and are_brought_work(words, window_ns):
            told = (
                "its threads sleep there nearly all the time, and a thread that never waits there wakes them:"
                " workers without work do so, and threads behind one that hogs a lock"
            )
            yield Recognised(ids, "", lock=False, sure="medium", why=told, unclear=True)
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
    waited = {entry.futex.id: entry.total.wait_ns + open_ns(entry.total) for entry in seen}
    found: list[Recognised] = []
    for step in (
        goroutines(processes, window_ns),
        gils(processes, window_ns),
        stops(processes, window_ns),
        ocaml_domains(processes, window_ns),
        ruby_locks(processes, window_ns),
        made_once(processes, window_ns),
        pthreads.held_while_idle(processes, locks, window_ns),
        _full_queues(processes, window_ns),
        _own_queues(processes, window_ns),
        java_waits(processes, window_ns),
        parking_lot_conditions(processes, window_ns),
        python_waits(processes, window_ns),
        table_locks(processes, window_ns),
        row_locks(processes, window_ns),
        pthreads.barriers(processes),
        made(processes, window_ns),
        go_threads(processes, window_ns),
        pthreads.rwlocks(processes, window_ns),
        _barriers(processes, unclear, window_ns),
        openmp_waits.openmp_waits(processes, window_ns),
        _woken(processes, window_ns),
        python_queues(processes),
        python_conditions(processes, window_ns),
        _others(processes, unclear, locks, found, window_ns),
        pthreads.conditions(processes),
    ):
        taken = {word for one in found for word in one.words}
        found += [left for one in step if (left := _left_of(one, taken, waited))]
    return tuple(found)


def _left_of(one: Recognised, taken: Collection[int], waited: Mapping[int, int]) -> Recognised | None:
    """It without words that are another lock's already; None if these have more than a little of its waiting.

    A word that a thread waited at once may be of both, as one that is made for each wait.
    """
    left = tuple(word for word in one.words if word not in taken)
    if len(left) == len(one.words):
        return one
    waited_ns = sum(waited.get(word, 0) for word in left)
    every_ns = sum(waited.get(word, 0) for word in one.words)
    return replace(one, words=left) if waited_ns >= MOST * every_ns > 0 else None
