# SPDX-License-Identifier: GPL-2.0-or-later
"""Locks that a database keeps on rows and tables, for which each of its threads waits at a condition of its own."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from lockline.analysis.user_space.user_evidence import (
    HALF,
    ROW_LOCK,
    TABLE_LOCK,
    Processes,
    Recognised,
    Seen,
    by_waiting,
    circles,
    has,
    seems_mutex,
    share_from,
    share_of,
    total_of,
    waiting_still,
)

# MariaDB and MySQL: the server asks the storage engine for a row in handler::ha_*() (sql/handler.h).  Where another
# transaction has it locked, InnoDB waits there at the transaction's own condition variable (lock_wait() in
# storage/innobase/lock/lock0lock.cc, MariaDB 10.6 and later; lock_wait_suspend_thread() in MySQL and before).
_ASKS_FOR_ROW = ("handler::ha_", "handler::read_range_", "handler::multi_range_read_")
_CONDITION = ("pthread_cond_wait", "pthread_cond_timedwait", "pthread_cond_clockwait")
# Locks of rows are kept until the transaction ends, and let go of below these (sql/handler.cc).
_ENDS_TRANSACTION = ("ha_commit_trans", "ha_commit_one_phase", "ha_commit_low", "ha_rollback_trans", "ha_rollback_low")

# Statements wait here for one that changes the table, and that one for transactions that have used it (sql/mdl.cc).
_WAITS_FOR_TABLE = ("MDL_wait::timed_wait", "MDL_context::acquire_lock")

# Conditions at the same distance from each other, from which on they are of one array.
_ENOUGH_OF_ARRAY = 4


def _waits_for_row(entry: Seen) -> bool:
    # A page that is read from disk is waited for there too; a mutex is no condition.
    if seems_mutex(entry.total):
        return False
    at_condition = share_of(
        entry.waits, lambda call: has(call.functions, _CONDITION) and has(call.functions, _ASKS_FOR_ROW)
    )
    return at_condition >= HALF


def _let_go(words: Sequence[Seen]) -> float:
    """The share of the sampled wakes that come from the end of a transaction."""
    return share_from([call for entry in words for call in entry.wakes], _ENDS_TRANSACTION)


def _unsampled(circle: Sequence[Seen], words: Mapping[int, Seen]) -> list[Seen]:
    """Words beside those of a circle at which no wait was sampled: who waits there is known by where they lie.

    A condition variable has two words.  The transactions of a pool lie in an array, each with its own condition.
    """
    known = {_condition_of(entry) for entry in circle}
    places = sorted(known)
    steps = [after - before for before, after in pairwise(places)]
    step = min(steps, default=0)
    if len(places) >= _ENOUGH_OF_ARRAY and all(at % step == 0 for at in steps):
        known.update(range(places[0] - step, places[-1] + step + 1, step))
    return [
        entry
        for entry in words.values()
        if not entry.waits and not seems_mutex(entry.total) and _condition_of(entry) in known
    ]


def _condition_of(entry: Seen) -> int:
    """The address of its two words, if it is a condition variable."""
    return entry.futex.address & ~7


def row_locks(processes: Processes, window_ns: int) -> Iterable[Recognised]:
    """All rows that the same threads want are one lock: which row it is, the threads do not tell."""
    for words in processes.values():
        left = dict(words)
        for circle in circles([entry for entry in words.values() if _waits_for_row(entry)]):
            let_go = _let_go(circle)
            if let_go < HALF or not total_of(circle, "slept"):
                continue
            circle += _unsampled(circle, left)
            for entry in circle:
                left.pop(entry.futex.address, None)
            threads = waiting_still(circle, window_ns)
            circle = by_waiting(circle)
            yield Recognised(
                tuple(entry.futex.id for entry in circle),
                ROW_LOCK,
                lock=True,
                sure="high",
                why=f"threads that ask for a row wait at a condition of their own: {threads:.1f} on average;"
                f" {let_go:.0%} of their wakes come from the end of a transaction",
            )


def table_locks(processes: Processes, window_ns: int) -> Iterable[Recognised]:
    """All tables that threads wait for are one lock.

    Such a wait is never idle, and ends each second for a look at the session.
    """
    for words in processes.values():
        waited = [
            entry
            for entry in words.values()
            if not seems_mutex(entry.total) and share_from(entry.waits, _WAITS_FOR_TABLE) >= HALF
        ]
        if not waited:
            continue
        yield Recognised(
            tuple(entry.futex.id for entry in by_waiting(waited)),
            TABLE_LOCK,
            lock=True,
            sure="high",
            why=f"threads wait for locks of tables: {waiting_still(waited, window_ns):.1f} on average",
        )
