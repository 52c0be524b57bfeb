# SPDX-License-Identifier: GPL-2.0-or-later
"""A chain from a program's lock to one of the kernel's: its holder sleeps because it waits for that lock meanwhile."""

from collections.abc import Sequence
from dataclasses import replace

from lockline.analysis.findings import Function, Lock, Measure, Process, UserLock, fact
from lockline.investigation.model import Evidence, Hypothesis, Investigation, WaitedLock

BEHIND_LOCK = "behind-lock"
_SLEEPS = ("holder-sleeps", "held-over-sleep")
# Where the kernel has threads sleep for locks, should wchan name it: kernel/locking/ of 5.10 to 7.x.
_SLOW_PATHS = (
    *("rwsem_down_", "down_read", "down_write", "__down_", "__mutex_lock", "mutex_lock", "__ww_mutex_lock"),
    *("rt_mutex_", "__rt_mutex_", "rwbase_", "percpu_rwsem_wait", "__percpu_down", "schedule_preempt_disabled"),
)


def waits_for(function: str, lock: WaitedLock) -> bool:
    """Whether a thread in this kernel function sleeps for that lock.

    /proc/PID/wchan leaves out the functions of locks themselves: it has who called them, as the waits' stacks do.
    """
    return function.startswith(_SLOW_PATHS) or (bool(lock.caller) and function == lock.caller)


def _sleeping_lock(known: Investigation, process: Process | None) -> tuple[int, WaitedLock] | None:
    """The kernel's lock that threads of a process sleep for most, if it is known."""
    found = [
        (step.number, lock)
        for step, seen in known.observations
        for lock in seen.locks
        if not lock.spinning and lock.process is not None and process is not None and lock.process.tgid == process.tgid
    ]
    return max(found, key=lambda one: one[1].wait_ns, default=None)


def _functions(one: Hypothesis) -> list[str]:
    facts = (one.claim, *(told.fact for told in one.evidence))
    return [value.name for told in facts for _, value in told.values if isinstance(value, Function)]


def of_chain(known: Investigation, among: Sequence[Hypothesis], process: Process | None) -> list[Hypothesis]:
    """The kernel's locks behind locks of a program: they are to blame for the waiting at both.

    among: what is known so far; process: whose lock is waited for most.
    """
    found = []
    for one in among:
        if one.cause not in _SLEEPS or not one.supported or not isinstance(one.subject, UserLock):
            continue
        lock = _sleeping_lock(known, process)
        if lock is None:
            continue
        number, of = lock
        slow = next((name for name in _functions(one) if waits_for(name, of)), None)
        if slow is None:
            continue
        behind = Lock(of.name, of.kind)
        told = fact(
            "why-sleeps-for-lock",
            lock=one.subject,
            function=Function(slow),
            other=behind,
            waits=Measure(of.waits, "waits"),
            caller=Function(of.caller) if of.caller and of.caller != slow else None,
        )
        found.append(
            Hypothesis(
                cause=BEHIND_LOCK,
                subject=behind,
                state="likely",
                waiters=one.waiters + of.waiters,
                claim=fact("why-behind-lock", lock=one.subject, other=behind, process=process),
                evidence=(Evidence(told, True, number), *(replace(seen, supports=True) for seen in one.evidence)),
                remedies=one.remedies,
                sure=one.sure,
            )
        )
    return found
