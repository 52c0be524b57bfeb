# SPDX-License-Identifier: GPL-2.0-or-later
"""How the collector is linked: what makes a fault in it harder to use, read from the binary."""

import platform
import re
import subprocess
from functools import cache

import pytest

from programs import TOP

BINARY = TOP / "build" / "bin" / "lockline-collect"
ENDBR64 = bytes.fromhex("f30f1efa")


@cache
def readelf(*options: str) -> str:
    return subprocess.run(["readelf", "-W", *options, BINARY], capture_output=True, text=True, check=True).stdout


def symbol(name: str) -> int:
    """The address of a function."""
    match = re.search(rf"^\s*\d+: ([0-9a-f]+)\s.* FUNC .* {name}$", readelf("--symbols"), re.MULTILINE)
    assert match, name
    return int(match[1], 16)


def test_a_static_program_at_any_address() -> None:
    assert re.search(r"Type:\s+DYN", readelf("--file-header"))
    assert re.search(r"FLAGS_1\).*\bPIE\b", readelf("--dynamic"))
    assert "NEEDED" not in readelf("--dynamic")
    assert "INTERP" not in readelf("--program-headers")


def test_tables_of_addresses_are_read_only() -> None:
    assert "GNU_RELRO" in readelf("--program-headers")
    assert re.search(r"FLAGS\).*\bBIND_NOW\b", readelf("--dynamic"))


def test_no_memory_is_written_and_executed() -> None:
    segments = re.findall(r"^\s+(LOAD|GNU_STACK)\s.*?([RWE ]{3})\s+0x", readelf("--program-headers"), re.MULTILINE)
    assert {kind for kind, _ in segments} == {"LOAD", "GNU_STACK"}
    assert not [flags for _, flags in segments if "W" in flags and "E" in flags]


def code(function: str) -> str:
    """The instructions of a function of the collector's own."""
    command = ["objdump", "--disassemble=" + function, "--no-show-raw-insn", BINARY]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert f"<{function}>:" in found
    return found


def test_overwritten_buffers_are_noticed() -> None:
    assert "<__stack_chk_fail" in code("mapped_file_open")
    assert re.search(r"<_+vsnprintf_chk>", code("proc_path"))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="endbr64 is an instruction of x86")
def test_functions_begin_where_calls_may_end() -> None:
    with BINARY.open("rb") as binary:
        for name in ("main", "session_record", "naming_helper_main"):
            address = symbol(name)
            segments = re.findall(
                r"LOAD\s+0x([0-9a-f]+) 0x([0-9a-f]+) 0x[0-9a-f]+ 0x([0-9a-f]+)", readelf("--program-headers")
            )
            offsets = [
                int(at, 16) + address - int(begin, 16)
                for at, begin, size in segments
                if int(begin, 16) <= address < int(begin, 16) + int(size, 16)
            ]
            binary.seek(offsets[0])
            assert binary.read(4) == ENDBR64, name
