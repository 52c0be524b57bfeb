# SPDX-License-Identifier: GPL-2.0-or-later
"""Counters of work that is done: each is read at the ends of a slice."""

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from lockline.base.errors import LocklineError
from lockline.base.mappings import mappings
from lockline.base.patience import Reader
from lockline.experiment.elf import ElfFile
from lockline.experiment.perf import tracepoint_hits, uprobe_hits
from lockline.experiment.processes import is_gone, named
from lockline.experiment.spec import Command, File, InputOutput, Memory, Spec, Tracepoint, Uprobe, number_in

# Of what a command prints, at most so much is read.
_MOST_PRINTED = 1 << 20
COMMAND_SECONDS = 5.0
# How long a counter is watched before the start, and how often.
CHECK_SECONDS = 1.0
_LOOK_SECONDS = 0.005
_MOST_BYTES = 1 << 22
# Seconds of a slice, at most: what is stopped for longer may be taken for dead.
MOST_SLICE = 5.0


class Counter:
    """A number that grows with the work.

    words: what it counts.  who: whose work that is; "" if not known.  pid: that process, else None.
    """

    def __init__(self, words: str, read: Callable[[], float], who: str = "", pid: int | None = None) -> None:
        self.words, self.who, self.pid = words, who, pid
        self._read = read
        self.modulus = 0

    def read(self) -> float:
        """The number now.  Raises LocklineError where the process has ended, or the number cannot be read."""
        try:
            return self._read()
        except (OSError, LocklineError):
            if self.pid is not None and is_gone(self.pid):
                raise LocklineError(f"the process whose work is counted has ended: {self.who}") from None
            raise

    def grown(self, before: float, after: float) -> float:
        """From one reading to the next.  Raises LocklineError if it went back."""
        if after >= before:
            return after - before
        # A small number in memory begins again at 0.
        wrapped = after - before + self.modulus
        if 0 <= wrapped < self.modulus / 2:
            return wrapped
        raise LocklineError(
            f"{self.words} went back from {before:.12g} to {after:.12g}: it must be a number that grows"
        )


def _of_memory(spec: Memory) -> Iterator[Counter]:
    who = named(spec.pid)
    place, size = (spec.offset, 0) if not spec.symbol else _symbol_in(spec.pid, spec.symbol)
    if spec.symbol:
        place += spec.offset
    if not spec.size and size and (size not in (1, 2, 4, 8) or spec.offset):
        raise LocklineError(f"{spec.symbol} has {size} bytes: say how large the counter is, as in {spec.symbol}:8")
    length = spec.size or size or 8
    reader = Reader()

    def read() -> float:
        content = reader.memory(spec.pid, place, length)
        if len(content) != length:
            if reader.late:
                raise LocklineError(f"the memory of {who} at {place:#x} does not come: nobody serves its page")
            raise LocklineError(f"{who} has no memory at {place:#x}, or has ended")
        return int.from_bytes(content, "little")

    name = spec.symbol + (f"+{spec.offset}" if spec.offset else "") if spec.symbol else f"{place:#x}"
    counter = Counter(f"{name} in the memory of {who}", read, who, spec.pid)
    counter.modulus = 1 << 8 * length
    try:
        yield counter
    finally:
        reader.__exit__()


def _mapped(pid: int) -> dict[str, tuple[int, int, str]]:
    """By file: where its first mapping is, from which byte of it, and the name under map_files."""
    found: dict[str, tuple[int, int, str]] = {}
    with Reader() as reader:
        maps = reader.maps(pid)
    if not maps:
        raise LocklineError(f"process {pid} does not exist, or does not show its mappings")
    for one in mappings(maps):
        if one.path.startswith("/") and one.path not in found:
            found[one.path] = one.begin, one.offset, one.place
    return found


def _symbol_in(pid: int, name: str) -> tuple[int, int]:
    """Address and size of a variable of a process: of its program, else of a library.  Raises LocklineError."""
    exe = str(Path(f"/proc/{pid}/exe").readlink())
    mapped = _mapped(pid)
    for file in sorted(mapped, key=lambda one: (one != exe, one)):
        start, offset, place = mapped[file]
        try:
            with ElfFile(Path(f"/proc/{pid}/map_files/{place}"), file) as elf:
                symbol = elf.find(name)
                bias = elf.bias_of(start, offset)
        except LocklineError:
            # Fonts, locales and the like are mapped too.
            continue
        if symbol is None or bias is None:
            continue
        if symbol.local:
            raise LocklineError(f"{name}: each thread has its own; name a variable that all share")
        return symbol.address + bias, symbol.size
    raise LocklineError(f"{named(pid)} has no symbol {name}; a program without symbols (strip) has none")


def _of_tracepoint(spec: Tracepoint) -> Iterator[Counter]:
    who = named(spec.pid) if spec.pid else ""
    hits = tracepoint_hits(spec.subsystem, spec.name, spec.pid)
    try:
        words = f"{spec.subsystem}:{spec.name}" + (f" of {who}" if who else "")
        yield Counter(words, hits.read, who, spec.pid)
    finally:
        hits.close()


def _of_uprobe(spec: Uprobe) -> Iterator[Counter]:
    who = named(spec.pid) if spec.pid else ""
    with ElfFile(Path(spec.file)) as elf:
        symbol = elf.find(spec.symbol)
        offset = None if symbol is None else elf.offset_of(symbol.address + spec.offset)
    if offset is None:
        raise LocklineError(f"{spec.file} has no function {spec.symbol}")
    hits = uprobe_hits(spec.file, offset, spec.pid)
    try:
        words = f"{spec.symbol}() in {spec.file}" + (f" of {who}" if who else "")
        yield Counter(words, hits.read, who, spec.pid)
    finally:
        hits.close()


