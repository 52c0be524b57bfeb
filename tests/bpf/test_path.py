# SPDX-License-Identifier: GPL-2.0-or-later
"""The code of a wait's two programs: how long it is, and what it calls on the way that nearly every wait takes."""

import json
import subprocess
from pathlib import Path

import pytest

# With room for other compilers and kernels; what a change adds must be worth it.
MOST_BYTES = {"contention_begin": 14000, "contention_end": 11000}
# Both ways in a row: that of waits that spin, and that of waits that sleep.
MOST_FIRST_BYTES = {"contention_begin": 1900, "contention_end": 1950}
# From 64 bytes on (of 16 each) the kernel gives a function a stack of its own, in lines that nothing keeps warm.
MOST_STACK = 48
# bpf_get_current_task() and the clock, or the clock alone; the CPU's number on kernels that do not inline it.
MOST_HELPER_CALLS = {"contention_begin": 4, "contention_end": 4}


@pytest.fixture(scope="module")
def programs(build: Path, bpf_machine: None) -> dict[str, dict[str, int]]:
    """Counts of each program's code, by its name."""
    done = subprocess.run(
        [build / "tests" / "path_bench", "--counts"], capture_output=True, text=True, timeout=60, check=True
    )
    return {entry["program"]: entry for entry in json.loads(done.stdout)}


@pytest.mark.parametrize("name", MOST_BYTES)
def test_code_of_a_wait_is_bounded(programs: dict[str, dict[str, int]], name: str) -> None:
    assert 0 < programs[name]["bytes"] <= MOST_BYTES[name]
    assert 0 < programs[name]["first_bytes"] <= MOST_FIRST_BYTES[name]


@pytest.mark.parametrize("name", MOST_HELPER_CALLS)
def test_a_common_wait_calls_few_helpers(programs: dict[str, dict[str, int]], name: str) -> None:
    assert 0 < programs[name]["helper_calls"] <= MOST_HELPER_CALLS[name]


@pytest.mark.parametrize("name", MOST_BYTES)
def test_a_common_wait_has_no_stack_of_its_own(programs: dict[str, dict[str, int]], name: str) -> None:
    assert 0 < programs[name]["stack"] <= MOST_STACK
