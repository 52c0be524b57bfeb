# SPDX-License-Identifier: GPL-2.0-or-later
"""Threads of Java that wait for each other and for no lock: at a barrier, or for what a pool of objects has too few of.

Each of them parks at a word of its own (java.util.concurrent.locks.LockSupport).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from lockline.analysis.program_functions import own_name
from lockline.analysis.user_evidence import (
    HALF,
    JAVA_BARRIER,
    JAVA_QUEUE,
    Calls,
    Processes,
    Recognised,
    Seen,
    Site,
    circles,
    expects_2,
    nobody_holds,
    open_ns,
    several_wait,
    share_from,
    waiting,
    wake_each_other,
)

_BARRIERS = ("java.util.concurrent.CyclicBarrier.", "java.util.concurrent.Phaser.")
# Who waits for such an object's own lock waits for nobody to come.
_OWN_LOCK = ("ReentrantLock.lock",)
_TAKES = tuple(
    f"java.util.concurrent.{name}"
    for name in (
        *("ArrayBlockingQueue.take", "ArrayBlockingQueue.poll", "LinkedBlockingQueue.take", "LinkedBlockingQueue.poll"),
        *("LinkedBlockingDeque.take", "LinkedBlockingDeque.poll", "PriorityBlockingQueue.take"),
        *(
            "PriorityBlockingQueue.poll",
            "SynchronousQueue.poll",
            "LinkedTransferQueue.take",
            "LinkedTransferQueue.poll",
        ),
    )
)
# Idle workers of the package's own pools.
_WORKERS = (*_OWN_LOCK, "ThreadPoolExecutor.getTask")
# Of threads; two that wait for each other tell little.
_FEW = 3


def _waiting_in(words: Iterable[Seen], names: Sequence[str], unless: Sequence[str]) -> list[Seen]:
    return [one for one in words if not expects_2(one.total) and share_from(one.waits, names, unless) >= HALF]


def _function(call: Calls) -> str:
    return next(filter(None, map(own_name, call.frames)), "")


def _comes_last(words: Sequence[Seen]) -> tuple[int, int, float]:
    """How often all met, who came last most often, and in what part; 0 where that cannot be told.

    Who comes last does not wait: of N threads each round has N - 1 waits.  Who wakes does not tell, as those who wake
    up at a CyclicBarrier pass its lock on.
    """
    waits: Counter[int] = Counter()
    for entry in words:
        sampled = sum(call.waits for call in entry.waits)
        for call in entry.waits:
            waits[call.task] += round(entry.total.slept * call.waits / sampled)
        waits.update({call.task: 0 for call in entry.wakes})
    if len(waits) < _FEW:
        return 0, 0, 0.0
    rounds = sum(waits.values()) / (len(waits) - 1)
    task = min(sorted(waits), key=lambda task: waits[task])
    return round(rounds), task, max(1 - waits[task] / rounds, 0.0) if rounds else 0.0


def _sites(words: Sequence[Seen]) -> tuple[Site, ...]:
    """Where threads wait, most waiting first.  Who comes last is known where they all wait in one function."""
    sampled: defaultdict[str, int] = defaultdict(int)
    for call in (call for entry in words for call in entry.waits):
        sampled[_function(call)] += call.wait_ns
    every = sum(sampled.values())
    wait_ns = sum(entry.total.wait_ns + open_ns(entry.total) for entry in words)
    found = []
    for function in sorted(sampled, key=lambda name: (-sampled[name], name)):
        most = bool(every) and sampled[function] >= HALF * every
        rounds, last, part = _comes_last(words) if most else (0, 0, 0.0)
        found.append(Site(function, wait_ns * sampled[function] // every if every else 0, rounds, last, part))
    return tuple(found)


def _by_waiting(words: Iterable[Seen]) -> list[Seen]:
    return sorted(words, key=lambda one: (-one.total.wait_ns, one.futex.id))


def _barriers(words: Iterable[Seen], window_ns: int) -> Iterable[Recognised]:
    for circle in map(_by_waiting, circles(_waiting_in(words, _BARRIERS, _OWN_LOCK))):
        yield Recognised(
            tuple(one.futex.id for one in circle),
            JAVA_BARRIER,
            lock=False,
            sure="high",
            why=f"threads wait at a barrier until the last one comes: {waiting(circle, window_ns):.1f} on average",
            sites=_sites(circle),
        )


def _pools(words: Iterable[Seen], window_ns: int) -> Iterable[Recognised]:
    for circle in map(_by_waiting, circles(_waiting_in(words, _TAKES, _WORKERS))):
        if not several_wait(circle, window_ns) or not wake_each_other(circle) or nobody_holds(circle, window_ns):
            continue
        why = (
            "threads take from a queue what they themselves put there: a pool with too few objects (connections,"
            f" buffers), or workers that pass jobs to each other; {waiting(circle, window_ns):.1f} wait on average"
        )
        ids = tuple(one.futex.id for one in circle)
        yield Recognised(ids, JAVA_QUEUE, lock=False, sure="medium", why=why, unclear=True)


def java_waits(processes: Processes, window_ns: int) -> Iterable[Recognised]:
    """Barriers of java.util.concurrent, and its queues from which threads take what they put there."""
    for words in processes.values():
        yield from _barriers(words.values(), window_ns)
        yield from _pools(words.values(), window_ns)
