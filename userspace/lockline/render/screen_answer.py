# SPDX-License-Identifier: GPL-2.0-or-later
"""The answer of a first screen: which lock, who waits, what it costs; in words, and in few lines."""

from collections import Counter
from collections.abc import Sequence

from lockline.analysis.answer import (
    NEGLIGIBLE_SHARE,
    NEGLIGIBLE_USER_SHARE,
    NEGLIGIBLE_WAIT_NS,
    ONE_LOCK,
    STANDSTILLS,
    Answer,
    Cost,
    cost_of,
    family,
    is_spinning,
    waiting_for,
    whole_locks,
)
from lockline.analysis.model import LockWaits, Report
from lockline.analysis.user_space.critical_sections import waited_in
from lockline.analysis.user_space.futex_waits import BARRIER, UNCLEAR, FutexWaits
from lockline.analysis.user_space.hidden_waits import SCHEDULERS, HiddenWaits
from lockline.analysis.user_space.user_evidence import HALF
from lockline.atlas import atlas
from lockline.base.numbers import average, counted, duration, percent
from lockline.base.text import Style, clean
from lockline.render.findings import worded
from lockline.render.screen_fit import filled
from lockline.render.screen_locks import user_lock_name, user_locks
from lockline.render.screen_parts import SMALL, SMALL_EFFECT, all_waiting, few_threads, percent_short, sentence
from lockline.render.screen_sleepers import cpu_words, futex_words, looked_words, other_locks_words

# Threads that wait on average from which on they are spoken of, though nobody knows what for.
_UNCLEAR_THREADS = 1.0
_ANSWER_LINES = 5
# Where nothing else is to be shown.
_LONE_ANSWER_LINES = 8
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
        "{threads} of {program} wait for others in threading{place}: for a Semaphore or a full Queue, or for work."
        " `{command}` shows it."
    ),
    "pypy condition": (
        "{threads} of {program} wait for others in threading: for a Semaphore or a full Queue, or for work. A program"
        " that calls `{command}` prints it at that signal."
    ),
    "spin": (
        "{threads} of {program} spin on average{place}: they give their CPU away (sched_yield) and look again."
        " `{command}` samples what for."
    ),
}


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
    return f"{average(threads, 1) if threads >= 1 else f'{max(threads, 0.01):.2f}'} {who}"


def cost_words(cost: Cost, machine: int | None) -> str:
    """What waiting costs: spinning burns CPUs, sleeping holds threads up; machine: all CPUs, None: not known."""
    parts = []
    if cost.spinning_cpus:
        part = f" ({percent(cost.machine)} of {counted(machine, 'CPU')})" if machine else ""
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
    looked = looked_words(report, style) if answer.kind == "negligible" else ""
    unseen = _unseen_words(report, style)
    words = _answer_words(report, answer, style, guards)
    # Of what waits unseen the reader needs to know more than of what was looked at.
    words += _unclear_words(report, answer, style) + _barrier_words(report, answer) + ("" if unseen else looked)
    parts = [f"Only of the waits that {clean(chosen, style)} chose: {words}" if chosen else words]
    if answer.kind != "other locks":
        for number, part in enumerate(other_locks_words(report, style)):
            parts.append(f" {part}" if number else f" Besides, {part[:1].lower()}{part[1:]}")
    return [*parts, unseen, *([looked] if unseen else [])]


def answer_lines(report: Report, answer: Answer, style: Style, columns: int) -> list[str]:
    """The answer's lines; whole sentences are left out where there is no room."""
    guards = _guards(answer)
    parts = _answer_parts(report, answer, style, guards)
    alone = answer.kind in ("negligible", "other locks") or (report.window.share(all_waiting(report)) or 0.0) < SMALL
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


def _unclear_in(report: Report, style: Style) -> str:
    """Where most of the waiting is of which nobody knows what it is for."""
    futexes = report.futexes.futexes if report.futexes is not None else ()
    unclear = [one for one in futexes if one.nature == UNCLEAR]
    most = max(unclear, key=lambda one: one.waited_ns, default=None)
    where = waited_in(most) if most is not None else ""
    if most is None or not where or most.waited_ns < HALF * sum(one.waited_ns for one in unclear):
        return ""
    return f", mostly in {clean(where, style)}() of {clean(most.futex.comm, style)}"


def _unclear_words(report: Report, answer: Answer, style: Style) -> str:
    """What waits besides, if one thread does all the time: the answer may be there."""
    if answer.unclear_waiting < max(_UNCLEAR_THREADS, answer.user_waiting or 0.0):
        return ""
    waiting = f"{_threads(answer.unclear_waiting)} of programs wait on average{_unclear_in(report, style)}"
    return f" Besides, {waiting}; whether for a lock or for work is not known (--futex)."


def _barrier_words(report: Report, answer: Answer) -> str:
    """Of barriers where no single thread is late: more than the answer has, and one thread waits all the time."""
    futexes = report.futexes.futexes if report.futexes is not None else ()
    waiting = report.window.share(sum(one.waited_ns for one in futexes if one.nature == BARRIER)) or 0.0
    if answer.at_barriers or waiting < max(_UNCLEAR_THREADS, answer.user_waiting or 0.0):
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
    mostly = ", mostly" if first.kind == "python condition" else ""
    place = f"{mostly} in {clean(first.function, style)}()" if first.function else ""
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
        rest = _few_user(report, answer)
        if not totals.waits:
            none = f"no wait in {duration(report.window.duration_ns)}."
            return f"Waiting for the kernel's locks is negligible: {none}{rest}"
        window = duration(report.window.duration_ns)
        many = f"{totals.waits:,} waits, {duration(totals.wait_ns)} in {window}, none over {duration(totals.max_ns)}"
        these = f"1 wait of {duration(totals.wait_ns)} in {window}" if totals.waits == 1 else many
        return (
            f"Waiting for the kernel's locks is negligible: {these} (negligible: under"
            f" {NEGLIGIBLE_SHARE:.0%} of one thread's time, no wait of {duration(NEGLIGIBLE_WAIT_NS)}).{rest}"
        )
    if answer.kind == "other locks":
        kernel = f"The kernel's own locks: {cost or 'no waiting'}{_mostly_for(report, style)}."
        told = (*other_locks_words(report, style), _programs_words(report, answer, style), kernel)
        return " ".join(part for part in told if part)
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
    besides = _programs_words(report, answer, style)
    parts = (what, sentence(cost), worth, _longest(report, answer, style), besides, hint)
    return " ".join(part for part in parts if part)


def _programs_words(report: Report, answer: Answer, style: Style) -> str:
    """What programs' own locks cost, where another kind of lock is the answer; '' if that is negligible."""
    user = answer.user_waiting or 0.0
    if user < NEGLIGIBLE_USER_SHARE:
        return ""
    kept = f"{_threads(user, _who(report, answer))} waiting on average{_worst_user(report, answer, style)}"
    return f"Programs' own locks keep {kept}."


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
