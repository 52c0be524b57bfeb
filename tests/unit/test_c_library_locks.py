# SPDX-License-Identifier: GPL-2.0-or-later
"""Locks of the C library's own, told by the functions that threads wait in."""

import pytest

from lockline.analysis.model import Figures
from lockline.analysis.user_space.c_library_locks import (
    ENVIRONMENT,
    LOADER,
    MALLOC,
    NAMES,
    OTHER,
    RANDOM,
    SHARED_POINTERS,
    STDIO,
    TIME_ZONE,
    c_library_lock,
    kind_of,
    plain_name,
)
from lockline.analysis.user_space.futex_waits import LOCK, FutexStack, FutexWaits
from lockline.base.c_library import is_c_library, is_cxx_library
from lockline.recording.rows import Frame
from lockline.recording.user_rows import Futex, FutexTotal

GLIBC = "/usr/lib/x86_64-linux-gnu/libc.so.6"
PROGRAM = "/usr/bin/server"


def futex(*stacks: FutexStack) -> FutexWaits:
    """A contended word with these stacks."""
    figures = Figures(100, 1000, 10, 0, ())
    total = FutexTotal._make([2, *(0 for _ in FutexTotal._fields[1:])])
    return FutexWaits(Futex(2, 7, "server", 4096, 0, "", ""), total, LOCK, "", figures, figures, stacks=stacks)


def stack(samples: int, *frames: str, library: str = GLIBC, role: str = "waiter") -> FutexStack:
    """Functions from the innermost on: "malloc" of the library, ":serve" of the program."""
    return FutexStack(
        role,
        samples,
        samples,
        0,
        tuple(Frame(n, name.lstrip(":"), 0, PROGRAM if name[0] == ":" else library) for n, name in enumerate(frames)),
    )


@pytest.mark.parametrize(
    ("path", "it_is"),
    [
        ("/usr/lib/x86_64-linux-gnu/libc.so.6", True),
        ("/lib64/libc-2.31.so", True),
        ("/lib64/libpthread.so.0", True),
        ("/lib/ld-musl-x86_64.so.1", True),
        ("/lib64/ld-linux-x86-64.so.2", True),
        ("/usr/lib/libc.so.6 (deleted)", True),
        ("/usr/lib/libcrypto.so.3", False),
        ("/usr/lib/libcurl.so.4", False),
        ("/usr/lib/libc++.so.1", False),
        ("/usr/bin/ld", False),
        ("", False),
    ],
)
def test_files_of_the_c_library(path: str, it_is: bool) -> None:
    assert is_c_library(path) == it_is


@pytest.mark.parametrize(
    ("function", "plain", "kind"),
    [
        ("__libc_malloc", "malloc", MALLOC),
        ("_int_free", "free", MALLOC),
        ("__libc_calloc", "calloc", MALLOC),
        ("__fprintf_chk", "fprintf", STDIO),
        ("__vfprintf_internal", "fprintf", STDIO),
        ("_IO_new_fclose", "fclose", STDIO),
        ("_IO_file_xsputn", "IO_file_xsputn", STDIO),
        ("random", "random", RANDOM),
        ("rand_r", "rand_r", OTHER),
        ("__tz_convert", "localtime_r", TIME_ZONE),
        ("__localtime64_r", "localtime64_r", TIME_ZONE),
        ("dl_iterate_phdr", "dl_iterate_phdr", LOADER),
        ("getaddrinfo", "getaddrinfo", NAMES),
        ("freeaddrinfo", "freeaddrinfo", OTHER),
        ("getcwd", "getcwd", OTHER),
        ("setenv@@GLIBC_2.2.5", "setenv", ENVIRONMENT),
        ("__add_to_environ", "setenv", ENVIRONMENT),
    ],
)
def test_functions_by_what_they_lock(function: str, plain: str, kind: str) -> None:
    assert (plain_name(function), kind_of(function)) == (plain, kind)


def test_a_lock_of_malloc() -> None:
    found = c_library_lock(
        futex(
            stack(60, "__lll_lock_wait_private", "_int_free", "free", ":drop", ":serve"),
            stack(40, "__lll_lock_wait_private", "_int_malloc", "malloc", ":parse", ":serve"),
        )
    )
    assert found is not None
    assert (found.kind, found.function, found.caller, found.part) == (MALLOC, "free", "drop", 1.0)


def test_the_innermost_function_has_the_lock() -> None:
    """fopen() allocates."""
    found = c_library_lock(
        futex(stack(100, "__lll_lock_wait_private", "_int_malloc", "malloc", "_IO_new_fopen", ":serve"))
    )
    assert found is not None
    assert (found.kind, found.function, found.caller) == (MALLOC, "malloc", "serve")


