# SPDX-License-Identifier: GPL-2.0-or-later
"""Threads that do not go on: a deadlock, or a lock that somebody holds and does not release (record --futex)."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from lockline.analysis.blocked import BlockedThread, Cycle, Standstill, who_waits_for_whom
from lockline.analysis.model import Finding, Report
from lockline.base.numbers import count, duration

# Longer cycles, and more standstills, are told by their number.
THREADS_TOLD = 8
STANDSTILLS_TOLD = 3
# An owner that was seen this long, at each look a second apart, has not merely come by.
SURE_NS = 3_000_000_000

_STATES = {"R": "it runs, or wants to", "S": "it sleeps", "D": "it sleeps in the kernel", "T": "it is stopped"}


def _lock(thread: BlockedThread) -> str:
    return thread.futex.name or f"a lock in {thread.futex.object or 'its memory'}"


def _thread(comm: str, tid: int) -> str:
    return f"{comm or '?'} ({tid})"


def _age(threads: Iterable[BlockedThread]) -> str:
    return duration(max(thread.age_ns for thread in threads))


def _wait_ns(threads: Iterable[BlockedThread]) -> int:
    return sum(thread.age_ns for thread in threads)


def _processes(threads: Sequence[BlockedThread]) -> str:
    first = threads[0].futex
    return f"{first.comm or threads[0].comm} ({threads[0].tgid})"


def _more(left_out: int) -> list[str]:
    return [f"and {count(left_out)} more"] if left_out > 0 else []


def _backtraces(thread: BlockedThread) -> str:
    return f"`gdb -p {thread.tgid} -batch -ex 'thread apply all backtrace'`"


def _deadlock(cycle: Cycle) -> Finding:
    threads = cycle.threads
    timed = [thread for thread in threads if thread.timed]
    alone = len(threads) == 1
    evidence = [
        f"{_thread(thread.comm, thread.tid)} has waited {duration(thread.age_ns)} for {_lock(thread)}, which"
        + (" it holds itself" if alone else f" {_thread(thread.owner_comm, thread.owner)} holds")
        for thread in threads[:THREADS_TOLD]
    ]
    evidence += _more(len(threads) - THREADS_TOLD)
    if cycle.behind:
        evidence.append(f"{count(len(cycle.behind))} more behind them")
    if timed:
        evidence.append(
            "a timeout ends " + ("one of these waits" if len(timed) == 1 else f"{count(len(timed))} of them")
        )
    return Finding(
        rule="deadlock",
        title=(
            f"A thread of {_processes(threads)} waits for a lock that it holds itself"
            if alone
            else f"{count(len(threads))} threads of {_processes(threads)} wait for each other, in a circle: a deadlock"
        ),
        confidence="medium" if timed else "high",
        evidence=tuple(evidence),
        next=(
            f"{_backtraces(threads[0])} tells where each of them took its lock",
            "let it be taken once" if alone else "let all take these locks in the same order",
        ),
        wait_ns=_wait_ns((*threads, *cycle.behind)),
    )


def _standstill(still: Standstill) -> Finding:
    direct = still.direct
    owner = _thread(direct[0].owner_comm, still.owner)
    by_lock: defaultdict[str, list[BlockedThread]] = defaultdict(list)
    for thread in direct:
        by_lock[_lock(thread)].append(thread)
    evidence = [
        f"{count(len(threads))} waiting for {lock}, for up to {_age(threads)}" for lock, threads in by_lock.items()
    ]
    behind = still.threads[len(direct) :]
    if behind:
        evidence.append(f"{count(len(behind))} more behind them, for up to {_age(behind)}")
    held_ns = max(thread.owned_ns for thread in direct)
    evidence.append(f"{owner} was its owner whenever that was looked at, for {duration(held_ns)}")
    state = _STATES.get(direct[0].owner_state)
    if state:
        evidence.append(f"at the end {state}" + (f", in {direct[0].owner_in}()" if direct[0].owner_in else ""))
    return Finding(
        rule="lock-not-released",
        title=f"{owner} does not let go of {next(iter(by_lock))}, with {count(len(still.threads))} waiting",
        confidence="high" if held_ns >= SURE_NS else "medium",
        evidence=tuple(evidence),
        next=(f"{_backtraces(direct[0])} tells what the owner does meanwhile: do that with the lock released",),
        wait_ns=_wait_ns(still.threads),
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
