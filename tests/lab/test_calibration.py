# SPDX-License-Identifier: GPL-2.0-or-later
"""Verdicts on cases of the laboratory that no rule was made for: seeds of their own, in every kind of input."""

import os
import random
from collections import Counter

import pytest

from lab.caches import Machine, Program, Role, Step, Variable, moves_of_lines, play
from lab.cases import Outcome, Reading, judge_world, run_case, world_of
from lab.pmus import Pmu

# Seeds that are run here alone.  LOCKLINE_LAB_SEED moves them.
FIRST = int(os.environ.get("LOCKLINE_LAB_SEED", "500000"))
PROGRAMS = 50
ONE_MACHINE = Machine(4)


@pytest.fixture(scope="module")
def found() -> list[Outcome | Reading]:
    return [one for seed in range(FIRST, FIRST + PROGRAMS) for one in run_case(seed)]


@pytest.fixture(scope="module")
def outcomes(found: list[Outcome | Reading]) -> list[Outcome]:
    return [one for one in found if isinstance(one, Outcome) and one.result != "not listed"]


def test_the_laboratory_has_enough_of_everything(outcomes: list[Outcome]) -> None:
    truths = Counter(one.truth.partition(" (")[0] for one in outcomes)
    assert len(outcomes) > 150
    assert min(truths[name] for name in ("false", "true", "lock", "both")) > 5


def test_few_verdicts_are_wrong(outcomes: list[Outcome]) -> None:
    wrong = [one for one in outcomes if one.result == "wrong"]
    assert len(wrong) <= 0.03 * len(outcomes), wrong


def test_high_is_right(outcomes: list[Outcome]) -> None:
    high = [one for one in outcomes if one.confidence == "high"]
    assert len(high) > 10
    bad = [one for one in high if one.result != "right"]
    assert len(bad) <= 0.05 * len(high), bad


def test_much_can_be_told(outcomes: list[Outcome]) -> None:
    told = [one for one in outcomes if one.kind in ("perf.data", "-c tid,iaddr", "-NN -c tid,iaddr")]
    assert sum(one.result == "right" for one in told) >= 0.6 * len(told)


def test_no_row_is_lost_without_a_word(found: list[Outcome | Reading]) -> None:
    texts = [one for one in found if isinstance(one, Reading)]
    assert len(texts) > 100
    assert not [one for one in texts if one.read < one.rows and not one.told]


@pytest.mark.parametrize("seed", range(3))
def test_a_visitor_does_not_make_own_slots_shared(seed: int) -> None:
    """A thread that looks at everybody's slot now and then is no user of them: padding ends the moves all the same."""
    slots = tuple(Variable(f"slot{n}", 0, 8 * n) for n in range(6))
    own = (Step("load", "add", slots, "own"), Step("store", "add", slots, "own"))
    visit = (Step("load", "add", slots, "any", 0.01), Step("store", "add", slots, "any", 0.01))
    program = Program("own slots + a visitor", (Role(6, (own,), 60), Role(1, (visit,), 60)))
    world = world_of(program, {0: "false"}, Machine(8), Pmu("intel", 0.5, 0.5), random.Random(seed), seed)
    assert len(world.samples) > 500
    assert world.gains[0] > 0.8
    (found,) = judge_world(world, seed, ["perf.data"], 1)
    assert isinstance(found, Outcome)
    assert (found.verdict, found.result) == ("false sharing", "right")


def own(apart: bool) -> float:
    slots = tuple(Variable(f"slot{n}", 0, 8 * n) for n in range(4))
    steps = (Step("load", "add", slots, "own"), Step("store", "add", slots, "own"))
    program = Program("own slots", (Role(4, (steps,)),))
    return moves_of_lines(program, play(program, ONE_MACHINE, 4000, 1, apart))[0]


def counter(apart: bool) -> float:
    variable = (Variable("counter", 0, 0),)
    program = Program("counter", (Role(4, ((Step("atomic", "add", variable),),)),))
    return moves_of_lines(program, play(program, ONE_MACHINE, 4000, 1, apart))[0]


def test_the_model_of_caches() -> None:
    """Lines of their own end the moves of slots, and none of a counter's."""
    assert own(apart=False) > 0.3
    assert own(apart=True) < 0.01
    assert counter(apart=False) > 0.5
    assert counter(apart=True) == counter(apart=False)


def test_a_line_moves_when_it_was_written_elsewhere() -> None:
    """Reading alone moves nothing: every CPU has its copy."""
    variable = (Variable("config", 0, 0),)
    program = Program("readers", (Role(4, ((Step("load", "read", variable),),)),))
    run = play(program, ONE_MACHINE, 4000, 1)
    assert not [event for event in run.events if "HITM" in event.served]
