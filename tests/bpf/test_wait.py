# SPDX-License-Identifier: GPL-2.0-or-later
"""The hot path, run by BPF_PROG_TEST_RUN: one test here per line of wait_test's TAP."""

import re
import subprocess
from pathlib import Path

import pytest

from tap import parse_tap

NAMES = re.findall(r"\tTEST\((\w+), \w+\)", Path(__file__).with_name("wait_test.c").read_text())


@pytest.fixture(scope="module", params=[(), ("--long-way",)], ids=["plain", "long-way"])
def results(build: Path, bpf_machine: None, request: pytest.FixtureRequest) -> dict[str, tuple[bool, str]]:
    """Per test of wait_test: whether it passed, and what it complained of."""
    command = [build / "tests" / "wait_test", *request.param]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert "Bail out!" not in done.stdout, done.stdout + done.stderr
    return parse_tap(done.stdout)


@pytest.mark.parametrize("name", NAMES)
def test_hot_path(results: dict[str, tuple[bool, str]], name: str) -> None:
    passed, complaints = results[name]
    assert passed, complaints
