# SPDX-License-Identifier: GPL-2.0-or-later
"""Locks of files and semaphores: from what /proc says to a verdict."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockline.analysis.sleep_functions import kind_of, other_of
from lockline.base.text import Style
from lockline.cli.why import redacted
from lockline.cli.why_sleeps import threads_wanted
from lockline.investigation import probes
from lockline.investigation.choice import is_over, judge, next_steps
from lockline.investigation.hypotheses import culprit, hypotheses
from lockline.investigation.model import Investigation, Target
from lockline.investigation.sleeps import (
    Held,
    LockEntry,
    Sleeper,
    Sleeps,
    parse_call,
    parse_locks,
    sleeps_of,
    waited_for,
)
from lockline.render import why_screen, why_words
from lockline.render.documents import why as document
from why_cases import FUTEX_QUIET, MACHINE, busy, known_of, observation

LOCKS = """\
1: POSIX  ADVISORY  WRITE 15695 fe:00:10002872 0 0
1: -> POSIX  ADVISORY  WRITE 15696 fe:00:10002872 0 0
1:  -> POSIX  ADVISORY  WRITE 15698 fe:00:10002872 0 0
2: FLOCK  ADVISORY  WRITE 15409 fe:00:9978562 0 EOF
3: OFDLCK ADVISORY  READ -1 fe:00:55 0 EOF
3: -> OFDLCK ADVISORY  WRITE -1 fe:00:55 0 EOF
4: LEASE  ACTIVE    READ 77 00:2d:9 0 EOF
5: ACCESS ADVISORY  READ <none> 0 0
6: FLOCK  ADVISORY  WRITE x fe:00:1 0 EOF
"""


def asleep(*tgids: int, function: str = "locks_lock_inode_wait", name: str = "/srv/data.lock") -> list[Sleeper]:
    """Threads that sleep in one function."""
    return [Sleeper(tgid, tgid, "worker", function, name, 55) for tgid in tgids]


def held(*waiters: int, holder: int = 9, name: str = "/srv/data.lock") -> Held:
    """Of a file's lock."""
    return Held("file-lock", name, waiters, holder, "backup" if holder else "", "hrtimer_nanosleep" if holder else "")


def test_lines_of_proc_locks() -> None:
    entries = parse_locks(LOCKS)
    assert entries[0] == LockEntry(1, False, 15695, "fe:00:10002872")
    assert [(entry.lock, entry.waits, entry.pid) for entry in entries] == [
        (1, False, 15695),
        (1, True, 15696),
        (1, True, 15698),
        (2, False, 15409),
        (3, False, -1),
        (3, True, -1),
        (4, False, 77),
    ]
    # Locks that nobody waits for are left out; who has a lock of an open file is not in /proc/locks.
    assert waited_for(entries) == (("fe:00:10002872", (15695,), (15696, 15698)), ("fe:00:55", (), (-1,)))


@given(st.text(alphabet=" \n:->0123456789abcdefFLOCKEWR<>\x00\u0660", max_size=300))
def test_no_text_breaks_the_reader(text: str) -> None:
    for entry in parse_locks(text):
        assert entry.file.count(":") == 2
    parse_call(text)


def test_calls() -> None:
    assert parse_call("73 0x4 0x2 0x0 0x7f 0x0 0x0 0x7ffd 0x7f05") == (73, 4, 2, 0, 0x7F, 0, 0)
    assert parse_call("running") == parse_call("-1 0x7ffd 0x7f") == parse_call("") == ()


def test_functions_of_the_kernel() -> None:
    assert kind_of("fcntl_setlk") == kind_of("locks_lock_inode_wait.part.0") == "file-lock"
    assert kind_of("__do_semtimedop") == "semaphore"
    # Waiting for work, for time, for a child, for a futex: none of these.
    for idle in ("hrtimer_nanosleep", "do_epoll_wait", "pipe_read", "do_wait", "futex_do_wait", "0", ""):
        assert kind_of(idle) is None
        assert not other_of(idle)
    assert "reader is slower" in other_of("anon_pipe_write")


def of_looks(looks: Sequence[Sequence[Sleeper]], told_: Sequence[Sequence[Held]], complete: bool = True) -> Sleeps:
    """Looks at eight threads; of 16, unless these are all."""
    return sleeps_of(looks, told_, 8, 8 if complete else 16)


