# SPDX-License-Identifier: GPL-2.0-or-later
"""Threads of Java that wait for each other and for no lock: at a barrier, or for what a pool of objects has too few of.

Each of them parks at a word of its own (java.util.concurrent.locks.LockSupport).
"""

from collections.abc import Iterable

from lockline.analysis.user_space.own_words import barrier_of, circles_in, notices, pool_of, take_turns
from lockline.analysis.user_space.user_evidence import (
    JAVA_BARRIER,
    JAVA_CONDITION,
    JAVA_QUEUE,
    JAVA_WAIT,
    Processes,
    Recognised,
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
# Not for a notice of the program's: Java's library waits for what the JVM does, for a thread's end, for the clock.
_NOTICE = ("ObjectMonitor::wait",)
_NOTICE_OF_JAVA = ("java.lang.ref.", "java.lang.Thread.join", "java.util.TimerThread", "InstanceKlass::initialize_impl")
# A condition of the program's own.  What the package's own classes wait for is known by their methods.  Who waits with
# a limit is mostly a worker that ends when it had no job for so long.
_CONDITION = ("ConditionObject.await",)
_CONDITION_OF_JAVA = tuple(
    f"java.util.concurrent.{name}"
    for name in (
        *("locks.AbstractQueuedSynchronizer$ConditionObject.awaitNanos",),
        *("ArrayBlockingQueue", "LinkedBlockingQueue", "LinkedBlockingDeque", "PriorityBlockingQueue", "DelayQueue"),
        *("ScheduledThreadPoolExecutor", "ThreadPoolExecutor", "CyclicBarrier"),
    )
)
# Idle workers of the package's own pools.
_WORKERS = (*_OWN_LOCK, "ThreadPoolExecutor.getTask")


def java_waits(processes: Processes, window_ns: int) -> Iterable[Recognised]:
    """Barriers of java.util.concurrent, its queues from which threads take what they put there, and conditions."""
    for words in processes.values():
        for circle in circles_in(words.values(), _BARRIERS, _OWN_LOCK):
            yield barrier_of(circle, JAVA_BARRIER, window_ns)
        for circle in circles_in(words.values(), _TAKES, _WORKERS):
            if take_turns(circle, window_ns):
                yield pool_of(circle, JAVA_QUEUE, window_ns)
        yield from notices(words.values(), JAVA_WAIT, _NOTICE, _NOTICE_OF_JAVA, window_ns)
        yield from notices(words.values(), JAVA_CONDITION, _CONDITION, _CONDITION_OF_JAVA, window_ns)
