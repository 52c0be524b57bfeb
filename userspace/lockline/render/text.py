# SPDX-License-Identifier: GPL-2.0-or-later
"""The report as text."""

import errno
import shlex
import time
from collections import defaultdict
from collections.abc import Callable, Sequence

from lockline.analysis.model import CgroupWaits, Host, LockWaits, OutlierWait, Report, Task, Window
from lockline.analysis.waits import merged
from lockline.base.numbers import count, counted, duration, percent, size
from lockline.base.text import WIDTH, Column, Style, beside, clean, cut, fill, pad, page, paragraphs, table, width
from lockline.recording import rows
from lockline.recording.stacks import without_internals
from lockline.render import signals, trust
from lockline.render.findings import findings
from lockline.render.heat import heat_table
from lockline.render.holders import holders

LOCKS = 20
CPUS = 16
OUTLIERS = 5
TASKS = 10
OPEN_WAITS = 5
LOCKS_WITH_CALLERS = 5
# Columns of a page that has no room for a lock's instance, and more than any name has.
_NARROW, _ANY = 90, 10_000

_SOURCES = {
    "symbol": "symbol",
    "per-CPU symbol": "per-CPU",
    "owner object": "owner",
    "slab": "slab",
    "call site": "call site",
    "unknown": "-",
}


def render(report: Report, style: Style) -> str:
    """The whole report, ending in a line end."""
    top = report.window.selection.top
    parts = [
        _header(report, style),
        findings(report, style),
        _kinds(report, style),
        _locks(report, style, LOCKS if top is None else top),
        _callers(report, style),
        holders(report, style),
        signals.futexes(report.futexes, style, signals.FUTEXES if top is None else top),
        signals.inactive_waits(report.inactive_waits, style),
        signals.attaches(report.attaches, style),
        signals.clock_reads(report.clock_reads, style),
        _lines(report, style, top),
        _cpus(report, style, CPUS if top is None else top),
        _outliers(report, style),
        _tasks(report, style, TASKS if top is None else top),
        _open_waits(report, style, OPEN_WAITS if top is None else top),
        _self_check(report, style),
        _footer(report, style),
    ]
    if report.episodes:
        told = "long waits were recorded with what went on around them: lockline report --episodes N"
        parts.insert(-1, [f"{len(report.episodes)} {told}"])
    return paragraphs(parts)


def _wrapped(label: str, text: str, hang: int = 11) -> list[str]:
    """A labelled text on as many lines as it takes."""
    return beside(pad(label, hang), text)


def _lines(report: Report, style: Style, top: int | None) -> list[str]:
    # Loaded where there are any: this and the next take longer than the rest of a small report.
    if report.lines is None:
        return []
    from lockline.render.watch_text import section

    return section(report.lines, style, top)


def _self_check(report: Report, style: Style) -> list[str]:
    if report.self_check is None:
        return []
    from lockline.render.self_check import self_check

    return self_check(report.self_check, style)


def _header(report: Report, style: Style) -> list[str]:
    host = report.host
    window = report.window
    parts = [
        host.name,
        f"Linux {host.kernel_release}" if host.kernel_release else None,
        host.architecture,
        counted(window.cpus, "CPU") if window.cpus else None,
        host.cpu_model,
        size(host.memory_bytes) if host.memory_bytes else None,
        _clock(host),
        f"spinlocks {host.spinlock_mode}" if host.spinlock_mode else None,
    ]
    lines = [*_wrapped("lockline", f"report of {clean(report.path, style)}")]
    lines += _wrapped("Host", clean(", ".join(part for part in parts if part) or "not known", style))
    lines += _wrapped("Recorded", clean(_recorded(window), style))
    selected = _selected(window)
    if selected:
        lines += _wrapped("Selected", clean(selected, style))
    active = ", ".join(probe.signal for probe in _in(report, "on"))
    lines += _wrapped("Probes", clean(active or "none known", style))
    for state in ("blind", "unavailable"):
        for probe in _in(report, state):
            text = f"{probe.signal}: {probe.reason or 'no reason stored'}"
            if probe.lost:
                text += f"; lost: {probe.lost}"
            lines += _wrapped("Blind" if state == "blind" else "Missing", clean(text, style))
    return lines


