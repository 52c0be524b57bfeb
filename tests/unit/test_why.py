# SPDX-License-Identifier: GPL-2.0-or-later
"""The logic of an investigation, on generated facts: hypotheses, the next probe, when to stop, how sure."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lockline.analysis.findings import Lock, Process, Task, UserLock, fact
from lockline.analysis.user_space.hidden_waits import HiddenWaits
from lockline.analysis.user_space.user_evidence import Goroutines
from lockline.base.errors import LocklineError
from lockline.cli import why as command
from lockline.cli import why_steps
from lockline.investigation import probes
from lockline.investigation.choice import LEAST_COST_NS, is_over, judge, left_unpaid, most_cost_ns, next_steps, proven
from lockline.investigation.holding import ThreadLook, holders_of
from lockline.investigation.hypotheses import culprit, hypotheses
from lockline.investigation.model import (
    Counters,
    Holders,
    Holding,
    Observation,
    Plan,
    Step,
    Target,
    Unseen,
    UserLockSeen,
    unread,
)
from lockline.investigation.stops import Stop
from lockline.render import why_words
from lockline.render.documents import why as document
from why_cases import (
    FUTEX_QUIET,
    MACHINE,
    MS,
    NOBODY_SLEEPS,
    PROGRAM,
    QUIET,
    USER_LOCK,
    S,
    busy,
    finding,
    known_of,
    lock,
    observation,
    state_of,
    threads,
    user_busy,
    user_lock,
)


def test_totals_come_first() -> None:
    (first,) = next_steps(known_of())
    assert (first.probe, first.options, first.affordable) == ("totals", ("-a",), True)


def test_a_quiet_kernel_leads_to_the_programs() -> None:
    known = known_of(observation("totals"))
    assert [step.probe for step in next_steps(known)] == ["futex"]
    assert state_of(known, "kernel-locks") == "ruled out"
    assert state_of(known, "tracer") == "ruled out"
    assert is_over(known) is None


def test_a_quiet_machine_is_told_as_such() -> None:
    known = known_of(observation("totals"), FUTEX_QUIET)
    assert next_steps(known) == ()
    verdict = judge(known, "nothing left to try")
    assert (verdict.kind, verdict.sure) == ("nothing", "high")
    # Nobody looked at programs: not as sure.
    assert judge(known_of(observation("totals")), "time").sure == "medium"


def test_a_busy_lock_is_one_claim_however_many_waits_a_step_had() -> None:
    """Few long waits in one step, many in the next: that is no contradiction, and no second cause."""
    lock_of = Lock("mm_struct.mmap_lock", "rwsem:W")
    rare, often = (
        replace(busy(probe), findings=(finding(rule, lock_of, waiters),))
        for probe, rule, waiters in (("totals", "long-waits", 3.0), ("episodes", "hot-lock", 2.5))
    )
    found = [one for one in hypotheses(known_of(rare, often)) if one.finding is not None]
    assert [(one.cause, one.seen) for one in found] == [("long-waits", 2)]


def test_readers_and_writers_of_one_step_are_one_step() -> None:
    sides = (Lock("mm_struct.mmap_lock", kind) for kind in ("rwsem:W", "rwsem:R"))
    seen = replace(busy("totals"), findings=tuple(finding("convoy", one, 1.5) for one in sides))
    found = [one for one in hypotheses(known_of(seen)) if one.finding is not None]
    assert [(one.cause, one.seen) for one in found] == [("convoy", 1)]


def test_a_process_that_could_not_be_read_is_no_quiet_one() -> None:
    stuck = replace(FUTEX_QUIET, unseen=unread(2))
    verdict = judge(known_of(observation("totals"), stuck), "nothing left to try")
    assert (verdict.kind, verdict.sure) == ("nothing", "medium")
    assert unread(0) == ()


def test_nothing_is_proven_before_both_kinds_of_locks_were_looked_at() -> None:
    known = known_of(busy("totals", "high"))
    assert proven(known, hypotheses(known)) is None
    assert {step.probe for step in next_steps(known)} == {"futex", "owners", "episodes", "holders"}


def test_what_is_seen_twice_and_has_no_rival_is_proven() -> None:
    held = Holding("mm_struct.mmap_lock", 8, 80 * MS, 78 * MS, 1 * MS, 1 * MS, 0, Task("server", 101))
    known = known_of(
        busy("totals"), FUTEX_QUIET, busy("episodes", holdings=(held,)), busy("holders"), observation("totals")
    )
    first = proven(known, hypotheses(known))
    assert first is not None
    assert (first.cause, first.seen) == ("convoy", 3)
    assert is_over(known) == "proven"
    verdict = judge(known, "proven")
    assert (verdict.kind, verdict.sure, verdict.cause) == ("cause", "high", first)
    assert state_of(known, "holder-sleeps") == state_of(known, "holder-no-cpu") == "ruled out"


def test_a_holder_that_sleeps_is_the_cause_and_the_lock_the_symptom() -> None:
    held = Holding("mm_struct.mmap_lock", 8, 80 * MS, 4 * MS, 1 * MS, 75 * MS, 0, Task("server", 101), "do_read")
    known = known_of(busy("totals"), FUTEX_QUIET, busy("episodes", holdings=(held,)), busy("holders"))
    verdict = judge(known, "proven")
    assert verdict.cause is not None
    assert (verdict.cause.cause, verdict.sure) == ("holder-sleeps", "high")
    assert why_words.fact_words(verdict.cause.claim).endswith("sleeps with it held, in do_read()")


@pytest.mark.parametrize(
    ("doing", "cause"),
    [
        ({"throttled_ns": 70 * MS, "preempted_ns": 0}, "holder-throttled"),
        ({"throttled_ns": 0, "preempted_ns": 70 * MS}, "holder-no-cpu"),
    ],
)
def test_a_holder_without_a_cpu(doing: dict[str, int], cause: str) -> None:
    held = replace(Holding("mm_struct.mmap_lock", 8, 80 * MS, 10 * MS, 0, 0, 0, Task("server", 101)), **doing)  # type: ignore[arg-type]
    known = known_of(busy("totals"), FUTEX_QUIET, busy("episodes", holdings=(held,)), busy("holders"))
    first = judge(known, "proven").cause
    assert first is not None
    assert first.cause == cause


def test_an_owner_that_may_have_let_go_is_no_proof() -> None:
    """Without releases: that it slept says nothing, that it ran rules the others out."""
    asleep = Holding("mm_struct.mmap_lock", 8, 80 * MS, 4 * MS, 1 * MS, 75 * MS, 0, Task("server", 101), exact=False)
    known = known_of(busy("totals"), FUTEX_QUIET, busy("episodes", holdings=(asleep,)), busy("holders"))
    assert state_of(known, "holder-sleeps") == state_of(known, "holder-no-cpu") == "not testable"
    first = judge(known, "proven").cause
    assert first is not None
    assert first.cause == "convoy"
    ran = replace(asleep, running_ns=75 * MS, asleep_ns=4 * MS)
    known = known_of(busy("totals"), FUTEX_QUIET, busy("episodes", holdings=(ran,)), busy("holders"))
    assert state_of(known, "holder-sleeps") == state_of(known, "holder-no-cpu") == "ruled out"


def test_short_waits_rule_out_holders_that_stand_still_without_a_probe() -> None:
    seen = busy("totals")
    seen = replace(seen, locks=(lock(max_ns=300_000, wait_ns=30 * MS),), longest_ns=300_000)
    known = known_of(seen)
    assert {state_of(known, cause) for cause in ("holder-sleeps", "holder-no-cpu", "long-hold")} == {"ruled out"}
    assert next_steps(known)[0].probe == "futex"
    assert "episodes" not in {step.probe for step in next_steps(known)}


def test_a_programs_lock_leads_to_its_threads() -> None:
    known = known_of(observation("totals"), user_busy())
    first = next_steps(known)[0]
    assert first.probe == "threads"
    assert first.of == user_lock()
    assert is_over(known) is None


@pytest.mark.parametrize(
    ("looks", "cause"),
    [
        ({}, "user-lock"),
        ({"running": 0.1, "sleeping": 0.2, "disk": 0.7, "sleeps_in": "folio_wait_bit"}, "holder-sleeps"),
        ({"delayed": 0.9}, "holder-no-cpu"),
        ({"delayed": 0.9, "known": 3}, "user-lock"),
        # 10 tasks want 2 CPUs: who has none for 80 % of the time has its fair part.  The lock does not name its holder,
        # and threads that use it stand for that one.
        ({"delayed": 0.8, "tasks": 10.0, "cpus": 2}, "user-lock"),
        # It gets less than half of that: others are let go before it.
        ({"delayed": 0.95, "tasks": 10.0, "cpus": 2}, "holder-no-cpu"),
        # The lock names its holder, and that one mostly waits for a CPU.
        ({"delayed": 0.8, "tasks": 10.0, "cpus": 2, "owners": 30}, "holder-no-cpu"),
        # The threads that use the lock keep the CPUs busy themselves: others of them run meanwhile.
        ({"delayed": 0.8, "tasks": 10.0, "cpus": 2, "owners": 30, "used_cpus": 1.6}, "user-lock"),
        ({"delayed": 0.8, "tasks": 10.0, "cpus": 2, "owners": 30, "used_cpus": 0.6}, "holder-no-cpu"),
        # They do, and the holder gets less than half of its fair part: it comes after the others.
        ({"delayed": 0.95, "tasks": 10.0, "cpus": 2, "owners": 30, "used_cpus": 1.6}, "holder-no-cpu"),
        ({"delayed": 0.55, "owners": 30}, "holder-no-cpu"),
        # It runs, sleeps and wants a CPU: for none of these for half of the time.
        ({"delayed": 0.8, "running": 0.6, "sleeping": 0.4, "owners": 30}, "user-lock"),
        ({"delayed": 0.95, "running": 0.4, "disk": 0.6, "owners": 30, "sleeps_in": "fsync"}, "holder-sleeps"),
    ],
)
def test_what_the_threads_tell(looks: dict[str, Any], cause: str) -> None:
    known = known_of(observation("totals"), user_busy(), threads(**looks))
    verdict = judge(known, is_over(known) or "time")
    assert verdict.cause is not None
    assert verdict.cause.cause == cause


HOLDER = Task("indexer", 70)


@pytest.mark.parametrize(
    ("looks", "claim", "remedy", "who"),
    [
        (
            {"sleeps_in": "do_signal_stop", "stop": Stop("signal", "indexer", 70, 1, 1)},
            "why-holder-stopped",
            "why-continue",
            "indexer",
        ),
        (
            {"sleeps_in": "ptrace_stop", "stop": Stop("tracer", "indexer", 70, 1, 1, 90, "strace")},
            "why-holder-traced",
            "why-end-tracer",
            "strace",
        ),
        (
            {"sleeps_in": "do_freezer_trap", "stop": Stop("frozen", "indexer", 70, 1, 1, frozen_group="/batch")},
            "why-holder-frozen",
            "why-thaw",
            "indexer",
        ),
        # It was stopped for a moment, and sleeps elsewhere.
        (
            {"sleeps_in": "pipe_read", "stop": Stop("signal", "indexer", 70, 1, 1)},
            "why-holder-sleeps",
            "why-move-out",
            "indexer",
        ),
        ({"sleeps_in": "reclaim_throttle"}, "why-holder-sleeps", "why-more-memory", "indexer"),
        (
            {"running": 1.0, "sleeping": 0.0, "delayed": 0.9, "before": Task("rtaudio", 80)},
            "why-holder-no-cpu",
            "why-real-time",
            "rtaudio",
        ),
        (
            {"running": 1.0, "sleeping": 0.0, "delayed": 0.9, "comes_last": True, "nice": 19},
            "why-holder-no-cpu",
            "why-raise-priority",
            "indexer",
        ),
    ],
)
def test_what_keeps_a_holder(looks: dict[str, Any], claim: str, remedy: str, who: str) -> None:
    """It is named, and the advice is about what keeps it: nobody can move a stop out of a section."""
    asleep = {"running": 0.0, "sleeping": 1.0, "owners": 40, "holder": HOLDER, "tid": 70}
    known = known_of(observation("totals"), user_busy(), threads(**{**asleep, **looks}))
    cause = judge(known, is_over(known) or "time").cause
    assert cause is not None
    assert (cause.claim.what, cause.remedies[0].action) == (claim, remedy)
    blamed = culprit(cause, known)
    assert isinstance(blamed, Task | Process)
    assert blamed.comm == who


@pytest.mark.parametrize(("queue", "told"), [(True, None), (False, "why-holder-sleeps")])
def test_nobody_sleeps_with_a_queue_held(queue: bool, told: str | None) -> None:
    """Who takes from it and sleeps is slow: the finding says that.  That one is stopped is shown all the same."""
    busy = replace(user_busy(), user_locks=(replace(user_lock(), queue=queue),))
    open_ = [one.cause for one in hypotheses(known_of(observation("totals"), busy))]
    assert ("holder-sleeps" in open_, "holder-no-cpu" in open_) == (not queue, True)
    asleep = {"running": 0.0, "sleeping": 1.0, "owners": 40, "holder": HOLDER, "tid": 70}
    known = known_of(observation("totals"), busy, threads(**asleep, sleeps_in="hrtimer_nanosleep"))
    assert [one.claim.what for one in hypotheses(known) if one.cause == "holder-sleeps"] == ([told] if told else [])
    stopped = threads(**asleep, sleeps_in="do_signal_stop", stop=Stop("signal", "indexer", 70, 1, 1))
    causes = [one.claim.what for one in hypotheses(known_of(observation("totals"), busy, stopped))]
    assert "why-holder-stopped" in causes


def test_a_lock_whose_holder_waits_for_another_one_is_behind_that() -> None:
    """As looks that are spread over the time tell; those at the begin of waits may all be just after a hand-over."""
    second = replace(user_lock(0.6), name="other_mutex", address=0x8F00)
    found = (finding("user-lock", USER_LOCK, 3.0, "high"), finding("user-lock", UserLock("other_mutex", ""), 0.6))
    chain = observation("futex", user_locks=(user_lock(), second), user_waiters=3.6, findings=found)

    def asked(moments: int, at: int = 0x8F00) -> Any:
        looks = threads(owners=4, known=4, looks=40, behind=(at, moments) if moments else (0, 0))
        known = known_of(observation("totals"), chain, looks)
        return judge(known, "nothing left to try")

    alone = asked(0)
    assert ("table_mutex" in str(alone.cause.subject), alone.sure) == (True, "high")
    behind = asked(20)
    assert "other_mutex" in str(behind.cause.subject)
    assert behind.cause.waiters == pytest.approx(0.6 + 3.0 * 20 / 24)
    assert behind.sure == "medium"
    # At a futex of which nothing is known: only that this lock is not sure.
    assert (asked(20, at=0x9000).cause.subject, asked(20, at=0x9000).sure) == (USER_LOCK, "low")
    assert asked(1).sure == "high", "once is nothing"


def test_watching_pays_for_the_waits_that_it_records() -> None:
    quiet, busy_ = (probes.known_of(observation("totals"), 100 * MS, 1 * S, probe_ns) for probe_ns in (0, 80 * MS))
    more = probes.price_of(probes.WATCH, busy_, 2) - probes.price_of(probes.WATCH, quiet, 2)
    assert more == pytest.approx(2 * 80 * MS)


def test_several_that_sleep_at_once_have_places_of_a_pool() -> None:
    """Two of four wait, and two others sleep in one call: nobody has a lock alone."""
    waits = [ThreadLook(tid, "server", "S", 7, "futex_do_wait", 0, 0) for tid in (1, 2)]
    asleep = [ThreadLook(tid, "server", "S", 0, "unix_stream_read_generic", 0, 0) for tid in (3, 4)]
    elsewhere = ThreadLook(4, "server", "S", 0, "hrtimer_nanosleep", 0, 0)
    users = (3, 4)
    together = holders_of([[*waits, *asleep]] * 10, 7, known_users=users)
    assert (together.together, together.places, together.sleeping) == (1.0, 2.0, 1.0)
    apart = holders_of([[*waits, asleep[0], elsewhere]] * 10, 7, known_users=users)
    assert (apart.together, apart.places) == (0.0, 1.0)

    def verdict_of(holders: Holders, **changes: Any) -> Any:
        lock_seen = replace(user_lock(2.0), **changes)
        found = finding("user-lock", UserLock("table_mutex", ""), 2.0, seconds=4)
        futex = replace(FUTEX_QUIET, user_waiters=2.0, user_locks=(lock_seen,), findings=(found,))
        known = known_of(observation("totals"), futex, observation("threads", holders=holders))
        return judge(known, "nothing left to try")

    # A mutex that names owners, who change faster than it is looked at: who sleeps elsewhere is not taken for one.
    changing = verdict_of(replace(together, owners=3), owned_by=100)
    assert (changing.cause.cause, changing.sure) == ("user-lock", "medium")
    pool = verdict_of(together, counts=True)
    # Of what hardly ever sleeps two may do so at once, too.
    assert verdict_of(replace(together, places=0.1), counts=True).cause.cause != "small-pool"
    assert (pool.cause.cause, pool.sure) == ("small-pool", "medium")
    # What one thread alone may have is a lock, whoever else sleeps.
    assert (verdict_of(together).cause.cause, verdict_of(together).sure) == ("holder-sleeps", "high")
    # Of a lock of unknown make it is never sure that its holder was seen.
    assert (verdict_of(apart, counts=True).cause.cause, verdict_of(apart, counts=True).sure) == (
        "holder-sleeps",
        "medium",
    )


def test_a_cpu_limit_is_the_cause_where_it_stops_the_group_of_who_waits() -> None:
    stopped = replace(QUIET, throttled=0.6, throttled_group="/limited")
    known = known_of(observation("totals"), user_busy(counters=stopped), threads(delayed=0.9))
    verdict = judge(known, "proven")
    assert verdict.cause is not None
    assert (verdict.cause.cause, verdict.sure) == ("holder-throttled", "high")


def test_a_deadlock_is_enough() -> None:
    dead = finding("deadlock", PROGRAM, 2.0, "high")
    known = known_of(busy("totals", waiters=50), observation("futex", user_waiters=0.0, findings=(dead,)))
    assert is_over(known) == "proven"
    assert judge(known, "proven").cause == hypotheses(known)[0]
    assert hypotheses(known)[0].cause == "deadlock"


def test_idle_workers_are_no_cause() -> None:
    """One waits for input and has a lock, the others wait for that: as in a pool with nothing to do."""
    kept = finding("lock-not-released", PROGRAM, 2.0)
    idle = replace(kept, claim=replace(kept.claim, what="lock-kept-for-input"))
    for found, kind in ((idle, "unclear"), (kept, "cause")):
        known = known_of(busy("totals"), observation("futex", user_waiters=0.0, findings=(found,)))
        verdict = judge(known, "nothing left to try")
        assert verdict.kind == kind
        told = document.make(known, verdict, MACHINE).verdict
        assert (told.kind, told.cause) == (kind, "lock-not-released")


def test_two_causes_as_strong_are_not_told_as_one() -> None:
    """Half of the waiting each: none is proven, and nothing is sure."""
    both = user_busy(sure="medium", kernel_waiters=3.2, locks=(lock(),))
    known = known_of(busy("totals"), both)
    assert proven(known, hypotheses(known)) is None
    verdict = judge(known, "time")
    assert verdict.sure == "low"
    assert verdict.rivals


def test_waits_that_may_be_for_a_lock_are_told_and_not_as_sure() -> None:
    known = known_of(observation("totals"), observation("futex", user_waiters=0.0, unclear=(user_lock(0.9),)))
    verdict = judge(known, "nothing left to try")
    assert verdict.cause is not None
    assert (verdict.kind, verdict.cause.cause, verdict.sure) == ("cause", "unclear-wait", "low")
    little = known_of(observation("totals"), observation("futex", user_waiters=0.0, unclear=(user_lock(0.05),)))
    assert judge(little, "time").kind == "nothing"


def test_goroutines_that_nobody_follows_are_told() -> None:
    unseen = (Goroutines("api", 7, 40),)
    known = known_of(observation("totals"), observation("futex", user_waiters=0.01, goroutines=unseen))
    # They are followed next; the answer says what refuses that.
    (step,) = next_steps(known)
    assert (step.probe, step.options) == ("go", ("-p", "7", "--futex", "--go"))
    refused = replace(known.steps[-1], number=3, probe="go", outcome="failed", seen=None)
    known = replace(known, steps=(*known.steps, refused))
    verdict = judge(known, "nothing left to try")
    assert verdict.cause is not None
    assert (verdict.kind, verdict.cause.cause, verdict.sure) == ("cause", "unseen-goroutines", "low")
    # Where a lock stands out, it is that.
    locked = known_of(observation("totals"), user_busy(goroutines=unseen))
    assert "unseen-goroutines" not in {one.cause for one in hypotheses(locked)}


@pytest.mark.parametrize(
    ("kind", "machine"),
    [("virtual threads", True), ("python condition", False), ("pypy condition", False), ("Erlang processes", False)],
)
def test_waits_that_only_the_run_time_explains(kind: Any, machine: bool) -> None:
    """Nothing was seen of them, so no verdict says that nothing waits; idle threads of Python are everywhere."""
    hidden = (HiddenWaits(kind, "app", 7, 0.0 if machine else 5.0),)
    known = known_of(observation("totals"), observation("futex", user_waiters=0.0, hidden=hidden))
    everywhere = replace(known, target=replace(known.target, tgids=()))
    one_program = replace(known, target=replace(known.target, tgids=(7,)))
    assert judge(one_program, "time").kind == "unclear"
    assert (judge(everywhere, "time").kind == "unclear") is machine
    (found,) = (one for one in hypotheses(one_program) if one.cause == "hidden-waits")
    assert (found.state, found.sure) == ("not testable", "low")


def test_threads_that_yield_are_a_cause_though_nobody_sampled_them() -> None:
    """The recording of futexes counted their calls; whether a machine's idle threads yield is another question."""
    hidden = (HiddenWaits("spin", "app", 7, 3.05, "ticket_lock"),)
    seen = (observation("totals", spins=None), observation("futex", user_waiters=0.0, hidden=hidden, spins=None))
    known = known_of(*seen)
    verdict = judge(replace(known, target=replace(known.target, tgids=(7,))), "budget")
    assert verdict.cause is not None
    assert (verdict.kind, verdict.cause.cause, verdict.sure) == ("cause", "user-spin", "medium")
    assert "Function(name='ticket_lock')" in repr(verdict.cause.claim)
    assert judge(replace(known, target=replace(known.target, tgids=())), "budget").kind == "nothing"
    # Many calls, of which none waits.
    quick = observation("futex", user_waiters=0.0, hidden=(HiddenWaits("spin", "app", 7, 0.0, "poll"),), spins=None)
    known = known_of(seen[0], quick)
    assert judge(replace(known, target=replace(known.target, tgids=(7,))), "budget").kind == "nothing"


