# SPDX-License-Identifier: GPL-2.0-or-later
"""Waits in user space's locks, and what tells them from idle waits (record --futex, docs/futex.md)."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from lockline.analysis.behind import Place, Places, behind_of, blame
from lockline.analysis.blocked import BlockedThread, kept_idle
from lockline.analysis.hidden_waits import HiddenWaits, hidden_waits
from lockline.analysis.java_monitors import Monitor, monitors_of
from lockline.analysis.model import Figures
from lockline.analysis.parked import Word, parked
from lockline.analysis.samples import UNKNOWN_WAITER
from lockline.analysis.user_evidence import (
    CONDITION_VARIABLE,
    GO_MUTEX,
    GO_RWMUTEX,
    MONITOR,
    YIELD_OP,
    Calls,
    Goroutines,
    Recognised,
    Seen,
    Site,
    open_ns,
)
from lockline.analysis.user_locks import recognise, unseen_goroutines
from lockline.analysis.waits import UNKNOWN_LOCK
from lockline.base import histogram
from lockline.base.errors import RecordingError
from lockline.base.values import dataclass
from lockline.recording import rows
from lockline.recording.reader import Recording

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

# Futexes with tasks and stacks, and tasks and stacks of each.
FUTEXES_IN_DETAIL = 20
TASKS_PER_FUTEX = 8
STACKS_PER_ROLE = 3
HOLDERS_PER_FUTEX = 8

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
    24: "Go lock",
    25: "Go unlock",
    26: "Go send",
    27: "Go select",
    28: "Go group",
    29: "Go cond",
}

# FUTEX_YIELD_ADDRESS of bpf/futex.h.
_YIELDS = 1

# Shares of the rules below.
_MOST = 0.8
_HALF = 0.5
# Hashes of 128 beyond which a set of threads says nothing any more.
_FULL_SET = 96
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
    """A stack in user space from which a futex was waited for, or woken."""

    role: str
    samples: int
    waits: int
    wait_ns: int
    frames: tuple[rows.Frame, ...]


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

    futex: rows.Futex
    total: rows.FutexTotal
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
    behind: tuple[rows.Futex, float] | None = None
    before: tuple[tuple[rows.Futex, int], ...] = ()
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
    futexes: tuple[tuple[rows.Futex, int, int], ...]

    @property
    def collision(self) -> bool:
        """Whether more than one futex led to this bucket's lock."""
        return len(self.futexes) > 1


@dataclass(frozen=True, slots=True)
class Futexes:
    """All futexes, those of contended locks first, the one with most waiting first; the buckets; and who is blocked.

    unseen: programs in Go whose goroutines wait for mutexes without a futex.  hidden: others, and threads that wait for
    what their futexes do not tell.
    """

    futexes: tuple[FutexWaits, ...]
    buckets: tuple[BucketWaits, ...]
    blocked: tuple[BlockedThread, ...] = ()
    unseen: tuple[Goroutines, ...] = ()
    hidden: tuple[HiddenWaits, ...] = ()

    def wait_ns(self, nature: str) -> int:
        """All waiting of that nature."""
        return sum(futex.figures.wait_ns for futex in self.futexes if futex.nature == nature)


# A row without a process: of those that found no place, or of processes that have ended (docs/recording.md).
_MANY = "the sum of many futexes: they had no row of their own, or their processes have ended"

_KEPT_IDLE = (
    "one thread waits here, and whoever has the lock waits for input, with other locks at which one thread waits each:"
    " idle threads"
)


def is_semaphore(total: rows.FutexTotal, calls: int) -> bool:
    """Whether a futex is a sem_t; calls: of those to wait, how many found one without a token."""
    return calls >= _MOST * total.calls > 0


def _is_handed(total: rows.FutexTotal) -> bool:
    """Whether one thread waits at a word and others wake it, which itself never does: a place to park, no mutex.

    Who has waited for a mutex has it then, and wakes the word in its turn, whether somebody waits there or not.
    """
    return total.waiters == 1 and not total.both and total.tasks_woken >= _MOST * max(total.slept, _FEW_CALLS)


