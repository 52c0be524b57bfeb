# SPDX-License-Identifier: GPL-2.0-or-later
"""The values that make up an episode: a long wait and what went on around it.  Times are CLOCK_MONOTONIC ns."""

from lockline.base.values import dataclass
from lockline.recording import rows

# SCHED_* of include/uapi/linux/sched.h.
POLICIES = {
    0: "SCHED_OTHER",
    1: "SCHED_FIFO",
    2: "SCHED_RR",
    3: "SCHED_BATCH",
    5: "SCHED_IDLE",
    6: "SCHED_DEADLINE",
    7: "SCHED_EXT",
}


@dataclass(frozen=True, slots=True)
class Party:
    """A task that takes part."""

    tid: int
    comm: str


@dataclass(frozen=True, slots=True)
class Doing:
    """What a task did in a stretch of time, ns; preempted: it could have run and did not.

    throttled: it could have run and was not allowed to, its group's CPU time (or all real-time tasks') being used up.
    """

    running_ns: int = 0
    preempted_ns: int = 0
    asleep_ns: int = 0
    stopped_ns: int = 0
    throttled_ns: int = 0
    unknown_ns: int = 0

    def __add__(self, other: "Doing") -> "Doing":
        """Both together."""
        return Doing(
            self.running_ns + other.running_ns,
            self.preempted_ns + other.preempted_ns,
            self.asleep_ns + other.asleep_ns,
            self.stopped_ns + other.stopped_ns,
            self.throttled_ns + other.throttled_ns,
            self.unknown_ns + other.unknown_ns,
        )


@dataclass(frozen=True, slots=True)
class EpisodeHolder:
    """A task that had the lock while the waiter waited: for held_ns of the wait, in `holds` holds.

    source: "release": its contended releases were seen; "owner": the lock's owner field named it.
    state: of a wait in progress, when it was looked at, as in /proc/PID/stat.  stack: then too; else where it let go
    of the lock, of the last of its releases in the wait of which a stack was taken.
    """

    task: Party
    source: str
    held_ns: int
    holds: int
    doing: Doing
    state: str
    stack: tuple[rows.Frame, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """Turns of wait_task_inactive() during the wait: how often `task` looked whether `other` had stopped running."""

    task: Party
    other: Party
    turns: int
    cpu: int


@dataclass(frozen=True, slots=True)
class Relief:
    """The last thing before the wait's end that may have ended it.

    side: "holder" or "waiter", whose CPU (or whose wake-up) it was.
    """

    type: str
    name: str
    cpu: int
    task: Party
    side: str
    before_end_ns: int


@dataclass(frozen=True, slots=True)
class Link:
    """In a chain: who waits for what, held by whom; holder None: not known."""

    waiter: Party
    lock: str
    wait_ns: int
    holder: Party | None


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """A row of the timeline with its tasks; other None: nobody.  stack: its id in the recording, 0: none."""

    time_ns: int
    cpu: int
    type: str
    length_ns: int
    task: Party
    other: Party | None
    value: int
    name: str
    stack: int = 0


@dataclass(frozen=True, slots=True)
class Episode:
    """A long wait, or the moment that ended a flight (state "moment"), with its evidence.

    doing: what the waiter did while it waited.  bypass: how often others had the lock that came later; None where
    releases were not recorded or the lock has several holders at a time; approximate if the evidence is
    incomplete or records were left out.
    """

    state: str
    waiter: Party
    tgid: int
    cpu: int
    begin_cpu: int
    policy: int | None
    priority: int | None
    lock: str
    instance: str
    kind: str
    offset_ns: int
    begin_ns: int
    duration_ns: int
    interrupts: str
    interrupts_from: str
    stack: tuple[rows.Frame, ...]
    doing: Doing
    holders: tuple[EpisodeHolder, ...]
    handoff_ns: int | None
    bypass: int | None
    loops: tuple[Loop, ...]
    relief: Relief | None
    chain: tuple[Link, ...]
    complete: bool
    left_out: int
    events: tuple[TimelineEvent, ...]

    @property
    def in_progress(self) -> bool:
        """Whether the wait lasted still when it was last looked at."""
        return self.state in ("in progress", "was in progress")

    @property
    def real_time(self) -> bool | None:
        """Whether the waiter ran at a real-time priority; None: not known."""
        return None if self.priority is None else self.priority < 100

    @property
    def policy_name(self) -> str | None:
        """The waiter's scheduling policy; None: not known."""
        return None if self.policy is None else POLICIES.get(self.policy, f"policy {self.policy}")
