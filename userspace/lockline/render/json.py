# SPDX-License-Identifier: GPL-2.0-or-later
"""The report as JSON, schema lockline-report/1: docs/report-schema.md."""

import json
from collections.abc import Sequence
from typing import Any

from lockline.analysis.episode_model import Doing, Episode, Party
from lockline.analysis.findings import Finding
from lockline.analysis.model import (
    CpuWaits,
    Fairness,
    Figures,
    LockWaits,
    OutlierWait,
    OwnCost,
    Report,
    StackShare,
    Window,
)
from lockline.base import histogram
from lockline.base.text import without_addresses
from lockline.recording import rows
from lockline.recording.stacks import without_internals
from lockline.render import signals_json, trust_json, watch_json
from lockline.render.findings import worded

SCHEMA = "lockline-report/1"


def render(report: Report, addresses: bool = False) -> str:
    """One JSON object on one line; addresses: with kernel addresses."""
    return json.dumps(document(report, addresses), separators=(",", ":"), allow_nan=False) + "\n"


def document(report: Report, addresses: bool = False) -> dict[str, Any]:
    """The report as JSON values."""
    top = report.window.selection.top
    value: dict[str, Any] = {
        "schema": SCHEMA,
        "host": _host(report),
        "window": _window(report.window),
        "probes": [probe._asdict() for probe in report.probes],
        "totals": {
            **_figures(report.totals, report.window),
            "kinds": [
                {"kind": kind.kind, "begins": kind.begins, **_figures(kind.figures, report.window)}
                for kind in report.kinds
            ],
            "locks": len(report.locks),
            "outliers": report.outlier_count,
            "sampled": {
                "samples": report.sampled.samples,
                "waits": report.sampled.waits,
                "wait_ns": report.sampled.wait_ns,
                "coverage": report.sampled.coverage,
            },
        },
        "locks": [_lock(lock, report.window, addresses) for lock in report.locks[:top]],
        "cpus": [_cpu(cpu, report.window) for cpu in report.cpus],
        "outliers": [_outlier(outlier, addresses) for outlier in report.outliers],
        "tasks": [
            {
                "comm": task.comm,
                "tid": task.tid,
                "tgid": task.tgid,
                "cgroup": task.cgroup or None,
                "samples": task.samples,
                "waits": task.waits,
                "wait_ns": task.wait_ns,
                "share": task.wait_ns / report.sampled.wait_ns if report.sampled.wait_ns else None,
                "lock": task.lock,
                "kind": task.kind,
                "lock_wait_ns": task.lock_ns,
            }
            for task in report.tasks[:top]
        ],
        "findings": [_finding(finding) for finding in report.findings],
        "futexes": signals_json.futexes(report.futexes, top),
        "clock_reads": signals_json.clock_reads(report.clock_reads),
        "inactive_waits": signals_json.inactive_waits(report.inactive_waits, top),
        "ptrace_attaches": signals_json.ptrace_attaches(report.attaches, top),
        "lines": [] if report.lines is None else watch_json.lines(report.lines, addresses),
        "cpu_pairs": [watch_json.pair_value(pair) for pair in report.cpu_pairs],
        "episodes": [_episode(episode, addresses) for episode in report.episodes],
        "loss": [
            {"name": loss.name, "count": loss.events, "meaning": loss.meaning, "severity": loss.severity}
            for loss in report.loss
        ],
        "cost": _cost(report.cost),
        "self_check": trust_json.self_check(report.self_check),
        "trust": trust_json.trust(report.trust),
    }
    if addresses:
        return value
    hidden = without_addresses(value)
    assert isinstance(hidden, dict)
    return hidden


def _finding(finding: Finding) -> dict[str, Any]:
    words = worded(finding)
    return {
        "rule": finding.rule,
        "title": words.title,
        "confidence": finding.confidence,
        "evidence": list(words.evidence),
        "next": list(words.next),
        "wait_ns": finding.impact.wait_ns,
    }


def _host(report: Report) -> dict[str, Any]:
    host = report.host
    return {
        "hostname": host.name,
        "kernel_release": host.kernel_release,
        "kernel_version": host.kernel_version,
        "architecture": host.architecture,
        "cpu_model": host.cpu_model,
        "cpus_possible": host.cpus_possible,
        "cpus_online": host.cpus_online,
        "memory_bytes": host.memory_bytes,
        "clocksource": host.clocksource,
        "boot_id": host.boot_id,
        "spinlock_mode": host.spinlock_mode,
        "facts": dict(host.facts),
    }