def test_a_mutex_of_the_program_is_none() -> None:
    taken = stack(100, "__lll_lock_wait", "pthread_mutex_lock", ":serve", "start_thread", "__clone3")
    assert c_library_lock(futex(taken)) is None


def test_a_mutex_that_a_callback_takes_is_none() -> None:
    """qsort() calls the program, which takes a mutex of its own."""
    taken = stack(100, "__lll_lock_wait", "pthread_mutex_lock", ":compare", "qsort_r", ":serve")
    assert c_library_lock(futex(taken)) is None


def test_a_file_that_the_program_locks_is_the_programs() -> None:
    assert c_library_lock(futex(stack(100, "__lll_lock_wait_private", "flockfile", ":serve"))) is None


def test_a_function_that_nobody_knows() -> None:
    found = c_library_lock(futex(stack(100, "__lll_lock_wait_private", "__libc_new_thing", ":serve")))
    assert found is not None
    assert (found.kind, found.function, found.caller) == (OTHER, "thing", "serve")


@pytest.mark.parametrize("locker", ["std::_Sp_locker::_Sp_locker", "std::__1::__sp_mut::lock"])
def test_shared_pointers_that_are_read_atomically(locker: str) -> None:
    """The C++ library's own mutex, whether it is linked statically or not; a template is no function of the program."""
    for of_library in (locker, f":{locker}"):
        taken = (
            "__lll_lock_wait",
            "pthread_mutex_lock",
            of_library,
            ":std::shared_ptr<Config> std::atomic_load<Config>",
        )
        found = c_library_lock(futex(stack(100, *taken, ":read_config", library="/usr/lib/libstdc++.so.6")))
        assert found is not None
        assert (found.kind, found.function, found.caller) == (SHARED_POINTERS, "std::atomic_load", "read_config")


@pytest.mark.parametrize(
    ("function", "it_is"),
    [
        ("std::thread::join", True),
        ("void std::sort<int*>", True),
        ("std::shared_ptr<Config> std::atomic_load<Config>", True),
        ("__gnu_cxx::__pool<true>::_M_reserve_block", True),
        ("std::enable_if<true, int>::type std::__invoke_impl<void (*)(int), int>", True),
        ("unsigned int std::__count<std::vector<int, std::allocator<int> > >", True),
        ("std::ostream& std::operator<< <std::char_traits<char> >", True),
        ("bool std::operator< <int, int>", True),
        ("std::function<void (int)>::operator()", True),
        ("std::_Function_handler<void (), main::{lambda()#1}>::_M_invoke", True),
        # Templates and lambdas of a program, which return what is of the library, or take it.
        ("std::string render<int>", False),
        ("std::shared_ptr<Config> app::make<Config>", False),
        ("std::vector<int, std::allocator<int> > parse<char>", False),
        ("std::optional<int> (anonymous namespace)::pick<std::less<int> >", False),
        ("std::enable_if<std::is_same<int, int>::value, int>::type app::fill<int>", False),
        ("std::ostream& app::operator<< <int>", False),
        ("decltype (std::declval<int>()) app::sum<int>", False),
        ("void app::run<std::function<void (int)> >", False),
        ("app::Pool::operator std::string", False),
        ("mystd::vector", False),
        ("Cache::std", False),
        ("handle", False),
    ],
)
def test_functions_of_the_cxx_library(function: str, it_is: bool) -> None:
    assert is_cxx_library(function) == it_is


def test_other_libraries_are_not_the_c_library() -> None:
    taken = stack(100, "__lll_lock_wait", "malloc", ":serve", library="/usr/lib/libjemalloc.so.2")
    assert c_library_lock(futex(taken)) is None


@pytest.mark.parametrize(("others", "told"), [(20, True), (30, False)])
def test_most_waits_must_be_there(others: int, told: bool) -> None:
    found = c_library_lock(
        futex(
            stack(100 - others, "__lll_lock_wait_private", "malloc", ":parse"),
            stack(others, "__lll_lock_wait", "pthread_mutex_lock", ":serve"),
        )
    )
    assert (found is not None) == told


def test_without_a_caller() -> None:
    found = c_library_lock(futex(stack(100, "__lll_lock_wait_private", "rand")))
    assert found is not None
    assert (found.function, found.caller) == ("rand", "")


def test_a_thread_of_the_library_itself() -> None:
    assert c_library_lock(futex(stack(100, "__lll_lock_wait", "start_thread", "__clone3"))) is None


def test_wakes_tell_where_no_wait_was_sampled() -> None:
    found = c_library_lock(futex(stack(10, "__lll_lock_wake_private", "free", ":drop", role="waker")))
    assert found is not None
    assert found.kind == MALLOC
