# SPDX-License-Identifier: GPL-2.0-or-later
"""What several rules look at."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from lockline.analysis.answer import NEGLIGIBLE_USER_SHARE
from lockline.analysis.findings import Fact, Function, Measure, Process, Remedy, Task, Text, fact, ns, part, remedy
from lockline.analysis.model import Holder, LockWaits, Report
from lockline.analysis.user_space.c_library_locks import CLibraryLock, c_library_lock
from lockline.analysis.user_space.futex_waits import FutexWaits
from lockline.analysis.user_space.library_locks import PYTHON_MAKES, LibraryLock, library_lock
from lockline.analysis.user_space.user_evidence import (
    BEHAVIOUR,
    GO_CHANNEL,
    GO_COND,
    GO_DATABASE,
    GO_FLIGHT,
    GO_MUTEX,
    GO_ONCE,
    GO_POOL,
    GO_RWMUTEX,
    GO_SEMAPHORE,
    GO_WEIGHTED,
)
from lockline.recording.rows import Frame
from lockline.recording.stacks import is_lock_internal, without_internals

US = 1_000
MS = 1_000_000

# Below this share of the window (one waiter all the time is 1.0) a lock holds nobody back.
WORTH_TELLING = 0.01
# The same of a lock in user space: a tenth of one thread's time.
USER_WORTH_TELLING = NEGLIGIBLE_USER_SHARE
# What is said of locks that goroutines wait for, by the kind of lock.
OF_GOROUTINES = {
    GO_MUTEX: "hot-go-mutex",
    GO_ONCE: "slow-go-once",
    GO_RWMUTEX: "hot-go-rwmutex",
    GO_CHANNEL: "hot-go-channel",
    GO_COND: "hot-go-cond",
    GO_POOL: "hot-go-pool",
    GO_SEMAPHORE: "hot-go-semaphore",
    GO_FLIGHT: "hot-go-flight",
    GO_DATABASE: "hot-go-database",
    GO_WEIGHTED: "hot-go-weighted",
}
# About waiting in user space, which is no part of the locks' in the kernel.
USER_RULES = (
    "barrier-imbalance",
    "gil-bound",
    "gvl-bound",
    "master-lock-bound",
    "held-over-sleep",
    "hot-monitor",
    "parked-lock",
    "thundering-herd",
    "user-lock",
    "wake-storm",
)
# Calls that wake nobody, in a second, and their part of all: some are made where a waiter has just gone.
_EMPTY_CALLS = 20_000
_IN_VAIN = 0.5
# What shares are of.
THE_WINDOW = "the window"
ALL_WAITING = "all lock waiting"
# Waits that a statement about their distribution needs.
ENOUGH_WAITS = 20

# Of all waiting: what a lock has that is the main cause, or one of the main ones; and what a second one has.
MAIN_PART = 0.25
SECOND_PART = 0.1


def share(report: Report, wait_ns: int) -> float:
    """Wait time as a share of the window; 0 without a window."""
    return report.window.share(wait_ns) or 0.0


def worth_telling(report: Report, locks: Iterable[LockWaits]) -> list[LockWaits]:
    """Locks with enough waiting, and enough waits, to speak of."""
    length = report.window.duration_ns
    return [
        lock
        for lock in locks
        if lock.figures.waits >= ENOUGH_WAITS and length and lock.figures.wait_ns / length >= WORTH_TELLING
    ]


def user_waits(report: Report, waits: int, wait_ns: int, p99_ns: float | None = None, who: str = "threads") -> Fact:
    """How many waits for a program's lock, how long, and how many threads, or goroutines, that keeps waiting."""
    return fact(
        "user-waits",
        waits=Measure(waits, "waits"),
        average=ns(wait_ns / waits),
        part=part(share(report, wait_ns), THE_WINDOW),
        p99=None if p99_ns is None else ns(p99_ns),
        who=Text(who),
    )


def library_of(futex: FutexWaits) -> CLibraryLock | LibraryLock | None:
    """The library whose own lock it is, if it is one's."""
    if futex.make in PYTHON_MAKES:
        return library_lock(futex)
    return (c_library_lock(futex) or library_lock(futex)) if futex.make in ("", BEHAVIOUR) else None


