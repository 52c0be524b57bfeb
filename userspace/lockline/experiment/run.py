# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes the slices of an experiment."""

import math
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from lockline.base.errors import LocklineError
from lockline.experiment.changes import Change
from lockline.experiment.guard import Guard
from lockline.experiment.judge import Pair, Slice
from lockline.experiment.progress import Counter

# The first part of a slice is not measured: what was stopped has to stop, and what waited for it has to go on.
_WARM_UP = 0.25
# A CPU limit gives its time once in each such period, and starts one when it is set (kernel/sched/fair.c).  Of one and
# a half periods that begin at the same place each time, the half would always be the one without CPU time.
_PERIOD_S = 0.1
# A slice that ended within this time before the guard would have acted is left out.
_EARLIER_S = 0.5


@dataclass
class Made:
    """What was done.  not_held: changed slices at whose end the change was not as it should be."""

    pairs: list[Pair] = field(default_factory=list)
    seconds: float = 0.0
    changed_s: float = 0.0
    longest_s: float = 0.0
    not_held: int = 0
    left_out: int = 0
    interrupted: bool = False


@contextmanager
def _no_signals() -> Iterator[None]:
    """Signals wait: putting back is not cut short."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _read(counter: Counter) -> tuple[float, float]:
    """A counter, and when it was read: some time in between, of one that takes long."""
    before = time.monotonic()
    value = counter.read()
    return value, (before + time.monotonic()) / 2


def measured_s(slice_s: float) -> float:
    """How much of a slice is measured, at its end, s: whole periods of a CPU limit, if there is room for one."""
    rest = slice_s * (1 - _WARM_UP)
    periods = math.floor(rest / _PERIOD_S + 1e-6)
    return periods * _PERIOD_S if periods else rest


def _measured(counter: Counter, slice_s: float) -> tuple[float, float]:
    """Seconds and work of a slice, from now on, after its warm-up."""
    begin = time.monotonic()
    time.sleep(slice_s - measured_s(slice_s))
    before, since = _read(counter)
    time.sleep(max(0.0, begin + slice_s - time.monotonic()))
    after, until = _read(counter)
    return until - since, counter.grown(before, after)


class _Slices:
    """Slices in both states."""

    def __init__(self, change: Change, counter: Counter, slice_s: float, guard: Guard, made: Made) -> None:
        self._change, self._counter, self._slice_s, self._guard, self._made = change, counter, slice_s, guard, made

    def make(self, changed: bool) -> Slice:
        """One slice.  Raises LocklineError."""
        begin = time.monotonic()
        if not changed:
            seconds, work = _measured(self._counter, self._slice_s)
            return Slice(seconds, work, time.monotonic() - begin)
        self._guard.on()
        try:
            self._change.apply()
            seconds, work = _measured(self._counter, self._slice_s)
            self._made.not_held += not self._change.holds()
        finally:
            with _no_signals():
                self._change.undo()
                self._guard.off()
            held = time.monotonic() - begin
            self._made.changed_s += held
            self._made.longest_s = max(self._made.longest_s, held)
        return Slice(seconds, work, held)


def experiment(
    change: Change, counter: Counter, slice_s: float, seconds: float, drawn: Callable[[], float] = random.random
) -> Made:
    """Make pairs of slices for so long.  drawn: a number from 0 to 1, by lot: which slice of a pair comes first.

    Raises LocklineError where the change or the counter fails; all is put back then.
    """
    made = Made()
    guard = Guard(change.undo, slice_s + change.grace_s)
    all_back = False
    begin = time.monotonic()
    try:
        slices = _Slices(change, counter, slice_s, guard, made)
        while time.monotonic() - begin + 2 * slice_s <= seconds:
            changed_first = drawn() < 0.5
            two = {changed: slices.make(changed) for changed in (changed_first, not changed_first)}
            if two[True].held_s > slice_s + change.grace_s - _EARLIER_S:
                made.left_out += 1
                continue
            made.pairs.append(Pair(two[True], two[False], changed_first))
    except KeyboardInterrupt:
        made.interrupted = True
    finally:
        with _no_signals():
            made.seconds = time.monotonic() - begin
            try:
                change.undo()
                all_back = True
            finally:
                guard.end(all_back)
    return made


def enough_pairs(slice_s: float, seconds: float, fewest: int) -> None:
    """Raises LocklineError if so many pairs do not fit."""
    if 2 * slice_s * fewest > seconds:
        raise LocklineError(
            f"-d {seconds:g} holds {int(seconds / 2 / slice_s)} pairs of slices of {slice_s:g} s, and {fewest} are"
            f" needed: -d {2 * slice_s * fewest + 1:.0f}"
        )
