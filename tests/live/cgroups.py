# SPDX-License-Identifier: GPL-2.0-or-later
"""Control groups of our own, for the live tests."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support import wait_for


def cgroup_mounts(controller: str = "pids") -> dict[str, Path]:
    """Where cgroups can be made: 'v2', and 'v1' with one controller's own hierarchy."""
    mounts = {}
    for line in Path("/proc/mounts").read_text().splitlines():
        _, point, kind, options, *_ = line.split()
        if kind == "cgroup2":
            mounts["v2"] = Path(point)
        elif kind == "cgroup" and controller in options.split(","):
            mounts["v1"] = Path(point)
    return mounts


@contextmanager
def cgroup(mount: Path, name: str = "below") -> Iterator[Path]:
    """A cgroup of our own, with one of that name below it; removed when its processes have left."""
    top = mount / f"lockline-test-{os.getpid()}"
    below = top / name
    try:
        below.mkdir(parents=True)
    except OSError as error:
        pytest.skip(f"cannot make a cgroup below {mount}: {error.strerror}")
    try:
        yield top
    finally:
        for directory in (below, top):
            wait_for(lambda directory=directory: remove(directory), f"removal of {directory}")  # type: ignore[misc]


def remove(directory: Path) -> bool:
    """Whether a cgroup could be removed."""
    try:
        directory.rmdir()
    except OSError:
        return False
    return True
