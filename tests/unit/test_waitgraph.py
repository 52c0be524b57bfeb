# SPDX-License-Identifier: GPL-2.0-or-later
"""Cascaded blame, knots and the critical path, on graphs whose truth is known."""

import itertools
import random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from lockline.analysis.waitgraph import MOST_NODES, Flow, Node, TimedWait, critical_path, merged, solve
from lockline.analysis.waitgraph_of import _sleepers
from lockline.recording.rows import Frame


def lock(name: str) -> Node:
    """A lock of the kernel."""
    return Node("lock", name)


def task(name: str) -> Node:
    """A thread."""
    return Node("task", name)


def test_a_chain_of_two_locks_ends_at_who_works() -> None:
    first, second = lock("first"), lock("second")
    waiter, worker = task("waiter"), task("worker")
    flow = Flow(
        waits={first: 3.0, second: 1.0},
        passes={(first, waiter): 3.0, (waiter, second): 3.0, (second, worker): 1.0},
        stays={worker: 1.0},
    )
    graph = solve(flow)
    (end,) = graph.ends
    assert (end.node, end.threads, end.part) == (worker, pytest.approx(4.0), pytest.approx(1.0))
    assert end.path == (first, waiter, second, worker)
    assert graph.knots == ()


def test_waiting_is_split_by_what_a_holder_does() -> None:
    one, holder, cpu, disk = lock("one"), task("holder"), Node("cpu", "a CPU"), Node("sleep", "io_schedule")
    flow = Flow({one: 2.0}, {(one, holder): 1.0, (holder, cpu): 1.0, (holder, disk): 2.0}, {one: 1.0, holder: 1.0})
    ends = {end.node: end.threads for end in solve(flow).ends}
    # Half is nobody's that is known; of the other half a quarter is work.
    assert ends == pytest.approx({one: 1.0, holder: 0.25, cpu: 0.25, disk: 0.5})


def test_a_circle_that_nothing_leaves_is_a_knot() -> None:
    first, second, one, other = lock("first"), lock("second"), task("one"), task("other")
    ring = {(first, one): 1.0, (one, second): 1.0, (second, other): 1.0, (other, first): 1.0}
    graph = solve(Flow({first: 1.0, second: 1.0, lock("apart"): 0.5}, ring, {}))
    (knot,) = graph.knots
    assert set(knot.nodes) == {first, second, one, other}
    assert knot.threads == pytest.approx(2.0)
    assert [end.node for end in graph.ends] == [lock("apart")]
    # One of them that also works is a way out: no knot.
    leaking = solve(Flow({first: 1.0}, ring, {other: 0.25}))
    assert leaking.knots == ()
    assert [(end.node, pytest.approx(end.threads)) for end in leaking.ends] == [(other, 1.0)]


NAMES = some.integers(0, 7)
FLOWS = some.builds(
    lambda waits, passes, stays: Flow(
        {lock(str(name)): threads for name, threads in waits.items()},
        {(lock(str(one)), lock(str(other))): threads for (one, other), threads in passes.items()},
        {lock(str(name)): threads for name, threads in stays.items()},
    ),
    some.dictionaries(NAMES, some.floats(0.01, 100), min_size=1),
    some.dictionaries(some.tuples(NAMES, NAMES), some.floats(0.01, 100), max_size=20),
    some.dictionaries(NAMES, some.floats(0.01, 100)),
)


@given(FLOWS)
@settings(max_examples=300, deadline=None)
def test_no_waiting_is_lost_and_none_is_made(flow: Flow) -> None:
    graph = solve(flow)
    total = sum(flow.waits.values())
    told = sum(end.threads for end in graph.ends) + sum(knot.threads for knot in graph.knots)
    assert told == pytest.approx(total, rel=1e-6)
    assert all(end.threads >= -1e-9 for end in graph.ends)
    for end in graph.ends:
        assert end.path[-1] == end.node
        assert end.path[0] in flow.waits
        assert all(pair in flow.passes for pair in zip(end.path, end.path[1:], strict=False))
    for knot in graph.knots:
        inside = set(knot.nodes)
        assert all(target in inside for (source, target) in flow.passes if source in inside)
        assert not any(flow.stays.get(node) for node in inside)


