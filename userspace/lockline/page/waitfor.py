# SPDX-License-Identifier: GPL-2.0-or-later
"""Who waits for whom: commands that wait, the locks, and who held them, as a graph."""

from collections import Counter
from collections.abc import Mapping, Sequence

from lockline.analysis.blocked import BlockedThread
from lockline.analysis.model import Report
from lockline.base.numbers import duration
from lockline.page import svg
from lockline.page.document import Section, figure
from lockline.page.html import Content, Writer
from lockline.page.series import OTHERS, lock_name

# Nodes of a column, and rows of the table; what is more becomes one.
NODES, ROWS = 10, 100
NOT_KNOWN = "not known"

Flows = Mapping[tuple[str, str], int]


def _stuck(thread: BlockedThread) -> str:
    """The lock that a thread waits for still."""
    return thread.futex.name or f"a lock of {thread.futex.comm or thread.comm} ({thread.futex.tgid})"


def flows(report: Report) -> tuple[Flows, Flows]:
    """From who waits to the lock, and from the lock to who held it, in ns.

    A command stands for all its tasks; but who waited at the end for a lock of a program, and its owner, are tasks.
    """
    waits: Counter[tuple[str, str]] = Counter()
    holds: Counter[tuple[str, str]] = Counter()
    for task in report.tasks:
        waits[task.comm, f"{task.lock or '?'} ({task.kind})"] += task.lock_ns
    for lock in report.locks:
        for holder in lock.holders:
            holds[lock_name(lock), NOT_KNOWN if holder.kind == "unknown" else holder.comm] += holder.caused_ns
    for thread in report.futexes.blocked if report.futexes is not None else ():
        waits[f"{thread.comm} ({thread.tid})", _stuck(thread)] += thread.age_ns
        holds[_stuck(thread), f"{thread.owner_comm} ({thread.owner})"] += thread.age_ns
    return waits, holds


def _ranked(names: Sequence[tuple[str, int]]) -> tuple[dict[str, int], list[str]]:
    """Of names with their weights: the node of each, and what the nodes are called, heaviest first."""
    sums: Counter[str] = Counter()
    for name, ns in names:
        sums[name] += ns
    ranked = sorted(sums, key=lambda name: (-sums[name], name))
    rest = len(ranked) - NODES
    return {name: min(node, NODES) for node, name in enumerate(ranked)}, ranked[:NODES] + (
        [f"{OTHERS} ({rest:,})"] if rest > 0 else []
    )


def _links(side: Flows, sources: Mapping[str, int], targets: Mapping[str, int]) -> list[svg.Link]:
    sums: Counter[tuple[int, int]] = Counter()
    for (source, target), ns in side.items():
        sums[sources[source], targets[target]] += ns
    return [svg.Link(source, target, ns) for (source, target), ns in sorted(sums.items()) if ns]


def waitfor_section(report: Report, write: Writer) -> Section:
    """The graph, with its edges as a table."""
    waits, holds = flows(report)
    waiters, waiter_names = _ranked([(source, ns) for (source, _), ns in waits.items()])
    locks, lock_names = _ranked(
        [(lock, ns) for (_, lock), ns in waits.items()] + [(lock, ns) for (lock, _), ns in holds.items()]
    )
    holders, holder_names = _ranked([(target, ns) for (_, target), ns in holds.items()])
    drawing = svg.flows(
        write,
        "Who waits for which lock, and who held it",
        (("who waits", waiter_names), ("for which lock", lock_names), ("who held it", holder_names)),
        (_links(waits, waiters, locks), _links(holds, locks, holders)),
    )
    edges = [(source, "waits for", target, ns) for (source, target), ns in waits.items()]
    edges += [(source, "was held by", target, ns) for (source, target), ns in holds.items()]
    edges.sort(key=lambda edge: (-edge[3], edge[:3]))
    rows: list[Sequence[Content]] = [(*edge[:3], duration(edge[3])) for edge in edges[:ROWS]]
    table = write.table("Who waits for whom", ("from", "how", "to", "waiting"), rows, (0, 1, 2))
    caption = (
        "Who waits, by samples; for which lock; and who held it, by the waiting that this caused."
        " The wider a line, the more waiting. A command on both sides waits and makes others wait."
    )
    return Section("waitfor", "Who waits for whom", figure(write, "waitfor", caption, drawing, table, chart=False))
