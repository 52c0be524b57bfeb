# SPDX-License-Identifier: GPL-2.0-or-later
"""The report, lockline-report/2."""

from collections.abc import Callable
from typing import Any, Literal

from lockline.analysis.answer import make_answer
from lockline.analysis.model import Report
from lockline.analysis.waitgraph_of import waitgraph_of
from lockline.base import histogram
from lockline.base.values import dataclass
from lockline.render.documents import schemas, waitgraph
from lockline.render.documents.episodes import Episode
from lockline.render.documents.figures import Frame, Lengths, Stack, Waits, caller_of
from lockline.render.documents.findings import Finding
from lockline.render.documents.signals import Attaches, ClockReads, Futexes, InactiveWaits
from lockline.render.documents.trust import SelfCheck, Trust
from lockline.render.documents.waitgraph import WaitGraph
from lockline.render.documents.watch import CpuPair, Line
from lockline.render.findings import worded
from lockline.render.walker import (
    Address,
    Amount,
    At,
    Count,
    Name,
    Pairs,
    Positive,
    as_line,
    inline,
    shown,
    walk,
    with_addresses,
)

SCHEMA = schemas.REPORT


@dataclass(frozen=True)
class Host:
    """The recorded machine; null: not recorded."""

    hostname: str | None = shown("its name", "name")
    kernel_release: str | None = shown("as uname -r has it")
    kernel_version: str | None = shown("as uname -v has it")
    architecture: str | None = shown("as uname -m has it")
    cpu_model: str | None = shown("as /proc/cpuinfo has it")
    cpus_possible: Count | None = shown("CPUs that there may be")
    cpus_online: Count | None = shown("CPUs that there are")
    memory_bytes: Count | None = shown("of the machine")
    clocksource: str | None = shown("the kernel's")
    boot_id: str | None = shown("of this boot")
    spinlock_mode: str | None = shown("how its spinlocks queue")
    facts: dict[str, str] = shown("everything else that the recording tells of the machine")


@dataclass(frozen=True)
class Selection:
    """The report's options; null: no filter."""

    kinds: tuple[str, ...] | None = shown("--kinds")
    cpus: tuple[Count, ...] | None = shown("--cpu")
    lock: str | None = shown("--lock")
    from_ns: Count | None = shown("--from")
    to_ns: Count | None = shown("--to")
    sort: Literal["total", "waits", "max", "avg", "p99"] = shown("--sort")
    by: Literal["identity", "instance"] = shown("--by")
    top: Count | None = shown("--top")
    container: str | None = shown("--container: of tasks, cgroups and outliers; other figures are of all waiters")
    pod: str | None = shown("--pod: likewise")


@dataclass(frozen=True)
class OpenWait:
    """A wait in progress when the recording ended."""

    tid: int = shown("of the waiter")
    tgid: int = shown("of its process")
    comm: str = shown("its name")
    cpu: int = shown("where it began")
    lock: str = shown("what it waited for")
    kind: str = shown("of wait")
    age_ns: int = shown("so far")


@dataclass(frozen=True)
class Window:
    """The time that the figures are of, how it was recorded and what was selected."""

    begin_ns: Count = shown("the selected time: whole intervals, so wider than --from and --to")
    end_ns: Count = shown("likewise")
    duration_ns: Count = shown("of the selected time")
    recording_begin_ns: Count = shown("of the whole recording")
    recording_end_ns: Count = shown("of one that was cut off: of its last interval")
    recording_begin_unix_ns: Count | None = shown("the begin as time of day, since 1970", "begin_unix_ns")
    intervals: Count = shown("in the selected time")
    interval_ns: Count | None = shown("their nominal length")
    state: str = shown("complete; recording: cut off, or still being recorded")
    lockline_version: str | None = shown("that recorded it")
    command_line: str | None = shown("that recorded it")
    filter: str | None = shown("of the recording")
    threshold_ns: Count | None = shown("waits so long are kept one by one")
    sample_period: Count | None = shown("of weighted samples")
    memory_budget_bytes: Count | None = shown("of the recording")
    steal_ns: Count | None = shown("what the host took away from all CPUs over the whole recording")
    rolled_until_ns: Count | None = shown(
        "intervals before that are longer than interval_ns: record --keep, --max-size"
    )
    removed_until_ns: Count | None = shown("only the totals of the whole recording have what was before that")
    selection: Selection = shown("the report's options")
    open_waits: tuple[OpenWait, ...] = shown("in progress when the recording ended; not filtered")


