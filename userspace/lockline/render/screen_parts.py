# SPDX-License-Identifier: GPL-2.0-or-later
"""What first screens of lock waits have in common: small figures, sentences, commands to copy."""

import shlex
from collections.abc import Iterable

from lockline.analysis.answer import OTHER_LOCKS, user_waiting
from lockline.analysis.model import Report
from lockline.base.numbers import average
from lockline.recording import rows

# Threads or CPUs that wait on average: however sure a cause is, less than this is a small effect.
SMALL_EFFECT = 0.5
DEFAULT_RECORDING = "lockline.data"
# A tenth of one CPU or thread: rules find no fault with less.
SMALL = 0.1
LOCK_WAITS = "lock waits"
# What is not seen bears on the answer only if it is a kind of waiter.
_WAITERS = (
    LOCK_WAITS,
    "spinlock first waiter",
    "spinlock queued waiters",
    "rwlock waiters",
    "rwlock readers in interrupt",
    "rwsem writers that win by spinning",
    "percpu-rwsem writers behind readers",
)


def unseen_waiters(probes: Iterable[rows.Probe]) -> list[str]:
    """The kinds of waiters that a recording does not see."""
    return [probe.signal for probe in probes if probe.signal in _WAITERS and probe.state in ("blind", "unavailable")]


def few_threads(threads: float, who: str = "threads") -> str:
    """So few threads that two digits matter: never 0.00 of what is more than nothing."""
    return f"under 0.01 {who}" if 0 < threads < 0.01 else f"{average(threads, 2)} {who}"


def percent_short(fraction: float) -> str:
    """A fraction in whole percent, never 100% of what is less, nor 0% of what is more than nothing."""
    if 0 < fraction < 0.005:
        return "<1%"
    return f"{min(round(fraction * 100), 99 if fraction < 1 else 100)}%"


def sentence(text: str) -> str:
    """A text as a sentence."""
    return text[:1].upper() + text[1:] + "." if text else ""


def command(report: Report, options: str) -> str:
    """A command to copy; a recording of another name than the default is named."""
    file = "" if report.path == DEFAULT_RECORDING else f" -i {shlex.quote(report.path)}"
    return f"lockline report{file} {options}"


def all_waiting(report: Report) -> int:
    """All waiting for locks that was recorded, of the kernel, of programs, and on files and semaphores, in ns."""
    others = report.sleepers.waiting(*OTHER_LOCKS) if report.sleepers is not None else 0.0
    threads = (user_waiting(report) or 0.0) + others
    return report.totals.wait_ns + round(threads * report.window.duration_ns)
