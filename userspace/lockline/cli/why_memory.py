# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads code and stacks of processes from their memory."""

import platform
from bisect import bisect_right
from collections.abc import Iterator

from lockline.base.mappings import Mapped, code_in, mappings
from lockline.base.patience import MOST_MAPS_BYTES, Reader
from lockline.investigation import probes
from lockline.investigation.wait_loops import is_after_call


class Memory:
    """The memory of processes, open for as long as the block lasts.

    rest_ns: CPU time that may be used for lists of mappings that are longer than usual, and for the names behind them.
    """

    def __init__(self, rest_ns: int = probes.MAPS_BYTE_NS * MOST_MAPS_BYTES) -> None:
        self._machine = platform.machine()
        self._reader = Reader()
        self._code: dict[int, tuple[list[int], list[int]]] = {}
        self._rest_bytes = max(0, rest_ns) // probes.MAPS_BYTE_NS
        self._unpaid: set[int] = set()

    @property
    def unpaid(self) -> frozenset[int]:
        """The processes whose mappings were too many to be read."""
        return frozenset(self._unpaid)

    def __enter__(self) -> "Memory":
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.__exit__()

    def read(self, tgid: int, begin: int, size: int) -> bytes:
        """So many bytes from there on, or fewer; none if they cannot be read."""
        return self._reader.memory(tgid, begin, size)

    def holder(self, tgid: int, mutex: int) -> tuple[bytes, bytes, tuple[str, ...]] | None:
        """A mutex before and after a look at its owner, and that look (Reader.holder())."""
        return self._reader.holder(tgid, mutex)

    def follows_call(self, tgid: int, address: int) -> bool:
        """Whether a call stands before this place, so that a function may return to it."""
        return is_after_call(self.read(tgid, address - 8, 8), self._machine)

    def is_code(self, tgid: int, address: int) -> bool:
        """Whether a process may run what is at this address."""
        if tgid not in self._code:
            code = code_in(self._maps(tgid))
            self._code[tgid] = [begin for begin, _ in code], [end for _, end in code]
        begins, ends = self._code[tgid]
        at = bisect_right(begins, address) - 1
        return at >= 0 and address < ends[at]

    def affords_names(self, tgid: int) -> bool:
        """Whether names of the code of a process can be paid for."""
        self.is_code(tgid, 0)
        return tgid not in self._unpaid

    def _maps(self, tgid: int) -> str:
        """The list of mappings; '' if it is too long to be paid for.  It is read no further than that."""
        most = min(MOST_MAPS_BYTES, probes.ORDINARY_MAPS_BYTES + self._rest_bytes)
        text = self._reader.maps(tgid, most)
        self._rest_bytes -= min(self._rest_bytes, max(0, len(text) - probes.ORDINARY_MAPS_BYTES))
        if most <= len(text) < MOST_MAPS_BYTES:
            self._unpaid.add(tgid)
            return ""
        return text

    def shared_with(self, tgid: int, address: int, other: int) -> bool:
        """Whether another process can write what is at this address of a process: it has the same memory, shared."""
        here = {one.file for one in self._shared(tgid) if one.begin <= address < one.end}
        return bool(here) and any(one.file in here and one.access[1] == "w" for one in self._shared(other))

    def _shared(self, tgid: int) -> Iterator[Mapped]:
        """Mappings of a file, or of shared memory, that are shared."""
        return (one for one in mappings(self._reader.maps(tgid)) if one.access[3:] == "s" and one.file[1] != "0")

    def returns_to(self, tgid: int, address: int) -> bool:
        """Whether a word of a stack may be where a function returns to."""
        return self.is_code(tgid, address) and self.follows_call(tgid, address)
