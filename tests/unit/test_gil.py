# SPDX-License-Identifier: GPL-2.0-or-later
"""CPython's lock of its interpreter, by the words that its threads wait at."""

from dataclasses import replace
from typing import Any

import pytest

from lockline.analysis.findings import Process, UserLock
from lockline.analysis.model import Figures
from lockline.analysis.user_space.futex_waits import LOCK, FutexWaits
from lockline.analysis.user_space.hidden_waits import hidden_waits
from lockline.analysis.user_space.user_evidence import (
    BEHAVIOUR,
    GIL,
    OCAML_LOCK,
    PYPY_GIL,
    PYPY_LOCK,
    RUBY_GVL,
    Calls,
    Seen,
)
from lockline.analysis.user_space.user_locks import recognise
from lockline.recording import rows
from lockline.render.findings import fact_words
from lockline.rules.user_lock import _claim
from user_words import LIBC, MS, PEERS, WINDOW, one, word

NO_FIGURES = Figures(0, 0, 0, 0, ())


def gil(name: str = "", comm: str = "python3", mutex: int = 8, **figures: Any) -> list[Seen]:
    """The GIL's words: two of its condition variable, its mutex, one of the second condition variable.

    mutex: so many bytes behind the first, 16 since glibc 2.41.
    """
    timed = PEERS | {"timed": 1000, "timed_out": 700, "timed_out_ns": 3500 * MS, "wait_ns": 1400 * MS} | figures
    return [
        word(2, 4096, name, comm, **timed),
        word(3, 4100, name and f"{name}+4", comm, **timed),
        word(4, 4096 + mutex, name and f"{name}+{mutex}", comm, value_2=1000, wait_ns=MS),
        word(5, 4096 + 88, name and f"{name}+88", comm, wait_ns=MS),
    ]


@pytest.mark.parametrize(("timed_out", "mutex"), [(700, 8), (900, 8), (700, 16)])
def test_the_gil_is_a_lock_though_its_waits_time_out(timed_out: int, mutex: int) -> None:
    found = one(recognise(gil("_PyRuntime+0x1a0", timed_out=timed_out, mutex=mutex), (), WINDOW))
    assert (found.make, found.lock, found.sure) == (GIL, True, "high")
    assert found.words == (2, 3, 4, 5)
    assert "2.8 threads wait for it on average" in found.why


@pytest.mark.parametrize("mutex", [8, 16])
def test_the_gil_of_a_stripped_python_is_known_by_its_layout(mutex: int) -> None:
    found = one(recognise(gil(mutex=mutex), (), WINDOW))
    assert (found.make, found.sure) == (GIL, "medium")


@pytest.mark.parametrize(
    "words",
    [
        # A timed condition variable with its mutex behind it, in a program of another kind.
        gil(comm="server"),
        # A queue in Python: its words lie otherwise.
        gil()[:2],
        # Workers that a dispatcher wakes, which does not wait there.
        gil(both=0),
    ],
    ids=["not python", "not its layout", "dispatcher"],
)
def test_what_only_looks_like_the_gil_is_a_condition_variable(words: list[Seen]) -> None:
    assert GIL not in {found.make for found in recognise(words, (), WINDOW)}


def test_a_word_that_is_only_woken_is_no_gil_of_its_own() -> None:
    """The mutex of the second condition variable: unlocked with a wake-up that found nobody."""
    woken = word(6, 4096 + 96, "_PyRuntime+0x200", "python3", calls=0, slept=0, wait_ns=0, wakes=1, wakes_empty=1)
    found = one(recognise([*gil("_PyRuntime+0x1a0"), woken], (), WINDOW))
    assert found.words == (2, 3, 4, 5, 6)


def test_take_gil_tells_the_gil_of_a_sub_interpreter() -> None:
    waits = (Calls(1, ("futex_abstimed_wait_cancelable", "take_gil", "PyEval_RestoreThread"), (), 10, 10),)
    found = one(recognise([word(2, 4096, comm="uwsgi", timed=1000, waits=waits)], (), WINDOW))
    assert (found.make, found.sure) == (GIL, "high")


