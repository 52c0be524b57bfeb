# SPDX-License-Identifier: GPL-2.0-or-later
"""Looks at what the threads of a target sleep in, and at who has the locks of files and semaphores they wait for."""

import ctypes
import itertools
import os
import random
import re
import struct
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

from lockline.analysis.sleep_functions import (
    is_nap,
    kind_of,
    other_of,
    reads_pipe,
    stop_of,
    waits_for_futex,
    waits_for_signal,
)
from lockline.base.patience import Reader
from lockline.cli.why_counters import (
    MOST_CHILDREN,
    PROC,
    descendants_of,
    process_of,
    short_text,
    text_of,
    threads_of,
    tracer_of,
)
from lockline.cli.why_memory import Memory
from lockline.cli.why_naps import MOST_NAPPING, Asking, Napping
from lockline.cli.why_sessions import Sessions
from lockline.cli.why_still import FutexWaiters, state_of, stops_in
from lockline.investigation import probes
from lockline.investigation.model import Target
from lockline.investigation.sleeps import (
    FILE_CALLS,
    SEMAPHORE_CALLS,
    Held,
    LockEntry,
    Sleeper,
    Sleeps,
    asked_for,
    parse_call,
    parse_locks,
    sleeps_of,
    waited_for,
)

# Of all looks together; those at each thread are fewer where there are many.
MOST_READS = probes.SLEEP_LOOKS
MOST_LOOKS = 20
FEWEST_LOOKS = 3
# Each read of /proc/locks stops who locks files for a moment, so that few are made.
MOST_READS_OF_LOCKS = 5
# On a machine with more open files nobody looks for one that a process has left to another.
MOST_DESCRIPTORS = 5_000
# And so many of one process, to see whether it writes to a pipe that it reads, or has a locked file open.
MOST_OWN = 500
# Of all processes together that nap.
MOST_NAPPERS_FILES = 1_000
_MOST_BYTES = 8 << 20
_GETPID = 11
_SEMBUF = struct.Struct("=HhH")


def _processes() -> list[int]:
    with suppress(OSError):
        return [int(path.name) for path in PROC.iterdir() if path.name.isdigit()]
    return []


def _of_group(group: str) -> list[int]:
    found: set[int] = set()
    for directory, _, files in os.walk(group):
        if "cgroup.procs" in files:
            found |= {int(word) for word in text_of(Path(directory) / "cgroup.procs").split() if word.isdigit()}
    return sorted(found)


def threads_wanted(target: Target) -> list[tuple[int, int]]:
    """The target's threads, each with its process."""
    if target.options[0] == "-t":
        tids = [int(word) for word in target.options[1].split(",")]
        return [(tgid, tid) for tid in tids if (tgid := process_of(tid))]
    if target.options[0] == "-p":
        named = [int(word) for word in target.options[1].split(",")]
        pids = [*named, *descendants_of(named, MOST_CHILDREN)]
    else:
        pids = _of_group(target.options[1]) if target.options[0] == "-G" else _processes()
    return [(pid, tid) for pid in pids for tid in threads_of(pid, MOST_READS)]


def _open_file(tgid: int, descriptor: str) -> tuple[int, bool]:
    """Inode of an open file (0: not known), and whether it has a lock: by fdinfo, which asks no file server."""
    inode, locked = 0, False
    for line in text_of(PROC / str(tgid) / "fdinfo" / descriptor).splitlines():
        name, _, value = line.partition(":")
        if name == "ino" and value.strip().isdigit():
            inode = int(value)
        locked = locked or name == "lock"
    return inode, locked


def _file_of(tgid: int, call: Sequence[int]) -> tuple[str, int]:
    """The file that a call locks, and its inode."""
    if call and call[0] in FILE_CALLS:
        with suppress(OSError):
            name = str((PROC / str(tgid) / "fd" / str(call[1])).readlink())
            return name, _open_file(tgid, str(call[1]))[0]
    return "", 0


@cache
def _reader() -> Reader:
    """One for all looks; its process ends with ours."""
    return Reader()


