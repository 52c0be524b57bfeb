# SPDX-License-Identifier: GPL-2.0-or-later
"""An investigation, lockline-why/1: what `lockline why` prints, and what a recording keeps of it.

Other than the documents of a report this one is made, in words: it is read again from a recording.
"""

import dataclasses
import json
import shlex
from collections.abc import Iterable, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from lockline.analysis.answer import NEGLIGIBLE_SHARE, NEGLIGIBLE_USER_SHARE, OVERUSED
from lockline.analysis.findings import Confidence, Lock, Process, UserLock
from lockline.analysis.whatif import Bound
from lockline.atlas import atlas
from lockline.base.errors import LocklineError
from lockline.base.values import dataclass
from lockline.investigation.blame import graph_of
from lockline.investigation.chain import BEHIND_LOCK
from lockline.investigation.choice import symptoms_of
from lockline.investigation.elsewhere import sleeps_seen, slow_elsewhere, slow_fact
from lockline.investigation.hypotheses import asleep_at_futexes, culprit, hypotheses, waiting
from lockline.investigation.little import BUSY
from lockline.investigation.model import Hypothesis as Hypothesis_
from lockline.investigation.model import Investigation
from lockline.investigation.model import Step as Step_
from lockline.investigation.model import Verdict as Verdict_
from lockline.investigation.probes import GO
from lockline.investigation.ranking import HELD_BY_OTHERS, names_of, neighbour
from lockline.investigation.running import hot_atomics, on_cpu_fact, spins_seen, worth_telling
from lockline.render.documents import schemas, waitgraph
from lockline.render.documents.waitgraph import WaitGraph
from lockline.render.findings import functions_of, value_words
from lockline.render.walker import Amount, Count, Fraction, as_line, shown, walk
from lockline.render.whatif import bound_words
from lockline.render.why_words import fact_words, remedy_words
from lockline.rules.common import OF_GOROUTINES

SCHEMA: Literal["lockline-why/1"] = schemas.WHY
# Sentences of proof from what the cause makes, beside its own.
_OF_SYMPTOMS = 2
_BOUNDS = 3
# Of these causes the bound of the lock is not that of the cause.
_NO_CPU = ("holder-throttled", "holder-no-cpu")
_MORE_CPU = ". More CPU for the holder may bring more than that"
_USE = (*OVERUSED, BUSY, BEHIND_LOCK)


@dataclass(frozen=True)
class Verdict:
    """What the investigation found."""

    kind: Literal["cause", "nothing", "unclear"] = shown(
        "cause: there is one; nothing: no lock holds anything back; unclear: there is waiting, and no cause found,"
        " or what was found may be idle workers"
    )
    confidence: Confidence = shown("how sure that is; high: proven, see docs/why.md")
    cause: str | None = shown("of the leading hypothesis: a rule's name, or one of docs/why.md")
    title: str = shown("in a sentence")
    culprit: str | None = shown("who does it; null: not known")
    waiters: Amount = shown("threads, or goroutines, that it keeps waiting, on average")
    who: str | None = shown("threads or goroutines; null: no cause was found, or an older lockline did not say")
    part: Fraction | None = shown("of all waiting that was seen; null: there is none")
    proof: tuple[str, ...] = shown("what speaks for it")
    remedies: tuple[str, ...] = shown("what to do")
    ended: Literal["proven", "nothing left to try", "time", "budget", "interrupted", "target gone"] = shown(
        "why no further step was made"
    )


@dataclass(frozen=True)
class Hypothesis:
    """Something that may be the cause."""

    cause: str = shown("which")
    title: str = shown("in a sentence")
    state: Literal["proven", "likely", "open", "ruled out", "not testable"] = shown(
        "open: no step looked; not testable: this machine lacks what would tell"
    )
    confidence: Confidence = shown("of its claim alone")
    waiters: Amount = shown("threads that it keeps waiting; of one that is open: may keep")
    evidence_for: tuple[str, ...] = shown("what speaks for it")
    evidence_against: tuple[str, ...] = shown("what speaks against it")
    steps: tuple[Count, ...] = shown("that saw that; 0: known before")
    probes: tuple[str, ...] = shown("that would tell")