@pytest.mark.parametrize(("paid_ms", "affordable"), [(150, True), (171, False)])
def test_goroutines_are_followed_with_what_is_left(paid_ms: int, affordable: bool) -> None:
    """That recording ends by itself as well: two steps have cost so much each, of 400 ms."""
    many = replace(QUIET, switches_per_s=300_000)
    totals = observation("totals", counters=many)
    seen = observation("futex", user_waiters=0.01, goroutines=(Goroutines("api", 7, 40),), counters=many)
    (step,) = next_steps(known_of(totals, seen, paid_ms=paid_ms))
    assert (step.probe, step.affordable) == ("go", affordable)


def test_goroutines_that_threads_wait_for_are_followed_next() -> None:
    """Their threads' waits show the lock; how many goroutines wait, a second look at these would not."""
    lock_of_go = replace(user_lock(2.9), goroutines=True)
    seen = replace(user_busy(sure="medium"), user_locks=(lock_of_go,))
    assert next_steps(known_of(observation("totals"), seen))[0].probe == "go"


def test_a_busy_program_in_go_may_wait_unseen() -> None:
    """Nothing was seen, and nothing would be: no verdict is sure before goroutines were followed."""
    unseen = (Goroutines("api", 7, 0),)
    known = known_of(observation("totals"), observation("futex", user_waiters=0.0, goroutines=unseen))
    assert [step.probe for step in next_steps(known)] == ["go"]
    verdict = judge(known, "time")
    assert (verdict.kind, verdict.sure) == ("unclear", "low")
    little = document.make(known, verdict, MACHINE).verdict
    assert (little.title, little.who) == ("Nothing was seen", None)
    followed = known_of(
        observation("totals"),
        observation("futex", user_waiters=0.0, goroutines=unseen),
        observation("go", user_waiters=0.0),
    )
    assert judge(followed, "nothing left to try").kind == "nothing"


