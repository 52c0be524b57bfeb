# SPDX-License-Identifier: GPL-2.0-or-later
"""ELF files that are made to harm who reads them."""

import bz2
import gzip
import lzma
import random
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from programs import kept

PAGE = 4096
# More than the naming helper may allocate.
BOMB = 320 << 20
# What takes long to make, and to read.
SLOW_BOMB = 96 << 20
STEP = bytes(16 << 20)
SHT_PROGBITS, SHT_SYMTAB, SHT_STRTAB = 1, 2, 3
SHF_COMPRESSED = 0x800

Section = tuple[str, int, int, bytes, int, int]  # name, type, flags, content, link, size of an entry


def elf(*sections: Section) -> bytes:
    """A shared object whose first page is mapped, with these sections behind."""
    names, body, table = b"\0", b"", bytes(64)
    begin = 64 + 56
    for name, kind, flags, content, link, entry in (*sections, (".shstrtab", SHT_STRTAB, 0, b"", 0, 0)):
        at = len(names)
        names += name.encode() + b"\0"
        data = names if name == ".shstrtab" else content
        table += struct.pack("<IIQQQQIIQQ", at, kind, flags, 0, begin + len(body), len(data), link, 0, 8, entry)
        body += data
    head = b"\x7fELF" + bytes([2, 1, 1, 0]) + bytes(8)
    head += struct.pack(
        "<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, begin + len(body), 0, 64, 56, 1, 64, len(table) // 64, len(sections) + 1
    )
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, PAGE, PAGE, PAGE)
    return (head + segment + body + table).ljust(2 * PAGE, b"\0")


class Compressor(Protocol):
    """zlib's, bz2's and lzma's."""

    def compress(self, data: bytes, /) -> bytes:
        """What is ready of the compressed data."""

    def flush(self) -> bytes:
        """The rest."""


# As little work as each can do.
COMPRESSORS: dict[str, Callable[[], Compressor]] = {
    "xz": lambda: lzma.LZMACompressor(preset=0),
    "zlib": lambda: zlib.compressobj(1),
    "deflate": lambda: zlib.compressobj(1, zlib.DEFLATED, -15),
    "bz2": lambda: bz2.BZ2Compressor(1),
}


def squeezed(how: str, size: int = BOMB) -> bytes:
    """Zeros: a few hundred KB for so many bytes."""

    def write(path: Path) -> None:
        compressor = COMPRESSORS[how]()
        path.write_bytes(b"".join(compressor.compress(STEP) for _ in range(size // len(STEP))) + compressor.flush())

    return kept(f"{size}-zeros-{how}", [Path(__file__)], write).read_bytes()


def compressed_symbols(kind: int, content: bytes) -> bytes:
    """An object whose symbol table says that it is compressed, and large."""
    header = struct.pack("<IIQQ", kind, 0, BOMB, 8)
    return elf(
        (".symtab", SHT_SYMTAB, SHF_COMPRESSED, header + content, 2, 24), (".strtab", SHT_STRTAB, 0, b"\0a\0", 0, 0)
    )


def many_symbols() -> bytes:
    """An object with a million symbols, each of which holds every address, under one name of escape codes."""
    symbol = struct.pack("<IBBHQQ", 1, 0x12, 0, 1, 0, PAGE)
    return elf(
        (".text", SHT_PROGBITS, 6, b"x", 0, 0),
        (".symtab", SHT_SYMTAB, 0, bytes(24) + symbol * 1_000_000, 3, 24),
        (".strtab", SHT_STRTAB, 0, b"\0\x1b[2Jname\nof two lines\0", 0, 0),
    )


def cut(path: Path, length: int) -> bytes:
    """The begin of a real file."""
    return path.read_bytes()[:length].ljust(PAGE, b"\0")


def damaged(path: Path, seed: int, count: int) -> bytes:
    """A real file with some bytes changed, the first 64 aside."""
    content, chance = bytearray(path.read_bytes()), random.Random(seed)
    for _ in range(count):
        content[chance.randrange(64, len(content))] = chance.randrange(256)
    return bytes(content)


def gzip_bomb() -> bytes:
    """A whole file in gzip."""
    return gzip.compress(b"\x7fELF")[:10] + squeezed("deflate")


# One file for each way to do harm that is linked in; made from a real program.
HOSTILE: dict[str, Callable[[Path], bytes]] = {
    "xz in .gnu_debugdata": lambda _: elf((".gnu_debugdata", SHT_PROGBITS, 0, squeezed("xz", SLOW_BOMB), 0, 0)),
    "zlib in a section": lambda _: compressed_symbols(1, squeezed("zlib")),
    "zstd in a section": lambda _: compressed_symbols(2, b"\x28\xb5\x2f\xfd\x00\x58" + bytes(64)),
    "gzip around the file": lambda _: gzip_bomb(),
    "bzip2 around the file": lambda _: squeezed("bz2", SLOW_BOMB),
    "many symbols": lambda _: many_symbols(),
    "cut in its head": lambda real: cut(real, 40),
    "cut in its middle": lambda real: cut(real, real.stat().st_size // 2),
    "damaged": lambda real: damaged(real, 1, 2000),
    "noise": lambda _: b"\x7fELF" + random.Random(2).randbytes(2 * PAGE),
}
