# SPDX-License-Identifier: GPL-2.0-or-later
"""Domains of OCaml 5, as recorded with 5.3: they wait for each other to collect, and each has a thread beside it."""

import pytest

from lockline.analysis.findings import Process, UserLock
from lockline.analysis.model import Figures
from lockline.analysis.user_space.futex_waits import LOCK, FutexWaits
from lockline.analysis.user_space.program_functions import innermost_own
from lockline.analysis.user_space.user_evidence import OCAML_BACKUP, OCAML_LOCK, OCAML_STOP, Calls
from lockline.analysis.user_space.user_locks import recognise
from lockline.recording.rows import Frame
from lockline.render.findings import fact_words
from lockline.rules.user_lock import _claim
from user_words import PEERS, WINDOW, word

STOP = ("syscall", "caml_plat_latch_wait", "stw_api_barrier", "handle_incoming", "caml_try_run_on_all_domains")
BY_BACKUP = ("syscall", "caml_plat_barrier_wait_sense", "stw_try_complete_gc_phase", "backup_thread_func")
BACKUP = ("pthread_mutex_lock", "backup_thread_func")
YIELDS = ("pthread_cond_wait", "thread_yield", "caml_do_pending_actions_res", "caml_call_gc")


@pytest.mark.parametrize(
    ("functions", "make", "lock"),
    [(STOP, OCAML_STOP, True), (BY_BACKUP, OCAML_STOP, True), (BACKUP, OCAML_BACKUP, False)],
)
def test_what_domains_wait_for(functions: tuple[str, ...], make: str, lock: bool) -> None:
    """The lock of a domain is held while it computes, all the time."""
    seen = word(2, 4096, value_2=1000, owners=9, waits=(Calls(1, functions, (), 10, 10),))
    (found,) = recognise([seen], (), WINDOW, locks=(2,))
    assert (found.make, found.lock, found.sure) == (make, lock, "high")


def test_domains_meet_at_several_words() -> None:
    words = [word(number, 4096 * number, waits=(Calls(number, STOP, (), 10, 10),)) for number in (2, 3)]
    (found,) = recognise(words, (), WINDOW)
    assert set(found.words) == {2, 3}
    futex = FutexWaits(words[0].futex, words[0].total, LOCK, "", *[Figures(0, 0, 0, 0, ())] * 2, make=OCAML_STOP)
    assert "to collect garbage" in fact_words(_claim(futex, Process("app", 7), UserLock("", ""), None, None, 2.0))


@pytest.mark.parametrize(("functions", "makes"), [(YIELDS, [OCAML_LOCK]), (YIELDS[:2], [])])
def test_threads_of_one_domain_that_take_turns(functions: tuple[str, ...], makes: list[str]) -> None:
    calls = tuple(Calls(task, functions, (), 10, 10) for task in (1, 2, 3, 4))
    words = [word(2, 4096, wait_ns=2 * WINDOW, waits=calls, wakers_of=calls, **PEERS)]
    assert [one.make for one in recognise(words, (), WINDOW) if one.make == OCAML_LOCK] == makes


def test_a_stack_of_c_ends_before_the_programs_functions() -> None:
    frames = [Frame(5, name, 0, "/srv/app") for name in ("pthread_mutex_lock", "caml_ml_mutex_lock", "caml_c_call")]
    assert innermost_own(frames) == ""
    assert innermost_own([*frames, Frame(5, "camlApp.serve_41", 0, "/srv/app")]) == "camlApp.serve_41"