def _window(window: Window) -> dict[str, Any]:
    selection = window.selection
    return {
        "begin_ns": window.begin_ns,
        "end_ns": window.end_ns,
        "duration_ns": window.duration_ns,
        "recording_begin_ns": window.recording_begin_ns,
        "recording_end_ns": window.recording_end_ns,
        "recording_begin_unix_ns": window.begin_unix_ns,
        "intervals": window.intervals,
        "interval_ns": window.interval_ns,
        "state": window.state,
        "lockline_version": window.lockline_version,
        "command_line": window.command_line,
        "filter": window.filter,
        "threshold_ns": window.threshold_ns,
        "sample_period": window.sample_period,
        "memory_budget_bytes": window.memory_budget_bytes,
        "steal_ns": window.steal_ns,
        "selection": {
            "kinds": None if selection.kinds is None else list(selection.kinds),
            "cpus": None if selection.cpus is None else list(selection.cpus),
            "lock": selection.lock,
            "from_ns": selection.from_ns,
            "to_ns": selection.to_ns,
            "sort": selection.sort,
            "by": selection.by,
            "top": selection.top,
        },
        "open_waits": [
            {
                "tid": wait.tid,
                "tgid": wait.tgid,
                "comm": wait.comm,
                "cpu": wait.cpu,
                "lock": wait.lock,
                "kind": wait.kind,
                "age_ns": wait.age_ns,
            }
            for wait in window.open_waits
        ],
    }


def _figures(figures: Figures, window: Window) -> dict[str, Any]:
    return {
        "waits": figures.waits,
        "wait_ns": figures.wait_ns,
        "share": window.share(figures.wait_ns),
        "average_ns": figures.average_ns,
        "p50_ns": figures.percentile(0.5),
        "p99_ns": figures.percentile(0.99),
        "max_ns": figures.max_ns,
        "failed": figures.failed,
        "histogram": histogram.pairs(figures.histogram),
    }


def _hex(address: int) -> str:
    return f"{address & (1 << 64) - 1:#x}"


def _frames(frames: Sequence[rows.Frame], addresses: bool) -> list[dict[str, Any]]:
    return [
        {
            "symbol": frame.symbol or None,
            "offset": frame.offset if frame.symbol else None,
            "module": frame.module or None,
            **({"address": _hex(frame.address)} if addresses else {}),
        }
        for frame in frames
    ]


def _caller(frames: Sequence[rows.Frame]) -> str | None:
    callers = without_internals(frames)
    return callers[0].symbol or None if callers else None


def _lock(lock: LockWaits, window: Window, addresses: bool) -> dict[str, Any]:
    return {
        "name": lock.name,
        "kind": lock.kind,
        "source": lock.source,
        "instances": lock.instances,
        "worst_instance": lock.worst_instance or None,
        "worst_instance_ns": lock.worst_instance_ns,
        **({"address": None if lock.address is None else _hex(lock.address)} if addresses else {}),
        **_figures(lock.figures, window),
        "worst_cpu": lock.worst_cpu,
        "worst_cpu_ns": lock.worst_cpu_ns,
        "sampled_wait_ns": lock.sampled_ns,
        "stacks": _stacks(lock.stacks, addresses),
        "holders": [
            {
                "kind": holder.kind,
                "comm": holder.comm if holder.kind == "task" else None,
                "tid": holder.tid if holder.kind == "task" else None,
                "tgid": holder.tgid if holder.kind == "task" else None,
                "cgroup": holder.cgroup or None,
                "releases": holder.releases,
                "waits": holder.waits,
                "caused_ns": holder.caused_ns,
                "share": holder.caused_ns / lock.figures.wait_ns if lock.figures.wait_ns else None,
                "max_caused_ns": holder.max_caused_ns,
                "stacks": _stacks(holder.stacks, addresses),
            }
            for holder in lock.holders
        ],
        "fairness": None if lock.fairness is None else _fairness(lock.fairness),
    }


def _stacks(stacks: Sequence[StackShare], addresses: bool) -> list[dict[str, Any]]:
    return [
        {
            "samples": stack.samples,
            "waits": stack.waits,
            "wait_ns": stack.wait_ns,
            "caller": _caller(stack.frames),
            "frames": _frames(stack.frames, addresses),
        }
        for stack in stacks
    ]


def _fairness(fairness: Fairness) -> dict[str, Any]:
    holds = fairness.holds
    return {
        "waits": fairness.waits,
        "releases": fairness.releases,
        "retakes": fairness.retakes,
        "overtaken": fairness.overtaken,
        "bypasses": fairness.bypasses,
        "max_bypasses": fairness.max_bypasses,
        "handoffs": fairness.handoffs,
        "handoff_ns": fairness.handoff_ns,
        "max_handoff_ns": fairness.max_handoff_ns,
        "line_transfer_ns": fairness.line_ns,
        "holds": None
        if holds is None
        else {
            "holds": holds.waits,
            "hold_ns": holds.wait_ns,
            "average_ns": holds.average_ns,
            "p50_ns": holds.percentile(0.5),
            "p99_ns": holds.percentile(0.99),
            "max_ns": holds.max_ns,
            "histogram": histogram.pairs(holds.histogram),
        },
    }


