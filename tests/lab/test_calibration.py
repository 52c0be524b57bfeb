# SPDX-License-Identifier: GPL-2.0-or-later
"""Verdicts on cases of the laboratory that no rule was made for: seeds of their own, in every kind of input."""

import os
import random
from collections import Counter
from pathlib import Path

import pytest

from lab import tables
from lab.caches import Machine, Program, Role, Step, Variable, moves_of_lines, placed, play
from lab.cases import KINDS, Outcome, Reading, judge_world, right_verdicts, run_case, truth_of, world_of
from lab.pmus import Pmu, make_wide_pmu
from lab.programs import Truth
from lab.wide import WIDE, make_wide_program

# Seeds that are run here alone.  LOCKLINE_LAB_SEED moves them.
FIRST = int(os.environ.get("LOCKLINE_LAB_SEED", "500000"))
PROGRAMS = 80
ONE_MACHINE = Machine(4)


@pytest.fixture(scope="module")
def found() -> list[Outcome | Reading]:
    return [one for seed in range(FIRST, FIRST + PROGRAMS) for one in run_case(seed, KINDS, 3, seed % 2 == 1)]


@pytest.fixture(scope="module")
def outcomes(found: list[Outcome | Reading]) -> list[Outcome]:
    return tables.listed(one for one in found if isinstance(one, Outcome))


@pytest.mark.laboratory
def test_the_laboratory_has_enough_of_everything(outcomes: list[Outcome]) -> None:
    truths = Counter(one.truth for one in outcomes)
    assert len(outcomes) > 150
    assert min(truths[name] for name in ("false", "true", "lock", "both")) > 5


@pytest.mark.laboratory
@pytest.mark.parametrize(("confidence", "most", "least"), [("high", 0.02, 10), ("medium", 0.15, 15), ("low", 0.3, 10)])
def test_confidence_is_what_it_says(outcomes: list[Outcome], confidence: str, most: float, least: int) -> None:
    decided = [one for one in outcomes if one.confidence == confidence and one.result != "cannot tell"]
    assert len(decided) >= least
    wrong = [one for one in decided if one.result == "wrong"]
    assert len(wrong) <= most * len(decided), wrong


@pytest.mark.laboratory
def test_a_quiet_verdict_hides_no_costly_line(found: list[Outcome | Reading]) -> None:
    """Of all costly lines of all files, those that are called read mostly or none."""
    costly = [one for one in found if isinstance(one, Outcome) and one.costly]
    assert len(costly) > 150
    assert sum(one.verdict in tables.QUIET for one in costly) <= 0.01 * len(costly)
    assert not [one for one in costly if one.kind == "perf.data" and one.result == "not listed"]


@pytest.mark.laboratory
def test_much_can_be_told() -> None:
    """Of the first set, whose samples are many, in the kinds of input that tell most: each program in one of them."""
    kinds = ("perf.data", "-c tid,iaddr", "-NN -c tid,iaddr")
    found = (one for seed in range(FIRST, FIRST + 2 * PROGRAMS, 2) for one in run_case(seed, kinds, 1, False))
    outcomes = tables.listed(one for one in found if isinstance(one, Outcome))
    assert len(outcomes) > 100
    assert sum(one.result == "right" for one in outcomes) >= 0.6 * len(outcomes)


@pytest.mark.laboratory
def test_no_row_is_lost_without_a_word(found: list[Outcome | Reading]) -> None:
    texts = [one for one in found if isinstance(one, Reading)]
    assert len(texts) > 100
    assert not [one for one in texts if one.read < one.rows and not one.told]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.laboratory) for seed in (1, 2))])
def test_a_visitor_does_not_make_own_slots_shared(seed: int) -> None:
    """A thread that looks at everybody's slot now and then is no user of them: padding ends the moves all the same."""
    slots = tuple(Variable(f"slot{n}", 0, 8 * n) for n in range(6))
    own = (Step("load", "add", slots, "own"), Step("store", "add", slots, "own"))
    visit = (Step("load", "add", slots, "any", 0.01), Step("store", "add", slots, "any", 0.01))
    program = Program("own slots + a visitor", (Role(6, (own,), 60), Role(1, (visit,), 60)))
    world = world_of(program, {0: "false"}, Machine(8), Pmu("intel", 0.5, 0.5), random.Random(seed), seed)
    assert len(world.samples) > 500
    assert world.gains[0] > 0.8
    (found,) = [one for one in judge_world(world, seed, ["perf.data"], 1) if isinstance(one, Outcome)]
    assert (found.verdict, found.result) == ("false sharing", "right")


