# SPDX-License-Identifier: GPL-2.0-or-later
"""Of CPython without the GIL: which functions wait for objects, and what all threads were stopped for."""

from collections import Counter

from lockline.analysis.user_space.futex_waits import FutexStack, FutexWaits
from lockline.analysis.user_space.python_parked import OBJECT_LOCKS
from lockline.analysis.user_space.user_evidence import HALF, has

_COLLECTS = ("gc_collect",)


def stopped_to_collect(futex: FutexWaits) -> bool:
    """Whether those who let stopped threads go on had collected garbage."""
    wakes = [stack for stack in futex.stacks if stack.role == "waker"]
    by_collector = sum(stack.samples for stack in wakes if has((one.symbol for one in stack.frames), _COLLECTS))
    return by_collector >= HALF * sum(stack.samples for stack in wakes) > 0


def _object_function(stack: FutexStack) -> str:
    """The interpreter's function that asks for an object, as list_append()."""
    inside = False
    for frame in stack.frames:
        if has((frame.symbol,), OBJECT_LOCKS):
            inside = True
        elif inside:
            return frame.symbol
    return ""


def object_functions(futex: FutexWaits) -> Counter[str]:
    """The interpreter's functions that ask for objects, by the samples of waits that have them."""
    found: Counter[str] = Counter()
    for stack in futex.stacks:
        if stack.role == "waiter" and (name := _object_function(stack)):
            found[name] += stack.samples
    return found
