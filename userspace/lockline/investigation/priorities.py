# SPDX-License-Identifier: GPL-2.0-or-later
"""Which thread runs before another one, by the scheduler's rules: sched(7)."""

from collections.abc import Mapping

from lockline.analysis.findings import Task
from lockline.base.values import dataclass

# include/uapi/linux/sched.h
_FIFO, _ROUND_ROBIN, _IDLE, _DEADLINE = 1, 2, 5, 6
_REAL_TIME = (_FIFO, _ROUND_ROBIN, _DEADLINE)
# From this nice on a thread has less than a third of what one at 0 has (sched_prio_to_weight, kernel/sched/core.c).
_NICE = 5
# Of a CPU, the part that keeps others from it.
_MOST_OF_A_CPU = 0.5


@dataclass(frozen=True, slots=True)
class Runner:
    """A thread at one moment.  ticks: on CPUs since it began; cpu: on which it ran last."""

    comm: str
    ticks: int
    cpu: int
    policy: int


def comes_last(policy: int, nice: int) -> bool:
    """Whether threads of the usual priority run before one of this policy and nice."""
    return policy == _IDLE or (policy not in _REAL_TIME and nice >= _NICE)


def is_real_time(policy: int) -> bool:
    """Whether a thread of this policy runs before all that have none such."""
    return policy in _REAL_TIME


def runs_before(first: Mapping[int, Runner], second: Mapping[int, Runner], cpu: int, ticks: float) -> Task | None:
    """The real-time thread that took most of a CPU between two looks, `ticks` apart; None: there is none."""
    used = {
        tid: after.ticks - first[tid].ticks
        for tid, after in second.items()
        if tid in first and after.cpu == cpu and is_real_time(after.policy)
    }
    tid = max(used, key=lambda one: used[one], default=0)
    return Task(second[tid].comm, tid) if used and used[tid] >= _MOST_OF_A_CPU * ticks else None
