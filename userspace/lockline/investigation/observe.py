# SPDX-License-Identifier: GPL-2.0-or-later
"""From the report of one step to what it saw."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from lockline.analysis.answer import is_spinning, make_answer, user_waiting
from lockline.analysis.episode_model import Doing, Episode
from lockline.analysis.findings import Process, Task
from lockline.analysis.model import LockWaits, OutlierWait, Report
from lockline.analysis.stolen import by_host
from lockline.analysis.user_space.critical_sections import waited_in
from lockline.analysis.user_space.futex_waits import LOCK, PARKED, UNCLEAR, FutexWaits
from lockline.analysis.user_space.java_locks import object_class
from lockline.analysis.user_space.java_monitors import told
from lockline.analysis.user_space.still_waits import still_waits
from lockline.analysis.user_space.user_evidence import (
    BEHAVIOUR,
    CONDITION_VARIABLE,
    FULL_QUEUES,
    GO_CHANNEL,
    GO_DATABASE,
    GO_FLIGHT,
    GO_MUTEX,
    GO_ONCE,
    GO_POOL,
    GO_RWMUTEX,
    GO_SEMAPHORE,
    GO_WEIGHTED,
    RWLOCK,
    lock_called,
)
from lockline.analysis.waitgraph import critical_path
from lockline.analysis.waitgraph_of import flow_of, timed_waits
from lockline.analysis.whatif import what_if
from lockline.investigation.model import (
    Blamed,
    ClockRead,
    Counters,
    Holding,
    LineSeen,
    Observation,
    Unseen,
    UserLockSeen,
    WaitedLock,
    unread,
)
from lockline.rules.common import callers, heaviest_caller

LOCKS = 5
USER_LOCKS = 5
LINES = 10
SHARED_LINE = "shared-line"
# Processes that have a lock while others wait.
BLAMED = 3
# What goroutines wait for, which counts as contention.
_OF_GOROUTINES = (
    *(GO_CHANNEL, GO_DATABASE, GO_FLIGHT, GO_MUTEX, GO_ONCE, GO_POOL, GO_RWMUTEX, GO_SEMAPHORE, GO_WEIGHTED),
)
# Signals whose lack bears on a cause.
_BEARING = (
    "spinlock holders",
    "spinlock hold times",
    "memory samples (HITM)",
    "tracers that attach",
    "rwsem writers that win by spinning",
    "rwlock readers in interrupt",
    "percpu-rwsem writers behind readers",
    "futex waits",
    "lock waits",
    "watchpoints",
)


def _most_waiting(report: Report, lock: LockWaits) -> tuple[Process | None, float]:
    """The process that waits most for a lock, and its part of the sampled waiting."""
    by_process: defaultdict[tuple[int, str], int] = defaultdict(int)
    for task in report.tasks:
        if (task.lock, task.kind) == (lock.name, lock.kind):
            by_process[task.tgid, task.comm] += task.lock_ns
    total = sum(by_process.values())
    if not total:
        return None, 0.0
    (tgid, comm), most = max(by_process.items(), key=lambda item: (item[1], item[0]))
    return Process(comm, tgid), most / total


def _readers(report: Report, lock: LockWaits) -> tuple[tuple[Process, float], ...]:
    """Who waits to read a lock: its readers, as no lock names them."""
    kind = f"{lock.kind.partition(':')[0]}:R"
    by_process: Counter[Process] = Counter()
    for task in report.tasks:
        if (task.lock, task.kind) == (lock.name, kind):
            by_process[Process(task.comm, task.tgid)] += task.lock_ns
    total = by_process.total()
    return tuple((process, waited / total) for process, waited in by_process.most_common(BLAMED)) if total else ()


def _no_locks_doing(report: Report) -> tuple[OutlierWait, ...]:
    """Waits that are the host's doing, and too few for a rule: they say nothing of the load."""
    if any(found.rule == "holder-preempted" for found in report.findings):
        return ()
    return by_host(report)


def _longest_ns(report: Report, but: Sequence[OutlierWait]) -> int:
    """The longest wait but for these."""
    if report.totals.max_ns not in {wait.wait_ns for wait in but}:
        return report.totals.max_ns
    return max((wait.wait_ns for wait in report.outliers if wait not in but), default=0)


def _waited_ns(report: Report, but: Sequence[OutlierWait]) -> int:
    """All waiting but for these."""
    return max(0, report.totals.wait_ns - sum(wait.wait_ns for wait in but))


