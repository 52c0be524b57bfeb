# SPDX-License-Identifier: GPL-2.0-or-later
"""In which function of the program a lock's critical section is, by the stacks of waits and of wakes.

A function that takes a lock and releases it is on both.  Where one function takes the lock and another one releases it
(a wrapper of a program's own, a guard's constructor and destructor), the section is in the innermost function that
calls both.  A queue has none: those who put there and those who take have nothing in common.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

from lockline.analysis.user_space.futex_waits import FutexStack, FutexWaits
from lockline.analysis.user_space.program_functions import go_package, heaviest_name, is_own, method_of, own_name
from lockline.analysis.user_space.run_times import JAVA_CODE
from lockline.analysis.user_space.user_evidence import FULL_QUEUES, GO_DATABASE, GO_FLIGHT, GO_WEIGHTED
from lockline.recording.rows import Frame

_GO_DEFER = re.compile(r"\.deferwrap\d+$")
# Who waits there does so in a library's function, which its names tell: of these the program's own is its caller.
_OF_GO_LIBRARY = (GO_DATABASE, GO_FLIGHT, GO_WEIGHTED)
_GO_SYNC = ("golang.org/x/sync/",)
# A reader that was let in lets the next one in, before it has anything to let go.
_PASSES_ON = "java.util.concurrent.locks.AbstractQueuedSynchronizer.acquire"
# Names of the program's functions on each stack, innermost first, with its samples.
_Stacks: TypeAlias = Sequence[tuple[Sequence[str], int]]


def _stacks(futexes: Iterable[FutexWaits], role: str) -> Iterator[FutexStack]:
    return (stack for futex in futexes for stack in futex.stacks if stack.role == role)


def _own(frames: Iterable[Frame]) -> list[str]:
    """The program's own functions, innermost first; what Go makes of a defer is its function."""
    return [_GO_DEFER.sub("", name) for name in map(own_name, frames) if name]


def _waits(futexes: Iterable[FutexWaits]) -> _Stacks:
    found = ((_own(stack.frames), stack.samples) for stack in _stacks(futexes, "waiter"))
    return [(names, samples) for names, samples in found if names]


def _callers(stacks: _Stacks) -> _Stacks:
    """The same without functions of Go's library and of x/sync; a stack that has no other ends there."""
    found = (
        ([name for name in names if not go_package(name) and not name.startswith(_GO_SYNC)], samples)
        for names, samples in stacks
    )
    return [(names, samples) for names, samples in found if names]


def _called(futexes: Iterable[FutexWaits]) -> Mapping[Frame, Counter[str]]:
    """By caller, at its return address: the program's functions that waits have there."""
    found: defaultdict[Frame, Counter[str]] = defaultdict(Counter)
    for stack in _stacks(futexes, "waiter"):
        for inner, outer in pairwise(stack.frames):
            # A frame of a JVM has its method's address, wherever that calls.
            if is_own(inner) and outer.module != JAVA_CODE:
                found[outer][own_name(inner)] += stack.samples
    return found


def _wakes(futexes: Sequence[FutexWaits]) -> _Stacks:
    """The same of wakes, each with the function that ended with a jump to release the lock.

    It leaves no frame of its own: its caller is found where a thread that waits in that function has its caller, at the
    same return address.  Where owners are known, a wake counts by the waiting for them: of two functions that let go as
    often, threads wait for the one that has the lock for longer.
    """
    called = _called(futexes)
    by_owner = all(any(stack.owned_ns for stack in _stacks((futex,), "waker")) for futex in futexes)
    found = []
    for stack in _stacks(futexes, "waker"):
        if any(method_of(frame.symbol).startswith(_PASSES_ON) for frame in stack.frames):
            continue
        names = _own(stack.frames)
        first = next((frame for frame in stack.frames if is_own(frame) or frame in called), None)
        if first is not None and first in called:
            names = [heaviest_name(called[first]), *names]
        if names:
            found.append((names, stack.owned_ns if by_owner else stack.samples))
    return found


def _by_innermost(stacks: _Stacks, others: _Stacks) -> Counter[str]:
    """These stacks by their innermost function; where no innermost one is of both kinds, by the first on both."""
    heads, other_heads = ({names[0] for names, _ in of} for of in (stacks, others))
    common: Collection[str] = ()
    if heads.isdisjoint(other_heads):
        common = {name for names, _ in others for name in names}
    found: Counter[str] = Counter()
    for names, samples in stacks:
        found[next((name for name in names if name in common), names[0])] += samples
    return found


def _innermost(stacks: _Stacks, others: _Stacks) -> str:
    """The function that most of these stacks are in."""
    return heaviest_name(_by_innermost(stacks, others))


def most_released(futexes: Sequence[FutexWaits]) -> str:
    """The program's function that most of the sampled wakes of these futexes come from; '' if none is known."""
    return _innermost(_wakes(futexes), _waits(futexes))


def waited_in(futex: FutexWaits) -> str:
    """The program's function that most of the sampled waits are in; '' if none is known."""
    waits = _waits((futex,))
    if futex.make in _OF_GO_LIBRARY:
        return _innermost(_callers(waits), ())
    return _innermost(waits, () if futex.make in FULL_QUEUES else _wakes((futex,)))


def released_in(futex: FutexWaits) -> str:
    """The program's function that most of the sampled wakes come from; '' if none is known."""
    if futex.make in FULL_QUEUES:
        return _innermost(_wakes((futex,)), ())
    return most_released((futex,))


def held_in(futex: FutexWaits) -> str:
    """The function in which owners let go, for half of the waiting for them or more; '' if none is known."""
    owned = sum(stack.owned_ns for stack in futex.stacks)
    wakes, waits = _wakes((futex,)), _waits((futex,))
    found = _by_innermost(wakes, waits) if owned else Counter[str]()
    name = heaviest_name(found)
    return name if 2 * found[name] >= owned > 0 else ""


def waits_by_function(futex: FutexWaits) -> Counter[str]:
    """The sampled waits by the program's function, of stacks that have one."""
    found: Counter[str] = Counter()
    for names, samples in _waits((futex,)):
        found[names[0]] += samples
    return found


def waits_with(futex: FutexWaits, function: str) -> float:
    """The part of the sampled waits, of stacks with a function of the program, that have this one; 0 to 1."""
    waits = _waits((futex,))
    every = sum(samples for _, samples in waits)
    return sum(samples for names, samples in waits if function in names) / every if every else 0.0
