# SPDX-License-Identifier: GPL-2.0-or-later
"""In which function a critical section is, by the stacks of waits and of wakes."""

from dataclasses import replace

import pytest

from lockline.analysis.user_space.critical_sections import held_in, released_in, waited_in
from lockline.analysis.user_space.futex import owned_by_stack
from lockline.analysis.user_space.futex_waits import LOCK, FutexStack
from lockline.analysis.user_space.user_evidence import OWN_QUEUE
from lockline.recording.rows import Frame, Waiter
from lockline.recording.user_rows import FutexSample
from test_user_rules import MS, of_program

LIBC = "/usr/lib/x86_64-linux-gnu/libc.so.6"
# Frames of a program: main() calls book() at one place, and lets go itself at another.
BOOK, IN_MAIN, MAIN_LETS_GO = Frame(1, "book", 8, ""), Frame(2, "main", 40, ""), Frame(3, "main", 90, "")


@pytest.mark.parametrize(
    ("frames", "waited", "released"),
    [
        # book() ends with a jump to unlock: the frame that is left is main()'s, at the call of book().
        ((IN_MAIN,), "book", "book"),
        ((BOOK, IN_MAIN), "book", "book"),
        # book() returns with the lock held: the section is in main(), too.
        ((MAIN_LETS_GO,), "main", "main"),
        # main() itself ends with a jump to unlock.
        ((), "main", "main"),
    ],
    ids=["jumps", "calls", "caller", "caller jumps"],
)
def test_where_a_lock_is_released(frames: tuple[Frame, ...], waited: str, released: str) -> None:
    start = Frame(9, "__libc_start_call_main", 100, LIBC)
    waits = FutexStack("waiter", 9, 9, 9, (Frame(5, "pthread_mutex_lock", 0, LIBC), BOOK, IN_MAIN, start))
    wakes = FutexStack("waker", 9, 9, 0, (Frame(6, "pthread_mutex_unlock", 0, LIBC), *frames, start))
    futex = of_program(2, LOCK, 5000 * MS, stacks=(waits, wakes))
    assert (waited_in(futex), released_in(futex)) == (waited, released)


def test_a_method_of_java_is_at_one_address_wherever_it_calls() -> None:
    outer, inner = Frame(2, "App.outer", 0, "[java]"), Frame(1, "App.inner", 0, "[java]")
    stacks = (FutexStack("waiter", 9, 9, 9, (inner, outer)), FutexStack("waker", 9, 9, 0, (outer,)))
    assert released_in(of_program(2, LOCK, 5000 * MS, stacks=stacks)) == "App.outer"


def test_where_a_program_begins_is_no_function_of_it() -> None:
    """A script's locks are below the interpreter's own main()."""
    frames = (Frame(1, "PyEval_Vector", 0, "/usr/bin/python3.11"), Frame(2, "__libc_start_call_main", 0, LIBC))
    assert waited_in(of_program(2, LOCK, 5000 * MS, stacks=(FutexStack("waiter", 9, 9, 9, frames),))) == ""


def stack(role: str, *functions: str, samples: int = 9) -> FutexStack:
    frames = tuple(Frame(16 * at, name, 16 * at, "/srv/app") for at, name in enumerate(functions, 1))
    return FutexStack(role, samples, samples, samples, frames)


@pytest.mark.parametrize(
    ("waits", "wakes", "section"),
    [
        # A wrapper of the program's own, and a guard in two functions.
        ([("my_lock", "update", "run")], [("my_unlock", "update", "run")], ("update", "update")),
        ([("M::lock", "G::G", "book", "run")], [("M::unlock", "G::~G", "book", "run")], ("book", "book")),
        # Called from two functions: that with most waits, and that with most wakes.
        (
            [("my_lock", "update", "run"), ("my_lock", "look", "run")],
            [("my_unlock", "look", "run"), ("my_unlock", "update", "run")],
            ("update", "look"),
        ),
        # Both take the lock and release it: who calls them has nothing to do with it.
        ([("put", "run"), ("get", "run")], [("get", "run")], ("put", "get")),
        # As Go calls what a defer does.
        ([("main.book", "main.run")], [("main.book.deferwrap1", "main.book", "main.run")], ("main.book", "main.book")),
        # Other threads release it: no function calls both.
        ([("my_lock", "update", "writer")], [("my_unlock", "look", "reader")], ("my_lock", "my_unlock")),
    ],
    ids=["wrapper", "guard", "two callers", "two sections", "defer", "two threads"],
)
def test_where_one_function_takes_and_another_one_releases(
    waits: list[tuple[str, ...]], wakes: list[tuple[str, ...]], section: tuple[str, str]
) -> None:
    stacks = [stack("waiter", *names, samples=9 - at) for at, names in enumerate(waits)]
    stacks += [stack("waker", *names, samples=9 - at) for at, names in enumerate(wakes)]
    futex = of_program(2, LOCK, 5000 * MS, stacks=tuple(stacks))
    assert (waited_in(futex), released_in(futex)) == section


