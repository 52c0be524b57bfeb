# SPDX-License-Identifier: GPL-2.0-or-later
"""Locks that a shared library has for itself, told by the files of the frames that threads wait in."""

from dataclasses import replace
from typing import cast

import pytest

from lockline.analysis.user_space.futex_waits import FutexStack
from lockline.analysis.user_space.library_locks import LibraryLock, library_lock
from lockline.analysis.user_space.user_evidence import PY_LOCK
from lockline.recording.rows import Frame
from test_c_library_locks import GLIBC, PROGRAM, futex, stack

JEMALLOC = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"
LIBPQ = "/usr/lib/libpq.so.5"


def waits(library: str, *names: str, caller: str = "serve", samples: int = 10) -> FutexStack:
    """Sampled waits in these functions of a library ("": without a name), which the program calls."""
    inside = [Frame(2 + n, name, 0, library) for n, name in enumerate(names)]
    frames = [Frame(0, "__lll_lock_wait", 0, GLIBC), Frame(1, "___pthread_mutex_lock", 0, GLIBC), *inside]
    frames += [Frame(8, caller, 0, PROGRAM)] if caller else []
    return replace(stack(samples, "x"), frames=(*frames, Frame(9, "start_thread", 0, GLIBC)))


def told(*stacks: FutexStack) -> LibraryLock | None:
    """Of a word with these waits."""
    return library_lock(futex(*stacks))


def test_an_allocator_without_names() -> None:
    found = told(waits(JEMALLOC, "", "", ""))
    assert found == LibraryLock("libjemalloc.so.2", "", "serve", 1.0)
    assert found.allocates


def test_an_allocator_counts_wherever_it_lies() -> None:
    found = told(waits("/opt/app/libmimalloc.so.2.1", "", ""))
    assert found is not None
    assert found.allocates


def test_the_function_that_the_program_calls_is_named() -> None:
    found = told(waits(LIBPQ, "", "PQexec@@V1"), waits(LIBPQ, "pgtls_open", "PQconnectdb", caller="connect", samples=4))
    assert found == LibraryLock("libpq.so.5", "PQexec", "serve", 1.0)
    assert not found.allocates


@pytest.mark.parametrize(
    ("library", "names"),
    [
        # Who calls these wants a lock of its own.
        ("/usr/lib/libapp.so", ("", "app_mutex_lock")),
        ("/usr/lib/libapp.so", ("Queue::waitForItem",)),
        # One frame without a name may be such a function.
        ("/usr/lib/libapp.so", ("",)),
        # They run the program, or make its locks.
        ("/usr/lib/libQt5Core.so.5", ("", "", "QThreadPool::start")),
        (
            "/usr/lib/jvm/lib/server/libjvm.so",
            ("os::PlatformEvent::park", "ObjectMonitor::EnterI", "Runtime1::monitorenter"),
        ),
        ("/usr/lib/libpython3.11.so.1.0", ("", "PyEval_EvalFrame")),
        ("/usr/lib/libstdc++.so.6", ("", "std::ostream::write")),
        # A part of the program, not of a package.
        ("/srv/app/lib/libcache.so", ("", "Cache::get")),
        # The program's own file is no library.
        ("/usr/bin/worker", ("", "work")),
        ("", ("", "work")),
    ],
)
def test_the_programs_own_lock(library: str, names: tuple[str, ...]) -> None:
    assert told(waits(library, *names)) is None


def test_a_function_of_the_program_that_a_library_calls_locks_for_itself() -> None:
    """The innermost file counts, not one further out."""
    made = waits(LIBPQ, "")
    inner = [*made.frames[:2], Frame(7, "on_notice", 0, PROGRAM), *made.frames[2:]]
    assert told(replace(made, frames=tuple(inner))) is None


def test_a_stack_that_ends_inside_tells_nothing() -> None:
    made = waits(JEMALLOC, "", "")
    assert told(replace(made, frames=made.frames[:4])) is None
    # Its own threads have no function of the program's above them.
    assert told(waits(JEMALLOC, "", "background_thread_entry", caller="")) == LibraryLock(
        "libjemalloc.so.2", "", "", 1.0
    )