def nature(total: rows.FutexTotal, semaphore: bool = False) -> tuple[str, str]:
    """What a futex is, by how it is used, and the reason: the first rule of docs/futex.md that holds."""
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
    shared = total.both >= _HALF * total.waiters > 0 and max(total.waiters, total.wakers) <= _FULL_SET
    if total.value_2 >= _HALF * total.calls and shared:
        return LOCK, "waits expect the value 2 (locked, with waiters), and the threads that wait also wake"
    handed = _is_handed(total)
    if total.value_2 >= _MOST * total.calls and total.calls >= _FEW_CALLS and not handed:
        return LOCK, "waits expect the value 2: locked, with waiters"
    if total.threads and total.threads >= _HALF * total.owner_samples:
        return CONDITION, "waits end when a thread does (pthread_join)"
    if total.timed_out and total.timed_out >= _MOST * max(total.slept, 1):
        return POLL, f"{min(total.timed_out, total.slept):,} of {total.slept:,} waits ended by their timeout"
    if shared and total.waiters > 1 and total.tasks_woken and semaphore:
        return (
            UNCLEAR,
            "a semaphore (sem_wait) that its waiters also post: a lock, or threads that take turns",
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


def _figures(recording: Recording, waits: int, wait_ns: int, max_ns: int, blob: bytes) -> Figures:
    counts = histogram.empty()
    try:
        histogram.add_blob(counts, blob)
    except ValueError as error:
        raise RecordingError(f"{recording.path}: the recording is damaged: {error}") from error
    return Figures(waits, wait_ns, max_ns, 0, tuple(counts))


def _possible(row: tuple[object, ...]) -> bool:
    return all(value >= 0 for value in row if isinstance(value, int))


def _tasks(samples: Iterable[rows.FutexSample], waiters: Mapping[int, rows.Waiter]) -> tuple[FutexTask, ...]:
    sums: defaultdict[tuple[str, int], list[int]] = defaultdict(lambda: [0, 0, 0])
    for sample in samples:
        figures = sums[sample.role, sample.task]
        for index, value in enumerate((sample.samples, sample.waits, sample.wait_ns)):
            figures[index] += value
    found = []
    for (role, task), (count, waits, wait_ns) in sums.items():
        who = waiters.get(task, UNKNOWN_WAITER)
        found.append(FutexTask(role, who.tid, who.tgid, who.comm, count, waits, wait_ns))
    found.sort(key=lambda task: (task.role, -task.wait_ns, -task.waits, task.tid))
    kept: defaultdict[str, int] = defaultdict(int)
    shown = []
    for entry in found:
        kept[entry.role] += 1
        if kept[entry.role] <= TASKS_PER_FUTEX:
            shown.append(entry)
    return tuple(shown)


def _heaviest(samples: Iterable[rows.FutexSample]) -> list[tuple[str, int, int, int, int]]:
    """(role, stack, samples, waits, ns) of the stacks that matter most in each role."""
    sums: defaultdict[tuple[str, int], list[int]] = defaultdict(lambda: [0, 0, 0])
    for sample in samples:
        if sample.stack:
            figures = sums[sample.role, sample.stack]
            for index, value in enumerate((sample.samples, sample.waits, sample.wait_ns)):
                figures[index] += value
    found: list[tuple[str, int, int, int, int]] = []
    for role in sorted({role for role, _ in sums}):
        ranked = [(stack, figures) for (of, stack), figures in sums.items() if of == role]
        ranked.sort(key=lambda entry: (-entry[1][2], -entry[1][1], entry[0]))
        found += [(role, stack, count, waits, ns) for stack, (count, waits, ns) in ranked[:STACKS_PER_ROLE]]
    return found


def _samples_of(entry: FutexWaits, samples: Mapping[int, Sequence[rows.FutexSample]]) -> list[rows.FutexSample]:
    # Of a lock of several words the inner mutex has an owner, and that is not the lock's.
    return [
        sample
        for word in (entry.futex.id, *entry.words)
        for sample in samples.get(word, ())
        if sample.role != "owner" or not entry.words
    ]


def _holders(recording: Recording) -> dict[int, list[HolderLook]]:
    """By futex, most looks first."""
    found: defaultdict[int, list[HolderLook]] = defaultdict(list)
    for row in recording.table(rows.FutexHolder):
        if _possible(row):
            found[row.futex].append(HolderLook(row.state, row.call, row.function, row.looks, row.behind))
    for looks in found.values():
        looks.sort(key=lambda look: (-look.looks, look.state, look.call, look.function, look.behind))
    return found


def place_of(one: FutexWaits) -> Place:
    """Where a futex is, and who uses it."""
    users = frozenset({one.futex.tgid, *(task.tgid for task in one.tasks)})
    return Place(one.futex.id, one.futex.tgid, one.futex.address, bool(one.futex.shared), users)


def with_blame(found: Sequence[FutexWaits]) -> tuple[FutexWaits, ...]:
    """The futexes, with what holders of one lock that wait for another one make of it."""
    places = Places(map(place_of, found))
    by_id = {entry.futex.id: entry for entry in found}
    edges = {}
    for entry in found:
        looks = [(places.behind(place_of(entry), look.behind), look.looks) for look in entry.holders]
        edge = behind_of(looks)
        if edge is not None and entry.nature == LOCK:
            edges[entry.futex.id] = edge
    if not edges:
        return tuple(found)
    blamed = blame({id_: entry.waited_ns for id_, entry in by_id.items()}, edges)
    return tuple(
        replace(
            entry,
            behind=None if one.behind is None else (by_id[one.behind.other].futex, one.behind.part),
            before=tuple((by_id[other].futex, ns) for other, ns in one.before),
            blamed_ns=one.ns,
        )
        for entry in found
        for one in (blamed[entry.futex.id],)
    )


def _monitor_lines(
    found: Iterable[FutexWaits], samples: Mapping[int, Sequence[rows.FutexSample]], waiters: Mapping[int, rows.Waiter]
) -> dict[int, dict[int, set[int]]]:
    """Of Java monitors: by process, the futexes' ids, with the threads that wait there."""
    lines: defaultdict[int, dict[int, set[int]]] = defaultdict(dict)
    for entry in found:
        if entry.make == MONITOR:
            lines[entry.futex.tgid][entry.futex.id] = {
                waiters.get(sample.task, UNKNOWN_WAITER).tid
                for sample in _samples_of(entry, samples)
                if sample.role == "waiter"
            }
    return lines


def _in_detail(
    recording: Recording,
    found: Sequence[FutexWaits],
    samples: Mapping[int, Sequence[rows.FutexSample]],
    waiters: Mapping[int, rows.Waiter],
) -> tuple[FutexWaits, ...]:
    """The futexes, the first ones with their tasks and stacks."""
    first = found[:FUTEXES_IN_DETAIL]
    heaviest = {entry.futex.id: _heaviest(_samples_of(entry, samples)) for entry in first}
    frames = recording.stacks(sorted({stack for stacks in heaviest.values() for _, stack, *_ in stacks}))
    holders = _holders(recording)
    monitors = monitors_of(recording, _monitor_lines(first, samples, waiters))
    detailed = [
        replace(
            entry,
            tasks=_tasks(_samples_of(entry, samples), waiters),
            stacks=tuple(
                FutexStack(role, count, waits, ns, frames[stack])
                for role, stack, count, waits, ns in heaviest[entry.futex.id]
                if stack in frames
            ),
            # As its owners: of a lock of several words the inner mutex has them.
            holders=() if entry.words else tuple(holders.get(entry.futex.id, ())[:HOLDERS_PER_FUTEX]),
            monitors=tuple(monitors.get(entry.futex.id, ())),
        )
        for entry in first
    ]
    return with_blame((*detailed, *found[len(detailed) :]))


def _word(entry: FutexWaits, samples: Iterable[rows.FutexSample], waiters: Mapping[int, rows.Waiter]) -> Word:
    wakes: defaultdict[int, int] = defaultdict(int)
    waiting = set()
    for sample in samples:
        tid = waiters.get(sample.task, UNKNOWN_WAITER).tid
        if sample.role == "waiter":
            waiting.add(tid)
        elif sample.role == "waker":
            wakes[tid] += sample.waits
    return Word(entry.futex.comm, frozenset(waiting), wakes)


def _with_parked(
    found: Sequence[FutexWaits], samples: Mapping[int, Sequence[rows.FutexSample]], waiters: Mapping[int, rows.Waiter]
) -> list[FutexWaits]:
    """The futexes, those of parked waiters called so.

    Of semaphores that processes share alone: threads of one process that park on words of their own and wake each
    other are idle workers of a run time (Go, Java, Rust) more often than not.
    """
    words = {
        entry.futex.id: _word(entry, samples.get(entry.futex.id, ()), waiters)
        for entry in found
        if entry.futex.shared and entry.semaphore and entry.nature in (SEMAPHORE, UNCLEAR)
    }
    members = parked(words)
    return [
        replace(
            entry,
            nature=PARKED,
            why=(
                f"a semaphore of one waiter; {len(words[entry.futex.id].wakes)} tasks post it, who wait on semaphores"
                " of their own: a lock of parked waiters, or tasks that take turns"
            ),
        )
        if entry.futex.id in members
        else entry
        for entry in found
    ]


def _seen(
    recording: Recording, found: Sequence[FutexWaits], samples: Mapping[int, Sequence[rows.FutexSample]]
) -> list[Seen]:
    frames = recording.stacks(sorted({sample.stack for of in samples.values() for sample in of if sample.stack}))
    functions = {stack: tuple(frame.symbol for frame in of if frame.symbol) for stack, of in frames.items()}
    modules = {stack: tuple({frame.module for frame in of if frame.module}) for stack, of in frames.items()}

    def calls(futex: int, role: str) -> tuple[Calls, ...]:
        return tuple(
            Calls(
                sample.task,
                functions.get(sample.stack, ()),
                modules.get(sample.stack, ()),
                sample.waits,
                sample.wait_ns,
                frames.get(sample.stack, ()),
            )
            for sample in samples.get(futex, ())
            if sample.role == role
        )

    return [
        Seen(entry.futex, entry.total, calls(entry.futex.id, "waiter"), calls(entry.futex.id, "waker"))
        for entry in found
    ]


# What the words of one lock have in common; all other figures are summed.
_MOST_OF = frozenset(("max_ns", "max_latency_ns", "waiters", "wakers", "both", "oldest_ns"))
_KEPT = frozenset(("futex", "histogram", "latency_histogram"))


def _summed(totals: Sequence[rows.FutexTotal]) -> rows.FutexTotal:
    values = {}
    for name in rows.FutexTotal._fields:
        if name not in _KEPT:
            column = [getattr(total, name) for total in totals]
            values[name] = max(column) if name in _MOST_OF else sum(column)
    ops = 0
    for total in totals:
        ops |= total.ops
    return totals[0]._replace(**values | {"ops": ops})


def _added(figures: Sequence[Figures]) -> Figures:
    counts = histogram.empty()
    for one in figures:
        for index, value in enumerate(one.histogram):
            counts[index] += value
    return Figures(
        sum(one.waits for one in figures),
        sum(one.wait_ns for one in figures),
        max(one.max_ns for one in figures),
        sum(one.failed for one in figures),
        tuple(counts),
    )


def _site(site: Site, waiters: Mapping[int, rows.Waiter]) -> BarrierSite:
    who = waiters.get(site.last)
    last = FutexTask("last", who.tid, who.tgid, who.comm, site.rounds, site.rounds, 0) if who and site.rounds else None
    return BarrierSite(site.function, site.wait_ns, site.rounds, last, site.last_part)


def _as_one(words: Sequence[FutexWaits], known: Recognised, waiters: Mapping[int, rows.Waiter]) -> FutexWaits:
    # Time in sched_yield() has no word: a lock is named by another of its words, or not at all.
    words = sorted(words, key=lambda entry: entry.futex.address == _YIELDS)
    first = words[0]
    if first.futex.address == _YIELDS:
        first = replace(first, futex=first.futex._replace(name=""))
    merged = replace(
        first,
        futex=first.futex._replace(name=known.name or first.futex.name),
        total=_summed([entry.total for entry in words]),
        figures=_added([entry.figures for entry in words]),
        latency=_added([entry.latency for entry in words]),
        words=tuple(entry.futex.id for entry in words[1:]),
    )
    if known.lock:
        return replace(
            merged,
            nature=LOCK,
            why=known.why,
            make=known.make,
            sure=known.sure,
            behind_readers=known.behind_readers,
        )
    if known.sites:
        sites = tuple(_site(site, waiters) for site in known.sites)
        return replace(merged, nature=BARRIER, why=known.why, make=known.make, sure=known.sure, sites=sites)
    if known.unclear:
        return replace(merged, nature=UNCLEAR, why=known.why, make=known.make, sure=known.sure)
    # Threads that all go back to wait at once look like those of a semaphore.
    semaphore = merged.semaphore and known.make != CONDITION_VARIABLE
    kind, why = (CONDITION, known.why) if known.why else nature(merged.total, semaphore)
    return replace(merged, nature=kind, why=why, make=known.make)


def _with_makes(
    recording: Recording,
    found: Sequence[FutexWaits],
    samples: Mapping[int, Sequence[rows.FutexSample]],
    waiters: Mapping[int, rows.Waiter],
    window_ns: int,
) -> tuple[list[FutexWaits], tuple[Goroutines, ...], tuple[HiddenWaits, ...]]:
    """The futexes, those that are one lock as one; and the programs whose waits are not among them."""
    by_id = {entry.futex.id: entry for entry in found}
    unclear = {entry.futex.id for entry in found if entry.nature == UNCLEAR}
    locks = {entry.futex.id for entry in found if entry.nature == LOCK}
    merged: list[FutexWaits] = []
    taken: set[int] = set()
    seen = _seen(recording, found, samples)
    for known in recognise(seen, unclear, window_ns, locks):
        merged.append(_as_one([by_id[word] for word in known.words], known, waiters))
        taken.update(known.words)
    told = {entry.futex.tgid for entry in merged if entry.make in (GO_MUTEX, GO_RWMUTEX)}
    unseen = tuple(one for one in unseen_goroutines(seen, window_ns) if one.tgid not in told)
    comms = {task: who.comm for task, who in waiters.items()}
    hidden = hidden_waits(seen, taken, comms, window_ns)
    return [*merged, *(entry for entry in found if entry.futex.id not in taken)], unseen, hidden


def _buckets(
    recording: Recording, futexes: Mapping[int, rows.Futex], locks: Mapping[int, rows.Lock]
) -> tuple[BucketWaits, ...]:
    by_lock: defaultdict[int, list[rows.FutexBucket]] = defaultdict(list)
    for row in recording.table(rows.FutexBucket):
        # Other locks that lie as a bucket's does have names that say so.
        name = locks.get(row.lock, UNKNOWN_LOCK).name
        if _possible(row) and row.futex in futexes and "." not in name.replace("futex_hash_bucket.lock", ""):
            by_lock[row.lock].append(row)
    found = []
    for lock, entries in by_lock.items():
        entries.sort(key=lambda row: (-row.wait_ns, row.futex))
        known = locks.get(lock, UNKNOWN_LOCK)
        found.append(
            BucketWaits(
                lock=known.name,
                instance=known.instance,
                waits=sum(row.waits for row in entries),
                wait_ns=sum(row.wait_ns for row in entries),
                max_ns=max(row.max_ns for row in entries),
                futexes=tuple((futexes[row.futex], row.waits, row.wait_ns) for row in entries),
            )
        )
    return tuple(sorted(found, key=lambda bucket: -bucket.wait_ns))


def _blocked(recording: Recording, futexes: Mapping[int, rows.Futex]) -> tuple[BlockedThread, ...]:
    """The waits in progress for locks with an owner, longest first."""
    found = [
        BlockedThread(
            futexes[row.futex],
            row.tid,
            row.tgid,
            row.comm,
            row.age_ns,
            bool(row.timed),
            row.owner,
            row.owned_ns,
            row.owner_comm,
            row.owner_state,
            row.owner_in,
        )
        for row in recording.table(rows.FutexOwnedWait)
        if row.futex in futexes and _possible(row)
    ]
    return tuple(sorted(found, key=lambda thread: (-thread.age_ns, thread.tid)))


def _length_ns(recording: Recording) -> int:
    meta = recording.meta()
    begin, end = meta.get("begin_ns"), meta.get("end_ns")
    return max(end - begin, 0) if isinstance(begin, int) and isinstance(end, int) else 0


# enum signal SIGNAL_FUTEX of the collector (kernel/signals.h).
_SIGNAL = "futex waits"


def _were_recorded(recording: Recording) -> bool:
    return any(probe.signal == _SIGNAL and probe.state == "on" for probe in recording.table(rows.Probe))


def read_futexes(recording: Recording, locks: Mapping[int, rows.Lock], window_ns: int | None = None) -> Futexes | None:
    """The futexes of the whole run, which lasted window_ns (None: as the recording says); None: nobody looked.

    Raises RecordingError if a histogram is damaged.
    """
    length_ns = _length_ns(recording) if window_ns is None else window_ns
    known = {row.id: row for row in recording.table(rows.Futex)}
    known |= {id_: row._replace(name="sched_yield()") for id_, row in known.items() if row.address == _YIELDS}
    totals = [row for row in recording.table(rows.FutexTotal) if row.futex in known and _possible(row)]
    if not totals:
        return Futexes((), ()) if _were_recorded(recording) else None
    semaphores = {row.futex: row.calls for row in recording.table(rows.FutexSemaphore)}
    found = []
    for total in totals:
        semaphore = is_semaphore(total, semaphores.get(total.futex, 0))
        kind, why = nature(total, semaphore)
        if kind != NONE and not known[total.futex].tgid:
            kind, why = UNCLEAR, _MANY
        figures = _figures(recording, total.slept, total.wait_ns, total.max_ns, total.histogram)
        latency = _figures(recording, total.slept, total.latency_ns, total.max_latency_ns, total.latency_histogram)
        found.append(FutexWaits(known[total.futex], total, kind, why, figures, latency, semaphore))
    samples: defaultdict[int, list[rows.FutexSample]] = defaultdict(list)
    for sample in recording.table(rows.FutexSample):
        if _possible(sample):
            samples[sample.futex].append(sample)
    waiters = recording.waiters()
    sums = [entry for entry in found if not entry.futex.tgid]
    words = [entry for entry in found if entry.futex.tgid]
    blocked = _blocked(recording, known)
    idle = kept_idle(blocked)
    words = [replace(entry, nature=CONDITION, why=_KEPT_IDLE) if entry.futex.id in idle else entry for entry in words]
    words, unseen, hidden = _with_makes(recording, _with_parked(words, samples, waiters), samples, waiters, length_ns)
    found = [*words, *sums]
    rank = {nature: place for place, nature in enumerate(NATURES)}
    found.sort(key=lambda entry: (rank[entry.nature], -entry.figures.wait_ns, entry.futex.id))
    return Futexes(
        _in_detail(recording, found, samples, waiters),
        _buckets(recording, known, locks),
        tuple(thread for thread in blocked if thread.futex.id not in idle),
        unseen,
        hidden,
    )
