# SPDX-License-Identifier: GPL-2.0-or-later
"""`lockline why --follow`: when a cause has ended, when another begins, and that all of it stays within the budget."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from lockline.base.text import Style
from lockline.investigation import follow as logic
from lockline.investigation import probes
from lockline.investigation.choice import judge
from lockline.investigation.follow import Following, Glimpse, Picture
from lockline.investigation.model import Plan
from lockline.page.html import Writer
from lockline.page.why import make_page
from lockline.render import why_screen
from lockline.render.documents import why as document
from schemas import validator_of
from why_cases import MACHINE, USER_LOCK, S, finding, known_of, lock, observation, user_lock

PLAN = Plan(seconds=20, max_overhead=0.01, cpus=2)
WRITE = Writer(Style(unicode=True))
QUIET = Picture("nothing", "", frozenset(), "high", 0.0)


def picture(name: str, waiters: float = 3.0, cause: str = "held-over-sleep", **changes: Any) -> Picture:
    """A cause with that lock."""
    return replace(Picture("cause", cause, frozenset({name}), "high", waiters), **changes)


def glimpse(*causes: Picture, **waiting: float) -> Glimpse:
    """A glance at these causes, the leading one first, and at locks without one."""
    seen = {name: one.waiters for one in causes for name in one.names or {one.cause}}
    return Glimpse(tuple((seen | waiting).items()), causes[0] if causes else None)


class World:
    """A machine whose cause is known at each moment, and whoever follows it."""

    def __init__(self, plan: Plan = PLAN, investigation_ns: int = 300_000_000, glance_ns: int = 100_000_000) -> None:
        self.state: Following[str] = logic.begin(plan, 0)
        self.now, self.paid, self.moves = 0, 0, 0
        self.costs = (investigation_ns, glance_ns)

    def until(self, end_s: float, truth: Picture) -> None:
        """Go on to that second; the truth does not change meanwhile."""
        while self.now < end_s * S:
            self.moves += 1
            assert self.moves < 100_000, "it does not go on"
            move = logic.next_move(self.state, self.now)
            began = self.now
            if move.kind == "wait":
                assert move.seconds > 0
                self.now += max(1, int(min(move.seconds, end_s - self.now / S + 1e-9) * S))
                continue
            cost = self.costs[0 if move.kind == "investigate" else 1]
            self.now += (8 if move.kind == "investigate" else 2) * S
            if move.kind == "investigate":
                cost = min(cost, move.allowed_ns)
                name = min(truth.names, default=truth.kind)
                self.state = logic.investigated(self.state, began, self.now, cost, truth, name)
            else:
                seen = glimpse() if truth.kind != "cause" else glimpse(truth)
                self.state = logic.glanced(self.state, began, self.now, cost, seen)
            self.paid += cost

    @property
    def told(self) -> list[str]:
        """The chapters by name."""
        return [chapter.story for chapter in self.state.chapters]


def test_one_cause_ends_and_another_begins() -> None:
    world = World()
    world.until(100, picture("first"))
    assert world.told == ["first"]
    assert world.state.current is not None
    assert world.state.glances > 2
    world.until(200, picture("second"))
    assert world.told == ["first", "second"]
    first, second = world.state.chapters
    # It was seen last before the change, and was gone after it; the glances say when, not the investigation.
    assert first.seen_ns <= 102 * S
    assert first.end_ns is not None
    assert 100 * S <= first.end_ns <= second.begin_ns
    assert second.after_ns == first.seen_ns
    assert second.end_ns is None


def test_a_cause_that_ends_leaves_a_quiet_machine_which_is_told_once() -> None:
    world = World()
    world.until(100, picture("first"))
    world.until(400, QUIET)
    assert world.told == ["first", "nothing"]
    world.until(600, picture("second"))
    assert world.told == ["first", "nothing", "second"]


def test_nothing_changes_and_one_investigation_is_enough() -> None:
    world = World()
    world.until(600, picture("first"))
    assert world.told == ["first"]
    assert world.state.investigations == 1


def test_one_glance_that_misses_it_is_not_its_end() -> None:
    state: Following[str] = logic.investigated(logic.begin(PLAN, 0), 0, 8 * S, 1, picture("first"), "first")
    state = logic.glanced(state, 10 * S, 12 * S, 1, glimpse())
    assert state.current is not None
    # It is looked at again at once, and not after a pause.
    assert logic.next_move(state, 12 * S).kind == "glance"
    state = logic.glanced(state, 12 * S, 14 * S, 1, glimpse(picture("first")))
    assert (state.misses, state.current is not None) == (0, True)
    for second in (20, 22):
        state = logic.glanced(state, second * S, (second + 2) * S, 1, glimpse())
    assert state.current is None
    assert state.chapters[-1].end_ns == 20 * S


def test_a_stronger_cause_beside_one_that_lasts_is_looked_into_once() -> None:
    state: Following[str] = logic.investigated(logic.begin(PLAN, 0), 0, 8 * S, 1, picture("first", 1.0), "first")
    both = glimpse(picture("second", 5.0), picture("first", 1.0))
    state = logic.glanced(state, 10 * S, 12 * S, 1, both)
    assert logic.next_move(state, 12 * S).kind == "investigate"
    # The investigation finds the first one all the same: that is settled then.
    state = logic.investigated(state, 12 * S, 20 * S, 1, picture("first", 1.0), "first")
    assert len(state.chapters) == 1
    state = logic.glanced(state, 30 * S, 32 * S, 1, both)
    assert state.doubt is None
    # If the first one is gone, that is seen all the same.
    state = logic.glanced(state, 40 * S, 42 * S, 1, glimpse(picture("second", 5.0)))
    assert state.misses == 1


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (picture("a"), picture("a"), True),
        (picture("a"), picture("b"), False),
        (picture("a"), picture("a", cause="holder-no-cpu"), False),
        (picture("a"), picture("a", cause="user-lock", symptom=True), True),
        (picture("a"), picture("a", cause="holder-no-cpu", sure="low"), True),
        (picture("a"), QUIET, False),
        (QUIET, QUIET, True),
        (QUIET, replace(QUIET, kind="unclear"), False),
        (Picture("cause", "file-lock", frozenset(), "high", 3.0), picture("a"), False),
        (Picture("cause", "x", frozenset(), "high", 3.0), Picture("cause", "x", frozenset(), "high", 1.0), True),
    ],
)
def test_what_is_the_same(before: Picture, after: Picture, expected: bool) -> None:
    assert logic.same(before, after) is expected
    assert logic.same(after, before) is expected


@given(
    some.lists(some.tuples(some.integers(0, 4), some.integers(1, 60)), min_size=1, max_size=20),
    some.integers(1, 400_000_000),
    some.integers(1, 400_000_000),
)
@settings(max_examples=100, deadline=None)
def test_the_budget_holds_at_every_change(changes: list[tuple[int, int]], investigation: int, glance: int) -> None:
    """Whatever comes: what was paid is no more than what time gave, one plan's worth, and one glance or step over."""
    world = World(investigation_ns=investigation, glance_ns=glance)
    seconds = 0
    for cause, length in changes:
        seconds += length
        world.until(seconds, picture(f"lock {cause}") if cause else QUIET)
        given_ns = world.now * PLAN.max_overhead * PLAN.cpus + PLAN.allowed_ns
        assert world.paid <= given_ns + glance
        assert world.state.paid_ns == world.paid
        ends = [chapter.end_ns for chapter in world.state.chapters[:-1]]
        assert all(end is not None for end in ends)
        for one, other in zip(world.state.chapters, world.state.chapters[1:], strict=False):
            assert one.begin_ns <= one.seen_ns <= (one.end_ns or 0)
            assert other.after_ns == one.seen_ns
            assert one.picture != other.picture or one.end_ns is not None


