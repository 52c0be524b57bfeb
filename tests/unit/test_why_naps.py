# SPDX-License-Identifier: GPL-2.0-or-later
"""Threads that ask for the lock of a file without waiting, and sleep in between, as SQLite does."""

import os
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from lockline.cli import why_sleeps
from lockline.cli.why import redacted
from lockline.cli.why_naps import filter_of
from lockline.investigation import probes
from lockline.investigation.choice import judge
from lockline.investigation.hypotheses import culprit, hypotheses
from lockline.investigation.model import Investigation
from lockline.investigation.sleeps import (
    Asker,
    Held,
    LockEntry,
    Naps,
    OwnLock,
    Sleeps,
    asked_for,
    candidates,
    is_database,
    locks_of_their_own,
    parse_locks,
)
from lockline.render import why_words
from lockline.render.documents import why as document
from why_cases import FUTEX_QUIET, MACHINE, NOBODY_SLEEPS, known_of, observation

FILE = "fe:00:960803"
# A connection that writes: RESERVED, and SHARED together with who reads.
WRITES = LockEntry(1, False, 9, FILE, True, 1073741825)
READS = LockEntry(2, False, 9, FILE, False, 1073741826)


def asker(tgid: int, refused: float = 40.0, naps: float = 50.0, asleep: float = 0.9) -> Asker:
    """A process that asks for the lock of one database."""
    return Asker(tgid, "worker", "/srv/orders.db", "hrtimer_nanosleep", asleep, refused, naps)


def held(looks: int) -> list[Held]:
    """At so many looks one process had it."""
    return [Held("file-lock", "/srv/orders.db", (1, 2), 9, "backup", "hrtimer_nanosleep")] * looks


def after(sleeps: Sleeps) -> Investigation:
    """An investigation that looked at everything, and saw nothing but this."""
    seen = observation(probes.SLEEPS, sleeps=sleeps)
    return known_of(observation("totals", sleeps=None), replace(FUTEX_QUIET, sleeps=None), seen)


def test_the_bytes_of_a_lock() -> None:
    text = (
        "1: POSIX  ADVISORY  WRITE 9 fe:00:960803 1073741825 1073741825\n2: POSIX ADVISORY READ 9 fe:00:960803 x EOF\n"
    )
    assert parse_locks(text) == (WRITES, LockEntry(2, False, 9, FILE, False, 0))


def test_who_writes_has_the_lock_before_those_who_read() -> None:
    others = [LockEntry(3, False, pid, FILE, False, 1073741826) for pid in (10, 11)]
    assert candidates([READS, WRITES, *others]) == {FILE: (9,)}
    assert candidates([READS, *others]) == {FILE: (9, 10, 11)}
    # Who waits has nothing yet; of a lock of an open file nobody is named.
    assert candidates([LockEntry(1, True, 8, FILE), LockEntry(1, False, -1, FILE)]) == {FILE: (-1,)}


def test_the_kernel_counts_refusals_of_that_file_alone() -> None:
    assert filter_of("fe:01:960803") == "ret == -11 && i_ino == 960803 && s_dev == 266338305"


def test_a_thread_waits_in_the_naps_that_follow_a_refusal() -> None:
    """Half of the naps of the second one are for something else; the third one was never refused."""
    (lock,) = asked_for([asker(1, 50.0), asker(2, 25.0), asker(3, 0.0)], held(3))
    assert (lock.name, lock.kind) == ("/srv/orders.db", "file-lock")
    assert lock.waiters == pytest.approx(0.9 + 0.45)
    assert lock.refused == pytest.approx(37.5)
    assert (lock.holder, lock.known, lock.holder_looks) == (9, 3, 3)
    # How often it naps is not known.
    assert asked_for([asker(1, naps=0.0)], [])[0].waiters == pytest.approx(0.9)


def test_who_asks_often_waits_for_the_holder() -> None:
    known = after(replace(NOBODY_SLEEPS, blocked=asked_for([asker(1), asker(2)], held(5))))
    verdict = judge(known, "nothing left to try")
    assert verdict.cause is not None
    # Never sure: nobody sees what they would do with the lock.
    assert (verdict.kind, verdict.cause.cause, verdict.sure) == ("cause", "file-lock", "medium")
    assert "backup" in str(culprit(verdict.cause, known))
    assert any("refused 40.0 times" in why_words.fact_words(one.fact) for one in verdict.cause.evidence)


