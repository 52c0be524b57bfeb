# SPDX-License-Identifier: GPL-2.0-or-later
"""What the probes do to the waits, and from where on a length can be trusted."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockline.analysis.selection import Selection
from lockline.analysis.trust import COARSE_STEP_NS, make_trust
from lockline.recording.reader import open_recording
from lockline.recording.rows import Cost, Program
from lockline.render.trust import sentences
from lockline.rules.report import make_report
from recording_generator import RecordingBuilder

MEASUREMENT = [Cost("measurement_ns", 20, "ns")]


def program(name: str, ns_per_run: int, runs: int = 100) -> Program:
    return Program(name, "", None, runs, runs * ns_per_run, 0)


def test_begin_is_cut_off_and_end_comes_on_top() -> None:
    trust = make_trust([program("contention_begin", 120), program("contention_end", 80)], MEASUREMENT, None)
    for handoff in (trust.spinning, trust.sleeping):
        assert (handoff.cut_ns, handoff.longer_ns, handoff.trusted_ns) == (100, 60, 1600)


def test_of_alternatives_the_dearest_counts() -> None:
    programs = [
        program("contention_begin", 120),
        program("contention_end", 80),
        program("spin_enter", 70),
        program("spin_leave", 60),
        program("spin_unlock", 50),
        program("spin_unlock_irqrestore", 90),
        program("mutex_unlocks", 220),
    ]
    trust = make_trust(programs, MEASUREMENT, None)
    assert (trust.spinning.cut_ns, trust.spinning.longer_ns) == (150, 60 + 40 + 70)
    assert (trust.sleeping.cut_ns, trust.sleeping.longer_ns) == (100, 60 + 200)


def test_what_sleepers_alone_pass() -> None:
    programs = [program("contention_end", 80), program("context_switch", 120), program("softirq_enter", 500)]
    trust = make_trust(programs, MEASUREMENT, None)
    assert (trust.spinning.longer_ns, trust.sleeping.longer_ns) == (60, 160)
    assert trust.other == ("softirq_enter",)


def test_what_was_not_measured_is_not_known() -> None:
    trust = make_trust([program("contention_begin", 0, runs=0)], [], None)
    assert trust.spinning.cut_ns is None
    assert trust.spinning.trusted_ns is None
    assert trust.measurement_ns is None
    assert sentences(trust) == []


def test_half_of_a_wait_measured_tells_nothing() -> None:
    trust = make_trust([program("contention_begin", 120), program("contention_end", 0, runs=0)], MEASUREMENT, None)
    assert (trust.spinning.cut_ns, trust.spinning.trusted_ns) == (100, None)


def test_coarse_clock() -> None:
    trust = make_trust([program("contention_begin", 120)], MEASUREMENT, 4_000_000)
    assert trust.spinning.trusted_ns == trust.sleeping.trusted_ns == 40_000_000
    assert "moves every 4.00 ms" in sentences(trust)[0]


@pytest.mark.parametrize(
    ("facts", "step"),
    [
        ({"clock": "coarse", "clock_step_ns": 1_000_000}, 1_000_000),
        ({"clock": "coarse"}, COARSE_STEP_NS),
        ({"clock": "precise", "clock_step_ns": 1_000_000}, None),
        ({}, None),
    ],
)
def test_step_of_the_clock(tmp_path: Path, facts: dict[str, object], step: int | None) -> None:
    path = RecordingBuilder(tmp_path / "r.lockline", meta=facts).finish()
    with open_recording(path) as recording:
        assert make_report(recording, Selection(), 10).trust.clock_step_ns == step


@settings(deadline=None)
@given(st.lists(st.tuples(st.text(), st.integers(), st.integers())), st.none() | st.integers(0, 1 << 62))
def test_any_figures_are_taken(programs: list[tuple[str, int, int]], step: int | None) -> None:
    rows = [Program(name, "", None, runs, ns, 0) for name, runs, ns in programs]
    rows += [Program("contention_begin", "", None, runs, ns, 0) for _, runs, ns in programs]
    trust = make_trust(rows, MEASUREMENT, step)
    assert len(trust.programs) + len(trust.other) == len(rows)
    assert trust.spinning.trusted_ns is None or trust.spinning.trusted_ns >= 0
