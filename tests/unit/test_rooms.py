# SPDX-License-Identifier: GPL-2.0-or-later
"""The order of the collector's folders: scripts/check-rooms passes on this tree, and fails on each kind of break."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]

# A tree that keeps to the order: session/ uses waits/, which uses base/.
SOUND = {
    "bpf/state.bpf.h": "",
    "bpf/table.bpf.h": '#include "state.bpf.h"\n',
    "userspace/collector/main.c": '#include "session/run.h"\nint main(void) { return run(); }\n',
    "userspace/collector/session/run.h": "int run(void);\n",
    "userspace/collector/session/run.c": '#include "waits/sum.h"\nint run(void) { return sum(); }\n',
    "userspace/collector/waits/sum.h": "int sum(void);\n",
    "userspace/collector/waits/sum.c": '#include "base/add.h"\nint sum(void) { return add(); }\n',
    "userspace/collector/base/add.h": "int add(void);\n",
    "userspace/collector/base/add.c": '#include "base/add.h"\nint add(void) { return 1; }\n',
}

Check = Callable[[dict[str, str]], subprocess.CompletedProcess[str]]


def check_rooms(*options: str) -> subprocess.CompletedProcess[str]:
    """Runs the script."""
    command = [sys.executable, str(TOP / "scripts" / "check-rooms"), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def check(tmp_path: Path) -> Check:
    """Writes the sound tree with some files in place of its own or beside them, compiles it, and checks it."""

    def run(planted: dict[str, str]) -> subprocess.CompletedProcess[str]:
        source = tmp_path / "userspace" / "collector"
        for name, text in {**SOUND, **planted}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        for path in source.rglob("*.c"):
            made = tmp_path / "build" / "collector" / path.relative_to(source).with_suffix(".o")
            made.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(["gcc", "-c", f"-I{source}", "-o", str(made), str(path)], check=True)
        return check_rooms("--root", str(tmp_path))

    return run


def test_this_tree_keeps_to_the_order() -> None:
    done = check_rooms()
    assert (done.returncode, done.stderr) == (0, "")


def test_a_sound_tree_passes(check: Check) -> None:
    done = check({})
    assert (done.returncode, done.stderr) == (0, "")


BREAKS = {
    "an include goes upward": (
        {"userspace/collector/base/add.h": '#include "waits/sum.h"\nint add(void);\n'},
        'upward: base/add.h includes "waits/sum.h": base/ may not use waits/',
    ),
    "an include goes sideways": (
        {
            "userspace/collector/ptrace/tracers.h": '#include "clocksource/reads.h"\n',
            "userspace/collector/clocksource/reads.h": "int reads(void);\n",
        },
        'sideways: ptrace/tracers.h includes "clocksource/reads.h": ptrace/ may not use clocksource/',
    ),
    "a call goes upward without an include": (
        {"userspace/collector/base/add.c": "int sum(void);\nint add(void) { return sum(); }\n"},
        "upward: base/add.c uses sum of waits/sum.c: base/ may not use waits/",
    ),
    "folders stand in a circle": (
        {"userspace/collector/base/add.h": '#include "waits/sum.h"\nint add(void);\n'},
        "circle of folders: base, waits",
    ),
    "headers include each other": (
        {
            "userspace/collector/waits/sum.h": '#pragma once\n#include "waits/row.h"\nint sum(void);\n',
            "userspace/collector/waits/row.h": '#pragma once\n#include "waits/sum.h"\n',
        },
        "circle of files: waits/row -> waits/sum -> waits/row",
    ),
    "sources call each other": (
        {
            "userspace/collector/base/add.c": "int less(void);\nint add(void) { return less(); }\n",
            "userspace/collector/base/less.c": "int add(void);\nint less(void) { return add(); }\n",
        },
        "base/add -> base/less -> base/add: base/add.c uses less of base/less.c; base/less.c uses add of base/add.c",
    ),
    "a source calls what includes it": (
        {
            "userspace/collector/base/less.h": '#include "base/add.h"\nint less(void);\n',
            "userspace/collector/base/less.c": "int less(void) { return 1; }\n",
            "userspace/collector/base/add.c": "int less(void);\nint add(void) { return less(); }\n",
        },
        "circle of files: base/add -> base/less -> base/add",
    ),
    "a folder is unknown": (
        {"userspace/collector/attic/old.h": "int old(void);\n"},
        "folder attic/ is not in the table",
    ),
    "headers of the programs include each other": (
        {"bpf/state.bpf.h": '#include "table.bpf.h"\n'},
        "circle of files: state.bpf -> table.bpf -> state.bpf",
    ),
    "a program includes the collector": (
        {"bpf/table.bpf.h": '#include "base/add.h"\n'},
        'upward: bpf/table.bpf.h includes "base/add.h"',
    ),
}


@pytest.mark.parametrize("planted", BREAKS.values(), ids=BREAKS.keys())
def test_a_break_is_found(check: Check, planted: tuple[dict[str, str], str]) -> None:
    files, line = planted
    done = check(files)
    assert done.returncode == 1
    assert line in done.stderr


def test_each_break_is_one_line(check: Check) -> None:
    files, _ = BREAKS["sources call each other"]
    done = check(files)
    assert len(done.stderr.splitlines()) == 1


def test_what_is_not_compiled_is_not_taken_for_sound(tmp_path: Path) -> None:
    for name, text in SOUND.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    done = check_rooms("--root", str(tmp_path))
    assert done.returncode == 1
    assert "run make first" in done.stderr
