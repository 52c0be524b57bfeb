# SPDX-License-Identifier: GPL-2.0-or-later
"""The tables of a recording, and what is summed over them, but for those of user_rows.py and memory_rows.py.

Times and waits in ns.  Each class with @table() describes one table of userspace/collector/recording/recording.sql.
"""

from lockline.base.values import NamedTuple
from lockline.recording.tables import table


@table("meta")
class Meta(NamedTuple):
    """A fact of the host, the options or the run."""

    name: str
    value: str | int | float | None


@table("probe")
class Probe(NamedTuple):
    """One signal of the plan."""

    signal: str
    state: str
    source: str
    reason: str
    lost: str


@table("program")
class Program(NamedTuple):
    """Own cost of one BPF program; measured_ns covers measured_runs alone."""

    name: str
    signal: str
    runs: int | None
    measured_runs: int
    measured_ns: int
    recursion_misses: int


@table("cost")
class Cost(NamedTuple):
    """Own cost of the collector."""

    name: str
    value: int
    unit: str


@table("loss", columns={"events": "count"})
class Loss(NamedTuple):
    """What did not become a wait, or lost its name or stack."""

    name: str
    events: int
    meaning: str
    severity: str


@table("begin_count")
class Begins(NamedTuple):
    """Begins of one kind, by the event's flags, before any filter."""

    kind: int
    begins: int


@table("kind")
class Kind(NamedTuple):
    """Name of a kind of lock wait."""

    id: int
    name: str


@table("stack")
class Stack(NamedTuple):
    """Return addresses, leaf first, 8 bytes little-endian each; tgid 0: a kernel stack."""

    id: int
    tgid: int
    frames: bytes


@table("lock")
class Lock(NamedTuple):
    """A lock: its address is its key in this recording alone, its name is its identity."""

    id: int
    address: int
    name: str
    instance: str
    source: str


@table("interval")
class Interval(NamedTuple):
    """One step of the time series, CLOCK_MONOTONIC ns."""

    id: int
    begin_ns: int
    end_ns: int


@table("lock_total")
class LockTotal(NamedTuple):
    """Waits for one lock over the whole run."""

    lock: int
    kind: int
    waits: int
    wait_ns: int
    max_ns: int
    failed: int
    worst_cpu: int
    worst_cpu_ns: int
    histogram: bytes


@table("cpu_total")
class CpuTotal(NamedTuple):
    """Waits on one CPU over the whole run."""

    cpu: int
    kind: int
    waits: int
    wait_ns: int
    max_ns: int
    failed: int
    histogram: bytes


@table("cell_total")
class Cell(NamedTuple):
    """Waits for one lock on one CPU, over the whole run or in one interval."""

    lock: int
    kind: int
    cpu: int
    waits: int
    wait_ns: int
    max_ns: int
    failed: int
    histogram: bytes


@table("wait_interval")
class WaitInterval(NamedTuple):
    """What one interval added to the waits for one lock on one CPU."""

    interval: int
    cpu: int
    lock: int
    kind: int
    waits: int
    wait_ns: int
    max_ns: int
    failed: int
    histogram: bytes


class IntervalSum(NamedTuple):
    """Waits for one lock in one interval, on all CPUs."""

    interval: int
    lock: int
    kind: int
    waits: int
    wait_ns: int


class IntervalCell(NamedTuple):
    """Waits for one lock on one CPU in one interval."""

    interval: int
    lock: int
    kind: int
    cpu: int
    wait_ns: int


@table("cgroup")
class Cgroup(NamedTuple):
    """A cgroup; the same tasks may be in others of other hierarchies."""

    id: int
    path: str


@table("container", since=5)
class Container(NamedTuple):
    """What runs in a cgroup; '' where its path and the container runtimes' files tell nothing."""

    cgroup: int
    runtime: str
    container: str
    name: str
    image: str
    pod: str
    namespace: str
    pod_uid: str
    unit: str
    slice: str
    source: str


@table("waiter")
class WaiterRow(NamedTuple):
    """Who waited; cgroup: an id, 0 if it is not known."""

    id: int
    tid: int
    tgid: int
    comm: str
    cgroup: int


class Waiter(NamedTuple):
    """Who waited; cgroup is a path, '' if it is not known; cgroup_id: what its container goes by, 0 likewise."""

    id: int
    tid: int
    tgid: int
    comm: str
    cgroup: str
    cgroup_id: int = 0


@table("frame")
class FrameRow(NamedTuple):
    """A return address of a program's stacks; tgid 0: of the kernel's."""

    tgid: int
    address: int
    symbol: str
    offset: int
    module: str


@table("sample_total")
class SampleTotal(NamedTuple):
    """What the samples of one task, lock, kind and stacks stand for, over the whole run."""

    waiter: int
    lock: int
    kind: int
    stack: int
    user_stack: int
    samples: int
    waits: int
    wait_ns: int


@table("sample_interval")
class SampleInterval(NamedTuple):
    """The same, in one interval."""

    interval: int
    waiter: int
    lock: int
    kind: int
    stack: int
    user_stack: int
    samples: int
    waits: int
    wait_ns: int


class Frame(NamedTuple):
    """One return address of a stack."""

    address: int
    symbol: str
    offset: int
    module: str


