# SPDX-License-Identifier: GPL-2.0-or-later
"""Which probe next, when the investigation stops, and how sure it is."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from lockline.analysis.answer import (
    CONFIDENCE,
    NEGLIGIBLE_SHARE,
    NEGLIGIBLE_USER_SHARE,
    NEGLIGIBLE_WAIT_NS,
    STANDSTILLS,
)
from lockline.analysis.findings import Confidence, Fact, Lock, Process, Text, UserLock, fact
from lockline.investigation import probes
from lockline.investigation.blame import graph_of
from lockline.investigation.elsewhere import slow_elsewhere
from lockline.investigation.hypotheses import (
    UNSEEN_WAITING,
    asleep_at_futexes,
    hypotheses,
    main_goroutines,
    main_lock,
    main_user_lock,
    most_for_programs,
    waiting,
)
from lockline.investigation.in_program import MOSTLY, SHORT_OF_CPUS
from lockline.investigation.lines import suspect
from lockline.investigation.little import BUSY_WAITERS
from lockline.investigation.machine import CLOCK_CAUSE
from lockline.investigation.model import UNREAD, Choice, Counters, Hypothesis, Investigation, Verdict, WaitedLock
from lockline.investigation.ranking import HELD_BY_OTHERS, explains, is_symptom
from lockline.investigation.still import stands_at_mutex, stands_whole

# Of all waiting that was seen: what a proven cause explains at least.
PROVEN_PART = 0.5
# A rival is one that may explain so much of what the leading one does.
RIVAL = 0.25
# Of the threads that sleep at futexes for nobody knows what, or for what is no lock: waiting that is less explains
# none of it.
_SMALL = 0.1
# A step is never shorter, s.
SHORTEST_S = 1.0
# A recording that costs less says nothing.
LEAST_COST_NS = 20_000_000
# Of the budget: where the first step costs more, as with hundreds of thousands of waits a second, it has seen enough.
_FOR_FIRST = 0.35
# What the first step costs on an idle machine, its end included: without so much nothing is looked at.
LEAST_BUDGET_NS = 30_000_000
# A step with locks of programs: an owner is looked at each second, and counts as one that holds from 3 s on.
SHORTEST = {probes.FUTEX: 4.0, probes.SELF_CHECK: probes.CHECK_SECONDS}
# A step that says nothing if it is shorter: it is left out then.
_USELESS = {probes.SELF_CHECK: probes.CHECK_SECONDS}
# Steps that end by themselves before the budget is used up, and what must be left for them.  With locks of programs
# half of all locks are seen: it is made though it may be short, if so many times the first one's cost is left.
_WORTH_TRYING = 0.5
_LEAST_LEFT_NS = {
    probes.FUTEX: LEAST_COST_NS + probes.FUTEX_END_NS,
    probes.GO: LEAST_COST_NS + probes.FUTEX_END_NS,
    probes.SLEEPS: probes.NAMES_NS + probes.LEAST_SLEEPS_NS,
}
# The first step's price is not known: of an idle kernel it is next to nothing.
_FIRST = probes.Known(0.0, 0.0, Counters())

Ended = Literal["proven", "nothing left to try", "time", "budget", "interrupted", "target gone"]


def _known(known: Investigation) -> probes.Known:
    """What prices are made of: nothing before the first step."""
    for step, seen in known.observations:
        if step.probe == probes.TOTALS and step.cost is not None:
            return probes.known_of(seen, step.cost.paid_ns, step.cost.window_ns, step.cost.probe_ns)
    return _FIRST


def _tried(known: Investigation, probe: str) -> int:
    return sum(step.probe == probe for step in known.steps)


def _is_seen(known: Investigation, probe: probes.Probe) -> bool:
    """Whether this kernel has what the probe needs, as far as is known."""
    refused = {one.signal for _, seen in known.observations for one in seen.unseen}
    return not probe.signal or probe.signal not in refused


def _may_want_cpu(known: Investigation, among: Sequence[Hypothesis]) -> bool:
    """Whether the CPUs are short, and the looks could not tell if the holder of a program's lock had one."""
    unknown = any(one.cause == "holder-no-cpu" and one.state == "not testable" for one in among)
    looks = [seen.holders for _, seen in known.observations if seen.holders is not None]
    return unknown and any(one.tasks >= SHORT_OF_CPUS * one.cpus > 0 for one in looks)


