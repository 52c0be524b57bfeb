# SPDX-License-Identifier: GPL-2.0-or-later
"""What sessions of PostgreSQL do, by the titles of their processes.

Locks of rows, tables and the like are no futexes: who waits for one sleeps until a signal comes (ProcSleep() of
src/backend/storage/lmgr/proc.c), as who waits for a client does.  The title says which it is
(https://www.postgresql.org/docs/current/monitoring-ps.html; update_process_title is on by default).
"""

from collections import Counter
from collections.abc import Sequence
from typing import Literal, TypeAlias

from lockline.base.values import dataclass

# waits: for a lock.  in transaction: it waits for its client, and keeps what it has locked.
Doing: TypeAlias = Literal["waits", "in transaction", "idle", "works"]
# What the server is called: by itself, by Red Hat's packages, by EnterpriseDB.
SERVERS = ("postgres", "postmaster", "edb-postgres")
_TITLE = "postgres: "
# Looks of those with waiters, at which one session is in transaction: it may have what they wait for.
_NEARLY_ALL = 0.8
_ENOUGH = 3


@dataclass(frozen=True, slots=True)
class Session:
    """A session at one moment.  statement: the one that it is in, "" where it is in none."""

    tgid: int
    doing: Doing
    statement: str = ""


@dataclass(frozen=True, slots=True)
class SessionWaits:
    """Sessions that wait for locks of their database.  waiters: on average; looks: with any.

    statement: that most are in.  working: sessions that neither wait nor are idle, on average over these looks; left: a
    session that is in transaction at nearly all of them while its client does nothing, 0: none.
    """

    comm: str
    waiters: float
    looks: int
    statement: str
    working: float
    left: int


def session_of(tgid: int, title: str) -> Session | None:
    """The session that a process has, by its title; None: it has none, as the server's own helpers."""
    words = title.rstrip().removeprefix(_TITLE).split()
    # Cluster, user, database, client, and what it does.
    if not title.startswith(_TITLE) or len(words) < 4:
        return None
    if words[-1] == "waiting":
        return Session(tgid, "waits", words[-2])
    if words[-1] == "idle":
        return Session(tgid, "idle")
    if words[-3:] == ["idle", "in", "transaction"] or words[-4:-1] == ["idle", "in", "transaction"]:
        return Session(tgid, "in transaction")
    return Session(tgid, "works", words[-1])


def session_waits(comm: str, looks: Sequence[Sequence[Session]], part: float) -> SessionWaits | None:
    """What sessions waited for at these looks; part: of all threads, that were looked at.  None: none waited."""
    with_waiters = [moment for moment in looks if any(one.doing == "waits" for one in moment)]
    waiting = [one for moment in with_waiters for one in moment if one.doing == "waits"]
    if not waiting:
        return None
    left = Counter(one.tgid for moment in with_waiters for one in moment if one.doing == "in transaction")
    tgid, times = left.most_common(1)[0] if left else (0, 0)
    working = sum(one.doing == "works" for moment in with_waiters for one in moment)
    return SessionWaits(
        comm=comm,
        waiters=len(waiting) / len(looks) / part,
        looks=len(with_waiters),
        statement=Counter(one.statement for one in waiting).most_common(1)[0][0],
        working=working / len(with_waiters),
        left=tgid if times >= max(_ENOUGH, _NEARLY_ALL * len(with_waiters)) else 0,
    )
