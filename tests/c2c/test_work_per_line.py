# SPDX-License-Identifier: GPL-2.0-or-later
"""What a line of a long report as JSON costs, in counts that no other work on the machine changes."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from c2c.bench_patterns import EVEN_LINES, even_recording
from lockline.c2c.report import open_c2c_report
from lockline.recording.reader import Recording, open_recording
from lockline.render.documents import lines as document

# One query reads the accesses of so many lines.
BATCH = 8
# Of Python's functions, with their comprehensions, for a line of 16 accesses at 8 offsets: 907 were counted.
CALLS = 920


class Counting(Recording):
    """Counts the queries of accesses, and their rows."""

    queries = rows = 0

    def raw(self, query: str) -> Iterator[tuple[Any, ...]]:
        """As of Recording."""
        of_accesses = "FROM memory_access" in query
        self.queries += of_accesses
        for row in super().raw(query):
            self.rows += of_accesses
            yield row


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of 200 lines that 176 CPUs use; each is the other half of another one's 128 bytes."""
    return even_recording(tmp_path_factory.mktemp("work"), 100_000)


def test_each_access_is_read_once(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor are the other halves of pairs summed again, if the list of lines has their sums."""
    with open_recording(file, made_here=True) as recording:
        _, count, make = open_c2c_report(recording, EVEN_LINES)
        whole = next(recording.raw("SELECT count(*) FROM memory_access"))[0]
        counting = Counting(recording.path, recording._connection, recording.schema, made_here=True)
        reports = list(make(counting, range(count)))
    assert len(reports) == EVEN_LINES
    assert all(report.buddy is not None for report in reports)
    assert (counting.queries, counting.rows) == (EVEN_LINES // BATCH, whole)


def test_functions_are_called_so_often_for_a_line(file: Path) -> None:
    calls = 0

    def count(_: FrameType, event: str, __: object) -> None:
        nonlocal calls
        calls += event == "call"

    with open_recording(file, made_here=True) as recording:
        _, lines, make = open_c2c_report(recording, EVEN_LINES)
        document.prepare_pieces()
        sys.setprofile(count)
        try:
            texts = list(document.entries_of(enumerate(make(recording, range(lines)), 1)))
        finally:
            sys.setprofile(None)
    assert len(texts) == EVEN_LINES
    assert calls <= CALLS * EVEN_LINES, calls / EVEN_LINES
