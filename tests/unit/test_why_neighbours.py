# SPDX-License-Identifier: GPL-2.0-or-later
"""Whose doing it is that a process waits for a lock of the kernel: its own, or a neighbour's."""

from dataclasses import replace
from typing import Any

import pytest

from lockline.analysis.findings import Lock, Process, fact
from lockline.analysis.model import Figures, Holder, LockWaits
from lockline.base.text import Style
from lockline.investigation import probes
from lockline.investigation.choice import judge, next_steps, proven
from lockline.investigation.hypotheses import culprit, hypotheses
from lockline.investigation.model import Blamed, Investigation, Plan, Step, Target, WaitedLock
from lockline.investigation.observe import BLAMED, _blamed
from lockline.investigation.ranking import HELD_BY_OTHERS
from lockline.render import why_screen
from lockline.render.documents import why as document
from why_cases import FUTEX_QUIET, MACHINE, MS, PROGRAM, busy, finding, known_of, lock, observation

NAME = "mm_struct.mmap_lock"
BACKUP = Process("backup", 300)


def blamed(*by: tuple[Process, float], readers: float = 0.0, waits: int = 500) -> Blamed:
    """Who had the lock."""
    return Blamed(NAME, waits, 900 * MS, by, readers)


def after(*steps: Any, target: tuple[str, ...] = ("-p", "100")) -> Investigation:
    """Quiet programs, a busy lock, and these steps."""
    known = known_of(busy("totals", "high"), FUTEX_QUIET, *steps)
    return replace(known, target=Target(target, "process 100", (100,)))


def told(known: Investigation) -> Any:
    """What is said about another process."""
    return next((one for one in hypotheses(known) if one.cause == HELD_BY_OTHERS), None)


def test_a_surely_seen_queue_is_not_all_as_long_as_nobody_asked_who_has_the_lock() -> None:
    known = after()
    assert proven(known, hypotheses(known)) is None
    assert probes.OWNERS in [step.probe for step in next_steps(known)]


def test_a_neighbour_that_has_the_lock_is_the_cause() -> None:
    known = after(busy("owners", blamed=(blamed((BACKUP, 0.95), (PROGRAM, 0.05)),)))
    verdict = judge(known, "proven")
    assert verdict.cause is not None
    assert (verdict.cause.cause, verdict.sure) == (HELD_BY_OTHERS, "high")
    assert culprit(verdict.cause, known) == BACKUP
    story = document.make(known, verdict, MACHINE)
    assert story.verdict.title == f"backup (300) has {NAME} while server (100) waits for it"
    assert "backup (300)" in story.verdict.remedies[0]
    text = why_screen.render(story, Style(unicode=False, addresses=False), 80, None)
    assert "WHO      backup (300)" in text


@pytest.mark.parametrize(
    ("seen", "sure"),
    [
        (blamed((BACKUP, 0.6), (PROGRAM, 0.4)), "medium"),
        (blamed((BACKUP, 0.95), waits=5), "medium"),
        (blamed((PROGRAM, 0.95), (BACKUP, 0.05)), None),
        (blamed((BACKUP, 0.4), (PROGRAM, 0.35)), None),
        # Of a task that is gone nobody knows the name.
        (blamed((Process("", 0), 0.95)), None),
    ],
)
def test_a_neighbour_is_blamed_for_what_it_does(seen: Blamed, sure: str | None) -> None:
    one = told(after(busy("owners", blamed=(seen,))))
    assert (one.state, one.sure) == (("likely", sure) if sure else ("ruled out", "low"))


def test_short_waits_are_for_whoever_uses_the_lock() -> None:
    short = lock(waits=100_000, wait_ns=2_000 * MS, max_ns=1 * MS)
    known = replace(known_of(replace(busy("totals", "high"), locks=(short,))), target=Target(("-p", "100"), "", (100,)))
    assert told(known) is None


def reading(*by: tuple[Process, float]) -> WaitedLock:
    """The lock as all processes wait for it."""
    return lock(readers=by)


READERS = blamed((PROGRAM, 0.05), readers=0.95)


