# SPDX-License-Identifier: GPL-2.0-or-later
"""What `doctor --deep` measured, read and shown."""

import re
from typing import Any

import pytest

from lockline.analysis.cpu_pairs import parse_hardware
from lockline.base.text import WIDTH, Style
from lockline.render.cpu_pairs import render_hardware

STYLE = Style()


def pair(first: int, second: int, transfer: float = 60, **more: Any) -> dict[str, Any]:
    return {
        "first": first,
        "second": second,
        "relation": "same last-level cache",
        "transfer_ns": transfer,
        "least_transfer_ns": transfer - 10,
        "rounds": 25600,
        "readings": 5000,
        "warp_ns": 0,
        "warp_behind": None,
        "counter_warp_ticks": 0,
        "counter_warp_behind": None,
    } | more


def measured(pairs: list[dict[str, Any]], cpus: int, possible: int, chosen: int | None = None) -> dict[str, Any]:
    return {
        "cpus": cpus,
        "possible_pairs": possible,
        "chosen_pairs": len(pairs) if chosen is None else chosen,
        "counter": "TSC",
        "counter_hz": 2_500_000_000,
        "pairs": pairs,
    }


def text_of(value: dict[str, Any]) -> str:
    lines = render_hardware(parse_hardware(value), STYLE)
    assert all(len(line) <= WIDTH for line in lines)
    return "\n".join(lines)


def test_a_matrix_of_all_pairs() -> None:
    text = text_of(measured([pair(0, 1, 45), pair(0, 2, 130), pair(1, 2, 131)], 3, 3))
    rows = [line.split() for line in text.splitlines()[1:5]]
    assert rows == [
        ["CPU", "0", "CPU", "1", "CPU", "2"],
        ["CPU", "0", "-", "45", "130"],
        ["CPU", "1", "45", "-", "131"],
        ["CPU", "2", "130", "131", "-"],
    ]
    assert "Least 35.0 ns; medians from 45.0 ns (CPUs 0 and 1) to 131.0 ns (CPUs 1 and 2)." in text
    assert "none was behind another one, in 15,000 readings" in text
    assert "no TSC was behind another one" in text


def test_many_cpus_by_nearness() -> None:
    pairs = [pair(0, 64, 20, relation="same core"), pair(0, 8, 70), pair(0, 32, 210, relation="other node")]
    text = text_of(measured(pairs, 128, 8128, 4))
    assert "CPU 8" not in text.split("Least")[0]
    assert re.search(r"other node +1 +200 +210 +210$", text, re.MULTILINE)
    assert "Chosen 4 of 8,128 pairs of 128 CPUs" in text
    assert "1 pairs not measured" in text


def test_clocks_that_go_backwards() -> None:
    backwards = pair(2, 5, warp_ns=340, warp_behind=5, counter_warp_ticks=1000, counter_warp_behind=2)
    text = text_of(measured([pair(0, 1), backwards], 6, 15))
    assert "CPU 5 is up to 340 ns behind CPU 2" in text
    assert "the TSC of CPU 2 is up to 1,000 ticks (400 ns) behind another one" in text


@pytest.mark.parametrize(("possible", "why"), [(0, "one CPU alone"), (1, "never free")])
def test_nothing_measured(possible: int, why: str) -> None:
    assert why in text_of(measured([], 1 + possible, possible, possible))


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"pairs": 1},
        measured([{"first": 0}], 2, 1),
        measured([pair(0, 1, float("nan"))], 2, 1),
        measured([pair(0, 1, -5)], 2, 1),
        measured([pair(0, 1, warp_ns="much")], 2, 1),
    ],
)
def test_something_else(broken: dict[str, Any]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        parse_hardware(broken)