def is_made_by_others(futex: FutexWaits) -> bool:
    """Whether a lock is of a library or of a run time: the program cannot change what it does."""
    return futex.make not in ("", BEHAVIOUR) or library_of(futex) is not None


def empty_wakes(report: Report, futex: FutexWaits) -> Fact | None:
    """How many calls wake nobody, where that is most of them, and costs something."""
    total, seconds = futex.total, report.window.duration_ns / 1e9
    if not seconds or total.wakes_empty < _EMPTY_CALLS * seconds or total.wakes_empty < _IN_VAIN * total.wakes:
        return None
    rate = Measure(round(total.wakes_empty / seconds), "calls")
    return fact("empty-wakes", rate=rate, part=part(total.wakes_empty / total.wakes, "the calls"))


def stands_out(report: Report, lock: LockWaits, wait_ns: int) -> bool:
    """Whether so much waiting for a lock is a cause of its own: a quarter of all.

    Behind another cause one waiter all the time is enough, with a tenth of all.  Readers and writers of one lock are
    one cause: the side that waits less is no second one.
    """
    main_ns = MAIN_PART * report.totals.wait_ns
    if wait_ns >= main_ns:
        return True
    if share(report, wait_ns) < 1 or wait_ns < SECOND_PART * report.totals.wait_ns:
        return False
    more = [other for other in report.locks if other.figures.wait_ns > lock.figures.wait_ns]
    behind_another = any(other.figures.wait_ns >= main_ns for other in more)
    return behind_another and not any(other.name == lock.name and other.kind != lock.kind for other in more)


def callers(frames: Sequence[Frame]) -> tuple[str, ...]:
    """Functions of a stack from the lock's user on, without compiler suffixes."""
    return tuple(frame.symbol.partition(".")[0] for frame in without_internals(frames) if frame.symbol)


def heaviest_caller(lock: LockWaits) -> tuple[str, float] | None:
    """The function that most of the lock's sampled waiting comes from, and its part of it."""
    by_function: dict[str, int] = {}
    for stack in lock.stacks:
        functions = callers(stack.frames)
        if functions and not all(map(is_lock_internal, stack.frames)):
            by_function[functions[0]] = by_function.get(functions[0], 0) + stack.wait_ns
    if not by_function or not lock.sampled_ns:
        return None
    function, wait_ns = max(by_function.items(), key=lambda item: (item[1], item[0]))
    return function, wait_ns / lock.sampled_ns


def from_caller(lock: LockWaits) -> list[Fact]:
    """Where most of the lock's sampled waiting comes from, if that is known."""
    caller = heaviest_caller(lock)
    if caller is None:
        return []
    return [fact("from-caller", part=part(caller[1], "the sampled waiting"), function=Function(caller[0]))]


def _most_waiting(report: Report, name: str, kind: str) -> tuple[Process, float] | None:
    """The process that waits most for a lock, and its part of the sampled waiting."""
    by_process: defaultdict[tuple[int, str], int] = defaultdict(int)
    for task in report.tasks:
        if (task.lock, task.kind) == (name, kind):
            by_process[task.tgid, task.comm] += task.lock_ns
    total = sum(by_process.values())
    if not total:
        return None
    (tgid, comm), most = max(by_process.items(), key=lambda item: (item[1], item[0]))
    return Process(comm, tgid), most / total


def who_waits(report: Report, lock: LockWaits) -> list[Fact]:
    """The process that waits most for the lock."""
    most = _most_waiting(report, lock.name, lock.kind)
    return [fact("waited-by", process=most[0], part=part(most[1], "the sampled waiting"))] if most else []


def whose_memory(report: Report, lock: LockWaits) -> Process | None:
    """The process whose mappings the lock guards, if it is such a lock, and the process waits too."""
    word, _, number = lock.worst_instance.partition(" ")
    if word != "pid" or not number.isdigit() or not lock.name.startswith("mm_struct."):
        return None
    names = {task.tid == task.tgid: task.comm for task in report.tasks if task.tgid == int(number)}
    comm = names.get(True) or names.get(False)
    return Process(comm, int(number)) if comm else None