@dataclass(frozen=True)
class Probe:
    """One signal of the plan."""

    signal: str = shown("its name")
    state: str = shown("on, off (not asked for), unavailable, blind (the kernel has waits that cannot be seen)")
    source: str = shown("what it is taken from")
    reason: str = shown("why it is so")
    lost: str = shown("what the report cannot tell for want of it")


@dataclass(frozen=True)
class KindWaits:
    """Waits of one kind."""

    kind: str = shown("its name")
    begins: Count | None = shown("contention events before any filter; one mutex wait can have several")
    figures: Waits = inline("figures")


@dataclass(frozen=True)
class Sampled:
    """What the weighted samples stand for."""

    samples: Count = shown("kept")
    waits: Count = shown("that they stand for")
    wait_ns: Count = shown("that they stand for")
    coverage: float | None = shown("wait_ns over the exact total, near 1 if the estimates are good; null with --cpu")


@dataclass(frozen=True)
class Totals:
    """All waits of the selection; of a Report."""

    figures: Waits = inline("totals")
    kinds: tuple[KindWaits, ...] = shown("by kind")
    locks: Count = shown("entries of locks without --top", lambda report, _: len(report.locks))
    outliers: Count = shown("waits over the threshold that were kept in the selection", "outlier_count")
    sampled: Sampled = shown("what the weighted samples stand for")


def _of_task(name: str) -> Callable[[Any, At], Any]:
    return lambda pair, _: getattr(pair[1], name) if pair[1].kind == "task" else None


def _of_holder(name: str) -> Callable[[Any, At], Any]:
    return lambda pair, _: getattr(pair[1], name)


@dataclass(frozen=True)
class Holder:
    """A task whose holds made others wait; of the lock and the holder."""

    kind: Literal["task", "readers", "unknown"] = shown("readers: which of them is not known", _of_holder("kind"))
    comm: str | None = shown("its name, of a task", _of_task("comm"))
    tid: int | None = shown("its id, of a task", _of_task("tid"))
    tgid: int | None = shown("of its process, of a task", _of_task("tgid"))
    cgroup: Name = shown("a path", _of_holder("cgroup"))
    container: Name = shown("its name, as of Cgroup", _of_holder("container"))
    releases: Count = shown("contended ones, for waits of any kind", _of_holder("releases"))
    waits: Count = shown("that were kept waiting", _of_holder("waits"))
    caused_ns: Count = shown("waiting that it caused", _of_holder("caused_ns"))
    share: float | None = shown(
        "of the entry's wait time",
        lambda pair, _: pair[1].caused_ns / pair[0].figures.wait_ns if pair[0].figures.wait_ns else None,
    )
    max_caused_ns: Count = shown("of one wait", _of_holder("max_caused_ns"))
    stacks: tuple[Stack, ...] = shown("where it released", _of_holder("stacks"))


@dataclass(frozen=True)
class Holds:
    """Hold times of a spinlock, of record --holds."""

    holds: Count = shown("how many", "waits")
    hold_ns: Count = shown("their sum", "wait_ns")
    lengths: Lengths = inline()
    max_ns: Count = shown("the longest")
    histogram: Pairs = shown(
        "pairs of a bucket's lower end in ns and its count", lambda holds, _: histogram.pairs(holds.histogram)
    )


@dataclass(frozen=True)
class Fairness:
    """How a lock was handed on, over the waits whose releases were seen."""

    waits: Count = shown("judged")
    releases: Count = shown("contended ones")
    retakes: Count = shown("the same task had the lock again, ahead of all that waited")
    overtaken: Count = shown("waits that others overtook who came later")
    bypasses: Count = shown("how often that happened, in sum")
    max_bypasses: Count = shown("of one wait")
    handoffs: Count = shown("from the last release before a wait's end to that end")
    handoff_ns: Count = shown("their sum")
    max_handoff_ns: Count = shown("the longest")
    line_transfer_ns: Amount | None = shown(
        "how long a cache line takes between the CPUs that waited, of lockline doctor --deep", "line_ns"
    )
    holds: Holds | None = shown("of record --holds")


