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

# A function of the C++ library, or made from a template of it; before a template's name stands what it returns.
_CXX = re.compile(r"(?:[\w:]+[ *&]+)?(?:std|__gnu_cxx)::")

_FILE = re.compile(
    r"(?:libc|libpthread|ld-linux[-\w]*|ld-musl[-\w]*|libc\.musl[-\w]*|ld64|ld)(?:-[\d.]+)?\.so(?:\.\d+)*"
)


def is_c_library(path: str) -> bool:
    """Whether a mapped file is glibc or musl, or a part of it: libc.so.6, libc-2.31.so, ld-musl-x86_64.so.1."""
    return _FILE.fullmatch(path.rpartition("/")[2].removesuffix(" (deleted)")) is not None


def is_cxx_library(function: str) -> bool:
    """Whether a function, with its demangled name, is of the C++ library: std::thread::join, void std::sort<...>."""
    return _CXX.match(function) is not None
