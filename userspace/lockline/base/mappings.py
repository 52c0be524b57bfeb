# SPDX-License-Identifier: GPL-2.0-or-later
"""The lines of /proc/PID/maps (proc(5))."""

import re
from collections.abc import Iterator

from lockline.base.values import NamedTuple

_CODE = re.compile(r"x[ps] [0-9a-f]{8}")
_PLACE = re.compile(r"([0-9a-f]+)-([0-9a-f]+) ..")


class Mapped(NamedTuple):
    """One mapping.  place: its name under map_files; file: device and inode, "0" where there is no file."""

    place: str
    begin: int
    end: int
    access: str
    offset: int
    file: tuple[str, str]
    path: str


def mappings(text: str) -> Iterator[Mapped]:
    """Each line BEGIN-END ACCESS OFFSET DEVICE INODE [PATH]; what is none, as where the text was cut, is left out."""
    for line in text.splitlines():
        words = line.split(maxsplit=5)
        try:
            place, access, offset, device, inode = words[:5]
            begin, end = (int(part, 16) for part in place.split("-"))
            yield Mapped(place, begin, end, access, int(offset, 16), (device, inode), "".join(words[5:]))
        except ValueError:
            continue


def code_in(text: str) -> list[tuple[int, int]]:
    """Begin and end of what a process may run.  A process may have many mappings, and little of it is code."""
    found = []
    for one in _CODE.finditer(text):
        # An x is looked for fast, and stands in few other lines; a path may have all of it.
        place = _PLACE.fullmatch(text, text.rfind("\n", 0, one.start()) + 1, one.start())
        if place is not None:
            found.append((int(place[1], 16), int(place[2], 16)))
    return found