def test_its_memory_is_bounded() -> None:
    state: Following[str] = logic.begin(PLAN, 0)
    for number in range(3 * logic.MOST_CHAPTERS):
        now = (number + 1) * 10 * S
        state = logic.investigated(state, now, now + S, 1, picture(f"lock {number}"), f"story {number}")
        for more in range(3):
            state = logic.glanced(state, now + 2 * S, now + 3 * S, 1, glimpse(picture(f"other {number} {more}", 99.0)))
    assert len(state.chapters) == logic.MOST_CHAPTERS
    assert state.left_out == 2 * logic.MOST_CHAPTERS
    assert state.chapters[-1].story == f"story {3 * logic.MOST_CHAPTERS - 1}"
    assert len(state.settled) <= 3


def test_a_glance_of_real_steps_sees_the_cause_again() -> None:
    found = finding("user-lock", USER_LOCK, 3.0, sure="high")
    seen = observation(probes.FUTEX, user_waiters=3.0, user_locks=(user_lock(),), findings=(found,))
    known = known_of(observation(probes.TOTALS), seen)
    verdict = judge(known, "proven")
    wanted = logic.picture_of(verdict)
    assert (wanted.kind, wanted.names) == ("cause", frozenset({"table_mutex"}))
    assert logic.compare(wanted, logic.glimpse_of(known_of(seen))) == "same"
    quiet = known_of(observation(probes.FUTEX, user_waiters=0.0))
    assert logic.compare(wanted, logic.glimpse_of(quiet)) == "gone"
    other = lock(3.0)
    convoy = finding("convoy", lock_subject(other.name), 3.0, sure="high")
    changed = known_of(
        observation(probes.FUTEX, user_waiters=0.0, kernel_waiters=3.0, waits=99, locks=(other,), findings=(convoy,))
    )
    assert logic.compare(wanted, logic.glimpse_of(changed)) == "other"
    assert logic.glance_probes(known, verdict)[0] == probes.FUTEX