@dataclass(frozen=True)
class Step:
    """One step, made or not."""

    number: Count = shown("from 1 on")
    probe: str = shown("what was looked at")
    options: tuple[str, ...] = shown("of lockline record")
    why: str = shown("what it was to tell")
    outcome: Literal["done", "failed", "over budget", "not started", "interrupted"] = shown(
        "over budget: it was made, and used more than was left; not started: its price is more than was left"
    )
    message: str = shown("of one that failed")
    seconds: Amount = shown("that it recorded")
    price_ns: Count = shown("its CPU time as stated before")
    probe_ns: Count = shown("CPU time of the probes, in the load's path")
    collector_ns: Count = shown("CPU time of the collector while it recorded, and to end")
    start_ns: Count = shown("CPU time to start the collector; not in the budget")
    share: Amount = shown("probe_ns and collector_ns as a part of all CPUs' time meanwhile")


@dataclass(frozen=True)
class Budget:
    """What the investigation was allowed, and used."""

    max_overhead: Amount = shown("of all CPUs' time")
    allowed_ns: Count = shown("CPU time")
    paid_ns: Count = shown("CPU time of all steps, without their starts")
    start_ns: Count = shown("CPU time of all starts")
    share: Amount = shown("paid_ns of all CPUs' time while steps recorded")


@dataclass(frozen=True)
class Unseen:
    """A signal that this kernel refuses."""

    signal: str = shown("its name")
    reason: str = shown("why")
    lost: str = shown("what cannot be told for want of it")


@dataclass(frozen=True)
class Stalled:
    """How long tasks waited for a resource that is no lock."""

    resource: str = shown("cpu, io, memory: as /proc/pressure has it")
    part: Fraction = shown("of the first step's time, in which some task waited")


@dataclass(frozen=True)
class Asleep:
    """Threads that sleep for what is no lock."""

    function: str = shown("of the kernel, that they sleep in")
    what: str = shown("what they wait for")
    threads: Amount = shown("on average")


@dataclass(frozen=True)
class OnCpu:
    """Threads that wait on CPUs, or that spend much of their time in atomic instructions."""

    kind: Literal["spin", "swap", "read", "yield", "atomic"] = shown(
        "spin: a loop with an instruction that only waiting loops need; swap: one that only exchanges a word and tests"
        " it; read: one that only reads a word and tests it;"
        " yield: sched_yield(); atomic: instructions that need their cache line for themselves, which is no proof"
        " of waiting"
    )
    process: str = shown("whose")
    function: str | None = shown("in which; null: it has no name")
    caller: str | None = shown("of that function; null: not known")
    threads: Count = shown("seen there")
    cpus: Amount = shown("that do that, on average")
    part: Fraction = shown("of the CPU time of these threads")
    words: str = shown("this in a sentence")


@dataclass(frozen=True)
class WhatIf:
    """What would be gained at most if nobody waited for a lock."""

    lock: str = shown("its name")
    of_cause: bool | None = shown("it is a lock that the cause speaks of; null: an older lockline did not say")
    gain: Amount | None = shown("work done, at most so much more than now, as a part of it; null: cannot be told")
    threads: Count = shown("seen to wait for it")
    waiters: Amount = shown("of them, on average")
    binds: str | None = shown("the lock that allows no more then; null: the threads' own work")
    why_not: str = shown("why it cannot be told")
    words: str = shown("this in a sentence")


@dataclass(frozen=True)
class Chapter:
    """A time with one picture, of `lockline why --follow`."""

    after_unix_ns: Count | None = shown("it began after that, when another picture was seen last; null: not known")
    begin_unix_ns: Count = shown("it was there by then")
    seen_unix_ns: Count = shown("when it was seen last")
    end_unix_ns: Count | None = shown("it was gone by then; null: it went on at the end")
    looks: Count = shown("short looks and investigations that it lasted for")
    verdict: Verdict = shown("what was found")


