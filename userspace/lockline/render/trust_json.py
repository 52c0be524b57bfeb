# SPDX-License-Identifier: GPL-2.0-or-later
"""What the probes do to the waits, as JSON: docs/report-schema.md."""

from typing import Any

from lockline.analysis.trust import DISTORTION, Handoff, Trust


def _handoff(handoff: Handoff) -> dict[str, Any]:
    return {
        "cut_ns": handoff.cut_ns,
        "longer_ns": handoff.longer_ns,
        "shortest_trusted_wait_ns": handoff.trusted_ns,
    }


def trust(value: Trust) -> dict[str, Any]:
    """The object `trust`."""
    return {
        "distortion": DISTORTION,
        "measurement_ns": value.measurement_ns,
        "clock_step_ns": value.clock_step_ns,
        "programs": [
            {
                "name": program.name,
                "place": program.place,
                "spinning": program.spinning,
                "sleeping": program.sleeping,
                "ns": program.ns,
            }
            for program in value.programs
        ],
        "spinning": _handoff(value.spinning),
        "sleeping": _handoff(value.sleeping),
    }