def test_what_this_kernel_refuses_is_not_tried_and_is_told() -> None:
    refused = (Unseen("spinlock holders", "refused: Operation not permitted", "who held a spinlock"),)
    known = known_of(busy("totals", unseen=refused))
    assert "holders" not in {step.probe for step in next_steps(known)}
    assert state_of(known, "long-hold") == "not testable"


def test_no_futexes_no_answer_about_programs() -> None:
    refused = (Unseen("futex waits", "no BTF", "who waits for locks of programs"),)
    known = known_of(observation("totals", unseen=refused))
    assert state_of(known, "program-locks") == "not testable"
    assert next_steps(known) == ()
    assert judge(known, "nothing left to try").sure == "medium"


def test_traced_processes_are_looked_into() -> None:
    known = known_of(observation("totals", counters=replace(QUIET, traced=2)))
    assert "ptrace" in {step.probe for step in next_steps(known)}
    looked = known_of(observation("totals", counters=replace(QUIET, traced=2)), observation("ptrace"))
    assert state_of(looked, "tracer") == "ruled out"


def test_a_step_that_is_too_dear_is_shortened_or_not_started() -> None:
    many = replace(QUIET, switches_per_s=100_000)
    plan = Plan(20, 0.01, 2)
    (futex,) = next_steps(known_of(observation("totals", counters=many), plan=plan))
    # 160 ms a second: the 399 ms that are left pay for 2.5 of the 4 seconds.
    assert futex.affordable
    assert 1 <= futex.seconds < 4
    assert futex.price_ns <= plan.allowed_ns - MS
    many = replace(QUIET, switches_per_s=1e6)
    (futex,) = next_steps(known_of(observation("totals", counters=many), plan=plan))
    # Others may make these switches: it ends by itself when it has cost its part.
    assert futex.affordable
    assert (futex.seconds, futex.price_ns) == (4.0, plan.allowed_ns - MS)
    (futex,) = next_steps(known_of(observation("totals", counters=many), plan=plan, paid_ms=250))
    assert (futex.affordable, futex.price_ns) == (True, 150 * MS)
    # Less than half of what the first step has cost is left.
    (futex,) = next_steps(known_of(observation("totals", counters=many), plan=plan, paid_ms=270))
    assert not futex.affordable


