# SPDX-License-Identifier: GPL-2.0-or-later
"""Which class of java.util.concurrent threads wait for: a Semaphore, a ReentrantLock, a read-write lock.

All of them park a thread in the same function, Unsafe.park(), and the program calls their methods: the class is that of
the outermost of these methods on a stack.  LockSupport alone is a lock that the program makes itself.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from lockline.analysis.user_space.futex_waits import FutexWaits
from lockline.analysis.user_space.java_monitors import class_of
from lockline.analysis.user_space.program_functions import method_of
from lockline.analysis.user_space.run_times import JAVA_CODE
from lockline.analysis.user_space.user_evidence import MOST, OF_PACKAGE
from lockline.recording.rows import Frame

_PACKAGE = "java.util.concurrent."
# Code that HotSpot makes for itself.
_HOTSPOT = "HotSpot::"
# What these classes are made of: a program that calls them makes a lock of its own.
_PARTS = ("LockSupport", "AbstractQueuedSynchronizer", "AbstractQueuedLongSynchronizer")


def _class_in(symbols: Iterable[str]) -> str:
    """The class of the outermost method of the package, of those that follow each other from the wait on."""
    found = ""
    for symbol in symbols:
        method = method_of(symbol)
        if method.startswith(_PACKAGE):
            found = method
        elif found:
            break
    name = found.removeprefix(_PACKAGE).removeprefix("locks.").partition(".")[0].partition("$")[0]
    return "" if name in _PARTS else name


def _votes(futex: FutexWaits, class_of_wait: Callable[[Sequence[Frame]], str]) -> Counter[str]:
    """The sampled waits by class; '': of these it is not known."""
    votes: Counter[str] = Counter()
    for stack in futex.stacks:
        if stack.role == "waiter":
            votes[class_of_wait(stack.frames)] += stack.samples
    return votes


def _with_most(votes: Counter[str]) -> str:
    every = sum(votes.values())
    return next((name for name, samples in votes.most_common(1) if samples >= MOST * every), "")


def _lock_class(futex: FutexWaits) -> str:
    """The class that most of the sampled waits with names are in; '' if none is known, or none stands out."""
    votes = _votes(futex, lambda frames: _class_in(frame.symbol for frame in frames))
    del votes[""]
    return _with_most(votes)


def object_class(futex: FutexWaits) -> str:
    """The class of a lock of Java: of the object whose monitor it is, or of java.util.concurrent; '': not known."""
    return _lock_class(futex) if futex.make in OF_PACKAGE else class_of(futex.monitors)


def _innermost_class(frames: Sequence[Frame]) -> str:
    methods = (frame.symbol for frame in frames if frame.module == JAVA_CODE)
    method = next((name for name in methods if not name.startswith(_HOTSPOT)), "")
    return method_of(method).rpartition(".")[0]


def locking_class(futex: FutexWaits) -> str:
    """The class of the Java method that most of the sampled waits for a monitor are right in; '' if no one has most."""
    return _with_most(_votes(futex, _innermost_class))
