# SPDX-License-Identifier: GPL-2.0-or-later
"""The first screen of a report: the answer, and where to look further, in at most 24 lines of 80 columns."""

from collections.abc import Sequence
from datetime import datetime, timezone

from lockline.analysis.answer import (
    NEGLIGIBLE_SHARE,
    Answer,
    make_answer,
)
from lockline.analysis.model import TOTALS_DISAGREE, Report, Window
from lockline.analysis.series import Slice
from lockline.atlas import atlas
from lockline.base.numbers import count, counted, duration, percent
from lockline.base.text import Column, Style, clean, cut, table, width
from lockline.recording import rows
from lockline.render.screen_answer import answer_lines
from lockline.render.screen_findings import EVIDENCE, finding_lines
from lockline.render.screen_fit import NARROWEST, filled, fitted
from lockline.render.screen_locks import MARK, locks
from lockline.render.screen_parts import command, percent_short, unseen_waiters

# Of the begins of waits: fewer losses change nothing on this screen.
_LOST = 0.001
# What is lost, in words; {}: how often.  --trust says it at length.
_LOSSES = {
    "events_overwritten": "{} samples of waits",
    "events_torn": "{} samples of waits",
    "futex_not_looked": "perhaps waits that began before, of {} threads not looked at",
    "holders_without_place": "{} holders, for want of memory",
    "locks_without_place": "{} times a lock's row, for want of memory",
    "no_slot": "{} waits, for want of memory",
    "orphaned": "{} waits, whose end was not seen",
    "report: impossible figures": "{} rows with impossible figures",
    "recursion_misses": "{} events that came while a probe ran on the same CPU",
    "samples_not_written": "{} samples of waits",
    "stack_error": "{} stacks",
    "table_full": "the lock of {} waits, for want of memory",
    "too_deep": "{} waits inside other waits",
    "turns_overwritten": "{} turns of locks",
    "turns_torn": "{} turns of locks",
    "wrong_stack": "{} stacks that were written as another one",
}
_MOST_BARS = 32
# The worst interval is no news if it has hardly more than the average.
_EVEN = 1.1


