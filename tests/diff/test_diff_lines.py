# SPDX-License-Identifier: GPL-2.0-or-later
"""Cache lines: by what lies on them, in proportion to the samples, as counts that chance moves."""

import sqlite3
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from two_sides import LOAD, make_recording

from lockline.diff.line_names import function_name
from lockline.recording.memory import LineFunction
from recording_generator import SCHEMA, RecordingBuilder

Json = Callable[..., tuple[int, dict[str, Any]]]

# Of memory_access, those that may be NULL: not its key, and not nodes.
with sqlite3.connect(":memory:") as schema:
    schema.executescript(SCHEMA.read_text(encoding="utf-8"))
    COLUMNS = [name for _, name, _, needed, *_ in schema.execute("PRAGMA table_info(memory_access)") if not needed]
schema.close()


@dataclass(frozen=True)
class Line:
    """One line: its symbol or '', and per function the figures of its accesses."""

    symbol: str
    accesses: dict[str, dict[str, Any]]
    offset: int = 0


def add_lines(path: Path, lines: Sequence[Line], samples: int | None, seed: int = 0, event: str = "ibs_op//") -> Path:
    """Put lines into a recording, at addresses that the seed moves."""
    with sqlite3.connect(path) as database:
        database.execute("INSERT INTO memory_source VALUES (1, 'perf.data', 'x', ?)", (event,))
        if samples is not None:
            database.execute("INSERT INTO memory_count VALUES (1, 'nr_entries', ?)", (samples,))
        codes: dict[str, int] = {}
        for number, line in enumerate(lines, 1):
            address = (number + seed * 1000) * 64
            database.execute(
                "INSERT INTO memory_line VALUES (?, 1, ?, 64, 'kernel', 0, '', ?, ?, '', 0)",
                (number, address, line.symbol, line.offset),
            )
            for function, figures in line.accesses.items():
                code = codes.setdefault(function, len(codes) + 1)
                values = {"records": sum(v for k, v in figures.items() if k.endswith(("hitm", "peer")))} | figures
                database.execute(
                    f"INSERT INTO memory_access (line, offset, code, thread, nodes, {','.join(COLUMNS)})"
                    f" VALUES (?, 0, ?, 0, '', {','.join('?' * len(COLUMNS))})",
                    (number, code, *(values.get(name) for name in COLUMNS)),
                )
        for function, code in codes.items():
            database.execute(
                "INSERT INTO memory_code VALUES (?, ?, 'kernel', ?, 0, '', '')", (code, code * 16, function)
            )
    database.close()
    return path


def imported(path: Path, lines: Sequence[Line], samples: int | None = 1_000_000, seed: int = 0, **options: str) -> Path:
    """A recording that holds nothing but memory accesses, as an import makes it."""
    with sqlite3.connect(path) as database:
        database.executescript("PRAGMA synchronous = OFF; BEGIN;" + SCHEMA.read_text(encoding="utf-8"))
    database.close()
    return add_lines(path, lines, samples, seed, **options)


def hitm(local: int, remote: int, **more: Any) -> dict[str, Any]:
    return {"local_hitm": local, "remote_hitm": remote, **more}


BUCKET = Line("", {"futex_wake": hitm(80, 20), "futex_q_lock": hitm(40, 10), "futex_unqueue": hitm(9, 1)})
STATIC = Line("tick_do_timer_cpu", {"tick_sched_timer": hitm(50, 30, cpus=bytes([0b1011, 1]))})


