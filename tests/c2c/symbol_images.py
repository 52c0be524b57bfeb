# SPDX-License-Identifier: GPL-2.0-or-later
"""Symbols for generated files: a kernel's as kallsyms and as a vmlinux, a program's as an ELF file."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

PAGE = 0x1000
SHT_PROGBITS, SHT_SYMTAB, SHT_STRTAB, SHT_NOTE, SHT_NOBITS = 1, 2, 3, 7, 8
FUNCTION, OBJECT = 2, 1


@dataclass(frozen=True)
class Symbol:
    """A function or a variable."""

    name: str
    address: int
    size: int
    data: bool = False


@dataclass(frozen=True)
class Image:
    """Symbols of a kernel or a program: text and data, each one range of addresses."""

    text: tuple[int, int]
    data: tuple[int, int]
    symbols: Sequence[Symbol]
    build_id: bytes

    def symbol(self, name: str) -> Symbol:
        """The symbol of this name; KeyError if there is none."""
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> dict[str, Symbol]:
        return {symbol.name: symbol for symbol in reversed(self.symbols)}

    def kallsyms(self, shift: int = 0) -> str:
        """The text of /proc/kallsyms; with a shift, of the System.map of the kernel before KASLR moved it."""
        marks = [("_text", self.text[0], "T"), ("_stext", self.text[0], "T"), ("_etext", self.text[1], "T")]
        rows = marks + [(s.name, s.address, "d" if s.data else "t") for s in self.symbols]
        rows += [("_edata", self.data[1], "D")]
        return "".join(
            f"{address - shift:016x} {kind} {name}\n" for name, address, kind in sorted(rows, key=lambda row: row[1])
        )

    def elf(self, shift: int = 0) -> bytes:
        """An ELF file of the symbols, linked shift below their addresses (a kernel before KASLR), without contents."""
        names = bytearray(b"\0")
        entries = [bytes(24)]
        marks = [Symbol("_text", self.text[0], 0), Symbol("_stext", self.text[0], 0)]
        for symbol in [*marks, *self.symbols]:
            kind = OBJECT if symbol.data else FUNCTION
            section = 2 if symbol.data else 1
            entries.append(
                struct.pack("<IBBHQQ", len(names), 1 << 4 | kind, 0, section, symbol.address - shift, symbol.size)
            )
            names += symbol.name.encode() + b"\0"
        section_names = b"\0.text\0.data\0.note.gnu.build-id\0.symtab\0.strtab\0.shstrtab\0"
        note = struct.pack("<III", 4, len(self.build_id), 3) + b"GNU\0" + self.build_id
        table = b"".join(entries)
        text_size, data_size = self.text[1] - self.text[0], self.data[1] - self.data[0]
        body = bytearray(64)
        places = {}
        for name, content in (
            (b"note", note),
            (b"table", table),
            (b"names", bytes(names)),
            (b"sections", section_names),
        ):
            body += bytes(-len(body) % 8)
            places[name] = len(body), len(content)
            body += content
        body += bytes(-len(body) % 8)

        def section_header(
            name: bytes, kind: int, flags: int, address: int, place: tuple[int, int], *rest: int
        ) -> bytes:
            at = section_names.index(name + b"\0")
            link, info, align, entry = rest or (0, 0, PAGE, 0)
            return struct.pack("<IIQQQQIIQQ", at, kind, flags, address, *place, link, info, align, entry)

        headers = [
            bytes(64),
            section_header(b".text", SHT_NOBITS, 6, self.text[0] - shift, (PAGE, text_size)),
            section_header(b".data", SHT_NOBITS, 3, self.data[0] - shift, (PAGE + text_size, data_size)),
            section_header(b".note.gnu.build-id", SHT_NOTE, 2, 0, places[b"note"], 0, 0, 4, 0),
            section_header(b".symtab", SHT_SYMTAB, 0, 0, places[b"table"], 5, 1, 8, 24),
            section_header(b".strtab", SHT_STRTAB, 0, 0, places[b"names"], 0, 0, 1, 0),
            section_header(b".shstrtab", SHT_STRTAB, 0, 0, places[b"sections"], 0, 0, 1, 0),
        ]
        identity = b"\x7fELF\x02\x01\x01" + bytes(9)
        body[:64] = identity + struct.pack(
            "<HHIQQQIHHHHHH", 2, 62, 1, self.text[0] - shift, 0, len(body), 0, 64, 0, 0, 64, len(headers), 6
        )
        return bytes(body) + b"".join(headers)

    def write_elf(self, path: Path, shift: int = 0) -> Path:
        """Write the ELF file; gives its path."""
        path.write_bytes(self.elf(shift))
        return path


def image(base: int, functions: Sequence[str], variables: Sequence[tuple[str, int]], build_id: bytes) -> Image:
    """An image with functions of 0x400 bytes each, and variables of the given sizes on lines of their own."""
    symbols = []
    address = base + PAGE
    for name in functions:
        symbols.append(Symbol(name, address, 0x400))
        address += 0x400
    text_end = (address + PAGE - 1) // PAGE * PAGE
    address = text_end
    for name, size in variables:
        symbols.append(Symbol(name, address, size, data=True))
        address += (size + 127) // 128 * 128
    return Image((base, text_end), (text_end, (address + PAGE) // PAGE * PAGE), symbols, build_id)
