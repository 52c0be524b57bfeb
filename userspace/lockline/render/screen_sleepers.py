# SPDX-License-Identifier: GPL-2.0-or-later
"""The first screen's words on what threads sleep in: what was looked at, what was not, and which command tells."""

import shlex
from collections import Counter
from collections.abc import Sequence

from lockline.analysis.answer import NEGLIGIBLE_USER_SHARE, OTHER_LOCKS
from lockline.analysis.model import Report
from lockline.analysis.sleepers import FUTEX, INPUT, NAP, Asleep, Sleepers
from lockline.base.text import Style, clean
from lockline.render.screen_parts import percent_short

# Longer commands are not copied from a screen.
_MOST_COMMAND = 48
# Less than this of a thread is no news.
_SOME = 0.1
# Ways to sleep that a sentence holds.
_WAYS = 3
# Threads that could run and do not, from which on they are spoken of: a look comes when the recorder has a CPU.
_WANTING = 0.5
# CPUs are short where so many threads, and one more, run or want each.
_CROWDED = 1.5
# A look at more of the threads than this is one at all of them: some end meanwhile.
_NEARLY_ALL = 0.9

_LOCKS = {
    "file-lock": ("a lock on a file (flock, fcntl)", "locks on files"),
    "semaphore": ("a semaphore of System V (semop)", "semaphores"),
}


_TELLS = {"file-lock": "shows what its holder does", "semaphore": "shows who had it last"}


def why_command(report: Report) -> str:
    """The command that looks further at the same tasks."""
    words = (report.window.filter or "").split()
    if words[:1] == ["-p"] and len(words) == 2:
        return f"lockline why -p {words[1]}"
    if words[:1] == ["--"]:
        command = f"lockline why {' '.join(words)}"
        return command if len(command) <= _MOST_COMMAND else "lockline why -- COMMAND"
    return "lockline why"


def threads_words(threads: float) -> str:
    """Threads on average."""
    if threads >= 10:
        return f"{threads:,.0f} threads"
    return "1 thread" if 0.95 <= threads < 1.05 else f"{threads:.1f} threads"


def _wait(many: str) -> str:
    """The verb that goes with threads_words()."""
    return "waits" if many == "1 thread" else "wait"


def _who(of_kind: Sequence[Asleep], style: Style) -> str:
    """Who waits: the process with most threads first."""
    first = of_kind[0]
    if not first.tgid:
        return "many processes"
    name = f"{clean(first.comm, style) or '?'} ({first.tgid})"
    if len(of_kind) == 1:
        return name
    alike = len({one.comm for one in of_kind}) == 1
    more = len(of_kind) - 1
    return (
        f"{name} and {more} more of that name"
        if alike
        else f"{name} and {more} other {'process' if more == 1 else 'processes'}"
    )


def _files(sleepers: Sleepers, waiters: Sequence[Asleep]) -> list[str]:
    """The files that these wait for, the one that most wait for first."""
    of_these = {one.tgid for one in waiters}
    looks = Counter[str]()
    for one in sleepers.file_locks:
        if one.waiter in of_these:
            looks[one.file] += one.looks
    return [file for file, _ in looks.most_common()]


def _left_behind(holder: int, file: str) -> str:
    """Of a lock whose taker has ended: it is held while the file is open, as by `flock 9` in a shell script."""
    command = f"`fuser -v {shlex.quote(file)}`" if file.startswith("/") else "`lslocks`"
    return (
        f"; process {holder} took it and has ended, but another process still has that file open, so it stays locked"
        f" ({command} shows who)"
    )


def _looked(sleepers: Sleepers) -> str:
    """How often, and at which part of the threads if it was not at nearly all of them."""
    often = "looked once" if sleepers.looks == 1 else f"looked {sleepers.looks} times"
    part = sleepers.looked_at / sleepers.threads
    return often if part > _NEARLY_ALL else f"{often}, at {percent_short(part)} of the threads"


def _file(sleepers: Sleepers, file: str, style: Style) -> str:
    """A file, and who has its lock."""
    waits = [one for one in sleepers.file_locks if one.file == file]
    holders = {(one.holder_comm, one.holder) for one in waits if one.holder}
    if len(holders) == 1:
        ((comm, holder),) = holders
        held = f", which {comm} ({holder}) holds" if comm else _left_behind(holder, file)
    elif holders and {holder for _, holder in holders} <= {one.waiter for one in waits}:
        held = ", which they hold in turn"
    else:
        held = ", which several processes hold in turn" if holders else ""
    return clean(f"{file}{held}", style)


