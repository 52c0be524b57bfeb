# SPDX-License-Identifier: GPL-2.0-or-later
"""What this kernel offers, as lockline-collect found it, for people to read."""

import json
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lockline.cpu_pairs import Hardware, parse_hardware, render_hardware
from lockline.errors import LocklineError
from lockline.render.format import WIDTH, Style, clean, cut, pad, width
from lockline.rows import Probe

SCHEMA = "lockline-doctor/1"

_STATES = ("on", "blind", "unavailable", "off")


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
                f"doctor: schema {value['schema']!r} is not {SCHEMA}; the collector is of another version"
            )
        probes = tuple(Probe(*(str(probe[field]) for field in Probe._fields)) for probe in value["probes"])
        hardware = parse_hardware(value["cpu_pairs"]) if "cpu_pairs" in value else None
        return Diagnosis({str(name): str(fact) for name, fact in value["host"].items()}, probes, hardware)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise LocklineError(f"doctor: the collector's answer cannot be read: {error!r}") from error


def render(diagnosis: Diagnosis, style: Style) -> str:
    """Facts, then signals by state, with what is lost without each."""
    lines = ["Host"]
    names = max((width(clean(name, style)) for name in diagnosis.host), default=0)
    names = min(names, 32)
    for name, fact in diagnosis.host.items():
        wrapped = textwrap.wrap(clean(fact, style), WIDTH - names - 4, break_on_hyphens=False) or ["-"]
        lines.append(f"  {pad(clean(name, style), names)}  {wrapped[0]}")
        lines += [" " * (names + 4) + more for more in wrapped[1:]]
    lines += ["", "Signals"]
    states = [*_STATES, *sorted({probe.state for probe in diagnosis.probes} - set(_STATES))]
    signals = max((width(clean(probe.signal, style)) for probe in diagnosis.probes), default=0)
    signals = min(signals, 40)
    for state in states:
        for probe in (probe for probe in diagnosis.probes if probe.state == state):
            parts = [f"{probe.source}" if probe.source else "", probe.reason]
            parts.append(f"lost: {probe.lost}" if probe.lost else "")
            text = clean("; ".join(part for part in parts if part), style)
            wrapped = textwrap.wrap(text, WIDTH - signals - 17, break_on_hyphens=False) or [""]
            head = f"  {pad(clean(state, style), 11)}  {pad(clean(probe.signal, style), signals)}  "
            lines.append((head + wrapped[0]).rstrip())
            lines += [" " * (signals + 17) + more for more in wrapped[1:]]
    counts = ", ".join(
        f"{sum(probe.state == state for probe in diagnosis.probes)} {cut(clean(state, style), 20)}"
        for state in states
        if any(probe.state == state for probe in diagnosis.probes)
    )
    lines += ["", f"{len(diagnosis.probes)} signals: {counts or 'none'}"]
    if diagnosis.hardware is not None:
        lines += ["", *render_hardware(diagnosis.hardware, style)]
    return "\n".join(lines) + "\n"
