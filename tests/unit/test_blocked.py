# SPDX-License-Identifier: GPL-2.0-or-later
"""Who waits for whom: circles and standstills among threads, in made-up waits of every shape."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockline.analysis.blocked import BlockedThread, kept_idle, who_waits_for_whom
from lockline.analysis.user_space.futex_waits import Futexes
from lockline.recording.user_rows import Futex
from lockline.rules import blocked
from told import Told, told

S = 1_000_000_000


def waits(
    tid: int, owner: int, age_s: int = 2, timed: bool = False, owned_s: int = 5, inside: str = "do_nanosleep"
) -> BlockedThread:
    """A thread's wait for a lock named after its owner."""
    lock = Futex(owner + 2, 7, "server", 4096 + 64 * owner, 0, f"lock_of_{owner}", "server")
    return BlockedThread(lock, tid, 7, f"w{tid}", age_s * S, timed, owner, owned_s * S, f"w{owner}", "S", inside)


def test_two_threads_and_one_behind_them() -> None:
    cycles, standstills = who_waits_for_whom([waits(1, 2), waits(2, 1), waits(3, 2), waits(4, 3)])
    assert [[thread.tid for thread in cycle.threads] for cycle in cycles] == [[1, 2]]
    assert [thread.tid for thread in cycles[0].behind] == [3, 4]
    assert standstills == ()


def test_a_thread_that_waits_for_itself() -> None:
    cycles, standstills = who_waits_for_whom([waits(1, 1)])
    assert [[thread.tid for thread in cycle.threads] for cycle in cycles] == [[1]]
    assert standstills == ()


def test_a_chain_ends_at_who_waits_for_nothing() -> None:
    cycles, standstills = who_waits_for_whom([waits(3, 2, 9), waits(2, 1, 4), waits(5, 1, 6)])
    assert cycles == ()
    assert [(still.owner, [thread.tid for thread in still.threads]) for still in standstills] == [(1, [5, 2, 3])]
    assert [thread.tid for thread in standstills[0].direct] == [5, 2]


@pytest.mark.parametrize(
    ("inside", "state", "remedies"),
    [
        ("do_nanosleep", "S", ["see-what-owner-does"]),
        ("do_signal_stop", "T", ["let-owner-go-on", "see-what-owner-does"]),
        # No debugger can attach to these.
        ("__refrigerator", "D", ["thaw-owner"]),
        ("do_freezer_trap", "S", ["thaw-owner"]),
        ("ptrace_stop", "t", ["end-tracer-of-owner"]),
    ],
)
def test_an_owner_that_something_stops(inside: str, state: str, remedies: list[str]) -> None:
    thread = replace(waits(1, 2, inside=inside), owner_state=state)
    (found,) = blocked.of_threads([thread])
    assert [one.action for one in found.remedies] == remedies
    assert ("stop" in dict(found.claim.values)) == (len(remedies) == 2 or remedies != ["see-what-owner-does"])


@given(st.dictionaries(st.integers(1, 12), st.integers(1, 16), max_size=12))
def test_each_thread_stands_in_one_place(owners: dict[int, int]) -> None:
    """Whatever waits for whatever: nobody is forgotten or told twice, and circles are circles."""
    cycles, standstills = who_waits_for_whom([waits(tid, owner) for tid, owner in owners.items()])
    groups = [(*cycle.threads, *cycle.behind) for cycle in cycles] + [still.threads for still in standstills]
    told = sorted(thread.tid for group in groups for thread in group)
    assert told == sorted(owners)
    for cycle in cycles:
        members = [thread.tid for thread in cycle.threads]
        assert [owners[tid] for tid in members] == [*members[1:], members[0]]
    for still in standstills:
        assert still.owner not in owners
        assert still.direct == still.threads[: len(still.direct)] != ()


def found(*threads: BlockedThread) -> list[Told]:
    """The findings about such threads."""
    return [told(finding) for finding in blocked.of_threads(threads)]


