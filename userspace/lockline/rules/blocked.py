# SPDX-License-Identifier: GPL-2.0-or-later
"""Threads that do not go on: a deadlock, or a lock that somebody holds and does not release (record --futex)."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from lockline.analysis.blocked import BlockedThread, Cycle, Standstill, who_waits_for_whom
from lockline.analysis.findings import (
    Fact,
    Finding,
    Function,
    Impact,
    Measure,
    Process,
    Remedy,
    Task,
    Text,
    UserLock,
    fact,
    ns,
    remedy,
)
from lockline.analysis.model import Report
from lockline.analysis.sleep_functions import StopKind, stop_of

# Of longer cycles, and of more standstills, the finding gives only the number.
THREADS_TOLD = 8
STANDSTILLS_TOLD = 3
# An owner that was seen this long, at three looks a second apart, has not merely come by.
SURE_NS = 2_500_000_000


def _lock(thread: BlockedThread) -> UserLock:
    return UserLock(thread.futex.name, "" if thread.futex.name else thread.futex.object)


def _threads(number: int) -> Measure:
    return Measure(number, "threads")


def _age(threads: Iterable[BlockedThread]) -> Measure:
    return ns(max(thread.age_ns for thread in threads))


def _impact(threads: Iterable[BlockedThread]) -> Impact:
    return Impact(sum(thread.age_ns for thread in threads))


def _process(threads: Sequence[BlockedThread]) -> Process:
    return Process(threads[0].futex.comm or threads[0].comm, threads[0].tgid)


def _wait(thread: BlockedThread, alone: bool) -> Fact:
    task, age, lock = Task(thread.comm, thread.tid), ns(thread.age_ns), _lock(thread)
    if alone:
        return fact("waits-for-itself", thread=task, age=age, lock=lock)
    return fact("waits-for-owner", thread=task, age=age, lock=lock, owner=Task(thread.owner_comm, thread.owner))


def _deadlock(cycle: Cycle) -> Finding:
    threads = cycle.threads
    timed = sum(1 for thread in threads if thread.timed)
    alone = len(threads) == 1
    process = _process(threads)
    evidence = [_wait(thread, alone) for thread in threads[:THREADS_TOLD]]
    if len(threads) > THREADS_TOLD:
        evidence.append(fact("more-threads", threads=_threads(len(threads) - THREADS_TOLD)))
    if cycle.behind:
        evidence.append(fact("behind-deadlock", threads=_threads(len(cycle.behind))))
    if timed:
        evidence.append(fact("timeouts-end", waits=Measure(timed, "waits")))
    return Finding(
        rule="deadlock",
        subject=process,
        confidence="medium" if timed else "high",
        claim=(
            fact("deadlock-with-itself", process=process)
            if alone
            else fact("deadlock", threads=_threads(len(threads)), process=process)
        ),
        evidence=tuple(evidence),
        remedies=(
            # What has no futex is a monitor of Java.
            remedy("see-where-taken", process=Process("", threads[0].tgid))
            if threads[0].futex.id
            else remedy("java-where-taken", process=Process("", threads[0].tgid)),
            remedy("take-once") if alone else remedy("same-order"),
        ),
        impact=_impact((*threads, *cycle.behind)),
    )


# As its claim ends: what keeps the owner.
_STOPPED: Mapping[StopKind, str] = {
    "signal": "a signal has stopped it",
    "tracer": "who traces it has stopped it",
    "frozen": "it is frozen with its control group",
}


def _remedies(owner: Process, stop: StopKind | None, state: str) -> tuple[Remedy, ...]:
    """No debugger can attach to a process that is frozen, nor to one that has a tracer."""
    if stop == "frozen":
        return (remedy("thaw-owner", owner=owner),)
    if stop == "tracer":
        return (remedy("end-tracer-of-owner", owner=owner),)
    look = remedy("see-what-owner-does", process=owner)
    return (remedy("let-owner-go-on", owner=owner), look) if state == "T" else (look,)


def _standstill(still: Standstill) -> Finding:
    direct = still.direct
    owner = Task(direct[0].owner_comm, still.owner)
    by_lock: defaultdict[UserLock, list[BlockedThread]] = defaultdict(list)
    for thread in direct:
        by_lock[_lock(thread)].append(thread)
    evidence = [
        fact("waiting-for", threads=_threads(len(threads)), lock=lock, age=_age(threads))
        for lock, threads in by_lock.items()
    ]
    behind = still.threads[len(direct) :]
    if behind:
        evidence.append(fact("behind", threads=_threads(len(behind)), age=_age(behind)))
    held_ns = max(thread.owned_ns for thread in direct)
    evidence.append(fact("owner-seen", owner=owner, held=ns(held_ns)))
    if direct[0].owner_state in ("R", "S", "D", "T"):
        function = Function(direct[0].owner_in) if direct[0].owner_in else None
        evidence.append(fact("owner-state", state=Text(direct[0].owner_state), function=function))
    for_input, for_events = direct[0].for_input, direct[0].for_events
    if for_input:
        evidence.insert(0 if for_events else len(evidence), fact("may-be-idle"))
    lock, threads = next(iter(by_lock)), _threads(len(still.threads))
    stop = stop_of(direct[0].owner_in)
    owner_process = Process("", still.owner if direct[0].futex.shared else direct[0].tgid)
    return Finding(
        rule="lock-not-released",
        subject=owner,
        confidence="low" if for_events else "high" if held_ns >= SURE_NS and not for_input else "medium",
        claim=(
            fact("lock-kept-for-input", owner=owner, lock=lock, threads=threads)
            if for_events
            else fact(
                "lock-not-released",
                owner=owner,
                lock=lock,
                threads=threads,
                stop=Text(_STOPPED[stop]) if stop is not None else None,
            )
        ),
        evidence=tuple(evidence),
        remedies=_remedies(owner_process, stop, direct[0].owner_state),
        impact=_impact(still.threads),
    )


def of_threads(threads: Iterable[BlockedThread]) -> list[Finding]:
    """What these waits in progress say."""
    cycles, standstills = who_waits_for_whom(threads)
    # Seen once, the owner may have got the lock just then.
    held = [still for still in standstills if any(thread.owned_ns for thread in still.direct)]
    return [_deadlock(cycle) for cycle in cycles] + [_standstill(still) for still in held[:STANDSTILLS_TOLD]]


def find(report: Report) -> list[Finding]:
    """Deadlocks, and locks not released, among the waits in progress when the recording ended."""
    return of_threads(report.futexes.blocked) if report.futexes is not None else []
