# SPDX-License-Identifier: GPL-2.0-or-later
"""What watch refuses before it takes a debug register: others may run beside these tests."""

import os
from pathlib import Path

import pytest

from test_watch import refuse

pytestmark = pytest.mark.usefixtures("debug_registers")


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("0x1000", "no address of the kernel"),
        ("0xffffffffffffff00", "nothing can be read"),
        ("schedule", "is code"),
        ("cpu_tss_rw:0", "must not be watched: the entry code uses it"),
        ("runqueues.nosuch:0", "has no member nosuch"),
        ("runqueues:8000", "does not know where the variables of CPU 8000 are"),
        ("task:4194304.pi_lock", "no such task"),
        ("user:1:0xffff888000001000", "is an address of the kernel"),
        ("user:1:0x10", "nothing can be read"),
        ("lock:tasklist_lock", "needs -i"),
        ("a:b:c", "a target is"),
        ("futex:1", "futex:812:mutex"),
        # Or cannot be read: who may read it, this machine decides.
        ("futex:1:nosuch", "process 1 "),
        ("futex:4194304:nosuch", "no such process"),
        ("futex:1:0xffff888000001000", "is an address of the kernel"),
        ("futex:4194304:0x1000", "no such process"),
        ("futex:2:0x1000", "no such process"),
    ],
)
def test_what_cannot_be_watched(live: Path, recording: Path, address: str, why: str) -> None:
    said = refuse(live, recording, address)
    assert why in said
    assert said.count("\n") == 1


def test_a_program_without_the_symbol(live: Path, recording: Path) -> None:
    assert f"process {os.getpid()} has no symbol nosuch" in refuse(live, recording, f"futex:{os.getpid()}:nosuch")


def test_variables_of_each_entry(live: Path, recording: Path) -> None:
    """Of whichever of these the kernel has (pcpu_hot of 6.2 to 6.14 holds the others), none is watched."""
    said = [refuse(live, recording, f"{name}:0") for name in ("pcpu_hot", "hardirq_stack_inuse", "__softirq_pending")]
    refused = [line for line in said if "must not be watched: the entry code uses it" in line]
    absent = [line for line in said if "have no per-CPU variable" in line]
    assert refused
    assert len(refused) + len(absent) == len(said), said
