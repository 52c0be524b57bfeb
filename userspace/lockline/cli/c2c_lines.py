# SPDX-License-Identifier: GPL-2.0-or-later
"""The lines of a long report as JSON, made by two processes.

A line's rules and its JSON take up to a millisecond.  Python's threads would share one CPU, so that a child makes
every other group of lines.
"""

import os
from collections.abc import Iterator, Sequence

from lockline.c2c.model import LineReport
from lockline.c2c.report import MakeLines
from lockline.recording.reader import Recording, open_recording
from lockline.render.documents import lines as document

# Lines that one process makes before it is the other one's turn.
GROUP = 8
# A child costs a tenth of a report's CPU time: pages of memory are copied, and codes and names are read once more.
# Of fewer lines the report is ready no earlier with it.
MANY = 100


def _is_childs(number: int) -> bool:
    return bool(number // GROUP % 2)


def _child(path: str, made_here: bool, file: str, make: MakeLines, numbers: Sequence[int], addresses: bool) -> int:
    """Starts the child, which writes its lines to the file; gives its process."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        # The connection is the parent's, and no good here.
        with open_recording(path, made_here) as recording, open(file, "w", encoding="utf-8") as out:
            for text in _numbered(make(recording, numbers), numbers, addresses):
                out.write(text + "\n")
        code = 0
    finally:
        # Whatever went wrong: the parent makes the lines then, and meets it.
        os._exit(code)


def _numbered(reports: Iterator[LineReport], numbers: Sequence[int], addresses: bool) -> Iterator[str]:
    return document.entries_of(zip((number + 1 for number in numbers), reports, strict=True), addresses)


def make_lines(recording: Recording, count: int, make: MakeLines, addresses: bool, directory: str) -> Iterator[str]:
    """The JSON of the report's lines, best first.  directory: for files; the recording does not change meanwhile."""
    if count < MANY or len(os.sched_getaffinity(0)) < 2:
        yield from _numbered(make(recording, range(count)), range(count), addresses)
        return
    ours = [number for number in range(count) if not _is_childs(number)]
    theirs = [number for number in range(count) if _is_childs(number)]
    file = f"{directory}/lines"
    document.prepare_pieces()
    child = _child(recording.path, recording.made_here, file, make, theirs, addresses)
    try:
        own = list(_numbered(make(recording, ours), ours, addresses))
    finally:
        _, status = os.waitpid(child, 0)
    if status:
        others: Iterator[str] = _numbered(make(recording, theirs), theirs, addresses)
        yield from _merged(count, iter(own), others)
        return
    with open(file, encoding="utf-8") as made:
        yield from _merged(count, iter(own), (line.rstrip("\n") for line in made))


def _merged(count: int, ours: Iterator[str], theirs: Iterator[str]) -> Iterator[str]:
    for number in range(count):
        yield next(theirs if _is_childs(number) else ours)
