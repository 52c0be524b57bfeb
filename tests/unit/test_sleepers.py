# SPDX-License-Identifier: GPL-2.0-or-later
"""What threads slept in: read from a recording, and on the first screen."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from lockline.analysis.answer import make_answer
from lockline.analysis.model import Report
from lockline.analysis.series import Slice
from lockline.analysis.sleep_functions import is_input
from lockline.analysis.sleepers import Sleepers
from lockline.base.text import Style, width
from lockline.render import screen, signals
from lockline.render.screen_sleepers import why_command
from rule_cases import MS, SPINLOCK, Made

CHOSEN = {"chosen_cpu_ns": 20 * MS, "chosen_cpu_span_ns": 1000 * MS, "filter": "-p 70"}
IDLE = ((70, "server", "futex_do_wait", 80), (70, "server", "ep_poll", 10), (70, "server", "", 10))
IN_A_ROW = ((70, "job", "locks_lock_inode_wait", 30), (71, "job", "locks_lock_inode_wait", 10))


def report_of(
    made: Callable[..., Made],
    sleepers: Sequence[tuple[int, str, str, int]],
    files: Sequence[tuple[Any, ...]] = (),
    waits: int = 1,
    futex: str = "off",
    **meta: object,
) -> Report:
    """A report of ten looks at so many threads; waits of 1 ms for a lock of the kernel."""
    looked_at = sum(seen for *_, seen in sleepers)
    facts = {"sleep_looks": 10, "sleep_threads": looked_at, "sleep_threads_looked_at": looked_at} if sleepers else {}
    recording = made(**{**facts, **meta})
    recording.add("probe", "futex waits", futex, "", "", "")
    recording.lock(1, "tasklist_lock")
    recording.waits(1, SPINLOCK, MS, waits)
    for tgid, comm, function, seen in sleepers:
        recording.add("sleeper", tgid, comm, function, seen)
    for row in files:
        recording.add("file_lock_wait", *row)
    return recording.report()


def text_of(report: Report) -> str:
    """The first screen on one line; it never is longer or wider than a terminal."""
    lines = screen.render(report, (), Style(), 80).splitlines()
    assert len(lines) <= 24
    assert max(map(width, lines)) <= 80
    return " ".join(" ".join(lines).split())


def test_those_that_were_looked_at_stand_for_all(made: Callable[..., Made]) -> None:
    report = report_of(made, IDLE, sleep_threads=400)
    sleepers = report.sleepers
    assert sleepers is not None
    assert (sleepers.looks, sleepers.threads, sleepers.looked_at, sleepers.cpus) == (10, 40.0, 10.0, None)
    assert [(one.kind, one.threads) for one in sleepers.asleep] == [("futex", 32.0), ("input", 4.0)]
    assert sleepers.on_cpu == 4.0
    assert sleepers.processes == (("server", 70),)


def test_nobody_looked(made: Callable[..., Made]) -> None:
    report = report_of(made, ())
    assert report.sleepers is None
    told = "Not looked at: locks of programs, locks on files, semaphores, spinning in programs; `lockline why` does."
    assert told in text_of(report)


@pytest.mark.parametrize(("seen", "kind"), [(2, "other locks"), (0, "negligible")])
def test_little_waiting_in_the_kernel_is_not_the_answer_where_a_file_is_waited_for(
    made: Callable[..., Made], seen: int, kind: str
) -> None:
    rows = [(70, "job", "locks_lock_inode_wait", seen), (70, "job", "do_wait", 20)]
    report = report_of(made, [row for row in rows if row[-1]])
    assert make_answer(report).kind == kind
    assert ("No thread was seen to wait for a lock on a file or a semaphore" in text_of(report)) == (not seen)


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ((("/run/job.lock", 70, "job", 99, "cron", 5),), ": /run/job.lock, which cron (99) holds."),
        (
            (("/run/job.lock", 70, "job", 71, "job", 3), ("/run/job.lock", 71, "job", 70, "job", 2)),
            ": /run/job.lock, which they hold in turn.",
        ),
        (
            (("/run/job.lock", 70, "job", 98, "a", 3), ("/run/job.lock", 70, "job", 99, "b", 2)),
            ": /run/job.lock, which several processes hold in turn.",
        ),
        ((("/run/job.lock", 70, "job", 0, "", 3),), ": /run/job.lock."),
        (
            (("/run/job.lock", 70, "job", 99, "", 3),),
            (
                ": /run/job.lock; process 99 took it and has ended, but another process still has that file open, so it"
                " stays locked (`fuser -v /run/job.lock` shows who)."
            ),
        ),
        ((), "a lock on a file (flock, fcntl)."),
    ],
)
def test_which_file_and_who_has_it(made: Callable[..., Made], files: Sequence[tuple[Any, ...]], told: str) -> None:
    text = text_of(report_of(made, IN_A_ROW, files))
    assert (
        "ANSWER On average 4.0 threads (looked 10 times) of job (70) and 1 more of that name wait for a lock on" in text
    )
    assert told in text
    assert "`lockline why -p 70` shows what its holder does." in text
    assert "The kernel's own locks: spinning burns 0.10% of one CPU" in text


def test_of_two_files_each_has_its_own_waiters(made: Callable[..., Made]) -> None:
    """What waits for one file is not said to wait for the other, and is not who to look at."""
    jobs = [(tgid, "job", "locks_lock_inode_wait", 10) for tgid in (70, 71, 72)]
    queue = [(60, "flock", "locks_lock_inode_wait", 20), *jobs]
    files = [("/run/queue", 60, "flock", 98, "cron", 2), *(("/run/job", tgid, "job", 99, "db", 3) for tgid in (70, 71))]
    text = text_of(report_of(made, queue, files))
    assert (
        "On average 5.0 threads (looked 10 times) wait for locks on 2 files (flock, fcntl), most often for /run/job,"
        " which db (99) holds: job (70) and 1 more of that name." in text
    )
    assert "`lockline why -p 70` shows what its holder does." in text


def test_a_semaphore_has_another_question(made: Callable[..., Made]) -> None:
    report = report_of(made, ((70, "job", "__do_semtimedop", 10),))
    assert make_answer(report).kind == "other locks"
    text = text_of(report)
    assert "On average 1 thread (looked 10 times) of job (70) waits for a semaphore of System V (semop)." in text
    assert "shows who had it last" in text


ALONE = (("/run/job.lock", 70, "job", 99, "cron", 5),)
IN_TURN = (("/run/job.lock", 70, "job", 71, "job", 3), ("/run/job.lock", 71, "job", 70, "job", 2))


@pytest.mark.parametrize(
    ("seen", "files", "waits", "kind"),
    [
        # A job that starts when the other one has ended, beside threads that contend: 0.9 of one, and 2 ms of 1 s.
        ({70: 10}, ALONE, 900, "one lock"),
        ({70: 10}, (), 900, "one lock"),
        ({70: 10}, ALONE, 2, "other locks"),
        # Two that take turns, and one that waits again and again.
        ({70: 5, 71: 5}, IN_TURN, 900, "other locks"),
        ({70: 9}, ALONE, 700, "other locks"),
        # Jobs of two files, each with its own queue, and a queue of two.
        ({70: 10, 80: 10}, (*ALONE, ("/run/other.lock", 80, "job", 98, "cron", 5)), 900, "one lock"),
        ({70: 10, 80: 10}, (*ALONE, ("/run/job.lock", 80, "job", 99, "cron", 5)), 900, "other locks"),
        ({70: 10, 80: 10}, (), 900, "other locks"),
    ],
)
def test_a_queue_of_one_job_is_no_contention(
    made: Callable[..., Made], seen: Mapping[int, int], files: Sequence[tuple[Any, ...]], waits: int, kind: str
) -> None:
    rows = [(tgid, "job", "locks_lock_inode_wait", looks) for tgid, looks in seen.items()]
    report = report_of(made, rows, files, waits=waits)
    assert make_answer(report).kind == kind
    assert "a lock on a file (flock, fcntl)" in text_of(report) or "locks on 2 files" in text_of(report)


def test_much_waiting_in_the_kernel_stays_the_answer(made: Callable[..., Made]) -> None:
    """A second has 900 ms of waits for a lock of the kernel, and half a thread that waits for a file."""
    report = report_of(made, ((70, "job", "locks_lock_inode_wait", 5),), waits=900)
    assert make_answer(report).kind == "one lock"
    text = text_of(report)
    assert "One lock makes 100% of all lock waiting: tasklist_lock" in text
    assert "Besides, on average 0.5 threads (looked 10 times) of job (70) wait for a lock on a file" in text


def test_futexes_of_which_nobody_waited_in_one_were_looked_at(made: Callable[..., Made]) -> None:
    """An event loop that is at rest, recorded with --futex."""
    report = report_of(made, IDLE, futex="on", **CHOSEN)
    assert "Not looked at" not in text_of(report)
    assert signals.futexes(report.futexes, Style()) == ["User space: no thread waited in a futex"]


def test_a_chosen_process_that_hardly_ran_and_hardly_waited(made: Callable[..., Made]) -> None:
    text = text_of(report_of(made, IDLE, **CHOSEN))
    assert "server (70) used 0.02 CPUs." in text
    assert "Of 10 threads: 8.0 sleep in futexes (for a lock of the program, or for work), 1.0 wait for input" in text
    assert "Not looked at: locks of programs; `lockline why -p 70` does." in text


def test_threads_that_want_a_cpu(made: Callable[..., Made]) -> None:
    rows = ((70, "make", "do_wait", 10), (71, "cc1", "", 40))
    text = text_of(report_of(made, rows, chosen_cpu_ns=1500 * MS, chosen_cpu_span_ns=1000 * MS, filter="-p 70"))
    assert "All 2 recorded processes together used 1.50 CPUs." in text
    assert "2.5 wait for a CPU" in text


@pytest.mark.parametrize("waits", [1, 20])
@pytest.mark.parametrize(("running", "told"), [(4, True), (2, False)])
def test_a_busy_program_may_wait_for_its_own_locks(
    made: Callable[..., Made], running: int, told: bool, waits: int
) -> None:
    """A pool at rest sleeps in futexes too, and nothing of it runs."""
    rows = ((70, "server", "futex_do_wait", 60), (70, "server", "", running), (71, "pool", "futex_do_wait", 90))
    text = text_of(report_of(made, rows, waits=waits))
    assert ("In server (70), 6.0 threads sleep in futexes while 0.4 run or wait for a CPU" in text) == told
    assert ("`lockline why -p 70` shows which." in text) == told
    assert ("Lock waiting is little (0.02 threads on average)." in text) == (waits == 20)
    assert "pool" not in text


@pytest.mark.parametrize(("running", "told"), [(70, True), (60, False)])
def test_cpus_are_short(made: Callable[..., Made], running: int, told: bool) -> None:
    """Of four CPUs, with as many threads and half as many again, and one."""
    text = text_of(report_of(made, ((70, "cc1", "", running), (71, "sh", "do_wait", 9))))
    assert ("CPUs are short: on average 7.0 threads run or wait for one of 4." in text) == told


@pytest.mark.parametrize(
    ("words", "command"),
    [
        ("-a", "lockline why"),
        ("", "lockline why"),
        ("-p 7,8", "lockline why -p 7,8"),
        ("-p 7 --kinds mutex", "lockline why"),
        ("-- make -j8", "lockline why -- make -j8"),
        (f"-- {'x' * 90}", "lockline why -- COMMAND"),
    ],
)
def test_the_command_that_looks_further(made: Callable[..., Made], words: str, command: str) -> None:
    assert why_command(report_of(made, IDLE, filter=words)) == command


def test_names_of_others_do_no_harm(made: Callable[..., Made]) -> None:
    files = (("/tmp/\x1b[31mred", 70, "job\x1b", 99, "\x1bcron", 5),)
    assert "\x1b" not in text_of(report_of(made, ((70, "job\x1b[2J", "fcntl_setlk", 9),), files))


def test_a_part_of_a_recording_has_no_looks(made: Callable[..., Made]) -> None:
    report = report_of(made, IN_A_ROW)
    assert isinstance(report.sleepers, Sleepers)
    assert make_answer(replace(report, sleepers=None)).kind == "negligible"


def test_where_a_thread_waits_for_input() -> None:
    assert is_input("ep_poll")
    assert is_input("inet_csk_accept")
    assert not is_input("futex_do_wait")


def test_those_of_processes_without_a_row_count_by_what_they_sleep_in(made: Callable[..., Made]) -> None:
    """The recorder has rows for so many processes; process 0 stands for the rest."""
    rows = [(0, "", "locks_lock_inode_wait", 300), (0, "", "", 20), (70, "job", "locks_lock_inode_wait", 10)]
    report = report_of(made, rows)
    assert report.sleepers is not None
    assert report.sleepers.on_cpu == 2.0
    assert report.sleepers.processes == (("job", 70),)
    text = text_of(report)
    assert "On average 31 threads (looked 10 times) of job (70) and 1 other process wait for a lock on a file" in text
    assert "`lockline why -p 70`" in text
    text = text_of(report_of(made, rows[:2]))
    assert "On average 30 threads (looked 10 times) of many processes wait for a lock on a file" in text
    assert "-p 0" not in text


@pytest.mark.parametrize(("there", "told"), [(95, "looked 10 times"), (1200, "looked 10 times, at 8% of the threads")])
def test_a_look_at_a_few_of_the_threads_says_so(made: Callable[..., Made], there: int, told: str) -> None:
    rows = [(70, "job", "do_wait", 90)]
    assert f"for a lock on a file or a semaphore ({told})." in text_of(report_of(made, rows, sleep_threads=there))


def test_a_look_at_a_few_of_the_threads_names_all_who_wait_for_a_file(made: Callable[..., Made]) -> None:
    """As /proc/locks does: a look may miss them, and one that was met does not stand for others."""
    files = [("/run/a", waiter, "job", holder, "job", 2) for waiter in (71, 72, 73) for holder in (7, 8)]
    rows = [(70, "server", "ep_poll", 89), (71, "job", "locks_lock_inode_wait", 1)]
    report = report_of(made, rows, files, sleep_threads=2700, file_lock_reads=5)
    assert report.sleepers is not None
    assert [(one.tgid, one.threads) for one in report.sleepers.asleep if one.kind == "file-lock"] == [
        (71, 0.8),
        (72, 0.8),
        (73, 0.8),
    ]
    assert "/run/a" in text_of(report)
    # Who waits for a lock of an open file has no name there.
    unnamed = report_of(made, rows, (), sleep_threads=2700, file_lock_reads=10)
    assert unnamed.sleepers is not None
    assert [(one.tgid, one.threads) for one in unnamed.sleepers.asleep if one.kind == "file-lock"] == [(71, 3.0)]


@pytest.mark.parametrize(
    ("waits", "files", "told"),
    [(1, (), None), (1, ALONE, None), (40, ALONE, "the kernel's locks, even"), (200, (), "even")],
)
def test_time_is_told_of_what_is_known_by_interval(
    made: Callable[..., Made], waits: int, files: Sequence[tuple[Any, ...]], told: str | None
) -> None:
    """Where the answer is about other locks, the line says whose waits it shows, and nothing where these are none."""
    asleep = 40 if files else 0
    rows = [(70, "job", "locks_lock_inode_wait", asleep), (70, "job", "do_wait", 20)]
    report = report_of(made, [row for row in rows if row[-1]], files, waits)
    slices = [Slice(n * 100 * MS, (n + 1) * 100 * MS, 1, MS, 0, "", "", 0) for n in range(10)]
    lines = screen.render(report, slices, Style(), 80).splitlines()
    times = [line for line in lines if line.startswith("TIME")]
    assert [line.split("  ", 2)[-1] for line in times] == ([told] if told else [])
