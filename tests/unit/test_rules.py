# SPDX-License-Identifier: GPL-2.0-or-later
"""Each rule: a recording that has its pattern, and near misses that do not."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lockline.analysis.clocksource import ClockReads
from lockline.analysis.episode_model import Doing, Episode, EpisodeHolder, Loop, Party, Relief
from lockline.analysis.findings import Finding
from lockline.analysis.futex import (
    CONDITION,
    LOCK,
    PARKED,
    SEMAPHORE,
    BucketWaits,
    Futexes,
    FutexStack,
    FutexTask,
    FutexWaits,
)
from lockline.analysis.model import Figures, Report
from lockline.analysis.ptrace import InactiveWaits
from lockline.analysis.selection import Selection
from lockline.base.text import Style
from lockline.recording.reader import open_recording
from lockline.recording.rows import Frame, Futex, FutexTotal, InactiveWait
from lockline.render.findings import findings as as_text
from lockline.rules import find_all
from lockline.rules.report import make_report
from recording_generator import BEGIN, RecordingBuilder
from told import Told, told

SPINLOCK, RWLOCK_W, MUTEX, RWSEM_R, RWSEM_W = 0, 2, 3, 5, 6
MS = 1_000_000
US = 1_000


class Made:
    """A recording of one second on four CPUs, filled by a test."""

    def __init__(self, path: Path, **meta: object) -> None:
        self.path = path
        self.builder = RecordingBuilder(path, seconds=1, cpus=4, meta=meta)
        self.rows: dict[str, list[tuple[Any, ...]]] = {}

    def lock(self, lock: int, name: str, source: str = "symbol") -> int:
        return self.builder.lock(lock, name, "", source)

    def waits(self, lock: int, kind: int, length_ns: int, count: int, cpu: int = 0) -> None:
        self.builder.waits(1, cpu, lock, kind, [length_ns] * count)

    def add(self, table: str, *row: object) -> None:
        self.rows.setdefault(table, []).append(row)

    def sample(self, lock: int, kind: int, stack: int, waits: int, wait_ns: int) -> None:
        self.add("sample_total", 1, lock, kind, stack, 0, 1, waits, wait_ns)

    def outlier(self, lock: int, kind: int, wait_ns: int, stack: int, cpu: int = 1) -> None:
        number = len(self.rows.get("outlier", [])) + 1
        self.add("outlier", number, 1, BEGIN, wait_ns, cpu, cpu, 1, lock, kind, 0, stack, 0)

    def held(
        self, lock: int, kind: int, task: int, releases: int, caused_ns: int, most_ns: int, stack: int = 0
    ) -> None:
        self.add("holder_total", lock, kind, task, releases, releases, caused_ns, most_ns)
        if stack:
            self.add("release_stack", lock, kind, task, stack, 5, releases, caused_ns)

    def fairness(self, lock: int, kind: int, waits: int, **figures: int) -> None:
        names = ("releases", "retakes", "overtaken", "bypasses", "max_bypasses")
        names += ("handoffs", "handoff_ns", "max_handoff_ns", "holds", "hold_ns")
        values = [figures.get(name, 0) for name in names]
        self.add("fairness", lock, kind, waits, *values, figures.get("max_hold_ns", 0), b"")

    def findings(self) -> tuple[Finding, ...]:
        return find_all(self.report())

    def report(self) -> Report:
        self.builder.waiter(1, "waiter")
        self.builder.waiter(2, "holder")
        self.builder.insert("waiter", [(3, 0, 0, "[readers]", 0)])
        for table, rows in self.rows.items():
            self.builder.insert(table, rows)
        self.builder.finish()
        with open_recording(self.path) as recording:
            return make_report(recording, Selection(), 20)


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., Made]:
    """Makes an empty recording with these facts."""
    return lambda **meta: Made(tmp_path / "made.lockline", **meta)


def rules_of(findings: tuple[Finding, ...]) -> list[str]:
    """Names of the rules that found something."""
    return [finding.rule for finding in findings]


def one(findings: tuple[Finding, ...], rule: str) -> Told:
    """The only finding of a rule."""
    (found,) = [told(finding) for finding in findings if finding.rule == rule]
    assert found.evidence
    assert found.next
    return found


def test_nothing_on_a_quiet_machine(made: Callable[..., Made]) -> None:
    recording = made()
    recording.lock(1, "tasklist_lock")
    recording.waits(1, SPINLOCK, 2 * US, 500)
    assert recording.findings() == ()


@pytest.mark.parametrize(("waits", "found"), [(220, True), (190, False)])
def test_convoy(made: Callable[..., Made], waits: int, found: bool) -> None:
    recording = made()
    recording.lock(1, "dcache_lock")
    for cpu in range(4):
        recording.waits(1, SPINLOCK, 1200 * US, waits, cpu)
    findings = recording.findings()
    assert ("convoy" in rules_of(findings)) == found
    if found:
        assert one(findings, "convoy").confidence == "medium"
        assert one(findings, "convoy").evidence[0].startswith("1.1 tasks wait")


def test_convoy_of_several_locks_is_none(made: Callable[..., Made]) -> None:
    recording = made()
    for lock in range(1, 6):
        recording.lock(lock, f"lock_{lock}")
        for cpu in range(4):
            recording.waits(lock, MUTEX, 1200 * US, 220, cpu)
    assert "convoy" not in rules_of(recording.findings())


def test_convoys_of_two_locks_with_one_name(made: Callable[..., Made]) -> None:
    """Each has a finding of its own, with its own waits and where they come from."""
    recording = made()
    for lock, length, pid, where in ((1, 1300 * US, 1001, "__vm_munmap"), (2, 1200 * US, 5, "do_mprotect_pkey")):
        recording.builder.lock(lock, "mm_struct.mmap_lock", f"pid {pid}", "owner object")
        for cpu in range(4):
            recording.waits(lock, RWSEM_W, length, 220, cpu)
        recording.builder.stack(lock, "down_write_killable", where)
        recording.sample(lock, RWSEM_W, lock, 880, 880 * length)
    first, second = (told(found) for found in recording.findings() if found.rule == "convoy")
    assert "of waiter (1001)" in first.title
    assert any("100.0% of the sampled waiting comes from __vm_munmap()" in line for line in first.evidence)
    assert "[pid 5]" in second.title
    assert any("880 waits of 1.20 ms" in line for line in second.evidence)
    assert any("comes from do_mprotect_pkey()" in line for line in second.evidence)


@pytest.mark.parametrize(("hold_ns", "found"), [(20 * US, True), (900 * US, False)])
def test_convoy_by_hold_times(made: Callable[..., Made], hold_ns: int, found: bool) -> None:
    """Waits that are about as long as a hold are no queue."""
    recording = made()
    recording.lock(1, "dcache_lock")
    for cpu in range(4):
        recording.waits(1, SPINLOCK, 1200 * US, 220, cpu)
    recording.fairness(1, SPINLOCK, 880, holds=1000, hold_ns=1000 * hold_ns)
    findings = recording.findings()
    assert ("convoy" in rules_of(findings)) == found
    if found:
        assert one(findings, "convoy").confidence == "high"


@pytest.mark.parametrize(
    ("waits", "length_ns", "others_ns", "found"),
    [
        (4000, 40 * US, 0, True),
        # A tenth of one CPU is the least, and a hundred waits a second, and a quarter of all waiting.
        (4000, 20 * US, 0, False),
        (80, 2 * MS, 0, False),
        (4000, 40 * US, 600 * MS, False),
    ],
)
def test_hot_lock(made: Callable[..., Made], waits: int, length_ns: int, others_ns: int, found: bool) -> None:
    recording = made()
    recording.lock(1, "zone.lock", "slab")
    for cpu in range(4):
        recording.waits(1, SPINLOCK, length_ns, waits // 4, cpu)
    for other in range(2, 12):
        recording.lock(other, f"other_{other}")
        if others_ns:
            recording.waits(other, MUTEX, others_ns // 10, 1)
    recording.builder.stack(1, "native_queued_spin_lock_slowpath", "_raw_spin_lock", "rmqueue_bulk", "alloc_pages")
    recording.sample(1, SPINLOCK, 1, waits, waits * length_ns)
    findings = recording.findings()
    assert ("hot-lock" in rules_of(findings)) == found
    if found:
        told_of = one(findings, "hot-lock")
        assert told_of.title.startswith("zone.lock (spinlock) is hot")
        assert told_of.evidence[0] == "waiting for it keeps 0.16 CPUs spinning, 4.00% of the machine"
        assert told_of.evidence[1].startswith("4,000 waits a second of 40.0 us on average; 100")
        assert told_of.evidence[2] == "waiter (1001) does 100.0% of the waiting that was sampled"
        assert told_of.evidence[3] == "100.0% of the sampled waiting comes from rmqueue_bulk()"


def test_a_sleeping_hot_lock_costs_threads(made: Callable[..., Made]) -> None:
    recording = made()
    for lock in (1, 2):
        recording.lock(lock, "inode.i_rwsem", "slab")
        recording.waits(lock, RWSEM_W, MS, 300)
    found = one(recording.findings(), "hot-lock")
    assert found.evidence[0] == "on average 0.60 threads wait asleep for it"
    assert "over 2 locks of this name; the worst of them has 50.0% of it" in found.evidence


def test_hot_lock_says_how_busy_the_lock_is(made: Callable[..., Made]) -> None:
    recording = made()
    recording.lock(1, "zone.lock", "slab")
    recording.waits(1, SPINLOCK, 40 * US, 4000)
    recording.fairness(1, SPINLOCK, 4000, holds=50_000, hold_ns=50_000 * 10 * US)
    assert "it is held for 50.0% of the time, 10.0 us on average" in one(recording.findings(), "hot-lock").evidence


@pytest.mark.parametrize(("worst", "rule"), [(900, "convoy"), (250, "hot-lock")])
def test_a_queue_for_one_of_several_locks_is_a_convoy(made: Callable[..., Made], worst: int, rule: str) -> None:
    """Run queues: one of them with a waiter all the time, or all of them with a little."""
    recording = made()
    for lock in range(1, 5):
        recording.builder.lock(lock, "runqueues.__lock", f"CPU {lock}", "per-CPU symbol")
        for cpu in range(4):
            recording.waits(lock, SPINLOCK, 1200 * US, worst // 4 * 2 if lock == 1 else 30, cpu)
    findings = recording.findings()
    assert [name for name in rules_of(findings) if name in ("convoy", "hot-lock")] == [rule]
    if rule == "convoy":
        assert one(findings, "convoy").title == "Tasks queue for runqueues.__lock [CPU 1] (spinlock)"


def test_what_makes_a_lock_busy_comes_first(made: Callable[..., Made]) -> None:
    recording = made()
    recording.lock(1, "zone.lock", "slab")
    for cpu in range(4):
        recording.waits(1, SPINLOCK, 1200 * US, 220, cpu)
    recording.builder.stack(1, "_raw_spin_unlock", "free_unref_page", "free_pages")
    recording.held(1, SPINLOCK, 2, 400, 560 * MS, 2 * MS, stack=1)
    assert rules_of(recording.findings()) == ["long-hold", "convoy"]


@pytest.mark.parametrize(
    ("caused_ns", "releases", "found"),
    [(30 * MS, 100, True), (20 * MS, 100, False), (30 * MS, 1000, False), (30 * MS, 5, False)],
)
def test_long_hold(made: Callable[..., Made], caused_ns: int, releases: int, found: bool) -> None:
    recording = made()
    recording.lock(1, "zone.lock", "slab")
    recording.waits(1, SPINLOCK, 500 * US, 100)
    recording.builder.stack(1, "_raw_spin_unlock", "free_unref_page.isra.0", "free_pages")
    recording.held(1, SPINLOCK, 2, releases, caused_ns, MS, stack=1)
    findings = recording.findings()
    assert ("long-hold" in rules_of(findings)) == found
    if found:
        assert one(findings, "long-hold").title == "free_unref_page() holds zone.lock (spinlock) for long"


@pytest.mark.parametrize(("writers_ns", "found"), [(2 * MS, True), (150 * US, False)])
def test_writer_starved(made: Callable[..., Made], writers_ns: int, found: bool) -> None:
    recording = made()
    recording.lock(1, "mm_struct.mmap_lock", "owner object")
    recording.waits(1, RWSEM_W, writers_ns, 40)
    recording.waits(1, RWSEM_R, 100 * US, 200)
    findings = recording.findings()
    assert ("writer-starved" in rules_of(findings)) == found
    assert "readers-starved" not in rules_of(findings)


def test_readers_starved(made: Callable[..., Made]) -> None:
    recording = made()
    recording.lock(1, "mm_struct.mmap_lock", "owner object")
    recording.waits(1, RWSEM_R, 2 * MS, 40)
    recording.waits(1, RWSEM_W, 100 * US, 200)
    assert rules_of(recording.findings()) == ["readers-starved"]


@pytest.mark.parametrize(("readers_ns", "found"), [(60 * MS, True), (30 * MS, False)])
def test_writers_alone_need_known_holders(made: Callable[..., Made], readers_ns: int, found: bool) -> None:
    recording = made()
    recording.lock(1, "inode.i_rwsem", "slab")
    recording.waits(1, RWSEM_W, 2 * MS, 40)
    recording.held(1, RWSEM_W, 3, 0, readers_ns, 2 * MS)
    findings = recording.findings()
    assert ("writer-starved" in rules_of(findings)) == found
    if found:
        assert one(findings, "writer-starved").confidence == "high"


@pytest.mark.parametrize(("overtaken", "most", "found"), [(30, 2, True), (5, 2, False), (5, 12, True), (0, 0, False)])
def test_unfair(made: Callable[..., Made], overtaken: int, most: int, found: bool) -> None:
    recording = made(spinlock_mode="test-and-set")
    recording.lock(1, "dcache_lock")
    recording.waits(1, SPINLOCK, 500 * US, 100)
    recording.fairness(
        1, SPINLOCK, 100, releases=100, overtaken=overtaken, bypasses=overtaken * most, max_bypasses=most
    )
    findings = recording.findings()
    assert ("unfair" in rules_of(findings)) == found
    if found:
        assert "paravirtual" in one(findings, "unfair").next[0]


@pytest.mark.parametrize(
    ("usual_us", "kind", "found"), [(2, SPINLOCK, True), (200, SPINLOCK, False), (2, MUTEX, False)]
)
def test_cpu_starved(made: Callable[..., Made], usual_us: int, kind: int, found: bool) -> None:
    recording = made()
    recording.lock(1, "runqueues.__lock", "per-CPU symbol")
    recording.waits(1, kind, MS, 30, cpu=2)
    for cpu in (0, 1, 3):
        recording.waits(1, kind, usual_us * US, 30, cpu)
    findings = recording.findings()
    assert ("cpu-starved" in rules_of(findings)) == found
    if found:
        assert one(findings, "cpu-starved").title.startswith("CPU 2 waits")


@pytest.mark.parametrize(
    ("hypervisor", "steal_ns", "waits", "confidence"),
    [
        ("KVM (KVMKVMKVM)", 400 * MS, 4, "high"),
        ("KVM (KVMKVMKVM)", None, 4, "low"),
        ("KVM (KVMKVMKVM)", 4 * MS, 4, None),
        ("KVM (KVMKVMKVM)", 400 * MS, 2, None),
        ("none", 400 * MS, 4, None),
    ],
)
def test_holder_preempted(
    made: Callable[..., Made], hypervisor: str, steal_ns: int | None, waits: int, confidence: str | None
) -> None:
    readings = {} if steal_ns is None else {"steal_begin_ns": 7, "steal_end_ns": 7 + steal_ns}
    recording = made(hypervisor=hypervisor, **readings)
    recording.builder.stack(1, "native_queued_spin_lock_slowpath", "_raw_spin_lock", "dput")
    for lock in (1, 2):
        recording.lock(lock, f"lock_{lock}")
        recording.waits(lock, SPINLOCK, 4 * MS, waits)
        for _ in range(waits // 2):
            recording.outlier(lock, SPINLOCK, 4 * MS, 1)
    findings = recording.findings()
    if confidence is None:
        assert "holder-preempted" not in rules_of(findings)
    else:
        assert one(findings, "holder-preempted").confidence == confidence


@pytest.mark.parametrize(
    ("function", "length_ns", "found"),
    [
        ("_raw_spin_lock_irqsave", 2 * MS, True),
        ("_raw_spin_lock", 2 * MS, False),
        ("_raw_spin_lock_irqsave", 200 * US, False),
    ],
)
def test_spinning_with_interrupts_off(made: Callable[..., Made], function: str, length_ns: int, found: bool) -> None:
    recording = made()
    recording.lock(1, "timer_bases.lock", "per-CPU symbol")
    recording.waits(1, SPINLOCK, length_ns, 1)
    recording.builder.stack(1, "native_queued_spin_lock_slowpath", function, "lock_timer_base")
    recording.outlier(1, SPINLOCK, length_ns, 1)
    findings = recording.findings()
    assert ("interrupts-off" in rules_of(findings)) == found
    if found:
        assert any("inferred" in evidence for evidence in one(findings, "interrupts-off").evidence)


@pytest.mark.parametrize(
    ("function", "most_ns", "found"),
    [
        ("_raw_spin_unlock_irqrestore", 900 * US, True),
        ("_raw_spin_unlock", 900 * US, False),
        ("_raw_spin_unlock_irq", 90 * US, False),
    ],
)
def test_held_with_interrupts_off(made: Callable[..., Made], function: str, most_ns: int, found: bool) -> None:
    recording = made()
    recording.lock(1, "timer_bases.lock", "per-CPU symbol")
    recording.waits(1, SPINLOCK, most_ns, 1)
    recording.builder.stack(1, function, "mod_timer")
    recording.held(1, SPINLOCK, 2, 3, most_ns, most_ns, stack=1)
    assert ("interrupts-off" in rules_of(recording.findings())) == found


@pytest.mark.parametrize(
    ("clocksource", "cpus", "found"), [("hpet", 4, True), ("acpi_pm", 2, True), ("hpet", 1, False), ("tsc", 4, False)]
)
def test_shared_clock(made: Callable[..., Made], clocksource: str, cpus: int, found: bool) -> None:
    recording = made(clocksource=clocksource, cpus_online=str(cpus), clocksources_available="tsc hpet acpi_pm")
    recording.lock(1, "tasklist_lock")
    recording.waits(1, SPINLOCK, US, 3)
    findings = recording.findings()
    assert ("shared-clocksource" in rules_of(findings)) == found
    if found:
        assert "echo tsc >" in one(findings, "shared-clocksource").next[0]


@pytest.mark.parametrize(
    ("name", "source", "function", "found"),
    [
        ("futex_hash_bucket.lock", "slab", "futex_wake", True),
        ("futex_q_lock", "call site", "futex_q_lock", True),
        ("pipe_inode_info.mutex", "slab", "pipe_write", False),
    ],
)
def test_futex_bucket(made: Callable[..., Made], name: str, source: str, function: str, found: bool) -> None:
    recording = made()
    recording.lock(1, name, source)
    recording.waits(1, SPINLOCK, 500 * US, 100)
    recording.builder.stack(1, "native_queued_spin_lock_slowpath", "_raw_spin_lock", function, "do_futex")
    recording.sample(1, SPINLOCK, 1, 100, 50 * MS)
    assert ("futex-bucket" in rules_of(recording.findings())) == found


def test_little_waiting_in_the_futex_hash_is_none(made: Callable[..., Made]) -> None:
    recording = made()
    recording.lock(1, "futex_hash_bucket.lock", "slab")
    recording.waits(1, SPINLOCK, 5 * US, 100)
    assert recording.findings() == ()


@pytest.mark.parametrize(
    ("holder", "tracee", "confidence"),
    [(True, True, "high"), (True, False, "medium"), (False, True, "low"), (False, False, None)],
)
def test_inactive_wait(made: Callable[..., Made], holder: bool, tracee: bool, confidence: str | None) -> None:
    recording = made()
    recording.lock(1, "runqueues.__lock", "per-CPU symbol")
    recording.waits(1, SPINLOCK, 2 * MS, 30)
    recording.builder.stack(1, "raw_spin_rq_unlock", "wait_task_inactive", "ptrace_check_attach", "__x64_sys_ptrace")
    recording.builder.stack(2, "raw_spin_rq_lock_nested", "__schedule", "schedule", "ptrace_stop", "ptrace_notify")
    recording.builder.stack(3, "raw_spin_rq_lock_nested", "__schedule", "schedule", "pipe_read")
    if holder:
        recording.held(1, SPINLOCK, 2, 1000, 40 * MS, 2 * MS, stack=1)
    recording.outlier(1, SPINLOCK, 2 * MS, 2 if tracee else 3)
    findings = recording.findings()
    if confidence is None:
        assert "inactive-wait" not in rules_of(findings)
    else:
        assert one(findings, "inactive-wait").confidence == confidence


TRACEE = ("rt_spin_lock", "ptrace_stop.part.0", "ptrace_notify", "syscall_trace_enter")
TRACER = ("_raw_spin_lock", "try_to_wake_up", "ptrace_request", "arch_ptrace", "__x64_sys_ptrace")


@pytest.mark.parametrize(
    ("stack", "traced"),
    [
        (TRACEE, True),
        (TRACER, True),
        # An interrupt came while the tracer ran: what it waits for is not of the tracing.
        (("_raw_spin_lock", "sched_tick", "asm_sysvec_apic_timer_interrupt", *TRACER[2:]), False),
        # Who reads /proc/PID/mem may do so under ptrace's rules, and traces nobody.
        (("rwsem_down_read_slowpath", "ptrace_may_access", "mm_access", "proc_mem_open"), False),
    ],
)
def test_waits_that_tracing_brings(made: Callable[..., Made], stack: tuple[str, ...], traced: bool) -> None:
    recording = made()
    recording.lock(1, "css_set_lock")
    recording.waits(1, SPINLOCK, 2 * MS, 100)
    recording.builder.stack(1, *stack)
    recording.sample(1, SPINLOCK, 1, 100, 200 * MS)
    findings = recording.findings()
    assert ("tracing" in rules_of(findings)) == traced
    if traced:
        found = one(findings, "tracing")
        assert findings[0].rule == "tracing"
        assert "100.0% of the sampled waiting, 200 ms" in found.evidence[0]
        # Who is traced is not who traces.
        assert ("stop waiter (" in found.next[0]) == (stack is TRACER)


def test_little_tracing_beside_other_waiting_is_none(made: Callable[..., Made]) -> None:
    recording = made()
    recording.lock(1, "css_set_lock")
    recording.lock(2, "rename_lock")
    recording.waits(1, SPINLOCK, 20 * US, 1000)
    recording.waits(2, SPINLOCK, MS, 900)
    recording.builder.stack(1, *TRACEE)
    recording.builder.stack(2, "_raw_spin_lock", "d_move", "vfs_rename")
    recording.sample(1, SPINLOCK, 1, 1000, 20 * MS)
    recording.sample(2, SPINLOCK, 2, 900, 900 * MS)
    assert "tracing" not in rules_of(recording.findings())


def test_a_cpu_with_interrupts_off_comes_after_what_makes_it_wait(made: Callable[..., Made]) -> None:
    recording = made()
    recording.lock(1, "css_set_lock")
    recording.waits(1, SPINLOCK, 400 * MS, 1)
    recording.waits(1, SPINLOCK, 2 * MS, 75)
    recording.builder.stack(1, "_raw_spin_lock_irq", "cgroup_enter_frozen", *TRACEE[1:])
    recording.builder.stack(2, "_raw_spin_lock_irq", "cgroup_enter_frozen", "do_freezer_trap")
    recording.sample(1, SPINLOCK, 1, 75, 150 * MS)
    recording.sample(1, SPINLOCK, 2, 1, 400 * MS)
    recording.outlier(1, SPINLOCK, 400 * MS, 2)
    rules = rules_of(recording.findings())
    assert rules.index("tracing") < rules.index("interrupts-off")


def test_findings_come_by_impact_times_confidence_and_text_is_harmless(made: Callable[..., Made]) -> None:
    recording = made(clocksource="hpet", cpus_online="4")
    recording.lock(1, "evil\x1b[31m\nlock")
    for cpu in range(4):
        recording.waits(1, SPINLOCK, 1200 * US, 220, cpu)
    findings = recording.findings()
    assert rules_of(findings) == ["shared-clocksource", "convoy"]
    with open_recording(recording.path) as opened:
        report = make_report(opened, Selection(), 20)
    text = "\n".join(as_text(report, Style()))
    assert "\x1b" not in text
    assert "confidence high" in text.splitlines()[1]
    assert text.count("next: ") >= len(findings)


def episode(**changes: Any) -> Episode:
    """A wait of 2 ms of a real-time task, its holder preempted for 80 % of it."""
    return replace(
        Episode(
            state="ended",
            waiter=Party(10, "cyclictest"),
            tgid=10,
            cpu=1,
            begin_cpu=1,
            policy=1,
            priority=1,
            lock="task_struct.pi_lock",
            instance="",
            kind="spinlock",
            offset_ns=0,
            begin_ns=BEGIN,
            duration_ns=2 * MS,
            interrupts="off",
            interrupts_from="",
            stack=(),
            doing=Doing(),
            holders=(
                EpisodeHolder(
                    Party(20, "stress"),
                    "release",
                    2 * MS,
                    1,
                    Doing(running_ns=400 * US, preempted_ns=1600 * US),
                    "",
                    (),
                ),
            ),
            handoff_ns=0,
            bypass=0,
            loops=(),
            relief=None,
            chain=(),
            complete=True,
            left_out=0,
            events=(),
        ),
        **changes,
    )


@pytest.fixture
def quiet(made: Callable[..., Made]) -> Report:
    """A report in which no rule finds anything."""
    recording = made()
    recording.lock(1, "tasklist_lock")
    recording.waits(1, SPINLOCK, US, 3)
    return recording.report()


@pytest.mark.parametrize(
    ("changes", "confidence"),
    [
        ({}, "high"),
        ({"complete": False}, "medium"),
        ({"priority": 120}, None),
        ({"priority": None}, None),
        ({"duration_ns": 50 * US}, None),
        ({"holders": ()}, None),
    ],
)
def test_priority_inversion(quiet: Report, changes: dict[str, Any], confidence: str | None) -> None:
    findings = find_all(replace(quiet, episodes=(episode(**changes),)))
    if confidence is None:
        assert findings == ()
    else:
        assert one(findings, "priority-inversion").confidence == confidence
        assert "80.0%" in one(findings, "priority-inversion").evidence[1]


@pytest.mark.parametrize(
    ("doing", "changes", "confidence"),
    [
        (Doing(running_ns=400 * US, throttled_ns=1600 * US), {}, "high"),
        (Doing(running_ns=400 * US, throttled_ns=1600 * US), {"complete": False}, "medium"),
        (Doing(running_ns=400 * US, preempted_ns=1600 * US), {"priority": 120}, None),
        (Doing(running_ns=1600 * US, throttled_ns=400 * US), {}, None),
        (Doing(throttled_ns=900 * US), {"duration_ns": 900 * US}, None),
    ],
)
def test_a_throttled_holder(quiet: Report, doing: Doing, changes: dict[str, Any], confidence: str | None) -> None:
    holder = replace(episode().holders[0], doing=doing)
    findings = find_all(replace(quiet, episodes=(episode(holders=(holder,), **changes),)))
    if confidence is None:
        assert findings == ()
    else:
        assert one(findings, "holder-throttled").confidence == confidence
        assert "80.0%" in one(findings, "holder-throttled").evidence[1]
        # It could not have run: nobody of a lower priority had its CPU.
        assert "priority-inversion" not in rules_of(findings)


def test_a_holder_that_runs_is_no_inversion(quiet: Report) -> None:
    holder = replace(episode().holders[0], doing=Doing(running_ns=1500 * US, preempted_ns=500 * US))
    assert find_all(replace(quiet, episodes=(episode(holders=(holder,)),))) == ()


@pytest.mark.parametrize(("turns", "found"), [(7000, True), (2, False)])
def test_turns_of_the_loop_during_a_wait(quiet: Report, turns: int, found: bool) -> None:
    waiting = episode(
        priority=120,
        loops=(Loop(Party(30, "strace"), Party(10, "cyclictest"), turns, 0),),
        relief=Relief("irq", "local_timer", 0, Party(30, "strace"), "holder", 3 * US),
    )
    findings = find_all(replace(quiet, episodes=(waiting,)))
    assert ("inactive-wait" in rules_of(findings)) == found
    if found:
        finding = one(findings, "inactive-wait")
        assert finding.confidence == "high"
        assert "7,000 turns" in finding.evidence[0]
        assert "local_timer on CPU 0, 3.00 us before" in finding.evidence[0]


@pytest.mark.parametrize(("most", "found"), [(900, True), (3, False)])
def test_turns_of_the_loop_in_one_call(quiet: Report, most: int, found: bool) -> None:
    pair = InactiveWait(30, 30, "strace", 10, 10, "traced", 1000, 2000, most, 0, 0, MS, MS)
    inactive = InactiveWaits(1000, 2000, MS, MS, most, (pair,), ())
    findings = find_all(replace(quiet, inactive_waits=inactive))
    assert ("inactive-wait" in rules_of(findings)) == found
    if found:
        assert "up to 900 turns in one call" in one(findings, "inactive-wait").evidence[0]


def test_readings_of_a_shared_clock(quiet: Report) -> None:
    reads = ClockReads("read_hpet", True, Figures(5000, 40 * MS, 90 * US, 0, ()), 0.11, (), (), ())
    report = replace(quiet, clock_reads=reads, host=replace(quiet.host, clocksource="hpet"))
    finding = one(find_all(report), "shared-clocksource")
    assert "5,000 readings were recorded: 11.0% of all CPU time" in finding.evidence[1]
    assert find_all(replace(report, host=replace(quiet.host, clocksource="tsc"))) == ()


def test_collisions_in_the_futex_hash(made: Callable[..., Made]) -> None:
    recording = made()
    recording.lock(1, "futex_hash_bucket.lock", "slab")
    recording.waits(1, SPINLOCK, 500 * US, 100)
    futexes = tuple((Futex(number, 7, "server", 4096 * number, 0, "", ""), 10, 10 * US) for number in (2, 3))
    shared = BucketWaits("futex_hash_bucket.lock", "", 100, 50 * MS, MS, futexes)
    alone = BucketWaits("futex_hash_bucket.lock", "", 10, MS, MS, futexes[:1])
    report = replace(recording.report(), futexes=Futexes((), (shared, alone)))
    evidence = one(find_all(report), "futex-bucket").evidence
    assert any("1 of 2 buckets are shared by several futexes: 2 of them in the worst" in text for text in evidence)


@pytest.mark.parametrize(
    ("nature", "futexes", "wait_ns", "shared", "title"),
    [
        (PARKED, 4, 100 * MS, 1, "Processes of database"),
        (PARKED, 4, 10 * MS, 1, None),
        (SEMAPHORE, 4, 100 * MS, 1, None),
    ],
)
def test_parked_waiters(quiet: Report, nature: str, futexes: int, wait_ns: int, shared: int, title: str | None) -> None:
    """A semaphore alone, on which a worker waits for work, is none."""
    total = FutexTotal._make([2, *(0 for _ in FutexTotal._fields[1:])])
    figures = Figures(10, wait_ns, wait_ns, 0, ())
    waker = FutexStack("waker", 5, 5, 0, (Frame(1, "sem_post@GLIBC_2.2.5", 0, ""), Frame(2, "LWLockRelease", 0, "")))
    found = tuple(
        FutexWaits(
            Futex(2 + i, 7, "database", 4096 * i, shared, "", "/dev/zero"),
            *(total, nature, "as its word tells", figures, figures, True, (), (waker,)),
        )
        for i in range(futexes)
    )
    findings = find_all(replace(quiet, futexes=Futexes(found, ())))
    if title is None:
        assert findings == ()
    else:
        finding = one(findings, "parked-lock")
        assert finding.title.startswith(title)
        assert finding.confidence == "medium"
        assert "most are woken by LWLockRelease()" in finding.evidence


@pytest.mark.parametrize(
    ("nature", "waits", "wait_ns", "owner", "confidence"),
    [
        (LOCK, 100, 400 * MS, True, "high"),
        (LOCK, 100, 400 * MS, False, "medium"),
        (CONDITION, 100, 900 * MS, False, None),
        (LOCK, 100, 50 * MS, True, None),
        (LOCK, 5, 400 * MS, True, None),
    ],
)
def test_a_lock_of_a_program(
    quiet: Report, nature: str, waits: int, wait_ns: int, owner: bool, confidence: str | None
) -> None:
    """An idle pool waits on conditions, for as long as it likes."""
    total = FutexTotal._make([2, *(0 for _ in FutexTotal._fields[1:])])
    figures = Figures(waits, wait_ns, wait_ns // waits, 0, ())
    tasks = (FutexTask("owner", 71, 7, "server", 3, 3, MS),) if owner else ()
    futex = FutexWaits(
        Futex(2, 7, "server", 4096, 0, "", ""), total, nature, "as its word tells", figures, figures, tasks=tasks
    )
    findings = find_all(replace(quiet, futexes=Futexes((futex,), ())))
    if confidence is None:
        assert findings == ()
    else:
        assert one(findings, "user-lock").confidence == confidence
        assert one(findings, "user-lock").title.startswith("Threads of server (7) wait for a lock")
