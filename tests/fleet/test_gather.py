# SPDX-License-Identifier: GPL-2.0-or-later
"""What is gathered for reports changes how fast they are, and nothing else."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from fleet_command import run
from fleet_generator import Truth, host_days, record
from lockline.fleet import gather
from lockline.fleet.gather import GATHERED, files_of, gathered
from lockline.fleet.store import ADDING, places
from programs import TOP

DATE = "2025-11-09"
HOSTS = 6
DEADLINE_S = 120


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The first days of six hosts, then the second ones."""
    directory = tmp_path_factory.mktemp("recordings")
    days = sorted(host_days(Truth(hosts=HOSTS, locks=3, regression=2.0)), key=lambda day: day.period)
    return [record(directory / f"{number}.data", day) for number, day in enumerate(days)]


@pytest.fixture(scope="module")
def not_gathered(recordings: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All recordings in a directory of which nothing is gathered."""
    directory = tmp_path_factory.mktemp("added") / "fleet"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gather, "LEAST", 1000)
        assert run("add", directory, *recordings)[0] == 0
    return directory


@pytest.fixture(scope="module")
def expected(not_gathered: Path) -> list[Any]:
    """What its own files say."""
    return answers(not_gathered)


@pytest.fixture
def fleet(not_gathered: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, where what is added next is gathered."""
    shutil.copytree(not_gathered, tmp_path / "fleet", symlinks=True)
    monkeypatch.setattr(gather, "LEAST", 2)
    return tmp_path / "fleet"


def gathered_files(fleet: Path) -> list[Path]:
    return sorted((fleet / GATHERED).rglob("*.parquet"))


def rounded(value: Any) -> Any:
    """JSON without the last digits of numbers: sums are added up in any order."""
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    if isinstance(value, list):
        return [rounded(one) for one in value]
    return float(f"{value:.12g}") if isinstance(value, float) else value


VIEWS = ("recordings", "hours", "lock_hours", "lengths", "host_locks", "lock_shares", "stacks")
# All rows of all views by one command: each view has columns of its own, which keep their types.
EVERY_ROW = " UNION ALL BY NAME ".join(f"SELECT COLUMNS('(.*)') AS '{view}.\\1' FROM {view}" for view in VIEWS)


# A report of parts of both days: another would show the same rows.
REPORT = ("report", "--since", "2025-11-09T07:00", "--until", "2025-11-10T05:00")
OTHERS = (
    ("report", "--since", "24h"),
    ("report", "--host", "web0001"),
    ("diff", "--before", "2025-11-09..2025-11-10", "--after", "2025-11-10..2025-11-11"),
)


def answers(fleet: Path, *others: tuple[str, ...]) -> list[Any]:
    """What a report says, what others say, and all rows of the views; without the name of the directory."""
    found: list[Any] = []
    for command, *options in (REPORT, *others):
        made = rounded(json.loads(run(command, fleet, *options, "--format", "json")[1]))
        assert made.pop("directory") == str(fleet)
        found.append(made)
    code, rows, told = run("sql", fleet, EVERY_ROW, "--format", "csv")
    assert (code, told) == (0, "")
    return [*found, sorted(rows.splitlines())]


def test_answers_are_the_same(fleet: Path, not_gathered: Path) -> None:
    assert gathered_files(fleet) == []
    assert run("migrate", fleet) == (0, "has schema 2 already\n", "")
    assert answers(fleet, *OTHERS) == answers(not_gathered, *OTHERS)
    # They come of the gathered files alone.
    placed = list(places(fleet))
    files = [Path(file) for found in files_of(placed, gather.TABLES, alone=True).values() for file in found]
    assert sorted(files) == gathered_files(fleet)
    assert len(files) <= 2 * len(gather.TABLES)
    # Few recordings of many are read from their own files.
    [one] = files_of(placed[:1], ("hours",), alone=True)["hours"]
    assert one == str(placed[0].path / "hours.parquet")


def test_each_recording_counts_once(
    recordings: list[Path], expected: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gather, "LEAST", 2)
    target = tmp_path / "slowly"
    for path in recordings:
        assert run("add", target, path)[0] == 0
    # What was replaced is there for reports that have begun, and does not count.
    members = [name for one in gathered(target, DATE) for name in one.members]
    assert len(members) > len(set(members)) == HOSTS
    assert answers(target) == expected
    monkeypatch.setattr(gather, "_GRACE_S", -1)
    assert run("add", target, *recordings)[0] == 0
    members = [name for one in gathered(target, DATE) for name in one.members]
    assert len(members) == len(set(members)) == HOSTS
    assert answers(target) == expected


def test_a_recording_that_was_removed_does_not_count(fleet: Path) -> None:
    run("migrate", fleet)
    [host] = fleet.glob(f"date={DATE}/host=web0003")
    shutil.rmtree(host)
    before = answers(fleet, *OTHERS)
    # The host has the second day alone.
    assert (before[1]["before"]["hosts"], before[0]["period"]["hosts"]) == (HOSTS - 1, HOSTS)
    shutil.rmtree(fleet / GATHERED)
    assert answers(fleet, *OTHERS) == before


def test_a_recording_that_was_added_again_counts_as_it_is_now(recordings: list[Path], fleet: Path) -> None:
    run("migrate", fleet)
    assert run("report", fleet, "--role", "db")[0] == 1
    [host] = fleet.glob(f"date={DATE}/host=web0003")
    shutil.rmtree(host)
    assert run("add", fleet, "--role", "db", "--weight", "3", recordings[3])[0] == 0
    found = json.loads(run("report", fleet, "--role", "db", "--format", "json")[1])["period"]
    assert (found["hosts"], found["weighted_ns"]) == (1, 3 * found["observed_ns"])
    roles = run("sql", fleet, "SELECT role, count(*) FROM recordings GROUP BY 1 ORDER BY 2", "--format", "csv")[1]
    assert roles.splitlines()[1:] == ["db,1", f",{2 * HOSTS - 1}"]


def test_a_day_that_is_gone_is_forgotten(recordings: list[Path], fleet: Path) -> None:
    run("migrate", fleet)
    shutil.rmtree(fleet / f"date={DATE}")
    assert run("add", fleet, recordings[-1])[0] == 0
    assert not (fleet / GATHERED / f"date={DATE}").exists()


def test_a_disk_that_is_full_is_told(fleet: Path, recordings: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    shutil.rmtree(next(fleet.glob(f"date={DATE}/host=web0003")))
    with monkeypatch.context() as patch:
        patch.setattr(gather, "write_rows", full)
        code, shown, told = run("add", fleet, recordings[3])
    assert (code, shown.split(",")[0]) == (0, "1 recordings added")
    assert told.startswith(f"lockline: {fleet}: not gathered for reports: ")
    assert told.count("\n") == 1
    assert gathered_files(fleet) == []
    assert list((fleet / ADDING).iterdir()) == []
    assert run("add", fleet, recordings[3])[2] == ""
    assert gathered_files(fleet) != []


# Stops for ever when the second table is written, and says so by a file.
STOPPED = """
import sys, time
from pathlib import Path
from lockline.fleet import add, gather

flag, directory, recording = sys.argv[1:]
real, calls = gather.write_rows, []

def stops(*arguments):
    calls.append(1)
    if len(calls) > 1:
        Path(flag).touch()
        time.sleep(1e6)
    return real(*arguments)

gather.LEAST, gather.write_rows = 2, stops
list(add.add(Path(directory), [recording], add.Told(), 1))
"""


def test_a_killed_writer_leaves_nothing_half_gathered(
    fleet: Path, recordings: list[Path], expected: list[Any], tmp_path: Path
) -> None:
    flag = tmp_path / "flag"
    command = [sys.executable, "-c", STOPPED, str(flag), str(fleet), str(recordings[0])]
    writer = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(TOP / "userspace")})
    deadline = time.monotonic() + DEADLINE_S
    while not flag.exists():
        assert writer.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert answers(fleet) == expected
    # Who adds meanwhile does not wait.
    assert run("add", fleet, recordings[1])[2] == ""
    writer.kill()
    writer.wait()
    assert gathered_files(fleet) == []
    assert run("add", fleet, recordings[0])[2] == ""
    assert gathered_files(fleet) != []
    assert list((fleet / ADDING).iterdir()) == []
    assert answers(fleet) == expected


def test_members_that_cannot_be_read(fleet: Path, expected: list[Any]) -> None:
    run("migrate", fleet)
    listed = [one.path / "members.json" for one in gathered(fleet, DATE)]
    assert listed
    placed = list(places(fleet))
    own = {name: sorted(str(file) for file in fleet.glob(f"date={DATE}/*/*/{name}.parquet")) for name in gather.TABLES}
    for text in ("", "[]", "{", '{"a": 1}'):
        for file in listed:
            file.write_text(text)
        read = files_of(placed, gather.TABLES)
        assert {name: [file for file in found if DATE in file] for name, found in read.items()} == own, text
    assert answers(fleet) == expected