def other_locks_words(report: Report, style: Style) -> list[str]:
    """Who waits for locks on files and semaphores, and how to look further; [] if hardly anybody does."""
    sleepers = report.sleepers
    if sleepers is None or sleepers.waiting(*OTHER_LOCKS) < NEGLIGIBLE_USER_SHARE:
        return []
    kind = max(OTHER_LOCKS, key=sleepers.waiting)
    of_kind = sorted((one for one in sleepers.asleep if one.kind == kind), key=lambda one: (not one.tgid, -one.threads))
    files = _files(sleepers, of_kind) if kind == "file-lock" else []
    looks = _looked(sleepers)
    many = threads_words(sleepers.waiting(kind))
    waits = _wait(many)
    if len(files) > 1:
        # Who waits for one of them says nothing about another one.
        first = {one.waiter for one in sleepers.file_locks if one.file == files[0]}
        of_kind = [one for one in of_kind if one.tgid in first]
        words = (
            f"On average {many} ({looks}) {waits} for locks on {len(files)} files (flock, fcntl), most often for"
            f" {_file(sleepers, files[0], style)}: {_who(of_kind, style)}."
        )
    else:
        file = f": {_file(sleepers, files[0], style)}" if files else ""
        words = f"On average {many} ({looks}) of {_who(of_kind, style)} {waits} for {_LOCKS[kind][0]}{file}."
    others = sleepers.waiting(*OTHER_LOCKS) - sleepers.waiting(kind)
    if others >= _SOME:
        other = _LOCKS[next(one for one in OTHER_LOCKS if one != kind)][1]
        more = threads_words(others)
        words += f" On average {more} more {_wait(more)} for {other}."
    chosen = why_command(report)
    command = f"{chosen} -p {of_kind[0].tgid}" if chosen == "lockline why" and of_kind[0].tgid else chosen
    return [words, f"`{command}` {_TELLS[kind]}."]


def _chosen_words(sleepers: Sleepers, cpus: float, style: Style) -> str:
    """What the processes that were asked for did, where they did not wait for locks of the kernel."""
    comm, tgid = sleepers.processes[0]
    who = f"{clean(comm, style) or '?'} ({tgid})"
    if len(sleepers.processes) > 1:
        who = f"All {len(sleepers.processes)} recorded processes together"
    ways: dict[tuple[str, str], tuple[Asleep, float]] = {}
    for one in sleepers.asleep:
        key = one.kind, (one.what or one.function) if one.kind == "other" else ""
        ways[key] = one, ways.get(key, (one, 0.0))[1] + one.threads
    parts = [
        _way(one, threads)
        for one, threads in sorted(ways.values(), key=lambda way: -way[1])[:_WAYS]
        if threads >= _SOME
    ]
    if sleepers.on_cpu - cpus >= _WANTING:
        parts.append(f"{sleepers.on_cpu - cpus:.1f} wait for a CPU")
    of = f" Of {threads_words(sleepers.threads)}: {', '.join(parts)}." if parts else ""
    return f" {who} used {cpus:.2f} CPUs.{of}"


def _way(one: Asleep, threads: float) -> str:
    number = f"{threads:.1f}"
    if one.kind == FUTEX:
        return f"{number} sleep in futexes (for a lock of the program, or for work)"
    if one.kind == INPUT:
        return f"{number} wait for input"
    if one.kind == NAP:
        return f"{number} sleep on a timer"
    if one.kind in _LOCKS:
        return f"{number} wait for {_LOCKS[one.kind][1]}"
    if one.what in ("", one.function):
        return f"{number} sleep in {one.function}()"
    return f"{number} wait ({one.what})"


def futex_words(report: Report, style: Style) -> str:
    """A busy process whose threads may wait for its own locks, where these were not recorded; '' if there is none."""
    sleepers = report.sleepers
    if sleepers is None or report.futexes is not None or sleepers.cpus is not None or not sleepers.in_futexes:
        return ""
    most = sleepers.in_futexes[0]
    who = f"{clean(most.comm, style) or '?'} ({most.tgid})"
    sleep = f"{threads_words(most.threads)} {'sleeps in a futex' if most.threads < 1.05 else 'sleep in futexes'}"
    return (
        f" In {who}, {sleep} while {most.on_cpu:.1f} run or wait for a CPU: they may wait for a lock of the program, or"
        f" have no work. `lockline why -p {most.tgid}` shows which."
    )


def cpu_words(report: Report) -> str:
    """Whether CPUs are what is short, where all tasks were looked at; '' if not."""
    sleepers, cpus = report.sleepers, report.window.cpus
    if sleepers is None or sleepers.cpus is not None or not cpus or sleepers.on_cpu < _CROWDED * cpus + 1:
        return ""
    return f" CPUs are short: on average {sleepers.on_cpu:.1f} threads run or wait for one of {cpus}."


def looked_words(report: Report, style: Style) -> str:
    """Where waiting for the kernel's locks is negligible: what else was looked at, and what was not."""
    sleepers = report.sleepers
    unseen = [] if report.futexes is not None else ["locks of programs"]
    if sleepers is None:
        unseen += ["locks on files", "semaphores"]
        told = ""
    else:
        told = (
            ""
            if sleepers.waiting(*OTHER_LOCKS) >= NEGLIGIBLE_USER_SHARE
            else (f" No thread was seen to wait for a lock on a file or a semaphore ({_looked(sleepers)}).")
        )
        if sleepers.cpus is not None:
            told = _chosen_words(sleepers, sleepers.cpus, style) + told
        told = cpu_words(report) + told
    hint = futex_words(report, style) if unseen == ["locks of programs"] else ""
    # A thread that spins in its program runs, as one that works does.
    spins = report.futexes is not None and any(one.kind == "spin" for one in report.futexes.hidden)
    if not spins and (sleepers is None or (sleepers.on_cpu if sleepers.cpus is None else sleepers.cpus) >= _WANTING):
        unseen.append("spinning in programs")
    if hint:
        told += f" Not looked at: {', '.join(unseen)}.{hint}"
    elif unseen:
        told += f" Not looked at: {', '.join(unseen)}; `{why_command(report)}` does."
    return told
