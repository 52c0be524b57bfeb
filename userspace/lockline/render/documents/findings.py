# SPDX-License-Identifier: GPL-2.0-or-later
"""Findings in the report: their facts as values, and in words."""

from typing import Annotated, Any, ClassVar, Literal

from lockline.analysis import findings
from lockline.analysis.findings import Confidence
from lockline.base.values import dataclass
from lockline.render.walker import Amount, At, Count, Limits, Name, shown

Sentences = Annotated[tuple[str, ...], Limits({"minItems": 1})]


@dataclass(frozen=True)
class Measure:
    """A figure."""

    made_from: ClassVar[type] = findings.Measure
    value: float = shown("in its unit")
    unit: str = shown("ns, s, per second, share (a fraction) or ratio; else what is counted")
    of: Name = shown("what it is a figure of, if its name does not say it")
    error: Amount | None = shown("half the width of its interval")
    low: float | None = shown("of its interval")
    high: float | None = shown("of its interval")
    confidence: float | None = shown("of the interval")
    bound: Literal["", "at least", "at most"] = shown("whether the true value is at least, or at most, the value")


def _kind(name: str) -> Any:
    return shown("what this is", lambda *_: name)


@dataclass(frozen=True)
class Task:
    """A thread."""

    made_from: ClassVar[type] = findings.Task
    kind: Literal["task"] = _kind("task")
    comm: Name = shown("its name")
    tid: int | None = shown("its id; null: several threads, or not known")
    container: Name = shown("that it runs in")


@dataclass(frozen=True)
class Process:
    """A process."""

    made_from: ClassVar[type] = findings.Process
    kind: Literal["process"] = _kind("process")
    comm: Name = shown("its name")
    tgid: int | None = shown("its id; null: all processes of that name")


@dataclass(frozen=True)
class Lock:
    """A lock in the kernel."""

    made_from: ClassVar[type] = findings.Lock
    kind: Literal["lock"] = _kind("lock")
    name: Name = shown("its name")
    wait_kind: Name = shown("of wait", "kind")
    instance: Name = shown("which of this name")


@dataclass(frozen=True)
class UserLock:
    """A lock of a program."""

    made_from: ClassVar[type] = findings.UserLock
    kind: Literal["user lock"] = _kind("user lock")
    name: Name = shown("its symbol")
    mapping: Name = shown("that it lies in")


@dataclass(frozen=True)
class Function:
    """A function."""

    made_from: ClassVar[type] = findings.Function
    kind: Literal["function"] = _kind("function")
    name: str = shown("its name")


@dataclass(frozen=True)
class Cpu:
    """A CPU."""

    made_from: ClassVar[type] = findings.Cpu
    kind: Literal["cpu"] = _kind("cpu")
    number: int = shown("its number")


@dataclass(frozen=True)
class Line:
    """The cache line of a lock."""

    made_from: ClassVar[type] = findings.Line
    kind: Literal["line"] = _kind("line")
    lock: Name = shown("the lock's name")
    instance: Name = shown("which of this name")


@dataclass(frozen=True)
class Machine:
    """The whole machine, or one device of it."""

    made_from: ClassVar[type] = findings.Machine
    kind: Literal["machine"] = _kind("machine")
    device: Name = shown("null: the whole machine")


@dataclass(frozen=True)
class Text:
    """A name of another kind, or a sentence of another analysis."""

    made_from: ClassVar[type] = findings.Text
    kind: Literal["text"] = _kind("text")
    text: str = shown("itself")


Subject = Task | Process | Lock | UserLock | Function | Cpu | Line | Machine
Part = Task | Process | Lock | UserLock | Function | Cpu | Line | Machine | Text
Value = Measure | Task | Process | Lock | UserLock | Function | Cpu | Line | Machine | Text | tuple[Part, ...]


def _values(fact: Any, _: At) -> dict[str, findings.Value]:
    return dict(fact.values)


@dataclass(frozen=True)
class Fact:
    """One thing that is known."""

    what: str = shown("which kind of fact")
    values: dict[str, Value] = shown("figures and subjects, by name", _values)


@dataclass(frozen=True)
class Remedy:
    """One thing to do."""

    action: str = shown("what to do")
    values: dict[str, Value] = shown("what it needs to know, by name", _values)


@dataclass(frozen=True)
class Impact:
    """What a finding explains."""

    wait_ns: Count = shown("the waiting that it is about")
    part: Amount | None = shown("of all lock waiting in the report; null: it is about waiting of another kind")
    waiters: Amount | None = shown("threads that it keeps waiting, on average")
    cpus: Amount | None = shown("CPUs that it keeps spinning, on average; null: nobody spins, or not known")


def _of_finding(name: str) -> Any:
    return lambda pair, _: getattr(pair[0], name)


def _in_words(name: str) -> Any:
    return lambda pair, _: getattr(pair[1], name)


@dataclass(frozen=True)
class Finding:
    """What a rule found; of the finding and its words."""

    rule: str = shown("see rules.md", _of_finding("rule"))
    title: str = shown("what was found", _in_words("title"))
    confidence: Confidence = shown("how sure it is", _of_finding("confidence"))
    evidence: Sentences = shown("what it rests on, in sentences", _in_words("evidence"))
    next: Sentences = shown("what to do, in sentences", _in_words("next"))
    wait_ns: Count = shown("the waiting that it is about", lambda pair, _: pair[0].impact.wait_ns)
    subject: Subject = shown("what is at fault", _of_finding("subject"))
    claim: Fact = shown("what was found, as a fact", _of_finding("claim"))
    facts: tuple[Fact, ...] = shown("the evidence as facts, in the same order", _of_finding("evidence"))
    remedies: tuple[Remedy, ...] = shown("what to do, in the same order as next", _of_finding("remedies"))
    impact: Impact = shown("what it explains", _of_finding("impact"))