@dataclass(frozen=True)
class LockWaits:
    """An entry of locks: by identity (name and kind), or by lock with --by instance."""

    name: str = shown("the same across boots")
    kind: str = shown("of wait")
    source: str = shown("where the name is from")
    instances: Positive = shown("locks of this name")
    worst_instance: Name = shown("which of them was waited for longest")
    worst_instance_ns: Count = shown("and how long")
    address: Address | None = shown("of a single instance, with --addresses alone", where=with_addresses)
    figures: Waits = inline("figures")
    worst_cpu: int = shown("the CPU that waited longest")
    worst_cpu_ns: int = shown("a lower bound for several instances, unless selected by CPU, lock or time")
    sampled_wait_ns: Count = shown("what its samples stand for; 0 beyond the first 20 entries", "sampled_ns")
    stacks: tuple[Stack, ...] = shown("of the first 20 entries, up to three, by wait_ns")
    holders: tuple[Holder, ...] = shown(
        "with record --holders, up to 10, by caused_ns; of the whole run",
        lambda lock, _: [(lock, holder) for holder in lock.holders],
    )
    fairness: Fairness | None = shown("likewise")


@dataclass(frozen=True)
class CpuKind:
    """Waits of one kind on one CPU."""

    kind: str = shown("its name")
    waits: Count = shown("how many", "figures.waits")
    wait_ns: Count = shown("their sum", "figures.wait_ns")
    max_ns: Count = shown("the longest", "figures.max_ns")
    failed: Count = shown("ended without the lock", "figures.failed")


@dataclass(frozen=True)
class CpuWaits:
    """Waits that ended on one CPU."""

    cpu: int = shown("its number")
    figures: Waits = inline("figures")
    kinds: tuple[CpuKind, ...] = shown("by kind")


@dataclass(frozen=True)
class Outlier:
    """One wait over the threshold."""

    offset_ns: int = shown("of the begin, from the begin of the recording")
    begin_ns: int = shown("CLOCK_MONOTONIC")
    wait_ns: Count = shown("its length")
    cpu: int = shown("where the wait ended")
    begin_cpu: int = shown("where it began")
    comm: str = shown("of the waiter", "task.comm")
    tid: int = shown("of the waiter", "task.tid")
    tgid: int = shown("of its process", "task.tgid")
    cgroup: Name = shown("a path", "task.cgroup")
    container: Name = shown("its name, as of Cgroup")
    lock: str = shown("what it waited for")
    instance: Name = shown("which of this name")
    kind: str = shown("of wait")
    result: int = shown("0, or a negative errno: ended without the lock")
    caller: Name = shown("first function that is not one of the lock itself", lambda one, _: caller_of(one.stack))
    stack: tuple[Frame, ...] = shown("in the kernel, leaf first")
    user_stack: tuple[Frame, ...] = shown("empty unless recorded with --user-stacks")


def _task_share(task: Any, at: At) -> float | None:
    total = at.report.sampled.wait_ns
    return task.wait_ns / total if total else None


@dataclass(frozen=True)
class Task:
    """Who waits, estimated from weighted samples."""

    comm: str = shown("its name")
    tid: int = shown("its id")
    tgid: int = shown("of its process")
    cgroup: Name = shown("a path")
    container: Name = shown("its name, as of Cgroup")
    samples: Count = shown("of its waits")
    waits: Count = shown("that they stand for")
    wait_ns: Count = shown("that they stand for")
    share: float | None = shown("of all samples' wait time", _task_share)
    lock: str = shown("that it waited longest for")
    kind: str = shown("of wait")
    lock_wait_ns: Count = shown("for that lock", "lock_ns")


@dataclass(frozen=True)
class Container:
    """What runs in a cgroup; null: not known."""

    runtime: Name = shown("docker, containerd, cri-o, podman, lxc, machine")
    id: Name = shown("the runtime's", "container")
    name: Name = shown("the runtime's; in a pod that of the container")
    image: Name = shown("that it was made from")
    pod: Name = shown("its name")
    namespace: Name = shown("of the pod")
    pod_uid: Name = shown("of the pod")
    unit: Name = shown("of systemd")
    slice: Name = shown("of systemd")
    source: Name = shown("the files that gave the names")


