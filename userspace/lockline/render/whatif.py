# SPDX-License-Identifier: GPL-2.0-or-later
"""What would be gained at most without a lock, in words."""

from collections.abc import Sequence

from lockline.analysis.findings import Lock, Subject
from lockline.analysis.whatif import Bound
from lockline.base.text import Style, clean, fill
from lockline.render.findings import value_words

# Of a gain above this the figure says no more than "much".
_MUCH = 10.0


def _lock(subject: Subject) -> str:
    return (
        f"{value_words(subject)} ({subject.kind})"
        if isinstance(subject, Lock) and subject.kind
        else value_words(subject)
    )


def bound_words(bound: Bound) -> str:
    """A bound in one or two sentences."""
    name = _lock(bound.lock)
    if bound.gain is None:
        return f"Without waiting for {name}: unknown, {bound.why_not}"
    all_of_them = f"its {bound.threads} {bound.who}"
    most = f"at most +{bound.gain:.0%}" if bound.gain <= _MUCH else f"at most {bound.gain + 1:.0f} times as much"
    if bound.cpus:
        return f"Without {name} {all_of_them} get {most} done; then the {bound.cpus} CPUs are the limit"
    then = f"then {_lock(bound.binds)} is the limit" if bound.binds is not None else "then their own work is the limit"
    return f"Without waiting for {name} {all_of_them} get {most} done; {then}"


def render(bounds: Sequence[str], style: Style, columns: int) -> str:
    """The section of a report, or of an investigation's story; bounds: each in words."""
    if not bounds:
        return "What if: no lock has enough waiting to gain anything\n"
    lines = ["What if (bounds: the gain may be less, none, or a loss)"]
    for bound in bounds:
        lines += fill(clean(bound, style), "  ", "    ", columns)
    lines += fill(
        "Only threads that were seen to wait count. It is assumed that work always finds a free CPU. The bound is of"
        " waiting alone: what makes the work itself faster (more CPU, a line padded) may bring more.",
        "  ",
        "  ",
        columns,
    )
    return "\n".join(lines) + "\n"
