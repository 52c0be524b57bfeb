# SPDX-License-Identifier: GPL-2.0-or-later
"""What several parts of the report have: figures of waits, stacks, tasks."""

from collections.abc import Sequence
from typing import Any

from lockline.base import histogram
from lockline.base.values import dataclass
from lockline.recording.rows import Frame as FrameRow
from lockline.recording.stacks import without_internals
from lockline.render.walker import Address, At, Count, Name, Pairs, inline, shown, with_addresses


def _share(figures: Any, at: At) -> float | None:
    share: float | None = at.report.window.share(figures.wait_ns)
    return share


def _percentile(fraction: float) -> Any:
    return lambda figures, _: figures.percentile(fraction)


@dataclass(frozen=True)
class Lengths:
    """How long they took."""

    average_ns: Count = shown("mean, 0 without any")
    p50_ns: Count | None = shown("median, the middle of its bucket", _percentile(0.5))
    p99_ns: Count | None = shown("likewise", _percentile(0.99))


def _buckets(figures: Any, _: At) -> Any:
    return histogram.pairs(figures.histogram)


@dataclass(frozen=True)
class Waits:
    """Waits for locks of the selection."""

    waits: Count = shown("how many")
    wait_ns: Count = shown("their sum")
    share: float | None = shown("of the window: 1.0 is one waiter all the time", _share)
    lengths: Lengths = inline()
    max_ns: Count = shown("the longest; in a selection by time it may be a lower bound")
    failed: Count = shown("ended without the lock: a signal, a deadlock")
    histogram: Pairs = shown("pairs of a bucket's lower end in ns and its count", _buckets)


@dataclass(frozen=True)
class Sums:
    """Waits, or reads, of another kind."""

    waits: Count = shown("how many")
    wait_ns: Count = shown("their sum")
    max_ns: Count = shown("the longest")
    lengths: Lengths = inline()
    histogram: Pairs = shown("pairs of a bucket's lower end in ns and its count", _buckets)


@dataclass(frozen=True)
class PlainFrame:
    """A return address."""

    symbol: Name = shown("the function")
    offset: int | None = shown("in it", lambda frame, _: frame.offset if frame.symbol else None)
    module: Name = shown("null: the kernel image, or not known")


@dataclass(frozen=True)
class Frame:
    """A return address."""

    frame: PlainFrame = inline()
    address: Address = shown("with --addresses alone", where=with_addresses)


def caller_of(frames: Sequence[FrameRow]) -> str | None:
    """The first function of a stack that is not one of the lock itself."""
    callers = without_internals(frames)
    return callers[0].symbol if callers else None


@dataclass(frozen=True)
class Stack:
    """A stack, and the waits that its samples stand for."""

    samples: Count = shown("with this stack")
    waits: Count = shown("that they stand for")
    wait_ns: Count = shown("that they stand for")
    caller: Name = shown("first function that is not one of the lock itself", lambda stack, _: caller_of(stack.frames))
    frames: tuple[Frame, ...] = shown("leaf first, from the first one that is not of the probe")


@dataclass(frozen=True)
class Task:
    """A thread."""

    comm: str = shown("its name")
    tid: Count = shown("its id")
    tgid: Count = shown("of its process")
