# SPDX-License-Identifier: GPL-2.0-or-later
"""Locks of programs over hosts: what is one lock on all of them, and which cost most."""

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from fleet_command import run
from lockline.analysis.selection import Selection
from lockline.base import histogram
from lockline.recording import user_rows
from lockline.recording.reader import open_recording
from lockline.render.screen_locks import user_locks
from lockline.rules.report import make_report
from recording_generator import RecordingBuilder
from schemas import validator_of

MS = 1_000_000
SECONDS = 10
SPAN_NS = SECONDS * 1000 * MS
OF_LOCK = 1 << 6  # FUTEX_LOCK_PI, which only a lock uses
HOUR_S = 3600
BEGIN_S = 1_700_000_000 // HOUR_S * HOUR_S


@dataclass(frozen=True)
class Lock:
    """A lock of a program: its symbol, or the function that waits for it; how often, for so long each."""

    comm: str
    waits: int
    each_ns: int
    symbol: str = ""
    function: str = ""


API = Lock("api", 100, 20 * MS, symbol="sessions_lock")
HEAP = Lock("api", 50, 8 * MS, function="write_log")
OTHER = Lock("api", 25, 8 * MS, function="read_user")


def record(
    path: Path, host: int, locks: Sequence[Lock], looked: bool = True, kernel_ns: int = MS, begin_s: int = BEGIN_S
) -> Path:
    """A recording of a host on which no address is as on another one."""
    facts: dict[str, object] = {"hostname": f"web{host}", "boot_id": f"boot-{host}-{begin_s}"}
    facts["begin_unix_ns"] = begin_s * 1000 * MS
    builder = RecordingBuilder(path, SECONDS, meta=facts)
    builder.insert("probe", [("futex waits", "on" if looked else "off", "", "", "")])
    builder.lock(1, "mm_struct.mmap_lock")
    builder.add(1, 0, 1, 5, 10, kernel_ns, kernel_ns // 10, 0, [(histogram.bucket(kernel_ns // 10), 10)])
    for number, lock in enumerate(locks if looked else (), 2):
        tgid = 1000 * host + number
        address = 0x7F00_0000_0000 + (host << 32) + 4096 * number
        lengths = (lock.each_ns,) * lock.waits
        blob = histogram.encode(histogram.of(lengths))
        values: dict[str, Any] = dict.fromkeys(user_rows.FutexTotal._fields, 0)
        values |= {"futex": number, "ops": OF_LOCK, "calls": lock.waits, "slept": lock.waits}
        values |= {"wait_ns": sum(lengths), "max_ns": lock.each_ns, "histogram": blob, "latency_histogram": blob}
        values |= {"waiters": 4, "wakers": 4, "both": 4, "tasks_woken": lock.waits}
        builder.insert("futex", [(number, tgid, lock.comm, address, 0, lock.symbol, f"/usr/bin/{lock.comm}")])
        builder.insert("futex_total", [tuple(values.values())])
        if lock.function:
            code = 0x5500_0000_0000 + (host << 32) + 64 * number
            builder.insert("frame", [(tgid, code, lock.function, 4, f"/usr/bin/{lock.comm}")])
            builder.insert("stack", [(number, tgid, struct.pack("<Q", code))])
            task = builder.waiter(number, lock.comm, tgid)
            builder.insert("futex_sample", [(number, "waiter", task, number, 20, lock.waits, sum(lengths))])
    return builder.finish()


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
