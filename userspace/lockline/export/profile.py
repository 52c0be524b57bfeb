# SPDX-License-Identifier: GPL-2.0-or-later
"""A recording as a profile: stacks of waiters, or of holders, weighted by wait time.

Samples stand for most of the waits, not for all.  What no sample stands for is kept as an entry without a stack, so
that the sums of every export are those of the report.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lockline.analysis.model import Report
from lockline.analysis.report import select_span
from lockline.analysis.samples import UNKNOWN_WAITER
from lockline.base.text import Style, clean, may_show
from lockline.recording import rows
from lockline.recording.conditions import among, between
from lockline.recording.reader import Recording
from lockline.recording.stacks import without_probe

KERNEL = "[kernel.kallsyms]"
NOT_SAMPLED = "[not sampled]"
NO_STACK = "[no stack]"

# Stacks are looked up in parts: a condition of SQL must not grow without bound.
_STACKS_AT_ONCE = 5_000


@dataclass(frozen=True, slots=True)
class Code:
    """A frame of a stack: a function and the file that it is in; address: None where it may not be shown."""

    name: str
    file: str
    address: int | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """Waits of one task for one lock from one stack, leaf first; of holders: releases, and the waits they caused."""

    lock: str
    kind: str
    comm: str
    tid: int
    tgid: int
    cgroup: str
    stack: tuple[Code, ...]
    count: int
    ns: int


@dataclass(frozen=True, slots=True)
class Profile:
    """All entries; side: "waiters" or "holders".  count and ns: sums over the entries."""

    side: str
    name: str
    begin_unix_ns: int
    duration_ns: int
    entries: tuple[Entry, ...]

    @property
    def count(self) -> int:
        """Waits, or releases."""
        return sum(entry.count for entry in self.entries)

    @property
    def ns(self) -> int:
        """Wait time."""
        return sum(entry.ns for entry in self.entries)


# Lock, kind and task; then the kernel's and the program's stack.
_Who = tuple[str, str, int]
_Stacks = tuple[int, int]
_Weights = dict[tuple[_Who, _Stacks], tuple[int, int]]


def _fitted(
    weights: _Weights, exact: Mapping[tuple[str, str], tuple[int, int]]
) -> list[tuple[_Who, _Stacks, int, int]]:
    """Weights that add up to the exact figures of each lock and kind; what is missing has task -1.

    True samples never stand for more than there is; of a recording that says so they are made smaller.
    """
    sums: defaultdict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for ((lock, kind, _), _), (count, ns) in weights.items():
        sums[lock, kind][0] += count
        sums[lock, kind][1] += ns
    left = {key: list(figures) for key, figures in exact.items()}
    found = []
    for (who, stacks), (count, ns) in sorted(weights.items()):
        key = who[:2]
        all_count, all_ns = exact[key]
        if sums[key][0] > all_count:
            count = count * all_count // sums[key][0]
        if sums[key][1] > all_ns:
            ns = ns * all_ns // sums[key][1]
        left[key][0] -= count
        left[key][1] -= ns
        if count or ns:
            found.append((who, stacks, count, ns))
    rest = [((lock, kind, -1), (0, 0), count, ns) for (lock, kind), (count, ns) in sorted(left.items()) if count or ns]
    return found + rest


def _frames(recording: Recording, ids: Iterable[int]) -> dict[int, tuple[rows.Frame, ...]]:
    wanted = sorted(set(ids) - {0})
    found: dict[int, tuple[rows.Frame, ...]] = {}
    for start in range(0, len(wanted), _STACKS_AT_ONCE):
        found |= recording.stacks(wanted[start : start + _STACKS_AT_ONCE])
    return found


def _code(frame: rows.Frame, user: bool, style: Style) -> Code:
    address = frame.address & (1 << 64) - 1
    shown = address if may_show(address, style.addresses, "user" if user else "kernel") else None
    name = clean(frame.symbol, style) or (f"{shown:#x}" if shown is not None else "[unknown]")
    file = clean(frame.module, style) if frame.module else ("" if user else KERNEL)
    return Code(name, file if user or file == KERNEL else f"[{file}]", shown)


def _entries(recording: Recording, fitted: Sequence[tuple[_Who, _Stacks, int, int]], style: Style) -> tuple[Entry, ...]:
    waiters = recording.waiters()
    frames = _frames(recording, (stack for _, stacks, _, _ in fitted for stack in stacks))
    kernels: dict[int, tuple[Code, ...]] = {}
    users: dict[int, tuple[Code, ...]] = {}
    for _, (kernel, user), _, _ in fitted:
        if kernel not in kernels:
            kernels[kernel] = tuple(_code(frame, False, style) for frame in without_probe(frames.get(kernel, ())))
        if user not in users:
            users[user] = tuple(_code(frame, True, style) for frame in frames.get(user, ()))
    found = []
    for (lock, kind, task), (kernel, user), count, ns in fitted:
        who = waiters.get(task, UNKNOWN_WAITER)
        stack = kernels[kernel] + users[user]
        if not stack:
            stack = (Code(NOT_SAMPLED if task < 0 else NO_STACK, ""),)
        found.append(
            Entry(
                clean(lock, style) or "?",
                clean(kind, style),
                clean(who.comm, style) if task >= 0 else "",
                who.tid,
                who.tgid,
                clean(who.cgroup, style),
                stack,
                count,
                ns,
            )
        )
    return tuple(found)


def _identities(recording: Recording, report: Report) -> dict[tuple[int, int], tuple[str, str]]:
    """By lock and kind of the recording: name and kind in the report."""
    number = {name: kind for kind, name in recording.kinds().items()}
    return {
        (lock, number.get(entry.kind, -1)): (entry.name, entry.kind) for entry in report.locks for lock in entry.ids
    }


def _waiters(recording: Recording, report: Report) -> tuple[_Weights, dict[tuple[str, str], tuple[int, int]]]:
    window = report.window
    removed = window.removed_until_ns is not None
    span = select_span(recording.intervals(), window.selection, window.recording_begin_ns, removed)
    identities = _identities(recording, report)
    weights: defaultdict[tuple[_Who, _Stacks], tuple[int, int]] = defaultdict(lambda: (0, 0))
    samples: Iterable[rows.SampleTotal | rows.SampleInterval] = (
        recording.table(rows.SampleTotal)
        if span is None
        else recording.table(rows.SampleInterval, between("interval", *span))
    )
    for row in samples:
        identity = identities.get((row.lock, row.kind))
        if identity is None or min(row.samples, row.waits, row.wait_ns) < 0:
            continue
        key = (*identity, row.waiter), (row.stack, row.user_stack)
        count, ns = weights[key]
        weights[key] = count + row.waits, ns + row.wait_ns
    exact: defaultdict[tuple[str, str], tuple[int, int]] = defaultdict(lambda: (0, 0))
    for lock in report.locks:
        count, ns = exact[lock.name, lock.kind]
        exact[lock.name, lock.kind] = count + lock.figures.waits, ns + lock.figures.wait_ns
    return dict(weights), dict(exact)


def _holders(recording: Recording, report: Report) -> list[tuple[_Who, _Stacks, int, int]]:
    identities = _identities(recording, report)
    ids = sorted({lock for lock, _ in identities})
    exact: defaultdict[_Who, list[int]] = defaultdict(lambda: [0, 0])
    for row in recording.table(rows.HolderTotal, among("lock", ids)):
        identity = identities.get((row.lock, row.kind))
        if identity is not None and min(row.releases, row.caused_ns) >= 0:
            lock, kind = identity
            sums = exact[lock, kind, row.holder]
            sums[0] += row.releases
            sums[1] += row.caused_ns
    weights: defaultdict[_Who, _Weights] = defaultdict(dict)
    for stack in recording.table(rows.ReleaseStack, among("lock", ids)):
        identity = identities.get((stack.lock, stack.kind))
        who = (*(identity or ("", "")), stack.holder)
        if identity is not None and who in exact and min(stack.releases, stack.caused_ns) >= 0:
            count, ns = weights[who].get((who, (stack.stack, 0)), (0, 0))
            weights[who][who, (stack.stack, 0)] = count + stack.releases, ns + stack.caused_ns
    found = []
    for who, (count, ns) in sorted(exact.items()):
        for owner, stacks, part, part_ns in _fitted(weights[who], {who[:2]: (count, ns)}):
            # What no stack was taken of is still this task's.
            found.append(((*owner[:2], who[2]), stacks, part, part_ns))
    return found


def read_profile(recording: Recording, report: Report, side: str, style: Style) -> Profile:
    """The profile of a report's waits; side: "waiters", or "holders" (record --holders), of the whole recording.

    Texts are clean.  Raises RecordingError if the recording is damaged.
    """
    window = report.window
    fitted = _holders(recording, report) if side == "holders" else _fitted(*_waiters(recording, report))
    since = (window.begin_unix_ns or 0) + window.begin_ns - window.recording_begin_ns
    return Profile(
        side,
        clean(report.host.name or "lockline", style),
        since if 0 <= since < 1 << 62 else 0,
        window.duration_ns,
        _entries(recording, fitted, style),
    )
