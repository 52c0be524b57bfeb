# SPDX-License-Identifier: GPL-2.0-or-later
"""Names of the C library's files and functions."""

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

_FILE = re.compile(
    r"(?:libc|libpthread|ld-linux[-\w]*|ld-musl[-\w]*|libc\.musl[-\w]*|ld64|ld)(?:-[\d.]+)?\.so(?:\.\d+)*"
)


def is_c_library(path: str) -> bool:
    """Whether a mapped file is glibc or musl, or a part of it: libc.so.6, libc-2.31.so, ld-musl-x86_64.so.1."""
    return _FILE.fullmatch(path.rpartition("/")[2].removesuffix(" (deleted)")) is not None
