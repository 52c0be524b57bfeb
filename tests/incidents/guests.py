# SPDX-License-Identifier: GPL-2.0-or-later
"""The laboratory in guests of other kernels: Python, lockline and the programs, in one directory for scripts/vm."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
# What no program of ours imports.
_LEFT_OUT = shutil.ignore_patterns(
    "__pycache__", "test", "tests", "idlelib", "lib2to3", "ensurepip", "config-*", "turtledemo", "tkinter",
    "site-packages", "dist-packages", "*.a",
)  # fmt: skip
_PYTHON = "python"
# The file with each case's story, a line each.
STORIES = "stories"
# An emulated processor is some thirty times slower: what a probe costs there does not hold for a real machine.
_OVERHEAD = "60%"
_SECONDS = 30
# With a thread for each CPU the emulator may run what it translated from the middle of a patch (tests/vm/boots.py).
_EMULATOR = "tcg,thread=single"
# Until a guest is given up.
_TIMEOUT_S = 7200

_SCRIPT = """
mkdir -p /var/tmp
echo 1 > /proc/sys/kernel/bpf_stats_enabled
echo +cpu +memory > /sys/fs/cgroup/cgroup.subtree_control
export PYTHONHOME=/{python} PYTHONDONTWRITEBYTECODE=1
exec {interpreter} /lockline/tests/incidents {arguments} --stories {stories} --max-overhead {overhead} -d {seconds}
"""


def _compile(python: Path, directory: Path) -> None:
    """Compile what is there: a file's time is not kept in the guest, so that it is not looked at."""
    subprocess.run(
        [python, "-m", "compileall", "-q", "-j0", "--invalidation-mode", "unchecked-hash", directory],
        check=False,
        capture_output=True,
    )


def make_tree(directory: Path) -> Path:
    """Fill the directory; the interpreter, which scripts/vm takes with its libraries."""
    python = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    library = Path(sysconfig.get_path("stdlib"))
    shutil.copytree(library, directory / _PYTHON / "lib" / library.name, ignore=_LEFT_OUT)
    for path in ("userspace/lockline", "tests/incidents"):
        shutil.copytree(ROOT / path, directory / "lockline" / path, ignore=shutil.ignore_patterns("__pycache__"))
    for path in ("build/bin/lockline-collect", "build/workloads/incidents", "build/workloads/lock_load"):
        target = directory / "lockline" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, target)
    _compile(python, directory)
    return python


def run_in_guest(kernel: str, arguments: Sequence[str], directory: Path) -> list[dict[str, Any]]:
    """Run cases in a guest of that kernel: their results, as the guest's own run tells them.

    directory: where the tree, and what the guest leaves, are put.  Raises RuntimeError if the guest brings nothing.
    """
    tree, left = directory / "tree", directory / "left"
    tree.mkdir()
    python = make_tree(tree)
    script = _SCRIPT.format(
        python=_PYTHON,
        interpreter=python.name,
        stories=STORIES,
        overhead=_OVERHEAD,
        seconds=_SECONDS,
        arguments=" ".join(arguments),
    )
    command: list[str | os.PathLike[str]] = [
        ROOT / "scripts" / "vm", "--kernel", kernel, "--memory", "2G", "--timeout", str(_TIMEOUT_S),
        "--accel", _EMULATOR, "--append", "tsc=reliable", "--add", python, "--tree", tree, "--get", left, "--", script,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    told = left / STORIES
    if not told.exists():
        errors = (left / "stderr").read_text() if (left / "stderr").exists() else ""
        raise RuntimeError(f"{kernel}: {done.stderr.strip()} {errors.strip()[-500:]}")
    return [json.loads(line) for line in told.read_text().splitlines()]
