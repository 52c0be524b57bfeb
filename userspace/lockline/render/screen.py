# SPDX-License-Identifier: GPL-2.0-or-later
"""The first screen of a report: the answer, and where to look further, in at most 24 lines of 80 columns."""

import re
import shlex
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timezone

from lockline.analysis.answer import (
    LONG_HOLD,
    LONG_WAITS,
    NEGLIGIBLE_SHARE,
    NEGLIGIBLE_USER_SHARE,
    NEGLIGIBLE_WAIT_NS,
    ONE_LOCK,
    OTHER_LOCKS,
    OVERUSED,
    STANDSTILLS,
    STARVED,
    Answer,
    Cost,
    cost_of,
    family,
    is_explained,
    is_spinning,
    make_answer,
    trusted_ns,
    user_waiting,
    waiting_for,
    whole_locks,
)
from lockline.analysis.findings import Finding, Function, Lock
from lockline.analysis.futex_waits import BARRIER, FutexWaits
from lockline.analysis.hidden_waits import SCHEDULERS, HiddenWaits
from lockline.analysis.model import LockWaits, Report
from lockline.analysis.series import Slice
from lockline.atlas import KnownLock, atlas
from lockline.base.numbers import count, duration, percent
from lockline.base.text import Column, Style, clean, cut, table, width
from lockline.render.findings import functions_of, worded
from lockline.render.screen_locks import MARK, locks, user_lock_name, user_locks
from lockline.render.screen_parts import NARROWEST, SMALL_EFFECT, few_threads, filled, fitted
from lockline.render.screen_sleepers import cpu_words, futex_words, looked_words, other_locks_words

FINDINGS = 3
# Sentences of it where there is but one finding.
EVIDENCE = 3
# Of the evidence: the heading of a finding has the share already.
REPEATED = re.compile(r"; [0-9.]+% of all lock waiting$")
DEFAULT_RECORDING = "lockline.data"
# Threads that wait on average from which on they are spoken of, though nobody knows what for.
UNCLEAR_THREADS = 1.0
# A tenth of one CPU or thread: rules find no fault with less.
SMALL = 0.1
# Of the time: somebody waits for a lock seldom.
SELDOM = 0.5
# Of the begins of waits: fewer losses change nothing on this screen.
_LOST = 0.001

# What is lost, in words; {}: how often.  --trust says it at length.
_LOSSES = {
    "events_overwritten": "{} samples of waits",
    "events_torn": "{} samples of waits",
    "holders_without_place": "{} holders, for want of memory",
    "locks_without_place": "{} times a lock's row, for want of memory",
    "no_slot": "{} waits, for want of memory",
    "orphaned": "{} waits, whose end was not seen",
    "recursion_misses": "{} events that came while a probe ran on the same CPU",
    "samples_not_written": "{} samples of waits",
    "stack_error": "{} stacks",
    "table_full": "the lock of {} waits, for want of memory",
    "too_deep": "{} waits inside other waits",
    "turns_overwritten": "{} turns of locks",
    "turns_torn": "{} turns of locks",
}
_MOST_BARS = 32
# Before what to do about a finding.
_DO = "   do      "
# The worst interval is no news if it has hardly more than the average.
_EVEN = 1.1
_ANSWER_LINES = 5
# Where nothing else is to be shown.
_LONE_ANSWER_LINES = 8

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


def _is_one(lock: LockWaits) -> bool:
    """Whether it is one lock, or one of several of a name has all but a hundredth of their waiting."""
    return lock.instances == 1 or 100 * lock.worst_instance_ns >= 99 * lock.figures.wait_ns > 0


def lock_words(ways: Sequence[LockWaits], style: Style) -> str:
    """A lock by name and kind; ways: in which it is waited for, heaviest first."""
    lock = ways[0]
    # Where a lock lies in the kernel says nothing more, if it has a name.
    place = lock.worst_instance if not (lock.worst_instance.startswith("_text+") and atlas().find(lock.name)) else ""
    where = f" [{place}]" if _is_one(lock) and place else ""
    # A way that hardly anybody waits in is not worth the words.
    known = [way for way in ways if way.figures.wait_ns * 10 >= waiting_for(ways)]
    kind = lock.kind if len(known) == 1 else family(lock.kind)
    return clean(f"{lock.name or '?'}{where} ({kind})", style)


