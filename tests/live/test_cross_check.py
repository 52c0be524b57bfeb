# SPDX-License-Identifier: GPL-2.0-or-later
"""Every begin is accounted for, held against a program that does nothing but count.

One counter is attached before lockline and detached after it, one runs strictly
inside: lockline must have seen at least what the inner one saw, and at most what
the outer one saw.  The load runs while all are attached, so that the two are close.
"""

import json
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from support import Collector, Recording, Workload, running, wait_for

# Waits of the load: in most runs, and in the laboratory.
ENOUGH, MANY = 12_000, 100_000
# Threads by kind of lock_load: most waits of those who hand over are for run queues, and these are many in little time.
LOADS = {"futex": 2, "hand-over": 4, "ptrace": 1, "directory": 2}

# Flags of lock:contention_begin by the kind that they mean.
KINDS = {
    1: "spinlock",
    3: "rwlock:R",
    5: "rwlock:W",
    32: "mutex",
    33: "mutex-spin",
    2: "rwsem:R",
    4: "rwsem:W",
    8: "rtmutex",
    10: "rwlock-rt:R",
    12: "rwlock-rt:W",
    18: "pcpu-sem:R",
    20: "pcpu-sem:W",
    0: "semaphore",
}


def by_kind(counts: dict[str, Any]) -> dict[str, int]:
    """Begins of a counter by kind."""
    return {KINDS[int(flags)]: count for flags, count in counts["by_flags"].items()}


def last_counts(counter: Workload) -> dict[str, Any]:
    """What a counter had seen when it was detached."""
    counts: dict[str, Any] = json.loads(counter.end()[-1])
    return counts


@pytest.mark.parametrize("enough", [ENOUGH, pytest.param(MANY, marks=pytest.mark.laboratory)])
def test_every_begin_is_accounted_for(live: Path, recording: Path, tmp_path: Path, enough: int) -> None:
    if not shutil.which("perf"):
        pytest.skip("perf is not installed")
    outer = Workload(live, "wait_counter")
    with Collector(live, recording, "-a") as collector:
        inner = Workload(live, "wait_counter")
        with ExitStack() as load:
            for kind, threads in LOADS.items():
                load.enter_context(running(live / "workloads" / "lock_load", kind, str(threads), cwd=tmp_path))
            load.enter_context(
                running("sh", "-c", "while perf bench sched messaging -g 1 -l 200; do sleep 1; done", cwd=tmp_path)
            )
            wait_for(lambda: inner.do("read")["begins"] >= enough, f"{enough} waits of the load")
        inside = last_counts(inner)
        assert collector.stop() == 0, collector.errors()
    outside = last_counts(outer)
    with Recording(recording) as result:
        begins = result.begins()
        accounted = result.begins_accounted()
        missed = result.misses("contention_begin")
        ends = result.loss("ends")
        matched = result.waits() + result.loss("unmatched")
        kinds = dict(
            result.rows("SELECT kind.name, begins FROM begin_count JOIN kind ON kind.id = kind WHERE begins > 0")
        )
        reasons = {row[0]: row[1] for row in result.rows("SELECT name, count FROM loss WHERE count > 0")}
    print(
        f"\ncounter inside {inside['begins']} (+{inside['begin_misses']} missed), lockline {begins} (+{missed}),"
        f" counter outside {outside['begins']} (+{outside['begin_misses']}); {reasons}"
    )
    assert begins >= enough
    assert begins == accounted
    assert ends == matched
    assert inside["begins"] + inside["begin_misses"] <= begins + missed
    assert begins + missed <= outside["begins"] + outside["begin_misses"]
    for kind, count in by_kind(inside).items():
        assert count - missed <= kinds.get(kind, 0), kind
    for kind, count in kinds.items():
        assert count <= by_kind(outside).get(kind, 0) + outside["begin_misses"], kind
