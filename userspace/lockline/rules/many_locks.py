# SPDX-License-Identifier: GPL-2.0-or-later
"""Much waiting that many locks share: no lock is the cause, so what the waits have in common may be.

That nobody stands out follows from the exact sums of all waits.  What they have in common follows from samples: the
process, the program, the control group, the kernel's function that they are below, the kind of object the locks are in.
"""

from collections import Counter
from collections.abc import Callable, Iterable

from lockline.analysis.findings import (
    Confidence,
    Fact,
    Finding,
    Function,
    Impact,
    Lock,
    Machine,
    Measure,
    Process,
    Remedy,
    Subject,
    Text,
    fact,
    part,
    remedy,
)
from lockline.analysis.model import LockWaits, Report, Task
from lockline.rules.common import ALL_WAITING, ENOUGH_WAITS, MAIN_PART, callers, record_again, share

# Of all waiting together: a tenth of one CPU that spins, or of one thread that sleeps.
COST = 0.1
# Half of the sampled waiting is something in common; from three quarters on it is what to look at.
COMMON = 0.5
MOST = 0.75
# Locks that are named.
_NAMED = 4
# Each system call and each thread of the kernel comes through these.
_GENERIC = frozenset(
    (
        *("do_syscall_64", "x64_sys_call", "entry_SYSCALL_64_after_hwframe", "entry_SYSCALL_64"),
        *("do_syscall_x64", "invoke_syscall", "el0_svc", "el0_svc_common", "do_el0_svc", "el0t_64_sync"),
        *("el0t_64_sync_handler", "el0_svc_common.constprop.0", "ret_from_fork", "ret_from_fork_asm", "kthread"),
        *("worker_thread", "process_one_work"),
    )
)


def _most(weights: Counter[str], total: int) -> tuple[str, float] | None:
    """What has most of the total, and its part, if that is half or more."""
    name, most = max(weights.items(), key=lambda item: (item[1], item[0]), default=("", 0))
    return (name, most / total) if name and total and most >= COMMON * total else None


def _common_task(report: Report, key: Callable[[Task], str]) -> tuple[str, float] | None:
    weights: Counter[str] = Counter()
    for task in report.tasks:
        weights[key(task)] += task.wait_ns
    return _most(weights, weights.total())


def _common_function(locks: Iterable[LockWaits]) -> tuple[str, float] | None:
    """The function nearest to the locks that most of the waiting, for more than one lock, is below."""
    weights: Counter[str] = Counter()
    depths: Counter[str] = Counter()
    named: dict[str, set[str]] = {}
    total = 0
    for lock in locks:
        total += lock.sampled_ns
        for stack in lock.stacks:
            for depth, function in enumerate(dict.fromkeys(callers(stack.frames))):
                if function not in _GENERIC:
                    weights[function] += stack.wait_ns
                    depths[function] = max(depths[function], depth)
                    named.setdefault(function, set()).add(lock.name)
    shared = {function: ns for function, ns in weights.items() if len(named[function]) > 1}
    if not shared or max(shared.values()) < COMMON * total:
        return None
    # Of functions that call each other the inner one says more.
    enough = [function for function, ns in shared.items() if ns >= 0.95 * max(shared.values())]
    best = min(enough, key=lambda function: (depths[function], function))
    return best, shared[best] / total


def _common_type(report: Report) -> tuple[str, float] | None:
    """The type of object that locks of several names lie in, by all waits."""
    weights: Counter[str] = Counter()
    names: dict[str, set[str]] = {}
    for lock in report.locks:
        kind, dot, _ = lock.name.partition(".")
        if dot:
            weights[kind] += lock.figures.wait_ns
            names.setdefault(kind, set()).add(lock.name)
    return _most(Counter({kind: ns for kind, ns in weights.items() if len(names[kind]) > 1}), report.totals.wait_ns)


def _chosen(report: Report) -> bool:
    """Whether only some tasks were recorded: that the waits are theirs is no news."""
    return bool(report.window.filter) or bool(report.window.selection.container or report.window.selection.pod)


def _common_tasks(report: Report) -> tuple[Subject, float, Fact, Remedy | None] | None:
    """Whose the waiting is: of one process, else of one program, else of one control group."""
    sampled = "the sampled waiting"
    if _chosen(report):
        return None
    if one := _common_task(report, lambda task: str(task.tgid)):
        comm = next(task.comm for task in report.tasks if str(task.tgid) == one[0])
        process = Process(comm, int(one[0]))
        told = fact("waited-by", process=process, part=part(one[1], sampled))
        return process, one[1], told, remedy("why-of-process", process=process)
    if one := _common_task(report, lambda task: task.comm):
        program = Process(one[0], None)
        return program, one[1], fact("waited-by-all", process=program, part=part(one[1], sampled)), None
    if one := _common_task(report, lambda task: task.cgroup if task.cgroup.strip("/") else ""):
        group = Text(one[0])
        told = fact("waited-in-cgroup", cgroup=group, part=part(one[1], sampled))
        return Machine(), one[1], told, remedy("why-of-cgroup", cgroup=group)
    return None


def _in_common(report: Report) -> tuple[Subject, float, list[Fact], list[Remedy]]:
    """Who is at fault, the greatest part that the waits have in common, all that they have, and what to do."""
    subject: Subject = Machine()
    facts: list[Fact] = []
    remedies: list[Remedy] = []
    parts = [0.0]
    if tasks := _common_tasks(report):
        subject = tasks[0]
        parts.append(tasks[1])
        facts.append(tasks[2])
        remedies += [tasks[3]] if tasks[3] is not None else []
    if one := _common_function(report.locks):
        parts.append(one[1])
        facts.append(fact("below-function", function=Function(one[0]), part=part(one[1], "the sampled waiting")))
        remedies.append(remedy("call-less-often", function=Function(one[0])))
    if one := _common_type(report):
        parts.append(one[1])
        facts.append(fact("in-one-type", type=Text(one[0]), part=part(one[1], ALL_WAITING)))
    return subject, max(parts), facts or [fact("nothing-in-common")], remedies


def find(report: Report) -> list[Finding]:
    """Waiting that costs a tenth of a CPU or thread, of which no lock has a quarter."""
    total = report.totals.wait_ns
    by_name: Counter[str] = Counter()
    for lock in report.locks:
        by_name[lock.name] += lock.figures.wait_ns
    if share(report, total) < COST or report.totals.waits < ENOUGH_WAITS or len(by_name) < 2:
        return []
    heaviest = by_name.most_common(_NAMED)
    if heaviest[0][1] >= MAIN_PART * total:
        return []
    subject, best, evidence, remedies = _in_common(report)
    sure: Confidence = "medium" if best >= MOST else "low"
    named = tuple(Lock(name) for name, _ in heaviest)
    if not remedies and not report.episodes:
        remedies.append(remedy("who-holds-longest"))
    return [
        Finding(
            rule="many-locks",
            subject=subject,
            confidence=sure,
            claim=fact("many-locks", locks=Measure(len(by_name), "locks")),
            evidence=(
                *evidence,
                fact("heaviest-of-many", locks=named, part=part(sum(ns for _, ns in heaviest) / total, ALL_WAITING)),
            ),
            remedies=(*remedies, *record_again(report, "--holders", "who-hold"), remedy("each-little")),
            impact=Impact(total),
        )
    ]