def _cpus(cpus: float) -> str:
    return percent(cpus) + " of one CPU" if cpus < 1 else f"{cpus:.1f} CPUs"


def _threads(threads: float, who: str = "threads") -> str:
    return f"{threads:.1f} {who}" if threads >= 1 else f"{max(threads, 0.01):.2f} {who}"


def cost_words(cost: Cost, machine: int | None) -> str:
    """What waiting costs: spinning burns CPUs, sleeping holds threads up; machine: all CPUs, None: not known."""
    parts = []
    if cost.spinning_cpus:
        part = f" ({percent(cost.machine)} of {machine} CPUs)" if cost.machine is not None else ""
        parts.append(f"spinning burns {_cpus(cost.spinning_cpus)}{part}")
    if cost.sleeping_threads:
        parts.append(f"on average {_threads(cost.sleeping_threads)} wait asleep")
    return ", and ".join(parts)


def _longest(report: Report, answer: Answer, style: Style) -> str:
    longest = answer.longest
    if longest is not None and longest.wait_ns >= report.totals.max_ns:
        task = clean(f"{longest.task.comm} ({longest.task.tid})", style)
        about = "" if answer.locks and answer.locks[0].name == longest.lock else f" for {clean(longest.lock, style)}"
        return f"Longest wait: {duration(longest.wait_ns)}, {task}{about}."
    return f"Longest wait: {duration(report.totals.max_ns)}." if report.totals.waits else ""


def answer_words(report: Report, answer: Answer, style: Style) -> str:
    """The answer in two or three sentences; of a filtered recording, what it knows of first."""
    return "".join(_answer_parts(report, answer, style))


def _answer_parts(report: Report, answer: Answer, style: Style, guards: str = "") -> list[str]:
    """The answer, and what may be left out of it, the last first.  guards: a sentence on what the lock protects."""
    chosen = report.window.wait_filter
    words = _answer_words(report, answer, style, guards) + _unclear_words(answer) + _barrier_words(report, answer)
    parts = [f"Only of the waits that {clean(chosen, style)} chose: {words}" if chosen else words]
    if answer.kind != "other locks":
        for number, part in enumerate(other_locks_words(report, style)):
            parts.append(f" {part}" if number else f" Besides, {part[:1].lower()}{part[1:]}")
    return [*parts, _unseen_words(report, style)]


def _answer(report: Report, answer: Answer, style: Style, columns: int) -> list[str]:
    """The answer's lines; whole sentences are left out where there is no room."""
    guards = _guards(answer)
    parts = _answer_parts(report, answer, style, guards)
    alone = answer.kind in ("negligible", "other locks") or (report.window.share(_all_waiting(report)) or 0.0) < SMALL
    most = _LONE_ANSWER_LINES if alone else _ANSWER_LINES
    if guards:
        lines = filled("ANSWER  ", "".join(parts), columns)
        if len(lines) <= most:
            return lines
        parts = _answer_parts(report, answer, style)
    for kept in range(len(parts), 0, -1):
        lines = filled("ANSWER  ", "".join(parts[:kept]), columns)
        if len(lines) <= most:
            return lines
    return filled("ANSWER  ", parts[0], columns, most)


def _guards(answer: Answer) -> str:
    """What the lock is there for, in plain words, if it is one lock that the atlas knows."""
    known = atlas().find(answer.locks[0].name) if answer.kind == "one lock" and answer.locks else None
    return f"It guards {known.title}." if known is not None else ""


