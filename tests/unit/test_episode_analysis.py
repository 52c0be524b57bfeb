# SPDX-License-Identifier: GPL-2.0-or-later
"""Long waits explained, on made-up timelines whose truth is known, and on near misses."""

import sqlite3
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from example_recording import make_example
from lockline.analysis.activity import doing_in, stretches
from lockline.analysis.episode_model import Doing, Episode, Party, TimelineEvent
from lockline.analysis.episodes import (
    MOST_HOLDERS,
    count_bypasses,
    explain,
    find_chain,
    find_holders,
    find_loops,
    find_relief,
    read_episodes,
)
from lockline.analysis.selection import Selection
from lockline.base.errors import RecordingError
from lockline.base.text import Style
from lockline.recording import rows
from lockline.recording.reader import open_recording
from lockline.render.episodes import render
from lockline.rules.report import make_report

US, MS = 1_000, 1_000_000
WAITER, HOLDER, OTHER, THIRD = 11, 22, 33, 44
BEGIN, END = 100 * MS, 110 * MS
LOCK = rows.Lock(5, 0, "task_struct.pi_lock", "tid 11", "slab")


def event(
    time: int, kind: str, task: int, other: int | None = None, *, cpu: int = 0, value: int = 0, length: int = 0
) -> TimelineEvent:
    """A row of a timeline, its time from the wait's begin."""
    party = None if other is None else Party(other, f"t{other}")
    return TimelineEvent(BEGIN + time, cpu, kind, length, Party(task, f"t{task}"), party, value, "")


def episode_row(**changes: object) -> rows.Episode:
    """A wait of 10 ms for a spinlock that ended on CPU 1."""
    row = rows.Episode(
        id=1, outlier=1, state="ended", tid=WAITER, waiter=WAITER, lock=5, kind=0, begin_ns=BEGIN, wait_ns=END - BEGIN,
        begin_cpu=1, cpu=1, policy=1, priority=1, interrupts="off", interrupts_from="inferred", stack=0,
        from_ns=BEGIN - MS, to_ns=END + MS, cpus=b"\x03", complete=1, left_out=0, holder=0, holder_state="",
        holder_stack=0, holder_from="",
    )  # fmt: skip
    return row._replace(**changes)  # type: ignore[arg-type]


def explained(events: list[TimelineEvent], kind: str = "spinlock", releases: bool = True, **changes: object) -> Episode:
    """What is made of that wait and these events."""
    waiters = {tid: rows.Waiter(tid, tid, tid, f"t{tid}", "") for tid in (WAITER, HOLDER, OTHER, THIRD)}
    ordered = sorted(events, key=lambda one: one.time_ns)
    return explain(episode_row(**changes), ordered, waiters, LOCK, kind, 0, {}, releases)


def test_starvation_of_the_first_scenario() -> None:
    """CPU 0 turns in wait_task_inactive() and takes the lock 5,000 times; an interrupt there ends it."""
    events = [event(10 * US, "wait task", HOLDER, WAITER, value=5000, length=9_900 * US)]
    events += [event(2 * US * turn, "release", HOLDER) for turn in range(1, 5001)]
    events += [event(9_950 * US, "vector", HOLDER, length=30 * US)]
    found = explained(events)
    assert [(holder.task.tid, holder.holds) for holder in found.holders] == [(HOLDER, 5000)]
    assert found.bypass == 4999
    assert [(loop.task.tid, loop.other.tid, loop.turns) for loop in found.loops] == [(HOLDER, WAITER, 5000)]
    assert found.relief is not None
    assert (found.relief.type, found.relief.cpu, found.relief.side) == ("vector", 0, "holder")
    assert found.relief.before_end_ns == 50 * US
    assert found.interrupts == "off"
    assert found.real_time is True
    assert found.doing == Doing(running_ns=10 * MS)


