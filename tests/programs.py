# SPDX-License-Identifier: GPL-2.0-or-later
"""Test programs in C, built by make: `make test-programs` makes all of them before the tests start."""

import fcntl
import os
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parent.parent


def make(directory: Path, *targets: str) -> None:
    """Brings the targets of a directory up to date; the test fails if that does.

    Processes that run tests at the same time take turns: two makes would write the same files.
    """
    build = TOP / "build"
    build.mkdir(exist_ok=True)
    with (build / ".make.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(["make", "-s", "-C", directory, *targets], capture_output=True, text=True, check=False)
    if done.returncode:
        where = directory.relative_to(TOP)
        pytest.fail(f"make -C {where} {' '.join(targets)}: {done.stdout}{done.stderr}", pytrace=False)


def go_environment() -> dict[str, str]:
    """To build a program of one file in Go.  What is compiled is kept: since 1.20 Go's own library is, too."""
    return os.environ | {"GOCACHE": str(TOP / "build" / "go"), "GO111MODULE": "off"}