def test_readers_are_who_waits_to_read() -> None:
    owners = replace(busy("owners", blamed=(READERS,)), locks=(lock(address=-1234),))
    known = after(owners)
    # The lock's address was not known in the first step.
    assert told(known).state == "not testable"
    known = replace(known_of(owners, FUTEX_QUIET), target=Target(("-p", "100"), "process 100", (100,)))
    assert told(known).tests == (probes.USERS,)
    (step,) = [step for step in next_steps(known) if step.probe == probes.USERS]
    assert step.options == ("-a", "-L", hex(2**64 - 1234))
    known = known_of(owners, FUTEX_QUIET, observation("users", users=(reading((BACKUP, 0.9), (PROGRAM, 0.1)),)))
    known = replace(known, target=Target(("-p", "100"), "process 100", (100,)))
    one = told(known)
    assert (one.state, one.sure) == ("likely", "medium")
    assert culprit(one, known) == BACKUP
    # What others wait for is none of this process's waiting.
    assert all(seen.kernel_waiters == 0 for _, seen in known.observations if seen.probe == "users")


@pytest.mark.parametrize("users", [(), (reading(),), (reading((PROGRAM, 0.9)),), (reading((BACKUP, 0.4)),)])
def test_readers_that_are_not_known_are_nobodys_doing(users: tuple[WaitedLock, ...]) -> None:
    owners = replace(busy("owners", blamed=(READERS,)), locks=(lock(address=-1),))
    known = known_of(owners, observation("users", users=users))
    known = replace(known, target=Target(("-p", "100"), "process 100", (100,)))
    assert not told(known).supported


def test_of_the_whole_machine_the_readers_were_seen_already() -> None:
    owners = replace(busy("owners", blamed=(READERS,)), locks=(lock(readers=((BACKUP, 1.0),)),))
    known = replace(known_of(owners, FUTEX_QUIET), target=Target(("-a",), "this machine"))
    assert told(known).state == "likely"


def test_starved_writers_have_a_culprit() -> None:
    starved = replace(finding("convoy", Lock(NAME, "rwsem:W"), 3.0, "high"), rule="writer-starved")
    owners = busy("owners", blamed=(READERS,))
    owners = replace(owners, locks=(lock(readers=((BACKUP, 1.0),)),), findings=(starved,))
    known = replace(known_of(owners, FUTEX_QUIET), target=Target(("-a",), "this machine"))
    verdict = judge(known, "nothing left to try")
    assert verdict.cause is not None
    assert verdict.cause.cause == "writer-starved"
    story = document.make(known, verdict, MACHINE)
    assert story.verdict.culprit == "backup (300)"
    assert "backup (300)" in story.verdict.remedies[0]


def test_readers_for_whom_the_budget_was_too_small_keep_the_cause_from_being_sure() -> None:
    """They have the lock all the time: they may be another process."""
    starved = replace(finding("convoy", Lock(NAME, "rwsem:W"), 3.0, "high"), rule="writer-starved")
    owners = replace(busy("owners", blamed=(READERS,)), locks=(lock(address=-1),), findings=(starved,))
    known = known_of(owners, FUTEX_QUIET, plan=Plan(20, 0.01, 2))
    known = replace(known, target=Target(("-p", "100"), "process 100", (100,)))
    assert "users" in {choice.probe for choice in next_steps(known)}
    dear = Step(3, "users", (), fact("why-step-futex"), "not started", 500 * MS)
    unpaid = replace(known, steps=(*known.steps, dear))
    assert told(unpaid).state == "open"
    assert "users" not in {choice.probe for choice in next_steps(unpaid)}
    assert proven(unpaid, hypotheses(unpaid)) is None
    assert judge(unpaid, "budget").sure == "medium"


def holder(kind: str, comm: str, tgid: int, caused_ms: int) -> Holder:
    """A task that had the lock."""
    return Holder(kind, tgid + 1, tgid, comm, "", 0, 10, caused_ms * MS, MS, ())


def test_holders_are_summed_up_by_process() -> None:
    figures = Figures(waits=40, wait_ns=1000 * MS, max_ns=MS, failed=0, histogram=())
    made = LockWaits(
        ids=(1,),
        name=NAME,
        kind="rwsem:W",
        source="",
        instances=1,
        worst_instance="",
        worst_instance_ns=0,
        address=None,
        figures=figures,
        worst_cpu=0,
        worst_cpu_ns=0,
        holders=(
            holder("task", "backup", 300, 300),
            # Looked up too late: its process is the other one's of its name.
            holder("task", "backup", 0, 200),
            holder("task", "web", 400, 100),
            holder("task", "web", 401, 100),
            # It may be of either.
            holder("task", "web", 0, 50),
            holder("readers", "", 0, 250),
            holder("unknown", "", 0, 1000),
        ),
    )
    found = _blamed(made)
    assert found is not None
    assert found.most == (BACKUP, pytest.approx(0.5))
    assert found.readers == pytest.approx(0.25)
    assert len(found.by) == BLAMED
    assert _blamed(replace(made, holders=(holder("unknown", "", 0, 10),))) is None
