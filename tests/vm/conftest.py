# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests of other kernels, booted by scripts/vm."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from guest import Guest

TOP = Path(__file__).resolve().parent.parent.parent
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
def boot(kernel: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Guest]:
    """Boots a kernel and runs a shell command, with the collector and stress-ng at hand."""
    tools = {tool: shutil.which(tool) for tool in ("qemu-system-x86_64", "busybox", "stress-ng")}
    missing = [tool for tool, path in tools.items() if not path]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed: scripts/setup test")
    if not COLLECTOR.exists():
        pytest.fail("build/bin/lockline-collect is missing: run make first", pytrace=False)

    def run(name: str, command: str, *options: str) -> Guest:
        directory = tmp_path_factory.mktemp(name)
        programs = ["--add", COLLECTOR, "--add", str(tools["stress-ng"])]
        done = subprocess.run(
            [TOP / "scripts" / "vm", "--kernel", kernel(name), "--get", directory, *programs, *options, "--", command],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            files = [directory / file for file in ("stderr", "console")]
            told = [file.read_text(errors="replace")[-2000:] for file in files if file.exists()]
            pytest.fail("\n".join([f"{name}: exit {done.returncode}: {done.stderr}", *told]), pytrace=False)
        return Guest(directory)

    return run
