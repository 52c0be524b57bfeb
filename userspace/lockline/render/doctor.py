# SPDX-License-Identifier: GPL-2.0-or-later
"""What this kernel offers to lockline, for people to read."""

from lockline.analysis.diagnosis import Diagnosis
from lockline.base.text import Style, beside, clean, cut, pad, width
from lockline.render.cpu_pairs import render_hardware
from lockline.render.screen_parts import LOCK_WAITS, unseen_waiters

_STATES = ("on", "blind", "unavailable", "off")


def _answer(diagnosis: Diagnosis, style: Style) -> list[str]:
    """Whether lockline can record here, and what it does not see; nothing if the collector does not say."""
    waits = next((probe for probe in diagnosis.probes if probe.signal == LOCK_WAITS), None)
    if waits is None:
        return []
    if waits.state != "on":
        return [*beside("ANSWER  ", clean(f"lockline cannot record lock waits here: {waits.reason}.", style)), ""]
    unseen = unseen_waiters(diagnosis.probes)
    told = f"It does not see: {', '.join(unseen)}." if unseen else "It sees every kind of waiter."
    return [*beside("ANSWER  ", clean(f"lockline can record lock waits here. {told}", style)), ""]


def render(diagnosis: Diagnosis, style: Style) -> str:
    """The answer, facts, then signals by state, with what is lost without each."""
    lines = [*_answer(diagnosis, style), "Host"]
    names = max((width(clean(name, style)) for name in diagnosis.host), default=0)
    names = min(names, 32)
    for name, fact in diagnosis.host.items():
        told = clean(fact, style)
        lines += beside(f"  {pad(clean(name, style), names)}  ", told if told.strip() else "-")
    lines += ["", "Signals"]
    states = [*_STATES, *sorted({probe.state for probe in diagnosis.probes} - set(_STATES))]
    signals = max((width(clean(probe.signal, style)) for probe in diagnosis.probes), default=0)
    signals = min(signals, 40)
    for state in states:
        for probe in (probe for probe in diagnosis.probes if probe.state == state):
            parts = [f"{probe.source}" if probe.source else "", probe.reason]
            parts.append(f"lost: {probe.lost}" if probe.lost else "")
            text = clean("; ".join(part for part in parts if part), style)
            head = f"  {pad(clean(state, style), 11)}  {pad(clean(probe.signal, style), signals)}  "
            lines += [line.rstrip() for line in beside(head, text)]
    counts = ", ".join(
        f"{sum(probe.state == state for probe in diagnosis.probes)} {cut(clean(state, style), 20)}"
        for state in states
        if any(probe.state == state for probe in diagnosis.probes)
    )
    lines += ["", f"{len(diagnosis.probes)} signals: {counts or 'none'}"]
    if diagnosis.hardware is not None:
        lines += ["", *render_hardware(diagnosis.hardware, style)]
    return "\n".join(lines) + "\n"