def line_of(document: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = [line for line in document["lines"]["lines"] if line["line"] == name]
    assert isinstance(found, dict)
    return found


def test_by_name_not_by_address(tmp_path: Path, as_json: Json) -> None:
    before = imported(tmp_path / "b", [BUCKET, STATIC])
    after = imported(tmp_path / "a", [STATIC, BUCKET], samples=2_000_000, seed=5)
    code, document = as_json(before, after)
    assert document["waits"] is None
    bucket = line_of(document, "futex_q_lock, futex_wake")
    assert (bucket["named_by"], bucket["presence"]) == ("functions", "both")
    assert bucket["before"]["hitm"] == {"total": 160, "local": 129, "remote": 31}
    assert bucket["before"]["per_10k"] == pytest.approx(1.6)
    assert bucket["after"]["per_10k"] == pytest.approx(0.8)
    assert bucket["judged"]["verdict"] == "improved"
    assert "conditional test of two Poisson rates" in bucket["judged"]["test"]
    static = line_of(document, "tick_do_timer_cpu")
    assert (static["named_by"], static["before"]["cpus"]) == ("symbol", 4)
    assert static["before"]["share"] == pytest.approx(80 / 240)
    assert (code, document["verdict"]) == (0, "improved")


def test_regression_of_one_line(tmp_path: Path, as_json: Json, run: Callable[..., Any]) -> None:
    before = imported(tmp_path / "b", [BUCKET, STATIC])
    worse = Line("tick_do_timer_cpu", {"tick_sched_timer": hitm(150, 60)})
    after = imported(tmp_path / "a", [BUCKET, worse])
    code, document = as_json(before, after)
    assert (code, document["verdict"]) == (2, "regressed")
    assert document["lines"]["lines"][0]["line"] == "tick_do_timer_cpu"
    assert line_of(document, "futex_q_lock, futex_wake")["judged"]["verdict"] == "inconclusive"
    code, out, _ = run(before, after)
    assert "more transfers" in out
    assert "150+60" in out
    assert max(map(len, out.splitlines())) <= 120
    code, out, _ = run(before, after, "--changelog")
    assert code == 2
    assert max(map(len, out.splitlines())) <= 75
    assert "HITM per 10,000 samples" in out


def test_nearly_the_same_is_not_told_apart(tmp_path: Path, as_json: Json) -> None:
    before = imported(tmp_path / "b", [STATIC])
    after = imported(tmp_path / "a", [Line("tick_do_timer_cpu", {"tick_sched_timer": hitm(55, 33)})])
    code, document = as_json(before, after)
    assert (code, document["verdict"]) == (0, "inconclusive")


def test_lines_of_one_name_are_added(tmp_path: Path, as_json: Json) -> None:
    two = [Line("table", {"walk": hitm(30, 0)}), Line("table", {"walk": hitm(30, 0)}, offset=64)]
    before = imported(tmp_path / "b", [*two, BUCKET, BUCKET])
    _, document = as_json(before, before)
    assert {line["line"]: line["before"]["lines"] for line in document["lines"]["lines"]} == {
        "table": 1,
        "table+0x40": 1,
        "futex_q_lock, futex_wake": 2,
    }


def test_peer_snoops_where_there_are_no_hitm(tmp_path: Path, as_json: Json, run: Callable[..., Any]) -> None:
    before = imported(tmp_path / "b", [Line("x", {"f": {"local_peer": 200, "remote_peer": 100}})])
    after = imported(tmp_path / "a", [Line("x", {"f": {"local_peer": 20, "remote_peer": 10}})])
    _, document = as_json(before, after)
    assert document["lines"]["metric"] == "peer"
    assert document["lines"]["lines"][0]["judged"]["verdict"] == "improved"
    assert "peer snoops, local + remote" in run(before, after)[1]


def test_few_transfers_are_not_judged(tmp_path: Path, as_json: Json) -> None:
    before = imported(tmp_path / "b", [Line("x", {"f": hitm(4, 0)})])
    after = imported(tmp_path / "a", [Line("x", {"f": hitm(0, 0)})])
    code, document = as_json(before, after)
    (line,) = document["lines"]["lines"]
    assert (line["judged"], line["unjudged"]) == (None, "fewer than 10 transfers")
    assert (code, document["verdict"]) == (0, "inconclusive")


def test_new_gone_and_unnamed_lines(tmp_path: Path, as_json: Json) -> None:
    before = imported(tmp_path / "b", [Line("old", {"f": hitm(100, 0)})])
    after = imported(tmp_path / "a", [Line("new", {"f": hitm(100, 0)}), Line("", {"": hitm(20, 0)})])
    code, document = as_json(before, after)
    assert code == 2
    assert {line["line"]: line["presence"] for line in document["lines"]["lines"]} == {
        "old": "gone", "new": "new", "?": "new",
    }  # fmt: skip
    assert any("have no name" in warning for warning in document["warnings"])
    assert line_of(document, "?")["unjudged"] == "these lines have no names"


def test_waits_and_lines_in_one_recording(tmp_path: Path, as_json: Json) -> None:
    sides = [
        add_lines(make_recording(tmp_path / name, LOAD, seed), [STATIC], 1000, seed)
        for seed, name in enumerate(("b", "a"))
    ]
    _, document = as_json(*sides)
    assert document["waits"] is not None
    assert document["lines"] is not None


def test_one_side_without(tmp_path: Path, as_json: Json, run: Callable[..., Any]) -> None:
    waits = make_recording(tmp_path / "waits", LOAD, 1)
    both = add_lines(make_recording(tmp_path / "both", LOAD, 2), [STATIC], 1000)
    _, document = as_json(waits, both)
    assert document["lines"] is None
    assert any("waits has no memory accesses" in warning for warning in document["warnings"])
    code, out, err = run(waits, imported(tmp_path / "c2c", [STATIC]))
    assert (code, out) == (1, "")
    assert "nothing in common" in err


def test_different_events_are_told(tmp_path: Path, as_json: Json) -> None:
    before = imported(tmp_path / "b", [STATIC])
    after = imported(tmp_path / "a", [STATIC], event="cpu/mem-loads,ldlat=30/P")
    _, document = as_json(before, after)
    assert document["warnings"] == [
        "different sources of memory samples: perf.data ibs_op// and perf.data cpu/mem-loads,ldlat=30/P"
    ]


def test_samples_that_are_not_told(tmp_path: Path, as_json: Json, run: Callable[..., Any]) -> None:
    # The lines' own records stand for them, as a text without a total has no others.
    before = imported(tmp_path / "b", [STATIC], samples=None)
    _, document = as_json(before, before)
    assert document["lines"]["samples"] == {"before": 80, "after": 80}
    nothing = imported(tmp_path / "n", [Line("x", {"f": {"records": None, "local_hitm": 50}})], samples=None)
    code, _, err = run(nothing, nothing)
    assert code == 1
    assert "does not say how many samples" in err


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE memory_access SET local_hitm = -5",
        "UPDATE memory_access SET local_hitm = 'x'",
        "UPDATE memory_access SET cpus = 'text'",
        "UPDATE memory_access SET cpus = zeroblob(100000)",
        "UPDATE memory_access SET local_hitm = 9223372036854775807, remote_hitm = 9223372036854775807",
        "UPDATE memory_line SET symbol = x'00'",
    ],
)
def test_damaged(tmp_path: Path, run: Callable[..., Any], damage: str) -> None:
    path = imported(tmp_path / "b", [BUCKET, STATIC])
    with sqlite3.connect(path) as database:
        database.execute(damage)
    database.close()
    code, out, err = run(path, path)
    assert (code, out, err.count("\n")) == (1, "", 1), err