@pytest.mark.laboratory
def test_what_padding_brings_is_no_accident_of_one_run() -> None:
    """Two threads that wander meet on one CPU for a while, in the one run or in the other.

    Of the runs that begin with one seed after the other, padding ended 57 % of the moves in one, and brought 336 % in
    another.  A count that both change is shared.
    """
    used, limit = (Variable("used", 5, 0),), (Variable("limit", 5, 40),)
    charge = (Step("atomic", "charge", used), Step("load", "charge", limit))
    uncharge = (Step("atomic", "uncharge", used), Step("load", "uncharge", limit, "one", 0.2))
    counters = [(Variable(name, 1, 16 + 8 * at),) for at, name in enumerate(("rx", "tx"))]
    adds = [(Step("load", f"add{n}", one), Step("store", f"add{n}", one)) for n, one in enumerate(counters)]
    roles = (*(Role(2, (steps,), 60) for steps in adds), Role(2, (charge, uncharge), 100))
    program = Program("a count with a limit", roles, moves=0.002)
    truths: dict[int, Truth] = {1: "false", 5: "true"}
    found = [
        truth_of(world_of(program, truths, Machine(8), Pmu("spe", 0.1, 0.1), random.Random(1), seed), 5)
        for seed in range(20261127162, 20261127202, 8)
    ]
    assert "false" not in found, found


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


def lock_with(inside: int, spin: bool) -> tuple[Program, Variable, Variable]:
    """A lock, of two words unless it is a spinlock, and so many counts that its holder changes."""
    word, owner = Variable("lock", 0, 0, lock=True), Variable("owner", 0, 8, beside=True)
    counts = [(Variable(f"count{n}", 0, 16 + 8 * n),) for n in range(inside)]
    held = [Step(kind, "tally", count) for count in counts for kind in ("load", "store")]  # type: ignore[arg-type]
    steps = (
        Step("acquire", "native_queued_spin_lock_slowpath", (word,)),
        *([] if spin else [Step("store", "down_write", (owner,))]),
        *held,
        Step("release", "_raw_spin_unlock", (word,)),
    )
    return Program("lock", (Role(8, (steps,), 20),)), word, owner


def test_the_words_of_a_lock_stay_together() -> None:
    program, word, owner = lock_with(2, spin=False)
    places = placed(program, apart=True)
    assert places[word] == places[owner]
    assert len(set(places.values())) == 3


@pytest.mark.parametrize(("inside", "right"), [(0, "lock word"), (6, "false sharing")])
def test_who_spins_for_a_lock_pays_for_what_its_holders_write(inside: int, right: str) -> None:
    """Padding ends what they pay for the writes beside the lock, and nothing of what they pay for its own."""
    program = lock_with(inside, spin=True)[0]
    rng = random.Random(1)
    world = world_of(program, {0: "both"}, Machine(8), make_wide_pmu(rng), rng, 1)
    assert right_verdicts(world, 0) == {right}


def test_a_line_moves_when_it_was_written_elsewhere() -> None:
    """Reading alone moves nothing: every CPU has its copy."""
    variable = (Variable("config", 0, 0),)
    program = Program("readers", (Role(4, ((Step("load", "read", variable),),)),))
    run = play(program, ONE_MACHINE, 4000, 1)
    assert not [event for event in run.events if "HITM" in event.served]


def test_threads_that_share_a_cpu_take_turns() -> None:
    """Eight threads on one CPU: the line stays there, whoever writes it."""
    counter = (Variable("counter", 0, 0),)
    program = Program("counter", (Role(8, ((Step("atomic", "add", counter),),)),))
    run = play(program, Machine(1), 40000, 1)
    assert len({event.thread for event in run.events}) == 8
    assert not [event for event in run.events if "HITM" in event.served]


