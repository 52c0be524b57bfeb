# SPDX-License-Identifier: GPL-2.0-or-later
"""Imports the text of `perf c2c report --stdio`, or of `perf script` with data addresses and data sources.

The text may be whole or a part, packed with gzip, xz or zstd, quoted in a mail, wrapped, copied from a terminal or a
web page.  What cannot be read is named by its line number; nothing is guessed.
"""

import gzip
import lzma
import os
import shutil
import subprocess
import zlib
from importlib import import_module
from pathlib import Path
from typing import BinaryIO

from lockline.base.errors import LocklineError
from lockline.c2c.store import write_recording
from lockline.c2c.text_lines import narrow
from lockline.c2c.text_memory import memory_tables
from lockline.c2c.text_parse import C2cText, TextImportError, parse

__all__ = ["MAX_BYTES", "C2cText", "TextImportError", "import_text", "memory_tables", "parse", "read_text"]

# A report has a few megabytes, of a million samples too: perf prints lines with a thousandth of all HITM or more.
# Reading takes about ten times the text's size in memory.
MAX_BYTES = 64 << 20


def _unpacked(path: Path, file: BinaryIO) -> bytes:
    """The first MAX_BYTES + 1 bytes of a text, which gzip, xz or zstd may have packed."""
    head = file.read(6)
    file.seek(0)
    if head.startswith(b"\x1f\x8b"):
        with gzip.open(file) as unpacked:
            return unpacked.read(MAX_BYTES + 1)
    if head == b"\xfd7zXZ\0":
        with lzma.open(file) as unpacked:
            return unpacked.read(MAX_BYTES + 1)
    if head.startswith(b"\x28\xb5\x2f\xfd"):
        return _unpacked_zstd(path, file)
    return file.read(MAX_BYTES + 1)


def _unpacked_zstd(path: Path, file: BinaryIO) -> bytes:
    """By Python 3.14's own module, or by the program zstd."""
    try:
        zstd = import_module("compression.zstd")
    except ImportError:
        pass
    else:
        try:
            with zstd.open(file) as unpacked:
                content: bytes = unpacked.read(MAX_BYTES + 1)
                return content
        except zstd.ZstdError as error:
            raise TextImportError(f"{path.name}: cannot be unpacked: {error}") from error
    program = shutil.which("zstd")
    if program is None:
        raise TextImportError(f"{path.name}: packed with zstd; install zstd, or use Python 3.14, to read it")
    # What was read ahead is for the program to read again.
    os.lseek(file.fileno(), 0, os.SEEK_SET)
    with subprocess.Popen([program, "-dcq"], stdin=file, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        content = process.stdout.read(MAX_BYTES + 1)
        whole = len(content) <= MAX_BYTES
        if not whole:
            process.kill()
    if whole and process.returncode:
        raise TextImportError(f"{path.name}: cannot be unpacked: zstd says that it is damaged")
    return content


# A terminal or a serial line leaves a few zeros in a text, no more than one in so many bytes.
_STRAY_ZERO = 1000


def _wide(head: bytes) -> str:
    """UTF-16 without a byte order mark, told by the other bytes' being 0; '' if it is not that."""
    even, odd = head[::2].count(0), head[1::2].count(0)
    if 10 * (even + odd) < 4 * len(head):
        return ""
    return "utf-16-le" if not even else "utf-16-be" if not odd else ""


def read_text(path: Path, name: str = "") -> str:
    """A text file of at most MAX_BYTES, in UTF-8, UTF-16 or Windows-1252; bytes that are no text are replaced.

    name: as people know the file (default: its path).

    Raises LocklineError if it cannot be read, is too large, or no text.
    """
    shown = name or path
    try:
        with path.open("rb") as file:
            data = _unpacked(path, file)
    except (OSError, ValueError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise LocklineError(f"{shown}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if len(data) > MAX_BYTES:
        raise TextImportError(f"{shown}: larger than {MAX_BYTES >> 20} MiB; cut the report out of it")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    if wide := _wide(data[:4096]):
        return data.decode(wide, "replace")
    if data[:4096].count(0) * _STRAY_ZERO > len(data[:4096]):
        raise TextImportError(f"{shown}: neither a recording, nor perf.data, nor a text")
    return narrow(data)


def import_text(path: Path, output: Path, report: int | None = None, name: str = "") -> C2cText:
    """Writes what the text file says as a recording, and gives it; its notes are for stderr.

    name: as people know the file (default: its path).

    Raises LocklineError in one line, with the file's name.
    """
    text = read_text(path, name)
    try:
        parsed = parse(text, report)
    except TextImportError as error:
        raise TextImportError(f"{name or path}: {error}") from error
    write_recording(output, memory_tables(parsed, path.name))
    return parsed
