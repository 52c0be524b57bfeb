# SPDX-License-Identifier: GPL-2.0-or-later
"""CPUs that spin, or hold a lock, with interrupts off: told where somebody would notice."""

from collections.abc import Callable

import pytest

from lockline.investigation.observe import observe
from rule_cases import MS, MUTEX, SPINLOCK, US, Made, one, rules_of

REALTIME = "#1 SMP PREEMPT_RT Debian 6.12.107-1"


def spun(
    recording: Made, length_ns: int, count: int = 1, function: str = "_raw_spin_lock_irqsave", kind: int = SPINLOCK
) -> None:
    """CPU 1 waits for the lock of a CPU's timers."""
    recording.lock(1, "timer_bases.lock", "per-CPU symbol")
    recording.waits(1, kind, length_ns, count, cpu=1)
    recording.builder.stack(1, "native_queued_spin_lock_slowpath", function, "lock_timer_base")
    for _ in range(count):
        recording.outlier(1, kind, length_ns, 1)


@pytest.mark.parametrize(
    ("length_ns", "count", "kernel", "found"),
    [
        (12 * MS, 1, "", True),  # a person notices one
        (2 * MS, 1, "", False),  # late once in a second, by less than a tick of the clock
        (9 * MS, 1, "", False),
        (2 * MS, 4, "", False),  # 0.8 % of the CPU's time
        (2 * MS, 5, "", True),  # 1 %
        (900 * US, 20, "", False),  # no long one among them
        (2 * MS, 1, REALTIME, True),
        (900 * US, 1, REALTIME, False),
    ],
)
def test_spinning_is_told_where_somebody_would_notice(
    made: Callable[..., Made], length_ns: int, count: int, kernel: str, found: bool
) -> None:
    recording = made(kernel_version=kernel)
    recording.lock(2, "filler")
    recording.waits(2, MUTEX, 1 * MS, 1)
    spun(recording, length_ns, count)
    findings = recording.findings()
    assert ("interrupts-off" in rules_of(findings)) == found
    if found:
        told = one(findings, "interrupts-off")
        assert any("inferred" in evidence for evidence in told.evidence)
        assert ("the longest of" in told.title) == (count > 1)
        # All of the CPU's waiting, not that of the longest alone.
        assert told.wait_ns == length_ns * count


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        ("_raw_spin_lock", SPINLOCK),  # interrupts stay on
        ("_raw_spin_lock_bh", SPINLOCK),
        ("_raw_spin_lock_irqsave", MUTEX),  # who sleeps has them on
    ],
)
def test_who_waits_with_interrupts_on_is_another_matter(made: Callable[..., Made], function: str, kind: int) -> None:
    recording = made()
    spun(recording, 50 * MS, 4, function, kind)
    assert "interrupts-off" not in rules_of(recording.findings())


def test_each_cpu_counts_by_itself(made: Callable[..., Made]) -> None:
    recording = made()
    recording.lock(1, "timer_bases.lock", "per-CPU symbol")
    recording.builder.stack(1, "native_queued_spin_lock_slowpath", "_raw_spin_lock_irq", "lock_timer_base")
    for cpu in range(4):
        recording.waits(1, SPINLOCK, 2 * MS, 4, cpu=cpu)
        for _ in range(4):
            recording.outlier(1, SPINLOCK, 2 * MS, 1, cpu=cpu)
    assert "interrupts-off" not in rules_of(recording.findings())


@pytest.mark.parametrize(
    ("locks", "heaviest", "outside"),
    [
        (4, 1, True),
        (3, 1, False),  # few locks
        (5, 4, True),  # half of all
        (5, 5, False),  # most of it is one lock's
    ],
)
def test_where_many_locks_stall_it_may_be_the_cpus(
    made: Callable[..., Made], locks: int, heaviest: int, outside: bool
) -> None:
    recording = made()
    recording.builder.stack(1, "native_queued_spin_lock_slowpath", "_raw_spin_lock_irqsave", "user")
    recording.builder.stack(2, "native_queued_spin_lock_slowpath", "_raw_spin_lock", "user")
    for lock in range(locks):
        recording.lock(lock + 1, f"lock_{lock}")
        for _ in range(heaviest if lock == 0 else 1):
            recording.waits(lock + 1, SPINLOCK, 12 * MS, 1, cpu=1)
            recording.outlier(lock + 1, SPINLOCK, 12 * MS, 1 if lock == 0 else 2)
    told = one(recording.findings(), "interrupts-off")
    assert told.confidence == ("low" if outside else "medium")
    assert any("from outside" in evidence for evidence in told.evidence) == outside
    assert ("vmstat" in told.next[0]) == outside


@pytest.mark.parametrize(
    ("hypervisor", "steal_ns", "cpus", "host"),
    [
        ("KVM (KVMKVMKVM)", 20 * MS, 2, True),
        ("KVM (KVMKVMKVM)", 10 * MS, 2, False),  # it took less than the CPU waited
        ("KVM (KVMKVMKVM)", 10 * MS, 4, True),  # one CPU that is taken away keeps three
        ("KVM (KVMKVMKVM)", 20 * MS, 1, False),
        ("KVM (KVMKVMKVM)", None, 2, False),
        ("none", 20 * MS, 2, False),
    ],
)
def test_a_host_may_have_taken_the_holders_cpu_away(
    made: Callable[..., Made], hypervisor: str, steal_ns: int | None, cpus: int, host: bool
) -> None:
    """Whoever has such a lock cannot be preempted by its own kernel."""
    readings = {} if steal_ns is None else {"steal_begin_ns": 7, "steal_end_ns": 7 + steal_ns}
    recording = made(hypervisor=hypervisor, cpus_online=str(cpus), **readings)
    spun(recording, 17 * MS, 1)
    report = recording.report()
    told = one(report.findings, "interrupts-off")
    assert told.confidence == ("low" if host else "medium")
    assert any("the host took" in evidence for evidence in told.evidence) == host
    assert ("CPUs of its own" in told.next[0]) == host
    seen = observe(report, "totals")
    assert seen.longest_ns == (0 if host else 17 * MS)
    assert (seen.kernel_waiters == 0) == (seen.locks[0].waiters == 0) == host


@pytest.mark.parametrize(
    ("function", "most_ns", "caused_ns", "kernel", "found"),
    [
        ("_raw_spin_unlock_irqrestore", 900 * US, 12 * MS, "", True),
        ("_raw_spin_unlock_irqrestore", 11 * MS, 11 * MS, "", True),
        ("_raw_spin_unlock_irqrestore", 900 * US, 3 * MS, "", False),  # 0.3 % of the window
        ("_raw_spin_unlock_irqrestore", 900 * US, 3 * MS, REALTIME, True),
        ("_raw_spin_unlock", 900 * US, 12 * MS, "", False),
        ("_raw_spin_unlock_irq", 90 * US, 12 * MS, "", False),
    ],
)
def test_held_with_interrupts_off(
    made: Callable[..., Made], function: str, most_ns: int, caused_ns: int, kernel: str, found: bool
) -> None:
    recording = made(kernel_version=kernel)
    recording.lock(1, "timer_bases.lock", "per-CPU symbol")
    recording.waits(1, SPINLOCK, most_ns, 1)
    recording.builder.stack(1, function, "mod_timer")
    recording.held(1, SPINLOCK, 2, 3, caused_ns, most_ns, stack=1)
    assert ("interrupts-off" in rules_of(recording.findings())) == found
