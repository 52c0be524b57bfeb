# SPDX-License-Identifier: GPL-2.0-or-later
"""Looks at the threads of a process while they wait for one of its locks: who has it, and what that thread does."""

import os
import struct
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace

from lockline.analysis.findings import Task
from lockline.analysis.sleep_functions import stop_of
from lockline.base.errors import LocklineError
from lockline.cli.why_counters import (
    PROC,
    frozen_group,
    look_at,
    look_at_thread,
    process_of,
    short_text,
    threads_of,
    tracer_of,
)
from lockline.cli.why_memory import Memory
from lockline.investigation import probes
from lockline.investigation.counters import parse_look, parse_ready, parse_scheduling
from lockline.investigation.holding import Owner, ThreadLook, holders_of, part_on_cpu
from lockline.investigation.in_program import MOSTLY
from lockline.investigation.model import Holders, UserLockSeen
from lockline.investigation.priorities import Runner, is_real_time, runs_before
from lockline.investigation.stops import Stop

# glibc's mutex: lock word, count, owner (sysdeps/nptl/bits/struct_mutex.h, of 64 bits).
_MUTEX = struct.Struct("=IIi")
# The lock word when it is locked; when others wait, too; of one that inherits priority, the bits with the owner.
_LOCKED, _WAITED_FOR = 1, 2
_TID_MASK = 0x3FFFFFFF
# Who takes it before a woken waiter does stores that it is locked, and no more.
_VALUES = (_LOCKED, _WAITED_FOR)
# From a look at an owner to the next: longer than a tick of the slowest kernels (CONFIG_HZ=100).
_GAP_S = 0.012
# Who keeps a holder from running is looked for among so many, twice for so long: of processes, then of their threads.
_MOST_PROCESSES, _BUSIEST, _MOST_THREADS = 2000, 3, 256
_WINDOW_S = 0.2


def _numbers_are_ours(tgid: int) -> bool:
    """Whether the threads of a process have the same numbers here as there."""
    with suppress(OSError):
        return (PROC / str(tgid) / "ns" / "pid").readlink() == (PROC / "self" / "ns" / "pid").readlink()
    return False


def _owner_in(mutex: bytes, values: Collection[int]) -> int:
    """The thread that these bytes of a mutex name as its owner; 0: none."""
    if len(mutex) != _MUTEX.size:
        return 0
    lock, _, owner = _MUTEX.unpack(mutex)
    return owner if owner > 0 and (lock in values or lock & _TID_MASK == owner) else 0


def owner_of_mutex(memory: Memory, tgid: int, word: int, values: Collection[int] = (_WAITED_FOR,)) -> int:
    """The thread that a mutex of glibc names as its owner; 0: none, or its number differs here.

    values: of its lock word, that are believed.
    """
    return _owner_in(memory.read(tgid, word, _MUTEX.size), values) if _numbers_are_ours(tgid) else 0


class _OwnerLooks:
    """Looks at whom a lock names as its owner, if it does."""

    def __init__(self, lock: UserLockSeen, memory: Memory) -> None:
        self._lock, self._memory = lock, memory
        # Neither goroutines nor readers are named.
        self._named = not (lock.goroutines or lock.rwlock)
        self._ours = _numbers_are_ours(lock.tgid)

    def _owner(self) -> int:
        return owner_of_mutex(self._memory, self._lock.tgid, self._lock.address, _VALUES) if self._named else 0

    def _look(self, tid: int) -> ThreadLook | None:
        lock, tgid = self._lock, self._lock.tgid
        if lock.processes:
            # It may be of another one, which shares the lock; a word that lies may name anybody.
            tgid = process_of(tid)
            if tgid not in (lock.tgid, *lock.processes) and not self._memory.shared_with(lock.tgid, lock.address, tgid):
                return None
        return look_at_thread(tgid, tid)

    def first(self) -> ThreadLook | None:
        """The owner, if it is the same before and after the look at it."""
        if self._lock.processes or not self._named:
            tid = self._owner()
            look = self._look(tid) if tid else None
            after = self._owner() if look is not None else 0
        else:
            tid, look, after = self._at_once()
        # A thread that is ready may let go meanwhile: it had the lock.
        return look if look is None or look.state == "R" or after == tid else None

    def _at_once(self) -> tuple[int, ThreadLook | None, int]:
        """The owner before and after the look at it, which the reader makes: a short section has not ended then."""
        seen = self._memory.holder(self._lock.tgid, self._lock.address) if self._ours else None
        if seen is None:
            return 0, None, 0
        before, after, (stat, wchan, syscall, schedstat) = seen
        tid = _owner_in(before, _VALUES)
        return tid, parse_look(tid, stat, syscall, wchan, schedstat) if tid else None, _owner_in(after, _VALUES)

    def second(self, first: ThreadLook | None) -> Owner | None:
        """The same a moment later, which tells whether it had a CPU."""
        if first is None:
            return None
        after = self._look(first.tid)
        ran = None if after is None else part_on_cpu(first, after, self._owner() == first.tid, round(_GAP_S * 1e9))
        return Owner(first, ran)


