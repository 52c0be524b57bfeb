# SPDX-License-Identifier: GPL-2.0-or-later
"""The page of `lockline report --html`."""

from collections.abc import Sequence
from typing import Any

from lockline.analysis.answer import by_impact, make_answer, trusted_ns
from lockline.analysis.model import LockWaits, Report
from lockline.base.numbers import count, counted, duration, percent
from lockline.export.profile import Profile, read_profile
from lockline.export.stacks import ANY_TASK
from lockline.page import flames, svg
from lockline.page.document import Page, Section, figure, render
from lockline.page.episodes import episodes_section
from lockline.page.html import Content, Markup, Writer, joined
from lockline.page.lines import live_sections
from lockline.page.redact import Redactor
from lockline.page.series import CPUS, LOCKS, OTHERS, Series, lengths, lengths_of_all, lock_name, read_series
from lockline.page.waitfor import waitfor_section
from lockline.recording.reader import Recording
from lockline.render import screen, screen_answer, screen_parts
from lockline.render import text as text_render
from lockline.render.findings import worded
from lockline.render.screen_findings import advice

# Rows of the tables; the others are one row, or `lockline report` has them.
TABLE_LOCKS, TABLE_TASKS, TABLE_STEPS, TABLE_STACKS = 200, 200, 240, 50
# Pieces of advice on a finding; the atlas knows more about some locks.
MOST_ADVICE = 2
# Locks whose waits are shown by their length.
HISTOGRAMS = 20
# Cells of the drawing of CPUs over time; the chart that a script draws has all.
DRAWN_STEPS, DRAWN_CPUS = 80, 64


def _answer(report: Report, write: Writer) -> Section:
    answer = make_answer(report)
    totals, cpus = report.totals, report.window.cpus
    facts: list[Sequence[Content]] = [
        ("lock waits", f"{totals.waits:,}"),
        ("waiting in sum", duration(totals.wait_ns)),
        ("what it costs", screen_answer.cost_words(answer.cost, cpus) or "nothing"),
        ("longest wait", duration(totals.max_ns)),
        ("waits that ended without the lock", f"{totals.failed:,}"),
        ("locks waited for", f"{len(report.locks):,}"),
    ]
    trust = screen_parts.sentence(screen.trust_words(report, marked=True))
    return Section(
        "answer",
        "The answer",
        joined(
            (
                write("p", screen_answer.answer_words(report, answer, write.style), class_="answer"),
                write.table("The kernel's locks in figures", ("what", "how much"), facts, (0, 1)),
                write("p", trust, " ", write("a", "What the figures lack", href="#missing")),
            )
        ),
    )


def _findings(report: Report, write: Writer) -> Section:
    parts = []
    for number, finding in enumerate(by_impact(report.findings), 1):
        words = worded(finding)
        share = finding.impact.part
        todo = advice(finding, report)[:MOST_ADVICE]
        about = f"{finding.confidence} confidence" + (f", {percent(share)} of all lock waiting" if share else "")
        parts.append(
            write(
                "article",
                write("h3", f"{number}. {words.title}"),
                write("p", write("span", about, class_=finding.confidence)),
                write("p", "Evidence") if words.evidence else None,
                write.list(words.evidence),
                write("p", "What to do") if todo else None,
                write.list(todo),
                id=f"finding-{number}",
            )
        )
    return Section("findings", "Findings", joined(parts) if parts else write("p", "No rule found anything."))


def _timeline(series: Series, write: Writer) -> Section:
    rows: list[Sequence[Content]] = []
    for index, (begin, end) in enumerate(series.steps[:TABLE_STEPS]):
        waiting = sum(values[index] for _, values in series.locks)
        worst = max(series.locks, key=lambda row: row[1][index], default=("", ()))
        name = worst[0] if waiting else ""
        rows.append(
            (f"{begin / 1e9:.3f} to {end / 1e9:.3f} s", duration(waiting), f"{waiting / max(1, end - begin):.2f}", name)
        )
    titles = ("when", "waiting", "threads that wait, on average", "most for")
    table = write.table("Waiting over time", titles, rows, (0, 3))
    names = [name for name, _ in series.locks]
    note = f"{series.joined} intervals of the recording are one step here." if series.joined > 1 else ""
    if OTHERS in names:
        note += f" The {LOCKS} locks with most waiting have a colour of their own."
    drawing = joined(
        (
            svg.stacked(write, "Threads that wait, on average, over time, by lock", series.steps, series.locks),
            svg.legend(write, names),
        )
    )
    zoom = write("p", write("span", id="zoomed", role="status"), class_="note")
    content = figure(
        write,
        "timeline",
        "Threads that wait for the kernel's locks at each moment, on average.",
        drawing,
        table,
        note.strip(),
    )
    return Section("timeline", "Waiting over time", joined((content, zoom)))