def _unclear_words(answer: Answer) -> str:
    """What waits besides, if one thread does all the time: the answer may be there."""
    if answer.unclear_waiting < max(UNCLEAR_THREADS, answer.user_waiting or 0.0):
        return ""
    return (
        f" Besides, {_threads(answer.unclear_waiting)} of programs wait on average; whether for a lock or for work "
        "is not known. See --futex."
    )


def _barrier_words(report: Report, answer: Answer) -> str:
    """Of barriers where no single thread is late: more than the answer has, and one thread waits all the time."""
    futexes = report.futexes.futexes if report.futexes is not None else ()
    waiting = report.window.share(sum(one.waited_ns for one in futexes if one.nature == BARRIER)) or 0.0
    if answer.at_barriers or waiting < max(UNCLEAR_THREADS, answer.user_waiting or 0.0):
        return ""
    return f" Besides, {_threads(waiting)} wait at barriers on average, and no one thread comes last."


def _unseen_words(report: Report, style: Style) -> str:
    """Of waits that need other probes, or other tools."""
    unseen = report.futexes.unseen if report.futexes is not None else ()
    if not unseen:
        return _hidden_words(report, style)
    command = f"`lockline record --futex --go -p {unseen[0].tgid}`"
    comm = clean(unseen[0].comm, style)
    if unseen[0].wakes:
        return f" Goroutines of {comm} wait for mutexes too, which {command} shows."
    return f" What goroutines of {comm} wait for is not recorded here: {command} shows it."


_HIDDEN = {
    "virtual threads": "What virtual threads of {program} wait for is not seen here: `{command}` shows it.",
    "Haskell threads": (
        "What Haskell threads of {program} wait for (MVar, STM) is not seen here: its event log (`{command}`) shows it."
    ),
    "Erlang processes": (
        "What processes of Erlang in {program} wait for is not seen here: `{command}` shows whose messages queue up."
    ),
    "tokio tasks": "What tasks of tokio in {program} wait for is not seen here: `{command}` shows it.",
    "virtual monitors": (
        "Virtual threads of {program} wait for Java monitors, which is not seen here: JFR's jdk.JavaMonitorEnter shows"
        " it (`{command}`)."
    ),
    "python condition": (
        "{threads} of {program} wait for others in threading: for a Semaphore or a full Queue, or for work."
        " `{command}` shows it."
    ),
    "spin": (
        "{threads} of {program} spin on average{place}: they give their CPU away (sched_yield) and look again."
        " `{command}` samples what for."
    ),
}


def _hidden_words(report: Report, style: Style) -> str:
    """Of waits that the program's own tools explain."""
    hidden = report.futexes.hidden if report.futexes is not None else ()
    if not hidden:
        return ""
    # Threads that spin in a scheduler do not tell what its tasks wait for.
    other = next((one for one in hidden if one.kind in SCHEDULERS and one.tgid == hidden[0].tgid), None)
    shown = (hidden[0],) if other in (None, hidden[0]) else (hidden[0], other)
    return "".join(_hidden_sentence(one, style) for one in shown)


def _hidden_sentence(first: HiddenWaits, style: Style) -> str:
    program = f"{clean(first.comm, style)} ({first.tgid})"
    place = f" in {clean(first.function, style)}()" if first.function else ""
    return " " + _HIDDEN[first.kind].format(
        program=program, command=first.command, threads=_threads(first.threads), place=place
    )


def _few_user(report: Report, answer: Answer) -> str:
    if answer.user_waiting is None or answer.user_waiting < NEGLIGIBLE_SHARE:
        return ""
    # What is hidden matters more, and there is room for one of the two.
    if report.futexes is not None and report.futexes.hidden:
        return ""
    return (
        f" So are programs' own locks: {answer.user_waiting:.2f} threads wait on average (negligible: under"
        f" {NEGLIGIBLE_USER_SHARE:g})."
    )


