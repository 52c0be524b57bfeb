# SPDX-License-Identifier: GPL-2.0-or-later
"""An experiment in words, the answer first."""

import math

from lockline.base.numbers import duration, percent
from lockline.base.paired_test import PairedTest
from lockline.base.text import Style, clean
from lockline.experiment.result import Result
from lockline.render.screen_fit import filled

_LABEL = 9


def _times(ratio: float) -> str:
    return "any number of" if math.isinf(ratio) else f"{ratio:.2g}" if ratio < 10 else f"{ratio:.0f}"


def _percent(ratio: float) -> str:
    change = (ratio - 1) * 100
    return "any number of" if math.isinf(change) else f"{change:+.1f}%" if abs(change) < 9.95 else f"{change:+.0f}%"


def _effect(test: PairedTest) -> str:
    """How much more or less, with its interval."""
    sure = f"{test.confidence:.0%} confidence"
    if test.ratio is None:
        return "some work done, and none without"
    if test.ratio >= 2 or test.ratio <= 0.5:
        return f"{_times(test.ratio)} times as much done ({_times(test.low)} to {_times(test.high)}, {sure})"
    more = "more" if test.ratio > 1 else "less"
    low, high = sorted((abs(test.low - 1), abs(test.high - 1)))
    between = f"{low:.0%} to {high:.0%}" if high < 10 else f"{low:.0%} or more"
    return f"{abs(test.ratio - 1):.0%} {more} done ({between}, {sure})"


def answer(result: Result) -> str:
    """The answer in a sentence."""
    judged, told = result.judged, result.told
    who = told.who or "the load"
    if judged.verdict == "cannot be told":
        enough = "" if judged.enough_s is None else f"; about {_seconds(judged.enough_s)} would do"
        return f"It cannot be told what {told.change} changes: {judged.why_not}{enough}"
    assert judged.test is not None
    if judged.verdict == "no difference":
        low, high = _percent(judged.test.low), _percent(judged.test.high)
        return f"No difference seen: with {told.change} {who} gets between {low} and {high} done"
    return f"With {told.change} {who} gets {_effect(judged.test)}"


def _seconds(seconds: float) -> str:
    return f"{max(1, math.ceil(seconds))} s" if seconds < 10_000 else f"{seconds / 3600:.0f} h"


def notes(result: Result) -> list[str]:
    """What else one must know."""
    made, judged, told = result.made, result.judged, result.told
    found = []
    if judged.verdict == "cannot be told" and judged.test is not None and judged.test.ratio is not None:
        low, high = _times(judged.test.low), _times(judged.test.high)
        found.append(f"the work with the change is between {low} and {high} times that without")
    if judged.verdict == "less" and told.change_kind in ("stop", "stop-cgroup"):
        found.append(
            "what is stopped keeps its locks (of files, in shared memory), and answers nobody: the load may wait for it"
        )
    if made.not_held:
        found.append(
            f"in {made.not_held} of {len(made.pairs) + made.left_out} slices the change was not in force at the end"
        )
    if made.left_out:
        found.append(f"{made.left_out} pairs lasted too long, and are left out")
    if made.interrupted:
        found.append("ended by Ctrl-C")
    return found


def render(result: Result, style: Style, columns: int) -> str:
    """The screen."""
    made, judged, told = result.made, result.judged, result.told

    def part(label: str, text: str) -> list[str]:
        return filled(f"{label:<{_LABEL}}", clean(text, style), columns)

    heading = "UNCLEAR" if judged.verdict == "cannot be told" else "ANSWER"
    lines = part(heading, f"{answer(result)}.")
    for number, note in enumerate(notes(result)):
        lines += part("" if number else "BESIDES", note)
    with_it, without = _rate(judged.rate_changed), _rate(judged.rate_unchanged)
    lines += ["", *part("WORK", f"{told.counter}: {with_it} with the change, {without} without")]
    test = "" if judged.test is None else f"; p = {judged.test.p:.2g}"
    how = f"{len(made.pairs)} pairs of slices of {duration(told.slice_s * 1e9)} in random order{test}"
    lines += part("PROOF", how)
    changed = f"changed for {duration(made.changed_s * 1e9)} of {duration(made.seconds * 1e9)}"
    cost = f"{changed}, at most {duration(made.longest_s * 1e9)} at a time; all is put back."
    lines += part("COST", f"{cost} lockline took {percent(result.own_share)} of all CPUs")
    return "\n".join(lines) + "\n"


def _rate(rate: float) -> str:
    return f"{rate:,.0f} a second" if rate >= 10 else f"{rate:.2f} a second"
