# SPDX-License-Identifier: GPL-2.0-or-later
"""What the kernel counts anyway, and what /proc says of threads: texts to values."""

from collections.abc import Mapping
from dataclasses import dataclass

from lockline.investigation.holding import ThreadLook
from lockline.investigation.model import Counters

# futex() of x86-64 and of arm64, futex_wait(): their first argument is the word.
_FUTEX_CALLS = frozenset({202, 98, 455})


@dataclass(frozen=True, slots=True)
class Reading:
    """One reading: counters since boot.

    steal_ticks: of all_ticks.  throttled: ns in which each control group was stopped by its limit.  stalled: us in
    which some task waited for each resource.
    """

    time_ns: int
    switches: int
    interrupts: int
    steal_ticks: int
    all_ticks: int
    throttled: Mapping[str, int]
    stalled: Mapping[str, int]


def parse_stat(text: str) -> tuple[int, int, int, int]:
    """Of /proc/stat: switches, interrupts, steal and all ticks; 0 for what is not there."""
    switches = interrupts = steal = ticks = 0
    for line in text.splitlines():
        words = line.split()
        if not words:
            continue
        if words[0] == "ctxt" and len(words) > 1 and words[1].isdigit():
            switches = int(words[1])
        elif words[0] == "intr" and len(words) > 1 and words[1].isdigit():
            interrupts = int(words[1])
        elif words[0] == "cpu":
            # Guest time, behind the eighth, is in user time already.
            numbers = [int(word) for word in words[1:9] if word.isdigit()]
            ticks = sum(numbers)
            steal = numbers[7] if len(numbers) > 7 else 0
    return switches, interrupts, steal, ticks


def parse_throttled(text: str) -> int | None:
    """Of a cpu.stat: ns in which the group was stopped by its limit; None if it has no limit."""
    values = dict(line.split(None, 1) for line in text.splitlines() if len(line.split(None, 1)) == 2)
    periods = values.get("nr_periods", "0")
    if not periods.isdigit() or int(periods) == 0:
        return None
    for name, unit in (("throttled_usec", 1000), ("throttled_time", 1)):
        if values.get(name, "").isdigit():
            return int(values[name]) * unit
    return None


def parse_pressure(text: str) -> int | None:
    """Of a file of /proc/pressure: us in which some task waited; None if it does not tell."""
    for line in text.splitlines():
        if line.startswith("some "):
            for word in line.split():
                name, _, value = word.partition("=")
                if name == "total" and value.isdigit():
                    return int(value)
    return None


def parse_tracer(text: str) -> bool:
    """Whether /proc/PID/status names a tracer."""
    for line in text.splitlines():
        if line.startswith("TracerPid:"):
            return line.partition(":")[2].strip() not in ("", "0")
    return False


def difference(before: Reading, after: Reading, groups: tuple[str, ...] | None, traced: int | None) -> Counters:
    """What was counted between two readings; groups: whose limits matter, None for those of all."""
    seconds = max((after.time_ns - before.time_ns) / 1e9, 0.001)
    stopped = {
        group: (ns - before.throttled.get(group, ns)) / (seconds * 1e9)
        for group, ns in after.throttled.items()
        if groups is None or group in groups
    }
    worst = max(stopped, key=lambda group: stopped[group], default="")
    ticks = after.all_ticks - before.all_ticks
    return Counters(
        switches_per_s=max(0, after.switches - before.switches) / seconds,
        interrupts_per_s=max(0, after.interrupts - before.interrupts) / seconds,
        traced=traced,
        throttled=min(1.0, max(0.0, stopped[worst])) if worst else None,
        throttled_group=worst,
        steal=max(0, after.steal_ticks - before.steal_ticks) / ticks if ticks > 0 else None,
        stalled=tuple(
            (name, min(1.0, max(0, us - before.stalled.get(name, us)) / (seconds * 1e6)))
            for name, us in sorted(after.stalled.items())
        ),
    )


def parse_look(tid: int, stat: str, syscall: str, wchan: str, schedstat: str) -> ThreadLook | None:
    """One thread from four files of /proc/PID/task/TID; None if stat is not what it should be."""
    head, _, rest = stat.rpartition(")")
    state = rest.split()[:1]
    if not state:
        return None
    words = syscall.split()
    futex = 0
    if len(words) > 1 and words[0].isdigit() and int(words[0]) in _FUTEX_CALLS and "futex" in wchan:
        try:
            futex = int(words[1], 16)
        except ValueError:
            futex = 0
    name = wchan.strip()
    on_cpu_ns, delayed_ns = parse_schedstat(schedstat) or (None, None)
    _, nice, cpu, policy = parse_scheduling(rest) or (0, 0, -1, 0)
    sleeps_in = "" if name == "0" else name
    comm = head.partition("(")[2]
    return ThreadLook(tid, comm, state[0], futex, sleeps_in, on_cpu_ns, delayed_ns, cpu, nice, policy)


def parse_scheduling(stat: str) -> tuple[int, int, int, int] | None:
    """Of /proc/PID/stat behind the name: ticks on CPUs, nice, the last CPU and the policy (proc(5))."""
    words = stat.split()
    try:
        return int(words[11]) + int(words[12]), int(words[16]), int(words[36]), int(words[38])
    except (IndexError, ValueError):
        return None


def parse_arguments(stat: str) -> int:
    """Of /proc/PID/stat behind the name: the address of the arguments (proc(5)); 0: it does not tell."""
    words = stat.split()
    return int(words[45]) if len(words) > 45 and words[45].isdigit() else 0


def parse_ready(loadavg: str) -> int:
    """Of /proc/loadavg: the tasks that run or want a CPU, but for the one that reads; 0 if it does not tell."""
    words = loadavg.split()
    ready = words[3].partition("/")[0] if len(words) > 3 else ""
    return max(0, int(ready) - 1) if ready.isdigit() else 0


def parse_schedstat(text: str) -> tuple[int, int] | None:
    """Of /proc/PID/task/TID/schedstat: ns on a CPU, and ns in which it wanted one."""
    words = text.split()
    if len(words) < 2 or not (words[0].isdigit() and words[1].isdigit()):
        return None
    return int(words[0]), int(words[1])
