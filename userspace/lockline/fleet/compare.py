# SPDX-License-Identifier: GPL-2.0-or-later
"""Tests over hosts, not over waits: what one busy host does is one sample.

Hosts of two groups are compared as `lockline diff` compares samples of a benchmark.  The same hosts at two times are
exchanged in pairs (base.paired_test), dealt into blocks by a hash of their names.
"""

import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median

from lockline.base.paired_test import EXACT_PAIRS, paired_test
from lockline.base.statistics import Interval, Test, holm, mann_whitney
from lockline.diff.model import Judgement, Rule, compare, judge

# Of more hosts on a side these are compared, chosen by a hash of their names.
MOST_HOSTS = 400

Shares = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Effect:
    """A difference between two sides of hosts.

    before, after: the mean share of the hosts.  hosts: on each side; paired: the same on both.  judgement: None where
    nothing was tested, for the reason in unjudged.
    """

    before: float
    after: float
    hosts: tuple[int, int]
    paired: bool
    judgement: Judgement | None
    unjudged: str = ""

    @property
    def ratio(self) -> float | None:
        """After over before; None: of nothing."""
        return self.after / self.before if self.before > 0 else None


def _ordered(hosts: Iterable[str]) -> list[str]:
    """Hosts in an order that has nothing to do with what they are, and is the same each time."""
    return sorted(hosts, key=lambda host: (zlib.crc32(host.encode("utf-8", "replace")), host))


def _dealt(hosts: Sequence[str], blocks: int) -> list[list[str]]:
    ordered = _ordered(hosts)
    return [ordered[start::blocks] for start in range(min(blocks, len(ordered)))]


def _values(shares: Shares) -> list[float]:
    if len(shares) <= MOST_HOSTS:
        return list(shares.values())
    return [shares[host] for host in _ordered(shares)[:MOST_HOSTS]]


def _mean(shares: Shares) -> float:
    return fmean(shares.values()) if shares else 0.0


def group_test(before: Shares, after: Shares) -> Test:
    """Whether two groups of hosts differ; raises ValueError if one is empty."""
    return mann_whitney(_values(before), _values(after))


def compare_groups(before: Shares, after: Shares, rule: Rule) -> Effect:
    """Two groups of hosts; less waiting is better."""
    sides = _mean(before), _mean(after)
    hosts = len(before), len(after)
    if min(hosts) < 2:
        return Effect(*sides, hosts, False, None, "fewer than two hosts on a side")
    found = compare(_values(before), _values(after), higher_is_better=False, rule=rule)
    return Effect(*sides, hosts, False, found.judgement)


def compare_times(before: Shares, after: Shares, rule: Rule) -> Effect:
    """The same hosts at two times; hosts that only one side has are left out."""
    both = sorted(before.keys() & after.keys())
    first, second = {host: before[host] for host in both}, {host: after[host] for host in both}
    sides = _mean(first), _mean(second)
    hosts = len(both), len(both)
    if len(both) < 2:
        return Effect(*sides, hosts, True, None, "fewer than two hosts at both times")
    blocks = _dealt(both, EXACT_PAIRS)
    pairs = [(fmean(second[host] for host in block), fmean(first[host] for host in block)) for block in blocks]
    if not any(one or other for one, other in pairs):
        return Effect(*sides, hosts, True, None, "no waiting")
    found = paired_test(pairs, rule.alpha)
    ratio = sides[1] / sides[0] - 1 if sides[0] > 0 else math.inf
    low, high = found.low - 1, found.high - 1
    known = math.isfinite(ratio)
    judgement = Judgement(
        test=Test("exchange of the two times, by hosts", sides[1] - sides[0], found.p, found.smallest_p),
        p=found.p,
        tested=1,
        difference=Interval(ratio, low, high, 1 - rule.alpha),
        relative=ratio if known else None,
        relative_low=low if known and math.isfinite(low) else None,
        relative_high=high if known and math.isfinite(high) else None,
        verdict="inconclusive",
        reason="",
    )
    return Effect(*sides, hosts, True, judge(judgement, rule, higher_is_better=False))


def reaches(effect_before: Shares, effect_after: Shares, rule: Rule) -> bool:
    """Whether the means differ by the threshold: else no test could find a difference that matters."""
    before, after = _mean(effect_before), _mean(effect_after)
    return before != after and abs(after - before) >= rule.threshold * before


def corrected(effects: Sequence[Effect], tested: int, rule: Rule) -> list[Effect]:
    """The effects with p values and verdicts corrected after Holm; tested: things in all, tested or passed over."""
    judged = [effect.judgement.test.p for effect in effects if effect.judgement is not None]
    others = max(0, tested - len(judged))
    values = iter(holm([*judged, *[1.0] * others])[: len(judged)])
    out = []
    for effect in effects:
        if effect.judgement is not None:
            judgement = replace(effect.judgement, p=next(values), tested=max(tested, 1))
            effect = replace(effect, judgement=judge(judgement, rule, higher_is_better=False))
        out.append(effect)
    return out


@dataclass(frozen=True, slots=True)
class Spread:
    """A share over hosts: mean, median, 99 of 100 hosts are at most at p99; worst hosts first."""

    mean: float
    median: float
    p99: float
    worst: tuple[tuple[str, float], ...]


def spread(shares: Shares, worst: int) -> Spread:
    """Of at least one host."""
    values = sorted(shares.values())
    rank = max(1, math.ceil(len(values) * 99 / 100))
    first = sorted(shares.items(), key=lambda item: (-item[1], item[0]))[:worst]
    return Spread(fmean(values), median(values), values[rank - 1], tuple(item for item in first if item[1] > 0))
