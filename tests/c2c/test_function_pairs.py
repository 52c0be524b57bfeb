# SPDX-License-Identifier: GPL-2.0-or-later
"""Function against function: what waits for a line, and what writes to it."""

import json
from pathlib import Path

import pytest

from c2c import patterns
from c2c.kernel_types import types
from c2c.known_report import REPORT
from c2c.lock_recording import write_lock_recording
from c2c.memory_recording import write_memory_recording
from c2c.report_text import Style as TextStyle
from c2c.report_text import text as perf_text
from lab.cases import make_world
from lab.texts import SYMBOL_WIDTH, report_of
from lockline.base.text import Style
from lockline.c2c.function_pairs import with_function_pairs
from lockline.c2c.model import C2cReport
from lockline.c2c.report import make_c2c_report
from lockline.c2c.text_import import import_text
from lockline.cli.main import main
from lockline.recording.reader import open_recording
from lockline.render.function_pairs import render

# Two functions, each with a thread of its own, and a PMU that samples stores.
SEED = 80


def imported(text: str, directory: Path) -> C2cReport:
    path, recording = directory / "text", directory / "recording"
    path.write_text(text, encoding="utf-8")
    import_text(path, recording)
    with open_recording(recording) as opened:
        return with_function_pairs(make_c2c_report(opened, 1000))


def test_pairs_of_a_known_report(tmp_path: Path) -> None:
    report = imported(perf_text(REPORT, TextStyle("6.1")), tmp_path)
    assert report.pairs is not None
    first = report.pairs[0]
    # 111 HITM of its own; 41 + 5 and 17 + 2 + 3 stores of the two that write.
    assert first.waiter == "table_pending"
    assert first.writer == "native_queued_spin_lock_slowpath"
    by_writer = {pair.writer: pair.transfers for pair in report.pairs if pair.waiter == "table_pending"}
    assert set(by_writer) == {"native_queued_spin_lock_slowpath", "table_insert"}
    assert sum(by_writer.values()) == pytest.approx(111)
    stores = {access.code.symbol: access.counts.stores for access in report.lines[0].line.accesses}
    ratio = by_writer["native_queued_spin_lock_slowpath"] / by_writer["table_insert"]
    written = stores["native_queued_spin_lock_slowpath"] or 0, stores["table_insert"] or 1
    assert ratio == pytest.approx(written[0] / written[1])


@pytest.mark.parametrize(
    "seed", [3_100_000, *(pytest.param(3_100_000 + more, marks=pytest.mark.laboratory) for more in range(1, 6))]
)
def test_pairs_add_up_to_the_lines(seed: int, tmp_path: Path) -> None:
    world = make_world(seed)
    display = "peer" if world.pmu.family == "spe" else "tot"
    style = TextStyle("6.1", display == "peer", tid=True)
    found, _ = report_of(world.samples, world.program, world.machine, world.pmu, True, display, True)
    report = imported(perf_text(found, style), tmp_path)
    assert report.pairs is not None
    expected = sum(access.counts.transfers for line in report.lines for access in line.line.accesses)
    assert sum(pair.transfers for pair in report.pairs) == pytest.approx(expected)
    functions = {sample.function[:SYMBOL_WIDTH] for sample in world.samples}
    for pair in report.pairs:
        assert {pair.waiter, pair.writer} - {""} <= functions
        assert pair.places[0].transfers == max(place.transfers for place in pair.places)
        assert sum(place.transfers for place in pair.places) == pytest.approx(pair.transfers)


def test_what_one_thread_writes_itself_it_does_not_wait_for(tmp_path: Path) -> None:
    """A thread of its own for each function: no function waits for its own writes."""
    world = make_world(SEED)
    assert (world.program.name, world.pmu.family) == ("two_counters", "intel")
    threads = {
        sample.function: {s.thread for s in world.samples if s.function == sample.function} for sample in world.samples
    }
    assert all(len(of) == 1 for of in threads.values())
    found, _ = report_of(world.samples, world.program, world.machine, world.pmu, True, "tot", True)
    report = imported(perf_text(found, TextStyle("6.1", tid=True)), tmp_path)
    assert report.pairs
    assert all(pair.waiter != pair.writer for pair in report.pairs)


def test_the_lock_and_its_waits(tmp_path: Path) -> None:
    description = patterns.futex_bucket()
    lines = write_memory_recording(description, tmp_path / "lines")
    waits = write_lock_recording(description, tmp_path / "waits").path
    kernel = types(True)
    with open_recording(lines) as recording, open_recording(waits) as locks:
        report = with_function_pairs(make_c2c_report(recording, 100, lambda *names: kernel, locks))
    assert report.pairs
    first = report.pairs[0]
    # Joined by the code, each has the waits of all locks of its name: they count once.
    locks = [lock for place in first.places for lock in report.lines[place.rank - 1].locks if lock.join == "code"]
    assert len(locks) > 1
    assert first.locks == (locks[0].name,)
    assert first.wait_ns == locks[0].wait_ns
    text = render(report, Style(), 5)
    assert locks[0].name in text
    assert max(len(line) for line in text.splitlines()) <= 120


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "text"
    path.write_text(perf_text(REPORT, TextStyle("6.1")), encoding="utf-8")
    assert main(["c2c", "report", "--by", "functions", "--top", "1", str(path)]) == 0
    text = capsys.readouterr().out
    assert "table_pending" in text
    assert "more pairs" in text
    assert main(["c2c", "report", "--by", "functions", "--format", "json", str(path)]) == 0
    pairs = json.loads(capsys.readouterr().out)["function_pairs"]
    assert pairs[0]["waiter"] == "table_pending"
    assert main(["c2c", "report", "--format", "json", str(path)]) == 0
    assert json.loads(capsys.readouterr().out)["function_pairs"] is None
    assert main(["c2c", "report", "--by", "functions", "--html", str(tmp_path / "page"), str(path)]) == 1
    assert "not with --html" in capsys.readouterr().err
