# SPDX-License-Identifier: GPL-2.0-or-later
"""The graph of who waits for whom: threads, locks of the kernel and of programs, CPUs, and what holders sleep in.

Waiting for a lock is waiting for its holder, and for what that one waits for meanwhile: it is passed on along the graph
until it comes to somebody who works, or to what nobody in the graph holds (wPerf, OSDI '18, calls that cascading).
What has no such end is a knot: a circle in which all waiting stays.  The critical path goes back in time from the end
of the last wait, and at each wait to the one who let it end (Chen and Stenstrom, critical lock analysis, SC '12).
"""

import heapq
import math
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

# holder: whoever has a lock of a program.  sleep: what is no lock.  limit: of CPU time.
Kind: TypeAlias = Literal["lock", "user lock", "task", "holder", "cpu", "limit", "sleep"]
# Nodes of a graph; what is beyond the heaviest is left out.
MOST_NODES = 200
# Of what goes into a circle: less that leaves it is noise of rounding.
_LEAK = 1e-9


@dataclass(frozen=True, slots=True, order=True)
class Node:
    """Somebody or something that can be waited for.  name: as people know it; of: what tells two of one name apart."""

    kind: Kind
    name: str
    of: str = ""


@dataclass(frozen=True, slots=True)
class Flow:
    """Who waits for whom, in threads on average.

    waits: that wait for a lock.  passes: of the time in which others wait for the first, so much is waiting for the
    second.  stays: so much is nobody else's doing: it works, or what it does is not known.
    """

    waits: Mapping[Node, float] = field(default_factory=dict)
    passes: Mapping[tuple[Node, Node], float] = field(default_factory=dict)
    stays: Mapping[Node, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class End:
    """Where waiting comes to in the end.  threads: that wait for it.  path: there, by which most comes, locks first."""

    node: Node
    threads: float
    part: float
    path: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Knot:
    """A circle that no waiting leaves: nobody in it goes on before the others do."""

    nodes: tuple[Node, ...]
    threads: float


@dataclass(frozen=True, slots=True)
class Critical:
    """How much of the critical path one has a lock that others on it wait for; ns, and as a part of all of it."""

    lock: str
    ns: int
    part: float


@dataclass(frozen=True, slots=True)
class WaitGraph:
    """What the graph says: ends with the most waiting first.  critical: of the long waits that were kept."""

    threads: float
    ends: tuple[End, ...]
    knots: tuple[Knot, ...]
    critical: tuple[Critical, ...] = ()


@dataclass(frozen=True, slots=True)
class TimedWait:
    """One wait; by: who let it end, None: not known.  Times are ns of one clock."""

    task: int
    lock: str
    begin_ns: int
    end_ns: int
    by: int | None


def merged(flows: Iterable[Flow]) -> Flow:
    """Several looks at one machine: of each node what that look says that knows most of where its waiting goes."""
    waits: dict[Node, float] = {}
    out: dict[Node, tuple[float, float, dict[Node, float]]] = {}
    for flow in flows:
        for node, threads in flow.waits.items():
            waits[node] = max(threads, waits.get(node, 0.0))
        passes: defaultdict[Node, dict[Node, float]] = defaultdict(dict)
        for (source, target), threads in flow.passes.items():
            passes[source][target] = threads
        for node in {*passes, *flow.stays}:
            to, stays = passes.get(node, {}), flow.stays.get(node, 0.0)
            told = sum(to.values())
            # What a lock keeps is not known; what a thread keeps, it works.
            knows = told / (told + stays) if told + stays else 0.0
            if node not in out or knows > out[node][0]:
                out[node] = (knows, stays, to)
    return Flow(
        waits,
        {(node, target): threads for node, (_, _, to) in out.items() for target, threads in to.items()},
        {node: stays for node, (_, stays, _) in out.items() if stays},
    )


def _heaviest(flow: Flow) -> Flow:
    """The graph of the nodes that matter most."""
    weight: defaultdict[Node, float] = defaultdict(float)
    for node, threads in (*flow.waits.items(), *flow.stays.items()):
        weight[node] += threads
    for (source, target), threads in flow.passes.items():
        weight[source] += threads
        weight[target] += threads
    if len(weight) <= MOST_NODES:
        return flow
    kept = set(sorted(weight, key=lambda node: (-weight[node], node))[:MOST_NODES])
    stays = defaultdict(float, {node: threads for node, threads in flow.stays.items() if node in kept})
    for (source, target), threads in flow.passes.items():
        if source in kept and target not in kept:
            stays[source] += threads
    return Flow(
        {node: threads for node, threads in flow.waits.items() if node in kept},
        {pair: threads for pair, threads in flow.passes.items() if pair[0] in kept and pair[1] in kept},
        stays,
    )


def _shares(flow: Flow) -> dict[Node, tuple[float, dict[Node, float]]]:
    """Of each node: the part of what comes to it that stays, and the parts that go on."""
    passes: defaultdict[Node, dict[Node, float]] = defaultdict(dict)
    nodes = {*flow.waits, *flow.stays}
    for (source, target), threads in flow.passes.items():
        nodes |= {source, target}
        if threads > 0:
            passes[source][target] = threads
    made = {}
    for node in nodes:
        to, stays = passes.get(node, {}), max(0.0, flow.stays.get(node, 0.0))
        total = stays + sum(to.values())
        made[node] = (stays / total, {one: part / total for one, part in to.items()}) if total else (1.0, {})
    return made


def _components(shares: Mapping[Node, tuple[float, Mapping[Node, float]]]) -> list[list[Node]]:
    """Strongly connected components, those first that waiting comes from (Tarjan's, without recursion)."""
    index: dict[Node, int] = {}
    low: dict[Node, int] = {}
    on_stack: set[Node] = set()
    stack: list[Node] = []
    found: list[list[Node]] = []
    for root in sorted(shares):
        if root in index:
            continue
        work = [(root, iter(sorted(shares[root][1])))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, targets = work[-1]
            for target in targets:
                if target not in index:
                    index[target] = low[target] = len(index)
                    stack.append(target)
                    on_stack.add(target)
                    work.append((target, iter(sorted(shares[target][1]))))
                    break
                if target in on_stack:
                    low[node] = min(low[node], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    at = stack.index(node)
                    found.append(stack[at:])
                    on_stack -= set(stack[at:])
                    del stack[at:]
    return found[::-1]


def _solved(matrix: list[list[float]], right: list[float]) -> list[float]:
    """The solution of a system of linear equations, by elimination with the largest pivot."""
    size = len(right)
    for column in range(size):
        pivot = max(range(column, size), key=lambda row: abs(matrix[row][column]))
        matrix[column], matrix[pivot] = matrix[pivot], matrix[column]
        right[column], right[pivot] = right[pivot], right[column]
        for row in range(column + 1, size):
            factor = matrix[row][column] / matrix[column][column]
            if factor:
                right[row] -= factor * right[column]
                for at in range(column, size):
                    matrix[row][at] -= factor * matrix[column][at]
    solution = [0.0] * size
    for row in range(size - 1, -1, -1):
        rest = sum(matrix[row][at] * solution[at] for at in range(row + 1, size))
        solution[row] = (right[row] - rest) / matrix[row][row]
    return solution


def _paths(flow: Flow, shares: Mapping[Node, tuple[float, Mapping[Node, float]]]) -> dict[Node, tuple[Node, ...]]:
    """To each node the way by which most waiting comes."""
    best: dict[Node, float] = {}
    before: dict[Node, Node] = {}
    queue = [(-math.log(threads), node) for node, threads in flow.waits.items() if threads > 0]
    heapq.heapify(queue)
    starts = {node: length for length, node in queue}
    best.update(starts)
    while queue:
        length, node = heapq.heappop(queue)
        if length > best[node]:
            continue
        for target, part in shares[node][1].items():
            longer = length - math.log(part)
            if longer < best.get(target, math.inf):
                best[target], before[target] = longer, node
                heapq.heappush(queue, (longer, target))
    paths = {}
    for node in best:
        path = [node]
        while path[-1] in before:
            path.append(before[path[-1]])
        paths[node] = tuple(reversed(path))
    return paths


def solve(flow: Flow, critical: Sequence[Critical] = ()) -> WaitGraph:
    """Where all waiting comes to in the end, and the knots that it does not leave.

    The sum of ends and knots is all waiting.
    """
    flow = _heaviest(flow)
    shares = _shares(flow)
    inflow = defaultdict(float, {node: threads for node, threads in flow.waits.items() if threads > 0})
    ends: dict[Node, float] = {}
    knots = []
    for component in _components(shares):
        come = sum(inflow[node] for node in component)
        if not come:
            continue
        inside = {node: at for at, node in enumerate(component)}
        leaves = sum(
            shares[node][0] + sum(part for target, part in shares[node][1].items() if target not in inside)
            for node in component
        )
        if leaves <= _LEAK:
            knots.append(Knot(tuple(sorted(component)), come))
            continue
        matrix = [[1.0 if row == column else 0.0 for column in inside.values()] for row in inside.values()]
        for node, column in inside.items():
            for target, part in shares[node][1].items():
                if target in inside:
                    matrix[inside[target]][column] -= part
        for node, visits in zip(component, _solved(matrix, [inflow[node] for node in component]), strict=True):
            stays, passes = shares[node]
            if stays:
                ends[node] = stays * visits
            for target, part in passes.items():
                if target not in inside:
                    inflow[target] += part * visits
    total = math.fsum(threads for threads in flow.waits.values() if threads > 0)
    paths = _paths(flow, shares)
    ranked = sorted(ends.items(), key=lambda item: (-item[1], item[0]))
    return WaitGraph(
        threads=total,
        ends=tuple(End(node, threads, threads / total, paths[node]) for node, threads in ranked),
        knots=tuple(sorted(knots, key=lambda knot: -knot.threads)),
        critical=tuple(critical),
    )


def critical_path(waits: Sequence[TimedWait]) -> tuple[Critical, ...]:
    """Back in time from the end of the last wait: at each wait to the one who let it end, as long as that is known.

    A stretch of the path counts for the lock that the newest jump went to, back to the begin of that wait.
    """
    if not waits:
        return ()
    by_task: defaultdict[int, list[TimedWait]] = defaultdict(list)
    for wait in sorted(waits, key=lambda one: (one.end_ns, one.begin_ns)):
        by_task[wait.task].append(wait)
    ends = {task: [wait.end_ns for wait in own] for task, own in by_task.items()}
    begin = min(wait.begin_ns for wait in waits)
    last = max(waits, key=lambda one: (one.end_ns, one.task))
    total = last.end_ns - begin
    now, task = last.end_ns, last.task
    shares_of: Counter[str] = Counter()
    open_locks: list[tuple[str, int]] = []
    used: set[int] = set()

    def go_back(to: int) -> None:
        nonlocal now
        while now > to:
            while open_locks and open_locks[-1][1] >= now:
                open_locks.pop()
            if not open_locks:
                break
            lock, since = open_locks[-1]
            stretch = max(to, since)
            shares_of[lock] += now - stretch
            now = stretch
        now = min(now, to)

    while True:
        own = by_task.get(task, [])
        at = bisect_right(ends.get(task, []), now) - 1
        while at >= 0 and id(own[at]) in used:
            at -= 1
        if at < 0:
            go_back(begin)
            break
        wait = own[at]
        used.add(id(wait))
        go_back(wait.end_ns)
        if wait.by is None or wait.by == task:
            # Nobody is known to go on with: the wait itself is on the path.
            open_locks.append((wait.lock, wait.begin_ns))
            go_back(wait.begin_ns)
            continue
        open_locks.append((wait.lock, wait.begin_ns))
        task = wait.by
    ranked = shares_of.most_common()
    return tuple(Critical(lock, ns, ns / total) for lock, ns in ranked if total and ns)
