# SPDX-License-Identifier: GPL-2.0-or-later
"""The text report: its layout under any names and numbers, and one report to the letter."""

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from example_recording import MS, SPINLOCK
from lockline.analysis.selection import Selection
from lockline.base import numbers
from lockline.base import text as layout
from lockline.base.text import WIDTH, Style
from lockline.recording.reader import open_recording
from lockline.recording.rows import Frame
from lockline.recording.stacks import is_lock_internal, is_probe
from lockline.render.screen_parts import percent_short
from lockline.render.text import render
from lockline.rules.report import make_report
from recording_generator import RecordingBuilder

GOLDEN = Path(__file__).with_name("golden") / "report.txt"
ASCII = Style()
UNICODE = Style(unicode=True)


def text_of(path: Path, selection: Selection | None = None, style: Style = ASCII) -> str:
    with open_recording(path) as recording:
        report = make_report(recording, selection or Selection(), 5)
    # The path differs from run to run.
    return render(replace(report, path="example.lockline"), style)


def section(text: str, title: str) -> list[str]:
    (found,) = [part for part in text.split("\n\n") if part.startswith(title)]
    return found.splitlines()


def test_one_report_to_the_letter(example: Path) -> None:
    text = text_of(example)
    if os.environ.get("LOCKLINE_WRITE_GOLDEN"):
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()


@pytest.mark.parametrize("style", [ASCII, UNICODE, Style(unicode=True, addresses=True)], ids=str)
@pytest.mark.parametrize("selection", [Selection(), Selection(by="instance", top=2)], ids=str)
def test_lines_fit(generated: Path, example: Path, style: Style, selection: Selection) -> None:
    for path in (generated, example):
        lines = text_of(path, selection, style).splitlines()
        limit = WIDTH + (24 if style.addresses else 0)
        assert max(map(layout.width, lines)) <= limit
        assert all(line == line.rstrip() for line in lines)


def test_ascii_where_the_terminal_has_no_more(example: Path) -> None:
    assert text_of(example, style=ASCII).isascii()
    assert "█" in text_of(example, style=UNICODE)


def test_the_suffering_cpu_stands_out(example: Path) -> None:
    rows = section(text_of(example), "CPUs")[2:]
    assert [row.split()[:2] for row in rows if ">" in row] == [[">", "2"]]
    assert rows[2].split()[2] == "117"


def test_one_waiting_cpu_among_idle_ones_stands_out(tmp_path: Path) -> None:
    builder = RecordingBuilder(tmp_path / "one.lockline", cpus=64)
    builder.lock(1, "tasklist_lock")
    builder.waits(1, 17, 1, SPINLOCK, [20 * MS])
    (row,) = section(text_of(builder.finish()), "CPUs")[2:]
    assert row.split()[:2] == [">", "17"]


def test_equal_cpus_do_not_stand_out(tmp_path: Path) -> None:
    builder = RecordingBuilder(tmp_path / "equal.lockline", cpus=4)
    builder.lock(1, "tasklist_lock")
    for cpu in range(4):
        builder.waits(1, cpu, 1, SPINLOCK, [20 * MS + cpu])
    assert not any(">" in row for row in section(text_of(builder.finish()), "CPUs")[2:])


def test_of_many_cpus_the_worst_are_shown(tmp_path: Path) -> None:
    builder = RecordingBuilder(tmp_path / "many.lockline", cpus=256)
    builder.lock(1, "tasklist_lock")
    for cpu in range(256):
        builder.waits(1, cpu, 1, SPINLOCK, [MS * (50 if cpu == 200 else 1)])
    rows = section(text_of(builder.finish()), "CPUs")[2:]
    assert len(rows) == 17
    assert rows[0].split()[:2] == [">", "200"]
    assert rows[-1].split()[:2] == ["+240", "240"]


def test_hostile_names_stay_in_their_columns(tmp_path: Path) -> None:
    names = ["\x1b[31mred\x1b]0;title\x07", "two\nlines\r", "‮backwards", "x" * 100_000, "", "漢字" * 50, "e\u0301" * 40]
    builder = RecordingBuilder(tmp_path / "hostile.lockline", meta={"hostname": "\x1b[2J", "command_line": "a\nb"})
    builder.insert("cgroup", [(1, "/\x1b[1m/x\n")])
    for lock, name in enumerate(names, 1):
        builder.lock(lock, name, name, name)
        builder.waits(1, 0, lock, SPINLOCK, [2 * MS])
        builder.waiter(lock, name)
        builder.insert("sample_total", [(lock, lock, SPINLOCK, 1, 0, 1, 1, 2 * MS)])
        builder.insert("outlier", [(lock, 1, 5_000_000_000_000, 2 * MS, 0, 0, lock, lock, SPINLOCK, 0, 1, 0)])
    builder.stack(1, "evil\x1b[0m\n", "y" * 5_000)
    path = builder.finish()
    for style in (ASCII, UNICODE):
        for by in ("identity", "instance"):
            text = text_of(path, Selection(by=by), style)
            assert all(line.isprintable() for line in text.splitlines())
            assert "\x1b" not in text
            assert max(map(layout.width, text.splitlines())) <= WIDTH


