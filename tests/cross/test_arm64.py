# SPDX-License-Identifier: GPL-2.0-or-later
"""The build for arm64: its BPF programs with any clang, the collector where a cross compiler is."""

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parent.parent.parent
BUILD = TOP / "build" / "arm64"

EM_AARCH64 = 183
EM_BPF = 247


def make(*targets: str) -> None:
    """Runs the cross build."""
    done = subprocess.run(
        ["make", "-s", "-C", TOP, "CROSS=arm64", *targets], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def machine(elf: Path) -> int:
    """The machine of an ELF file."""
    header = elf.read_bytes()[:20]
    assert header.startswith(b"\x7fELF")
    found: int = struct.unpack_from("<H", header, 18)[0]
    return found


def test_bpf_object() -> None:
    make("build/arm64/bpf/lockline.bpf.o")
    assert machine(BUILD / "bpf" / "lockline.bpf.o") == EM_BPF


def test_collector() -> None:
    if not shutil.which("aarch64-linux-gnu-gcc") or not Path("/usr/lib/aarch64-linux-gnu/libbpf.a").exists():
        pytest.skip("no cross compiler and arm64 libraries: scripts/setup cross installs them")
    make()
    collector = BUILD / "bin" / "lockline-collect"
    assert machine(collector) == EM_AARCH64
    assert b"ld-linux" not in collector.read_bytes()[:4096], "not a static program"