def test_a_look_at_the_waiter_is_no_other_side_of_a_mutex() -> None:
    """wait_task_inactive() takes no mutex: who turns there once, for /proc or a tracer, holds nobody up."""
    events = [
        event(MS, "wait task", THIRD, WAITER, cpu=2, value=1),
        event(8 * MS, "wakeup", OTHER, HOLDER),
        event(9 * MS, "switch", OTHER, THIRD, cpu=2),
        event(10 * MS - 1, "release", HOLDER),
    ]
    relief = explained(events, kind="mutex").relief
    assert relief is not None
    assert (relief.type, relief.task.tid) == ("wakeup", HOLDER)
    relief = explained(events, kind="spinlock").relief
    assert relief is not None
    assert (relief.type, relief.task.tid) == ("switch", THIRD)


def test_parts_of_the_wait_add_up() -> None:
    events = [event(-5, "release", THIRD), event(3 * MS, "release", HOLDER), event(7 * MS, "release", OTHER),
              event(9 * MS, "release", HOLDER), event(10 * MS + 1, "release", THIRD)]  # fmt: skip
    holders, handoff = find_holders(events, BEGIN, END, True)
    assert [(one.task.tid, one.held_ns, one.holds) for one in holders] == [(HOLDER, 5 * MS, 2), (OTHER, 4 * MS, 1)]
    assert handoff == MS
    assert sum(one.held_ns for one in holders) + handoff == END - BEGIN


@given(st.lists(st.tuples(st.integers(-MS, 11 * MS), st.sampled_from([HOLDER, OTHER, THIRD])), max_size=30))
def test_parts_of_any_wait_add_up(found: list[tuple[int, int]]) -> None:
    events = sorted((event(time, "release", tid) for time, tid in found), key=lambda one: one.time_ns)
    holders, handoff = find_holders(events, BEGIN, END, True)
    if handoff is None:
        assert not holders
    else:
        assert sum(one.held_ns for one in holders) + handoff == END - BEGIN
    for one in holders:
        doing = one.doing
        parts = (doing.running_ns, doing.preempted_ns, doing.asleep_ns, doing.stopped_ns, doing.unknown_ns)
        assert sum(parts) == one.held_ns


@pytest.mark.parametrize(
    ("events", "bypasses"),
    [
        ([], 0),
        # The hold that was there when the wait began overtakes nobody.
        ([event(5 * MS, "release", HOLDER)], 0),
        ([event(5 * MS, "release", HOLDER), event(6 * MS, "release", HOLDER)], 1),
        # Who waited longer comes first by right.
        (
            [
                event(5 * MS, "release", HOLDER),
                event(5 * MS + 10, "acquired", OTHER, length=6 * MS),
                event(6 * MS, "release", OTHER),
            ],
            0,
        ),
        # Who came later does not.
        (
            [
                event(5 * MS, "release", HOLDER),
                event(5 * MS + 10, "acquired", OTHER, length=2 * MS),
                event(6 * MS, "release", OTHER),
            ],
            1,
        ),
        # The waiter's own turn is no other's, nor are releases after its end.
        (
            [
                event(5 * MS, "release", HOLDER),
                event(10 * MS, "acquired", WAITER, length=10 * MS),
                event(11 * MS, "release", WAITER),
            ],
            0,
        ),
    ],
)
def test_bypasses(events: list[TimelineEvent], bypasses: int) -> None:
    assert count_bypasses(events, WAITER, BEGIN, END) == bypasses


def test_bypasses_are_told_only_where_they_mean_something() -> None:
    events = [event(time * MS, "release", HOLDER) for time in (2, 4, 6)]
    assert explained(events).bypass == 2
    assert explained(events, releases=False).bypass is None
    assert explained(events, "rwsem:R").bypass is None


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (0, "preempted_ns"),
        (1, "asleep_ns"),
        (2, "asleep_ns"),
        (0x2002, "asleep_ns"),
        (4, "stopped_ns"),
        (8, "stopped_ns"),
    ],
)
def test_what_a_holder_did(state: int, expected: str) -> None:
    """It ran for 2 ms, was off its CPU for 5 ms, and ran until it released the lock."""
    events = [
        event(2 * MS, "switch", HOLDER, OTHER, value=state),
        event(7 * MS, "switch", OTHER, HOLDER, value=1),
        event(9 * MS, "release", HOLDER),
    ]
    doing = find_holders(events, BEGIN, END, True)[0][0].doing
    assert doing.running_ns == 4 * MS
    assert getattr(doing, expected) == 5 * MS
    assert doing.unknown_ns == 0


