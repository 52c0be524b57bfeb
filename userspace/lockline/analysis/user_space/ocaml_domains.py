# SPDX-License-Identifier: GPL-2.0-or-later
"""What domains of OCaml 5 wait for: each other when one collects garbage, and their backup threads for nothing."""

from collections.abc import Iterable

from lockline.analysis.user_space.user_evidence import (
    HALF,
    OCAML_BACKUP,
    OCAML_STOP,
    Calls,
    Processes,
    Recognised,
    by_waiting,
    has,
    share_of,
    waiting_still,
)

# Where domains meet when all of them stop, as for each minor collection (runtime/domain.c, platform.c).
_MEET = ("caml_plat_latch_wait", "caml_plat_barrier_wait", "caml_plat_futex_wait", "stw_api_barrier")
# A thread beside each domain, which collects for it while it waits for something else.
_BACKUP = ("backup_thread_func",)


def _meets(call: Calls) -> bool:
    return has(call.functions, _MEET)


def _stands_by(call: Calls) -> bool:
    return has(call.functions, _BACKUP) and not _meets(call)


def ocaml_domains(processes: Processes, window_ns: int) -> Iterable[Recognised]:
    """Domains that wait for all others to stop; and the threads that stand by, at the lock of a domain that runs."""
    for words in processes.values():
        found = by_waiting(entry for entry in words.values() if share_of(entry.waits, _meets) >= HALF)
        if found:
            threads = waiting_still(found, window_ns)
            why = f"domains wait until all of them have stopped, or have collected: {threads:.1f} threads on average"
            yield Recognised(tuple(one.futex.id for one in found), OCAML_STOP, lock=True, sure="high", why=why)
        for entry in words.values():
            if share_of(entry.waits, _stands_by) >= HALF:
                why = "a backup thread of OCaml waits until its domain waits for something else"
                yield Recognised((entry.futex.id,), OCAML_BACKUP, lock=False, sure="high", why=why)
