# SPDX-License-Identifier: GPL-2.0-or-later
"""How a watched line's reads and writes were told: by instructions, by watchpoints, or not; and what differs."""

import json
import sqlite3
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from lockline.base.errors import RecordingError
from lockline.base.text import Style
from lockline.c2c.live import LiveReport, make_live_report
from lockline.recording.reader import open_recording
from lockline.render import watch_text
from lockline.render.documents import watch as watch_json
from lockline.watch.cost import cost_of
from recording_generator import SECOND, RecordingBuilder
from schemas import validator_of
from watched_lines import MS, Seen, Target, ToldRow, add_told, add_watch, in_windows, look, ping_pong


@cache
def seen() -> Seen:
    """What was seen of two threads that write by turns."""
    return look(ping_pong((0, 8), 20_000), in_windows(SECOND, MS, 10 * MS))


CODE = 1001  # of bump_0, the first instruction of the line


def report_of(path: Path) -> LiveReport:
    with open_recording(path) as recording:
        return make_live_report(recording, 10)


def recorded(path: Path, told: ToldRow | None, *comparisons: tuple[int, ...], machine: str = "x86_64") -> LiveReport:
    builder = RecordingBuilder(path, 1)
    add_watch(builder, seen(), Target())
    if told is not None:
        add_told(builder, told, comparisons)
    builder.connection.execute("INSERT OR REPLACE INTO meta VALUES ('architecture', ?)", (machine,))
    return report_of(builder.finish())


def told_value(report: LiveReport) -> Any:
    value = watch_json.document(report)
    validator_of("watch").validate(value)
    json.dumps(value, allow_nan=False)
    return value["lines"][0]["target"]["told"]


def text_of(report: LiveReport) -> str:
    text = watch_text.render(report, Style())
    assert all(len(line) <= 120 for line in text.splitlines())
    return " ".join(text.split())


def test_by_instruction_alone(tmp_path: Path) -> None:
    report = recorded(tmp_path / "one", ToldRow(instruction=2000))
    assert "Told apart" not in text_of(report)
    assert told_value(report)["instruction"] == 2000
    assert told_value(report)["typed_hit_ns"] is None


def test_what_is_not_told(tmp_path: Path) -> None:
    report = recorded(tmp_path / "one", ToldRow(instruction=1900, untold=100))
    assert "Told apart: all but 100 accesses, which are neither reads nor writes here" in text_of(report)
    assert told_value(report)["untold"] == 100


def test_by_watchpoints_too(tmp_path: Path) -> None:
    told = ToldRow(1500, 300, 150, 50, 200, 0, 4, 500, 2000)
    report = recorded(tmp_path / "one", told)
    wanted = (
        "1,500 accesses by their instruction, 300 by watchpoints, 150 by those of the same instruction; 50 not told"
    )
    assert f"Told apart: {wanted}" in text_of(report)
    names = ("instruction", "watchpoint", "remembered", "untold", "compared", "disagreed")
    value = told_value(report)
    assert tuple(value[name] for name in names) == told[:6]
    assert (value["typed_windows"], value["typed_hits"], value["typed_hit_ns"]) == told[6:]
    assert value["differing"] == []


@pytest.mark.parametrize(
    ("machine", "decoded", "only_read", "wrote", "differ"),
    [
        ("x86_64", 1, 10, 3, True),
        ("x86_64", 1, 10, 0, False),
        ("x86_64", 2, 1, 9, True),
        ("x86_64", 7, 0, 9, False),
        ("x86_64", 7, 2, 9, True),
        ("x86_64", 0, 5, 5, False),
        # An atomic instruction hits one of the two there.
        ("aarch64", 7, 2, 9, False),
        ("aarch64", 2, 2, 0, True),
        ("aarch64", 1, 0, 1, True),
    ],
)
def test_what_differs(tmp_path: Path, machine: str, decoded: int, only_read: int, wrote: int, differ: bool) -> None:
    told = ToldRow(1000, 1000, 0, 0, 1000, 3 if differ else 0, 10, 1000, 2000)
    report = recorded(tmp_path / "one", told, (CODE, decoded, only_read, wrote), machine=machine)
    differing = told_value(report)["differing"]
    assert len(differing) == differ
    if differ:
        assert (differing[0]["symbol"], differing[0]["symbol_offset"]) == ("bump_0", 0x10)
        assert (differing[0]["only_read"], differing[0]["wrote"]) == (only_read, wrote)
        assert "Of 1,000 that both told 3 differ and count as the watchpoints told them: bump_0" in text_of(report)


def test_hits_of_typed_windows_cost_more(tmp_path: Path) -> None:
    plain = recorded(tmp_path / "plain", ToldRow(instruction=2000))
    typed = recorded(tmp_path / "typed", ToldRow(1500, 500, 0, 0, 500, 0, 4, 500, 2000))
    watches = [report.lines[0].watch for report in (plain, typed)]
    assert watches[0] is not None
    assert watches[1] is not None
    costs = [cost_of(watch, 2).cpu_ns for watch in watches if watch is not None]
    hits = watches[0].hits
    assert costs == [hits * 1200, hits * 1200 + 500 * 800]


def test_an_older_recording(tmp_path: Path) -> None:
    """It has no such tables: nothing is known."""
    path = tmp_path / "one"
    recorded(path, ToldRow(instruction=2000))
    connection = sqlite3.connect(path)
    connection.execute("DROP TABLE watch_told")
    connection.execute("DROP TABLE watch_comparison")
    connection.execute("PRAGMA user_version = 3")
    connection.commit()
    connection.close()
    report = report_of(path)
    assert told_value(report) is None
    assert "reads and writes told apart by instruction" in text_of(report)
    assert report.lines[0].offsets[0].writes


@pytest.mark.parametrize(
    "change", ["untold = -1", "disagreed = 10, compared = 9", "typed_hit_ns = 1 << 62 | 1", "instruction = 'x'"]
)
def test_damage(tmp_path: Path, change: str) -> None:
    path = tmp_path / "one"
    recorded(path, ToldRow(instruction=2000))
    connection = sqlite3.connect(path)
    connection.execute(f"UPDATE watch_told SET {change}")
    connection.commit()
    connection.close()
    with pytest.raises(RecordingError, match="damaged"):
        report_of(path)
