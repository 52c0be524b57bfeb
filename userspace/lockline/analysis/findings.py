# SPDX-License-Identifier: GPL-2.0-or-later
"""What a rule finds, as typed facts without a word of prose: lockline.render.findings has the words."""

from typing import Literal, TypeAlias

from lockline.base.values import dataclass

Confidence: TypeAlias = Literal["high", "medium", "low"]


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure.

    unit: "ns", "s", "per second", "share" (a fraction) or "ratio", else what is counted, such as "waits".
    of: what the figure is of, if its name does not say it.  error: half the width of its interval.  low, high: the
    interval, at this confidence.  bound: whether the true value is at least or at most the value.
    """

    value: float
    unit: str
    of: str = ""
    error: float | None = None
    low: float | None = None
    high: float | None = None
    confidence: float | None = None
    bound: Literal["", "at least", "at most"] = ""


@dataclass(frozen=True, slots=True)
class Task:
    """A thread; of several whose tid is not known, such as readers, tid is None and comm says who.

    container: its name; "" outside of any, or not known.
    """

    comm: str
    tid: int | None
    container: str = ""


@dataclass(frozen=True, slots=True)
class Process:
    """A process; tgid: None for all processes of that name."""

    comm: str
    tgid: int | None


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock in the kernel by its identity: name, kind ('' if it does not matter) and, of one lock, its instance."""

    name: str
    kind: str = ""
    instance: str = ""


@dataclass(frozen=True, slots=True)
class UserLock:
    """A lock of a program: its symbol, or the mapping that it lies in; '' if not known."""

    name: str
    mapping: str


@dataclass(frozen=True, slots=True)
class Function:
    """A function, in the kernel or in a program."""

    name: str


@dataclass(frozen=True, slots=True)
class Cpu:
    """A CPU by its number."""

    number: int


@dataclass(frozen=True, slots=True)
class Line:
    """The cache line of a lock."""

    lock: str
    instance: str = ""


@dataclass(frozen=True, slots=True)
class File:
    """A file that is locked; path: as who waits has opened it."""

    path: str


@dataclass(frozen=True, slots=True)
class Machine:
    """The whole machine, or one device of it."""

    device: str = ""


@dataclass(frozen=True, slots=True)
class Text:
    """A name of another kind, or a sentence of another analysis."""

    text: str


Subject: TypeAlias = Task | Process | Lock | UserLock | Function | Cpu | Line | File | Machine
Value: TypeAlias = Measure | Subject | Text | tuple[Subject | Text, ...]
Values: TypeAlias = tuple[tuple[str, Value], ...]


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that is known: of which kind, and its figures and subjects by name."""

    what: str
    values: Values


@dataclass(frozen=True, slots=True)
class Remedy:
    """One thing to do: the action, and what it needs to know."""

    action: str
    values: Values


@dataclass(frozen=True, slots=True)
class Impact:
    """What a finding explains.

    wait_ns: the waiting that it is about.  part: of all lock waiting in the report, None if it is about waiting of
    another kind.  waiters: threads that it keeps waiting, on average; cpus: CPUs that it keeps spinning, None if nobody
    spins or that is not known.
    """

    wait_ns: int
    part: float | None = None
    waiters: float | None = None
    cpus: float | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule makes of a report: never without evidence.

    subject: what is at fault.  claim: the finding in one fact.
    """

    rule: str
    subject: Subject
    confidence: Confidence
    claim: Fact
    evidence: tuple[Fact, ...]
    remedies: tuple[Remedy, ...]
    impact: Impact


def fact(what: str, **values: Value | None) -> Fact:
    """A fact with these values; those that are None are left out."""
    return Fact(what, tuple((name, value) for name, value in values.items() if value is not None))


def remedy(action: str, **values: Value | None) -> Remedy:
    """A remedy with these values; those that are None are left out."""
    return Remedy(action, tuple((name, value) for name, value in values.items() if value is not None))


def ns(value: float, bound: Literal["", "at least", "at most"] = "") -> Measure:
    """A length of time."""
    return Measure(value, "ns", bound=bound)


def part(value: float, of: str) -> Measure:
    """A fraction of something; of the window it is one waiter, or one CPU, all the time."""
    return Measure(value, "share", of)
