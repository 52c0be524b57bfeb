# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads code and stacks of processes from their memory."""

import platform
from bisect import bisect_right

from lockline.base.patience import Reader
from lockline.investigation.spins import is_after_call


class Memory:
    """The memory of processes, open for as long as the block lasts."""

    def __init__(self) -> None:
        self._machine = platform.machine()
        self._reader = Reader()
        self._code: dict[int, tuple[list[int], list[int]]] = {}

    def __enter__(self) -> "Memory":
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.__exit__()

    def read(self, tgid: int, begin: int, size: int) -> bytes:
        """So many bytes from there on, or fewer; none if they cannot be read."""
        return self._reader.memory(tgid, begin, size)

    def follows_call(self, tgid: int, address: int) -> bool:
        """Whether a call stands before this place, so that a function may return to it."""
        return is_after_call(self.read(tgid, address - 8, 8), self._machine)

    def is_code(self, tgid: int, address: int) -> bool:
        """Whether a process may run what is at this address."""
        if tgid not in self._code:
            ranges = []
            for line in self._reader.maps(tgid).splitlines():
                words = line.split(None, 2)
                begin, _, end = words[0].partition("-")
                if len(words) > 1 and "x" in words[1]:
                    ranges.append((int(begin, 16), int(end, 16)))
            self._code[tgid] = [begin for begin, _ in ranges], [end for _, end in ranges]
        begins, ends = self._code[tgid]
        at = bisect_right(begins, address) - 1
        return at >= 0 and address < ends[at]

    def shared_with(self, tgid: int, address: int, other: int) -> bool:
        """Whether another process can write what is at this address of a process: it has the same memory, shared."""
        files: list[set[tuple[str, str]]] = []
        for of in (tgid, other):
            files.append(set())
            for line in self._reader.maps(of).splitlines():
                # BEGIN-END ACCESS OFFSET DEVICE INODE PATH
                words = line.split(None, 5)
                if len(words) < 5 or words[4] == "0" or words[1][3] != "s":
                    continue
                begin, end = (int(part, 16) for part in words[0].split("-"))
                if begin <= address < end if of == tgid else words[1][1] == "w":
                    files[-1].add((words[3], words[4]))
        return bool(files[0] & files[1])

    def returns_to(self, tgid: int, address: int) -> bool:
        """Whether a word of a stack may be where a function returns to."""
        return self.is_code(tgid, address) and self.follows_call(tgid, address)
