# SPDX-License-Identifier: GPL-2.0-or-later
"""What stands beside the lock waits, as text: futexes, tracers, reads of a shared clock."""

from collections import defaultdict
from collections.abc import Sequence

from lockline.analysis.clocksource import ClockReads
from lockline.analysis.model import Figures
from lockline.analysis.ptrace import Attaches, InactiveWaits
from lockline.analysis.user_space.futex_waits import (
    BARRIER,
    LOCK,
    NATURES,
    NONE,
    PAGE_FAULT,
    PARKED,
    SPIN,
    UNCLEAR,
    Futexes,
    FutexWaits,
    HolderLook,
)
from lockline.analysis.user_space.java_locks import object_class
from lockline.analysis.user_space.java_monitors import heaviest, owner_of
from lockline.analysis.user_space.run_times import language_of, switch_on, without_names
from lockline.analysis.user_space.user_evidence import BARRIER as PTHREAD_BARRIER
from lockline.analysis.user_space.user_evidence import BEHAVIOUR, CONDITION_VARIABLE, OF_PACKAGE, RWLOCK
from lockline.base.c_library import FUTEX_CALLERS
from lockline.base.numbers import count, counted, duration, percent
from lockline.base.text import Column, Style, clean, cut, fill, table
from lockline.recording import rows, user_rows
from lockline.recording.stacks import without_internals

FUTEXES = 12
BUCKETS = 5
PAIRS = 8
CALLERS = 5
OTHER_FUTEXES = 1


def futex_label(futex: user_rows.Futex) -> str:
    """What a futex is called: its symbol, else the mapping that it lies in; and whose it is."""
    if futex.id == OTHER_FUTEXES or not futex.tgid:
        return futex.name or "all without a row"
    # Anonymous memory that processes share is a file to the kernel.
    place = "shm" if futex.object.startswith("/dev/zero") else futex.object.rsplit("/", 1)[-1]
    what = futex.name or (f"{futex.address:#x} in {place}" if place else "?")
    return f"{what} of {futex.comm or '?'} {futex.tgid}"


def _label(futex: FutexWaits, style: Style) -> str:
    if futex.make in ("", BEHAVIOUR, CONDITION_VARIABLE):
        return clean(futex_label(futex.futex), style)
    if futex.make in (RWLOCK, PTHREAD_BARRIER) and futex.futex.name:
        return clean(f"{futex.make} {futex_label(futex.futex)}", style)
    monitor = heaviest(futex.monitors)
    if monitor is not None:
        owner = owner_of(monitor)
        owned = f', owned by thread "{clean(owner, style)}"' if owner else ""
        of = f"{clean(futex.futex.comm, style) or '?'} {futex.futex.tgid}"
        return f"monitor of class {clean(monitor.class_name, style)}{owned}, {of}"
    class_name = object_class(futex) if futex.make in OF_PACKAGE else ""
    make = f"{class_name}, {futex.make}" if class_name else futex.make
    return f"{make} of {clean(futex.futex.comm, style) or '?'} {futex.futex.tgid}"


def _wrapped(text: str) -> list[str]:
    return fill(text, rest="      ")


def _in_words(frames: Sequence[rows.Frame], style: Style) -> str:
    return " < ".join(clean(frame.symbol, style) or "?" for frame in frames[:3])


def _own_frames(frames: Sequence[rows.Frame]) -> Sequence[rows.Frame]:
    for index, frame in enumerate(frames):
        if frame.symbol and not frame.symbol.startswith(FUTEX_CALLERS):
            return frames[index:]
    return ()


def _asleep(look: HolderLook, style: Style) -> str:
    call = {"": "", PAGE_FAULT: " in a page fault"}.get(look.call, f" in {clean(look.call, style)}()")
    function = f" ({clean(look.function, style)})" if look.function else ""
    return f"sleeps{call}{function}" + (f", at {look.behind:#x}" if look.behind else "")


