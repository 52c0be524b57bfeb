# SPDX-License-Identifier: GPL-2.0-or-later
"""How far the figures of a recording can be trusted: what its own probes do to the waits that they measure.

Where the time stamps are (bpf/wait.bpf.h): a begin program stamps last, an end program first.  So what a begin
program takes is cut off from the wait (the lock may become free meanwhile), while what an end program takes
runs with the lock held, and makes the wait of the next longer; so does a program at an unlock, before the lock is free.
docs/self-check.md has the rule.
"""

import math
from collections.abc import Mapping, Sequence

from lockline.base.values import dataclass
from lockline.recording import rows

# A figure is called trusted where what the probes and the clock do to it is at most this part of it.
DISTORTION = 0.1

MEASUREMENT = "measurement_ns"

# The longest step of the coarse clock (CONFIG_HZ=100), for a recording that does not tell.
COARSE_STEP_NS = 10_000_000

_SPINNING = ("spin", "paravirt_spin", "read")
_SLEEPING = ("rwsem_write", "percpu_write")
_ENTER, _LEAVE = ("_enter", "_kprobe_enter"), ("_leave", "_kprobe_leave")

# Where on the way of a wait a program runs, and on which waits: of spinning locks, of sleeping ones.
# Programs of one group are alternatives (a lock passes one of them); the dearest counts.
BEGIN, HELD, UNLOCK, SWITCH = "begin", "lock held", "unlock", "switch"


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a program runs."""

    place: str
    group: str
    spinning: bool
    sleeping: bool


def _places() -> dict[str, _Place]:
    found = {
        "contention_begin": _Place(BEGIN, "tracepoint", True, True),
        "contention_end": _Place(HELD, "tracepoint", True, True),
        "contended_release": _Place(UNLOCK, "sleeping unlock", False, True),
        "spin_kprobe_unlock": _Place(UNLOCK, "spinning unlock", True, False),
        "task_waking": _Place(SWITCH, "waking", False, True),
        "task_wakeup": _Place(SWITCH, "wakeup", False, True),
        "context_switch": _Place(SWITCH, "switch", False, True),
        "futex_waking": _Place(SWITCH, "futex waking", False, True),
    }
    for spinning, prefixes in ((True, _SPINNING), (False, _SLEEPING)):
        for prefix in prefixes:
            for place, suffixes in ((BEGIN, _ENTER), (HELD, _LEAVE)):
                for suffix in suffixes:
                    found[prefix + suffix] = _Place(place, "slow path", spinning, not spinning)
    for lock in ("spin", "read", "write"):
        for variant in ("", "_irqsave", "_irqrestore", "_irq", "_bh"):
            found[f"{lock}_unlock{variant}"] = _Place(UNLOCK, "spinning unlock", True, False)
            found[f"{lock}_lock{variant}"] = _Place(HELD, "hold", True, False)
    found["spin_trylock"] = _Place(HELD, "hold", True, False)
    for name in ("mutex_unlocks", "rwsem_write_unlock", "rwsem_read_unlock", "rt_spin_unlocks"):
        found[name] = _Place(UNLOCK, "sleeping unlock", False, True)
    return found


_PLACES: Mapping[str, _Place] = _places()


@dataclass(frozen=True, slots=True)
class PathProgram:
    """A program on the waiting path.  ns: of one run on average, less the measurement's own; None: not measured."""

    name: str
    place: str
    spinning: bool
    sleeping: bool
    ns: float | None


@dataclass(frozen=True, slots=True)
class Handoff:
    """What the programs do to a wait at each hand-off of the lock, in ns.

    cut: off its begin.  longer: by what ran with the lock held, at the unlock, and at the waiter's switches.
    trusted_ns: the shortest wait of one hand-off of which both, or the clock's step, are at most DISTORTION.
    None: not measured.
    """

    cut_ns: float | None
    longer_ns: float | None
    trusted_ns: int | None


@dataclass(frozen=True, slots=True)
class Trust:
    """measurement_ns: what measuring adds to a run, None: not known.  clock_step_ns: None of a precise clock.

    other: measured programs that no wait passes on its way.
    """

    programs: tuple[PathProgram, ...]
    other: tuple[str, ...]
    measurement_ns: int | None
    clock_step_ns: int | None
    spinning: Handoff
    sleeping: Handoff


def _net(program: rows.Program, measurement_ns: int | None) -> float | None:
    if program.measured_runs <= 0 or program.measured_ns < 0:
        return None
    return max(0.0, program.measured_ns / program.measured_runs - (measurement_ns or 0))


def _sum(programs: Sequence[tuple[PathProgram, str]], places: tuple[str, ...]) -> float | None:
    """The dearest of each group of alternatives; None if none of them was measured."""
    dearest: dict[tuple[str, str], float] = {}
    for program, group in programs:
        if program.place in places and program.ns is not None:
            key = program.place, group
            dearest[key] = max(dearest.get(key, 0.0), program.ns)
    return math.fsum(dearest.values()) if dearest else None


def _handoff(programs: Sequence[tuple[PathProgram, str]], step_ns: int | None) -> Handoff:
    cut, longer = _sum(programs, (BEGIN,)), _sum(programs, (HELD, UNLOCK, SWITCH))
    distorted = None if cut is None or longer is None else cut + longer
    worst = max((value for value in (distorted, step_ns) if value is not None), default=None)
    return Handoff(cut, longer, None if worst is None else math.ceil(worst / DISTORTION))


def make_trust(programs: Sequence[rows.Program], costs: Sequence[rows.Cost], coarse_step_ns: int | None) -> Trust:
    """From a recording's own cost; coarse_step_ns: the step of the clock where it is the coarse one."""
    measurement = next((cost.value for cost in costs if cost.name == MEASUREMENT and cost.value >= 0), None)
    path: list[tuple[PathProgram, str]] = []
    other = []
    for program in programs:
        place = _PLACES.get(program.name)
        if place is None:
            other.append(program.name)
        else:
            net = _net(program, measurement)
            path.append((PathProgram(program.name, place.place, place.spinning, place.sleeping, net), place.group))
    return Trust(
        programs=tuple(program for program, _ in path),
        other=tuple(other),
        measurement_ns=measurement,
        clock_step_ns=coarse_step_ns,
        spinning=_handoff([entry for entry in path if entry[0].spinning], coarse_step_ns),
        sleeping=_handoff([entry for entry in path if entry[0].sleeping], coarse_step_ns),
    )
