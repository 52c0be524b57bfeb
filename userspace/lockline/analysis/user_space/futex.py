# SPDX-License-Identifier: GPL-2.0-or-later
"""Waits in user space's locks, and what tells them from idle waits (record --futex, docs/futex.md)."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from lockline.analysis.behind import Place, Places, behind_of, blame
from lockline.analysis.blocked import BlockedThread, kept_idle
from lockline.analysis.model import Figures
from lockline.analysis.samples import UNKNOWN_WAITER
from lockline.analysis.user_space.crowds import same_by_samples
from lockline.analysis.user_space.futex_waits import (
    BARRIER,
    CONDITION,
    LOCK,
    NATURES,
    NONE,
    PARKED,
    SEMAPHORE,
    UNCLEAR,
    BarrierSite,
    BucketWaits,
    Futexes,
    FutexStack,
    FutexTask,
    FutexWaits,
    HolderLook,
    is_semaphore,
    nature,
)
from lockline.analysis.user_space.go_locks import unseen_goroutines
from lockline.analysis.user_space.hidden_waits import HiddenWaits, hidden_waits
from lockline.analysis.user_space.java_monitors import blocked_at_monitors, monitors_of
from lockline.analysis.user_space.parked import Word, parked
from lockline.analysis.user_space.python_gil import GROUP
from lockline.analysis.user_space.stages import next_stages
from lockline.analysis.user_space.user_evidence import (
    CONDITION_VARIABLE,
    GO_MUTEX,
    GO_ONCE,
    GO_RWMUTEX,
    MONITOR,
    Calls,
    Goroutines,
    Recognised,
    Seen,
    Site,
    open_ns,
    without_sleeps,
)
from lockline.analysis.user_space.user_locks import recognise
from lockline.analysis.waits import UNKNOWN_LOCK
from lockline.base import histogram
from lockline.base.c_library import is_atomics_word
from lockline.base.errors import RecordingError
from lockline.recording import rows, user_rows
from lockline.recording.reader import Recording

# Futexes that are asked what they are, more than a collector has at a time (8,192): those with most waiting.  Of a file
# with 300,000 the others took a minute and 1.5 GB.
MOST_FUTEXES = 10_000
# Futexes with tasks and stacks, and tasks and stacks of each.
FUTEXES_IN_DETAIL = 20
TASKS_PER_FUTEX = 8
STACKS_PER_ROLE = 3
# The part of the waiting for owners of which their wakes must tell where they let go.
OWNED = 0.5
HOLDERS_PER_FUTEX = 8

# FUTEX_YIELD_ADDRESS of bpf/futex.h.
_YIELDS = 1

# A row without a process: of those that found no place, or of processes that have ended (docs/recording.md).
_MANY = "the sum of many futexes: they had no row of their own, or their processes have ended"

_LIGHT = "{:,} futexes with the least waiting: too many to look at each"

_KEPT_IDLE = (
    "one thread waits here, and whoever has the lock waits for input, with other locks at which one thread waits each:"
    " idle threads"
)


# lockline-collect, as the kernel has it: TASK_COMM_LEN of include/linux/sched.h.
_OWN_COMM = "lockline-collec"
_OWN = "lockline's own threads"


def _distribution(recording: Recording, blobs: Iterable[bytes]) -> tuple[int, ...]:
    counts = histogram.empty()
    try:
        for blob in blobs:
            histogram.add_blob(counts, blob)
    except ValueError as error:
        raise RecordingError(f"{recording.path}: the recording is damaged: {error}") from error
    return tuple(counts)


def _figures(recording: Recording, waits: int, wait_ns: int, max_ns: int, blob: bytes) -> Figures:
    return Figures(waits, wait_ns, max_ns, 0, _distribution(recording, (blob,)))


def _possible(row: tuple[object, ...]) -> bool:
    return not any(type(value) is int and value < 0 for value in row)


def _apart(
    totals: Sequence[user_rows.FutexTotal], wanted: Collection[int]
) -> tuple[list[user_rows.FutexTotal], list[user_rows.FutexTotal]]:
    """Those that are looked at, and the others; both in their order.

    Looked at: those with most waiting, and as many of the wanted ones.
    """
    if len(totals) <= MOST_FUTEXES:
        return list(totals), []
    ranked = sorted(totals, key=lambda total: (-total.wait_ns - open_ns(total), total.futex))
    asked = [total for total in ranked if total.futex in wanted]
    first = {total.futex for total in (*ranked[:MOST_FUTEXES], *asked[:MOST_FUTEXES])}
    return (
        [total for total in totals if total.futex in first],
        [total for total in totals if total.futex not in first],
    )


def _as_many(
    recording: Recording, totals: Sequence[user_rows.FutexTotal], semaphores: Mapping[int, int], id_: int
) -> Iterator[FutexWaits]:
    """What these futexes, which nobody looks at, have together, by what their own words tell; ids from id_ on."""
    by_nature: defaultdict[str, list[user_rows.FutexTotal]] = defaultdict(list)
    for total in totals:
        kind, _ = nature(total, is_semaphore(total, semaphores.get(total.futex, 0)))
        # A sum is no lock.
        by_nature[UNCLEAR if kind == LOCK else kind].append(total)
    for number, (kind, entries) in enumerate(sorted(by_nature.items()), id_):
        one = _summed(entries)._replace(futex=number)
        waits = (total.histogram for total in entries)
        figures = Figures(one.slept, one.wait_ns, one.max_ns, 0, _distribution(recording, waits))
        late = (total.latency_histogram for total in entries)
        latency = Figures(one.slept, one.latency_ns, one.max_latency_ns, 0, _distribution(recording, late))
        futex = user_rows.Futex(number, 0, "", 0, 0, f"{len(entries):,} futexes with little waiting", "")
        yield FutexWaits(futex, one, kind, _LIGHT.format(len(entries)), figures, latency, False)


def _wanted(recording: Recording) -> set[int]:
    """Futexes that are looked at whatever their waiting: who has them is known."""
    return {row.futex for row in recording.table(user_rows.FutexOwnedWait)} | {
        row.futex for row in recording.table(user_rows.FutexHolder)
    }


def _tasks(samples: Iterable[user_rows.FutexSample], waiters: Mapping[int, rows.Waiter]) -> tuple[FutexTask, ...]:
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


def owned_by_stack(samples: Sequence[user_rows.FutexSample], waiters: Mapping[int, rows.Waiter]) -> Mapping[int, int]:
    """By stack of wakes: the waiting for owners who let go there.  Of several stacks, each has its part of the wakes.

    Empty where the wakes of those who were waited for most are not known.
    """
    owned: Counter[int] = Counter()
    wakes: defaultdict[int, Counter[int]] = defaultdict(Counter)
    for sample in samples:
        tid = waiters.get(sample.task, UNKNOWN_WAITER).tid
        if tid and sample.role == "owner":
            owned[tid] += sample.wait_ns
        elif tid and sample.role == "waker" and sample.stack:
            wakes[tid][sample.stack] += sample.waits
    found: Counter[int] = Counter()
    for tid, stacks in wakes.items():
        for stack, count in stacks.items():
            found[stack] += owned[tid] * count // max(stacks.total(), 1)
    return found if found.total() > OWNED * owned.total() else {}


def _heaviest(
    samples: Sequence[user_rows.FutexSample], waiters: Mapping[int, rows.Waiter]
) -> list[tuple[str, int, int, int, int, int]]:
    """(role, stack, samples, waits, ns, ns by owners) of the stacks that matter most in each role."""
    sums: defaultdict[tuple[str, int], list[int]] = defaultdict(lambda: [0, 0, 0])
    for sample in samples:
        if sample.stack:
            figures = sums[sample.role, sample.stack]
            for index, value in enumerate((sample.samples, sample.waits, sample.wait_ns)):
                figures[index] += value
    by_owner = owned_by_stack(samples, waiters)
    found: list[tuple[str, int, int, int, int, int]] = []
    for role in sorted({role for role, _ in sums}):
        owned = by_owner if role == "waker" else {}
        ranked = [(stack, figures) for (of, stack), figures in sums.items() if of == role]
        ranked.sort(key=lambda entry: (-owned.get(entry[0], 0), -entry[1][2], -entry[1][1], entry[0]))
        found += [
            (role, stack, count, waits, ns, owned.get(stack, 0))
            for stack, (count, waits, ns) in ranked[:STACKS_PER_ROLE]
        ]
    return found


def _samples_of(
    entry: FutexWaits, samples: Mapping[int, Sequence[user_rows.FutexSample]]
) -> list[user_rows.FutexSample]:
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
    for row in recording.table(user_rows.FutexHolder):
        if _possible(row):
            found[row.futex].append(HolderLook(row.state, row.call, row.function, row.looks, row.behind))
    for looks in found.values():
        looks.sort(key=lambda look: (-look.looks, look.state, look.call, look.function, look.behind))
    return found


def place_of(one: FutexWaits) -> Place:
    """Where a futex is, and who uses it."""
    users = frozenset({one.futex.tgid, *(task.tgid for task in one.tasks)})
    return Place(one.futex.id, one.futex.tgid, one.futex.address, bool(one.futex.shared), users)


def places_of(found: Iterable[FutexWaits]) -> Places:
    """Where futexes are; a condition variable of glibc has two words, at which threads wait in turns."""
    places = []
    for entry in found:
        place = place_of(entry)
        if entry.make == CONDITION_VARIABLE and entry.words:
            places.append(replace(place, address=place.address ^ GROUP))
        places.append(place)
    return Places(places)


def with_blame(found: Sequence[FutexWaits], window_ns: int = 0) -> tuple[FutexWaits, ...]:
    """The futexes, with what holders of one lock that wait for another one make of it; likewise of full queues."""
    places = places_of(found)
    by_id = {entry.futex.id: entry for entry in found}
    edges = next_stages(found, window_ns)
    for entry in found:
        looks = [(places.behind(place_of(entry), look.behind), look.looks) for look in entry.holders]
        edge = behind_of(looks)
        if edge is not None and entry.nature == LOCK:
            edges[entry.futex.id] = edge
    if not edges:
        return tuple(found)
    # A condition is nothing to blame: whoever waits there has the lock meanwhile.
    at_conditions = {id_: edge for id_, edge in edges.items() if by_id[edge.other].nature != LOCK}
    to_locks = {id_: edge for id_, edge in edges.items() if id_ not in at_conditions}
    blamed = blame({id_: entry.waited_ns for id_, entry in by_id.items()}, to_locks)
    return tuple(
        replace(
            entry,
            behind=None if edge is None else (by_id[edge.other].futex, edge.part),
            before=tuple((by_id[other].futex, ns) for other, ns in one.before),
            blamed_ns=one.ns,
        )
        for entry in found
        for one in (blamed[entry.futex.id],)
        for edge in (one.behind or at_conditions.get(entry.futex.id),)
    )


def _monitor_lines(
    found: Iterable[FutexWaits],
    samples: Mapping[int, Sequence[user_rows.FutexSample]],
    waiters: Mapping[int, rows.Waiter],
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
    samples: Mapping[int, Sequence[user_rows.FutexSample]],
    waiters: Mapping[int, rows.Waiter],
    window_ns: int,
) -> tuple[FutexWaits, ...]:
    """The futexes, the first ones with their tasks and stacks."""
    first = found[:FUTEXES_IN_DETAIL]
    heaviest = {entry.futex.id: _heaviest(_samples_of(entry, samples), waiters) for entry in first}
    frames = recording.stacks(sorted({stack for stacks in heaviest.values() for _, stack, *_ in stacks}))
    holders = _holders(recording)
    monitors = monitors_of(recording, _monitor_lines(first, samples, waiters))
    detailed = [
        replace(
            entry,
            tasks=_tasks(_samples_of(entry, samples), waiters),
            stacks=tuple(
                FutexStack(role, count, waits, ns, frames[stack], owned)
                for role, stack, count, waits, ns, owned in heaviest[entry.futex.id]
                if stack in frames
            ),
            # As its owners: of a lock of several words the inner mutex has them.
            holders=() if entry.words else tuple(holders.get(entry.futex.id, ())[:HOLDERS_PER_FUTEX]),
            monitors=tuple(monitors.get(entry.futex.id, ())),
        )
        for entry in first
    ]
    return with_blame((*detailed, *found[len(detailed) :]), window_ns)


def _word(entry: FutexWaits, samples: Iterable[user_rows.FutexSample], waiters: Mapping[int, rows.Waiter]) -> Word:
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
    found: Sequence[FutexWaits],
    samples: Mapping[int, Sequence[user_rows.FutexSample]],
    waiters: Mapping[int, rows.Waiter],
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
    recording: Recording, found: Sequence[FutexWaits], samples: Mapping[int, Sequence[user_rows.FutexSample]]
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
                sample.samples,
            )
            for sample in samples.get(futex, ())
            if sample.role == role
        )

    looks = _holders(recording)

    def seen(entry: FutexWaits) -> Seen:
        at_holder = looks.get(entry.futex.id, ())
        return Seen(
            entry.futex,
            entry.total,
            calls(entry.futex.id, "waiter"),
            calls(entry.futex.id, "waker"),
            sum(look.looks for look in at_holder),
            sum(look.looks for look in at_holder if look.state == "R"),
        )

    return [seen(entry) for entry in found]


# What the words of one lock have in common; all other figures are summed.
_MOST_OF = frozenset(("max_ns", "max_latency_ns", "waiters", "wakers", "both", "oldest_ns"))
_KEPT = frozenset(("futex", "histogram", "latency_histogram"))


def _summed(totals: Sequence[user_rows.FutexTotal]) -> user_rows.FutexTotal:
    values = {}
    for name in user_rows.FutexTotal._fields:
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


def _awake(entry: FutexWaits, sleeps: int, slept_ns: int) -> FutexWaits:
    """A row without the sleeps there, which ended by their timeout; its histogram has them still."""
    figures = entry.figures
    return replace(
        entry,
        total=without_sleeps(entry.total, sleeps, slept_ns),
        figures=replace(figures, waits=figures.waits - sleeps, wait_ns=figures.wait_ns - slept_ns),
    )


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
        merged = _awake(merged, known.sleeps, known.slept_ns) if known.sleeps else merged
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


def _followed(recording: Recording) -> int:
    """Processes in Go whose goroutines were followed (--go); without its count, one if there were traps at all."""
    counts = {loss.name: loss.events for loss in recording.losses()}
    return counts.get("go_followed", min(counts.get("go_traps", 0), 1))


def _with_makes(
    recording: Recording,
    found: Sequence[FutexWaits],
    samples: Mapping[int, Sequence[user_rows.FutexSample]],
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
    told = {entry.futex.tgid for entry in merged if entry.make in (GO_MUTEX, GO_ONCE, GO_RWMUTEX)}
    unseen = unseen_goroutines(seen, window_ns, _followed(recording))
    unseen = tuple(one for one in unseen if one.tgid not in told)
    comms = {task: who.comm for task, who in waiters.items()}
    hidden = hidden_waits(seen, taken, comms, window_ns)
    return [*merged, *(entry for entry in found if entry.futex.id not in taken)], unseen, hidden


def _buckets(
    recording: Recording, futexes: Mapping[int, user_rows.Futex], locks: Mapping[int, rows.Lock]
) -> tuple[BucketWaits, ...]:
    by_lock: defaultdict[int, list[user_rows.FutexBucket]] = defaultdict(list)
    for row in recording.table(user_rows.FutexBucket):
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


def _blocked(recording: Recording, futexes: Mapping[int, user_rows.Futex]) -> tuple[BlockedThread, ...]:
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
        for row in recording.table(user_rows.FutexOwnedWait)
        if row.futex in futexes and _possible(row)
    ]
    return tuple(sorted(found, key=lambda thread: (-thread.age_ns, thread.tid)))


def of_all_waits(total: user_rows.FutexTotal, samples: Sequence[user_rows.FutexSample]) -> list[user_rows.FutexSample]:
    """The samples of a futex, its waits' so that they stand for all of them: the last ones are in no sample yet."""
    sampled_ns = sum(sample.wait_ns for sample in samples if sample.role == "waiter")
    waits = sum(sample.waits for sample in samples if sample.role == "waiter")
    if not sampled_ns or not total.wait_ns or not waits:
        return list(samples)
    return [
        sample._replace(
            wait_ns=sample.wait_ns * total.wait_ns // sampled_ns, waits=max(sample.waits * total.slept // waits, 1)
        )
        if sample.role == "waiter"
        else sample
        for sample in samples
    ]