def _futex_details(futex: FutexWaits, style: Style) -> list[str]:
    lines = [f"      {clean(futex.why, style)}"]
    for role, word in (("owner", "held by"), ("waiter", "waits"), ("waker", "woken by")):
        tasks = [task for task in futex.tasks if task.role == role]
        if tasks:
            names = ", ".join(f"{clean(task.comm, style) or '?'} {task.tid}" for task in tasks[:4])
            more = f" and {len(tasks) - 4} more" if len(tasks) > 4 else ""
            stack = next((stack for stack in futex.stacks if stack.role == role), None)
            callers = _own_frames(stack.frames) if stack else ()
            where = f" in {_in_words(callers, style)}" if callers else ""
            lines.append(f"      {word}: {names}{more}{where}")
    if futex.holders:
        every = sum(look.looks for look in futex.holders)
        done = "; ".join(
            f"{percent(look.looks / every)} {'runs, or wants to' if look.state == 'R' else _asleep(look, style)}"
            for look in futex.holders[:3]
        )
        lines += fill(f"      its holder, at {counted(every, 'look')}: {done}", rest="          ")
    for monitor in futex.monitors:
        owner = f'thread "{clean(monitor.owner, style)}"' if monitor.owner else f"thread {monitor.owner_tid}"
        had = f"; {owner} owned it at {percent(monitor.owner_part)} of them" if monitor.owner_tid else ""
        lines += fill(
            f"      {percent(monitor.part)} of those seen waiting, at {counted(monitor.looks, 'look')}:"
            f" for the monitor of class {clean(monitor.class_name, style) or '?'} ({monitor.address:#x}){had}",
            rest="          ",
        )
    for site in futex.sites:
        if site.last is not None:
            where = f" in {clean(site.function, style)}()" if site.function else ""
            who = f"{clean(site.last.comm, style) or '?'} {site.last.tid}"
            lines.append(
                f"      waits{where}: {duration(site.wait_ns)}; {who} comes last in {percent(site.last_part)} of"
                f" {count(site.rounds)} sampled wake-ups"
            )
    return lines


def _cut_stacks(found: Futexes) -> list[str]:
    """Says so where most sampled stacks end in the C library, before the program's own functions."""
    stacks = [stack for futex in found.futexes for stack in futex.stacks if futex.nature != NONE]
    ended = sum(stack.samples for stack in stacks if len(stack.frames) <= 1)
    every = sum(stack.samples for stack in stacks)
    if not every or ended < every / 2:
        return []
    told = (
        f"  {count(ended)} of {count(every)} sampled stacks are one frame deep: their code has neither call frame "
        "information nor frame pointers, or its process had ended; -fasynchronous-unwind-tables makes the former"
    )
    return [told]


def _unnamed_code(found: Futexes) -> list[str]:
    """How to have the code named that language run times compiled."""
    processes: defaultdict[int, list[rows.Frame]] = defaultdict(list)
    for futex in found.futexes:
        if not futex.futex.shared:
            for stack in futex.stacks:
                processes[futex.futex.tgid] += stack.frames
    lines = []
    for language, tgids in without_names(processes).items():
        of = ", ".join(map(str, tgids[:4]))
        lines += fill(
            f"  Functions of {language_of(language)} have no names (process {of}): {switch_on(language, tgids)}",
            rest="      ",
        )
    return lines


def futexes(found: Futexes | None, style: Style, limit: int = FUTEXES) -> list[str]:
    """The section of the report; empty without recorded futexes."""
    if found is None:
        return []
    if not found.futexes:
        return ["User space: no thread waited in a futex"]
    sums = ", ".join(
        f"{nature} {duration(found.wait_ns(nature))}"
        for nature in NATURES
        if nature != NONE and any(futex.nature == nature for futex in found.futexes)
    )
    lines = _wrapped(f"User space: waits in futexes ({sums}; locks are contention, parked waits may be)")
    columns = [
        Column("nature", 17, right=False),
        Column("waits", 7),
        Column("sum", 7),
        Column("p50", 7, spare=2),
        Column("p99", 7),
        Column("max", 7),
        Column("to CPU", 7, spare=3),
        Column("in progress", 11, spare=1),
        Column("futex", 40, right=False),
    ]
    waited = [futex for futex in found.futexes if futex.nature != NONE]
    shown = waited[:limit]
    cells = [
        [
            futex.nature,
            count(futex.figures.waits),
            duration(futex.figures.wait_ns),
            duration(futex.figures.percentile(0.5)),
            duration(futex.figures.percentile(0.99)),
            duration(futex.figures.max_ns),
            duration(futex.latency.average_ns),
            f"{futex.total.open_waits}, {duration(futex.total.oldest_ns)}" if futex.total.open_waits else "-",
            cut(_label(futex, style), 60),
        ]
        for futex in shown
    ]
    if cells:
        lines += table(columns, cells)
    if len(waited) > len(shown):
        lines.append(f"  ({len(waited) - len(shown):,} more)")
    for light in (futex for futex in waited if not futex.futex.tgid and futex.futex.id != OTHER_FUTEXES):
        lines += _wrapped(f"  {light.why}; together {duration(light.figures.wait_ns)}")
    parked = [futex for futex in shown if futex.nature == PARKED]
    for futex in shown:
        # One of those that are parked stands for the others.
        if futex.nature in (LOCK, BARRIER, SPIN, UNCLEAR) or futex in parked[:1]:
            lines.append(f"    {cut(_label(futex, style), 80)}")
            lines += _futex_details(futex, style)
    lines += _cut_stacks(found)
    lines += _unnamed_code(found)
    retried = sum(futex.total.again for futex in found.futexes)
    if retried:
        lines.append(f"  {counted(retried, 'call')} to wait found the word changed, and did not wait")
    for bucket in found.buckets[:BUCKETS]:
        names = ", ".join(clean(futex_label(futex), style) for futex, _, _ in bucket.futexes[:3])
        more = f" and {len(bucket.futexes) - 3} more" if len(bucket.futexes) > 3 else ""
        kind = "futexes that collide" if bucket.collision else "one futex"
        private = "" if bucket.lock.startswith("futex_hash_bucket") else " of a process's own hash"
        lines += _wrapped(
            f"  hash bucket{private} ({clean(bucket.lock, style)}): {count(bucket.waits)} waits for its lock,"
            f" {duration(bucket.wait_ns)}, {duration(bucket.max_ns)} at most; {kind}: {names}{more}"
        )
    return lines


