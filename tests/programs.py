# SPDX-License-Identifier: GPL-2.0-or-later
"""Test programs in C, built by make, and files that take long to make.

`make test-programs` makes all programs before the tests start.
"""

import fcntl
import hashlib
import os
import subprocess
from collections.abc import Callable, Iterable
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


def kept(name: str, sources: Iterable[Path], make_file: Callable[[Path], object]) -> Path:
    """A file that takes seconds to make, in build/tests/kept: it is made again when its sources are others.

    Who tests with it does not change it.  It is this user's own: perf reads no others.
    """
    digest = hashlib.sha256(str(os.geteuid()).encode())
    for source in sorted(sources):
        digest.update(source.read_bytes())
    folder = TOP / "build" / "tests" / "kept"
    found = folder / f"{name}.{digest.hexdigest()[:16]}"
    folder.mkdir(parents=True, exist_ok=True)
    # One makes it, and the others wait.
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not found.exists():
            part = folder / f"{name}.part"
            part.unlink(missing_ok=True)  # of who was killed
            make_file(part)
            part.replace(found)
            for other in folder.glob(f"{name}.*"):
                if other != found:
                    other.unlink()
    return found