def test_a_woken_holder_is_ready_until_it_gets_a_cpu() -> None:
    events = [
        event(1 * MS, "switch", HOLDER, OTHER, value=1),
        event(4 * MS, "waking", OTHER, HOLDER),
        event(4 * MS + 5, "wakeup", OTHER, HOLDER),
        event(6 * MS + 5, "switch", OTHER, HOLDER, value=0),
        event(8 * MS + 5, "release", HOLDER),
    ]
    doing = find_holders(events, BEGIN, END, True)[0][0].doing
    assert doing == Doing(running_ns=3 * MS, preempted_ns=2 * MS, asleep_ns=3 * MS + 5)


def named(one: TimelineEvent, name: str) -> TimelineEvent:
    """The same event with a name."""
    return replace(one, name=name)


def test_what_a_throttled_holder_did() -> None:
    """Its group's time was used up while it ran; later it is woken into a group that may not run."""
    events = [
        named(event(MS, "switch", HOLDER, OTHER), "throttled"),
        event(4 * MS, "switch", OTHER, HOLDER),
        event(5 * MS, "switch", HOLDER, OTHER, value=1),
        named(event(6 * MS, "wakeup", OTHER, HOLDER), "throttled"),
        event(8 * MS, "switch", OTHER, HOLDER),
        event(9 * MS, "release", HOLDER),
    ]
    doing = find_holders(events, BEGIN, END, True)[0][0].doing
    assert doing == Doing(running_ns=3 * MS, asleep_ns=MS, throttled_ns=5 * MS)


def test_what_a_holder_did_before_the_waiter_came() -> None:
    """Throttled long ago: without that record it would pass for preempted."""
    events = [event(6 * MS, "switch", OTHER, HOLDER), event(9 * MS, "release", HOLDER)]
    before = named(event(-500 * MS, "switch", HOLDER, OTHER, cpu=3), "throttled")
    found = explained([before, *events], kind="mutex")
    assert found.holders[0].doing == Doing(running_ns=3 * MS, throttled_ns=6 * MS)
    assert [one.time_ns for one in found.events] == [one.time_ns for one in events]
    assert explained(events, kind="mutex").holders[0].doing == Doing(running_ns=3 * MS, preempted_ns=6 * MS)


def test_what_came_before_is_not_known_if_records_are_missing() -> None:
    events = [event(6 * MS, "switch", OTHER, HOLDER), event(9 * MS, "release", HOLDER)]
    whole = find_holders(events, BEGIN, END, True)[0][0].doing
    partly = find_holders(events, BEGIN, END, False)[0][0].doing
    assert whole == Doing(preempted_ns=6 * MS, running_ns=3 * MS)
    assert partly == Doing(unknown_ns=6 * MS, running_ns=3 * MS)
    # A holder that no record names did something, but nobody knows what.
    assert doing_in(stretches(events, THIRD, BEGIN, END, True), BEGIN, END) == Doing(unknown_ns=10 * MS)


def test_of_very_many_holders_not_all_are_followed() -> None:
    events = [event(turn * 1000, "release", 1000 + turn) for turn in range(1, 3001)]
    holders, handoff = find_holders(events, BEGIN, END, True)
    assert len(holders) == 3000
    assert sum(one.held_ns for one in holders) + (handoff or 0) == END - BEGIN
    assert sum(1 for one in holders if one.doing.running_ns) == MOST_HOLDERS
    assert all(one.doing.unknown_ns == one.held_ns for one in holders if not one.doing.running_ns)


