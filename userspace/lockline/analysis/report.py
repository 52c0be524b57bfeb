# SPDX-License-Identifier: GPL-2.0-or-later
"""From a recording and a selection to a Report."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lockline.analysis.clocksource import read_clock_reads
from lockline.analysis.containers import by_cgroup, container_name, read_containers, select_waiters
from lockline.analysis.episodes import read_episodes
from lockline.analysis.holders import with_holders
from lockline.analysis.model import (
    TOTALS_DISAGREE,
    Host,
    LockWaits,
    OpenWait,
    OutlierWait,
    OwnCost,
    ProgramCost,
    Report,
    Window,
)
from lockline.analysis.perturbation import read_self_check, seen_whole
from lockline.analysis.ptrace import read_attaches, read_inactive_waits, read_traced_waits
from lockline.analysis.samples import UNKNOWN_WAITER, sampled, tasks, with_stacks
from lockline.analysis.selection import Selection, lock_matches, select_kinds
from lockline.analysis.sleepers import read_sleepers
from lockline.analysis.trust import COARSE_STEP_NS, make_trust
from lockline.analysis.user_space.futex import read_futexes
from lockline.analysis.waits import UNKNOWN_LOCK, Limits, Waits, read_instances, read_waits, selected_locks
from lockline.base.errors import LocklineError
from lockline.recording import rows
from lockline.recording.reader import MetaValue, Recording, Span
from lockline.recording.stacks import without_probe

# Long waits with what went on around them: enough for rules to judge by.
EPISODES = 20
# Single locks that a report looks at, of those that share a name.
QUEUES = 8
# A figure may exceed the window by what happens between reading the clock and reading the arrays.
SLACK_NS = 1_000_000_000

HOST_FACTS = (
    "hostname",
    "kernel_release",
    "kernel_version",
    "architecture",
    "cpu_model",
    "cpus_possible",
    "cpus_online",
    "memory_total_bytes",
    "clocksource",
    "boot_id",
    "spinlock_mode",
)
RUN_FACTS = (
    "lockline_version",
    "command_line",
    "begin_ns",
    "end_ns",
    "begin_unix_ns",
    "threshold_ns",
    "sample_period",
    "memory_bytes",
    "interval_ns",
    "filter",
    "state",
    "own_cost_unavailable",
    "steal_begin_ns",
    "steal_end_ns",
    "clock_step_ns",
    "self_check_deeper",
    "self_check_observer",
    "self_check_waits",
    "self_check_slice_ns",
    "self_check_settle_ns",
    "self_check_ended",
)


def _text(meta: Mapping[str, MetaValue], name: str) -> str | None:
    value = meta.get(name)
    return None if value is None or value == "" else str(value)


def _integer(meta: Mapping[str, MetaValue], name: str) -> int | None:
    """A fact that is a whole number >= 0, or text of one; None if it is something else."""
    value = meta.get(name)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        value = int(value)
    return value if isinstance(value, int) and 0 <= value < 1 << 63 else None


def _difference(meta: Mapping[str, MetaValue], before: str, after: str) -> int | None:
    """What a counter gained; None if either reading is missing, or if it went back."""
    begin, end = _integer(meta, before), _integer(meta, after)
    return end - begin if begin is not None and end is not None and end >= begin else None


def read_host(meta: Mapping[str, MetaValue]) -> Host:
    """The recorded machine; facts that have no place of their own are kept as text."""
    return Host(
        name=_text(meta, "hostname"),
        kernel_release=_text(meta, "kernel_release"),
        kernel_version=_text(meta, "kernel_version"),
        architecture=_text(meta, "architecture"),
        cpu_model=_text(meta, "cpu_model"),
        cpus_possible=_integer(meta, "cpus_possible"),
        cpus_online=_integer(meta, "cpus_online"),
        memory_bytes=_integer(meta, "memory_total_bytes"),
        clocksource=_text(meta, "clocksource"),
        boot_id=_text(meta, "boot_id"),
        spinlock_mode=_text(meta, "spinlock_mode"),
        facts={
            name: str(value)
            for name, value in meta.items()
            if name not in HOST_FACTS and name not in RUN_FACTS and value is not None
        },
    )


def resolved(selection: Selection, length_ns: int) -> Selection:
    """The selection with times since the begin in the place of those before the end.

    length_ns: of the recording.  Raises LocklineError if no time is left.
    """

    def since_begin(ns: int | None) -> int | None:
        return ns if ns is None or ns >= 0 else max(0, length_ns + ns)

    found = replace(selection, from_ns=since_begin(selection.from_ns), to_ns=since_begin(selection.to_ns))
    if found.to_ns is not None and found.to_ns <= (found.from_ns or 0):
        raise LocklineError("--to: lies before --from")
    return found


def select_span(
    intervals: Sequence[rows.Interval], selection: Selection, begin_ns: int, removed: bool = False
) -> Span | None:
    """First and last id of the intervals that overlap the selected time; None if that is the whole run.

    removed: whether the whole run is more than its intervals.  Raises LocklineError if there are none.
    """
    if selection.from_ns is None and selection.to_ns is None:
        return None
    first = begin_ns + (selection.from_ns or 0)
    last = None if selection.to_ns is None else begin_ns + selection.to_ns
    found = [
        interval.id for interval in intervals if interval.end_ns > first and (last is None or interval.begin_ns < last)
    ]
    if not found:
        length = (max((interval.end_ns for interval in intervals), default=begin_ns) - begin_ns) / 1e9
        kept = f", and only totals of the time before {_kept(intervals, begin_ns):.1f} s" if removed else ""
        raise LocklineError(f"--from, --to: no interval of the recording lies there; it is {length:.1f} s long{kept}")
    # The whole run has totals of its own, which are read much faster.
    return None if len(found) == len(intervals) and not removed else (min(found), max(found))


def _kept(intervals: Sequence[rows.Interval], begin_ns: int) -> float:
    return (min((interval.begin_ns for interval in intervals), default=begin_ns) - begin_ns) / 1e9


def read_window(
    recording: Recording,
    meta: Mapping[str, MetaValue],
    selection: Selection,
    locks: Mapping[int, rows.Lock],
    kinds: Mapping[int, str],
) -> tuple[Window, Span | None]:
    """The time that the figures are of, and its intervals (None: the whole run).

    begin_ns and end_ns of a recording that was cut off are those of its intervals.
    """
    intervals = recording.intervals()
    begins = [interval.begin_ns for interval in intervals]
    ends = [interval.end_ns for interval in intervals]
    begin = _integer(meta, "begin_ns")
    if begin is None:
        begin = min(begins, default=0)
    end = _integer(meta, "end_ns")
    if end is None or end < begin:
        end = max([begin, *ends])
    removed = _integer(meta, "removed_until_ns")
    selection = resolved(selection, max([end, *ends]) - begin)
    span = select_span(intervals, selection, begin, removed is not None)
    shown = [interval for interval in intervals if span is None or span[0] <= interval.id <= span[1]]
    window = Window(
        begin_ns=begin if span is None else min(interval.begin_ns for interval in shown),
        end_ns=end if span is None else max(interval.end_ns for interval in shown),
        recording_begin_ns=begin,
        recording_end_ns=end,
        begin_unix_ns=_integer(meta, "begin_unix_ns"),
        intervals=len(shown),
        interval_ns=_integer(meta, "interval_ns"),
        state=_text(meta, "state") or "unknown",
        lockline_version=_text(meta, "lockline_version"),
        command_line=_text(meta, "command_line"),
        filter=_text(meta, "filter"),
        wait_filter=_text(meta, "wait_filter") or "",
        threshold_ns=_integer(meta, "threshold_ns"),
        sample_period=_integer(meta, "sample_period"),
        memory_budget_bytes=_integer(meta, "memory_bytes"),
        cpus=_integer(meta, "cpus_online") or _integer(meta, "cpus_possible") or None,
        steal_ns=_difference(meta, "steal_begin_ns", "steal_end_ns"),
        rolled_until_ns=_integer(meta, "rolled_until_ns"),
        removed_until_ns=removed,
        selection=selection,
        open_waits=tuple(
            OpenWait(
                tid=wait.tid,
                tgid=wait.tgid,
                comm=wait.comm,
                cpu=wait.cpu,
                lock=locks.get(wait.lock, UNKNOWN_LOCK).name,
                kind=kinds.get(wait.kind, f"kind {wait.kind}"),
                age_ns=wait.age_ns,
            )
            for wait in recording.open_waits()
        ),
    )
    return window, span


def read_cost(recording: Recording, duration_ns: int, cpus: int | None, unavailable: str | None) -> OwnCost:
    """Own cost over the whole recording of duration_ns on `cpus` CPUs; unavailable: why run times are missing."""
    costs = tuple(recording.costs())
    windows_ns = next((cost.value for cost in costs if cost.name == "measured_window_ns"), 0)
    # What happened in the windows, for the whole recording: of runs that nobody counts.
    scale = duration_ns / windows_ns if windows_ns > 0 else None
    programs = []
    for program in recording.programs():
        each = program.measured_ns / program.measured_runs if program.measured_runs > 0 else None
        runs: float | None = program.runs
        if runs is None and scale is not None:
            runs = program.measured_runs * scale
        total = None if each is None or runs is None else round(each * runs)
        programs.append(ProgramCost(program, each, total))
    known = [cost.estimated_ns for cost in programs if cost.estimated_ns is not None]
    estimated = sum(known) if known else None
    share = estimated / (duration_ns * cpus) if estimated is not None and duration_ns and cpus else None
    return OwnCost(tuple(programs), costs, estimated, share, unavailable)


def _outlier_waits(
    recording: Recording,
    outliers: Sequence[rows.Outlier],
    waiters: Mapping[int, rows.Waiter],
    locks: Mapping[int, rows.Lock],
    kinds: Mapping[int, str],
    begin_ns: int,
    containers: Mapping[int, str],
) -> tuple[OutlierWait, ...]:
    frames = recording.stacks(
        sorted({stack for outlier in outliers for stack in (outlier.stack, outlier.user_stack) if stack})
    )
    return tuple(
        OutlierWait(
            offset_ns=outlier.begin_ns - begin_ns,
            begin_ns=outlier.begin_ns,
            wait_ns=outlier.wait_ns,
            cpu=outlier.cpu,
            begin_cpu=outlier.begin_cpu,
            task=waiters.get(outlier.waiter, UNKNOWN_WAITER),
            lock=locks.get(outlier.lock, UNKNOWN_LOCK).name,
            instance=locks.get(outlier.lock, UNKNOWN_LOCK).instance,
            kind=kinds.get(outlier.kind, f"kind {outlier.kind}"),
            result=outlier.result,
            stack=without_probe(frames.get(outlier.stack, ())),
            user_stack=frames.get(outlier.user_stack, ()),
            container=containers.get(waiters.get(outlier.waiter, UNKNOWN_WAITER).cgroup_id, ""),
        )
        for outlier in outliers
    )


def _derived_losses(waits: Waits, rejected: int) -> list[rows.Loss]:
    """What this report itself left out or found wrong, beside what the recording says it lacks."""
    losses = []
    if rejected:
        meaning = "rows left out: negative, or longer waits than this time and these CPUs allow"
        losses.append(rows.Loss("report: impossible figures", rejected, meaning, "loss"))
    if waits.disagreement_ns:
        meaning = "ns by which the totals of locks and of CPUs differ"
        losses.append(rows.Loss(TOTALS_DISAGREE, waits.disagreement_ns, meaning, "loss"))
    return losses


def read_report(
    recording: Recording, selection: Selection, outlier_limit: int, episode_limit: int = EPISODES
) -> Report:
    """Analyse a recording; findings are made of the report, by lockline.rules.

    outlier_limit: how many of the longest waits over the threshold to give with their stacks, < 0 for all.
    episode_limit: how many waits with what went on around them, likewise; none of a selection by CPU, kind or time.
    Raises RecordingError if the recording is damaged, LocklineError if the selection names nothing.
    """
    meta = recording.meta()
    kinds = recording.kinds()
    locks = recording.locks()
    if selection.lock is not None and not any(lock_matches(selection.lock, lock.name) for lock in locks.values()):
        raise LocklineError(f"--lock: no lock of the recording matches '{selection.lock}'")
    cpus = meta.get("cpus_possible")
    if selection.cpus and isinstance(cpus, int) and 0 < cpus <= min(selection.cpus):
        raise LocklineError(f"--cpu: none of these is a CPU of the recorded machine, which has {cpus}, from 0 on")
    selected_kinds = None if selection.kinds is None else select_kinds(kinds, selection.kinds)
    lock_ids = selected_locks(selection, locks)
    window, span = read_window(recording, meta, selection, locks, kinds)

    possible_ns = window.end_ns - window.recording_begin_ns
    limits = Limits(possible_ns + SLACK_NS if possible_ns > 0 else None, window.cpus)
    waits = read_waits(recording, selection, span, kinds, selected_kinds, locks, limits)

    impossible = recording.impossible_samples(span, lock_ids, selected_kinds)
    weights = recording.task_weights(span, lock_ids, selected_kinds, sound=not impossible)
    waiters = recording.waiters()
    containers = read_containers(recording)
    names = {cgroup: container_name(row) for cgroup, row in containers.items()}
    chosen = select_waiters(waiters, containers, selection.container, selection.pod)
    if chosen is not None:
        weights = [weight for weight in weights if weight.waiter in chosen]
    outliers, outlier_count, too_long = recording.outliers(
        outlier_limit,
        limits.span_ns,
        span,
        lock_ids,
        selection.cpus,
        selected_kinds,
        None if chosen is None else sorted(chosen),
    )
    single: tuple[LockWaits, ...] = ()
    # Stacks are of all kinds of a lock.
    shown = with_stacks(recording, waits.locks, span, kinds, sound=not impossible and selected_kinds is None)
    if span is None and selection.cpus is None:
        shown = with_holders(recording, shown, kinds, names)
        single = read_instances(recording, waits.locks, kinds, locks, limits, max(1, window.duration_ns))[:QUEUES]
        single = with_holders(recording, with_stacks(recording, single, span, kinds), kinds, names)
    rejected = waits.rejected + too_long + impossible
    selected = span is not None or selection.cpus is not None or selected_kinds is not None or chosen is not None
    cost = read_cost(
        recording,
        window.recording_end_ns - window.recording_begin_ns,
        window.cpus,
        _text(meta, "own_cost_unavailable"),
    )
    coarse_step_ns = (_integer(meta, "clock_step_ns") or COARSE_STEP_NS) if meta.get("clock") == "coarse" else None
    self_check, slices = read_self_check(recording, meta, window.threshold_ns)
    episodes = (
        ()
        if selected
        else read_episodes(recording, episode_limit, waiters, locks, kinds, window.recording_begin_ns, lock_ids)
    )
    found_tasks = tasks(weights, waiters, locks, kinds, names)
    exact_ns = waits.totals.wait_ns if selection.cpus is None and chosen is None else None
    of_samples = sampled(weights, exact_ns)
    paths = {who.cgroup: containers[who.cgroup_id] for who in waiters.values() if who.cgroup_id in containers}
    return Report(
        path=recording.path,
        host=read_host(meta),
        window=window,
        probes=tuple(recording.probes()),
        totals=waits.totals,
        kinds=waits.kinds,
        locks=shown,
        queues=single,
        cpus=waits.cpus,
        outliers=_outlier_waits(recording, outliers, waiters, locks, kinds, window.recording_begin_ns, names),
        outlier_count=outlier_count,
        sampled=of_samples,
        tasks=found_tasks,
        cgroups=by_cgroup(found_tasks, paths, of_samples.wait_ns),
        loss=(*recording.losses(), *_derived_losses(waits, rejected)),
        cost=cost,
        trust=make_trust([program.program for program in cost.programs], cost.collector, coarse_step_ns),
        futexes=read_futexes(recording, locks, window.recording_end_ns - window.recording_begin_ns),
        clock_reads=read_clock_reads(recording, window.recording_end_ns - window.recording_begin_ns, window.cpus),
        inactive_waits=read_inactive_waits(recording),
        attaches=read_attaches(recording),
        traced_waits=None
        if selected or lock_ids is not None
        else read_traced_waits(recording, locks, kinds, waiters, weights),
        episodes=tuple(
            replace(
                episode,
                complete=episode.complete
                and seen_whole(slices, episode.begin_ns, episode.begin_ns + episode.duration_ns),
            )
            for episode in episodes
        ),
        self_check=self_check,
        # They are of the whole run, and of all that was recorded.
        sleepers=None if selected or lock_ids is not None else read_sleepers(recording, meta),
    )
