# SPDX-License-Identifier: GPL-2.0-or-later
"""Waiting of which no rule says anything, as it is little or of few waits: its lock is named all the same."""

from collections.abc import Sequence

from lockline.analysis.findings import Function, Lock, Measure, Process, UserLock, fact, ns, part, remedy
from lockline.investigation.model import Evidence, Hypothesis, UserLockSeen, WaitedLock

# A lock that is waited for most, and of which no rule says more; threads from which on it is worth an answer.
BUSY = "busy-lock"
BUSY_WAITERS = 0.02
# Of all waiting for locks of programs: from here on it is for one lock.
_MOST = 0.5


def most_waited(number: int, lock: WaitedLock) -> Hypothesis:
    """The lock with most of the waiting, which is too little for any rule: named, and no more than that."""
    subject = Lock(lock.name, lock.kind)
    told = fact(
        "why-little",
        waits=Measure(lock.waits, "waits"),
        part=part(lock.waiters, "one thread's time"),
        average=ns(lock.wait_ns / lock.waits if lock.waits else 0.0),
        function=Function(lock.caller) if lock.caller else None,
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
