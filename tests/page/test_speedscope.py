# SPDX-License-Identifier: GPL-2.0-or-later
"""lockline export, opened in speedscope: a viewer of others that reads four of the formats, in the browser."""

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hostile_recording import FORBIDDEN, NAMES
from lockline.base.text import Style, clean

from .made import MODULES
from .test_readers import export, report_of

APP = MODULES / "speedscope" / "dist" / "release" / "index.html"
# By the name of a file and its content speedscope tells what it is; what it says then.
FORMATS = {
    "speedscope": ("waits.json", "speedscope json file"),
    "folded": ("waits.txt", "collapsed stack format"),
    "pprof": ("waits.pb.gz", "protobuf encoded pprof file"),
    "chrome": ("waits.json", "Trace Event Format profile"),
}
UNITS = {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9, "": 1}
TIME = re.compile(r"([\d,.]+)(ns|µs|ms|s|) \(")
MILLISECONDS = 120_000


@dataclass(frozen=True)
class Row:
    """A line of speedscope's table: times in ns, of which it shows two decimals of their unit."""

    name: str
    total: float
    own: float


def _ns(text: str) -> float:
    found = TIME.match(text)
    assert found, text
    return float(found[1].replace(",", "")) * UNITS[found[2]]


@pytest.fixture
def window(chromium: Any) -> Iterator[Any]:
    context = chromium.new_context()
    context.set_default_timeout(MILLISECONDS)
    yield context.new_page()
    context.close()


def opened(window: Any, recording: Path, form: str, directory: Path) -> list[Row]:
    """The table of functions that speedscope shows of an export."""
    name, words = FORMATS[form]
    content = base64.b64encode(export(recording, directory / "out", form).read_bytes()).decode()
    script = directory / "load.js"
    script.write_text(f"speedscope.loadFileFromBase64({json.dumps(name)}, {json.dumps(content)})")
    said: list[str] = []
    window.on("console", lambda message: said.append(message.text))
    window.on("dialog", lambda dialog: (said.append(f"dialog: {dialog.message}"), dialog.accept()))
    window.on("pageerror", lambda error: said.append(f"error: {error}"))
    window.goto(f"{APP.as_uri()}#localProfilePath={script}")
    window.get_by_text("Sandwich").click()
    window.get_by_text("Symbol Name").wait_for()
    assert f"Importing as {words}" in said
    assert not [line for line in said if line.startswith(("dialog", "error"))]
    cells = window.locator("tr").evaluate_all("rows => rows.map(row => [...row.cells].map(cell => cell.textContent))")
    rows = [[cell.strip() for cell in row] for row in cells]
    # Other tables are of keys.
    return [Row(row[2], _ns(row[0]), _ns(row[1])) for row in rows if len(row) > 2 and TIME.match(row[0])]


@pytest.mark.parametrize("form", ["speedscope", "folded"])
def test_locks_have_the_waiting_of_the_report(
    form: str, recordings: dict[str, Path], window: Any, tmp_path: Path
) -> None:
    report = report_of(recordings["example"])
    rows = {row.name: row for row in opened(window, recordings["example"], form, tmp_path)}
    for lock in report.locks:
        row = rows[f"{lock.name} ({lock.kind})"]
        # The lock is the innermost frame: all of it is its own.
        assert row.total == row.own == pytest.approx(lock.figures.wait_ns, rel=1e-3)
    assert rows["strace"].own == 0 < rows["strace"].total
    assert sum(row.own for row in rows.values()) == pytest.approx(report.totals.wait_ns, rel=1e-3)


def test_pprof_stacks_run_the_right_way(recordings: dict[str, Path], window: Any, tmp_path: Path) -> None:
    rows = {row.name: row for row in opened(window, recordings["example"], "pprof", tmp_path)}
    total = report_of(recordings["example"]).totals.wait_ns
    assert sum(row.own for row in rows.values()) == pytest.approx(total, rel=1e-3)
    assert rows["queued_write_lock_slowpath"].own == rows["__x64_sys_ptrace"].total > 0
    assert rows["do_syscall_64"].own == 0


def test_a_trace_has_the_long_waits(recordings: dict[str, Path], window: Any, tmp_path: Path) -> None:
    """The first track is the task that waits longest."""
    rows = opened(window, recordings["example"], "chrome", tmp_path)
    assert all(row.name.startswith("waits for tasklist_lock") for row in rows)
    assert sorted(row.total for row in rows) == [8e6, 8e6, 40e6]


@pytest.mark.parametrize("form", ["speedscope", "folded", "pprof"])
def test_hostile_names_arrive_harmless(form: str, recordings: dict[str, Path], window: Any, tmp_path: Path) -> None:
    names = [row.name for row in opened(window, recordings["hostile"], form, tmp_path)]
    assert names
    for name in names:
        assert not any(bad in name for bad in FORBIDDEN)
        assert name.isprintable()
    if form == "speedscope":
        plain = Style(unicode=True)
        shown = "\n".join(names)
        assert all(clean(name, plain) in shown for name in NAMES)
