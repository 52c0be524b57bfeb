# SPDX-License-Identifier: GPL-2.0-or-later
"""Looks at threads that do not go on: who is stopped, and what those wait for whom nobody lets go on."""

import struct
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace

from lockline.analysis.sleep_functions import stop_of
from lockline.base.collector import ask_names
from lockline.cli.why_counters import (
    PROC,
    descendants_of,
    frozen_group,
    short_text,
    text_of,
    threads_of,
)
from lockline.cli.why_holders import owner_of_mutex
from lockline.cli.why_memory import Memory
from lockline.investigation.sleeps import Sleeper, parse_call
from lockline.investigation.stops import (
    Halted,
    Standing,
    Stop,
    Waiter,
    is_nap_call,
    kind_of_wait,
    names_no_wait,
    standing_of,
    stops_of,
)

# Processes of the target that are looked at before anything else.
_MOST_PROCESSES = 50
# Threads that are looked at because they wait for one futex all the time; of each word so many, and their stacks.
_MOST_WAITERS = 256
_MOST_OF_A_WORD = 3
_STACK_BYTES = 1536
_MOST_FRAMES = 24
# sem_t of glibc on 64 bits: tokens, and how many wait (struct new_sem, sysdeps/nptl/internaltypes.h).
_SEMAPHORE = struct.Struct("=II")
# Threads among which the one is looked for that runs an initialiser.
_MOST_THREADS = 32


def state_of(tid: int) -> str:
    """The letter of a thread's state; '' if it is gone."""
    return "".join(short_text(f"{PROC}/{tid}/stat").rpartition(")")[2].split()[:1])


def stopped_now(tgids: Sequence[int]) -> tuple[Stop, ...]:
    """Which of these processes, and of those that they have forked, a signal or a freezer stops at this moment."""
    found = []
    every = 0
    for tgid in [*tgids, *descendants_of(tgids, _MOST_PROCESSES)][:_MOST_PROCESSES]:
        tids = threads_of(tgid, _MOST_WAITERS)
        every += len(tids)
        comm, group = short_text(f"{PROC}/{tgid}/comm"), frozen_group(tgid)
        if group:
            found.append(Stop("frozen", comm, tgid, len(tids), len(tids), frozen_group=group))
            continue
        stopped = sum(state_of(tid) == "T" for tid in tids)
        if stopped:
            found.append(Stop("signal", comm, tgid, stopped, len(tids)))
    whole = sum(one.threads for one in found) >= every
    return tuple(replace(one, whole=whole) for one in found)


def stops_in(looks: Sequence[Sequence[Sleeper]]) -> tuple[Stop, ...]:
    """Who is stopped on average."""
    seen = [
        [Halted(one.tgid, one.comm, one.function, one.tracer) for one in moment if stop_of(one.function)]
        for moment in looks
    ]
    processes = {one.tgid for moment in seen for one in moment}
    threads = {tgid: len(threads_of(tgid, _MOST_WAITERS)) for tgid in processes}
    return stops_of(seen, threads)


def switches_of(tgid: int, tid: int) -> int | None:
    """How often the thread has gone to sleep; None: it is gone."""
    for line in text_of(PROC / str(tgid) / "task" / str(tid) / "status").splitlines():
        if line.startswith("voluntary_ctxt_switches:"):
            return int(line.split()[1])
    return None


def _call_of(tgid: int, tid: int) -> str:
    return short_text(f"{PROC}/{tgid}/task/{tid}/syscall")


class FutexWaiters:
    """Threads that wait for a futex at the first look, and for the same one, without having run, at the end."""

    def __init__(self) -> None:
        self._first: dict[tuple[int, int], tuple[int | None, str]] = {}
        # Of those that stand still: on whose stacks no function has a name.
        self.nameless = 0

    def seen(self, tgid: int, tid: int) -> None:
        """It waits for a futex at the first look."""
        if len(self._first) < _MOST_WAITERS:
            self._first[tgid, tid] = switches_of(tgid, tid), _call_of(tgid, tid)

    def standing(self, memory: Memory) -> tuple[Standing, ...]:
        """What those wait for that have not run meanwhile."""
        still = [
            (tgid, tid, call)
            for (tgid, tid), (switches, call) in self._first.items()
            if switches is not None and switches_of(tgid, tid) == switches and _call_of(tgid, tid) == call
        ]
        waiters = _waiters(still, memory)
        self.nameless = sum(not one.functions and one.tgid not in memory.unpaid for one in waiters)
        return standing_of(waiters, lambda tgid, word: owner_of_mutex(memory, tgid, word), _is_alive, _Once(memory))


