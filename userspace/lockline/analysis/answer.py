# SPDX-License-Identifier: GPL-2.0-or-later
"""The answer of a report in one fact: is it locks, which, and what does it cost."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from lockline.analysis.findings import Finding, Lock
from lockline.analysis.model import Figures, LockWaits, OutlierWait, Report
from lockline.analysis.sleepers import Sleepers
from lockline.analysis.user_space.futex_waits import LOCK, PARKED, UNCLEAR
from lockline.analysis.user_space.user_evidence import INTERPRETERS
from lockline.base.values import dataclass

# Kinds whose waiter burns its CPU; those of all others sleep.
SPINNING_KINDS = frozenset({"spinlock", "rwlock:R", "rwlock:W", "mutex-spin", "rqspinlock"})

# Below both, waiting is negligible: one waiter for 1 % of the time, and no single wait that a person would notice.
NEGLIGIBLE_SHARE = 0.01
NEGLIGIBLE_WAIT_NS = 10_000_000
# The same of locks of programs, which threads leave for the clock's tick as a matter of course.
NEGLIGIBLE_USER_SHARE = 0.1
# One lock is the answer if it makes half of all waiting.
ONE_LOCK = 0.5
# Shorter recordings say little of a machine, unless they have many waits; and those that are shorter still, nothing.
SHORT_NS = 200_000_000
MANY = 50
_TOO_SHORT_NS = 50_000_000
# Of the begins: more than this lost, and the totals say little.
LOST = 0.1
# A finding counts by its impact and by how often such findings are right.
CONFIDENCE = {"high": 1.0, "medium": 0.6, "low": 0.3}
# Rules that say that a lock is busy, not why: of a known lock the atlas says what helps.
LONG_WAITS = "long-waits"
OVERUSED = ("convoy", "hot-lock", LONG_WAITS)
LONG_HOLD = "long-hold"
# And those that say which side makes the other wait, and in which function.
STARVED = ("readers-starved", "writer-starved")
# All rules that say less than one that names a cause of the same waits.
SYMPTOMS = (*OVERUSED, "futex-bucket")
# Rules about what long waits do to others: why there are such waits goes first.
EFFECTS = ("interrupts-off",)
# Rules that find threads that do not go on at all: no sum of waits is as bad.
STANDSTILLS = ("deadlock", "lock-not-released")
# Rules about waiting in user space that is for no lock.
BARRIERS = ("barrier-imbalance",)
# What a cause explains at least of the waiting for the busy lock.
CAUSE = 0.25

# Waits for locks that pass no tracepoint: what threads sleep in says so.
OTHER_LOCKS = ("file-lock", "semaphore")

Kind: TypeAlias = Literal[
    "standstill", "negligible", "one lock", "several", "user space", "other locks", "not enough recorded"
]


@dataclass(frozen=True, slots=True)
class Cost:
    """What waiting costs: CPUs that spin on average, and threads that sleep on average.

    machine: the spinning CPUs as a part of all CPUs, None if their number is not known.
    """

    spinning_cpus: float
    sleeping_threads: float
    machine: float | None


@dataclass(frozen=True, slots=True)
class Answer:
    """kind: see the constants of this module.  whole: as of whole_locks(), those it is about; part: of all waiting.

    longest: the longest single wait that was kept with its task.  why: of "not enough recorded", in one sentence.
    user_waiting: threads that wait on average for locks and uneven barriers of programs (record --futex), None without;
    at_barriers: of these, at barriers; unclear_waiting: others, of which futexes alone do not tell what they wait for.
    """

    kind: Kind
    cost: Cost
    whole: tuple[tuple[LockWaits, ...], ...]
    part: float
    longest: OutlierWait | None
    user_waiting: float | None = None
    why: str = ""
    at_barriers: float = 0.0
    unclear_waiting: float = 0.0

    @property
    def locks(self) -> tuple[LockWaits, ...]:
        """All ways in which these locks are waited for, those of one lock together."""
        return tuple(way for ways in self.whole for way in ways)


def family(kind: str) -> str:
    """What kind of lock it is, in whichever way it is taken: rwsem for rwsem:R, mutex for mutex-spin."""
    return kind.partition(":")[0].removesuffix("-spin")


def whole_locks(report: Report) -> list[tuple[LockWaits, ...]]:
    """Locks, or locks of one name, with all the ways in which they are waited for; heaviest first, within each too."""
    each = report.window.selection.by == "instance"
    found: dict[tuple[str, str, str], list[LockWaits]] = {}
    for lock in sorted(report.locks, key=lambda lock: -lock.figures.wait_ns):
        found.setdefault((lock.name, family(lock.kind), lock.worst_instance if each else ""), []).append(lock)
    return sorted(map(tuple, found.values()), key=lambda ways: -waiting_for(ways))


def waiting_for(ways: Sequence[LockWaits]) -> int:
    """Waiting for a lock in all these ways, in ns."""
    return sum(way.figures.wait_ns for way in ways)


def is_spinning(kind: str) -> bool:
    """Whether who waits for such a lock burns its CPU meanwhile."""
    return kind in SPINNING_KINDS


def cost_of(report: Report, waits: Sequence[tuple[str, Figures]]) -> Cost:
    """The cost of waits, given by kind."""

    def average(spinning: bool) -> float:
        ns = sum(figures.wait_ns for kind, figures in waits if is_spinning(kind) is spinning)
        return report.window.share(ns) or 0.0

    cpus = average(spinning=True)
    return Cost(cpus, average(spinning=False), cpus / report.window.cpus if report.window.cpus else None)


def user_waiting(report: Report) -> float | None:
    """Threads that wait on average for locks and uneven barriers of programs; None if nobody looked."""
    if report.futexes is None:
        return None
    ns = sum(futex.waited_ns for futex in report.futexes.futexes if futex.nature in (LOCK, PARKED))
    return (report.window.share(ns) or 0.0) + _at_barriers(report)


def _user_matters(report: Report, waiting: float) -> bool:
    """Whether waiting for locks of programs is more than negligible, in sum or in a single wait.

    A single wait may be for a CPU: of who was woken, and of whoever has an interpreter's lock while it computes.
    """
    futexes = report.futexes.futexes if report.futexes is not None else ()
    locks = [one for one in futexes if one.nature == LOCK and one.make not in INTERPRETERS]
    longest = max((one.longest_ns - one.total.max_latency_ns for one in locks), default=0)
    return waiting >= NEGLIGIBLE_USER_SHARE or (waiting >= NEGLIGIBLE_SHARE and longest >= NEGLIGIBLE_WAIT_NS)


def _at_barriers(report: Report) -> float:
    return report.window.share(sum(one.impact.wait_ns for one in report.findings if one.rule in BARRIERS)) or 0.0


def _unclear_waiting(report: Report) -> float:
    futexes = report.futexes.futexes if report.futexes is not None else ()
    return report.window.share(sum(one.figures.wait_ns for one in futexes if one.nature == UNCLEAR)) or 0.0


def _not_enough(report: Report) -> str:
    """Why the recording says too little; "" if it does not."""
    futexes = report.futexes.futexes if report.futexes is not None else ()
    waits = report.totals.waits + sum(futex.figures.waits for futex in futexes)
    if report.window.duration_ns < (_TOO_SHORT_NS if waits >= MANY else SHORT_NS):
        return "the recording is shorter than 0.2 s, and has few waits" if waits < MANY else "it is shorter than 0.05 s"
    begins = sum(kind.begins or 0 for kind in report.kinds)
    lost = sum(loss.events for loss in report.loss if loss.severity == "loss" and loss.name in ("orphaned", "no_slot"))
    if begins and lost > LOST * begins:
        return f"{lost:,} of {begins:,} lock waits have no end or no slot"
    return ""


def make_answer(report: Report) -> Answer:
    """The answer, always one."""
    return replace(_of_kind(report), at_barriers=_at_barriers(report), unclear_waiting=_unclear_waiting(report))


def _others_lead(sleepers: Sleepers | None, contention: float) -> bool:
    """Whether more threads wait for locks on files and semaphores than for all others, and not by intent alone."""
    if sleepers is None:
        return False
    others = sleepers.waiting(*OTHER_LOCKS)
    if contention >= NEGLIGIBLE_USER_SHARE:
        others -= sleepers.queued_alone()
    return others >= NEGLIGIBLE_USER_SHARE and others > contention


def _of_kind(report: Report) -> Answer:
    total_ns = report.totals.wait_ns
    cost = cost_of(report, [(kind.kind, kind.figures) for kind in report.kinds])
    longest = max(report.outliers, key=lambda wait: wait.wait_ns, default=None)
    whole = tuple(whole_locks(report))
    user = user_waiting(report)
    waiting = report.window.share(total_ns) or 0.0
    if any(found.rule in STANDSTILLS for found in report.findings):
        return Answer("standstill", cost, tuple(ways[:1] for ways in whole[:1]), 0.0, longest, user)
    why = _not_enough(report)
    if why:
        return Answer("not enough recorded", cost, whole, 0.0, longest, user, why)
    if _others_lead(report.sleepers, max(waiting, user or 0.0)):
        return Answer("other locks", cost, whole, 0.0, longest, user)
    if user is not None and user > waiting and _user_matters(report, user):
        return Answer("user space", cost, whole, 0.0, longest, user)
    if waiting < NEGLIGIBLE_SHARE and report.totals.max_ns < NEGLIGIBLE_WAIT_NS:
        return Answer("negligible", cost, whole, 0.0, longest, user)
    first = waiting_for(whole[0]) / total_ns if whole and total_ns else 0.0
    if first >= ONE_LOCK:
        return Answer("one lock", cost, whole[:1], first, longest, user)
    heavy = tuple(ways for ways in whole[:3] if waiting_for(ways) * 10 >= total_ns)
    part = sum(map(waiting_for, heavy)) / total_ns if total_ns else 0.0
    return Answer("several", cost, heavy, part, longest, user)


def _locks_of(finding: Finding) -> set[str]:
    """Names of the kernel's locks that a finding speaks of."""
    facts = (finding.claim, *finding.evidence)
    return {value.name for one in facts for _, value in one.values if isinstance(value, Lock)}


