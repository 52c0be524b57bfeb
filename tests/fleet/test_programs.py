# SPDX-License-Identifier: GPL-2.0-or-later
"""Locks of programs over hosts: what is one lock on all of them, and which cost most."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fleet_command import run
from lockline.analysis.selection import Selection
from lockline.recording.reader import open_recording
from lockline.render.screen_locks import user_locks
from lockline.rules.report import make_report
from program_recordings import API, BEGIN_S, HEAP, HOUR_S, MS, OTHER, SPAN_NS
from program_recordings import record_programs as record
from schemas import validator_of


def added(directory: Path, *recordings: Path, weight: float = 1.0) -> Path:
    code, _, errors = run("add", "--weight", weight, directory, *recordings)
    assert code == 0, errors
    return directory


def told(directory: Path, *options: object) -> Any:
    code, out, errors = run("report", directory, "--format", "json", *options)
    assert code == 0, errors
    document = json.loads(out)
    validator_of("fleet").validate(document)
    return document


def shares(document: Any) -> dict[tuple[str, str, str | None], float]:
    return {(one["program"], one["lock"], one["code"]): one["share"] for one in document["programs"]["locks"]}


def test_a_lock_is_one_on_all_hosts(tmp_path: Path) -> None:
    """By its variable, or by the function that waits where it lies on the heap; each host has its own addresses."""
    paths = [record(tmp_path / f"{host}", host, (API, HEAP, OTHER)) for host in (1, 2, 3)]
    document = told(added(tmp_path / "fleet", *paths))
    found = document["programs"]
    assert shares(document) == pytest.approx(
        {
            ("api", "sessions_lock", None): 100 * 20 * MS / SPAN_NS,
            ("api", "lock", "write_log"): 50 * 8 * MS / SPAN_NS,
            ("api", "lock", "read_user"): 25 * 8 * MS / SPAN_NS,
        }
    )
    assert [one["hosts"] for one in found["locks"]] == [3, 3, 3]
    assert (found["hosts"], found["lock_count"]) == (3, 3)
    first = found["locks"][0]
    assert (first["waits"], first["wait_ns"], first["max_ns"]) == (300, 3 * 100 * 20 * MS, 20 * MS)
    assert [first["mean"], first["median"]] == pytest.approx([first["share"]] * 2)


def test_the_sums_are_those_of_the_reports(tmp_path: Path) -> None:
    """Two processes of one program are two locks of a host's report, and one of the fleet's."""
    locks = (API, replace(API, waits=40), replace(API, comm="batch", waits=30))
    path = record(tmp_path / "1", 1, locks)
    expected: dict[str, int] = {}
    with open_recording(str(path)) as recording:
        for lock in user_locks(make_report(recording, Selection(), 0)):
            expected[lock.futex.comm] = expected.get(lock.futex.comm, 0) + lock.waited_ns
    found = told(added(tmp_path / "fleet", path))["programs"]["locks"]
    assert {one["program"]: one["wait_ns"] for one in found} == expected
    assert expected == {"api": 140 * 20 * MS, "batch": 30 * 20 * MS}


def test_hosts_that_were_not_looked_at_are_no_hosts_without_waits(tmp_path: Path) -> None:
    paths = [record(tmp_path / "1", 1, (API,)), record(tmp_path / "2", 2, ()), record(tmp_path / "3", 3, (), False)]
    found = told(added(tmp_path / "fleet", *paths))["programs"]
    assert found["hosts"] == 2
    [lock] = found["locks"]
    assert lock["share"] == pytest.approx(100 * 20 * MS / SPAN_NS / 2)
    assert lock["hosts"] == 1
    assert lock["worst"][0]["host"] == "web1"


def test_weights_count(tmp_path: Path) -> None:
    fleet = added(tmp_path / "fleet", record(tmp_path / "1", 1, (API,)), weight=3)
    added(fleet, record(tmp_path / "2", 2, ()))
    [lock] = told(fleet)["programs"]["locks"]
    assert lock["share"] == pytest.approx(100 * 20 * MS / SPAN_NS * 3 / 4)


def test_nobody_looked(tmp_path: Path) -> None:
    fleet = added(tmp_path / "fleet", record(tmp_path / "1", 1, (API,), looked=False))
    assert told(fleet)["programs"] is None
    text = run("report", fleet)[1]
    assert text.startswith("mm_struct.mmap_lock")
    assert "lock of a program" not in text


def test_the_period_before(tmp_path: Path) -> None:
    old = record(tmp_path / "1", 1, (replace(API, waits=50),), begin_s=BEGIN_S - HOUR_S)
    new = record(tmp_path / "2", 1, (API, HEAP))
    document = told(added(tmp_path / "fleet", old, new), "--since", "1h")
    before = {one["lock"]: one["before"] for one in document["programs"]["locks"]}
    assert before == pytest.approx({"sessions_lock": 50 * 20 * MS / SPAN_NS, "lock": 0.0})


@pytest.mark.parametrize("kernel_ns", [MS, SPAN_NS])
def test_the_answer_names_what_costs_most(kernel_ns: int, tmp_path: Path) -> None:
    """That of a program where it costs more of its hosts' time; all within one screen."""
    locks = (API, HEAP, OTHER, *(replace(HEAP, function=f"work_{number}", waits=5) for number in range(20)))
    paths = [record(tmp_path / f"{host}", host, locks, kernel_ns=kernel_ns) for host in (1, 2)]
    text = run("report", added(tmp_path / "fleet", *paths))[1]
    answer = " ".join(text.partition("\n\n")[0].split())
    of_program = "sessions_lock, of the program api, costs most: 20.0% of the time of 2 hosts"
    assert (of_program in answer) == (kernel_ns == MS)
    assert "mm_struct.mmap_lock" in answer
    assert "lock in write_log        api" in text
    lines = text.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80


def test_gathered_tables_have_them(tmp_path: Path) -> None:
    paths = [record(tmp_path / f"{host}", host, (API,)) for host in range(20)]
    fleet = added(tmp_path / "fleet", *paths)
    assert list((fleet / ".gathered").rglob("program_locks.parquet"))
    [lock] = told(fleet)["programs"]["locks"]
    assert (lock["hosts"], lock["waits"]) == (20, 2000)


def test_the_page_has_them(tmp_path: Path) -> None:
    fleet = added(tmp_path / "fleet", record(tmp_path / "1", 1, (API, HEAP)))
    page = tmp_path / "fleet.html"
    assert run("report", fleet, "--html", page, "--redact")[0] == 0
    text = page.read_text()
    assert "sessions_lock" in text
    assert "lock in write_log" in text
    assert "web1" not in text
    # The lines of the summary are what follows the tables of the first screen.
    assert "lock of a program" not in text
    assert "Coverage:" in text
