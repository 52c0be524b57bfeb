# SPDX-License-Identifier: GPL-2.0-or-later
"""An experiment, lockline-experiment/1: what `lockline experiment --format json` prints."""

from typing import Literal

from lockline.base.values import dataclass
from lockline.experiment.judge import Judgement
from lockline.experiment.result import Result
from lockline.render import experiment_words as words
from lockline.render.documents import schemas
from lockline.render.walker import Amount, Count, Finite, FiniteAmount, Fraction, Source, as_line, shown, walk


@dataclass(frozen=True)
class Change:
    """What was changed."""

    kind: Literal["stop", "stop-cgroup", "set", "commands", "nice", "cpus"] = shown("how", "change_kind")
    words: str = shown("what, as in `With WORDS the load ...`", "change")
    processes: tuple[Count, ...] = shown("to which processes", "change_pids")


@dataclass(frozen=True)
class Progress:
    """What counted as work."""

    spec: str = shown("as given")
    words: str = shown("what it counts", "counter")
    process: Count | None = shown("whose; null: not known", "counter_pid")
    rate: Amount = shown("growth in a second, before the start", "check_rate")


@dataclass(frozen=True)
class Slice:
    """The measured part of a slice."""

    seconds: Amount = shown("its length, without the warm-up")
    work: Amount = shown("growth of the counter")


@dataclass(frozen=True)
class TwoSlices:
    """Two slices, one after the other."""

    changed: Slice = shown("with the change")
    unchanged: Slice = shown("without")
    first: Literal["changed", "unchanged"] = shown(
        "which came first, by lot", lambda pair, _: "changed" if pair.changed_first else "unchanged"
    )


def _test(field: str) -> Source:
    def value(judged: Judgement, _: object) -> float | None:
        return None if judged.test is None else getattr(judged.test, field)

    return value


@dataclass(frozen=True)
class Answer:
    """What the slices say."""

    verdict: Literal["more", "less", "no difference", "cannot be told"] = shown(
        "of the work with the change; no difference: none of 20% or more"
    )
    ratio: Finite = shown("work with the change : work without; null: none without", _test("ratio"))
    low: FiniteAmount = shown("lower end of its interval; null: fewer than six pairs", _test("low"))
    high: FiniteAmount = shown("upper end; null: fewer than six pairs, or no such bound", _test("high"))
    confidence: Fraction | None = shown("of the interval", _test("confidence"))
    p: Fraction | None = shown("chance of such a difference if the change did nothing", _test("p"))
    detectable: FiniteAmount = shown("a ratio above 1 that would most likely have been seen", _test("detectable"))
    rate_changed: Amount = shown("work in a second, with the change")
    rate_unchanged: Amount = shown("work in a second, without")
    why_not: str = shown("why it cannot be told")
    enough_s: FiniteAmount = shown("about so many seconds would show a difference of 10%; null: not known")


@dataclass(frozen=True)
class Document:
    """One experiment."""

    schema: Literal["lockline-experiment/1"] = shown("this schema", lambda *_: schemas.EXPERIMENT)
    title: str = shown("the answer in a sentence", lambda result, _: words.answer(result))
    answer: Answer = shown("what the slices say", "judged")
    change: Change = shown("what was changed", "told")
    progress: Progress = shown("what counted as work", "told")
    slice_s: Amount = shown("length of a slice", "told.slice_s")
    warm_up: Fraction = shown("part of a slice, at its begin, that is not measured", "told.warm_up")
    pairs: tuple[TwoSlices, ...] = shown("all of them, in order of time", "made.pairs")
    left_out: Count = shown("pairs that lasted too long", "made.left_out")
    not_held: Count = shown("slices at whose end the change was not as it should be", "made.not_held")
    seconds: Amount = shown("from the first slice to the last", "made.seconds")
    changed_s: Amount = shown("for how long it was changed, in all", "made.changed_s")
    longest_s: Amount = shown("for how long at most without a pause", "made.longest_s")
    own_cpu_s: Amount = shown("CPU time of lockline and of what it ran")
    own_share: Amount = shown("that, as a part of all CPUs' time")
    interrupted: bool = shown("by Ctrl-C", "made.interrupted")
    notes: tuple[str, ...] = shown("what else one must know", lambda result, _: tuple(words.notes(result)))


def as_json(result: Result) -> str:
    """The document on one line."""
    return as_line(walk(Document, result))