def _answer_words(report: Report, answer: Answer, style: Style, guards: str = "") -> str:
    totals, cpus = report.totals, report.window.cpus
    cost = cost_words(answer.cost, cpus)
    if answer.kind == "standstill":
        stuck = next(found for found in report.findings if found.rule in STANDSTILLS)
        others = f" Other lock waiting: {cost}." if cost else ""
        idle = ", or wait for work" if any(one.what == "may-be-idle" for one in stuck.evidence) else ""
        return f"Threads stand still{idle}: {clean(worded(stuck).title, style)}.{others}"
    if answer.kind == "not enough recorded":
        return f"Not enough recorded for an answer: {answer.why}. Record for longer: `lockline record -a -d 10`."
    if answer.kind == "user space":
        what = "at barriers" if 2 * answer.at_barriers > (answer.user_waiting or 0.0) else "for locks"
        return (
            f"Programs wait mostly {what} of their own: on average"
            f" {_threads(answer.user_waiting or 0.0, _who(report, answer))}"
            f"{_worst_user(report, answer, style)}. The kernel's locks: {cost or 'no waiting'}."
        )
    if answer.kind == "negligible":
        rest = _few_user(report, answer) + looked_words(report, style)
        if not totals.waits:
            none = f"no wait in {duration(report.window.duration_ns)}."
            return f"Waiting for the kernel's locks is negligible: {none}{rest}"
        return (
            f"Waiting for the kernel's locks is negligible: {totals.waits:,} waits, {duration(totals.wait_ns)} in"
            f" {duration(report.window.duration_ns)}, none over {duration(totals.max_ns)} (negligible: under"
            f" {NEGLIGIBLE_SHARE:.0%} of one thread's time, no wait of {duration(NEGLIGIBLE_WAIT_NS)}).{rest}"
        )
    if answer.kind == "other locks":
        told = " ".join(other_locks_words(report, style))
        return f"{told} The kernel's own locks: {cost or 'no waiting'}{_mostly_for(report, style)}."
    names = [lock_words(ways, style) for ways in answer.whole]
    waiting = report.window.share(totals.wait_ns) or 0.0
    # Beside locks of programs that matter, these are of the kernel's alone.
    user = answer.user_waiting or 0.0
    waits_of = "the waiting for the kernel's locks" if user >= NEGLIGIBLE_USER_SHARE else "all lock waiting"
    if answer.kind == "one lock":
        ways = answer.whole[0]
        number, waits = (
            max(1 if _is_one(way) else way.instances for way in ways),
            sum(way.figures.waits for way in ways),
        )
        one = "One lock makes" if number == 1 else f"{number:,} locks of one name make"
        if waits == 1:
            one = "One single wait makes"
        little = f"Lock waiting is little ({few_threads(waiting)} on average). " if waiting < SMALL else ""
        what = f"{little}{one} {percent_short(answer.part)} of {waits_of}: {'for ' if waits == 1 else ''}{names[0]}."
        cost = cost_words(cost_of(report, [(way.kind, way.figures) for way in ways]), cpus)
        if little and not is_spinning(ways[0].kind):
            cost = ""
    else:
        what = (
            f"Several locks: {', '.join(names)} make {percent_short(answer.part)} of {waits_of}."
            if names
            else f"Many locks share the waiting: none of {len(report.locks):,} has a tenth of it."
        )
    what += f" {guards}" if guards else ""
    worth = "" if waiting >= NEGLIGIBLE_SHARE else "Single waits are long, though."
    hint = (futex_words(report, style) + cpu_words(report)).strip() if waiting < SMALL_EFFECT else ""
    besides = ""
    if user >= NEGLIGIBLE_USER_SHARE:
        kept = f"{_threads(user, _who(report, answer))} waiting on average{_worst_user(report, answer, style)}"
        besides = f"Programs' own locks keep {kept}."
    parts = (what, sentence(cost), worth, _longest(report, answer, style), besides, hint)
    return " ".join(part for part in parts if part)


