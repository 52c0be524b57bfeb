# SPDX-License-Identifier: GPL-2.0-or-later
"""Sessions of PostgreSQL that wait for locks of their database, by the titles of their processes."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockline.analysis.findings import Task
from lockline.investigation.choice import judge
from lockline.investigation.counters import parse_arguments
from lockline.investigation.hypotheses import culprit
from lockline.investigation.sessions import Session, session_of, session_waits
from why_cases import NOBODY_SLEEPS, known_of, observation

WAITS, WORKS = Session(1, "waits", "UPDATE"), Session(9, "works", "SELECT")
LEFT = Session(7, "in transaction")


@pytest.mark.parametrize(
    ("title", "session"),
    [
        ("postgres: app shop [local] UPDATE waiting          ", Session(1, "waits", "UPDATE")),
        ("postgres: 16/main: app shop 10.0.0.1(5432) LOCK TABLE waiting", Session(1, "waits", "TABLE")),
        ("postgres: app shop [local] idle in transaction", Session(1, "in transaction")),
        ("postgres: app shop [local] idle in transaction (aborted)", Session(1, "in transaction")),
        ("postgres: app shop [local] idle", Session(1, "idle")),
        ("postgres: app shop [local] SELECT", Session(1, "works", "SELECT")),
        ("postgres: checkpointer ", None),
        ("postgres: background writer", None),
        ("postgres: logical replication launcher", None),
        ("/usr/lib/postgresql/15/bin/postgres -D /data waiting", None),
        ("", None),
    ],
)
def test_titles(title: str, session: Session | None) -> None:
    """https://www.postgresql.org/docs/current/monitoring-ps.html"""
    assert session_of(1, title) == session


@given(st.text())
def test_any_title(title: str) -> None:
    session_of(1, title)
    session_of(1, "postgres: " + title)


@given(st.text())
def test_where_arguments_are(stat: str) -> None:
    assert parse_arguments(stat) >= 0


def test_how_many_wait_on_average() -> None:
    """Three at two of four looks; half of all threads were looked at."""
    three = [WAITS, replace(WAITS, tgid=2), replace(WAITS, tgid=3, statement="DELETE"), WORKS]
    found = session_waits("postgres", [three, [], three, [WORKS]], 0.5)
    assert found is not None
    assert (found.waiters, found.looks, found.statement, found.working, found.left) == (3.0, 2, "UPDATE", 1.0, 0)
    assert session_waits("postgres", [[WORKS], [LEFT]], 1.0) is None
    assert session_waits("postgres", [], 1.0) is None


@pytest.mark.parametrize(("looks", "left"), [(5, 7), (4, 7), (3, 0)])
def test_a_session_that_is_left_in_a_transaction(looks: int, left: int) -> None:
    """At nearly all looks: those that commit soon are in a transaction now and then."""
    moments = [[WAITS, LEFT]] * looks + [[WAITS]] * (5 - looks)
    found = session_waits("postgres", moments, 1.0)
    assert found is not None
    assert found.left == left
    sleeps = replace(NOBODY_SLEEPS, sessions=found)
    known = known_of(observation("totals", sleeps=sleeps), observation("futex", user_waiters=0.0, sleeps=sleeps))
    verdict = judge(known, "nothing left to try")
    assert verdict.cause is not None
    assert verdict.cause.cause == "database-lock"
    assert [one.action for one in verdict.cause.remedies][-2:] == ["why-ask-postgres", "row-lock-less"]
    blamed = culprit(verdict.cause, known)
    assert (blamed == Task("postgres", 7)) == bool(left)
