# SPDX-License-Identifier: GPL-2.0-or-later
"""What is said of a line's sharing, and what all of its rules go by: which members count, and which are written."""

from collections.abc import Sequence
from typing import Literal

from lockline.base.values import dataclass
from lockline.c2c.model import Counts, Part

Kind = Literal["false", "true", "open"]
# How far it is known: proven by who does what, shown by the numbers of CPUs, or likely by the code alone.
Strength = Literal["proven", "shown", "likely"]

# A member counts in the fight from this share of the line's cost on; less is spill-over or skid of the sampling.
MEMBER = 0.05
# A sampled store in so many loads is what skid and mistaken samples make of none.
STRAY_STORES = 0.01
# Of the line's stores, what mistaken addresses make at a member that nobody writes.
STRAY_SHARE = 0.02
# From this share on one kind of sharing is the line's; between these both are.
MOST = 0.75
MAINLY = 0.55
# So much of the cost beside what decides the kind is not small: paid at members that nobody writes, in code that does
# not write the line, it is worth moving them.
BESIDE = 0.25
# So much of the cost at members of strangers makes it false sharing too, whatever else is shared.
BOTH = 0.1
# Sampling by latency leaves out loads that find the line: that nearly all pay is no more than this.
SATURATED = 0.95
# Loads and stores are sampled at rates of their own: one sampled store may stand for so many more than a load.
RATES = 10
# From fewer stores nothing can be told of a member that has none.
FEW_STORES = 20
# So many stores at one member, with nearly all of the line's, are no strays, however many loads there are.
SELDOM_STORES = 5
NEARLY_ALL = 0.9

THREADS = "run `perf c2c report --stdio -NN -c tid,iaddr`: it shows which threads use which offsets"
LONGER = "a longer `perf c2c record -F max -a sleep 60` samples more of them"
WHOLE_TEXT = "the whole text of `perf c2c report --stdio -NN -c tid,iaddr` tells it"
RECORD_STORES = (
    "record with stores (Intel: `perf c2c record -e ldlat-loads -e ldlat-stores`; Arm: SPE with store_filter=1; AMD's "
    "IBS tags few stores: `perf annotate` shows which of these instructions write)"
)


# The figures up to this one.
_LOCKED = Counts._fields.index("locked") + 1


@dataclass(frozen=True, slots=True)
class Sharing:
    """What kind of sharing a line's cost is, and why.  parts: the members that it is about; false_share: of the cost.

    open: what keeps it from being known, with the command that would tell.
    """

    kind: Kind
    strength: Strength
    parts: tuple[Part, ...]
    reason: str
    false_share: float | None = None
    open: str = ""


def is_written(part: Part) -> bool:
    """Whether it is more than a stray sample that stores to the member."""
    _, loads, stores, locked = part.counts[:_LOCKED]
    return max(stores or 0, locked or 0) > STRAY_STORES * (loads or 0)


def written_parts(parts: Sequence[Part]) -> list[Part]:
    """The members that are written, without strays."""
    writes = [sum([access.wrote for access in part.accesses]) for part in parts]
    whole = sum(writes)
    least = max(STRAY_SHARE * whole, whole >= FEW_STORES)
    return [part for part, here in zip(parts, writes, strict=True) if here > least and is_written(part)]


def seldom_written(parts: Sequence[Part]) -> list[Part]:
    """The one member with nearly all sampled stores of a line, though they are few for its loads: a flag, a pointer."""
    writes = [sum(access.wrote for access in part.accesses) for part in parts]
    return [
        part for part, here in zip(parts, writes, strict=True) if here >= max(SELDOM_STORES, NEARLY_ALL * sum(writes))
    ]


def places(parts: Sequence[Part]) -> str:
    """Members in words."""
    names = [part.name if not part.member else f"{part.member} (+{max(0, part.begin):#x})" for part in parts]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
