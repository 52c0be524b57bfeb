# SPDX-License-Identifier: GPL-2.0-or-later
"""Some of the laboratory of incidents (make lab-incidents) in guests of other kernels: Python and all, emulated."""

import os
from pathlib import Path

import pytest

from incidents.guests import run_in_guest

# Of locks of programs and of the kernel, and nothing at all: few, as each takes a minute or two there.
NAMES = ("robust-sleep", "deadlock-of-three", "one-directory", "own-files")


@pytest.mark.parametrize("kernel", os.environ.get("KERNELS", "trixie").split())
def test_why_finds_planted_causes_in_a_guest(kernel: str, tmp_path: Path) -> None:
    """What is sure is right, and at most one of them is not: an emulated guest is starved of CPU time."""
    results = run_in_guest(kernel, NAMES, tmp_path)
    told = [(one["case"]["name"], one["right"], one["sure"], one["title"]) for one in results]
    assert {one["case"]["name"].partition(",")[0] for one in results} == set(NAMES)
    assert all(one["right"] or one["sure"] != "high" for one in results), told
    assert sum(one["right"] for one in results) >= len(results) - 1, told