@dataclass(frozen=True)
class Followed:
    """What `lockline why --follow` saw until it ended, or so far."""

    begin_unix_ns: Count = shown("its begin")
    end_unix_ns: Count = shown("its end, or when this was written")
    chapters: tuple[Chapter, ...] = shown("in their order")
    left_out: Count = shown("older chapters that are not kept")
    investigations: Count = shown("that were made")
    glances: Count = shown("short looks between them, whether the picture has changed")
    allowed_ns: Count = shown("CPU time that --max-overhead allows in this time")
    paid_ns: Count = shown("CPU time of all investigations and glances, without the starts of collectors")
    start_ns: Count = shown("CPU time of all starts")


@dataclass(frozen=True)
class Document:
    """The story of an investigation."""

    schema: Literal["lockline-why/1"] = shown("this schema")
    lockline_version: str = shown("that made it")
    hostname: str = shown("of the machine")
    kernel_release: str = shown("as uname -r has it")
    cpus: Count = shown("of the machine")
    begin_unix_ns: Count = shown("its begin, as time of day since 1970")
    target: str = shown("what to look at")
    verdict: Verdict = shown("what it found")
    hypotheses: tuple[Hypothesis, ...] = shown("the likeliest first, with those that were ruled out")
    steps: tuple[Step, ...] = shown("in their order")
    budget: Budget = shown("what it cost")
    unseen: tuple[Unseen, ...] = shown("what could not be looked at on this machine")
    stalled: tuple[Stalled, ...] = shown("waiting for other things than locks")
    asleep: tuple[Asleep, ...] = shown("threads of the target that sleep for other things than locks, if seen")
    on_cpu: tuple[OnCpu, ...] = shown("threads of the target that wait on CPUs, if that was looked at")
    what_if: tuple[WhatIf, ...] = shown("bounds, of the locks that are waited for most")
    wait_graph: WaitGraph | None = shown(
        "who waits for whom in the end, as far as the steps know; null: an older version"
    )
    followed: Followed | None = shown("with --follow: all that was found, one after the other; null: without")


@dataclass(frozen=True, slots=True)
class Machine:
    """Where an investigation was made."""

    hostname: str
    kernel_release: str
    cpus: int
    begin_unix_ns: int
    lockline_version: str


def _hypothesis(one: Hypothesis_) -> Hypothesis:
    return Hypothesis(
        cause=one.cause,
        title=fact_words(one.claim),
        state=one.state,
        confidence=one.sure,
        waiters=one.waiters,
        evidence_for=tuple(fact_words(told.fact) for told in one.evidence if told.supports),
        evidence_against=tuple(fact_words(told.fact) for told in one.evidence if not told.supports),
        steps=tuple(sorted({told.step for told in one.evidence})),
        probes=one.tests,
    )


def _step(step: Step_) -> Step:
    cost = step.cost
    return Step(
        number=step.number,
        probe=step.probe,
        options=step.options,
        why=fact_words(step.why),
        outcome=step.outcome,
        message=step.message,
        seconds=0.0 if cost is None else cost.window_ns / 1e9,
        price_ns=step.price_ns,
        probe_ns=0 if cost is None else cost.probe_ns,
        collector_ns=0 if cost is None else cost.collector_ns,
        start_ns=0 if cost is None else cost.start_ns,
        share=0.0 if cost is None else cost.share,
    )


def _unique(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for text in texts if text))


def _remedies(cause: Hypothesis_, symptoms: Sequence[Hypothesis_]) -> tuple[str, ...]:
    """What to do: of a lock that is used too much the atlas knows better than the rule."""
    told: list[str] = []
    others = [one for one in symptoms if one.cause == HELD_BY_OTHERS]
    for one in (*others, cause, *(one for one in symptoms if one not in others)):
        known = atlas().find(one.subject.name) if isinstance(one.subject, Lock) and one.cause in _USE else None
        functions = functions_of(seen.fact for seen in one.evidence)
        told += (
            known.helps_in(functions)[:2] if known is not None else tuple(remedy_words(todo) for todo in one.remedies)
        )
    return _unique(told)