def test_looks_at_threads_end_when_the_budget_does() -> None:
    """So they are started with less than a look at very many threads would cost."""
    plan = Plan(4, 0.01, 2)
    nobody_looked = observation("totals", sleeps=None)
    started = {step.probe: step for step in next_steps(known_of(nobody_looked, plan=plan, paid_ms=35))}
    assert (started["sleeps"].affordable, started["sleeps"].price_ns) == (True, 45 * MS)
    # Names of functions alone may cost 25 ms.
    started = {step.probe: step for step in next_steps(known_of(nobody_looked, plan=plan, paid_ms=54))}
    assert not started["sleeps"].affordable


@pytest.mark.parametrize(
    ("at_futex", "processes", "kind"),
    [(98, (7,), "unclear"), (19, (7,), "cause"), (98, (), "cause"), (0, (7,), "cause")],
)
def test_a_small_wait_is_no_cause_beside_threads_that_nobody_asked(
    at_futex: int, processes: tuple[int, ...], kind: str
) -> None:
    """Threads that slept at futexes at 20 looks, and no budget to record what for."""
    sleeps = replace(NOBODY_SLEEPS, at_futex=at_futex)
    seen = observation("totals", kernel_waiters=0.06, longest_ns=MS, waits=900, locks=(lock(0.06),), sleeps=sleeps)
    known = known_of(seen)
    known = replace(known, target=Target(("-p", "7"), "process 7", processes))
    verdict = judge(known, "budget")
    assert verdict.kind == kind
    # A recording of futexes says what they wait for.
    assert judge(replace(known, steps=(*known.steps, *known_of(FUTEX_QUIET).steps)), "budget").kind == "cause"
    if kind == "unclear":
        told = document.make(known, verdict, MACHINE).verdict
        assert told.title.startswith("Threads of process 7 sleep at futexes")
        assert told.proof[0] == "4.9 of 8 threads on average, at 20 looks"
        assert "record --futex -p 7" in told.remedies[0]


