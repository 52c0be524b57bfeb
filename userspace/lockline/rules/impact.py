# SPDX-License-Identifier: GPL-2.0-or-later
"""What a finding explains, in numbers that findings can be compared by."""

from dataclasses import replace

from lockline.analysis.findings import Finding, Impact, Lock
from lockline.analysis.model import Report
from lockline.rules.common import USER_RULES

SPINNING = ("spinlock", "rwlock:R", "rwlock:W", "mutex-spin")
_OTHER_WAITING = ("deadlock", "lock-not-released", "perturbation", "shared-clocksource", *USER_RULES)
# Their waits spin, whichever lock it is.
_SPINS = ("cpu-starved", "holder-preempted")


def _spins(report: Report, finding: Finding) -> bool:
    if finding.rule in _SPINS:
        return True
    kinds = {value.kind for _, value in finding.claim.values if isinstance(value, Lock) and value.kind}
    if not kinds:
        names = {value.name for _, value in finding.claim.values if isinstance(value, Lock)}
        kinds = {lock.kind for lock in report.locks if lock.name in names}
    return bool(kinds) and kinds <= set(SPINNING)


def with_impact(report: Report, finding: Finding) -> Finding:
    """The finding with all that can be said of its impact; of waits longer than the window it is at most that."""
    wait_ns = finding.impact.wait_ns
    if finding.rule in _OTHER_WAITING:
        waiters = report.window.share(wait_ns) if finding.rule in USER_RULES else None
        return replace(finding, impact=Impact(wait_ns, None, waiters))
    total = report.totals.wait_ns
    waiters = report.window.share(wait_ns)
    return replace(
        finding,
        impact=Impact(
            wait_ns,
            min(1.0, wait_ns / total) if total else None,
            waiters,
            waiters if _spins(report, finding) else None,
        ),
    )
