# SPDX-License-Identifier: GPL-2.0-or-later
"""What threads of an OpenMP program wait for where one of them never waits itself.

A thread that comes last at each barrier, or takes a lock again before the others can, wakes them and never sleeps: so
does a dispatcher.  But these threads wait and wake in the same function of the program: its parallel region.  Workers
without a region wait below none of the program's functions.

LLVM's library spins: its threads yield in its functions, whose names say what they wait for.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from lockline.analysis.user_space import pthreads
from lockline.analysis.user_space.behaviour import (
    wakes_all_others,
)
from lockline.analysis.user_space.program_functions import heaviest_name
from lockline.analysis.user_space.user_evidence import (
    HALF,
    MOST,
    OPENMP_BARRIER,
    OPENMP_LOCK,
    Calls,
    Processes,
    Recognised,
    Seen,
    below_c_library,
    by_waiting,
    is_yields,
    several_wait,
    share_from,
    share_of,
    waiting,
)
from lockline.recording import user_rows

LIBRARIES = ("libgomp", "libomp", "libiomp")
# What GCC calls the lock of `#pragma omp critical (name)`.
_CRITICAL = ".gomp_critical_user_"
# Functions of libomp that a program's code calls, those of GCC's interface among them.
_LOCKS = (
    *("__kmpc_critical", "__kmpc_set_lock", "__kmpc_set_nest_lock", "__kmpc_reduce", "__kmpc_ordered"),
    *("omp_set_lock", "omp_set_nest_lock", "GOMP_critical", "GOMP_atomic", "GOMP_ordered"),
)
_BARRIERS = ("__kmpc_barrier", "__kmpc_cancel_barrier", "GOMP_barrier")
_MAIN_STACK = "[stack]"


def _in_openmp(call: Calls) -> bool:
    caller = next(iter(below_c_library(call.frames)), None)
    return caller is not None and caller.module.rpartition("/")[2].startswith(LIBRARIES)


def _region(calls: Sequence[Calls]) -> str:
    """The program's function that most of these calls come from; '' if there is none."""
    found: defaultdict[str, int] = defaultdict(int)
    for call in calls:
        found[pthreads.site(call)] += call.waits
    function = heaviest_name(found)
    return function if found and found[function] >= MOST * sum(found.values()) else ""


def openmp_waits(processes: Processes, window_ns: int) -> Iterable[Recognised]:
    """Locks, critical sections and barriers of OpenMP, by the region that threads wait and wake in."""
    for words in processes.values():
        there = [entry for entry in words.values() if share_of(entry.waits, _in_openmp) >= HALF]
        known = tuple(_of_llvm(there, window_ns))
        yield from known
        taken = {word for one in known for word in one.words}
        for entry in there:
            if entry.futex.id not in taken:
                yield from _of_word(entry, window_ns)


def _of_llvm(words: Sequence[Seen], window_ns: int) -> Iterable[Recognised]:
    """Locks and barriers at which threads yield, by the functions of libomp that they yield in."""
    if not any(map(is_yields, words)):
        return
    for names, make, what in ((_LOCKS, OPENMP_LOCK, "a lock"), (_BARRIERS, OPENMP_BARRIER, "a barrier")):
        found = [entry for entry in words if share_from(entry.waits, names) >= MOST]
        if not any(map(is_yields, found)):
            continue
        found = by_waiting(found)
        why = f"threads wait for {what} in libomp, mostly by sched_yield(): {waiting(found, window_ns):.1f} on average"
        # They wake each other by chains: who wakes is not who came last.
        sites = () if make == OPENMP_LOCK else pthreads.sites_of([replace(entry, wakes=()) for entry in found])
        ids = tuple(entry.futex.id for entry in found)
        yield Recognised(ids, make, lock=make == OPENMP_LOCK, sure="high", why=why, sites=sites)


def _is_in_program(futex: user_rows.Futex) -> bool:
    """Whether the word is a variable of the program: the libraries have their barriers and queues on the heap."""
    file = futex.object.rpartition("/")[2] if futex.object.startswith("/") else ""
    return futex.object == _MAIN_STACK or (bool(file) and not file.startswith(LIBRARIES))


def _of_word(entry: Seen, window_ns: int) -> Iterable[Recognised]:
    region, threads = _region(entry.waits), waiting((entry,), window_ns)
    if entry.futex.name.startswith(_CRITICAL):
        # By its name: the function that takes it may end with a jump to release it, and wakes from nowhere then.
        why = f"a critical section: {threads:.1f} threads wait for it on average"
        yield Recognised((entry.futex.id,), OPENMP_LOCK, lock=True, sure="high", why=why)
        return
    if not region or _region(entry.wakes) != region:
        return
    told = f"threads wait in {region}(), and are woken there: {threads:.1f} on average"
    if _is_in_program(entry.futex):
        yield Recognised((entry.futex.id,), OPENMP_LOCK, lock=True, sure="high", why=f"a lock: {told}")
    elif wakes_all_others(entry):
        why = f"{told}; who comes last wakes all others"
        sites = pthreads.sites_of((entry,))
        yield Recognised((entry.futex.id,), OPENMP_BARRIER, lock=False, sure="high", why=why, sites=sites)
    elif not entry.total.both and several_wait((entry,), window_ns):
        why = f"{told}; for a lock that one thread keeps taking, or for tasks that it makes"
        yield Recognised((entry.futex.id,), OPENMP_LOCK, lock=False, sure="medium", why=why, unclear=True)