def test_who_asks_seldom_may_stand_by() -> None:
    """As the others do while one of them leads: nothing is held back, but that is not sure."""
    known = after(replace(NOBODY_SLEEPS, blocked=asked_for([asker(1, 1.0, 1.0), asker(2, 1.0, 1.0)], held(5))))
    verdict = judge(known, "nothing left to try")
    assert (verdict.kind, verdict.sure) == ("nothing", "medium")
    states = {(one.cause, one.state) for one in hypotheses(known) if one.cause in ("polling", "other-locks")}
    assert states == {("polling", "not testable"), ("other-locks", "ruled out")}


def test_a_database_is_locked_inside_of_its_file() -> None:
    assert locks_of_their_own([[READS, WRITES]] * 4, {9}) == {(9, FILE): (1.0, {1073741825})}
    # It comes and goes.
    assert locks_of_their_own([[READS, WRITES], [READS], [], []], {9}) == {(9, FILE): (0.25, {1073741825})}
    # One that keeps even readers out all the time is a database of one connection alone.
    assert locks_of_their_own([[replace(READS, writes=True)]] * 4, {9}) == {}
    # Not of this target, or others read it too: then the kernel refuses it.
    assert locks_of_their_own([[WRITES]] * 4, {8}) == {}
    assert locks_of_their_own([[WRITES, LockEntry(3, False, 10, FILE, False, 1073741826)]] * 4, {9}) == {}
    assert is_database("/srv/orders.db", {1073741825})
    assert is_database("/srv/orders.db-shm", {120})
    assert not is_database("/srv/orders.db", {120})


def test_the_file_with_a_process_number_is_no_database() -> None:
    """A server has that lock for as long as it lives; another one that comes and goes may be anything."""
    whole = LockEntry(1, False, 9, FILE)
    assert locks_of_their_own([[whole]] * 4, {9}) == {}
    assert locks_of_their_own([[whole], [], [whole], []], {9}) == {(9, FILE): (0.5, {0})}
    assert not is_database("/run/server.pid", {0})


@pytest.mark.parametrize(
    ("threads", "rate", "written", "database", "waiters"),
    [
        (5, 40.0, 1.0, True, 4.0),
        (5, 40.0, 0.3, True, 0.0),
        (5, 1.0, 1.0, True, 0.0),
        (1, 40.0, 1.0, True, 0.0),
        (5, 40.0, 1.0, False, 0.0),
    ],
)
def test_connections_of_one_process_nap_for_each_other(
    threads: int, rate: float, written: float, database: bool, waiters: float
) -> None:
    own = OwnLock("server", 9, "/srv/orders.db", written, database)
    sleeps = replace(NOBODY_SLEEPS, naps=(Naps("server", 9, threads, rate, "unixSleep"),), own=(own,))
    known = after(sleeps)
    verdict = judge(known, "nothing left to try")
    if waiters:
        assert verdict.cause is not None
        assert (verdict.cause.cause, verdict.cause.waiters, verdict.sure) == ("file-lock", waiters, "low")
    else:
        # It stays open, and "no lock" is not sure.
        assert (verdict.kind, verdict.sure) == ("nothing", "medium")
    assert any("orders.db" in why_words.fact_words(one.claim) for one in hypotheses(known))
    text = document.as_json(redacted(known, verdict, MACHINE))
    assert "orders.db" not in text


def test_open_files_are_looked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server has thousands of them; all processes that nap share what may be read."""
    reads = []
    monkeypatch.setattr(why_sleeps, "_descriptors", lambda tgids: ((tgids[0], str(n)) for n in range(700)))
    monkeypatch.setattr(why_sleeps, "_open_file", lambda tgid, fd: (reads.append(fd) or int(fd), False))
    files = why_sleeps._OpenFiles()
    for _ in range(5):
        files.names(7, frozenset({FILE}))
    assert len(reads) == why_sleeps.MOST_OWN
    for tgid in (8, 9, 10):
        files.names(tgid, frozenset({FILE}))
    assert len(reads) == why_sleeps.MOST_NAPPERS_FILES


def test_the_path_of_a_locked_file() -> None:
    """Of a file that we have open ourselves."""
    with tempfile.NamedTemporaryFile() as file:
        inode = os.fstat(file.fileno()).st_ino
        found = why_sleeps._OpenFiles().names(os.getpid(), frozenset({f"fe:00:{inode}", "fe:00:1"}))
    assert found == {f"fe:00:{inode}": file.name}