@dataclass(frozen=True)
class Cgroup:
    """Who waits by cgroup, estimated from weighted samples."""

    path: Name = shown("null: not known")
    name: Name = shown("NAMESPACE/POD/CONTAINER, NAMESPACE/POD, or a container's name or id; null: neither")
    container: Container | None = shown("null: the path tells nothing")
    tasks: Count = shown("threads that waited")
    waits: Count = shown("that the samples stand for")
    wait_ns: Count = shown("that the samples stand for")
    share: float | None = shown("of all samples' wait time")


@dataclass(frozen=True)
class Loss:
    """What the figures lack."""

    name: str = shown("of the counter")
    count: int = shown("how often", "events")
    meaning: str = shown("what it means")
    severity: str = shown("how bad it is")


@dataclass(frozen=True)
class Program:
    """One BPF program."""

    name: str = shown("its name", "program.name")
    signal: str = shown("that it serves", "program.signal")
    runs: int | None = shown("null: nobody counts them", "program.runs")
    measured_runs: int = shown("in the measured windows", "program.measured_runs")
    measured_ns: int = shown("of these", "program.measured_ns")
    recursion_misses: int = shown("runs that were skipped", "program.recursion_misses")
    ns_per_run: float | None = shown("in the measured windows")
    estimated_ns: int | None = shown("that times all runs")


@dataclass(frozen=True)
class CollectorCost:
    """Own cost of the collector."""

    name: str = shown("of what")
    value: int = shown("how much")
    unit: str = shown("of the value")


@dataclass(frozen=True)
class Cost:
    """What recording cost."""

    programs: tuple[Program, ...] = shown("by BPF program")
    kernel_estimated_ns: int | None = shown("of all programs", "estimated_ns")
    kernel_cpu_share: float | None = shown("of the CPU time of all CPUs", "cpu_share")
    kernel_unavailable: str | None = shown("why run times are missing", "unavailable")
    collector: tuple[CollectorCost, ...] = shown("of the collector")


@dataclass(frozen=True)
class AnswerCost:
    """What waiting costs, by how the kind of lock waits."""

    spinning_cpus: Amount = shown("CPUs that spin, on average")
    machine: Amount | None = shown("that as a part of all CPUs; null: their number is not known")
    sleeping_threads: Amount = shown("threads that sleep, on average")


@dataclass(frozen=True)
class AnswerLock:
    """A lock that the answer is about."""

    name: str = shown("the same across boots")
    kind: str = shown("of wait")
    wait_ns: Count = shown("its waiting", "figures.wait_ns")


@dataclass(frozen=True)
class Answer:
    """The answer of the first screen."""

    kind: Literal[
        "standstill", "negligible", "one lock", "several", "user space", "other locks", "not enough recorded"
    ] = shown("which answer")
    why: Name = shown("of 'not enough recorded', a sentence")
    cost: AnswerCost = shown("of all lock waiting")
    locks: tuple[AnswerLock, ...] = shown("that it is about, heaviest first")
    part: Amount = shown("that they have of all lock waiting; 0 without locks")
    user_waiting: Amount | None = shown("threads that wait for locks of programs, on average; null without --futex")


@dataclass(frozen=True)
class Asleep:
    """Threads of a process that sleep in one way."""

    comm: str = shown("of the process")
    tgid: int = shown("process; 0: several")
    kind: str = shown("file-lock, semaphore, futex (a lock of the program, or work), input, nap or other")
    function: str = shown("of the kernel, that most of them sleep in")
    what: str = shown("of other: what for, in words; '' if nobody knows")
    threads: Amount = shown("so many on average")


@dataclass(frozen=True)
class InFutexes:
    """A busy process of which several threads sleep in futexes: for a lock of its own, or for work."""

    comm: str = shown("of the process")
    tgid: int = shown("process")
    threads: Amount = shown("that sleep there, on average")
    on_cpu: Amount = shown("that ran or wanted a CPU, on average")


@dataclass(frozen=True)
class FileLock:
    """A process that waits for a lock on a file."""

    file: str = shown("path, or MAJOR:MINOR:INODE")
    waiter: int = shown("process")
    waiter_comm: str = shown("its name")
    holder: int = shown("process; 0: not known")
    holder_comm: str = shown("its name")
    looks: Count = shown("at which it waited, of five at most")


