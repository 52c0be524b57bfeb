# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads what `lockline why` takes from /proc and from control groups."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from lockline.investigation.counters import (
    Reading,
    parse_look,
    parse_pressure,
    parse_stat,
    parse_throttled,
    parse_tracer,
)
from lockline.investigation.holding import ThreadLook
from lockline.investigation.model import Target

PROC = Path("/proc")
CGROUPS = Path("/sys/fs/cgroup")
# More groups, and more processes, are not read.
MOST_GROUPS = 300
MOST_PROCESSES = 5000
# Nor more children of the processes that were named.
MOST_CHILDREN = 1000


def short_text(path: str) -> str:
    """The one short line of a file, without its end; '' if it cannot be read.  Of many such files: without Path."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(file, 512).decode("utf-8", "replace").strip()
    except OSError:
        return ""
    finally:
        os.close(file)


def text_of(path: Path | str) -> str:
    """What a file has; '' if it cannot be read."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.readall().decode("utf-8", "replace")
    except OSError:
        return ""


def _hierarchy() -> Path:
    """Where the CPU controller's groups are: of cgroup v2, or of v1's cpu."""
    for name in ("cpu,cpuacct", "cpu"):
        if (CGROUPS / name / "cpu.stat").exists():
            return CGROUPS / name
    return CGROUPS


def _groups(top: Path) -> Iterator[tuple[str, Path]]:
    number = 0
    for directory, _, files in os.walk(top):
        if "cpu.stat" in files:
            number += 1
            if number > MOST_GROUPS:
                return
            yield "/" + str(Path(directory).relative_to(top)).removeprefix("."), Path(directory) / "cpu.stat"


def read_counters() -> Reading:
    """What the kernel has counted by now."""
    throttled = {}
    for group, path in _groups(_hierarchy()):
        ns = parse_throttled(text_of(path))
        if ns is not None:
            throttled[group] = ns
    stalled = {}
    for name in ("cpu", "io", "memory"):
        us = parse_pressure(text_of(PROC / "pressure" / name))
        if us is not None:
            stalled[name] = us
    switches, interrupts, steal, ticks = parse_stat(text_of(PROC / "stat"))
    return Reading(time.monotonic_ns(), switches, interrupts, steal, ticks, throttled, stalled)


def groups_of(pid: int) -> tuple[str, ...]:
    """The control group of a process in the CPU controller's hierarchy, and all above it."""
    group = ""
    for line in text_of(PROC / str(pid) / "cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if "cpu" in controllers.split(",") or (number == "0" and not group):
            group = path
    parts = [part for part in group.split("/") if part]
    return tuple("/" + "/".join(parts[: length + 1]) for length in range(len(parts))) or ("/",)


def count_traced(pids: Sequence[int] = ()) -> int | None:
    """How many processes are being traced; pids: of these alone; None if /proc cannot be read."""
    try:
        processes = [PROC / str(pid) for pid in pids] or [path for path in PROC.iterdir() if path.name.isdigit()]
    except OSError:
        return None
    return sum(parse_tracer(text_of(path / "status")) for path in processes[:MOST_PROCESSES])


def process_of(tid: int) -> int:
    """The process of a thread; 0: it is gone."""
    return status_of(tid, "Tgid")


def status_of(pid: int, name: str) -> int:
    """A number in /proc/PID/status; 0: there is none."""
    for line in text_of(PROC / str(pid) / "status").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    return 0


def tracer_of(tgid: int) -> tuple[int, str]:
    """The process that traces a process, and its name; 0: none.  The kernel names the thread that traces."""
    thread = status_of(tgid, "TracerPid")
    tracer = status_of(thread, "Tgid") or thread if thread else 0
    return tracer, short_text(f"{PROC}/{tracer}/comm") if tracer else ""


def frozen_group(tgid: int) -> str:
    """The control group of a process that is frozen, '' if it is not: of cgroup v2, or of v1's freezer."""
    for line in text_of(PROC / str(tgid) / "cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if "freezer" in controllers.split(","):
            if short_text(f"{CGROUPS}/freezer{path}/freezer.state") == "FROZEN":
                return path
        elif number == "0":
            for top in (CGROUPS, CGROUPS / "unified"):
                if "frozen 1" in text_of(top / path.lstrip("/") / "cgroup.events"):
                    return path
    return ""


def threads_of(pid: int, most: int) -> list[int]:
    """The threads of a process, at most so many; none if it is gone."""
    with suppress(OSError), os.scandir(f"{PROC}/{pid}/task") as entries:
        return sorted(int(entry.name) for entry in entries)[:most]
    return []


def descendants_of(pids: Sequence[int], most: int) -> tuple[int, ...]:
    """The processes that these have forked, and what those have, at most so many."""
    found: list[int] = []
    nearest = list(pids)
    while nearest and len(found) < most:
        children = {
            int(word)
            for pid in nearest
            for tid in threads_of(pid, most)
            for word in text_of(f"{PROC}/{pid}/task/{tid}/children").split()
        }
        nearest = sorted(children - set(pids) - set(found))
        found += nearest
    return tuple(found[:most])


def _is_there(target: Target) -> bool:
    """Whether a process or thread that was named still lives, or the control group is there."""
    kind, named = target.options[0], target.options[1] if len(target.options) > 1 else ""
    if kind in ("-p", "-t"):
        states = [short_text(f"{PROC}/{tid}/stat").rpartition(")")[2].split()[:1] for tid in named.split(",")]
        # A zombie does nothing any more.
        return any(state and state != ["Z"] for state in states)
    return kind == "-G" and Path(named).is_dir()


def watched(target: Target) -> Callable[[], bool]:
    """Tells whether anybody is left whom it is about; of what cannot be looked at now nobody knows that it is gone."""
    there = _is_there(target)
    return lambda: not there or _is_there(target)


def look_at_thread(pid: int, tid: int) -> ThreadLook | None:
    """One thread of a process; None if it is gone."""
    task = f"{PROC}/{pid}/task/{tid}"
    return parse_look(tid, *(short_text(f"{task}/{name}") for name in ("stat", "syscall", "wchan", "schedstat")))


def look_at(pid: int, most: int) -> list[ThreadLook]:
    """All threads of a process, at most so many, one after the other."""
    return [look for tid in threads_of(pid, most) if (look := look_at_thread(pid, tid)) is not None]


def cpu_seconds_of(pid: int) -> float:
    """CPU time that a process has used so far; 0 if it is gone."""
    fields = text_of(PROC / str(pid) / "stat").rpartition(")")[2].split()
    try:
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (ValueError, IndexError):
        return 0.0


def cpus_used_by(pid: int, seconds: float) -> float:
    """CPUs that a process uses on average, from now on for that time.  Raises OSError if it is gone."""
    # The kernel's clock of a process's CPU time: CPUCLOCK_SCHED of include/linux/posix-timers_types.h.
    clock = ~pid << 3 | 2
    began, used = time.monotonic(), time.clock_gettime(clock)
    time.sleep(seconds)
    return (time.clock_gettime(clock) - used) / (time.monotonic() - began)