def test_many_lines_are_not_all_judged(tmp_path: Path, as_json: Json) -> None:
    path = imported(tmp_path / "b", [Line(f"line_{i}", {"f": hitm(50 + i, 0)}) for i in range(60)])
    _, document = as_json(path, path)
    assert document["lines"]["lines_judged"] == 50
    assert line_of(document, "line_0")["judged"] is None
    assert line_of(document, "line_59")["judged"]["tested"] == 50


@pytest.fixture
def types(build: Path) -> bytes:
    """The running kernel's types, which the collector can read."""
    kernel = Path("/sys/kernel/btf/vmlinux")
    if not kernel.exists():
        pytest.skip("this kernel has no BTF (CONFIG_DEBUG_INFO_BTF)")
    if not (build / "bin" / "lockline-collect").exists():
        pytest.fail("build/bin/lockline-collect is missing: run make first", pytrace=False)
    return kernel.read_bytes()


def with_bucket_lock(path: Path, seed: int, types: bytes | None) -> Path:
    """A recording whose lock lies at offset 4 of its only line, as that of a futex hash bucket does."""
    add_lines(make_recording(path, LOAD, seed), [BUCKET], 1_000_000, seed)
    with sqlite3.connect(path) as database:
        (line,) = database.execute("SELECT address FROM memory_line").fetchone()
        database.execute("UPDATE lock SET address = ? WHERE name = 'futex_hash_bucket.lock'", (line + 4,))
        if types is not None:
            database.execute("INSERT INTO btf VALUES ('vmlinux', ?, ?)", (len(types), zlib.compress(types, 1)))
    database.close()
    return path


