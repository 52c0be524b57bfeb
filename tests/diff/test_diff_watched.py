# SPDX-License-Identifier: GPL-2.0-or-later
"""Watched lines of two recordings."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from c2c.memory_recording import MemoryBuilder
from lockline.cli.main import main
from recording_generator import SECOND
from schemas import validator_of
from watched_lines import MS, US, Event, Target, in_windows, look, ping_pong, write_watch


def watched(path: Path, events: Sequence[Event], seed: int = 1, **target: Any) -> Path:
    seen = look(events, in_windows(SECOND, MS, 10 * MS, seed=seed))
    return write_watch(path, seen, Target(**target))


@pytest.fixture
def compare(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def run(*arguments: object) -> tuple[int, str, str]:
        told = any(argument in ("--format", "--changelog") for argument in arguments)
        status = main(["diff", *map(str, arguments), *([] if told else ["--all"])])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


def document(compare: Callable[..., tuple[int, str, str]], one: Path, other: Path) -> dict[str, Any]:
    status, out, err = compare(one, other, "--format", "json")
    assert status in (0, 2), err
    value: dict[str, Any] = json.loads(out)
    validator_of("diff").validate(value)
    return value


def test_a_line_that_moves_less(tmp_path: Path, compare: Callable[..., tuple[int, str, str]]) -> None:
    # The address is another one after each start.
    before = watched(tmp_path / "before", ping_pong((0, 8), 20_000, 50 * US))
    after = watched(tmp_path / "after", ping_pong((0, 8), 5_000, 200 * US), 2, address=0x55D0_0000_7000)
    value = document(compare, before, after)
    assert value["lines"] is None
    whole, *members = value["watched"]["lines"]
    assert (whole["line"], whole["member"], whole["presence"]) == ("shared", None, "both")
    assert whole["before"]["per_second"] == pytest.approx(20_000, rel=0.05)
    assert whole["after"]["per_second"] == pytest.approx(5_000, rel=0.1)
    assert whole["judged"]["verdict"] == "improved"
    assert whole["per_second"]["relative"] == pytest.approx(-0.75, abs=0.05)
    assert sorted(member["member"] for member in members) == ["+0x0", "+0x8"]
    assert sum(member["before"]["share"] for member in members) == pytest.approx(1)
    assert value["watched"]["judged"] == 3
    status, out, _ = compare(before, after)
    assert status == 0
    assert "fewer transfers" in out
    assert "HITM" not in out
    assert all(len(line) <= 120 for line in out.splitlines())
    status, out, _ = compare(before, after, "--changelog")
    assert all(len(line) <= 75 for line in out.splitlines())
    assert "transfers per second" in out


def test_a_line_that_moves_more_is_a_regression(tmp_path: Path, compare: Callable[..., tuple[int, str, str]]) -> None:
    before = watched(tmp_path / "before", ping_pong((0, 8), 5_000, 200 * US))
    after = watched(tmp_path / "after", ping_pong((0, 8), 20_000, 50 * US))
    status, out, _ = compare(before, after)
    assert status == 2
    assert "more waiting or transfers: shared" in " ".join(out.split())


def test_the_same_again_is_no_regression(tmp_path: Path, compare: Callable[..., tuple[int, str, str]]) -> None:
    before = watched(tmp_path / "before", ping_pong((0, 8), 10_000, 100 * US, 1), 1)
    after = watched(tmp_path / "after", ping_pong((0, 8), 10_000, 100 * US, 2), 2)
    value = document(compare, before, after)
    assert value["verdict"] in ("no difference", "inconclusive")
    assert {row["judged"]["verdict"] for row in value["watched"]["lines"]} <= {"no difference", "inconclusive"}


def test_a_member_that_was_moved_away(tmp_path: Path, compare: Callable[..., tuple[int, str, str]]) -> None:
    before = watched(tmp_path / "before", ping_pong((0, 8), 10_000, 100 * US))
    after = watched(tmp_path / "after", [event for event in ping_pong((0, 8), 10_000, 100 * US) if event.cpu == 0])
    value = document(compare, before, after)
    rows = {row["member"]: row for row in value["watched"]["lines"]}
    assert rows["+0x8"]["presence"] == "gone"
    assert rows[None]["after"]["per_second"] == 0
    assert rows[None]["judged"]["verdict"] == "improved"


def test_watched_against_samples(tmp_path: Path, compare: Callable[..., tuple[int, str, str]]) -> None:
    """Shares are compared, how often is not."""
    before = watched(tmp_path / "before", ping_pong((0, 8), 10_000, 100 * US), object="/usr/bin/program")
    builder = MemoryBuilder()
    line = builder.line(0x55D0_0000_1000, "user", 1000, "shared", 0, "/usr/bin/program")
    for offset in (0, 8):
        code = builder.code(f"bump_{offset}", 0, "user", 0x1000 + offset, "/usr/bin/program")
        builder.add(line, offset, code, builder.thread(1000 + offset), [offset // 8], loads=50, local_hitm=40)
    after = builder.write(tmp_path / "after")
    value = document(compare, before, after)
    whole, *members = value["watched"]["lines"]
    assert whole["judged"] is None
    assert "shares" in whole["unjudged"]
    assert whole["after"] == {
        "transfers": 80,
        "share": 1.0,
        "per_second": None,
        "error_per_second": None,
        "at_least": False,
    }
    for member in members:
        assert member["before"]["share"] == pytest.approx(0.5, abs=0.01)
        assert member["after"]["share"] == 0.5
    assert any("from watchpoint and perf.data" in warning for warning in value["warnings"])


def test_different_budgets_are_told(tmp_path: Path, compare: Callable[..., tuple[int, str, str]]) -> None:
    events = ping_pong((0, 8), 10_000, 100 * US)
    before = watched(tmp_path / "before", events)
    after = watched(tmp_path / "after", events, budget=0.0)
    warnings = document(compare, before, after)["warnings"]
    assert any("different shares of CPU time (0.01 and no limit)" in warning for warning in warnings)