def _cpu(cpu: CpuWaits, window: Window) -> dict[str, Any]:
    return {
        "cpu": cpu.cpu,
        **_figures(cpu.figures, window),
        "kinds": [
            {
                "kind": kind.kind,
                "waits": kind.figures.waits,
                "wait_ns": kind.figures.wait_ns,
                "max_ns": kind.figures.max_ns,
                "failed": kind.figures.failed,
            }
            for kind in cpu.kinds
        ],
    }


def _outlier(outlier: OutlierWait, addresses: bool) -> dict[str, Any]:
    return {
        "offset_ns": outlier.offset_ns,
        "begin_ns": outlier.begin_ns,
        "wait_ns": outlier.wait_ns,
        "cpu": outlier.cpu,
        "begin_cpu": outlier.begin_cpu,
        "comm": outlier.task.comm,
        "tid": outlier.task.tid,
        "tgid": outlier.task.tgid,
        "cgroup": outlier.task.cgroup or None,
        "lock": outlier.lock,
        "instance": outlier.instance or None,
        "kind": outlier.kind,
        "result": outlier.result,
        "caller": _caller(outlier.stack),
        "stack": _frames(outlier.stack, addresses),
        "user_stack": _frames(outlier.user_stack, addresses),
    }


def _party(task: Party) -> dict[str, Any]:
    return {"comm": task.comm, "tid": task.tid}


def _doing(doing: Doing) -> dict[str, Any]:
    return {
        "running_ns": doing.running_ns,
        "preempted_ns": doing.preempted_ns,
        "asleep_ns": doing.asleep_ns,
        "stopped_ns": doing.stopped_ns,
        "throttled_ns": doing.throttled_ns,
        "unknown_ns": doing.unknown_ns,
    }


def _episode(episode: Episode, addresses: bool) -> dict[str, Any]:
    relief = episode.relief
    return {
        "state": episode.state,
        "waiter": {
            **_party(episode.waiter),
            "tgid": episode.tgid,
            "cpu": episode.cpu,
            "begin_cpu": episode.begin_cpu,
            "policy": episode.policy_name,
            "priority": episode.priority,
            "real_time": episode.real_time,
            "doing": _doing(episode.doing),
            "caller": _caller(episode.stack),
            "stack": _frames(episode.stack, addresses),
        },
        "lock": {"name": episode.lock, "instance": episode.instance or None, "kind": episode.kind},
        "begin_ns": episode.begin_ns,
        "offset_ns": episode.offset_ns,
        "duration_ns": episode.duration_ns,
        "irqs_off": {
            "state": {"off": True, "on": False}.get(episode.interrupts),
            "from": episode.interrupts_from,
        },
        "holders": [
            {
                **_party(holder.task),
                "source": holder.source,
                "held_ns": holder.held_ns,
                "share": holder.held_ns / episode.duration_ns if episode.duration_ns else None,
                "holds": holder.holds,
                "doing": _doing(holder.doing),
                "state": holder.state or None,
                "stack": _frames(holder.stack, addresses),
            }
            for holder in episode.holders
        ],
        "handoff_ns": episode.handoff_ns,
        "bypass": episode.bypass,
        "loops": [
            {"task": _party(loop.task), "other": _party(loop.other), "turns": loop.turns, "cpu": loop.cpu}
            for loop in episode.loops
        ],
        "relief": None
        if relief is None
        else {
            "type": relief.type,
            "name": relief.name or None,
            "cpu": relief.cpu,
            "task": _party(relief.task),
            "side": relief.side,
            "before_end_ns": relief.before_end_ns,
        },
        "chain": [
            {
                "waiter": _party(link.waiter),
                "lock": link.lock,
                "wait_ns": link.wait_ns,
                "holder": None if link.holder is None else _party(link.holder),
            }
            for link in episode.chain
        ],
        "in_progress": episode.in_progress,
        "complete": episode.complete,
        "left_out": episode.left_out,
    }


def _cost(cost: OwnCost) -> dict[str, Any]:
    return {
        "programs": [
            {
                **program.program._asdict(),
                "ns_per_run": program.ns_per_run,
                "estimated_ns": program.estimated_ns,
            }
            for program in cost.programs
        ],
        "kernel_estimated_ns": cost.estimated_ns,
        "kernel_cpu_share": cost.cpu_share,
        "kernel_unavailable": cost.unavailable,
        "collector": [own._asdict() for own in cost.collector],
    }
