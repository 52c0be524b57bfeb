# SPDX-License-Identifier: GPL-2.0-or-later
"""The graph of who waits for whom, as far as one recording knows it.

Holders of the kernel's locks: record --holders; what they did: --episodes.  Holders of programs' locks, and what these
wait for meanwhile: looks of record --futex.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from lockline.analysis.answer import is_spinning
from lockline.analysis.episode_model import Episode, Party
from lockline.analysis.model import Holder, Report
from lockline.analysis.user_space.futex import place_of, places_of
from lockline.analysis.user_space.futex_waits import LOCK, PARKED, FutexWaits
from lockline.analysis.waitgraph import Flow, Node, TimedWait, WaitGraph, critical_path, solve
from lockline.recording import user_rows

# What threads wait for that want a CPU and have none; that may not run; and whose sleep is of no kind that is known.
CPU, LIMIT = Node("cpu", "a CPU"), Node("limit", "a CPU limit")
ASLEEP = Node("sleep", "")
# Frames from the lock's own functions on, of which one may be what a thread sleeps in (/proc/PID/wchan).
_FRAMES = 8


class _Flows:
    """Sums of a flow, in ns."""

    def __init__(self) -> None:
        self.waits: Counter[Node] = Counter()
        self.passes: Counter[tuple[Node, Node]] = Counter()
        self.stays: Counter[Node] = Counter()

    def flow(self, window_ns: int) -> Flow:
        """In threads on average."""
        return Flow(
            {node: ns / window_ns for node, ns in self.waits.items() if ns > 0},
            {pair: ns / window_ns for pair, ns in self.passes.items() if ns > 0},
            {node: ns / window_ns for node, ns in self.stays.items() if ns > 0},
        )


def _lock(name: str) -> Node:
    return Node("lock", name)


def _user_lock(futex: user_rows.Futex) -> Node:
    return Node("user lock", futex.name or futex.object, f"{futex.tgid}:{futex.address:x}")


def _thread(tid: int, comm: str) -> Node:
    return Node("task", comm, str(tid))


def _of_holder(holder: Holder) -> Node:
    return _thread(holder.tid, holder.comm)


def _add_holders(report: Report, flows: _Flows) -> None:
    """From the kernel's locks to who had them while others waited."""
    for lock in report.locks:
        node, known = _lock(lock.name), 0
        flows.waits[node] += lock.figures.wait_ns
        for holder in lock.holders:
            if holder.kind == "task":
                flows.passes[node, _of_holder(holder)] += holder.caused_ns
                known += holder.caused_ns
        flows.stays[node] += max(0, lock.figures.wait_ns - known)


def _links(episode: Episode, holder: Party) -> list[tuple[str, int, Party | None]]:
    """The locks that a holder waited for during the wait, for how long, and who had them."""
    return [(link.lock, link.wait_ns, link.holder) for link in episode.chain if link.waiter.tid == holder.tid]


def _add_episodes(episodes: Iterable[Episode], flows: _Flows) -> None:
    """What holders did in long waits, and further links of their chains."""
    for episode in episodes:
        for holder in episode.holders:
            node, doing = _thread(holder.task.tid, holder.task.comm), holder.doing
            asleep = doing.asleep_ns + doing.stopped_ns
            for lock, wait_ns, of in _links(episode, holder.task):
                part = min(asleep, wait_ns)
                asleep -= part
                flows.passes[node, _lock(lock)] += part
                if of is not None:
                    flows.passes[_lock(lock), _thread(of.tid, of.comm)] += part
            flows.stays[node] += doing.running_ns + doing.unknown_ns
            flows.passes[node, CPU] += doing.preempted_ns
            flows.passes[node, LIMIT] += doing.throttled_ns
            flows.passes[node, ASLEEP] += asleep


def _sleepers(report: Report) -> Mapping[tuple[int, str], str]:
    """The kernel's lock that threads of a process wait for in a function."""
    processes: defaultdict[str, set[int]] = defaultdict(set)
    for task in report.tasks:
        processes[task.lock].add(task.tgid)
    found: dict[tuple[int, str], str] = {}
    for lock in report.locks:
        if is_spinning(lock.kind):
            # Nobody sleeps there: a thread that goes to sleep passes the run queue's lock on its way.
            continue
        for stack in lock.stacks:
            for frame in stack.frames[:_FRAMES]:
                for tgid in processes[lock.name]:
                    found.setdefault((tgid, frame.symbol.partition(".")[0]), lock.name)
    return found


def _add_futexes(report: Report, futexes: Iterable[FutexWaits], flows: _Flows) -> None:
    """From locks of programs to their holders, and to what these sleep in: another lock, or what is none."""
    asleep_for = _sleepers(report)
    locks = {one.futex.id: one for one in futexes if one.nature in (LOCK, PARKED)}
    places = places_of(locks.values())
    for one in locks.values():
        tgid = one.futex.tgid
        node = _user_lock(one.futex)
        flows.waits[node] += one.waited_ns
        looks = sum(look.looks for look in one.holders)
        if not looks:
            flows.stays[node] += one.waited_ns
            continue
        holder = Node("holder", node.name, node.of)
        flows.passes[node, holder] += one.waited_ns
        for look in one.holders:
            part = one.waited_ns * look.looks // looks
            function = look.function.partition(".")[0]
            behind = locks.get(places.behind(place_of(one), look.behind)) if look.behind else None
            if behind is not None:
                flows.passes[holder, _user_lock(behind.futex)] += part
            elif look.state == "R":
                flows.stays[holder] += part
            elif (tgid, function) in asleep_for:
                flows.passes[holder, _lock(asleep_for[tgid, function])] += part
            else:
                what = look.call or function
                flows.passes[holder, Node("sleep", what) if what else ASLEEP] += part


def flow_of(report: Report) -> Flow:
    """Who waits for whom in this recording, in threads on average."""
    flows = _Flows()
    _add_holders(report, flows)
    _add_episodes(report.episodes, flows)
    if report.futexes is not None:
        _add_futexes(report, report.futexes.futexes, flows)
    return flows.flow(report.window.duration_ns) if report.window.duration_ns else Flow()


def timed_waits(report: Report) -> tuple[TimedWait, ...]:
    """The long waits that were kept, each with the holder that had its lock for most of it."""
    found = []
    for episode in report.episodes:
        holder = max(episode.holders, key=lambda one: one.held_ns, default=None)
        found.append(
            TimedWait(
                task=episode.waiter.tid,
                lock=episode.lock,
                begin_ns=episode.begin_ns,
                end_ns=episode.begin_ns + episode.duration_ns,
                by=None if holder is None or not holder.held_ns else holder.task.tid,
            )
        )
    return tuple(found)


def waitgraph_of(report: Report) -> WaitGraph:
    """Where the waiting of a recording comes to in the end."""
    return solve(flow_of(report), critical_path(timed_waits(report)))