def _number_in_set(tgid: int, address: int) -> int | None:
    """Which semaphore of a set, from the operation that a thread waits with; None if that cannot be read."""
    content = _reader().memory(tgid, address, _SEMBUF.size)
    if len(content) != _SEMBUF.size:
        return None
    number, operation, _ = _SEMBUF.unpack(content)
    return number if operation <= 0 else None


def _semaphore_of(tgid: int, call: Sequence[int]) -> tuple[str, tuple[int, int] | None]:
    """The semaphore that a call waits for, in words and as (set, number); None: not known."""
    if not call or call[0] not in SEMAPHORE_CALLS or call[1] >> 31:
        return "", None
    number = _number_in_set(tgid, call[2])
    if number is None:
        return f"a semaphore of set {call[1]}", None
    return f"semaphore {number} of set {call[1]}", (call[1], number)


def _sleeper(tgid: int, tid: int, napping: "Napping", waiting: FutexWaiters | None, few: bool) -> Sleeper | None:
    """What a thread sleeps in, if that is worth telling; waiting: of the first look; few: there is time for more.

    Threads at futexes are counted where those are counted that nap.
    """
    task = f"{PROC}/{tgid}/task/{tid}"
    function = short_text(f"{task}/wchan")
    if is_nap(function):
        napping.seen(tgid, tid, function)
    if waits_for_futex(function):
        napping.at_futex += 1
        if waiting is not None:
            waiting.seen(tgid, tid)
    if waits_for_signal(function) and len(threads_of(tgid, 2)) == 1:
        return None
    kind = kind_of(function)
    if few and reads_pipe(function) and (pipe := _own_pipe(tgid, tid)):
        return Sleeper(tgid, tid, short_text(f"{task}/comm"), function, pipe=pipe)
    # What else cannot be interrupted waits for a device, or for another task.
    cannot_stop = few and kind is None and not other_of(function) and state_of(tid) == "D"
    if kind is None and not other_of(function) and not (cannot_stop and function not in ("", "0")):
        return None
    comm = short_text(f"{task}/comm")
    if kind is None:
        # Who traces it is read now: it may be gone at the end of the looks.
        tracer = tracer_of(tgid) if stop_of(function) == "tracer" else (0, "")
        return Sleeper(tgid, tid, comm, function, cannot_stop=cannot_stop, tracer=tracer)
    call = parse_call(short_text(f"{task}/syscall"))
    if kind == "file-lock":
        name, inode = _file_of(tgid, call)
        made = Sleeper(tgid, tid, comm, function, name, inode=inode)
    else:
        name, semaphore = _semaphore_of(tgid, call)
        made = Sleeper(tgid, tid, comm, function, name, semaphore=semaphore)
    # It woke up meanwhile, and the call may be the next one.
    if short_text(f"{task}/wchan") != function:
        return None
    return made


def _doing(pid: int) -> tuple[str, str]:
    """Name of a process, and the kernel function that its only thread sleeps in, or all that it has are stopped in."""
    alone = len(threads_of(pid, 2)) == 1 or state_of(pid) in ("T", "t")
    function = text_of(PROC / str(pid) / "wchan").strip() if alone else ""
    return text_of(PROC / str(pid) / "comm").strip(), "" if function == "0" else function


def _descriptors(processes: Sequence[int]) -> Iterator[tuple[int, str]]:
    """The open files of these processes."""
    for pid in processes:
        with suppress(OSError):
            for path in (PROC / str(pid) / "fdinfo").iterdir():
                yield pid, path.name


@cache
def _who_has_open(inode: int, waiters: frozenset[int]) -> int:
    """The process that has a locked file open, if it is one; 0: several, none, or too many to look at."""
    found: list[int] = []
    for number, (pid, descriptor) in enumerate(_descriptors([pid for pid in _processes() if pid not in waiters])):
        if number == MOST_DESCRIPTORS:
            return 0
        if pid not in found and _open_file(pid, descriptor) == (inode, True):
            found.append(pid)
    # A shell and what it started have it together: the first of them is the one to ask.
    return found[0] if found and all(pid in descendants_of((found[0],), MOST_CHILDREN) for pid in found[1:]) else 0


