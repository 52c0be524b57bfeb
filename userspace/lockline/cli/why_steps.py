# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes the steps of `lockline why`: runs the collector for each, and reads what it recorded."""

import os
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from lockline.analysis.model import Holder, Report
from lockline.analysis.selection import Selection
from lockline.analysis.user_space.user_evidence import Goroutines
from lockline.analysis.whatif import Bound, within_cpus
from lockline.base.collector import Started, end_with_us, start_collector
from lockline.base.errors import LocklineError
from lockline.base.mappings import mappings
from lockline.base.patience import Reader, left_alone
from lockline.cli.why_counters import (
    MOST_CHILDREN,
    PROC,
    count_traced,
    cpu_seconds_of,
    cpus_used_by,
    descendants_of,
    groups_of,
    process_of,
    read_counters,
    short_text,
)
from lockline.cli.why_holders import look_at_holders
from lockline.cli.why_sleeps import look_at_sleeps
from lockline.cli.why_spins import look_at_spins
from lockline.cli.why_still import stopped_now
from lockline.investigation import probes
from lockline.investigation.choice import most_cost_ns
from lockline.investigation.counters import difference
from lockline.investigation.machine import TRACERS_LOCKS
from lockline.investigation.model import (
    Choice,
    Cost,
    Investigation,
    Observation,
    Outcome,
    Step,
    Target,
    nameless,
    unnamed,
    unread,
)
from lockline.investigation.observe import observe, observe_lines, observe_users
from lockline.recording.reader import open_recording
from lockline.rules.report import make_report, with_lines

# What the collector says when it has attached.
_RECORDS = "lockline: recording"
OUTLIERS = 100
# How long it is looked at how much of the CPUs a process uses.
_LOOK_AT_CPUS_S = 0.3
# A program in Go that uses less does nothing at all.  One whose goroutines sleep with a mutex held uses little, too.
_BUSY_CPUS = 0.001
# The name and type (NT_GO_BUILD_ID) of a note of Go's linker: cmd/internal/buildid.
_GO_NOTE = b"\x04\x00\x00\x00Go\x00\x00"
_NOTE_BYTES = 1 << 15


# Of what is left of the budget.
_FOR_LOOKS = 0.7
# Steps that record others' waits too.
_OBSERVED = {probes.USERS: observe_users, probes.WATCH: observe_lines}


@dataclass(frozen=True, slots=True)
class Made:
    """A step that was made; recording: its file, None if it has none."""

    step: Step
    recording: Path | None


def _wait_until_it_records(started: Started) -> tuple[float, list[str]]:
    """CPU seconds that the collector took until it records, and what it said before."""
    said: list[str] = []
    assert started.process.stderr is not None
    for line in started.process.stderr:
        text = line.decode("utf-8", "replace").rstrip("\n")
        if text.startswith(_RECORDS):
            return cpu_seconds_of(started.process.pid), said
        said.append(text.removeprefix("lockline: "))
    return 0.0, said


def _record(choice: Choice, path: Path, most_ns: int) -> float:
    """Have the collector record; gives the CPU seconds of its start.  Raises LocklineError, in its words."""
    length, most = f"{round(choice.seconds * 1000)}ms", f"{max(1, most_ns // 1_000_000)}ms"
    # Watching has a budget of its own.
    command = ["watch"] if choice.probe == probes.WATCH else ["record", "--max-cost", most]
    arguments = [*command, "-o", str(path), "-d", length, *end_with_us(), *choice.options]
    with start_collector(arguments) as started:
        start_s, said = _wait_until_it_records(started)
        started.finish_after(said)
    return start_s


def _cost(report: Report, start_s: float) -> Cost:
    """What a recording cost, as it tells itself; start_s: CPU time before it recorded, of the collector's."""
    collector = next((cost.value for cost in report.cost.collector if cost.name == "collector_cpu_ns"), 0)
    start_ns = min(round(start_s * 1e9), collector)
    return Cost(
        probe_ns=report.cost.estimated_ns or 0,
        collector_ns=collector - start_ns,
        start_ns=start_ns,
        window_ns=report.window.recording_end_ns - report.window.recording_begin_ns,
        cpus=report.window.cpus or os.cpu_count() or 1,
    )


def _groups(known: Investigation, seen: Observation) -> tuple[str, ...]:
    """The control groups whose limits matter: of the target, and of who waits most."""
    pids = list(known.target.tgids)
    # Of a lock that processes share, the limit of who owns it: a waiter's makes nobody else wait.
    pids += [lock.owned_by or lock.tgid for lock in seen.user_locks[:1]]
    pids += [lock.process.tgid for lock in seen.locks[:1] if lock.process is not None and lock.process.tgid]
    return tuple({group for pid in pids if pid > 0 for group in groups_of(pid)})


