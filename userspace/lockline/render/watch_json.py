# SPDX-License-Identifier: GPL-2.0-or-later
"""Watched and sampled lines as JSON, schema lockline-watch/1: docs/watch-schema.md."""

import json
from typing import Any

from lockline.base.text import may_show, without_addresses
from lockline.c2c.live import Handover, Instruction, Interrupts, LiveLine, LiveOffset, LiveReport, Matrix
from lockline.render.c2c_json import advice_value, lock_value, part_value, source_value
from lockline.watch.model import Rate, Told, Watch
from lockline.watch.pairs import Pair

SCHEMA = "lockline-watch/1"
# Of one offset; they are sorted by transfers.
INSTRUCTIONS = 50
HANDOVERS = 100
DIFFERING = 20


def render(report: LiveReport, addresses: bool = False) -> str:
    """One JSON object on one line; addresses: with kernel addresses."""
    return json.dumps(document(report, addresses), separators=(",", ":"), allow_nan=False) + "\n"


def document(report: LiveReport, addresses: bool = False) -> dict[str, Any]:
    """The report as JSON values."""
    c2c = report.c2c
    value = {
        "schema": SCHEMA,
        "file": c2c.path,
        "machine": {
            "hostname": c2c.machine.hostname,
            "kernel_release": c2c.machine.kernel_release,
            "architecture": c2c.machine.architecture,
            "cpus": c2c.machine.cpus,
        },
        "sources": [source_value(source) for source in c2c.sources],
        "lines": lines(report, addresses),
        "cpu_pairs": [pair_value(pair) for pair in report.pairs],
        "notes": list(c2c.notes),
    }
    if addresses:
        return value
    hidden = without_addresses(value)
    assert isinstance(hidden, dict)
    return hidden


def lines(report: LiveReport, addresses: bool) -> list[dict[str, Any]]:
    """The lines, as `lockline watch` and `lockline report` have them."""
    return [_line(line, addresses) for line in report.lines]


def pair_value(pair: Pair) -> dict[str, Any]:
    """A pair of CPUs."""
    return {
        "first": pair.first,
        "second": pair.second,
        "transfer_ns": pair.transfer_ns,
        "least_transfer_ns": pair.least_transfer_ns,
        "warp_ns": pair.warp_ns,
        "rounds": pair.rounds,
    }


def _hex(address: int) -> str:
    return f"{address:#x}"


def _rate(rate: Rate | None) -> dict[str, Any] | None:
    if rate is None:
        return None
    return {
        "per_second": rate.per_second,
        "error_per_second": rate.error,
        "at_least": rate.at_least,
    }


def _interrupts(interrupts: Interrupts) -> dict[str, Any]:
    return {"known": interrupts.known, "off": interrupts.off, "share_off": interrupts.share}


def _cpus(bits: int) -> list[int]:
    return [cpu for cpu in range(bits.bit_length()) if bits >> cpu & 1]


def _line(live: LiveLine, addresses: bool) -> dict[str, Any]:
    report = live.report
    line, placement, judgement, watch = report.line, report.placement, report.judgement, live.watch
    return {
        "line": {
            "address": _hex(line.address) if may_show(line.address, addresses, line.space) else None,
            "size": line.size,
            "space": line.space,
            "pid": line.pid or None,
            "object": line.object or None,
            "symbol": line.symbol or None,
            "symbol_offset": line.symbol_offset if line.symbol else None,
            "type": placement.type or None,
            "type_offset": placement.base,
            "type_source": placement.source or None,
            "type_evidence": list(placement.evidence),
        },
        "source": {"kind": live.source, "event": live.event},
        "target": _target(live, watch) if watch else None,
        "windows": _windows(watch) if watch else None,
        "hits": watch.hits if watch else None,
        "transfers": line.counts.transfers,
        "hit_rate": _rate(live.hits),
        "transfer_rate": _rate(live.transfers),
        "hitm": line.counts.hitm if watch is None else None,
        "peer": line.counts.peer if watch is None else None,
        "records": line.counts.records,
        "reads": line.counts.loads,
        "writes": line.counts.stores,
        "locked": line.counts.locked,
        "cpu_list": report.cpu_list or None,
        "comms": list(line.comms),
        "interrupts": _interrupts(live.interrupts),
        "offsets": [_offset(offset, addresses, line.space) for offset in live.offsets],
        "matrix": None if live.matrix is None else _matrix(live.matrix),
        "handovers": [_handover(handover) for handover in live.handovers[:HANDOVERS]],
        "locks": [lock_value(lock, addresses) for lock in report.locks],
        "waits": [
            {
                "lock": wait.lock,
                "instance": wait.instance or None,
                "kind": wait.kind,
                "records": wait.records,
                "transfers": wait.transfers,
            }
            for wait in live.waits
        ],
        "verdict": judgement.verdict,
        "confidence": judgement.confidence,
        "evidence": list(judgement.evidence),
        "doubts": list(judgement.doubts),
        "members": [part_value(part) for part in judgement.members],
        "advice": None if report.advice is None else advice_value(report.advice),
        "cost": _cost(live, watch) if watch else None,
    }


