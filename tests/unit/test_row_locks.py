# SPDX-License-Identifier: GPL-2.0-or-later
"""Locks of a database's rows, for which threads wait at conditions of their own."""

from dataclasses import replace

import pytest

from lockline.analysis.user_space.user_evidence import ROW_LOCK, TABLE_LOCK, Calls
from lockline.analysis.user_space.user_locks import recognise
from user_words import WINDOW, parked

UPDATE = ("__futex_wait", "pthread_cond_timedwait@@GLIBC_2.3.2", "handler::ha_index_read_map", "mysql_update")
READ_PAGE = ("__futex_wait", "pthread_mutex_lock", "handler::ha_index_read_map", "mysql_update")
COMMIT = ("pthread_cond_signal", "ha_commit_trans", "trans_commit_stmt")
JOB = ("pthread_cond_signal", "tpool::thread_pool_generic::submit_task")


@pytest.mark.parametrize(
    ("waits", "wakes", "found"),
    [(UPDATE, COMMIT, True), (UPDATE, JOB, False), (READ_PAGE, COMMIT, False), (UPDATE[:2], COMMIT, False)],
)
def test_rows_that_transactions_have_locked(waits: tuple[str, ...], wakes: tuple[str, ...], found: bool) -> None:
    """Each thread waits at a condition of its own; those who commit wake it."""
    words = [
        replace(entry, wakes=tuple(replace(call, functions=wakes) for call in entry.wakes))
        for entry in parked(waits, (2, 3, 4))
    ]
    locks = [lock for lock in recognise(words, (), WINDOW) if lock.lock]
    assert [(lock.make, lock.sure, lock.words) for lock in locks] == [(ROW_LOCK, "high", (2, 3, 4))] * found


OPEN_TABLE = ("pthread_cond_timedwait", "MDL_wait::timed_wait", "MDL_context::acquire_lock", "open_table")
INSIDE = ("pthread_mutex_lock", "MDL_map::find_or_insert", "MDL_context::try_acquire_lock_impl", "open_table")


@pytest.mark.parametrize(("waits", "found"), [(OPEN_TABLE, True), (INSIDE, False), (OPEN_TABLE[:1], False)])
def test_tables_that_others_use(waits: tuple[str, ...], found: bool) -> None:
    """Nobody wakes them: all of their waits end by a timeout, and begin anew."""
    words = [
        replace(entry, wakes=(), total=entry.total._replace(timed_out=entry.total.slept, tasks_woken=0))
        for entry in parked(waits, ())
    ]
    locks = [lock for lock in recognise(words, (), WINDOW) if lock.make == TABLE_LOCK]
    assert [(lock.sure, lock.lock, set(lock.words)) for lock in locks] == [("high", True, {2, 3, 4})] * found


def test_conditions_of_transactions_at_which_no_wait_was_sampled() -> None:
    """They lie in an array; the words of a condition variable of glibc 2.41 pass the 2 like any other number."""
    at = dict(enumerate(parked(UPDATE, (2, 3, 4)), 10))
    sampled = [
        replace(
            at[10 + number % 3],
            futex=at[10].futex._replace(id=number, address=0x1000 + 0xB00 * number),
            total=at[10].total._replace(value_2=1),
            wakes=(Calls((number + 1) % 3 + 2, COMMIT, (), 5, 0),),
        )
        for number in (0, 1, 3, 4, 6)
    ]
    unsampled = [
        replace(sampled[0], futex=at[10].futex._replace(id=20 + number, address=address), waits=(), wakes=())
        for number, address in enumerate(
            (0x1000 + 0xB00 * 2, 0x1000 + 0xB00 * 7 + 4, 0x1004, 0x1000 + 0xB00 * 9, 0x1040)
        )
    ]
    mutex = replace(
        unsampled[0],
        futex=at[10].futex._replace(id=30, address=0x1000 + 0xB00 * 5),
        total=at[10].total._replace(value_2=at[10].total.calls),
    )
    locks = [one for one in recognise([*sampled, *unsampled, mutex], (), WINDOW) if one.make == ROW_LOCK]
    assert [set(one.words) for one in locks] == [{0, 1, 3, 4, 6, 20, 21, 22}]