def test_a_wakeup_on_the_way_to_sleep_does_not_stop_a_task() -> None:
    events = [event(1 * MS, "waking", HOLDER, OTHER), event(2 * MS, "wakeup", OTHER, HOLDER)]
    assert doing_in(stretches(events, HOLDER, BEGIN, END, True), BEGIN, END) == Doing(running_ns=10 * MS)


@given(
    st.lists(
        st.builds(
            event,
            st.integers(-MS, 11 * MS),
            st.sampled_from(["switch", "waking", "wakeup", "release", "acquired", "vector", "wait task"]),
            st.sampled_from([WAITER, HOLDER, OTHER]),
            st.sampled_from([None, WAITER, HOLDER, OTHER]),
            cpu=st.integers(0, 3),
            value=st.integers(-5, 1 << 31),
            length=st.integers(0, MS),
        ),
        max_size=40,
    ),
    st.booleans(),
)
def test_any_timeline_is_explained(events: list[TimelineEvent], whole: bool) -> None:
    found = explained(events, complete=int(whole))
    assert found.bypass is not None
    assert found.bypass >= 0
    ordered = sorted(events, key=lambda one: one.time_ns)
    parts = stretches(ordered, HOLDER, BEGIN, END, whole)
    assert parts[0][0] == BEGIN
    assert parts[-1][1] == END
    assert all(one[1] == next_one[0] for one, next_one in pairwise(parts))
    if found.relief is not None:
        assert 0 <= found.relief.before_end_ns <= END - BEGIN


def test_loops_count_what_lies_in_the_wait() -> None:
    events = [
        event(-3 * MS, "wait task", HOLDER, WAITER, value=600, length=6 * MS),
        event(5 * MS, "wait task", OTHER, THIRD, value=10, length=MS),
        event(11 * MS, "wait task", OTHER, THIRD, value=99, length=MS),
        event(-5 * MS, "wait task", OTHER, THIRD, value=99, length=MS),
    ]
    loops = find_loops(events, BEGIN, END)
    assert [(loop.task.tid, loop.other.tid, loop.turns) for loop in loops] == [
        (HOLDER, WAITER, 300),
        (OTHER, THIRD, 10),
    ]


OTHERS = frozenset({HOLDER})


def test_relief_is_the_last_on_the_holders_side() -> None:
    events = [
        event(1 * MS, "wait task", HOLDER, WAITER, cpu=0),
        event(2 * MS, "vector", HOLDER, cpu=0),
        event(8 * MS, "interrupt", HOLDER, cpu=0, length=10),
        event(9 * MS, "vector", WAITER, cpu=1),
        event(9 * MS, "vector", OTHER, cpu=2),
        event(10 * MS + 1, "vector", HOLDER, cpu=0),
    ]
    relief = find_relief(events, WAITER, 1, OTHERS, BEGIN, END)
    assert relief is not None
    assert (relief.type, relief.cpu, relief.side, relief.before_end_ns) == ("interrupt", 0, "holder", 2 * MS)


def test_relief_follows_the_holder_from_cpu_to_cpu() -> None:
    events = [
        event(1 * MS, "switch", HOLDER, OTHER, cpu=0, value=0),
        event(2 * MS, "vector", OTHER, cpu=0),
        event(5 * MS, "switch", OTHER, HOLDER, cpu=3, value=1),
    ]
    relief = find_relief(events, WAITER, 1, OTHERS, BEGIN, END)
    assert relief is not None
    assert (relief.type, relief.cpu, relief.task.tid) == ("switch", 3, HOLDER)


def test_relief_of_a_waiter_alone() -> None:
    events = [event(3 * MS, "vector", WAITER, cpu=1), event(9 * MS, "wakeup", OTHER, WAITER, cpu=0)]
    relief = find_relief(events, WAITER, 1, frozenset(), BEGIN, END)
    assert relief is not None
    assert (relief.type, relief.task.tid, relief.side) == ("wakeup", OTHER, "waiter")
    assert find_relief([event(3 * MS, "vector", OTHER, cpu=2)], WAITER, 1, frozenset(), BEGIN, END) is None