def _locks_now() -> tuple[LockEntry, ...]:
    """The locks on files of this moment; none if they cannot be read."""
    with suppress(OSError), (PROC / "locks").open("rb") as file:
        return parse_locks(file.read(_MOST_BYTES).decode("ascii", "replace"))
    return ()


class _OpenFiles:
    """Which locked files processes have open: of each process once, and of all no more than so many descriptors."""

    def __init__(self) -> None:
        self._left = MOST_NAPPERS_FILES
        self._inodes: dict[int, dict[int, str]] = {}

    def _of(self, tgid: int) -> dict[int, str]:
        """The open files of a process: inode, and one of its descriptors."""
        if tgid not in self._inodes:
            found: dict[int, str] = {}
            for _, descriptor in itertools.islice(_descriptors((tgid,)), min(MOST_OWN, self._left)):
                self._left -= 1
                found.setdefault(_open_file(tgid, descriptor)[0], descriptor)
            self._inodes[tgid] = found
        return self._inodes[tgid]

    def names(self, tgid: int, files: frozenset[str]) -> dict[str, str]:
        """Of these files of /proc/locks those that a process has open, with their paths."""
        found: dict[str, str] = {}
        for file in files:
            descriptor = self._of(tgid).get(int(file.rpartition(":")[2]))
            if descriptor is not None:
                with suppress(OSError):
                    found[file] = str((PROC / str(tgid) / "fd" / descriptor).readlink())
        return found


def _file_locks(sleepers: Sequence[Sleeper], entries: Sequence[LockEntry]) -> Iterator[Held]:
    """Who has the locks on files that these wait for."""
    for name, holders, waiters in waited_for(entries):
        inode = int(name.rpartition(":")[2])
        # A lock of an open file (F_OFD_SETLKW) names no process, neither who has it nor who waits.
        nameless = any(pid <= 0 for pid in waiters)
        at = [one for one in sleepers if one.inode == inode and (nameless or one.tgid in waiters)]
        path = at[0].name if at else ""
        waiters = tuple({*(pid for pid in waiters if pid > 0), *(one.tgid for one in at)})
        # Of several readers none is to blame alone.
        holder = holders[0] if path and len(set(holders)) == 1 else 0
        comm, inside = _doing(holder) if holder else ("", "")
        if path and not comm and len(set(holders)) <= 1:
            # Who took it is gone, and has left it to others, as `flock 9` in a shell script does.
            holder = _who_has_open(inode, frozenset(waiters))
            comm, inside = _doing(holder) if holder else ("", "")
        if path:
            yield Held("file-lock", path, waiters, holder if comm else 0, comm, inside)


def _same_ipc(pid: int) -> bool:
    with suppress(OSError):
        return (PROC / str(pid) / "ns" / "ipc").readlink() == (PROC / "self" / "ns" / "ipc").readlink()
    return False


@cache
def _writes_pipe(tgid: int, inode: int) -> bool:
    """Whether a process has the end of a pipe open that is written to."""
    wanted = f"pipe:[{inode}]"
    with suppress(OSError):
        for path in itertools.islice((PROC / str(tgid) / "fd").iterdir(), MOST_OWN):
            with suppress(OSError):
                if str(path.readlink()) == wanted:
                    flags = re.search(r"^flags:\s*([0-7]+)$", text_of(path.parent.parent / "fdinfo" / path.name), re.M)
                    if flags is not None and int(flags[1], 8) & os.O_ACCMODE != os.O_RDONLY:
                        return True
    return False


def _own_pipe(tgid: int, tid: int) -> int:
    """The pipe that a thread reads, if its process writes to it as well; 0: it does not."""
    call = parse_call(short_text(f"{PROC}/{tgid}/task/{tid}/syscall"))
    with suppress(OSError):
        found = (
            re.fullmatch(r"pipe:\[(\d+)\]", str((PROC / str(tgid) / "fd" / str(call[1])).readlink())) if call else None
        )
        return int(found[1]) if found is not None and _writes_pipe(tgid, int(found[1])) else 0
    return 0


