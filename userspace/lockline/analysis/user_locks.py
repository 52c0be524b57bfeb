# SPDX-License-Identifier: GPL-2.0-or-later
"""What kind of lock a program's futexes are, by how such locks work (record --futex, docs/futex.md).

By the layout of their words, the functions that wait and wake there, and who wakes whom.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from lockline.base.values import dataclass
from lockline.recording import rows

GIL = "CPython GIL"
PY_MUTEX = "CPython PyMutex"
MONITOR = "Java monitor"
JAVA_LOCK = "java.util.concurrent lock"
GO_MUTEX = "Go sync.Mutex"
CONDITION_VARIABLE = "condition variable"
BEHAVIOUR = "unknown make"

# pthread_cond_t of glibc 2.25 to 2.42: its waiters sleep on one of two words; the mutex behind it in CPython's GIL.
_GROUP = 4
_BEHIND_GROUPS = 8
# The GIL's second condition variable, for who let it go and waits until another thread has it: 88 bytes on.
_SECOND_CONDITION = 88

_MOST = 0.8
_HALF = 0.5
# Threads that wait on average: more than one nearly all the time.  Two that take turns have 1.0.
_SEVERAL = 1.2
# Tasks woken by one call: a lock lets one in, a barrier all.
_ONE_AT_A_TIME = 1.5
_FULL_SET = 96


@dataclass(frozen=True, slots=True)
class Calls:
    """Sampled waits or wakes of one task from one stack: functions from the leaf on, and the files they are in."""

    task: int
    functions: tuple[str, ...]
    modules: tuple[str, ...]
    waits: int
    wait_ns: int


@dataclass(frozen=True, slots=True)
class Seen:
    """A futex, with the evidence of its kind."""

    futex: rows.Futex
    total: rows.FutexTotal
    waits: tuple[Calls, ...] = ()
    wakes: tuple[Calls, ...] = ()


@dataclass(frozen=True, slots=True)
class Recognised:
    """Futexes that are one lock (or one condition variable): words, by id, the first of them names it.

    lock: it is contended.  sure: high or medium.  why: '' where the words' own nature holds.
    """

    words: tuple[int, ...]
    make: str
    lock: bool
    sure: str
    why: str


def _waiting(total_ns: int, window_ns: int) -> float:
    return total_ns / window_ns if window_ns else 0.0


def _is_condition(total: rows.FutexTotal) -> bool:
    return not total.value_2 and not total.owners and bool(total.ops & 1 << 9)


def _by_process(seen: Iterable[Seen]) -> dict[int, dict[int, Seen]]:
    found: defaultdict[int, dict[int, Seen]] = defaultdict(dict)
    for entry in seen:
        if not entry.futex.shared and entry.futex.address and entry.futex.tgid:
            found[entry.futex.tgid][entry.futex.address] = entry
    return found


# --- CPython's global interpreter lock ---

_TAKES_GIL = ("take_gil",)


def _of_gil(entry: Seen) -> str:
    """By what a word is known as the GIL's; '' if it is not."""
    if entry.futex.name.startswith("_PyRuntime"):
        return "_PyRuntime"
    if _share_from(entry.waits, _TAKES_GIL) >= _HALF:
        return "take_gil()"
    return ""


def _in_python(entry: Seen) -> bool:
    return entry.futex.comm.startswith("python") or any(
        "python" in module.rsplit("/", 1)[-1] for calls in entry.waits for module in calls.modules
    )


def _gil_at(words: Mapping[int, Seen], low: int) -> tuple[list[Seen], str]:
    """The words of the GIL whose condition variable has its first word there, and by what it is known."""
    pair = [words[at] for at in (low, low + _GROUP) if at in words]
    if not pair or any(entry.total.timed < _MOST * entry.total.calls for entry in pair):
        return [], ""
    known = next((by for by in map(_of_gil, pair) if by), "")
    mutex = words.get(low + _BEHIND_GROUPS)
    if not known and mutex is not None and mutex.total.value_2 and any(map(_in_python, pair)):
        both = all(entry.total.both >= _HALF * entry.total.waiters > 0 for entry in pair)
        second = range(low + _SECOND_CONDITION, low + _SECOND_CONDITION + _BEHIND_GROUPS + 1, _GROUP)
        known = "layout" if both and any(at in words for at in second) else ""
    if not known:
        return [], ""
    further = (low + _BEHIND_GROUPS, *(low + _SECOND_CONDITION + at for at in (0, _GROUP, _BEHIND_GROUPS)))
    return [*sorted(pair, key=lambda entry: -entry.total.wait_ns), *(words[at] for at in further if at in words)], known


