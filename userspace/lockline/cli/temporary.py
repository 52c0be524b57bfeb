# SPDX-License-Identifier: GPL-2.0-or-later
"""Directories for the recordings of commands that keep none; those of processes that were killed go at the next one.

Each is locked (flock) as long as its process lives, however that ends.
"""

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# A younger one may be of a command that is about to lock it, s.
_LEFT_S = 60


def _locked(path: Path, age_s: float = 0) -> int | None:
    """A descriptor that holds the lock of this directory of ours, which is so old, s; None: it is none, or is used."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        if status.st_uid == os.geteuid() and time.time() - status.st_mtime >= age_s:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None


def _remove_left(prefix: str) -> None:
    for path in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        descriptor = _locked(path, _LEFT_S)
        if descriptor is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(descriptor)


@contextmanager
def temporary(command: str) -> Iterator[Path]:
    """A directory of this command's, which goes with all that is in it."""
    prefix = f"lockline-{command}-"
    _remove_left(prefix)
    with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as name:
        descriptor = _locked(Path(name))
        try:
            yield Path(name)
        finally:
            if descriptor is not None:
                os.close(descriptor)