def test_a_short_recording_costs_no_less_than_the_first_one() -> None:
    """To begin and to end it takes most of the time of one on a quiet machine; a look has neither."""
    first = probes.known_of(observation("totals"), 40 * MS, 2 * S)
    assert probes.price_of("totals", first, 0.5) == 40 * MS
    assert probes.price_of("totals", first, 4.0) == 80 * MS
    looks = [probes.price_of("threads", first, seconds) for seconds in (1.0, 2.0)]
    assert looks[1] == 2 * looks[0]
    for name in ("futex", "threads", "episodes"):
        paid = probes.price_of(name, first, 1.5)
        assert probes.seconds_for(name, first, paid) == pytest.approx(1.5)
    assert probes.seconds_for("futex", first, 30 * MS) < 0


def test_the_budget_ends_it() -> None:
    assert is_over(known_of(observation("totals"), paid_ms=400)) == "budget"
    assert is_over(known_of(observation("totals"), paid_ms=399)) is None
    assert is_over(known_of(observation("totals"), plan=Plan(2, 0.5, 2))) == "time"
    assert is_over(known_of(observation("totals"), outcome="interrupted")) == "interrupted"


def test_no_probe_is_made_more_often_than_it_tells_something() -> None:
    """Whatever is seen, the investigation comes to an end."""
    for seen in (busy, lambda probe: replace(user_busy(), probe=probe), observation):
        known = known_of(seen("totals"), plan=Plan(1000, 1, 2))
        while (choices := next_steps(known)) and len(known.steps) < 50:
            made = seen(choices[0].probe)
            if choices[0].probe != "futex":
                made = replace(made, user_waiters=None, user_locks=())
            known = known_of(*(one for _, one in known.observations), made, plan=Plan(1000, 1, 2))
        assert len(known.steps) <= sum(probe.steps for probe in probes.PROBES.values())