def test_looks_add_up() -> None:
    looks = [asleep(1, 2, 3), asleep(1, 2), asleep(1), [*asleep(2), *asleep(5, function="anon_pipe_write")]]
    seen = of_looks(looks, [[held(1, 2, 3)], [held(1, 2)], [held(1, holder=8)], []])
    (lock,) = seen.blocked
    assert (lock.name, lock.waiters, lock.known, lock.holder, lock.holder_looks) == ("/srv/data.lock", 7 / 4, 3, 9, 2)
    assert lock.holder_in == "hrtimer_nanosleep"
    assert [(one.function, one.threads) for one in seen.others] == [("anon_pipe_write", 0.25)]


def test_threads_that_were_not_looked_at_count_too() -> None:
    seen = of_looks([asleep(1, 2)] * 4, [], complete=False)
    assert (seen.blocked[0].waiters, seen.all_of_them) == (4, False)


def test_two_files_are_two_locks() -> None:
    looks = [[*asleep(1, 2), *asleep(4, name="/srv/other.lock")]] * 4
    seen = of_looks(looks, [[held(1, 2), held(4, name="/srv/other.lock", holder=0)]] * 4)
    assert [(one.name, one.waiters, one.holder) for one in seen.blocked] == [
        ("/srv/data.lock", 2, 9),
        ("/srv/other.lock", 1, 0),
    ]


def after(sleeps: Sleeps) -> Investigation:
    """An investigation that looked at everything, and saw nothing but this."""
    seen = observation(probes.SLEEPS, sleeps=sleeps)
    return known_of(observation("totals", sleeps=None), replace(FUTEX_QUIET, sleeps=None), seen)


def test_a_lock_of_a_file_is_the_cause_and_its_holder_the_culprit() -> None:
    known = after(of_looks([asleep(1, 2, 3)] * 10, [[held(1, 2, 3)]] * 5))
    assert is_over(known) == "proven"
    verdict = judge(known, "proven")
    assert verdict.cause is not None
    assert (verdict.kind, verdict.cause.cause, verdict.sure, verdict.cause.waiters) == ("cause", "file-lock", "high", 3)
    assert why_words.fact_words(verdict.cause.claim) == (
        "Tasks wait for a lock on /srv/data.lock, which backup (9) has"
    )
    assert "backup" in str(culprit(verdict.cause, known))
    screen = why_screen.render(document.make(known, verdict, MACHINE), Style(unicode=True, addresses=False), 80)
    assert "WHO      backup (9)" in screen
    assert "look at what backup (9) does with /srv/data.lock locked" in screen


def test_without_a_holder_it_is_not_sure() -> None:
    verdict = judge(after(of_looks([asleep(1, 2, 3)] * 10, [[held(1, 2, 3, holder=0)]] * 5)), "nothing left to try")
    assert (verdict.kind, verdict.sure) == ("cause", "medium")


def test_waiting_in_passing_is_nothing() -> None:
    known = after(of_looks([asleep(1), *[[]] * 19], [[held(1)]]))
    assert judge(known, "nothing left to try").kind == "nothing"
    assert judge(known, "nothing left to try").sure == "high"


def test_nobody_is_sure_that_nothing_waits_before_it_was_looked_at() -> None:
    known = known_of(observation("totals", sleeps=None), replace(FUTEX_QUIET, sleeps=None))
    assert [step.probe for step in next_steps(known)] == [probes.SLEEPS]
    assert judge(known, "time").sure == "medium"
    # A container's threads are known to the collector alone.
    known = replace(known, target=Target(("-a", "-L", "db"), "this machine (of -L db)", has_threads=False))
    assert next_steps(known) == ()
    assert judge(known, "nothing left to try").sure == "medium"
    assert {one.state for one in hypotheses(known) if one.cause == "other-locks"} == {"not testable"}


def test_no_threads_are_no_evidence() -> None:
    """As of a control group that is not found here: what was not looked at is not ruled out."""
    known = after(sleeps_of([[]] * 3, [[]] * 3, 0, 0))
    assert {one.state for one in hypotheses(known) if one.cause == "other-locks"} == {"not testable"}
    assert judge(known, "nothing left to try").sure == "medium"


def test_several_that_read_a_pipe_of_their_own_wait_for_a_token() -> None:
    """One alone waits for input, as does who reads a pipe that others write."""
    here, there = (replace(one, pipe=77) for one in asleep(1, 2, function="anon_pipe_read"))
    elsewhere = replace(here, tid=3, pipe=78)
    seen = sleeps_of([[here, there, elsewhere], [here, elsewhere]], [[], []], 4, 4)
    assert [(one.function, one.threads) for one in seen.others] == [("anon_pipe_read", 1.0)]
    assert "token" in seen.others[0].what


