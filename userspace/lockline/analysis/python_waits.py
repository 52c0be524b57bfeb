# SPDX-License-Identifier: GPL-2.0-or-later
"""Threads of Python that wait in its threading and queue, by the functions that they are in.

Each wait is at a lock made for it (threading.Condition.wait).
"""

from collections.abc import Iterable, Mapping

from lockline.analysis.own_words import barriers, circles_in, pools, take_turns
from lockline.analysis.python_idle import works_each_time
from lockline.analysis.user_evidence import (
    PY_BARRIER,
    PY_QUEUE,
    PY_SEMAPHORE,
    Processes,
    Recognised,
    Seen,
    several_wait,
    waiting_still,
)

# Methods of Python's library: the name of its file follows.
_BARRIERS = ("py::Barrier._wait:", "py::Barrier.wait:")
_SEMAPHORES = ("py::Semaphore.acquire:",)
_TAKES = ("py::Queue.get:",)
# A thread that wants the interpreter's lock after its wait waits for that.
_GIL = ("take_gil",)


def _semaphores(words: Mapping[int, Seen], window_ns: int) -> Iterable[Recognised]:
    for circle in circles_in(words.values(), _SEMAPHORES, _GIL):
        threads = waiting_still(circle, window_ns)
        # Who releases it takes it again before those who were woken: these find it taken, and do nothing else.
        starve = several_wait(circle, window_ns) and not works_each_time(circle, words.values(), window_ns)
        if starve or take_turns(circle, window_ns):
            yield Recognised(
                tuple(one.futex.id for one in circle),
                PY_SEMAPHORE,
                lock=True,
                sure="high",
                why=f"threads wait in Semaphore.acquire(): {threads:.1f} on average"
                + ("; most are woken in vain, as others take it before" if starve else ""),
            )


def python_waits(processes: Processes, window_ns: int) -> Iterable[Recognised]:
    """Barriers and semaphores of Python, and its queues from which threads take what they put there."""
    for words in processes.values():
        yield from barriers(words.values(), PY_BARRIER, _BARRIERS, _GIL, window_ns)
        yield from _semaphores(words, window_ns)
        yield from pools(words.values(), PY_QUEUE, _TAKES, _GIL, window_ns)
