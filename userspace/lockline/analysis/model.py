# SPDX-License-Identifier: GPL-2.0-or-later
"""The values that an analysis gives and a renderer shows.  Times are ns, histograms as in lockline.base.histogram."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lockline.analysis.episode_model import Episode
from lockline.analysis.findings import Finding
from lockline.analysis.selection import Selection
from lockline.analysis.trust import Trust
from lockline.base import histogram
from lockline.base.values import dataclass
from lockline.recording import rows

if TYPE_CHECKING:
    from lockline.analysis.clocksource import ClockReads
    from lockline.analysis.perturbation import SelfCheck
    from lockline.analysis.ptrace import Attaches, InactiveWaits, TracedWaits
    from lockline.analysis.series import Slice
    from lockline.analysis.sleepers import Sleepers
    from lockline.analysis.user_space.futex_waits import Futexes
    from lockline.c2c.live import LiveReport
    from lockline.watch.pairs import Pair


@dataclass(frozen=True, slots=True)
class Figures:
    """Sums over waits, and their distribution."""

    waits: int
    wait_ns: int
    max_ns: int
    failed: int
    histogram: tuple[int, ...]

    @property
    def average_ns(self) -> int:
        """Mean wait, 0 without waits."""
        return self.wait_ns // self.waits if self.waits else 0

    def percentile(self, fraction: float) -> int | None:
        """See histogram.percentile()."""
        return histogram.percentile(self.histogram, fraction, self.max_ns)


@dataclass(frozen=True, slots=True)
class Host:
    """The recorded machine; None for what the recording does not tell."""

    name: str | None
    kernel_release: str | None
    kernel_version: str | None
    architecture: str | None
    cpu_model: str | None
    cpus_possible: int | None
    cpus_online: int | None
    memory_bytes: int | None
    clocksource: str | None
    boot_id: str | None
    spinlock_mode: str | None
    facts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class OpenWait:
    """A wait in progress when the last interval ended."""

    tid: int
    tgid: int
    comm: str
    cpu: int
    lock: str
    kind: str
    age_ns: int


@dataclass(frozen=True, slots=True)
class Window:
    """The time that the figures are of, CLOCK_MONOTONIC, and how it was recorded.

    steal_ns: what the host took away from all CPUs over the whole recording.  rolled_until_ns: intervals before that
    are longer than interval_ns, removed_until_ns: only totals have what was before; None: record --keep did nothing.
    wait_filter: `-L LOCK -S FUNC` of the recording: other waits are not in it.  '': all are.
    """

    begin_ns: int
    end_ns: int
    recording_begin_ns: int
    recording_end_ns: int
    begin_unix_ns: int | None
    intervals: int
    interval_ns: int | None
    state: str
    lockline_version: str | None
    command_line: str | None
    filter: str | None
    threshold_ns: int | None
    sample_period: int | None
    memory_budget_bytes: int | None
    cpus: int | None
    steal_ns: int | None
    rolled_until_ns: int | None
    removed_until_ns: int | None
    selection: Selection
    open_waits: tuple[OpenWait, ...]
    wait_filter: str = ""

    @property
    def duration_ns(self) -> int:
        """Length of the window."""
        return max(0, self.end_ns - self.begin_ns)

    def share(self, ns: int) -> float | None:
        """A wait time in ns as a fraction of the window: 1.0 is one waiter all the time.  None without a window."""
        return ns / self.duration_ns if self.duration_ns else None


@dataclass(frozen=True, slots=True)
class StackShare:
    """A kernel stack and the waits that its samples stand for."""

    samples: int
    waits: int
    wait_ns: int
    frames: tuple[rows.Frame, ...]


@dataclass(frozen=True, slots=True)
class Holder:
    """A task whose holds of a lock made others wait for caused_ns, in `waits` waits.

    kind: "task", "readers" or "unknown".  releases: its contended releases, for waits of any kind.  stacks: where it
    released, heaviest first.
    """

    kind: str
    tid: int
    tgid: int
    comm: str
    cgroup: str
    releases: int
    waits: int
    caused_ns: int
    max_caused_ns: int
    stacks: tuple[StackShare, ...]
    container: str = ""


@dataclass(frozen=True, slots=True)
class Fairness:
    """How a lock was handed on, over the waits whose releases were seen.

    overtaken waits saw others take the lock that had come later, bypasses times in sum.  A hand-off lasts from the
    last release before a wait's end to that end.  holds: of spinlocks in focus (record --holds), None without.
    line_ns: how long a cache line takes between the CPUs that waited, None if that was not measured.
    """

    waits: int
    releases: int
    retakes: int
    overtaken: int
    bypasses: int
    max_bypasses: int
    handoffs: int
    handoff_ns: int
    max_handoff_ns: int
    holds: Figures | None
    line_ns: float | None = None


@dataclass(frozen=True, slots=True)
class LockWaits:
    """Waits for the locks of one identity (name and kind), or for one lock.

    ids are the locks of the recording.  worst_cpu_ns is exact for one instance, or with a selection by CPU,
    lock or time; else it adds up the worst CPUs of the instances, a lower bound.  sampled_ns is the wait time
    that the samples of the first locks stand for, of which stacks are a part.
    """

    ids: tuple[int, ...]
    name: str
    kind: str
    source: str
    instances: int
    worst_instance: str
    worst_instance_ns: int
    address: int | None
    figures: Figures
    worst_cpu: int
    worst_cpu_ns: int
    sampled_ns: int = 0
    stacks: tuple[StackShare, ...] = ()
    holders: tuple[Holder, ...] = ()
    fairness: Fairness | None = None


@dataclass(frozen=True, slots=True)
class KindWaits:
    """Waits of one kind; begins counts events before any filter, None if unknown."""

    kind: str
    begins: int | None
    figures: Figures


@dataclass(frozen=True, slots=True)
class CpuWaits:
    """Waits that ended on one CPU, and their split by kind."""

    cpu: int
    figures: Figures
    kinds: tuple[KindWaits, ...]


@dataclass(frozen=True, slots=True)
class Task:
    """Who waits, estimated from weighted samples; container: see analysis.containers, "" outside of any."""

    tid: int
    tgid: int
    comm: str
    cgroup: str
    samples: int
    waits: int
    wait_ns: int
    lock: str
    kind: str
    lock_ns: int
    container: str = ""


@dataclass(frozen=True, slots=True)
class CgroupWaits:
    """Who waits by cgroup, estimated likewise; share: of all samples, name: of the container in it, "" for none."""

    path: str
    name: str
    container: rows.Container | None
    tasks: int
    waits: int
    wait_ns: int
    share: float | None


@dataclass(frozen=True, slots=True)
class Sampled:
    """What the samples stand for; coverage: their wait time as a share of the exact total, None if not comparable."""

    samples: int
    waits: int
    wait_ns: int
    coverage: float | None


@dataclass(frozen=True, slots=True)
class OutlierWait:
    """One wait over the threshold; offset_ns: its begin from the begin of the recording."""

    offset_ns: int
    begin_ns: int
    wait_ns: int
    cpu: int
    begin_cpu: int
    task: rows.Waiter
    lock: str
    instance: str
    kind: str
    result: int
    stack: tuple[rows.Frame, ...]
    user_stack: tuple[rows.Frame, ...]
    container: str = ""


@dataclass(frozen=True, slots=True)
class ProgramCost:
    """One BPF program; ns_per_run from the measured windows, estimated_ns that times all runs.

    Of a program whose runs are not counted, estimated_ns is the time in the windows, scaled to the whole recording.
    """

    program: rows.Program
    ns_per_run: float | None
    estimated_ns: int | None


# From here on the report says that the file system stood still; the collector says so at the same time.
STALL_NS = 2_000_000_000
# A loss that the report adds: by how many ns totals differ that should be the same.
TOTALS_DISAGREE = "report: totals disagree"


@dataclass(frozen=True, slots=True)
class OwnCost:
    """What recording cost; cpu_share: estimated kernel time over the CPU time of all CPUs."""

    programs: tuple[ProgramCost, ...]
    collector: tuple[rows.Cost, ...]
    estimated_ns: int | None
    cpu_share: float | None
    unavailable: str | None

    def value(self, name: str) -> int:
        """A cost of the collector by name; 0 if the recording does not have it."""
        return next((cost.value for cost in self.collector if cost.name == name), 0)

    @property
    def stalled_ns(self) -> int:
        """How long the file system did not take an interval, the longest time; 0: at most STALL_NS."""
        longest = self.value("commit_longest_ns")
        return longest if longest > STALL_NS else 0


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that a report shows.

    queues: single locks, of several with one name, that a task waits for all the time (on average), of the whole run.
    """

    path: str
    host: Host
    window: Window
    probes: tuple[rows.Probe, ...]
    totals: Figures
    kinds: tuple[KindWaits, ...]
    locks: tuple[LockWaits, ...]
    cpus: tuple[CpuWaits, ...]
    outliers: tuple[OutlierWait, ...]
    outlier_count: int
    sampled: Sampled
    tasks: tuple[Task, ...]
    cgroups: tuple[CgroupWaits, ...]
    loss: tuple[rows.Loss, ...]
    cost: OwnCost
    trust: Trust
    queues: tuple[LockWaits, ...] = ()
    findings: tuple[Finding, ...] = ()
    episodes: tuple[Episode, ...] = ()
    futexes: "Futexes | None" = None
    clock_reads: "ClockReads | None" = None
    inactive_waits: "InactiveWaits | None" = None
    attaches: "Attaches | None" = None
    traced_waits: "TracedWaits | None" = None
    self_check: "SelfCheck | None" = None
    lines: "LiveReport | None" = None
    cpu_pairs: "tuple[Pair, ...]" = ()
    slices: "tuple[Slice, ...]" = ()
    sleepers: "Sleepers | None" = None