def _clock(host: Host) -> str | None:
    if not host.clocksource:
        return None
    return f"clock {host.clocksource}" + (", read coarsely" if host.facts.get("clock") == "coarse" else "")


def _in(report: Report, state: str) -> list[rows.Probe]:
    return [probe for probe in report.probes if probe.state == state]


def _recorded(window: Window) -> str:
    parts = []
    if window.begin_unix_ns is not None and window.begin_unix_ns < 1 << 62:
        begin = time.gmtime(window.begin_unix_ns // 1_000_000_000)
        parts.append(time.strftime("%Y-%m-%d %H:%M:%S UTC", begin))
    parts.append(duration(window.recording_end_ns - window.recording_begin_ns))
    if window.state == "recording":
        parts.append("cut off or still being recorded")
    elif window.state != "complete":
        parts.append(f"state {window.state}")
    if window.command_line:
        parts.append(window.command_line)
    if window.filter:
        parts.append(f"filter {window.filter}")
    return ", ".join(parts)


def _selected(window: Window) -> str:
    selection = window.selection
    parts = []
    if selection.kinds is not None:
        parts.append("kinds " + ",".join(selection.kinds))
    if selection.cpus is not None:
        numbers = ",".join(str(cpu) for cpu in selection.cpus)
        parts.append(f"CPU {cut(numbers, 40)}")
    if selection.lock is not None:
        parts.append(f"locks {shlex.quote(selection.lock)}")
    if selection.from_ns is not None or selection.to_ns is not None:
        begin = (window.begin_ns - window.recording_begin_ns) / 1e9
        end = (window.end_ns - window.recording_begin_ns) / 1e9
        parts.append(f"{begin:.1f} s to {end:.1f} s ({window.intervals} whole intervals)")
    return "; ".join(parts)


def _title(text: str, note: str = "") -> str:
    return f"{text} ({note})" if note else text


def _kinds(report: Report, style: Style) -> list[str]:
    columns = [
        Column("kind", 12, right=False),
        Column("waits", 7),
        Column("total", 8),
        Column("share", 8),
        Column("avg", 8, spare=2),
        Column("p50", 8, spare=1),
        Column("p99", 8),
        Column("max", 8),
        Column("failed", 7),
    ]
    entries = [(kind.kind, kind.figures) for kind in report.kinds]
    if len(entries) != 1:
        entries.append(("all", report.totals))
    lines = table(
        columns,
        [
            [
                clean(name, style),
                count(figures.waits),
                duration(figures.wait_ns),
                percent(report.window.share(figures.wait_ns)),
                duration(figures.average_ns if figures.waits else None),
                duration(figures.percentile(0.5)),
                duration(figures.percentile(0.99)),
                duration(figures.max_ns if figures.waits else None),
                count(figures.failed),
            ]
            for name, figures in entries
        ],
    )
    note = f"share: wait time per {duration(report.window.duration_ns)} of window; 100% is one waiter all the time"
    if not report.totals.waits:
        return [_title("Waits by kind"), "  none recorded"]
    return [_title("Waits by kind", note), *lines]


def _lock_label(lock: LockWaits, style: Style, columns: int, by_instance: bool) -> str:
    """Name and, if there is room or it is what tells two rows apart, the instance."""
    name = clean(lock.name, style) or "?"
    suffix = ""
    if lock.instances > 1:
        suffix = f" x{count(lock.instances)}"
    elif lock.worst_instance:
        suffix = f" [{clean(lock.worst_instance, style)}]"
        if width(name) + width(suffix) > columns and not by_instance:
            suffix = ""
    if style.addresses and lock.address is not None:
        suffix += f" {lock.address & (1 << 64) - 1:#x}"
    suffix = cut(suffix, columns - 12)
    return cut(name, columns - width(suffix)) + suffix


def _locks(report: Report, style: Style, limit: int) -> list[str]:
    if not report.locks:
        return []
    name_columns = 56 if style.addresses else 32
    # Of a label the name comes first, where there is no room for the instance.
    longest = 20 if page().columns < _NARROW and not style.addresses else name_columns
    if page().whole or page().columns > WIDTH:
        longest = _ANY
    columns = [
        Column("lock", name_columns, right=False),
        Column("kind", 11, right=False),
        Column("waits", 6),
        Column("total", 7),
        Column("share", 7),
        Column("avg", 7, spare=2),
        Column("p50", 7, spare=1),
        Column("p99", 7),
        Column("max", 7),
        Column("CPU", 4),
        Column("named by", 9, right=False, spare=3),
    ]
    shown = report.locks[:limit]
    lines = [
        [
            _lock_label(lock, style, longest, report.window.selection.by == "instance"),
            clean(lock.kind, style),
            count(lock.figures.waits),
            duration(lock.figures.wait_ns),
            percent(report.window.share(lock.figures.wait_ns)),
            duration(lock.figures.average_ns),
            duration(lock.figures.percentile(0.5)),
            duration(lock.figures.percentile(0.99)),
            duration(lock.figures.max_ns),
            str(lock.worst_cpu),
            clean(_SOURCES.get(lock.source, lock.source), style),
        ]
        for lock in shown
    ]
    rest = report.locks[limit:]
    if rest:
        figures = merged([lock.figures for lock in rest])
        lines.append(
            [
                f"({len(rest):,} more)",
                "",
                count(figures.waits),
                duration(figures.wait_ns),
                percent(report.window.share(figures.wait_ns)),
                duration(figures.average_ns),
                duration(figures.percentile(0.5)),
                duration(figures.percentile(0.99)),
                duration(figures.max_ns),
                "",
                "",
            ]
        )
    sort = report.window.selection.sort
    several = any(lock.instances > 1 for lock in shown)
    note = f"by {sort}; CPU: the one that waited longest" + ("; xN: N locks of this name" if several else "")
    return [_title("Locks", note), *table(columns, lines)]


def _callers(report: Report, style: Style) -> list[str]:
    lines = []
    for lock in report.locks[: min(LOCKS_WITH_CALLERS, report.window.selection.top or LOCKS_WITH_CALLERS)]:
        if not lock.stacks or not lock.sampled_ns:
            continue
        heaviest = lock.stacks[0]
        part = heaviest.wait_ns / lock.sampled_ns
        name = f"{cut(clean(lock.name, style), 40)} {clean(lock.kind, style)}"
        lines.append(f"  {name}: {percent(part)} of its sampled wait from")
        lines += _stack_lines(heaviest.frames, style)
    return (
        [_title("Where the waits come from", "heaviest sampled stack, nearest caller first"), *lines] if lines else []
    )


def _frame(frame: rows.Frame, style: Style) -> str:
    if frame.symbol:
        text = f"{clean(frame.symbol, style)}+{frame.offset:#x}"
        if frame.module and "/" not in frame.module:
            text += f" [{clean(frame.module, style)}]"
        return cut(text, 60)
    if style.addresses:
        return f"{frame.address & (1 << 64) - 1:#x}"
    return f"[{clean(frame.module.rpartition('/')[2], style)}]" if frame.module else "[unknown]"


def _stack_lines(frames: Sequence[rows.Frame], style: Style, label: str = "") -> list[str]:
    """Frames from the caller on, as wrapped lines."""
    text = " < ".join(_frame(frame, style) for frame in without_internals(frames)) or "no stack"
    indent = "      "
    return fill(label + text, indent, indent + "  ")


def _cpus(report: Report, style: Style, limit: int) -> list[str]:
    if not report.cpus:
        return []
    note = "median: times the median CPU's total; then waits by length, shaded by their time; >: stands out"
    return [_title("CPUs", note), *heat_table(report.cpus, report.window, style, limit)]


def _result(outlier: OutlierWait) -> str:
    if not outlier.result:
        return ""
    return f", ended without the lock ({errno.errorcode.get(-outlier.result, str(outlier.result))})"


def _outliers(report: Report, style: Style) -> list[str]:
    if not report.outliers:
        return []
    lines = []
    seen: dict[tuple[rows.Frame, ...], int] = {}
    for number, outlier in enumerate(report.outliers, 1):
        lock = clean(outlier.lock, style)
        if outlier.instance:
            lock += f" [{clean(outlier.instance, style)}]"
        moved = f" (began on {outlier.begin_cpu})" if outlier.begin_cpu != outlier.cpu else ""
        task = f"{cut(clean(outlier.task.comm, style), 16)} {outlier.task.tid}"
        lines.append(
            f"  {number:>2}. {duration(outlier.wait_ns)} at {outlier.offset_ns / 1e9:.6f} s, "
            f"{cut(lock, 44)} {clean(outlier.kind, style)}, CPU {outlier.cpu}{moved}, {task}{_result(outlier)}"
            + (f", in {clean(outlier.container, style)}" if outlier.container else "")
        )
        if outlier.stack and outlier.stack in seen:
            lines.append(f"      stack as of {seen[outlier.stack]}")
        else:
            seen[outlier.stack] = number
            lines += _stack_lines(outlier.stack, style)
        if outlier.user_stack:
            lines += _stack_lines(outlier.user_stack, style, "user: ")
    threshold = report.window.threshold_ns
    over = f"over {duration(threshold)}, " if threshold is not None else ""
    note = f"{over}{report.outlier_count:,} kept, the longest {len(report.outliers)} shown"
    return [_title("Longest waits", note), *lines]


def _tasks(report: Report, style: Style, limit: int) -> list[str]:
    if not report.tasks:
        return []
    by_comm: defaultdict[str, list[Task]] = defaultdict(list)
    for task in report.tasks:
        by_comm[task.comm].append(task)
    sampled = report.sampled
    ranked = sorted(by_comm.items(), key=lambda item: (-sum(task.wait_ns for task in item[1]), item[0]))
    lines = []
    for comm, tasks in ranked[:limit]:
        # Tasks come longest wait first.
        worst = tasks[0]
        wait_ns = sum(task.wait_ns for task in tasks)
        lines.append(
            [
                clean(comm, style),
                count(len({task.tgid for task in tasks})),
                count(len({(task.tgid, task.tid) for task in tasks})),
                count(sum(task.waits for task in tasks)),
                duration(wait_ns),
                percent(wait_ns / sampled.wait_ns if sampled.wait_ns else None),
                f"{worst.tid} ({duration(worst.wait_ns)})",
                f"{clean(worst.lock, style)} {clean(worst.kind, style)}",
            ]
        )
    columns = [
        Column("task", 16, right=False),
        Column("procs", 6, spare=1),
        Column("tasks", 6),
        Column("waits", 6),
        Column("total", 7),
        Column("of all", 7),
        Column("worst tid", 19),
        Column("mostly for", 40, right=False),
    ]
    if sampled.coverage is None:
        note = "estimated from weighted samples of all CPUs" if report.window.selection.cpus else "estimated"
    else:
        note = f"estimated: weighted samples stand for {percent(sampled.coverage)} of the wait time"
    out = [_title("Who waits", note), *table(columns, lines)]
    if len(ranked) > limit:
        rest = sum(task.wait_ns for _, tasks in ranked[limit:] for task in tasks)
        out.append(f"  ({len(ranked) - limit:,} more, {duration(rest)})")
    return [*out, *_cgroups(report, style, limit)]


def _cgroup_label(one: CgroupWaits, style: Style) -> str:
    """The container with its image, or the path."""
    if not one.name:
        return clean(one.path, style) or "(not known)"
    image = one.container.image if one.container else ""
    return clean(one.name, style) + (f" ({clean(image, style)})" if image else "")


def _cgroups(report: Report, style: Style, limit: int) -> list[str]:
    if {one.path for one in report.cgroups} <= {"", "/"}:
        return []
    columns = [
        Column("container or cgroup" if any(one.name for one in report.cgroups) else "cgroup", 70, right=False),
        Column("tasks", 6),
        Column("waits", 6),
        Column("total", 7),
        Column("of all", 7),
    ]
    lines = [
        [
            _cgroup_label(one, style),
            count(one.tasks),
            count(one.waits),
            duration(one.wait_ns),
            percent(one.share),
        ]
        for one in report.cgroups[:limit]
    ]
    out = ["", *table(columns, lines)]
    if len(report.cgroups) > limit:
        out.append(f"  ({len(report.cgroups) - limit:,} more)")
    return out


def _open_waits(report: Report, style: Style, limit: int) -> list[str]:
    waits = report.window.open_waits
    if not waits:
        return []
    lines = [
        f"  {duration(wait.age_ns):>7}  {pad(clean(wait.comm, style), 16)} {wait.tid:<8} "
        f"{cut(clean(wait.lock, style), 50)} {clean(wait.kind, style)}, CPU {wait.cpu}"
        for wait in waits[:limit]
    ]
    if len(waits) > limit:
        lines.append(f"  ({len(waits) - limit:,} more)")
    return ["Still waiting at the end of the recording", *lines]


def _kept(window: Window) -> list[str]:
    """What has become of the detail of a recording that goes on for long."""
    lines = []
    for until, what in (
        (window.removed_until_ns, "the recording has only totals: no intervals, single waits or samples by time"),
        (window.rolled_until_ns, "intervals are longer, and only the longest single waits are kept"),
    ):
        if until is not None:
            before = duration(max(0, until - window.recording_begin_ns))
            lines += _wrapped("  note", f"of the first {before} {what} (record --keep, --max-size)")
    return lines


def _footer(report: Report, style: Style) -> list[str]:
    lines = _kept(report.window)
    if report.cost.stalled_ns:
        text = f"the recording's file system did not answer for {duration(report.cost.stalled_ns)}; meanwhile"
        lines += _wrapped("  note", f"{text} events were kept in memory, and that time is one interval")
    for loss in sorted(report.loss, key=lambda loss: (loss.severity != "loss", loss.name)):
        if loss.events:
            mark = "lost" if loss.severity == "loss" else "note"
            text = f"{loss.name}: {loss.events:,}" + (f" ({loss.meaning})" if loss.meaning else "")
            lines += _wrapped(f"  {mark}", clean(text, style))
    if not any(loss.events and loss.severity == "loss" for loss in report.loss):
        lines.append("  nothing lost" if report.loss else "  losses not stored")
    return ["Whole recording: what the figures lack, and own cost", *lines, *_cost(report, style)]


def _cost(report: Report, style: Style) -> list[str]:
    lines = []
    places = trust.places(report.trust)
    for cost in report.cost.programs:
        program = cost.program
        runs = "runs not known" if program.runs is None else f"{count(program.runs)} runs"
        if program.runs is None and cost.estimated_ns is not None and cost.ns_per_run:
            runs = f"about {count(round(cost.estimated_ns / cost.ns_per_run))} runs"
        each = "no time measured" if cost.ns_per_run is None else f"{cost.ns_per_run:.0f} ns each"
        missed = f", {count(program.recursion_misses)} runs skipped" if program.recursion_misses else ""
        lines.append(f"  {cut(clean(program.name, style), 30)}: {runs}, {each}{missed}{places.get(program.name, '')}")
    if report.cost.estimated_ns is not None:
        share = percent(report.cost.cpu_share) if report.cost.cpu_share is not None else "unknown share"
        lines.append(f"  in the kernel: about {duration(report.cost.estimated_ns)}, {share} of all CPU time")
    lines += [line for text in trust.sentences(report.trust) for line in _wrapped("  trust", text, 13)]
    if report.cost.unavailable:
        lines += _wrapped("  kernel", f"not measured: {clean(report.cost.unavailable, style)}", 13)
    if report.cost.collector:
        parts = [_own_cost(own) for own in report.cost.collector]
        lines += _wrapped("  collector", clean(", ".join(parts), style), 13)
    return lines


def _own_cost(cost: rows.Cost) -> str:
    """A cost in words: "cpu 80.0 ms" for collector_cpu_ns."""
    name = cost.name.removeprefix("collector_").removesuffix("_ns").removesuffix("_bytes").replace("_", " ")
    if cost.unit == "ns":
        return f"{name} {duration(cost.value)}"
    if cost.unit == "bytes":
        return f"{name} {size(cost.value)}"
    return f"{name} {cost.value:,}" + ("" if name.endswith(cost.unit) else f" {cost.unit}")


def _blind(report: Report, style: Style) -> list[str]:
    """What was not seen, by signal."""
    lines = [line for line in _header(report, style) if line]
    first = next((index for index, line in enumerate(lines) if line.startswith(("Blind", "Missing"))), len(lines))
    return ["What was not seen", *lines[first:]] if first < len(lines) else ["What was not seen", "  nothing"]


def _losses(report: Report, style: Style) -> list[str]:
    return [line for line in _footer(report, style)[1:] if line not in _cost(report, style)]


def _trust_section(report: Report, style: Style, _limit: int | None) -> list[str]:
    told = [line for text in trust.sentences(report.trust) for line in _wrapped("  trust", text, 13)]
    return [*_blind(report, style), "", "What the figures lack", *_losses(report, style), *told]


def _limit(limit: int | None, usual: int) -> int:
    return usual if limit is None else limit


# Parts of the report by the option that asks for them alone, and what to say where there is nothing.
SECTIONS: dict[str, tuple[Callable[[Report, Style, int | None], list[str]], str]] = {
    "findings": (lambda report, style, _: findings(report, style), "no rule found anything"),
    "locks": (
        lambda report, style, top: [*_kinds(report, style), "", *_locks(report, style, _limit(top, LOCKS))],
        "no lock was waited for",
    ),
    "stacks": (lambda report, style, _: _callers(report, style), "no wait was sampled with a stack"),
    "cpus": (lambda report, style, top: _cpus(report, style, _limit(top, CPUS)), "no CPU waited"),
    "tasks": (lambda report, style, top: _tasks(report, style, _limit(top, TASKS)), "no wait was sampled"),
    "cgroups": (
        lambda report, style, top: _cgroups(report, style, _limit(top, TASKS))[1:],
        "all that waited is in the root control group, or no wait was sampled",
    ),
    "longest": (lambda report, style, _: _outliers(report, style), "no wait reached the threshold"),
    "holders": (
        lambda report, style, _: holders(report, style),
        "no holder was recorded; lockline record --holders records them",
    ),
    "futex": (
        lambda report, style, top: signals.futexes(report.futexes, style, _limit(top, signals.FUTEXES)),
        "no futex was recorded; lockline record --futex records them",
    ),
    "lines": (
        lambda report, style, top: _lines(report, style, top),
        "no cache line was watched or sampled; lockline watch, or record --hitm",
    ),
    "trust": (_trust_section, ""),
    "cost": (lambda report, style, _: ["What recording cost", *_cost(report, style)], "not stored"),
}


def render_sections(report: Report, style: Style, names: Sequence[str]) -> str:
    """Those parts of the report, in the order of SECTIONS; of one that has nothing to show, why."""
    parts = []
    for name, (section, empty) in SECTIONS.items():
        if name in names:
            lines = section(report, style, report.window.selection.top)
            parts.append("\n".join(lines) if any(lines) else f"--{name}: {empty}")
    return "\n\n".join(parts) + "\n"