@given(FLOWS)
@settings(max_examples=15, deadline=None)
def test_it_is_what_many_walks_through_the_graph_find(flow: Flow) -> None:
    """Each walk starts where waiting is, and goes on by chance, in proportion: an end is where it stays."""
    chance, walks = random.Random(1), 1000
    graph = solve(flow)
    in_knots = {node for knot in graph.knots for node in knot.nodes}
    starts, weights = list(flow.waits), list(flow.waits.values())
    stayed: dict[Node, int] = {}
    knotted = 0
    for _ in range(walks):
        node = chance.choices(starts, weights)[0]
        for _ in range(1000):
            if node in in_knots:
                knotted += 1
                break
            to = [(target, part) for (source, target), part in flow.passes.items() if source == node]
            stays = flow.stays.get(node, 0.0)
            if not to and not stays:
                stays = 1.0
            following = chance.choices([None, *(target for target, _ in to)], [stays, *(part for _, part in to)])[0]
            if following is None:
                stayed[node] = stayed.get(node, 0) + 1
                break
            node = following
    for end in graph.ends:
        assert stayed.get(end.node, 0) / walks == pytest.approx(end.part, abs=0.08)
    assert knotted / walks == pytest.approx(sum(knot.threads for knot in graph.knots) / graph.threads, abs=0.08)


@given(some.integers(2, 12), some.integers(0, 2**32))
@settings(max_examples=100, deadline=None)
def test_a_planted_chain_is_found_beside_noise(length: int, seed: int) -> None:
    chance = random.Random(seed)
    chain = [node for at in range(length) for node in (lock(f"lock {at}"), task(f"holder {at}"))]
    passes = dict.fromkeys(itertools.pairwise(chain), 1.0)
    waits = {node: chance.uniform(0.5, 2.0) for node in chain if node.kind == "lock"}
    planted = sum(waits.values())
    for at in range(30):
        noise, other = lock(f"noise {at}"), task(f"other {at}")
        waits[noise] = 0.01
        passes[noise, other] = 1.0
    graph = solve(Flow(waits, passes, {chain[-1]: 1.0}))
    assert graph.ends[0].node == chain[-1]
    assert graph.ends[0].threads == pytest.approx(planted)
    assert not graph.knots


def test_a_huge_graph_is_bounded() -> None:
    waits = {lock(str(at)): 1.0 / (at + 1) for at in range(5 * MOST_NODES)}
    graph = solve(Flow(waits, {(lock(str(at)), task(str(at))): 1.0 for at in range(5 * MOST_NODES)}, {}))
    assert 0 < len(graph.ends) <= MOST_NODES


def test_of_two_looks_the_one_counts_that_knows_more() -> None:
    one, holder = lock("one"), task("holder")
    vague = Flow({one: 3.0}, {}, {one: 3.0})
    told = Flow({one: 1.0}, {(one, holder): 1.0}, {holder: 1.0})
    for flows in ([vague, told], [told, vague]):
        (end,) = solve(merged(flows)).ends
        assert (end.node, end.threads) == (holder, 3.0)


def test_the_critical_path_goes_by_who_let_others_go_on() -> None:
    # 1 waits for A from 0 to 60: 2 has it, which waits for B from 10 to 40 for 3.  Then 1 works until 100, and 4 waits
    # for C from 60 to 100, which 1 has.
    waits = [
        TimedWait(1, "A", 0, 60, 2),
        TimedWait(2, "B", 10, 40, 3),
        TimedWait(4, "C", 60, 100, 1),
        TimedWait(5, "D", 20, 30, 6),
    ]
    path = {one.lock: one.ns for one in critical_path(waits)}
    assert path == {"C": 40, "A": 30, "B": 30}
    assert sum(one.part for one in critical_path(waits)) == pytest.approx(1.0)


@given(
    some.lists(
        some.builds(
            lambda who, what, begin, length, by: TimedWait(who, f"lock {what}", begin, begin + length, by),
            some.integers(0, 4),
            some.integers(0, 3),
            some.integers(0, 1000),
            some.integers(0, 300),
            some.one_of(some.none(), some.integers(0, 4)),
        ),
        max_size=40,
    )
)
@settings(max_examples=300, deadline=None)
def test_a_critical_path_is_never_longer_than_the_time(waits: list[TimedWait]) -> None:
    path = critical_path(waits)
    assert all(0 < one.part <= 1 for one in path)
    assert sum(one.part for one in path) <= 1 + 1e-9


@pytest.mark.parametrize(("kind", "behind"), [("mutex", "inode.i_rwsem"), ("spinlock", None)])
def test_nobody_sleeps_for_a_lock_that_is_spun_for(kind: str, behind: str | None) -> None:
    """Who goes to sleep passes the run queue's lock below the function that it sleeps in."""
    frames = [Frame(n, name, 0, "") for n, name in enumerate(("__schedule", "schedule", "hrtimer_nanosleep.part.0"))]
    waits = SimpleNamespace(name="inode.i_rwsem", kind=kind, stacks=[SimpleNamespace(frames=frames)])
    report: Any = SimpleNamespace(tasks=[SimpleNamespace(lock="inode.i_rwsem", tgid=7)], locks=[waits])
    assert _sleepers(report).get((7, "hrtimer_nanosleep")) == behind
