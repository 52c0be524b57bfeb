# SPDX-License-Identifier: GPL-2.0-or-later
"""`lockline why --follow` on this kernel: a load whose cause changes when the test says so."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lockline.cli import main as cli
from schemas import validator_of
from support import TOP, planted, wait_for

pytestmark = pytest.mark.usefixtures("live")


def stories(path: Path) -> list[dict[str, Any]]:
    """What was printed so far, in whole lines."""
    return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]


def titles(story: dict[str, Any]) -> list[str]:
    """Of the chapters with a cause."""
    return [one["verdict"]["title"] for one in story["followed"]["chapters"] if one["verdict"]["kind"] == "cause"]


def test_one_cause_ends_and_another_begins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The sleep with one mutex held, then with another one: waits of 2 ms each, whatever else the machine does."""
    printed, said, kept = tmp_path / "printed", tmp_path / "said", tmp_path / "kept.data"
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with planted(("switched", "another", "4"), tmp_path) as load, printed.open("wb") as out, said.open("wb") as errors:
        command = ["why", "--follow", "--format", "json", "-p", str(load.pid), "-d", "8", "-o", str(kept)]
        follower = subprocess.Popen(
            [sys.executable, "-m", "lockline", *command, "--max-overhead", "50%"],
            env={**os.environ, "PYTHONPATH": str(TOP / "userspace"), "TMPDIR": str(scratch)},
            stdout=out,
            stderr=errors,
        )

        def newest(name: str) -> dict[str, Any] | None:
            assert follower.poll() is None, said.read_text()
            found = stories(printed)
            return found[-1] if found and name in found[-1]["verdict"]["title"] else None

        try:
            first = wait_for(lambda: newest("table_mutex"), "the first cause")
            assert len(first["followed"]["chapters"]) == 1
            # While it lasts, the recording has it already.
            assert kept.stat().st_mode & 0o777 == 0o600
            load.send_signal(signal.SIGUSR1)
            second = wait_for(lambda: newest("gate_mutex"), "the second cause")
            follower.send_signal(signal.SIGINT)
            assert follower.wait(60) == 0, said.read_text()
        finally:
            follower.kill()
            follower.wait()
    assert list(scratch.iterdir()) == []
    last = stories(printed)[-1]
    validator_of("why").validate(last)
    for story in (second, last):
        told = titles(story)
        assert "table_mutex" in told[0]
        assert "gate_mutex" in told[-1]
    chapters = last["followed"]["chapters"]
    assert chapters[0]["end_unix_ns"] is not None
    assert chapters[-1]["end_unix_ns"] is None
    assert chapters[0]["seen_unix_ns"] <= chapters[0]["end_unix_ns"] <= chapters[-1]["begin_unix_ns"]
    assert 0 < last["followed"]["paid_ns"] <= last["followed"]["allowed_ns"]
    assert last["followed"]["glances"] > 0
    # One recording has all of it, and no other file is left.
    assert sorted(path.name for path in tmp_path.glob("kept*")) == ["kept.data"]
    capsys.readouterr()
    assert cli.main(["report", str(kept), "--why", "--format", "json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert titles(again) == titles(last)
    assert cli.main(["report", str(kept), "--why"]) == 0
    screen = capsys.readouterr().out
    assert "\nSTORY " in screen
    assert "ended by" in screen


def test_sigterm_tells_the_story_of_a_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of the whole machine, whose causes are not ours alone: SIGTERM ends it as Ctrl-C does."""
    page, said, kept, scratch = (tmp_path / name for name in ("page.html", "said", "kept.data", "scratch"))
    scratch.mkdir()
    with planted(("switched", "another", "4"), tmp_path), said.open("wb") as errors:
        command = ["why", "-a", "--follow", "-d", "8", "--html", str(page), "-o", str(kept)]
        follower = subprocess.Popen(
            [sys.executable, "-m", "lockline", *command, "--max-overhead", "50%"],
            env={**os.environ, "PYTHONPATH": str(TOP / "userspace"), "TMPDIR": str(scratch)},
            stdout=subprocess.PIPE,
            stderr=errors,
        )
        try:
            wait_for(lambda: page.exists() or follower.poll() is not None, "the first answer")
            assert follower.poll() is None, said.read_text()
            first = page.read_text()
            follower.terminate()
            assert follower.wait(60) == 0, said.read_text()
        finally:
            follower.kill()
            follower.wait()
    assert list(scratch.iterdir()) == []
    assert kept.stat().st_mode & 0o777 == 0o600
    assert 'id="followed"' in first
    assert 'id="followed"' in page.read_text()
    # The recording tells the same, as a page too.
    capsys.readouterr()
    assert cli.main(["report", str(kept), "--why", "--format", "json"]) == 0
    story = json.loads(capsys.readouterr().out)
    validator_of("why").validate(story)
    followed = story["followed"]
    assert followed["chapters"]
    assert followed["investigations"] >= 1
    assert followed["end_unix_ns"] > followed["begin_unix_ns"]
    assert story["target"] == "this machine"
