# SPDX-License-Identifier: GPL-2.0-or-later
"""What cache lines are called across boots: by the object that they lie in, a static symbol, or their functions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lockline.base.errors import LocklineError, RecordingError
from lockline.c2c.report import make_c2c_report
from lockline.c2c.types_reader import find_types
from lockline.recording import memory_rows as rows
from lockline.recording.memory import LineFunction
from lockline.recording.reader import Recording

# Functions name a line if they make this part of its transfers together, at most so many of them.
_NAMING_PART = 0.8
_NAMING_FUNCTIONS = 3

# Lines with fewer transfers than so many others keep the names that need no types.
TYPED_LINES = 200

Key = tuple[str, str, int, int]


def function_name(functions: Sequence[LineFunction]) -> str:
    """What lines are called that have no symbol: the functions that make most of their transfers, by name."""
    named = [function for function in functions if function.symbol]
    weigh_records = not any(function.snoops for function in named)
    weights = {function.symbol: function.records if weigh_records else function.snoops for function in named}
    total = sum(weights.values())
    chosen: list[str] = []
    seen = 0
    for symbol, weight in sorted(weights.items(), key=lambda item: (-item[1], item[0])):
        if len(chosen) == _NAMING_FUNCTIONS or seen >= total * _NAMING_PART:
            break
        chosen.append(symbol)
        seen += weight
    return ", ".join(sorted(chosen))


def symbol_name(line: rows.MemoryLine) -> str:
    """The static variable that a line lies in, and where."""
    return line.symbol + (f"+{line.symbol_offset:#x}" if line.symbol_offset else "")


def key_of(line: rows.MemoryLine) -> Key:
    """What tells lines of one recording apart."""
    return line.space, line.object, line.pid, line.address & (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class TypeNames:
    """Lines by the object that they lie in, as "futex_hash_bucket+0x40"; sure: not inferred from the code alone."""

    names: Mapping[Key, str]
    sure: frozenset[str]

    def common(self, other: "TypeNames") -> frozenset[str]:
        """Names that may be used: sure ones, and inferred ones that both sides have."""
        return self.sure | other.sure | (frozenset(self.names.values()) & frozenset(other.names.values()))


NO_NAMES = TypeNames({}, frozenset())


def type_names(recording: Recording) -> tuple[TypeNames, str]:
    """What objects the first lines lie in, as far as types of the kernel are at hand; else why they are not."""
    try:
        types = find_types([recording], None)
        # Another kernel's types would make the names depend on where the comparison is made.
        if types.reader() is None or types.foreign:
            return NO_NAMES, f"{recording.path}: no types of its kernel are here"
        report = make_c2c_report(recording, TYPED_LINES, types.reader())
    except RecordingError:
        raise
    except LocklineError as error:
        return NO_NAMES, f"{recording.path}: the types of its kernel cannot be had: {error}"
    found = [
        ((line.line.space, line.line.object, line.line.pid, line.line.address), line.placement) for line in report.lines
    ]
    placed = {
        key: (f"{placement.type}+{placement.base:#x}", placement.sure)
        for key, placement in found
        if placement.type and placement.base is not None
    }
    return (
        TypeNames(
            {key: name for key, (name, _) in placed.items()}, frozenset(name for name, sure in placed.values() if sure)
        ),
        "",
    )