def test_nothing_has_ended_a_wait_in_progress() -> None:
    found = explained(
        [event(3 * MS, "vector", WAITER, cpu=1)], "mutex", state="in progress", holder=HOLDER, holder_state="D"
    )
    assert found.in_progress
    assert found.relief is None
    assert found.handoff_ns is None
    assert [(one.task.tid, one.source, one.state) for one in found.holders] == [(HOLDER, "owner", "D")]


def test_the_owner_field_stands_in_for_releases() -> None:
    events = [event(10 * MS, "acquired", WAITER, HOLDER, cpu=1, length=10 * MS)]
    assert [one.task.tid for one in explained(events, "mutex").holders] == [HOLDER]
    # Another's turn does not explain this wait.
    events = [event(10 * MS, "acquired", OTHER, HOLDER, cpu=1, length=10 * MS)]
    assert explained(events, "mutex").holders == ()


def chain_of(*waits: tuple[int, int, int, int]) -> list[int]:
    """The waiters of the chain from the first of these (waiter, holder, begin, length) on."""
    waiters = {tid: rows.Waiter(tid, tid, tid, f"t{tid}", "") for tid in (WAITER, HOLDER, OTHER, THIRD)}

    def make(row: rows.Episode) -> Episode:
        return explain(row, [], waiters, LOCK, "mutex", 0, {}, False)

    found = [
        episode_row(tid=waiter, waiter=waiter, holder=holder, begin_ns=BEGIN + begin, wait_ns=length)
        for waiter, holder, begin, length in waits
    ]
    by_tid: dict[int, list[rows.Episode]] = {}
    for row in found:
        by_tid.setdefault(row.tid, []).append(row)
    return [link.waiter.tid for link in find_chain(make(found[0]), by_tid, make)]


def test_chains() -> None:
    assert chain_of((WAITER, HOLDER, 0, 10 * MS), (HOLDER, OTHER, MS, 8 * MS), (OTHER, THIRD, 2 * MS, MS)) == [
        WAITER,
        HOLDER,
        OTHER,
    ]
    # One wait is no chain; nor is one with a wait that was over, or that the holder began later.
    assert chain_of((WAITER, HOLDER, 0, 10 * MS)) == []
    assert chain_of((WAITER, HOLDER, 0, 10 * MS), (HOLDER, OTHER, -5 * MS, 5 * MS)) == []
    assert chain_of((WAITER, HOLDER, 0, 10 * MS), (HOLDER, OTHER, 10 * MS, 5 * MS)) == []
    # Two that wait for each other end it.
    assert chain_of((WAITER, HOLDER, 0, 10 * MS), (HOLDER, WAITER, 0, 10 * MS)) == [WAITER, HOLDER]


def test_the_wait_that_overlaps_longest_is_the_link() -> None:
    waits = (
        (WAITER, HOLDER, 0, 10 * MS),
        (HOLDER, OTHER, 0, MS),
        (HOLDER, THIRD, 2 * MS, 6 * MS),
        (THIRD, OTHER, 3 * MS, MS),
    )
    assert chain_of(*waits) == [WAITER, HOLDER, THIRD]


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_example(tmp_path_factory.mktemp("episodes") / "example.lockline")


def test_read_from_a_recording(example: Path) -> None:
    with open_recording(str(example)) as recording:
        report = make_report(recording, Selection(), 5)
        assert [episode.state for episode in report.episodes] == ["in progress", "ended"]
        ended = report.episodes[1]
        assert ended.lock == "tasklist_lock"
        assert [loop.turns for loop in ended.loops] == [900]
        # Of the CPUs of its evidence alone.
        assert {one.cpu for one in ended.events} == {1, 2}
        assert make_report(recording, Selection(), 5, 1).episodes == report.episodes[:1]
        assert make_report(recording, Selection(lock="pipe"), 5).episodes == report.episodes[:1]
        assert make_report(recording, Selection(kinds=("mutex",)), 5).episodes == ()


