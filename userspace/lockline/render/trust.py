# SPDX-License-Identifier: GPL-2.0-or-later
"""What the probes do to the waits that they measure, in words."""

from lockline.analysis.trust import BEGIN, DISTORTION, HELD, SWITCH, UNLOCK, Handoff, Trust
from lockline.base.numbers import duration, percent

_PLACES = {
    BEGIN: "before the wait",
    HELD: "with the lock held",
    UNLOCK: "at every unlock",
    SWITCH: "at every switch or wake-up",
}
_CONTENDED_RELEASE = "contended_release"


def places(trust: Trust) -> dict[str, str]:
    """What to add to a program's line in the report's footer, by its name."""
    found = {}
    for program in trust.programs:
        place = "at every release with waiters" if program.name == _CONTENDED_RELEASE else _PLACES[program.place]
        found[program.name] = f", {place}"
    return found


def _shortest(handoff: Handoff) -> str:
    return "not known" if handoff.trusted_ns is None else f"from {duration(handoff.trusted_ns)} on"


def _distortion(handoff: Handoff) -> str:
    parts = [
        f"{duration(round(ns))} {what}"
        for ns, what in ((handoff.cut_ns, "off its begin"), (handoff.longer_ns, "on top"))
        if ns is not None
    ]
    return ", ".join(parts)


def sentences(trust: Trust) -> list[str]:
    """Nothing if no program was measured, and the clock is precise."""
    lines = []
    if trust.clock_step_ns is not None:
        lines.append(
            f"the clock moves every {duration(trust.clock_step_ns)}: the length of a single wait is off by up to"
            " that much"
        )
    told = [
        f"{what} {_distortion(handoff)}"
        for what, handoff in (("spinning", trust.spinning), ("sleeping", trust.sleeping))
        if _distortion(handoff)
    ]
    if told:
        own = (
            "with what measuring adds to a run"
            if trust.measurement_ns is None
            else f"less the {trust.measurement_ns} ns that measuring adds to a run"
        )
        lines.append(
            f"at each hand-off of a lock the probes take on average, {own}: {'; '.join(told)}; entering and leaving"
            " a BPF program is not included"
        )
    if trust.spinning.trusted_ns is not None or trust.sleeping.trusted_ns is not None:
        lines.append(
            f"lengths are off by at most {percent(DISTORTION)}: spinning {_shortest(trust.spinning)}, sleeping"
            f" {_shortest(trust.sleeping)}, for each hand-off that a wait takes (docs/self-check.md)"
        )
    return lines
