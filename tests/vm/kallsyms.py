# SPDX-License-Identifier: GPL-2.0-or-later
"""Names of all symbols of a kernel image, from the table that the kernel keeps of them (kernel/kallsyms.c).

Debian's System.map is empty, and BTF has no variables; this table has both, as /proc/kallsyms shows them.
"""

import struct

# Tokens of single characters stand in their order: those of the digits are easy to find.
_DIGITS = b"\0".join(b"%d" % digit for digit in range(10)) + b"\0"
_TOKENS = 256
# Of names that follow one marker.
_GROUP = 256
# Names of a kernel take less.
_MOST_BYTES = 16 << 20
_FEWEST, _MOST = 20_000, 1_000_000


class NoSymbolsError(Exception):
    """The image has no such table, or an unknown kind of it."""


def _tokens(image: bytes) -> tuple[int, list[bytes]]:
    """Where the table of tokens begins, and the tokens: strings that end in 0, with an index behind them."""
    found = image.find(_DIGITS)
    while found >= 0:
        begin = found
        # Back over the tokens before that of "0".
        for _ in range(ord("0")):
            begin = image.rfind(b"\0", 0, begin - 1) + 1
        tokens = image[begin : begin + 8192].split(b"\0")[:_TOKENS]
        index = struct.pack(f"<{_TOKENS}H", *(sum(len(one) + 1 for one in tokens[:i]) for i in range(_TOKENS)))
        if image.find(index, begin, begin + 16384) >= 0:
            return begin, tokens
        found = image.find(_DIGITS, found + 1)
    raise NoSymbolsError("no table of tokens")


def _names(image: bytes, begin: int, number: int, end: int) -> tuple[list[bytes], list[int]]:
    """So many packed names from there on, and where each group of them begins; none if they pass the end."""
    names, groups, at = [], [], begin
    for count in range(number):
        if count % _GROUP == 0:
            groups.append(at - begin)
        length = image[at]
        at += 1
        if length & 0x80:
            length = length & 0x7F | image[at] << 7
            at += 1
        if not length or at + length > end:
            return [], []
        names.append(image[at : at + length])
        at += length
    return names, groups


def symbols_of(image: bytes) -> set[str]:
    """The names, of functions and, with CONFIG_KALLSYMS_ALL, of variables; without their types."""
    end, tokens = _tokens(image)
    # The number of names stands before them, aligned to 4 or 8, and their markers, one for each group, behind them.
    for at in range(end - end % 4, max(0, end - _MOST_BYTES), -4):
        (number,) = struct.unpack_from("<I", image, at)
        if not _FEWEST <= number <= _MOST:
            continue
        for begin in (at + 4, at + 8):
            names, groups = _names(image, begin, number, end)
            if names and image.find(struct.pack(f"<{len(groups)}I", *groups), begin, end) >= 0:
                # The first character is the type.
                return {b"".join(tokens[byte] for byte in name)[1:].decode(errors="replace") for name in names}
    raise NoSymbolsError("no table of names")