def _gils(processes: Mapping[int, Mapping[int, Seen]], window_ns: int) -> Iterable[Recognised]:
    for words in processes.values():
        for low in sorted({address & ~7 for address in words}):
            found, known = _gil_at(words, low)
            if not found:
                continue
            waits = sum(entry.total.slept for entry in found)
            ended = sum(entry.total.timed_out for entry in found)
            ended_ns = sum(entry.total.timed_out_ns for entry in found)
            waiting = _waiting(sum(entry.total.wait_ns for entry in found), window_ns)
            by = "its words lie as the GIL's do, one condition variable and mutex after the other"
            if known != "layout":
                by = f"known by {known}"
            again = ""
            if ended:
                after = f"{ended_ns / ended / 1e6:.1f} ms"
                again = f"; {ended:,} of {waits:,} waits ended after {after} and were begun again"
            yield Recognised(
                tuple(entry.futex.id for entry in found),
                GIL,
                lock=True,
                sure="medium" if known == "layout" else "high",
                why=f"CPython's GIL ({by}): {waiting:.1f} threads wait for it on average{again}",
            )


# --- Locks known by the functions that wait for them ---


@dataclass(frozen=True, slots=True)
class _Make:
    """A make of lock: functions of those who wait for it, and of waits there that are none (unless).

    peers: only if threads that wait also wake each other, as idle workers come from the same functions.
    """

    name: str
    waits: tuple[str, ...]
    unless: tuple[str, ...] = ()
    peers: bool = False


_MAKES = (
    _Make(
        MONITOR,
        ("ObjectMonitor::enter", "ObjectMonitor::EnterI", "ObjectMonitor::ReenterI", "ObjectSynchronizer::enter"),
    ),
    _Make(
        JAVA_LOCK,
        ("Unsafe_Park",),
        ("ConditionObject", "ConditionNode", "BlockingQueue", "ForkJoinPool", "SynchronousQueue", "awaitNanos"),
        peers=True,
    ),
    _Make(PY_MUTEX, ("PyMutex_Lock", "_PyMutex_Lock", "PyMutex_LockSlow", "_PyMutex_LockTimed"), peers=True),
)


def _mangled(name: str) -> str:
    """As a C++ compiler writes Class::function, in part."""
    return "".join(f"{len(part)}{part}" for part in name.split("::")) if "::" in name else name


def _has(functions: Iterable[str], names: Collection[str]) -> bool:
    forms = {form for name in names for form in (name, _mangled(name))}
    return any(form in function for function in functions for form in forms)


def _share_from(calls: Sequence[Calls], names: Collection[str], unless: Collection[str] = ()) -> float:
    """The share of the sampled time (of wakes: of the samples) from stacks with one of these functions."""
    weights = [(call.wait_ns or call.waits, call) for call in calls]
    every = sum(weight for weight, _ in weights)
    there = sum(weight for weight, call in weights if _has(call.functions, names) and not _has(call.functions, unless))
    return there / every if every else 0.0


def _wake_each_other(words: Sequence[Seen]) -> bool:
    """Whether most wakes of these words come from threads that wait at one of them."""
    waiting = {call.task for entry in words for call in entry.waits}
    wakes = [(call.task in waiting, call.waits) for entry in words for call in entry.wakes]
    return sum(waits for inside, waits in wakes if inside) >= _MOST * sum(waits for _, waits in wakes) > 0


def _made(processes: Mapping[int, Mapping[int, Seen]], window_ns: int) -> Iterable[Recognised]:
    for words in processes.values():
        for make in _MAKES:
            found = [entry for entry in words.values() if _share_from(entry.waits, make.waits, make.unless) >= _HALF]
            found.sort(key=lambda entry: (-entry.total.wait_ns, entry.futex.id))
            waiting = _waiting(sum(entry.total.wait_ns for entry in found), window_ns)
            if not found or (make.peers and (waiting < _SEVERAL or not _wake_each_other(found))):
                continue
            why = f"threads wait in {make.waits[0]}(): {waiting:.1f} on average"
            if make.peers:
                why += ", and are woken by threads that wait there too"
            yield Recognised(
                tuple(entry.futex.id for entry in found),
                make.name,
                lock=True,
                sure="medium" if make.peers else "high",
                why=why,
            )


# enum futex_op of bpf/futex.h: a goroutine waited for a mutex; one let go of a mutex that others waited for.
_GO_OPS = 1 << 24 | 1 << 25


def _goroutines(processes: Mapping[int, Mapping[int, Seen]], window_ns: int) -> Iterable[Recognised]:
    """Mutexes that goroutines were seen to wait for, one by one (record --futex --go)."""
    for words in processes.values():
        for entry in words.values():
            if entry.total.ops & _GO_OPS and entry.total.slept:
                waiting = _waiting(entry.total.wait_ns, window_ns)
                yield Recognised(
                    (entry.futex.id,),
                    GO_MUTEX,
                    lock=True,
                    sure="high",
                    why=f"Go's runtime parks goroutines for it: {waiting:.1f} wait for it on average",
                )


