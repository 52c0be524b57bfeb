# SPDX-License-Identifier: GPL-2.0-or-later
"""Pools that the names of their functions tell from workers that pass jobs on."""

import pytest

from lockline.analysis.user_space.own_pools import borrowed_in, borrows
from lockline.analysis.user_space.user_evidence import JAVA_QUEUE, OWN_POOL, Calls
from lockline.analysis.user_space.user_locks import recognise
from lockline.recording import rows
from user_words import LIBC, WINDOW, one, word


@pytest.mark.parametrize(
    "name",
    [
        "com.zaxxer.hikari.util.ConcurrentBag.borrow",
        "org.apache.commons.pool2.impl.GenericObjectPool.borrowObject",
        "java.sql.Connection shop.Db.getConnection(int)",
        "r2d2::Pool<M>::get_timeout",
        "<r2d2::Pool<M>>::get",
        "db.py:ConnectionPool.acquire",
        "db.py:QueuePool._do_get",
        "connectionpool.py:HTTPConnectionPool._get_conn",
        "shop::buffers::check_out",
        "pool_take",
    ],
)
def test_names_of_what_borrows(name: str) -> None:
    assert borrows(name)


@pytest.mark.parametrize(
    "name",
    [
        "app.Worker.acquireJob",
        "jobs.py:TaskQueue.lease",
        "shop.ThreadPool.getTask",
        "app.Stage.take",
        "queue.py:Ring.get",
        "shop::pool::worker",
        "net.Connection.get",
        "Pool::spool",
        "main",
        "",
    ],
)
def test_names_of_what_does_not(name: str) -> None:
    assert not borrows(name)


def call(task: int, *functions: str) -> Calls:
    frames = (rows.Frame(1, "pthread_cond_wait", 0, LIBC), *(rows.Frame(2, name, 0, "[anon]") for name in functions))
    return Calls(task, tuple(frame.symbol for frame in frames), (LIBC, "[anon]"), 100, 1000, frames)


@pytest.mark.parametrize(
    ("functions", "make"),
    [
        # Recorded: 18.04 s of eight threads that share two connections of HikariCP, by their own clock 18.11.
        (("com.zaxxer.hikari.util.ConcurrentBag.borrow", "com.zaxxer.hikari.pool.HikariPool.getConnection"), OWN_POOL),
        (("org.apache.commons.pool2.impl.LinkedBlockingDeque.takeFirst", "shop.Objects.borrowObject"), OWN_POOL),
        (("app.Stage.take", "app.Stage.run"), JAVA_QUEUE),
    ],
)
def test_threads_of_java_that_take_what_they_put(functions: tuple[str, ...], make: str) -> None:
    """By a queue of the package: a pool, or stages that pass jobs on."""
    takes = "java.util.concurrent.SynchronousQueue.poll"
    words = [
        word(
            number,
            4096 * number,
            wait_ns=WINDOW // 2,
            waits=(call(number, takes, *functions),),
            wakers_of=(call(2 + (number - 1) % 3, "app.Till.give"),),
        )
        for number in (2, 3, 4)
    ]
    found = one(recognise(words, (), WINDOW))
    assert (found.make, found.lock, found.unclear) == (make, make == OWN_POOL, make != OWN_POOL)
    assert ("by this name it is a pool" in found.why) == (make == OWN_POOL)


def test_a_few_waits_with_such_a_name_tell_nothing() -> None:
    waits = [call(2, "app.Pool.borrow"), *(call(task, "app.Stage.run") for task in (3, 4))]
    assert borrowed_in([word(2, 4096, waits=tuple(waits))]) == ""
    assert borrowed_in([word(2, 4096, waits=tuple(waits[:1]))]) == "app.Pool.borrow"
