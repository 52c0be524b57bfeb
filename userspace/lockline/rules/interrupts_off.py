# SPDX-License-Identifier: GPL-2.0-or-later
"""Long holds, or long spinning, with interrupts off: that CPU serves no device and no timer meanwhile."""

from collections import Counter, defaultdict

from lockline.analysis.answer import NEGLIGIBLE_WAIT_NS, is_spinning
from lockline.analysis.findings import (
    Cpu,
    Fact,
    Finding,
    Function,
    Impact,
    Lock,
    Measure,
    Remedy,
    Task,
    fact,
    ns,
    part,
    remedy,
)
from lockline.analysis.model import OutlierWait, Report
from lockline.analysis.stolen import by_host, steal
from lockline.rules.common import MS, US, WORTH_TELLING, callers, share, who

# Shorter ones are not looked at: most kernels have drivers that keep interrupts off for as long.
LONG_HOLD_NS = 500 * US
LONG_WAIT_NS = 1 * MS

# Where so many locks stall alike, and none of them has half of it, whoever stops CPUs from outside is at work.
STALLED_LOCKS = 4
ONE_LOCK = 0.5

_TAKES = ("_raw_spin_lock_irqsave", "_raw_spin_lock_irq", "_raw_write_lock_irqsave", "_raw_write_lock_irq")
# Locks that the kernel takes with interrupts off wherever it does, by any function: of run queues, their tasks, timers.
_ALWAYS_OFF = ("runqueues.", "task_struct.pi_lock", "hrtimer_bases.lock")
_PLAIN = ("_raw_spin_lock", "native_queued_spin_lock_slowpath", "queued_spin_lock_slowpath")
_RELEASES = ("_raw_spin_unlock_irqrestore", "_raw_spin_unlock_irq", "_raw_write_unlock_irqrestore")


def _first(functions: list[str], among: tuple[str, ...]) -> Function:
    return Function(next(function for function in functions if function in among))


def _why_off(functions: list[str]) -> Fact:
    if any(function in _TAKES for function in functions):
        return fact("inferred-from-taking")
    return fact("always-taken-off")


def _matters(report: Report, longest_ns: int, total_ns: int) -> bool:
    """Whether anybody would notice: often, or once for long.  Who runs a real-time kernel notices each."""
    realtime = "PREEMPT_RT" in (report.host.kernel_version or "")
    return realtime or longest_ns >= NEGLIGIBLE_WAIT_NS or share(report, total_ns) >= WORTH_TELLING


def _stalled_locks(report: Report) -> int:
    """How many locks have long spinning waits, if that is the CPUs' matter and not one lock's; else 0."""
    stalled = Counter[str]()
    for wait in report.outliers:
        if wait.wait_ns >= LONG_WAIT_NS and is_spinning(wait.kind):
            stalled[wait.lock] += wait.wait_ns
    spread = len(stalled) >= STALLED_LOCKS and max(stalled.values()) <= ONE_LOCK * stalled.total()
    return len(stalled) if spread else 0


def _takes(wait: OutlierWait) -> tuple[str, ...]:
    return _TAKES + (_PLAIN if wait.lock.startswith(_ALWAYS_OFF) else ())


def _is_off(wait: OutlierWait) -> bool:
    return is_spinning(wait.kind) and any(frame.symbol in _takes(wait) for frame in wait.stack)


def _of_cpu(waits: list[OutlierWait], stalled: int, taken: float | None, looked: bool) -> Finding:
    """Of one CPU and one lock; the longest wait tells the story.

    stalled: how many locks stall, if it is all of them.  taken: the part of the CPUs' time that the host took away, if
    that explains all such waits.
    """
    longest = max(waits, key=lambda wait: wait.wait_ns)
    functions = [frame.symbol for frame in longest.stack]
    site = callers(longest.stack)
    cpu = Cpu(longest.cpu)
    return Finding(
        rule="interrupts-off",
        subject=cpu,
        confidence="low" if stalled or taken is not None else "medium",
        claim=fact(
            "spun-interrupts-off",
            cpu=cpu,
            lock=Lock(longest.lock),
            waited=ns(longest.wait_ns),
            waits=Measure(len(waits), "waits") if len(waits) > 1 else None,
        ),
        evidence=(
            fact(
                "waited-in",
                waiter=Task(longest.task.comm, longest.task.tid, longest.container),
                function=_first(functions, _takes(longest)),
                caller=Function(site[0]) if site else None,
            ),
            _why_off(functions),
            *((fact("many-locks-stall", locks=Measure(stalled, "locks"), limit=ns(LONG_WAIT_NS)),) if stalled else ()),
            *((fact("stolen", part=part(taken, "the time of all CPUs")),) if taken is not None else ()),
        ),
        remedies=(_remedy(cpu, stalled, taken, looked),),
        impact=Impact(sum(wait.wait_ns for wait in waits)),
    )


def _remedy(cpu: Cpu, stalled: int, taken: float | None, looked: bool) -> Remedy:
    if taken is not None:
        return remedy("own-cpus-for-guest")
    if stalled:
        return remedy("find-who-stops-cpus")
    return remedy("see-episode") if looked else remedy("find-holder", cpu=cpu)


def _waits(report: Report) -> list[Finding]:
    waits: defaultdict[tuple[int, str], list[OutlierWait]] = defaultdict(list)
    for wait in report.outliers:
        if wait.wait_ns >= LONG_WAIT_NS and _is_off(wait):
            waits[wait.cpu, wait.lock].append(wait)
    stalled = _stalled_locks(report)
    taken = steal(report) if by_host(report) else None
    found = [
        _of_cpu(some, stalled, taken, bool(report.episodes))
        for some in waits.values()
        if _matters(report, max(wait.wait_ns for wait in some), sum(wait.wait_ns for wait in some))
    ]
    return sorted(found, key=lambda finding: -finding.impact.wait_ns)[:1]


def _holds(report: Report) -> list[Finding]:
    found = []
    for lock in report.locks:
        for holder in lock.holders:
            if holder.max_caused_ns < LONG_HOLD_NS:
                continue
            if not _matters(report, holder.max_caused_ns, holder.caused_ns):
                continue
            for stack in holder.stacks:
                functions = [frame.symbol for frame in stack.frames]
                if not any(function in _RELEASES for function in functions):
                    continue
                site = callers(stack.frames)
                subject = Lock(lock.name)
                found.append(
                    Finding(
                        rule="interrupts-off",
                        subject=subject,
                        confidence="low",
                        claim=fact("held-interrupts-off", lock=subject, most=ns(holder.max_caused_ns)),
                        evidence=(
                            fact(
                                "released-in",
                                holder=who(holder),
                                caused=ns(holder.max_caused_ns),
                                function=_first(functions, _RELEASES),
                                caller=Function(site[0]) if site else None,
                            ),
                            fact("inferred-from-release"),
                        ),
                        remedies=(remedy("shorten-section", lock=subject),),
                        impact=Impact(holder.caused_ns),
                    )
                )
                break
    return sorted(found, key=lambda finding: -finding.impact.wait_ns)[:1]


def find(report: Report) -> list[Finding]:
    """The most spinning of one CPU, and the worst holder, that are inferred to be with interrupts off."""
    return _waits(report) + _holds(report)
