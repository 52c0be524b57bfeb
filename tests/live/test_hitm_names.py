# SPDX-License-Identifier: GPL-2.0-or-later
"""record --hitm names code and variables of programs, whose files the helper without rights reads.

Samples come from memory_inject, as in test_hitm_killed.py.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostile_files import HOSTILE
from support import Collector, Recording, wait_for
from test_hitm_killed import OPTIONS, assert_sums_hold, injected

LINES = 8
NAMED = """SELECT count(*) FROM memory_access AS access
JOIN memory_line AS touched ON touched.id = access.line
JOIN memory_code AS code ON code.id = access.code
WHERE touched.symbol = 'injected_lines' AND code.symbol = 'injected_code'"""


@pytest.fixture
def files() -> Iterator[list[Path]]:
    """Files that are made to harm who reads them, and one that is no ELF file."""
    with tempfile.TemporaryDirectory(prefix="neighbour-") as name:
        made = []
        for number, make_file in enumerate(HOSTILE.values()):
            file = Path(name) / str(number)
            file.write_bytes(make_file(Path("/bin/sh").resolve()))
            made.append(file)
        yield made


def named(path: Path) -> int:
    with Recording(path) as got:
        return got.number(NAMED)


def children(pid: int) -> dict[str, int]:
    """The processes that any thread of it started, by name."""
    return {
        Path(f"/proc/{child}/comm").read_text().strip(): int(child)
        for task in Path(f"/proc/{pid}/task").iterdir()
        for child in (task / "children").read_text().split()
    }


def user_of(pid: int) -> int:
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("Uid:")]
    return int(line.split()[1])


@pytest.mark.usefixtures("spare_cpu")
def test_the_helper_reads_them(live: Path, recording: Path, tmp_path: Path) -> None:
    collector = Collector(live, recording, *OPTIONS).attached()
    with injected(live, collector.process.pid, tmp_path / "told", LINES, own=["own"]) as load:
        wait_for(lambda: named(recording), "a line and code with names")
        program = str(Path(f"/proc/{load.pid}/exe").readlink())
        assert program not in Path(f"/proc/{collector.process.pid}/maps").read_text(), "the collector reads the file"
        helper = children(collector.process.pid)["lockline-names"]
        assert user_of(helper) == 65534
        assert collector.stop() == 0, collector.errors()
    with Recording(recording) as got:
        assert_sums_hold(got)
        assert got.number("SELECT count(*) FROM memory_line WHERE symbol = 'injected_lines'") == LINES


@pytest.mark.usefixtures("spare_cpu")
def test_hostile_files_are_passed_by(live: Path, recording: Path, tmp_path: Path, files: list[Path]) -> None:
    files = [file for file in files if file.stat().st_size >= 64 * LINES]
    assert len(files) > 3
    collector = Collector(live, recording, *OPTIONS).attached()
    with injected(live, collector.process.pid, tmp_path / "told", LINES, own=["own", *files]):
        wait_for(lambda: named(recording), "names beside hostile files")
        seen = "SELECT count(DISTINCT object) FROM memory_line"

        def objects() -> bool:
            with Recording(recording) as got:
                return got.number(seen) > len(files)

        wait_for(objects, "lines of all files")
    # Not before: a sample that is being put in is counted already, and in no ring yet.
    assert collector.stop() == 0, collector.errors()
    with Recording(recording) as got:
        assert got.integrity() == "ok"
        assert_sums_hold(got)
        texts = got.rows("SELECT symbol FROM memory_line UNION SELECT symbol FROM memory_code")
        assert all(str(text).isprintable() for (text,) in texts)
        assert got.rows("SELECT value FROM meta WHERE name = 'state'") == [("complete",)]
