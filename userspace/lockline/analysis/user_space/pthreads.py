# SPDX-License-Identifier: GPL-2.0-or-later
"""The C library's rwlocks, barriers and condition variables, and queues behind a mutex, by who waits in what function.

glibc exports these functions, so their names are there in stripped programs too; layouts are of 2.25 to 2.42.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence

from lockline.analysis.user_space.behaviour import (
    held_over_wait,
)
from lockline.analysis.user_space.user_evidence import (
    ANY_BARRIER,
    BARRIER,
    CONDITION_VARIABLE,
    HALF,
    MOST,
    RWLOCK,
    Calls,
    Processes,
    Recognised,
    Seen,
    Site,
    by_waiting,
    expects_2,
    is_yields,
    open_ns,
    seems_mutex,
    share_from,
    waiting_still,
)
from lockline.base.c_library import FUTEX_CALLERS

_RWLOCK_WAITS = ("pthread_rwlock_",)
_WRITER_WAITS = ("pthread_rwlock_wrlock", "pthread_rwlock_timedwrlock", "pthread_rwlock_clockwrlock")
_BARRIER_WAITS = ("pthread_barrier_wait",)
# std::barrier of libstdc++ and of libc++, std::sync::Barrier of Rust.  Who comes last may find nobody asleep yet, and
# may never wait itself.
_STD_BARRIER_WAITS = (
    *("std::__tree_barrier", "std::barrier<", "__barrier_algorithm_base", "__barrier_phase_t"),
    "std::sync::barrier::Barrier",
)
_CONDITION_WAITS = ("pthread_cond_wait", "pthread_cond_timedwait", "pthread_cond_clockwait")

# pthread_rwlock_t: __readers, __writers, __wrphase_futex, __writers_futex.  Readers wait at the phase for a writer to
# let go, and a writer for readers; at the last word for another writer.  Where writers are preferred, readers let them
# pass at the first word.
_READERS_WORD = 0
PHASE_WORD = 8
_WRITERS_WORD = 12

# Of the C library and of run times around a call: not the program's own function.
_NO_SITES = (*FUTEX_CALLERS, "gomp_", "__kmp", "std::", "<std::", "core::ops::function::")
_BELOW_PROGRAM = ("start_thread", "__clone", "__libc_start", "_start", "GOMP_")


def site(call: Calls) -> str:
    """The program's function that a call comes from; '' if it has no name."""
    names = [name for name in call.functions if not name.startswith(_NO_SITES)]
    return names[0] if names and not names[0].startswith(_BELOW_PROGRAM) else ""


def sites_of(words: Sequence[Seen]) -> tuple[Site, ...]:
    """Where the threads of a barrier wait, most waiting first, and who comes last: it wakes the others."""
    wait_ns: defaultdict[str, int] = defaultdict(int)
    last: defaultdict[str, defaultdict[int, int]] = defaultdict(lambda: defaultdict(int))
    for entry in words:
        for call in entry.waits:
            wait_ns[site(call)] += call.wait_ns
        for call in entry.wakes:
            last[site(call)][call.task] += call.waits
    sampled = sum(wait_ns.values())
    every = sum(entry.total.wait_ns for entry in words)
    found = []
    for function in sorted(wait_ns):
        rounds = sum(last[function].values())
        task, most = max(last[function].items(), key=lambda item: (item[1], -item[0]), default=(0, 0))
        ns = every * wait_ns[function] // sampled if sampled else 0
        found.append(Site(function, ns, rounds, task, most / rounds if rounds else 0.0))
    return tuple(sorted(found, key=lambda site: -site.wait_ns))


def _whole_name(name: str, offset: int) -> str:
    """The name of an object by that of the word so many bytes on: as 'table+0x8' is, 8 bytes on, of 'table'."""
    base, plus, at = name.rpartition("+")
    if not plus or not at.startswith("0x"):
        return ""
    rest = int(at, 16) - offset
    return "" if rest < 0 else f"{base}+{rest:#x}" if rest else base


def _rwlock_at(address: int, words: Collection[int]) -> int:
    """Where the rwlock lies of which this is a word; words: all that threads wait at in such functions."""
    if address % 8:
        return address - _WRITERS_WORD
    # Another lock's words are further away than its own.
    first = address + PHASE_WORD in words or address + _WRITERS_WORD in words
    return address - (_READERS_WORD if first else PHASE_WORD)


