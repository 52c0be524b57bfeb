# SPDX-License-Identifier: GPL-2.0-or-later
"""`lockline why --follow`: when a cause has ended, when another one begins, and what may be looked at next.

Short looks, "glances", watch for a change of the picture.  An investigation says what the new one is.  Both are paid
from one bucket of CPU time, which fills as time passes.  Nothing here looks at a machine or at a clock.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Generic, Literal, TypeAlias, TypeVar

from lockline.analysis.answer import NEGLIGIBLE_SHARE
from lockline.analysis.findings import Confidence
from lockline.investigation import probes
from lockline.investigation.choice import judge
from lockline.investigation.hypotheses import hypotheses
from lockline.investigation.model import Hypothesis, Investigation, Plan, Verdict
from lockline.investigation.ranking import is_symptom, names_of

Story = TypeVar("Story")

# Chapters that are kept: of a longer story the oldest are left out, and counted.
MOST_CHAPTERS = 100
# Looks that miss a cause until it has ended: threads may pause between two rounds.
MISSES = 2
# Of what it kept waiting, what is left of a cause at least as long as it lasts.
STILL = 0.1
# How much more another cause must keep waiting than the one that is known.
STRONGER = 2.0
# An investigation needs so much of the bucket; glances use up to so much of what flows in.
ENOUGH = 0.5
GLANCES_PART = 0.5
# From one glance to the next at least, and at most, s.
SHORTEST_GAP_S, LONGEST_GAP_S = 2.0, 60.0


@dataclass(frozen=True, slots=True)
class Picture:
    """What an investigation found.  names: of the locks that it is about.  waiters: threads that it keeps waiting."""

    kind: Literal["cause", "nothing", "unclear"]
    cause: str
    names: frozenset[str]
    sure: Confidence
    waiters: float
    symptom: bool = False


@dataclass(frozen=True, slots=True)
class Glimpse:
    """What a glance saw.  leading: what explains most, None: nothing that speaks for any cause.

    waiting: threads that wait for each lock, and for each cause without a name.
    """

    waiting: tuple[tuple[str, float], ...]
    leading: Picture | None


@dataclass(frozen=True, slots=True)
class Chapter(Generic[Story]):
    """A time with one picture.  Times are ns of one clock.

    begin_ns: it was there by then, and not before after_ns (None: not known).  seen_ns: last seen.  end_ns: it was gone
    by then; None: it goes on.  story: what the last investigation of it said.
    """

    picture: Picture
    story: Story
    after_ns: int | None
    begin_ns: int
    seen_ns: int
    end_ns: int | None = None
    investigations: int = 1
    glances: int = 0


@dataclass(frozen=True, slots=True)
class Following(Generic[Story]):
    """All that is known so far.

    left_out: chapters that are not kept any more.  bucket_ns: CPU time that may be used now, as of at_ns.
    misses: glances in a row that did not see the cause, the first at missed_ns.  doubt: what a glance saw that only an
    investigation can tell; settled: names that one looked into, and that changed nothing.
    """

    plan: Plan
    begun_ns: int
    at_ns: int
    bucket_ns: float
    chapters: tuple[Chapter[Story], ...] = ()
    left_out: int = 0
    paid_ns: int = 0
    glance_ns: int = 0
    glances: int = 0
    investigations: int = 0
    misses: int = 0
    missed_ns: int = 0
    doubt: Picture | None = None
    settled: frozenset[str] = frozenset()
    glanced_ns: int | None = None

    @property
    def current(self) -> Chapter[Story] | None:
        """What goes on; None: nothing is known to."""
        return self.chapters[-1] if self.chapters and self.chapters[-1].end_ns is None else None

    @property
    def rate(self) -> float:
        """CPU time that flows in, ns per ns."""
        return self.plan.max_overhead * self.plan.cpus


Compared: TypeAlias = Literal["same", "gone", "other"]


@dataclass(frozen=True, slots=True)
class Move:
    """What comes next.  wait: for so many seconds.  allowed_ns: what an investigation may cost."""

    kind: Literal["investigate", "glance", "wait"]
    seconds: float = 0.0
    allowed_ns: int = 0


def begin(plan: Plan, now_ns: int) -> Following[Story]:
    """Nothing is known.  The bucket is full: the first investigation costs no more than one without --follow."""
    return Following(plan, now_ns, now_ns, float(plan.allowed_ns))


def _of(one: Hypothesis) -> Picture:
    return Picture("cause", one.cause, frozenset(names_of(one)), one.sure, one.waiters, is_symptom(one))


def picture_of(verdict: Verdict) -> Picture:
    """What an investigation found, as far as it can be compared with what another one finds."""
    if verdict.cause is None or verdict.kind != "cause":
        return Picture(verdict.kind, "", frozenset(), verdict.sure, 0.0)
    return replace(_of(verdict.cause), sure=verdict.sure)


def glimpse_of(known: Investigation) -> Glimpse:
    """What the steps of one glance say."""
    waiting: dict[str, float] = {}

    def add(names: Iterable[str], waiters: float) -> None:
        for name in names:
            waiting[name] = max(waiters, waiting.get(name, 0.0))

    for _, seen in known.observations:
        for name, waiters in [(lock.name, lock.waiters) for lock in seen.locks] + [
            (lock.name, lock.waiters) for lock in seen.user_locks if lock.name
        ]:
            add([name], waiters)
    supported = [one for one in hypotheses(known) if one.supported]
    for one in supported:
        add(names_of(one) or [one.cause], one.waiters)
    leading = judge(known, "time").cause
    return Glimpse(tuple(waiting.items()), None if leading is None else _of(leading))


def glance_probes(known: Investigation, verdict: Verdict) -> tuple[str, ...]:
    """The probes of glances: what sees most kinds of waiting, and what else is needed to see this cause again."""
    futex = probes.PROBES[probes.FUTEX]
    refused = any(one.signal == futex.signal for _, seen in known.observations for one in seen.unseen)
    looks = (probes.SLEEPS, probes.SPINS) if known.target.has_threads else ()
    usual = (probes.TOTALS if refused else probes.FUTEX, *looks)
    if verdict.cause is None:
        return usual
    # A recording of futexes has the waits of the kernel's locks too.
    steps = tuple(step for step in known.steps if step.probe in (*usual, probes.TOTALS))
    if compare(picture_of(verdict), glimpse_of(replace(known, steps=steps))) == "same":
        return usual
    saw = {told.step for told in verdict.cause.evidence if told.supports}
    more = dict.fromkeys(step.probe for step in known.steps if step.number in saw and step.probe not in usual)
    return (*usual, *more)


def _overlap(one: Picture, other: Picture) -> bool:
    return bool(one.names & other.names) or (not one.names and not other.names and one.cause == other.cause)


def same(before: Picture, after: Picture) -> bool:
    """Whether two investigations found the same.

    The same lock may be seen without its cause once: then nothing has changed.
    """
    if before.kind != after.kind or before.kind != "cause":
        return before.kind == after.kind
    if not _overlap(before, after):
        return False
    return before.cause == after.cause or before.symptom or after.symptom or "low" in (before.sure, after.sure)


def compare(picture: Picture, seen: Glimpse) -> Compared:
    """What a glance says of the picture that is known."""
    leading = seen.leading
    if picture.kind != "cause":
        return "same" if leading is None else "other"
    names = picture.names or {picture.cause}
    here = max((waiters for name, waiters in seen.waiting if name in names), default=0.0)
    still = here > 0 and here >= min(NEGLIGIBLE_SHARE, picture.waiters) and here >= STILL * picture.waiters
    if leading is not None and not _overlap(picture, leading) and (not still or leading.waiters >= STRONGER * here):
        return "other"
    return "same" if still else "gone"


def _filled(state: Following[Story], now_ns: int, paid_ns: int = 0) -> Following[Story]:
    """With what has flowed into the bucket, and without what was paid; it may owe something."""
    flowed = max(0, now_ns - state.at_ns) * state.rate
    bucket = min(float(state.plan.allowed_ns), state.bucket_ns + flowed) - paid_ns
    return replace(state, at_ns=max(now_ns, state.at_ns), bucket_ns=bucket, paid_ns=state.paid_ns + paid_ns)


def _kept(state: Following[Story], chapters: tuple[Chapter[Story], ...]) -> Following[Story]:
    over = max(0, len(chapters) - MOST_CHAPTERS)
    return replace(state, chapters=chapters[over:], left_out=state.left_out + over)


def _ended(state: Following[Story], end_ns: int) -> Following[Story]:
    current = state.current
    if current is None:
        return state
    return replace(state, chapters=(*state.chapters[:-1], replace(current, end_ns=max(end_ns, current.seen_ns))))


def investigated(
    state: Following[Story], began_ns: int, now_ns: int, paid_ns: int, picture: Picture, story: Story
) -> Following[Story]:
    """After an investigation."""
    state = _filled(state, now_ns, paid_ns)
    current, doubt = state.current, state.doubt
    state = replace(state, investigations=state.investigations + 1, misses=0, doubt=None)
    if current is not None and same(current.picture, picture):
        surer = "high medium low".index(picture.sure) <= "high medium low".index(current.picture.sure)
        kept = replace(
            current,
            picture=picture if surer else current.picture,
            story=story if surer else current.story,
            seen_ns=now_ns,
            investigations=current.investigations + 1,
        )
        settled = state.settled | (_keys(doubt) if doubt is not None else frozenset())
        return replace(state, chapters=(*state.chapters[:-1], kept), settled=settled)
    after = state.chapters[-1].seen_ns if state.chapters else None
    ended = _ended(state, state.missed_ns if state.missed_ns > (after or 0) else began_ns)
    # A glance that saw it first is when it was there by.
    seen_first = doubt is not None and state.missed_ns > 0 and same(doubt, picture)
    opened = Chapter(picture, story, after, state.missed_ns if seen_first else began_ns, now_ns)
    return replace(_kept(ended, (*ended.chapters, opened)), settled=frozenset())


def _keys(picture: Picture) -> frozenset[str]:
    return picture.names or frozenset((picture.cause,))


def glanced(state: Following[Story], began_ns: int, now_ns: int, paid_ns: int, seen: Glimpse) -> Following[Story]:
    """After a glance."""
    state = _filled(state, now_ns, paid_ns)
    state = replace(state, glances=state.glances + 1, glance_ns=paid_ns, glanced_ns=now_ns)
    current = state.current
    if current is None:
        return state
    if seen.leading is not None and _keys(seen.leading) <= state.settled:
        # An investigation has looked into it.
        seen = replace(seen, leading=None)
    said = compare(current.picture, seen)
    counted = replace(current, glances=current.glances + 1)
    if said == "same":
        kept = replace(counted, seen_ns=now_ns)
        return replace(state, chapters=(*state.chapters[:-1], kept), misses=0, doubt=None)
    state = replace(state, chapters=(*state.chapters[:-1], counted))
    missed = began_ns if not state.misses else state.missed_ns
    if said == "other":
        return replace(state, doubt=seen.leading, missed_ns=missed)
    state = replace(state, misses=state.misses + 1, missed_ns=missed)
    return _ended(state, missed) if state.misses >= MISSES else state


def next_move(state: Following[Story], now_ns: int) -> Move:
    """What to do now."""
    state = _filled(state, now_ns)
    if state.current is None or state.doubt is not None:
        wanted = ENOUGH * state.plan.allowed_ns
        if state.bucket_ns >= wanted:
            return Move("investigate", allowed_ns=int(state.bucket_ns))
        return _until(state, wanted)
    if state.glanced_ns is not None and not state.misses:
        gap = min(LONGEST_GAP_S, max(SHORTEST_GAP_S, state.glance_ns / (GLANCES_PART * state.rate) / 1e9))
        left = gap - (now_ns - state.glanced_ns) / 1e9
        if left > 0:
            return Move("wait", left)
    # The first one is made at once where the bucket has anything: what it costs is known after it.
    wanted = max(1.0, float(state.glance_ns))
    return Move("glance") if state.bucket_ns >= min(wanted, state.plan.allowed_ns) else _until(state, wanted)


def _until(state: Following[Story], wanted_ns: float) -> Move:
    """A wait until the bucket has so much."""
    return Move("wait", max(0.01, (wanted_ns - state.bucket_ns) / state.rate / 1e9))


def finished(state: Following[Story], now_ns: int) -> Following[Story]:
    """At the end: what goes on is not said to have ended."""
    return _filled(state, now_ns)