def _with_processes(report: Report) -> Report:
    """The report with the processes of holders that the collector knows by thread alone: they waited for nothing."""

    def known(holder: Holder) -> Holder:
        if holder.kind != "task" or holder.tgid or short_text(f"{PROC}/{holder.tid}/comm") != holder.comm:
            return holder
        return replace(holder, tgid=process_of(holder.tid))

    return replace(report, locks=tuple(replace(lock, holders=tuple(map(known, lock.holders))) for lock in report.locks))


def _within_cpus(bound: Bound) -> Bound:
    """The bound of a lock of Python's or Ruby's, held against the CPUs that its process may use."""
    if not bound.computes:
        return bound
    with suppress(OSError):
        cpus = len(os.sched_getaffinity(bound.computes))
        return within_cpus(bound, cpus_used_by(bound.computes, _LOOK_AT_CPUS_S), cpus)
    return bound


def _traced(target: Target, seen: Observation, report: Report) -> int | None:
    """How many traced processes may matter: the target's own, or any where it waits for what a tracer's loop takes.

    Processes may be traced for a moment only: those that the recording saw stop for their tracers count too.
    """
    if not target.tgids or any(lock.name.startswith(TRACERS_LOCKS) for lock in seen.locks[:2]):
        now = count_traced()
    else:
        now = count_traced((*target.tgids, *descendants_of(target.tgids, MOST_CHILDREN)))
    waits = report.traced_waits
    stopped = {one.task.tgid for one in waits.tasks if not one.traces} if waits is not None else set()
    return None if now is None else max(now, len(stopped))


def _is_go(pid: int) -> bool:
    """Whether the linker of Go made the program: by the note with its build ID, which lies near the file's begin.

    It is read where it is mapped: whoever opens the file may wait for a file system that does not answer.
    """
    with Reader() as reader:
        for one in mappings(reader.maps(pid)):
            # The program lies below its libraries.
            if one.path.startswith("/") and not one.offset:
                return _GO_NOTE in reader.memory(pid, one.begin, min(_NOTE_BYTES, one.end - one.begin))
    return False


def _with_go(target: Target, seen: Observation) -> Observation:
    """With the program in Go that was asked about, if it is not idle: its goroutines may wait unseen.

    Threads that run goroutines hardly sleep at futexes when there are more goroutines than CPUs.
    """
    if seen.goroutines or len(target.tgids) != 1 or not _is_go(target.tgids[0]):
        return seen
    (tgid,) = target.tgids
    with suppress(OSError):
        if cpus_used_by(tgid, _LOOK_AT_CPUS_S) >= _BUSY_CPUS:
            return replace(seen, goroutines=(Goroutines(short_text(f"{PROC}/{tgid}/comm"), tgid, 0),))
    return seen


def _with_unread(seen: Observation) -> Observation:
    """With the reads of ours that did not end, beside those of the collector."""
    return replace(seen, unseen=(*seen.unseen, *unread(left_alone())))


def _recorded(choice: Choice, known: Investigation, number: int, path: Path) -> Made:
    before = read_counters()
    start_s = _record(choice, path, most_cost_ns(known, choice.probe))
    after = read_counters()
    with open_recording(path) as opened:
        report = _with_processes(with_lines(make_report(opened, Selection(), OUTLIERS), opened))
    seen = _OBSERVED.get(choice.probe, observe)(report, choice.probe)
    seen = replace(seen, bounds=tuple(map(_within_cpus, seen.bounds)))
    if choice.probe == probes.FUTEX:
        seen = _with_go(known.target, seen)
    traced = _traced(known.target, seen, report) if not known.steps else None
    seen = replace(seen, counters=difference(before, after, _groups(known, seen), traced))
    if not known.steps:
        seen = replace(seen, stops=stopped_now(known.target.tgids))
    seen = _with_unread(seen)
    return Made(_step(choice, number, "done", _cost(report, start_s), seen), path)


def _own_cpu_ns() -> int:
    return time.process_time_ns()


def _children_cpu_ns() -> int:
    """Of all that we have started, and that has ended."""
    times = os.times()
    return round((times.children_user + times.children_system) * 1e9)


def _nothing_seen(choice: Choice, known: Investigation, took_ns: int) -> Observation:
    """Of looks in /proc, which see no waits."""
    return Observation(
        probe=choice.probe, duration_ns=took_ns, cpus=known.plan.cpus, kernel_waiters=0.0, longest_ns=0, waits=0
    )