def test_where_cpus_are_short_a_lock_is_not_proven_without_its_holder() -> None:
    """The owner changed faster than it was looked at."""
    owned = replace(user_busy(), user_locks=(replace(user_lock(), owned_by=100),))
    for tasks, sure in ((1.0, "high"), (10.0, "medium")):
        known = known_of(observation("totals"), owned, threads(owners=3, tasks=tasks, cpus=2))
        verdict = judge(known, is_over(known) or "nothing left to try")
        assert verdict.cause is not None
        assert (verdict.cause.cause, verdict.sure) == ("user-lock", sure)


def test_a_probe_that_was_too_dear_is_no_probe_that_tells_nothing() -> None:
    known = known_of(observation("totals"), user_busy())
    assert not left_unpaid(known)
    dear = Step(3, "threads", (), fact("why-step-futex"), "not started", 500 * MS)
    assert left_unpaid(replace(known, steps=(*known.steps, dear)))
    # Another one that would tell nothing more does not count.
    useless = replace(dear, probe="watch")
    assert not left_unpaid(replace(known, steps=(*known.steps, useless)))


def test_a_recording_leaves_something_for_the_looks() -> None:
    """Of 400 ms the looks at sleeping threads and at holders are kept apart; a tenth of it is no reason to stop."""
    plan = Plan(20, 0.01, 2)
    # The first step leaves two thirds of it to those that tell why.
    assert most_cost_ns(known_of(plan=plan)) == 112 * MS
    nothing = most_cost_ns(known_of(observation("totals"), plan=plan, paid_ms=0))
    looked = most_cost_ns(known_of(observation(probes.SLEEPS), observation(probes.THREADS), plan=plan, paid_ms=0))
    assert 200 * MS < nothing < looked < plan.allowed_ns
    # With episodes the end costs more, which comes on top.
    first = known_of(observation("totals"), plan=plan, paid_ms=60)
    assert most_cost_ns(first, probes.EPISODES) == most_cost_ns(first) - round(0.8 * 60 * MS)
    # Names are asked for behind the end.
    assert most_cost_ns(first, probes.FUTEX) == most_cost_ns(first) - round(0.8 * probes.FUTEX_END_NS)
    # However little is left, a step that is begun sees something.
    assert most_cost_ns(known_of(observation("totals"), plan=plan, paid_ms=399)) == LEAST_COST_NS


