# SPDX-License-Identifier: GPL-2.0-or-later
"""The laboratory in guests of other kernels: Python, lockline and the programs, in one directory for scripts/vm."""

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
# What no program of ours imports.
_LEFT_OUT = shutil.ignore_patterns(
    "__pycache__", "test", "tests", "idlelib", "lib2to3", "ensurepip", "config-*", "turtledemo", "tkinter",
    "site-packages", "dist-packages", "*.a",
)  # fmt: skip
_PYTHON = "python"
# A serial port more: what the guest says of each case leaves by it at once.
_PORT = "/dev/ttyS2"
_LOOK_S = 0.5
# An emulated processor is some thirty times slower: what a probe costs there does not hold for a real machine.
_OVERHEAD = "60%"
_SECONDS = 30
# With a thread for each CPU the emulator may run what it translated from the middle of a patch (tests/vm/boots.py).
_EMULATOR = "tcg,thread=single"
# Until a guest is given up.
_TIMEOUT_S = 7200

_SCRIPT = """
mkdir -p /var/tmp
stty -F {port} raw -echo
echo 1 > /proc/sys/kernel/bpf_stats_enabled
echo +cpu +memory > /sys/fs/cgroup/cgroup.subtree_control
export PYTHONHOME=/{python} PYTHONDONTWRITEBYTECODE=1
exec {interpreter} /lockline/tests/incidents {arguments} --stories {port} \\
    --max-overhead {overhead} -d {seconds} 2> {port}
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


def lines_as_they_come(process: "subprocess.Popen[Any]", file: Path) -> Iterator[str]:
    """The whole lines of a file that grows until the process ends."""
    rest = ""
    with file.open(errors="replace") as opened:
        ended = False
        while not ended:
            ended = process.poll() is not None
            *lines, rest = (rest + opened.read()).split("\n")
            yield from lines
            if not ended:
                time.sleep(_LOOK_S)


def run_in_guest(kernel: str, arguments: Sequence[str]) -> Iterator[str]:
    """Run cases in a guest of that kernel: each line that the guest's own run tells, as it comes.

    Lines of JSON are results; the others are words for who waits.  Raises RuntimeError if the guest fails.
    """
    with tempfile.TemporaryDirectory(prefix="lockline-incidents-", dir="/var/tmp") as directory:
        tree, told = Path(directory) / "tree", Path(directory) / "told"
        tree.mkdir()
        told.touch()
        python = make_tree(tree)
        script = _SCRIPT.format(
            python=_PYTHON,
            interpreter=python.name,
            port=_PORT,
            overhead=_OVERHEAD,
            seconds=_SECONDS,
            arguments=" ".join(map(shlex.quote, arguments)),
        )
        port = ("-chardev", f"file,id=told,path={told}", "-serial", "chardev:told")
        command: list[str | os.PathLike[str]] = [
            ROOT / "scripts" / "vm", "--kernel", kernel, "--memory", "2G", "--timeout", str(_TIMEOUT_S),
            "--accel", _EMULATOR, "--append", "tsc=reliable", "--add", python, "--tree", tree,
            *(f"--qemu={word}" for word in port), "--", script,
        ]  # fmt: skip
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
            try:
                yield from lines_as_they_come(process, told)
            finally:
                process.terminate()
            assert process.stderr is not None
            if process.returncode:
                raise RuntimeError(f"{kernel}: {process.stderr.read().strip()[-500:]}")