@pytest.mark.parametrize(
    ("make", "section"), [(OWN_QUEUE, ("Jobs::push", "Jobs::pop")), ("", ("main::{lambda()#1}", "main::{lambda()#1}"))]
)
def test_a_queue_has_no_section(make: str, section: tuple[str, str]) -> None:
    """The closures of its threads may have one name: it is not where they put and take."""
    stacks = (stack("waiter", "Jobs::push", "main::{lambda()#1}"), stack("waker", "Jobs::pop", "main::{lambda()#1}"))
    futex = of_program(2, LOCK, 5000 * MS, stacks=stacks, make=make)
    assert (waited_in(futex), released_in(futex)) == section


def owned(ns: int, *functions: str, samples: int) -> FutexStack:
    return replace(stack("waker", *functions, samples=samples), owned_ns=ns)


@pytest.mark.parametrize(
    ("sweep_ns", "touch_ns", "held"),
    [(900, 100, "sweep"), (100, 900, "touch"), (0, 0, "")],
    ids=["the long one", "the short one", "owners not known"],
)
def test_of_two_functions_the_one_is_told_whose_owner_threads_wait_for(sweep_ns: int, touch_ns: int, held: str) -> None:
    """The one lets go seldom, after it had the lock for long; the others in turn wake each other after it."""
    wakes = (owned(sweep_ns, "sweep", "run", samples=9), owned(touch_ns, "touch", "serve", samples=90))
    futex = of_program(2, LOCK, 5000 * MS, stacks=(stack("waiter", "touch", "serve"), *wakes))
    assert (held_in(futex), released_in(futex)) == (held, held or "touch")


def test_no_function_has_half_of_the_waiting() -> None:
    wakes = tuple(owned(300, name, "run", samples=9) for name in ("read", "write", "sweep"))
    assert held_in(of_program(2, LOCK, 5000 * MS, stacks=(stack("waiter", "read", "run"), *wakes))) == ""


def test_the_waiting_for_an_owner_is_divided_by_its_own_wakes() -> None:
    """Thread 71 was waited for most, and lets go at stack 5; a thread has one row for each of its names."""
    waiters = {1: Waiter(1, 71, 7, "app", 1), 2: Waiter(2, 72, 7, "app", 1), 3: Waiter(3, 71, 7, "renamed", 1)}
    owners = [FutexSample(2, "owner", 1, 0, 90, 90, 900), FutexSample(2, "owner", 2, 0, 1, 1, 100)]
    wakes = [FutexSample(2, "waker", 3, 5, 9, 9, 0), FutexSample(2, "waker", 2, 4, 60, 60, 0)]
    assert owned_by_stack([*owners, *wakes], waiters) == {5: 900, 4: 100}
    also = FutexSample(2, "waker", 3, 6, 3, 3, 0)
    assert owned_by_stack([*owners, *wakes, also], waiters) == {5: 675, 6: 225, 4: 100}
    # The wakes of the one that has it are not known: the others' do not stand for them.
    assert owned_by_stack([*owners, wakes[1]], waiters) == {}


def test_a_reader_that_lets_the_next_one_in_lets_nothing_go() -> None:
    """Most wakes of a ReentrantReadWriteLock come from readers on their way in; the writer held them up."""
    locks = "java.util.concurrent.locks."
    read = (f"{locks}AbstractQueuedSynchronizer.acquireShared", f"{locks}ReentrantReadWriteLock$ReadLock.lock", "P.get")
    write = (f"{locks}AbstractQueuedSynchronizer.release", f"{locks}ReentrantReadWriteLock$WriteLock.unlock", "P.load")
    names = [("waiter", read, 90), ("waker", (f"{locks}LockSupport.unpark", *read), 90), ("waker", write, 9)]
    stacks = tuple(
        FutexStack(role, many, many, many, tuple(Frame(at, name, 0, "[java]") for at, name in enumerate(functions)))
        for role, functions, many in names
    )
    futex = of_program(2, LOCK, 5000 * MS, stacks=stacks)
    assert (waited_in(futex), released_in(futex)) == ("P.get", "P.load")
