# SPDX-License-Identifier: GPL-2.0-or-later
"""The values that a fleet's report and comparison consist of.  Shares are wait time per observed host time."""

from dataclasses import dataclass

from lockline.diff.model import Rule
from lockline.fleet.compare import Effect, Spread


@dataclass(frozen=True, slots=True)
class Silent:
    """A host that is missing, or was observed for less than half as long as most; seen: share of the usual time."""

    host: str
    seen: float
    last_hour: int | None


@dataclass(frozen=True, slots=True)
class Period:
    """Hours of UTC since 1970; what was observed in them."""

    first_hour: int
    end_hour: int
    hosts: int
    recordings: int
    observed_ns: int
    weighted_ns: float
    lost: int


@dataclass(frozen=True, slots=True)
class LockShare:
    """One lock of the fleet.

    share: of all observed host time; of_waiting: of all lock waiting.  hosts: that waited for it.  change: from the
    period before, None where there is none.  p50_ns, p99_ns: of single waits, None where a container was chosen.
    """

    name: str
    kind: str
    share: float
    of_waiting: float
    waits: int
    wait_ns: int
    max_ns: int
    hosts: int
    spread: Spread
    p50_ns: int | None
    p99_ns: int | None
    new: bool
    change: Effect | None


@dataclass(frozen=True, slots=True)
class ProgramLock:
    """A lock of a program on all hosts; code: what tells it from others of its name, or ''.

    share: of the host time in which programs were looked at; before: in the period before, None where nobody looked.
    """

    program: str
    name: str
    code: str
    share: float
    waits: int
    wait_ns: int
    max_ns: int
    hosts: int
    spread: Spread
    before: float | None


@dataclass(frozen=True, slots=True)
class Programs:
    """Locks of programs, as far as hosts were recorded with them (--futex); weighted_ns: of these hosts' time."""

    hosts: int
    weighted_ns: float
    share: float
    lock_count: int
    locks: tuple[ProgramLock, ...]


@dataclass(frozen=True, slots=True)
class GroupEffect:
    """Waits for a lock on hosts of one group against all others."""

    by: str
    value: str
    name: str
    kind: str
    effect: Effect


@dataclass(frozen=True, slots=True)
class Group:
    """Hosts that share a fact, and their share of lock waiting."""

    by: str
    value: str
    hosts: int
    share: float


@dataclass(frozen=True, slots=True)
class FindingCount:
    """On how many hosts, and in how many recordings, a rule found something; before: hosts in the period before."""

    rule: str
    hosts: int
    recordings: int
    share: float
    before: int | None


@dataclass(frozen=True, slots=True)
class FleetReport:
    """Everything that a fleet's report shows; effects: of groups, those that differ first."""

    directory: str
    container: str | None
    period: Period
    before: Period | None
    rule: Rule
    min_share: float
    share: float
    lock_count: int
    locks: tuple[LockShare, ...]
    total_change: Effect | None
    groups: tuple[Group, ...]
    effects: tuple[GroupEffect, ...]
    tested: int
    findings: tuple[FindingCount, ...]
    missing: tuple[Silent, ...]
    partial: tuple[Silent, ...]
    expected: int
    programs: Programs | None = None

    @property
    def worse(self) -> tuple[LockShare, ...]:
        """Locks with more waiting than in the period before, most first."""
        return tuple(
            sorted(
                (lock for lock in self.locks if is_worse(lock.change)),
                key=lambda lock: -(lock.change.after - lock.change.before if lock.change else 0.0),
            )
        )

    @property
    def different(self) -> tuple[GroupEffect, ...]:
        """Locks with more waiting on some hosts than on the others."""
        return tuple(one for one in self.effects if is_worse(one.effect))


@dataclass(frozen=True, slots=True)
class SideOf:
    """One side of a comparison, in the words of the user."""

    text: str
    period: Period


@dataclass(frozen=True, slots=True)
class LockChange:
    """One lock on both sides; '' for all lock waits."""

    name: str
    kind: str
    effect: Effect


@dataclass(frozen=True, slots=True)
class FleetDiff:
    """A fleet before and after, or two groups of it; locks by the size of the change."""

    directory: str
    before: SideOf
    after: SideOf
    rule: Rule
    min_share: float
    total: LockChange
    locks: tuple[LockChange, ...]
    judged: int
    warnings: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """Regressed if anything did, else what all waits together tell."""
        verdicts = [change.effect.judgement.verdict for change in (self.total, *self.locks) if change.effect.judgement]
        if "regressed" in verdicts:
            return "regressed"
        return self.total.effect.judgement.verdict if self.total.effect.judgement else "inconclusive"


def is_worse(effect: Effect | None) -> bool:
    """Whether there is more waiting after than before, for sure."""
    return effect is not None and effect.judgement is not None and effect.judgement.verdict == "regressed"
