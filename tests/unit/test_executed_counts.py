# SPDX-License-Identifier: GPL-2.0-or-later
"""What is made of an emulator's count of instructions: of blocks that ran, functions; of those, what a tool took."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from executed import (
    Answers,
    Block,
    Phase,
    Symbols,
    cost_of,
    cpu_part,
    functions_of,
    mean_run,
    phases_by_name,
    ratios_of_rounds,
    read_phases,
)

BEGIN = "bpf_prog_0123456789abcdef_contention_begin"
PART = "bpf_prog_fedcba9876543210_begin_other"
# By 0x100 bytes, in this order.
NAMES = (
    BEGIN,
    PART,
    "bpf_ktime_get_ns",
    "ktime_get_mono_fast_ns",
    "read_tsc",
    "__bpf_trace_contention_begin",
    "bpf_trace_run2",
    "schedule",
)
KERNEL = 0xFFFFFFFF81000000
AT = {name: KERNEL + 0x100 * number for number, name in enumerate(NAMES)}
SYMBOLS = Symbols(f"{address:x} t {name} [bpf]" for name, address in AT.items())

# A block: function, distance from its begin, instructions, locked, target, runs.
Made = tuple[str, int, int, int, str, int]


def phase_file(directory: Path, blocks: Sequence[Made], end: str = "end\n") -> Path:
    """As the plugin writes a phase."""
    lines = [
        f"block\t{AT[name] + distance:x}\t{count}\t{locked}\t0\t{AT[target] if target else 0:x}\t{runs}\n"
        for name, distance, count, locked, target, runs in blocks
    ]
    kernel = sum(block[2] * block[5] for block in blocks)
    file = directory / "executed"
    file.write_text("".join(lines) + f"phase\t3\t500\t{kernel}\n{end}", encoding="ascii")
    return file


# Ten waits, two of them the long way; another tenth of the clock's runs is somebody else's.
TEN_WAITS: tuple[Made, ...] = (
    ("__bpf_trace_contention_begin", 0, 3, 0, "bpf_trace_run2", 10),
    ("bpf_trace_run2", 0, 40, 0, "", 10),
    (BEGIN, 0, 50, 0, "bpf_ktime_get_ns", 10),
    (BEGIN, 0x40, 30, 1, "", 8),
    (BEGIN, 0x80, 5, 0, PART, 2),
    (PART, 0, 100, 2, "", 2),
    ("bpf_ktime_get_ns", 0, 3, 0, "ktime_get_mono_fast_ns", 11),
    ("ktime_get_mono_fast_ns", 0, 36, 0, "", 11),
    ("read_tsc", 0, 6, 0, "", 12),
    ("schedule", 0, 1000, 7, "", 5),
)


def test_what_ten_waits_took(tmp_path: Path) -> None:
    phase = read_phases(phase_file(tmp_path, TEN_WAITS))[3]
    assert (phase.user, phase.kernel, phase.both) == (500, 6881, 7381)
    found = functions_of(phase, SYMBOLS)
    assert mean_run(found, "bpf_ktime_get_ns") == (45, 0)
    cost = cost_of(found)
    assert (cost.own, cost.helpers, cost.way, cost.clocks, cost.locked) == (950, 450, 430, 10, 12)
    assert cost.instructions == 950 + 450 + 430
    assert [(one.name, one.runs) for one in cost.programs] == [("contention_begin", 10), ("begin_other", 2)]
    assert cost.programs[0].instructions == 75
    assert cost.programs[0].clocks == 1


def test_one_program_alone(tmp_path: Path) -> None:
    found = functions_of(read_phases(phase_file(tmp_path, TEN_WAITS))[3], SYMBOLS)
    cost = cost_of(found, [PART])
    assert (cost.own, cost.helpers, cost.locked, cost.runs("begin_other")) == (200, 0, 4, 2)


def test_a_jump_back_is_no_call(tmp_path: Path) -> None:
    blocks: list[Made] = [(BEGIN, 0, 10, 0, "", 4), (BEGIN, 0x10, 2, 0, BEGIN, 4)]
    found = functions_of(read_phases(phase_file(tmp_path, blocks))[3], SYMBOLS)
    assert found[BEGIN].calls == {}
    # The begin of the loop and that of the function are one block's address: it has run so often.
    assert found[BEGIN].runs == 4


def test_a_function_that_calls_itself_ends(tmp_path: Path) -> None:
    blocks: list[Made] = [("schedule", 0, 10, 0, "bpf_trace_run2", 1), ("bpf_trace_run2", 0, 10, 0, "schedule", 1)]
    found = functions_of(read_phases(phase_file(tmp_path, blocks))[3], SYMBOLS)
    assert mean_run(found, "schedule")[0] < 200


def test_code_before_all_symbols_has_no_name() -> None:
    assert SYMBOLS.at(KERNEL - 1) == ("", KERNEL - 1)
    assert SYMBOLS.at(AT["read_tsc"] + 4) == ("read_tsc", 4)


def test_a_guest_that_did_not_end_has_no_figures(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not written to its end"):
        read_phases(phase_file(tmp_path, TEN_WAITS, end=""))


def test_totals_alone(tmp_path: Path) -> None:
    phase = read_phases(phase_file(tmp_path, []))[3]
    assert (phase.both, phase.blocks) == (500, [])


def test_windows_have_their_order() -> None:
    kinds = ("without", "start", "first", "with", "with", "end", "without")
    order = [(turn, tool, kind) for turn in range(11) for tool in (1, 2) for kind in kinds]
    lines = ["1 few", "2 all"]
    lines += [f"{number} {turn}.{tool}.{kind}" for number, (turn, tool, kind) in enumerate(order, start=3)]
    phases = {number: Phase(number, 0) for number in range(3, 3 + len(order))}
    named = phases_by_name(lines, phases)
    assert [one.user for one in named[2, "without"]][:4] == [10, 16, 24, 30]
    assert [one.user for one in named[2, "with"]][:4] == [13, 14, 27, 28]
    assert len(named[1, "with"]) == len(named[1, "without"]) == 22
    assert [one.user for one in named[1, "start"]] == list(range(4, 4 + 11 * 14, 14))


def answered(times: int) -> Phase:
    """A phase in which requests were answered so often, by a function that is passed in its middle more often."""
    begin = AT["schedule"]
    return Phase(1000, 0, [Block(begin, 5, 0, 0, 0, times), Block(begin + 0x20, 3, 0, 0, 0, 3 * times)])


def test_requests_are_counted_by_what_runs_for_each() -> None:
    # Seven runs for a request, and 40 for the load to begin.
    a_request = Answers("schedule", SYMBOLS, answered(7 * 100 + 40), answered(7 * 800 + 40), 700)
    assert a_request.requests(answered(7 * 350)) == 350
    assert a_request.requests(Phase(10, 10)) == 0


def test_a_function_that_does_not_run_counts_nothing() -> None:
    a_request = Answers("read_tsc", SYMBOLS, answered(800), answered(8000), 900)
    with pytest.raises(ValueError, match="read_tsc ran 0 times for 900 requests"):
        a_request.requests(answered(10))


def test_what_grows_evenly_is_no_difference() -> None:
    """Each window takes a hundredth more than the one before; with the tool two hundredths more."""
    grown = [1.01**number for number in range(8)]
    without = [grown[number] for number in (0, 3, 4, 7)]
    with_it = [1.02 * grown[number] for number in (1, 2, 5, 6)]
    assert ratios_of_rounds(without, with_it) == pytest.approx([1.02, 1.02])


def test_the_part_of_all_cpus() -> None:
    lines = [
        "1 900000000 10.0 990000000 12.0",
        "2 0 1.0 1000000000 2.0",
        "2 0 5.0 30000000 6.0",
        "2 5 7.0 40000005 8.0",
    ]
    assert cpu_part(lines, 1, 2) == pytest.approx(0.0225)
    assert cpu_part(lines, 2, 2) == pytest.approx(0.02)