@pytest.mark.parametrize(
    ("content", "used", "found"),
    [
        (b"\x7fELF" + bytes(4000) + b"\x04\0\0\0\x53\0\0\0\x04\0\0\0Go\0\0" + b"id", 1.4, True),
        (b"\x7fELF" + bytes(4000) + b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0" + b"id", 1.4, False),
        # Its goroutines sleep with a mutex held; and one that is idle.
        (b"\x7fELF" + bytes(4000) + b"\x04\0\0\0\x53\0\0\0\x04\0\0\0Go\0\0" + b"id", 0.006, True),
        (b"\x7fELF" + bytes(4000) + b"\x04\0\0\0\x53\0\0\0\x04\0\0\0Go\0\0" + b"id", 0.0, False),
    ],
)
def test_the_program_asked_about_is_of_go_and_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, used: float, found: bool
) -> None:
    (tmp_path / "5").mkdir()
    (tmp_path / "5" / "comm").write_text("server\n")
    monkeypatch.setattr(why_steps, "PROC", tmp_path)
    monkeypatch.setattr(
        why_steps.Reader, "maps", lambda reader, pid: "400000-402000 r-xp 00000000 fe:00 7   /srv/a server\n"
    )
    monkeypatch.setattr(why_steps.Reader, "memory", lambda reader, pid, begin, size: content[:size])
    monkeypatch.setattr(why_steps, "cpus_used_by", lambda pid, seconds: used)
    nothing = Observation(probe="futex", duration_ns=10**9, cpus=2, kernel_waiters=0.0, longest_ns=0, waits=0)
    seen = why_steps._with_go(Target(("-p", "5"), "process 5", (5,)), nothing)
    assert [(one.comm, one.tgid) for one in seen.goroutines] == ([("server", 5)] if found else [])