@pytest.mark.parametrize(
    "maker", [one if number < 1 else pytest.param(one, marks=pytest.mark.laboratory) for number, one in enumerate(WIDE)]
)
def test_every_program_runs_and_can_be_padded(maker: object) -> None:
    rng = random.Random(3)
    while True:
        program, truths, pairs = make_wide_program(rng)
        if maker.__name__ in program.name.split(" + "):  # type: ignore[attr-defined]
            break
    world = world_of(program, truths, Machine(16, 2, pairs), make_wide_pmu(rng), rng, 1, True)
    assert set(world.gains) == set(truths)
    assert all(truth_of(world, line) in tables.TRUTHS for line in truths)


def test_data_of_each_cpu_are_its_own_whatever_thread_runs_there() -> None:
    """Threads wander over packed slots of CPUs: each slot has many threads and one CPU, and a line of its own helps."""
    slots = tuple(Variable(f"cpu{n}", 0, 8 * n) for n in range(4))
    steps = (Step("load", "count_it", slots, "cpu"), Step("store", "count_it", slots, "cpu"))
    program = Program("slots of CPUs", (Role(4, (steps,), 60),), moves=0.02)
    world = world_of(program, {0: "false"}, Machine(4), Pmu("intel", 0.5, 0.5), random.Random(1), 1)
    assert world.gains[0] > 0.8
    assert {sample.thread for sample in world.samples if sample.address & 63 == 8} == {0, 1, 2, 3}
    (found,) = [one for one in judge_world(world, 1, ["perf.data"], 1) if isinstance(one, Outcome)]
    assert (found.verdict, found.confidence, found.result) == ("false sharing", "high", "right")


def test_the_other_half_of_a_pair_is_a_doubt() -> None:
    """Readers of the other half take the counter along: that it is shared by its threads alone is not sure."""
    hot, cold = (Variable("hot", 0, 8),), (Variable("cold", 1, 8),)
    add = (Step("load", "add_one", hot), Step("store", "add_one", hot))
    readers = Role(6, ((Step("load", "look", cold),),), 40)
    program = Program("a pair", (Role(2, (add,), 600), readers))
    world = world_of(
        program, {0: "true", 1: "adjacent"}, Machine(8, adjacent=True), Pmu("intel", 0.5, 0.5), random.Random(1), 1
    )
    found = {one.truth: one for one in judge_world(world, 1, ["perf.data"], 1) if isinstance(one, Outcome)}
    assert found["adjacent"].verdict == "adjacent line"
    assert all(one.confidence != "high" for one in found.values())


def test_what_many_alike_lines_are_the_input_tells() -> None:
    found = (one for seed in range(12) for one in run_case(seed, ["perf.data"], 1) if isinstance(one, Outcome))
    first = next(found)
    alike = [first._replace(seed=seed, right=frozenset({"false sharing"})) for seed in range(20)]
    assert len(tables.tellable(alike)) == 20
    mixed = [one._replace(right=frozenset({"true sharing"})) if at % 2 else one for at, one in enumerate(alike)]
    assert not tables.tellable(mixed)
    assert not tables.tellable(alike[:5])


def test_the_worst_cells_are_shown_with_verdicts_enough() -> None:
    found = (one for seed in range(12) for one in run_case(seed, ["perf.data"], 1) if isinstance(one, Outcome))
    right = next(found)._replace(pattern="slots", kind="-N", confidence="low", result="right")
    wrong, few = right._replace(result="wrong"), right._replace(pattern="queue", result="wrong")
    text = tables.worst([right] * 20 + [wrong] * 10 + [few] * 29)
    assert "| low | slots | -N | 30 | 10 | 33.3 % |" in text
    assert "queue" not in text


def test_tables_go_between_the_marks_of_a_document(tmp_path: Path) -> None:
    path = tmp_path / "document.md"
    path.write_text(f"before\n{tables.BEGIN}\nold\n{tables.END}\nafter\n", encoding="utf-8")
    tables.write(path, "| a |")
    assert path.read_text(encoding="utf-8") == f"before\n{tables.BEGIN}\n\n| a |\n\n{tables.END}\nafter\n"
    path.write_text("no marks", encoding="utf-8")
    with pytest.raises(ValueError, match="no <!--"):
        tables.write(path, "")


def test_the_document_has_the_marks() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs/c2c.md").read_text(encoding="utf-8")
    assert text.count(tables.BEGIN) == text.count(tables.END) == 1
