# SPDX-License-Identifier: GPL-2.0-or-later
"""What threads of an OpenMP program wait for where one of them never waits itself.

A thread that comes last at each barrier, or takes a lock again before the others can, wakes them and never sleeps: so
does a dispatcher.  But these threads wait and wake in the same function of the program: its parallel region.  Workers
without a region wait below none of the program's functions.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from lockline.analysis import pthreads
from lockline.analysis.user_evidence import (
    HALF,
    MOST,
    OPENMP_BARRIER,
    OPENMP_LOCK,
    Calls,
    Processes,
    Recognised,
    Seen,
    below_c_library,
    several_wait,
    share_of,
    waiting,
    wakes_all_others,
)
from lockline.recording import rows

LIBRARIES = ("libgomp", "libomp", "libiomp")
# What GCC calls the lock of `#pragma omp critical (name)`.
_CRITICAL = ".gomp_critical_user_"
_MAIN_STACK = "[stack]"


def _in_openmp(call: Calls) -> bool:
    caller = next(iter(below_c_library(call.frames)), None)
    return caller is not None and caller.module.rpartition("/")[2].startswith(LIBRARIES)


def _region(calls: Sequence[Calls]) -> str:
    """The program's function that most of these calls come from; '' if there is none."""
    found: defaultdict[str, int] = defaultdict(int)
    for call in calls:
        found[pthreads.site(call)] += call.waits
    function = max(sorted(found), key=lambda name: found[name], default="")
    return function if found and found[function] >= MOST * sum(found.values()) else ""


def openmp_waits(processes: Processes, window_ns: int) -> Iterable[Recognised]:
    """Locks, critical sections and barriers of OpenMP, by the region that threads wait and wake in."""
    for words in processes.values():
        for entry in words.values():
            if share_of(entry.waits, _in_openmp) >= HALF:
                yield from _of_word(entry, window_ns)


def _is_in_program(futex: rows.Futex) -> bool:
    """Whether the word is a variable of the program: the libraries have their barriers and queues on the heap."""
    file = futex.object.rpartition("/")[2] if futex.object.startswith("/") else ""
    return futex.object == _MAIN_STACK or (bool(file) and not file.startswith(LIBRARIES))


def _of_word(entry: Seen, window_ns: int) -> Iterable[Recognised]:
    region, threads = _region(entry.waits), waiting((entry,), window_ns)
    if not region or _region(entry.wakes) != region:
        return
    told = f"threads wait in {region}(), and are woken there: {threads:.1f} on average"
    if _is_in_program(entry.futex):
        what = "a critical section" if entry.futex.name.startswith(_CRITICAL) else "a lock"
        yield Recognised((entry.futex.id,), OPENMP_LOCK, lock=True, sure="high", why=f"{what}: {told}")
    elif wakes_all_others(entry):
        why = f"{told}; who comes last wakes all others"
        sites = pthreads.sites_of((entry,))
        yield Recognised((entry.futex.id,), OPENMP_BARRIER, lock=False, sure="high", why=why, sites=sites)
    elif not entry.total.both and several_wait((entry,), window_ns):
        why = f"{told}; for a lock that one thread keeps taking, or for tasks that it makes"
        yield Recognised((entry.futex.id,), OPENMP_LOCK, lock=False, sure="medium", why=why, unclear=True)