_GO_UNLOCKS = ("sync.(*Mutex).unlockSlow", "sync.(*RWMutex).", "internal/sync.(*Mutex).unlockSlow")


def _go(processes: Mapping[int, Mapping[int, Seen]], window_ns: int) -> Iterable[Recognised]:
    """Go's goroutines wait without the kernel; what wakes an idle thread tells of them: a mutex that is let go.

    Not where the goroutines themselves were followed: their waits are not counted twice.
    """
    for words in processes.values():
        if any(entry.total.ops & _GO_OPS for entry in words.values()):
            continue
        found = [entry for entry in words.values() if _share_from(entry.wakes, _GO_UNLOCKS) >= _HALF]
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


# Waits for a mutex below these are of threads that come out of a condition variable.
_OUT_OF_CONDITION = (
    "__pthread_mutex_cond_lock",
    "pthread_cond_wait",
    "pthread_cond_timedwait",
    "pthread_cond_clockwait",
)


def _woken(processes: Mapping[int, Mapping[int, Seen]], window_ns: int) -> Iterable[Recognised]:
    """Mutexes of queues: idle threads that are woken while whoever wakes them still has the mutex."""
    for words in processes.values():
        for entry in words.values():
            waiting = _waiting(entry.total.wait_ns, window_ns)
            # By number: one waker that loses its CPU makes one wait long.
            there = sum(call.waits for call in entry.waits if _has(call.functions, _OUT_OF_CONDITION))
            every = sum(call.waits for call in entry.waits)
            if not entry.total.value_2 or waiting >= _HALF or not every or there < _MOST * every:
                continue
            yield Recognised(
                (entry.futex.id,),
                CONDITION_VARIABLE,
                lock=False,
                sure="medium",
                why="idle threads that wait in pthread_cond_wait() are woken while the waker still has the mutex: "
                f"{waiting:.2f} wait for it on average",
            )


# --- Of any make ---


def _pairs(processes: Mapping[int, Mapping[int, Seen]]) -> Iterable[tuple[Seen, ...]]:
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


def _most(words: Sequence[Seen], figure: str) -> int:
    return max(int(getattr(entry.total, figure)) for entry in words)


def _sum(words: Sequence[Seen], figure: str) -> int:
    return sum(int(getattr(entry.total, figure)) for entry in words)


def behaves_as_lock(words: Sequence[Seen], window_ns: int) -> str:
    """Why the threads at these words contend for a lock of whatever make; '' if something speaks against it.

    More than one waits nearly all the time, whoever wakes is one of those who wait, a wake lets one in, and most waits
    end by a wake.  A dispatcher does not wait where its workers do, a barrier lets all go at once, polls time out.
    """
    waiters, wakers, both = (_most(words, name) for name in ("waiters", "wakers", "both"))
    calls = _sum(words, "wakes") - _sum(words, "wakes_empty")
    waiting = _waiting(_sum(words, "wait_ns"), window_ns)
    if (
        waiters < 2
        or max(waiters, wakers) > _FULL_SET
        or both < _MOST * max(wakers, 1)
        or both < _HALF * waiters
        or waiting < _SEVERAL
        or not calls
        or _sum(words, "tasks_woken") > _ONE_AT_A_TIME * calls
        or _sum(words, "timed_out") >= _HALF * max(_sum(words, "slept"), 1)
    ):
        return ""
    return (
        f"{waiting:.1f} threads wait on average, and those that wait wake each other, one at a time: a lock by its"
        " behaviour"
    )


def _others(
    processes: Mapping[int, Mapping[int, Seen]], unclear: Collection[int], window_ns: int
) -> Iterable[Recognised]:
    for words in _pairs(processes):
        why = behaves_as_lock(words, window_ns) if any(entry.futex.id in unclear for entry in words) else ""
        ids = tuple(entry.futex.id for entry in words)
        if why:
            yield Recognised(ids, BEHAVIOUR, lock=True, sure="medium", why=why)
        elif len(words) > 1:
            yield Recognised(ids, CONDITION_VARIABLE, lock=False, sure="high", why="")


def recognise(seen: Sequence[Seen], unclear: Collection[int], window_ns: int) -> tuple[Recognised, ...]:
    """The locks that these futexes are, each futex in one of them at most.

    unclear: ids of those whose words and operations alone do not tell.  window_ns: the recording's length.
    """
    processes = _by_process(seen)
    found: list[Recognised] = []
    for step in (
        _goroutines(processes, window_ns),
        _gils(processes, window_ns),
        _made(processes, window_ns),
        _go(processes, window_ns),
        _woken(processes, window_ns),
        _others(processes, unclear, window_ns),
    ):
        taken = {word for one in found for word in one.words}
        found += [one for one in step if taken.isdisjoint(one.words)]
    return tuple(found)
