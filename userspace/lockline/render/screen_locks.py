# SPDX-License-Identifier: GPL-2.0-or-later
"""The first screen's table of locks: those of the kernel and, if futexes were recorded, those of programs."""

from collections import defaultdict
from collections.abc import Mapping

from lockline.analysis.answer import trusted_ns
from lockline.analysis.model import Figures, Report
from lockline.analysis.user_space.futex_waits import LOCK, PARKED, FutexWaits
from lockline.analysis.user_space.java_locks import object_class
from lockline.analysis.user_space.user_evidence import BEHAVIOUR, OF_PACKAGE, RWLOCK
from lockline.base.numbers import count, duration
from lockline.base.text import Column, Style, clean, cut_member, table
from lockline.base.values import dataclass

# Below its trusted length a figure has this mark.
MARK = "~"
# Columns of a lock's name at least.
_NAME = 20


@dataclass(frozen=True, slots=True)
class _Row:
    """One lock; wait_ns: also of a program's waits that have not ended.  trusted_ns: as trusted_ns() gives it."""

    name: str
    many: int
    kind: str
    figures: Figures
    wait_ns: int
    max_ns: int
    who: str
    trusted_ns: int


def user_lock_name(futex: FutexWaits) -> str:
    """What a lock of a program is called: the class of a monitor's object, its make or its symbol."""
    class_name = object_class(futex)
    if class_name:
        return class_name if futex.make in OF_PACKAGE else f"monitor of {class_name}"
    # A read-write lock of the C library is the program's own variable.
    if futex.make == RWLOCK and futex.futex.name:
        return futex.futex.name
    return futex.make if futex.make not in ("", BEHAVIOUR) else futex.futex.name or "a lock"


def user_locks(report: Report) -> list[FutexWaits]:
    """Locks of programs, the one with most waiting first; none if nobody looked."""
    found = [one for one in (report.futexes.futexes if report.futexes else ()) if one.nature in (LOCK, PARKED)]
    return sorted(found, key=lambda one: -one.waited_ns)


def _first(by_comm: Mapping[str, int]) -> str:
    names = sorted(by_comm, key=lambda comm: -by_comm[comm])
    return names[0] + (f", +{len(names) - 1}" if len(names) > 1 else "") if names else ""


def _kernel_rows(report: Report) -> list[_Row]:
    """Of each lock who waits, too: the commands, longest first, as far as samples tell."""
    waiters: defaultdict[tuple[str, str], defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
    for task in report.tasks:
        waiters[task.lock, task.kind][task.comm] += task.lock_ns
    found = []
    for lock in report.locks:
        figures, who = lock.figures, _first(waiters.get((lock.name, lock.kind), {}))
        trusted = trusted_ns(report, lock.kind)
        found.append(_Row(lock.name, lock.instances, lock.kind, figures, figures.wait_ns, figures.max_ns, who, trusted))
    return found


def _user_row(futex: FutexWaits) -> _Row:
    by_comm: defaultdict[str, int] = defaultdict(int)
    for task in futex.tasks:
        if task.role == "waiter":
            by_comm[task.comm] += task.wait_ns
    who = _first(by_comm) or futex.futex.comm
    name = f"{user_lock_name(futex)} of {futex.futex.tgid}"
    return _Row(name, 1, "user", futex.figures, futex.waited_ns, futex.longest_ns, who, 0)


def _marked(row: _Row, ns: int | None) -> str:
    """A length, marked where the probes may change it by more than a tenth."""
    return duration(ns) + (MARK if ns is not None and ns < row.trusted_ns else " ")


def locks(report: Report, style: Style, columns: int, most: int) -> tuple[list[str], bool]:
    """The table, and whether a figure in it is marked."""
    ranked = _kernel_rows(report)
    ranked += [_user_row(futex) for futex in user_locks(report) if futex.waited_ns]
    ranked.sort(key=lambda row: -row.wait_ns)
    if not ranked:
        return [], False
    heads = [
        Column("kind", 10, right=False),
        Column("waiting", 7),
        Column("max ", 8),
        Column("waits", 6),
        Column("p99 ", 8),
        Column("who waits", 13, right=False),
    ]
    # Of a narrow terminal the last ones are left out.
    while heads and sum(head.width + 1 for head in heads) + _NAME > columns:
        heads.pop()
    heads.insert(0, Column("LOCKS", columns - sum(head.width + 1 for head in heads), right=False))
    name = heads[0].width
    order = ("LOCKS", "kind", "waits", "waiting", "p99 ", "max ", "who waits")
    heads.sort(key=lambda head: order.index(head.title))
    entries: list[dict[str, str]] = []
    marked = False
    for row in ranked[:most]:
        many = f" x{count(row.many)}" if row.many > 1 else ""
        cells = [_marked(row, row.figures.percentile(0.99)), _marked(row, row.max_ns)]
        marked = marked or any(cell.endswith(MARK) for cell in cells)
        entries.append(
            {
                "LOCKS": " " + cut_member(clean(row.name, style) or "?", name - 1 - len(many)) + many,
                "kind": clean(row.kind, style),
                "waits": count(row.figures.waits),
                "waiting": duration(row.wait_ns),
                "p99 ": cells[0],
                "max ": cells[1],
                "who waits": clean(row.who, style),
            }
        )
    rest = ranked[most:]
    if rest:
        waits, waiting = sum(row.figures.waits for row in rest), sum(row.wait_ns for row in rest)
        entries.append({"LOCKS": f" {len(rest):,} more", "waits": count(waits), "waiting": duration(waiting)})
    rows = [[entry.get(head.title, "") for head in heads] for entry in entries]
    return [line.rstrip() for line in table(heads, rows, "", grow=False)], marked
