# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads and writes of a watched line, told by two watchpoints at one place, and by the disassembler."""

import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from support import Collector, Recording, Workload, running, wait_for

READS, WRITES = 1, 2
DIFFERS = "decoded AND ((decoded & 2 AND only_read) OR (NOT decoded & 2 AND wrote))"


@pytest.fixture(autouse=True)
def x86_watchpoints(debug_registers: None) -> None:
    """Skips where the machine has no debug registers for us, or other ones."""
    if platform.machine() != "x86_64":
        pytest.skip("the workloads are instructions of x86-64")


def watching(build: Path, output: Path, *arguments: str) -> Collector:
    """A watch; as a context manager it has begun."""
    return Collector(build, output, *arguments, command="watch")


def told(recording: Recording) -> dict[str, int]:
    """The one row of watch_told."""
    names = ["instruction", "watchpoint", "remembered", "untold", "compared", "disagreed"]
    names += ["typed_windows", "typed_hits", "typed_hit_ns"]
    (row,) = recording.rows(f"SELECT {', '.join(names)} FROM watch_told")
    return dict(zip(names, row, strict=True))


def by_offset(recording: Recording) -> dict[int, tuple[int, int, int]]:
    """Accesses, reads and writes."""
    query = "SELECT offset, sum(records), sum(loads), sum(stores) FROM memory_access GROUP BY offset"
    return {offset: counts for offset, *counts in ((row[0], row[1], row[2], row[3]) for row in recording.rows(query))}


def enough(recording: Path, condition: Callable[[Recording], bool]) -> Callable[[], bool]:
    """Whether the recording that is being written has what is waited for."""

    def holds() -> bool:
        if not recording.exists():
            return False
        with Recording(recording) as found:
            return bool(found.rows("SELECT 1 FROM watch_told")) and condition(found)

    return holds


def differing(recording: Recording) -> list[tuple[Any, ...]]:
    """Instructions of which the disassembler says another thing."""
    columns = "symbol, memory_code.offset, decoded, only_read, wrote"
    return recording.rows(
        f"SELECT {columns} FROM watch_comparison JOIN memory_code ON memory_code.id = code WHERE {DIFFERS}"
    )


@pytest.mark.parametrize(
    ("offsets", "wanted"),
    [
        ("0-15", {0: [400, 400, 0], 8: [400, 0, 400]}),
        # That it read too before it wrote, no watchpoint tells.
        ("8-15,24-31", {8: [400, 0, 400], 24: [400, 0, 400]}),
    ],
)
def test_without_the_disassembler(live: Path, recording: Path, offsets: str, wanted: dict[int, Sequence[int]]) -> None:
    """Every access of code that it cannot tell."""
    with Workload(live, "accesses") as workload:
        target = f"user:{workload.pid}:accesses_line"
        with watching(live, recording, target, "--access", "watchpoint", "--full", "--offsets", offsets):
            workload.do("all 400")
    with Recording(recording) as found:
        assert {offset: list(counts) for offset, counts in by_offset(found).items()} == wanted
        assert found.rows("SELECT access_from FROM watch") == [("watchpoint",)]
        counts = told(found)
        assert counts["watchpoint"] == counts["typed_hits"] == 800
        assert counts["untold"] == counts["compared"] == counts["instruction"] == 0
        assert counts["typed_hit_ns"] > 0
        assert found.number("SELECT sum(hits) FROM watch_window") == 800
        assert found.number("SELECT sum(lost) FROM watch_window") == 0
        # Of all others no byte was watched, and no debug register beyond the four.
        places = {row[0] for row in found.rows("SELECT DISTINCT offsets FROM watch_window")}
        assert {bin(mask % (1 << 64)).count("1") for mask in places} == {16}


def test_with_the_disassembler_alone(live: Path, recording: Path) -> None:
    """The same code stays untold."""
    with Workload(live, "accesses") as workload:
        target = f"user:{workload.pid}:accesses_line"
        with watching(live, recording, target, "--access", "instruction", "--full", "--offsets", "0-31"):
            workload.do("all 400")
    with Recording(recording) as found:
        assert {offset: list(counts) for offset, counts in by_offset(found).items()} == {
            offset: [400, 0, 0] for offset in (0, 8, 24)
        }
        counts = told(found)
        assert counts["untold"] == 1200
        assert counts["typed_windows"] == counts["watchpoint"] == 0


@pytest.mark.parametrize("more", [[], ["--full", "--offsets", "8-15,24-31"]])
def test_windows_become_typed_where_it_fails(live: Path, recording: Path, more: list[str]) -> None:
    """What they tell of an instruction holds for its accesses in the other windows."""
    with Workload(live, "accesses") as workload:
        target = f"user:{workload.pid}:accesses_line"
        with watching(live, recording, target, *more) as collector:

            def remembered(found: Recording) -> bool:
                workload.do("all 300")
                seen = by_offset(found)
                every = len(seen) == (2 if more else 3) and all(counts[1] + counts[2] for counts in seen.values())
                return every and told(found)["remembered"] > 100

            wait_for(enough(recording, remembered), "accesses of instructions that watchpoints told before")
        assert collector.process.returncode == 0
    with Recording(recording) as found:
        counts = told(found)
        assert counts["watchpoint"] > 0
        assert counts["typed_windows"] < found.number("SELECT count(*) FROM watch_window") or more
        assert found.rows("SELECT access_from FROM watch") == [("watchpoint",)]
        seen = by_offset(found)
        assert set(seen) == ({8, 24} if more else {0, 8, 24})
        for offset, (records, reads, writes) in seen.items():
            assert (reads if offset == 0 else writes) > 0
            assert not (writes if offset == 0 else reads), "never told wrongly"
            assert reads + writes <= records
        records, hits = found.rows(
            "SELECT (SELECT sum(records) FROM memory_access), (SELECT sum(hits - lost) FROM watch_window)"
        )[0]
        assert records == hits == sum(counts[name] for name in ("instruction", "watchpoint", "remembered", "untold"))


