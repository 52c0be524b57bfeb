# SPDX-License-Identifier: GPL-2.0-or-later
"""Finds a symbol in an ELF file: where it is in memory, and in the file."""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lockline.base.errors import LocklineError

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMTAB, _DYNSYM, _LOAD, _TLS = 2, 11, 1, 6
_PAGE = 4096
# A larger table of symbols is not read.
_MOST = 1 << 30


@dataclass(frozen=True, slots=True)
class Symbol:
    """address: as the file has it, before it is loaded; local: each thread has its own (TLS)."""

    address: int
    size: int
    local: bool


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of the file that is loaded."""

    offset: int
    address: int
    file_size: int


class ElfFile:
    """A 64-bit little-endian ELF file, open.  Raises LocklineError where it is none."""

    def __init__(self, path: Path, name: str = "") -> None:
        self.name = name or str(path)
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise LocklineError(f"{self.name}: cannot be read: {error.strerror}") from error
        try:
            self._read_headers()
        except (struct.error, LocklineError) as error:
            self._file.close()
            raise LocklineError(f"{self.name}: is not a 64-bit ELF file, or is damaged") from error

    def __enter__(self) -> "ElfFile":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def _bytes(self, offset: int, size: int) -> bytes:
        if size > _MOST:
            raise LocklineError(f"{self.name}: damaged")
        try:
            self._file.seek(offset)
            return self._file.read(size)
        except (OSError, ValueError, OverflowError) as error:
            raise LocklineError(f"{self.name}: damaged") from error

    def _table(self, shape: struct.Struct, offset: int, number: int) -> list[tuple[int, ...]]:
        content = self._bytes(offset, shape.size * number)
        return [shape.unpack_from(content, at * shape.size) for at in range(number)]

    def _read_headers(self) -> None:
        header = _HEADER.unpack(self._bytes(0, _HEADER.size))
        if header[0][:6] != b"\x7fELF\x02\x01":
            raise LocklineError(f"{self.name}: not ELF")
        segments = self._table(_SEGMENT, header[5], header[10])
        self.segments: Sequence[Segment] = tuple(Segment(one[2], one[3], one[5]) for one in segments if one[0] == _LOAD)
        self._sections = self._table(_SECTION, header[6], header[12])

    def _tables(self) -> Iterator[tuple[bytes, bytes]]:
        """The symbols and their names, of .symtab first."""
        for kind in (_SYMTAB, _DYNSYM):
            for section in self._sections:
                if section[1] == kind and section[6] < len(self._sections):
                    names = self._sections[section[6]]
                    size = section[5] - section[5] % _SYMBOL.size
                    yield self._bytes(section[4], size), self._bytes(names[4], names[5])

    def find(self, name: str) -> Symbol | None:
        """The symbol of that name that is defined here; None: there is none."""
        wanted = name.encode() + b"\0"
        for symbols, names in self._tables():
            places = set()
            at = names.find(wanted)
            while at >= 0:
                places.add(at)
                at = names.find(wanted, at + 1)
            if not places:
                continue
            symbols = symbols[: len(symbols) - len(symbols) % _SYMBOL.size]
            for at, info, _, section, address, size in _SYMBOL.iter_unpack(symbols):
                if at in places and section:
                    return Symbol(address, size, info & 15 == _TLS)
        return None

    def offset_of(self, address: int) -> int | None:
        """Where in the file that address is loaded from; None: from nowhere."""
        for one in self.segments:
            if one.address <= address < one.address + one.file_size:
                return address - one.address + one.offset
        return None

    def bias_of(self, start: int, offset: int) -> int | None:
        """By how much the file is moved in memory, where its byte `offset` is mapped at `start`."""
        for one in self.segments:
            first = one.offset - one.offset % _PAGE
            if first <= offset < max(one.offset + one.file_size, first + 1):
                return start - (one.address - one.offset + offset)
        return None