def _coarse(series: Series) -> tuple[list[str], list[tuple[str, tuple[int, ...]]]]:
    """The map of CPUs for a drawing, which is as large as its cells are many: sums over neighbours."""
    wide = -(-len(series.steps) // DRAWN_STEPS) or 1
    columns = [""] * -(-len(series.steps) // wide)
    for part in range(5 if columns else 0):
        at = part * (len(columns) - 1) // 4
        columns[at] = f"{series.steps[at * wide][0] / 1e9:.1f} s"
    tall = -(-len(series.cpus) // DRAWN_CPUS) or 1
    rows = []
    for first in range(0, len(series.cpus), tall):
        group = series.cpus[first : first + tall]
        sums = [sum(values) for values in zip(*(values for _, values in group), strict=True)]
        cells = tuple(sum(sums[at : at + wide]) for at in range(0, len(sums), wide))
        name = group[0][0] if len(group) == 1 else f"{group[0][0]} to {group[-1][0]}"
        rows.append((name if name == OTHERS else f"CPU {name}", cells))
    return columns, rows


def _heat(report: Report, series: Series, write: Writer) -> Section:
    last = series.steps[-1][1] / 1e9 if series.steps else 0.0
    columns, rows = _coarse(series)
    drawing = svg.heat(write, f"Waiting by CPU over {last:.1f} s", rows, columns)
    cpus: list[Sequence[Content]] = [
        (
            f"CPU {cpu.cpu}",
            count(cpu.figures.waits),
            duration(cpu.figures.wait_ns),
            percent(report.window.share(cpu.figures.wait_ns)),
            duration(cpu.figures.percentile(0.99)),
            duration(cpu.figures.max_ns),
        )
        for cpu in report.cpus
    ]
    table = write.table("Waits by CPU", ("CPU", "waits", "waiting", "of the time", "p99", "longest"), cpus)
    note = f"The {CPUS} CPUs that wait most have a row of their own." if len(report.cpus) > CPUS else ""
    caption = "Waiting on each CPU over time. The more a cell stands out, the more waiting (logarithmic)."
    return Section("cpus", "CPUs over time", figure(write, "heat", caption, drawing, table, note))


def _heaviest(report: Report) -> list[LockWaits]:
    return sorted(report.locks, key=lambda lock: -lock.figures.wait_ns)


def _histograms(report: Report, write: Writer) -> Section:
    heaviest = _heaviest(report)[:HISTOGRAMS]
    parts = []
    for lock in heaviest[:6]:
        name, trusted = lock_name(lock), trusted_ns(report, lock.kind)
        parts.append(write("h3", name))
        parts.append(svg.bars(write, f"Waits for {name} by length", lengths(lock), trusted))
    rows: list[Sequence[Content]] = [
        (lock_name(lock), duration(lower), f"{number:,}")
        for lock in heaviest[:6]
        for lower, number in lengths(lock)
        if number
    ]
    table = write.table("Waits by length", ("lock", "from", "waits"), rows)
    caption = "How many waits were how long (logarithmic)."
    if any(trusted_ns(report, lock.kind) > min((low for low, _ in lengths(lock)), default=0) for lock in heaviest):
        caption += " Lengths in the marked part may be more than 10% off."
    titles, octaves = lengths_of_all(heaviest, HISTOGRAMS)
    by_lock: list[Sequence[Content]] = [
        (
            lock_name(lock),
            *(duration(lock.figures.percentile(part)) for part in (0.5, 0.9, 0.99, 0.999)),
            duration(lock.figures.max_ns),
        )
        for lock in heaviest
    ]
    lock_table = write.table("Lengths by lock", ("lock", "median", "p90", "p99", "p99.9", "longest"), by_lock)
    heat = svg.heat(write, "Waiting by lock and length of the wait", octaves, titles)
    about = (
        "Where the waiting of each lock is: in waits of which length. The more a cell stands out, the more waiting"
        " (logarithmic)."
    )
    return Section(
        "lengths",
        "Waits by length",
        joined(
            (
                figure(write, "histogram", caption, joined(parts), table),
                figure(write, "lengths", about, heat, lock_table, chart=False),
            )
        ),
    )


def _locks(report: Report, write: Writer) -> Section:
    ranked = _heaviest(report)
    rows: list[Sequence[Content]] = [_lock(lock, report) for lock in ranked[:TABLE_LOCKS]]
    rest = ranked[TABLE_LOCKS:]
    if rest:
        waits, ns = sum(lock.figures.waits for lock in rest), sum(lock.figures.wait_ns for lock in rest)
        rows.append((f"{len(rest):,} more locks", "", "", count(waits), duration(ns), "", "", "", ""))
    titles = ("lock", "kind", "locks", "waits", "waiting", "of the time", "p99", "longest", "worst CPU")
    return Section("locks", "Locks", write.table("Locks by waiting", titles, rows, (0, 1)))


def _lock(lock: LockWaits, report: Report) -> Sequence[Content]:
    where = f" [{lock.worst_instance}]" if lock.instances == 1 and lock.worst_instance else ""
    figures = lock.figures
    return (
        f"{lock.name or '?'}{where}",
        lock.kind,
        f"{lock.instances:,}",
        count(figures.waits),
        duration(figures.wait_ns),
        percent(report.window.share(figures.wait_ns)),
        duration(figures.percentile(0.99)),
        duration(figures.max_ns),
        str(lock.worst_cpu),
    )


def _flame(name: str, title: str, caption: str, profile: Profile, root: svg.Node, write: Writer) -> Section:
    rows: list[Sequence[Content]] = [
        (" > ".join(path), duration(ns), percent(ns / profile.ns if profile.ns else 0.0))
        for path, ns in flames.stacks(profile, TABLE_STACKS)
    ]
    table = write.table("Stacks by waiting, outermost frame first", ("stack", "waiting", "of all"), rows)
    drawing = svg.flame(write, title, root, ANY_TASK)
    return Section(name, title, figure(write, name, caption, drawing, table))


def _holders(report: Report, write: Writer) -> Markup:
    rows: list[Sequence[Content]] = [
        (
            f"{holder.comm} ({holder.tid})" if holder.kind == "task" else holder.kind,
            lock_name(lock),
            f"{holder.releases:,}",
            f"{holder.waits:,}",
            duration(holder.caused_ns),
            duration(holder.max_caused_ns),
        )
        for lock in report.locks
        for holder in lock.holders
    ]
    titles = ("holder", "lock", "releases", "waits", "waiting that it caused", "most, of one wait")
    return write.table("Who held the locks", titles, rows, (0, 1))


def _tasks(report: Report, write: Writer) -> list[Section]:
    rows: list[Sequence[Content]] = [
        (
            f"{task.comm} ({task.tid})",
            count(task.waits),
            duration(task.wait_ns),
            f"{task.lock} ({task.kind})",
            duration(task.lock_ns),
            task.container or task.cgroup or "-",
        )
        for task in report.tasks[:TABLE_TASKS]
    ]
    titles = ("task", "waits", "waiting", "most for", "of it", "container or control group")
    tasks = write.table("Who waits, by samples", titles, rows, (0, 3, 5))
    more = len(report.tasks) - TABLE_TASKS
    note = write("p", f"{more:,} more tasks waited less.", class_="note") if more > 0 else Markup("")
    sums: dict[str, list[int]] = {}
    for task in report.tasks:
        entry = sums.setdefault(task.container or task.cgroup or "not known", [0, 0])
        entry[0] += task.waits
        entry[1] += task.wait_ns
    groups: list[Sequence[Content]] = [
        (path, count(waits), duration(ns))
        for path, (waits, ns) in sorted(sums.items(), key=lambda item: (-item[1][1], item[0]))[:TABLE_TASKS]
    ]
    cgroups = write.table("Who waits, by control group", ("container or control group", "waits", "waiting"), groups)
    return [Section("tasks", "Tasks", joined((tasks, note))), Section("cgroups", "Control groups", cgroups)]


def _longest(report: Report, write: Writer) -> Section:
    rows: list[Sequence[Content]] = [
        (
            f"{wait.task.comm} ({wait.task.tid})",
            f"{wait.lock} ({wait.kind})",
            duration(wait.wait_ns),
            f"{wait.offset_ns / 1e9:.6f} s",
            str(wait.cpu),
            " < ".join(frame.symbol or "[unknown]" for frame in wait.stack),
        )
        for wait in report.outliers
    ]
    titles = ("task", "lock", "length", "begin", "CPU", "stack, leaf first")
    note = f"{report.outlier_count:,} waits reached the threshold; the longest {len(rows):,} are here."
    table = write.table("The longest waits", titles, rows, (0, 1, 5))
    return Section("longest", "Longest waits", joined((table, write("p", note, class_="note"))))


def _text_section(report: Report, write: Writer, part: str, name: str, title: str) -> Section:
    """A part of the report's text, as it is."""
    text = text_render.render_sections(report, write.style, [part])
    return Section(name, title, write.lines(text.rstrip("\n").split("\n")))


def _histogram_data(report: Report, write: Writer) -> list[dict[str, Any]]:
    heaviest = _heaviest(report)[:HISTOGRAMS]
    return [
        {"name": write.plain(lock_name(lock)), "trusted": trusted_ns(report, lock.kind), "buckets": lengths(lock)}
        for lock in heaviest
    ]


def make_page(report: Report, recording: Recording, write: Writer, redact: bool = False) -> str:
    """The page of a report, as a file; redact: without names of hosts, commands and control groups.

    Raises RecordingError if the recording is damaged.
    """
    names = Redactor() if redact else None

    def profile(side: str) -> Profile:
        read = read_profile(recording, report, side, write.style)
        hidden: Profile = read if names is None else names.inside(read)
        return hidden

    if names is not None:
        report = names.report(report)
    series = read_series(recording, report)
    waiters = profile("waiters")
    tree = flames.tree(waiters, "all waiting")
    data: dict[str, Any] = {
        "steps": series.steps,
        "locks": [(write.plain(name), values) for name, values in series.locks],
        "cpus": series.cpus,
        "histograms": _histogram_data(report, write),
        "flames": {"flame": flames.as_data(tree)},
    }
    sections = [
        _answer(report, write),
        _findings(report, write),
        _timeline(series, write),
        _heat(report, series, write),
        _histograms(report, write),
        _locks(report, write),
        _flame("flame", "Waiters' stacks", "Waiting by stack: callers above, locks below.", waiters, tree, write),
    ]
    if any(lock.holders for lock in report.locks):
        holders = profile("holders")
        held = flames.tree(holders, "all waiting that holders caused")
        data["flames"]["holders"] = flames.as_data(held)
        caption = "The waiting that holders caused, by where they released the lock."
        shown = _flame("holders", "Holders' stacks", caption, holders, held, write)
        sections.append(Section(shown.name, shown.title, joined((shown.content, _holders(report, write)))))
        sections.append(waitfor_section(report, write))
    elif report.futexes is not None and report.futexes.blocked:
        sections.append(waitfor_section(report, write))
    sections += [*_tasks(report, write), _longest(report, write)]
    if report.episodes:
        sections.append(episodes_section(report, write))
    if report.futexes is not None:
        sections.append(_text_section(report, write, "futex", "futex", "Locks of programs"))
    if report.lines is not None:
        sections += live_sections(report.lines, write)
    sections.append(_text_section(report, write, "trust", "missing", "What the figures lack"))
    sections.append(_text_section(report, write, "cost", "cost", "What recording cost"))
    host, window = report.host, report.window
    parts = [
        f"Linux {host.kernel_release}" if host.kernel_release else None,
        counted(window.cpus, "CPU") if window.cpus else None,
        screen.when_words(window),
        "cut off, or still being recorded" if window.state == "recording" else None,
    ]
    subtitle = ", ".join(part for part in parts if part)
    return render(Page(f"Lock waiting on {host.name or 'a host'}", subtitle, tuple(sections), data), write)