@pytest.mark.parametrize(("paid_ms", "most_ms"), [(0, 280), (300, 70), (360, 15)])
def test_looks_leave_the_time_to_ask_for_names(paid_ms: int, most_ms: int) -> None:
    known = known_of(observation("totals"), plan=Plan(20, 0.01, 2), paid_ms=paid_ms)
    assert why_steps._most_for_looks(known) == most_ms * MS


def test_who_has_ended_waits_for_nothing() -> None:
    """A program that ended in the first step was said to be held back by no lock."""
    gone = judge(known_of(observation("totals")), "target gone")
    assert (gone.kind, gone.sure, gone.ended) == ("unclear", "low", "target gone")
    # One that was looked at is judged by what was seen.
    assert judge(known_of(observation("totals"), FUTEX_QUIET), "target gone").kind == "nothing"
    assert judge(known_of(observation("totals")), "interrupted").kind == "nothing"


def test_a_budget_that_pays_no_step_is_refused() -> None:
    with pytest.raises(LocklineError, match=r"--max-overhead 0\.01% pays 4\.00 ms of CPU in 20 s.*take 0\.08%"):
        command._check_budget(Plan(20, 0.0001, 2))
    command._check_budget(Plan(20, 0.0008, 2))


def test_a_file_that_cannot_be_written_is_refused_before_the_steps(tmp_path: Path) -> None:
    command._check_output(None)
    command._check_output(str(tmp_path / "why.data"))
    with pytest.raises(LocklineError, match="cannot be written"):
        command._check_output(str(tmp_path / "none" / "why.data"))


def test_watching_pays_no_recording() -> None:
    """It took 41 to 43 ms of 97 that were foretold, and was not started with 73 left: its own budget holds it."""
    first = probes.Known(57e6 / 2, 0.0, Counters(), cpus=2, totals_ns=57e6)
    price = probes.price_of(probes.WATCH, first, 2.0)
    assert 43 * MS <= price <= 73 * MS
    assert probes.seconds_for(probes.WATCH, first, price) == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("name", "where", "words"),
    [
        ("queue_lock", "", "Threads of server (100) wait for queue_lock, which may be a lock"),
        ("queue_lock", "take", "Threads of server (100) wait for queue_lock, in take(), which may be a lock"),
        ("", "", "Threads of server (100) wait at one place in its [heap], which may be a lock"),
        ("", "take", "Threads of server (100) wait at one place in its [heap], in take(), which may be a lock"),
    ],
)
def test_a_futex_that_may_be_a_lock_is_called_so_once(name: str, where: str, words: str) -> None:
    one = UserLockSeen(name, "[heap]", 100, "server", 0x7F00, 2 * 10**9, 1000, 2.0, why="it may be", where=where)
    unclear = (one,)
    known = known_of(observation("totals"), observation("futex", user_waiters=0.0, unclear=unclear))
    (found,) = (one for one in hypotheses(known) if one.cause == "unclear-wait")
    assert why_words.fact_words(found.claim) == words
    (todo,) = map(why_words.remedy_words, found.remedies)
    assert todo.startswith(
        "see in take() whether threads take something there" if where else "`lockline record --futex"
    )
