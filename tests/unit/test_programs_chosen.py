# SPDX-License-Identifier: GPL-2.0-or-later
"""Every program of bpf/ is loaded by somebody: one that is left out of its subsystem's choices records nothing."""

import re
from pathlib import Path

PROGRAM = r'^SEC\("[^"]+"\)\n(?:int|__\w+ int) (?:BPF_\w+\()?(\w+)'
TOP = Path(__file__).resolve().parents[2]


def test_every_program_is_chosen() -> None:
    collector = "\n".join(path.read_text() for path in (TOP / "userspace" / "collector").rglob("*.c"))
    named = set(re.findall(r"progs\.(\w+)", collector))
    programs = {
        name
        for path in (TOP / "bpf").glob("*.bpf.c")
        for name in re.findall(
            r'^SEC\("[^"]+"\)\n(?:int|__\w+ int) (?:BPF_\w+\()?(\w+)', path.read_text(), re.MULTILINE
        )
    }
    assert len(programs) > 40
    assert programs - named == set()