def _ends_asleep(known: Investigation) -> bool:
    """Whether most waiting ends at threads that sleep, of which no finding says so.

    As of a chain of locks whose last holder sleeps, where its looks are few; or where they and the recording differ.
    """
    return sum(end.part for end in graph_of(known).ends if end.node.kind == "sleep") >= MOSTLY


def proven(known: Investigation, among: Sequence[Hypothesis]) -> Hypothesis | None:
    """The cause that is proven; None if none is.

    It is proven if a step saw it with high confidence, or two steps saw it; it explains half of all waiting that
    was seen; both the kernel's locks and those of programs were looked at (of these it is enough that few threads
    slept at futexes); and no rival that may explain a quarter as much is left to test, by a probe that is there.
    Threads that stand still need no more than to be seen surely.  Where the CPUs are short, a program's lock is proven
    only if its holder could be looked at: it may be kept from running.  And no lock is the cause while its holder, or
    that of the last lock of a chain, was mostly seen asleep.
    """
    if not among or not among[0].supported:
        return None
    first = among[0]
    if first.cause in STANDSTILLS or stands_whole(known, first):
        return first if first.sure == "high" else None
    if first.sure != "high" and not (first.seen > 1 and first.sure == "medium"):
        return None
    if first.cause == "user-lock" and (_may_want_cpu(known, among) or _ends_asleep(known)):
        return None
    kernel, user = waiting(known)
    if user is None and first.cause != CLOCK_CAUSE:
        user = most_for_programs(known)
        if user is None or user >= RIVAL * first.waiters:
            return None
    total = kernel + (user or 0.0)
    if first.waiters < PROVEN_PART * total:
        return None
    return None if rivals(known, among, first, testable=True) else first


def rivals(
    known: Investigation, among: Sequence[Hypothesis], first: Hypothesis, testable: bool = False
) -> tuple[Hypothesis, ...]:
    """What else may be the cause; testable: those alone that a probe that was not tried yet would tell.

    Where the budget is too small for such a probe, the rival stays.
    """
    found = []
    for other in among:
        if other is first or other.state == "ruled out" or other.waiters < RIVAL * first.waiters:
            continue
        if other.cause != HELD_BY_OTHERS and (explains(first, other) or explains(other, first)):
            # The same waiting, told twice.
            continue
        open_probes = [name for name in other.tests if _can(known, name) or _unpaid(known, name)]
        if testable and not open_probes:
            continue
        found.append(other)
    return tuple(found)


def _unpaid(known: Investigation, name: str) -> bool:
    """Whether a probe was not started because of its price."""
    return any(step.probe == name and step.outcome == "not started" for step in known.steps)


def _can(known: Investigation, name: str) -> bool:
    probe = probes.PROBES[name]
    # What is left gets less, and its price does not.
    return not _unpaid(known, name) and _tried(known, name) < probe.steps and _is_seen(known, probe)


def _wanted_s(known: Investigation, probe: probes.Probe) -> float:
    return max(SHORTEST.get(probe.name, SHORTEST_S), probe.weight * known.plan.seconds)


def _seconds(known: Investigation, probe: probes.Probe) -> float:
    """How long a step records: its part of the time, not longer than what is left."""
    left = known.plan.seconds - known.recorded_ns / 1e9
    return max(SHORTEST_S, min(_wanted_s(known, probe), left))