def _mostly_for(report: Report, style: Style) -> str:
    """Which of the kernel's locks has most of their waiting, if that matters and one has half."""
    waiting = report.window.share(report.totals.wait_ns) or 0.0
    heaviest = next(iter(whole_locks(report)), ())
    part = waiting_for(heaviest) / report.totals.wait_ns if report.totals.wait_ns else 0.0
    if waiting < SMALL or part < ONE_LOCK:
        return ""
    return f"; {percent_short(part)} of this waiting is for {lock_words(heaviest, style)}"


def _heaviest_user(report: Report, answer: Answer) -> tuple[FutexWaits, float] | None:
    """The heaviest of the programs' locks, and its part of their waiting."""
    worst = next(iter(user_locks(report)), None)
    if worst is None or not answer.user_waiting or answer.at_barriers:
        return None
    return worst, (report.window.share(worst.waited_ns) or 0.0) / answer.user_waiting


def _who(report: Report, answer: Answer) -> str:
    """Who waits for programs' locks: what most of the waiting is of."""
    found = _heaviest_user(report, answer)
    return found[0].who if found is not None and found[1] >= 0.5 else "threads"


def _worst_user(report: Report, answer: Answer, style: Style) -> str:
    """The heaviest of the programs' locks, if one is half of their waiting or more."""
    found = _heaviest_user(report, answer)
    if found is None:
        return ""
    worst, part = found
    if part < 0.5:
        return _worst_program(report, answer.user_waiting or 0.0, style)
    whose = f"{user_lock_name(worst)} of {worst.futex.comm or '?'} ({worst.futex.tgid})"
    much = "all of them" if part >= 0.995 else f"{percent_short(part)} of this"
    return f", {much} for {clean(whose, style)}"


def _worst_program(report: Report, waiting: float, style: Style) -> str:
    """The program that has half of the waiting for locks of programs or more, where no one lock has."""
    by_comm: Counter[str] = Counter()
    for one in user_locks(report):
        by_comm[one.futex.comm] += one.waited_ns
    ((comm, most_ns),) = by_comm.most_common(1)
    part = (report.window.share(most_ns) or 0.0) / waiting
    much = "all of them" if part >= 0.995 else f"{percent_short(part)} of this"
    return f", {much} in {clean(comm, style)}" if part >= 0.5 and comm else ""


def percent_short(fraction: float) -> str:
    """A fraction in whole percent, never 100% of what is less."""
    return f"{min(round(fraction * 100), 99 if fraction < 1 else 100)}%"


def sentence(text: str) -> str:
    """A text as a sentence."""
    return text[:1].upper() + text[1:] + "." if text else ""


def _all_waiting(report: Report) -> int:
    """All waiting for locks that was recorded, of the kernel, of programs, and on files and semaphores, in ns."""
    others = report.sleepers.waiting(*OTHER_LOCKS) if report.sleepers is not None else 0.0
    threads = (user_waiting(report) or 0.0) + others
    return report.totals.wait_ns + round(threads * report.window.duration_ns)


def _finding(
    number: int, finding: Finding, report: Report, style: Style, columns: int, evidence: int, steps: int
) -> list[str]:
    words = worded(finding)
    every = _all_waiting(report)
    part = finding.impact.wait_ns / every if every else 0.0
    what = f"{clean(words.title, style)}"
    if 0 < part <= 1:
        waiting = report.window.share(finding.impact.wait_ns) or 0.0
        # How sure it is does not show how much it matters.
        small = f", a small effect: {few_threads(waiting)}" if waiting < SMALL_EFFECT else ""
        what += f" ({percent_short(part)} of all waiting{small})"
    lines = filled(f" {number} {finding.confidence:8}", what, columns, 2)
    for seen in words.evidence[:evidence]:
        lines += filled("           ", clean(REPEATED.sub("", seen), style), columns, 2)
    # What helps against a busy lock, the atlas knows better.
    # Of few waits it is the holder that matters.
    use = isinstance(finding.subject, Lock) and finding.rule in (*OVERUSED, *STARVED) and finding.confidence != "low"
    use = use and not _held_by_others(finding, report)
    known = atlas().find(finding.subject.name) if use and isinstance(finding.subject, Lock) else None
    # Nobody but a kernel's developer can shorten a function of it; who calls it may do so less often.
    if isinstance(finding.subject, Function) and (held := _held_lock(finding)) is not None:
        known = held if held.where_in([finding.subject.name]) else None
    # Where the other side's function is none that the atlas speaks of, it does not know that side.
    if known is not None and finding.rule in STARVED and not known.speaks_of(functions_of(finding.evidence)):
        known = None
    functions = functions_of((finding.claim, *finding.evidence))
    advice = known.helps_in(functions, _instance(finding, report)) if known is not None else ()
    todo = (advice or words.next)[:1]
    lines += [line for step in todo if steps > 0 for line in filled(_DO, clean(step, style), columns, steps)]
    return lines