def _named(futex: user_rows.Futex) -> user_rows.Futex:
    """The futex by what a program calls it: atomics of no int share a few words of the C++ library's own."""
    return futex._replace(name="a std::atomic") if is_atomics_word(futex.name) else futex


def _length_ns(recording: Recording) -> int:
    meta = recording.meta()
    begin, end = meta.get("begin_ns"), meta.get("end_ns")
    return max(end - begin, 0) if isinstance(begin, int) and isinstance(end, int) else 0


def read_futexes(recording: Recording, locks: Mapping[int, rows.Lock], window_ns: int | None = None) -> Futexes | None:
    """The futexes of the whole run, which lasted window_ns (None: as the recording says); None: nobody looked.

    Raises RecordingError if a histogram is damaged.
    """
    length_ns = _length_ns(recording) if window_ns is None else window_ns
    known = {row.id: _named(row) for row in recording.table(user_rows.Futex)}
    known |= {id_: row._replace(name="sched_yield()") for id_, row in known.items() if row.address == _YIELDS}
    totals = [row for row in recording.table(user_rows.FutexTotal) if row.futex in known and _possible(row)]
    if not totals:
        return Futexes((), ()) if recording.saw_futexes() else None
    totals, light = _apart(totals, _wanted(recording))
    semaphores = {row.futex: row.calls for row in recording.table(user_rows.FutexSemaphore)}
    samples: defaultdict[int, list[user_rows.FutexSample]] = defaultdict(list)
    left_out = {total.futex for total in light}
    for sample in recording.table(user_rows.FutexSample):
        if _possible(sample) and sample.futex not in left_out:
            samples[sample.futex].append(sample)
    found = []
    for total in totals:
        semaphore = is_semaphore(total, semaphores.get(total.futex, 0))
        kind, why = nature(total, semaphore, same_by_samples(samples[total.futex]))
        if kind != NONE and not known[total.futex].tgid:
            kind, why = UNCLEAR, _MANY
        figures = _figures(recording, total.slept, total.wait_ns, total.max_ns, total.histogram)
        latency = _figures(recording, total.slept, total.latency_ns, total.max_latency_ns, total.latency_histogram)
        found.append(FutexWaits(known[total.futex], total, kind, why, figures, latency, semaphore))
    for entry in found:
        samples[entry.futex.id] = of_all_waits(entry.total, samples[entry.futex.id])
    waiters = recording.waiters()
    sums = [entry for entry in found if not entry.futex.tgid]
    words = [entry for entry in found if entry.futex.tgid]
    blocked = _blocked(recording, known)
    idle = kept_idle(blocked)
    words = [replace(entry, nature=CONDITION, why=_KEPT_IDLE) if entry.futex.id in idle else entry for entry in words]
    if light:
        sums += _as_many(recording, light, semaphores, max(known) + 1)
    own = [replace(entry, nature=CONDITION, why=_OWN) for entry in words if entry.futex.comm == _OWN_COMM]
    words = [entry for entry in words if entry.futex.comm != _OWN_COMM]
    words, unseen, hidden = _with_makes(recording, _with_parked(words, samples, waiters), samples, waiters, length_ns)
    found = [*words, *own, *sums]
    idle |= {entry.futex.id for entry in own}
    rank = {nature: place for place, nature in enumerate(NATURES)}
    found.sort(key=lambda entry: (rank[entry.nature], -entry.figures.wait_ns, entry.futex.id))
    return Futexes(
        _in_detail(recording, found, samples, waiters, length_ns),
        _buckets(recording, known, locks),
        (
            *(thread for thread in blocked if thread.futex.id not in idle),
            *blocked_at_monitors(recording, {one.tgid: one.comm for one in known.values()}, length_ns),
        ),
        unseen,
        hidden,
        length_ns,
    )
