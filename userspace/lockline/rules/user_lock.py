# SPDX-License-Identifier: GPL-2.0-or-later
"""A lock of a program's own, in user space, that its threads wait for in the kernel (record --futex)."""

from lockline.analysis.findings import (
    Finding,
    Function,
    Impact,
    Measure,
    Process,
    Remedy,
    Task,
    Text,
    UserLock,
    fact,
    ns,
    part,
    remedy,
)
from lockline.analysis.futex import LOCK, FutexWaits
from lockline.analysis.model import Report
from lockline.analysis.user_evidence import BEHAVIOUR, GIL, GO_MUTEX, JAVA_LOCK, MONITOR, PY_MUTEX, RUST_RWLOCK, RWLOCK
from lockline.rules.common import ENOUGH_WAITS, THE_WINDOW, USER_WORTH_TELLING, released_in, share
from lockline.rules.herd import condition_of

# A wait that needs no others beside it.
LONG_NS = 1_000_000_000
# Findings of their own, and what they say, by the kind of lock.
_RULES = {GIL: "gil-bound", MONITOR: "hot-monitor"}
_CLAIMS = {
    "": "user-lock",
    BEHAVIOUR: "lock-by-behaviour",
    GIL: "gil-bound",
    PY_MUTEX: "hot-py-mutex",
    MONITOR: "hot-monitor",
    JAVA_LOCK: "hot-java-lock",
    GO_MUTEX: "hot-go-mutex",
    RWLOCK: "hot-rwlock",
    RUST_RWLOCK: "hot-rwlock",
}


def _tasks(futex: FutexWaits, role: str) -> tuple[Task, ...]:
    return tuple(Task(task.comm, task.tid) for task in futex.tasks if task.role == role)


def _remedies(make: str, process: Process, released: str, stacks: bool) -> tuple[Remedy, ...]:
    """What to do, in the language's terms."""
    if make == GIL:
        return remedy("python-processes"), remedy("python-release-gil")
    if make == PY_MUTEX:
        return (remedy("do-less-with-it-held"),)
    if make == MONITOR:
        return remedy("java-narrow-monitor"), remedy("java-lock-events")
    if make == JAVA_LOCK:
        return remedy("java-narrow-lock"), remedy("java-lock-events")
    if make == GO_MUTEX:
        return remedy("go-narrow-mutex"), remedy("go-mutex-profile")
    if make in (RWLOCK, RUST_RWLOCK):
        return remedy("shorten-rwlock"), remedy("rwlock-writers-first")
    if released:
        return remedy("shorten-function", function=Function(released)), remedy("do-less-with-it-held")
    if stacks:
        return (remedy("do-less-with-it-held"),)
    return (remedy("record-user-stacks", process=process),)


def _enough(futex: FutexWaits) -> bool:
    """Whether the waits are many, or long ones for what is known to be a lock."""
    sure = bool(futex.make) and futex.sure == "high"
    return futex.figures.waits >= ENOUGH_WAITS or (sure and futex.figures.max_ns >= LONG_NS)


def find(report: Report) -> list[Finding]:
    """Futexes that are contended locks, with a tenth of the window waited for; conditions and polls are none."""
    found = []
    for futex in report.futexes.futexes if report.futexes is not None else ():
        if futex.nature != LOCK or not _enough(futex):
            continue
        waiting = share(report, futex.figures.wait_ns)
        if waiting < USER_WORTH_TELLING or condition_of(report, futex) is not None:
            continue
        lock = UserLock(futex.futex.name, "")
        p99 = futex.figures.percentile(0.99)
        evidence = [
            fact(
                "user-waits",
                waits=Measure(futex.figures.waits, "waits"),
                average=ns(futex.figures.average_ns),
                part=part(waiting, THE_WINDOW),
                p99=None if p99 is None else ns(p99),
            ),
            fact("nature", why=Text(futex.why)),
        ]
        owners = _tasks(futex, "owner") if not futex.make else ()
        if owners:
            evidence.append(fact("owners-seen", owners=owners))
        released = released_in(futex)
        if released:
            evidence.append(fact("let-go-in", function=Function(released)))
        rule = _RULES.get(futex.make, "user-lock")
        process = Process(futex.futex.comm, futex.futex.tgid)
        found.append(
            Finding(
                rule=rule,
                subject=lock,
                confidence="high" if owners or (futex.make and futex.sure == "high") else "medium",
                claim=fact(_CLAIMS.get(futex.make, "user-lock"), process=process, lock=lock),
                evidence=tuple(evidence),
                remedies=_remedies(
                    futex.make,
                    Process("", futex.futex.tgid),
                    released,
                    any(len(stack.frames) > 1 for stack in futex.stacks),
                ),
                impact=Impact(futex.figures.wait_ns),
            )
        )
    return sorted(found, key=lambda finding: -finding.impact.wait_ns)[:3]