def _by_proc(choice: Choice, number: int, seen: Observation, cpu_ns: int) -> Made:
    """A step that looked in /proc, without the collector."""
    cost = Cost(0, cpu_ns, 0, seen.duration_ns, seen.cpus)
    return Made(_step(choice, number, "done", cost, _with_unread(seen)), None)


def _most_for_looks(known: Investigation) -> int:
    """CPU time that looks may take before what they saw is made sense of, ns."""
    left = known.plan.allowed_ns - known.paid_ns
    return round(min(_FOR_LOOKS * left, left - probes.NAMES_NS))


def _for_names(known: Investigation) -> int:
    """CPU time for names behind looks, ns."""
    return known.plan.allowed_ns - known.paid_ns - _most_for_looks(known)


def _looked(choice: Choice, known: Investigation, number: int) -> Made:
    """Looks at the threads of a process in /proc, without the collector."""
    assert choice.of is not None
    before, began, cpu, children = read_counters(), time.monotonic(), _own_cpu_ns(), _children_cpu_ns()
    holders = look_at_holders(choice.of, choice.seconds, _most_for_looks(known))
    took_ns = round((time.monotonic() - began) * 1e9)
    counters = difference(before, read_counters(), groups_of(choice.of.owned_by or choice.of.tgid), None)
    seen = replace(_nothing_seen(choice, known, took_ns), holders=holders, counters=counters)
    return _by_proc(choice, number, seen, _own_cpu_ns() - cpu + _children_cpu_ns() - children)


def _slept(choice: Choice, known: Investigation, number: int) -> Made:
    """Looks at what the target's threads sleep in."""
    began, cpu = time.monotonic(), _own_cpu_ns()
    children = _children_cpu_ns()
    sleeps = look_at_sleeps(known.target, choice.seconds, _most_for_looks(known), _for_names(known))
    took_ns = round((time.monotonic() - began) * 1e9)
    # A job that somebody has stopped is no incident of a machine.
    stops = () if known.target.options[0] == "-a" else sleeps.stops
    seen = replace(
        _nothing_seen(choice, known, took_ns),
        sleeps=sleeps,
        stops=stops,
        unseen=(*unnamed(sleeps.unnamed), *nameless(sleeps.nameless)),
    )
    return _by_proc(choice, number, seen, _own_cpu_ns() - cpu + _children_cpu_ns() - children)


def _ran(choice: Choice, known: Investigation, number: int) -> Made:
    """Samples of where the target's threads run."""
    began, cpu, children = time.monotonic(), _own_cpu_ns(), _children_cpu_ns()
    spins, samples = look_at_spins(known.target, choice.seconds, _most_for_looks(known), _for_names(known))
    took_ns = round((time.monotonic() - began) * 1e9)
    seen = replace(_nothing_seen(choice, known, took_ns), spins=spins, unseen=unnamed(spins.unnamed))
    # The interrupts are not our process's time: as each was estimated.
    paid_ns = _own_cpu_ns() - cpu + _children_cpu_ns() - children + samples * probes.SPIN_INTERRUPT_NS
    return _by_proc(choice, number, seen, paid_ns)


def _step(
    choice: Choice, number: int, outcome: Outcome, cost: Cost | None = None, seen: Observation | None = None
) -> Step:
    return Step(
        number=number,
        probe=choice.probe,
        options=choice.options,
        why=choice.why,
        outcome=outcome,
        price_ns=choice.price_ns,
        cost=cost,
        seen=seen,
    )


def not_started(choice: Choice, number: int) -> Step:
    """A step that is too dear for what is left."""
    return _step(choice, number, "not started")


def make_step(choice: Choice, known: Investigation, directory: Path) -> Made:
    """Make one step; one that fails is a step with the collector's words."""
    number = len(known.steps) + 1
    try:
        if choice.probe == probes.THREADS:
            made = _looked(choice, known, number)
        elif choice.probe == probes.SLEEPS:
            made = _slept(choice, known, number)
        elif choice.probe == probes.SPINS:
            made = _ran(choice, known, number)
        else:
            made = _recorded(choice, known, number, directory / f"step-{number}.lockline")
    except LocklineError as error:
        return Made(replace(_step(choice, number, "failed"), message=str(error)), None)
    except KeyboardInterrupt:
        return Made(_step(choice, number, "interrupted"), None)
    cost = made.step.cost
    if cost is not None and known.paid_ns + cost.paid_ns > known.plan.allowed_ns:
        # What it saw is paid for and kept; it is not made again.
        return replace(made, step=replace(made.step, outcome="over budget"))
    return made
