# SPDX-License-Identifier: GPL-2.0-or-later
"""The collector's pure parts: C programs that test them, built with the sanitizers, one test here per line of TAP."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tap import parse_tap

HERE = Path(__file__).parent
COLLECTOR = HERE.parent.parent / "userspace" / "collector"

PLAN = ["kernel/plan.c", "kernel/signals.c", "kernel/plan_make.c", "kernel/plan_checks.c", "kernel/probe_points.c", "kernel/plan_holders.c", "kernel/plan_context.c", "kernel/plan_signals.c", "kernel/pmu.c", "kernel/lock_mode.c"]

# What everybody needs stands below all else: every test program gets it.
BASE = sorted(COLLECTOR.glob("base/*.c"))

# test program: what it tests, without base/
PROGRAMS = {
    "options_test": ["cli/command_line.c", "cli/hitm_options.c", "cli/import_options.c", "cli/watch_options.c", "cli/until.c", "cli/kinds.c"],
    "plan_test": PLAN,
    "plan_options_test": PLAN,
    "plan_signals_test": PLAN,
    "cgroups_test": ["names/cgroup_mounts.c"],
    "proc_test": [],
    "ring_test": [],
    "own_cost_test": ["probes/own_cost.c"],
    "observer_test": ["probes/observer.c"],
    "c2c_process_test": ["perfdata/c2c_process.c"],
    "holdings_test": ["holders/holdings.c"],
    "until_test": ["cli/until.c", "cli/command_line.c", "cli/hitm_options.c", "cli/import_options.c", "cli/watch_options.c", "cli/kinds.c"],
    "interrupts_test": ["episodes/interrupts.c"],
    "timeline_test": ["episodes/timeline.c"],
    "choices_test": [],
    "shell_words_test": [],
    "in_flight_test": ["waits/in_flight.c"],
    "totals_test": ["waits/totals.c", "recording/recording.c", "recording/output_file.c"],
    "futex_waiting_test": ["futex/futex_waiting.c"],
    "pmu_test": ["kernel/pmu.c"],
    "watch_code_test": ["watch/watch_code.c", "watch/watch_vex.c"],
    "watch_cost_test": [],
    "watch_freed_test": ["watch/watch_freed.c"],
    "watch_sums_test": ["watch/watch_sums.c", "watch/watch_budget.c"],
    "watch_decoded_test": ["watch/watch_decoded.c", "watch/watch_pairs.c", "watch/watch_schedule.c"],
    "watch_parts_test": [
        "kernel/kernel_config.c",
        "watch/watch_forbidden.c",
        "watch/watch_machine.c",
        "watch/watch_queue.c",
    ],
    "cpu_pairs_test": ["kernel/cpu_pairs.c", "kernel/cpu_topology.c"],
}

LIBRARIES = {"totals_test": ["-lsqlite3"], "watch_code_test": ["-lcapstone"], "watch_parts_test": ["-lz"]}

FLAGS = ["-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-D_GNU_SOURCE"]
FLAGS += [f"-I{COLLECTOR}", f"-I{COLLECTOR.parent.parent}"]
# Files that make writes, as recording_schema.h.
FLAGS += [f"-I{COLLECTOR.parent.parent / 'build' / 'collector'}"]
# A variable that is read before it is set has a value that no test takes for right.
FLAGS += ["-ftrivial-auto-var-init=pattern"]
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]

CASES = [
    (program, name)
    for program in PROGRAMS
    for name in re.findall(r"TEST\((\w+)\)", (HERE / f"{program}.c").read_text())
]


def run_program(directory: Path, program: str) -> dict[str, tuple[bool, str]]:
    """Builds and runs one program: per test whether it passed, and what it complained of."""
    binary = directory / program
    sources = [HERE / f"{program}.c", *(COLLECTOR / source for source in PROGRAMS[program]), *BASE]
    compiler = os.environ.get("CC", "gcc")
    command = [compiler, *FLAGS, *SANITIZERS, '-DLOCKLINE_VERSION="0"', "-o", str(binary), *map(str, sources)]
    command += LIBRARIES.get(program, [])
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    done = subprocess.run([binary], capture_output=True, text=True, timeout=300, check=False)
    results = parse_tap(done.stdout)
    assert f"1..{len(results)}" in done.stdout.splitlines(), done.stdout + done.stderr
    assert (done.returncode == 0) == all(passed for passed, _ in results.values()), done.stderr
    return results


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], tuple[bool, str]]:
    directory = tmp_path_factory.mktemp("collector")
    return {(program, name): result for program in PROGRAMS for name, result in run_program(directory, program).items()}


@pytest.mark.parametrize(("program", "name"), CASES)
def test_collector(results: dict[tuple[str, str], tuple[bool, str]], program: str, name: str) -> None:
    passed, complaints = results[program, name]
    assert passed, complaints
