# SPDX-License-Identifier: GPL-2.0-or-later
"""What stands beside the lock waits, as JSON values: docs/report-schema.md."""

from collections.abc import Sequence
from typing import Any

from lockline.analysis.clocksource import ClockReads
from lockline.analysis.futex import CONDITION, LOCK, PARKED, POLL, SEMAPHORE, UNCLEAR, Futexes, FutexWaits
from lockline.analysis.model import Figures
from lockline.analysis.ptrace import Attaches, InactiveWaits
from lockline.base import histogram
from lockline.recording import rows


def _figures(figures: Figures) -> dict[str, Any]:
    return {
        "waits": figures.waits,
        "wait_ns": figures.wait_ns,
        "max_ns": figures.max_ns,
        "average_ns": figures.average_ns,
        "p50_ns": figures.percentile(0.5),
        "p99_ns": figures.percentile(0.99),
        "histogram": histogram.pairs(figures.histogram),
    }


def _frames(frames: Sequence[rows.Frame]) -> list[dict[str, Any]]:
    return [
        {
            "symbol": frame.symbol or None,
            "offset": frame.offset if frame.symbol else None,
            "module": frame.module or None,
        }
        for frame in frames
    ]


def _identity(futex: rows.Futex) -> dict[str, Any]:
    return {
        "id": futex.id,
        "name": futex.name or None,
        "object": futex.object or None,
        "tgid": futex.tgid,
        "comm": futex.comm,
        "shared": bool(futex.shared),
    }


def _futex(futex: FutexWaits) -> dict[str, Any]:
    total = futex.total
    return {
        **_identity(futex.futex),
        "nature": futex.nature,
        "why": futex.why,
        "operations": list(futex.ops),
        **_figures(futex.figures),
        "calls": total.calls,
        "timed_out": total.timed_out,
        "timed_out_ns": total.timed_out_ns,
        "value_changed": total.again,
        "interrupted": total.interrupted,
        "failed": total.failed,
        "with_timeout": total.timed,
        "wakes": total.wakes,
        "wakes_of_nobody": total.wakes_empty,
        "tasks_woken": total.tasks_woken,
        "owner_samples": total.owner_samples,
        "owner_verified": total.owners,
        "in_progress": total.open_waits,
        "oldest_ns": total.oldest_ns,
        "wake_to_run": _figures(futex.latency),
        "tasks": [
            {
                "role": task.role,
                "comm": task.comm,
                "tid": task.tid,
                "tgid": task.tgid,
                "samples": task.samples,
                "waits": task.waits,
                "wait_ns": task.wait_ns,
            }
            for task in futex.tasks
        ],
        "stacks": [
            {
                "role": stack.role,
                "samples": stack.samples,
                "waits": stack.waits,
                "wait_ns": stack.wait_ns,
                "frames": _frames(stack.frames),
            }
            for stack in futex.stacks
        ],
    }


def futexes(found: Futexes | None, limit: int | None) -> dict[str, Any] | None:
    """The value of `futexes`; None if they were not recorded."""
    if found is None:
        return None
    natures = {
        LOCK: "lock",
        PARKED: "parked",
        UNCLEAR: "unclear",
        POLL: "poll",
        SEMAPHORE: "semaphore",
        CONDITION: "condition",
    }
    return {
        "count": len(found.futexes),
        "wait_ns": {name: found.wait_ns(nature) for nature, name in natures.items()},
        "futexes": [_futex(futex) for futex in found.futexes[:limit]],
        "buckets": [
            {
                "lock": bucket.lock,
                "instance": bucket.instance or None,
                "waits": bucket.waits,
                "wait_ns": bucket.wait_ns,
                "max_ns": bucket.max_ns,
                "collision": bucket.collision,
                "futexes": [
                    {**_identity(futex), "waits": waits, "wait_ns": wait_ns} for futex, waits, wait_ns in bucket.futexes
                ],
            }
            for bucket in found.buckets[:limit]
        ],
        "blocked": [
            {
                **_identity(thread.futex),
                "thread": {"tid": thread.tid, "tgid": thread.tgid, "comm": thread.comm},
                "age_ns": thread.age_ns,
                "with_timeout": thread.timed,
                "owner": {
                    "tid": thread.owner,
                    "comm": thread.owner_comm,
                    "for_ns": thread.owned_ns,
                    "state": thread.owner_state or None,
                    "sleeps_in": thread.owner_in or None,
                },
            }
            for thread in found.blocked[:limit]
        ],
    }


def clock_reads(found: ClockReads | None) -> dict[str, Any] | None:
    """The value of `clock_reads`; None if they were not recorded."""
    if found is None:
        return None
    return {
        "function": found.function,
        "timed": found.timed,
        **_figures(found.figures),
        "cpu_share": found.share,
        "cpus": [{"cpu": cpu.cpu, **_figures(cpu.figures), "share": cpu.share} for cpu in found.cpus],
        "callers": [
            {
                "samples": caller.samples,
                "reads": caller.waits,
                "read_ns": caller.wait_ns,
                "frames": _frames(caller.frames),
            }
            for caller in found.callers
        ],
        "tasks": [
            {"comm": task.comm, "tid": task.tid, "tgid": task.tgid, "reads": reads, "read_ns": read_ns}
            for task, reads, read_ns in found.tasks
        ],
    }


def inactive_waits(found: InactiveWaits | None, limit: int | None) -> dict[str, Any] | None:
    """The value of `inactive_waits`; None if they were not recorded."""
    if found is None:
        return None
    timed = found.calls is not None
    return {
        "calls": found.calls,
        "turns": found.turns,
        "wait_ns": found.wait_ns if timed else None,
        "max_ns": found.max_ns if timed else None,
        "max_turns": found.max_turns if timed else None,
        "pairs": [
            {
                "tracer": {"comm": pair.comm, "tid": pair.tid, "tgid": pair.tgid},
                "tracee": {"comm": pair.target_comm, "tid": pair.target_tid, "tgid": pair.target_tgid},
                "calls": pair.calls if timed else None,
                "turns": pair.turns,
                "max_turns": pair.max_turns if timed else None,
                "traced_turns": pair.traced,
                "failed": pair.failed if timed else None,
                "wait_ns": pair.wait_ns if timed else None,
                "max_ns": pair.max_ns if timed else None,
            }
            for pair in found.pairs[:limit]
        ],
        "cpus": [
            {
                "cpu": cpu.cpu,
                "calls": cpu.figures.waits,
                "histogram": histogram.pairs(cpu.figures.histogram),
                "turns": [[1 << index >> 1, calls] for index, calls in enumerate(cpu.turns) if calls],
            }
            for cpu in found.cpus
        ],
    }


def ptrace_attaches(found: Attaches | None, limit: int | None) -> dict[str, Any] | None:
    """The value of `ptrace_attaches`; None if there were none, or they were not recorded."""
    if found is None:
        return None
    return {
        "attaches": found.attaches,
        "failed": found.failed,
        "attach_ns": found.attach_ns,
        "max_ns": found.max_ns,
        "pairs": [
            {
                "tracer": {"comm": pair.comm, "tid": pair.tid, "tgid": pair.tgid},
                "tracee": {"comm": pair.target_comm, "tid": pair.target_tid, "tgid": pair.target_tgid},
                "attaches": pair.attaches,
                "attach_ns": pair.attach_ns,
                "max_ns": pair.max_ns,
            }
            for pair in found.pairs[:limit]
        ],
        "cpus": [
            {"cpu": cpu.cpu, "attaches": cpu.figures.waits, "histogram": histogram.pairs(cpu.figures.histogram)}
            for cpu in found.cpus
        ],
    }
