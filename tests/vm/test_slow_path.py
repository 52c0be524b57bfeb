# SPDX-License-Identifier: GPL-2.0-or-later
"""Every waiter of a spinlock is seen: held against a program that counts entries of the slow path.

One counter is attached before lockline and detached after it, one runs strictly inside: lockline must
have seen at least what the inner one saw, and at most what the outer one saw.
"""

import json
from dataclasses import dataclass
from typing import Any

import pytest
from guest import Guest
from matrix import TEST_AND_SET, Case

ENOUGH = 100  # on a busy machine emulated loads meet rarely
SHARE = 0.999

SPINLOCK, RWLOCK_READ, RWLOCK_WRITE = 0, 1, 2
RTMUTEX, RWLOCK_RT_READ, RWLOCK_RT_WRITE = 7, 8, 9


@dataclass(frozen=True)
class Figures:
    """What a counter saw until one reading."""

    spinlocks: int
    others: int
    misses: int

    @classmethod
    def of(cls, counts: dict[str, Any]) -> "Figures":
        """A line of slow_path_counter."""
        others = counts["read"] + counts["rwsem_write"] + counts["percpu_write"]
        return cls(counts["spin"] + counts["paravirt_spin"], others, counts["misses"])


def readings(guest: Guest, counter: str) -> list[Figures]:
    """All readings of a counter, the last one when it was detached."""
    events = [json.loads(line) for line in guest.text(counter).splitlines()]
    assert events[0]["event"] == "ready"
    assert len(events) > 1
    return [Figures.of(event) for event in events[1:]]


def waits(guest: Guest, *kinds: int) -> int:
    """Recorded waits of some kinds."""
    listed = ", ".join(map(str, kinds))
    return int(guest.query(f"SELECT coalesce(sum(waits), 0) FROM lock_total WHERE kind IN ({listed})")[0][0])


def begins(guest: Guest, kind: int) -> int:
    """Begins of one kind that the tracepoints told of."""
    return int(guest.query(f"SELECT coalesce(sum(begins), 0) FROM begin_count WHERE kind = {kind}")[0][0])


def misses(guest: Guest) -> int:
    """Entries and begins that the kernel kept from lockline's programs."""
    return int(guest.query("SELECT sum(recursion_misses) FROM program WHERE name LIKE '%enter'")[0][0] or 0)


@pytest.fixture
def inner(guest: Guest) -> Figures:
    """The counter inside the recording, at its end."""
    return readings(guest, "inner")[-1]


@pytest.fixture
def outer(guest: Guest) -> Figures:
    """The counter around the recording, at its end."""
    return readings(guest, "outer")[-1]


def test_every_entry_is_a_wait(case: Case, guest: Guest, inner: Figures) -> None:
    seen = waits(guest, SPINLOCK)
    by_load = [reading.spinlocks for reading in readings(guest, "inner")]
    shares = {load: after - before for load, before, after in zip(case.loads, [0, *by_load], by_load, strict=False)}
    tracepoints = begins(guest, SPINLOCK)
    print(
        f"\n{case}: {inner.spinlocks} entries inside ({shares}), {seen} waits,"
        f" {tracepoints} passed the tracepoint ({tracepoints / max(inner.spinlocks, 1):.1%});"
        f" others {inner.others}; kernel kept {misses(guest)} from lockline, {inner.misses} from the counter"
    )
    assert inner.spinlocks >= ENOUGH
    if case.spinlocks == TEST_AND_SET:
        assert tracepoints == 0
    assert seen >= SHARE * inner.spinlocks


def test_no_wait_is_counted_twice(guest: Guest, outer: Figures) -> None:
    slow_paths = guest.facts("loss")["slow_paths"]
    assert slow_paths <= outer.spinlocks + outer.others + outer.misses
    assert waits(guest, SPINLOCK) <= outer.spinlocks + outer.misses
    repeated = guest.facts("loss")["repeated"]
    total = int(guest.query("SELECT sum(waits) FROM lock_total")[0][0])
    assert total <= guest.begins() - repeated


def test_every_begin_and_entry_is_accounted_for(guest: Guest, inner: Figures) -> None:
    assert guest.begins() > 0
    assert guest.accounted_begins() == guest.begins()
    assert guest.facts("loss")["slow_paths"] + misses(guest) >= inner.spinlocks


def test_spinlocks_have_names(case: Case, guest: Guest) -> None:
    """Raw ones are always of the spinning kind; spinlock_t is an rt-mutex with PREEMPT_RT."""
    names: dict[tuple[str, str], int] = {
        (kind, name): count
        for kind, name, count in guest.query(
            "SELECT kind.name, lock.name, sum(waits) FROM lock_total JOIN lock ON lock.id = lock"
            " JOIN kind ON kind.id = kind GROUP BY 1, 2 ORDER BY 3 DESC"
        )
    }
    print(f"\n{case}: {list(names.items())[:10]}")
    assert all(name for _, name in names), names
    assert names.get(("spinlock", "runqueues.__lock")), names
    assert names.get(("rtmutex" if case.realtime else "spinlock", "futex_hash_bucket.lock")), names


def test_rwlocks_and_spinlocks_sleep_with_preempt_rt_alone(case: Case, guest: Guest) -> None:
    spinning, sleeping = waits(guest, RWLOCK_READ, RWLOCK_WRITE), waits(guest, RTMUTEX, RWLOCK_RT_READ, RWLOCK_RT_WRITE)
    if case.realtime:
        assert spinning == 0
        assert sleeping > 0
    else:
        assert spinning > 0
        assert sleeping == 0