def test_what_is_decoded_needs_no_typed_window(live: Path, recording: Path) -> None:
    with (
        Workload(live, "ping_pong", "same", "tokens") as workload,
        watching(live, recording, f"user:{workload.pid}:ping_pong_lines", "--full", "--offsets", "0-7"),
    ):
        workload.do("go 300 0")
    with Recording(recording) as found:
        counts = told(found)
        assert counts["instruction"] == 1200 == found.number("SELECT sum(hits) FROM watch_window")
        assert not any(counts[name] for name in ("watchpoint", "remembered", "untold", "typed_windows"))
        assert found.rows("SELECT access_from FROM watch") == [("instruction",)]


def test_typed_windows_count_transfers(live: Path, recording: Path) -> None:
    """A write that hits two watchpoints is one access."""
    with (
        Workload(live, "ping_pong", "line", "tokens") as workload,
        watching(
            live,
            recording,
            f"user:{workload.pid}:ping_pong_lines",
            *("--access", "watchpoint", "--full", "--offsets", "0-7,24-31"),
        ),
    ):
        workload.do("go 500 0")
    with Recording(recording) as found:
        assert found.rows("SELECT sum(hits), sum(lost), sum(transfers) FROM watch_window") == [(2000, 0, 999)]
        assert {offset: list(counts) for offset, counts in by_offset(found).items()} == {
            0: [1000, 500, 500],
            24: [1000, 500, 500],
        }
        assert (told(found)["compared"], told(found)["disagreed"]) == (2000, 0)


def test_each_kind_of_instruction(live: Path, recording: Path) -> None:
    """The disassembler's word on each against that of the watchpoints, and both against the truth."""
    rounds = 20
    with Workload(live, "instructions") as workload:
        target = f"user:{workload.pid}:instructions_line"
        with watching(live, recording, target, "--access", "watchpoint", "--full", "--offsets", "0-7"):
            workload.do(f"go {rounds}")
        ready = workload.ready
    with Recording(recording) as found:
        assert differing(found) == []
        kinds = found.rows(
            "SELECT decoded & 3, count(*), sum(only_read), sum(wrote) FROM watch_comparison GROUP BY 1 ORDER BY 1"
        )
        readers, writers, changers = ready["readers"], ready["writers"], ready["changers"]
        assert readers > 30
        assert writers > 30
        assert changers > 20
        assert kinds == [
            (READS, readers, rounds * readers, 0),
            (WRITES, writers, 0, rounds * writers),
            (READS | WRITES, changers, 0, rounds * changers),
        ]


@pytest.mark.parametrize("target", ["runqueues:0", "auto"])
def test_the_kernel_under_load(live: Path, recording: Path, tmp_path: Path, target: str) -> None:
    """Instruction by instruction, on the line of a run queue, and of the locks waited for most: futex buckets."""
    which = ["--auto=2"] if target == "auto" else [target]
    with (
        watching(live, recording, *which, "--access", "watchpoint", "--max-overhead", "10"),
        running("stress-ng", "--futex", "2", "--timeout", "300", "--temp-path", tmp_path),
    ):

        def compared(found: Recording) -> bool:
            return found.number("SELECT sum(compared) FROM watch_told") > 2000

        wait_for(enough(recording, compared), "accesses that both tell")
    with Recording(recording) as found:
        known, wrong = found.rows(f"SELECT count(*), sum({DIFFERS}) FROM watch_comparison WHERE decoded")[0]
        assert known > 10
        # A patched instruction is read once; all others are the same each time.
        assert wrong <= known / 50, differing(found)
        compared_hits, disagreed, untold = found.rows(
            "SELECT sum(compared), sum(disagreed), sum(untold) FROM watch_told"
        )[0]
        assert disagreed <= compared_hits / 100
        assert untold <= compared_hits / 100
        assert found.number(
            "SELECT sum(CASE WHEN decoded THEN 0 ELSE only_read + wrote END) FROM watch_comparison"
        ) <= (compared_hits / 50)


def test_the_budget_is_kept_by_typed_windows(live: Path, recording: Path) -> None:
    """Each write two program runs, but one exception: hits times the cost of such a write, against the time."""
    with (
        Workload(live, "ping_pong", "same", "free") as workload,
        watching(live, recording, f"user:{workload.pid}:ping_pong_lines", "--access", "watchpoint"),
    ):

        def watched(found: Recording) -> bool:
            workload.do("go 300000 0")
            return found.number("SELECT sum(hits) FROM watch_window") > 1000

        wait_for(enough(recording, watched), "hits in typed windows")
    with Recording(recording) as found:
        cost = told(found)["typed_hit_ns"]
        elapsed = found.number("SELECT max(value) - min(value) FROM meta WHERE name IN ('begin_ns', 'end_ns')")
        hits, most = found.rows("SELECT sum(hits), max(hits) FROM watch_window")[0]
        assert told(found)["typed_hits"] == hits
        # Two CPUs, each within its share; the last window is paid for after the end.
        assert (hits - most) * cost <= 0.01 * elapsed * 2
        sets = [row[0] % (1 << 64) for row in found.rows("SELECT offsets FROM watch_window")]
        assert max(mask.bit_count() for mask in sets) == 16, "two eighths at once"
