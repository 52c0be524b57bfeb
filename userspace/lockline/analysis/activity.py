# SPDX-License-Identifier: GPL-2.0-or-later
"""What a task did, from context switches and wake-ups."""

from bisect import bisect_right
from collections.abc import Sequence

from lockline.analysis.episode_model import Doing, TimelineEvent

RUNNING, PREEMPTED, ASLEEP, STOPPED = "running", "preempted", "asleep", "stopped"
THROTTLED, UNKNOWN = "throttled", "unknown"

# __TASK_STOPPED and __TASK_TRACED of include/linux/sched.h, 5.10 to 7.2.
_STOPPED_STATES = 0x4 | 0x8

Stretch = tuple[int, int, str]


def _ready(event: TimelineEvent) -> str:
    """What a task does that could run: its group may have used its time up."""
    return THROTTLED if event.name == "throttled" else PREEMPTED


def _off_cpu(event: TimelineEvent) -> str:
    """After a switch, by prev_state of sched_switch; the programs store 0 for a preempted task."""
    if event.value == 0:
        return _ready(event)
    return STOPPED if event.value & _STOPPED_STATES else ASLEEP


def _step(event: TimelineEvent, tid: int) -> tuple[str | None, str | None]:
    """What the event says of the task: what it did before, and from then on.  None: nothing."""
    if event.type == "switch":
        if event.task.tid == tid:
            return RUNNING, _off_cpu(event)
        if event.other is not None and event.other.tid == tid:
            return PREEMPTED, RUNNING
        return None, None
    if event.type in ("waking", "wakeup") and event.other is not None and event.other.tid == tid:
        return ASLEEP, _ready(event) if event.type == "wakeup" else None
    if event.task.tid == tid and event.type != "acquired":
        return RUNNING, RUNNING
    return None, None


def stretches(events: Sequence[TimelineEvent], tid: int, begin_ns: int, end_ns: int, complete: bool) -> list[Stretch]:
    """(from, to, what) of a task, without gaps from begin_ns to end_ns; events in order of time.

    Before the first event that concerns it a task did what that event implies, if no record is missing.  An event
    from before begin_ns, of what the task did last, tells more.
    """
    found: list[Stretch] = []
    doing: str | None = None
    since = begin_ns
    for event in events:
        before, after = _step(event, tid)
        if before is None:
            continue
        if doing is None:
            doing = before if complete else UNKNOWN
        # A task that is woken on its way to sleep never left its CPU.
        if after is None or after == doing or (event.type == "wakeup" and doing == RUNNING):
            continue
        at = min(max(event.time_ns, begin_ns), end_ns)
        if at > since:
            found.append((since, at, doing))
            since = at
        doing = after
    if end_ns > since:
        found.append((since, end_ns, doing or UNKNOWN))
    return found


def doing_in(found: Sequence[Stretch], begin_ns: int, end_ns: int) -> Doing:
    """The part of the stretches (in order of time) that lies between begin_ns and end_ns, by what was done."""
    sums = dict.fromkeys((RUNNING, PREEMPTED, ASLEEP, STOPPED, THROTTLED, UNKNOWN), 0)
    first = bisect_right(found, begin_ns, key=lambda stretch: stretch[1])
    for index in range(first, len(found)):
        begin, end, what = found[index]
        if begin >= end_ns:
            break
        sums[what] += min(end, end_ns) - max(begin, begin_ns)
    return Doing(*sums.values())
