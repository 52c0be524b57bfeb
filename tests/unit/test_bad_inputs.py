# SPDX-License-Identifier: GPL-2.0-or-later
"""What no command can use: each says so in one line, with exit code 1, and waits for nobody."""

import os
import shlex
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from example_recording import make_example
from lockline.cli import main as cli


def newer(path: Path) -> None:
    make_example(path)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 9999")


def cut(path: Path) -> None:
    make_example(path)
    os.truncate(path, path.stat().st_size // 2)


def sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


BAD: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: None,
    "empty": Path.touch,
    "a text": lambda path: path.write_text("no recording\n"),
    "random bytes": lambda path: path.write_bytes(bytes(range(255, 0, -1)) * 40),
    "a directory": Path.mkdir,
    "a pipe": os.mkfifo,
    "cut": cut,
    "of a newer version": newer,
    "huge": sparse,
    "a link to itself": lambda path: path.symlink_to(path),
}
COMMANDS = (
    "report {}",
    "report {} --format json",
    "report {} --html out.html",
    "export {} --format csv -o out",
    "export {} --format parquet -o out",
    "top {} --once",
    "diff {} good",
    "diff good {}",
    "c2c report {}",
    "c2c import {} -o out",
    "c2c report good --recording {}",
    "watch -i {}",
    "watch -i {} lock:x -d 1",
    "save -10m -o out {}",
    "fleet add fleet {}",
    "fleet report {}",
    "fleet sql {} 'SELECT 1'",
    "fleet migrate {}",
    "fleet diff {} --before release=a --after release=b",
)
# A directory that is empty becomes a fleet's.
MADE = ("fleet add {} good",)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory to work in, with a recording that is good."""
    monkeypatch.chdir(tmp_path)
    make_example(tmp_path / "good")
    return tmp_path


def said(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The one line on stderr."""
    assert cli.main(shlex.split(command)) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1, lines
    assert "Errno" not in lines[0]
    return lines[0]


@pytest.mark.parametrize("what", BAD)
def test_one_line(what: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    BAD[what](here / "bad")
    for command in COMMANDS:
        line = said(command.format("bad"), capsys)
        assert line.startswith("lockline: ")
        assert "bad" in line
    assert not (here / "out").exists()


@pytest.mark.parametrize("what", [what for what in BAD if what not in ("missing", "a directory")])
def test_no_place_for_a_fleet(what: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    BAD[what](here / "bad")
    assert said("fleet add bad good", capsys) == "lockline: bad: not a directory"


@pytest.mark.parametrize("what", ["random bytes", "cut", "huge"])
def test_no_list_of_names(what: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    BAD[what](here / "bad")
    assert said("fleet add fleet @bad", capsys) == "lockline: @bad: not a text of names, one a line"
    assert cli.main(["fleet", "add", "fleet", "good"]) == 0
    assert said("fleet report fleet --expect bad", capsys) == "lockline: --expect bad: not a text of names, one a line"


def test_a_pipe_of_samples_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The look at its begin would take samples away."""
    (here / "before").write_text("100\n101\n102\n")
    reader, writer = os.pipe()
    os.write(writer, b"100\n101\n102\n")
    os.close(writer)
    line = said(f"diff before /proc/self/fd/{reader}", capsys)
    os.close(reader)
    assert line.endswith("not a file; write what it gives into one")


def test_a_newer_recording_has_no_locks_to_watch(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    newer(here / "bad")
    assert "schema 9999 is newer" in said("watch -i bad lock:x -d 1", capsys)


def test_no_name_for_an_export(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        said("export good --format csv -o ''", capsys) == "lockline: -o: name the file to write; - is standard output"
    )


def test_a_directory_for_metrics_is_looked_for_at_once(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("prometheus_client")
    line = said("exporter --textfile no/lockline.prom", capsys)
    assert line == "lockline: --textfile no/lockline.prom: no is no directory to write in"
    line = said("exporter --textfile good/lockline.prom", capsys)
    assert line == "lockline: --textfile good/lockline.prom: good is no directory to write in"