def most_cost_ns(known: Investigation, name: str = "") -> int:
    """What a recording may cost, so that the looks in /proc, which cost little and tell much, can still be paid.

    name: of its probe.  One with episodes ends with more to look up than the first step, and that comes on top.
    """
    left = known.plan.allowed_ns - known.paid_ns
    to_come = [probes.PROBES[name] for name in (probes.SLEEPS, probes.THREADS) if not _tried(known, name)]
    looks = sum(probe.price(_known(known)) * _wanted_s(known, probe) for probe in to_come)
    # Behind its end names are looked up, stacks unwound.
    options = probes.PROBES[name].options if name else ()
    end = _known(known).totals_ns if "--episodes" in options else 0.0
    end += probes.FUTEX_END_NS if "--futex" in options else 0.0
    most = max(left - looks, left / 2) - end
    if not known.observations:
        most = min(most, _FOR_FIRST * left)
    return max(LEAST_COST_NS, round(0.8 * most))


def _why(name: str, known: Investigation) -> Fact:
    """What a step is to tell."""
    lock, user = main_lock(known), main_user_lock(known)
    if name == probes.THREADS and user is not None:
        process = Process(user[1].comm, user[1].tgid)
        return fact("why-step-threads", lock=UserLock(user[1].name, user[1].mapping), process=process)
    goroutines = main_goroutines(known)
    if name == probes.GO and goroutines is not None:
        return fact("why-step-go", process=Process(goroutines.comm, goroutines.tgid))
    if name in (probes.OWNERS, probes.USERS, probes.EPISODES, probes.HOLDERS) and lock is not None:
        return fact(f"why-step-{name}", lock=Lock(lock[1].name, lock[1].kind))
    line = suspect(known, _lock_of(known))
    if name == probes.WATCH and line is not None:
        return fact("why-step-watch", name=Text(line.name))
    again = _tried(known, name)
    return fact(f"why-step-{name}-again" if again else f"why-step-{name}", target=Text(known.target.words))


def _lock_of(known: Investigation) -> tuple[int, WaitedLock] | None:
    lock = main_lock(known)
    return None if lock is None else lock[:2]


def _options(name: str, known: Investigation) -> tuple[str, ...]:
    """Of the collector: the probe's own, and whom it looks at.

    A second look at futexes is of the process alone that stood out.
    """
    user = main_user_lock(known)
    target = known.target.options
    if name == probes.FUTEX and user is not None and not known.target.tgids and user[1].tgid > 0:
        target = ("-p", str(user[1].tgid))
    goroutines = main_goroutines(known)
    if name == probes.GO and goroutines is not None:
        target = ("-p", str(goroutines.tgid))
    lock = main_lock(known)
    options = probes.PROBES[name].options
    if name in (probes.HOLDERS, probes.OWNERS) and lock is not None:
        # Kinds are what the collector can be held to.
        options = ("--holders", "--holds") if lock[1].spinning else ("--holders",)
        target = (*target, "--kinds", lock[1].kind.partition(":")[0])
    line = suspect(known, _lock_of(known))
    if name == probes.WATCH and line is not None:
        return (f"--max-overhead={round(100 * probes.WATCH_PART)}", line.target)
    if name == probes.USERS and lock is not None and lock[1].address is not None:
        # Whoever they are.
        return ("-a", "-L", hex(lock[1].address % (1 << 64)))
    return (*target, *options)


def _ends_itself(name: str, of_first: probes.Known, left: int) -> bool:
    """Whether a step ends when what is left is used up, and tells something by then."""
    if name not in _LEAST_LEFT_NS or left < _LEAST_LEFT_NS[name]:
        return False
    return name != probes.FUTEX or left >= _WORTH_TRYING * of_first.totals_ns


