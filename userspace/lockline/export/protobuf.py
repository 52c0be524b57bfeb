# SPDX-License-Identifier: GPL-2.0-or-later
"""Protobuf's wire format, as far as exports write it.

A message is a list of (number, value): these few lines are shorter than what would load a library for it, and exports
need nothing beyond Python.  The tests read every field with the libraries of the formats' authors.
"""

import struct
from collections.abc import Iterable

_VARINT, _FIXED64, _BYTES = 0, 1, 2


def varint(value: int) -> bytes:
    """A number >= 0 in base 128, least significant digits first."""
    digits = bytearray()
    while value > 0x7F:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    digits.append(value)
    return bytes(digits)


def number(field: int, value: int) -> bytes:
    """A field that holds a number >= 0; 0 is what a missing one stands for."""
    return varint(field << 3 | _VARINT) + varint(value) if value else b""


def message(field: int, content: bytes) -> bytes:
    """A field that holds a message, a text or packed numbers."""
    return varint(field << 3 | _BYTES) + varint(len(content)) + content


def text(field: int, content: str) -> bytes:
    """A field that holds a text."""
    return message(field, content.encode("utf-8", "replace"))


def packed(field: int, values: Iterable[int]) -> bytes:
    """A repeated number."""
    content = b"".join(map(varint, values))
    return message(field, content) if content else b""


def fixed64(field: int, value: int) -> bytes:
    """A field that holds a number of eight bytes."""
    return varint(field << 3 | _FIXED64) + struct.pack("<Q", value)


def double(field: int, value: float) -> bytes:
    """A field that holds a floating-point number."""
    return varint(field << 3 | _FIXED64) + struct.pack("<d", value)
