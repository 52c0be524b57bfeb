# SPDX-License-Identifier: GPL-2.0-or-later
"""Threads of Java that wait for each other and for no lock: at a barrier, or for what a pool of objects has too few of.

Each of them parks at a word of its own (java.util.concurrent.locks.LockSupport).
"""

from collections.abc import Iterable

from lockline.analysis.user_space.own_words import barrier_of, circles_in, pool_of, take_turns
from lockline.analysis.user_space.user_evidence import JAVA_BARRIER, JAVA_QUEUE, Processes, Recognised

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


def java_waits(processes: Processes, window_ns: int) -> Iterable[Recognised]:
    """Barriers of java.util.concurrent, and its queues from which threads take what they put there."""
    for words in processes.values():
        for circle in circles_in(words.values(), _BARRIERS, _OWN_LOCK):
            yield barrier_of(circle, JAVA_BARRIER, window_ns)
        for circle in circles_in(words.values(), _TAKES, _WORKERS):
            if take_turns(circle, window_ns):
                yield pool_of(circle, JAVA_QUEUE, window_ns)