def _behind_readers(low: int, parts: Iterable[Seen]) -> float:
    """The part of the waiting for a rwlock that is of writers who wait until its readers let go."""
    every = there = 0.0
    for entry in parts:
        waited = entry.total.wait_ns + open_ns(entry.total)
        every += waited
        if entry.futex.address - low == PHASE_WORD:
            there += waited * share_from(entry.waits, _WRITER_WAITS)
    return there / every if every else 0.0


def rwlocks(processes: Processes, window_ns: int) -> Iterator[Recognised]:
    """Read-write locks: each is a lock, whoever waits."""
    for words in processes.values():
        found: defaultdict[int, list[Seen]] = defaultdict(list)
        waited_at = {at for at, entry in words.items() if share_from(entry.waits, _RWLOCK_WAITS) >= HALF}
        for address in sorted(waited_at):
            found[_rwlock_at(address, waited_at)].append(words[address])
        for low, parts in found.items():
            parts = by_waiting(parts)
            calls = [call for entry in parts for call in entry.waits]
            writers = share_from(calls, _WRITER_WAITS)
            first = parts[0].futex
            yield Recognised(
                tuple(entry.futex.id for entry in parts),
                RWLOCK,
                lock=True,
                sure="high",
                why=(
                    f"a pthread rwlock: {waiting_still(parts, window_ns):.1f} threads wait for it on average,"
                    f" {writers:.0%} of that to write and {1 - writers:.0%} to read"
                ),
                name=_whole_name(first.name, first.address - low),
                behind_readers=_behind_readers(low, parts) >= MOST,
            )


def _waited_from(processes: Processes, functions: Collection[str], least: float) -> Iterator[Seen]:
    """The words that threads wait at, by at least this share, in one of these functions."""
    for words in processes.values():
        for entry in words.values():
            if share_from(entry.waits, functions) >= least:
                yield entry


def barriers(processes: Processes) -> Iterator[Recognised]:
    """Barriers: their threads wait for who comes last."""
    for entry in _waited_from(processes, _BARRIER_WAITS, HALF):
        yield Recognised(
            (entry.futex.id,),
            BARRIER,
            lock=False,
            sure="high",
            why="threads wait in pthread_barrier_wait() until the last one comes",
            # The word that threads wait at is the second of pthread_barrier_t.
            name=_whole_name(entry.futex.name, 4),
            sites=sites_of((entry,)),
        )
    # libstdc++ calls their futexes shared, and the yields are no futex: of a process both.
    there: defaultdict[int, list[Seen]] = defaultdict(list)
    for entry in _waited_from(processes, _STD_BARRIER_WAITS, HALF):
        there[entry.futex.tgid].append(entry)
    for of_process in there.values():
        yield from _std_barriers(of_process)


def _std_barriers(there: Sequence[Seen]) -> Iterator[Recognised]:
    """Barriers of a process whose threads yield before they sleep; where there is one, the yields are at that one."""
    yields = [entry for entry in there if is_yields(entry)]
    slept = [entry for entry in there if not is_yields(entry) and not expects_2(entry.total)]
    together = [*slept, *yields] if yields and len(slept) == 1 else []
    apart = [[entry] for entry in there if entry not in together]
    for parts in filter(None, (together, *apart)):
        # Rust's has a mutex, for which those queue that come or leave at once.
        mutex = expects_2(parts[0].total)
        yield Recognised(
            tuple(entry.futex.id for entry in parts),
            ANY_BARRIER,
            lock=False,
            sure="high",
            why="a barrier's own mutex" if mutex else "threads wait at a barrier until the last one comes",
            sites=() if mutex else sites_of(parts),
        )


def conditions(processes: Processes) -> Iterator[Recognised]:
    """Condition variables of which one word was seen."""
    for entry in _waited_from(processes, _CONDITION_WAITS, MOST):
        total = entry.total
        if seems_mutex(total) or total.timed_out >= MOST * max(total.slept, 1):
            continue
        yield Recognised(
            (entry.futex.id,),
            CONDITION_VARIABLE,
            lock=False,
            sure="high",
            why="threads wait in pthread_cond_wait() for others to signal",
        )


def held_while_idle(processes: Processes, locks: Collection[int], window_ns: int) -> Iterable[Recognised]:
    """Locks of one word whose holder waits at another one nearly all the time."""
    for words in processes.values():
        for entry in words.values():
            if entry.futex.id not in locks:
                continue
            others = [other for other in words.values() if other is not entry and other.futex.id not in locks]
            why = held_over_wait((entry,), others, window_ns)
            if why:
                yield Recognised((entry.futex.id,), "", lock=False, sure="medium", why=why, unclear=True)
