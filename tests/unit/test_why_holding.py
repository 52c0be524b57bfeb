# SPDX-License-Identifier: GPL-2.0-or-later
"""What the holder of a lock does, where the lock does not name it: programs that are played, with the truth."""

import heapq
import random
from collections import deque
from dataclasses import replace

import pytest

from lockline.analysis.findings import UserLock
from lockline.investigation.choice import judge
from lockline.investigation.holding import ThreadLook, holders_of
from lockline.investigation.model import Holders
from why_cases import finding, known_of, observation, user_lock

LOCK = 7
LOOKS = 40
# What a thread does, as a look at it shows: its state, and where it sleeps.
RUNS, NAPS, SYNCS = ("R", ""), ("S", "hrtimer_nanosleep"), ("D", "folio_wait_bit")
Doing = tuple[str, str]


def looks_at(
    seed: int, threads: int, held: tuple[float, Doing], between: tuple[float, Doing]
) -> tuple[list[list[ThreadLook]], float]:
    """Threads that take one lock again and again, looked at now and then; and for how much of the waiting it is had.

    held, between: how long it is held and let go, on average, and what its thread does meanwhile.
    """
    randomness = random.Random(seed)

    def lasts(of: tuple[float, Doing]) -> float:
        return randomness.expovariate(1 / of[0])

    events = [(lasts(between), thread) for thread in range(threads)]
    heapq.heapify(events)
    queue: deque[int] = deque()
    holder: int | None = None
    next_look = look_every = 3.7 * (held[0] + between[0])
    looks: list[list[ThreadLook]] = []
    while len(looks) < LOOKS:
        now, thread = heapq.heappop(events)
        while next_look < now and len(looks) < LOOKS:
            looks.append([seen(one, one in queue, held[1] if one == holder else between[1]) for one in range(threads)])
            next_look += look_every
        if thread != holder:
            queue.append(thread)
        else:
            holder = None
            heapq.heappush(events, (now + lasts(between), thread))
        if holder is None and queue:
            holder = queue.popleft()
            heapq.heappush(events, (now + lasts(held), holder))
    return looks, sum(any(look.futex for look in moment) for moment in looks) / LOOKS


def seen(thread: int, waits: bool, doing: Doing) -> ThreadLook:
    if waits:
        return ThreadLook(thread, "server", "S", LOCK, "futex_do_wait")
    return ThreadLook(thread, "server", doing[0], 0, doing[1])


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(
    ("held", "between", "asleep"),
    [
        # It computes with the lock held, and sleeps without it: for as long, or three times as long.
        ((1.0, RUNS), (1.0, NAPS), 0.0),
        ((1.0, RUNS), (3.0, NAPS), 0.0),
        # The other way round.
        ((1.0, NAPS), (1.0, RUNS), 1.0),
        ((1.0, SYNCS), (3.0, NAPS), 1.0),
        ((1.0, NAPS), (0.2, NAPS), 1.0),
    ],
)
def test_what_threads_do_without_the_lock_is_no_holders_doing(
    seed: int, held: tuple[float, Doing], between: tuple[float, Doing], asleep: float
) -> None:
    looks, waited = looks_at(seed, 6, held, between)
    assert waited > 0.5
    found = holders_of(looks, LOCK, known_users=range(6))
    assert found.sleeping + found.disk == pytest.approx(asleep, abs=0.2)
    if asleep:
        assert (found.sleeps_in, found.sleeps_part) == (held[1][1], pytest.approx(1.0, abs=0.2))


def test_what_is_always_seen_together_is_not_told_apart() -> None:
    moment = [seen(1, True, RUNS), seen(2, False, NAPS), seen(3, False, RUNS)]
    found = holders_of([moment] * LOOKS, LOCK, known_users=(2, 3))
    assert (found.running, found.sleeping) == (pytest.approx(0.5), pytest.approx(0.5))


def test_a_later_look_that_sees_little_takes_nothing_back() -> None:
    """Threads waited for a lock in one recording; in a shorter one, with the CPUs taken by others, hardly any did."""
    lock = user_lock(3.0)
    found = (finding("user-lock", UserLock("table_mutex", ""), 3.0),)
    much = observation("futex", user_locks=(lock,), user_waiters=3.0, findings=found)
    little = observation("futex", user_locks=(replace(lock, waiters=0.01),), user_waiters=0.01)
    verdict = judge(known_of(observation("totals"), much, little), "budget")
    assert verdict.kind == "cause"
    assert verdict.cause is not None
    assert verdict.cause.subject == UserLock("table_mutex", "")
    quiet = judge(known_of(observation("totals"), little), "budget")
    assert quiet.kind == "nothing"


def test_a_holder_has_a_number_if_it_is_always_the_same() -> None:
    """Workers that take a lock in turn are no one thread."""
    waits = seen(1, True, RUNS)
    one = replace(seen(2, False, SYNCS), nice=19)
    found = holders_of([[waits, one]] * LOOKS, LOCK, known_users=(2,))
    assert (found.tid, found.comes_last, found.nice) == (2, True, 19)
    in_turn = [[waits, seen(2 + look % 3, False, SYNCS)] for look in range(LOOKS)]
    found = holders_of(in_turn, LOCK, known_users=(2, 3, 4))
    assert (found.tid, found.comes_last) == (0, False)


def test_nobody_is_known_without_looks() -> None:
    assert holders_of([], LOCK) == Holders(0, 0, 0.0, 0.0, 0.0, "", 0.0, None)