class TaskWeight(NamedTuple):
    """What the samples of one task stand for; lock_ns of it for one lock and kind, its worst."""

    waiter: int
    samples: int
    waits: int
    wait_ns: int
    lock: int
    kind: int
    lock_ns: int


class StackWeight(NamedTuple):
    """What the samples of one lock and kind from one stack stand for; stack 0: none was taken."""

    lock: int
    kind: int
    stack: int
    samples: int
    waits: int
    wait_ns: int


class StackSample(NamedTuple):
    """What the samples of one task from one stack stand for, by lock and kind."""

    waiter: int
    lock: int
    kind: int
    stack: int
    wait_ns: int


@table("outlier")
class Outlier(NamedTuple):
    """One wait over the threshold."""

    id: int
    interval: int
    begin_ns: int
    wait_ns: int
    cpu: int
    begin_cpu: int
    waiter: int
    lock: int
    kind: int
    result: int
    stack: int
    user_stack: int


@table("open_wait")
class OpenWait(NamedTuple):
    """A wait that had not ended when the last interval did."""

    tid: int
    tgid: int
    comm: str
    cpu: int
    lock: int
    kind: int
    begin_ns: int
    age_ns: int


@table("holder_total", since=2)
class HolderTotal(NamedTuple):
    """What a task's holds of a lock made others wait; holder: as in waiter, 0 if not known."""

    lock: int
    kind: int
    holder: int
    releases: int
    waits: int
    caused_ns: int
    max_caused_ns: int


@table("release_stack", since=2)
class ReleaseStack(NamedTuple):
    """Where a holder released a lock, from sampled stacks."""

    lock: int
    kind: int
    holder: int
    stack: int
    samples: int
    releases: int
    caused_ns: int


@table("fairness", since=2)
class Fairness(NamedTuple):
    """Hand-offs, waits overtaken, and the holds that were measured, of one lock and kind."""

    lock: int
    kind: int
    waits: int
    releases: int
    retakes: int
    overtaken: int
    bypasses: int
    max_bypasses: int
    handoffs: int
    handoff_ns: int
    max_handoff_ns: int
    holds: int
    hold_ns: int
    max_hold_ns: int
    hold_histogram: bytes


@table("episode", since=2)
class Episode(NamedTuple):
    """A long wait with what went on around it; columns as in recording.sql."""

    id: int
    outlier: int
    state: str
    tid: int
    waiter: int
    lock: int
    kind: int
    begin_ns: int
    wait_ns: int
    begin_cpu: int
    cpu: int
    policy: int
    priority: int
    interrupts: str
    interrupts_from: str
    stack: int
    from_ns: int
    to_ns: int
    cpus: bytes
    complete: int
    left_out: int
    holder: int
    holder_state: str
    holder_stack: int
    holder_from: str


@table("timeline", since=2)
class TimelineRow(NamedTuple):
    """What a CPU did at a time; columns as in recording.sql."""

    time_ns: int
    cpu: int
    type: str
    sequence: int
    length_ns: int
    task: int
    other: int
    lock: int
    value: int
    name: str
    stack: int


@table("clock_total", since=2)
class ClockTotal(NamedTuple):
    """Reads of the clock device on one CPU; read_ns is 0 where they were counted alone."""

    cpu: int
    reads: int
    read_ns: int
    max_ns: int
    histogram: bytes


@table("clock_sample", since=2)
class ClockSample(NamedTuple):
    """What the samples of one task and kernel stack stand for."""

    task: int
    stack: int
    samples: int
    reads: int
    read_ns: int


@table("inactive_wait", since=2)
class InactiveWait(NamedTuple):
    """wait_task_inactive() of one caller (a tracer) for one target (its tracee).

    traced: turns of its loop at which the target was traced.  calls, max_turns, failed and the times are 0 where
    the function could not be probed.
    """

    tid: int
    tgid: int
    comm: str
    target_tid: int
    target_tgid: int
    target_comm: str
    calls: int
    turns: int
    max_turns: int
    traced: int
    failed: int
    wait_ns: int
    max_ns: int


@table("self_check", since=3)
class SelfCheckSlice(NamedTuple):
    """A slice with (deeper 1) or without (0) the deeper probes, and what the observers saw in it."""

    slice: int
    pair: int
    begin_ns: int
    end_ns: int
    deeper: int
    waits: int
    wait_ns: int
    wait_histogram: bytes
    wakeups: int
    max_late_ns: int
    wakeup_histogram: bytes
    switches: int


@table("ptrace_attach", since=3)
class PtraceAttach(NamedTuple):
    """ptrace_attach() of one tracer for one tracee, failed calls too."""

    tid: int
    tgid: int
    comm: str
    target_tid: int
    target_tgid: int
    target_comm: str
    attaches: int
    attach_ns: int
    max_ns: int


@table("ptrace_attach_cpu", since=3)
class PtraceAttachCpu(NamedTuple):
    """The times of the calls that ended on one CPU."""

    cpu: int
    histogram: bytes


@table("inactive_cpu", since=2)
class InactiveCpu(NamedTuple):
    """Calls that ended on one CPU: their times, and their turns by 2^n."""

    cpu: int
    histogram: bytes
    turns: bytes


@table("investigation", since=6)
class Investigation(NamedTuple):
    """The story of the investigation that made the recording, as JSON."""

    id: int
    document: str
