# SPDX-License-Identifier: GPL-2.0-or-later
"""The first screen of a report: the answer, and where to look further, in at most 24 lines of 80 columns."""

import shlex
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timezone

from lockline.analysis.answer import (
    NEGLIGIBLE_SHARE,
    NEGLIGIBLE_USER_SHARE,
    NEGLIGIBLE_WAIT_NS,
    STANDSTILLS,
    Answer,
    Cost,
    cost_of,
    is_explained,
    make_answer,
    trusted_ns,
)
from lockline.analysis.findings import Finding, Lock
from lockline.analysis.model import LockWaits, Report
from lockline.analysis.series import Slice
from lockline.atlas import atlas
from lockline.base.numbers import count, duration, percent
from lockline.base.text import Column, Style, clean, cut, table, width
from lockline.render.findings import worded
from lockline.render.screen_parts import NARROWEST, filled, fitted

FINDINGS = 3
# Sentences of it where there is but one finding.
EVIDENCE = 3
LOCKS = 4
DEFAULT_RECORDING = "lockline.data"
# Below its trusted length a figure has this mark.
MARK = "~"
# Rules whose advice is to use a lock less: of a known lock the atlas says how.
_USE = ("convoy", "hot-lock")
# Threads that wait on average from which on they are spoken of, though nobody knows what for.
UNCLEAR_THREADS = 1.0
# Columns of a lock's name at least.
_NAME = 20

_MOST_BARS = 32

# What is not seen bears on the answer only if it is a kind of waiter.
_WAITERS = (
    "lock waits",
    "spinlock first waiter",
    "spinlock queued waiters",
    "rwlock waiters",
    "rwlock readers in interrupt",
    "rwsem writers that win by spinning",
    "percpu-rwsem writers behind readers",
)


def _command(report: Report, options: str) -> str:
    """A command to copy; a recording of another name than the default is named."""
    file = "" if report.path == DEFAULT_RECORDING else f" -i {shlex.quote(report.path)}"
    return f"lockline report{file} {options}"


