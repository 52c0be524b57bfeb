# SPDX-License-Identifier: GPL-2.0-or-later
"""Each rule: a recording that has its pattern, and near misses that do not."""

from collections.abc import Callable

import pytest

from lockline.analysis.selection import Selection
from lockline.base.text import Style
from lockline.recording.reader import open_recording
from lockline.render.findings import findings as as_text
from lockline.rules.report import make_report
from rule_cases import MS, MUTEX, RWSEM_R, RWSEM_W, SPINLOCK, US, Made, one, rules_of
from told import told


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
    ("name", "source", "function", "part", "found"),
    [
        ("futex_hash_bucket.lock", "slab", "futex_wake", 0.11, True),
        ("futex_q_lock", "call site", "futex_q_lock", 0.11, True),
        # Sure to be a bucket, but it costs less than a tenth of a CPU.
        ("futex_hash_bucket.lock", "slab", "futex_wake", 0.09, False),
        ("pipe_inode_info.mutex", "slab", "pipe_write", 0.11, False),
    ],
)
def test_futex_bucket(
    made: Callable[..., Made], name: str, source: str, function: str, part: float, found: bool
) -> None:
    recording = made()
    recording.lock(1, name, source)
    waits = round(part * 1000 * MS / (500 * US))
    recording.waits(1, SPINLOCK, 500 * US, waits)
    recording.builder.stack(1, "native_queued_spin_lock_slowpath", "_raw_spin_lock", function, "do_futex")
    recording.sample(1, SPINLOCK, 1, waits, waits * 500 * US)
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