def _lock(report: Report, lock: LockWaits, stolen: Sequence[OutlierWait]) -> WaitedLock:
    """stolen: waits that do not count."""
    of_lock = sum(wait.wait_ns for wait in stolen if (wait.lock, wait.kind) == (lock.name, lock.kind))
    wait_ns, all_ns = max(0, lock.figures.wait_ns - of_lock), _waited_ns(report, stolen)
    caller = heaviest_caller(lock)
    process, part = _most_waiting(report, lock)
    return WaitedLock(
        name=lock.name,
        kind=lock.kind,
        spinning=is_spinning(lock.kind),
        waits=lock.figures.waits,
        wait_ns=wait_ns,
        max_ns=lock.figures.max_ns,
        waiters=report.window.share(wait_ns) or 0.0,
        part=wait_ns / all_ns if all_ns else 0.0,
        caller="" if caller is None else caller[0],
        caller_part=0.0 if caller is None else caller[1],
        process=process,
        process_part=part,
        readers=_readers(report, lock),
        address=lock.address,
    )


def _holding(lock: str, episodes: Sequence[Episode]) -> Holding | None:
    """What holders did in the long waits for one lock; None if no holder is known."""
    held = [(episode, holder) for episode in episodes for holder in episode.holders if holder.held_ns > 0]
    if not held:
        return None
    doing = Doing()
    by_task: defaultdict[tuple[str, int], int] = defaultdict(int)
    functions: Counter[str] = Counter()
    for _, holder in held:
        doing += holder.doing
        by_task[holder.task.comm, holder.task.tid] += holder.held_ns
        names = callers(holder.stack)
        if names:
            functions[names[0]] += holder.held_ns
    comm, tid = max(by_task, key=lambda task: (by_task[task], task))
    return Holding(
        lock=lock,
        waits=len({id(episode) for episode, _ in held}),
        held_ns=sum(holder.held_ns for _, holder in held),
        running_ns=doing.running_ns,
        preempted_ns=doing.preempted_ns,
        asleep_ns=doing.asleep_ns + doing.stopped_ns,
        throttled_ns=doing.throttled_ns,
        holder=Task(comm, tid),
        function=functions.most_common(1)[0][0] if functions else "",
        exact=all(holder.source == "release" for _, holder in held),
    )


def _blamed(lock: LockWaits) -> Blamed | None:
    """Who had a lock while others waited; None if no holder is known."""
    tasks = [holder for holder in lock.holders if holder.kind == "task"]
    tgids: defaultdict[str, set[int]] = defaultdict(set)
    for holder in tasks:
        tgids[holder.comm] |= {holder.tgid} - {0}
    by_process: defaultdict[Process, int] = defaultdict(int)
    for holder in tasks:
        # Of a task that was looked up too late the process is not known; another one's of its name may be.
        same = tgids[holder.comm]
        tgid = next(iter(same)) if not holder.tgid and len(same) == 1 else holder.tgid
        by_process[Process(holder.comm, tgid)] += holder.caused_ns
    readers = sum(holder.caused_ns for holder in lock.holders if holder.kind == "readers")
    caused = sum(by_process.values()) + readers
    if not caused:
        return None
    ranked = sorted(by_process.items(), key=lambda item: (-item[1], item[0].comm, item[0].tgid))
    return Blamed(
        lock=lock.name,
        waits=sum(holder.waits for holder in lock.holders),
        caused_ns=caused,
        by=tuple((process, caused_ns / caused) for process, caused_ns in ranked[:BLAMED]),
        readers=readers / caused,
    )


def _holdings(report: Report) -> tuple[Holding, ...]:
    by_lock: defaultdict[str, list[Episode]] = defaultdict(list)
    for episode in report.episodes:
        by_lock[episode.lock].append(episode)
    found = [_holding(lock, episodes) for lock, episodes in by_lock.items()]
    return tuple(one for one in found if one is not None)


def _user_lock(report: Report, futex: FutexWaits) -> UserLockSeen:
    called = lock_called(futex.futex, futex.make, object_class(futex))
    owners = Counter[int]()
    for task in futex.tasks:
        if task.role == "owner" and task.tgid > 0:
            owners[task.tgid] += task.samples
    return UserLockSeen(
        name=called.name,
        mapping=called.mapping,
        tgid=futex.futex.tgid,
        comm=futex.futex.comm,
        address=futex.futex.address,
        wait_ns=futex.waited_ns,
        waits=futex.figures.waits,
        waiters=report.window.share(futex.to_blame_ns) or 0.0,
        why=futex.why + told(futex.monitors),
        goroutines=futex.make in _OF_GOROUTINES,
        rwlock=futex.make == RWLOCK,
        users=tuple(sorted({task.tid for task in futex.tasks if task.tid > 0})),
        processes=tuple(sorted({task.tgid for task in futex.tasks if task.tgid > 0})) if futex.futex.shared else (),
        owned_by=owners.most_common(1)[0][0] if owners else 0,
        where=waited_in(futex),
        queue=futex.make in FULL_QUEUES,
        counts=futex.semaphore or (not owners and futex.make in (BEHAVIOUR, CONDITION_VARIABLE)),
    )