def _look_at_all(lock: UserLockSeen) -> list[ThreadLook]:
    """All threads of the processes that use it, as far as there is time."""
    found: list[ThreadLook] = []
    for tgid in {lock.tgid, *lock.processes}:
        found += look_at(tgid, probes.THREADS_LOOKED_AT - len(found))
    return found


def _runner(path: str) -> Runner | None:
    name, _, rest = short_text(f"{path}/stat").rpartition(")")
    found = parse_scheduling(rest)
    if found is None:
        return None
    ticks, _, cpu, policy = found
    return Runner(name.partition("(")[2], ticks, cpu, policy)


def _busiest(first: dict[int, Runner]) -> list[int]:
    """Processes that have used most CPU time since then."""
    used = {
        tgid: after.ticks - before.ticks
        for tgid, before in first.items()
        if (after := _runner(f"{PROC}/{tgid}")) is not None
    }
    return sorted(used, key=lambda tgid: -used[tgid])[:_BUSIEST]


def _threads(tgids: Collection[int]) -> dict[int, Runner]:
    found = {tid: _runner(f"{PROC}/{tgid}/task/{tid}") for tgid in tgids for tid in threads_of(tgid, _MOST_THREADS)}
    return {tid: one for tid, one in found.items() if one is not None}


def _runs_before(cpu: int) -> Task | None:
    """The real-time thread that takes most of that CPU now; None: there is none, or too many run here."""
    processes = [int(one.name) for one in os.scandir(PROC) if one.name.isdigit()]
    if len(processes) > _MOST_PROCESSES:
        return None
    first = {tgid: one for tgid in processes if (one := _runner(f"{PROC}/{tgid}")) is not None}
    time.sleep(_WINDOW_S)
    busiest = _busiest(first)
    threads, began = _threads(busiest), time.monotonic()
    time.sleep(_WINDOW_S)
    ticks = (time.monotonic() - began) * os.sysconf("SC_CLK_TCK")
    return runs_before(threads, _threads(busiest), cpu, ticks)


def _stop(tid: int, function: str) -> Stop | None:
    """What stops a thread that is in this kernel function now."""
    kind = stop_of(function)
    tgid = process_of(tid) if kind is not None else 0
    if kind is None or not tgid:
        return None
    comm = short_text(f"{PROC}/{tgid}/comm")
    by, by_comm = tracer_of(tgid) if kind == "tracer" else (0, "")
    return Stop(kind, comm, tgid, 1.0, 1, by, by_comm, frozen_group(tgid) if kind == "frozen" else "")


def _with_reasons(found: Holders, stop: Stop | None, affordable: bool) -> Holders:
    """With who the holder is, what stops it, and who runs before it, if it mostly wants a CPU."""
    if not found.tid:
        return found
    tgid = process_of(found.tid)
    now = look_at_thread(tgid, found.tid)
    if not tgid or now is None:
        return found
    starved = affordable and found.wants_cpu >= MOSTLY
    return replace(
        found,
        holder=Task(now.comm, found.tid),
        stop=stop if stop is not None else _stop(found.tid, now.sleeps_in),
        before=_runs_before(now.cpu) if starved and not is_real_time(now.policy) else None,
    )


def look_at_holders(lock: UserLockSeen, seconds: float, most_ns: int) -> Holders:
    """What the holder of a lock does, from looks at all threads of its process, which take no more CPU time than that.

    Raises LocklineError if the process is gone.
    """
    looks: list[list[ThreadLook]] = []
    stop: Stop | None = None
    owners: list[Owner | None] = []
    ready = []
    began, used_ns = time.monotonic(), time.process_time_ns()
    with Memory() as memory:
        of_owner = _OwnerLooks(lock, memory)
        while time.monotonic() < began + seconds and time.process_time_ns() - used_ns < most_ns:
            first = of_owner.first()
            if first is not None and stop is None:
                stop = _stop(first.tid, first.sleeps_in)
            looks.append(_look_at_all(lock))
            if not looks[-1]:
                raise LocklineError(f"process {lock.tgid} is gone")
            ready.append(parse_ready(short_text(f"{PROC}/loadavg")))
            time.sleep(_GAP_S)
            owners.append(of_owner.second(first))
            time.sleep(1 / probes.LOOKS_PER_S - _GAP_S)
    look_ns = round((time.monotonic() - began) * 1e9) // max(1, len(looks))
    found = holders_of(looks, lock.address, lock.rwlock, lock.users, look_ns, owners)
    found = replace(found, tasks=sum(ready) / max(1, len(ready)), cpus=os.cpu_count() or 1)
    return _with_reasons(found, stop, time.process_time_ns() - used_ns < most_ns)
