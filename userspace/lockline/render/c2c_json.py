# SPDX-License-Identifier: GPL-2.0-or-later
"""The report of cache lines as JSON, schema lockline-c2c/1: docs/c2c-schema.md."""

import json
from typing import Any

from lockline.base.text import may_show, without_addresses
from lockline.c2c.model import (
    Access,
    Advice,
    C2cReport,
    Counts,
    Coverage,
    Line,
    LineReport,
    LockOnLine,
    OffsetReport,
    Part,
    Source,
)

SCHEMA = "lockline-c2c/1"
# Of one offset, the accesses with most cost.
ACCESSES = 50


def render(report: C2cReport, addresses: bool = False) -> str:
    """One JSON object on one line; addresses: with kernel addresses."""
    return json.dumps(document(report, addresses), separators=(",", ":"), allow_nan=False) + "\n"


def document(report: C2cReport, addresses: bool = False) -> dict[str, Any]:
    """The report as JSON values."""
    value = {
        "schema": SCHEMA,
        "file": report.path,
        "machine": {
            "hostname": report.machine.hostname,
            "kernel_release": report.machine.kernel_release,
            "architecture": report.machine.architecture,
            "cpus": report.machine.cpus,
        },
        "sources": [source_value(source) for source in report.sources],
        "coverage": _coverage(report.coverage),
        "totals": {"lines": report.line_count, "other_lines": report.other_lines, "transfers": report.transfers},
        "lines": [_line(number, line, addresses) for number, line in enumerate(report.lines, 1)],
        "problems": [{"place": place, "problem": problem} for place, problem in report.problems],
        "notes": list(report.notes),
    }
    if addresses:
        return value
    hidden = without_addresses(value)
    assert isinstance(hidden, dict)
    return hidden


def source_value(source: Source) -> dict[str, Any]:
    """A source with its figures."""
    return {"kind": source.kind, "name": source.name, "events": list(source.events), "counts": dict(source.counts)}


def _coverage(coverage: Coverage) -> dict[str, Any]:
    return {
        "records": coverage.records,
        "unparsable": coverage.unparsable,
        "stores_seen": coverage.stores_seen,
        "snoops_seen": coverage.snoops_seen,
        "missing": list(coverage.missing),
    }


def _triple(local: int | None, remote: int | None) -> dict[str, int | None]:
    total = None if local is None and remote is None else (local or 0) + (remote or 0)
    return {"total": total, "local": local, "remote": remote}


def _counts(counts: Counts) -> dict[str, Any]:
    return {
        "records": counts.records,
        "loads": counts.loads,
        "stores": counts.stores,
        "hitm": _triple(counts.local_hitm, counts.remote_hitm),
        "peer": _triple(counts.local_peer, counts.remote_peer),
        "locked": counts.locked,
        "load_hits": {
            "fill_buffer": counts.fill_buffer,
            "l1": counts.l1_hit,
            "l2": counts.l2_hit,
            "llc": counts.llc_hit,
            "remote": counts.remote_hit,
            "local_dram": counts.local_dram,
            "remote_dram": counts.remote_dram,
        },
        "store_hits": {
            "l1_hit": counts.store_l1_hit,
            "l1_miss": counts.store_l1_miss,
            "unknown": counts.store_unknown,
        },
        "in_wait": counts.in_wait,
        "transfers": counts.watched,
    }


def _hex(address: int) -> str:
    return f"{address:#x}"


def _address(line: Line, addresses: bool) -> str | None:
    return _hex(line.address) if may_show(line.address, addresses, line.space) else None


def _line(number: int, report: LineReport, addresses: bool) -> dict[str, Any]:
    line = report.line
    placement = report.placement
    judgement = report.judgement
    return {
        "rank": number,
        "address": _address(line, addresses),
        "size": line.size,
        "space": line.space,
        "pid": line.pid or None,
        "object": line.object or None,
        "symbol": line.symbol or None,
        "symbol_offset": line.symbol_offset if line.symbol else None,
        "nodes": line.nodes or None,
        "source": line.source or None,
        "type": placement.type or None,
        "type_offset": placement.base,
        "type_source": placement.source or None,
        "type_evidence": list(placement.evidence),
        "type_alternatives": list(placement.alternatives),
        **_counts(line.counts),
        "cpus": report.cpus,
        "cpus_exact": report.cpus_exact,
        "cpu_list": report.cpu_list or None,
        "comms": list(line.comms),
        "score": report.score,
        "cost": report.cost,
        "cost_is": report.cost_is,
        "verdict": judgement.verdict,
        "confidence": judgement.confidence,
        "evidence": list(judgement.evidence),
        "doubts": list(judgement.doubts),
        "members": [part_value(part) for part in judgement.members],
        "locks": [lock_value(lock, addresses) for lock in report.locks],
        "advice": None if report.advice is None else advice_value(report.advice),
        "offsets": [_offset(offset, addresses, line.space) for offset in report.offsets],
    }


def part_value(part: Part) -> dict[str, Any]:
    """A member that is fought over."""
    return {
        "member": part.member or None,
        "type": part.type or None,
        "begin": part.begin,
        "end": part.end,
        "lock": part.is_lock,
        "cost": part.cost,
        "share": part.share,
        "roles": {role: list(functions) for role, functions in part.roles.items()},
    }


def lock_value(lock: LockOnLine, addresses: bool) -> dict[str, Any]:
    """A lock that lies on a line."""
    return {
        "name": lock.name or None,
        "instance": lock.instance or None,
        "kinds": list(lock.kinds),
        "offset": lock.offset,
        "waits": lock.waits,
        "wait_ns": lock.wait_ns,
        "join": lock.join,
        "address": _hex(lock.address) if addresses and lock.address is not None else None,
    }


def advice_value(advice: Advice) -> dict[str, Any]:
    """What to change."""
    total = None
    if advice.objects is not None and advice.size_after is not None and advice.size_before is not None:
        total = advice.objects * max(0, advice.size_after - advice.size_before)
    return {
        "text": advice.text,
        "members": list(advice.members),
        "bytes_per_object": advice.padding,
        "size_before": advice.size_before,
        "size_after": advice.size_after,
        "objects": advice.objects,
        "bytes_total": total,
        "own_effect": advice.own_effect,
        "largest_effect": advice.effect,
        "warning": advice.warning or None,
        "layout": list(advice.layout),
    }


def _offset(offset: OffsetReport, addresses: bool, space: str) -> dict[str, Any]:
    return {
        "offset": offset.offset,
        "member": offset.member or None,
        "symbol": offset.symbol or None,
        **_counts(offset.counts),
        "cpus": offset.cpus,
        "accesses": [_access(access, addresses, space) for access in offset.accesses[:ACCESSES]],
        "accesses_left_out": max(0, len(offset.accesses) - ACCESSES),
    }


def _access(access: Access, addresses: bool, space: str) -> dict[str, Any]:
    code = access.code
    shown = code.address and may_show(code.address, addresses, space)
    return {
        "symbol": code.symbol or None,
        "symbol_offset": code.offset if code.symbol else None,
        "object": code.object or None,
        "line": code.line or None,
        "address": _hex(code.address) if shown else None,
        "threads": len(access.threads) or None,
        "records": access.counts.records,
        "loads": access.counts.loads,
        "stores": access.counts.stores,
        "hitm": access.counts.hitm,
        "peer": access.counts.peer,
        "transfers": access.counts.watched,
        "cpus": access.cpu_count or None,
    }
