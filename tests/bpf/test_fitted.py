# SPDX-License-Identifier: GPL-2.0-or-later
"""What each start pays for: programs are fitted to few of the kernel's types, and the verifier walks them once."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

# Instructions that the verifier walks, with room for other compilers and kernels: a fifth of a start's CPU time.
MOST_WALKED = {"contention_begin": 17_500, "contention_end": 13_000, "futex_enter": 4_000, "futex_exit": 14_000}


@dataclass(frozen=True)
class Fitted:
    """A program: instructions that the verifier walked; the kernel's hashes of its code."""

    walked: int
    by_all_types: str
    by_few_types: str


@pytest.fixture(scope="module")
def programs(build: Path, bpf_machine: None) -> dict[str, Fitted]:
    """Each of the product's programs, by its name."""
    done = subprocess.run(
        [build / "tests" / "fitted"], capture_output=True, text=True, timeout=120, check=False, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stderr
    rows = (line.split() for line in done.stdout.splitlines())
    return {name: Fitted(int(walked), by_all, by_few) for name, walked, by_all, by_few in rows}


def test_few_types_fit_the_programs_as_all_do(programs: dict[str, Fitted]) -> None:
    assert {"contention_begin", "contention_end", "process_fork", "resolve_slab", "futex_exit"} <= set(programs)
    assert {name for name, program in programs.items() if program.by_all_types != program.by_few_types} == set()


@pytest.mark.parametrize("name", MOST_WALKED)
def test_the_verifiers_way_is_bounded(programs: dict[str, Fitted], name: str) -> None:
    assert 0 < programs[name].walked <= MOST_WALKED[name]
