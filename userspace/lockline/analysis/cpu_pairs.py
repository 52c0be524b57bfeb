# SPDX-License-Identifier: GPL-2.0-or-later
"""The hardware's limits between pairs of CPUs, as `doctor --deep` measures them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

RELATIONS = ("same core", "same last-level cache", "same node", "other node")


@dataclass(frozen=True, slots=True)
class CpuPair:
    """One pair.  transfer_ns: one way, median, and least; warp_ns: how far a clock was behind, 0 is never."""

    first: int
    second: int
    relation: str
    transfer_ns: float
    least_transfer_ns: float
    rounds: int
    readings: int
    warp_ns: int
    warp_behind: int | None
    counter_warp_ticks: int
    counter_warp_behind: int | None


@dataclass(frozen=True, slots=True)
class Hardware:
    """What was measured, and of how many pairs; counter: the CPU's own, '' where there is none."""

    cpus: int
    possible_pairs: int
    chosen_pairs: int
    counter: str
    counter_hz: float
    pairs: tuple[CpuPair, ...]


def _length(value: Any) -> float:
    length = float(value)
    if not (math.isfinite(length) and length >= 0):
        raise ValueError(f"{value!r} is not a length of time")
    return length


def _cpu(value: Any) -> int | None:
    return None if value is None else int(value)


def parse_hardware(value: Mapping[str, Any]) -> Hardware:
    """The object `cpu_pairs` of lockline-doctor/1.  Raises KeyError, TypeError or ValueError if it is no such thing."""
    pairs = tuple(
        CpuPair(
            int(pair["first"]),
            int(pair["second"]),
            str(pair["relation"]),
            _length(pair["transfer_ns"]),
            _length(pair["least_transfer_ns"]),
            int(pair["rounds"]),
            int(pair["readings"]),
            int(pair["warp_ns"]),
            _cpu(pair["warp_behind"]),
            int(pair["counter_warp_ticks"]),
            _cpu(pair["counter_warp_behind"]),
        )
        for pair in value["pairs"]
    )
    return Hardware(
        int(value["cpus"]),
        int(value["possible_pairs"]),
        int(value["chosen_pairs"]),
        str(value["counter"]),
        _length(value["counter_hz"]),
        pairs,
    )
