# SPDX-License-Identifier: GPL-2.0-or-later
"""The lines of a long report as JSON, made by two processes.

A line's rules and its JSON take up to a millisecond.  Python's threads would share one CPU, so that a child makes a
part of the lines.  Whoever is ready takes the next ones: two CPUs are seldom equally fast.
"""

import os
from collections.abc import Iterable, Iterator
from itertools import tee

from lockline.c2c.model import LineReport
from lockline.c2c.report import MakeLines
from lockline.c2c.tables import BATCH
from lockline.recording.reader import Recording, open_recording
from lockline.render.documents import lines as document

# A child costs a tenth of a report's CPU time: pages of memory are copied, and codes and names are read once more.
# Of fewer lines the report is ready no earlier with it.
MANY = 100
# Of the number of a turn, in the file of turns.
_BYTES = 4


def _turns(count: int) -> int:
    """A file of the turns that so many lines take.  Processes that share it share the place of its next turn."""
    turns = os.memfd_create("turns", os.MFD_CLOEXEC)
    os.pwrite(turns, b"".join(number.to_bytes(_BYTES, "little") for number in range(0, count, BATCH)), 0)
    return turns


def _taken(turns: int, count: int) -> Iterator[int]:
    """The lines of turns that no other process has taken."""
    while word := os.read(turns, _BYTES):
        first = int.from_bytes(word, "little")
        yield from range(first, min(count, first + BATCH))


def _child(path: str, made_here: bool, file: str, make: MakeLines, numbers: Iterable[int], addresses: bool) -> int:
    """Starts the child, which writes its lines to the file; gives its process."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        # The connection is the parent's, and no good here.
        with open_recording(path, made_here) as recording, open(file, "wb") as out:
            for _, text in _numbered(recording, make, numbers, addresses):
                out.write(text.encode("ascii") + b"\n")
        code = 0
    finally:
        # Whatever went wrong: the parent makes the lines then, and meets it.
        os._exit(code)


def _numbered(
    recording: Recording, make: MakeLines, numbers: Iterable[int], addresses: bool
) -> Iterator[tuple[int, str]]:
    """The JSON of each of these lines, with its number."""
    numbers, ranks, asked = tee(numbers, 3)
    reports: Iterator[LineReport] = make(recording, asked)
    texts = document.entries_of(zip((number + 1 for number in ranks), reports, strict=True), addresses)
    yield from zip(numbers, texts, strict=True)


def make_lines(recording: Recording, count: int, make: MakeLines, addresses: bool, directory: str) -> Iterator[str]:
    """The JSON of the report's lines, best first.  directory: for files; the recording does not change meanwhile."""
    if count < MANY or len(os.sched_getaffinity(0)) < 2:
        yield from (text for _, text in _numbered(recording, make, range(count), addresses))
        return
    file = f"{directory}/lines"
    document.prepare_pieces()
    turns = _turns(count)
    try:
        try:
            child = _child(recording.path, recording.made_here, file, make, _taken(turns, count), addresses)
        except OSError:
            # No more processes are allowed: this one makes all lines.
            child = 0
        try:
            own = dict(_numbered(recording, make, _taken(turns, count), addresses))
        finally:
            # If it failed, the child has no more to do either.
            os.ftruncate(turns, 0)
            status = os.waitpid(child, 0)[1] if child else 1
    finally:
        os.close(turns)
    if status:
        own |= _numbered(recording, make, [number for number in range(count) if number not in own], addresses)
    with open(os.devnull if status else file, "rb", buffering=1 << 18) as theirs:
        for number in range(count):
            yield own[number] if number in own else next(theirs).rstrip(b"\n").decode("ascii")