def _target(live: LiveLine, watch: Watch) -> dict[str, Any]:
    return {
        "text": watch.target,
        "lock": live.lock.name if live.lock else None,
        "instance": (live.lock.instance or None) if live.lock else None,
        "offset": watch.lock_offset,
        "access_from": watch.access_from,
        "told": _told(watch.told) if watch.told else None,
    }


def _told(told: Told) -> dict[str, Any]:
    return {
        "instruction": told.instruction,
        "watchpoint": told.watchpoint,
        "remembered": told.remembered,
        "untold": told.untold,
        "compared": told.compared,
        "disagreed": told.disagreed,
        "differing": [
            {
                "symbol": part.code.symbol or None,
                "symbol_offset": part.code.offset if part.code.symbol else None,
                "object": part.code.object or None,
                "reads": part.reads,
                "writes": part.writes,
                "only_read": part.only_read,
                "wrote": part.wrote,
            }
            for part in told.differing[:DIFFERING]
        ],
        "typed_windows": told.windows,
        "typed_hits": told.hits,
        "typed_hit_ns": told.hit_ns or None,
    }


def _windows(watch: Watch) -> dict[str, Any]:
    return {
        "count": len(watch.windows),
        "watched_ns": watch.watched_ns,
        "begin_ns": watch.begin_ns,
        "end_ns": watch.begin_ns + watch.span_ns,
        "share": min(1.0, watch.watched_ns / watch.span_ns) if watch.span_ns else 0.0,
        "lost": watch.lost,
        "cut": sum(1 for window in watch.windows if window.cut),
        "changed": sum(1 for window in watch.windows if window.changed == 1),
        "changed_unknown": sum(1 for window in watch.windows if window.changed < 0),
        "ended": watch.ended or None,
    }


def _cost(live: LiveLine, watch: Watch) -> dict[str, Any]:
    cost = live.cost
    return {
        "budget": watch.budget or None,
        "hit_ns": watch.hit_ns or None,
        "cpu_ns": cost.cpu_ns if cost else None,
        "cpu_share": cost.cpu_share if cost else None,
        "in_windows": cost.in_windows if cost else None,
    }


def _offset(offset: LiveOffset, addresses: bool, space: str) -> dict[str, Any]:
    return {
        "offset": offset.offset,
        "member": offset.member or None,
        "reads": offset.reads,
        "writes": offset.writes,
        "locked": offset.locked,
        "transfers": offset.transfers,
        "hitm": offset.hitm,
        "peer": offset.peer,
        "cpus": _cpus(offset.cpus),
        "comms": list(offset.comms),
        "interrupts": _interrupts(offset.interrupts),
        "coverage": offset.coverage,
        "read_rate": _rate(offset.read_rate),
        "write_rate": _rate(offset.write_rate),
        "transfer_rate": _rate(offset.transfer_rate),
        "instructions": [_instruction(part, addresses, space) for part in offset.instructions[:INSTRUCTIONS]],
    }


def _instruction(instruction: Instruction, addresses: bool, space: str) -> dict[str, Any]:
    access = instruction.access
    address = access.code.address
    return {
        "symbol": access.code.symbol or None,
        "symbol_offset": access.code.offset if access.code.symbol else None,
        "object": access.code.object or None,
        "line": access.code.line or None,
        "role": instruction.role,
        "reads": access.counts.loads,
        "writes": access.counts.stores,
        "locked": access.counts.locked,
        "transfers": access.counts.transfers,
        "in_wait": access.counts.in_wait,
        "cpus": None if access.cpus is None else _cpus(access.cpus),
        "comms": list(instruction.comms),
        "interrupts": _interrupts(instruction.interrupts),
        **({"address": _hex(address)} if may_show(address, addresses, space) else {}),
    }


def _matrix(matrix: Matrix) -> dict[str, Any]:
    return {
        "cpus": list(matrix.cpus),
        "transfers": [list(row) for row in matrix.counts],
        "left_out": matrix.left_out,
    }


def _handover(handover: Handover) -> dict[str, Any]:
    return {
        "from": {
            "function": handover.from_function or None,
            "offset": handover.from_offset,
            "member": handover.from_member or None,
        },
        "to": {
            "function": handover.function or None,
            "offset": handover.offset,
            "member": handover.member or None,
        },
        "write": handover.write,
        "transfers": handover.transfers,
    }
