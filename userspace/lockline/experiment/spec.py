# SPDX-License-Identifier: GPL-2.0-or-later
"""What counts as work: reads the SPEC of `--progress`."""

import re
from collections.abc import Callable
from dataclasses import dataclass

MOST_PID = 1 << 22
_SIZES = (1, 2, 4, 8)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*")
_SYMBOL = re.compile(r"([A-Za-z_$.][A-Za-z0-9_$.@]*)(?:\+(0x[0-9a-fA-F]{1,16}|[0-9]{1,18}))?")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{1,16}")
FORMS = (
    "tracepoint:SUBSYSTEM:NAME[/PID], uprobe:FILE:SYMBOL[/PID], memory:PID:SYMBOL[:SIZE], memory:PID:ADDRESS[:SIZE],"
    " io:PID, file:PATH[:WORD] or command:COMMAND"
)


@dataclass(frozen=True, slots=True)
class Tracepoint:
    """Hits of a tracepoint; pid: of this process alone, and of what it forks."""

    subsystem: str
    name: str
    pid: int | None = None


@dataclass(frozen=True, slots=True)
class Uprobe:
    """Calls of a function of a program or library."""

    file: str
    symbol: str
    offset: int = 0
    pid: int | None = None


@dataclass(frozen=True, slots=True)
class Memory:
    """A counter in a process's memory.  symbol: "" for an address, which is then `offset`; size: 0 if not given."""

    pid: int
    symbol: str
    offset: int
    size: int = 0


@dataclass(frozen=True, slots=True)
class InputOutput:
    """System calls of a process that read or write."""

    pid: int


@dataclass(frozen=True, slots=True)
class File:
    """A number in a file; word: after this word, or the n-th number; "": the first."""

    path: str
    word: str = ""


@dataclass(frozen=True, slots=True)
class Command:
    """A number that a command prints."""

    command: str


Spec = Tracepoint | Uprobe | Memory | InputOutput | File | Command


def parse_pid(text: str) -> int:
    """The number of a process.  Raises ValueError."""
    if not (text.isascii() and text.isdigit() and len(text) < 9 and 0 < int(text) <= MOST_PID):
        raise ValueError(f"'{text}' must be the number of a process, as in 1234")
    return int(text)


def _with_pid(text: str) -> tuple[str, int | None]:
    """A name, and the process after its last slash, if a number stands there."""
    name, slash, pid = text.rpartition("/")
    if slash and pid.isascii() and pid.isdigit():
        return name, parse_pid(pid)
    return text, None


def _tracepoint(rest: str) -> Tracepoint:
    name, pid = _with_pid(rest)
    subsystem, _, event = name.partition(":")
    if not _NAME.fullmatch(subsystem) or not _NAME.fullmatch(event):
        raise ValueError(
            f"'tracepoint:{rest}' must be tracepoint:SUBSYSTEM:NAME, as in tracepoint:block:block_rq_issue"
        )
    return Tracepoint(subsystem, event, pid)


def _symbol(text: str) -> tuple[str, int]:
    """A symbol, and the offset after it.  Raises ValueError."""
    found = _SYMBOL.fullmatch(text)
    if not found:
        raise ValueError(f"'{text}' must be a symbol, as in rounds or stats+16")
    return found[1], int(found[2], 0) if found[2] else 0


def _uprobe(rest: str) -> Uprobe:
    place, pid = _with_pid(rest)
    file, colon, symbol = place.rpartition(":")
    if not colon or not file or "\0" in file:
        raise ValueError(f"'uprobe:{rest}' must be uprobe:FILE:SYMBOL, as in uprobe:/usr/bin/server:handle")
    return Uprobe(file, *_symbol(symbol), pid)


def _memory(rest: str) -> Memory:
    parts = rest.split(":")
    if len(parts) not in (2, 3):
        raise ValueError(f"'memory:{rest}' must be memory:PID:SYMBOL[:SIZE] or memory:PID:ADDRESS[:SIZE]")
    size = 0
    if len(parts) == 3:
        if parts[2] not in map(str, _SIZES):
            raise ValueError(f"'{parts[2]}' must be a size in bytes: 1, 2, 4 or 8")
        size = int(parts[2])
    pid = parse_pid(parts[0])
    if _ADDRESS.fullmatch(parts[1]):
        return Memory(pid, "", int(parts[1], 16), size)
    return Memory(pid, *_symbol(parts[1]), size)


def _file(rest: str) -> File:
    path, colon, word = rest.rpartition(":")
    if not colon:
        path, word = rest, ""
    if not path or "\0" in rest:
        raise ValueError(f"'file:{rest}' must be file:PATH or file:PATH:WORD, as in file:/proc/1234/io:syscw")
    return File(path, word)


def _command(rest: str) -> Command:
    if not rest.strip() or "\0" in rest:
        raise ValueError("'command:' needs a command that prints a number")
    return Command(rest)


_KINDS: dict[str, Callable[[str], Spec]] = {
    "tracepoint": _tracepoint,
    "uprobe": _uprobe,
    "memory": _memory,
    "io": lambda rest: InputOutput(parse_pid(rest)),
    "file": _file,
    "command": _command,
}


def parse_spec(text: str) -> Spec:
    """What a SPEC names.  Raises ValueError with one line."""
    kind, colon, rest = text.partition(":")
    if not colon or kind not in _KINDS:
        raise ValueError(f"'{text}' must be {FORMS}")
    return _KINDS[kind](rest)


_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")


def number_in(text: str, word: str = "") -> float | None:
    """The first number of a text; word: the first after this word, or the n-th; None: there is none.

    A word is what stands between blanks, without a colon or equals sign at its end.
    """
    if word.isascii() and word.isdigit() and word:
        numbers = [one for one in text.split() if _NUMBER.fullmatch(one)]
        return float(numbers[int(word) - 1]) if 0 < int(word[:9]) <= len(numbers) else None
    words = text.replace("=", " = ").split() if word else text.split()
    if word:
        places = [place for place, one in enumerate(words) if one in (word, word + ":")]
        if not places:
            return None
        words = words[places[0] + 1 :]
    return next((float(one) for one in words if _NUMBER.fullmatch(one)), None)
