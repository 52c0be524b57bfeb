# SPDX-License-Identifier: GPL-2.0-or-later
"""What this kernel offers, as lockline-collect found it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lockline.analysis.cpu_pairs import Hardware, parse_hardware
from lockline.base.errors import LocklineError
from lockline.recording.rows import Probe

SCHEMA = "lockline-doctor/1"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Facts of the host by name, the plan of probes, and with --deep what was measured between CPUs."""

    host: Mapping[str, str]
    probes: tuple[Probe, ...]
    hardware: Hardware | None = None


def parse(text: str) -> Diagnosis:
    """The collector's JSON as values.  Raises LocklineError if it is something else."""
    try:
        value: Any = json.loads(text)
        if value["schema"] != SCHEMA:
            raise LocklineError(
                f"doctor: schema {value['schema']!r} is not {SCHEMA}; the collector has another version"
            )
        probes = tuple(Probe(*(str(probe[field]) for field in Probe._fields)) for probe in value["probes"])
        hardware = parse_hardware(value["cpu_pairs"]) if "cpu_pairs" in value else None
        return Diagnosis({str(name): str(fact) for name, fact in value["host"].items()}, probes, hardware)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise LocklineError(f"doctor: the collector's answer cannot be read: {error!r}") from error
