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

PLAN = ["plan.c", "plan_holders.c", "plan_relief.c", "plan_signals.c", "pmu.c", "small_file.c", "lock_mode.c"]

# test program: what it tests
PROGRAMS = {
    "options_test": ["options.c", "hitm_options.c", "import_options.c", "watch_options.c", "until.c", "values.c"],
    "plan_test": PLAN,
    "plan_options_test": PLAN,
    "plan_signals_test": PLAN,
    "cgroups_test": ["cgroup_mounts.c", "small_file.c"],
    "own_cost_test": ["own_cost.c"],
    "observer_test": ["observer.c"],
    "c2c_process_test": ["c2c_process.c"],
    "turns_test": ["turns.c"],
    "until_test": ["until.c", "options.c", "hitm_options.c", "import_options.c", "watch_options.c", "values.c"],
    "interrupts_test": ["interrupts.c"],
    "timeline_test": ["timeline.c"],
    "futex_waiting_test": ["futex_waiting.c", "small_file.c"],
    "pmu_test": ["pmu.c", "small_file.c"],
    "watch_code_test": ["watch_code.c", "watch_vex.c"],
    "watch_cost_test": ["files_limit.c", "online_cpus.c", "values.c"],
    "watch_freed_test": ["watch_freed.c"],
    "watch_sums_test": ["watch_sums.c", "watch_budget.c"],
    "watch_told_test": ["watch_told.c", "watch_pairs.c", "watch_turns.c"],
    "watch_parts_test": [
        "files_limit.c",
        "kernel_config.c",
        "online_cpus.c",
        "process_stat.c",
        "values.c",
        "watch_forbidden.c",
        "watch_machine.c",
        "watch_queue.c",
    ],
    "cpu_pairs_test": ["cpu_pairs.c", "cpu_topology.c", "small_file.c"],
}

LIBRARIES = {"watch_code_test": ["-lcapstone"], "watch_parts_test": ["-lz"]}

FLAGS = ["-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-D_GNU_SOURCE"]
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]

CASES = [
    (program, name)
    for program in PROGRAMS
    for name in re.findall(r"TEST\((\w+)\)", (HERE / f"{program}.c").read_text())
]


def run_program(directory: Path, program: str) -> dict[str, tuple[bool, str]]:
    """Builds and runs one program: per test whether it passed, and what it complained of."""
    binary = directory / program
    sources = [HERE / f"{program}.c", *(COLLECTOR / source for source in PROGRAMS[program])]
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
