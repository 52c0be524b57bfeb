# SPDX-License-Identifier: GPL-2.0-or-later
"""What looks at sleeping threads say of causes: locks of files and semaphores, which no other probe sees."""

from lockline.analysis.answer import NEGLIGIBLE_USER_SHARE
from lockline.analysis.findings import (
    Confidence,
    Fact,
    File,
    Function,
    Machine,
    Measure,
    Process,
    Remedy,
    Task,
    Text,
    fact,
    remedy,
)
from lockline.analysis.sleep_functions import stop_of
from lockline.investigation import probes
from lockline.investigation.model import Evidence, Hypothesis, Investigation, Target
from lockline.investigation.sessions import SessionWaits
from lockline.investigation.sleeps import Blocked, Naps, OtherSleep, OwnLock, Sleeps

# Threads that may wait so, as long as nobody has looked.
_EXPECTED = 0.3
# Threads that sleep for what is slow from which on the answer speaks of it.
_SLOW_THREADS = 0.5
# Looks with a holder from which on the holder is sure.
_ENOUGH = 3
# Naps of a thread a second from which on it polls, and threads of a process that do.
_POLLS = 50.0
_POLLING = 2
# From so many refusals a second on, somebody wants that lock now.  Who stands by for a leader asks less often.
_ASKS = 5.0
POLLING = "polling"
# Part of the looks from which on a process mostly writes to its database.
_MOSTLY_WRITTEN = 0.5
_FILE_LOCK = "file-lock"
DATABASE_LOCK = "database-lock"


def sleeps_seen(known: Investigation) -> tuple[int, Sleeps] | None:
    """The last step that looked at sleeping threads."""
    found = [(step.number, seen.sleeps) for step, seen in known.observations if seen.sleeps is not None]
    return found[-1] if found else None


def slow_elsewhere(known: Investigation) -> OtherSleep | None:
    """What is no lock, and has threads of the target sleep; None: nobody looked, or it has hardly any."""
    seen = sleeps_seen(known)
    slow = seen[1].slow if seen is not None else None
    return slow if slow is not None and slow.threads >= _SLOW_THREADS else None


def slow_fact(slow: OtherSleep) -> Fact:
    """What has threads sleep that is no lock."""
    return fact("why-slow", threads=Measure(slow.threads, "threads"), reason=Text(slow.what))


def worth_telling(sleeps: Sleeps) -> tuple[Blocked, ...]:
    """The locks that threads wait for more than in passing."""
    return tuple(one for one in sleeps.blocked if one.waiters >= NEGLIGIBLE_USER_SHARE and not _stands_by(one))


def blocked_elsewhere(known: Investigation) -> float:
    """Threads that wait on average for locks of files and for semaphores; 0 if nobody looked."""
    seen = sleeps_seen(known)
    if seen is None:
        return 0.0
    sleeps = seen[1]
    database = sleeps.sessions.waiters if sleeps.sessions is not None else 0.0
    own = sum(_waiting_for(one, sleeps) for one in sleeps.own)
    return sum(one.waiters for one in worth_telling(sleeps)) + own + database


def _naps_of(one: OwnLock, sleeps: Sleeps) -> Naps | None:
    """The threads that nap in the process that has that lock."""
    return max((naps for naps in sleeps.naps if naps.tgid == one.tgid), key=lambda naps: naps.rate, default=None)


def _waiting_for(one: OwnLock, sleeps: Sleeps) -> float:
    """Threads that nap for another one of their process to end writing to a database, which is likely; 0: it is not."""
    naps = _naps_of(one, sleeps)
    if naps is None or not one.database or naps.threads < _POLLING or naps.rate < _ASKS:
        return 0.0
    # One of them has it.
    return (naps.threads - 1) * one.written if one.written >= _MOSTLY_WRITTEN else 0.0


def _remedies(one: Blocked, holder: Process | None) -> tuple[Remedy, ...]:
    if holder is not None and stop_of(one.holder_in) == "signal":
        return (remedy("why-continue", process=holder),)
    if one.kind == "semaphore":
        name = Text(one.name or "it")
        if holder is None:
            return (remedy("why-find-semaphore", semaphore=name),)
        return (remedy("why-shorten-semaphore", holder=holder, semaphore=name),)
    file = File(one.name or "the file")
    if holder is None:
        first = remedy("why-find-file-lock", file=file)
    else:
        first = remedy("why-shorten-file-lock", holder=holder, file=file)
    return first, remedy("why-share-file-lock")


def _hypothesis(number: int, sleeps: Sleeps, one: Blocked, target: Target) -> Hypothesis:
    holder = Process(one.holder_comm, one.holder) if one.holder else None
    evidence = [
        fact(
            "why-blocked",
            looks=Measure(sleeps.looks, "looks"),
            threads=Measure(one.waiters, "threads"),
            function=Function(one.function),
            process=Process(one.comm, one.tgid),
        )
    ]
    if one.refused:
        evidence.append(fact("why-refused-lock", rate=Measure(one.refused, "per second")))
    if holder is None:
        evidence.append(fact("why-holder-unknown"))
    else:
        seen, looked = Measure(one.holder_looks, "looks"), Measure(one.known, "looks")
        inside = Function(one.holder_in) if one.holder_in else None
        if one.kind == "file-lock":
            evidence.append(fact("why-file-holder", holder=holder, seen=seen, known=looked, function=inside))
        else:
            evidence.append(fact("why-semaphore-holder", holder=holder, seen=seen, known=looked, function=inside))
    if one.kind == "file-lock":
        claim = fact("why-file-lock", file=File(one.name or "a file"), holder=holder)
    else:
        claim = fact("why-semaphore", semaphore=Text(one.name or "a semaphore"), holder=holder)
    return Hypothesis(
        cause=POLLING if _stands_by(one) else one.kind,
        subject=File(one.name) if one.kind == "file-lock" else Machine(one.name),
        state="not testable" if _stands_by(one) else "likely",
        waiters=0.0 if _stands_by(one) else one.waiters,
        claim=claim,
        evidence=tuple(Evidence(told, not _stands_by(one), number) for told in evidence),
        remedies=_remedies(one, holder),
        sure=_sure(one, target),
    )


