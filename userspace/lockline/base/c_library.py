# SPDX-License-Identifier: GPL-2.0-or-later
"""Names of the C library's files and functions, and of the C++ library's functions."""

import re

# How those begin that stand between a futex call and the program's own function.
FUTEX_CALLERS = (
    "pthread_",
    "__pthread_",
    "___pthread_",
    "__GI_",
    "__lll_",
    "sem_",
    "__new_sem_",
    "futex",
    "__futex",
    "syscall",
    "sched_yield",
    "__sched_yield",
)
# How those begin whose purpose is to wait: who waits there waits for a lock of the program.
LOCKING = (
    *("pthread_", "__pthread_", "___pthread_", "sem_", "__sem_", "__new_sem_", "mtx_", "cnd_", "thrd_", "call_once"),
    *("flockfile", "__flockfile", "_IO_flockfile", "ftrylockfile", "aio_", "lio_", "timer_", "mq_"),
)
# How those begin that a thread or a process begins in.
START = ("start_thread", "__clone", "clone", "__libc_start", "_start", "__start", "__libc_init", "start")

_CXX = ("std::", "__gnu_cxx::")
# The libraries' own files: a template is in the program's.
_CXX_FILES = ("libstdc++", "libc++")
_LONGEST = 1024
_ATOMICS_WORDS = ("__waiter_pool_base::_S_for(", "__libcpp_contention_table")
# A program's lambda, in what the library makes of it: std::thread::_State_impl<...<main::{lambda()#1}>...>::_M_run().
_LAMBDA = re.compile(r"(?:[\w~]+(?:\([^()]*\))?::)*\{lambda\([^()]*\)#\d+\}")
# In a demangled name: where brackets begin and end, an operator, whose name may look like one, and what parts the name
# from what stands before it.
_MARK = re.compile(r"(?<!\w)operator(?!\w)|\(anonymous namespace\)|decltype ?\(|->|[<({\[]|[>)}\]]| (?!\[)")

_FILE = re.compile(
    r"(?:libc|libpthread|ld-linux[-\w]*|ld-musl[-\w]*|libc\.musl[-\w]*|ld64|ld)(?:-[\d.]+)?\.so(?:\.\d+)*"
)


def is_c_library(path: str) -> bool:
    """Whether a mapped file is glibc or musl, or a part of it: libc.so.6, libc-2.31.so, ld-musl-x86_64.so.1."""
    return _FILE.fullmatch(path.rpartition("/")[2].removesuffix(" (deleted)")) is not None


def _begin_of_name(function: str) -> int:
    """Where a function's own name begins, behind what it returns: of templates that stands before it."""
    begin = depth = 0
    for mark in _MARK.finditer(function):
        sign = mark[0]
        if sign in ("(anonymous namespace)", "->"):
            continue
        if sign == "operator":
            if not depth:
                break
        elif sign == " ":
            begin = begin if depth else mark.end()
        elif sign[0] in ">)}]":
            depth = max(depth - 1, 0)
        elif sign == "(" and not depth:
            # Its arguments.
            break
        else:
            depth += 1
    return begin


def is_cxx_library(function: str) -> bool:
    """Whether a function, with its demangled name, is of the C++ library: std::thread::join, void std::sort<...>.

    A program's own template that returns something of the library is none of these.
    """
    return any(name in function for name in _CXX) and function.startswith(_CXX, _begin_of_name(function))


def is_atomics_word(name: str) -> bool:
    """Whether a variable is what threads in std::atomic::wait() sleep at, where the atomic itself is no int.

    libstdc++ (GCC 11 to 15): bits/atomic_wait.h; libc++: src/atomic.cpp.
    """
    return any(part in name for part in _ATOMICS_WORDS)


def lambda_in(function: str, path: str) -> str:
    """The program's lambda that a function of the C++ library has become part of, as {lambda()#1} of main; '': none.

    Compilers put what a thread runs into the library's template, which has no frame besides.  path: of its file.
    """
    if path.rpartition("/")[2].startswith(_CXX_FILES) or not is_cxx_library(function):
        return ""
    # A forged name may be of any length, and takes as long as its square.
    found = _LAMBDA.search(function, 0, _LONGEST) if "{lambda(" in function else None
    return found[0] if found is not None else ""
