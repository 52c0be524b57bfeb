# SPDX-License-Identifier: GPL-2.0-or-later
"""What is on the screen: lines of text of exactly the terminal's size, from a state and a report."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from lockline.analysis.answer import cost_of, trusted_ns
from lockline.analysis.model import LockWaits, Report
from lockline.analysis.user_space.futex_waits import Futexes
from lockline.base import histogram
from lockline.base.numbers import count, counted, duration, percent
from lockline.base.text import Column, Page, Style, clean, cut, on_page, pad, table
from lockline.render.screen_locks import MARK, user_lock_name, user_locks
from lockline.render.screen_parts import few_threads
from lockline.top.state import State, selection, shown_locks

Look: TypeAlias = Literal["", "title", "selected", "faint"]

LEAST_COLUMNS, LEAST_ROWS = 40, 12
_HISTOGRAM = 4

HELP = (
    ("up, down", "choose a lock; page up and down move by ten"),
    ("Enter", "who waits for it, from where, and who holds it"),
    ("s", "sort by the next column"),
    ("r", "reverse the order"),
    ("K", "the next kind of locks alone"),
    ("/", "locks whose name holds a text; Escape shows all again"),
    ("w", "watch the lock's cache line for some seconds: who takes it from whom"),
    ("f", "locks of programs (top --futex)"),
    ("p", "pause, and go on"),
    ("k", "keep the recording when top ends"),
    ("left, right", "of a recording: the interval before, and the next one"),
    ("Home, End", "of a recording: its first and its last interval"),
    ("a", "of a recording: all of it"),
    ("q", "quit; Escape goes back"),
)


@dataclass(frozen=True, slots=True)
class Line:
    """A line and how it looks."""

    text: str
    look: Look = ""


@dataclass(frozen=True, slots=True)
class Shown:
    """What there is to show: the report of an interval, or of all.

    holders: the locks of the whole recording, with who held them.  steps: of a recording, its intervals; 0: live.
    cost: what lockline takes, as a part of one CPU; None: not known.  note: what the viewer should know.
    line: what is known of the watched line.
    """

    report: Report
    holders: Sequence[LockWaits] = ()
    steps: int = 0
    cost: float | None = None
    note: str = ""
    line: Sequence[str] = ()


def _heading(shown: Shown, state: State, style: Style, columns: int) -> list[Line]:
    report = shown.report
    window = report.window
    begin = (window.begin_ns - window.recording_begin_ns) / 1e9
    when = f"{begin:.1f} to {begin + window.duration_ns / 1e9:.1f} s"
    if shown.steps:
        part = "all" if state.step is None else f"{state.step + 1} of {shown.steps}"
        when += f" ({part})"
    host = clean(report.host.name or "a host", style)
    cpus = counted(window.cpus, "CPU") if window.cpus else "? CPUs"
    left = f"lockline top  {host}, {cpus}, {when}" + (", paused" if state.paused else "")
    if window.wait_filter:
        left += clean(f", only {window.wait_filter}", style)
    right = f"own cost {percent(shown.cost)} of a CPU" if shown.cost is not None else ""
    room = columns - len(right) - 1
    first = pad(left, room) + " " + right if room > 30 else pad(left, columns)
    seconds = window.duration_ns / 1e9 or 1.0
    cost = cost_of(report, [(kind.kind, kind.figures) for kind in report.kinds])
    of_kernel = "kernel: " if report.futexes is not None else ""
    second = (
        f"{of_kernel}{count(round(report.totals.waits / seconds))} waits/s, spinning takes"
        f" {percent(cost.spinning_cpus)} of a CPU, {cost.sleeping_threads:.2f} threads sleep"
    )
    if shown.note:
        second = shown.note
    lines = [Line(cut(first, columns), "title"), Line(cut(clean(second, style), columns))]
    if report.futexes is not None:
        lines.append(Line(cut(clean(_programs(report, report.futexes), style), columns)))
    return [*lines, Line("")]


def _programs(report: Report, futexes: Futexes) -> str:
    """What is waited for most in programs, since the begin: their locks are not counted by interval."""
    locks = user_locks(report)
    threads = sum(lock.waited_ns for lock in locks) / (futexes.span_ns or 1)
    words = f"programs: {few_threads(threads)} wait"
    if not locks:
        return words
    return f"{words}, most for {user_lock_name(locks[0])} of {locks[0].futex.comm or '?'} ({locks[0].futex.tgid})"


def _rate(ns: int, seconds: float) -> str:
    return f"{duration(ns / seconds)}/s"


def _bar(part: float, size: int, style: Style) -> str:
    full = round(part * size)
    return (("█" if style.unicode else "#") * full).ljust(size)


def _marked(report: Report, lock: LockWaits, ns: int | None) -> str:
    return duration(ns) + (MARK if ns is not None and ns < trusted_ns(report, lock.kind) else " ")


def _lock_table(shown: Shown, state: State, style: Style, columns: int, rows: int) -> list[Line]:
    report, locks = shown.report, shown_locks(shown.report.locks, state)
    seconds = report.window.duration_ns / 1e9 or 1.0
    most = max((lock.figures.wait_ns for lock in locks), default=0) or 1
    heads = [
        Column("kind", 10, right=False),
        Column("waits/s", 8),
        Column("waiting", 10),
        Column("", 10, right=False),
        Column("p99 ", 8),
        Column("longest ", 8),
    ]
    # The bar, then the last ones, are left out where there is no room.
    while heads and sum(head.width + 1 for head in heads) + 16 > columns:
        heads.pop(3 if len(heads) > 3 else -1)
    name = columns - sum(head.width + 1 for head in heads)
    heads.insert(0, Column("LOCK", name, right=False))
    at = selection(locks, state)
    first = max(0, min(at - rows // 2, len(locks) - rows))
    cells = []
    for lock in locks[first : first + rows]:
        figures = lock.figures
        every = {
            "LOCK": clean(lock.name, style) or "?",
            "kind": clean(lock.kind, style),
            "waits/s": count(round(figures.waits / seconds)),
            "waiting": _rate(figures.wait_ns, seconds),
            "": _bar(figures.wait_ns / most, 10, style),
            "p99 ": _marked(report, lock, figures.percentile(0.99)),
            "longest ": _marked(report, lock, figures.max_ns),
        }
        cells.append([every[head.title] for head in heads])
    # The terminal may have another size than when lockline was started.
    with on_page(Page(columns)):
        lines = table(heads, cells, "", grow=False)
    filters = [f"sorted by {state.sort}{', reversed' if state.reverse else ''}"]
    filters += [f"kind {clean(state.kind, style)}"] if state.kind else []
    filters += [f"names with '{clean(state.pattern, style)}'"] if state.pattern or state.typing else []
    found = [
        Line(cut(f"{counted(len(locks), 'lock')}, {', '.join(filters)}", columns), "faint"),
        Line(lines[0], "title"),
    ]
    found += [
        Line(text.ljust(columns) if first + index == at else text, "selected" if first + index == at else "")
        for index, text in enumerate(lines[1:])
    ]
    return found


def _histogram(shown: Shown, state: State, style: Style, columns: int) -> list[Line]:
    """The waits of the selected lock by length: one column for each step of it."""
    locks = shown_locks(shown.report.locks, state)
    if not locks:
        return []
    lock = locks[selection(locks, state)]
    counts = lock.figures.histogram[: histogram.OVERFLOW + 1]
    used = [index for index, number in enumerate(counts) if number]
    if not used:
        return []
    low, high = used[0], used[-1] + 1
    step = -(-(high - low) // max(1, columns - 2))
    groups = [sum(counts[index : index + step]) for index in range(low, high, step)]
    bars, most = style.bars, max(groups)
    drawn = "".join(bars[min(7, int(number / most * 8))] if number else " " for number in groups)
    name = f"{clean(lock.name, style)} ({clean(lock.kind, style)}), waits by length:"
    ends = f"{duration(histogram.LOWER[low])} to {duration(lock.figures.max_ns)}, at most {count(most)} in one step"
    return [Line(cut(name, columns), "title"), Line(f" {drawn}"), Line(cut(f" {ends}", columns), "faint")]


def _scrolling(lines: list[Line], state: State, rows: int) -> list[Line]:
    first = min(state.scroll, max(0, len(lines) - rows))
    return lines[first : first + rows]


def _lock(shown: Shown, state: State, style: Style, columns: int) -> list[Line]:
    """Everything about the selected lock."""
    report = shown.report
    key = state.selected
    lock = next((one for one in report.locks if (one.name, one.kind) == key), None)
    held = next((one for one in shown.holders if (one.name, one.kind) == key), lock)
    name = clean(f"{key[0]} ({key[1]})" if key else "?", style)
    if lock is None:
        return [Line(cut(name, columns), "title"), Line(cut("no wait for it in this time", columns))]
    seconds, figures = report.window.duration_ns / 1e9 or 1.0, lock.figures
    lines = [
        Line(cut(name, columns), "title"),
        Line(
            f"{count(round(figures.waits / seconds))} waits/s, {_rate(figures.wait_ns, seconds)} of waiting,"
            f" longest {duration(figures.max_ns)}"
        ),
        Line(""),
        Line("WHO WAITS (most for this lock)", "title"),
    ]
    # The report's order is by all that each of them waited for.
    tasks = sorted((task for task in report.tasks if (task.lock, task.kind) == key), key=lambda task: -task.lock_ns)
    lines += [
        Line(f" {duration(task.lock_ns):>8}  {clean(task.comm, style)} ({task.tid}) {clean(task.cgroup, style)}")
        for task in tasks[:8]
    ] or [Line(" no sample")]
    lines += [Line(""), Line("STACKS (leaf first)", "title")]
    for stack in lock.stacks:
        lines.append(Line(f" {duration(stack.wait_ns)} in {count(stack.waits)} waits"))
        lines += [Line(f"     {clean(frame.symbol, style) or '[unknown]'}") for frame in stack.frames[:8]]
    if not lock.stacks:
        lines.append(Line(" no sample"))
    lines += [Line(""), Line("WHO HELD IT (whole recording)", "title")]
    for holder in held.holders[:6] if held else ():
        who = f"{clean(holder.comm, style)} ({holder.tid})" if holder.kind == "task" else holder.kind
        frames = [clean(frame.symbol, style) for frame in holder.stacks[0].frames[:3]] if holder.stacks else []
        where = f" in {' < '.join(frames)}" if frames else ""
        lines.append(Line(f" {duration(holder.caused_ns):>8}  {who}{where}"))
    if held is None or not held.holders:
        lines.append(Line(" not recorded; lockline top --holders records it"))
    return [Line(cut(line.text, columns), line.look) for line in lines]


def _futexes(shown: Shown, style: Style, columns: int) -> list[Line]:
    futexes = shown.report.futexes
    if futexes is None:
        return [Line(cut("Locks of programs were not recorded; lockline top --futex records them.", columns))]
    from lockline.render.signals import futexes as words

    # They are counted over the whole recording.
    return [Line(cut(text, columns)) for text in words(futexes, style, 50)]


def _keys(state: State, style: Style, columns: int, live: bool, programs: bool) -> Line:
    if state.typing:
        return Line(pad(f"/{clean(state.pattern, style)}", columns), "selected")
    middle = ["f programs"] if programs else ["r reverse"] if live else []
    middle += ["K kind", "/ find"] if live or not programs else []
    last = f"k {'kept' if state.keep else 'keep'}" if live else "left right a time"
    keys = "  ".join((*middle, "p pause", last))
    return Line(pad(f"q quit  h help  Enter lock  s sort  {keys}", columns), "faint")


def frame(shown: Shown, state: State, style: Style, columns: int, rows: int) -> list[Line]:
    """At most `rows` lines of at most `columns` columns."""
    if columns < LEAST_COLUMNS or rows < LEAST_ROWS:
        return [Line(cut(f"lockline top needs {LEAST_COLUMNS}x{LEAST_ROWS}", columns))][:rows]
    top = _heading(shown, state, style, columns)
    room = rows - len(top) - 1
    if state.view == "help":
        body = _scrolling([Line(cut(f"{key:>12}  {what}", columns)) for key, what in HELP], state, room)
    elif state.view == "lock":
        body = _scrolling(_lock(shown, state, style, columns), state, room)
    elif state.view == "line":
        body = _scrolling([Line(cut(clean(text, style), columns)) for text in shown.line], state, room)
    elif state.view == "futexes":
        body = _scrolling(_futexes(shown, style, columns), state, room)
    else:
        below = _histogram(shown, state, style, columns)
        body = _lock_table(shown, state, style, columns, room - _HISTOGRAM - 2)
        body += [Line("")] * (room - len(body) - len(below)) + below
    body += [Line("")] * (room - len(body))
    programs = shown.report.futexes is not None
    return [*top, *body[:room], _keys(state, style, columns, not shown.steps, programs)]
