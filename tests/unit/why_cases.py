# SPDX-License-Identifier: GPL-2.0-or-later
"""Made investigations: locks, observations and stories that several tests take."""

from dataclasses import replace
from typing import Any

from lockline.analysis.findings import (
    Confidence,
    Finding,
    Impact,
    Lock,
    Measure,
    Process,
    Task,
    UserLock,
    fact,
    ns,
    remedy,
)
from lockline.investigation.hypotheses import hypotheses
from lockline.investigation.model import (
    Cost,
    Counters,
    Holders,
    Investigation,
    Observation,
    Plan,
    Step,
    Target,
    Unseen,
    UserLockSeen,
    WaitedLock,
)
from lockline.investigation.sleeps import Sleeps
from lockline.investigation.spins import Spins
from lockline.render.documents import why as document

S = 1_000_000_000
MS = 1_000_000
PROGRAM = Process("server", 100)
USER_LOCK = UserLock("table_mutex", "")
NOBODY_SPINS = Spins(samples=500, cpus=0.5, spins=())
NOBODY_SLEEPS = Sleeps(looks=20, threads=8, all_of_them=True, blocked=(), others=())
QUIET = Counters(switches_per_s=100, interrupts_per_s=100, traced=0)


def lock(waiters: float = 3.0, **changes: Any) -> WaitedLock:
    """A lock of the kernel that server waits for."""
    made = WaitedLock(
        name="mm_struct.mmap_lock",
        kind="rwsem:W",
        spinning=False,
        waits=1000,
        wait_ns=round(waiters * 2 * S),
        max_ns=20 * MS,
        waiters=waiters,
        part=0.95,
        caller="__vm_munmap",
        caller_part=0.8,
        process=PROGRAM,
        process_part=0.9,
    )
    return replace(made, **changes)


def user_lock(waiters: float = 3.0) -> UserLockSeen:
    """A mutex of server."""
    return UserLockSeen("table_mutex", "", 100, "server", 0x7F00, round(waiters * 2 * S), 1000, waiters)


def finding(rule: str, subject: Any, waiters: float, sure: Confidence = "medium", seconds: float = 2) -> Finding:
    """What a rule found."""
    claims = {
        "convoy": fact("convoy", lock=subject),
        "hot-lock": fact("hot-lock", lock=subject),
        "long-waits": fact("long-waits", lock=subject),
        "user-lock": fact("user-lock", process=PROGRAM, lock=subject),
        "deadlock": fact("deadlock-with-itself", process=PROGRAM),
        "lock-not-released": fact(
            "lock-not-released", owner=Task("w", 7), lock=UserLock("queue", ""), threads=Measure(2, "threads")
        ),
        "shared-clocksource": fact("own-clock-is-coarse"),
    }
    return Finding(
        rule=rule,
        subject=subject,
        confidence=sure,
        claim=claims[rule],
        evidence=(fact("held", average=ns(1000)),),
        remedies=(remedy("take-less-often"),),
        impact=Impact(round(waiters * seconds * S)),
    )


def observation(probe: str, **changes: Any) -> Observation:
    """A step that saw nothing."""
    made = Observation(
        probe=probe,
        duration_ns=2 * S,
        cpus=2,
        kernel_waiters=0.0,
        longest_ns=0,
        waits=0,
        counters=QUIET,
        clocksource="tsc",
        sleeps=NOBODY_SLEEPS,
        spins=NOBODY_SPINS,
    )
    return replace(made, **changes)


def busy(probe: str, sure: Confidence = "medium", waiters: float = 3.0, **changes: Any) -> Observation:
    """A step that saw tasks queue for a lock of the kernel."""
    found = finding("convoy", Lock("mm_struct.mmap_lock", "rwsem:W"), waiters, sure)
    return observation(
        probe,
        kernel_waiters=waiters * 1.05,
        longest_ns=20 * MS,
        waits=1050,
        locks=(lock(waiters),),
        findings=(found,),
        **changes,
    )


def known_of(*seen: Observation, paid_ms: float = 1, plan: Plan | None = None, outcome: Any = "done") -> Investigation:
    """An investigation that made these steps."""
    steps = tuple(
        Step(
            number=number,
            probe=one.probe,
            options=(),
            why=fact("why-step-futex"),
            outcome=outcome,
            price_ns=0,
            cost=Cost(round(paid_ms * MS / 2), round(paid_ms * MS / 2), 500 * MS, one.duration_ns, 2),
            seen=one,
        )
        for number, one in enumerate(seen, 1)
    )
    return Investigation(Target(("-a",), "this machine"), plan or Plan(20, 0.01, 2), steps)


FUTEX_QUIET = observation("futex", user_waiters=0.0)


def user_busy(probe: str = "futex", sure: Confidence = "high", **changes: Any) -> Observation:
    """A step that saw threads wait for a mutex of their program."""
    return observation(
        probe,
        user_waiters=3.0,
        user_locks=(user_lock(),),
        findings=(finding("user-lock", USER_LOCK, 3.0, sure),),
        **changes,
    )


def threads(**changes: Any) -> Observation:
    """A look at the threads of the program."""
    made = Holders(looks=40, known=40, running=1.0, sleeping=0.0, disk=0.0, sleeps_in="", sleeps_part=0, delayed=0.1)
    return observation("threads", holders=replace(made, **changes))


def state_of(known: Investigation, cause: str) -> str:
    """The state of a hypothesis."""
    return next(one.state for one in hypotheses(known) if one.cause == cause)


def stories() -> list[Investigation]:
    """Investigations of all sorts."""
    return [
        known_of(observation("totals"), FUTEX_QUIET),
        known_of(busy("totals"), FUTEX_QUIET),
        known_of(observation("totals"), user_busy(), threads(disk=0.9, running=0.1, sleeps_in="folio_wait_bit")),
        known_of(observation("totals", not_enough="too short")),
        known_of(busy("totals", unseen=(Unseen("spinlock holders", "refused", "who held it"),)), user_busy()),
    ]


MACHINE = document.Machine("host", "6.18.0", 2, 1_763_848_800 * S, "0.1.0")