def test_most_of_the_waits_are_in_it() -> None:
    own = waits("/usr/bin/worker", "work")
    assert told(waits(JEMALLOC, "", "", samples=30), own) is None
    found = told(waits(JEMALLOC, "", "", samples=40), own)
    assert found is not None
    assert found.part == 0.8


def test_without_waits_the_wakes_tell() -> None:
    assert told(replace(waits(JEMALLOC, "", ""), role="waker")) is not None
    assert told() is None


PYTHON = "/usr/lib/python3.12"
OF_LOGGING = tuple(
    f"py::{name}:{PYTHON}/logging/__init__.py" for name in ("Handler.acquire", "Handler.handle", "Logger._log", "info")
)
SERVE = "py::Shop.serve:/srv/shop.py"


def told_of_python(*stacks: tuple[str, ...]) -> LibraryLock | None:
    """Of a lock of Python with these functions of Python on the stacks of its waits."""
    frames = [Frame(1, "PyThread_acquire_lock_timed", 0, "/usr/bin/python3.12")]
    waits = [
        replace(stack(10, "x"), frames=(*frames, *(Frame(2, name, 0, "[python]") for name in names)))
        for names in stacks
    ]
    return library_lock(replace(futex(*waits), make=PY_LOCK))


def test_a_lock_that_a_module_of_python_has_for_itself() -> None:
    found = told_of_python((*OF_LOGGING, SERVE), ())
    # Of the second nobody knows the functions; nor the callers where the innermost one alone is known.
    assert told_of_python((*OF_LOGGING, SERVE), OF_LOGGING[:1], OF_LOGGING[:1]) == found
    assert found == LibraryLock("Python's logging", "info", "shop.py:Shop.serve", 1.0)
    assert found.logs
    # Another module lies between it and the program; its lock is one of a Condition.
    queue = (f"py::Condition.__enter__:{PYTHON}/threading.py", f"py::Queue.put:{PYTHON}/queue.py")
    handler = f"py::QueueHandler.emit:{PYTHON}/logging/handlers.py"
    assert told_of_python((*queue, handler, SERVE)) == LibraryLock(
        "Python's queue", "Queue.put", "shop.py:Shop.serve", 1
    )


@pytest.mark.parametrize(
    "functions",
    [
        (SERVE,),
        # It makes the lock for the program, or takes the program's lock for it; a package that is installed.
        (f"py::Condition.__enter__:{PYTHON}/threading.py", SERVE),
        (f"py::ExitStack.enter_context:{PYTHON}/contextlib.py", SERVE),
        ("py::Pool.checkout:/usr/lib/python3/dist-packages/pool.py", SERVE),
        ("py::Pool.checkout:/opt/app/lib/python3.12/site-packages/pool.py", SERVE),
        # Nobody knows who calls it.
        OF_LOGGING,
    ],
)
def test_a_lock_of_the_program_in_python(functions: tuple[str, ...]) -> None:
    assert told_of_python(functions) is None


JVM = "/opt/jdk/lib/server/libjvm.so"
START_THREAD = (Frame(6, "java.lang.Thread.start", 0, "[java]"), Frame(7, "Shop.serve", 0, "[java]"))


@pytest.mark.parametrize(
    ("mutex", "outside", "told_"),
    [
        (("Mutex::lock_contended", "JVM_StartThread"), START_THREAD, ("JVM_StartThread", "Shop.serve")),
        # A thread that ends, and a monitor of the program's.
        (("Mutex::lock_contended", "Threads::remove"), (), ("", "")),
        (("os::PlatformEvent::park", "ObjectMonitor::EnterI"), START_THREAD, None),
    ],
)
def test_a_lock_of_the_jvms_own(
    mutex: tuple[str, ...], outside: tuple[Frame, ...], told_: tuple[str, str] | None
) -> None:
    made = waits(JVM, *mutex, caller="")
    made = replace(made, frames=(*made.frames[:-1], *(outside or made.frames[-1:])))
    assert told(made) == (None if told_ is None else LibraryLock("libjvm.so", *told_, 1.0))
    assert told_ is None or cast(LibraryLock, told(made)).of_jvm
