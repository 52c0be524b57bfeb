# SPDX-License-Identifier: GPL-2.0-or-later
"""The live tests attach to the running kernel."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import registers
from support import end_all_started


@pytest.fixture(scope="session")
def live(build: Path, bpf_machine: None) -> Path:
    """The build directory, on a machine where the collector can attach."""
    with Path("/sys/kernel/btf/vmlinux").open("rb") as btf:
        types = btf.read()
    if b"btf_trace_contention_begin" not in types:
        pytest.skip("this kernel has no lock:contention_begin (it came with 5.19)")
    if not (build / "bin" / "lockline-collect").exists():
        pytest.fail("build/bin/lockline-collect is missing: run make first", pytrace=False)
    return build


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Where a test records to."""
    return tmp_path / "test.lockline"


@pytest.fixture
def two_cpus() -> None:
    """Skips where two threads cannot run at once."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two CPUs")


@pytest.fixture
def debug_registers(live: Path, two_cpus: None) -> Iterator[None]:
    """All of them, for the time of the test; skips where the machine has none for us."""
    if not registers.SOURCE.exists():
        pytest.skip("this kernel has no event source for breakpoints")
    with registers.held():
        yield


@pytest.fixture
def spare_cpu() -> None:
    """Skips without a CPU beside the one that has events."""
    if (os.cpu_count() or 1) < 2:
        pytest.skip("needs two CPUs")


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """A failed test leaves nothing running for the next one."""
    yield
    end_all_started()
