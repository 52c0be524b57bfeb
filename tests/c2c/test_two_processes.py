# SPDX-License-Identifier: GPL-2.0-or-later
"""Long reports as JSON: two processes make what one makes, and a child that fails loses nothing."""

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from c2c.bench_patterns import even_recording
from lockline.c2c.model import LineReport
from lockline.c2c.report import open_c2c_report
from lockline.c2c.tables import BATCH
from lockline.cli import c2c_lines
from lockline.recording.reader import Recording, open_recording

LINES = 75
MANY = c2c_lines.MANY


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """So few lines are many: the rules are the same."""
    monkeypatch.setattr(c2c_lines, "MANY", LINES)


@pytest.mark.parametrize(("lines", "processes"), [(60, 1), (200, 2)])
def test_a_report_of_60_lines_is_of_one_process_and_of_200_of_two(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: int, processes: int
) -> None:
    monkeypatch.setattr(c2c_lines, "MANY", MANY)
    assert len(made(file, tmp_path, 2, monkeypatch, lines)[1]) == processes - 1


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of 200 lines that many CPUs use."""
    return even_recording(tmp_path_factory.mktemp("even"), 40_000)


def made(
    file: Path, directory: Path, cpus: int, monkeypatch: pytest.MonkeyPatch, top: int = LINES
) -> tuple[list[str], list[int]]:
    """The JSON of the lines on so many CPUs, and the processes that were started."""
    children: list[int] = []
    fork = os.fork

    def count() -> int:
        child = fork()
        children.append(child)
        return child

    with monkeypatch.context() as patched, open_recording(file) as recording:
        patched.setattr(os, "sched_getaffinity", lambda _: set(range(cpus)))
        patched.setattr(os, "fork", count)
        _, lines, make = open_c2c_report(recording, top)
        return list(c2c_lines.make_lines(recording, lines, make, False, directory)), children


def test_two_processes_make_the_same_lines(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, none = made(file, tmp_path, 1, monkeypatch)
    two, children = made(file, tmp_path, 2, monkeypatch)
    assert (len(none), len(children)) == (0, 1)
    assert one == two
    assert [json.loads(line)["rank"] for line in two] == list(range(1, LINES + 1))
    with pytest.raises(ChildProcessError):
        os.waitpid(children[0], os.WNOHANG)


def test_what_a_failed_child_leaves_out_is_made(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, _ = made(file, tmp_path, 1, monkeypatch)
    here = os.getpid()

    with open_recording(file) as recording:
        _, lines, make = open_c2c_report(recording, LINES)

        def failing(source: Recording, numbers: Iterable[int]) -> Iterator[LineReport]:
            if os.getpid() != here:
                os._exit(7)
            return make(source, numbers)

        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
        assert list(c2c_lines.make_lines(recording, lines, failing, False, tmp_path)) == whole


def test_who_is_ready_takes_the_next_lines(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child that is held up before its first line leaves all but those of one turn to its parent."""
    whole, _ = made(file, tmp_path, 1, monkeypatch)
    here, (gate, opener) = os.getpid(), os.pipe()
    ours: list[int] = []

    with open_recording(file) as recording:
        _, lines, make = open_c2c_report(recording, LINES)

        def held(source: Recording, numbers: Iterable[int]) -> Iterator[LineReport]:
            if os.getpid() != here:
                os.read(gate, 1)
                yield from make(source, numbers)
                return
            for report in make(source, numbers):
                ours.append(len(ours))
                yield report
            os.write(opener, b".")

        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
        assert list(c2c_lines.make_lines(recording, lines, held, False, tmp_path)) == whole
    os.close(gate)
    os.close(opener)
    assert len(ours) >= LINES - BATCH


def test_an_error_reaches_the_caller(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(source: Recording, numbers: Iterable[int]) -> Iterator[LineReport]:
        raise ValueError("wrong")

    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    with open_recording(file) as recording, pytest.raises(ValueError, match="wrong"):
        list(c2c_lines.make_lines(recording, LINES, wrong, False, tmp_path))


def test_where_no_process_can_be_started_one_makes_the_report(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone, _ = made(file, tmp_path, 1, monkeypatch)

    def fork() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", fork)
    assert made(file, tmp_path, 2, monkeypatch) == (alone, [])