def _nothing(known: Investigation, verdict: Verdict_) -> Verdict:
    kernel, user = waiting(known)
    ruled_out = [one for one in hypotheses(known) if one.state == "ruled out"]
    looked = "" if user is not None else " of the kernel"
    title = f"No lock{looked} holds {known.target.words} back"
    slow = slow_elsewhere(known)
    if slow is not None:
        title += f". {fact_words(slow_fact(slow))}"
    if verdict.kind == "unclear":
        title = "Nothing was seen"
        if kernel >= NEGLIGIBLE_SHARE or (user or 0.0) >= NEGLIGIBLE_USER_SHARE:
            title = f"Tasks of {known.target.words} wait, and no cause was found"
        elif kernel or user:
            title = f"No lock was seen to hold {known.target.words} back, but not all could be looked at"
        if verdict.ended == "target gone":
            title = f"Of {known.target.words} too little was seen: it has ended"
    proof = _unique(fact_words(told.fact) for one in ruled_out[:3] for told in one.evidence)
    remedies: tuple[str, ...] = ()
    asleep = asleep_at_futexes(known) if verdict.kind == "unclear" else None
    if asleep is not None:
        title = f"Threads of {known.target.words} sleep at futexes: for a lock, or for work, was not looked at"
        proof = (f"{asleep.futex_sleepers:.1f} of {asleep.threads} threads on average, at {asleep.looks} looks", *proof)
        remedies = (f"`lockline record --futex {shlex.join(known.target.options)} -d 2` shows what they wait for",)
    return Verdict(
        kind=verdict.kind,
        confidence=verdict.sure,
        cause=None,
        title=title,
        culprit=None,
        waiters=kernel + (user or 0.0),
        who=None,
        part=None,
        proof=proof,
        remedies=remedies,
        ended=verdict.ended,
    )


def _who(known: Investigation, cause: Hypothesis_) -> str:
    """Who waits.  A lock of goroutines is known as such from other steps, too, which see threads."""
    followed = any(step.probe == GO and step.cost is not None for step in known.steps)
    return "goroutines" if followed and cause.claim.what in OF_GOROUTINES.values() else "threads"


def _verdict(known: Investigation, verdict: Verdict_) -> Verdict:
    cause = verdict.cause
    if cause is None:
        return _nothing(known, verdict)
    kernel, user = waiting(known)
    total = kernel + (user or 0.0)
    among = hypotheses(known)
    symptoms = symptoms_of(among, cause)
    other = neighbour(cause, among)
    if other is not None:
        # Whose doing it is comes before what to do about the lock.
        symptoms = (other, *symptoms)
    proof = [fact_words(told.fact) for told in cause.evidence if told.supports]
    for one in symptoms:
        proof += [fact_words(told.fact) for told in one.evidence if told.supports][:_OF_SYMPTOMS]
    blamed = culprit(cause, known)
    return Verdict(
        kind=verdict.kind,
        confidence=verdict.sure,
        cause=cause.cause,
        title=fact_words(cause.claim),
        culprit=None if blamed is None else value_words(blamed),
        waiters=cause.waiters,
        who=_who(known, cause),
        part=min(1.0, cause.waiters / total) if total else None,
        proof=_unique(proof),
        remedies=_remedies(cause, symptoms),
        ended=verdict.ended,
    )


def _what_if(known: Investigation, cause: Hypothesis_ | None) -> tuple[WhatIf, ...]:
    """For each lock the bound of the step that saw it last: the cause's locks, and then the one with most waiting."""
    beyond = _MORE_CPU if cause is not None and cause.cause in _NO_CPU else ""
    blamed = names_of(cause) if cause is not None else set()

    def blames(bound: Bound) -> bool:
        return isinstance(bound.lock, Lock | UserLock) and bound.lock.name in blamed

    bounds = {value_words(bound.lock): bound for _, seen in known.observations for bound in seen.bounds}
    ranked = sorted(bounds.values(), key=lambda bound: (not blames(bound), -bound.waiters))
    return tuple(
        WhatIf(
            lock=value_words(bound.lock),
            of_cause=blames(bound),
            gain=bound.gain,
            threads=bound.threads,
            waiters=bound.waiters,
            binds=None if bound.binds is None else value_words(bound.binds),
            why_not=bound.why_not,
            words=bound_words(bound) + beyond,
        )
        for bound in ranked[:_BOUNDS]
    )