def test_lines_are_named_by_their_object(tmp_path: Path, as_json: Json, types: bytes) -> None:
    before = with_bucket_lock(tmp_path / "b", 1, types)
    after = with_bucket_lock(tmp_path / "a", 2, types)
    # Another function has become the busiest, and the line is the same.
    with sqlite3.connect(after) as database:
        database.execute("UPDATE memory_code SET symbol = 'futex_wait_setup' WHERE symbol = 'futex_wake'")
    database.close()
    _, document = as_json(before, after)
    (line,) = document["lines"]["lines"]
    assert (line["line"], line["named_by"], line["presence"]) == ("futex_hash_bucket+0x0", "type", "both")


def test_without_types_functions_name_lines_and_that_is_told(tmp_path: Path, as_json: Json) -> None:
    before, after = with_bucket_lock(tmp_path / "b", 1, None), with_bucket_lock(tmp_path / "a", 2, None)
    _, document = as_json(before, after)
    (line,) = document["lines"]["lines"]
    assert (line["line"], line["named_by"]) == ("futex_q_lock, futex_wake", "functions")
    (warning,) = document["warnings"]
    assert warning.startswith("lines are named by the functions that touch them: ")


def test_damaged_types(tmp_path: Path, run: Callable[..., Any]) -> None:
    path = with_bucket_lock(tmp_path / "b", 1, b"no types at all")
    code, out, err = run(path, path)
    assert (code, "named by the functions" in out) == (0, True), err


def functions(*weights: tuple[str, int, int]) -> str:
    return function_name([LineFunction(1, *weight) for weight in weights])


def test_functions_that_name_a_line() -> None:
    assert functions() == ""
    assert functions(("", 100, 100)) == ""
    assert functions(("a", 90, 1), ("b", 10, 1)) == "a"
    assert functions(("b", 50, 1), ("a", 40, 1), ("c", 10, 1)) == "a, b"
    # At most three, however even they are.
    assert functions(*((name, 10, 1) for name in "edcba")) == "a, b, c"
    # Without transfers by their records.
    assert functions(("a", 0, 3), ("b", 0, 97)) == "b"


def test_schema_1_has_no_lines(tmp_path: Path, run: Callable[..., Any]) -> None:
    path = RecordingBuilder(tmp_path / "old", 4).finish()
    with sqlite3.connect(path) as database:
        for (table,) in database.execute("SELECT name FROM sqlite_schema WHERE name LIKE 'memory%'").fetchall():
            database.execute(f"DROP TABLE {table}")
        database.execute("PRAGMA user_version = 1")
    database.close()
    code, out, _ = run(path, path)
    assert code == 0
    assert "Cache lines" not in out
