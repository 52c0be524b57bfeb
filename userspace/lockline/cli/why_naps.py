# SPDX-License-Identifier: GPL-2.0-or-later
"""Who sleeps for a moment, over and over: how often, and whether the lock of a file was refused to it before.

SQLite asks so: without waiting, and then it sleeps for 1 to 100 ms.

The kernel counts the refusals of each thread: tracepoints of its table of locks (include/trace/events/filelock.h), with
a filter, and no program.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from lockline.base.errors import LocklineError
from lockline.cli.why_counters import PROC, short_text
from lockline.cli.why_memory import Memory
from lockline.cli.why_still import caller_of_nap, switches_of
from lockline.experiment.perf import Hits, tracepoint_hits
from lockline.investigation.sleeps import (
    Asker,
    Held,
    LockEntry,
    Naps,
    OwnLock,
    candidates,
    is_database,
    locks_of_their_own,
)

# Threads whose naps are counted, and the part of the looks at which one naps that polls.
MOST_NAPPING = 64
_NAPPING = 0.1
# F_SETLK and F_OFD_SETLK, and flock() with LOCK_NB.
_TRACEPOINTS = ("posix_lock_inode", "flock_lock_inode")
# fs/locks.c gives -EAGAIN to who does not wait; a wait that begins is another number.
_REFUSED = "ret == -11"
# Counters that are open at once: two for each thread and file.
_MOST_ASKED = 64
# Numbers of devices in the kernel (include/linux/kdev_t.h).
_MINOR_BITS = 20


def filter_of(file: str) -> str:
    """Of the tracepoint's hits those of a file of /proc/locks (MAJOR:MINOR:INODE) that were refused."""
    major, minor, inode = file.split(":")
    return f"{_REFUSED} && i_ino == {inode} && s_dev == {int(major, 16) << _MINOR_BITS | int(minor, 16)}"


class Napping:
    """Counts the naps of threads that were seen in one; at_futex: looks at a thread that sleeps at a futex."""

    def __init__(self) -> None:
        self.at_futex = 0
        self.now: list[tuple[int, int, str]] = []
        self._first: dict[tuple[int, int], tuple[float, int]] = {}
        self._seen: Counter[tuple[int, int]] = Counter()

    def seen(self, tgid: int, tid: int, function: str) -> None:
        """It naps at this look, in that function of the kernel."""
        self._seen[tgid, tid] += 1
        self.now.append((tgid, tid, function))
        if (tgid, tid) not in self._first and len(self._first) < MOST_NAPPING:
            switches = switches_of(tgid, tid)
            if switches is not None:
                self._first[tgid, tid] = time.monotonic(), switches

    def of_thread(self, tgid: int, tid: int, looks: int) -> tuple[float, float]:
        """The part of the looks at which a thread naps, and how often it sleeps a second (0: not known)."""
        began, before = self._first.get((tgid, tid), (0.0, 0))
        after = switches_of(tgid, tid) if began else None
        took = time.monotonic() - began
        rate = (after - before) / took if after is not None and took > 0 else 0.0
        return self._seen[tgid, tid] / max(1, looks), rate

    def rates(self, looks: int, memory: Memory) -> tuple[Naps, ...]:
        """Of each process the threads that nap at many looks, and how often each does."""
        by_process: defaultdict[int, list[tuple[float, int]]] = defaultdict(list)
        for tgid, tid in self._first:
            # Of the others no switches are read.
            rate = self.of_thread(tgid, tid, looks)[1] if self._seen[tgid, tid] >= _NAPPING * looks else 0.0
            if rate:
                by_process[tgid].append((rate, tid))
        return tuple(
            Naps(
                comm=short_text(f"{PROC}/{tgid}/comm"),
                tgid=tgid,
                threads=len(rates),
                rate=sum(rate for rate, _ in rates) / len(rates),
                function=caller_of_nap(memory, tgid, max(rates)[1]),
            )
            for tgid, rates in by_process.items()
        )


class Asking:
    """Counts, from the first look at a thread's nap on, how often the lock of a file is refused to it."""

    def __init__(self) -> None:
        self._counters: dict[tuple[int, int, str], tuple[float, str, str, list[Hits]]] = {}
        self._looks: list[Sequence[LockEntry]] = []
        self._refused = False

    def _count(self, tgid: int, tid: int, function: str, file: str, name: str) -> None:
        if (tgid, tid, file) in self._counters or len(self._counters) >= _MOST_ASKED or self._refused:
            return
        hits: list[Hits] = []
        self._counters[tgid, tid, file] = time.monotonic(), name, function, hits
        try:
            # One after the other: what is open already is closed at the end.
            hits.extend(tracepoint_hits("filelock", one, None, tid=tid, only=filter_of(file)) for one in _TRACEPOINTS)
        except (LocklineError, OSError):
            # It ended, or the kernel does not count.
            self._refused = bool(short_text(f"{PROC}/{tgid}/task/{tid}/comm"))

    def look(
        self,
        entries: Sequence[LockEntry],
        napping: Iterable[tuple[int, int, str]],
        names_of: Callable[[int, frozenset[str]], dict[str, str]],
        doing: Callable[[int], tuple[str, str]],
    ) -> list[Held]:
        """Who has locks now of files that these threads' processes have open; those are counted from now on.

        names_of: of a process, and files of /proc/locks, those that it has open, with their paths.  doing: what a
        process is called, and the kernel function it sleeps in.
        """
        self._looks.append(entries)
        had = candidates(entries)
        told: dict[str, Held] = {}
        by_process: defaultdict[int, list[tuple[int, str]]] = defaultdict(list)
        for tgid, tid, function in napping:
            by_process[tgid].append((tid, function))
        for tgid, tids in by_process.items():
            of_others = frozenset(file for file, pids in had.items() if any(pid != tgid for pid in pids))
            for file, name in names_of(tgid, of_others).items() if of_others else ():
                for tid, function in tids:
                    self._count(tgid, tid, function, file, name)
                pids = [pid for pid in had[file] if pid != tgid]
                holder = pids[0] if len(pids) == 1 and pids[0] > 0 else 0
                comm, inside = doing(holder) if holder else ("", "")
                waiters = (*told[name].waiters, tgid) if name in told else (tgid,)
                told[name] = Held("file-lock", name, waiters, holder if comm else 0, comm, inside)
        return list(told.values())

    def own(
        self, naps: Iterable[Naps], names_of: Callable[[int, frozenset[str]], dict[str, str]]
    ) -> tuple[OwnLock, ...]:
        """Files that processes with naps lock for themselves, so that their threads may nap for one another."""
        comms = {one.tgid: one.comm for one in naps}
        return tuple(
            OwnLock(comms[tgid], tgid, name, written, is_database(name, begins))
            for (tgid, file), (written, begins) in locks_of_their_own(self._looks, comms).items()
            for name in names_of(tgid, frozenset((file,))).values()
        )

    def end(self, naps: Callable[[int, int], tuple[float, float]]) -> tuple[Asker, ...]:
        """Who asked, and count no more.  naps: of a thread the part of the looks at which it napped, and how often."""
        now = time.monotonic()
        found = []
        for (tgid, tid, _), (began, name, function, hits) in self._counters.items():
            refused = 0
            with suppress(OSError):
                refused = sum(one.read() for one in hits)
            for one in hits:
                one.close()
            if refused and now > began:
                part, rate = naps(tgid, tid)
                comm = short_text(f"{PROC}/{tgid}/comm")
                found.append(Asker(tgid, comm, name, function, part, refused / (now - began), rate))
        self._counters.clear()
        return tuple(found)