def when_words(window: Window) -> str:
    """For how long, and from when on, if that is known."""
    when = duration(window.duration_ns)
    if window.begin_unix_ns is None or window.begin_unix_ns >= 1 << 62:
        return when
    since = window.begin_unix_ns + window.begin_ns - window.recording_begin_ns
    return when + datetime.fromtimestamp(since // 1_000_000_000, timezone.utc).strftime(" from %Y-%m-%d %H:%M:%S UTC")


def _header(report: Report, style: Style, columns: int) -> str:
    window, host = report.window, report.host
    parts = [host.name, f"Linux {host.kernel_release}" if host.kernel_release else None]
    parts.append(counted(window.cpus, "CPU") if window.cpus else None)
    parts.append(when_words(window))
    if window.state == "recording":
        parts.append("cut off or still being recorded")
    return cut(clean(", ".join(part for part in parts if part), style), columns)


# Answers that are about other locks than the kernel's.
_OF_PROGRAMS = ("user space", "other locks", "standstill")


def _is_told_over_time(answer: Answer) -> bool:
    """Only waits for the kernel's locks are known by interval: no news where they are negligible."""
    if answer.kind not in ("negligible", *_OF_PROGRAMS):
        return True
    return answer.cost.spinning_cpus + answer.cost.sleeping_threads >= NEGLIGIBLE_SHARE


def _time(report: Report, answer: Answer, slices: Sequence[Slice], style: Style, columns: int, kept: bool) -> list[str]:
    if len(slices) < 2 or not any(part.wait_ns for part in slices) or not _is_told_over_time(answer):
        return []
    of = "the kernel's locks, " if answer.kind in _OF_PROGRAMS else ""
    step = -(-len(slices) // _MOST_BARS)
    groups = [slices[index : index + step] for index in range(0, len(slices), step)]

    def waiters(group: Sequence[Slice]) -> float:
        length = sum(part.end_ns - part.begin_ns for part in group)
        return sum(part.wait_ns for part in group) / length if length else 0.0

    heights = [waiters(group) for group in groups]
    # What is left at the end may be of an instant, in which one wait is very much.
    lengths = [group[-1].end_ns - group[0].begin_ns for group in groups]
    usual = sorted(lengths)[len(lengths) // 2]
    whole = [2 * length >= usual for length in lengths]
    most = max(height for height, full in zip(heights, whole, strict=True) if full) or max(heights)
    bars = style.bars
    line = "".join(bars[min(len(bars) - 1, int(height / most * len(bars)))] for height in heights)
    # Damaged intervals may be missing; of a long recording half of them are, or more.
    every = round(report.window.intervals / len(slices))
    if every > 1:
        part = f"1 of {every} intervals"
        return [cut(f"TIME   {line}  {of}{part}" + ("; all: --time" if kept else ""), columns)]
    if most * len(heights) <= _EVEN * sum(heights):
        return [cut(f"TIME   {line}  {of}even", columns)]
    worst = next(group for group, height in zip(groups, heights, strict=True) if height == most)
    begin, end = worst[0].begin_ns / 1e9, worst[-1].end_ns / 1e9
    # The interval itself: a limit on its edge would bring in its neighbours.
    zoom = command(report, f"--from {begin + 0.001:.3f} --to {end - 0.001:.3f}")
    text = f"{line}  {of}worst: {begin:.1f} to {end:.1f} s, {zoom}"
    if not kept or width(text) + 7 > columns:
        text = f"{line}  {of}worst: {begin:.1f} to {end:.1f} s" + (", see --time" if kept else "")
    return [cut(f"TIME   {text}", columns)]


def given_up_words(reads: int) -> str:
    """What is missing where so many reads of processes' memory or files did not end."""
    many = "1 read of a process's memory or files" if reads == 1 else f"{count(reads)} reads of processes"
    return f"{many} did not end: names of functions and locks may be missing there"


def _loss_words(loss: rows.Loss) -> str:
    """What was lost; where there are no words for it, those of the recording."""
    what = loss.meaning.partition(":")[0] or f"of {loss.name.replace('_', ' ')}"
    return _LOSSES.get(loss.name, "{} " + what.replace("{", "{{").replace("}", "}}")).format(count(loss.events))


def trust_words(report: Report, marked: bool) -> str:
    """What bears on this answer: waiters that are not seen, losses, and lengths that the probes change."""
    parts = []
    gone = report.window.removed_until_ns
    if gone is not None:
        since = duration(max(0, gone - report.window.recording_begin_ns))
        parts.append(f"only totals of the first {since} (--keep)")
    if report.cost.stalled_ns:
        parts.append(f"the file system did not answer for {duration(report.cost.stalled_ns)}")
    if given_up := report.cost.value("reads_given_up"):
        parts.append(given_up_words(given_up))
    unseen = unseen_waiters(report.probes)
    if unseen:
        parts.append(f"not seen: {unseen[0]}" if len(unseen) == 1 else f"{len(unseen)} kinds of waiters are not seen")
    if differ := sum(loss.events for loss in report.loss if loss.name == TOTALS_DISAGREE):
        parts.append(f"this file's totals of locks and of CPUs differ by {duration(differ)}: one of them is wrong")
    lost = [
        loss
        for loss in report.loss
        if loss.severity == "loss" and loss.events and loss.name not in ("cpus_added", TOTALS_DISAGREE)
    ]
    # How many waits that were is not known.
    if added := sum(loss.events for loss in report.loss if loss.name == "cpus_added"):
        parts.append(f"no waits on {'1 CPU' if added == 1 else f'{count(added)} CPUs'} that came later")
    begins = sum(kind.begins or 0 for kind in report.kinds)
    worst = max(lost, key=lambda loss: loss.events, default=None)
    if worst is not None and worst.events >= _LOST * begins:
        kinds = "1 more kind" if len(lost) == 2 else f"{len(lost) - 1} more kinds"
        more = f", and {kinds} of loss" if len(lost) > 1 else ""
        parts.append(f"lost: {_loss_words(worst)}{more}")
    if marked:
        # From which length on times are sure, --trust says: a line holds all of this.
        parts.append(f"{MARK} times may be over 10% off")
    unnamed = sum(loss.events for loss in report.loss if loss.name == "unnamed")
    if unnamed:
        waits = "1 wait" if unnamed == 1 else f"{count(unnamed)} waits"
        parts.append(f"{waits} came before the lock had a name for -L")
    if report.window.wait_filter:
        parts.append("other waits were not recorded")
    if not parts and lost:
        return f"nearly complete: fewer than {percent(_LOST)} of the waits were lost"
    if not parts:
        return "complete: every lock wait was counted"
    return "; ".join(parts)


def _trust(report: Report, style: Style, columns: int, marked: bool, most: int) -> list[str]:
    return filled("TRUST  ", clean(trust_words(report, marked), style) + "; see --trust", columns, most)


def _more(report: Report, answer: Answer, columns: int, kept: bool, explained: bool) -> list[str]:
    flags = ["--locks", "--stacks", "--cpus", "--tasks", "--time", "--cost"]
    if report.futexes is not None:
        flags.insert(0, "--futex")
    if any(lock.holders for lock in report.locks):
        flags.insert(0, "--holders")
    if report.episodes:
        flags.insert(0, f"--episodes {min(3, len(report.episodes))}")
    lines = filled("MORE   ", " ".join(flags) + " --all", columns, 1) if kept else []
    known = next((lock.name for lock in answer.locks if atlas().find(lock.name)), "")
    if known and explained and answer.kind in ("one lock", "several"):
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
    # Findings, evidence of each, lines of a remedy, locks, lines of trust: what is done without first, first.
    # With one line of trust the atlas is not pointed to either.
    sizes = (
        *((3, EVIDENCE, 3, 4, 2), (3, EVIDENCE, 3, 2, 2), (3, 2, 3, 3, 2), (3, 1, 3, 4, 2), (3, 1, 3, 2, 2)),
        *((3, 0, 3, 3, 2), (3, 0, 3, 2, 2), (3, 0, 2, 3, 1), (3, 0, 2, 2, 1), (3, 0, 2, 1, 1), (3, 0, 1, 2, 1)),
        *((2, 0, 2, 2, 1), (2, 0, 2, 1, 1), (1, 0, 2, 1, 1)),
    )

    def make(step: int) -> list[list[str]]:
        findings, about, steps, most, trust = sizes[step]
        table_lines, marked = locks(report, style, columns, most)
        return [
            [_header(report, style, columns)],
            answer_lines(report, answer, style, columns),
            finding_lines(report, answer, style, columns, findings, about, steps, kept),
            table_lines,
            [
                *_time(report, answer, slices, style, columns, kept),
                *_trust(report, style, columns, marked, trust),
                *_more(report, answer, columns, kept, trust > 1),
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
    zoom = command(report, f"--from {worst.begin_ns / 1e9 + 0.001:.3f} --to {worst.end_ns / 1e9 - 0.001:.3f}")
    lines = ["Waiting over time (waiters: on average; CPUs: spinning)", *table(heads, rows)]
    if worst.wait_ns:
        lines.append(f"  worst: {zoom}")
    return "\n".join(line.rstrip() for line in lines) + "\n"
