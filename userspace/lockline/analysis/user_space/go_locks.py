# SPDX-License-Identifier: GPL-2.0-or-later
"""Go's mutexes, channels, groups and conditions, by goroutine (record --futex --go) or by the threads that run them."""

from collections.abc import Iterable

from lockline.analysis.user_space.behaviour import behaves_as_lock
from lockline.analysis.user_space.own_pools import worked_in
from lockline.analysis.user_space.user_evidence import (
    GO_CHANNEL,
    GO_COND,
    GO_DATABASE,
    GO_FLIGHT,
    GO_GROUP,
    GO_MUTEX,
    GO_ONCE,
    GO_POOL,
    GO_RWMUTEX,
    GO_SEMAPHORE,
    GO_WEIGHTED,
    HALF,
    MOST,
    SEVERAL,
    Calls,
    Goroutines,
    Processes,
    Recognised,
    Seen,
    by_process,
    by_waiting,
    has,
    share_from,
    share_of,
    waiting_still,
)

# enum futex_op of bpf/futex.h: a goroutine waited for a mutex.
_GO_LOCK = 1 << 24
# One waited to send to a channel; in a select, which may go on by another case; for a WaitGroup; for a Cond.
_GO_SEND = 1 << 26
_GO_SELECT = 1 << 27
_GO_GROUP = 1 << 28
_GO_COND = 1 << 29
# One waited to receive from a channel with a buffer.
_GO_RECEIVE = 1 << 30
# One waited in a function of a library for one of its pool.
_GO_POOL = 1 << 23
_GO_FOLLOWED = _GO_POOL | _GO_LOCK | 1 << 25 | _GO_SEND | _GO_SELECT | _GO_GROUP | _GO_COND | _GO_RECEIVE
# Writers of a sync.RWMutex wait for its own mutex as well.
_GO_WRITES = ("sync.(*RWMutex).Lock",)
_GO_READS = ("sync.(*RWMutex).RLock", "sync.runtime_SemacquireRWMutexR")
# Where a sync.Once waits for its own mutex: what it calls may wait for another one.
_GO_ONCE = "sync.(*Once)."
# Where all who ask for the same wait for the one that makes it: of golang.org/x/sync and those before it.
_GO_FLIGHT = ("singleflight.(*Group).Do",)
_GO_WEIGHTED = ("semaphore.(*Weighted).Acquire",)
_GO_MUTEX_OWN = ("sync.runtime_", "sync.(*Mutex).", "internal/sync.")
# Goroutines that wait to send, on average: as every now and then where receivers are quick.
HARDLY = 0.1


def _behaves_as_lock(entry: Seen, window_ns: int) -> str:
    return behaves_as_lock((entry,), window_ns).replace("threads", "goroutines")


def _channel(entry: Seen, window_ns: int) -> Recognised:
    """Several that queue for a receiver are held back by it.  One that waits may be a source that nobody asks for more.

    Where those who receive are those who send, they have a semaphore, or a queue of jobs that they pass on.  A select
    may wait for another case as well.
    """
    if why := _behaves_as_lock(entry, window_ns):
        return Recognised((entry.futex.id,), GO_SEMAPHORE, lock=True, sure="medium", why=why)
    threads = waiting_still((entry,), window_ns)
    several, hardly = threads >= SEVERAL, threads < HARDLY
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


def _among_peers(entry: Seen, makes: tuple[str, str], idle: str, window_ns: int) -> Recognised:
    """Goroutines that wait for what others bring are idle; those that bring it to each other have too little of it.

    makes: what it is called in either case.
    """
    contended = _behaves_as_lock(entry, window_ns)
    if contended and entry.total.ops & _GO_RECEIVE and (function := worked_in((entry,))):
        why = (
            f"goroutines wait in {function}() to receive what they send each other: by this name they are workers that"
            " pass jobs on; a pool that is too small looks the same"
        )
        return Recognised((entry.futex.id,), makes[0], lock=False, sure="medium", why=why, unclear=True)
    why = contended or f"goroutines {idle}: {waiting_still((entry,), window_ns):.1f} wait on average"
    sure = "medium" if contended else "high"
    return Recognised((entry.futex.id,), makes[bool(contended)], lock=bool(contended), sure=sure, why=why)


def _is_in_once(call: Calls) -> bool:
    behind = (function for function in call.functions if not function.startswith(_GO_MUTEX_OWN))
    return next(behind, "").startswith(_GO_ONCE)


def _goroutine_wait(entry: Seen, window_ns: int) -> Recognised | None:
    """What goroutines were seen to wait for at this address (record --futex --go); None: nothing of the kind."""
    ops, threads = entry.total.ops, waiting_still((entry,), window_ns)
    if ops & _GO_LOCK:
        why = f"Go's runtime parks goroutines for it: {threads:.1f} wait for it on average"
        write, read = (share_from(entry.waits, names) for names in (_GO_WRITES, _GO_READS))
        if write + read >= HALF:
            why += f", {write:.0%} of that to write and {read:.0%} to read"
        once = share_of(entry.waits, _is_in_once) >= MOST
        make = GO_RWMUTEX if write + read >= HALF else GO_ONCE if once else GO_MUTEX
        return Recognised((entry.futex.id,), make, lock=True, sure="high", why=why)
    if ops & _GO_POOL:
        weighted = share_from(entry.waits, _GO_WEIGHTED) >= HALF
        of = "a place of a semaphore.Weighted" if weighted else "a connection of a sql.DB, which may have no more"
        why = f"goroutines wait for {of}: {threads:.1f} on average"
        return Recognised((entry.futex.id,), GO_WEIGHTED if weighted else GO_DATABASE, lock=True, sure="high", why=why)
    if ops & (_GO_SEND | _GO_SELECT):
        return _channel(entry, window_ns)
    if ops & _GO_GROUP and share_from(entry.waits, _GO_FLIGHT) >= MOST:
        why = f"goroutines wait in singleflight for the one that makes what they ask for: {threads:.1f} on average"
        return Recognised((entry.futex.id,), GO_FLIGHT, lock=True, sure="high", why=why)
    if ops & _GO_GROUP:
        why = f"goroutines wait until those of their group are done: {threads:.1f} on average"
        return Recognised((entry.futex.id,), GO_GROUP, lock=False, sure="high", why=why)
    if ops & _GO_COND:
        return _among_peers(entry, (GO_COND, GO_COND), "wait for a condition, and others signal it", window_ns)
    if ops & _GO_RECEIVE:
        return _among_peers(entry, (GO_CHANNEL, GO_POOL), "wait to receive, and others send", window_ns)
    return None


def goroutines(processes: Processes, window_ns: int) -> Iterable[Recognised]:
    """Each mutex, channel, group and condition that goroutines were seen to wait for."""
    for words in processes.values():
        for entry in words.values():
            found = _goroutine_wait(entry, window_ns) if entry.total.slept or entry.total.open_waits else None
            if found is not None:
                yield found


_GO_UNLOCKS = ("sync.(*Mutex).unlockSlow", "sync.(*RWMutex).", "internal/sync.(*Mutex).unlockSlow")


def go_threads(processes: Processes, window_ns: int) -> Iterable[Recognised]:
    """Go's goroutines wait without the kernel; what wakes an idle thread tells of them: a mutex that is let go.

    Not where the goroutines themselves were followed: their waits are not counted twice.
    """
    for words in processes.values():
        if any(entry.total.ops & _GO_FOLLOWED for entry in words.values()):
            continue
        found = [entry for entry in words.values() if share_from(entry.wakes, _GO_UNLOCKS) >= HALF]
        found = by_waiting(found)
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
