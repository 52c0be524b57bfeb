# SPDX-License-Identifier: GPL-2.0-or-later
"""Recordings of watched lines whose tables hold anything: a report, or one line that says that they are damaged."""

import json
import shutil
import sqlite3
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lockline.base.errors import RecordingError
from lockline.base.text import Style, clean
from lockline.c2c.live import make_live_report
from lockline.c2c.members import NO_TYPES
from lockline.recording.reader import open_recording
from lockline.render import c2c_text, watch_text
from lockline.render.documents import watch as watch_json
from recording_generator import SECOND
from schemas import validator_of
from watched_lines import LOW, MS, Seen, futex_bucket, in_windows, look, write_watch

TABLES = {
    "watch": ["line", "target", "lock", "lock_offset", "type", "type_offset", "budget", "begin_ns", "end_ns", "hit_ns"],
    "watch_window": ["line", "begin_ns", "length_ns", "offsets", "hits", "lost", "transfers", "cut", "changed"],
    "watch_transfer": ["line", "from_cpu", "from_offset", "from_code", "cpu", "offset", "code", "write", "transfers"],
    "watch_told": [
        "line",
        "instruction",
        "watchpoint",
        "untold",
        "compared",
        "disagreed",
        "typed_hits",
        "typed_hit_ns",
    ],
    "watch_comparison": ["line", "code", "decoded", "only_read", "wrote"],
    "memory_wait": ["line", "lock", "kind", "records", "transfers"],
    "memory_interrupts": ["line", "offset", "code", "thread", "records", "off"],
    "memory_access": ["line", "offset", "code", "records", "loads", "stores", "locked", "in_wait", "cpus", "cpu_count"],
    "memory_line": ["id", "source", "address", "size", "space", "pid", "object", "symbol", "symbol_offset"],
    "memory_code": ["id", "address", "space", "symbol", "offset", "object"],
    "memory_thread": ["id", "pid", "tid", "comm"],
    "memory_source": ["id", "kind", "name", "event"],
    "cpu_pair": ["first", "second", "transfer_ns", "least_transfer_ns", "warp_ns", "rounds"],
}
VALUES = st.one_of(
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.sampled_from([0, 1, -1, 63, 64, 1 << 32, (1 << 63) - 1, -(1 << 63)]),
    st.floats(allow_nan=True, allow_infinity=True),
    st.none(),
    st.text(max_size=8),
    st.binary(max_size=8),
    st.sampled_from(["PMU", "perf.data", "kernel", "user", "\x1b[31m", "0xffff888000001000"]),
)
CHANGES = st.lists(
    st.sampled_from([(table, column) for table, columns in TABLES.items() for column in columns]).flatmap(
        lambda place: st.tuples(st.just(place[0]), st.just(place[1]), VALUES, st.integers(0, 3))
    ),
    min_size=1,
    max_size=4,
)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    seen: Seen = look(futex_bucket(300), in_windows(SECOND, MS, 10 * MS, sets=(LOW, LOW << 8)))
    path = write_watch(tmp_path_factory.mktemp("watch") / "watch.lockline", seen)
    connection = sqlite3.connect(path)
    connection.execute("INSERT INTO cpu_pair VALUES (0, 1, 91.5, 70, 0, 1000)")
    connection.execute("INSERT INTO memory_wait VALUES (1, 7, 0, 12, 3)")
    connection.execute("INSERT INTO watch_told VALUES (1, 900, 50, 20, 3, 40, 2, 4, 90, 2000)")
    connection.execute("INSERT INTO watch_comparison VALUES (1, 1001, 1, 30, 2), (1, 1002, 2, 0, 8)")
    connection.commit()
    connection.close()
    return path


def shown(path: Path) -> str:
    with open_recording(path) as recording:
        report = make_live_report(recording, 100, lambda *_: NO_TYPES)
    for addresses in (False, True):
        validator_of("watch").validate(watch_json.document(report, addresses))
        json.dumps(watch_json.document(report), allow_nan=False)
    return watch_text.render(report, Style()) + c2c_text.render(report.c2c, Style())


def shown_or_fault(path: Path) -> str:
    """What is shown, or the one line that says why nothing is."""
    try:
        return shown(path)
    except RecordingError as error:
        fault = clean(str(error), Style())
    assert len(fault.splitlines()) == 1
    return fault


@pytest.mark.laboratory
@settings(max_examples=150)
@given(CHANGES)
@example([("memory_line", "address", -1, 1), ("memory_line", "space", "user", 1)])
@example([("watch", "begin_ns", 5_001_000_000_001, 0)])
def test_any_value_in_any_column(sound: Path, tmp_path: Path, changes: list[tuple[str, str, object, int]]) -> None:
    path = tmp_path / "damaged.lockline"
    shutil.copyfile(sound, path)
    connection = sqlite3.connect(path)
    for table, column, value, rows in changes:
        where = f"WHERE rowid IN (SELECT rowid FROM {table} LIMIT {rows})" if table.startswith("memory_l") else ""
        try:
            connection.execute(f"UPDATE OR REPLACE {table} SET {column} = ? {where}", (value,))
        except sqlite3.Error:
            continue
    connection.commit()
    connection.close()
    text = shown_or_fault(path)
    assert text.isascii()
    assert "\x1b" not in text
    assert "0xffff88" not in text


@pytest.mark.parametrize("keep", [0.3, 0.7, 0.95])
def test_a_file_cut_off(sound: Path, tmp_path: Path, keep: float) -> None:
    path = tmp_path / "short.lockline"
    content = sound.read_bytes()
    path.write_bytes(content[: int(len(content) * keep)])
    with pytest.raises(RecordingError, match="truncated"):
        shown(path)


@pytest.mark.laboratory
def test_bytes_overwritten(sound: Path, tmp_path: Path) -> None:
    path = tmp_path / "noise.lockline"
    content = sound.read_bytes()
    for place in range(0, len(content) - 64, max(64, len(content) // 60)):
        damaged = bytearray(content)
        damaged[place : place + 64] = bytes((place * 7 + i * 13) & 0xFF for i in range(64))
        path.write_bytes(damaged)
        assert shown_or_fault(path)


def test_what_is_not_damaged_is_shown(sound: Path, tmp_path: Path) -> None:
    path = tmp_path / "whole.lockline"
    shutil.copyfile(sound, path)
    assert "a line takes 92 ns" in shown(path)
