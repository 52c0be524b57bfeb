# SPDX-License-Identifier: GPL-2.0-or-later
"""Instructions that access memory, as recordings have them (table memory_code)."""

from collections.abc import Iterable

from lockline.base.values import NamedTuple
from lockline.recording.conditions import among
from lockline.recording.memory_rows import MemoryCode
from lockline.recording.reader import Recording


class Code(NamedTuple):
    """An instruction that accesses memory."""

    address: int
    space: str
    symbol: str
    offset: int
    object: str
    line: str

    @property
    def function(self) -> str:
        """The function's name without what the compiler adds to it (.constprop.0, .isra.0, .part.23, .cold)."""
        return self.symbol.partition(".")[0] if self.space == "kernel" else self.symbol

    @property
    def declared(self) -> str:
        """The function's name as debug information has it: of C++, without classes and parameters."""
        return self.symbol.partition("(")[0].rpartition("::")[2].partition(".")[0]


UNKNOWN_CODE = Code(0, "", "", 0, "", "")


def unsigned(address: int) -> int:
    """An address as the processor has it."""
    return address & (1 << 64) - 1


def read_codes(recording: Recording, ids: Iterable[int]) -> dict[int, Code]:
    """The instructions of these ids.  Raises RecordingError if the recording is damaged."""
    found = recording.table(MemoryCode, among("id", sorted(set(ids))))
    return {row.id: Code(unsigned(row.address), *row[2:]) for row in found}