def _stands_by(one: Blocked) -> bool:
    """Whether they ask for it so seldom that they may just as well stand by, for the day that its holder ends."""
    return 0 < one.refused < _ASKS


def _sure(one: Blocked, target: Target) -> Confidence:
    """How sure it is that threads wait for that lock, and who has it; of a whole machine, that it holds it back."""
    if one.alone and target.is_machine:
        return "low"
    if one.refused:
        return "medium"
    return "high" if one.known >= _ENOUGH and 2 * one.holder_looks > one.known else "medium"


def _napping(naps: Naps) -> Fact:
    return fact(
        "why-naps",
        threads=Measure(naps.threads, "threads"),
        rate=Measure(naps.rate, "per second"),
        function=Function(naps.function) if naps.function else None,
    )


def _of_naps(number: int, sleeps: Sleeps) -> list[Hypothesis]:
    """Threads that poll: a lock that is polled (trylock, then a nap) makes no wait that the kernel sees."""
    return [
        Hypothesis(
            cause=POLLING,
            subject=Process(one.comm, one.tgid),
            state="not testable",
            waiters=0.0,
            claim=fact("why-polling", process=Process(one.comm, one.tgid)),
            evidence=(Evidence(_napping(one), False, number),),
        )
        for one in sleeps.naps
        if one.threads >= _POLLING and one.rate >= _POLLS
    ]


def _of_own_locks(number: int, sleeps: Sleeps) -> list[Hypothesis]:
    """Processes that lock a file for themselves: SQLite's connections in one process nap for one another."""
    found = []
    for one in sleeps.own:
        naps, waiters = _naps_of(one, sleeps), _waiting_for(one, sleeps)
        process, file = Process(one.comm, one.tgid), File(one.name)
        evidence = [fact("why-own-lock-changes")]
        if naps is not None and waiters:
            evidence.insert(0, _napping(naps))
        found.append(
            Hypothesis(
                cause=_FILE_LOCK if waiters else POLLING,
                subject=file,
                state="likely" if waiters else "not testable",
                waiters=waiters,
                claim=fact("why-own-lock", process=process, file=file),
                evidence=tuple(Evidence(told, bool(waiters), number) for told in evidence),
                remedies=(remedy("why-shorten-transactions", file=file),) if waiters else (),
                sure="low",
            )
        )
    return found


def _of_sessions(number: int, seen: SessionWaits) -> Hypothesis:
    """Sessions that wait for locks of their database: of rows, of tables, and those that a program asks for itself."""
    left = Task(seen.comm, seen.left) if seen.left else None
    evidence = (
        fact(
            "why-sessions-wait",
            looks=Measure(seen.looks, "looks"),
            threads=Measure(seen.waiters, "threads"),
            statement=Text(seen.statement),
        ),
        *((fact("why-session-left", session=left),) if left is not None else ()),
        fact("why-sessions-work", working=Measure(seen.working, "sessions")),
    )
    first = (remedy("why-end-transaction", session=left),) if left is not None else ()
    return Hypothesis(
        cause=DATABASE_LOCK,
        subject=Process(seen.comm, None),
        state="likely",
        waiters=seen.waiters,
        claim=fact("why-database-lock", process=Process(seen.comm, None), session=left),
        evidence=tuple(Evidence(told, True, number) for told in evidence),
        remedies=(*first, remedy("why-ask-postgres"), remedy("row-lock-less")),
        sure="high" if seen.looks >= _ENOUGH else "medium",
    )


def of_sleeps(known: Investigation) -> list[Hypothesis]:
    """Whether threads wait for locks of files, or for semaphores; and which may poll for a lock."""
    claim = fact("why-other-locks")
    seen = sleeps_seen(known)
    if seen is None or not seen[1].threads:
        if seen is not None or not known.target.has_threads:
            evidence = Evidence(fact("why-threads-unknown", target=Text(known.target.words)), False, 0)
            return [Hypothesis("other-locks", None, "not testable", 0.0, claim, (evidence,))]
        return [Hypothesis("other-locks", None, "open", _EXPECTED, claim, tests=(probes.SLEEPS,))]
    number, sleeps = seen
    told = worth_telling(sleeps)
    seldom = [_hypothesis(number, sleeps, one, known.target) for one in sleeps.blocked if _stands_by(one)]
    polling = [*_of_naps(number, sleeps), *_of_own_locks(number, sleeps), *seldom]
    database = [] if sleeps.sessions is None else [_of_sessions(number, sleeps.sessions)]
    if told or database or any(one.supported for one in polling):
        return [*database, *(_hypothesis(number, sleeps, one, known.target) for one in told), *polling]
    looks, threads = Measure(sleeps.looks, "looks"), Measure(sleeps.threads, "threads")
    if sleeps.all_of_them:
        against = fact("why-none-blocked", looks=looks, threads=threads)
    else:
        against = fact("why-some-looked-at", looks=looks, threads=threads)
    return [Hypothesis("other-locks", None, "ruled out", 0.0, claim, (Evidence(against, False, number),)), *polling]
