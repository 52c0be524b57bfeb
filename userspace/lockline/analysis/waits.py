# SPDX-License-Identifier: GPL-2.0-or-later
"""Totals by kind, lock and CPU.

The whole run is read from its own totals (lock_total, cpu_total).  A selection by lock or CPU needs their
product (cell_total), one in time the intervals that it covers (wait_interval).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from lockline.analysis.model import CpuWaits, Figures, KindWaits, LockWaits
from lockline.analysis.selection import Selection, lock_matches
from lockline.base import histogram
from lockline.base.errors import RecordingError
from lockline.base.values import dataclass
from lockline.recording import rows
from lockline.recording.reader import Recording, Span

# Kinds whose waiter occupies its CPU: spinlock, rwlock:R, rwlock:W, mutex-spin, rqspinlock.
SPINNING = frozenset((0, 1, 2, 4, 14))

# Spinning waits that one CPU can have at once: SPIN_DEPTH of bpf/lockline.h.
SPIN_DEPTH = 8

UNKNOWN_LOCK = rows.Lock(0, 0, "?", "", "unknown")

_COMPACT_BYTES = 8192

WaitRow = rows.LockTotal | rows.CpuTotal | rows.Cell


@dataclass(frozen=True, slots=True)
class Limits:
    """What no true figure exceeds: span_ns, the time from the begin of the recording to the end of the window."""

    span_ns: int | None
    cpus: int | None

    def exceeded(self, row: WaitRow) -> bool:
        """Whether a row holds figures that no run of this length on this machine can give."""
        if row.waits < 0 or row.wait_ns < 0 or row.max_ns < 0 or row.failed < 0 or (row.wait_ns and not row.waits):
            return True
        if self.span_ns is None:
            return False
        if row.max_ns > self.span_ns:
            return True
        if row.kind not in SPINNING:
            return False
        if isinstance(row, rows.LockTotal):
            return self.cpus is not None and row.wait_ns > self.span_ns * self.cpus
        return row.wait_ns > self.span_ns * (SPIN_DEPTH if isinstance(row, rows.CpuTotal) else 1)


class Sum:
    """Adds up rows; histograms are kept encoded until there is enough to decode at once."""

    __slots__ = ("_blobs", "_counts", "failed", "max_ns", "wait_ns", "waits")

    def __init__(self) -> None:
        self.waits = 0
        self.wait_ns = 0
        self.max_ns = 0
        self.failed = 0
        self._blobs = bytearray()
        self._counts: list[int] | None = None

    def add(self, row: WaitRow) -> None:
        """Add one row."""
        self.waits += row.waits
        self.wait_ns += row.wait_ns
        self.failed += row.failed
        if row.max_ns > self.max_ns:
            self.max_ns = row.max_ns
        self._blobs += row.histogram
        if len(self._blobs) > _COMPACT_BYTES:
            self._decode()

    def _decode(self) -> list[int]:
        if self._counts is None:
            self._counts = histogram.empty()
        histogram.add_blob(self._counts, self._blobs)
        self._blobs.clear()
        return self._counts

    def figures(self) -> Figures:
        """The sums so far."""
        return Figures(self.waits, self.wait_ns, self.max_ns, self.failed, tuple(self._decode()))


def merged(parts: list[Figures]) -> Figures:
    """Figures of several groups of waits together."""
    return Figures(
        sum(part.waits for part in parts),
        sum(part.wait_ns for part in parts),
        max((part.max_ns for part in parts), default=0),
        sum(part.failed for part in parts),
        tuple(histogram.total([part.histogram for part in parts])),
    )


@dataclass(frozen=True, slots=True)
class Waits:
    """Totals of a selection; rejected: rows that were left out for impossible figures.

    locks are in the selection's order, cpus by number, kinds by total wait.
    """

    totals: Figures
    kinds: tuple[KindWaits, ...]
    locks: tuple[LockWaits, ...]
    cpus: tuple[CpuWaits, ...]
    rejected: int
    disagreement_ns: int


def selected_locks(selection: Selection, locks: Mapping[int, rows.Lock]) -> tuple[int, ...] | None:
    """Ids of the locks that the selection names, None for all."""
    if selection.lock is None:
        return None
    return tuple(sorted(lock.id for lock in locks.values() if lock_matches(selection.lock, lock.name)))


class _Group:
    """Rows of the locks that are shown as one."""

    __slots__ = ("by_cpu", "by_lock", "sum")

    def __init__(self) -> None:
        self.sum = Sum()
        self.by_lock: defaultdict[int, int] = defaultdict(int)
        self.by_cpu: defaultdict[int, int] = defaultdict(int)


class _Totals:
    """Collects rows by lock group and by CPU."""

    def __init__(self, by_instance: bool, locks: Mapping[int, rows.Lock], limits: Limits) -> None:
        self._by_instance = by_instance
        self._locks = locks
        self._limits = limits
        self.groups: defaultdict[tuple[str | int, int], _Group] = defaultdict(_Group)
        self.cpus: defaultdict[tuple[int, int], Sum] = defaultdict(Sum)
        self.rejected = 0

    def _group(self, lock: int, kind: int) -> _Group:
        key = lock if self._by_instance else self._locks.get(lock, UNKNOWN_LOCK).name
        return self.groups[key, kind]

    def add_lock(self, row: rows.LockTotal) -> None:
        if self._limits.exceeded(row):
            self.rejected += 1
            return
        group = self._group(row.lock, row.kind)
        group.sum.add(row)
        group.by_lock[row.lock] += row.wait_ns
        group.by_cpu[row.worst_cpu] += row.worst_cpu_ns

    def add_cpu(self, row: rows.CpuTotal) -> None:
        if self._limits.exceeded(row):
            self.rejected += 1
            return
        self.cpus[row.cpu, row.kind].add(row)

    def add_cell(self, row: rows.Cell) -> None:
        if self._limits.exceeded(row):
            self.rejected += 1
            return
        group = self._group(row.lock, row.kind)
        group.sum.add(row)
        group.by_lock[row.lock] += row.wait_ns
        group.by_cpu[row.cpu] += row.wait_ns
        self.cpus[row.cpu, row.kind].add(row)


def _worst(sums: Mapping[int, int]) -> tuple[int, int]:
    """Key and value of the largest value; the smallest key among equals."""
    return min(sums.items(), key=lambda item: (-item[1], item[0]))


def _lock_waits(group: _Group, kind: str, locks: Mapping[int, rows.Lock]) -> LockWaits:
    worst_lock, worst_lock_ns = _worst(group.by_lock)
    worst_cpu, worst_cpu_ns = _worst(group.by_cpu)
    lock = locks.get(worst_lock, UNKNOWN_LOCK)
    return LockWaits(
        ids=tuple(sorted(group.by_lock)),
        name=lock.name,
        kind=kind,
        source=lock.source,
        instances=len(group.by_lock),
        worst_instance=lock.instance,
        worst_instance_ns=worst_lock_ns,
        address=lock.address if len(group.by_lock) == 1 and lock.address else None,
        figures=group.sum.figures(),
        worst_cpu=worst_cpu,
        worst_cpu_ns=worst_cpu_ns,
    )


def order(locks: list[LockWaits], sort: str) -> tuple[LockWaits, ...]:
    """Locks by a sort of selection.SORTS, largest first, then by name and kind."""

    def key(lock: LockWaits) -> tuple[int, str, str, str]:
        figures = lock.figures
        value = {
            "total": figures.wait_ns,
            "waits": figures.waits,
            "max": figures.max_ns,
            "avg": figures.average_ns,
            "p99": 0,
        }[sort]
        if sort == "p99":
            value = figures.percentile(0.99) or 0
        return -value, lock.name, lock.kind, lock.worst_instance

    return tuple(sorted(locks, key=key))


def read_waits(
    recording: Recording,
    selection: Selection,
    span: Span | None,
    kinds: Mapping[int, str],
    selected_kinds: tuple[int, ...] | None,
    locks: Mapping[int, rows.Lock],
    limits: Limits,
) -> Waits:
    """Totals of what the selection keeps; span: its intervals, None for the whole run.

    Raises RecordingError if a histogram is damaged.
    """
    totals = _Totals(selection.by == "instance", locks, limits)
    lock_ids = selected_locks(selection, locks)
    begins = recording.begins()
    try:
        if span is None and lock_ids is None and selection.cpus is None:
            for lock_row in recording.lock_totals(selected_kinds):
                totals.add_lock(lock_row)
            for cpu_row in recording.cpu_totals(selected_kinds):
                totals.add_cpu(cpu_row)
        else:
            for cell in recording.cells(span, lock_ids, selection.cpus, selected_kinds):
                totals.add_cell(cell)
        return _finish(totals, selection, kinds, locks, begins)
    except ValueError as error:
        raise RecordingError(f"{recording.path}: the recording is damaged: {error}") from error


def _finish(
    totals: _Totals,
    selection: Selection,
    kinds: Mapping[int, str],
    locks: Mapping[int, rows.Lock],
    begins: Mapping[int, int],
) -> Waits:
    def name(kind: int) -> str:
        return kinds.get(kind, f"kind {kind}")

    by_kind: defaultdict[int, list[Figures]] = defaultdict(list)
    lock_waits: list[LockWaits] = []
    for (_, kind), group in totals.groups.items():
        entry = _lock_waits(group, name(kind), locks)
        lock_waits.append(entry)
        by_kind[kind].append(entry.figures)
    kind_figures = {kind: merged(parts) for kind, parts in by_kind.items()}

    by_cpu: defaultdict[int, list[KindWaits]] = defaultdict(list)
    for (cpu, kind), total in sorted(totals.cpus.items()):
        by_cpu[cpu].append(KindWaits(name(kind), None, total.figures()))
    cpus = tuple(
        CpuWaits(cpu, merged([kind.figures for kind in parts]), tuple(parts)) for cpu, parts in sorted(by_cpu.items())
    )
    sums = merged(list(kind_figures.values()))
    return Waits(
        totals=sums,
        kinds=tuple(
            KindWaits(name(kind), begins.get(kind), figures)
            for kind, figures in sorted(kind_figures.items(), key=lambda item: (-item[1].wait_ns, item[0]))
        ),
        locks=order(lock_waits, selection.sort),
        cpus=cpus,
        rejected=totals.rejected,
        disagreement_ns=abs(sums.wait_ns - sum(cpu.figures.wait_ns for cpu in cpus)),
    )


def read_instances(
    recording: Recording,
    entries: Sequence[LockWaits],
    kinds: Mapping[int, str],
    locks: Mapping[int, rows.Lock],
    limits: Limits,
    least_ns: int,
) -> tuple[LockWaits, ...]:
    """Single locks of those that share a name, with this much waiting or more in the whole run, most first.

    Raises RecordingError if a histogram is damaged.
    """
    several = {
        lock for entry in entries if entry.instances > 1 and entry.worst_instance_ns >= least_ns for lock in entry.ids
    }
    if not several:
        return ()
    totals = _Totals(True, locks, limits)
    for row in recording.lock_totals():
        if row.lock in several and row.wait_ns >= least_ns:
            totals.add_lock(row)
    found = [_lock_waits(group, kinds.get(kind, f"kind {kind}"), locks) for (_, kind), group in totals.groups.items()]
    return order(found, "total")