@dataclass(frozen=True)
class Sleepers:
    """What threads slept in, at some moments of the whole recording."""

    looks: Count = shown("moments")
    threads: Amount = shown("there were, on average")
    looked_at: Amount = shown("of these, on average")
    on_cpu: Amount = shown("that ran or wanted a CPU, on average")
    cpus: Amount | None = shown("that the chosen processes used on average; null: all tasks were recorded")
    asleep: tuple[Asleep, ...] = shown("the others, most first")
    file_locks: tuple[FileLock, ...] = shown("who waits for a lock on a file, and who has it")
    in_futexes: tuple[InFutexes, ...] = shown("busy processes with threads in futexes, most first")


@dataclass(frozen=True)
class Slice:
    """Waiting in one interval."""

    begin_ns: int = shown("from the begin of the recording")
    end_ns: int = shown("likewise")
    waits: Count = shown("that ended in it")
    wait_ns: Count = shown("their sum")
    spinning_ns: Count = shown("of that, what spun")
    lock: Name = shown("with most waiting in it; null without waits", "heaviest")
    kind: Name = shown("of wait", "heaviest_kind")
    lock_wait_ns: Count = shown("for that lock", "heaviest_ns")


def _top(name: str) -> Callable[[Any, At], Any]:
    return lambda report, _: getattr(report, name)[: report.window.selection.top]


@dataclass(frozen=True)
class Document:
    """Output of `lockline report --format json`; see report-schema.md."""

    schema: Literal["lockline-report/2"] = shown("this schema", lambda *_: SCHEMA)
    answer: Answer = shown("is it locks, which, and what does it cost", lambda report, _: make_answer(report))
    host: Host = shown("the recorded machine")
    window: Window = shown("the time that the figures are of")
    probes: tuple[Probe, ...] = shown("the plan: one entry per signal")
    totals: Totals = shown("all waits of the selection", lambda report, _: report)
    locks: tuple[LockWaits, ...] = shown("in the order of --sort", _top("locks"))
    cpus: tuple[CpuWaits, ...] = shown("by CPU on which the wait ended; those without waits are left out")
    outliers: tuple[Outlier, ...] = shown("the longest waits over the threshold, one by one")
    tasks: tuple[Task, ...] = shown("who waits, longest first", _top("tasks"))
    cgroups: tuple[Cgroup, ...] = shown("who waits by cgroup, longest first", _top("cgroups"))
    findings: tuple[Finding, ...] = shown(
        "what the rules found, most impact times confidence first",
        lambda report, _: [(finding, worded(finding)) for finding in report.findings],
    )
    futexes: Futexes | None = shown("null unless recorded with --futex")
    clock_reads: ClockReads | None = shown("null unless there were any")
    inactive_waits: InactiveWaits | None = shown("ptrace's waits; null unless recorded")
    ptrace_attaches: Attaches | None = shown("calls of ptrace_attach(); null unless recorded", "attaches")
    lines: tuple[Line, ...] = shown(
        "cache lines, as `lockline watch` has them", lambda report, _: report.lines.lines if report.lines else ()
    )
    cpu_pairs: tuple[CpuPair, ...] = shown("what `lockline doctor --deep` measured")
    wait_graph: WaitGraph = shown(
        "who waits for whom in the end", lambda report, _: waitgraph.made(waitgraph_of(report))
    )
    sleepers: Sleepers | None = shown("what threads slept in, at some moments; null: nobody looked")
    series: tuple[Slice, ...] = shown("waiting over time, by interval; empty with --cpu", "slices")
    episodes: tuple[Episode, ...] = shown("long waits with what went on around them")
    loss: tuple[Loss, ...] = shown("what the figures lack")
    cost: Cost = shown("what recording cost")
    self_check: SelfCheck | None = shown("null unless recorded with --self-check")
    trust: Trust = shown("how far lengths can be trusted")


def document(report: Report, addresses: bool = False) -> dict[str, Any]:
    """The report as JSON values; addresses: with kernel addresses."""
    return walk(Document, report, addresses)


def render(report: Report, addresses: bool = False) -> str:
    """One JSON object on one line; addresses: with kernel addresses."""
    return as_line(document(report, addresses))
