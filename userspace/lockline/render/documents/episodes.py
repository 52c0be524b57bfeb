# SPDX-License-Identifier: GPL-2.0-or-later
"""Long waits with what went on around them, in the report."""

from typing import Any, Literal

from lockline.base.values import dataclass
from lockline.render.documents.figures import Frame, caller_of
from lockline.render.walker import At, Count, Name, inline, shown


def _itself(value: Any, _: At) -> Any:
    return value


@dataclass(frozen=True)
class Party:
    """A task that takes part."""

    comm: str = shown("its name")
    tid: int = shown("its id")


@dataclass(frozen=True)
class Doing:
    """What a task did in a stretch of time, ns."""

    running_ns: Count = shown("on a CPU")
    preempted_ns: Count = shown("it could have run and did not")
    asleep_ns: Count = shown("it waited for something")
    stopped_ns: Count = shown("by a signal or a tracer")
    throttled_ns: Count = shown("it could have run and was not allowed to")
    unknown_ns: Count = shown("not known")


@dataclass(frozen=True)
class Waiter:
    """Who waited."""

    waiter: Party = inline("waiter")
    tgid: int = shown("its process")
    cpu: int = shown("where the wait ended")
    begin_cpu: int = shown("where it began")
    policy: Name = shown("of scheduling", "policy_name")
    priority: int | None = shown("in the kernel's terms: below 100 is real-time")
    real_time: bool | None = shown("whether that was so")
    doing: Doing = shown("what it did while it waited")
    caller: Name = shown("first function that is not one of the lock itself", lambda one, _: caller_of(one.stack))
    stack: tuple[Frame, ...] = shown("leaf first")


@dataclass(frozen=True)
class EpisodeLock:
    """What was waited for."""

    name: str = shown("of the lock", "lock")
    instance: Name = shown("which of this name")
    kind: str = shown("of wait")


@dataclass(frozen=True)
class IrqsOff:
    """Whether the waiter had interrupts off."""

    state: bool | None = shown("null: not known", lambda one, _: {"off": True, "on": False}.get(one.interrupts))
    source: str = shown("how that is known", "interrupts_from", name="from")


@dataclass(frozen=True)
class EpisodeHolder:
    """Who had the lock meanwhile; of the episode and its holder."""

    task: Party = inline(lambda pair, _: pair[1].task)
    source: Literal["release", "owner"] = shown(
        "release: its releases were seen; owner: the lock's owner field named it", lambda pair, _: pair[1].source
    )
    held_ns: Count = shown("of the wait", lambda pair, _: pair[1].held_ns)
    share: float | None = shown(
        "of the wait", lambda pair, _: pair[1].held_ns / pair[0].duration_ns if pair[0].duration_ns else None
    )
    holds: Count = shown("how many", lambda pair, _: pair[1].holds)
    doing: Doing = shown("what it did while it had the lock", lambda pair, _: pair[1].doing)
    state: Name = shown("of a wait in progress: as in /proc/PID/stat", lambda pair, _: pair[1].state)
    stack: tuple[Frame, ...] = shown("then; else where it released the lock", lambda pair, _: pair[1].stack)


@dataclass(frozen=True)
class Loop:
    """Turns of wait_task_inactive() during the wait."""

    task: Party = shown("who looked")
    other: Party = shown("whether this one had stopped running")
    turns: Count = shown("how often")
    cpu: int = shown("where")


@dataclass(frozen=True)
class Relief:
    """The last thing before the wait's end that may have ended it."""

    type: str = shown("of event")
    name: Name = shown("what it was, more closely")
    cpu: int = shown("where")
    task: Party = shown("who ran there")
    side: Literal["holder", "waiter"] = shown("whose CPU, or wake-up, it was")
    before_end_ns: Count = shown("before the wait's end")


@dataclass(frozen=True)
class Link:
    """In a chain: who waits for what, held by whom."""

    waiter: Party = shown("who waits")
    lock: str = shown("for what")
    wait_ns: Count = shown("how long")
    holder: Party | None = shown("null: not known")


@dataclass(frozen=True)
class Episode:
    """A long wait, or the moment that ended a flight (state moment), with its evidence."""

    state: Literal["ended", "in progress", "was in progress", "moment"] = shown("of the wait")
    waiter: Waiter = shown("who waited", _itself)
    lock: EpisodeLock = shown("for what", _itself)
    begin_ns: int = shown("CLOCK_MONOTONIC")
    offset_ns: int = shown("of the begin, from the begin of the recording")
    duration_ns: Count = shown("of the wait")
    irqs_off: IrqsOff = shown("whether the waiter had interrupts off", _itself)
    holders: tuple[EpisodeHolder, ...] = shown(
        "who had the lock meanwhile", lambda one, _: [(one, holder) for holder in one.holders]
    )
    handoff_ns: int | None = shown("from the last release to the wait's end")
    bypass: int | None = shown("how often others had the lock that came later")
    loops: tuple[Loop, ...] = shown("turns of wait_task_inactive() during the wait")
    relief: Relief | None = shown("what may have ended the wait")
    chain: tuple[Link, ...] = shown("who waits for whom")
    in_progress: bool = shown("the wait lasted still when it was last looked at")
    complete: bool = shown("nothing is missing from the evidence")
    left_out: Count = shown("events beyond the limit")