def _causes(finding: Finding, findings: Sequence[Finding]) -> list[Finding]:
    """Those that say why a lock is busy, of one that says only that it is, or what comes of it."""
    if finding.rule not in (*SYMPTOMS, *EFFECTS):
        return []
    names = _locks_of(finding)
    return [
        cause
        for cause in findings
        if cause.rule not in (*SYMPTOMS, *EFFECTS)
        and cause.impact.wait_ns >= CAUSE * finding.impact.wait_ns
        and names & _locks_of(cause)
    ]


def is_explained(finding: Finding, findings: Sequence[Finding]) -> bool:
    """Whether it says that a lock is busy, and another one says why."""
    return finding.rule in SYMPTOMS and bool(_causes(finding, findings))


def _score(finding: Finding) -> float:
    return CONFIDENCE[finding.confidence] * max(finding.impact.wait_ns, 1)


def by_impact(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Findings by what they explain times how sure they are, most first.

    That a lock is busy comes after what makes it so, if that explains a quarter as much.
    """

    def key(found: Finding) -> tuple[float, bool]:
        score = min(map(_score, (found, *_causes(found, findings))))
        return -score, found.rule in (*SYMPTOMS, *EFFECTS)

    return tuple(sorted(findings, key=key))


def trusted_ns(report: Report, kind: str) -> int:
    """The shortest wait of this kind of lock whose length is at most 10 % off; 0: not known, or all are."""
    handoff = report.trust.spinning if is_spinning(kind) else report.trust.sleeping
    return handoff.trusted_ns or 0
