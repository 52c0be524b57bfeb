# SPDX-License-Identifier: GPL-2.0-or-later
"""What all tests share: where the build is, and what this machine can do."""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import settings

# The same examples each time, so that a change is judged by what it changed; LOCKLINE_RANDOM=1 looks for new ones.
settings.register_profile("same", derandomize=True)
settings.register_profile("new", print_blob=True)
settings.load_profile("new" if os.environ.get("LOCKLINE_RANDOM") else "same")

TOP = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def build() -> Path:
    """The build directory, with the workloads and the tests of the hot path made."""
    for directory in ("tests/workloads", "tests/bpf"):
        done = subprocess.run(["make", "-s", "-C", TOP / directory], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.fail(f"make -C {directory}: {done.stdout}{done.stderr}", pytrace=False)
    return TOP / "build"


@pytest.fixture(scope="session")
def bpf_machine() -> None:
    """Skips without root, or on a kernel without BTF: no BPF program can be loaded then."""
    if os.geteuid() != 0:
        pytest.skip("needs root to load BPF programs")
    if not Path("/sys/kernel/btf/vmlinux").exists():
        pytest.skip("this kernel has no BTF (CONFIG_DEBUG_INFO_BTF)")
