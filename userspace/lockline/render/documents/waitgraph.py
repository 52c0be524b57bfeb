# SPDX-License-Identifier: GPL-2.0-or-later
"""The graph of who waits for whom, as `lockline report` and `lockline why` have it in JSON."""

from typing import Literal

from lockline.analysis.waitgraph import Node
from lockline.analysis.waitgraph import WaitGraph as WaitGraph_
from lockline.base.values import dataclass
from lockline.render.walker import Amount, Count, Fraction, shown

# Of the ends, and of the critical path; of the nodes of a knot.
_ENDS, _CRITICAL, _KNOT = 10, 10, 20


@dataclass(frozen=True)
class WaitEnd:
    """Where waiting comes to in the end."""

    what: str = shown("who or what, in words")
    kind: Literal["lock", "user lock", "task", "holder", "cpu", "limit", "sleep"] = shown(
        "lock, user lock: who has it is not known; task: a thread that works with a lock held; holder: whoever has a"
        " lock of a program, and works; cpu, limit: the holder has no CPU; sleep: it sleeps for what is no lock"
    )
    threads: Amount = shown("that wait for it in the end, on average")
    part: Fraction = shown("of all waiting")
    path: tuple[str, ...] = shown("the way by which most of that comes, from a lock to what this is")


@dataclass(frozen=True)
class WaitKnot:
    """Who waits in a circle that no waiting leaves."""

    of: tuple[str, ...] = shown("locks and threads")
    threads: Amount = shown("that wait for it")


@dataclass(frozen=True)
class CriticalLock:
    """A lock's part of the critical path."""

    lock: str = shown("its name")
    ns: Count = shown("in which it was held on the path while others on it waited")
    part: Fraction = shown("of the whole path")


@dataclass(frozen=True)
class WaitGraph:
    """Who waits for whom in the end."""

    threads: Amount = shown("that wait for locks, on average")
    ends: tuple[WaitEnd, ...] = shown("where that comes to, most first, ten at most")
    knots: tuple[WaitKnot, ...] = shown("circles that no waiting leaves")
    critical: tuple[CriticalLock, ...] = shown("the critical path through the long waits that were kept (--episodes)")


def node_words(node: Node) -> str:
    """A node as people know it."""
    match node.kind:
        case "task":
            return f"{node.name} ({node.of})"
        case "holder":
            return f"the holder of {node.name}"
        case "sleep":
            return f"sleep in {node.name}" if node.name else "sleep"
        case _:
            return node.name


def made(graph: WaitGraph_) -> WaitGraph:
    """The graph in words."""
    return WaitGraph(
        threads=graph.threads,
        ends=tuple(
            WaitEnd(
                what=node_words(end.node),
                kind=end.node.kind,
                threads=max(0.0, end.threads),
                part=min(1.0, max(0.0, end.part)),
                path=tuple(map(node_words, end.path)),
            )
            for end in graph.ends[:_ENDS]
        ),
        knots=tuple(WaitKnot(tuple(map(node_words, knot.nodes[:_KNOT])), knot.threads) for knot in graph.knots[:_ENDS]),
        critical=tuple(CriticalLock(one.lock, one.ns, min(1.0, one.part)) for one in graph.critical[:_CRITICAL]),
    )


def end_words(end: WaitEnd) -> str:
    """An end in a sentence."""
    does = {
        "lock": "{what}, whose holder is not known",
        "user lock": "{what}, whose holder is not known",
        "task": "{what}, which works with a lock held",
        "holder": "{what}, which works with it held",
        "cpu": "a CPU that a holder wants",
        "limit": "a CPU limit that stops a holder",
        "sleep": "a holder's {what}",
    }[end.kind].format(what=end.what)
    way = f": {' <- '.join(end.path)}" if len(end.path) > 1 else ""
    return f"{end.part:.0%} of all waiting is in the end for {does}{way}"


def knot_words(knot: WaitKnot) -> str:
    """A knot in a sentence."""
    return f"{knot.threads:.2f} threads wait in a circle that nothing leaves: {', '.join(knot.of)}"


def critical_words(one: CriticalLock) -> str:
    """A lock's part of the critical path in a sentence."""
    return f"{one.lock} has {one.part:.0%} of the critical path through the long waits"