def test_addresses_are_told_only_on_request(tmp_path: Path) -> None:
    builder = RecordingBuilder(tmp_path / "addresses.lockline")
    builder.lock(1, "lock at 0xffff888012345678")
    builder.waits(1, 0, 1, SPINLOCK, [2 * MS])
    builder.waiter(1, "task")
    builder.insert("outlier", [(1, 1, 5_000_000_000_000, 2 * MS, 0, 0, 1, 1, SPINLOCK, 0, 1, 0)])
    builder.stack(1, "", "known")
    path = builder.finish()
    address = re.compile("ffff[0-9a-f]{12}")
    assert not address.search(text_of(path))
    assert "[unknown] < known+0x5a" in text_of(path)
    assert address.search(text_of(path, style=Style(addresses=True)))


def test_no_waits(tmp_path: Path) -> None:
    text = text_of(RecordingBuilder(tmp_path / "none.lockline").finish())
    assert "none recorded" in text


@given(st.text(), st.integers(0, 60))
def test_padded_text_has_its_width(text: str, columns: int) -> None:
    for style in (ASCII, UNICODE):
        assert layout.width(layout.pad(layout.clean(text, style), columns)) == columns


@pytest.mark.parametrize(
    "ns, text",
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (1_000, "1.00 us"),
        (12_345, "12.3 us"),
        (999_499, "999 us"),
        (999_999, "1.00 ms"),
        (1_230_000, "1.23 ms"),
        (59_900_000_000, "59.9 s"),
        (600_000_000_000, "600 s"),
        (79_744_000_000_000, "79,744 s"),
        (None, "-"),
    ],
)
def test_durations(ns: int | None, text: str) -> None:
    assert numbers.duration(ns) == text


def test_threads_on_average_have_the_digits_that_matter() -> None:
    assert [numbers.average(value, 1) for value in (0.5, 99.9, 99.96, 9819.04)] == ["0.5", "99.9", "100", "9,819"]
    assert numbers.average(9.876, 2) == "9.88"
    assert [percent_short(part) for part in (0, 0.001, 0.004, 0.006, 0.999, 1)] == [
        "0%",
        "<1%",
        "<1%",
        "1%",
        "99%",
        "100%",
    ]


@given(st.integers(0, 1 << 62))
def test_numbers_fit_their_columns(number: int) -> None:
    assert len(numbers.duration(number)) <= 8
    assert len(numbers.count(number)) <= 6
    assert len(numbers.short_count(number)) <= 4


@pytest.mark.parametrize(
    "number, text", [(0, "0"), (99_999, "99,999"), (100_000, "100k"), (999_999, "1.00M"), (1_234_567, "1.23M")]
)
def test_counts(number: int, text: str) -> None:
    assert numbers.count(number) == text


@pytest.mark.parametrize(
    "symbol",
    [
        "queued_spin_lock_slowpath",
        "__pv_queued_spin_lock_slowpath",
        "_raw_spin_lock_irqsave",
        "__mutex_lock.constprop.0",
        "rwsem_down_write_slowpath",
        "down_read_killable",
        "percpu_rwsem_wait",
        "rt_mutex_slowlock",
        "mutex_lock",
        "rt_spin_unlock",
        "rt_read_unlock",
        "rt_write_unlock",
        "rt_spin_trylock_bh",
        "native_queued_spin_unlock",
        "queued_write_lock_slowpath",
        "_raw_spin_unlock_irqrestore",
        "__rt_mutex_slowunlock",
        "rt_mutex_slowunlock",
        "up_read",
    ],
)
def test_lock_functions_are_no_callers(symbol: str) -> None:
    assert is_lock_internal(Frame(0, symbol, 0, ""))


@pytest.mark.parametrize(
    "symbol",
    [
        "ptrace_attach",
        "do_exit",
        "futex_wake",
        "pipe_write",
        "downgrade_task",
        "lock_mount",
        "bpf_map_free_deferred",
        "",
    ],
)
def test_other_functions_are_callers(symbol: str) -> None:
    assert not is_lock_internal(Frame(0, symbol, 0, ""))
    assert not is_probe(Frame(0, symbol, 0, ""))