def lock_subject(name: str) -> Any:
    """A lock of the kernel as a finding names it."""
    from lockline.analysis.findings import Lock

    return Lock(name, "rwsem:W")


def test_the_story_of_both_is_told() -> None:
    sure = finding("user-lock", USER_LOCK, 3.0, "high")
    seen = observation(probes.FUTEX, user_waiters=3.0, user_locks=(user_lock(),), findings=(sure,))
    known = known_of(observation(probes.TOTALS), seen)
    made = document.make(known, judge(known, "proven"), MACHINE)
    begin = MACHINE.begin_unix_ns
    chapters = (
        document.Chapter(None, begin, begin + 60 * S, begin + 62 * S, 9, replace(made.verdict, title="The first one")),
        document.Chapter(begin + 60 * S, begin + 62 * S, begin + 99 * S, None, 4, made.verdict),
    )
    followed = document.Followed(begin, begin + 100 * S, chapters, 0, 2, 11, 2 * S, S, S)
    story = replace(made, followed=followed)
    validator_of("why").validate(document.json.loads(document.as_json(story)))
    assert document.from_json(document.as_json(story)) == story
    text = why_screen.render(story, Style(), 80, "why.data")
    assert text.count("\n") <= 24
    assert "The first one" in text
    assert "ended by" in text
    told = "\n".join(why_screen.story(followed, Style(), 100))
    assert "it goes on" in told
    assert "2 investigations and 11 short looks" in told
    # The page has both, with names as text; that of a single investigation has no such part.
    hostile = replace(chapters[0], verdict=replace(made.verdict, title="<b>The first one", culprit="<i>x (7)"))
    page = make_page(replace(story, followed=replace(followed, chapters=(hostile, chapters[1]), left_out=3)), WRITE)
    assert "&lt;b&gt;The first one" in page
    assert "&lt;i&gt;x (7)" in page
    assert "<b>" not in page
    assert page.count("it goes on") == 1
    assert "2 investigations and 11 short looks" in page
    assert "3 older entries are left out" in page
    assert 'id="followed"' in page
    assert 'id="followed"' not in make_page(made, WRITE)
    # A story of an older lockline has none.
    assert document.from_json(document.as_json(made)).followed is None


@pytest.mark.parametrize(
    ("kept", "left_out", "told"),
    [
        (None, 0, ("that --long shows",)),
        ("why.data", 0, ("that --why --all shows",)),
        (None, 7, ("before: 7 that are no longer kept and", "that --long shows")),
    ],
)
def test_what_a_screen_leaves_out_of_the_story_has_a_command(
    kept: str | None, left_out: int, told: tuple[str, ...]
) -> None:
    """In words, not in JSON alone; what is no longer kept has none."""
    seen = observation(probes.FUTEX, user_waiters=3.0, user_locks=(user_lock(),))
    known = known_of(observation(probes.TOTALS), seen)
    made = document.make(known, judge(known, "proven"), MACHINE)
    begin = MACHINE.begin_unix_ns
    chapters = tuple(
        document.Chapter(
            None, begin + n * S, begin + n * S, begin + (n + 1) * S, 4, replace(made.verdict, title=f"Found {n}.")
        )
        for n in range(logic.MOST_CHAPTERS)
    )
    followed = document.Followed(begin, begin + 999 * S, chapters, left_out, 2, 11, 2 * S, S, S)
    screen = " ".join(why_screen.render(replace(made, followed=followed), Style(), 80, kept).split())
    assert all(words in screen for words in told), screen
    assert "json" not in screen
    whole = why_screen.render(replace(made, followed=followed), Style(), 80, kept, whole=True)
    for text in (whole, "\n".join(why_screen.story(followed, Style(), 80))):
        assert all(f"Found {n}." in text for n in range(logic.MOST_CHAPTERS))
        assert ("no longer kept" in text) == bool(left_out)
