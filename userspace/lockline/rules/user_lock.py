# SPDX-License-Identifier: GPL-2.0-or-later
"""A lock of a program's own, in user space, that its threads wait for in the kernel (record --futex)."""

from collections import defaultdict

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
from lockline.analysis.user_locks import BEHAVIOUR, GIL, GO_MUTEX, JAVA_LOCK, MONITOR, PY_MUTEX
from lockline.rules.common import ENOUGH_WAITS, THE_WINDOW, share

# A tenth of one thread's time.
WORTH_TELLING = 0.1

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
}


def _tasks(futex: FutexWaits, role: str) -> tuple[Task, ...]:
    return tuple(Task(task.comm, task.tid) for task in futex.tasks if task.role == role)


# Of the C library and of run times, around a wake: not where the lock is released.
_NO_RELEASES = (
    *("pthread_", "__pthread_", "___pthread_", "__GI_", "__lll_", "sem_", "futex", "__futex", "syscall"),
    *("_ZN13ObjectMonitor", "ObjectMonitor::", "_ZN13SharedRuntime", "SharedRuntime::", "Unsafe_", "Parker::"),
    *("ObjectSynchronizer::", "InterpreterRuntime::", "Runtime1::", "OptoRuntime::", "os::Platform", "PlatformEvent::"),
    *("JavaCalls::", "JavaThread::", "Thread::call_run", "thread_entry", "thread_native_entry"),
    *("start_thread", "__clone"),
    *("std::thread::_", "std::sys::", "std::mutex::", "std::condition_variable::"),
    *("drop_gil", "PyEval_", "_PyEval_", "runtime.", "sync.", "internal/sync."),
)


def released_in(futex: FutexWaits) -> str:
    """The program's function that most of the sampled wakes come from; '' if none is known."""
    by_function: defaultdict[str, int] = defaultdict(int)
    for stack in futex.stacks:
        names = [frame.symbol for frame in stack.frames if frame.symbol and not frame.symbol.startswith(_NO_RELEASES)]
        if stack.role == "waker" and names:
            by_function[names[0]] += stack.samples
    return max(sorted(by_function), key=lambda name: by_function[name], default="")


def _remedies(make: str, process: Process) -> tuple[Remedy, ...]:
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
    return (remedy("record-user-stacks", process=process),)


def find(report: Report) -> list[Finding]:
    """Futexes that are contended locks, with a tenth of the window waited for; conditions and polls are none."""
    found = []
    for futex in report.futexes.futexes if report.futexes is not None else ():
        if futex.nature != LOCK or futex.figures.waits < ENOUGH_WAITS:
            continue
        waiting = share(report, futex.figures.wait_ns)
        if waiting < WORTH_TELLING:
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
                claim=fact(_CLAIMS[futex.make], process=process, lock=lock),
                evidence=tuple(evidence),
                remedies=_remedies(futex.make, Process("", futex.futex.tgid)),
                impact=Impact(futex.figures.wait_ns),
            )
        )
    return sorted(found, key=lambda finding: -finding.impact.wait_ns)[:3]