def test_a_deadlock_is_a_finding() -> None:
    (finding,) = found(waits(1, 2, 12), waits(2, 1, 11), waits(3, 1))
    assert (finding.rule, finding.confidence) == ("deadlock", "high")
    assert finding.title == "2 threads of server (7) wait for each other, in a circle: a deadlock"
    assert finding.evidence == (
        "w1 (1) has waited 12.0 s for lock_of_2, which w2 (2) holds",
        "w2 (2) has waited 11.0 s for lock_of_1, which w1 (1) holds",
        "1 more behind them",
    )
    assert finding.wait_ns == 25 * S


def test_a_timeout_ends_a_deadlock() -> None:
    (finding,) = found(waits(1, 2), waits(2, 1, timed=True))
    assert finding.confidence == "medium"
    assert "a timeout ends one of these waits" in finding.evidence


def test_a_lock_taken_twice() -> None:
    (finding,) = found(waits(1, 1))
    assert finding.title == "A thread of server (7) waits for a lock that it holds itself"
    assert finding.evidence == ("w1 (1) has waited 2.00 s for lock_of_1, which it holds itself",)


def test_a_lock_that_is_not_released() -> None:
    (finding,) = found(waits(2, 1, 4), waits(3, 1, 6), waits(4, 3, 5))
    assert (finding.rule, finding.confidence) == ("lock-not-released", "high")
    assert finding.title == "w1 (1) does not release lock_of_1, with 3 waiting"
    assert finding.evidence == (
        "2 waiting for lock_of_1, for up to 6.00 s",
        "1 more behind them, for up to 5.00 s",
        "w1 (1) was its owner at every look, for 5.00 s",
        "at the end it sleeps, in do_nanosleep()",
    )


def test_idle_workers_may_stand_behind_a_mutex() -> None:
    """One waits for the next job, and has the queue's mutex: the others wait for that."""
    (finding,) = found(waits(2, 1, inside="anon_pipe_read"), waits(3, 1, inside="anon_pipe_read"))
    assert (finding.rule, finding.confidence) == ("lock-not-released", "medium")
    assert finding.evidence[-1] == "it waits for input: if that is the next job, these are idle workers behind a mutex"


@pytest.mark.parametrize("inside", ["inet_csk_accept", "ep_poll", "do_epoll_wait"])
def test_one_of_a_pool_waits_for_events(inside: str) -> None:
    """It waits for whatever comes next, while the others wait for their turn."""
    (finding,) = found(waits(2, 1, inside=inside), waits(3, 1, inside=inside))
    assert (finding.rule, finding.confidence) == ("lock-not-released", "low")
    assert finding.title == "w1 (1) waits for input and has lock_of_1, with 2 waiting: for that lock, or for work"
    assert finding.evidence[0] == "it waits for input: if that is the next job, these are idle workers behind a mutex"


def kept(tid: int, lock: int, owner: int = 1, inside: str = "do_epoll_wait") -> BlockedThread:
    """A thread's wait for one of several locks of an owner."""
    one = waits(tid, owner, inside=inside)
    return replace(one, futex=one.futex._replace(id=lock, address=4096 + 64 * lock))


@pytest.mark.parametrize(
    ("blocked", "idle"),
    [
        ([kept(2, 20), kept(3, 30), kept(4, 40)], {20, 30, 40}),
        # A lock that was forgotten; one of its own; an owner at work; one that waits for a lock itself.
        ([kept(2, 20), kept(3, 20), kept(4, 40)], set()),
        ([kept(2, 20)], set()),
        ([kept(2, 20, inside="do_nanosleep"), kept(3, 30, inside="do_nanosleep")], set()),
        ([kept(2, 20), kept(3, 30), waits(1, 9)], set()),
    ],
    ids=["redis", "forgotten", "one", "sleeps", "chain"],
)
def test_threads_that_are_kept_idle_by_locks_of_their_own(blocked: list[BlockedThread], idle: set[int]) -> None:
    assert kept_idle(blocked) == idle


def test_an_owner_seen_once_may_have_come_by() -> None:
    assert found(waits(2, 1, owned_s=0)) == []
    (finding,) = found(waits(2, 1, owned_s=1))
    assert finding.confidence == "medium"


def test_without_futexes_nothing_is_said() -> None:
    assert found() == []
    assert Futexes((), ()).blocked == ()
