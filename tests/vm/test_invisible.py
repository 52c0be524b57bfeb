# SPDX-License-Identifier: GPL-2.0-or-later
"""Waits of writers that pass no tracepoint, and BPF's own locks, held against workloads whose waits are known."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from boots import Section
from guest import Guest
from matrix import HOLD_US, HOLDS, Case, boot, chosen, kernel_of

SHARE = 0.999

SPINLOCK, RWSEM_WRITE, RTMUTEX, RWLOCK_RT_WRITE, PERCPU_WRITE, RQSPINLOCK = 0, 6, 7, 9, 11, 14

MAPS = "trixie-backports"  # a kernel with resilient spinlocks
WAITERS = 2  # for a BPF map's bucket; the first one passes no tracepoint
MAPS_COMMAND = f"""
lockline-collect doctor > doctor.json || exit
hold="held_lock bpf-bucket --waiters {WAITERS} --hold-us {HOLD_US} --count {HOLDS}"
lockline-collect record -a -o run.lockline -- sh -c "$hold > bpf-bucket"
"""


@dataclass(frozen=True)
class Held:
    """What held_lock knows of a lock that it held: ns of each hold and wait."""

    waiters: tuple[int, ...]  # tids
    going_ns: int  # from each waiter's word that it goes for the lock to the end of the hold
    waited_ns: int  # from that word to its return from the system call

    @classmethod
    def read(cls, guest: Guest, mode: str) -> "Held":
        """The last line of held_lock."""
        told: dict[str, Any] = json.loads(guest.text(mode).splitlines()[-1])
        assert told["event"] == "holds"
        assert len(told["holds"]) == HOLDS
        waits = [wait for waiter in told["waits"] for wait in waiter]
        return cls(tuple(told["waiters"]), sum(going for going, _ in waits), sum(waited for _, waited in waits))


def counted(guest: Guest, counter: str, function: str) -> int:
    """What an independent program counted: entries of a function, or those that the kernel kept from it."""
    last = json.loads(guest.text(counter).splitlines()[-1])
    return int(last[function])


def waits(guest: Guest, kind: int) -> int:
    """Recorded waits of a kind."""
    return int(guest.query(f"SELECT coalesce(sum(waits), 0) FROM lock_total WHERE kind = {kind}")[0][0])


def begins(guest: Guest, kind: int) -> int:
    """Begins of a kind that the tracepoints told of."""
    return int(guest.query(f"SELECT coalesce(sum(begins), 0) FROM begin_count WHERE kind = {kind}")[0][0])


def long_waits(guest: Guest, kind: int, tids: tuple[int, ...]) -> tuple[int, int]:
    """Number and ns of some threads' waits over the threshold, which are kept one by one."""
    listed = ", ".join(map(str, tids))
    count, wait_ns = guest.query(
        "SELECT count(*), coalesce(sum(wait_ns), 0) FROM outlier JOIN waiter ON waiter.id = waiter"
        f" WHERE kind = {kind} AND tid IN ({listed})"
    )[0]
    return int(count), int(wait_ns)


def check_known_waits(guest: Guest, mode: str, kind: int) -> None:
    """The waits of held_lock's waiters are as long as it knows them to be."""
    held = Held.read(guest, mode)
    count, wait_ns = long_waits(guest, kind, held.waiters)
    print(
        f"{mode}: {count} long waits of {HOLDS} holds; {wait_ns} ns, of {held.waited_ns} ns in the system call"
        f" and {held.going_ns} ns to the end of the holds"
    )
    assert wait_ns <= held.waited_ns
    # A waiter that lost its CPU on the way to the lock waits for less.
    assert wait_ns >= held.going_ns / 2
    assert count >= HOLDS / 2


def test_writers_that_spin(case: Case, guest: Guest) -> None:
    if case.realtime:
        assert waits(guest, RWSEM_WRITE) == 0
        check_known_waits(guest, "inode-rwsem", RTMUTEX)
        return
    entries, seen = counted(guest, "inner", "rwsem_write"), waits(guest, RWSEM_WRITE)
    tracepoint = begins(guest, RWSEM_WRITE)
    print(f"\n{case}: rwsem writers: {entries} entries inside, {seen} waits, {tracepoint} passed the tracepoint")
    if case.clock == "precise":
        check_known_waits(guest, "inode-rwsem", RWSEM_WRITE)
    assert entries >= HOLDS / 2
    assert seen >= SHARE * entries
    assert seen <= counted(guest, "outer", "rwsem_write") + counted(guest, "outer", "misses")
    assert tracepoint < seen


def test_writers_behind_readers(case: Case, guest: Guest) -> None:
    entries, seen = counted(guest, "inner", "percpu_write"), waits(guest, PERCPU_WRITE)
    tracepoint = begins(guest, PERCPU_WRITE)
    print(f"\n{case}: percpu-rwsem writers: {entries} entries inside, {seen} waits, {tracepoint} passed the tracepoint")
    if case.clock == "precise":
        check_known_waits(guest, "percpu-rwsem", PERCPU_WRITE)
    assert entries >= HOLDS
    assert seen >= SHARE * entries
    assert seen <= counted(guest, "outer", "percpu_write") + counted(guest, "outer", "misses")
    if case.release.startswith("6.1."):
        assert tracepoint >= entries
    else:
        assert tracepoint < entries


MAPS_SECTIONS = chosen(Section(boot(MAPS, cpus=WAITERS + 1), "bpf-bucket", MAPS_COMMAND))


@pytest.fixture(scope="module", params=MAPS_SECTIONS, ids=kernel_of)
def maps(request: pytest.FixtureRequest, results: Callable[[Section], Guest]) -> Guest:
    """A guest in which the bucket of a BPF map is held while two wait for it."""
    return results(request.param)


def test_locks_of_bpf_maps_are_told_apart(maps: Guest) -> None:
    held = Held.read(maps, "bpf-bucket")
    seen, spinlocks = waits(maps, RQSPINLOCK), long_waits(maps, SPINLOCK, held.waiters)
    print(
        f"\nBPF's own locks: {seen} waits of {WAITERS * HOLDS}; of spinlocks {spinlocks[0]} long ones by those threads"
    )
    # The first waiter passes no tracepoint.
    assert HOLDS / 2 <= seen <= WAITERS * HOLDS
    assert maps.query(f"SELECT count(*) FROM lock_total WHERE kind = {RQSPINLOCK} AND waits")[0][0] == 1
    assert maps.accounted_begins() == maps.begins()
    count, wait_ns = long_waits(maps, RQSPINLOCK, held.waiters)
    assert count
    assert wait_ns <= held.waited_ns


def test_first_waiter_for_a_bpf_lock_is_called_blind(maps: Guest) -> None:
    own = next(probe for probe in maps.json("doctor.json")["probes"] if probe["signal"] == "BPF's own spinlocks")
    assert own["state"] == "blind", own
    assert "cannot be probed" in own["reason"]
