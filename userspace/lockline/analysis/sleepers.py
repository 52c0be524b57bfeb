# SPDX-License-Identifier: GPL-2.0-or-later
"""What threads slept in at some moments of a recording: waits that pass no tracepoint of locks."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from lockline.analysis.sleep_functions import (
    Kind,
    is_input,
    is_nap,
    kind_of,
    other_of,
    waits_for_futex,
)
from lockline.base.values import dataclass
from lockline.recording import user_rows
from lockline.recording.reader import MetaValue, Recording

FUTEX, INPUT, NAP = "futex", "input", "nap"
# A process that may wait for its own locks: threads that sleep in futexes, and that run meanwhile, on average.  Where
# nothing runs a pool is idle, and nobody holds a lock for long without running or sleeping elsewhere.
_SEVERAL = 1.5
_BUSY = 0.3
# What a thread sleeps in that /proc/locks names (fs/locks.c, since 4.11).
_WAITS_FOR_FILE = "locks_lock_inode_wait"
# Of the looks at a thread that waits all the time: one may meet it at the begin of its wait, or at its end.
_MISSED = 0.05


def is_at_every_look(threads: float) -> bool:
    """Whether so many threads on average are one that was met at nearly every look."""
    return abs(threads - 1) <= _MISSED


@dataclass(frozen=True, slots=True)
class Asleep:
    """Threads of one process that sleep in one way, on average.

    kind: "file-lock", "semaphore", "futex" (a lock of the program, or work), "input" (a client, input, a child), "nap"
    (a time that they choose), or "other"; what: of "other", in words, '' if nobody knows.
    """

    comm: str
    tgid: int
    kind: str
    function: str
    what: str
    threads: float


@dataclass(frozen=True, slots=True)
class InFutexes:
    """A process that is busy, and of which several threads sleep in futexes: for a lock of its own, or for work.

    threads: that sleep there, on_cpu: that ran or wanted a CPU, on average.
    """

    comm: str
    tgid: int
    threads: float
    on_cpu: float


@dataclass(frozen=True, slots=True)
class FileLock:
    """A process that waits for a lock on a file.  looks: how often it was seen; holder: 0 if it is not known."""

    file: str
    waiter: int
    waiter_comm: str
    holder: int
    holder_comm: str
    looks: int


@dataclass(frozen=True, slots=True)
class Sleepers:
    """looks: moments at which threads were looked at.  threads: there were, on average; looked_at: of these.

    processes: name and id of each that was seen.  asleep: most threads first.  on_cpu: threads that ran or wanted a
    CPU, on average.  cpus: that the chosen processes used on average, None where all tasks were recorded, or single
    threads.  in_futexes: most threads there first.
    """

    looks: int
    threads: float
    looked_at: float
    processes: tuple[tuple[str, int], ...]
    asleep: tuple[Asleep, ...]
    on_cpu: float
    cpus: float | None
    file_locks: tuple[FileLock, ...]
    in_futexes: tuple[InFutexes, ...] = ()

    def waiting(self, *kinds: str) -> float:
        """Threads that sleep in one of these ways, on average."""
        return sum(one.threads for one in self.asleep if one.kind in kinds)

    def queued_alone(self) -> float:
        """Threads that wait for a file's lock at every look, with nobody else: jobs that start one after the other.

        That wait is meant: who takes such a lock wants to run when the other one has ended.  Where several wait for one
        file, or a wait ends and another one begins, they contend.
        """
        for_files = [one for one in self.asleep if one.kind == "file-lock"]
        waiters: defaultdict[str, set[int]] = defaultdict(set)
        for lock in self.file_locks:
            waiters[lock.file].add(lock.waiter)

        def is_alone(tgid: int) -> bool:
            files = [of_file for of_file in waiters.values() if tgid in of_file]
            return all(len(of_file) == 1 for of_file in files) if files else len(for_files) == 1

        return sum(one.threads for one in for_files if is_at_every_look(one.threads) and is_alone(one.tgid))


def _kind(function: str) -> tuple[str, str]:
    """How a thread sleeps, and in words what it waits for where that is neither a lock nor work."""
    lock: Kind | None = kind_of(function)
    if lock is not None:
        return lock, ""
    if waits_for_futex(function):
        return FUTEX, ""
    if is_nap(function):
        return NAP, ""
    return (INPUT, "") if is_input(function) else ("other", other_of(function))


def _with_waiters(
    asleep: Sequence[Asleep], waits: Sequence[user_rows.FileLockWait], reads: int, at_every_look: bool
) -> tuple[Asleep, ...]:
    """Where some of the threads were looked at: the processes that /proc/locks names, as often as it named them.

    It names each once for each holder, however many of its threads wait.  at_every_look: it was read so often, so that
    it has named all; but none of other namespaces, nor who waits for a lock of an open file.
    """
    seen: Counter[tuple[str, int]] = Counter()
    for row in waits:
        seen[row.waiter_comm, row.waiter] += row.seen
    named = {
        tgid: Asleep(comm, tgid, "file-lock", _WAITS_FOR_FILE, "", min(1.0, times / reads))
        for (comm, tgid), times in seen.items()
    }
    if not named:
        return tuple(asleep)
    others = [one for one in asleep if one.kind != "file-lock" or not (at_every_look or one.tgid in named)]
    return tuple(sorted((*others, *named.values()), key=lambda one: (-one.threads, one.tgid, one.function)))


def _number(meta: Mapping[str, MetaValue], name: str) -> int:
    value = meta.get(name)
    return value if isinstance(value, int) and 0 <= value < 1 << 62 else 0


def _asleep(sleepers: Sequence[user_rows.Sleeper], each: float) -> tuple[Asleep, ...]:
    """By process and way; the function is the one of most threads."""
    seen: defaultdict[tuple[str, int, str, str], Counter[str]] = defaultdict(Counter)
    for row in sleepers:
        kind, what = _kind(row.function)
        seen[row.comm, row.tgid, kind, what if kind != "other" or what else row.function][row.function] += row.seen
    made = [
        Asleep(comm, tgid, kind, functions.most_common(1)[0][0], what, functions.total() * each)
        for (comm, tgid, kind, what), functions in seen.items()
    ]
    return tuple(sorted(made, key=lambda one: (-one.threads, one.tgid, one.function)))


def _in_futexes(sleepers: Sequence[user_rows.Sleeper], asleep: Sequence[Asleep], each: float) -> tuple[InFutexes, ...]:
    on_cpu = {(row.comm, row.tgid): row.seen * each for row in sleepers if not row.function}
    found = [
        InFutexes(one.comm, one.tgid, one.threads, on_cpu.get((one.comm, one.tgid), 0.0))
        for one in asleep
        if one.kind == FUTEX and one.tgid and one.threads >= _SEVERAL
    ]
    return tuple(one for one in found if one.on_cpu >= _BUSY)


def read_sleepers(recording: Recording, meta: Mapping[str, MetaValue]) -> Sleepers | None:
    """None if nobody looked."""
    looks, looked_at = _number(meta, "sleep_looks"), _number(meta, "sleep_threads_looked_at")
    if not looks or not looked_at:
        return None
    threads = max(looked_at, _number(meta, "sleep_threads"))
    sleepers = [row for row in recording.table(user_rows.Sleeper) if row.seen > 0]
    # Those that were looked at stand for all.
    each = threads / looked_at / looks
    span_ns = _number(meta, "chosen_cpu_span_ns")
    asleep = _asleep([row for row in sleepers if row.function], each)
    waits = [row for row in recording.table(user_rows.FileLockWait, order="seen DESC") if row.seen > 0]
    reads = _number(meta, "file_lock_reads")
    if reads and threads > looked_at:
        asleep = _with_waiters(asleep, waits, reads, reads >= looks)
    seen = {(row.comm, row.tgid) for row in sleepers} | {(one.comm, one.tgid) for one in asleep}
    return Sleepers(
        looks=looks,
        threads=threads / looks,
        looked_at=looked_at / looks,
        processes=tuple(sorted((one for one in seen if one[1]), key=lambda one: one[1])),
        asleep=asleep,
        on_cpu=sum(row.seen for row in sleepers if not row.function) * each,
        cpus=_number(meta, "chosen_cpu_ns") / span_ns if span_ns else None,
        file_locks=tuple(FileLock(*row) for row in waits),
        in_futexes=_in_futexes(sleepers, asleep, each),
    )