def _semaphores(sleepers: Sequence[Sleeper]) -> Iterator[Held]:
    """Who changed the semaphores last that these wait for."""
    waiting: defaultdict[tuple[str, tuple[int, int]], list[int]] = defaultdict(list)
    for sleeper in sleepers:
        if sleeper.semaphore is not None and _same_ipc(sleeper.tgid):
            waiting[sleeper.name, sleeper.semaphore].append(sleeper.tgid)
    library = ctypes.CDLL(None)
    for (name, (set_, number)), waiters in waiting.items():
        holder = library.semctl(set_, number, _GETPID)
        comm, inside = _doing(holder) if holder > 0 and holder not in waiters else ("", "")
        yield Held("semaphore", name, tuple(waiters), holder if comm else 0, comm, inside)


def look_at_sleeps(target: Target, seconds: float, most_ns: int = 10**9, names_ns: int = 10**9) -> Sleeps:
    """Look at the target's threads some times within so many seconds; of very many at some, chosen by chance.

    most_ns: CPU time after which no more looks are made than the fewest.  names_ns: what comes on top for names.
    """
    used_ns = time.process_time_ns()
    _who_has_open.cache_clear()
    _writes_pipe.cache_clear()
    threads = threads_wanted(target)
    every = len(threads)
    most = max(1, min(MOST_READS, most_ns // probes.SLEEP_LOOK_NS) // FEWEST_LOOKS)
    if every > most:
        threads = random.sample(threads, most)
    number = max(FEWEST_LOOKS, min(MOST_LOOKS, MOST_READS // max(1, len(threads))))
    looks: list[list[Sleeper]] = []
    held: list[list[Held]] = []
    end = time.monotonic() + seconds
    asked: list[Held] = []
    files_read = 0
    napping, asking, waiting, files_of = Napping(), Asking(), FutexWaiters(), _OpenFiles()
    sessions = Sessions(_reader())
    few = len(threads) <= MOST_NAPPING
    for left in range(number, 0, -1):
        first = waiting if left == number else None
        if few and first is None and target.tgids:
            # A program may end processes and make new ones all the time.
            threads = threads_wanted(target)[:MOST_NAPPING]
        sleepers = [one for tgid, tid in threads if (one := _sleeper(tgid, tid, napping, first, few)) is not None]
        files = [one for one in sleepers if kind_of(one.function) == "file-lock"]
        # Who naps may ask for one: five looks of all tell.
        fifth = (number - left) % max(1, number // MOST_READS_OF_LOCKS) == 0
        asks = bool(napping.now) and fifth
        read_locks = (bool(files) or asks) and files_read < MOST_READS_OF_LOCKS
        files_read += read_locks
        entries = _locks_now() if read_locks else ()
        looks.append(sleepers)
        if fifth:
            sessions.look(tgid for tgid, _ in threads)
        held.append([*_file_locks(files, entries), *_semaphores(sleepers)])
        asked += asking.look(entries, napping.now, files_of.names, _doing) if asks and read_locks else ()
        napping.now = []
        if time.process_time_ns() - used_ns >= most_ns and number - left + 1 >= FEWEST_LOOKS:
            break
        # By chance, so as not to look at the beat of a load alone.
        time.sleep(max(0.0, (end - time.monotonic()) / left * random.uniform(0.5, 1.0)) if left > 1 else 0.0)
    made = sleeps_of(looks, held, len(threads), every)
    askers = asking.end(lambda tgid, tid: napping.of_thread(tgid, tid, len(looks)))
    rest_ns = most_ns + names_ns - probes.NAMES_NS - (time.process_time_ns() - used_ns)
    with Memory(rest_ns) as memory:
        naps = napping.rates(len(looks), memory)
        seen = replace(
            made,
            blocked=(*made.blocked, *asked_for(askers, asked)),
            naps=naps,
            own=asking.own(naps, files_of.names),
            stops=stops_in(looks),
            standing=waiting.standing(memory),
            at_futex=napping.at_futex,
            sessions=sessions.waits(min(1.0, len(threads) / max(1, every))),
        )
        return replace(seen, unnamed=len(memory.unpaid), nameless=waiting.nameless)
