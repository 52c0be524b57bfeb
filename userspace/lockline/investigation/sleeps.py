# SPDX-License-Identifier: GPL-2.0-or-later
"""Waits that no lock tracepoint and no futex shows: locks of files, semaphores of System V, and what is no lock.

The kernel function that a thread sleeps in (/proc/PID/wchan) says what it waits for; who has it is in /proc/locks, or
is who changed the semaphore last.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from lockline.analysis.sleep_functions import Kind, is_slow, kind_of, other_of
from lockline.analysis.sleepers import is_at_every_look
from lockline.base.values import dataclass
from lockline.investigation.sessions import SessionWaits
from lockline.investigation.stops import Standing, Stop

# What n looks that see nothing leave possible: 3/n, with 95 % (1 - 0.05 ** (1 / n)).
_MISSED = 3.0
_CANNOT_STOP = "a device, or another task: no signal ends this sleep"
_TOKENS = "a byte in a pipe that they write to as well: a token, as of make's jobserver, or work"
# SQLite's bytes PENDING to the last one of SHARED, and the first of SHARED (os.h); in a file -shm WAL_WRITE_LOCK
# (wal.c, UNIX_SHM_BASE).
_SQLITE = range(1 << 30, (1 << 30) + 512)
_SQLITE_SHARED = (1 << 30) + 2
_SQLITE_LOG = 120
# Calls whose first argument is the file, and those whose is the set of semaphores: of x86-64 and of arm64.
FILE_CALLS = frozenset({73, 72, 32, 25})
SEMAPHORE_CALLS = frozenset({65, 220, 193, 192})


@dataclass(frozen=True, slots=True)
class Sleeper:
    """A thread at one moment that sleeps in a function worth telling.

    name: of the file or the semaphore that it waits for, '' if not known.  inode: of that file, else 0.  semaphore: its
    set and its number there, if it is one and both are known.  cannot_stop: no signal ends this sleep.  tracer: the
    process that has stopped it, and its name; 0: none.  pipe: the one that it reads, whose other end it has as well; 0:
    it is in none.
    """

    tgid: int
    tid: int
    comm: str
    function: str
    name: str = ""
    inode: int = 0
    semaphore: tuple[int, int] | None = None
    cannot_stop: bool = False
    tracer: tuple[int, str] = (0, "")
    pipe: int = 0


@dataclass(frozen=True, slots=True)
class LockEntry:
    """A line of /proc/locks.  lock: its number, the same for those who wait for it.  pid: 0 or less: not known.

    writes: no other may have it at the same time.  begin: its first byte in the file.
    """

    lock: int
    waits: bool
    pid: int
    file: str  # MAJOR:MINOR:INODE, the device in hexadecimal
    writes: bool = True
    begin: int = 0


@dataclass(frozen=True, slots=True)
class Held:
    """What was found out at one moment about a lock that threads wait for.

    name: of the file or semaphore.  waiters: thread groups.  holder: 0: not known; holder_in: the kernel function that
    its only thread sleeps in, '' if it runs or is one of several.
    """

    kind: Kind
    name: str
    waiters: tuple[int, ...]
    holder: int
    holder_comm: str = ""
    holder_in: str = ""


@dataclass(frozen=True, slots=True)
class Blocked:
    """A lock of a file, or a semaphore, that threads wait for.

    name: '': which one is not known.  waiters: threads on average.  known: looks at which somebody was seen to have
    it; holder: who had it at most of them (holder_looks).  refused: times a second that each of these threads asks
    for it without waiting, does not get it, and sleeps for a moment; 0: they wait.  alone: one process waits for a
    file, at every look: it may just start when another one has ended, as jobs do that share a lock file.
    """

    kind: Kind
    name: str
    function: str
    waiters: float
    comm: str
    tgid: int
    known: int = 0
    holder: int = 0
    holder_comm: str = ""
    holder_looks: int = 0
    holder_in: str = ""
    refused: float = 0.0
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Asker:
    """A thread that asks for a lock of a file again and again, and sleeps for a moment if it does not get it.

    name: of the file.  asleep: part of the looks at which it slept for a moment.  refused and naps: times a second.
    """

    tgid: int
    comm: str
    name: str
    function: str
    asleep: float
    refused: float
    naps: float


@dataclass(frozen=True, slots=True)
class OwnLock:
    """A file that a process locks and unlocks, some of whose threads nap meanwhile: they may wait for one another.

    The kernel refuses no lock of a process to its own threads: a library that knows this asks for none.  written: part
    of the looks at which it had the lock for itself alone.  database: it is SQLite's lock of a database.
    """

    comm: str
    tgid: int
    name: str
    written: float = 0.0
    database: bool = False


# So many of them are shown, those with most threads.
_OTHERS = 5


@dataclass(frozen=True, slots=True)
class OtherSleep:
    """Threads that sleep for what is no lock, on average."""

    function: str
    what: str
    threads: float


@dataclass(frozen=True, slots=True)
class Naps:
    """Threads of a process that sleep for a moment, over and over.  threads: so many; rate: naps of each a second.

    function: of the program, that has one of them sleep; '' if it is not known.
    """

    comm: str
    tgid: int
    threads: int
    rate: float
    function: str = ""


@dataclass(frozen=True, slots=True)
class Sleeps:
    """What the looks at the target's threads saw.  threads: looked at each time; all_of_them: no other was left out.

    at_futex: threads that slept at a futex, summed up over the looks; None: not counted.  unnamed: processes with more
    mappings than could be paid for, so that no function of theirs was named.  nameless: threads of others that waited
    for one futex all the time, on whose stacks no function has a name.  sessions: of a database, that wait for its
    locks.
    """

    looks: int
    threads: int
    all_of_them: bool
    blocked: tuple[Blocked, ...]
    others: tuple[OtherSleep, ...]
    naps: tuple[Naps, ...] = ()
    stops: tuple[Stop, ...] = ()
    standing: tuple[Standing, ...] = ()
    at_futex: int | None = None
    unnamed: int = 0
    nameless: int = 0
    own: tuple[OwnLock, ...] = ()
    sessions: SessionWaits | None = None

    @property
    def futex_sleepers(self) -> float:
        """Threads that sleep at futexes on average, of those that were looked at."""
        return (self.at_futex or 0) / self.looks if self.looks else 0.0

    @property
    def slow(self) -> OtherSleep | None:
        """What is no lock, and has most threads sleep as it is slow or short; its function: where most of them do."""
        threads: defaultdict[str, float] = defaultdict(float)
        functions: dict[str, str] = {}
        # Those with most threads come first.
        for one in self.others:
            if is_slow(one.function):
                threads[one.what] += one.threads
                functions.setdefault(one.what, one.function)
        if not threads:
            return None
        most = max(threads, key=threads.__getitem__)
        return OtherSleep(functions[most], most, threads[most])

    @property
    def most_at_futex(self) -> float | None:
        """Threads that sleep at futexes on average, at most: so many more may have been missed in 1 of 20 cases.

        None: that was not counted, or some threads were left out.
        """
        if self.at_futex is None or not self.all_of_them or not self.looks or not self.threads:
            return None
        return (self.at_futex + _MISSED) / self.looks


def parse_locks(text: str) -> tuple[LockEntry, ...]:
    """The lines of /proc/locks: "1: -> FLOCK  ADVISORY  WRITE 15574 fe:00:10002872 0 EOF"."""
    found = []
    for line in text.splitlines():
        words = line.split()
        waits = len(words) > 1 and words[1] == "->"
        rest = words[2:] if waits else words[1:]
        # A lease, or a kind to come: the process and the file stand before the range all the same.
        if len(rest) < 6 or not words[0][:-1].isdigit() or rest[4].count(":") != 2:
            continue
        try:
            pid = int(rest[3])
        except ValueError:
            continue
        found.append(
            LockEntry(
                int(words[0][:-1]),
                waits,
                pid,
                rest[4],
                rest[2] != "READ",
                int(rest[5]) if rest[5].isascii() and rest[5].isdigit() else 0,
            )
        )
    return tuple(found)


def parse_call(text: str) -> tuple[int, ...]:
    """Of /proc/PID/syscall: number and arguments; () if the thread is in none, or runs."""
    words = text.split()
    if len(words) < 7 or not words[0].isdigit():
        return ()
    try:
        return (int(words[0]), *(int(word, 16) for word in words[1:7]))
    except ValueError:
        return ()


def waited_for(entries: Sequence[LockEntry]) -> tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...]:
    """Of the locks that somebody waits for: the file, who has it (several read), and who waits."""
    by_lock: defaultdict[int, list[LockEntry]] = defaultdict(list)
    for entry in entries:
        by_lock[entry.lock].append(entry)
    holders: defaultdict[str, list[int]] = defaultdict(list)
    waiters: defaultdict[str, list[int]] = defaultdict(list)
    for group in by_lock.values():
        waiting = [entry.pid for entry in group if entry.waits]
        if waiting:
            holders[group[0].file] += [entry.pid for entry in group if not entry.waits and entry.pid > 0]
            waiters[group[0].file] += waiting
    return tuple((file, tuple(holders[file]), tuple(waiting)) for file, waiting in waiters.items())


def _by_file(entries: Iterable[LockEntry]) -> dict[str, list[LockEntry]]:
    found: defaultdict[str, list[LockEntry]] = defaultdict(list)
    for entry in entries:
        found[entry.file].append(entry)
    return found


def candidates(entries: Sequence[LockEntry]) -> dict[str, tuple[int, ...]]:
    """Of each locked file who has it, -1: not known.  Who has it alone comes before those who read it together."""
    return {
        file: tuple(dict.fromkeys(one.pid for one in group if one.writes or not any(two.writes for two in group)))
        for file, group in _by_file(one for one in entries if not one.waits).items()
    }


def locks_of_their_own(
    looks: Sequence[Sequence[LockEntry]], tgids: Collection[int]
) -> dict[tuple[int, str], tuple[float, frozenset[int]]]:
    """Processes of these, each with a file that it alone locks for itself: inside of it, or not all the time.

    Of each the part of the looks at which it had the lock so that no other could read, and the bytes where that began.
    A lock from the first byte on that stays is that of a file with a process number, which a server has for as long as
    it lives.
    """
    seen: defaultdict[tuple[int, str], list[frozenset[int]]] = defaultdict(list)
    for entries in looks:
        for file, group in _by_file(entries).items():
            of = group[0].pid
            if of in tgids and all(one.pid == of for one in group):
                seen[of, file].append(frozenset(one.begin for one in group if one.writes))

    def comes_and_goes(moments: Sequence[frozenset[int]]) -> bool:
        if all(_SQLITE_SHARED in moment for moment in moments):
            # PRAGMA locking_mode=EXCLUSIVE: nobody else is to read it, ever.
            return False
        inside = any(begin for moment in moments for begin in moment)
        return any(moments) and (inside or len(moments) < len(looks) or len(set(moments)) > 1)

    return {
        key: (sum(map(bool, moments)) / len(looks), frozenset().union(*moments))
        for key, moments in seen.items()
        if comes_and_goes(moments)
    }


def is_database(name: str, begins: Collection[int]) -> bool:
    """Whether SQLite locks a file so: at 1 GiB (https://www.sqlite.org/lockingv3.html), or the index of its log."""
    return any(begin in _SQLITE for begin in begins) or (name.endswith("-shm") and _SQLITE_LOG in begins)


def asked_for(askers: Sequence[Asker], held: Sequence[Held]) -> tuple[Blocked, ...]:
    """The locks that threads ask for without waiting.  A thread waits for one in the naps that follow a refusal."""
    by_file: defaultdict[str, list[Asker]] = defaultdict(list)
    for one in askers:
        if one.refused > 0:
            by_file[one.name].append(one)
    return tuple(
        _with_holder(
            Blocked(
                "file-lock",
                name,
                group[0].function,
                sum(one.asleep * min(1.0, one.refused / max(one.naps, one.refused)) for one in group),
                group[0].comm,
                group[0].tgid,
                refused=sum(one.refused for one in group) / len(group),
            ),
            [one for one in held if one.name == name],
        )
        for name, group in by_file.items()
    )


def _with_holder(made: Blocked, held: Sequence[Held]) -> Blocked:
    """The same, with who was seen to have it."""
    known = [one for one in held if one.holder]
    if not known:
        return made
    holder, seen = Counter(one.holder for one in known).most_common(1)[0]
    of_it = [one for one in known if one.holder == holder]
    inside = Counter(one.holder_in for one in of_it).most_common(1)[0][0]
    return replace(
        made,
        known=len(known),
        holder=holder,
        holder_comm=of_it[-1].holder_comm,
        holder_looks=seen,
        holder_in=inside,
    )


def _blocked(kind: Kind, name: str, at: Sequence[Sleeper], looks: float, held: Sequence[Held]) -> Blocked:
    comm, tgid = Counter((sleeper.comm, sleeper.tgid) for sleeper in at).most_common(1)[0][0]
    function = Counter(sleeper.function for sleeper in at).most_common(1)[0][0]
    waiters = len(at) / looks
    alone = kind == "file-lock" and is_at_every_look(waiters) and {sleeper.tgid for sleeper in at} == {tgid}
    return _with_holder(Blocked(kind, name, function, waiters, comm, tgid, alone=alone), held)


def _what(sleeper: Sleeper, moment: Sequence[Sleeper]) -> str:
    """What a thread sleeps for, if it is no lock; '': that is not worth telling."""
    if sleeper.cannot_stop:
        return _CANNOT_STOP
    if sleeper.pipe:
        # Who reads a pipe alone waits for input.
        return _TOKENS if sum(one.pipe == sleeper.pipe for one in moment) > 1 else ""
    return other_of(sleeper.function)


def sleeps_of(
    looks: Sequence[Sequence[Sleeper]], held: Sequence[Sequence[Held]], threads: int, of_threads: int
) -> Sleeps:
    """What looks at threads, and at who has the locks that they wait for, say together; held: of each look.

    threads: looked at each time, of so many, which the ones that were looked at stand for.
    """
    at: defaultdict[tuple[Kind, str], list[Sleeper]] = defaultdict(list)
    others: Counter[tuple[str, str]] = Counter()
    told: defaultdict[tuple[Kind, str], list[Held]] = defaultdict(list)
    for one in held:
        for lock in one:
            told[lock.kind, lock.name].append(lock)
    for moment in looks:
        for sleeper in moment:
            kind = kind_of(sleeper.function)
            if kind is None:
                others[sleeper.function, _what(sleeper, moment)] += 1
                continue
            at[kind, sleeper.name].append(sleeper)
    number = max(1, len(looks)) * max(1, threads) / max(1, of_threads, threads)
    blocked = [_blocked(kind, name, one, number, told[kind, name]) for (kind, name), one in at.items()]
    return Sleeps(
        looks=len(looks),
        threads=threads,
        all_of_them=of_threads <= threads,
        blocked=tuple(sorted(blocked, key=lambda one: -one.waiters)),
        others=tuple(
            OtherSleep(function, what, count / number)
            for (function, what), count in [one for one in others.most_common() if one[0][1]][:_OTHERS]
        ),
    )