def _is_alive(tid: int) -> bool:
    """Whether there is such a thread; one that has ended, and whose parent has not noticed, releases nothing."""
    return state_of(tid) not in ("", "Z", "X")


def _stack_of(call: Sequence[str]) -> tuple[int, int] | None:
    """Stack pointer and instruction of a thread in a system call."""
    try:
        return int(call[-2], 16), int(call[-1], 16)
    except (ValueError, IndexError):
        return None


def _addresses(memory: Memory, tgid: int, call: str) -> list[int]:
    """Where a thread is, and where its functions may return to; some of these are of earlier calls."""
    at = _stack_of(call.split())
    if at is None:
        return []
    stack, instruction = at
    if not memory.affords_names(tgid):
        return []
    data = memory.read(tgid, stack, _STACK_BYTES)
    words = struct.unpack_from(f"={len(data) // 8}Q", data)
    return [instruction, *(word for word in words if memory.returns_to(tgid, word))][:_MOST_FRAMES]


def _functions(memory: Memory, threads: Sequence[tuple[int, int, str]]) -> list[tuple[str, ...]]:
    """The functions of each thread, by its system call."""
    places = [[(tgid, address) for address in _addresses(memory, tgid, call)] for tgid, _, call in threads]
    asked = list({(tgid, address - 1) for one in places for tgid, address in one})
    names = dict(zip(asked, ask_names(asked), strict=True)) if asked else {}
    return [
        tuple(name for tgid, address in one if (name := names.get((tgid, address - 1), ("", ""))[0])) for one in places
    ]


def caller_of_nap(memory: Memory, tgid: int, tid: int) -> str:
    """The function of the program that has a thread sleep for a time; '' if it is not known."""
    (functions,) = _functions(memory, [(tgid, tid, _call_of(tgid, tid))])
    return next((name for name in functions if not is_nap_call(name)), "")


def _is_semaphore(memory: Memory, tgid: int, call: Sequence[int], threads: int) -> bool:
    """Whether a wait is one for a sem_t of glibc on 64 bits: it has no token, and counts those who wait.

    Since glibc 2.41 sem_wait() ends in a jump to a function without a name, and is on no stack (nptl/sem_wait.c).
    """
    _, word, _, expected, *_ = call
    data = memory.read(tgid, word, _SEMAPHORE.size)
    if expected or len(data) != _SEMAPHORE.size:
        return False
    tokens, waiting = _SEMAPHORE.unpack(data)
    return not tokens and threads <= waiting <= _MOST_WAITERS


def with_semaphore(memory: Memory, at: Sequence[tuple[int, int, str]], functions: tuple[str, ...]) -> tuple[str, ...]:
    """The functions of threads at one word, with the one that glibc leaves out."""
    tgid, _, call = at[0]
    if names_no_wait(functions) and _is_semaphore(memory, tgid, parse_call(call), len(at)):
        return ("sem_wait", *functions)
    return functions


def _waiters(still: Sequence[tuple[int, int, str]], memory: Memory) -> list[Waiter]:
    """Each with what it waits for: of many at one word the stacks of a few stand for all."""
    by_word: defaultdict[tuple[int, int], list[tuple[int, int, str]]] = defaultdict(list)
    for tgid, tid, call in still:
        words = parse_call(call)
        if words:
            by_word[tgid, words[1]].append((tgid, tid, call))
    chosen = [one for at in by_word.values() for one in at[:_MOST_OF_A_WORD]]
    functions = dict(zip([tid for _, tid, _ in chosen], _functions(memory, chosen), strict=True))
    found = []
    for (tgid, word), at in by_word.items():
        stacks = [functions[tid] for _, tid, _ in at[:_MOST_OF_A_WORD]]
        ((usual, _),) = Counter(stacks).most_common(1)
        comm = short_text(f"{PROC}/{tgid}/comm")
        found += [
            Waiter(tgid, tid, comm, word, with_semaphore(memory, at, functions.get(tid, usual))) for _, tid, _ in at
        ]
    return found


class _Once:
    """Finds the thread that runs an initialiser for which others wait."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def __call__(self, tgid: int, but: Collection[int]) -> tuple[int, str, str] | None:
        threads = [(tgid, tid, _call_of(tgid, tid)) for tid in threads_of(tgid, _MOST_THREADS) if tid not in but]
        for (_, tid, _), functions in zip(threads, _functions(self._memory, threads), strict=True):
            if kind_of_wait(functions) == "once":
                task = f"{PROC}/{tgid}/task/{tid}"
                function = short_text(f"{task}/wchan")
                return tid, short_text(f"{task}/comm"), "" if function == "0" else function
        return None
