# SPDX-License-Identifier: GPL-2.0-or-later
"""Why a lock of a program is waited for so long: what looks at the threads that use it tell of its holder."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from lockline.analysis.findings import (
    Confidence,
    Fact,
    Function,
    Measure,
    Process,
    Remedy,
    Subject,
    Task,
    Text,
    UserLock,
    fact,
    part,
    remedy,
)
from lockline.analysis.sleep_functions import FREE_MEMORY, other_of, stop_of
from lockline.investigation import probes
from lockline.investigation.model import Evidence, Holders, Hypothesis, Investigation, Step, UserLockSeen
from lockline.investigation.still import remedies_of
from lockline.investigation.stops import Stop

# Of the time of a hold, or of looks at a holder: what it mostly does, and what it does not do.
MOSTLY = 0.5
HARDLY = 0.25
# Looks from which on they say something.
ENOUGH_LOOKS = 8
# How long a group must be stopped to be a cause.
THROTTLED = 0.1
# The part of the time that a thread wants a CPU and has none, beside others that want one too.
DELAYED = 0.6
# Of its fair part of the CPUs: who gets less of it is kept from running, whatever others do.
FAIR = 0.5
# Moments with waiters at which several threads at once have what these wait for: it is no lock then.
POOL = 0.65
# Threads that sleep with it on average, over all moments: those of a lock that computes hardly ever do.
_PLACES = 0.75
POOL_CAUSE = "small-pool"
# Tasks for each CPU, from which on the CPUs are short.
SHORT_OF_CPUS = 1.5
# CPUs that lockline itself used while it looked, from which on it may be what a holder waits for.
_USED_BY_US = 0.25


def holder_sleeps(
    lock: Subject, part_: float, waiters: float, function: str, evidence: Evidence, enough: bool
) -> Hypothesis:
    """Whether the holder of a lock sleeps with it held, for that part of the time; enough: to be sure."""
    state: Literal["likely", "ruled out"] = "likely" if part_ >= MOSTLY else "ruled out"
    where = Function(function) if function and part_ >= MOSTLY else None
    remedies: tuple[Remedy, ...] = (remedy("why-move-out", function=where, lock=lock),) if where else ()
    return Hypothesis(
        cause="holder-sleeps",
        subject=lock,
        state=state,
        waiters=waiters * part_,
        claim=fact("why-holder-sleeps", lock=lock, function=where),
        evidence=(replace(evidence, supports=state == "likely"),),
        remedies=remedies or (remedy("why-sleep-less", lock=lock),),
        sure="high" if enough and part_ >= 0.7 else "medium",
    )


def holder_no_cpu(
    lock: Subject,
    part_: float,
    waiters: float,
    throttled: bool,
    evidence: Sequence[Evidence],
    enough: bool,
    group: str = "",
) -> Hypothesis:
    """Whether the holder of a lock wants a CPU and has none, or a CPU limit stops it, for that part of the time.

    group: whose limit that is, "" if it is not known.
    """
    state: Literal["likely", "ruled out"] = "likely" if part_ >= MOSTLY else "ruled out"
    return Hypothesis(
        cause="holder-throttled" if throttled else "holder-no-cpu",
        subject=lock,
        state=state,
        waiters=waiters * part_,
        claim=(
            fact("why-holder-throttled", lock=lock, group=Text(group) if group else None)
            if throttled
            else fact("why-holder-no-cpu", lock=lock)
        ),
        evidence=tuple(replace(one, supports=state == "likely") for one in evidence),
        remedies=(remedy("raise-cpu-limit"),) if throttled else (remedy("why-more-cpu"),),
        sure="high" if throttled and enough else "medium",
    )


def _looked(holders: Holders) -> Fact:
    return fact(
        "why-looks",
        looks=Measure(holders.looks, "moments"),
        known=Measure(holders.known, "moments"),
        holder=holders.holder or (Text(holders.comm) if holders.comm else None),
        running=part(holders.running - holders.wants_cpu, "these moments"),
        waiting=part(holders.wants_cpu, "these moments"),
        asleep=part(holders.sleeping + holders.disk, "these moments"),
        function=Function(holders.sleeps_in)
        if holders.sleeps_in and holders.sleeping + holders.disk >= HARDLY
        else None,
    )


def _asleep(number: int, lock: UserLock, waiters: float, holders: Holders, enough: bool) -> Hypothesis:
    """Whether the holder of a program's lock sleeps with it held, and what for; enough: to be sure that it has it."""
    looked = Evidence(_looked(holders), True, number)
    found = holder_sleeps(lock, holders.sleeping + holders.disk, waiters, holders.sleeps_in, looked, enough)
    if found.state != "likely":
        return found
    stop, what = holders.stop, other_of(holders.sleeps_in)
    if stop is not None and stop_of(holders.sleeps_in) == stop.kind:
        return replace(found, claim=_stopped_holder(lock, stop), remedies=remedies_of(stop))
    if not what:
        return found
    told = fact("why-sleeps-for", function=Function(holders.sleeps_in), reason=Text(what))
    short = (remedy("why-more-memory"),) if what == FREE_MEMORY else ()
    return replace(found, evidence=(*found.evidence, Evidence(told, True, number)), remedies=(*short, *found.remedies))