def _lines(report: Report) -> tuple[LineSeen, ...]:
    """The lines that were watched or sampled, those that move most first."""
    if report.lines is None:
        return ()
    # What makes a map of lines takes long to load, and few steps have any.
    from lockline.c2c.worth import worth_of_line

    found = []
    for line in report.lines.lines[:LINES]:
        worth = worth_of_line(line, report.cpu_pairs, report.lines.c2c.transfers)
        judgement, advice = line.report.judgement, line.report.advice
        found.append(
            LineSeen(
                address=line.report.line.address,
                moves=worth.moves,
                cpu=worth.cpu,
                at_least=worth.at_least,
                move_ns=worth.move_ns,
                part=worth.part or 0.0,
                acting=worth.acting,
                verdict=judgement.verdict,
                sure=judgement.confidence,
                members=tuple(member.name for member in judgement.members),
                advice="" if advice is None else advice.text,
            )
        )
    return tuple(found)


def observe(report: Report, probe: str, counters: Counters | None = None) -> Observation:
    """What the report of a step says; counters: what the kernel counted meanwhile."""
    stolen = _no_locks_doing(report)
    most = sorted(report.locks, key=lambda lock: -lock.figures.wait_ns)[:LOCKS]
    user_locks: list[UserLockSeen] = []
    unclear: list[UserLockSeen] = []
    if report.futexes is not None:
        unclear = [_user_lock(report, futex) for futex in report.futexes.futexes if futex.nature == UNCLEAR]
        contended = [futex for futex in report.futexes.futexes if futex.nature in (LOCK, PARKED)]
        user_locks = [
            _user_lock(report, futex) for futex in sorted(contended, key=lambda futex: -futex.to_blame_ns)[:USER_LOCKS]
        ]
    answer = make_answer(report)
    reads = report.clock_reads
    return Observation(
        probe=probe,
        duration_ns=report.window.duration_ns,
        cpus=report.window.cpus or len(report.cpus) or 1,
        kernel_waiters=report.window.share(_waited_ns(report, stolen)) or 0.0,
        longest_ns=_longest_ns(report, stolen),
        waits=report.totals.waits,
        locks=tuple(sorted((_lock(report, lock, stolen) for lock in most), key=lambda lock: -lock.wait_ns)),
        findings=report.findings,
        user_waiters=user_waiting(report),
        user_locks=tuple(user_locks),
        unclear=tuple(sorted(unclear, key=lambda one: -one.waiters)[:USER_LOCKS]),
        goroutines=report.futexes.unseen if report.futexes is not None else (),
        hidden=report.futexes.hidden if report.futexes is not None else (),
        still=still_waits(report.futexes.futexes) if report.futexes is not None else (),
        holdings=_holdings(report),
        blamed=tuple(one for lock in most if (one := _blamed(lock)) is not None),
        counters=counters or Counters(),
        unseen=(
            *(
                Unseen(probe.signal, probe.reason, probe.lost)
                for probe in report.probes
                if probe.signal in _BEARING and probe.state in ("unavailable", "blind")
            ),
            *unread(report.cost.value("reads_given_up")),
        ),
        clocksource=report.host.clocksource or "",
        not_enough=answer.why if answer.kind == "not enough recorded" else "",
        bounds=what_if(report),
        lines=_lines(report),
        clock=None
        if reads is None
        else ClockRead(reads.figures.waits, reads.share if reads.timed else None, reads.figures.wait_ns),
        perturbation="" if report.self_check is None else report.self_check.verdict,
        flow=flow_of(report),
        critical=critical_path(timed_waits(report)),
    )


def observe_lines(report: Report, probe: str) -> Observation:
    """What the report of a step says that watched a line: the waits beside it are of all tasks, and left out."""
    seen = observe(report, probe)
    return _only(seen, lines=seen.lines, findings=tuple(found for found in seen.findings if found.rule == SHARED_LINE))


def observe_users(report: Report, probe: str) -> Observation:
    """What the report of a step says that recorded one lock, of all processes: who uses it.

    Nothing else in it is about whom the investigation is about.
    """
    seen = observe(report, probe)
    return _only(seen, users=seen.locks)


def _only(seen: Observation, **kept: Any) -> Observation:
    """A step without the waits that it saw, and with these parts of it."""
    return Observation(
        probe=seen.probe,
        duration_ns=seen.duration_ns,
        cpus=seen.cpus,
        kernel_waiters=0.0,
        longest_ns=0,
        waits=0,
        clocksource=seen.clocksource,
        **kept,
    )
