# SPDX-License-Identifier: GPL-2.0-or-later
"""The line of progress: on a terminal alone, only while a command works, and gone afterwards."""

import io
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lockline.cli import c2c
from lockline.cli import main as cli
from lockline.cli import progress as module
from lockline.cli.progress import progress
from programs import TOP
from test_lines import bucket_recording
from watched_lines import futex_bucket


class Terminal(io.StringIO):
    """A terminal that says when it was written to."""

    def __init__(self) -> None:
        super().__init__()
        self.told = threading.Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        written = super().write(text)
        self.told.set()
        return written


def test_the_line_appears_and_goes() -> None:
    terminal = Terminal()
    with progress("making the page", terminal, 0.01):
        assert terminal.told.wait(60)
    steps = terminal.getvalue().split("\r")
    assert steps[0] == ""
    assert steps[1].startswith("lockline: making the page, ")
    assert steps[1].endswith(" s")
    # The last thing is an empty line of the same length.
    assert steps[-1] == ""
    assert set(steps[-2]) == {" "}
    assert len(steps[-2]) == len(steps[-3])


def test_the_words_may_count() -> None:
    terminal, steps = Terminal(), iter(range(1 << 20))
    with progress(lambda: f"adding, {next(steps):,}", terminal, 0.01):
        assert terminal.told.wait(60)
    assert terminal.getvalue().startswith("\rlockline: adding, 0, ")


def test_a_command_that_fails_leaves_no_line() -> None:
    terminal = Terminal()

    def work() -> None:
        with progress("exporting", terminal, 0.01):
            assert terminal.told.wait(60)
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        work()
    assert terminal.getvalue().endswith(" \r")


def test_what_is_no_terminal_gets_nothing() -> None:
    stream = io.StringIO()
    with progress("exporting", stream, 0.0):
        pass
    assert stream.getvalue() == ""


def test_what_takes_no_time_says_nothing() -> None:
    terminal = Terminal()
    with progress("exporting", terminal, 3600):
        pass
    assert terminal.getvalue() == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["report", "FILE"], ["reading the recording"]),
        (["report", "FILE", "--html", "PAGE"], ["making the page"]),
        (["diff", "FILE", "FILE"], ["comparing"]),
        (["diff", "FILE", "FILE", "--html", "PAGE"], ["making the page"]),
        (["export", "FILE", "--format", "folded", "-o", "PAGE"], ["exporting"]),
        (["export", "FILE", "--format", "folded", "-o", "-"], []),
        (["top", "FILE", "--once"], []),
        (["watch", "-i", "WATCHED"], ["reading the lines"]),
        (["watch", "-i", "WATCHED", "--html", "PAGE"], ["reading the lines"]),
        (["c2c", "report", "TEXT"], ["importing", "reading the lines"]),
        (["c2c", "report", "TEXT", "--format", "json"], ["importing", "reading the lines"]),
        (["c2c", "report", "TEXT", "--html", "PAGE"], ["importing", "reading the lines"]),
    ],
    ids=lambda value: " ".join(value) or "nothing",
)
def test_which_commands_tell(
    arguments: list[str],
    words: list[str],
    example: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    told = []

    @contextmanager
    def note(what: str) -> Any:
        told.append(what)
        yield

    monkeypatch.setattr(module, "progress", note)
    monkeypatch.setattr(c2c, "progress", note)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    names = {"FILE": str(example), "PAGE": str(tmp_path / "page")}
    names["TEXT"] = str(TOP / "tests" / "c2c" / "reader_and_writer.txt")
    if "WATCHED" in arguments:
        names["WATCHED"] = str(bucket_recording(tmp_path / "watched", futex_bucket(200)))
    assert cli.main([names.get(word, word) for word in arguments]) == 0
    assert told == words
