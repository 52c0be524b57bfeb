# SPDX-License-Identifier: GPL-2.0-or-later
"""From one recording to the rows of a fleet's small tables; the waits themselves are summed up by recording.bulk."""

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from lockline.analysis.containers import container_name, read_containers
from lockline.analysis.model import Report
from lockline.analysis.report import SLACK_NS
from lockline.analysis.selection import Selection
from lockline.analysis.waits import UNKNOWN_LOCK
from lockline.base.errors import LocklineError
from lockline.base.text import Style, clean
from lockline.diff.line_names import function_name, symbol_name
from lockline.fleet.program_locks import program_locks
from lockline.fleet.tables import HOUR_NS, Row
from lockline.recording import memory, memory_rows, rows
from lockline.recording.bulk import container_weights
from lockline.recording.reader import Recording
from lockline.recording.stacks import without_probe
from lockline.render.findings import fact_words
from lockline.rules.report import make_report

# The stacks with most waiting of one recording; the others have waits without a stack.
STACKS = 500
_STACKS_AT_ONCE = 200
_LINES = 200

# The year 2262 ends the count of ns in 63 bits; before 1980 there was no eBPF, but a clock may not be set.
_LAST_NS = (1 << 63) - 1 - (1 << 60)


@dataclass(frozen=True, slots=True)
class Interval:
    """A step of the recording; second: its begin, from the begin of the recording; hour: the one that it begins in."""

    id: int
    second: float
    length_ns: int
    hour: int


@dataclass(frozen=True, slots=True)
class Facts:
    """One recording, but for the waits by interval.

    tables: rows by table, in the order of its columns, without those that every row has.  longest_ns: a longer wait
    cannot be.  complete: nobody writes it any more.  begin_ns: of the recording; begin_utc: the same as
    `lockline export` has it.
    """

    host: str
    boot_id: str
    kernel: str
    date: str
    complete: bool
    begin_ns: int
    begin_utc: str
    longest_ns: int
    intervals: tuple[Interval, ...]
    locks: Mapping[int, str]
    kinds: Mapping[int, str]
    tables: Mapping[str, tuple[Row, ...]]


