# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests of other kernels, booted by scripts/vm."""

import re
import shutil
import subprocess
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from guest import Guest
from matrix import CASES, PARAVIRT, Case, guest_command, in_turns, selected

TOP = Path(__file__).resolve().parent.parent.parent
# Of an emulated guest that has the processor to itself a tenth would do.
TIMEOUT_S = "400"

# Probes patch running code.  With a thread per CPU qemu 7.2 can run what it translated from the
# patch's intermediate state, long after the kernel is done with it: the guest dies of a breakpoint
# that nobody set, or (6.1) tries it for ever and stands still (docs/kernels.md).  It is booted again with
# CPUs that take turns, which cannot do that: what happens then too is believed to be the kernel's, or ours.
STALE_CODE = re.compile(r"Oops: int3|int3: 0000 \[#1\]")
STOOD_STILL = "did not end within"
ATTEMPTS = 2

WORKLOADS = ("slow_path_counter", "lock_load", "held_lock", "function_counter", "futex_mutex", "shared_lines")
WORKLOADS += ("no_fentry", "attach_often", "ping_pong", "reused_objects")
COLLECTOR = TOP / "build" / "bin" / "lockline-collect"


@pytest.fixture(scope="session")
def kernel() -> Callable[[str], Path]:
    """The directory of a kernel of scripts/kernels; skips with the reason if it cannot be fetched."""

    def find(name: str) -> Path:
        done = subprocess.run([TOP / "scripts" / "kernels", name], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"kernel {name} cannot be had: {done.stderr.strip()}")
        return Path(done.stdout.strip())

    return find


@pytest.fixture(scope="session")
def arm64_build() -> Path:
    """What guests of arm64 run; skips with the reason where it cannot be built."""
    if not shutil.which("aarch64-linux-gnu-gcc") or not Path("/usr/lib/aarch64-linux-gnu/libbpf.a").exists():
        pytest.skip("no cross compiler and arm64 libraries: scripts/setup test installs them where apt has them")
    for directory in (".", "tests/workloads"):
        done = subprocess.run(
            ["make", "-s", "-C", TOP / directory, "CROSS=arm64"], capture_output=True, text=True, check=False
        )
        if done.returncode:
            pytest.fail(f"make -C {directory} CROSS=arm64: {done.stdout}{done.stderr}", pytrace=False)
    return TOP / "build" / "arm64"


@pytest.fixture(scope="session")
def boot(
    kernel: Callable[[str], Path], build: Path, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Guest]:
    """Boots a kernel and runs a shell command, with the collector, workloads and (on x86-64) stress-ng at hand."""
    if not COLLECTOR.exists():
        pytest.fail("build/bin/lockline-collect is missing: run make first", pytrace=False)

    def tool(name: str) -> str:
        path = shutil.which(name)
        if not path:
            pytest.skip(f"{name} is not installed: scripts/setup test")
        return path

    def run(name: str, command: str, *options: str) -> Guest:
        arm64 = name.endswith("-arm64")
        tool("qemu-system-aarch64" if arm64 else "qemu-system-x86_64")
        tool("busybox")
        place: Path = request.getfixturevalue("arm64_build") if arm64 else build
        programs = [place / "bin" / "lockline-collect", *(place / "workloads" / name for name in WORKLOADS)]
        if arm64:
            programs += [place / "workloads" / "a64_accesses"]
        else:
            programs += [place / "workloads" / "uffd_mutex", Path(tool("stress-ng"))]
        vm = [str(TOP / "scripts" / "vm"), "--kernel", str(kernel(name)), "--timeout", TIMEOUT_S]
        added = [word for program in programs for word in ("--add", str(program))]
        for attempt in range(ATTEMPTS):
            directory = tmp_path_factory.mktemp(name)
            done = subprocess.run(
                [*vm, "--get", str(directory), *added, *options, *(in_turns() if attempt else []), "--", command],
                capture_output=True,
                text=True,
                check=False,
            )
            if not done.returncode:
                return Guest(directory)
            files = [directory / file for file in ("console", "stderr")]
            told = [file.read_text(errors="replace") for file in files if file.exists()]
            stale = bool(told and STALE_CODE.search(told[0]))
            if attempt + 1 == ATTEMPTS or not (stale or STOOD_STILL in done.stderr):
                break
            why = "ran a stale breakpoint" if stale else "stood still"
            warnings.warn(f"{name}: the emulated guest {why}; booted again, its CPUs in turns", stacklevel=2)
        pytest.fail("\n".join([f"{name}: exit {done.returncode}: {done.stderr}", *told])[-6000:], pytrace=False)

    return run


@pytest.fixture(scope="session", params=[case for case in CASES if selected(case.kernel)], ids=str)
def case(request: pytest.FixtureRequest) -> Case:
    """A kernel of the matrix in one lock mode."""
    found: Case = request.param
    return found


@pytest.fixture(scope="session")
def guest(case: Case, boot: Callable[..., Guest]) -> Guest:
    """What the boot of the case left: see guest_command()."""
    if case.spinlocks == PARAVIRT and subprocess.run([TOP / "scripts" / "vm", "--have-kvm"], check=False).returncode:
        pytest.skip("paravirtual spinlocks are KVM's: this processor runs no guests, and emulation has none")
    return boot(case.kernel, guest_command(case), *case.options)
