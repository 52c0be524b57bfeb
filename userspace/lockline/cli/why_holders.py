# SPDX-License-Identifier: GPL-2.0-or-later
"""Looks at the threads of a process while they wait for one of its locks: who has it, and what that thread does."""

import os
import struct
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace

from lockline.base.errors import LocklineError
from lockline.cli.why_counters import PROC, look_at, look_at_thread, process_of, short_text
from lockline.cli.why_memory import Memory
from lockline.investigation import probes
from lockline.investigation.counters import parse_look, parse_ready
from lockline.investigation.holding import Owner, ThreadLook, holders_of, part_on_cpu
from lockline.investigation.model import Holders, UserLockSeen

# glibc's mutex: lock word, count, owner (sysdeps/nptl/bits/struct_mutex.h, of 64 bits).
_MUTEX = struct.Struct("=IIi")
# The lock word when it is locked; when others wait, too; of one that inherits priority, the bits with the owner.
_LOCKED, _WAITED_FOR = 1, 2
_TID_MASK = 0x3FFFFFFF
# Who takes it before a woken waiter does stores that it is locked, and no more.
_VALUES = (_LOCKED, _WAITED_FOR)
# From a look at an owner to the next: longer than a tick of the slowest kernels (CONFIG_HZ=100).
_GAP_S = 0.012


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


def look_at_holders(lock: UserLockSeen, seconds: float, most_ns: int) -> Holders:
    """What the holder of a lock does, from looks at all threads of its process, which take no more CPU time than that.

    Raises LocklineError if the process is gone.
    """
    looks: list[list[ThreadLook]] = []
    owners: list[Owner | None] = []
    ready = []
    began, used_ns = time.monotonic(), time.process_time_ns()
    with Memory() as memory:
        of_owner = _OwnerLooks(lock, memory)
        while time.monotonic() < began + seconds and time.process_time_ns() - used_ns < most_ns:
            first = of_owner.first()
            looks.append(_look_at_all(lock))
            if not looks[-1]:
                raise LocklineError(f"process {lock.tgid} is gone")
            ready.append(parse_ready(short_text(f"{PROC}/loadavg")))
            time.sleep(_GAP_S)
            owners.append(of_owner.second(first))
            time.sleep(1 / probes.LOOKS_PER_S - _GAP_S)
    look_ns = round((time.monotonic() - began) * 1e9) // max(1, len(looks))
    found = holders_of(looks, lock.address, lock.rwlock, lock.users, look_ns, owners)
    return replace(found, tasks=sum(ready) / max(1, len(ready)), cpus=os.cpu_count() or 1)
