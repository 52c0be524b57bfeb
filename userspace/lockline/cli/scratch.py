# SPDX-License-Identifier: GPL-2.0-or-later
"""A directory of our own for a moment.  The library's tempfile takes longer to load than a small report to make."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from lockline.base.errors import LocklineError

# As tempfile looks for a place.
_PLACES = ("TMPDIR", "TEMP", "TMP")
_TRIES = 100


def _make() -> str:
    places = [os.environ.get(name) for name in _PLACES]
    why: OSError | None = None
    for place in (*filter(None, places), "/tmp", "/var/tmp", os.curdir):
        for _ in range(_TRIES):
            path = os.path.join(os.path.abspath(place), f"lockline-{os.urandom(6).hex()}")  # noqa: PTH100, PTH118
            try:
                os.mkdir(path, 0o700)  # noqa: PTH102
            except FileExistsError:
                continue
            except OSError as error:
                why = error
                break
            return path
    raise LocklineError(f"no directory for temporary files: {why.strerror if why else 'all names are taken'}")


@contextmanager
def scratch() -> Iterator[str]:
    """The path of a new directory, which goes with all its files at the end.  Raises LocklineError."""
    path = _make()
    try:
        yield path
    finally:
        with suppress(OSError):
            for name in os.listdir(path):  # noqa: PTH208
                os.unlink(os.path.join(path, name))  # noqa: PTH108, PTH118
            os.rmdir(path)  # noqa: PTH106
