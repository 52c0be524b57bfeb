# SPDX-License-Identifier: GPL-2.0-or-later
"""The division of the memory budget, for machines that nobody here has."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

COLLECTOR = Path(__file__).resolve().parents[2] / "build/bin/lockline-collect"
DEFAULT = 64 << 20
LEAST_ROWS = 32
WISHES = ("--user-stacks", "--holders", "--episodes", "--futex", "--hitm", "-Lmmap_lock")
SAMPLES_BYTES = 512 * 128 + 64  # of each CPU, with --hitm


def sizes(*options: str) -> subprocess.CompletedProcess[str]:
    """What `record --sizes` says."""
    command = [COLLECTOR, "record", "--sizes", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def parts(*options: str) -> dict[str, int]:
    """The division as figures."""
    done = sizes(*options)
    assert done.returncode == 0, done.stderr
    figures: dict[str, int] = json.loads(done.stdout)
    return figures


@settings(max_examples=60, deadline=None)
@given(cpus=st.integers(1, 8192), mebibytes=st.integers(2, 4096), wished=st.sets(st.sampled_from(WISHES)))
def test_a_budget_is_kept_or_refused(cpus: int, mebibytes: int, wished: set[str]) -> None:
    done = sizes(f"--possible-cpus={cpus}", f"--memory={mebibytes}M", *wished)
    if done.returncode:
        need = int(done.stderr.split("at least ")[1].split()[0])
        assert need > mebibytes * 1024
        assert parts(f"--possible-cpus={cpus}", f"--memory={need}K", *wished)
        return
    figures = json.loads(done.stdout)
    assert figures["total_bytes"] <= figures["budget_bytes"] == mebibytes << 20
    assert figures["total_bytes"] == sum(figures[f"{part}_bytes"] for part in ("map", "shadow", "lock", "futex"))
    assert bool(figures["futex_bytes"]) == bool(figures["futexes"]) == ("--futex" in wished)
    assert figures["named_rows_per_cpu"] >= LEAST_ROWS
    for name in ("ring_events_per_cpu", "sleep_slots"):
        assert figures[name].bit_count() == 1, name


def test_cpus_of_this_machine() -> None:
    """Those that are there, offline or not, and no slots where one may come."""
    last = re.split("[-,]", Path("/sys/devices/system/cpu/present").read_text())[-1]
    assert parts()["cpus"] == int(last) + 1


@pytest.mark.parametrize("cpus", [1, 2, 64, 256])
def test_the_default_holds(cpus: int) -> None:
    figures = parts(f"--possible-cpus={cpus}")
    assert figures["budget_bytes"] == DEFAULT
    assert figures["total_bytes"] <= DEFAULT
    assert figures["named_rows_per_cpu"] >= 3 * LEAST_ROWS


def test_512_cpus_fit_within_the_default() -> None:
    """With the rows and names that many_cpus_test.c has, where no lock that holds a thousandth loses its name."""
    source = (Path(__file__).with_name("many_cpus_test.c")).read_text()
    numbers = re.findall(r"^#define (CPUS|ROWS|NAMES)\s+(\d+)$", source, re.MULTILINE)
    wanted = {name: int(value) for name, value in numbers}
    figures = parts(f"--possible-cpus={wanted['CPUS']}")
    assert wanted["CPUS"] == 512
    assert figures["total_bytes"] <= figures["budget_bytes"] == DEFAULT
    assert figures["named_rows_per_cpu"] >= wanted["ROWS"]
    assert figures["locks"] >= wanted["NAMES"]


@pytest.mark.parametrize("cpus", [1024, 8192])
def test_the_default_grows_where_it_must(cpus: int) -> None:
    figures = parts(f"--possible-cpus={cpus}")
    assert DEFAULT < figures["total_bytes"] <= figures["budget_bytes"] < cpus * 150_000
    assert figures["named_rows_per_cpu"] >= LEAST_ROWS


@pytest.mark.parametrize("cpus", [128, 256, 512, 1024])
def test_where_it_is_tight_each_gets_less(cpus: int) -> None:
    """Not one all of it, and the others the least: a ring of 16 events overflows between two looks."""
    figures = parts(f"--possible-cpus={cpus}", "--futex")
    assert figures["ring_events_per_cpu"] >= 64
    assert figures["futexes"] >= 2048
    assert figures["named_rows_per_cpu"] >= LEAST_ROWS


def test_more_memory_names_more_locks() -> None:
    rows = [parts("--possible-cpus=256", f"--memory={size}M")["named_rows_per_cpu"] for size in (32, 64, 128, 512)]
    assert rows == sorted(set(rows))


def test_rings_of_samples_are_in_the_budget() -> None:
    plain, hitm = (parts("--possible-cpus=256", *wish) for wish in ([], ["--hitm"]))
    assert (plain["ring_samples_per_cpu"], hitm["ring_samples_per_cpu"]) == (0, 512)
    assert hitm["total_bytes"] <= hitm["budget_bytes"] == plain["budget_bytes"]
    # Rows of locks make room for them, on a machine this large.
    assert hitm["named_rows_per_cpu"] < plain["named_rows_per_cpu"]
    need = [
        int(sizes("--possible-cpus=256", "--memory=2M", *wish).stderr.split("at least ")[1].split()[0])
        for wish in ([], ["--hitm"])
    ]
    assert need[1] - need[0] == 256 * SAMPLES_BYTES // 1024


def test_episodes_take_their_part() -> None:
    plain, episodes = (parts("--possible-cpus=2", *wish) for wish in ([], ["--episodes"]))
    assert episodes["total_bytes"] <= episodes["budget_bytes"] == DEFAULT
    # An eighth of the budget: 65,536 records of 64 bytes on each CPU.
    assert episodes["map_bytes"] - plain["map_bytes"] >= 2 * 65536 * 64 - (4 << 20)
    assert parts("--possible-cpus=2", "--flight") == episodes
