# SPDX-License-Identifier: GPL-2.0-or-later
"""Which hypothesis explains most, and which only says that a lock is waited for."""

from collections.abc import Sequence

from lockline.analysis.answer import CONFIDENCE, STANDSTILLS, SYMPTOMS
from lockline.analysis.findings import Lock, UserLock
from lockline.investigation.little import BUSY
from lockline.investigation.model import Hypothesis
from lockline.rules.common import USER_RULES

# The holder is another process than the one that waits.
HELD_BY_OTHERS = "held-by-others"


def rank(one: Hypothesis, among: Sequence[Hypothesis]) -> float:
    """What it explains times how sure it is; a symptom comes behind what causes it."""
    score = CONFIDENCE[one.sure] * one.waiters
    if one.cause in STANDSTILLS and one.supported:
        # Threads that do not go on at all: no sum of waits is as bad.
        return 1e9 + score
    if not one.supported:
        return score * 1e-6
    if is_symptom(one):
        causes = [CONFIDENCE[other.sure] * other.waiters for other in among if explains(other, one)]
        return min([score, *(cause * 0.999 for cause in causes)])
    return score


def is_symptom(one: Hypothesis) -> bool:
    """Whether it says that a lock is waited for, not why."""
    return one.cause in SYMPTOMS or one.cause in USER_RULES or one.cause in ("program-locks", BUSY)


def explains(cause: Hypothesis, symptom: Hypothesis) -> bool:
    """Whether it says why that lock is waited for, and that is at least a third of it."""
    if is_symptom(cause) or not cause.supported or cause.waiters < symptom.waiters / 3:
        return False
    names = names_of(symptom)
    return bool(names & names_of(cause))


def names_of(one: Hypothesis) -> set[str]:
    """The names of the locks that it speaks of."""
    facts = (one.claim, *(evidence.fact for evidence in one.evidence))
    values = [value for told in facts for _, value in told.values]
    if one.subject is not None:
        values.append(one.subject)
    return {value.name for value in values if isinstance(value, Lock | UserLock)}


def neighbour(one: Hypothesis, among: Sequence[Hypothesis]) -> Hypothesis | None:
    """What says that another process has the lock that this one is about, if anything does."""
    names = names_of(one)
    found = [other for other in among if other.cause == HELD_BY_OTHERS and other.supported and other is not one]
    return next((other for other in found if names & names_of(other)), None)