def clock_reads(found: ClockReads | None, style: Style) -> list[str]:
    """The section of the report; empty without recorded reads."""
    if found is None:
        return []
    share = f", {percent(found.share)} of all CPU time" if found.share is not None else ", not timed"
    lines = [
        f"Clock: {count(found.figures.waits)} reads of the shared device by {clean(found.function, style)}(){share}"
    ]
    if found.timed:
        columns = [Column("CPU", 5), *(Column(name, 7) for name in ("reads", "sum", "p50", "p99", "max", "share"))]
        lines += table(
            columns,
            [
                [
                    str(cpu.cpu),
                    count(cpu.figures.waits),
                    duration(cpu.figures.wait_ns),
                    duration(cpu.figures.percentile(0.5)),
                    duration(cpu.figures.percentile(0.99)),
                    duration(cpu.figures.max_ns),
                    percent(cpu.share),
                ]
                for cpu in found.cpus
            ],
        )
    for caller in found.callers[:CALLERS]:
        names = " < ".join(clean(frame.symbol, style) or "?" for frame in without_internals(caller.frames)[:5])
        lines.append(f"  {count(caller.waits):>6} reads, {duration(caller.wait_ns):>7}: {names}")
    return lines


def inactive_waits(found: InactiveWaits | None, style: Style) -> list[str]:
    """The section of the report; empty without recorded tracers."""
    if found is None:
        return []
    calls = f"{count(found.calls)} calls, " if found.calls is not None else ""
    time = (
        f", {duration(found.wait_ns)} in all" if found.calls is not None else "; calls and times are not available here"
    )
    lines = [f"Tracers that wait for their tracee to leave its CPU ({calls}{count(found.turns)} turns{time})"]
    columns = [
        Column("tracer", 24, right=False),
        Column("tracee", 24, right=False),
        *(Column(name, 8) for name in ("calls", "turns", "most", "traced", "sum", "max")),
    ]
    cells = [
        [
            f"{cut(clean(pair.comm, style) or '?', 15)} {pair.tid}" if pair.tid else "pairs without a row",
            f"{cut(clean(pair.target_comm, style) or '?', 15)} {pair.target_tid}" if pair.tid else "",
            count(pair.calls) if found.calls is not None else "-",
            count(pair.turns),
            count(pair.max_turns) if found.calls is not None else "-",
            percent(pair.traced / pair.turns if pair.turns else None),
            duration(pair.wait_ns) if found.calls is not None else "-",
            duration(pair.max_ns) if found.calls is not None else "-",
        ]
        for pair in found.pairs[:PAIRS]
    ]
    lines += table(columns, cells)
    if len(found.pairs) > PAIRS:
        lines.append(f"  ({len(found.pairs) - PAIRS:,} more)")
    return lines


def attaches(found: Attaches | None, style: Style) -> list[str]:
    """The section of the report; empty without attaches."""
    if found is None:
        return []
    times = [0] * max((len(cpu.figures.histogram) for cpu in found.cpus), default=0)
    for cpu in found.cpus:
        times = [one + more for one, more in zip(times, cpu.figures.histogram, strict=True)]
    all_calls = Figures(sum(times), 0, 0, found.max_ns, tuple(times))
    failed = f", {count(found.failed)} of them failed" if found.failed else ""
    half, most = duration(all_calls.percentile(0.5)), duration(all_calls.percentile(0.99))
    lines = [f"Attaching by ptrace: {count(found.attaches)} times{failed}, {duration(found.attach_ns)} in all"]
    lines.append(f"  p50 {half}, p99 {most}, {duration(found.max_ns)} at most")
    for pair in found.pairs[:CALLERS]:
        tracer = f"{cut(clean(pair.comm, style) or '?', 15)} {pair.tid}" if pair.tid else "pairs without a row"
        to = f" to {cut(clean(pair.target_comm, style) or '?', 15)} {pair.target_tid}" if pair.tid else ""
        lines.append(f"  {tracer}{to}: {count(pair.attaches)} times, {duration(pair.max_ns)} at most")
    return lines
