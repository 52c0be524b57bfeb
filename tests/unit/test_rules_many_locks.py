# SPDX-License-Identifier: GPL-2.0-or-later
"""Waiting that many locks share, and locks that are waited for in two ways: patterns, and near misses."""

from collections.abc import Callable

import pytest

from lockline.analysis.answer import make_answer
from lockline.base.text import Style
from lockline.render import screen
from rule_cases import MS, MUTEX, RWSEM_R, RWSEM_W, US, Made, one, rules_of
from told import told

LOCKS = 6
OPEN = ("mutex_lock", "{}", "do_sys_openat2", "__x64_sys_openat", "do_syscall_64")


def fill(recording: Made, processes: int, functions: tuple[str, ...] = OPEN, length_ns: int = 2 * MS) -> None:
    """Six locks share the waiting evenly, 60 waits each; the tasks that wait are of so many processes."""
    recording.builder.insert("cgroup", [(number, f"/pod-{number}") for number in range(2, 2 + LOCKS)])
    for number in range(1, LOCKS + 1):
        process = (number - 1) % processes
        recording.lock(number, f"type_{number}.lock_{number}")
        recording.waits(number, MUTEX, length_ns, 60)
        recording.builder.waiter(10 + number, f"task-{process}", tgid=100 + process, cgroup=2 + process)
        recording.builder.stack(number, *(name.format(f"take_{number}") for name in functions))
        recording.add("sample_total", 10 + number, number, MUTEX, number, 0, 1, 60, 60 * length_ns)


def test_one_process_waits_for_many_locks(made: Callable[..., Made]) -> None:
    recording = made()
    fill(recording, processes=1)
    findings = recording.findings()
    assert rules_of(findings) == ["many-locks"]
    found = one(findings, "many-locks")
    assert found.title == "6 locks share the waiting, and none of them has a quarter of it"
    assert found.confidence == "medium"
    assert found.evidence[0] == "task-0 (100) does 100.0% of the waiting that was sampled"
    # The innermost that all have in common; what each system call comes through is no news.
    assert found.evidence[1] == "100.0% of the sampled waiting is below do_sys_openat2(), for several locks"
    assert found.evidence[2].startswith("the heaviest are type_")
    assert found.next[0].startswith("`lockline why -p 100`")
    assert "lockline record -S do_sys_openat2 --user-stacks" in found.next[1]


def test_nothing_in_common(made: Callable[..., Made]) -> None:
    recording = made()
    fill(recording, processes=LOCKS, functions=("mutex_lock", "{}", "do_syscall_64"))
    found = one(recording.findings(), "many-locks")
    assert found.confidence == "low"
    assert found.evidence[0] == "the waits have neither process, control group nor kernel function in common"
    assert "who holds" in found.next[0]


def test_locks_of_one_type(made: Callable[..., Made]) -> None:
    recording = made()
    for number, name in enumerate(("inode.a", "inode.b", "inode.c", "inode.d", "inode.e", "file.f"), 1):
        recording.lock(number, name)
        recording.waits(number, MUTEX, 2 * MS, 60)
    found = one(recording.findings(), "many-locks")
    assert found.evidence[0] == "83.3% of all lock waiting is for locks of inode"


@pytest.mark.parametrize("why", ["little", "one is heavy", "two names"])
def test_near_misses(made: Callable[..., Made], why: str) -> None:
    recording = made()
    if why == "two names":
        for number in (1, 2):
            recording.lock(number, f"lock_{number}")
            recording.waits(number, MUTEX, 2 * MS, 60)
    else:
        fill(recording, processes=1, length_ns=200 * US if why == "little" else 2 * MS)
    if why == "one is heavy":
        recording.waits(1, MUTEX, 2 * MS, 160, cpu=1)
    assert "many-locks" not in rules_of(recording.findings())


def test_the_first_screen_of_many_locks(made: Callable[..., Made]) -> None:
    recording = made()
    fill(recording, processes=1)
    report = recording.report()
    text = screen.render(report, report.slices, Style(), 80)
    assert text.count("\n") <= 24
    joined = " ".join(text.split())
    assert "1 medium 6 locks share the waiting" in joined
    assert "do `lockline why -p 100`" in joined


def sides(recording: Made, readers: int, writers: int) -> None:
    """A directory's lock; waits of 2 ms."""
    recording.lock(1, "inode.i_rwsem")
    for cpu in range(4):
        recording.waits(1, RWSEM_R, 2 * MS, readers, cpu)
        recording.waits(1, RWSEM_W, 2 * MS, writers, cpu)


def test_readers_and_writers_of_a_lock_are_one_finding(made: Callable[..., Made]) -> None:
    recording = made()
    sides(recording, readers=40, writers=60)
    report = recording.report()
    assert [found.rule for found in report.findings] == ["hot-lock"]
    found = told(report.findings[0])
    assert "inode.i_rwsem (rwsem:W)" in found.title
    assert found.evidence[1] == "its readers wait too: 40.0% of all lock waiting"
    assert report.findings[0].impact.part == 1
    answer = make_answer(report)
    assert (answer.kind, answer.part) == ("one lock", 1)
    text = " ".join(screen.render(report, report.slices, Style(), 80).split())
    assert "One lock makes 100% of all lock waiting: inode.i_rwsem (rwsem)." in text


def test_a_side_that_hardly_waits_is_not_named(made: Callable[..., Made]) -> None:
    recording = made()
    sides(recording, readers=2, writers=98)
    report = recording.report()
    text = " ".join(screen.render(report, report.slices, Style(), 80).split())
    assert "One lock makes 100% of all lock waiting: inode.i_rwsem (rwsem:W)." in text
