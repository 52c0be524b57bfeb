# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes files for people and for other tools."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from lockline.base.ending import ended_by_signals
from lockline.base.errors import LocklineError
from lockline.base.files import SQLITE


def replace_whole(path: Path, content: bytes, mode: int) -> None:
    """Replace a file at once: who reads it has all or nothing.  Raises OSError."""
    with ended_by_signals():
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            Path(name).chmod(mode)
            Path(name).replace(path)
        except BaseException:
            with suppress(OSError):
                Path(name).unlink()
            raise


def write_whole(path: Path, content: bytes) -> None:
    """Write a file, all of it or nothing; what is there is replaced, but for a recording.  Raises LocklineError."""
    try:
        if path.is_file():
            with path.open("rb") as file:
                if file.read(len(SQLITE)) == SQLITE:
                    raise LocklineError(f"{path}: is a recording, which is not replaced; name another file")
        elif path.exists():
            path.write_bytes(content)
            return
        mask = os.umask(0)
        os.umask(mask)
        replace_whole(path, content, 0o666 & ~mask)
    except (OSError, ValueError) as error:
        raise LocklineError(f"{path}: cannot be written: {getattr(error, 'strerror', None) or error}") from error
