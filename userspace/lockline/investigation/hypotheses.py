# SPDX-License-Identifier: GPL-2.0-or-later
"""What may be the cause, with what speaks for it and against it: made anew of all steps after each of them."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from lockline.analysis.answer import (
    CONFIDENCE,
    EFFECTS,
    NEGLIGIBLE_SHARE,
    NEGLIGIBLE_WAIT_NS,
    OVERUSED,
    SHORT_NS,
    STANDSTILLS,
)
from lockline.analysis.findings import (
    Confidence,
    Fact,
    Finding,
    Function,
    Lock,
    Measure,
    Process,
    Subject,
    Task,
    Text,
    UserLock,
    fact,
    ns,
    part,
    remedy,
)
from lockline.analysis.user_space.hidden_waits import SCHEDULERS, HiddenWaits
from lockline.analysis.user_space.user_evidence import Goroutines
from lockline.investigation import probes
from lockline.investigation.chain import of_chain
from lockline.investigation.elsewhere import POLLING, blocked_elsewhere, of_sleeps, sleeps_seen
from lockline.investigation.in_program import HARDLY, MOSTLY, holder_no_cpu, holder_sleeps, of_program_lock, passed_on
from lockline.investigation.lines import fought_over, of_lines
from lockline.investigation.little import BUSY_WAITERS, SHORT_OF_MEMORY, most_waited, of_program_waiting
from lockline.investigation.machine import CLOCK_CAUSE, TRACERS, of_clock, of_perturbation, of_tracers, reading_clocks
from lockline.investigation.model import (
    Blamed,
    Evidence,
    Holding,
    Hypothesis,
    Investigation,
    Observation,
    UserLockSeen,
    WaitedLock,
)
from lockline.investigation.ranking import HELD_BY_OTHERS, names_of, neighbour, rank
from lockline.investigation.running import of_spins, spinning
from lockline.investigation.sleeps import Sleeps
from lockline.investigation.still import NOBODY_LEFT, of_stops, stands_at_mutex, stands_whole, stopped
from lockline.rules.common import USER_RULES

# Of all waiting, from where on one lock is looked into.
MAIN = 0.25
# Of an owner that may have let go since: from here on it did not stand still.
OWNER_RAN = 0.7
# Long waits with a holder from which on they say something.
ENOUGH_HOLDS = 3
# A wait so long may be one for a holder that does not run; shorter ones are for holders at work.
LONG_NS = 1_000_000
# A hold so long is not a hand-off.
HOLD_NS = 50_000
# Threads that wait for locks of programs, as long as nobody has looked.
_EXPECTED_USER = 0.5
# Threads from which on a wait that may be one for a lock is reported.
UNCLEAR_WAITERS = 0.1
# Findings about lockline, not about the load.
_OWN = ("perturbation",)
# What their holder does follows from what they are.
_SELF_EXPLAINED = ("gil-bound", "gvl-bound", "master-lock-bound", *STANDSTILLS)


# The part of its waiting that one process is to blame for, and waits, from which on that is sure.
_BLAMED_SURELY = 0.8
_ENOUGH_BLAMED = 20
# More than any rank: of a process that stands still as a whole, whatever its threads wait for.
WHOLE = 1e12
# Of waiting that is there, but was not measured.
UNSEEN_WAITING = ("hidden-waits", "unclear-wait", "unseen-goroutines")


def _identity(subject: Subject) -> tuple[object, ...]:
    """What stays the same of a subject from one step to the next."""
    match subject:
        case Lock(name):
            return ("lock", name)
        case Task(comm, _):
            return ("task", comm)
        case _:
            return (subject,)


def _waiters(finding: Finding, seen: Observation) -> float:
    return finding.impact.wait_ns / seen.duration_ns if seen.duration_ns else 0.0


def _nobody_traced(known: Investigation) -> bool:
    """Whether no process that matters is traced: a tracer of others is nothing to whom this is about."""
    counted = [seen.counters.traced for _, seen in known.observations if seen.counters.traced is not None]
    return bool(counted) and max(counted) == 0


def _from_findings(known: Investigation) -> list[Hypothesis]:
    """What the rules found, by subject: of several steps the surest, then the one of most waiting."""
    best: dict[tuple[object, ...], Hypothesis] = {}
    steps = defaultdict[tuple[object, ...], set[int]](set)
    for step, seen in known.observations:
        if seen.not_enough:
            continue
        short = seen.duration_ns < SHORT_NS
        for finding in seen.findings:
            if finding.rule in (*_OWN, CLOCK_CAUSE) or (finding.rule in TRACERS and _nobody_traced(known)):
                continue
            waiters = _waiters(finding, seen)
            if finding.rule in EFFECTS and waiters < NEGLIGIBLE_SHARE:
                # One long wait: it says what came of it, and explains next to none of the waiting.
                continue
            # That a lock is busy is one claim: how many waits there are, and how long, changes from step to step.
            key = ("busy" if finding.rule in OVERUSED else finding.rule, _identity(finding.subject))
            steps[key].add(step.number)
            made = Hypothesis(
                cause=finding.rule,
                subject=finding.subject,
                state="likely",
                waiters=waiters,
                claim=finding.claim,
                evidence=tuple(Evidence(one, True, step.number) for one in finding.evidence),
                remedies=finding.remedies,
                finding=finding,
                # A moment may not be like the rest.
                sure="medium" if short and finding.confidence == "high" else finding.confidence,
            )
            other = best.get(key)
            if other is None:
                best[key] = made
                continue
            rank, before = CONFIDENCE[made.sure] * waiters, CONFIDENCE[other.sure] * other.waiters
            surer = CONFIDENCE[made.sure] > CONFIDENCE[other.sure]
            better = made if surer or (made.sure == other.sure and rank > before) else other
            # One step may have found it of readers, and of writers.
            best[key] = replace(better, seen=len(steps[key]))
    return [
        one
        if one.seen == 1
        else replace(
            one, evidence=(*one.evidence, Evidence(fact("why-seen-again", steps=Measure(one.seen, "steps")), True, 0))
        )
        for one in best.values()
    ]


def _user_seen(known: Investigation) -> tuple[int, Observation] | None:
    """The last step that looked at locks of programs."""
    found = [(step.number, seen) for step, seen in known.observations if seen.user_waiters is not None]
    return found[-1] if found else None


def waiting(known: Investigation) -> tuple[float, float | None]:
    """Threads that wait on average for the kernel's locks, and for locks of programs (None: nobody looked).

    Locks of files and semaphores are the kernel's, and so is waiting on CPUs counted, which is for no futex.
    """
    kernel = [seen.kernel_waiters for _, seen in known.observations if not seen.not_enough]
    user = _user_seen(known)
    elsewhere = blocked_elsewhere(known) + spinning(known) + stopped(known) + fought_over(known) + reading_clocks(known)
    return max(kernel, default=0.0) + elsewhere, None if user is None else user[1].user_waiters


def most_for_programs(known: Investigation) -> float | None:
    """Threads that may sleep for locks of programs, at most, where no futexes were recorded; None: nobody looked.

    Who spins for one is sampled.
    """
    looked = [seen.sleeps.most_at_futex for _, seen in known.observations if seen.sleeps is not None]
    found = [one for one in looked if one is not None]
    return min(found, default=None)


def asleep_at_futexes(known: Investigation) -> Sleeps | None:
    """The looks that saw threads sleep at futexes, where no recording says what they wait for.

    None: the processes were not named (most of a machine's threads wait for work), nobody looked, or it is less than
    one thread on average.
    """
    looked = sleeps_seen(known) if known.target.tgids and _user_seen(known) is None else None
    return looked[1] if looked is not None and looked[1].futex_sleepers >= 1 else None


def main_lock(known: Investigation) -> tuple[int, WaitedLock, Observation] | None:
    """The kernel's lock that is worth looking into, as the step saw it that saw most of it."""
    found = [
        (step.number, lock, seen)
        for step, seen in known.observations
        for lock in seen.locks[:1]
        if not seen.not_enough and lock.part >= MAIN and _matters(seen)
    ]
    return max(found, key=lambda one: one[1].waiters, default=None)


def main_user_lock(known: Investigation) -> tuple[int, UserLockSeen] | None:
    """The lock of a program that is worth looking into."""
    seen = _user_seen(known)
    if seen is None or not seen[1].user_locks or (seen[1].user_waiters or 0.0) < NEGLIGIBLE_SHARE:
        return None
    first = seen[1].user_locks[0]
    return (seen[0], first) if first.waiters >= MAIN * (seen[1].user_waiters or 0.0) else None


def main_goroutines(known: Investigation) -> Goroutines | None:
    """The program in Go whose goroutines are worth following."""
    seen, lock = _user_seen(known), main_user_lock(known)
    if lock is not None and lock[1].goroutines:
        return Goroutines(lock[1].comm, lock[1].tgid, 0)
    return seen[1].goroutines[0] if seen is not None and seen[1].goroutines else None


def _matters(seen: Observation) -> bool:
    """Whether waiting for the kernel's locks is more than negligible."""
    return seen.kernel_waiters >= NEGLIGIBLE_SHARE or seen.longest_ns >= NEGLIGIBLE_WAIT_NS


def _kernel(known: Investigation) -> list[Hypothesis]:
    """Whether the kernel's locks hold anything back at all."""
    claim = fact("why-kernel-locks")
    seen = [(step.number, one) for step, one in known.observations if not one.not_enough]
    if not seen:
        return [Hypothesis("kernel-locks", None, "open", 1.0, claim, tests=(probes.TOTALS,))]
    if any(_matters(one) for _, one in seen):
        return []
    number, most = max(seen, key=lambda one: one[1].kernel_waiters)
    against = fact(
        "why-little-waiting",
        waits=Measure(most.waits, "waits"),
        part=part(most.kernel_waiters, "one thread's time"),
        longest=ns(most.longest_ns),
    )
    return [Hypothesis("kernel-locks", None, "ruled out", 0.0, claim, (Evidence(against, False, number),))]


def _unseen(known: Investigation, signal: str) -> Fact | None:
    """Why the kernel does not let this be seen; None if it does."""
    for _, seen in known.observations:
        for one in seen.unseen:
            if one.signal == signal:
                return fact("why-refused", signal=Text(signal), reason=Text(one.reason))
    return None


def _programs(known: Investigation) -> list[Hypothesis]:
    """Whether threads wait for locks of their own programs."""
    claim = fact("why-program-locks")
    seen = _user_seen(known)
    if seen is None:
        refused = _unseen(known, "futex waits")
        if refused is not None:
            evidence = (Evidence(refused, False, 0),)
            return [Hypothesis("program-locks", None, "not testable", _EXPECTED_USER, claim, evidence)]
        most = most_for_programs(known)
        expected = _EXPECTED_USER if most is None else min(most, _EXPECTED_USER)
        return [Hypothesis("program-locks", None, "open", expected, claim, tests=(probes.FUTEX,))]
    number, one = seen
    user = one.user_waiters or 0.0
    told = any(found.rule in (*USER_RULES, *STANDSTILLS) for found in one.findings)
    if told:
        return []
    if one.unclear and one.unclear[0].waiters >= max(UNCLEAR_WAITERS, user):
        return [_unclear(number, one.unclear[0])]
    if one.goroutines:
        return [_unseen_goroutines(known, number, one.goroutines[0], user)]
    # Somewhere on a machine there are threads that wait for work: they count where somebody asks about their program.
    # Those that spin are sampled.
    hidden = [
        other
        for other in one.hidden
        if other.kind in ("virtual threads", "virtual monitors") or (other.kind != "spin" and known.target.tgids)
    ]
    if hidden:
        return [_hidden(number, hidden[0], user)]
    if user >= 0.1:
        # Waiting, and no rule says for which lock: many locks, each with little.
        return [of_program_waiting(number, user, one.user_locks)]
    against = fact("why-little-user-waiting", part=part(user, "one thread's time"))
    return [Hypothesis("program-locks", None, "ruled out", user, claim, (Evidence(against, False, number),))]


def _unclear(number: int, futex: UserLockSeen) -> Hypothesis:
    """Waits that may be for a lock: the futex alone does not say."""
    lock, process = UserLock(futex.name, futex.mapping), Process(futex.comm, futex.tgid)
    told = fact("why-unclear", threads=Measure(futex.waiters, "threads"), why=Text(futex.why))
    where = Function(futex.where) if futex.where else None
    claim = (
        fact("why-unclear-wait", process=process, lock=lock, where=where)
        if futex.name
        else fact("why-unclear-place", process=process, place=Text(futex.mapping or "memory"), where=where)
    )
    return Hypothesis(
        cause="unclear-wait",
        subject=lock,
        state="likely",
        waiters=futex.waiters,
        claim=claim,
        evidence=(Evidence(told, True, number),),
        remedies=(
            remedy("lock-or-jobs", where=where) if where is not None else remedy("record-user-stacks", process=process),
        ),
        sure="low",
    )


def _unseen_goroutines(known: Investigation, number: int, program: Goroutines, user: float) -> Hypothesis:
    """Goroutines that wait for mutexes: for how long is seen by other probes."""
    process = Process(program.comm, program.tgid)
    tried = any(step.probe == probes.GO for step in known.steps)
    told = fact("why-go-wakes", wakes=Measure(program.wakes, "wakes")) if program.wakes else fact("why-go-program")
    return Hypothesis(
        cause="unseen-goroutines",
        subject=process,
        state="open" if not tried else "likely" if program.wakes else "not testable",
        waiters=user if tried else max(user, _EXPECTED_USER),
        claim=fact("why-unseen-goroutines", process=process),
        evidence=(Evidence(told, bool(program.wakes), number),),
        tests=() if tried else (probes.GO,),
        remedies=(remedy("why-record-go", process=process),),
        sure="low",
    )


def _hidden(number: int, program: HiddenWaits, user: float) -> Hypothesis:
    """Waits that only the program's own run time explains."""
    process = Process(program.comm, program.tgid)
    told = (
        fact("why-scheduled-tasks", tasks=Text(program.kind))
        if program.kind in SCHEDULERS
        else {
            "virtual threads": fact("why-virtual-threads"),
            "virtual monitors": fact("why-virtual-monitors"),
            "python condition": fact("why-python-condition", threads=Measure(program.threads, "threads")),
            "pypy condition": fact("why-pypy-condition", threads=Measure(program.threads, "threads")),
        }[program.kind]
    )
    command = Text(program.command)
    return Hypothesis(
        cause="hidden-waits",
        subject=process,
        state="not testable",
        waiters=max(user, program.threads, _EXPECTED_USER),
        claim=fact("why-hidden-waits", process=process, command=command),
        evidence=(Evidence(told, False, number),),
        remedies=(remedy("why-ask-run-time", command=command),),
        sure="low",
    )


def _of_holding(number: int, lock: WaitedLock, holding: Holding) -> list[Hypothesis]:
    """What the holders of a kernel's lock did, as the long waits tell."""
    subject = Lock(lock.name, lock.kind)
    known = holding.known_ns
    asleep = holding.asleep_ns / known
    stopped = (holding.preempted_ns + holding.throttled_ns) / known
    told = Evidence(
        fact(
            "why-held",
            holder=holding.holder,
            waits=Measure(holding.waits, "waits"),
            held=ns(holding.held_ns),
            running=part(holding.running_ns / known, "the hold"),
            asleep=part(asleep, "the hold"),
            stopped=part(stopped, "the hold"),
        ),
        True,
        number,
    )
    if not holding.exact:
        return _of_owners(number, lock, told.fact, holding.running_ns / known)
    enough = holding.waits >= ENOUGH_HOLDS
    throttled = holding.throttled_ns >= HARDLY * known
    return [
        holder_sleeps(subject, asleep, lock.waiters, holding.function, told, enough),
        holder_no_cpu(subject, stopped, lock.waiters, throttled, [told], enough),
    ]


def _of_owners(number: int, lock: WaitedLock, told: Fact, running: float) -> list[Hypothesis]:
    """The same where no release was seen: who had the lock when a wait began may sleep because it let go since."""
    subject = Lock(lock.name, lock.kind)
    against = fact("why-owners-only", lock=subject)
    ran = running >= OWNER_RAN
    evidence = (Evidence(told, False, number),) if ran else (Evidence(against, False, number),)
    claims = (
        ("holder-sleeps", fact("why-holder-sleeps", lock=subject)),
        ("holder-no-cpu", fact("why-holder-no-cpu", lock=subject)),
    )
    return [
        Hypothesis(cause, subject, "ruled out" if ran else "not testable", 0.0, claim, evidence)
        for cause, claim in claims
    ]


def _in_kernel(known: Investigation, number: int, lock: WaitedLock, seen: Observation) -> list[Hypothesis]:
    """Why the lock is waited for so long."""
    subject = Lock(lock.name, lock.kind)
    found: list[Hypothesis] = []
    holdings = [
        (step.number, holding)
        for step, one in known.observations
        for holding in one.holdings
        if holding.lock == lock.name and holding.known_ns
    ]
    looked = [step.number for step, _ in known.observations if step.probe in (probes.EPISODES, probes.PTRACE)]
    unseen_claims = (
        ("holder-sleeps", fact("why-holder-sleeps", lock=subject)),
        ("holder-no-cpu", fact("why-holder-no-cpu", lock=subject)),
    )
    longest = max((one.max_ns for _, o in known.observations for one in o.locks if one.name == lock.name), default=0)
    if longest < LONG_NS:
        # Nobody who stands still lets others wait that shortly.
        evidence = (Evidence(fact("why-short-waits", longest=ns(longest)), False, number),)
        found += [Hypothesis(cause, subject, "ruled out", 0.0, claim, evidence) for cause, claim in unseen_claims]
    elif holdings:
        found += _of_holding(holdings[-1][0], lock, holdings[-1][1])
    elif looked:
        evidence = (Evidence(fact("why-no-holder-seen", lock=subject), False, looked[-1]),)
        found += [
            Hypothesis(cause, subject, "not testable", 0.3 * lock.waiters, claim, evidence)
            for cause, claim in unseen_claims
            if cause != "holder-sleeps" or not lock.spinning
        ]
    else:
        found += [
            Hypothesis(cause, subject, "open", 0.4 * lock.waiters, claim, tests=(probes.EPISODES,))
            for cause, claim in unseen_claims
            if cause != "holder-sleeps" or not lock.spinning
        ]
    return found + _by_others(known, lock) + _long_hold(known, number, lock, seen)


def _by_others(known: Investigation, lock: WaitedLock) -> list[Hypothesis]:
    """Whether another process has the lock while this one waits: a neighbour's doing, which its own waits do not show.

    A sleeping lock names its owner where a wait begins, on every kernel; of readers it names none.
    """
    if lock.spinning or lock.process is None or lock.process_part < MOSTLY:
        return []
    subject, waiter = Lock(lock.name, lock.kind), lock.process
    claim = fact("why-another-process", lock=subject, process=waiter)
    blamed = [(step.number, one) for step, seen in known.observations for one in seen.blamed if one.lock == lock.name]
    if not blamed:
        looked = any(step.probe in (probes.OWNERS, probes.EPISODES, probes.HOLDERS) for step in known.steps)
        if looked or lock.wait_ns < HOLD_NS * lock.waits:
            # Short waits are for whoever uses it.
            return []
        return [Hypothesis(HELD_BY_OTHERS, subject, "open", MAIN * lock.waiters, claim, tests=(probes.OWNERS,))]
    number, most = max(blamed, key=lambda one: one[1].waits)
    if most.readers >= MOSTLY:
        return _by_readers(known, lock, waiter, Evidence(_blamed_fact(most), True, number), most.readers)
    process, share = most.most
    sure: Confidence = "high" if share >= _BLAMED_SURELY and most.waits >= _ENOUGH_BLAMED else "medium"
    return [_held_by(process, lock, waiter, (Evidence(_blamed_fact(most), True, number),), share, sure)]


def _blamed_fact(most: Blamed) -> Fact:
    process, share = most.most
    waits, readers = Measure(most.waits, "waits"), part(most.readers, "that waiting")
    if most.readers >= MOSTLY:
        return fact("why-blamed-readers", waits=waits, part=readers)
    return fact("why-blamed", waits=waits, process=process, part=part(share, "that waiting"))


def _held_by(
    process: Process | None,
    lock: WaitedLock,
    waiter: Process,
    evidence: tuple[Evidence, ...],
    share: float,
    sure: Confidence,
) -> Hypothesis:
    """Whether the process that had the lock for so much of the waiting is another one than the one that waits."""
    subject = Lock(lock.name, lock.kind)
    if process is None or share < MOSTLY or process == waiter or not process.comm:
        claim = fact("why-another-process", lock=subject, process=waiter)
        against = tuple(replace(one, supports=False) for one in evidence)
        return Hypothesis(HELD_BY_OTHERS, subject, "ruled out", 0.0, claim, against)
    return Hypothesis(
        cause=HELD_BY_OTHERS,
        subject=subject,
        state="likely",
        waiters=lock.waiters * share,
        claim=fact("why-held-by-others", holder=process, lock=subject, process=waiter),
        evidence=evidence,
        remedies=(remedy("why-ask-holder", holder=process, lock=subject),),
        sure=sure,
    )


def _by_readers(
    known: Investigation, lock: WaitedLock, waiter: Process, told: Evidence, share: float
) -> list[Hypothesis]:
    """Who the readers are that have the lock: who waits to read it, as far as that is one process."""
    subject = Lock(lock.name, lock.kind)
    users = [(step.number, user) for step, seen in known.observations for user in seen.users if user.name == lock.name]
    looked = [step for step, seen in known.observations if step.probe == probes.USERS]
    if known.target.is_machine:
        users = [(told.step, lock)]
    elif not looked and lock.address is not None:
        claim = fact("why-another-process", lock=subject, process=waiter)
        return [Hypothesis(HELD_BY_OTHERS, subject, "open", share * lock.waiters, claim, tests=(probes.USERS,))]
    for number, user in users:
        if user.readers:
            process, of_readers = user.readers[0]
            reads = Evidence(
                fact("why-reader", process=process, part=part(of_readers, "the waiting to read")), True, number
            )
            return [_held_by(process, lock, waiter, (told, reads), min(share, of_readers), "medium")]
    claim = fact("why-another-process", lock=subject, process=waiter)
    return [Hypothesis(HELD_BY_OTHERS, subject, "not testable", 0.0, claim, (replace(told, supports=False),))]


def _long_hold(known: Investigation, number: int, lock: WaitedLock, seen: Observation) -> list[Hypothesis]:
    """Whether one function holds the lock for long: what the unlock side tells."""
    subject = Lock(lock.name, lock.kind)
    claim = fact("why-long-hold", lock=subject)
    if any(found.rule == "long-hold" for _, one in known.observations for found in one.findings):
        return []
    average = lock.wait_ns / lock.waits if lock.waits else 0.0
    if average < HOLD_NS:
        evidence = (Evidence(fact("why-short-average", average=ns(average)), False, number),)
        return [Hypothesis("long-hold", subject, "ruled out", 0.0, claim, evidence)]
    looked = [step.number for step, _ in known.observations if step.probe == probes.HOLDERS]
    if looked:
        evidence = (Evidence(fact("why-no-long-hold", lock=subject), False, looked[-1]),)
        return [Hypothesis("long-hold", subject, "ruled out", 0.0, claim, evidence)]
    refused = _unseen(known, "spinlock holders")
    if refused is not None:
        return [
            Hypothesis("long-hold", subject, "not testable", 0.3 * lock.waiters, claim, (Evidence(refused, False, 0),))
        ]
    return [Hypothesis("long-hold", subject, "open", 0.5 * lock.waiters, claim, tests=(probes.HOLDERS,))]


def _traced_by(hypotheses: Iterable[Hypothesis]) -> bool:
    return any(one.cause in TRACERS for one in hypotheses)


def hypotheses(known: Investigation) -> tuple[Hypothesis, ...]:
    """Everything that may be the cause, or was ruled out; the one that explains most, if it is so, first."""
    found = _from_findings(known)
    lock = main_lock(known)
    user = main_user_lock(known)
    found += _kernel(known) + _programs(known) + ([*of_sleeps(known), *of_spins(known)] if known.steps else [])
    # What the looks tell of a program's lock is less than what a recording of it tells.
    recorded = any(one.supported and one.cause in (*USER_RULES, *STANDSTILLS) for one in found)
    found += [one for one in of_stops(known) if not (recorded and stands_at_mutex(one))]
    found += of_tracers(known, None if lock is None else lock[1])
    if known.steps:
        found += [*of_clock(known), *of_perturbation(known), *of_lines(known, None if lock is None else lock[:2])]
    if lock is not None and not _traced_by(found):
        found += _in_kernel(known, *lock)
    if user is not None and not any(one.cause in _SELF_EXPLAINED for one in found):
        found = passed_on(known, found + of_program_lock(known, user[1]), user[1])
    found += of_chain(known, found, None if user is None else Process(user[1].comm, user[1].tgid))
    if lock is not None and not any(one.supported for one in found):
        stalled = [dict(seen.counters.stalled).get("memory", 0.0) for _, seen in known.observations]
        most = most_waited(*lock[:2], max(stalled, default=0.0))
        # Who is short of memory may hardly wait for locks.
        found += [most] if lock[1].waiters >= BUSY_WAITERS or most.cause == SHORT_OF_MEMORY else []
    if any(one.supported for one in found):
        # Who waits for locks wakes up often as well.
        found = [one for one in found if one.cause != POLLING]
    whole = {id(one) for one in found if stands_whole(known, one)}
    return tuple(sorted(found, key=lambda one: -rank(one, found) - (WHOLE if id(one) in whole else 0.0)))


def culprit(one: Hypothesis, known: Investigation) -> Subject | None:
    """Who does it: the process or task behind the cause; None if that is not known."""
    if one.claim.what in NOBODY_LEFT:
        return None
    values = [value for told in (one.claim, *(e.fact for e in one.evidence)) for _, value in told.values]
    for kind in (Task, Process):
        for value in values:
            if isinstance(value, Task | Process) and isinstance(value, kind) and value.comm:
                return value
    other = neighbour(one, hypotheses(known))
    if other is not None:
        return culprit(other, known)
    names = names_of(one)
    doubtful = [other for other in hypotheses(known) if other.cause == HELD_BY_OTHERS and other.state != "ruled out"]
    if any(names & names_of(other) for other in doubtful):
        # Who waits most is not who makes others wait.
        return None
    for _, seen in reversed(known.observations):
        for lock in seen.locks:
            if lock.name in names and lock.process is not None and lock.process_part >= MOSTLY:
                return lock.process
        for user in seen.user_locks:
            if user.name in names and user.comm:
                return Process(user.comm, user.tgid)
    return None
