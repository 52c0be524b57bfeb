# SPDX-License-Identifier: GPL-2.0-or-later
"""Stacks that are known and not walked again (bpf/known.bpf.h), by loads that wait in different system calls."""

import struct
from contextlib import ExitStack
from pathlib import Path

from support import Collector, Recording, Workload, running, wait_for

# Waits of all loads together, each with its stack; and rounds of each load's slowest thread.
ENOUGH = 8_000
ROUNDS = 1_000
# In a load's file, of 8 bytes each: from one thread's rounds to the next one's.
STEP = 128
# What threads of a load alone call, and what they never do.
LOADS = {"futex": ("__x64_sys_futex", "vfs_write"), "new-locks": ("vfs_write", "__x64_sys_futex")}


def symbols_by_process(result: Recording) -> dict[int, list[set[str]]]:
    """The functions of each kernel stack in which threads of a process waited; its first thread is left out."""
    names = dict(result.rows("SELECT address, symbol FROM frame WHERE tgid = 0"))
    stacks: dict[int, list[set[str]]] = {}
    for tgid, frames in result.rows(
        "SELECT DISTINCT waiter.tgid, stack.frames FROM sample_total JOIN waiter ON waiter.id = waiter"
        " JOIN stack ON stack.id = stack WHERE waiter.tid != waiter.tgid"
    ):
        stacks.setdefault(tgid, []).append({names.get(address, "") for (address,) in struct.iter_unpack("<q", frames)})
    return stacks


def rounds(file: Path) -> int:
    """Made by the slowest thread of a load so far."""
    text = file.read_bytes() if file.exists() else b""
    return min((struct.unpack_from("<Q", text, at)[0] for at in range(0, len(text) - 7, STEP)), default=0)


def test_each_load_has_its_own_stacks(live: Path, recording: Path, tmp_path: Path) -> None:
    counter = Workload(live, "wait_counter")
    with Collector(live, recording, "-a", "--sample", "1") as collector:
        with ExitStack() as running_loads:
            loads = {
                running_loads.enter_context(
                    running(live / "workloads" / "lock_load", kind, "2", tmp_path / kind, cwd=tmp_path)
                ).pid: kind
                for kind in LOADS
            }
            first = counter.do("read")["begins"]
            wait_for(lambda: counter.do("read")["begins"] - first >= ENOUGH, f"{ENOUGH} waits of the loads")
            wait_for(lambda: all(rounds(tmp_path / kind) >= ROUNDS for kind in LOADS), f"{ROUNDS} rounds of each load")
        assert collector.stop() == 0, collector.errors()
    counter.end()
    with Recording(recording) as result:
        known, wrong = result.loss("known_stack"), result.loss("wrong_stack")
        stacks = symbols_by_process(result)
    assert known > ENOUGH / 4
    assert wrong == 0
    for pid, kind in loads.items():
        own, never = LOADS[kind]
        assert any(own in stack for stack in stacks[pid]), kind
        assert not any(never in stack for stack in stacks[pid]), kind