def _stopped_holder(lock: UserLock, stop: Stop) -> Fact:
    holder = Process(stop.comm, stop.tgid)
    if stop.kind == "frozen":
        group = Text(stop.frozen_group) if stop.frozen_group else None
        return fact("why-holder-frozen", holder=holder, lock=lock, group=group)
    if stop.kind == "tracer":
        tracer = Task(stop.by_comm, stop.by) if stop.by else None
        return fact("why-holder-traced", tracer=tracer, holder=holder, lock=lock)
    return fact("why-holder-stopped", holder=holder, lock=lock)


def _pool(number: int, lock: UserLockSeen, holders: Holders) -> Hypothesis:
    """Several threads at once have what others wait for: places of a pool, connections, slots."""
    subject = UserLock(lock.name, lock.mapping)
    function = Function(holders.sleeps_in) if holders.sleeps_in else None
    told = fact(
        "why-together",
        part=part(holders.together, "the moments at which one slept"),
        places=Measure(holders.places, "threads"),
        function=function,
    )
    return Hypothesis(
        cause=POOL_CAUSE,
        subject=subject,
        state="likely",
        waiters=lock.waiters,
        claim=fact("why-pool", lock=subject, process=Process(lock.comm, lock.tgid), function=function),
        evidence=(Evidence(told, True, number),),
        remedies=(remedy("why-larger-pool", lock=subject), remedy("why-shorter-use", function=function)),
        sure="medium",
    )


def _with_place(one: Hypothesis, number: int, lock: UserLockSeen) -> Hypothesis:
    """With the program's function that threads wait in, where that is known."""
    if not lock.where or one.state != "likely":
        return one
    return replace(
        one, evidence=(*one.evidence, Evidence(fact("why-waited-in", function=Function(lock.where)), True, number))
    )


def of_program_lock(known: Investigation, lock: UserLockSeen) -> list[Hypothesis]:
    """Why a program's lock is waited for so long."""
    subject = UserLock(lock.name, lock.mapping)
    # No thread has it, or a finding says already what those that have it do.
    told_asleep = any(found.rule == "held-over-sleep" for _, one in known.observations for found in one.findings)
    if lock.goroutines or told_asleep:
        return []
    looks = [(step, seen.holders) for step, seen in known.observations if seen.holders is not None]
    claims = [("holder-no-cpu", fact("why-holder-no-cpu", lock=subject))]
    # Nobody has a queue, so that nobody can sleep with it held: the finding has who takes from it.
    if not lock.queue:
        claims.insert(0, ("holder-sleeps", fact("why-holder-sleeps", lock=subject)))
    groups = [
        (step.number, seen.counters)
        for step, seen in known.observations
        if seen.counters.throttled is not None and seen.counters.throttled >= THROTTLED
    ]
    found: list[Hypothesis] = []
    if groups:
        number, counters = max(groups, key=lambda one: one[1].throttled or 0.0)
        stopped = counters.throttled or 0.0
        evidence = [
            Evidence(
                fact("why-throttled", group=Text(counters.throttled_group), part=part(stopped, "the time")),
                True,
                number,
            )
        ]
        told = holder_no_cpu(
            subject, max(stopped, MOSTLY), lock.waiters, True, evidence, stopped >= HARDLY, counters.throttled_group
        )
        found.append(replace(told, sure="high" if stopped >= HARDLY else "medium"))
    if not looks:
        found += [
            Hypothesis(cause, subject, "open", 0.4 * lock.waiters, claim, tests=(probes.THREADS,))
            for cause, claim in claims
            if not (found and cause == "holder-no-cpu")
        ]
        return found
    step, holders = looks[-1]
    number = step.number
    if holders.known < ENOUGH_LOOKS:
        evidence_few = (Evidence(fact("why-few-looks", looks=Measure(holders.known, "moments")), False, number),)
        found += [
            Hypothesis(cause, subject, "not testable", 0.2 * lock.waiters, claim, evidence_few)
            for cause, claim in claims
            if not (found and cause == "holder-no-cpu")
        ]
        return found
    if lock.owned_by and not holders.exact:
        # Who has it changed faster than it was looked at: who does not wait is no holder for that.
        changed = Evidence(fact("why-owner-changes", looks=Measure(holders.owners, "moments")), False, number)
        return found or [
            Hypothesis(cause, subject, "not testable", 0.2 * lock.waiters, claim, (changed,)) for cause, claim in claims
        ]
    # Where one thread alone can have it, who sleeps has it; what several share lets others go on for another reason.
    counts = lock.counts and not holders.exact
    if counts and holders.together >= POOL and holders.places >= _PLACES:
        return [*found, _with_place(_pool(number, lock, holders), number, lock)]
    if found:
        # Who that is.
        return [replace(one, evidence=(*one.evidence, Evidence(_looked(holders), True, number))) for one in found]
    sleeps = _asleep(number, subject, lock.waiters, holders, not counts)
    no_cpu = _unless_by_us(_wants_cpu(number, subject, lock.waiters, holders), step)
    if lock.queue and sleeps.claim.what == "why-holder-sleeps":
        return [no_cpu]
    return [_with_place(sleeps, number, lock), no_cpu]