def _held_lock(finding: Finding) -> KnownLock | None:
    """The lock that a function holds for long, if the atlas knows it."""
    lock = next((value for _, value in finding.claim.values if isinstance(value, Lock)), None)
    return atlas().find(lock.name) if lock is not None and finding.rule == LONG_HOLD else None


def _instance(finding: Finding, report: Report) -> str:
    """Which of the locks of a name a finding is about: the one that is waited for longest."""
    subject = finding.subject
    if not isinstance(subject, Lock):
        return ""
    same = (one for one in report.locks if (one.name, one.kind) == (subject.name, subject.kind))
    return next((one.worst_instance for one in same), "")


def _held_by_others(finding: Finding, report: Report) -> bool:
    """Whether waits are long, and so seldom that those who wait are hardly those who hold the lock too.

    Where they are, most holders have one that waits behind them.  Who holds it can still be recorded, or it is known.
    """
    if finding.rule != LONG_WAITS or any(one.what in ("others-take", "visited-by") for one in finding.evidence):
        return False
    subject = finding.subject
    lock = next((one for one in report.locks if isinstance(subject, Lock) and one.name == subject.name), None)
    if lock is None or not any(one.action == "who-holds-longest" for one in finding.remedies):
        return False
    return (report.window.share(lock.worst_instance_ns) or 0.0) < SELDOM


def _worth_showing(finding: Finding, report: Report) -> bool:
    """Whether a finding matters where waiting is negligible: it is sure, and not about that little waiting."""
    return (report.window.share(finding.impact.wait_ns) or 0.0) >= NEGLIGIBLE_SHARE


def _nothing_found(report: Report, answer: Answer, columns: int, kept: bool) -> list[str]:
    """What to do where locks are waited for, and no rule says why."""
    if answer.kind == "user space":
        return [cut(f"FINDINGS  none: see {_command(report, '--futex')}", columns)] if kept else []
    if answer.kind not in ("one lock", "several"):
        return []
    if (report.window.share(report.totals.wait_ns) or 0.0) < SMALL:
        return [cut(f"FINDINGS  none: all waiting together is under {SMALL:.0%} of one CPU or thread", columns)]
    again = "lockline record --episodes -d 30"
    if report.episodes:
        again = _command(report, f"--episodes {min(3, len(report.episodes))}")
    why = "no single lock stands out"
    if answer.kind == "one lock":
        if (report.window.share(waiting_for(answer.whole[0])) or 0.0) < SMALL:
            return [cut(f"FINDINGS  none: waiting for that lock is under {SMALL:.0%} of one CPU or thread", columns)]
        why = "no rule says why that lock is waited for"
    lines = [cut(f"FINDINGS  none: {why}", columns)]
    return lines + filled(_DO, f"see who holds the locks in the longest waits: {again}", columns, 2)


