# SPDX-License-Identifier: GPL-2.0-or-later
"""Names of the C library's functions."""

# How those begin that stand between a futex call and the program's own function.
FUTEX_CALLERS = ("pthread_", "__pthread_", "___pthread_", "__GI_", "__lll_", "sem_", "futex", "__futex", "syscall")