def test_where_a_holder_let_go(example: Path) -> None:
    """The stack of the last release that has one."""
    with open_recording(str(example)) as recording:
        [ended] = [one for one in make_report(recording, Selection(), 5).episodes if one.state == "ended"]
        [[frames]] = [recording.stacks([4]).values()]
    assert frames
    assert ended.holders[0].stack == frames
    with open_recording(str(example)) as recording:
        text = render(make_report(recording, Selection(), 5), Style(), 5)
    assert f"it released the lock in {frames[0].symbol}" in " ".join(text.split())


def test_the_last_record_before_is_read(tmp_path: Path) -> None:
    """Of a holder, from before the episode's window, whichever CPU it is of; of others, and later ones of its, not."""
    path = make_example(tmp_path / "before.lockline")
    with sqlite3.connect(path) as connection:
        [[begin_ns]] = connection.execute("SELECT begin_ns FROM episode WHERE state = 'ended'")
        [[holder]] = connection.execute("SELECT DISTINCT task FROM timeline WHERE type = 'release'")
        connection.executemany(
            "INSERT INTO timeline VALUES (?, 0, 'switch', ?, 0, ?, ?, 0, 0, ?, 0)",
            [
                (begin_ns - 900 * MS, 7, holder, 3, ""),
                (begin_ns - 800 * MS, 8, holder, 3, "throttled"),
                (begin_ns - 700 * MS, 9, 3, 2, ""),
            ],
        )
        connection.execute("DELETE FROM timeline WHERE type NOT IN ('release', 'switch')")
    with open_recording(str(path)) as recording:
        [ended] = [one for one in make_report(recording, Selection(), 5).episodes if one.state == "ended"]
    assert all(one.time_ns >= begin_ns - MS for one in ended.events)
    doing = ended.holders[0].doing
    # Until its first release it was throttled, or so it seems: it runs from then on.
    assert doing.throttled_ns == 20 * MS
    assert doing.running_ns == ended.holders[0].held_ns - 20 * MS


def test_as_text(example: Path) -> None:
    with open_recording(str(example)) as recording:
        report = make_report(recording, Selection(), 5)
    text = render(report, Style(), 5)
    assert "local_timer interrupt on CPU 1 (the other side), 1.00 ms before the end" in text
    assert "<lock acquired>" in text
    assert "CPU 1" in text
    assert "inferred" in text
    assert max(map(len, text.splitlines())) <= 120
    assert render(report, Style(), 1).count("waits") < text.count("wait")


def test_none_is_said(tmp_path: Path, example: Path) -> None:
    with open_recording(str(example)) as recording:
        report = make_report(recording, Selection(kinds=("mutex",)), 5)
    assert "No long waits" in render(report, Style(), 5)


@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("episode", "cpus = 'text'"),
        ("episode", "wait_ns = 'long'"),
        ("timeline", "length_ns = x'00'"),
        ("timeline", "type = x'41'"),
    ],
)
def test_damage(tmp_path: Path, table: str, change: str) -> None:
    path = make_example(tmp_path / "damaged.lockline")
    with open_recording(str(path)) as recording:
        recording.meta()

    with sqlite3.connect(path) as connection:
        connection.execute(f"UPDATE {table} SET {change}")
    with open_recording(str(path)) as recording, pytest.raises(RecordingError, match=table):
        read_episodes(recording, 10, recording.waiters(), recording.locks(), recording.kinds(), 0)


def test_impossible_figures_are_left_out(tmp_path: Path) -> None:
    path = make_example(tmp_path / "impossible.lockline")

    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE episode SET wait_ns = -5 WHERE id = 1")
        connection.execute(f"UPDATE episode SET begin_ns = {(1 << 63) - 1} WHERE id = 2")
    with open_recording(str(path)) as recording:
        assert make_report(recording, Selection(), 5).episodes == ()
