# SPDX-License-Identifier: GPL-2.0-or-later
"""Starts the import of a perf.data file before anything else of `lockline c2c report` is loaded.

The import and the loading of Python's modules take about as long, and both are done at once.  Only command lines that
leave no doubt are taken; of others the import starts when argparse has read them.

This module, and what is loaded before it, does without typing, contextlib and collections.abc: with what these load
they take longer than Python's own start.
"""

import os

from lockline.base import files
from lockline.base.collector import Importing
from lockline.base.errors import LocklineError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

# Options that do not change how a file is imported: with a value, and without.
_WITH_VALUE = ("--format", "--top", "--by", "--color", "--recording", "--btf", "--vmlinux", "--html")
_FLAGS = ("--all", "--lines", "--maps", "--trust", "--addresses", "--redact")
_INPUT = ("-i", "--input")

# The import that is under way, and the file that it reads.
_running: tuple[str, Importing] | None = None


def _file_of(arguments: "Sequence[str]") -> str | None:
    """The one file that a command line reads, if that is sure."""
    if list(arguments[:2]) != ["c2c", "report"]:
        return None
    found: list[str] = []
    words = iter(arguments[2:])
    for word in words:
        name, equals, value = word.partition("=")
        if word in _FLAGS:
            continue
        if name in _WITH_VALUE or name in _INPUT:
            value = value if equals else next(words, "")
            if name in _INPUT:
                found.append(value)
        elif word.startswith("-"):
            return None
        else:
            found.append(word)
    return found[0] if len(found) == 1 else None


def _is_perf_data(path: str) -> bool:
    try:
        if not os.path.isfile(path):  # noqa: PTH113 - pathlib is not loaded yet
            return False
        with open(path, "rb") as file:
            return file.read(len(files.PERF[0])).startswith(files.PERF)
    except (OSError, ValueError):
        return False


class _Early:
    """See started()."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._importing: Importing | None = None

    def __enter__(self) -> None:
        global _running
        if self._path is None or not _is_perf_data(self._path):
            return
        from lockline.base.scratch import scratch

        self._scratch = scratch()
        try:
            output = f"{self._scratch.__enter__()}/import.lockline"
        except LocklineError:
            # Whoever imports it later says what is wrong.
            return
        try:
            self._importing = Importing(["import", self._path, "-o", output, "-q", "--temporary"], output)
            _running = self._path, self._importing
        except LocklineError:
            # Likewise.
            self._scratch.__exit__()
        except BaseException:
            # A signal: nobody leaves what was not entered.
            if self._importing is None:
                self._scratch.__exit__()
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        global _running
        _running = None
        if self._importing is not None:
            try:
                self._importing.__exit__()
            finally:
                self._scratch.__exit__()


def started(arguments: "Sequence[str]") -> _Early:
    """Inside, the import of the command line's perf.data file is under way, if it has one."""
    return _Early(_file_of(arguments))


def take(path: str) -> Importing | None:
    """The import of this file, if it is under way."""
    if _running is None or _running[0] != path:
        return None
    return _running[1]