def _number(text: str, word: str, what: str) -> float:
    number = number_in(text, word)
    if number is None:
        raise LocklineError(f"{what}: no number{f' after {word!r}' if word else ''}")
    return number


def _text(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(_MOST_BYTES).decode("utf-8", "replace")
    except OSError as error:
        raise LocklineError(f"{path}: cannot be read: {error.strerror}") from error


def _of_file(spec: File) -> Iterator[Counter]:
    words = f"{spec.word} in {spec.path}" if spec.word else spec.path
    parts = spec.path.split("/")
    pid = int(parts[2]) if parts[:2] == ["", "proc"] and len(parts) > 3 and parts[2].isdigit() else None
    who = named(pid) if pid else ""
    yield Counter(words, lambda: _number(_text(spec.path), spec.word, spec.path), who, pid)


def _of_io(spec: InputOutput) -> Iterator[Counter]:
    who, path = named(spec.pid), f"/proc/{spec.pid}/io"

    def read() -> float:
        text = _text(path)
        return _number(text, "syscr", path) + _number(text, "syscw", path)

    yield Counter(f"reads and writes of {who}", read, who, spec.pid)


def _of_command(spec: Command) -> Iterator[Counter]:
    def read() -> float:
        return _number(run_shell(spec.command), "", f"`{spec.command}`")

    yield Counter(f"`{spec.command}`", read)


def run_shell(command: str, seconds: float = COMMAND_SECONDS) -> str:
    """What a command of the user's prints.  Raises LocklineError if it fails, or takes too long.

    It may leave a process behind that goes on printing, as `strace -p PID &`: a pipe would not end before that does.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            ["/bin/sh", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            # Ctrl-C is for lockline alone.
            start_new_session=True,
        )
        with process:
            try:
                process.wait(seconds)
            except BaseException as error:
                os.killpg(process.pid, 9)
                if isinstance(error, subprocess.TimeoutExpired):
                    raise LocklineError(f"`{command}` takes longer than {seconds:g} s") from None
                raise
        printed, said = (os.pread(file.fileno(), _MOST_PRINTED, 0).decode("utf-8", "replace") for file in (out, err))
    if process.returncode:
        lines = said.strip().splitlines()
        raise LocklineError(f"`{command}` failed: {lines[-1] if lines else f'exit code {process.returncode}'}")
    return printed


_OPEN: dict[type, Callable[..., Iterator[Counter]]] = {
    Memory: _of_memory,
    Tracepoint: _of_tracepoint,
    Uprobe: _of_uprobe,
    File: _of_file,
    InputOutput: _of_io,
    Command: _of_command,
}


@contextmanager
def opened(spec: Spec) -> Iterator[Counter]:
    """The counter of a SPEC.  Raises LocklineError if there is none."""
    yield from _OPEN[type(spec)](spec)


@dataclass(frozen=True, slots=True)
class Check:
    """How a counter moves before the start.

    rate: in a second.  steps: how often it was seen to move in a second; moved: at which part of the looks.
    reading_s: how long it takes to read, mostly: whoever looks may lose its CPU now and then.
    """

    rate: float
    steps: float
    moved: float
    reading_s: float


def check(counter: Counter, slice_s: float, seconds: float = CHECK_SECONDS) -> Check:
    """Watch a counter for a moment.  Raises LocklineError if it does not move, or cannot be used in such slices."""
    begin, first = time.monotonic(), counter.read()
    last, steps = first, 0
    spent = [time.monotonic() - begin]
    while time.monotonic() - begin < seconds:
        time.sleep(_LOOK_SECONDS)
        before = time.monotonic()
        now = counter.read()
        spent.append(time.monotonic() - before)
        steps += counter.grown(last, now) > 0
        last = now
    took = time.monotonic() - begin
    if not steps:
        raise LocklineError(f"{counter.words} did not move in {took:.0f} s: it must grow while the load works")
    found = Check(counter.grown(first, last) / took, steps / took, steps / (len(spent) - 1), median(spent))
    refuse_coarse(counter.words, found, slice_s)
    return found


def refuse_coarse(words: str, found: Check, slice_s: float) -> None:
    """Raises LocklineError if a counter says too little of slices of that length."""
    if found.reading_s > slice_s / 8:
        raise LocklineError(
            f"{words} takes {found.reading_s * 1e3:.0f} ms to read: too long for slices of {slice_s:g} s;"
            f" {_longer(found.reading_s * 10)}"
        )
    # Single events may be rare; a sum that is updated now and then shows when it was updated, not when work was done.
    # One that moved between most looks may do so more often than we looked.
    if found.moved < 0.5 and found.rate > 1.5 * found.steps and found.steps * slice_s < 3:
        raise LocklineError(
            f"{words} moves {found.steps:.1f} times a second, by {found.rate / found.steps:.0f}: too coarse for slices"
            f" of {slice_s:g} s; {_longer(4 / found.steps)}"
        )


def _longer(seconds: float) -> str:
    """What to do about slices that should be that long."""
    fitting = next((step for step in (0.5, 1.0, 2.0, MOST_SLICE) if seconds <= step), None)
    return "take another counter" if fitting is None else f"take --slice {fitting:g}"
