# SPDX-License-Identifier: GPL-2.0-or-later
"""Python's global interpreter lock: CPython's by its name, take_gil(), or how its words lie; PyPy's by its file."""

from collections.abc import Iterable, Mapping

from lockline.analysis.user_space.user_evidence import (
    GIL,
    HALF,
    MOST,
    PYPY_GIL,
    Processes,
    Recognised,
    Seen,
    by_waiting,
    expects_2,
    is_pypy,
    seems_mutex,
    share_from,
    waiting,
)

# pthread_cond_t of glibc 2.25 to 2.42: its waiters sleep on one of two words.  In CPython's GIL the mutex is behind it,
# since glibc 2.41 eight bytes further on.
GROUP = 4
_BEHIND_GROUPS = (8, 16)
# The GIL's second condition variable, for who let it go and waits until another thread has it: 88 bytes on.
_SECOND_CONDITION = 88
# The two mutexes and the condition variable of PyPy's GIL: 136 bytes.
_BESIDE = 136


_TAKES_GIL = ("take_gil",)


def _of_gil(entry: Seen) -> str:
    """By what a word is known as the GIL's; '' if it is not."""
    if entry.futex.name.startswith("_PyRuntime"):
        return "_PyRuntime"
    if share_from(entry.waits, _TAKES_GIL) >= HALF:
        return "take_gil()"
    return ""


def _in_python(entry: Seen) -> bool:
    return entry.futex.comm.startswith("python") or any(
        "python" in module.rsplit("/", 1)[-1] for calls in entry.waits for module in calls.modules
    )


def _gil_at(words: Mapping[int, Seen], low: int) -> tuple[list[Seen], str]:
    """The words of the GIL whose condition variable has its first word there, and by what it is known."""
    pair = [words[at] for at in (low, low + GROUP) if at in words]
    # Who unlocks a mutex may wake its word though nobody waits there: no call to wait, so none without a timeout.
    if not pair or not all(entry.total.timed >= MOST * entry.total.calls > 0 for entry in pair):
        return [], ""
    known = next((by for by in map(_of_gil, pair) if by), "")
    mutex = next((words[low + at] for at in _BEHIND_GROUPS if low + at in words), None)
    if not known and mutex is not None and expects_2(mutex.total) and any(map(_in_python, pair)):
        both = all(entry.total.both >= HALF * entry.total.waiters > 0 for entry in pair)
        second = range(low + _SECOND_CONDITION, low + _SECOND_CONDITION + _BEHIND_GROUPS[-1] + 1, GROUP)
        known = "layout" if both and any(at in words for at in second) else ""
    if not known:
        return [], ""
    further = (*_BEHIND_GROUPS, *(_SECOND_CONDITION + at for at in (0, GROUP, *_BEHIND_GROUPS)))
    return [*by_waiting(pair), *(words[low + at] for at in further if low + at in words)], known


def _pypy_gil(words: Mapping[int, Seen]) -> list[Seen]:
    """The words of PyPy's GIL, in its own data, where it has no other condition with a limit in time.

    One thread looks there each 0.1 ms whether it can have the GIL; all others queue for that thread's mutex.
    """
    own = {at: entry for at, entry in words.items() if is_pypy(entry.futex.object)}
    looks = [at for at, entry in own.items() if entry.total.timed >= MOST * entry.total.calls > 0]
    queue = [
        at
        for at, entry in own.items()
        if seems_mutex(entry.total) and any(abs(at - other) <= _BESIDE for other in looks)
    ]
    return by_waiting(own[at] for at in (*looks, *queue))


def _pypy_gils(processes: Processes, window_ns: int) -> Iterable[Recognised]:
    for words in processes.values():
        if found := _pypy_gil(words):
            yield Recognised(
                tuple(entry.futex.id for entry in found),
                PYPY_GIL,
                lock=True,
                sure="high",
                why="PyPy's GIL (a condition in PyPy's own data that one thread looks at again and again, and the mutex"
                f" that the others queue for): {waiting(found, window_ns):.1f} threads wait for it on average",
            )


def gils(processes: Processes, window_ns: int) -> Iterable[Recognised]:
    """Each interpreter lock, with all of its words."""
    yield from _pypy_gils(processes, window_ns)
    for words in processes.values():
        for low in sorted({address & ~7 for address in words}):
            found, known = _gil_at(words, low)
            if not found:
                continue
            waits = sum(entry.total.slept for entry in found)
            ended = sum(entry.total.timed_out for entry in found)
            ended_ns = sum(entry.total.timed_out_ns for entry in found)
            threads = waiting(found, window_ns)
            by = "its futexes lie in memory as those of the GIL do: a condition variable, then a mutex"
            if known != "layout":
                by = f"known by {known}"
            again = ""
            if ended:
                after = f"{ended_ns / ended / 1e6:.1f} ms"
                again = f"; {ended:,} of {waits:,} waits ended after {after} and began again"
            yield Recognised(
                tuple(entry.futex.id for entry in found),
                GIL,
                lock=True,
                sure="medium" if known == "layout" else "high",
                why=f"CPython's GIL ({by}): {threads:.1f} threads wait for it on average{again}",
            )