def passed_on(known: Investigation, found: Sequence[Hypothesis], lock: UserLockSeen) -> list[Hypothesis]:
    """With the waiting that is another lock's doing, because the holder of this one waits for that one meanwhile.

    The recording knows such a chain by looks at the holder when a wait begins.  Where threads come back as soon as the
    lock was let go, these are all just after that.  The looks at threads are spread over the time.
    """
    looks = [(step.number, seen.holders) for step, seen in known.observations if seen.holders is not None]
    if not looks:
        return list(found)
    number, holders = looks[-1]
    address, moments = holders.behind
    every = holders.owners + moments
    if every < ENOUGH_LOOKS or moments < HARDLY * every:
        return list(found)
    part_ = moments / every
    others = [one for _, seen in known.observations for one in seen.user_locks if one.address == address]
    subject = UserLock(lock.name, lock.mapping)
    other = UserLock(others[-1].name, others[-1].mapping) if others else UserLock("", "")
    told = fact("holder-waited-for", part=part(part_, "the looks"), looks=Measure(every, "looks"), lock=other)

    def passed(one: Hypothesis) -> Hypothesis:
        if not one.supported or one.subject not in (subject, other):
            return one
        if any(evidence.fact.what == told.what for evidence in one.evidence):
            # The recording has passed it on.
            return one
        # Seen twice, "medium" would be proven.
        unknown = not others and part_ >= MOSTLY
        sure: Confidence = "low" if unknown else "medium" if one.sure == "high" else one.sure
        if one.subject == other:
            return replace(one, waiters=one.waiters + part_ * lock.waiters, sure=sure)
        waiters = one.waiters * (1 - part_) if others else one.waiters
        return replace(one, waiters=waiters, sure=sure, evidence=(*one.evidence, Evidence(told, False, number)))

    return [passed(one) for one in found]


def _unless_by_us(one: Hypothesis, looks: Step) -> Hypothesis:
    """The same, unless the looks themselves used so much of the CPUs that the holder may have waited for them."""
    used = looks.cost.share * looks.cost.cpus if looks.cost is not None else 0.0
    if one.state != "likely" or used < _USED_BY_US:
        return one
    told = Evidence(fact("why-used-by-us", used=Measure(used, "CPUs")), False, looks.number)
    return replace(
        one, state="not testable", evidence=(*(replace(told, supports=False) for told in one.evidence), told)
    )


def _wants_cpu(number: int, lock: UserLock, waiters: float, holders: Holders) -> Hypothesis:
    """Whether the holder of a program's lock mostly waits for a CPU.

    If the lock names its holder, what that one does is known.  Else all threads that use the lock stand for it: on a
    machine where everything waits for a CPU they do so too, and that does not show what happens with the lock held.
    If these threads keep the CPUs busy themselves, and the holder gets its fair part, it waits for those that the lock
    lets on: then the lock is the cause.
    """
    delayed, tasks = holders.delayed or 0.0, holders.tasks
    told = [Evidence(fact("why-delayed", part=part(delayed, "the time in which its threads wanted one")), True, number)]
    short = tasks >= SHORT_OF_CPUS * holders.cpus > 0
    if short:
        wanted = fact("why-short-of-cpus", tasks=Measure(tasks, "tasks"), cpus=Measure(holders.cpus, "CPUs"))
        told.append(Evidence(wanted, True, number))
    fair = short and 1 - delayed >= FAIR * holders.cpus / tasks
    own = holders.used_cpus >= MOSTLY * holders.cpus
    if fair and own:
        used = fact(
            "why-own-threads", used=Measure(holders.used_cpus, "CPUs"), cpus=Measure(holders.cpus, "CPUs"), lock=lock
        )
        told.append(Evidence(used, False, number))
    as_all = fair and (own or not holders.exact)
    share = 0.0 if as_all or (delayed < DELAYED and not holders.exact) else holders.wants_cpu
    found = holder_no_cpu(lock, share, waiters, False, told, True)
    if found.state != "likely":
        return found
    whom = replace(found, evidence=(*found.evidence, Evidence(_looked(holders), True, number)))
    first = holders.holder if holders.comes_last else None
    raised = (remedy("why-raise-priority", holder=first, nice=Text(str(holders.nice))),) if first is not None else ()
    if holders.before is not None:
        claim = fact("why-holder-no-cpu", lock=lock, before=holders.before)
        return replace(whom, claim=claim, remedies=(remedy("why-real-time", task=holders.before), *raised), sure="high")
    if short:
        many, few = Measure(tasks, "tasks"), Measure(holders.cpus, "CPUs")
        whom = replace(whom, claim=fact("why-holder-no-cpu", lock=lock, tasks=many, cpus=few))
    return replace(whom, remedies=(*raised, *whom.remedies))
