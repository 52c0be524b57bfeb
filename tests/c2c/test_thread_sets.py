# SPDX-License-Identifier: GPL-2.0-or-later
"""Threads of an access: as a bit set, and as recordings before schema 12 and those with large ids list them."""

import sqlite3
import struct
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from c2c import imported, sharing_patterns
from c2c.description import Description
from lockline.base.errors import RecordingError
from lockline.c2c.report import make_c2c_report
from lockline.recording import memory
from lockline.recording.reader import open_recording
from lockline.render.documents import lines

PATTERNS = (sharing_patterns.lock_word, sharing_patterns.true_sharing)


def document(path: Path) -> str:
    """The report as JSON."""
    with open_recording(str(path)) as recording:
        return lines.render(make_c2c_report(recording, 50, path="file"))


def who(path: Path) -> list[tuple[int | None, Sequence[int], Sequence[int]]]:
    """Of all accesses: the threads as a set, and one by one with their records."""
    with open_recording(str(path)) as recording:
        ids = [line.line for line in memory.line_sums(recording)]
        sums = list(memory.access_sums(recording, ids))
    return [(one.thread_set, list(one.threads), list(one.shares)) for one in sums]


def listed(path: Path, schema: int) -> int:
    """Write the sets of a recording as lists; gives how many there were."""
    with closing(sqlite3.connect(path)) as connection, connection:
        query = "SELECT line, offset, code, thread_set, thread_records FROM memory_access WHERE length(thread_set)"
        rows = connection.execute(query).fetchall()
        for *key, bits, records in rows:
            pairs = b"".join(struct.pack("<II", *one) for one in imported.threads_of(None, bits, records))
            where = "WHERE line = ? AND offset = ? AND code = ?"
            connection.execute(
                f"UPDATE memory_access SET threads = ?, thread_set = NULL, thread_records = NULL {where}", (pairs, *key)
            )
        if schema < 12:
            connection.execute("ALTER TABLE memory_access DROP COLUMN thread_set")
            connection.execute("ALTER TABLE memory_access DROP COLUMN thread_records")
        connection.execute(f"PRAGMA user_version = {schema}")
    return len(rows)


@pytest.mark.parametrize("schema", [11, 12])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_list_reads_like_the_set(tmp_path: Path, pattern: Callable[[], Description], schema: int) -> None:
    out = tmp_path / "out"
    imported.run(pattern().write(tmp_path / "data"), out)
    before, threads = document(out), who(out)
    assert listed(out, schema) > 1
    assert who(out) == threads
    assert document(out) == before


@pytest.mark.parametrize("records", ["NULL", "x''", "x'01'", "x'010101'"])
def test_records_that_are_not_the_threads_are_one_error(tmp_path: Path, records: str) -> None:
    out = tmp_path / "out"
    imported.run(sharing_patterns.lock_word().write(tmp_path / "data"), out)
    with closing(sqlite3.connect(out)) as connection, connection:
        connection.execute(f"UPDATE memory_access SET thread_set = x'06', thread_records = {records}")
    with pytest.raises(RecordingError, match="thread_records are not those of its threads"):
        document(out)
