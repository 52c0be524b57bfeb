# SPDX-License-Identifier: GPL-2.0-or-later
"""The README's way from symptoms to commands: each command exists, and those that need no root are run."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from diff.two_sides import LOAD, make_recording
from example_recording import make_example
from lockline.cli import main as cli

TOP = Path(__file__).parent.parent.parent
README = (TOP / "README.md").read_text()
TABLE = README[README.index("| you see |") :].split("\n\n", 1)[0]
COMMANDS = [command for line in TABLE.splitlines()[2:] for command in re.findall(r"`(lockline [^`]*)`", line)]
COLLECTOR = TOP / "build" / "bin" / "lockline-collect"
BY_COLLECTOR = ("record", "watch")
# They name a process that the reader knows.
OF_PROCESSES = [command for command in COMMANDS if shlex.split(command)[1] == "experiment"]


def test_there_is_a_table() -> None:
    assert len(COMMANDS) >= 12
    assert {shlex.split(command)[1] for command in COMMANDS} >= {"record", "report", "watch", "diff", "c2c", "explain"}


@pytest.mark.parametrize("command", [c for c in COMMANDS if shlex.split(c)[1] in BY_COLLECTOR])
def test_the_collector_has_the_options(command: str) -> None:
    _, name, *rest = shlex.split(command)
    helped = subprocess.run([COLLECTOR, name, "--help"], capture_output=True, text=True, check=True).stdout
    for option in (word for word in rest if word.startswith("-")):
        assert re.search(rf"(^|[\s,]){re.escape(option)}\b", helped), option


@pytest.mark.parametrize("command", OF_PROCESSES)
def test_options_of_processes(command: str) -> None:
    words = shlex.split(command)[1:]
    assert not cli.make_parser([words[0]]).parse_known_args(words)[1]


@pytest.mark.parametrize(
    "command", [c for c in COMMANDS if shlex.split(c)[1] not in BY_COLLECTOR and c not in OF_PROCESSES]
)
def test_what_needs_no_root_runs(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    make_example(tmp_path / "lockline.data")
    for name, seed in (("before.data", 1), ("after.data", 2)):
        make_recording(tmp_path / name, LOAD, seed, seconds=8)
    # The text of a report stands for the file of samples, which takes perf to make.
    (tmp_path / "perf.data").write_text((TOP / "tests" / "c2c" / "reader_and_writer.txt").read_text())
    assert cli.main(shlex.split(command)[1:]) in (0, 2)
    assert capsys.readouterr().out.strip()