def choice_of(name: str, known: Investigation) -> Choice:
    """A probe as the next step: for how long, of whom, and at what price."""
    probe = probes.PROBES[name]
    seconds = _seconds(known, probe)
    of_first = _known(known)
    left = known.plan.allowed_ns - known.paid_ns
    price = round(probes.price_of(name, of_first, seconds))
    shorter = probes.seconds_for(name, of_first, left)
    if price > left and shorter >= SHORTEST_S:
        # A shorter look is what can be paid.
        seconds = shorter
        price = round(probes.price_of(name, of_first, seconds))
    elif price > left and _ends_itself(name, of_first, left):
        # The price is of all that the machine does; the step ends when it has cost its part.
        price = left
    user = main_user_lock(known)
    return Choice(
        probe=name,
        options=_options(name, known),
        seconds=seconds,
        why=_why(name, known),
        price_ns=price,
        affordable=price <= left or not known.steps,
        of=user[1] if name == probes.THREADS and user is not None else None,
    )


def next_steps(known: Investigation) -> tuple[Choice, ...]:
    """The probes that would tell something, the best first: waiting that it may decide about, by its price."""
    if not known.steps:
        return (choice_of(probes.TOTALS, known),)
    among = hypotheses(known)
    by_probe: defaultdict[str, list[Hypothesis]] = defaultdict(list)
    for one in among:
        if one.state == "open":
            for name in one.tests:
                by_probe[name].append(one)
    best = among[0] if among else None
    if best is not None and best.supported and best.seen == 1 and best.sure == "medium":
        # A second look at what was seen once: by the step that saw it.
        again = probes.FUTEX if best.cause in ("user-lock", "held-over-sleep", "parked-lock") else probes.TOTALS
        user = main_user_lock(known)
        if again == probes.FUTEX and user is not None and user[1].goroutines and _can(known, probes.GO):
            again = probes.GO
        # Each recording sees the kernel's locks once more.
        if again != probes.TOTALS or not set(by_probe) - {probes.THREADS}:
            by_probe[again].append(replace(best, waiters=best.waiters * 0.5))
    choices = [choice_of(name, known) for name in by_probe if _can(known, name)]
    choices = [choice for choice in choices if choice.seconds >= _USELESS.get(choice.probe, 0.0)]

    def worth(choice: Choice) -> float:
        decides = sum(one.waiters for one in by_probe[choice.probe])
        # What a step costs beside its price: the time that it takes.
        return decides / (choice.price_ns + 0.1 * known.plan.allowed_ns + 1)

    return tuple(sorted(choices, key=lambda choice: -worth(choice)))


def left_unpaid(known: Investigation) -> bool:
    """Whether a probe would tell more, and was not started because of its price."""
    return any(one.state == "open" and any(_unpaid(known, name) for name in one.tests) for one in hypotheses(known))


def is_over(known: Investigation) -> Ended | None:
    """Why nothing more is looked at; None: go on."""
    if known.steps and known.steps[-1].outcome == "interrupted":
        return "interrupted"
    if not known.observations:
        return None if not known.steps else "nothing left to try"
    if proven(known, hypotheses(known)) is not None:
        return "proven"
    if known.plan.seconds - known.recorded_ns / 1e9 < SHORTEST_S / 2:
        return "time"
    if known.paid_ns >= known.plan.allowed_ns:
        return "budget"
    return None


def _nothing_waits(known: Investigation) -> bool:
    kernel, _ = waiting(known)
    # A later look may have been short, or at a moment without waits: it takes nothing back.
    user = max((seen.user_waiters or 0.0 for _, seen in known.observations), default=0.0)
    longest = max((seen.longest_ns for _, seen in known.observations), default=0)
    among = hypotheses(known)
    if any(one.cause in UNSEEN_WAITING or stands_at_mutex(one) for one in among):
        return False
    little = NEGLIGIBLE_SHARE if any(one.supported for one in among) else BUSY_WAITERS
    return kernel < little and longest < NEGLIGIBLE_WAIT_NS and user < NEGLIGIBLE_USER_SHARE


def _has_unread(known: Investigation) -> bool:
    """Whether a process could not be read: what was not read may be a lock."""
    return any(one.signal == UNREAD for _, seen in known.observations for one in seen.unseen)