@pytest.mark.parametrize(
    ("make", "waiting", "claim"),
    [
        (GIL, 0.27, "gil-at-times"),
        (GIL, 2.0, "gil-bound"),
        (PYPY_GIL, 0.2, "gil-at-times"),
        (PYPY_GIL, 2.0, "gil-bound"),
        (OCAML_LOCK, 0.2, "master-lock-at-times"),
        (OCAML_LOCK, 2.0, "master-lock-bound"),
        (RUBY_GVL, 0.2, "gvl-at-times"),
        (RUBY_GVL, 0.5, "gvl-bound"),
    ],
)
def test_a_program_that_hardly_waits_is_not_bound(make: str, waiting: float, claim: str) -> None:
    """That threads wait for the lock is as sure; that it holds the program back is not said."""
    seen = word(1, 4096)
    futex = FutexWaits(seen.futex, seen.total, LOCK, "", NO_FIGURES, NO_FIGURES, make=make)
    told = _claim(futex, Process("app", 7), UserLock("gil", ""), None, None, waiting)
    assert told.what == claim
    assert "bound" in fact_words(told) if claim.endswith("bound") else "at times" in fact_words(told)


PYPY = "/usr/lib/x86_64-linux-gnu/libpypy3.9-c.so"


def pypy_gil(file: str = PYPY) -> list[Seen]:
    """As recorded with PyPy 7.3.11, six threads that compute: 16.5 s at the mutex, 1.8 s at either word of the other.

    One thread looks each 0.1 ms; the others queue behind it.
    """
    looks = PEERS | {"timed": 1000, "timed_out": 930, "timed_out_ns": 167 * MS, "wait_ns": 450 * MS}
    words = [
        word(2, 0x48CB7C, comm="pypy3", **looks),
        word(3, 0x48CB78, comm="pypy3", **looks),
        word(4, 0x48CB80, comm="pypy3", ops=3, value_2=1000, owners=90, owner_samples=90, wait_ns=4100 * MS),
    ]
    return [replace(entry, futex=entry.futex._replace(object=file)) for entry in words]


def test_pypys_gil_is_its_condition_and_the_mutex_of_those_who_queue() -> None:
    found = one(recognise(pypy_gil(), (), WINDOW))
    assert (found.make, found.lock, found.sure, set(found.words)) == (PYPY_GIL, True, "high", {2, 3, 4})
    assert "5.0 threads wait for it on average" in found.why


@pytest.mark.parametrize("file", ["", "/usr/lib/libpool.so", "[heap]"])
def test_a_mutex_and_a_poll_of_another_file_are_no_gil(file: str) -> None:
    assert PYPY_GIL not in {found.make for found in recognise(pypy_gil(file), (), WINDOW)}


def pypy_lock(waiters: int, file: str = PYPY) -> list[Seen]:
    """Waits for a lock of PyPy's: a sem_t, below functions without names."""
    frames = (rows.Frame(1, "__new_sem_wait_slow64.constprop.0", 0, LIBC), rows.Frame(1, "", 0, file))
    names = ("__futex_abstimed_wait_common", frames[0].symbol)

    def calls(tasks: range) -> tuple[Calls, ...]:
        return tuple(Calls(task, names, (file,), 10, 10 * MS, frames) for task in tasks)

    if waiters == 1:
        return [word(n, 4096 * n, comm="pypy3", waiters=1, waits=calls(range(n, n + 1))) for n in range(2, 7)]
    peers = PEERS | {"waiters": 6, "wakers": 6, "both": 6, "wait_ns": 5 * WINDOW}
    return [word(2, 4096, comm="pypy3", waits=calls(range(1, 7)), wakers_of=calls(range(1, 7)), **peers)]


def test_a_lock_of_pypy_is_known_by_its_file() -> None:
    assert one(recognise(pypy_lock(6), (2,), WINDOW)).make == PYPY_LOCK
    assert one(recognise(pypy_lock(6, "/usr/bin/server"), (2,), WINDOW)).make == BEHAVIOUR


@pytest.mark.parametrize(("file", "kinds"), [(PYPY, ["pypy condition"]), ("/usr/bin/server", [])])
def test_conditions_of_pypy_are_told_to_be_unseen(file: str, kinds: list[str]) -> None:
    """Each thread that waits for a Semaphore waits at a lock of its own."""
    assert [found.kind for found in hidden_waits(pypy_lock(1, file), (), {}, WINDOW)] == kinds