def _findings(
    report: Report, answer: Answer, style: Style, columns: int, most: int, about: int, steps: int, kept: bool
) -> list[str]:
    # That a lock is busy is no news where another finding says why.
    ranked = [
        found
        for found in report.findings
        if not is_explained(found, report.findings)
        and (answer.kind not in ("negligible", "other locks") or _worth_showing(found, report))
    ]
    if not ranked:
        hidden = len(report.findings)
        if not hidden:
            return _nothing_found(report, answer, columns, kept)
        small = f"FINDINGS  {hidden} that matter little" + (f": {_command(report, '--findings')}" if kept else "")
        return [cut(clean(small, style), columns)]
    title = "FINDINGS"
    rest = f"evidence: {_command(report, '--findings')}" if kept else ""
    # A command is there to be copied, so it is never cut.
    if width(rest) + len(title) + 12 > columns:
        rest = "evidence: --findings"
    if len(ranked) > most:
        rest = f"{len(ranked)} found{', ' if rest else ''}{rest}"
    lines = [title + " " * max(1, columns - len(title) - width(rest)) + rest]
    lines = [cut(clean(lines[0].rstrip(), style), columns)]
    told: list[str] = []
    for number, finding in enumerate(ranked[:most], 1):
        evidence = about if len(ranked) == 1 else min(about, 1)
        # Where room is short, the first finding's advice is the one to read to its end.
        room = steps if number == 1 else max(1, steps - 1)
        shown = _finding(number, finding, report, style, columns, evidence, room)
        # The same advice is given once: of several directories, say.
        begin = next((index for index, line in enumerate(shown) if line.startswith(_DO)), len(shown))
        lines += shown[:begin] if shown[begin:] == told else shown
        told = shown[begin:]
    return lines


def _time(report: Report, slices: Sequence[Slice], style: Style, columns: int, kept: bool) -> list[str]:
    if len(slices) < 2 or not any(part.wait_ns for part in slices):
        return []
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
        return [cut(f"TIME   {line}  {part}" + ("; all: --time" if kept else ""), columns)]
    if most * len(heights) <= _EVEN * sum(heights):
        return [cut(f"TIME   {line}  even", columns)]
    worst = next(group for group, height in zip(groups, heights, strict=True) if height == most)
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
    if report.cost.stalled_ns:
        parts.append(f"the file system did not answer for {duration(report.cost.stalled_ns)}")
    unseen = [
        probe.signal for probe in report.probes if probe.signal in _WAITERS and probe.state in ("blind", "unavailable")
    ]
    if unseen:
        parts.append(f"not seen: {unseen[0]}" if len(unseen) == 1 else f"{len(unseen)} kinds of waiters are not seen")
    lost = [loss for loss in report.loss if loss.severity == "loss" and loss.events and loss.name != "cpus_added"]
    # How many waits that were is not known.
    if added := sum(loss.events for loss in report.loss if loss.name == "cpus_added"):
        parts.append(f"no waits on {'1 CPU' if added == 1 else f'{count(added)} CPUs'} that came later")
    begins = sum(kind.begins or 0 for kind in report.kinds)
    worst = max(lost, key=lambda loss: loss.events, default=None)
    if worst is not None and worst.events >= _LOST * begins:
        kinds = "1 more kind" if len(lost) == 2 else f"{len(lost) - 1} more kinds"
        more = f", and {kinds} of loss" if len(lost) > 1 else ""
        what = _LOSSES.get(worst.name, "{} of " + worst.name.replace("_", " "))
        parts.append(f"lost: {what.format(count(worst.events))}{more}")
    short = max((trusted_ns(report, lock.kind) for lock in report.locks), default=0)
    if short and (marked or not report.locks):
        parts.append(f"{MARK} waits under {duration(short)} may be more than 10% off")
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
            _answer(report, answer, style, columns),
            _findings(report, answer, style, columns, findings, about, steps, kept),
            table_lines,
            [
                *_time(report, slices, style, columns, kept),
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
    zoom = _command(report, f"--from {worst.begin_ns / 1e9 + 0.001:.3f} --to {worst.end_ns / 1e9 - 0.001:.3f}")
    lines = ["Waiting over time (waiters: on average; CPUs: spinning)", *table(heads, rows)]
    if worst.wait_ns:
        lines.append(f"  worst: {zoom}")
    return "\n".join(line.rstrip() for line in lines) + "\n"
