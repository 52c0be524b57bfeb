# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs with a planted cause, and what `lockline why` must say of each."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
# Where limits of CPU time are set: cgroup v1's controller, or v2.
_V1 = Path("/sys/fs/cgroup/cpu")
_V2 = Path("/sys/fs/cgroup")
_GROUP = "lockline-incidents"
# From this part of the time on, in which tasks wait for a CPU, the machine is too small for its loads.
PRESSURE = 0.8
_NO_LOCK = ("nothing",)
_KERNEL = ("convoy", "hot-lock", "long-hold", "writer-starved", "readers-starved", "unfair")
_USER = ("user-lock",)
_NEIGHBOUR = ("held-by-others",)
# What the neighbours of these do, with as many threads; read-maps of the program's own.
NEIGHBOURS = {"files-seldom": ("one-directory", 4), "map-seldom": ("read-maps", 1)}
_SLEEPS = ("holder-sleeps", "held-over-sleep")


@dataclass(frozen=True)
class Case:
    """command: of build/workloads.  causes: any of these is right.  names: one of these is in the title, if any are.

    around: what else goes on.
    """

    name: str
    command: tuple[str, ...]
    causes: tuple[str, ...]
    names: tuple[str, ...] = ()
    around: str = ""


_INCIDENT = "incidents"


def _of(name: str, causes: tuple[str, ...], *names: str, threads: int = 6, around: str = "") -> Case:
    shown = f"{name}, {around}" if around else name
    return Case(shown, (_INCIDENT, name, str(threads)), causes, names, around)


PYTHON_LOAD = """
import threading
def compute():
    while True:
        sum(range(1000))
for _ in range(6):
    threading.Thread(target=compute).start()
"""

CASES: tuple[Case, ...] = (
    _of("long-section", _USER, "table_mutex"),
    _of("short-sections", _USER, "table_mutex"),
    _of("sleep-in-section", _SLEEPS, "table_mutex"),
    _of("write-in-section", _SLEEPS, "table_mutex"),
    _of("log-in-section", _SLEEPS, "log_mutex"),
    _of("herd", ("thundering-herd", *_USER), "work_mutex"),
    _of("read-mostly", (*_USER, "unclear-wait"), "config_lock"),
    _of("deadlock", ("deadlock",), threads=2),
    _of("leak", ("lock-not-released",), "table_mutex"),
    _of("mmap-storm", _KERNEL, "mmap_lock"),
    _of("one-arena", _USER, "arena"),
    _of("pipe", _KERNEL, "pipe_inode_info", "pipe"),
    _of("one-file", (*_SLEEPS, *_KERNEL), "inode", "i_rwsem"),
    _of("one-file-synced", (*_SLEEPS, *_KERNEL), "inode", "i_rwsem"),
    _of("one-directory", _KERNEL, "inode", "i_rwsem"),
    _of("compute", _NO_LOCK),
    _of("idle", _NO_LOCK),
    _of("pool", _NO_LOCK),
    _of("striped", _NO_LOCK),
    _of("own-files", _NO_LOCK),
    _of("lock-chain", _SLEEPS, "second_mutex"),
    _of("slow-writer", (*_SLEEPS, *_USER), "config_lock"),
    _of("barrier", ("barrier-imbalance",)),
    _of("file-lock", ("file-lock",), "incident.lock"),
    _of("semaphore", ("semaphore",)),
    _of("stopped", ("lock-not-released",)),
    _of("spinlock", ("user-spin",), "pthread_spin_lock"),
    _of("own-spinlock", ("user-spin",), "own_spin_lock"),
    _of("yield-lock", ("user-spin",), "sched_yield"),
    _of("poll-lock", _NO_LOCK),
    _of("counter", _NO_LOCK),
    _of("long-section", ("holder-throttled",), "table_mutex", around="with a CPU limit"),
    _of("long-section", ("holder-no-cpu",), "table_mutex", around="beside hogs of CPUs"),
    _of("mmap-storm", _KERNEL, "mmap_lock", around="beside hogs of CPUs"),
    _of("compute", _NO_LOCK, around="with a CPU limit"),
    _of("files-seldom", _NEIGHBOUR, around="beside a neighbour", threads=4),
    _of("map-seldom", _NEIGHBOUR, around="beside a neighbour", threads=4),
    Case("a program in Python", ("python3", "-c", PYTHON_LOAD), ("gil-bound",), ("interpreter lock",)),
    Case("ptrace", ("lock_load", "ptrace", "4"), ("inactive-wait", *_KERNEL)),
    Case("forks", ("lock_load", "fork", "6"), (*_KERNEL, *_USER)),
)