def writers(report: Report, lock: LockWaits) -> list[Fact]:
    """Of readers who wait: who takes the lock for writing, as seen waiting for it.  Readers never wait for readers."""
    if not lock.kind.endswith(":R"):
        return []
    most = _most_waiting(report, lock.name, lock.kind.removesuffix("R") + "W")
    return [fact("written-by", process=most[0], part=part(most[1], "the sampled waiting"))] if most else []


def _other_side(report: Report, lock: LockWaits) -> LockWaits | None:
    """The waits for the lock in the other way: of readers for a writer's, and the reverse."""
    family, _, side = lock.kind.partition(":")
    kind = f"{family}:{ {'R': 'W', 'W': 'R'}.get(side, '') }"
    same = (one for one in report.locks if (one.name, one.kind) == (lock.name, kind))
    return next((one for one in same if lock.worst_instance in ("", one.worst_instance)), None)


def _how(lock: LockWaits) -> Text:
    return Text("reading" if lock.kind.endswith(":R") else "writing")


def other_takers(report: Report, lock: LockWaits) -> list[Fact]:
    """Where one thread alone waits: who takes the lock in the other way.  A thread does not wait for itself."""
    waiting = {task.tid for task in report.tasks if (task.lock, task.kind) == (lock.name, lock.kind)}
    other = _other_side(report, lock) if len(waiting) == 1 else None
    most = _most_waiting(report, lock.name, other.kind) if other is not None else None
    caller = heaviest_caller(other) if other is not None else None
    if other is None or most is None or caller is None:
        return []
    return [fact("others-take", process=most[0], how=_how(other), function=Function(caller[0]))]


def other_side_in(report: Report, lock: LockWaits) -> list[Fact]:
    """In which function most of the waiting for the lock in the other way is."""
    other = _other_side(report, lock)
    caller = heaviest_caller(other) if other is not None else None
    if other is None or caller is None:
        return []
    share_of_it = part(caller[1], "the sampled waiting")
    return [fact("other-side-in", part=share_of_it, how=_how(other), function=Function(caller[0]))]


# Of the waits of the side that a lock is judged by: a visitor that waits less often hardly ever has it.
VISITS = 0.25


def visitor(report: Report, lock: LockWaits) -> list[Fact]:
    """Of a process' own lock: which other process takes it in the other way, and where.

    Nobody but that process needs its lock: others only look at it, or change it from outside.
    """
    whose, other = whose_memory(report, lock), _other_side(report, lock)
    if whose is None or other is None or other.figures.waits < VISITS * lock.figures.waits:
        return []
    most, caller = _most_waiting(report, lock.name, other.kind), heaviest_caller(other)
    if most is None or caller is None or most[0].tgid == whose.tgid:
        return []
    return [fact("visited-by", process=most[0], how=_how(other), function=Function(caller[0]))]


def which_file(lock: LockWaits) -> list[Fact]:
    """How to find the file of an inode's lock."""
    words = lock.worst_instance.split()
    if len(words) < 2 or words[0] != "inode" or not words[1].isdigit():
        return []
    where = f", a directory on {words[2]}" if len(words) > 2 else ""
    return [fact("inode-file", command=Text(f"find MOUNT -xdev -inum {words[1]}"), where=Text(where))]


def who(holder: Holder) -> Task:
    """A holder; of readers, and of tasks that are not known, without a tid."""
    if holder.kind == "task":
        return Task(holder.comm, holder.tid, holder.container)
    return Task("readers" if holder.kind == "readers" else "", None)


def released_by_function(lock: LockWaits) -> dict[str, tuple[int, int]]:
    """What the holders that released in each function caused, in ns, and their contended releases."""
    found: dict[str, tuple[int, int]] = {}
    for holder in lock.holders:
        for stack in holder.stacks:
            functions = callers(stack.frames)
            if functions:
                ns, releases = found.get(functions[0], (0, 0))
                found[functions[0]] = ns + stack.wait_ns, releases + stack.waits
    return found


def record_again(report: Report, option: str, what: str) -> list[Remedy]:
    """The advice to record with an option, if this recording was made without it and could have had it."""
    signals = {"--holders": "spinlock holders", "--holds": "spinlock hold times"}
    for probe in report.probes:
        if probe.signal == signals.get(option, option) and probe.state == "off":
            return [remedy(what)]
    return []
