# SPDX-License-Identifier: GPL-2.0-or-later
"""Which monitors the threads of a JVM waited for, by looks at them (record --futex, docs/futex.md).

A thread of Java waits at a word of its own, whichever monitor it wants; only the JVM knows which.  A look is of the
moment: the threads seen waiting are to each other as the times that they wait.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from lockline.analysis.blocked import BlockedThread
from lockline.base.values import dataclass
from lockline.recording import user_rows
from lockline.recording.reader import Recording

# Of one row of the report.
MONITORS = 4
# Looks with waiters from which on their parts tell something.
ENOUGH_LOOKS = 5
# Of all looks at a JVM: who waits at so many, for who has the monitor at so many, is seen together with the others.
_ALWAYS = 0.95
# Of the threads seen waiting: a row is called after a monitor that has as many.
_MOSTLY = 0.5


@dataclass(frozen=True, slots=True)
class Monitor:
    """A monitor that threads waited for.

    class_name: of its object, '' if it could not be read.  part: of the threads seen waiting, those that waited for
    this one.  looks: at which somebody did.  owner: the thread that most often had it then, as Java calls it, '' if it
    has no name; owner_tid: 0 if no owner was seen; owner_part: of the looks.
    """

    address: int
    class_name: str
    part: float
    looks: int
    owner: str
    owner_tid: int
    owner_part: float


def _merged(found: Iterable[user_rows.JavaMonitor]) -> dict[int, user_rows.JavaMonitor]:
    """By address; where the class could not be read at times, it is that of the other looks."""
    merged: dict[int, user_rows.JavaMonitor] = {}
    for row in sorted(found, key=lambda row: (-row.waiting, row.class_name)):
        before = merged.get(row.address)
        if before is None:
            merged[row.address] = row
        else:
            merged[row.address] = before._replace(
                class_name=before.class_name or row.class_name,
                looks=before.looks + row.looks,
                waiting=before.waiting + row.waiting,
            )
    return merged


def _row_of(waiters: Mapping[int, int], lines: Mapping[int, Collection[int]]) -> int | None:
    """Which line of a report a monitor belongs to: the one whose threads were seen waiting for it.

    waiters: looks by thread; lines: threads by line.
    """
    if len(lines) == 1:
        return next(iter(lines))
    seen = {line: sum(waiters.get(tid, 0) for tid in tids) for line, tids in lines.items()}
    line = max(seen, key=lambda line: seen[line], default=None)
    return line if line is not None and seen[line] else None


def _monitor(row: user_rows.JavaMonitor, every: float, owners: Mapping[tuple[int, str], int]) -> Monitor:
    (tid, name), looks = max(owners.items(), key=lambda item: (item[1], item[0]), default=((0, ""), 0))
    return Monitor(
        address=row.address,
        class_name=row.class_name,
        part=row.waiting / every if every else 0.0,
        looks=row.looks,
        owner=name,
        owner_tid=tid,
        owner_part=min(1.0, looks / row.looks) if row.looks else 0.0,
    )


def monitors_of(recording: Recording, lines: Mapping[int, Mapping[int, Collection[int]]]) -> dict[int, list[Monitor]]:
    """The monitors of each line of a report, those that most waited for first.

    lines: by process, the ids of its lines of Java monitors, with the threads that wait there.
    """
    if not lines:
        return {}
    seen: defaultdict[int, list[user_rows.JavaMonitor]] = defaultdict(list)
    waiters: defaultdict[tuple[int, int], Counter[int]] = defaultdict(Counter)
    owners: defaultdict[tuple[int, int], Counter[tuple[int, str]]] = defaultdict(Counter)
    untold = {row.tgid: row.untold for row in recording.table(user_rows.JavaLook)}
    for row in recording.table(user_rows.JavaMonitor):
        if row.tgid in lines and row.looks > 0 and row.waiting > 0:
            seen[row.tgid].append(row)
    for one in recording.table(user_rows.JavaMonitorThread):
        if one.role == "owner":
            owners[one.tgid, one.address][one.tid, one.name] += one.looks
        else:
            waiters[one.tgid, one.address][one.tid] += one.looks
    found: dict[int, list[Monitor]] = {}
    for tgid, of_process in seen.items():
        by_line: defaultdict[int, list[user_rows.JavaMonitor]] = defaultdict(list)
        for row in _merged(of_process).values():
            line = _row_of(waiters[tgid, row.address], lines[tgid])
            if line is not None:
                by_line[line].append(row)
        for line, monitors in by_line.items():
            every = sum(row.waiting for row in monitors) + (untold.get(tgid, 0.0) if len(by_line) == 1 else 0.0)
            monitors.sort(key=lambda row: (-row.waiting, row.address))
            found[line] = [_monitor(row, every, owners[tgid, row.address]) for row in monitors[:MONITORS]]
    return found


def blocked_at_monitors(recording: Recording, comms: Mapping[int, str], length_ns: int) -> tuple[BlockedThread, ...]:
    """The threads that waited for one monitor at nearly every look, with one owner all the time.

    comms: names of processes.  Of a circle of such threads at least one look has seen all: it is a deadlock.
    """
    looks = {row.tgid: row.looks for row in recording.table(user_rows.JavaLook) if row.looks >= ENOUGH_LOOKS}
    classes = {(row.tgid, row.address): row.class_name for row in recording.table(user_rows.JavaMonitor)}
    always = [
        row
        for row in recording.table(user_rows.JavaMonitorThread)
        if row.tid > 0 and row.looks >= _ALWAYS * looks.get(row.tgid, row.looks + 1)
    ]
    owners = {(row.tgid, row.address): row for row in always if row.role == "owner"}
    names = {(row.tgid, row.tid): row.name for row in always if row.name}
    found = []
    for row in always:
        owner = owners.get((row.tgid, row.address)) if row.role == "waiter" else None
        if owner is None:
            continue
        comm = comms.get(row.tgid, "")
        class_name = classes.get((row.tgid, row.address), "")
        lock = f"the monitor of class {class_name}" if class_name else "a monitor"
        found.append(
            BlockedThread(
                futex=user_rows.Futex(0, row.tgid, comm, row.address, 0, lock, ""),
                tid=row.tid,
                tgid=row.tgid,
                comm=names.get((row.tgid, row.tid), comm),
                age_ns=length_ns,
                timed=False,
                owner=owner.tid,
                owned_ns=0,
                owner_comm=owner.name or comm,
                owner_state="",
                owner_in="",
            )
        )
    return tuple(found)


def heaviest(monitors: Sequence[Monitor]) -> Monitor | None:
    """The one that the row is called after: most wait for it, and its class is known; None: there is none."""
    first = monitors[0] if monitors else None
    known = first is not None and first.class_name and first.looks >= ENOUGH_LOOKS and first.part >= _MOSTLY
    return first if known else None


def owner_of(monitor: Monitor) -> str:
    """The thread that has it most of the time, as Java calls it; '' if none has."""
    return monitor.owner if monitor.owner_part >= _MOSTLY else ""


def class_of(monitors: Sequence[Monitor]) -> str:
    """The class of the object that the row is called after; '' if there is none."""
    first = heaviest(monitors)
    return "" if first is None else first.class_name


def told(monitors: Sequence[Monitor]) -> str:
    """In words, to follow others: whose monitor it is, and who owns it; '' if there is no main one."""
    first = heaviest(monitors)
    if first is None:
        return ""
    owner = f', owned by thread "{first.owner}" at {first.owner_part:.0%} of the looks' if first.owner else ""
    waited = f"{first.part:.0%} of them waited for the monitor of class {first.class_name}"
    return f"; at {first.looks:,} looks {waited}{owner}"