def _on_cpu(known: Investigation) -> tuple[OnCpu, ...]:
    seen = spins_seen(known)
    told = (*worth_telling(seen[1]), *hot_atomics(known)) if seen is not None else ()
    return tuple(
        OnCpu(
            kind=one.kind,
            process=value_words(Process(one.comm, one.tgid)),
            function=one.function or None,
            caller=one.caller or None,
            threads=one.threads,
            cpus=one.cpus,
            part=one.part,
            words=fact_words(on_cpu_fact(one)),
        )
        for one in told
    )


def make(known: Investigation, verdict: Verdict_, machine: Machine) -> Document:
    """The story of an investigation in words."""
    unseen = {one.signal: one for _, seen in known.observations for one in seen.unseen}
    stalled = known.observations[0][1].counters.stalled if known.observations else ()
    sleeps = sleeps_seen(known)
    window = sum(step.cost.window_ns * step.cost.cpus for step in known.steps if step.cost is not None)
    return Document(
        schema=SCHEMA,
        lockline_version=machine.lockline_version,
        hostname=machine.hostname,
        kernel_release=machine.kernel_release,
        cpus=machine.cpus,
        begin_unix_ns=machine.begin_unix_ns,
        target=known.target.words,
        verdict=_verdict(known, verdict),
        hypotheses=tuple(_hypothesis(one) for one in hypotheses(known)),
        steps=tuple(_step(step) for step in known.steps),
        budget=Budget(
            max_overhead=known.plan.max_overhead,
            allowed_ns=known.plan.allowed_ns,
            paid_ns=known.paid_ns,
            start_ns=sum(step.cost.start_ns for step in known.steps if step.cost is not None),
            share=known.paid_ns / window if window else 0.0,
        ),
        unseen=tuple(Unseen(one.signal, one.reason, one.lost) for one in unseen.values()),
        stalled=tuple(Stalled(name, part) for name, part in stalled),
        asleep=tuple(Asleep(one.function, one.what, one.threads) for one in sleeps[1].others) if sleeps else (),
        on_cpu=_on_cpu(known),
        what_if=_what_if(known, verdict.cause),
        wait_graph=waitgraph.made(graph_of(known)),
        followed=None,
    )


def as_json(document: Document, addresses: bool = False) -> str:
    """One JSON object on one line."""
    return as_line(walk(Document, document, addresses))


def _read(kind: Any, value: Any) -> Any:
    """A JSON value as a value of this type.  Raises ValueError if it is none."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _read(arguments[0], value)
    if origin in (Union, UnionType):
        if value is None and NoneType in arguments:
            return None
        (one,) = [argument for argument in arguments if argument is not NoneType]
        return _read(one, value)
    if origin is Literal:
        if value not in arguments:
            raise ValueError(f"{value!r:.40} is none of {arguments}")
        return value
    if origin is tuple:
        if value is None:
            # A list that an older version did not have.
            return ()
        if not isinstance(value, list):
            raise ValueError("no list")
        return tuple(_read(arguments[0], one) for one in value)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        if not isinstance(value, dict):
            raise ValueError("no object")
        return kind(**{field.name: _read(field.type, value.get(field.name)) for field in dataclasses.fields(kind)})
    if kind is float and type(value) in (int, float):
        return float(value)
    if type(value) is not kind:
        raise ValueError(f"{value!r:.40} is no {kind.__name__}")
    return value


def from_json(text: str) -> Document:
    """The story that a recording keeps.  Raises LocklineError if it is damaged."""
    try:
        document = _read(Document, json.loads(text))
    except (ValueError, TypeError, RecursionError, OverflowError) as error:
        raise LocklineError(f"the recording's investigation cannot be read: {error}") from error
    assert isinstance(document, Document)
    return document
