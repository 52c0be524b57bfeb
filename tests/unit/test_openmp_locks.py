# SPDX-License-Identifier: GPL-2.0-or-later
"""Regions and critical sections of OpenMP."""

from dataclasses import replace
from typing import Any

import pytest

from lockline.analysis.user_space.user_evidence import (
    OPENMP_BARRIER,
    OPENMP_LOCK,
    Calls,
)
from lockline.analysis.user_space.user_locks import recognise
from lockline.recording import rows
from user_words import LIBC, WINDOW, word

LIBGOMP = "/usr/lib/x86_64-linux-gnu/libgomp.so.1.0.0"


def in_region(task: int, region: str = "main._omp_fn.0") -> Calls:
    """A call of stripped libgomp, by a thread of its team; '': by an idle one."""
    frames = [rows.Frame(1, "", 0, LIBGOMP)]
    frames += [rows.Frame(2, region, 0, "/srv/solve")] if region else []
    frames += [rows.Frame(3, "", 0, LIBGOMP), rows.Frame(4, "start_thread", 0, LIBC)]
    return Calls(task, tuple(frame.symbol for frame in frames if frame.symbol), (LIBGOMP,), 10, 10, tuple(frames))


@pytest.mark.parametrize(
    ("lies_in", "woken", "waits_in", "wakes_in", "make", "lock", "unclear"),
    [
        ("/srv/solve", 900, "main._omp_fn.0", "main._omp_fn.0", OPENMP_LOCK, True, False),
        ("[stack]", 900, "main._omp_fn.0", "main._omp_fn.0", OPENMP_LOCK, True, False),
        # A lock that one thread takes again and again, or tasks that it makes.
        ("[heap]", 900, "main._omp_fn.0", "main._omp_fn.0", OPENMP_LOCK, False, True),
        # One thread comes last each time.
        ("[heap]", 3 * 900, "main._omp_fn.0", "main._omp_fn.0", OPENMP_BARRIER, False, False),
        # Workers without a region; those of another one.
        ("[heap]", 3 * 900, "", "main", None, False, False),
        ("[heap]", 3 * 900, "main._omp_fn.0", "main._omp_fn.1", None, False, False),
    ],
)
def test_threads_of_openmp_of_which_one_never_waits(
    lies_in: str, woken: int, waits_in: str, wakes_in: str, make: str | None, lock: bool, unclear: bool
) -> None:
    waits = tuple(in_region(task, waits_in) for task in (1, 2, 3))
    figures: dict[str, Any] = {"waiters": 3, "wakers": 1, "wakes": 900, "tasks_woken": woken, "wait_ns": 3 * WINDOW}
    seen = word(2, 4096, waits=waits, wakers_of=(in_region(4, wakes_in),), **figures)
    seen = replace(seen, futex=seen.futex._replace(object=lies_in))
    found = recognise([seen], (), WINDOW)
    assert [(one.make, one.lock, one.unclear) for one in found] == ([(make, lock, unclear)] if make else [])
    if make == OPENMP_BARRIER:
        assert [(site.function, site.last, site.last_part) for site in found[0].sites] == [("main._omp_fn.0", 4, 1.0)]


@pytest.mark.parametrize(("name", "known"), [(".gomp_critical_user_totals", True), ("totals", False)])
def test_a_critical_section_that_its_function_jumps_out_of(name: str, known: bool) -> None:
    """tally() waits, and wakes as its caller's region: the lock's own name tells what it is."""
    waits = tuple(in_region(task, "tally") for task in (1, 2, 3))
    seen = word(2, 4096, name=name, waits=waits, wakers_of=(in_region(4),), waiters=3, wait_ns=3 * WINDOW)
    seen = replace(seen, futex=seen.futex._replace(object="/srv/solve"))
    assert [(one.make, one.sure) for one in recognise([seen], (), WINDOW)] == ([(OPENMP_LOCK, "high")] if known else [])