@dataclass(frozen=True)
class Result:
    """What was said of a case; paid: of the budget.

    starved: the lock is right, and the holder is said to have no CPU, on a machine that was short of them.
    """

    case: Case
    cause: str
    title: str
    sure: str
    right: bool
    starved: bool
    steps: int
    seconds: float
    paid: float
    probes: tuple[str, ...]
    story: dict[str, Any]


def _group_file(name: str, v1: str, v2: str) -> Path:
    top = _V1 if (_V1 / "cpu.stat").exists() else _V2
    return top / _GROUP / (v1 if top == _V1 else v2) if name else top / _GROUP


@contextmanager
def limited() -> Iterator[Callable[[int], None]]:
    """A control group with a tenth of a CPU; gives what puts a process in it."""
    group = _group_file("", "", "")
    group.mkdir(exist_ok=True)
    try:
        if group.parent == _V1:
            (group / "cpu.cfs_period_us").write_text("100000")
            (group / "cpu.cfs_quota_us").write_text("10000")
        else:
            (group / "cpu.max").write_text("10000 100000")
        yield lambda pid: (group / "cgroup.procs").write_text(str(pid)) and None
    finally:
        deadline = time.monotonic() + 10
        while group.exists() and time.monotonic() < deadline:
            try:
                group.rmdir()
            except OSError:
                time.sleep(0.05)


@contextmanager
def running(command: tuple[str, ...], directory: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A program in a process group of its own, killed with all that it started."""
    path = BUILD / "workloads" / command[0]
    program = [str(path) if path.exists() else command[0], *command[1:]]
    process = subprocess.Popen(
        program,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=directory,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def run_case(case: Case, options: tuple[str, ...] = (), whole_machine: bool = False) -> Result:
    """Run a case, and ask why."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lockline-incidents-", dir="/var/tmp")))
        put = stack.enter_context(limited()) if case.around == "with a CPU limit" else None
        process = stack.enter_context(running(case.command, directory))
        if put is not None:
            put(process.pid)
        if case.around == "beside hogs of CPUs":
            stack.enter_context(running((_INCIDENT, "compute", str(4 * (os.cpu_count() or 1))), directory))
        if case.around == "beside a neighbour":
            what, threads = NEIGHBOURS[case.command[1]]
            command = (_INCIDENT, what, str(threads), str(process.pid))
            other = stack.enter_context(running(command, directory)).pid
        target = () if whole_machine else ("-p", str(process.pid))
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "lockline", "why", "--format", "json", *target, *options],
            env={**os.environ, "PYTHONPATH": str(ROOT / "userspace")},
            capture_output=True,
            text=True,
            check=False,
        )
        seconds = time.monotonic() - began
        if process.poll() is not None:
            raise RuntimeError(f"{case.name}: the load has ended")
    if done.returncode:
        raise RuntimeError(f"{case.name}: {done.stderr.strip()[-300:]}")
    story = json.loads(done.stdout)
    verdict = story["verdict"]
    cause = verdict["cause"] or verdict["kind"]
    if case.around == "beside a neighbour" and verdict["cause"] is not None:
        # Whose doing it is counts, whatever rule says so.
        cause = "held-by-others" if str(other) in (verdict["culprit"] or "") else "another's"
    # Beside other loads it is true of every holder that it wants a CPU.
    starved = (
        cause == "holder-no-cpu" and _pressure(story) >= PRESSURE and not set(case.causes) & {"nothing", "gil-bound"}
    )
    named = not case.names or any(name in verdict["title"] for name in case.names)
    return Result(
        case=case,
        cause=cause,
        title=verdict["title"],
        sure=verdict["confidence"],
        right=cause in case.causes and named,
        starved=starved and named and cause not in case.causes,
        steps=len(story["steps"]),
        seconds=seconds,
        paid=story["budget"]["paid_ns"] / story["budget"]["allowed_ns"],
        probes=tuple(step["probe"] for step in story["steps"]),
        story=story,
    )


def _pressure(story: dict[str, Any]) -> float:
    """Part of the time in which some task waited for a CPU."""
    return float(next((one["part"] for one in story["stalled"] if one["resource"] == "cpu"), 0.0))


def _mark(one: Result) -> str:
    if one.right:
        return "yes"
    return "the lock; no CPU" if one.starved else "**no**"


def table(results: list[Result]) -> str:
    """The results in Markdown."""
    lines = [
        "| planted | answer | right | sure | steps | s | of the budget |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {one.case.name} | {one.cause}: {one.title} | {_mark(one)} | {one.sure} |"
        f" {', '.join(one.probes)} | {one.seconds:.0f} | {one.paid:.0%} |"
        for one in results
    ]
    return "\n".join(lines)
