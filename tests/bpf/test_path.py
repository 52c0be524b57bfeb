# SPDX-License-Identifier: GPL-2.0-or-later
"""The code of a wait's two programs: how long it is, and what it calls on the way that nearly every wait takes."""

import json
import platform
import subprocess
from pathlib import Path
from typing import TypedDict

import pytest

# With room for other compilers and kernels; what a change adds must be worth it.
MOST_BYTES = {"contention_begin": 18500, "contention_end": 14400}
# Both ways in a row: that of waits that spin, and that of waits that sleep.
MOST_FIRST_BYTES = {"contention_begin": 2150, "contention_end": 2150}
# From 64 bytes on (of 16 each) the kernel gives a function a stack of its own, in lines that nothing keeps warm.
MOST_STACK = 48
# The clock for either kind of wait, and what is called for the current task where its address is not known: once more
# for a lock without a row, whose way is apart.  The CPU's number on kernels that do not inline it.
MOST_HELPER_CALLS = {"contention_begin": 5 + 2, "contention_end": 4 + 2}
# What is rare: none of the common ways.  The end of a mutex that has no row yet takes its home itself.
MOST_OWN_CALLS = {"contention_begin": 3, "contention_end": 4}
# Of a wait that spins.  It jumps behind its looks into arrays, and to the exit.
MOST_STRAIGHT_INSNS = 125
MOST_STRAIGHT_JUMPS = 3
# The clock; the kernel inlines the CPU's number since 6.10.
STRAIGHT_HELPERS = 1 if tuple(int(part) for part in platform.release().split(".")[:2]) >= (6, 10) else 2


class Straight(TypedDict):
    """What runs if no condition jumps."""

    insns: int
    jumps: int
    helper_calls: int
    own_calls: int


class Code(TypedDict):
    """Counts of a program's code."""

    bytes: int
    first_bytes: int
    helper_calls: int
    own_calls: int
    stack: int
    straight: Straight


@pytest.fixture(scope="module")
def programs(build: Path, bpf_machine: None) -> dict[str, Code]:
    """Counts of each program's code, by its name."""
    done = subprocess.run(
        [build / "tests" / "path_bench", "--counts"], capture_output=True, text=True, timeout=60, check=True
    )
    return {entry["program"]: entry for entry in json.loads(done.stdout)}


@pytest.mark.parametrize("name", MOST_BYTES)
def test_code_of_a_wait_is_bounded(programs: dict[str, Code], name: str) -> None:
    assert 0 < programs[name]["bytes"] <= MOST_BYTES[name]
    assert 0 < programs[name]["first_bytes"] <= MOST_FIRST_BYTES[name]


@pytest.mark.parametrize("name", MOST_HELPER_CALLS)
def test_a_common_wait_calls_few_helpers(programs: dict[str, Code], name: str) -> None:
    assert 0 < programs[name]["helper_calls"] <= MOST_HELPER_CALLS[name]
    assert programs[name]["own_calls"] <= MOST_OWN_CALLS[name]


@pytest.mark.parametrize("name", MOST_BYTES)
def test_a_common_wait_has_no_stack_of_its_own(programs: dict[str, Code], name: str) -> None:
    assert 0 < programs[name]["stack"] <= MOST_STACK


@pytest.mark.parametrize("name", MOST_BYTES)
def test_a_common_wait_that_spins_runs_straight_on(programs: dict[str, Code], name: str) -> None:
    way = programs[name]["straight"]

    # Far enough: it reads the clock, and ends in a line of its own.
    assert 60 < way["insns"] <= MOST_STRAIGHT_INSNS
    assert way["jumps"] <= MOST_STRAIGHT_JUMPS
    assert way["helper_calls"] == STRAIGHT_HELPERS
    assert way["own_calls"] == 0
