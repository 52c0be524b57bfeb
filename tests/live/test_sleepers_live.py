# SPDX-License-Identifier: GPL-2.0-or-later
"""A plain recording sees what threads sleep in, and no report calls waiting for a file or a semaphore negligible."""

import json
from pathlib import Path
from typing import Any

import pytest

from lockline.cli import main as cli
from support import Collector, Recording, planted, wait_for


def recorded(build: Path, output: Path, pid: int, capsys: pytest.CaptureFixture[str], looks: int = 4) -> dict[str, Any]:
    """The report of a recording of a process, after so many looks."""
    query = "SELECT value FROM meta WHERE name = 'sleep_looks'"
    with Collector(build, output, "-p", str(pid)) as collector, Recording(output) as result:
        wait_for(lambda: (result.number(query) or 0) >= looks, "looks")
        collector.stop()
    capsys.readouterr()
    assert cli.main(["report", str(output), "--format", "json"]) == 0
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    return report


@pytest.mark.parametrize("kind", ["file-lock", "semaphore"])
def test_waiting_that_no_tracepoint_sees(
    live: Path, recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    """One of five processes has it for most of the time, and the four others wait."""
    with planted(("incidents", kind, "5"), tmp_path) as load:
        report = recorded(live, recording, load.pid, capsys)
    assert report["answer"]["kind"] == "other locks"
    asleep = report["sleepers"]["asleep"]
    assert sum(one["threads"] for one in asleep if one["kind"] == kind) > 1
    # Others on this machine may wait for files of theirs.
    files = {one["file"] for one in report["sleepers"]["file_locks"] if one["file"].startswith(str(tmp_path))}
    assert files == ({str(tmp_path / "incident.lock")} if kind == "file-lock" else set())
    assert cli.main(["report", str(recording)]) == 0
    assert "wait for a" in " ".join(capsys.readouterr().out.split())


def test_a_program_that_hardly_runs(
    live: Path, recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with planted(("incidents", "idle", "4"), tmp_path) as load:
        report = recorded(live, recording, load.pid, capsys)
    sleepers = report["sleepers"]
    assert report["answer"]["kind"] == "negligible"
    assert sleepers["cpus"] < 0.5
    assert {one["tgid"] for one in sleepers["asleep"]} == {load.pid}
    assert cli.main(["report", str(recording)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert f"incidents ({load.pid}) used 0." in text
    assert f"`lockline why -p {load.pid}` does" in text


def test_all_tasks(live: Path, recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without -p every process of the machine may be looked at; this load is one of them."""
    query = "SELECT count(*) FROM file_lock_wait WHERE file = ?"
    with planted(("incidents", "file-lock", "5"), tmp_path), Collector(live, recording) as collector:
        with Recording(recording) as result:
            wait_for(lambda: result.number(query, str(tmp_path / "incident.lock")), "wait for the file")
        collector.stop()
    capsys.readouterr()
    assert cli.main(["report", str(recording), "--format", "json"]) == 0
    sleepers = json.loads(capsys.readouterr().out)["sleepers"]
    assert sleepers["threads"] >= sleepers["looked_at"] > 0
    assert sleepers["cpus"] is None
