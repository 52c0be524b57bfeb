# SPDX-License-Identifier: GPL-2.0-or-later
"""Waiting of which no rule says anything, as it is little or of few waits: its lock is named all the same."""

from collections.abc import Sequence

from lockline.analysis.findings import Function, Lock, Measure, Process, UserLock, fact, ns, part, remedy
from lockline.investigation.model import Evidence, Hypothesis, UserLockSeen, WaitedLock

# A lock that is waited for most, and of which no rule says more; threads from which on it is worth an answer.
BUSY = "busy-lock"
BUSY_WAITERS = 0.02
# Memory that is short: the kernel looks for pages to give back, and that is no lock's doing (mm/vmscan.c).
SHORT_OF_MEMORY = "short-of-memory"
_RECLAIM = ("shrink_", "evict_folios", "isolate_lru_", "move_folios_to_lru", "try_to_shrink_", "balance_pgdat")
_LRU = "lru_lock"
# Of the time in which some task had to wait for memory, /proc/pressure says; and so many times the lock's waiters.
_SHORT = 0.1
_TIMES = 4
# Of all waiting for locks of programs: from here on it is for one lock.
_MOST = 0.5


def most_waited(number: int, lock: WaitedLock, of_memory: float = 0.0) -> Hypothesis:
    """The lock with most of the waiting, which is too little for any rule: named, and no more than that.

    of_memory: part of the time in which some task waited for memory.  Who looks for pages to give back for much longer
    than for the lock of their list is short of memory.
    """
    subject = Lock(lock.name, lock.kind)
    told = fact(
        "why-little",
        waits=Measure(lock.waits, "waits"),
        part=part(lock.waiters, "one thread's time"),
        average=ns(lock.wait_ns / lock.waits if lock.waits else 0.0),
        function=Function(lock.caller) if lock.caller else None,
    )
    reclaims = lock.name.endswith(_LRU) or lock.caller.startswith(_RECLAIM)
    if reclaims and of_memory >= max(_SHORT, _TIMES * lock.waiters):
        stalls = fact("why-memory-stalls", part=part(of_memory, "the time"))
        return Hypothesis(
            cause=SHORT_OF_MEMORY,
            subject=subject,
            state="likely",
            waiters=of_memory,
            claim=fact("why-short-of-memory", lock=subject),
            evidence=(Evidence(stalls, True, number), Evidence(told, True, number)),
            remedies=(remedy("why-more-memory"),),
            sure="medium",
        )
    return Hypothesis(
        cause=BUSY,
        subject=subject,
        state="likely",
        waiters=lock.waiters,
        claim=fact("why-most-waited", lock=subject),
        evidence=(Evidence(told, True, number),),
        remedies=(remedy("take-less-often"),),
        sure="low",
    )


def of_program_waiting(number: int, user: float, locks: Sequence[UserLockSeen]) -> Hypothesis:
    """Threads that wait for locks of programs; user: so many on average; locks: that most is waited for, first."""
    first = locks[0] if locks else None
    if first is None or first.waiters < _MOST * user:
        # Many locks, each with little.
        claim = fact("why-program-locks")
        told = fact("why-user-waiting", threads=Measure(user, "threads"))
    else:
        # Few waits, which have not ended: too few for a rule.
        process = Process(first.comm, first.tgid)
        claim = fact("why-program-lock", process=process, lock=UserLock(first.name, first.mapping))
        told = fact("why-few-waits", threads=Measure(user, "threads"), waits=Measure(first.waits, "waits"))
    return Hypothesis("program-locks", None, "likely", user, claim, (Evidence(told, True, number),), sure="low")
