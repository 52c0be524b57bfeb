# SPDX-License-Identifier: GPL-2.0-or-later
"""A directory of our own for a moment.  The library's tempfile takes longer to load than a small report to make."""

import os

from lockline.base.ending import ended_by_signals
from lockline.base.errors import LocklineError

# As tempfile looks for a place.
_PLACES = ("TMPDIR", "TEMP", "TMP")
_TRIES = 100


def _write_into(path: str) -> None:
    """Raises OSError if there is no room for a file: where a disk is full there may be directories still."""
    probe = f"{path}/probe"
    try:
        with open(probe, "wb") as file:
            file.write(b"room")
    finally:
        if os.path.exists(probe):  # noqa: PTH110
            os.unlink(probe)  # noqa: PTH108


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
            try:
                _write_into(path)
            except BaseException as error:
                # A signal too: nobody leaves what was not entered.
                os.rmdir(path)  # noqa: PTH106
                if not isinstance(error, OSError):
                    raise
                why = error
                break
            return path
    raise LocklineError(f"no directory for temporary files: {why.strerror if why else 'all names are taken'}")


class _Scratch:
    """See scratch()."""

    def __enter__(self) -> str:
        self._signals = ended_by_signals()
        self._signals.__enter__()
        self._path = _make()
        return self._path

    def __exit__(self, *_: object) -> None:
        try:
            for name in os.listdir(self._path):  # noqa: PTH208
                os.unlink(os.path.join(self._path, name))  # noqa: PTH108, PTH118
            os.rmdir(self._path)  # noqa: PTH106
        except OSError:
            pass
        self._signals.__exit__()


def scratch() -> _Scratch:
    """The path of a new directory, which goes with all its files at the end, also by SIGTERM and SIGHUP.

    Its begin raises LocklineError.
    """
    return _Scratch()