def _stacks(recording: Recording, locks: Mapping[int, rows.Lock], kinds: Mapping[int, str]) -> Iterator[Row]:
    weights = sorted(recording.stack_weights(sorted(locks)), key=lambda weight: -weight.wait_ns) if locks else []
    found: defaultdict[tuple[str, str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for start in range(0, min(len(weights), STACKS), _STACKS_AT_ONCE):
        part = weights[start : min(start + _STACKS_AT_ONCE, STACKS)]
        frames = recording.stacks(sorted({weight.stack for weight in part if weight.stack}))
        for weight in part:
            named = without_probe(frames.get(weight.stack, ()))
            text = ";".join(frame.symbol or "?" for frame in named)
            sums = found[locks[weight.lock].name, kinds.get(weight.kind, f"kind {weight.kind}"), text]
            for index, number in enumerate((weight.samples, weight.waits, weight.wait_ns)):
                sums[index] += number
    for (lock, kind, text), sums in sorted(found.items()):
        yield (lock, kind, hashlib.sha256(text.encode()).hexdigest()[:16], text, *sums)


def _holders(recording: Recording, locks: Mapping[int, rows.Lock], kinds: Mapping[int, str]) -> Iterator[Row]:
    waiters = recording.waiters()
    found: defaultdict[tuple[str, str, str], list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for row in recording.table(rows.HolderTotal):
        if min(row.releases, row.waits, row.caused_ns, row.max_caused_ns) < 0:
            continue
        holder = waiters[row.holder].comm if row.holder in waiters else "?"
        name = locks.get(row.lock, UNKNOWN_LOCK).name
        sums = found[name, kinds.get(row.kind, f"kind {row.kind}"), holder]
        sums[0] += row.releases
        sums[1] += row.waits
        sums[2] += row.caused_ns
        sums[3] = max(sums[3], row.max_caused_ns)
    for key, sums in sorted(found.items()):
        yield (*key, *sums)


def _episodes(
    recording: Recording, locks: Mapping[int, rows.Lock], kinds: Mapping[int, str], offset_ns: int
) -> Iterator[Row]:
    waiters = recording.waiters()

    def comm(waiter: int) -> str:
        return waiters[waiter].comm if waiter in waiters else ""

    for row in recording.table(rows.Episode, order="id"):
        if row.wait_ns < 0 or not 0 <= row.begin_ns + offset_ns < _LAST_NS:
            continue
        yield (
            locks.get(row.lock, UNKNOWN_LOCK).name,
            kinds.get(row.kind, f"kind {row.kind}"),
            row.begin_ns + offset_ns,
            row.wait_ns,
            row.cpu,
            comm(row.waiter),
            comm(row.holder),
            row.holder_state,
        )


def _lines(recording: Recording) -> Iterator[Row]:
    if not memory.has_lines(recording):
        return
    lines = {line.id: line for line in recording.table(memory_rows.MemoryLine)}
    sums = sorted(memory.line_sums(recording), key=lambda row: -(row.records or 0))[:_LINES]
    functions: defaultdict[int, list[memory.LineFunction]] = defaultdict(list)
    for function in memory.line_functions(recording, [row.line for row in sums]):
        functions[function.line].append(function)
    found: defaultdict[tuple[str, str], list[int]] = defaultdict(lambda: [0] * 6)
    for row in sums:
        line = lines.get(row.line)
        if line is not None and line.symbol:
            key = symbol_name(line), "symbol"
        else:
            name = function_name(functions[row.line])
            key = (name, "functions") if name else ("?", "nothing")
        hitm = (row.local_hitm or 0) + (row.remote_hitm or 0)
        peer = (row.local_peer or 0) + (row.remote_peer or 0)
        for index, number in enumerate((1, row.records or 0, row.loads or 0, row.stores or 0, hitm, peer)):
            found[key][index] += max(0, number)
    for key, numbers in sorted(found.items()):
        yield (*key, *numbers)


def _findings(report: Report) -> Iterator[Row]:
    for finding in report.findings:
        impact = finding.impact
        yield finding.rule, finding.confidence, fact_words(finding.claim), impact.wait_ns, impact.waiters


def _containers(recording: Recording, locks: Mapping[int, rows.Lock], kinds: Mapping[int, str]) -> Iterator[Row]:
    paths = {row.id: row.path for row in recording.table(rows.Cgroup)}
    known = read_containers(recording)
    for weight in container_weights(recording):
        row = known.get(weight.cgroup)
        what = (container_name(row), row.image, row.namespace, row.pod, row.unit) if row else ("",) * 5
        yield (
            paths.get(weight.cgroup, ""),
            *what,
            locks.get(weight.lock, UNKNOWN_LOCK).name,
            kinds.get(weight.kind, f"kind {weight.kind}"),
            weight.samples,
            weight.waits,
            weight.wait_ns,
        )


def _intervals(recording: Recording, begin_ns: int, unix_ns: int) -> Iterator[Interval]:
    for row in recording.intervals():
        if row.end_ns > row.begin_ns >= begin_ns:
            since = row.begin_ns - begin_ns
            yield Interval(row.id, round(since / 1e9, 9), row.end_ns - row.begin_ns, (unix_ns + since) // HOUR_NS)


def _hours(intervals: Sequence[Interval]) -> Iterator[Row]:
    observed: defaultdict[int, int] = defaultdict(int)
    for interval in intervals:
        observed[interval.hour] += interval.length_ns
    yield from sorted(observed.items())


def _harmless(row: Row) -> Row:
    """Without kernel addresses and control characters: the files outlive the boot, and are shown on terminals."""
    return tuple(clean(value, _STYLE) if isinstance(value, str) else value for value in row)


_STYLE = Style(unicode=True, addresses=False)


def read_facts(recording: Recording) -> Facts:
    """All of a recording but its waits by interval.

    Raises RecordingError if it is damaged, LocklineError if a fleet cannot use it.
    """
    report = make_report(recording, Selection(), 0)
    window, host = report.window, report.host
    unix_ns = window.begin_unix_ns
    if unix_ns is None or not 0 < unix_ns < _LAST_NS:
        raise LocklineError(f"{recording.path}: does not say its date and time, which a fleet needs")
    if not host.name:
        raise LocklineError(f"{recording.path}: does not say its host")
    locks, kinds = recording.locks(), recording.kinds()
    intervals = tuple(_intervals(recording, window.recording_begin_ns, unix_ns))
    if not intervals:
        raise LocklineError(f"{recording.path}: holds no time")
    begin = datetime.fromtimestamp(unix_ns // 1_000_000_000, timezone.utc)
    date = begin.strftime("%Y-%m-%d")
    length_ns = window.recording_end_ns - window.recording_begin_ns
    lost = sum(row.events for row in report.loss if row.severity != "info" and row.events > 0)
    boot_id, kernel = host.boot_id or "", host.kernel_release or ""
    observed_ns = sum(interval.length_ns for interval in intervals)
    of_recording: Row = (
        date,
        boot_id,
        kernel,
        host.kernel_version,
        host.architecture,
        host.cpu_model or "",
        host.cpus_online,
        host.memory_bytes,
        window.lockline_version,
        window.filter or "",
        unix_ns,
        unix_ns + length_ns,
        observed_ns,
        report.totals.waits,
        report.totals.wait_ns,
        lost,
    )
    # Samples of stacks, which name many of these locks, are of the whole recording, and so are the sums.
    hour = unix_ns // HOUR_NS
    in_programs = recording.saw_futexes()
    tables: dict[str, Iterator[Row]] = {
        "recordings": iter((of_recording,)),
        "hours": _hours(intervals),
        "stacks": _stacks(recording, locks, kinds),
        "holders": _holders(recording, locks, kinds),
        "episodes": _episodes(recording, locks, kinds, unix_ns - window.recording_begin_ns),
        "lines": _lines(recording),
        "findings": _findings(report),
        "containers": _containers(recording, locks, kinds),
        "program_time": iter(((hour, observed_ns),) if in_programs else ()),
        "program_locks": program_locks(report, hour) if in_programs else iter(()),
    }
    return Facts(
        host=clean(host.name, _STYLE),
        boot_id=clean(boot_id, _STYLE),
        kernel=clean(kernel, _STYLE),
        date=date,
        complete=window.state == "complete",
        begin_ns=window.recording_begin_ns,
        begin_utc=begin.strftime("%Y-%m-%dT%H:%M:%SZ"),
        longest_ns=length_ns + SLACK_NS,
        intervals=intervals,
        locks={lock: clean(row.name, _STYLE) for lock, row in locks.items()},
        kinds={kind: clean(name, _STYLE) for kind, name in kinds.items()},
        tables={name: tuple(_harmless(row) for row in made) for name, made in tables.items()},
    )
