# SPDX-License-Identifier: GPL-2.0-or-later
"""What `lockline c2c` reads: what a file is, standard input, and files that options name."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lockline.base import files
from lockline.base.errors import LocklineError
from lockline.base.values import dataclass

if TYPE_CHECKING:
    import argparse

STANDARD_INPUT = "-"
# Bytes at the begin of a list of symbols in which one has to stand.
_SYMBOLS_HEAD = 1 << 16
_SYMBOL = rb"^[0-9a-fA-F]{8,16} [A-Za-z?] \S"
_BTF = (b"\x9f\xeb", b"\xeb\x9f")
_ELF = b"\x7fELF"


@dataclass(frozen=True)
class Input:
    """A file that is read; name: as people know it.  standard: it holds what came from standard input."""

    path: str
    name: str
    standard: bool = False


@contextmanager
def opened(name: str, directory: str) -> Iterator[Input]:
    """The file of this name; standard input becomes a file in the directory."""
    if name != STANDARD_INPUT:
        yield Input(files.plain_path(name), name)
        return
    import shutil

    copy = f"{directory}/standard input"
    try:
        with open(copy, "wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
    except OSError as error:
        raise LocklineError(f"standard input: cannot be read: {error.strerror}") from error
    yield Input(copy, "standard input", standard=True)


def kind_of(given: Input) -> str:
    """What a file is by its first bytes: recording, perf.data or text.  Raises LocklineError if it cannot be read."""
    head = _head(given.path, given.name, 16)
    if not head:
        raise LocklineError(f"{given.name}: empty")
    if head.startswith(files.PERF):
        return "perf.data"
    return "recording" if head.startswith(files.SQLITE) else "text"


def _head(path: str, name: str, size: int) -> bytes:
    try:
        if files.is_regular(path) is False:
            raise LocklineError(f"{name}: not a file")
        with open(path, "rb") as file:
            return file.read(size)
    except (OSError, ValueError) as error:
        raise LocklineError(f"{name}: cannot be read: {getattr(error, 'strerror', None) or error}") from error


def check_options(arguments: "argparse.Namespace", kind: str, name: str) -> None:
    """Raises LocklineError if an option names a file that is not there or of the wrong kind, or does not fit."""
    for option in ("kallsyms", "system_map", "symfs"):
        value = getattr(arguments, option)
        if value is None:
            continue
        word = "--" + option.replace("_", "-")
        if kind != "perf.data":
            raise LocklineError(f"{word} is for perf.data files only; the {kind} {name} has its symbols in it")
        if option == "symfs":
            if not os.path.isdir(value):  # noqa: PTH112
                raise LocklineError(f"{word} {value}: not a directory")
        elif not re.search(_SYMBOL, _head(value, f"{word} {value}", _SYMBOLS_HEAD), re.MULTILINE):
            raise LocklineError(f"{word} {value}: not a list of symbols, as /proc/kallsyms and System.map are")
    btf = getattr(arguments, "btf", None)
    if btf is not None:
        head = _head(btf, f"--btf {btf}", 4)
        if not head.startswith((*_BTF, _ELF)):
            raise LocklineError(f"--btf {btf}: neither BTF nor a vmlinux with it")
        if head == _ELF:
            # The collector alone can tell whether types are in it.
            from lockline.base.collector import ask_collector

            ask_collector(["types", "--btf", str(btf), "--struct=list_head"])