def test_what_is_no_lock_is_told_beside_the_answer() -> None:
    known = after(of_looks([asleep(1, 2, function="do_signal_stop")] * 10, []))
    verdict = judge(known, "nothing left to try")
    assert verdict.kind == "nothing"
    story = document.make(known, verdict, MACHINE)
    assert [(one.function, one.threads) for one in story.asleep] == [("do_signal_stop", 2)]
    screen = why_screen.render(story, Style(unicode=True, addresses=False), 80)
    assert "2.0 threads are asleep in do_signal_stop(): stopped by a signal" in screen
    # The story is read again; one of an older version does not have this.
    text = document.as_json(story)
    assert document.from_json(text) == story
    older = text.replace('"asleep":', '"before":')
    assert document.from_json(older).asleep == ()


def test_a_redacted_story_names_no_file_and_nobody() -> None:
    known = after(of_looks([asleep(1, 2, 3)] * 10, [[held(1, 2, 3)]] * 5))
    text = document.as_json(redacted(known, judge(known, "proven"), MACHINE))
    assert "data.lock" not in text
    assert "backup" not in text
    assert "worker" not in text
    assert "Tasks wait for a lock on file-1, which command-" in text


def test_one_job_that_queues_for_a_file_is_hardly_the_cause_of_a_whole_machine() -> None:
    """Who is named waits for it all the same; so does each of several, and who waits now and then."""
    alone, several = [asleep(1)] * 10, [asleep(1), asleep(2)] * 5
    for looks, options, sure in (
        (alone, ("-a",), "low"),
        (alone, ("-p", "1"), "high"),
        (several, ("-a",), "high"),
        ([*[asleep(1)] * 7, *[[]] * 3], ("-a",), "high"),
    ):
        known = after(of_looks(looks, [[held(1)]] * 5))
        known = replace(known, target=replace(known.target, options=options))
        cause = judge(known, "time").cause
        assert cause is not None
        assert (cause.cause, cause.sure) == ("file-lock", sure)


@pytest.mark.parametrize("target", [("-a",), ("-p", "1"), ("-t", "1")])
def test_threads_of_a_target(target: tuple[str, ...]) -> None:
    assert (1, 1) in threads_wanted(Target(target, ""))


def test_threads_of_what_is_gone() -> None:
    assert threads_wanted(Target(("-p", "999999999"), "")) == []
    assert threads_wanted(Target(("-t", "999999999"), "")) == []
    assert threads_wanted(Target(("-G", "/there/is/no/such/group"), "")) == []


@pytest.mark.parametrize(
    ("waiters", "function", "kind"),
    [
        (0.05, "submit_bio_wait", "nothing"),
        (0.05, "request_wait_answer", "nothing"),
        # Queues that are not small beside it.
        (0.5, "submit_bio_wait", "cause"),
        # A program that answers for a file system, and has nothing to do; a signal that others decide to send.
        (0.05, "fuse_dev_do_read", "cause"),
        (0.05, "sigsuspend", "cause"),
    ],
)
def test_what_is_slow_and_no_lock_is_the_answer_where_locks_are_small_beside_it(
    waiters: float, function: str, kind: str
) -> None:
    sleeps = of_looks([asleep(1, 2, 3, function=function)] * 10, [])
    seen = observation(probes.SLEEPS, sleeps=sleeps)
    known = known_of(busy("totals", waiters=waiters, sleeps=None), replace(FUTEX_QUIET, sleeps=None), seen)
    verdict = judge(known, "nothing left to try")
    assert verdict.kind == kind
    title = document.make(known, verdict, MACHINE).verdict.title
    assert ("3.0 threads sleep for something else: " in title) == (kind == "nothing")


def test_what_is_slow_adds_up_over_functions() -> None:
    looks = [[*asleep(1, 2, function="submit_bio_wait"), *asleep(3, 4, function="__sync_dirty_buffer")]] * 4
    slow = of_looks([[*one, *asleep(5, 6, 7, function="folio_wait_bit")] for one in looks], []).slow
    assert slow is not None
    assert (slow.what, slow.threads) == ("the disk", 4)
    assert of_looks([asleep(1, 2, function="do_epoll_wait")] * 4, []).slow is None
