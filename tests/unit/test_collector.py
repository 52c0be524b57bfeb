# SPDX-License-Identifier: GPL-2.0-or-later
"""The collector's pure parts: C programs that test them, built with the sanitizers, one test here per line of TAP.

tests/unit/Makefile has the table of the programs and what they test.
"""

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from programs import TOP, make
from tap import parse_tap

HERE = Path(__file__).parent
CASES = [
    (source.stem, name)
    for source in sorted(HERE.glob("*_test.c"))
    for name in re.findall(r"TEST\((\w+)\)", source.read_text())
]


@cache
def all_are_made() -> bool:
    """Whether all programs are up to date, as `make test` leaves them: to ask make once for each takes 5 s."""
    return subprocess.run(["make", "-q", "-s", "-C", HERE], capture_output=True, check=False).returncode == 0


@cache
def results(program: str, *arguments: str) -> dict[str, tuple[bool, str]]:
    """Builds and runs one program: per test whether it passed, and what it complained of."""
    if not all_are_made():
        make(HERE, program)
    done = subprocess.run(
        [TOP / "build" / "tests" / "unit" / program, *arguments],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    found = parse_tap(done.stdout)
    assert f"1..{len(found)}" in done.stdout.splitlines(), done.stdout + done.stderr
    assert (done.returncode == 0) == all(passed for passed, _ in found.values()), done.stderr
    return found


@pytest.mark.parametrize(("program", "name"), CASES)
def test_collector(program: str, name: str) -> None:
    passed, complaints = results(program)[name]
    assert passed, complaints


@pytest.mark.laboratory
@pytest.mark.parametrize("program", ["recording_disk_test", "recording_keep_test"])
def test_many_more_moments_and_intervals(program: str) -> None:
    for name, (passed, complaints) in results(program, "many").items():
        assert passed, f"{name}: {complaints}"
