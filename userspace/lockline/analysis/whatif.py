# SPDX-License-Identifier: GPL-2.0-or-later
"""What would be gained at most if nobody had to wait for a lock: a bound, never an estimate.

The threads that wait for a lock make rounds: they work, and they wait.  Of N threads W wait at any moment, on average.
If they did not wait at all, a round would take no less than what is left of it, so that they make at most N / (N - W)
times as many rounds (Little's law; operational analysis, Denning and Buzen 1978).  W has to hold all their waiting,
for other locks too, which may also become shorter.  A lock that is held for a part B of the time allows at most 1 / B
times as many rounds: that one binds then.

N is the number of threads that were seen to wait: one that was not seen makes the true bound smaller.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt

from lockline.analysis.answer import NEGLIGIBLE_SHARE
from lockline.analysis.findings import Lock, Subject
from lockline.analysis.model import LockWaits, Report
from lockline.analysis.user_space.futex_waits import LOCK
from lockline.analysis.user_space.java_locks import object_class
from lockline.analysis.user_space.user_evidence import INTERPRETERS, lock_called

# Fewer waits say little of an average.
ENOUGH_WAITS = 100
# Threads that live for a few waits each are no loop.
WAITS_EACH = 4
# Locks that are reported.
MOST = 3
# The figures' own uncertainty: so many standard errors of a count.
ERRORS = 3.0


@dataclass(frozen=True, slots=True)
class Bound:
    """gain: rounds at most, as a part more than now (0.5: half as many again); None: cannot be told, for why_not.

    waiters: of threads, that wait for it on average.  binds: the lock that allows no more; None: none is known, and
    then it is the threads' own work that does.  computes: the process whose threads compute with it held, as with
    Python's GIL; 0: not known of this lock.  cpus: so many allow no more; 0: they do.  who: threads, or goroutines.
    """

    lock: Subject
    gain: float | None
    threads: int
    waiters: float
    binds: Subject | None = None
    why_not: str = ""
    computes: int = 0
    cpus: int = 0
    who: str = "threads"


def within_cpus(bound: Bound, used: float, cpus: int) -> Bound:
    """The bound where all that threads do with the lock held is to compute.

    used: CPUs that the process uses now, on average.  A round takes as much CPU time without the lock.
    """
    if bound.gain is None or used <= 0 or cpus / used - 1 >= bound.gain:
        return bound
    return replace(bound, gain=max(0.0, cpus / used - 1), binds=None, cpus=cpus)


def most_gain(threads: int, waiters: float, others: float, busy: Sequence[float], waits: int) -> float | None:
    """The most that threads can gain, as a part of now, when they need not wait for one lock; None: no bound.

    waiters: of them, on average, for that lock; others: for other locks.  busy: the part of the time in which each
    other lock is held that they all take in each round.  waits: from which the averages are.
    """
    margin = 1 + ERRORS / sqrt(waits) if waits > 0 else 1.0
    bounds = [1 / part for part in busy if part > 0]
    waiting = min((waiters + others) * margin, waiters + others + 1)
    if threads > waiting:
        bounds.append(threads / (threads - waiting))
    return max(0.0, min(bounds) * margin - 1) if bounds else None


def _of_kernel(report: Report, lock: LockWaits) -> Bound:
    subject = Lock(lock.name, lock.kind)
    waiters = report.window.share(lock.figures.wait_ns) or 0.0
    tasks = [task for task in report.tasks if task.lock == lock.name]
    by_process: defaultdict[int, int] = defaultdict(int)
    for task in tasks:
        by_process[task.tgid] += task.lock_ns
    threads = len({task.tid for task in tasks})

    def cannot(why: str) -> Bound:
        return Bound(subject, None, threads, waiters, why_not=why)

    if lock.figures.waits < ENOUGH_WAITS:
        return cannot("there were too few waits for it")
    if threads < 2:
        return cannot("the threads that wait for it are not known")
    if lock.figures.waits < WAITS_EACH * threads:
        return cannot("each of its threads waits only a few times: lockline sees no loop")
    # Threads that wait for this lock most wait for others too.
    all_ns = sum(task.wait_ns for task in tasks)
    own_ns = sum(task.lock_ns for task in tasks)
    others = waiters * (all_ns - own_ns) / own_ns if own_ns else 0.0
    held = [
        (other, report.window.share(other.fairness.holds.wait_ns) or 0.0)
        for other in report.locks
        if other.name != lock.name
        and other.instances == 1
        and other.fairness is not None
        and other.fairness.holds
        # What others hold does not grow with these threads' rounds.
        and {holder.tgid for holder in other.holders} == set(by_process)
    ]
    return _bound(subject, threads, waiters, others, held if len(by_process) == 1 else [], lock.figures.waits)


def _bound(
    subject: Subject,
    threads: int,
    waiters: float,
    others: float,
    held: Sequence[tuple[LockWaits, float]],
    waits: int,
) -> Bound:
    gain = most_gain(threads, waiters, others, [part for _, part in held], waits)
    if gain is None:
        why = f"of the {threads} threads that were seen, all wait nearly all the time"
        return Bound(subject, None, threads, waiters, why_not=why)
    without = most_gain(threads, waiters, others, [], waits)
    binds = None
    if held and (without is None or gain < without):
        lock, _ = max(held, key=lambda one: one[1])
        binds = Lock(lock.name, lock.kind)
    return Bound(subject, gain, threads, waiters, binds)


def _of_programs(report: Report) -> list[Bound]:
    if report.futexes is None:
        return []
    locks = [futex for futex in report.futexes.futexes if futex.nature == LOCK]
    found = []
    for futex in sorted(locks, key=lambda futex: -futex.figures.wait_ns)[:MOST]:
        waiters = report.window.share(futex.figures.wait_ns) or 0.0
        if waiters < NEGLIGIBLE_SHARE:
            continue
        subject = lock_called(futex.futex, futex.make, object_class(futex))
        threads, waits = futex.total.waiters, futex.figures.waits
        if waits < ENOUGH_WAITS or waits < WAITS_EACH * threads or threads < 2:
            why = "there were too few waits for it" if waits < ENOUGH_WAITS else "lockline sees no loop"
            found.append(Bound(subject, None, threads, waiters, why_not=why, who=futex.who))
            continue
        tgid = futex.futex.tgid
        other_ns = sum(
            other.figures.wait_ns for other in locks if other is not futex and other.futex.tgid in (tgid, 0)
        ) + sum(task.wait_ns for task in report.tasks if task.tgid == tgid)
        bound = _bound(subject, threads, waiters, report.window.share(other_ns) or 0.0, [], waits)
        bound = replace(bound, who=futex.who)
        found.append(replace(bound, computes=tgid) if futex.make in INTERPRETERS else bound)
    return found


def what_if(report: Report) -> tuple[Bound, ...]:
    """For each of the locks that are waited for most what would be gained at most without it; [] of no waiting."""
    locks = sorted(report.locks, key=lambda lock: -lock.figures.wait_ns)[:MOST]
    kernel = [
        _of_kernel(report, lock)
        for lock in locks
        if (report.window.share(lock.figures.wait_ns) or 0.0) >= NEGLIGIBLE_SHARE
    ]
    return tuple(sorted((*_of_programs(report), *kernel), key=lambda bound: -bound.waiters)[:MOST])