def _header(report: Report, style: Style, columns: int) -> str:
    window, host = report.window, report.host
    parts = [host.name, f"Linux {host.kernel_release}" if host.kernel_release else None]
    parts.append(f"{window.cpus} CPUs" if window.cpus else None)
    when = duration(window.duration_ns)
    if window.begin_unix_ns is not None and window.begin_unix_ns < 1 << 62:
        since = window.begin_unix_ns + window.begin_ns - window.recording_begin_ns
        when += datetime.fromtimestamp(since // 1_000_000_000, timezone.utc).strftime(" from %Y-%m-%d %H:%M:%S UTC")
    parts.append(when)
    if window.state == "recording":
        parts.append("cut off or still being recorded")
    return cut(clean(", ".join(part for part in parts if part), style), columns)


def lock_words(lock: LockWaits, style: Style) -> str:
    """A lock by name and kind."""
    where = f" [{lock.worst_instance}]" if lock.instances == 1 and lock.worst_instance else ""
    return clean(f"{lock.name or '?'}{where} ({lock.kind})", style)


def _cpus(cpus: float) -> str:
    return percent(cpus) + " of one CPU" if cpus < 1 else f"{cpus:.1f} CPUs"


def _threads(threads: float) -> str:
    return f"{threads:.1f} threads" if threads >= 1 else f"{max(threads, 0.01):.2f} threads"


def cost_words(cost: Cost, machine: int | None) -> str:
    """What waiting costs: spinning burns CPUs, sleeping holds threads up; machine: all CPUs, None: not known."""
    parts = []
    if cost.spinning_cpus:
        part = f" ({percent(cost.machine)} of {machine})" if cost.machine is not None else ""
        parts.append(f"spinning burns {_cpus(cost.spinning_cpus)}{part}")
    if cost.sleeping_threads:
        parts.append(f"{_threads(cost.sleeping_threads)} sleep on average")
    return ", ".join(parts)


def _longest(report: Report, answer: Answer, style: Style) -> str:
    longest = answer.longest
    if longest is not None and longest.wait_ns >= report.totals.max_ns:
        task = clean(f"{longest.task.comm} ({longest.task.tid})", style)
        about = "" if answer.locks and answer.locks[0].name == longest.lock else f" for {clean(longest.lock, style)}"
        return f"Longest wait: {duration(longest.wait_ns)}, {task}{about}."
    return f"Longest wait: {duration(report.totals.max_ns)}." if report.totals.waits else ""


def answer_words(report: Report, answer: Answer, style: Style) -> str:
    """The answer in two or three sentences; of a filtered recording, what it knows of first."""
    chosen = report.window.wait_filter
    words = _answer_words(report, answer, style) + _unclear_words(answer) + _unseen_words(report, style)
    return f"Only of the waits that {clean(chosen, style)} chose: {words}" if chosen else words


def _unclear_words(answer: Answer) -> str:
    """What waits besides, if one thread does all the time: the answer may be there."""
    if answer.unclear_waiting < max(UNCLEAR_THREADS, answer.user_waiting or 0.0):
        return ""
    return (
        f" Besides, {_threads(answer.unclear_waiting)} of programs wait on average; whether for a lock or for work "
        "is not known. See --futex."
    )


def _unseen_words(report: Report, style: Style) -> str:
    """Of goroutines, whose waits need other probes."""
    unseen = report.futexes.unseen if report.futexes is not None else ()
    if not unseen:
        return ""
    command = f"`lockline record --futex --go -p {unseen[0].tgid}`"
    comm = clean(unseen[0].comm, style)
    if unseen[0].wakes:
        return f" Goroutines of {comm} wait for mutexes too, which {command} shows."
    return f" What goroutines of {comm} wait for is not recorded here: {command} shows it."


def _few_user(answer: Answer) -> str:
    if answer.user_waiting is None or answer.user_waiting < NEGLIGIBLE_SHARE:
        return ""
    return (
        f" So are programs' own locks: {answer.user_waiting:.2f} threads wait on average (negligible: under"
        f" {NEGLIGIBLE_USER_SHARE:g})."
    )


def _answer_words(report: Report, answer: Answer, style: Style) -> str:
    totals, cpus = report.totals, report.window.cpus
    cost = cost_words(answer.cost, cpus)
    if answer.kind == "standstill":
        stuck = next(found for found in report.findings if found.rule in STANDSTILLS)
        others = f" Other lock waiting: {cost}." if cost else ""
        idle = ", or wait for work" if any(one.what == "may-be-idle" for one in stuck.evidence) else ""
        return f"Threads stand still{idle}: {clean(worded(stuck).title, style)}.{others}"
    if answer.kind == "not enough recorded":
        return f"Not enough recorded for an answer: {answer.why}. Record for longer: lockline record -a -d 10"
    if answer.kind == "user space":
        what = "at barriers" if 2 * answer.at_barriers > (answer.user_waiting or 0.0) else "for locks"
        return (
            f"Programs wait mostly {what} of their own: {_threads(answer.user_waiting or 0.0)} on average."
            f" The kernel's locks: {cost or 'no waiting'}. See --futex."
        )
    if answer.kind == "negligible":
        if not totals.waits:
            return f"Lock waiting is negligible: no wait in {duration(report.window.duration_ns)}." + _few_user(answer)
        return (
            f"Lock waiting is negligible: {totals.waits:,} waits, {duration(totals.wait_ns)} in"
            f" {duration(report.window.duration_ns)}, none over {duration(totals.max_ns)} (negligible: under"
            f" {NEGLIGIBLE_SHARE:.0%} of one thread's time, no wait of {duration(NEGLIGIBLE_WAIT_NS)})."
            + _few_user(answer)
        )
    names = [lock_words(lock, style) for lock in answer.locks]
    if answer.kind == "one lock":
        lock = answer.locks[0]
        one = "One lock makes" if lock.instances == 1 else f"{lock.instances:,} locks of one name make"
        what = f"{one} {percent_short(answer.part)} of all lock waiting: {names[0]}."
        cost = cost_words(cost_of(report, [(lock.kind, lock.figures)]), cpus)
    else:
        what = (
            f"Several locks: {', '.join(names)} make {percent_short(answer.part)} of all lock waiting."
            if names
            else f"Many locks share the waiting: none of {len(report.locks):,} has a tenth of it."
        )
    waiting = report.window.share(totals.wait_ns) or 0.0
    worth = "" if waiting >= NEGLIGIBLE_SHARE else " It is little in sum, but single waits are long."
    return " ".join(part for part in (what, sentence(cost) + worth, _longest(report, answer, style)) if part)


def percent_short(fraction: float) -> str:
    """A fraction in whole percent, never 100% of what is less."""
    return f"{min(round(fraction * 100), 99 if fraction < 1 else 100)}%"


def sentence(text: str) -> str:
    """A text as a sentence."""
    return text[:1].upper() + text[1:] + "." if text else ""


def _finding(
    number: int, finding: Finding, report: Report, style: Style, columns: int, steps: int, alone: bool
) -> list[str]:
    words = worded(finding)
    part = finding.impact.wait_ns / report.totals.wait_ns if report.totals.wait_ns else 0.0
    what = f"{clean(words.title, style)}"
    if 0 < part <= 1:
        what += f" ({percent_short(part)} of all waiting)"
    lines = filled(f" {number} {finding.confidence:8}", what, columns, 2)
    if steps > 1:
        for evidence in words.evidence[: EVIDENCE if alone else 1]:
            lines += filled("           ", clean(evidence, style), columns, steps)
    known = atlas().find(finding.subject.name) if isinstance(finding.subject, Lock) and finding.rule in _USE else None
    todo = known.helps[:1] if known is not None else words.next[:1]
    lines += [line for step in todo if steps > 0 for line in filled("   do      ", clean(step, style), columns, steps)]
    return lines


def _worth_showing(finding: Finding, report: Report) -> bool:
    """Whether a finding matters where waiting is negligible: it is sure, and not about that little waiting."""
    return (report.window.share(finding.impact.wait_ns) or 0.0) >= NEGLIGIBLE_SHARE


def _findings(
    report: Report, answer: Answer, style: Style, columns: int, most: int, steps: int, kept: bool
) -> list[str]:
    # That a lock is busy is no news where another finding says why.
    ranked = [
        found
        for found in report.findings
        if not is_explained(found, report.findings) and (answer.kind != "negligible" or _worth_showing(found, report))
    ]
    if not ranked:
        hidden = len(report.findings)
        small = f"FINDINGS  {hidden} that matter little" + (f": {_command(report, '--findings')}" if kept else "")
        return [cut(clean(small, style), columns)] if hidden else []
    title = "FINDINGS"
    rest = f"evidence: {_command(report, '--findings')}" if kept else ""
    if len(ranked) > most:
        rest = f"{len(ranked)} found{', ' if rest else ''}{rest}"
    lines = [title + " " * max(1, columns - len(title) - width(rest)) + rest]
    lines = [cut(clean(lines[0].rstrip(), style), columns)]
    for number, finding in enumerate(ranked[:most], 1):
        lines += _finding(number, finding, report, style, columns, steps, len(ranked) == 1)
    return lines


def _waiters(report: Report, lock: LockWaits) -> str:
    """The commands that wait for a lock, longest first, as far as samples tell."""
    by_comm: defaultdict[str, int] = defaultdict(int)
    for task in report.tasks:
        if task.lock == lock.name and task.kind == lock.kind:
            by_comm[task.comm] += task.lock_ns
    names = sorted(by_comm, key=lambda comm: -by_comm[comm])
    return names[0] + (f", +{len(names) - 1}" if len(names) > 1 else "") if names else ""


def _marked(report: Report, lock: LockWaits, ns: int | None) -> str:
    """A length, marked where the probes may change it by more than a tenth."""
    mark = MARK if ns is not None and ns < trusted_ns(report, lock.kind) else " "
    return duration(ns) + mark


def _locks(report: Report, style: Style, columns: int, most: int) -> tuple[list[str], bool]:
    """The table of locks, and whether a figure in it is marked."""
    if not report.locks:
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
    ranked = sorted(report.locks, key=lambda lock: -lock.figures.wait_ns)
    entries: list[dict[str, str]] = []
    marked = False
    for lock in ranked[:most]:
        p99, longest = lock.figures.percentile(0.99), lock.figures.max_ns
        many = f" x{count(lock.instances)}" if lock.instances > 1 else ""
        cells = [_marked(report, lock, p99), _marked(report, lock, longest)]
        marked = marked or any(cell.endswith(MARK) for cell in cells)
        entries.append(
            {
                "LOCKS": " " + cut(clean(lock.name, style) or "?", name - 1 - len(many)) + many,
                "kind": clean(lock.kind, style),
                "waits": count(lock.figures.waits),
                "waiting": duration(lock.figures.wait_ns),
                "p99 ": cells[0],
                "max ": cells[1],
                "who waits": clean(_waiters(report, lock), style),
            }
        )
    rest = ranked[most:]
    if rest:
        waits = sum(lock.figures.waits for lock in rest)
        waiting = sum(lock.figures.wait_ns for lock in rest)
        entries.append({"LOCKS": f" {len(rest):,} more", "waits": count(waits), "waiting": duration(waiting)})
    rows = [[entry.get(head.title, "") for head in heads] for entry in entries]
    return [line.rstrip() for line in table(heads, rows, "", grow=False)], marked


def _time(report: Report, slices: Sequence[Slice], style: Style, columns: int, kept: bool) -> list[str]:
    if len(slices) < 2 or not any(part.wait_ns for part in slices):
        return []
    step = -(-len(slices) // _MOST_BARS)
    groups = [slices[index : index + step] for index in range(0, len(slices), step)]

    def waiters(group: Sequence[Slice]) -> float:
        length = sum(part.end_ns - part.begin_ns for part in group)
        return sum(part.wait_ns for part in group) / length if length else 0.0

    heights = [waiters(group) for group in groups]
    most = max(heights)
    bars = style.bars
    line = "".join(bars[min(len(bars) - 1, int(height / most * len(bars)))] for height in heights)
    # Damaged intervals may be missing; of a long recording half of them are, or more.
    every = round(report.window.intervals / len(slices))
    if every > 1:
        part = f"1 of {every} intervals"
        return [cut(f"TIME   {line}  {part}" + ("; all: --time" if kept else ""), columns)]
    worst = groups[heights.index(most)]
    begin, end = worst[0].begin_ns / 1e9, worst[-1].end_ns / 1e9
    # The interval itself: a limit on its edge would bring in its neighbours.
    zoom = _command(report, f"--from {begin + 0.001:.3f} --to {end - 0.001:.3f}")
    text = f"{line}  worst: {begin:.1f} to {end:.1f} s, {zoom}"
    if not kept or width(text) + 7 > columns:
        text = f"{line}  worst: {begin:.1f} to {end:.1f} s" + (", see --time" if kept else "")
    return [cut(f"TIME   {text}", columns)]


def trust_words(report: Report, marked: bool) -> str:
    """What bears on this answer: waiters that are not seen, losses, and lengths that the probes change."""
    parts = []
    gone = report.window.removed_until_ns
    if gone is not None:
        since = duration(max(0, gone - report.window.recording_begin_ns))
        parts.append(f"only totals of the first {since} (--keep)")
    unseen = [
        probe.signal for probe in report.probes if probe.signal in _WAITERS and probe.state in ("blind", "unavailable")
    ]
    if unseen:
        parts.append(f"not seen: {unseen[0]}" if len(unseen) == 1 else f"{len(unseen)} kinds of waiters are not seen")
    lost = [loss for loss in report.loss if loss.severity == "loss" and loss.events]
    if lost:
        worst = max(lost, key=lambda loss: loss.events)
        more = f" and {len(lost) - 1} more kinds" if len(lost) > 1 else ""
        parts.append(f"lost: {worst.name.replace('_', ' ')} {count(worst.events)}{more}")
    short = max((trusted_ns(report, lock.kind) for lock in report.locks), default=0)
    if short and (marked or not report.locks):
        parts.append(f"{MARK} waits under {duration(short)} may be more than 10% off")
    unnamed = sum(loss.events for loss in report.loss if loss.name == "unnamed")
    if unnamed:
        waits = "1 wait" if unnamed == 1 else f"{count(unnamed)} waits"
        parts.append(f"{waits} came before the lock had a name for -L")
    if report.window.wait_filter:
        parts.append("other waits were not recorded")
    if not parts:
        return "complete: every lock wait was counted"
    return "; ".join(parts)


def _trust(report: Report, style: Style, columns: int, marked: bool, most: int) -> list[str]:
    return filled("TRUST  ", clean(trust_words(report, marked), style) + "; see --trust", columns, most)


def _more(report: Report, answer: Answer, columns: int, kept: bool) -> list[str]:
    flags = ["--locks", "--stacks", "--cpus", "--tasks", "--time", "--cost"]
    if report.futexes is not None:
        flags.insert(0, "--futex")
    if any(lock.holders for lock in report.locks):
        flags.insert(0, "--holders")
    if report.episodes:
        flags.insert(0, f"--episodes {min(3, len(report.episodes))}")
    lines = filled("MORE   ", " ".join(flags) + " --all", columns, 1) if kept else []
    known = next((lock.name for lock in answer.locks if atlas().find(lock.name)), "")
    if known:
        label = "       " if kept else "MORE   "
        # A command is there to be copied, so it is never cut.
        member = known.rsplit(".", 1)[-1]
        names = [known, member] if atlas().find(member) == atlas().find(known) else [known]
        says = (": what contends it, and what helps", ": what helps", "")
        fitting = [f"{label}lockline explain {name}{what}" for name in names for what in says]
        lines += [line for line in fitting if width(line) <= columns][:1]
    return lines


def render(report: Report, slices: Sequence[Slice], style: Style, columns: int, kept: bool = True) -> str:
    """The first screen; columns: of the terminal.  At 80 columns it has at most 24 lines.

    kept: whether the recording can be asked for more.
    """
    columns = max(NARROWEST, columns)
    answer = make_answer(report)
    # Findings, remedies of each, locks, lines of trust.
    sizes = ((3, 2, 4, 2), (3, 2, 2, 2), (3, 1, 3, 2), (3, 1, 2, 1), (2, 1, 2, 1), (1, 1, 1, 1))

    def make(step: int) -> list[list[str]]:
        findings, steps, locks, trust = sizes[step]
        table_lines, marked = _locks(report, style, columns, locks)
        return [
            [_header(report, style, columns)],
            filled("ANSWER  ", answer_words(report, answer, style), columns, 5),
            _findings(report, answer, style, columns, findings, steps, kept),
            table_lines,
            [
                *_time(report, slices, style, columns, kept),
                *_trust(report, style, columns, marked, trust),
                *_more(report, answer, columns, kept),
            ],
        ]

    return fitted(make, len(sizes))


def render_time(report: Report, slices: Sequence[Slice], style: Style, columns: int) -> str:
    """The series as a table, with the command that zooms into the worst interval."""
    if not slices:
        return "Waiting over time: not available for a selection of CPUs\n"
    heads = [
        Column("from", 9),
        Column("to", 9),
        Column("waits", 7),
        Column("waiting", 8),
        Column("waiters", 8),
        Column("CPUs", 6),
        Column("heaviest lock", max(16, columns - 62), right=False),
        Column("of it", 6),
    ]
    rows = [
        [
            f"{part.begin_ns / 1e9:.3f}",
            f"{part.end_ns / 1e9:.3f}",
            count(part.waits),
            duration(part.wait_ns),
            f"{part.waiters:.2f}",
            f"{part.spinning_ns / (part.end_ns - part.begin_ns):.2f}",
            clean(f"{part.heaviest} {part.heaviest_kind}".strip(), style),
            percent_short(part.heaviest_ns / part.wait_ns) if part.wait_ns else "-",
        ]
        for part in slices
    ]
    worst = max(slices, key=lambda part: part.waiters)
    zoom = _command(report, f"--from {worst.begin_ns / 1e9 + 0.001:.3f} --to {worst.end_ns / 1e9 - 0.001:.3f}")
    lines = ["Waiting over time (waiters: on average; CPUs: spinning)", *table(heads, rows)]
    if worst.wait_ns:
        lines.append(f"  worst: {zoom}")
    return "\n".join(line.rstrip() for line in lines) + "\n"