def _sure(known: Investigation, among: Sequence[Hypothesis], first: Hypothesis) -> Confidence:
    """How sure the verdict is.

    high: the cause is proven.  medium: it leads clearly, and what would prove it is not available, or has not
    been looked at.  low: there is a rival as strong, or little was seen.
    """
    if proven(known, among) is first:
        return "high"
    kernel, user = waiting(known)
    total = kernel + (user or 0.0)
    strong = [other for other in rivals(known, among, first) if other.supported and other.waiters >= first.waiters]
    if first.sure == "low" or first.waiters < RIVAL * total or strong:
        return "low"
    return "medium"


def _is_small(cause: Hypothesis, asleep: float) -> bool:
    """Whether a cause is a queue for a lock of the kernel, small beside so many threads that sleep for something else.

    What spins, is stopped or gets no CPU is no such queue: whoever sleeps meanwhile says nothing of it.
    """
    return isinstance(cause.subject, Lock) and cause.cause not in STANDSTILLS and cause.waiters < _SMALL * asleep


def _is_slow(known: Investigation, among: Sequence[Hypothesis]) -> bool:
    """Whether what holds the target back is no lock: all waiting for locks is small beside what it sleeps for."""
    slow = slow_elsewhere(known)
    if slow is None or any(one.cause in UNSEEN_WAITING or stands_at_mutex(one) for one in among):
        return False
    kernel, user = waiting(known)
    supported = [one for one in among if one.supported]
    small = kernel + (user or 0.0) < _SMALL * slow.threads
    return small and all(_is_small(one, slow.threads) for one in supported)


def judge(known: Investigation, ended: Ended) -> Verdict:
    """What the investigation found."""
    among = hypotheses(known)
    supported = [one for one in among if one.supported]
    standing = [one for one in supported if one.cause in STANDSTILLS]
    seen = [one for _, one in known.observations if not one.not_enough]
    if not seen:
        return Verdict("unclear", "low", None, among, ended)
    # Next to no waiting has no cause, but for what is sure whatever the waiting.
    user = waiting(known)[1]
    asleep = asleep_at_futexes(known)
    if (
        asleep is not None
        and ended != "target gone"
        and (not supported or _is_small(supported[0], asleep.futex_sleepers))
    ):
        # These may wait for a lock, or for work: what is small beside them is no answer.
        return Verdict("unclear", "low", None, rivals_of_nothing(among), ended)
    if _nothing_waits(known) and not standing:
        # Waiting of which no rule says anything is little, and it is there.
        none = waiting(known)[0] < NEGLIGIBLE_SHARE
        tested = none and user is not None and not _has_unread(known)
        rest = tuple(one for one in among if one.state in ("open", "not testable"))
        if ended == "target gone" and user is None:
            # Who is gone waits for nothing.
            return Verdict("unclear", "low", None, rest, ended)
        return Verdict("nothing", "high" if tested and not rest else "medium", None, rest, ended)
    if _is_slow(known, among):
        return Verdict("nothing", "medium", None, rivals_of_nothing(among), ended)
    if not supported:
        return Verdict("unclear", "low", None, rivals_of_nothing(among), ended)
    first = supported[0]
    if first.claim.what == "lock-kept-for-input":
        return Verdict("unclear", "low", first, tuple(rivals(known, among, first)), ended)
    return Verdict("cause", _sure(known, among, first), first, tuple(one for one in rivals(known, among, first)), ended)


def rivals_of_nothing(among: Sequence[Hypothesis]) -> tuple[Hypothesis, ...]:
    """What may be the cause, where nothing speaks for any of it."""
    return tuple(one for one in among if one.state in ("open", "not testable"))


def symptoms_of(among: Sequence[Hypothesis], cause: Hypothesis) -> tuple[Hypothesis, ...]:
    """What the cause makes: the locks that are waited for because of it."""
    return tuple(one for one in among if one is not cause and is_symptom(one) and explains(cause, one))


def score(one: Hypothesis) -> float:
    """What a hypothesis explains times how sure it is."""
    return CONFIDENCE[one.sure] * one.waiters
