# SPDX-License-Identifier: GPL-2.0-or-later
"""What threads that do not go on say of causes: they are stopped, or wait for what nobody will end."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from lockline.analysis.findings import Function, Measure, Process, Remedy, Task, Text, UserLock, fact, remedy
from lockline.analysis.user_space.still_waits import StillWait
from lockline.investigation.model import Evidence, Hypothesis, Investigation
from lockline.investigation.stops import Standing, Stop, WaitKind

STOPPED = "stopped"
# Claims whose culprit has ended.
NOBODY_LEFT = ("why-owner-gone",)
# What threads stand at.
_RUN_TIMES: Mapping[WaitKind, str] = {
    "java": "Java monitors",
    "juc": "locks of java.util.concurrent",
    "rust": "a Mutex or RwLock of Rust",
    "python": "a lock of Python's threading",
}
# Of a process's threads, on average, from which on that is reported.
_ENOUGH = 0.25


def stops_seen(known: Investigation) -> tuple[tuple[int, Stop], ...]:
    """Whom of the target something stops, each as the last step saw it."""
    last: dict[tuple[int, str], tuple[int, Stop]] = {}
    for step, seen in known.observations:
        for stop in seen.stops:
            if stop.threads >= _ENOUGH:
                last[stop.tgid, stop.kind] = (step.number, stop)
    return tuple(last.values())


def stopped(known: Investigation) -> float:
    """Threads of the target that something stops, on average."""
    return sum(stop.threads for _, stop in stops_seen(known))


def remedies_of(stop: Stop) -> tuple[Remedy, ...]:
    """What lets a process go on."""
    process = Process(stop.comm, stop.tgid)
    if stop.kind == "signal":
        return (remedy("why-continue", process=process),)
    if stop.kind == "frozen":
        return (remedy("why-thaw", group=Text(stop.frozen_group or "its control group")),)
    if stop.by:
        return (remedy("why-end-tracer", tracer=Process(stop.by_comm, stop.by)), remedy("why-trace-less"))
    return (remedy("why-trace-less"),)


def _hypothesis(number: int, stop: Stop) -> Hypothesis:
    process = Process(stop.comm, stop.tgid)
    if stop.kind == "frozen":
        claim = fact("why-frozen", process=process, group=Text(stop.frozen_group) if stop.frozen_group else None)
    elif stop.kind == "tracer" and stop.processes > 1 and stop.by:
        claim = fact(
            "why-tracer-stops", tracer=Process(stop.by_comm, stop.by), processes=Measure(stop.processes, "processes")
        )
    elif stop.kind == "tracer":
        claim = fact(
            "why-stopped-by-tracer", tracer=Process(stop.by_comm, stop.by) if stop.by else None, process=process
        )
    else:
        claim = fact("why-stopped-by-signal", process=process)
    told = fact("why-threads-stopped", threads=Measure(stop.threads, "threads"), of=Measure(stop.of, "threads"))
    if stop.kind == "tracer" and stop.processes > 1:
        told = fact("why-tracees-stopped", threads=Measure(stop.threads, "threads"), function=Function("ptrace_stop"))
    return Hypothesis(
        cause=STOPPED,
        subject=process,
        state="likely",
        waiters=stop.threads,
        claim=claim,
        evidence=(Evidence(told, True, number),),
        remedies=remedies_of(stop),
        sure="high",
    )


def stands_whole(known: Investigation, one: Hypothesis) -> bool:
    """Whether it says that all of the target stands still: nothing else can be its cause then."""
    return one.cause == STOPPED and any(
        stop.whole and one.subject == Process(stop.comm, stop.tgid) for _, stop in stops_seen(known)
    )


def stands_at_mutex(one: Hypothesis) -> bool:
    """Whether looks alone say that threads wait for a mutex."""
    return one.cause == "user-lock" and one.finding is None and one.supported


def _waiting(one: Standing, looks: int) -> Evidence:
    function = Function(one.function) if one.function else None
    told = fact(
        "why-standing",
        threads=Measure(one.threads, "threads"),
        process=Process(one.comm, one.tgid),
        function=function,
    )
    return Evidence(told, True, looks)


def _ask_run_time(kind: WaitKind, process: Process) -> Remedy:
    """What says who has the lock that threads stand at."""
    if kind in ("java", "juc"):
        return remedy("java-thread-print", process=process)
    return remedy("python-dump", process=process) if kind == "python" else remedy("see-all-stacks", process=process)


def _at_run_time(number: int, one: Standing, asked: bool) -> Hypothesis:
    """Threads that stand at locks which name no owner; asked: as of _of_standing()."""
    process, threads = Process(one.comm, one.tgid), Measure(one.threads, "threads")
    own = one.kind == "rust" and one.function and not one.function.startswith(("std::", "core::", "<"))
    # With one Mutex somebody may wait for a client: that counts where somebody asks about the program.
    one_mutex = one.kind == "rust" and one.words == 1
    doubt = one.may_be_in_line or (one_mutex and not asked)
    return Hypothesis(
        cause="user-lock",
        subject=process,
        state="not testable" if doubt else "likely",
        waiters=0.0 if doubt else float(one.threads),
        claim=fact(
            "why-stand-at-locks",
            threads=threads,
            process=process,
            lock=Text(_RUN_TIMES[one.kind]),
            function=Function(one.function) if own else None,
        ),
        evidence=(
            Evidence(fact("why-did-not-run", threads=threads), not doubt, number),
            Evidence(fact("why-may-be-in-line") if doubt else fact("why-may-be-deadlock"), not doubt, number),
        ),
        remedies=(_ask_run_time(one.kind, process),),
        sure="low" if one_mutex or doubt else "medium",
    )


def _of_standing(number: int, one: Standing, asked: bool) -> Hypothesis | None:
    """asked: somebody asks about that program, and not about the whole machine."""
    process, threads = Process(one.comm, one.tgid), Measure(one.threads, "threads")
    if one.kind == "mutex" and one.gone:
        return Hypothesis(
            cause="lock-not-released",
            subject=process,
            state="likely",
            waiters=float(one.threads),
            claim=fact("why-owner-gone", threads=threads, process=process, owner=Text(str(one.owner))),
            evidence=(_waiting(one, number), Evidence(fact("why-owner-of-mutex"), True, number)),
            remedies=(remedy("why-make-robust"), remedy("why-start-anew")),
            sure="high",
        )
    if one.kind == "mutex" and one.owner:
        # Held for as long as it was looked, or several times: a recording that is too short sees no such wait.
        where = Function(one.function) if one.function else None
        return Hypothesis(
            cause="user-lock",
            subject=process,
            state="likely",
            waiters=float(one.threads),
            claim=fact("user-lock", process=process, lock=UserLock("", ""), where=where),
            evidence=(
                _waiting(one, number),
                Evidence(fact("why-owner-stands", owner=Text(str(one.owner))), True, number),
            ),
            remedies=(remedy("see-what-owner-does", process=process),),
            sure="medium",
        )
    if one.kind in _RUN_TIMES:
        return _at_run_time(number, one, asked)
    if one.kind == "once" and one.owner:
        owner = Task(one.owner_comm, one.owner)
        inside = Function(one.owner_in) if one.owner_in else None
        return Hypothesis(
            cause="lock-not-released",
            subject=owner,
            state="likely",
            waiters=float(one.threads),
            claim=fact("why-once", threads=threads, process=process, owner=owner),
            evidence=(_waiting(one, number), Evidence(fact("why-once-in", owner=owner, function=inside), True, number)),
            remedies=(remedy("see-what-owner-does", process=Process("", one.tgid)),),
            sure="high",
        )
    if one.kind == "go" and asked:
        return Hypothesis(
            cause="goroutines-at-rest",
            subject=process,
            state="not testable",
            waiters=0.0,
            claim=fact("why-goroutines-at-rest", process=process),
            evidence=(Evidence(fact("why-ask-goroutines", process=process), False, number),),
        )
    if one.kind == "semaphore":
        against = fact("why-idle-or-not", process=process)
        return Hypothesis(
            cause="semaphore-not-posted",
            subject=process,
            state="not testable",
            waiters=0.0,
            claim=fact(
                "why-not-posted",
                threads=threads,
                process=process,
                function=Function(one.function) if one.function else None,
            ),
            evidence=(Evidence(against, False, number),),
        )
    return None


def _as_recorded(known: Investigation, standing: Sequence[Standing]) -> Sequence[Standing]:
    """What looks alone saw, by what recordings have of these threads.

    Those who wait for a thread's end are left out.  Two or more that each wait at a word of their own, as in a circle,
    and those who wait for a lock of java.util.concurrent, are known by their functions alone.
    """
    still = {(one.tgid, one.word): one for _, seen in known.observations for one in seen.still}
    joins = {place for place, one in still.items() if one.joins}
    kept = [one for one in standing if one.kind != "python" or one.words > 1 or (one.tgid, one.word) not in joins]
    told = {(one.tgid, one.kind) for one in kept}
    alone: defaultdict[tuple[int, WaitKind], list[StillWait]] = defaultdict(list)
    for one in still.values():
        if not one.joins and (one.tgid, one.kind) not in told:
            alone[one.tgid, one.kind].append(one)
    for (tgid, kind), of in alone.items():
        if len(of) > 1:
            threads = sum(one.threads for one in of)
            kept.append(Standing(kind, of[0].comm, tgid, of[0].word, threads, of[0].function, words=len(of)))
    return kept


def of_stops(known: Investigation) -> list[Hypothesis]:
    """Whether something stops threads of the target, or they wait for what nobody will end."""
    found = [_hypothesis(number, stop) for number, stop in stops_seen(known)]
    steps = [(step.number, seen.sleeps) for step, seen in known.observations if seen.sleeps is not None]
    if steps:
        number, sleeps = steps[-1]
        asked, standing = bool(known.target.tgids), _as_recorded(known, sleeps.standing)
        found += [made for one in standing if (made := _of_standing(number, one, asked)) is not None]
    return found
